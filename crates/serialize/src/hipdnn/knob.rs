//! Knobs: the settings that an engine offers, their values, and what a value may be.

use std::fmt;

/// Most bytes of a text value where the engine states no limit of its own.
pub const MAX_TEXT_BYTES: usize = 64 << 10;

/// The value of a knob.
#[derive(Clone, Debug, PartialEq)]
pub enum KnobValue {
    /// An integer.
    Int(i64),
    /// A float, never a NaN or an infinity.
    Float(f64),
    /// A text.
    Text(String),
}

impl KnobValue {
    /// A word for messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "integer",
            Self::Float(_) => "float",
            Self::Text(_) => "text",
        }
    }
}

impl fmt::Display for KnobValue {
    /// The canonical text, which keys are made of: [`KnobInfo::parse_value`] gives the same value for it, and every other spelling of the
    /// value has the same canonical text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            // The shortest digits that give the same float, with a point or an exponent.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

/// What values an engine accepts for a knob, which are all of its kind where it says nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum KnobConstraint {
    /// Of an integer. A list that is not empty decides alone.
    Int {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
        /// Distance between values, counted from `min`; at least 1.
        step: i64,
        /// The only values.
        valid: Vec<i64>,
    },
    /// Of a float.
    Float {
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
    },
    /// Of a text. A list that is not empty decides alone.
    Text {
        /// Most bytes; 0 where the engine states no limit.
        max_length: u32,
        /// The only values.
        valid: Vec<String>,
    },
}

impl fmt::Display for KnobConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int { valid, .. } if !valid.is_empty() => write!(f, "one of {}", join(valid.iter())),
            Self::Int { min, max, step: 1, .. } => write!(f, "an integer in {min}..={max}"),
            Self::Int { min, max, step, .. } => write!(f, "an integer in {min}..={max}, in steps of {step} from {min}"),
            Self::Float { min, max } => write!(f, "a float in {min:?}..={max:?}"),
            Self::Text { valid, .. } if !valid.is_empty() => write!(f, "one of {}", join(valid.iter().map(|text| format!("{text:?}")))),
            Self::Text { max_length: 0, .. } => write!(f, "a text of at most {MAX_TEXT_BYTES} bytes"),
            Self::Text { max_length, .. } => write!(f, "a text of at most {max_length} bytes"),
        }
    }
}

fn join(values: impl Iterator<Item = impl fmt::Display>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(", ")
}

impl KnobConstraint {
    /// It is one of values of this kind.
    pub(super) fn is_of(&self, value: &KnobValue) -> bool {
        matches!(
            (self, value),
            (Self::Int { .. }, KnobValue::Int(_)) | (Self::Float { .. }, KnobValue::Float(_)) | (Self::Text { .. }, KnobValue::Text(_))
        )
    }

    fn allows(&self, value: &KnobValue) -> bool {
        match (self, value) {
            (Self::Int { valid, .. }, KnobValue::Int(value)) if !valid.is_empty() => valid.contains(value),
            (Self::Int { min, max, step, .. }, KnobValue::Int(value)) => {
                let from_min = i128::from(*value).saturating_sub(i128::from(*min));
                // A step of 0 is refused where constraints are read.
                (min..=max).contains(&value) && from_min.checked_rem(i128::from(*step)) == Some(0)
            }
            (Self::Float { min, max }, KnobValue::Float(value)) => (min..=max).contains(&value),
            (Self::Text { valid, .. }, KnobValue::Text(value)) if !valid.is_empty() => valid.contains(value),
            (Self::Text { max_length: 0, .. }, KnobValue::Text(_)) => true,
            (Self::Text { max_length, .. }, KnobValue::Text(value)) => value.len() as u64 <= u64::from(*max_length),
            _ => false,
        }
    }
}

/// A knob that an engine offers for a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct KnobInfo {
    /// Name, `<plugin>.<category>.<name>`; unique within the engine.
    pub id: String,
    /// For a person.
    pub description: String,
    /// What holds when it is not set; its kind is the knob's.
    pub default: KnobValue,
    /// What it may be set to.
    pub constraint: Option<KnobConstraint>,
    /// Still understood, better left alone.
    pub deprecated: bool,
}

/// A value that a knob does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("knob {knob}: {found:?} is not {expected}")]
pub struct KnobError {
    /// Id of the knob.
    pub knob: String,
    /// What was given.
    pub found: String,
    /// What it takes.
    pub expected: String,
}

