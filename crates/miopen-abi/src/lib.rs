//! MIOpen's C ABI as the shim needs it: types, status codes, names, and the table of the generated wrapper.
//!
//! Layouts and numbers only: nothing here calls MIOpen.

pub mod status;
pub mod table;
pub mod types;
