//! Compilers of kernels: what they make, and what becomes of everything that may go wrong.
#![cfg(unix)]

mod clang;
mod common;
mod faults;
