//! Looking after a folder of plans: what is removed, and how many files there are.

mod alone;
mod carry;
mod compact;
mod fold;
mod generation;
mod group;
mod progress;
pub(crate) mod trash;

pub use compact::{CompactOptions, CompactReport};
pub use group::Group;
pub use progress::UpkeepProgress;
