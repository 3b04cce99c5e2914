//! The kinds of fields that operations have, and how each goes from and to every form.
//!
//! One implementation of [`Field`] per kind serves all operations: FlatBuffers, canonical encoding and JSON, each
//! in and out.

use super::Uid;
use crate::canon::{DecodeError, Decoder, Encoder};
use crate::json::{self, JsonError, JsonField, NotFinite};
use crate::wire::generated as wire;
use flatbuffers::{FlatBufferBuilder, Vector, WIPOffset};
use serde_json::Value;

/// A value on the wire that the closed types of this crate cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireValueError {
    /// A number that no variant of the enum has.
    UnknownEnum { number: i8, kind: &'static str },
    /// The buffer's base is not aligned.
    Misaligned,
}

/// One field of an operation.
pub(crate) trait Field<'a>: Sized {
    /// What the generated accessor returns.
    type Wire;
    /// What the generated `Args` struct takes.
    type Write<'f>;

    fn from_wire(wire: Self::Wire) -> Result<Self, WireValueError>;
    fn to_wire<'f>(&self, fbb: &mut FlatBufferBuilder<'f>) -> Self::Write<'f>;
    fn encode(&self, out: &mut Encoder<'_>);
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError>;
    fn from_json(json: &JsonField<'_, 'a>) -> Result<Self, JsonError>;
    /// The value in hipDNN's JSON, null when absent; enums are numbers where `numbers` says so.
    fn to_json(&self, numbers: bool) -> Result<Value, NotFinite>;

    /// Whether the field states nothing: hipDNN's writer then leaves out the keys that its reader can do without. A truth value
    /// always states something.
    fn is_unstated(&self) -> bool;

    /// Bytes that its JSON takes at least, where that has no small bound.
    fn least_text(&self) -> usize {
        0
    }

    /// Calls `f` with every tensor uid in the field, where the field is an operand.
    fn uids(&self, f: &mut impl FnMut(Uid)) {
        let _ = f;
    }
}

/// A field that is stored as itself: what the accessor returns is what `Args` takes.
macro_rules! plain_field {
    ($($ty:ty: $encode:ident, $decode:ident, $json:ident, $to_json:expr, $unstated:expr;)+) => { $(
        impl<'a> Field<'a> for $ty {
            type Wire = $ty;
            type Write<'f> = $ty;

            fn from_wire(wire: $ty) -> Result<Self, WireValueError> {
                Ok(wire)
            }

            fn to_wire<'f>(&self, _: &mut FlatBufferBuilder<'f>) -> $ty {
                *self
            }

            fn encode(&self, out: &mut Encoder<'_>) {
                out.$encode(*self);
            }

            fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
                from.$decode()
            }

            fn from_json(json: &JsonField<'_, 'a>) -> Result<Self, JsonError> {
                json.$json()
            }

            fn to_json(&self, _: bool) -> Result<Value, NotFinite> {
                $to_json(*self)
            }

            fn is_unstated(&self) -> bool {
                $unstated(*self)
            }
        }

        impl<'a> Field<'a> for Option<$ty> {
            type Wire = Option<$ty>;
            type Write<'f> = Option<$ty>;

            fn from_wire(wire: Self) -> Result<Self, WireValueError> {
                Ok(wire)
            }

            fn to_wire<'f>(&self, _: &mut FlatBufferBuilder<'f>) -> Self {
                *self
            }

            fn encode(&self, out: &mut Encoder<'_>) {
                out.presence(self.is_some());
                if let Some(value) = self {
                    out.$encode(*value);
                }
            }

            fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
                if from.presence()? { from.$decode().map(Some) } else { Ok(None) }
            }

            fn from_json(json: &JsonField<'_, 'a>) -> Result<Self, JsonError> {
                if json.is_absent() { Ok(None) } else { json.$json().map(Some) }
            }

            fn to_json(&self, _: bool) -> Result<Value, NotFinite> {
                self.map_or(Ok(Value::Null), $to_json)
            }

            fn is_unstated(&self) -> bool {
                self.is_none()
            }
        }
    )+ };
}

