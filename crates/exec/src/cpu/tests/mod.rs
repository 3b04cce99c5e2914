//! Tests of the CPU device against loops in `f64`.

mod conv;
mod harness;
mod hostile;
mod matmul;
mod rows;
