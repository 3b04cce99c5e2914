//! What a command asked of the store, and what compiling took.

use crate::output;
use hipplan::{Counts, LackReason};
use serde_json::{Value, json};

/// The counts as they stand in every report.
pub(crate) fn to_json(counts: &Counts) -> Value {
    let misses: serde_json::Map<String, Value> =
        LackReason::ALL.iter().map(|reason| (reason.word().to_owned(), counts.missed(*reason).into())).collect();
    json!({
        "hits": counts.hits,
        "misses": misses,
        "compiled": counts.compiled,
        "compile_seconds": counts.compile_time.as_secs_f64(),
        "seconds_not_needed": counts.time_not_needed().map(|time| time.as_secs_f64()),
    })
}

/// The counts on one line; none where nothing was counted.
pub(crate) fn text(counts: &Counts) -> Option<String> {
    let mut parts = Vec::new();
    let missed = counts.all_missed();
    if counts.hits + missed > 0 {
        let mut text = format!("store: {}", number(counts.hits, "hit", "hits"));
        if missed > 0 {
            let by_reason = LackReason::ALL.iter().filter(|reason| counts.missed(**reason) > 0);
            let by_reason: Vec<String> = by_reason.map(|reason| format!("{} {reason}", counts.missed(*reason))).collect();
            text += &format!(", {} ({})", number(missed, "miss", "misses"), by_reason.join(", "));
        }
        parts.push(text);
    }
    if counts.compiled > 0 {
        let graphs = output::count(usize::try_from(counts.compiled).unwrap_or(usize::MAX), "graph");
        parts.push(format!("compiling {graphs} took {:.3} s of processor threads", counts.compile_time.as_secs_f64()));
        if let Some(saved) = counts.time_not_needed().filter(|_| counts.hits > 0) {
            parts.push(format!("at that mean the hits saved about {:.3} s", saved.as_secs_f64()));
        }
    }
    if parts.is_empty() { None } else { Some(parts.join("; ")) }
}

fn number(n: u64, one: &str, several: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hipplan::Counters;

    #[test]
    fn nothing_is_nothing_and_one_is_one() {
        let counters = Counters::default();
        assert_eq!(text(&counters.get()), None);
        counters.hit();
        assert_eq!(text(&counters.get()).as_deref(), Some("store: 1 hit"));
        counters.hit();
        counters.miss(LackReason::Stale);
        counters.miss(LackReason::Missing);
        counters.miss(LackReason::Missing);
        assert_eq!(text(&counters.get()).as_deref(), Some("store: 2 hits, 3 misses (2 missing, 1 stale)"));
        assert_eq!(to_json(&counters.get())["misses"], json!({ "missing": 2, "wrong-target": 0, "stale": 1, "unreadable": 0 }));
        assert_eq!(to_json(&counters.get())["seconds_not_needed"], Value::Null);
    }
}
