//! The writing side: tensors with the three by-value states, operations, and a frozen graph.

use crate::floors::{DEFAULT_ALIGNMENT, Features};
use crate::graph::GraphBuf;
use crate::handle::TensorHandle;
use crate::ops::{Op, Uid};
use crate::scalar::{Scalar, ScalarType};
use crate::wire::generated as wire;
use crate::wire::tensor_value::{TensorAttributesFields, TensorValue, write_tensor_attributes};
use crate::{DataType, GraphError, Limits};
use flatbuffers::{FlatBufferBuilder, WIPOffset};

/// A tensor of a graph under construction.
///
/// The by-value methods follow R16 §4.2 and §4.3: one stored runtime flag and one stored value, from which every getter is derived.
///
/// | state | made by | flag | value |
/// |---|---|---|---|
/// | runtime, user-supplied | [`set_as_runtime_parameter`](Self::set_as_runtime_parameter), or [`set_is_pass_by_value(true)`](Self::set_is_pass_by_value) without a value | true | none |
/// | runtime with default | [`scalar_of`](Self::scalar_of) with [`ScalarType::RuntimeParam`] | true | some |
/// | compile-time constant | [`scalar`](Self::scalar), [`set_value`](Self::set_value), [`set_compile_time_constant`](Self::set_compile_time_constant) | false | some |
#[derive(Clone, Debug, PartialEq)]
pub struct TensorAttributes {
    uid: Option<Uid>,
    name: String,
    dtype: DataType,
    dims: Vec<i64>,
    strides: Vec<i64>,
    is_virtual: bool,
    value: Option<TensorValue>,
    is_runtime: bool,
    ragged_offset: Option<Uid>,
    alignment: i64,
    ragged_multiplier: i64,
}

impl Default for TensorAttributes {
    fn default() -> Self {
        Self::new()
    }
}

impl TensorAttributes {
    /// A tensor that says nothing: no uid (the graph gives one), no dims, unset type.
    pub fn new() -> Self {
        Self {
            uid: None,
            name: String::new(),
            dtype: DataType::Unset,
            dims: Vec::new(),
            strides: Vec::new(),
            is_virtual: false,
            value: None,
            is_runtime: false,
            ragged_offset: None,
            alignment: DEFAULT_ALIGNMENT,
            ragged_multiplier: 1,
        }
    }

    /// A tensor of this type and these dims, packed in row-major order.
    pub fn packed(dtype: DataType, dims: &[i64]) -> Self {
        let mut strides = vec![1_i64; dims.len()];
        let mut inner = 1_i64;
        for (stride, &dim) in strides.iter_mut().zip(dims).rev() {
            *stride = inner;
            inner = inner.saturating_mul(dim.max(1));
        }
        let mut tensor = Self::new();
        tensor.set_data_type(dtype).set_dims(dims).set_strides(&strides);
        tensor
    }

    /// The plain scalar constructor: a compile-time constant (R16 §5.1, divergence 3).
    pub fn scalar(value: impl Scalar) -> Self {
        let mut tensor = Self::new();
        tensor.set_value(value);
        tensor
    }

    /// The tagged scalar constructor.
    pub fn scalar_of(value: impl Scalar, ty: ScalarType) -> Self {
        let mut tensor = Self::scalar(value);
        tensor.is_runtime = ty == ScalarType::RuntimeParam;
        tensor
    }

    /// Sets the uid.
    pub fn set_uid(&mut self, uid: Uid) -> &mut Self {
        self.uid = Some(uid);
        self
    }

    /// Sets the name.
    pub fn set_name(&mut self, name: impl Into<String>) -> &mut Self {
        self.name = name.into();
        self
    }

    /// Sets the element type.
    pub fn set_data_type(&mut self, dtype: DataType) -> &mut Self {
        self.dtype = dtype;
        self
    }

    /// Sets the dimensions.
    pub fn set_dims(&mut self, dims: &[i64]) -> &mut Self {
        self.dims = dims.to_vec();
        self
    }

    /// Sets the strides, in elements.
    pub fn set_strides(&mut self, strides: &[i64]) -> &mut Self {
        self.strides = strides.to_vec();
        self
    }

    /// Makes the tensor exist only between nodes.
    pub fn set_virtual(&mut self, is_virtual: bool) -> &mut Self {
        self.is_virtual = is_virtual;
        self
    }

    /// Sets the alignment of the device buffer, in bytes.
    pub fn set_alignment(&mut self, alignment: i64) -> &mut Self {
        self.alignment = alignment;
        self
    }

    /// Names the tensor that holds per-batch offsets.
    pub fn set_ragged_offset(&mut self, uid: Option<Uid>) -> &mut Self {
        self.ragged_offset = uid;
        self
    }

    /// Sets the factor from stored offsets to elements.
    pub fn set_ragged_multiplier(&mut self, multiplier: i64) -> &mut Self {
        self.ragged_multiplier = multiplier;
        self
    }

