//! When entries were last used, as upkeep counts it.
//!
//! Stamps are nanoseconds since 1970. That of a loose file is its time of last change. That of a row of a pack is the *end* of the hour
//! that stands beside the pack: a use in this hour that follows another one leaves no trace, so an entry that was used in this hour is
//! taken to be in use. A row without a stamp was last used when its pack was made. What is shown to people is the beginning of that hour.
//!
//! Where no grace age is given, nobody else is taken to be at work, and an entry of a pack that was used in this hour may go: that it is used
//! once more meanwhile would leave no trace.

use crate::fs;
use crate::pack::Pack;
use std::path::Path;
use std::time::{Duration, SystemTime};

const NANOS_OF_AN_HOUR: u64 = 3_600_000_000_000;

/// A time as stamps count.
pub(super) fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A stamp as a time.
pub(super) fn time(stamp: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(stamp)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Whether something may still rely on an entry: it was used less than the grace age ago, or in this hour, or at a time to come. Without a
/// grace age, only at a time behind this hour, as a clock that is wrong says it.
pub(super) fn is_fresh(stamp: u64, now: SystemTime, grace: Duration) -> bool {
    let now = nanos(now);
    if grace.is_zero() {
        let hours = now.checked_div(NANOS_OF_AN_HOUR).unwrap_or(0);
        return stamp > hours.saturating_add(1).saturating_mul(NANOS_OF_AN_HOUR);
    }
    let grace = u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX);
    now.checked_sub(stamp).is_none_or(|age| age < grace)
}

/// The stamps of the rows of a pack.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RowStamps {
    /// Hours since 1970; 0 is none.
    hours: Vec<u32>,
    made: u64,
}

impl RowStamps {
    /// As they stand now. That there are none to be had makes rows as old as their pack.
    pub(super) fn of(pack: &Pack) -> Self {
        Self {
            hours: read(&pack.path().with_extension("used"), pack.rows_in_all()).unwrap_or_default(),
            made: nanos(pack.status().changed),
        }
    }

    /// Hours since 1970, if anything says so.
    pub(super) fn hours(&self, ordinal: u32) -> Option<u32> {
        self.hours.get(ordinal as usize).copied().filter(|&hours| hours != 0)
    }

    /// The stamp of a row.
    pub(super) fn get(&self, ordinal: u32) -> u64 {
        let end = |hours: u32| u64::from(hours).saturating_add(1).saturating_mul(NANOS_OF_AN_HOUR);
        self.hours(ordinal).map_or(self.made, end)
    }

    /// When a row was used last, as people are told: the beginning of the hour, or the time at which the pack was made.
    pub(super) fn shown(&self, ordinal: u32) -> SystemTime {
        let begin = |hours: u32| u64::from(hours).saturating_mul(NANOS_OF_AN_HOUR);
        time(self.hours(ordinal).map_or(self.made, begin))
    }

    /// Hours to note in a pack that takes over a row: those of its stamp, else those of the time at which its pack was made.
    pub(super) fn carried(&self, ordinal: u32) -> u32 {
        let made = self.made.checked_div(NANOS_OF_AN_HOUR).and_then(|hours| u32::try_from(hours).ok());
        self.hours(ordinal).or(made).unwrap_or(0)
    }
}

fn read(path: &Path, rows: u32) -> Option<Vec<u32>> {
    let file = fs::open(path).ok()?.ok()?;
    // A whole number of stamps, of rows that there are.
    let length = file.size().min(u64::from(rows).saturating_mul(4)) & !3;
    let bytes = file.read_part(0, length).ok()?;
    Some(bytes.as_chunks().0.iter().map(|&stamp| u32::from_le_bytes(stamp)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_age_counts_back_from_now_and_the_future_is_fresh() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let hour = Duration::from_secs(3600);
        assert!(is_fresh(nanos(now - Duration::from_secs(3599)), now, hour));
        assert!(!is_fresh(nanos(now - hour), now, hour));
        assert!(is_fresh(nanos(now + Duration::from_secs(1)), now, Duration::from_secs(1)));
        // Without a grace age, all of this hour may go.
        assert!(!is_fresh(nanos(now + Duration::from_secs(1)), now, Duration::ZERO));
        assert!(is_fresh(nanos(now + hour), now, Duration::ZERO));
        assert!(!is_fresh(nanos(now), now, Duration::ZERO));
        assert!(is_fresh(0, now, Duration::MAX));
        assert_eq!(time(nanos(now)), now);
    }

    #[test]
    fn rows_used_in_this_hour_are_fresh_within_a_grace_age_and_those_without_a_stamp_are_as_old_as_the_pack() {
        let stamps = RowStamps { hours: vec![0, 277, 276], made: 5 };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(277 * 3600 + 1800);
        let fresh = |grace| [0, 1, 2, 3].map(|row| is_fresh(stamps.get(row), now, grace));
        assert_eq!(fresh(Duration::from_secs(1)), [false, true, false, false]);
        assert_eq!(fresh(Duration::ZERO), [false; 4]);
        assert_eq!(fresh(Duration::from_secs(3600)), [false, true, true, false]);
        // What is told is never to come.
        let hour = |n: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(n * 3600);
        assert_eq!([1, 2].map(|row| stamps.shown(row)), [hour(277), hour(276)]);
        assert_eq!([stamps.get(0), stamps.get(3)], [5, 5]);
        assert_eq!([stamps.carried(1), stamps.carried(0)], [277, 0]);
    }
}
