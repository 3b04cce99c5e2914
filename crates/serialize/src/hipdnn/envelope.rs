//! `SerializedExecutionPlan`: hipDNN's envelope around the bytes of an engine plugin, in every layout that it has had.
//!
//! | layout | slot 4 | slot 5 | slot 6 | version |
//! |---|---|---|---|---|
//! | A | engine config | payload | | 1 |
//! | B | payload | | | 1 |
//! | C | payload | override shapes | | 1 |
//! | D | payload | override shapes | alignments | 2 |
//!
//! A became B without a new version number. What tells them apart is slot 5: an offset to bytes in A, one byte in C and D. A C
//! whose flag is false has the bytes of a B. (An A without a payload would look like a B, but is refused by every reader.)

use crate::wire::generated as wire;
use crate::wire::has_unknown_fields;
use crate::wire::root::RawTable;
use crate::{AlignedBytes, Limits, Uid, aligned};
use flatbuffers::FlatBufferBuilder;
use std::fmt;

/// The newest envelope version that is read, and the one that is written.
pub const VERSION: u32 = 2;

/// An envelope that cannot be used: one variant per cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum EnvelopeError {
    /// The buffer does not start at a multiple of 8.
    #[error("plan envelope: the buffer starts at an address that is not a multiple of 8; read the file into `AlignedBytes`")]
    Misaligned,
    /// Something exceeds a limit.
    #[error("plan envelope: {what} is {found}, over the limit {limit_name} = {limit}")]
    Limit { what: &'static str, found: u64, limit_name: &'static str, limit: u64 },
    /// Not a FlatBuffers envelope.
    #[error("plan envelope: damaged, or not a hipDNN plan envelope: {0}")]
    Damaged(String),
    /// Written by a newer hipDNN.
    #[error("plan envelope: version {found} is too new, this hipplan reads 1..={known}; use a newer hipplan, or build the plan again")]
    TooNew { found: u32, known: u32 },
    /// A field that every reader needs is absent or empty.
    #[error("plan envelope: {field} is absent or empty, and a plan needs it; build the plan again")]
    Missing { field: &'static str },
    /// Slot 5 is neither an offset to bytes nor a truth value.
    #[error("plan envelope: slot 5 is {found:#04x}, expected 0 or 1 (override shapes) or an offset to bytes (the payload of layout A)")]
    Slot5 { found: u8 },
    /// The workspace size is negative.
    #[error("plan envelope: workspace_size is {found}, expected at least 0")]
    Workspace { found: i64 },
    /// The workspace size does not fit into the field.
    #[error("plan envelope: a workspace of {found} bytes cannot be written, the most is {limit}", limit = i64::MAX)]
    WorkspaceTooLarge { found: u64 },
    /// Not one alignment for each tensor.
    #[error("plan envelope: {alignments} tensor_alignments for {uids} tensor_uids; there must be one each")]
    AlignmentCount { uids: usize, alignments: usize },
    /// The engine config inside is not one.
    #[error("plan envelope: the engine config is damaged: {0}")]
    EngineConfig(String),
}

impl EnvelopeError {
    /// Written for a newer reader: not damaged.
    pub fn is_too_new(&self) -> bool {
        matches!(self, Self::TooNew { .. })
    }
}

/// Which of hipDNN's layouts an envelope has: see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// With an engine config.
    A,
    /// Payload only; also a C without override shapes, whose bytes are the same.
    B,
    /// With override shapes.
    C,
    /// With alignments.
    D,
}

/// An envelope that has been checked. Lists are slices of the buffer; the payload is the plugin's and has not been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanEnvelope<'a> {
    /// Version that the writer stated.
    pub version: u32,
    /// Layout that was found.
    pub layout: Layout,
    /// The engine: all that binds the plan to a plugin.
    pub engine_id: i64,
    /// Bytes of device memory that an execution needs.
    pub workspace_size: u64,
    /// Uids of the tensors that an execution takes; at least one.
    pub tensor_uids: &'a [Uid],
    /// Layout A: the engine's configuration as it was found, which may be empty. [`EngineConfig::read`] takes it apart.
    pub engine_config: &'a [u8],
    /// The plugin's bytes; at least one.
    pub payload: &'a [u8],
    /// Shapes may be replaced at execution.
    pub override_shapes: bool,
    /// From version 2 on: alignment in bytes of each tensor of `tensor_uids`; 0, as runtime scalars have it, means "do not check".
    pub alignments: Option<&'a [i64]>,
    /// A newer writer said something that this version does not know.
    pub has_unknown_fields: bool,
}

