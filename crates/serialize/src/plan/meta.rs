//! The metadata of a plan. Frozen: a change of any field is a new major.

use super::PlanError;
use crate::key::{Knob, PlanIdentity, Policy};
use crate::{ApiVersion, DataType, GraphKey, PlanKey, engine_id_of_text};
use rkyv::{Archive, Deserialize, Serialize};

/// All that is known of a plan without its payload.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[rkyv(derive(Debug))]
pub struct PlanMetaV1 {
    /// [`PlanKey`] of the plan.
    pub plan_key: [u8; 32],
    /// [`GraphKey`] of the graph it executes.
    pub graph_key: [u8; 32],
    /// Normalised target text.
    pub target: String,
    /// Provider that compiled it.
    pub provider: String,
    /// Engine that compiled it.
    pub engine: String,
    /// hipDNN's id of the engine's name, or the id that stands there in place of one.
    pub engine_id: i64,
    /// Revision of the engine.
    pub engine_revision: String,
    /// Engine API floor of the graph (R16 §4.7): major, minor, patch.
    pub api_floor: [u32; 3],
    /// Engine settings, sorted by id.
    pub knobs: Vec<KnobV1>,
    /// Bytes of workspace that executing needs.
    pub workspace_size: u64,
    /// The graph's non-virtual tensors, ascending by ordinal.
    pub bindings: Vec<BindingV1>,
    /// Code objects that lie outside the plan, by content.
    pub code_objects: Vec<CodeObjectV1>,
}

impl PlanMetaV1 {
    /// The metadata of a plan with this identity: its keys and the engine's id follow from it, knobs are sorted, the floor is the
    /// lowest, all else is empty.
    pub fn of(identity: &PlanIdentity) -> Self {
        let PlanIdentity { graph, target, provider, engine, engine_revision, knobs } = identity;
        let mut knobs: Vec<KnobV1> = knobs.iter().map(|k| KnobV1 { id: k.id.clone(), value: k.value.clone() }).collect();
        knobs.sort_by(|a, b| (&a.id, &a.value).cmp(&(&b.id, &b.value)));
        let ApiVersion { major, minor, patch } = ApiVersion::BASELINE;
        Self {
            plan_key: identity.key().0,
            graph_key: graph.0,
            target: target.clone(),
            provider: provider.clone(),
            engine: engine.clone(),
            engine_id: engine_id_of_text(engine),
            engine_revision: engine_revision.clone(),
            api_floor: [major, minor, patch],
            knobs,
            workspace_size: 0,
            bindings: Vec::new(),
            code_objects: Vec::new(),
        }
    }
}

/// Whether two texts mean one value of a knob, whose type they do not tell.
fn is_one_value(a: &str, b: &str) -> bool {
    let (integers, floats) = ([a, b].map(str::parse::<i64>), [a, b].map(str::parse::<f64>));
    // The text of a float in a plan has a point or an exponent; a person's need not.
    let is_float = a.contains(['.', 'e']);
    match (integers, floats) {
        _ if a == b => true,
        ([Ok(a), Ok(b)], _) => a == b,
        (_, [Ok(a), Ok(b)]) => is_float && a == b,
        _ => false,
    }
}

/// One engine setting.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[rkyv(derive(Debug))]
pub struct KnobV1 {
    /// Name of the setting.
    pub id: String,
    /// Its value as text.
    pub value: String,
}

/// A code object that lies outside the plan.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[rkyv(derive(Debug))]
pub struct CodeObjectV1 {
    /// BLAKE3 of its bytes.
    pub hash: [u8; 32],
    /// Its size in bytes.
    pub size: u64,
}

