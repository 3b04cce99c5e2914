//! The number inside a by-value tensor.
//!
//! On the wire it is a union whose members are structs: slot 6 holds the tag, slot 7 an offset to the bare bytes of the
//! struct. Rust's generator refuses such a union, so this is its accessor, its verifier and its writer.
use flatbuffers::{Allocator, FlatBufferBuilder, UnionWIPOffset, WIPOffset};

use super::generated::{
    self, BFloat16Value, BoolValue, DataType, Float8Value, Float16Value, Float32Value, Float64Value, Int32Value, Int64Value,
    TensorAttributes,
};

/// A number of one of the eight kinds. Equal means equal in kind and in every bit, for floats too.
#[derive(Clone, Copy, Debug)]
pub enum TensorValue {
    /// An IEEE binary32.
    Float32(f32),
    /// A half, widened.
    Float16(f32),
    /// A bfloat16, widened.
    BFloat16(f32),
    /// The bits of an 8-bit float; the tensor's data type tells which format.
    Float8(u8),
    /// A signed 32-bit integer.
    Int32(i32),
    /// An IEEE binary64.
    Float64(f64),
    /// A signed 64-bit integer.
    Int64(i64),
    /// A truth value. A byte other than 0 and 1 is refused.
    Bool(bool),
}

impl TensorValue {
    /// The tag that stands for this kind on the wire.
    pub const fn tag(self) -> u8 {
        match self {
            Self::Float32(_) => 1,
            Self::Float16(_) => 2,
            Self::BFloat16(_) => 3,
            Self::Float8(_) => 4,
            Self::Int32(_) => 5,
            Self::Float64(_) => 6,
            Self::Int64(_) => 7,
            Self::Bool(_) => 8,
        }
    }

    /// Bytes that the value takes on the wire.
    pub const fn size(self) -> usize {
        match self {
            Self::Float8(_) | Self::Bool(_) => 1,
            Self::Float32(_) | Self::Float16(_) | Self::BFloat16(_) | Self::Int32(_) => 4,
            Self::Float64(_) | Self::Int64(_) => 8,
        }
    }

    /// Alignment of the value on the wire, counted from the start of the buffer.
    pub const fn align(self) -> usize {
        self.size()
    }

    /// The bytes of the value as one little-endian number, zeros above its size.
    pub const fn bits(self) -> u64 {
        match self {
            Self::Float32(value) | Self::Float16(value) | Self::BFloat16(value) => value.to_bits() as u64,
            Self::Float8(value) => value as u64,
            Self::Int32(value) => value.cast_unsigned() as u64,
            Self::Float64(value) => value.to_bits(),
            Self::Int64(value) => value.cast_unsigned(),
            Self::Bool(value) => value as u64,
        }
    }

    /// The value with this tag and these bits, as [`tag`](Self::tag) and [`bits`](Self::bits) give them; nothing for an
    /// unknown tag, for a bit above the value's size and for a truth value other than 0 and 1.
    pub fn from_tag_and_bits(tag: u8, bits: u64) -> Option<Self> {
        let byte = || u8::try_from(bits).ok();
        let word = || u32::try_from(bits).ok();
        match tag {
            1 => Some(Self::Float32(f32::from_bits(word()?))),
            2 => Some(Self::Float16(f32::from_bits(word()?))),
            3 => Some(Self::BFloat16(f32::from_bits(word()?))),
            4 => Some(Self::Float8(byte()?)),
            5 => Some(Self::Int32(word()?.cast_signed())),
            6 => Some(Self::Float64(f64::from_bits(bits))),
            7 => Some(Self::Int64(bits.cast_signed())),
            8 if bits <= 1 => Some(Self::Bool(bits == 1)),
            _ => None,
        }
    }
}

impl PartialEq for TensorValue {
    fn eq(&self, other: &Self) -> bool {
        self.tag() == other.tag() && self.bits() == other.bits()
    }
}

impl Eq for TensorValue {}

