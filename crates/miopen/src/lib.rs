//! `libhipplan_miopen.so`: forwards MIOpen's convolutions into the plan store.
//!
//! The generated wrapper of a split MIOpen hands its table of slots to [`miopen_forwarding_attach`], the only function that the library
//! exports. With forwarding off that is one `getenv`. With forwarding on, the slots of the names in [`routing::ENTRIES`] are pointed at
//! the functions of [`entry`], and everything else keeps going straight to the private library. The plans themselves are
//! `libhipplan.so.0`'s, which is opened when it is first needed ([`hipplan`]).

pub mod answer;
pub mod attach;
pub mod command_log;
pub mod config;
pub mod counters;
pub mod decide;
pub mod entry;
pub mod handles;
pub mod hipplan;
pub mod last_error;
pub mod lock;
pub mod log;
pub mod observe;
pub mod plans;
pub mod private;
pub mod problem;
pub mod recorder;
pub mod report;
pub mod routing;
pub mod solution_id;
pub mod stream;
pub mod trace;

pub use attach::miopen_forwarding_attach;
