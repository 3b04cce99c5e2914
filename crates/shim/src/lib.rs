//! Splits an installed MIOpen into a wrapper and a private library, checks the result, and undoes it.

pub mod check;
pub mod elf;
mod error;
pub mod file;
pub mod fingerprint;
pub mod headers;
pub mod install;
pub mod locate;
pub mod manifest;
pub mod names;
pub mod patch;
pub mod private;
pub mod status;
pub mod surface;
pub mod uninstall;
pub mod wrapper;

pub use check::check;
pub use error::{ShimError, Unsuitable};
pub use install::split;
pub use manifest::Manifest;
pub use uninstall::unsplit;