/// Why the value of a tensor cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorValueError {
    /// A kind that this reader does not know.
    #[error("value_type is {tag}: a newer writer's kind of value, known are 1 to 8")]
    UnknownTag {
        /// The tag found.
        tag: u8,
    },
    /// There is a tag and no value.
    #[error("value_type is {tag}, but there is no value")]
    MissingValue {
        /// The tag found.
        tag: u8,
    },
    /// There is a value and no tag.
    #[error("there is a value, but value_type is 0")]
    MissingTag,
    /// The offset leads to no value inside the buffer.
    #[error("value of value_type {tag}: no {size} bytes of the buffer are {offset} bytes behind its byte {field}")]
    OutOfBounds {
        /// The tag found.
        tag: u8,
        /// Where in the buffer the offset stands.
        field: usize,
        /// The offset.
        offset: u32,
        /// Bytes that a value with this tag takes.
        size: usize,
    },
    /// The value stands where none of its size may stand.
    #[error("value of value_type {tag}: it starts at byte {start} of the buffer, which is no multiple of {align}")]
    Misaligned {
        /// The tag found.
        tag: u8,
        /// Where in the buffer the value starts.
        start: usize,
        /// The alignment needed.
        align: usize,
    },
    /// A truth value is neither 0 nor 1.
    #[error("a truth value must be 0 or 1, found {byte}")]
    NotABool {
        /// The byte found.
        byte: u8,
    },
}

/// Reads and checks the value of a tensor; nothing when it has none.
///
/// `buf` is the buffer that the tensor was read from, from its first byte: offsets and alignment count from there. The
/// generated verifier checks neither the offset nor what it leads to, so everything is checked here.
pub fn read(buf: &[u8], tensor: &TensorAttributes<'_>) -> Result<Option<TensorValue>, TensorValueError> {
    let tag = tensor.value_type();
    let slot = usize::from(tensor._tab.vtable().get(TensorAttributes::VT_VALUE));
    let size = match tag {
        0 if slot == 0 => return Ok(None),
        0 => return Err(TensorValueError::MissingTag),
        4 | 8 => 1,
        1 | 2 | 3 | 5 => 4,
        6 | 7 => 8,
        _ => return Err(TensorValueError::UnknownTag { tag }),
    };
    if slot == 0 {
        return Err(TensorValueError::MissingValue { tag });
    }

    let field = tensor._tab.loc().saturating_add(slot);
    let offset = field
        .checked_add(size_of::<u32>())
        .and_then(|end| buf.get(field..end))
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_le_bytes);
    let out_of_bounds = TensorValueError::OutOfBounds { tag, field, offset, size };
    // An offset of 0 would make the offset its own value.
    let start = match usize::try_from(offset) {
        Ok(0) | Err(_) => return Err(out_of_bounds),
        Ok(offset) => field.checked_add(offset).ok_or(out_of_bounds)?,
    };
    let end = start.checked_add(size).ok_or(out_of_bounds)?;
    let bytes = buf.get(start..end).ok_or(out_of_bounds)?;
    if !start.is_multiple_of(size) {
        return Err(TensorValueError::Misaligned { tag, start, align: size });
    }

    let mut bits = [0; 8];
    for (to, &from) in bits.iter_mut().zip(bytes) {
        *to = from;
    }
    // The tag is known and nothing stands above the size: what is left to refuse is a truth value.
    let value = TensorValue::from_tag_and_bits(tag, u64::from_le_bytes(bits));
    value.map(Some).ok_or(TensorValueError::NotABool { byte: bits[0] })
}

