//! hipDNN engine plugins in C, a host for them in C, and scalars beside a guard page. For the project's tests only.
//!
//! [`Plugins`] compiles the test plugin of `programs/` in any of its variants, and the host program. Their header was typed from the
//! project's notes on the ABI, not from the Rust declarations, so that a mistake in either shows. [`Counters`] reads what a plugin was
//! asked, [`HostScalar`] is a scalar that faults when more than one element is read of it.

mod compile;
mod counters;
mod host_scalar;
pub mod packs;

pub use compile::{CompileError, Plugins};
pub use counters::{Counters, CountersError, Entry};
pub use host_scalar::{HostElement, HostScalar};
