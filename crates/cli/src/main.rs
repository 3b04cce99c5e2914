//! The hipplan command.
fn main() {}
