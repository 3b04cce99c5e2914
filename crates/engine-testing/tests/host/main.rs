//! The plugin host against plugins in C: what a plugin does wrong is a clear error, and the plugins beside it still serve.

#[path = "../r16/graphs.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod graphs;

mod calls;
mod execution;
mod handles;
mod loading;
mod overrides;
mod persistence;
mod restoring;
mod support;
