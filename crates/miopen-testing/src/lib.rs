//! A real MIOpen without a GPU: the sysroot, its stand-ins, and programs run inside it; for the project's tests only.

pub mod filled;
