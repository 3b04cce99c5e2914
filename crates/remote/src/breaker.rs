//! The circuit breaker: what a slow or dead remote may cost a process.
//!
//! It holds an account of the time that requests took beyond their allowances, as the union of those waits, so that it is what the
//! process was held up and not a sum over its threads. Every instant is handed in: the rules can be tested without waiting.

use crate::options::Options;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What an answer in time pays back.
const PAID_BACK: Duration = Duration::from_millis(10);

/// Whether a request may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Make it and wait for it.
    Wait,
    /// Make it, and let nobody wait: it is to show whether the remote answers again.
    Probe,
    /// Do not make it.
    Leave,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Answered, be it that there is no such entry.
    Good,
    /// Not as it should be.
    Bad,
    /// Nothing came in time.
    TimedOut,
    /// Answered, with something that says nothing of whether the remote is well.
    Neither,
}

#[derive(Debug)]
pub(crate) struct Breaker {
    patience: Duration,
    failures: u32,
    first_cool_down: Duration,
    longest_cool_down: Duration,
    probe_patience: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    wasted: Duration,
    /// Requests beyond their allowance, and since when there is one.
    overdue: usize,
    overdue_since: Option<Instant>,
    failures: u32,
    open: Option<Open>,
    /// How long it is left alone when it opens.
    cool_down: Duration,
    reason: String,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    until: Instant,
    probing: bool,
}