fn exact<T: Into<Value>>(value: T) -> Result<Value, NotFinite> {
    Ok(value.into())
}

plain_field! {
    i64: i64, i64, i64, exact, |v| v == 0;
    i32: i32, i32, i32, exact, |v| v == 0;
    f32: f32, f32, f32, json::number, |v| v == 0.0;
    bool: bool, bool, bool, exact, |_| false;
}

impl<'a> Field<'a> for Uid {
    type Wire = i64;
    type Write<'f> = i64;

    fn from_wire(wire: i64) -> Result<Self, WireValueError> {
        Ok(Self(wire))
    }

    fn to_wire<'f>(&self, _: &mut FlatBufferBuilder<'f>) -> i64 {
        self.0
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        out.operand(*self);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        from.operand()
    }

    fn from_json(json: &JsonField<'_, 'a>) -> Result<Self, JsonError> {
        json.i64().map(Self)
    }

    fn to_json(&self, _: bool) -> Result<Value, NotFinite> {
        exact(self.0)
    }

    fn is_unstated(&self) -> bool {
        self.0 == 0
    }

    fn uids(&self, f: &mut impl FnMut(Uid)) {
        f(*self);
    }
}

impl<'a> Field<'a> for Option<Uid> {
    type Wire = Option<i64>;
    type Write<'f> = Option<i64>;

    fn from_wire(wire: Option<i64>) -> Result<Self, WireValueError> {
        Ok(wire.map(Uid))
    }

    fn to_wire<'f>(&self, _: &mut FlatBufferBuilder<'f>) -> Option<i64> {
        self.map(|uid| uid.0)
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        out.presence(self.is_some());
        if let Some(uid) = self {
            out.operand(*uid);
        }
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        if from.presence()? { from.operand().map(Some) } else { Ok(None) }
    }

    fn from_json(json: &JsonField<'_, 'a>) -> Result<Self, JsonError> {
        if json.is_absent() { Ok(None) } else { Uid::from_json(json).map(Some) }
    }

    fn to_json(&self, _: bool) -> Result<Value, NotFinite> {
        exact(self.map(|uid| uid.0))
    }

    fn is_unstated(&self) -> bool {
        self.is_none()
    }

    fn uids(&self, f: &mut impl FnMut(Uid)) {
        if let Some(uid) = self {
            f(*uid);
        }
    }
}

/// The elements of a vector, read in place. An absent vector is an empty one, as in hipDNN.
pub(crate) fn slice<'a, W, T: bytemuck::AnyBitPattern>(wire: Option<Vector<'a, W>>) -> Result<&'a [T], WireValueError> {
    match wire.map_or(&[][..], |v| v.bytes()) {
        [] => Ok(&[]),
        bytes => bytemuck::try_cast_slice(bytes).map_err(|_| WireValueError::Misaligned),
    }
}

macro_rules! slice_field {
    ($($ty:ty: $wire:ty, $encode:ident, $decode:ident, $json:ident;)+) => { $(
        impl<'a> Field<'a> for &'a [$ty] {
            type Wire = Option<Vector<'a, $wire>>;
            type Write<'f> = Option<WIPOffset<Vector<'f, $wire>>>;

            fn from_wire(wire: Self::Wire) -> Result<Self, WireValueError> {
                slice(wire)
            }

            fn to_wire<'f>(&self, fbb: &mut FlatBufferBuilder<'f>) -> Self::Write<'f> {
                (!self.is_empty()).then(|| fbb.create_vector(bytemuck::cast_slice::<$ty, $wire>(self)))
            }

            fn encode(&self, out: &mut Encoder<'_>) {
                out.$encode(self);
            }

            fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
                from.$decode()
            }

            fn from_json(json: &JsonField<'_, 'a>) -> Result<Self, JsonError> {
                json.$json()
            }

            fn to_json(&self, _: bool) -> Result<Value, NotFinite> {
                exact(*self)
            }

            fn is_unstated(&self) -> bool {
                self.is_empty()
            }

            fn least_text(&self) -> usize {
                self.len().saturating_mul(2)
            }
        }
    )+ };
}

