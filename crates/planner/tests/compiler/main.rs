//! Compilers of kernels: what they make, and what becomes of everything that may go wrong.
#![cfg(unix)]

mod cache;
mod clang;
mod common;
mod faults;
