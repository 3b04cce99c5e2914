//! Proofs of what the store promises when calls fail, processes are killed and the power goes.
//!
//! Small by default; `HIPPLAN_STORE_ROUNDS` and `HIPPLAN_STORE_STATES` make the slow parts as long as wanted, and `HIPPLAN_STORE_SCRATCH`
//! names the folder, and so the file system, that is tried. Without it memory is used where there is such a folder.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod child;
#[path = "../store/common.rs"]
#[allow(dead_code, reason = "shared with the other test program, which uses all of it")]
mod common;
mod errors;
mod kills;
mod many;
mod matrix;
mod model;
mod powercut;
mod preload;
mod readonly;
mod scenario;
mod scratch;
mod syscalls;
mod traced;
mod values;