slice_field! {
    i64: i64, i64s, i64s, i64s;
    i32: i32, i32s, i32s, i32s;
    u8: u8, bytes, bytes, bytes;
}

impl<'a> Field<'a> for &'a [Uid] {
    type Wire = Option<Vector<'a, i64>>;
    type Write<'f> = Option<WIPOffset<Vector<'f, i64>>>;

    fn from_wire(wire: Self::Wire) -> Result<Self, WireValueError> {
        slice(wire)
    }

    fn to_wire<'f>(&self, fbb: &mut FlatBufferBuilder<'f>) -> Self::Write<'f> {
        (!self.is_empty()).then(|| fbb.create_vector(bytemuck::cast_slice::<Uid, i64>(self)))
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        out.operands(self);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        from.operands()
    }

    fn from_json(json: &JsonField<'_, 'a>) -> Result<Self, JsonError> {
        json.i64s().map(bytemuck::cast_slice)
    }

    fn to_json(&self, _: bool) -> Result<Value, NotFinite> {
        exact(bytemuck::cast_slice::<Uid, i64>(self))
    }

    fn is_unstated(&self) -> bool {
        self.is_empty()
    }

    fn least_text(&self) -> usize {
        self.len().saturating_mul(2)
    }

    fn uids(&self, f: &mut impl FnMut(Uid)) {
        self.iter().copied().for_each(f);
    }
}

impl<'a> Field<'a> for &'a str {
    type Wire = Option<&'a str>;
    type Write<'f> = Option<WIPOffset<&'f str>>;

    fn from_wire(wire: Self::Wire) -> Result<Self, WireValueError> {
        Ok(wire.unwrap_or_default())
    }

    fn to_wire<'f>(&self, fbb: &mut FlatBufferBuilder<'f>) -> Self::Write<'f> {
        (!self.is_empty()).then(|| fbb.create_string(self))
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        out.bytes(self.as_bytes());
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        from.text()
    }

    fn from_json(json: &JsonField<'_, 'a>) -> Result<Self, JsonError> {
        json.text()
    }

    fn to_json(&self, _: bool) -> Result<Value, NotFinite> {
        exact(*self)
    }

    fn is_unstated(&self) -> bool {
        self.is_empty()
    }

    fn least_text(&self) -> usize {
        self.len()
    }
}

macro_rules! enum_field {
    ($($name:ident),+) => { $(
        impl<'a> Field<'a> for crate::$name {
            type Wire = wire::$name;
            type Write<'f> = wire::$name;

            fn from_wire(wire: wire::$name) -> Result<Self, WireValueError> {
                Self::from_wire(wire.0).ok_or(WireValueError::UnknownEnum { number: wire.0, kind: stringify!($name) })
            }

            fn to_wire<'f>(&self, _: &mut FlatBufferBuilder<'f>) -> wire::$name {
                wire::$name(crate::$name::to_wire(*self))
            }

            fn encode(&self, out: &mut Encoder<'_>) {
                out.i8(crate::$name::to_wire(*self));
            }

            fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
                let number = from.i8()?;
                Self::from_wire(number).ok_or(DecodeError::Enum { kind: stringify!($name), number })
            }

            fn from_json(json: &JsonField<'_, 'a>) -> Result<Self, JsonError> {
                json.enumerated(stringify!($name), Self::ALL, Self::from_name, Self::from_wire, Self::name)
            }

            fn to_json(&self, numbers: bool) -> Result<Value, NotFinite> {
                if numbers { exact(crate::$name::to_wire(*self)) } else { exact(self.name()) }
            }

            fn is_unstated(&self) -> bool {
                crate::$name::to_wire(*self) == 0
            }
        }
    )+ };
}

enum_field!(
    ConvMode,
    PointwiseMode,
    NormFwdPhase,
    ReductionMode,
    ResampleMode,
    PaddingMode,
    DiagonalAlignment,
    AttentionImplementation,
    MoeGroupedMatmulMode,
    DataType
);
