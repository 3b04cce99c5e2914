//! When an entry was used last: the hour is enough.

use std::time::{Duration, SystemTime};

/// A stamp that is older than this is renewed when the entry is used.
const STALE: Duration = Duration::from_secs(3600);

/// Whether the stamp of a file wants renewing. One from the future does: clocks have been wrong before.
pub(crate) fn is_stale(stamp: SystemTime, now: SystemTime) -> bool {
    match now.duration_since(stamp) {
        Ok(age) => age >= STALE,
        Err(ahead) => ahead.duration() >= STALE,
    }
}

/// Hours since 1970, which is what a pack keeps of a row's last use.
pub(crate) fn hours(time: SystemTime) -> u32 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs() / 3600).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_renewed_by_the_hour_and_after_a_clock_was_set_back() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        assert!(!is_stale(now, now));
        assert!(!is_stale(now - Duration::from_secs(3599), now));
        assert!(is_stale(now - STALE, now));
        assert!(!is_stale(now + Duration::from_secs(10), now));
        assert!(is_stale(now + STALE, now));
        assert_eq!(hours(now), 277_777);
        assert_eq!(hours(SystemTime::UNIX_EPOCH - STALE), 0);
    }
}
