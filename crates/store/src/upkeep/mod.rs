//! Looking after a folder of the store: how much there is, what is kept, what goes, and in how many files it stands.

mod alone;
mod awaited;
mod away;
mod beside;
mod carry;
mod claim;
mod compact;
mod decide;
mod expect;
mod folded;
mod gather;
mod gc;
mod generation;
mod group;
mod in_front;
mod leftovers;
mod origins;
mod pins;
mod problems;
mod progress;
mod reach;
mod readable;
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

#[cfg(any(test, feature = "testing"))]
pub use claim::testing::set_claim_age;
pub use compact::{CompactOptions, CompactReport};
pub use gc::{GcOptions, GcReport};
pub(crate) use generation::write_on_top;
pub use group::Group;
pub use pins::{Pin, PinSet};
pub use progress::UpkeepProgress;
pub(crate) use readable::check_readable;
pub use remove::RemoveReport;
pub use repair::{RepairOptions, RepairReport};
pub use usage::{EntryInfo, KindStat, StoreStat, Usage};
pub(crate) use usage::{entries_of_directory, entries_of_pack, stat_bundle, stat_directory};
