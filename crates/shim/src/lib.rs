//! Splits an installed MIOpen into a wrapper and a private library, checks the result, and undoes it.

pub mod elf;
mod error;
pub mod names;
pub mod patch;
pub mod private;
pub mod surface;
pub mod wrapper;

pub use error::{ShimError, Unsuitable};
