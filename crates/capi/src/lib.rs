//! `libhipplan.so.0`: hipplan for C.
//!
//! `scripts/build-libraries` links this crate into the library; `include/hipplan.h` is generated from it and documents every function. The
//! layout: `functions` and `types` are what C sees, the rest is what is behind it.
//!
//! * Unsafe code is in `functions`, `input`, `output`, `last_error`, `log`, `lane` and `beside`, each for what its first lines say.
//! * Nothing unwinds into C: every function runs in `entry`.
//! * Executing allocates nothing and takes one try-lock: `lane`.

#[cfg(feature = "compile")]
mod beside;
mod bound;
#[cfg(feature = "compile")]
mod compile;
mod counters;
mod entry;
mod failure;
mod functions;
mod input;
mod lane;
mod last_error;
mod layers;
mod library;
mod log;
mod output;
mod shapes;
mod types;

pub use functions::*;
pub use types::*;
