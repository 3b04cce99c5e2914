//! hipDNN's engine plugin C ABI, as its hosts and its plugins need it: types, constants, symbol names and function types.
//!
//! Layouts, numbers and names only: nothing here is called, and nothing is exported. Common rules of the ABI:
//! * Every function returns a [`Status`](status::Status), but [`GetLastErrorString`](functions::GetLastErrorString), which returns nothing.
//!   After an error its text is asked for on the same thread.
//! * Pointers that are given to a plugin are good for the call only. Texts that a plugin gives out stay good as long as it is loaded.
//! * No exception crosses the boundary.

pub mod functions;
pub mod status;
pub mod symbols;
pub mod types;
