//! How long a remote tier may take.

use std::fmt;
use std::time::Duration;

/// How long a remote tier may take, and what it is told beside its address.
///
/// A request has an allowance: [`in_time`](Self::in_time) and the time that its bytes take at [`rate`](Self::rate). What it takes beyond
/// that comes out of one account for the whole process, [`patience`](Self::patience). When that is used up, or nobody can be
/// connected to in time, or [`failures`](Self::failures) requests in a row have failed, the remote is left alone for a while: every call
/// returns at once. After that while one request is made in the background, for which nobody waits, to see whether it answers again.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// How long a TCP connection may take to come about. 300 ms.
    pub connect: Duration,
    /// What every request may take. 300 ms.
    pub in_time: Duration,
    /// What a request may take on top of that, in bytes a second: 4 MiB/s. Never less than 1.
    pub rate: u64,
    /// What all requests of a process together may take beyond their allowances. Waits at the same time count once. An answer in time
    /// pays a little of it back. 2 s.
    pub patience: Duration,
    /// So many failures in a row are enough. 3.
    pub failures: u32,
    /// How long the remote is left alone at first. 30 s; doubled each time that it does not answer then.
    pub cool_down: Duration,
    /// The most that it is doubled to. 10 min.
    pub longest_cool_down: Duration,
    /// Settings by the names that `object_store` gives them, such as `aws_endpoint`. They come before the environment's.
    pub settings: Vec<(String, String)>,
    /// Value of the `Authorization` header for a plain HTTP server. Sent over HTTPS and to this machine only.
    pub authorization: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(300),
            in_time: Duration::from_millis(300),
            rate: 4 << 20,
            patience: Duration::from_secs(2),
            failures: 3,
            cool_down: Duration::from_secs(30),
            longest_cool_down: Duration::from_secs(600),
            settings: Vec::new(),
            authorization: None,
        }
    }
}

/// Without what may be secret.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart, so that a new field is not forgotten.
        let Self { connect, in_time, rate, patience, failures, cool_down, longest_cool_down, settings, authorization } = self;
        let settings: Vec<&str> = settings.iter().map(|(key, _)| key.as_str()).collect();
        f.debug_struct("Options")
            .field("connect", connect)
            .field("in_time", in_time)
            .field("rate", rate)
            .field("patience", patience)
            .field("failures", failures)
            .field("cool_down", cool_down)
            .field("longest_cool_down", longest_cool_down)
            .field("settings", &settings)
            .field("authorization", &authorization.is_some())
            .finish()
    }
}

impl Options {
    /// With another patience, and what a connection and a request may take in the same proportion to it as by default.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        let default = Self::default();
        let (most, own) = (default.patience.as_millis(), patience.as_millis().min(u128::from(u32::MAX)));
        let scaled = |time: Duration| {
            let milliseconds = time.as_millis().saturating_mul(own).checked_div(most).unwrap_or_default();
            Duration::from_millis(u64::try_from(milliseconds).unwrap_or(u64::MAX))
        };
        Self { patience, connect: scaled(default.connect), in_time: scaled(default.in_time), ..self }
    }

    /// What a request that moves `bytes` may take.
    pub(crate) fn allowance(&self, bytes: u64) -> Duration {
        let rate = self.rate.max(1);
        let moving = Duration::from_secs(bytes / rate) + Duration::from_nanos((bytes % rate).saturating_mul(1_000_000_000) / rate);
        self.in_time.saturating_add(moving)
    }

    /// The most that a caller waits for a request of `bytes`.
    pub(crate) fn longest(&self, bytes: u64) -> Duration {
        self.allowance(bytes).saturating_add(self.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_grows_with_the_bytes_and_never_overflows() {
        let options = Options::default();
        assert_eq!(options.allowance(0), Duration::from_millis(300));
        assert_eq!(options.allowance(2 << 20), Duration::from_millis(800));
        assert_eq!(options.longest(8 << 20), Duration::from_millis(4300));
        let patient = Options::default().with_patience(Duration::from_secs(20));
        assert_eq!((patient.connect, patient.in_time), (Duration::from_secs(3), Duration::from_secs(3)));
        let narrow = Options { rate: 0, ..options };
        assert!(narrow.allowance(u64::MAX) >= Duration::from_secs(u64::MAX / 2));
    }
}
