//! What a self-test finds.

use std::path::PathBuf;

/// How a check went, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SelftestOutcome {
    /// All holds that a store may need.
    Good,
    /// A store works, and less is promised.
    Limited,
    /// A store is not safe here.
    Bad,
}

impl SelftestOutcome {
    /// A word that does not change between releases.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Limited => "limited",
            Self::Bad => "bad",
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelftestCheck {
    /// A word that does not change between releases.
    pub name: &'static str,
    /// How it went.
    pub outcome: SelftestOutcome,
    /// What was found, and what that means.
    pub text: String,
}

/// All checks.
#[derive(Debug)]
#[non_exhaustive]
pub struct SelftestReport {
    /// Where it was.
    pub folder: PathBuf,
    /// Name of the file system, if the system says it.
    pub file_system: Option<String>,
    /// In the order in which they were made.
    pub checks: Vec<SelftestCheck>,
}

impl SelftestReport {
    /// The worst of all outcomes.
    pub fn outcome(&self) -> SelftestOutcome {
        self.checks.iter().map(|check| check.outcome).max().unwrap_or(SelftestOutcome::Bad)
    }

    /// In plain words.
    pub const fn verdict(outcome: SelftestOutcome) -> &'static str {
        match outcome {
            SelftestOutcome::Good => "good: a store works here with all that is promised",
            SelftestOutcome::Limited => "works with limits: plans are kept and found whole, and less is promised; see above",
            SelftestOutcome::Bad => "not usable: put the store on another file system, or make space if there is none; see above",
        }
    }
}

/// What a check finds: that all is well, or that less is promised; an error is what makes a store unsafe.
pub(super) type Answer = Result<Found, String>;

/// What is found where a store works.
#[derive(Debug)]
pub(super) enum Found {
    Good(String),
    Limited(String),
}

impl SelftestCheck {
    pub(super) fn of(name: &'static str, answer: Answer) -> Self {
        let (outcome, text) = match answer {
            Ok(Found::Good(text)) => (SelftestOutcome::Good, text),
            Ok(Found::Limited(text)) => (SelftestOutcome::Limited, text),
            Err(text) => (SelftestOutcome::Bad, text),
        };
        Self { name, outcome, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_outcome_counts() {
        let report = |answers: Vec<Answer>| SelftestReport {
            folder: PathBuf::new(),
            file_system: None,
            checks: answers.into_iter().map(|answer| SelftestCheck::of("x", answer)).collect(),
        };
        let (good, limited, bad) = (|| Ok(Found::Good("a".into())), || Ok(Found::Limited("b".into())), || Err("c".into()));
        assert_eq!(report(vec![good(), good()]).outcome(), SelftestOutcome::Good);
        assert_eq!(report(vec![limited(), good()]).outcome(), SelftestOutcome::Limited);
        assert_eq!(report(vec![good(), bad(), limited()]).outcome(), SelftestOutcome::Bad);
        assert_eq!(report(Vec::new()).outcome(), SelftestOutcome::Bad);
        assert_eq!(SelftestOutcome::Limited.word(), "limited");
    }
}
