//! Canonical encoding to graph.

use super::{MAGIC, VERSION, flag};
use crate::builder::{GraphBuilder, TensorAttributes};
use crate::graph::GraphBuf;
use crate::wire::tensor_value::TensorValue;
use crate::{DataType, GraphError, Limits, Op, OpKind, Uid};
use bumpalo::Bump;

/// Why bytes are not a canonical encoding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum DecodeError {
    /// The first eight bytes are not an encoding's.
    #[error("canonical encoding: magic is {found:02x?}, not an encoding's")]
    Magic { found: Vec<u8> },
    /// Another version.
    #[error("canonical encoding: version {found}, this hipplan reads {VERSION}")]
    Version { found: u32 },
    /// The bytes end early.
    #[error("canonical encoding: {wanted} bytes wanted at byte {at}, {left} left")]
    End { at: usize, wanted: usize, left: usize },
    /// Bytes are left over.
    #[error("canonical encoding: {left} bytes left behind {place}")]
    Trailing { place: &'static str, left: usize },
    /// A number that a field cannot hold.
    #[error("canonical encoding: {field} is {found} at byte {at}")]
    Value { field: &'static str, found: u64, at: usize },
    /// An enum holds a number that nobody assigned.
    #[error("canonical encoding: {number} is no {kind}")]
    Enum { kind: &'static str, number: i8 },
    /// A graph, but not as this graph is encoded.
    #[error("canonical encoding: the graph that it spells has another encoding")]
    NotCanonical,
    /// The decoded graph is refused.
    #[error("canonical encoding: {0}")]
    Graph(GraphError),
}

impl From<GraphError> for DecodeError {
    fn from(error: GraphError) -> Self {
        Self::Graph(error)
    }
}

/// Takes fields off the front. Lists are copied into the arena, because records are not aligned.
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    /// Position of `bytes` in the encoding, for messages.
    at: usize,
    arena: &'a Bump,
    /// What the tensors are called, where that is not by ordinal.
    author: Author<'a>,
}

/// The uid and name that somebody gives to a tensor, by canonical ordinal; where there is none, the ordinal is the uid.
type Author<'a> = &'a dyn Fn(u32) -> Option<(Uid, String)>;

impl<'a> Decoder<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.bytes.split_at_checked(n).ok_or(DecodeError::End { at: self.at, wanted: n, left: self.bytes.len() })?;
        self.bytes = tail;
        self.at = self.at.saturating_add(n);
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.bytes.split_first_chunk().ok_or(DecodeError::End { at: self.at, wanted: N, left: self.bytes.len() })?;
        self.bytes = tail;
        self.at = self.at.saturating_add(N);
        Ok(*head)
    }

    pub(crate) fn i8(&mut self) -> Result<i8, DecodeError> {
        self.array().map(i8::from_le_bytes)
    }

    fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn f32(&mut self) -> Result<f32, DecodeError> {
        self.u32().map(f32::from_bits)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, DecodeError> {
        let at = self.at;
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(DecodeError::Value { field: "a truth value", found: found.into(), at }),
        }
    }

    pub(crate) fn presence(&mut self) -> Result<bool, DecodeError> {
        self.bool()
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let at = self.at;
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Value { field: "text outside UTF-8", found: 0, at })
    }

    fn list<T: bytemuck::Pod>(&mut self, n: usize) -> Result<&'a [T], DecodeError> {
        let size = n.checked_mul(size_of::<T>()).ok_or(DecodeError::End { at: self.at, wanted: n, left: self.bytes.len() })?;
        let bytes = self.take(size)?;
        Ok(self.arena.alloc_slice_fill_iter(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)))
    }

    pub(crate) fn i64s(&mut self) -> Result<&'a [i64], DecodeError> {
        let n = self.u32()? as usize;
        self.list(n)
    }

    pub(crate) fn i32s(&mut self) -> Result<&'a [i32], DecodeError> {
        let n = self.u32()? as usize;
        self.list(n)
    }

    pub(crate) fn operand(&mut self) -> Result<Uid, DecodeError> {
        self.u32().map(|ordinal| self.uid(ordinal))
    }

    pub(crate) fn operands(&mut self) -> Result<&'a [Uid], DecodeError> {
        let n = self.u32()? as usize;
        let ordinals: &[u32] = self.list(n)?;
        Ok(self.arena.alloc_slice_fill_iter(ordinals.iter().map(|&ordinal| self.uid(ordinal))))
    }

    fn uid(&self, ordinal: u32) -> Uid {
        (self.author)(ordinal).map_or(Uid(ordinal.into()), |(uid, _)| uid)
    }

    /// A record behind its length; all of it must be used.
    fn record<T>(&mut self, place: &'static str, body: impl FnOnce(&mut Self) -> Result<T, DecodeError>) -> Result<T, DecodeError> {
        let n = self.u32()? as usize;
        let at = self.at;
        let mut inner = Decoder { bytes: self.take(n)?, at, arena: self.arena, author: self.author };
        let value = body(&mut inner)?;
        inner.end(place)?;
        Ok(value)
    }

    fn end(&self, place: &'static str) -> Result<(), DecodeError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(DecodeError::Trailing { place, left: self.bytes.len() }) }
    }

    fn tensor(&mut self, ordinal: u32) -> Result<TensorAttributes, DecodeError> {
        let number = self.i8()?;
        let dtype = DataType::from_wire(number).ok_or(DecodeError::Enum { kind: "DataType", number })?;
        let (at, flags) = (self.at, self.u8()?);
        if flags & !(flag::VIRTUAL | flag::RUNTIME | flag::VALUE | flag::RAGGED) != 0 {
            return Err(DecodeError::Value { field: "tensor flags", found: flags.into(), at });
        }
        let (tag, rank) = (self.u8()?, usize::from(self.u8()?));
        let mut tensor = TensorAttributes::new();
        let (uid, name) = (self.author)(ordinal).unwrap_or((Uid(ordinal.into()), String::new()));
        tensor.set_uid(uid).set_name(name).set_data_type(dtype).set_virtual(flags & flag::VIRTUAL != 0);
        tensor.set_alignment(self.i64()?).set_ragged_multiplier(self.i64()?);
        if flags & flag::VALUE != 0 {
            let (at, bits) = (self.at, u64::from_le_bytes(self.array()?));
            let value = TensorValue::from_tag_and_bits(tag, bits).ok_or(DecodeError::Value { field: "a tensor value", found: bits, at })?;
            tensor.set_raw_value(Some(value));
        } else if tag != 0 {
            return Err(DecodeError::Value { field: "value tag without a value", found: tag.into(), at });
        }
        tensor.set_is_pass_by_value(flags & flag::RUNTIME != 0);
        if flags & flag::RAGGED != 0 {
            tensor.set_ragged_offset(Some(self.operand()?));
        }
        tensor.set_dims(self.list(rank)?).set_strides(self.list(rank)?);
        Ok(tensor)
    }
}

