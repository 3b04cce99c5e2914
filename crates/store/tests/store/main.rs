//! The store from outside: what callers, other processes and the next boot see.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod child;
mod common;
mod compact;
mod damage;
mod degrade;
mod determinism;
mod group;
mod locations;
mod marker;
mod processes;
mod roundtrip;
mod turns;
mod verify;