/// A tensor that a variant pack may name.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[rkyv(derive(Debug))]
pub struct BindingV1 {
    /// Canonical ordinal: the uid under which `bind_by_key` knows it.
    pub ordinal: u32,
    /// A [`BindingRole`] as a number.
    pub role: u8,
    /// A [`BindingKind`] as a number.
    pub kind: u8,
    /// A [`DataType`] as its wire number.
    pub dtype: i8,
    /// Dimensions.
    pub dims: Vec<i64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
    /// Where the graph first names it, such as `node 0 convolution_fwd.x`: what a person is told when it is missing.
    pub first_use: String,
}

/// Whether execution reads or writes a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BindingRole {
    /// Only read.
    Input = 0,
    /// Written by some node.
    Output = 1,
}

impl BindingRole {
    /// The role with this number.
    pub const fn from_number(n: u8) -> Option<Self> {
        match n {
            0 => Some(Self::Input),
            1 => Some(Self::Output),
            _ => None,
        }
    }
}

/// Where the contents of a tensor come from: the states of R16 §4.2, and ordinary tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BindingKind {
    /// A device buffer.
    Device = 0,
    /// A host scalar that the caller supplies at execute.
    RuntimeScalar = 1,
    /// A host scalar with a default, which an explicit override replaces.
    DefaultedScalar = 2,
    /// A constant of the graph; a pack entry is inert.
    Constant = 3,
}

impl BindingKind {
    /// The kind of a tensor in this by-value state (R16 §4.2).
    pub const fn of_state(is_runtime: bool, has_value: bool) -> Self {
        match (is_runtime, has_value) {
            (false, false) => Self::Device,
            (true, false) => Self::RuntimeScalar,
            (true, true) => Self::DefaultedScalar,
            (false, true) => Self::Constant,
        }
    }

    /// The kind with this number.
    pub const fn from_number(n: u8) -> Option<Self> {
        match n {
            0 => Some(Self::Device),
            1 => Some(Self::RuntimeScalar),
            2 => Some(Self::DefaultedScalar),
            3 => Some(Self::Constant),
            _ => None,
        }
    }

    /// A pack entry of this tensor is host memory (R16 §4.6).
    pub const fn is_runtime(self) -> bool {
        matches!(self, Self::RuntimeScalar | Self::DefaultedScalar)
    }

    /// A word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::RuntimeScalar => "runtime scalar",
            Self::DefaultedScalar => "runtime scalar with default",
            Self::Constant => "constant",
        }
    }
}

impl ArchivedPlanMetaV1 {
    /// The plan's key.
    pub fn plan_key(&self) -> PlanKey {
        PlanKey(self.plan_key)
    }

    /// The key of the graph that it executes.
    pub fn graph_key(&self) -> GraphKey {
        GraphKey(self.graph_key)
    }

    /// The API floor of the graph.
    pub fn api_floor(&self) -> ApiVersion {
        let [major, minor, patch] = self.api_floor;
        ApiVersion::new(major.to_native(), minor.to_native(), patch.to_native())
    }

    /// Whether a request with this policy may be answered with the plan: engine, provider and settings are those asked for. A preference is
    /// no condition.
    pub fn satisfies(&self, policy: &Policy) -> bool {
        let Policy { engine, provider, preferred: _, knobs } = policy;
        let has = |asked: &Knob| self.knobs.iter().any(|knob| knob.id == *asked.id && is_one_value(knob.value.as_str(), &asked.value));
        engine.as_deref().is_none_or(|text| engine_id_of_text(text) == self.engine_id.to_native())
            && provider.as_deref().is_none_or(|name| self.provider == *name)
            && knobs.iter().all(has)
    }

    /// All that the plan key is made of.
    pub fn identity(&self) -> PlanIdentity {
        PlanIdentity {
            graph: self.graph_key(),
            target: self.target.as_str().to_owned(),
            provider: self.provider.as_str().to_owned(),
            engine: self.engine.as_str().to_owned(),
            engine_revision: self.engine_revision.as_str().to_owned(),
            knobs: self.knobs.iter().map(|k| Knob { id: k.id.as_str().to_owned(), value: k.value.as_str().to_owned() }).collect(),
        }
    }

