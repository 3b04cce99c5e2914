//! What a plan is compiled for (C1).

use std::fmt;
use std::str::FromStr;

/// A target, normalised: equal targets print equally.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The host's processor. Plans hold no machine code, so one target serves every host.
    Cpu,
    /// An AMD GPU.
    Amd(AmdTarget),
}

/// State of a target feature that a code object may be built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Built for either setting.
    Any,
    /// `+`: built for the feature on.
    On,
    /// `-`: built for the feature off.
    Off,
}

/// An AMD target id: processor and features in the order that AMD's tools print them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AmdTarget {
    processor: String,
    sramecc: Feature,
    xnack: Feature,
}

impl AmdTarget {
    /// Processor name, such as `gfx942` or `gfx9-4-generic`.
    pub fn processor(&self) -> &str {
        &self.processor
    }

    /// Error-correcting memory.
    pub fn sramecc(&self) -> Feature {
        self.sramecc
    }

    /// Replay of page faults.
    pub fn xnack(&self) -> Feature {
        self.xnack
    }
}

/// A text that names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("target {text:?}: {reason}; expected `cpu`, or an AMD target id such as `gfx942` or `gfx942:sramecc+:xnack-`")]
pub struct ParseTargetError {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, ParseTargetError> {
        let fail = |reason: String| ParseTargetError { text: text.to_owned(), reason };
        if text == "cpu" {
            return Ok(Self::Cpu);
        }
        let mut fields = text.split(':');
        let processor = fields.next().unwrap_or_default();
        let name_ok = processor.strip_prefix("gfx").is_some_and(|rest| {
            rest.starts_with(|c: char| c.is_ascii_digit())
                && rest.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase() || b == b'-')
        });
        if !name_ok {
            return Err(fail(format!("{processor:?} is not a processor name")));
        }
        let (mut sramecc, mut xnack) = (Feature::Any, Feature::Any);
        for field in fields {
            let (name, state) = match (field.strip_suffix('+'), field.strip_suffix('-')) {
                (Some(name), _) => (name, Feature::On),
                (_, Some(name)) => (name, Feature::Off),
                _ => return Err(fail(format!("feature {field:?} ends in neither + nor -"))),
            };
            let slot = match name {
                "sramecc" => &mut sramecc,
                "xnack" => &mut xnack,
                _ => return Err(fail(format!("feature {name:?} is unknown"))),
            };
            if *slot != Feature::Any {
                return Err(fail(format!("feature {name:?} is stated twice")));
            }
            *slot = state;
        }
        Ok(Self::Amd(AmdTarget { processor: processor.to_owned(), sramecc, xnack }))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Amd(AmdTarget { processor, sramecc, xnack }) => {
                f.write_str(processor)?;
                for (name, state) in [("sramecc", sramecc), ("xnack", xnack)] {
                    match state {
                        Feature::Any => {}
                        Feature::On => write!(f, ":{name}+")?,
                        Feature::Off => write!(f, ":{name}-")?,
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_normalise() {
        for (text, normal) in [
            ("cpu", "cpu"),
            ("gfx942", "gfx942"),
            ("gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-"),
            ("gfx942:xnack-:sramecc+", "gfx942:sramecc+:xnack-"),
            ("gfx90a", "gfx90a"),
            ("gfx9-4-generic", "gfx9-4-generic"),
        ] {
            assert_eq!(text.parse::<Target>().map(|t| t.to_string()), Ok(normal.to_owned()));
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for text in ["", "CPU", "gfx", "gfxabc", "sm_90", "gfx942:", "gfx942:xnack", "gfx942:foo+", "gfx942:xnack+:xnack-", "gfx942:é+"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
