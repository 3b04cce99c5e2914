//! What host and engine plugin tell each other: [`EngineDetails`], which the plugin says of an engine and a graph, and [`EngineConfig`], which
//! the host answers with. Both are FlatBuffers without an identifier.

pub use super::knob::{KnobConstraint, KnobError, KnobInfo, KnobValue};
use super::{envelope, verifier_options};
use crate::Limits;
use crate::wire::generated as wire;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

/// Engine details that cannot be used: one variant per cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum EngineDetailsError {
    /// Something exceeds a limit.
    #[error("engine details: {found} bytes, over the limit max_bytes = {limit}")]
    Limit { found: u64, limit: u64 },
    /// Not FlatBuffers engine details.
    #[error("engine details: damaged: {0}")]
    Damaged(String),
    /// A knob without a name, or with another's.
    #[error("engine details: knob {position} has the id {id:?}, expected one of its own that is not empty")]
    KnobId { position: usize, id: String },
    /// A value or constraint of a kind that nobody has assigned, or that is newer than this reader.
    #[error("engine details: knob {knob}: its {what} is of kind {tag}, expected 1 (integer), 2 (float) or 3 (text)")]
    Kind { knob: String, what: &'static str, tag: u8 },
    /// A constraint that says nothing about the default's kind.
    #[error("engine details: knob {knob}: its default is of kind {found}, its constraint is: {constraint}")]
    OtherKind { knob: String, found: &'static str, constraint: String },
    /// A constraint that makes no sense.
    #[error("engine details: knob {knob}: {field} is {found}, expected {expected}")]
    Constraint { knob: String, field: &'static str, found: String, expected: &'static str },
}

/// What a plugin says about one of its engines, for a graph.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct EngineDetails {
    /// The engine.
    pub engine_id: i64,
    /// Its name, for the record: what counts is what the plugin's function says (API 1.4.0).
    pub name: Option<String>,
    /// Knobs that it offers; ids are unique.
    pub knobs: Vec<KnobInfo>,
    /// Numbers of hipDNN's behaviour notes.
    pub behavior_notes: Vec<i32>,
}

impl EngineDetails {
    /// Checks details and takes them apart; the bytes may start anywhere. What a newer plugin adds is left out.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self, EngineDetailsError> {
        let (found, limit) = (bytes.len() as u64, limits.bytes());
        if found > limit {
            return Err(EngineDetailsError::Limit { found, limit });
        }
        let details = flatbuffers::root_with_opts::<wire::EngineDetails<'_>>(&verifier_options(limits), bytes)
            .map_err(|e| EngineDetailsError::Damaged(e.to_string().split_whitespace().collect::<Vec<_>>().join(" ")))?;
        let mut knobs: Vec<KnobInfo> = Vec::new();
        let mut ids = std::collections::HashSet::new();
        for (position, knob) in details.knobs().unwrap_or_default().iter().enumerate() {
            let id = knob.knob_id().unwrap_or_default();
            if id.is_empty() || !ids.insert(id) {
                return Err(EngineDetailsError::KnobId { position, id: id.to_owned() });
            }
            knobs.push(knob_info(id, &knob)?);
        }
        Ok(Self {
            engine_id: details.engine_id(),
            name: details.name().map(str::to_owned),
            knobs,
            behavior_notes: details.behavior_notes().unwrap_or_default().iter().collect(),
        })
    }

    /// The details as a buffer; [`parse`](Self::parse) gives the same again.
    pub fn encode(&self) -> Vec<u8> {
        let mut fbb = FlatBufferBuilder::new();
        let knobs: Vec<_> = self.knobs.iter().map(|knob| write_knob(&mut fbb, knob)).collect();
        let args = wire::EngineDetailsArgs {
            engine_id: self.engine_id,
            knobs: Some(fbb.create_vector(&knobs)),
            behavior_notes: Some(fbb.create_vector(&self.behavior_notes)),
            name: self.name.as_ref().map(|name| fbb.create_string(name)),
        };
        let root = wire::EngineDetails::create(&mut fbb, &args);
        fbb.finish_minimal(root);
        fbb.finished_data().to_vec()
    }
}

