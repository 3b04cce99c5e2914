//! A real MIOpen, split, with this checkout's shim: as users have it, on a simulated device.

mod calls;
mod costs;
mod driver;
mod failures;
mod setup;
mod verdicts;
