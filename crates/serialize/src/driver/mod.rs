//! MIOpenDriver command lines, alone and in logs full of other things.
//!
//! [`LogReader`] finds the records in a text, reads each into [`ConvProblem`](crate::conv_problem::ConvProblem)s, keeps each
//! different problem once with the number of its records, and lists every record that it skips with the reason. A record that could
//! be read in two ways is skipped, so that nothing is compiled that nobody ran. Short and long names, defaults and meanings are one
//! table in `flags.rs`. The facts about the driver are those of MIOpen 3.3 (October 2024), with the flags added since.
//!
//! | noise | what is done |
//! |---|---|
//! | text before the program: counts, prompts, time stamps, logger and rank prefixes, environment, paths | passed over; the name of an API function gives the direction |
//! | quotes, back-ticks, a Python list, commas | no part of words; a quoted record ends with its quote |
//! | shell: `\` at the end of a line, `;`, `\|`, `>`, `#` | joined; end of the record |
//! | two records on one line | both; the first is skipped if it was cut off |
//! | a flag without dash, `--name=value`, `-name` | read as meant or as the driver does, with a warning |
//! | variables | `-F $F` is all directions; as a size, the record is skipped; others are passed over with a warning |
//! | terminal colours, carriage returns | removed |
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod command;
mod error;
mod flags;
mod layout;
mod lines;
mod log;
mod record;

pub use command::{NoCommand, command};
pub use error::SkipReason;
pub use flags::NOT_IN_LOGS;
pub use lines::RecordForm;
pub use log::{Coverage, DriverLog, LogReader, LoggedProblem, LoggedRecord, SkippedRecord, read_log};
pub use record::{FlagReading, Reading, Source};

/// Whether a text mentions the driver at all.
pub fn mentions_driver(text: &[u8]) -> bool {
    text.split(|&b| b == b'\n').any(lines::may_hold_record)
}