    /// Bakes a compile-time constant: stores the value, clears the runtime flag, and makes the tensor a scalar of the value's type.
    pub fn set_value<T: Scalar>(&mut self, value: T) -> &mut Self {
        self.value = Some(value.to_value());
        self.is_runtime = false;
        self.dtype = T::DATA_TYPE;
        self.dims = vec![1];
        self.strides = vec![1];
        self
    }

    /// [`set_value`](Self::set_value) with a value whose type is known only at run time; the empty value changes nothing.
    pub fn set_compile_time_constant(&mut self, value: Option<TensorValue>) -> &mut Self {
        if let Some(value) = value {
            self.value = Some(value);
            self.is_runtime = false;
            self.dtype = value.data_type();
            self.dims = vec![1];
            self.strides = vec![1];
        }
        self
    }

    /// Makes the tensor a user-supplied runtime scalar: sets the flag and clears any value (R16 §5.1, divergence 2).
    pub fn set_as_runtime_parameter(&mut self) -> &mut Self {
        self.value = None;
        self.is_runtime = true;
        self
    }

    /// Sets the runtime flag and nothing else.
    pub fn set_is_pass_by_value(&mut self, is_runtime: bool) -> &mut Self {
        self.is_runtime = is_runtime;
        self
    }

    /// Stores a value and changes nothing else: what a reader does with a value that it found.
    pub(crate) fn set_raw_value(&mut self, value: Option<TensorValue>) -> &mut Self {
        self.value = value;
        self
    }

    /// The default of a runtime scalar; none in the other states.
    pub fn get_pass_by_value(&self) -> Option<TensorValue> {
        self.value.filter(|_| self.is_runtime)
    }

    /// [`get_pass_by_value`](Self::get_pass_by_value) as a `T`; none when it holds another type.
    pub fn get_pass_by_value_as<T: Scalar>(&self) -> Option<T> {
        self.get_pass_by_value().and_then(T::from_value)
    }

    /// The compile-time constant; none in the other states.
    pub fn get_compile_time_constant(&self) -> Option<TensorValue> {
        self.value.filter(|_| !self.is_runtime)
    }

    /// [`get_compile_time_constant`](Self::get_compile_time_constant) as a `T`; none when it holds another type.
    pub fn get_compile_time_constant_as<T: Scalar>(&self) -> Option<T> {
        self.get_compile_time_constant().and_then(T::from_value)
    }

    /// True in all three by-value states.
    pub fn get_is_pass_by_value(&self) -> bool {
        self.is_runtime || self.value.is_some()
    }

    /// True for a compile-time constant.
    pub fn get_has_compile_time_constant(&self) -> bool {
        !self.is_runtime && self.value.is_some()
    }

    /// The stored runtime flag.
    pub fn get_is_runtime_pass_by_value(&self) -> bool {
        self.is_runtime
    }

    /// The stored value, whatever the flag.
    pub fn get_value_variant(&self) -> Option<TensorValue> {
        self.value
    }

    /// The uid, where one was set.
    pub fn uid(&self) -> Option<Uid> {
        self.uid
    }

    /// The name, which may be empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The element type.
    pub fn data_type(&self) -> DataType {
        self.dtype
    }

    /// The dimensions.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// The strides, in elements.
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }
}

/// A tensor of a graph under construction: the builder's own, or one that a caller can still change.
#[derive(Debug)]
enum Entry {
    Own(TensorAttributes),
    Shared(TensorHandle),
}

/// A graph under construction. Node order is kept; it must be topological.
pub struct GraphBuilder {
    fbb: FlatBufferBuilder<'static>,
    name: String,
    types: [DataType; 3],
    preferred_engine_id: Option<i64>,
    override_shapes: bool,
    id: Option<[u8; 16]>,
    tensors: Vec<Entry>,
    next_uid: i64,
    nodes: Vec<WIPOffset<wire::Node<'static>>>,
}

impl std::fmt::Debug for GraphBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GraphBuilder")
            .field("name", &self.name)
            .field("tensors", &self.tensors)
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