impl<'a> PlanEnvelope<'a> {
    /// Checks an envelope, in any layout. `buffer` must start at a multiple of 8, as [`AlignedBytes`] do.
    ///
    /// # Errors
    /// The version before anything else, then the first thing that is wrong.
    pub fn read(buffer: &'a [u8], limits: &Limits) -> Result<Self, EnvelopeError> {
        check_size(buffer.len() as u64, limits)?;
        let root = RawTable::root(buffer).ok_or_else(|| EnvelopeError::Damaged("there is no root table".into()))?;
        // After the root: no bytes at all have no address that could be aligned.
        if !buffer.as_ptr().addr().is_multiple_of(8) {
            return Err(EnvelopeError::Misaligned);
        }
        let fields = Fields { buffer, root };
        let version = fields.scalar(0, "version")?.map_or(0, u32::from_le_bytes);
        match version {
            0 => return Err(EnvelopeError::Missing { field: "version" }),
            1..=VERSION => {}
            found => return Err(EnvelopeError::TooNew { found, known: VERSION }),
        }

        let is_a = version == 1 && root.vector(5, 1).is_some();
        let override_shapes = match fields.scalar(5, "slot 5")? {
            _ if is_a => false,
            None | Some([0]) => false,
            Some([1]) => true,
            Some([found]) => return Err(EnvelopeError::Slot5 { found }),
        };
        let (engine_config, payload) = if is_a {
            (fields.bytes(4, "engine_config")?.unwrap_or_default(), fields.bytes(5, "plugin_payload")?)
        } else {
            (&[][..], fields.bytes(4, "plugin_payload")?)
        };
        let known_slots = if is_a { 6 } else { 7 };
        let alignments = if is_a { None } else { fields.numbers::<i64>(6, "tensor_alignments")? };
        let layout = match (is_a, alignments, root.slot(5)) {
            (true, ..) => Layout::A,
            (_, None, None) if version == 1 => Layout::B,
            (_, None, _) if version == 1 => Layout::C,
            _ => Layout::D,
        };

        let stated = fields.scalar(2, "workspace_size")?.map_or(0, i64::from_le_bytes);
        let workspace_size = u64::try_from(stated).map_err(|_| EnvelopeError::Workspace { found: stated })?;
        let envelope = Self {
            version,
            layout,
            engine_id: fields.scalar(1, "engine_id")?.map_or(0, i64::from_le_bytes),
            workspace_size,
            tensor_uids: fields.numbers(3, "tensor_uids")?.unwrap_or_default(),
            engine_config,
            payload: payload.unwrap_or_default(),
            override_shapes,
            alignments,
            has_unknown_fields: root.has_slot_from(known_slots),
        };
        envelope.check()?;
        Ok(envelope)
    }

    /// The rules that hipDNN's own reader has.
    fn check(&self) -> Result<(), EnvelopeError> {
        if self.tensor_uids.is_empty() {
            return Err(EnvelopeError::Missing { field: "tensor_uids" });
        }
        if self.payload.is_empty() {
            return Err(EnvelopeError::Missing { field: "plugin_payload" });
        }
        match self.alignments {
            None if self.version >= 2 => Err(EnvelopeError::Missing { field: "tensor_alignments" }),
            Some(list) if list.len() != self.tensor_uids.len() => {
                Err(EnvelopeError::AlignmentCount { uids: self.tensor_uids.len(), alignments: list.len() })
            }
            _ => Ok(()),
        }
    }
}

/// The fields of the root table, each read by its slot.
#[derive(Clone, Copy)]
struct Fields<'a> {
    buffer: &'a [u8],
    root: RawTable<'a>,
}

impl<'a> Fields<'a> {
    /// The first bytes of a field, where there is one.
    fn scalar<const N: usize>(&self, slot: usize, name: &str) -> Result<Option<[u8; N]>, EnvelopeError> {
        let Some((at, room)) = self.root.slot(slot) else { return Ok(None) };
        let bytes = self.buffer.get(at..).filter(|_| room >= N).and_then(|bytes| bytes.first_chunk::<N>());
        bytes.copied().map(Some).ok_or_else(|| EnvelopeError::Damaged(format!("{name} has {room} bytes in the table, expected {N}")))
    }

    fn list(&self, slot: usize, name: &str, size: usize) -> Result<Option<&'a [u8]>, EnvelopeError> {
        if self.root.slot(slot).is_none() {
            return Ok(None);
        }
        let bytes = self.root.vector(slot, size);
        bytes.map(Some).ok_or_else(|| EnvelopeError::Damaged(format!("{name} leads to no vector inside the buffer")))
    }

    fn bytes(&self, slot: usize, name: &str) -> Result<Option<&'a [u8]>, EnvelopeError> {
        self.list(slot, name, 1)
    }

    /// A list of 8-byte numbers, in place. Writers do not align empty ones.
    fn numbers<T: bytemuck::AnyBitPattern>(&self, slot: usize, name: &str) -> Result<Option<&'a [T]>, EnvelopeError> {
        match self.list(slot, name, size_of::<T>())? {
            None => Ok(None),
            Some([]) => Ok(Some(&[])),
            Some(bytes) => match bytemuck::try_cast_slice(bytes) {
                Ok(list) => Ok(Some(list)),
                Err(_) => Err(EnvelopeError::Damaged(format!("{name} is not aligned to {} bytes", size_of::<T>()))),
            },
        }
    }
}