fn knob_info(id: &str, knob: &wire::Knob<'_>) -> Result<KnobInfo, EngineDetailsError> {
    let unknown = |what, tag| EngineDetailsError::Kind { knob: id.to_owned(), what, tag };
    let default = match knob.default_value_type() {
        wire::KnobValue::IntValue => knob.default_value_as_int_value().map(|v| KnobValue::Int(v.value())),
        wire::KnobValue::FloatValue => knob.default_value_as_float_value().map(|v| KnobValue::Float(v.value())),
        wire::KnobValue::StringValue => {
            knob.default_value_as_string_value().map(|v| KnobValue::Text(v.value().unwrap_or_default().to_owned()))
        }
        _ => None,
    };
    let default = default.ok_or_else(|| unknown("default", knob.default_value_type().0))?;
    let constraint = match knob.constraint_type() {
        wire::KnobConstraint::NONE => None,
        wire::KnobConstraint::IntConstraint => knob.constraint_as_int_constraint().map(|c| KnobConstraint::Int {
            min: c.min_value(),
            max: c.max_value(),
            step: c.step(),
            valid: c.valid_values().unwrap_or_default().iter().collect(),
        }),
        wire::KnobConstraint::FloatConstraint => {
            knob.constraint_as_float_constraint().map(|c| KnobConstraint::Float { min: c.min_value(), max: c.max_value() })
        }
        wire::KnobConstraint::StringConstraint => match knob.constraint_as_string_constraint() {
            Some(c) => Some(KnobConstraint::Text {
                max_length: u32::try_from(c.max_length()).map_err(|_| EngineDetailsError::Constraint {
                    knob: id.to_owned(),
                    field: "max_length",
                    found: c.max_length().to_string(),
                    expected: "at least 0",
                })?,
                valid: c.valid_values().unwrap_or_default().iter().map(str::to_owned).collect(),
            }),
            None => None,
        },
        tag => return Err(unknown("constraint", tag.0)),
    };
    check(id, &default, constraint.as_ref())?;
    let description = knob.description().unwrap_or_default().to_owned();
    Ok(KnobInfo { id: id.to_owned(), description, default, constraint, deprecated: knob.deprecated() })
}

/// What cannot be made sense of in a knob.
fn check(id: &str, default: &KnobValue, constraint: Option<&KnobConstraint>) -> Result<(), EngineDetailsError> {
    let fail = |field, found: String, expected| Err(EngineDetailsError::Constraint { knob: id.to_owned(), field, found, expected });
    match default {
        KnobValue::Float(value) if !value.is_finite() => return fail("default", value.to_string(), "a finite float"),
        _ => {}
    }
    match constraint {
        None => Ok(()),
        Some(other) if !other.is_of(default) => {
            Err(EngineDetailsError::OtherKind { knob: id.to_owned(), found: default.kind(), constraint: other.to_string() })
        }
        Some(KnobConstraint::Int { step, .. }) if *step < 1 => fail("step", step.to_string(), "at least 1"),
        Some(KnobConstraint::Int { min, max, valid, .. }) if min > max && valid.is_empty() => {
            fail("max_value", max.to_string(), "at least min_value")
        }
        Some(KnobConstraint::Float { min, max }) if min.is_nan() || max.is_nan() || min > max => {
            fail("max_value", max.to_string(), "at least min_value")
        }
        Some(_) => Ok(()),
    }
}

fn write_value(fbb: &mut FlatBufferBuilder<'_>, value: &KnobValue) -> (wire::KnobValue, WIPOffset<UnionWIPOffset>) {
    match value {
        KnobValue::Int(value) => {
            let value = wire::IntValue::create(fbb, &wire::IntValueArgs { value: *value });
            (wire::KnobValue::IntValue, value.as_union_value())
        }
        KnobValue::Float(value) => {
            let value = wire::FloatValue::create(fbb, &wire::FloatValueArgs { value: *value });
            (wire::KnobValue::FloatValue, value.as_union_value())
        }
        KnobValue::Text(value) => {
            let value = Some(fbb.create_string(value));
            (wire::KnobValue::StringValue, wire::StringValue::create(fbb, &wire::StringValueArgs { value }).as_union_value())
        }
    }
}

fn write_constraint(fbb: &mut FlatBufferBuilder<'_>, constraint: &KnobConstraint) -> (wire::KnobConstraint, WIPOffset<UnionWIPOffset>) {
    match constraint {
        KnobConstraint::Int { min, max, step, valid } => {
            let valid_values = (!valid.is_empty()).then(|| fbb.create_vector(valid));
            let args = wire::IntConstraintArgs { min_value: *min, max_value: *max, step: *step, valid_values };
            (wire::KnobConstraint::IntConstraint, wire::IntConstraint::create(fbb, &args).as_union_value())
        }
        KnobConstraint::Float { min, max } => {
            let args = wire::FloatConstraintArgs { min_value: *min, max_value: *max };
            (wire::KnobConstraint::FloatConstraint, wire::FloatConstraint::create(fbb, &args).as_union_value())
        }
        KnobConstraint::Text { max_length, valid } => {
            let texts: Vec<_> = valid.iter().map(|text| fbb.create_string(text)).collect();
            let valid_values = (!texts.is_empty()).then(|| fbb.create_vector(&texts));
            // The field cannot hold more; no text that can be set is as long.
            let max_length = i32::try_from(*max_length).unwrap_or(i32::MAX);
            let args = wire::StringConstraintArgs { max_length, valid_values };
            (wire::KnobConstraint::StringConstraint, wire::StringConstraint::create(fbb, &args).as_union_value())
        }
    }
}

