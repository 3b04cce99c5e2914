//! The testing plan of RFC 0016, section 9, as one matrix: every bullet has tests named `r16_<bullet>...`, and `docs/by-value.md` maps the
//! bullets to them. Other test files go deeper into single subjects; these stand alone.
//!
//! Two providers execute: our cpu provider, and the test plugin in C of this crate through the plugin host. Host scalars lie at the end of
//! a page, before one that faults.

mod constant_operations;
mod floors;
mod graphs;
mod harness;
mod mixed;
mod packs;
mod reader_guard;
mod restored;
mod states;
mod support;
mod table;
mod validation;