/// Writes the bytes of a value and returns what a tensor stores in its slots 6 and 7: the tag, and the place that slot 7
/// must lead to. No table may be under construction.
///
/// The place becomes an offset when the table is written: it goes through `push_slot_always`, never through the `value`
/// of `TensorAttributesArgs`, which would store it as a plain number.
pub fn write<'bldr, A: Allocator + 'bldr>(fbb: &mut FlatBufferBuilder<'bldr, A>, value: TensorValue) -> (u8, WIPOffset<UnionWIPOffset>) {
    // The generated structs are pushed, not the numbers, because a number is aligned as on the machine at hand.
    let place = match value {
        TensorValue::Float32(value) => fbb.push(Float32Value::new(value)).as_union_value(),
        TensorValue::Float16(value) => fbb.push(Float16Value::new(value)).as_union_value(),
        TensorValue::BFloat16(value) => fbb.push(BFloat16Value::new(value)).as_union_value(),
        TensorValue::Float8(value) => fbb.push(Float8Value::new(value)).as_union_value(),
        TensorValue::Int32(value) => fbb.push(Int32Value::new(value)).as_union_value(),
        TensorValue::Float64(value) => fbb.push(Float64Value::new(value)).as_union_value(),
        TensorValue::Int64(value) => fbb.push(Int64Value::new(value)).as_union_value(),
        TensorValue::Bool(value) => fbb.push(BoolValue::new(value)).as_union_value(),
    };
    (value.tag(), place)
}

/// Everything that a tensor says on the wire. The default is a tensor that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorAttributesFields<'a> {
    /// Slot 0.
    pub uid: i64,
    /// Slot 1; empty and absent are the same.
    pub name: &'a str,
    /// Slot 2.
    pub data_type: DataType,
    /// Slot 3; empty and absent are the same.
    pub strides: &'a [i64],
    /// Slot 4; empty and absent are the same.
    pub dims: &'a [i64],
    /// Slot 5, `virtual`.
    pub is_virtual: bool,
    /// Slots 6 and 7.
    pub value: Option<TensorValue>,
    /// Slot 8.
    pub is_runtime_pass_by_value: bool,
    /// Slot 9.
    pub ragged_offset_tensor_uid: Option<i64>,
    /// Slot 10.
    pub alignment: i64,
    /// Slot 11.
    pub ragged_offset_multiplier: i64,
}

impl Default for TensorAttributesFields<'_> {
    fn default() -> Self {
        let generated::TensorAttributesArgs { alignment, ragged_offset_multiplier, .. } = Default::default();
        Self {
            uid: 0,
            name: "",
            data_type: DataType::UNSET,
            strides: &[],
            dims: &[],
            is_virtual: false,
            value: None,
            is_runtime_pass_by_value: false,
            ragged_offset_tensor_uid: None,
            alignment,
            ragged_offset_multiplier,
        }
    }
}

