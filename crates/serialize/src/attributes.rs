//! hipDNN's numbered tensor attributes of by-value tensors, as its C API reads and writes them (R16 §4.1).
//!
//! Two things are stored: the value (1306) and the runtime flag (1308). Whether there is a value (1307) is derived, so that no second
//! discriminator can disagree with the two. The umbrella question, whether a tensor is passed by value in *any* state, has no number:
//! it is [`TensorAttributes::get_is_pass_by_value`] and [`TensorView::is_by_value`]. For a user-supplied runtime scalar the two
//! differ by design: 1307 is false (there is no value to read), the umbrella is true.

use crate::builder::TensorAttributes;
use crate::graph::TensorView;
use crate::wire::tensor_value::TensorValue;

/// A numbered attribute of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum TensorAttribute {
    /// `HIPDNN_ATTR_TENSOR_VALUE_EXT`, also called `HIPDNN_ATTR_TENSOR_CONSTANT_VALUE`: the stored value, whatever the flag.
    Value = 1306,
    /// `HIPDNN_ATTR_TENSOR_IS_BY_VALUE`: a value is stored. Read-only.
    IsByValue = 1307,
    /// `HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT`: the stored runtime flag.
    IsRuntimePassByValue = 1308,
}

impl TensorAttribute {
    /// The other name of [`Value`](Self::Value).
    pub const CONSTANT_VALUE: Self = Self::Value;
    /// All of them, ascending by number.
    pub const ALL: &'static [Self] = &[Self::Value, Self::IsByValue, Self::IsRuntimePassByValue];

    /// hipDNN's number.
    pub const fn id(self) -> i32 {
        self as i32
    }

    /// The attribute with this number.
    ///
    /// # Errors
    /// [`AttributeError::Unknown`].
    pub const fn from_id(id: i32) -> Result<Self, AttributeError> {
        match id {
            1306 => Ok(Self::Value),
            1307 => Ok(Self::IsByValue),
            1308 => Ok(Self::IsRuntimePassByValue),
            _ => Err(AttributeError::Unknown { id }),
        }
    }

    /// hipDNN's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Value => "HIPDNN_ATTR_TENSOR_VALUE_EXT",
            Self::IsByValue => "HIPDNN_ATTR_TENSOR_IS_BY_VALUE",
            Self::IsRuntimePassByValue => "HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT",
        }
    }
}

/// What an attribute holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Of [`TensorAttribute::Value`]; none when no value is stored, which the C API reports as a count of 0 elements.
    Scalar(Option<TensorValue>),
    /// Of the other two.
    Flag(bool),
}

impl AttributeValue {
    const fn what(self) -> &'static str {
        match self {
            Self::Scalar(_) => "a scalar",
            Self::Flag(_) => "a flag",
        }
    }
}

impl From<bool> for AttributeValue {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<TensorValue> for AttributeValue {
    fn from(value: TensorValue) -> Self {
        Self::Scalar(Some(value))
    }
}

/// Why an attribute cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum AttributeError {
    /// No attribute has this number.
    #[error("tensor attribute {id} is unknown; known are 1306 (value), 1307 (is by value) and 1308 (is runtime pass-by-value)")]
    Unknown { id: i32 },
    /// Derived, not stored.
    #[error(
        "tensor attribute {} ({}) is read-only, because it is derived from whether a value is stored; \
         set 1306 (value) or 1308 (runtime flag) instead",
        .attribute.id(), .attribute.name()
    )]
    ReadOnly { attribute: TensorAttribute },
    /// A scalar for a flag, or a flag for a scalar.
    #[error("tensor attribute {} ({}) is {expected}; found {found}", .attribute.id(), .attribute.name())]
    Type { attribute: TensorAttribute, found: &'static str, expected: &'static str },
}

/// What the two stored things say, by attribute.
const fn get(attribute: TensorAttribute, value: Option<TensorValue>, is_runtime: bool) -> AttributeValue {
    match attribute {
        TensorAttribute::Value => AttributeValue::Scalar(value),
        TensorAttribute::IsByValue => AttributeValue::Flag(value.is_some()),
        TensorAttribute::IsRuntimePassByValue => AttributeValue::Flag(is_runtime),
    }
}

impl TensorAttributes {
    /// Reads an attribute by hipDNN's number.
    ///
    /// # Errors
    /// [`AttributeError::Unknown`].
    pub fn get_attribute(&self, id: i32) -> Result<AttributeValue, AttributeError> {
        Ok(get(TensorAttribute::from_id(id)?, self.get_value_variant(), self.get_is_runtime_pass_by_value()))
    }

    /// Writes an attribute by hipDNN's number, and nothing else: 1306 keeps the flag, type and dims, 1308 keeps the value. So the
    /// order in which a tensor's attributes are copied does not matter. An empty scalar changes nothing, as in the setters of R16 §4.3.
    ///
    /// # Errors
    /// An unknown number, a read-only attribute, or a value of the wrong kind; the tensor is then as it was.
    pub fn set_attribute(&mut self, id: i32, value: AttributeValue) -> Result<(), AttributeError> {
        let attribute = TensorAttribute::from_id(id)?;
        let wrong = |expected| Err(AttributeError::Type { attribute, found: value.what(), expected });
        match (attribute, value) {
            (TensorAttribute::IsByValue, _) => Err(AttributeError::ReadOnly { attribute }),
            (TensorAttribute::Value, AttributeValue::Scalar(scalar)) => {
                if scalar.is_some() {
                    self.set_raw_value(scalar);
                }
                Ok(())
            }
            (TensorAttribute::IsRuntimePassByValue, AttributeValue::Flag(flag)) => {
                self.set_is_pass_by_value(flag);
                Ok(())
            }
            (TensorAttribute::Value, AttributeValue::Flag(_)) => wrong("a scalar"),
            (TensorAttribute::IsRuntimePassByValue, AttributeValue::Scalar(_)) => wrong("a flag"),
        }
    }
}

impl TensorView<'_> {
    /// Reads an attribute by hipDNN's number.
    ///
    /// # Errors
    /// [`AttributeError::Unknown`].
    pub fn get_attribute(&self, id: i32) -> Result<AttributeValue, AttributeError> {
        Ok(get(TensorAttribute::from_id(id)?, self.value, self.is_runtime))
    }
}
