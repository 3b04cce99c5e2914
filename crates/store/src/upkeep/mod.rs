//! Looking after a folder of the store: how much there is, what is kept, what goes, and in how many files it stands.

mod alone;
mod away;
mod carry;
mod compact;
mod decide;
mod gather;
mod gc;
mod generation;
mod group;
mod in_front;
mod leftovers;
mod pins;
mod progress;
mod reach;
mod removal;
mod remove;
mod repair;
mod rewrite;
mod shorten;
mod stamps;
mod sweep;
mod table;
pub(crate) mod trash;
mod usage;
mod withdraw;

pub use compact::{CompactOptions, CompactReport};
pub use gc::{GcOptions, GcReport};
pub(crate) use generation::write_on_top;
pub use group::Group;
pub use pins::{Pin, PinSet};
pub use progress::UpkeepProgress;
pub use remove::RemoveReport;
pub use repair::{RepairOptions, RepairReport};
pub use usage::{EntryInfo, KindStat, StoreStat, Usage};
pub(crate) use usage::{entries_of_directory, entries_of_pack, stat_bundle, stat_directory};
