//! The plan artifact: one immutable file that holds everything needed to execute a graph on one target.
//!
//! Reading goes through [`PlanView`], a view over bytes that is checked once; writing through [`PlanWriter`].
//! The layout is in `docs/format.md`.

mod error;
mod layout;
mod meta;
mod payload;
mod view;
mod writer;

pub use error::{PayloadError, PlanError};
pub use meta::{ArchivedBindingV1, ArchivedPlanMetaV1, BindingKind, BindingRole, BindingV1, CodeObjectV1, KnobV1, PlanMetaV1};
pub use payload::{BakedScalar, PayloadHead, PayloadView, PayloadWriter};
pub use view::PlanView;
pub use writer::PlanWriter;

/// Format major that this crate reads and writes.
pub const FORMAT_MAJOR: u16 = 1;
/// Format minor that this crate writes.
pub const FORMAT_MINOR: u16 = 0;
/// Required-feature bits that this crate knows.
pub const KNOWN_FEATURES: u32 = 0;

/// Whether these bytes start like a plan file.
pub fn is_plan(bytes: &[u8]) -> bool {
    bytes.starts_with(&layout::MAGIC)
}