fn check_size(found: u64, limits: &Limits) -> Result<(), EnvelopeError> {
    let limit = limits.bytes();
    if found > limit {
        return Err(EnvelopeError::Limit { what: "its size in bytes", found, limit_name: "max_bytes", limit });
    }
    Ok(())
}

/// What an envelope is written from.
#[derive(Clone, Copy, Debug)]
pub struct EnvelopeParts<'a> {
    /// The engine: all that binds the plan to a plugin.
    pub engine_id: i64,
    /// Bytes of device memory that an execution needs.
    pub workspace_size: u64,
    /// Uids of the tensors that an execution takes; at least one.
    pub tensor_uids: &'a [Uid],
    /// Alignment in bytes of each of them; 0 for a runtime scalar, which has no device memory.
    pub alignments: &'a [i64],
    /// The plugin's bytes; at least one.
    pub payload: &'a [u8],
    /// Shapes may be replaced at execution.
    pub override_shapes: bool,
}

impl EnvelopeParts<'_> {
    /// The envelope, in the newest layout.
    ///
    /// # Errors
    /// Whatever a reader of the envelope would refuse.
    pub fn to_bytes(&self, limits: &Limits) -> Result<AlignedBytes, EnvelopeError> {
        let Self { engine_id, workspace_size, tensor_uids, alignments, payload, override_shapes } = *self;
        let stored = i64::try_from(workspace_size).map_err(|_| EnvelopeError::WorkspaceTooLarge { found: workspace_size })?;
        let envelope = PlanEnvelope {
            version: VERSION,
            layout: Layout::D,
            engine_id,
            workspace_size,
            tensor_uids,
            engine_config: &[],
            payload,
            override_shapes,
            alignments: Some(alignments),
            has_unknown_fields: false,
        };
        envelope.check()?;
        // The builder panics above what the format can address. 128 bytes are more than table, vtable and lengths take.
        let lists = (tensor_uids.len() as u64).saturating_mul(16);
        check_size((payload.len() as u64).saturating_add(lists).saturating_add(128), limits)?;

        let mut fbb = FlatBufferBuilder::new();
        let args = wire::SerializedExecutionPlanArgs {
            version: VERSION,
            engine_id,
            workspace_size: stored,
            tensor_uids: Some(fbb.create_vector(bytemuck::cast_slice::<Uid, i64>(tensor_uids))),
            plugin_payload: Some(fbb.create_vector(payload)),
            is_override_shape_enabled: override_shapes,
            tensor_alignments: Some(fbb.create_vector(alignments)),
        };
        let root = wire::SerializedExecutionPlan::create(&mut fbb, &args);
        fbb.finish_minimal(root);
        Ok(aligned::aligned_copy(fbb.finished_data()))
    }
}

/// The value of a knob.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KnobValue<'a> {
    /// None, or of a kind that this version does not know (the union's tag).
    Unknown(u8),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text.
    Text(&'a str),
}

impl fmt::Display for KnobValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(tag) => write!(f, "a value of unknown kind {tag}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
        }
    }
}

/// The configuration of an engine, as envelopes of layout A hold it.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineConfig<'a> {
    /// The engine.
    pub engine_id: i64,
    /// Knobs that were set, by id.
    pub knobs: Vec<(&'a str, KnobValue<'a>)>,
    /// A newer writer said something that this version does not know.
    pub has_unknown_fields: bool,
}

impl<'a> EngineConfig<'a> {
    /// Takes an engine config apart; the bytes may start anywhere.
    ///
    /// # Errors
    /// [`EnvelopeError::EngineConfig`] when the bytes are none.
    pub fn read(bytes: &'a [u8], limits: &Limits) -> Result<Self, EnvelopeError> {
        check_size(bytes.len() as u64, limits)?;
        let config = flatbuffers::root_with_opts::<wire::EngineConfig<'a>>(&super::verifier_options(limits), bytes)
            .map_err(|e| EnvelopeError::EngineConfig(e.to_string().trim().replace('\n', "; ")))?;
        let mut has_unknown_fields = has_unknown_fields(&config._tab, 2);
        let mut knobs = Vec::new();
        for knob in config.knobs().unwrap_or_default() {
            has_unknown_fields |= crate::wire::has_unknown_fields(&knob._tab, 3);
            let value = match knob.value_type() {
                wire::KnobValue::IntValue => knob.value_as_int_value().map(|v| KnobValue::Int(v.value())),
                wire::KnobValue::FloatValue => knob.value_as_float_value().map(|v| KnobValue::Float(v.value())),
                wire::KnobValue::StringValue => knob.value_as_string_value().map(|v| KnobValue::Text(v.value().unwrap_or_default())),
                _ => None,
            };
            knobs.push((knob.knob_id().unwrap_or_default(), value.unwrap_or(KnobValue::Unknown(knob.value_type().0))));
        }
        Ok(Self { engine_id: config.engine_id(), knobs, has_unknown_fields })
    }
}
