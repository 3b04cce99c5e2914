//! One JSON value, read as one of the types that fields have.

use super::JsonError;
use bumpalo::Bump;
use serde_json::Value;
use std::borrow::Cow;

/// A value and where it stands. Absent values read as the type's default; whoever needs the key has asked for it before.
pub(crate) struct JsonField<'j, 'a> {
    place: &'j str,
    key: &'j str,
    value: Option<&'j Value>,
    arena: &'a Bump,
}

/// A text as messages show it: its beginning.
pub(super) fn shorten(text: &str) -> Cow<'_, str> {
    const SHOWN: usize = 60;
    if text.len() <= SHOWN {
        return Cow::Borrowed(text);
    }
    let cut = (0..=SHOWN).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    Cow::Owned(format!("{}...", &text[..cut]))
}

/// A value as messages show it.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(list) => format!("an array of {}", list.len()),
        Value::String(text) => format!("{:?}", shorten(text)),
        scalar => scalar.to_string(),
    }
}

impl<'j, 'a> JsonField<'j, 'a> {
    pub(super) fn new(place: &'j str, key: &'j str, value: Option<&'j Value>, arena: &'a Bump) -> Self {
        Self { place, key, value: value.filter(|v| !v.is_null()), arena }
    }

    pub(crate) fn is_absent(&self) -> bool {
        self.value.is_none()
    }

    /// The value itself.
    pub(super) fn present(&self) -> Result<&'j Value, JsonError> {
        self.value.ok_or_else(|| JsonError::Missing { place: self.place.to_owned(), key: self.key.to_owned() })
    }

    pub(super) fn wrong(&self, expected: impl Into<String>) -> JsonError {
        JsonError::Type {
            place: self.place.to_owned(),
            key: self.key.to_owned(),
            found: self.value.map_or_else(|| "absent".to_owned(), describe),
            expected: expected.into(),
        }
    }

    fn or_default<T: Default>(&self, read: impl FnOnce(&'j Value) -> Option<T>, expected: &str) -> Result<T, JsonError> {
        match self.value {
            None => Ok(T::default()),
            Some(value) => read(value).ok_or_else(|| self.wrong(expected)),
        }
    }

    pub(crate) fn i64(&self) -> Result<i64, JsonError> {
        self.or_default(Value::as_i64, "an integer of 64 bits")
    }

    pub(crate) fn i32(&self) -> Result<i32, JsonError> {
        self.or_default(|v| v.as_i64().and_then(|v| v.try_into().ok()), "an integer of 32 bits")
    }

    pub(super) fn required_i64(&self) -> Result<i64, JsonError> {
        self.present()?;
        self.i64()
    }

    pub(super) fn required_i32(&self) -> Result<i32, JsonError> {
        self.present()?;
        self.i32()
    }

    pub(super) fn u8(&self) -> Result<u8, JsonError> {
        self.present()?;
        self.or_default(|v| v.as_u64().and_then(|v| v.try_into().ok()), "an integer in 0..=255")
    }

    pub(super) fn f64(&self) -> Result<f64, JsonError> {
        self.present()?;
        self.or_default(Value::as_f64, "a number")
    }

    /// hipDNN prints an `f32` as the double nearest to it, so the nearest `f32` is what was meant.
    pub(crate) fn f32(&self) -> Result<f32, JsonError> {
        self.present()?;
        self.or_default(|v| v.as_f64().map(|v| v as f32).filter(|v| v.is_finite()), "a number within the range of a float")
    }

    pub(crate) fn bool(&self) -> Result<bool, JsonError> {
        self.or_default(Value::as_bool, "true or false")
    }

    /// A truth value that may be written as a number.
    pub(super) fn truth(&self) -> Result<bool, JsonError> {
        self.present()?;
        let read = |v: &Value| match v.as_u64() {
            Some(n @ (0 | 1)) => Some(n == 1),
            _ => v.as_bool(),
        };
        self.or_default(read, "true, false, 0 or 1")
    }

    pub(crate) fn text(&self) -> Result<&'a str, JsonError> {
        let text = self.or_default(Value::as_str, "a text")?;
        Ok(self.arena.alloc_str(text))
    }

    fn list<T: Copy>(&self, read: impl Fn(&Value) -> Option<T>, expected: &str) -> Result<&'a [T], JsonError> {
        let Some(value) = self.value else { return Ok(&[]) };
        let list = value.as_array().ok_or_else(|| self.wrong(format!("an array of {expected}")))?;
        let mut out = bumpalo::collections::Vec::with_capacity_in(list.len(), self.arena);
        for (i, value) in list.iter().enumerate() {
            out.push(read(value).ok_or_else(|| JsonError::Type {
                place: self.place.to_owned(),
                key: format!("{}[{i}]", self.key),
                found: describe(value),
                expected: expected.to_owned(),
            })?);
        }
        Ok(out.into_bump_slice())
    }

    pub(crate) fn i64s(&self) -> Result<&'a [i64], JsonError> {
        self.list(Value::as_i64, "integers of 64 bits")
    }

    pub(crate) fn i32s(&self) -> Result<&'a [i32], JsonError> {
        self.list(|v| v.as_i64().and_then(|v| v.try_into().ok()), "integers of 32 bits")
    }

    pub(crate) fn bytes(&self) -> Result<&'a [u8], JsonError> {
        self.list(|v| v.as_u64().and_then(|v| v.try_into().ok()), "integers in 0..=255")
    }

    /// An enum, spelled or as its wire number. Absent is the first value, which every enum of hipDNN keeps for "not stated".
    pub(crate) fn enumerated<T: Copy>(
        &self,
        kind: &'static str,
        all: &[T],
        from_name: impl Fn(&str) -> Option<T>,
        from_wire: impl Fn(i8) -> Option<T>,
        name: impl Fn(T) -> &'static str,
    ) -> Result<T, JsonError> {
        let unknown = |found: String| JsonError::UnknownSpelling {
            place: self.place.to_owned(),
            key: self.key.to_owned(),
            found,
            kind,
            expected: all.iter().map(|&v| name(v)).collect::<Vec<_>>().join(", "),
        };
        match self.value {
            None => all.first().copied().ok_or_else(|| unknown("absent".to_owned())),
            Some(Value::String(text)) => from_name(text).ok_or_else(|| unknown(shorten(text).into_owned())),
            Some(value) => {
                let number = value.as_i64().and_then(|n| i8::try_from(n).ok());
                number.and_then(from_wire).ok_or_else(|| unknown(describe(value)))
            }
        }
    }
}
