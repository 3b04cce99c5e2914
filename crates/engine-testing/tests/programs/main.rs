//! The C programs prove each other: the host in C takes the plugin in C through its life, on graphs that the reference judges.

#[path = "../r16/graphs.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod graphs;

mod misbehaviour;
mod operations;
mod payloads;
mod run;