impl Default for GraphBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> Self {
        Self {
            fbb: FlatBufferBuilder::new(),
            name: String::new(),
            types: [DataType::Unset; 3],
            preferred_engine_id: None,
            override_shapes: false,
            id: None,
            tensors: Vec::new(),
            next_uid: 1,
            nodes: Vec::new(),
        }
    }

    /// Sets the graph's name.
    pub fn set_name(&mut self, name: impl Into<String>) -> &mut Self {
        self.name = name.into();
        self
    }

    /// Sets the types that unset nodes and tensors take: compute (nodes), intermediate (virtual tensors), io (other tensors).
    pub fn set_types(&mut self, compute: DataType, intermediate: DataType, io: DataType) -> &mut Self {
        self.types = [compute, intermediate, io];
        self
    }

    /// Sets or clears the engine that the author prefers. Not part of the graph's key.
    pub fn set_preferred_engine_id(&mut self, id: Option<i64>) -> &mut Self {
        self.preferred_engine_id = id;
        self
    }

    /// Opts in to execute-time shapes.
    pub fn set_override_shape_enabled(&mut self, enabled: bool) -> &mut Self {
        self.override_shapes = enabled;
        self
    }

    /// Sets the graph's identity, in network byte order. Not part of the graph's key.
    pub fn set_id(&mut self, id: Option<[u8; 16]>) -> &mut Self {
        self.id = id;
        self
    }

    /// Adds a tensor and returns its uid: its own, or the next that no tensor here has used so far.
    pub fn tensor(&mut self, mut tensor: TensorAttributes) -> Uid {
        let uid = self.take_uid(&mut tensor);
        self.tensors.push(Entry::Own(tensor));
        uid
    }

    /// [`tensor`](Self::tensor), and a handle with which it can be changed until the graph is built.
    pub fn tensor_handle(&mut self, mut tensor: TensorAttributes) -> TensorHandle {
        let uid = self.take_uid(&mut tensor);
        let handle = TensorHandle::new(uid, tensor);
        self.tensors.push(Entry::Shared(handle.clone()));
        handle
    }

    fn take_uid(&mut self, tensor: &mut TensorAttributes) -> Uid {
        let uid = tensor.uid.unwrap_or(Uid(self.next_uid));
        self.next_uid = self.next_uid.max(uid.0.saturating_add(1));
        tensor.uid = Some(uid);
        uid
    }

    /// Adds a scalar in the state that `ty` says; hipDNN's `graph.tensor(value, ScalarType)`.
    pub fn scalar(&mut self, value: impl Scalar, ty: ScalarType) -> Uid {
        self.tensor(TensorAttributes::scalar_of(value, ty))
    }

    /// Adds a node. [`DataType::Unset`] means the graph's compute type.
    pub fn node<'a>(&mut self, name: &str, compute: DataType, op: impl Into<Op<'a>>) -> &mut Self {
        let (attributes_type, attributes) = op.into().write(&mut self.fbb);
        let name = (!name.is_empty()).then(|| self.fbb.create_string(name));
        let args = wire::NodeArgs { name, compute_data_type: to_wire(compute), attributes_type, attributes: Some(attributes) };
        self.nodes.push(wire::Node::create(&mut self.fbb, &args));
        self
    }

    /// Freezes the graph: writes it, stamped with the API floor of its features, and checks it.
    ///
    /// # Errors
    /// Whatever a reader of the graph would refuse.
    pub fn build(self) -> Result<GraphBuf, GraphError> {
        self.build_with(&Limits::DEFAULT)
    }

    /// [`build`](Self::build) under other limits.
    pub fn build_with(mut self, limits: &Limits) -> Result<GraphBuf, GraphError> {
        let fbb = &mut self.fbb;
        let mut features = Features { override_shapes: self.override_shapes, ..Features::default() };
        let mut tensors = Vec::with_capacity(self.tensors.len());
        let mut frozen;
        for entry in &self.tensors {
            let t = match entry {
                Entry::Own(tensor) => tensor,
                Entry::Shared(handle) => {
                    frozen = handle.freeze();
                    &frozen
                }
            };
            features.add_tensor(t.is_runtime, t.alignment, t.ragged_offset.is_some(), t.ragged_multiplier);
            let fields = TensorAttributesFields {
                uid: t.uid.map_or(0, |uid| uid.0),
                name: &t.name,
                data_type: to_wire(t.dtype),
                strides: &t.strides,
                dims: &t.dims,
                is_virtual: t.is_virtual,
                value: t.value,
                is_runtime_pass_by_value: t.is_runtime,
                ragged_offset_tensor_uid: t.ragged_offset.map(|uid| uid.0),
                alignment: t.alignment,
                ragged_offset_multiplier: t.ragged_multiplier,
            };
            tensors.push(write_tensor_attributes(fbb, &fields));
        }
        let floor = features.floor();
        let [compute, intermediate, io] = self.types.map(to_wire);
        let version = wire::EngineApiVersion::new(floor.major, floor.minor, floor.patch);
        let id = self.id.map(|bytes| wire::Uuid::new(&bytes));
        let args = wire::GraphArgs {
            name: (!self.name.is_empty()).then(|| fbb.create_string(&self.name)),
            compute_data_type: compute,
            intermediate_data_type: intermediate,
            io_data_type: io,
            tensors: (!tensors.is_empty()).then(|| fbb.create_vector(&tensors)),
            nodes: (!self.nodes.is_empty()).then(|| fbb.create_vector(&self.nodes)),
            preferred_engine_id: self.preferred_engine_id,
            is_override_shape_enabled: self.override_shapes,
            min_required_engine_api_version: Some(&version),
            id: id.as_ref(),
        };
        let root = wire::Graph::create(fbb, &args);
        fbb.finish_minimal(root);
        GraphBuf::new(fbb.finished_data(), limits)
    }
}

fn to_wire(t: DataType) -> wire::DataType {
    wire::DataType(t.to_wire())
}
