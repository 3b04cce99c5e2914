//! The store from outside: what callers, other processes and the next boot see.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod beside;
mod bundles;
mod child;
mod common;
mod compact;
mod damage;
mod degrade;
mod determinism;
mod far;
mod forks;
mod gc;
mod group;
mod locations;
mod marker;
mod pins;
mod processes;
mod progress;
mod repair;
mod roundtrip;
mod signatures;
mod turns;
mod upkeep;
mod verify;
mod versions;
mod wrapped;
