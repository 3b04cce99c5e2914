//! Packs: many entries in one immutable file, found by name in two reads however many there are.
//!
//! A bundle is a pack too. The layout is described in `docs/format.md`. What is read of a pack is read by `pread`, and a
//! mapping is touched only when the system has just brought its pages: a file that is cut short under a reader is an error, never a signal.

mod check;
mod error;
mod format;
mod mapping;
mod provenance;
mod reader;
mod rows;
mod signature;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
mod used;
mod writer;

pub use check::{PackFacts, check_pack, find_in_pack};
pub use error::{EntryId, PackError};
pub(crate) use format::{ALIGN, ROW};
pub(crate) use reader::{Pack, PackRow};
pub(crate) use signature::SignatureBlock;
pub(crate) use used::Used;
pub(crate) use writer::{NewEntry, Sink, Written, packed_length, write};

#[cfg(test)]
mod tests;
