//! Graph and plan formats of hipplan. Bytes only: no file, no device.
pub mod enums;
pub use enums::*;
