//! Bundles: packs that travel. One file, served in place as a layer ([`Store::with_layer`](crate::Store::with_layer)).
//!
//! * [`Store::export`](crate::Store::export) writes one of what a store holds, [`Store::import`](crate::Store::import) takes one in,
//!   [`merge_bundles`] makes one of several.
//! * [`sign_bundle`] says whose it is, [`LayerOptions`] whether that matters.
//! * [`wrap_bundle`] makes it smaller for the way; [`unwrap_bundle`] undoes that.
//!
//! `docs/bundles.md` is written for those who use them, `docs/format.md` has the bytes.

mod export;
mod facts;
mod import;
mod keys;
mod merge;
mod output;
mod policy;
mod sign;
mod wrap;

pub use export::{ExportReport, ExportedPlan};
pub use facts::{BundleFacts, bundle_facts, bundle_facts_with};
pub use import::ImportReport;
pub use keys::{KeyError, PublicKey, SecretKey, read_trusted_keys};
pub use merge::{MergeReport, merge_bundles, merge_bundles_with};
pub use policy::{LayerOptions, LayerOptionsError, NamedLayer, SignaturePolicy};
pub(crate) use policy::{Trust, is_refusal};
pub use sign::{SignatureStanding, sign_bundle};
pub(crate) use wrap::not_served;
pub use wrap::{is_wrapped, unwrap_bundle, wrap_bundle};
