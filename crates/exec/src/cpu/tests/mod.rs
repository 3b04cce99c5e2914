//! Tests of the CPU device against loops in `f64`.

mod conv;
#[cfg(unix)]
mod fork;
mod harness;
mod hostile;
mod matmul;
mod rows;