fn write_knob<'f>(fbb: &mut FlatBufferBuilder<'f>, knob: &KnobInfo) -> WIPOffset<wire::Knob<'f>> {
    let (default_value_type, default_value) = write_value(fbb, &knob.default);
    let constraint = knob.constraint.as_ref().map(|constraint| write_constraint(fbb, constraint));
    let args = wire::KnobArgs {
        knob_id: Some(fbb.create_string(&knob.id)),
        description: Some(fbb.create_string(&knob.description)),
        default_value_type,
        default_value: Some(default_value),
        constraint_type: constraint.map_or(wire::KnobConstraint::NONE, |(tag, _)| tag),
        constraint: constraint.map(|(_, value)| value),
        deprecated: knob.deprecated,
    };
    wire::Knob::create(fbb, &args)
}

/// An engine config that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum EngineConfigError {
    /// Too large, or damaged.
    #[error(transparent)]
    Read(#[from] envelope::EnvelopeError),
    /// A newer host says something that this version would leave out.
    #[error("engine config: it has fields that this version does not know; use a newer hipplan")]
    UnknownFields,
    /// A setting without a name, or set twice.
    #[error("engine config: setting {position} is of knob {id:?}, expected one that is named and not set before")]
    KnobId { position: usize, id: String },
    /// A value of a kind that nobody has assigned, or that is newer than this reader.
    #[error("engine config: knob {knob}: its value is {found}, expected an integer, a finite float or a text")]
    Value { knob: String, found: String },
}

/// An engine, and the knobs of it that the caller has set.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct EngineConfig {
    /// The engine.
    pub engine_id: i64,
    /// Id and value of each knob that was set.
    pub knobs: Vec<(String, KnobValue)>,
}

impl EngineConfig {
    /// Checks a config and takes it apart; the bytes may start anywhere. To show one, whatever it holds, there is
    /// [`envelope::EngineConfig`].
    ///
    /// # Errors
    /// The first thing that is wrong with it, or that cannot be honoured.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self, EngineConfigError> {
        let config = envelope::EngineConfig::read(bytes, limits)?;
        if config.has_unknown_fields {
            return Err(EngineConfigError::UnknownFields);
        }
        let mut knobs: Vec<(String, KnobValue)> = Vec::with_capacity(config.knobs.len());
        let mut ids = std::collections::HashSet::new();
        for (position, (id, value)) in config.knobs.into_iter().enumerate() {
            if id.is_empty() || !ids.insert(id) {
                return Err(EngineConfigError::KnobId { position, id: id.to_owned() });
            }
            let value = match value {
                envelope::KnobValue::Int(value) => KnobValue::Int(value),
                envelope::KnobValue::Float(value) if value.is_finite() => KnobValue::Float(value),
                envelope::KnobValue::Text(value) => KnobValue::Text(value.to_owned()),
                other => return Err(EngineConfigError::Value { knob: id.to_owned(), found: other.to_string() }),
            };
            knobs.push((id.to_owned(), value));
        }
        Ok(Self { engine_id: config.engine_id, knobs })
    }

    /// The config as a buffer. Settings are written in the order of their ids: the buffer is part of what a plan is made of, and the order in
    /// which a caller set them is not.
    pub fn encode(&self) -> Vec<u8> {
        let mut fbb = FlatBufferBuilder::new();
        let mut sorted: Vec<&(String, KnobValue)> = self.knobs.iter().collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut knobs = Vec::with_capacity(sorted.len());
        for (id, value) in sorted {
            let (value_type, value) = write_value(&mut fbb, value);
            let args = wire::KnobSettingArgs { knob_id: Some(fbb.create_string(id)), value_type, value: Some(value) };
            knobs.push(wire::KnobSetting::create(&mut fbb, &args));
        }
        let args = wire::EngineConfigArgs { engine_id: self.engine_id, knobs: Some(fbb.create_vector(&knobs)) };
        let root = wire::EngineConfig::create(&mut fbb, &args);
        fbb.finish_minimal(root);
        fbb.finished_data().to_vec()
    }
}