impl Breaker {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            patience: options.patience,
            failures: options.failures.max(1),
            first_cool_down: options.cool_down,
            longest_cool_down: options.longest_cool_down,
            probe_patience: options.in_time,
            state: Mutex::new(State {
                wasted: Duration::ZERO,
                overdue: 0,
                overdue_since: None,
                failures: 0,
                open: None,
                cool_down: options.cool_down,
                reason: String::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks whether to make a request now.
    pub(crate) fn ask(&self, now: Instant) -> Permit {
        match &mut self.state().open {
            None => Permit::Wait,
            Some(open) if now >= open.until && !open.probing => {
                open.probing = true;
                Permit::Probe
            }
            Some(_) => Permit::Leave,
        }
    }

    /// Why the remote is left alone, and for how long from now.
    pub(crate) fn reason(&self, now: Instant) -> (String, Duration) {
        let state = self.state();
        let left = state.open.map_or(Duration::ZERO, |open| open.until.saturating_duration_since(now));
        (state.reason.clone(), left)
    }

    /// A request has gone beyond its allowance: how much longer it may take. [`in_or_over`](Self::in_or_over) must follow.
    pub(crate) fn overdue(&self, now: Instant) -> Duration {
        let mut state = self.state();
        state.overdue = state.overdue.saturating_add(1);
        let since = *state.overdue_since.get_or_insert(now);
        let running = now.saturating_duration_since(since);
        self.patience.saturating_sub(state.wasted.saturating_add(running))
    }

    /// A request that was overdue has ended, one way or the other.
    pub(crate) fn in_or_over(&self, now: Instant) {
        let mut state = self.state();
        state.overdue = state.overdue.saturating_sub(1);
        if state.overdue == 0
            && let Some(since) = state.overdue_since.take()
        {
            state.wasted = state.wasted.saturating_add(now.saturating_duration_since(since)).min(self.patience);
        }
    }

    /// Books how a request ended that was made with `permit`. `why` is asked for where it failed.
    pub(crate) fn settle(&self, permit: Permit, ending: Ending, now: Instant, why: impl FnOnce() -> String) {
        let mut state = self.state();
        match (permit, ending) {
            (Permit::Leave, _) => {}
            (Permit::Probe, Ending::Good | Ending::Neither) => {
                state.open = None;
                state.failures = 0;
                // It has to show first that it is quick again.
                state.wasted = self.patience.saturating_sub(self.probe_patience);
            }
            (Permit::Probe, _) => {
                state.cool_down = state.cool_down.saturating_mul(2).min(self.longest_cool_down);
                state.reason = why();
                state.open = Some(Open { until: after(now, state.cool_down), probing: false });
            }
            // Left alone since this request began: what comes in late neither prolongs nor ends that.
            (Permit::Wait, _) if state.open.is_some() => {}
            (Permit::Wait, Ending::Good) => {
                state.failures = 0;
                state.wasted = state.wasted.saturating_sub(PAID_BACK);
                if state.wasted.is_zero() {
                    state.cool_down = self.first_cool_down;
                }
            }
            (Permit::Wait, Ending::Neither) => {}
            (Permit::Wait, Ending::Bad | Ending::TimedOut) => {
                state.failures = state.failures.saturating_add(1);
                if ending == Ending::TimedOut || state.failures >= self.failures {
                    state.reason = why();
                    state.open = Some(Open { until: after(now, state.cool_down), probing: false });
                }
            }
        }
    }
}

/// A time so far away that it cannot be told is a year.
pub(crate) fn after(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now + Duration::from_secs(365 * 86400))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> (Breaker, Instant) {
        (Breaker::new(&Options::default()), Instant::now())
    }

    fn fail(breaker: &Breaker, now: Instant) {
        assert_eq!(breaker.ask(now), Permit::Wait);
        breaker.settle(Permit::Wait, Ending::Bad, now, || "answered 500".into());
    }

    #[test]
    fn three_failures_in_a_row_and_no_fewer() {
        let (breaker, now) = breaker();
        for _ in 0..10 {
            fail(&breaker, now);
            fail(&breaker, now);
            breaker.settle(Permit::Wait, Ending::Neither, now, String::new);
            breaker.settle(Permit::Wait, Ending::Good, now, String::new);
        }
        for _ in 0..3 {
            fail(&breaker, now);
        }
        assert_eq!(breaker.ask(now), Permit::Leave);
        assert_eq!(breaker.reason(now), ("answered 500".into(), 30 * SECOND));
    }

    #[test]
    fn one_timeout_is_enough() {
        let (breaker, now) = breaker();
        breaker.settle(Permit::Wait, Ending::TimedOut, now, || "slow".into());
        assert_eq!(breaker.ask(now), Permit::Leave);
    }

    #[test]
    fn one_probe_at_a_time_and_ever_longer_pauses() {
        let (breaker, mut now) = breaker();
        breaker.settle(Permit::Wait, Ending::TimedOut, now, || "slow".into());
        for pause in [30, 60, 120, 240, 480, 600, 600] {
            now += pause * SECOND - Duration::from_nanos(1);
            assert_eq!(breaker.ask(now), Permit::Leave, "{pause} s are not over");
            now += Duration::from_nanos(1);
            assert_eq!(breaker.ask(now), Permit::Probe);
            assert_eq!(breaker.ask(now + 9 * SECOND), Permit::Leave, "one probe is under way");
            breaker.settle(Permit::Probe, Ending::TimedOut, now, || "slow still".into());
        }
        assert_eq!(breaker.reason(now).0, "slow still");
        now += 600 * SECOND;
        assert_eq!(breaker.ask(now), Permit::Probe);
        breaker.settle(Permit::Probe, Ending::Good, now, String::new);
        assert_eq!(breaker.ask(now), Permit::Wait);
    }

    #[test]
    fn patience_is_one_account_for_all() {
        let (breaker, now) = breaker();
        assert_eq!(breaker.overdue(now), 2 * SECOND);
        breaker.in_or_over(now + SECOND);
        assert_eq!(breaker.overdue(now + 5 * SECOND), SECOND);
        // A second one at the same time does not count twice, and ends with the first.
        assert_eq!(breaker.overdue(now + 5 * SECOND + SECOND / 2), SECOND / 2);
        breaker.in_or_over(now + 5 * SECOND + SECOND / 2);
        breaker.in_or_over(now + 5 * SECOND + 3 * SECOND / 4);
        assert_eq!(breaker.overdue(now + 9 * SECOND), SECOND / 4);
        breaker.in_or_over(now + 99 * SECOND);
        assert_eq!(breaker.overdue(now + 100 * SECOND), Duration::ZERO);
    }

    #[test]
    fn answers_in_time_pay_back_little_by_little() {
        let (breaker, now) = breaker();
        breaker.overdue(now);
        breaker.in_or_over(now + 2 * SECOND);
        for _ in 0..50 {
            breaker.settle(Permit::Wait, Ending::Good, now, String::new);
        }
        assert_eq!(breaker.overdue(now + 3 * SECOND), SECOND / 2);
    }

    #[test]
    fn after_a_probe_it_is_trusted_little_and_its_pauses_stay_long() {
        let (breaker, now) = breaker();
        breaker.settle(Permit::Wait, Ending::TimedOut, now, || "slow".into());
        let mut later = now + 30 * SECOND;
        breaker.ask(later);
        breaker.settle(Permit::Probe, Ending::TimedOut, later, || "slow".into());
        later += 60 * SECOND;
        breaker.ask(later);
        breaker.settle(Permit::Probe, Ending::Good, later, String::new);
        assert_eq!(breaker.overdue(later), Duration::from_millis(300));
        breaker.in_or_over(later);
        breaker.settle(Permit::Wait, Ending::TimedOut, later, || "slow again".into());
        assert_eq!(breaker.reason(later).1, 60 * SECOND);
    }

    #[test]
    fn what_comes_in_late_changes_nothing() {
        let (breaker, now) = breaker();
        breaker.settle(Permit::Wait, Ending::TimedOut, now, || "slow".into());
        breaker.settle(Permit::Wait, Ending::TimedOut, now + SECOND, || "another".into());
        breaker.settle(Permit::Wait, Ending::Good, now + SECOND, String::new);
        assert_eq!(breaker.reason(now), ("slow".into(), 30 * SECOND));
    }
}
