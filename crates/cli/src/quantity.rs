//! Sizes and times on the command line, and how long ago something was.

use crate::output;
use std::time::{Duration, SystemTime};

/// Bytes: a whole number with or without a unit, `10GiB` or `10GB`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 10] = [
        ("", 1),
        ("B", 1),
        ("kB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ];
    let expected = "expected a whole number of bytes, or one with kB, MB, GB, TB, KiB, MiB, GiB or TiB behind it";
    quantity(text, &UNITS).ok_or_else(|| expected.to_owned())
}

/// A time: a whole number and `s`, `m`, `h` or `d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let expected = "expected a whole number with s, m, h or d behind it";
    quantity(text, &UNITS).map(Duration::from_secs).ok_or_else(|| expected.to_owned())
}

fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// How long ago something was, in the largest unit of which there are two.
pub(crate) fn ago(time: SystemTime) -> String {
    let Ok(age) = SystemTime::now().duration_since(time) else { return "just now".into() };
    let seconds = age.as_secs();
    match seconds {
        0..120 => output::count(usize::try_from(seconds).unwrap_or(0), "second"),
        120..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Whole seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(bytes("10"), Ok(10));
        assert_eq!(bytes("10 MB"), Ok(10_000_000));
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        for bad in ["", "GB", "1.5GB", "-1", "10 m", "20000000000 GiB", "1gb"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        for bad in ["", "90", "d", "1.5h", "1w"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ages_are_said_in_units_of_which_there_are_two() {
        let before = |seconds| ago(SystemTime::now() - Duration::from_secs(seconds));
        assert_eq!([before(300), before(7300), before(200_000)], ["5 minutes", "2 hours", "2 days"]);
        assert_eq!(ago(SystemTime::now() + Duration::from_secs(60)), "just now");
    }
}
