//! `libhipplan_engine.so`: hipplan's CPU provider as a hipDNN engine plugin.
//!
//! A hipDNN host finds one engine in it, `HIPPLAN_CPU_ENGINE`, which executes graphs with the kernels of the `cpu` provider. It speaks API 1.4.0.
//! What it gives out as a serialised context is a plan file with the graph's uids ([`payload`]).
//!
//! Three things differ from engines of a GPU. Buffers must be memory that the CPU can address. Executing waits for the handle's stream, computes,
//! and returns when it has finished. And one context may be executed by several threads at once, with one handle or many.
//!
//! * [`exports`]: the functions that a host sees; the rest is what is behind them.
//! * Unsafe code is in `exports`, `pointers`, `object`, `overrides`, `lane`, `context`, `stream`, `log` and `last_error`, each for what its first
//!   lines say.
//! * Nothing unwinds into the host: every function runs in `entry`.
//! * By-value scalars follow the last column of the requirements' table: an entry of a runtime scalar overrides a default, one of a constant is
//!   inert, and a user-supplied one that is missing is INVALID_VALUE.

mod context;
mod engine;
mod entry;
pub mod exports;
mod failure;
mod graph;
mod handle;
mod lane;
mod last_error;
mod lent;
mod log;
mod object;
mod overrides;
pub mod payload;
mod pointers;
mod stream;

pub use engine::{API_VERSION, ENGINE_ID, ENGINE_NAME, PLUGIN_NAME, PLUGIN_VERSION};