impl KnobInfo {
    /// The value that a text means for this knob.
    ///
    /// # Errors
    /// The text is no value of the knob's kind, or the engine does not accept the value.
    pub fn parse_value(&self, text: &str) -> Result<KnobValue, KnobError> {
        let value = match self.default {
            KnobValue::Int(_) => text.parse().ok().map(KnobValue::Int),
            KnobValue::Float(_) => text.parse().ok().filter(|value: &f64| value.is_finite()).map(KnobValue::Float),
            // A plugin reads texts as C does.
            KnobValue::Text(_) if text.len() > MAX_TEXT_BYTES || text.contains('\0') => None,
            KnobValue::Text(_) => Some(KnobValue::Text(text.to_owned())),
        };
        value.filter(|value| self.constraint.as_ref().is_none_or(|constraint| constraint.allows(value))).ok_or_else(|| KnobError {
            knob: self.id.clone(),
            found: text.chars().take(100).collect(),
            expected: self.expected(),
        })
    }

    /// What the knob takes, for a person.
    pub fn expected(&self) -> String {
        match (&self.constraint, &self.default) {
            (Some(constraint), _) => constraint.to_string(),
            (None, KnobValue::Int(_)) => "a 64-bit integer".to_owned(),
            (None, KnobValue::Float(_)) => "a finite float".to_owned(),
            (None, KnobValue::Text(_)) => format!("a text of at most {MAX_TEXT_BYTES} bytes without zeros"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn knob(default: KnobValue, constraint: Option<KnobConstraint>) -> KnobInfo {
        KnobInfo { id: "p.c.k".into(), description: String::new(), default, constraint, deprecated: false }
    }

    fn takes(knob: &KnobInfo, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(knob.parse_value(text).is_ok(), "{text}");
        }
        for text in bad {
            let error = knob.parse_value(text).expect_err(text);
            assert_eq!((error.knob.as_str(), error.expected), ("p.c.k", knob.expected()));
        }
    }

    #[test]
    fn a_value_is_of_the_knobs_kind() {
        takes(&knob(KnobValue::Int(0), None), &["0", "-1", "9223372036854775807"], &["", "1.0", "0x1", " 1", "9223372036854775808"]);
        takes(&knob(KnobValue::Float(0.0), None), &["0", "1e3", "-0.5"], &["", "x", "inf", "NaN", "1e999"]);
        takes(&knob(KnobValue::Text(String::new()), None), &["", "a b"], &["a\0", &"x".repeat(MAX_TEXT_BYTES + 1)]);
    }

    #[test]
    fn a_value_is_within_the_constraint() {
        let int = |step, valid| Some(KnobConstraint::Int { min: -4, max: 8, step, valid });
        takes(&knob(KnobValue::Int(0), int(4, vec![])), &["-4", "0", "8"], &["-8", "1", "12", "9223372036854775807"]);
        // A list decides alone: it need not be in the range.
        takes(&knob(KnobValue::Int(0), int(1, vec![3, 100])), &["3", "100"], &["4"]);
        let far = Some(KnobConstraint::Int { min: i64::MIN, max: i64::MAX, step: i64::MAX, valid: vec![] });
        takes(&knob(KnobValue::Int(0), far), &["-9223372036854775808", "-1", "9223372036854775806"], &["9223372036854775807"]);
        let float = Some(KnobConstraint::Float { min: 0.0, max: 1.0 });
        takes(&knob(KnobValue::Float(0.0), float), &["0", "1", "0.5"], &["-0.1", "1.0000001"]);
        let text =
            |max_length, valid: &[&str]| Some(KnobConstraint::Text { max_length, valid: valid.iter().map(ToString::to_string).collect() });
        takes(&knob(KnobValue::Text(String::new()), text(3, &[])), &["", "abc"], &["abcd", "éé"]);
        takes(&knob(KnobValue::Text(String::new()), text(1, &["fast", "safe"])), &["fast"], &["", "f", "Fast"]);
        takes(&knob(KnobValue::Text(String::new()), text(0, &[])), &["abcdefghijk"], &["\0"]);
    }

    proptest! {
        #[test]
        fn canonical_text_means_the_value(int: i64, float in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO, text in "[^\\x00]*") {
            for value in [KnobValue::Int(int), KnobValue::Float(float), KnobValue::Text(text)] {
                let knob = knob(value.clone(), None);
                let again = knob.parse_value(&value.to_string()).expect("its own text");
                prop_assert_eq!(&again, &value);
                prop_assert_eq!(again.to_string(), value.to_string());
            }
            // Another spelling of one value.
            let knob = knob(KnobValue::Float(0.0), None);
            let long = knob.parse_value(&format!("{float:.1100}")).expect("a float");
            prop_assert_eq!(long.to_string(), KnobValue::Float(float).to_string());
        }
    }
}