    /// What bytecheck cannot know: numbers in range, lists in order.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        let fail = |field: String, found: String, expected: String| PlanError::MetadataField { field, found, expected };
        if self.engine_id != engine_id_of_text(self.engine.as_str()) {
            return Err(fail("engine id".into(), self.engine_id.to_string(), format!("the id of {:?}", self.engine.as_str())));
        }
        for (first, second) in self.knobs.iter().zip(self.knobs.iter().skip(1)) {
            let (first, second) = (first.id.as_str(), second.id.as_str());
            if first >= second {
                return Err(fail("knob id".into(), format!("{second:?}"), format!("an id above {first:?}: knobs are sorted and unique")));
            }
        }
        let mut next = 0;
        for (i, b) in self.bindings.iter().enumerate() {
            let ordinal = b.ordinal.to_native();
            if ordinal < next {
                return Err(fail(format!("binding {i}: ordinal"), ordinal.to_string(), format!("at least {next}")));
            }
            next = ordinal.saturating_add(1);
            if BindingRole::from_number(b.role).is_none() {
                return Err(fail(format!("binding {i}: role"), b.role.to_string(), "0 or 1".into()));
            }
            if BindingKind::from_number(b.kind).is_none() {
                return Err(fail(format!("binding {i}: kind"), b.kind.to_string(), "0..=3".into()));
            }
            let is_scalar = b.kind() != BindingKind::Device;
            if is_scalar && b.role() == BindingRole::Output {
                return Err(fail(format!("binding {i}: role"), "output".into(), format!("input, because it is a {}", b.kind().name())));
            }
            if matches!(DataType::from_wire(b.dtype), None | Some(DataType::Unset)) {
                return Err(fail(format!("binding {i}: data type"), b.dtype.to_string(), "a known data type".into()));
            }
            if b.dims.len() != b.strides.len() {
                return Err(fail(format!("binding {i}: strides"), b.strides.len().to_string(), format!("{} of them", b.dims.len())));
            }
            let shape = || b.dims.iter().zip(b.strides.iter()).map(|(d, s)| (d.to_native(), s.to_native()));
            let dims = || format!("{:?}", b.dims.as_slice());
            if b.dims.is_empty() || shape().any(|(dim, _)| dim < 1) {
                return Err(fail(format!("binding {i}: dims"), dims(), "at least one, each at least 1".into()));
            }
            if is_scalar && shape().any(|(dim, _)| dim != 1) {
                return Err(fail(format!("binding {i}: dims"), dims(), format!("one element, because it is a {}", b.kind().name())));
            }
            // Whoever executes the plan counts in bytes, and no element has more than 8.
            let elements = shape().try_fold(8_i64, |n, (dim, _)| n.checked_mul(dim));
            if elements.is_none() {
                return Err(fail(format!("binding {i}: dims"), dims(), "a number of elements that can be counted".into()));
            }
            let span = shape().try_fold(8_i64, |n, (dim, stride)| n.checked_add(dim.checked_sub(1)?.checked_mul(stride)?.checked_mul(8)?));
            if shape().any(|(_, stride)| stride < 0) || span.is_none() {
                let strides = format!("{:?}", b.strides.as_slice());
                return Err(fail(format!("binding {i}: strides"), strides, "each at least 0, and a span that can be counted".into()));
            }
        }
        Ok(())
    }
}

impl ArchivedBindingV1 {
    /// The role.
    pub fn role(&self) -> BindingRole {
        BindingRole::from_number(self.role).unwrap_or(BindingRole::Input)
    }

    /// The kind.
    pub fn kind(&self) -> BindingKind {
        BindingKind::from_number(self.kind).unwrap_or(BindingKind::Device)
    }

    /// The data type.
    pub fn dtype(&self) -> DataType {
        DataType::from_wire(self.dtype).unwrap_or(DataType::Unset)
    }
}