/// Writes a tensor as hipDNN does: what equals its default, and what is empty, is left out.
pub fn write_tensor_attributes<'bldr, A: Allocator + 'bldr>(
    fbb: &mut FlatBufferBuilder<'bldr, A>,
    fields: &TensorAttributesFields<'_>,
) -> WIPOffset<TensorAttributes<'bldr>> {
    let TensorAttributesFields {
        uid,
        name,
        data_type,
        strides,
        dims,
        is_virtual,
        value,
        is_runtime_pass_by_value,
        ragged_offset_tensor_uid,
        alignment,
        ragged_offset_multiplier,
    } = *fields;
    let default = TensorAttributesFields::default();

    let name = (!name.is_empty()).then(|| fbb.create_string(name));
    let strides = (!strides.is_empty()).then(|| fbb.create_vector(strides));
    let dims = (!dims.is_empty()).then(|| fbb.create_vector(dims));
    let value = value.map(|value| write(fbb, value));

    // Wide fields first, so that the table needs no padding between them.
    type T<'a> = TensorAttributes<'a>;
    let start = fbb.start_table();
    fbb.push_slot(T::VT_RAGGED_OFFSET_MULTIPLIER, ragged_offset_multiplier, default.ragged_offset_multiplier);
    fbb.push_slot(T::VT_ALIGNMENT, alignment, default.alignment);
    if let Some(uid) = ragged_offset_tensor_uid {
        fbb.push_slot_always(T::VT_RAGGED_OFFSET_TENSOR_UID, uid);
    }
    fbb.push_slot(T::VT_UID, uid, default.uid);
    if let Some((_, place)) = value {
        fbb.push_slot_always(T::VT_VALUE, place);
    }
    if let Some(dims) = dims {
        fbb.push_slot_always(T::VT_DIMS, dims);
    }
    if let Some(strides) = strides {
        fbb.push_slot_always(T::VT_STRIDES, strides);
    }
    if let Some(name) = name {
        fbb.push_slot_always(T::VT_NAME, name);
    }
    fbb.push_slot(T::VT_IS_RUNTIME_PASS_BY_VALUE, is_runtime_pass_by_value, default.is_runtime_pass_by_value);
    if let Some((tag, _)) = value {
        fbb.push_slot_always(T::VT_VALUE_TYPE, tag);
    }
    fbb.push_slot(T::VT_VIRTUAL_, is_virtual, default.is_virtual);
    fbb.push_slot(T::VT_DATA_TYPE, data_type, default.data_type);
    let end = fbb.end_table(start);
    WIPOffset::new(end.value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::generated::{Graph, GraphArgs};

    /// One value of each kind, the first three with bits that arithmetic would not keep.
    fn values() -> [TensorValue; 8] {
        [
            TensorValue::Float32(f32::from_bits(0x7fa0_1234)),
            TensorValue::Float16(-0.0),
            TensorValue::BFloat16(f32::from_bits(0xffc0_0001)),
            TensorValue::Float8(0x38),
            TensorValue::Int32(i32::MIN),
            TensorValue::Float64(f64::from_bits(0xfff0_0000_0000_0042)),
            TensorValue::Int64(i64::MIN + 1),
            TensorValue::Bool(true),
        ]
    }

    fn graph(tensors: &[TensorAttributesFields<'_>]) -> Vec<u8> {
        let mut fbb = FlatBufferBuilder::new();
        let tensors: Vec<_> = tensors.iter().map(|fields| write_tensor_attributes(&mut fbb, fields)).collect();
        let tensors = Some(fbb.create_vector(&tensors));
        let root = Graph::create(&mut fbb, &GraphArgs { tensors, ..Default::default() });
        fbb.finish_minimal(root);
        fbb.finished_data().to_vec()
    }

    fn of_value(value: TensorValue) -> TensorAttributesFields<'static> {
        TensorAttributesFields { value: Some(value), ..Default::default() }
    }

    /// What the first tensor of a graph that passes the verifier reads as.
    fn read_first(bytes: &[u8]) -> Result<Option<TensorValue>, TensorValueError> {
        read(bytes, &first(bytes))
    }

    fn first(bytes: &[u8]) -> TensorAttributes<'_> {
        flatbuffers::root::<Graph<'_>>(bytes).unwrap().tensors().unwrap().get(0)
    }

    /// Where in the buffer a field of the first tensor stands.
    fn place(bytes: &[u8], field: u16) -> usize {
        let table = first(bytes)._tab;
        match table.vtable().get(field) {
            0 => panic!("the field is absent"),
            slot => table.loc() + usize::from(slot),
        }
    }

    /// Where in the vtable of the first tensor a field has its entry.
    fn entry(bytes: &[u8], field: u16) -> usize {
        let loc = first(bytes)._tab.loc();
        let distance = i32::from_le_bytes(bytes[loc..loc + 4].try_into().unwrap());
        usize::try_from(i64::try_from(loc).unwrap() - i64::from(distance)).unwrap() + usize::from(field)
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn every_kind_survives_writing_and_reading() {
        // An odd number of bytes ahead of the value, so that its alignment is not there by luck.
        for name in ["", "x", "seven..", "eight..."] {
            for value in values() {
                let bytes = graph(&[TensorAttributesFields { name, ..of_value(value) }]);
                assert_eq!(read_first(&bytes), Ok(Some(value)));
            }
        }
        let all = values().map(of_value);
        let bytes = graph(&all);
        let tensors = flatbuffers::root::<Graph<'_>>(&bytes).unwrap().tensors().unwrap();
        assert!(tensors.iter().zip(values()).all(|(tensor, value)| read(&bytes, &tensor) == Ok(Some(value))));
    }

    #[test]
    fn every_field_survives_writing_and_reading() {
        let bytes = graph(&[TensorAttributesFields {
            uid: -7,
            name: "x",
            data_type: DataType::BOOLEAN,
            strides: &[6, 3, 1],
            dims: &[1, 2, 3],
            is_virtual: true,
            value: Some(TensorValue::Int64(5)),
            is_runtime_pass_by_value: true,
            ragged_offset_tensor_uid: Some(0),
            alignment: 64,
            ragged_offset_multiplier: 3,
        }]);
        let tensor = first(&bytes);
        assert_eq!(tensor.uid(), -7);
        assert_eq!(tensor.name(), Some("x"));
        assert_eq!(tensor.data_type(), DataType::BOOLEAN);
        assert!(tensor.strides().unwrap().iter().eq([6, 3, 1]));
        assert!(tensor.dims().unwrap().iter().eq([1, 2, 3]));
        assert!(tensor.virtual_());
        assert_eq!(read(&bytes, &tensor), Ok(Some(TensorValue::Int64(5))));
        assert!(tensor.is_runtime_pass_by_value());
        assert_eq!(tensor.ragged_offset_tensor_uid(), Some(0));
        assert_eq!(tensor.alignment(), 64);
        assert_eq!(tensor.ragged_offset_multiplier(), 3);
    }

    #[test]
    fn what_is_default_or_empty_is_left_out() {
        let bytes = graph(&[TensorAttributesFields::default()]);
        assert_eq!(first(&bytes)._tab.vtable().num_bytes(), 4);
        assert_eq!(read_first(&bytes), Ok(None));
    }

    #[test]
    fn a_value_that_equals_zero_is_not_left_out() {
        for value in [TensorValue::Float32(0.0), TensorValue::Int64(0), TensorValue::Bool(false)] {
            assert_eq!(read_first(&graph(&[of_value(value)])), Ok(Some(value)));
        }
    }

    #[test]
    fn tag_and_bits_are_the_whole_value() {
        for value in values() {
            assert_eq!(TensorValue::from_tag_and_bits(value.tag(), value.bits()), Some(value));
            if value.size() < 8 {
                let above = 1 << (8 * value.size());
                assert_eq!(TensorValue::from_tag_and_bits(value.tag(), value.bits() | above), None);
            }
        }
        for (tag, bits) in [(0, 0), (8, 2), (9, 0), (255, 0)] {
            assert_eq!(TensorValue::from_tag_and_bits(tag, bits), None);
        }
    }

    #[test]
    fn equality_is_of_kind_and_bits() {
        assert_eq!(TensorValue::Float32(f32::NAN), TensorValue::Float32(f32::NAN));
        assert_ne!(TensorValue::Float32(0.0), TensorValue::Float32(-0.0));
        assert_ne!(TensorValue::Float32(1.0), TensorValue::Float16(1.0));
    }

    /// What `flatc --binary schemas/graph.fbs` makes of
    ///
    /// ```json
    /// {"tensors": [
    ///   {"value_type": "Float32Value", "value": {"value": -1.5}},
    ///   {"value_type": "Float16Value", "value": {"value": 0.5}},
    ///   {"value_type": "BFloat16Value", "value": {"value": 2.0}},
    ///   {"value_type": "Float8Value", "value": {"value": 56}},
    ///   {"value_type": "Int32Value", "value": {"value": -2}},
    ///   {"value_type": "Float64Value", "value": {"value": 1e300}},
    ///   {"value_type": "Int64Value", "value": {"value": -3}},
    ///   {"value_type": "BoolValue", "value": {"value": true}},
    ///   {"uid": 9}]}
    /// ```
    const BY_FLATC: &str = "
        1400000000000e000800000000000000000004000e0000000400000009000000e0000000b8000000
        a400000090000000680000005000000034000000200000000c000000000006001000040006000000
        090000000000000000000000b4ffffff00000008070000000000000180ffffff0000000704000000
        fdffffffffffffff0000000098ffffff00000006040000009c7500883ce4377eacffffff00000005
        04000000feffffff14000f0000000000000000000000000007000800140000000000000407000000
        00000038e0ffffff000000030400000000000040f0ffffff00000002040000000000003f14000c00
        000000000000000000000000070008001400000000000001040000000000c0bf";

    #[test]
    fn what_flatc_writes_is_read() {
        let bytes = hex(BY_FLATC);
        let tensors = flatbuffers::root::<Graph<'_>>(&bytes).unwrap().tensors().unwrap();
        let found: Vec<_> = tensors.iter().map(|tensor| read(&bytes, &tensor)).collect();
        let expected = [
            Ok(Some(TensorValue::Float32(-1.5))),
            Ok(Some(TensorValue::Float16(0.5))),
            Ok(Some(TensorValue::BFloat16(2.0))),
            Ok(Some(TensorValue::Float8(0x38))),
            Ok(Some(TensorValue::Int32(-2))),
            Ok(Some(TensorValue::Float64(1e300))),
            Ok(Some(TensorValue::Int64(-3))),
            Ok(Some(TensorValue::Bool(true))),
            Ok(None),
        ];
        assert_eq!(found, expected);
        assert_eq!(tensors.get(8).uid(), 9);
    }

    #[test]
    fn every_fault_has_its_error() {
        let good = graph(&[of_value(TensorValue::Int32(5))]);
        let tag = place(&good, TensorAttributes::VT_VALUE_TYPE);
        let field = place(&good, TensorAttributes::VT_VALUE);

        let mut bytes = good.clone();
        bytes[tag] = 9;
        assert_eq!(read_first(&bytes), Err(TensorValueError::UnknownTag { tag: 9 }));
        bytes[tag] = 255;
        assert_eq!(read_first(&bytes), Err(TensorValueError::UnknownTag { tag: 255 }));
        bytes[tag] = 0;
        assert_eq!(read_first(&bytes), Err(TensorValueError::MissingTag));
        bytes[tag] = 8;
        assert_eq!(read_first(&bytes), Err(TensorValueError::NotABool { byte: 5 }));

        let mut bytes = good.clone();
        let at = entry(&good, TensorAttributes::VT_VALUE_TYPE);
        bytes[at..at + 2].fill(0);
        assert_eq!(read_first(&bytes), Err(TensorValueError::MissingTag));

        let mut bytes = good.clone();
        let at = entry(&good, TensorAttributes::VT_VALUE);
        bytes[at..at + 2].fill(0);
        assert_eq!(read_first(&bytes), Err(TensorValueError::MissingValue { tag: 5 }));

        let rest = u32::try_from(good.len() - field).unwrap();
        for offset in [0, rest - 3, rest, i32::MAX as u32, u32::MAX] {
            let mut bytes = good.clone();
            bytes[field..field + 4].copy_from_slice(&offset.to_le_bytes());
            let error = TensorValueError::OutOfBounds { tag: 5, field, offset, size: 4 };
            assert_eq!(read_first(&bytes), Err(error));
        }

        let mut bytes = good.clone();
        bytes[field] = 2;
        assert_eq!(read_first(&bytes), Err(TensorValueError::Misaligned { tag: 5, start: field + 2, align: 4 }));
    }

    #[test]
    fn a_buffer_that_is_not_the_tensors_is_survived() {
        let bytes = graph(&[of_value(TensorValue::Int64(5))]);
        for end in 0..bytes.len() {
            assert!(matches!(read(&bytes[..end], &first(&bytes)), Err(TensorValueError::OutOfBounds { .. }) | Ok(_)));
        }
    }

    #[test]
    fn no_changed_byte_makes_reading_panic() {
        for good in [hex(BY_FLATC), graph(&values().map(of_value))] {
            for at in 0..good.len() {
                for change in 1..=u8::MAX {
                    let mut bytes = good.clone();
                    bytes[at] ^= change;
                    let Ok(graph) = flatbuffers::root::<Graph<'_>>(&bytes) else {
                        continue;
                    };
                    for tensor in graph.tensors().iter().flatten() {
                        _ = read(&bytes, &tensor);
                    }
                }
            }
        }
    }
}