/// The graph that an encoding stands for; its uids are the canonical ordinals and its names are empty.
///
/// # Errors
/// The first thing that is wrong with the bytes, or with the graph that they spell.
pub fn decode(encoding: &[u8], limits: &Limits) -> Result<GraphBuf, DecodeError> {
    decode_as(encoding, limits, &|_| None)
}

/// Whether an encoding says that its graph has opted in to execute-time shapes. Nothing else of it is looked at, and what is no encoding
/// has not.
pub fn is_override_shape_enabled(encoding: &[u8]) -> bool {
    let head = encoding.strip_prefix(&MAGIC).and_then(|rest| rest.strip_prefix(&VERSION.to_le_bytes()));
    head.and_then(|rest| rest.first_chunk()).is_some_and(|flags| u32::from_le_bytes(*flags) == 1)
}

/// [`decode`], with tensors that have the uids and names which `author` gives by canonical ordinal, in the order of their ordinals. A
/// tensor that it does not know has its ordinal as its uid.
///
/// # Errors
/// As [`decode`]; also uids that are not unique.
pub fn decode_as(encoding: &[u8], limits: &Limits, author: Author<'_>) -> Result<GraphBuf, DecodeError> {
    if encoding.len() as u64 > limits.bytes() {
        let what = "the encoding's size in bytes".into();
        let (found, limit) = (encoding.len() as u64, limits.bytes());
        return Err(GraphError::Limit { what, found, limit_name: "max_bytes", limit }.into());
    }
    let arena = Bump::new();
    let mut from = Decoder { bytes: encoding, at: 0, arena: &arena, author };
    let magic = from.take(MAGIC.len())?;
    if magic != MAGIC {
        return Err(DecodeError::Magic { found: magic.to_vec() });
    }
    let version = from.u32()?;
    if version != VERSION {
        return Err(DecodeError::Version { found: version });
    }
    let mut graph = GraphBuilder::new();
    let (at, flags) = (from.at, from.u32()?);
    match flags {
        0 | 1 => graph.set_override_shape_enabled(flags == 1),
        _ => return Err(DecodeError::Value { field: "graph flags", found: flags.into(), at }),
    };
    for ordinal in 0..from.u32()? {
        let tensor = from.record("a tensor record", |from| from.tensor(ordinal))?;
        graph.tensor(tensor);
    }
    for _ in 0..from.u32()? {
        from.record("a node record", |from| {
            let (at, tag) = (from.at, from.u8()?);
            let kind = OpKind::from_tag(tag).ok_or(DecodeError::Value { field: "an operation", found: tag.into(), at })?;
            let number = from.i8()?;
            let compute = DataType::from_wire(number).ok_or(DecodeError::Enum { kind: "DataType", number })?;
            graph.node("", compute, Op::decode(kind, from)?);
            Ok(())
        })?;
    }
    from.end("the last node")?;
    let graph = graph.build_with(limits)?;
    // Ordinals are uids of stored plans: a second spelling of the same graph would bind them to other tensors.
    if !graph.view().canonical().is_ok_and(|canonical| canonical.encoding == encoding) {
        return Err(DecodeError::NotCanonical);
    }
    Ok(graph)
}
