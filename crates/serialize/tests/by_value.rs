//! By-value tensors: the state table of R16 §4.2, the getters and setters of §4.3, the floors of §4.7, the refusals of §4.8.

mod common;

use half::{bf16, f16};
use hipplan_serialize::error::RuleError;
use hipplan_serialize::ops::{Layernorm, Matmul};
use hipplan_serialize::{
    ApiVersion, DataType, GraphBuf, GraphBuilder, GraphError, Limits, NormFwdPhase, Scalar, ScalarType, TensorAttributes, TensorValue,
    TensorView, Uid,
};

/// What a state says of itself: the columns of R16 §4.2.
#[derive(Debug, PartialEq)]
struct Row {
    flag: bool,
    stored: Option<TensorValue>,
    is_pass_by_value: bool,
    pass_by_value: Option<TensorValue>,
    constant: Option<TensorValue>,
    has_constant: bool,
}

fn row(t: &TensorAttributes) -> Row {
    Row {
        flag: t.get_is_runtime_pass_by_value(),
        stored: t.get_value_variant(),
        is_pass_by_value: t.get_is_pass_by_value(),
        pass_by_value: t.get_pass_by_value(),
        constant: t.get_compile_time_constant(),
        has_constant: t.get_has_compile_time_constant(),
    }
}

fn ordinary() -> Row {
    Row { flag: false, stored: None, is_pass_by_value: false, pass_by_value: None, constant: None, has_constant: false }
}

fn user_supplied() -> Row {
    Row { flag: true, is_pass_by_value: true, ..ordinary() }
}

fn with_default(v: TensorValue) -> Row {
    Row { flag: true, stored: Some(v), is_pass_by_value: true, pass_by_value: Some(v), constant: None, has_constant: false }
}

fn constant(v: TensorValue) -> Row {
    Row { flag: false, stored: Some(v), is_pass_by_value: true, pass_by_value: None, constant: Some(v), has_constant: true }
}

/// Every way into every state, for one type.
fn state_table<T: Scalar + PartialEq + std::fmt::Debug>(value: T, other: T, dtype: DataType, stored: TensorValue) {
    assert_eq!(value.to_value(), stored);
    let plain = TensorAttributes::scalar(value);
    assert_eq!(row(&plain), constant(stored), "plain constructor");
    assert_eq!((plain.data_type(), plain.dims(), plain.strides()), (dtype, &[1][..], &[1][..]));
    assert_eq!(TensorAttributes::scalar_of(value, ScalarType::CompileTimeConst), plain);

    let default = TensorAttributes::scalar_of(value, ScalarType::RuntimeParam);
    assert_eq!(row(&default), with_default(stored), "tagged constructor");
    assert_eq!((default.data_type(), default.dims(), default.strides()), (dtype, &[1][..], &[1][..]));

    // Setters bake a constant whatever the state before, and make the tensor a scalar of the value's type.
    let mut before = TensorAttributes::packed(DataType::Fp4E2M1, &[3, 4]);
    before.set_as_runtime_parameter();
    for mut t in [before.clone(), TensorAttributes::scalar_of(other, ScalarType::RuntimeParam), TensorAttributes::scalar(other)] {
        t.set_value(value);
        assert_eq!(t, plain, "set_value");
    }
    for mut t in [before, TensorAttributes::scalar_of(other, ScalarType::RuntimeParam), TensorAttributes::scalar(other)] {
        t.set_compile_time_constant(Some(stored));
        assert_eq!(t, plain, "set_compile_time_constant");
        t.set_compile_time_constant(None);
        assert_eq!(t, plain, "the empty value is a no-op");
    }
    let mut t = default.clone();
    t.set_compile_time_constant(None);
    assert_eq!(t, default, "the empty value is a no-op on a runtime scalar too");

    // The flag and nothing else.
    let mut t = plain.clone();
    t.set_is_pass_by_value(true);
    assert_eq!(t, default);
    t.set_is_pass_by_value(false);
    assert_eq!(t, plain);
    // Clears the value, and flipping the flag back does not bring it back.
    t.set_as_runtime_parameter();
    assert_eq!(row(&t), user_supplied());
    assert_eq!((t.data_type(), t.dims()), (dtype, &[1][..]), "type and shape stay");
    t.set_is_pass_by_value(false);
    assert_eq!(row(&t), ordinary());

    // Typed getters follow the untyped ones.
    assert_eq!(plain.get_compile_time_constant_as::<T>(), Some(value));
    assert_eq!(plain.get_pass_by_value_as::<T>(), None);
    assert_eq!(default.get_pass_by_value_as::<T>(), Some(value));
    assert_eq!(default.get_compile_time_constant_as::<T>(), None);
    // Of the eight types exactly one matches.
    let matches = |t: &TensorAttributes| {
        [
            t.get_compile_time_constant_as::<f32>().is_some(),
            t.get_compile_time_constant_as::<f16>().is_some(),
            t.get_compile_time_constant_as::<bf16>().is_some(),
            t.get_compile_time_constant_as::<u8>().is_some(),
            t.get_compile_time_constant_as::<i32>().is_some(),
            t.get_compile_time_constant_as::<f64>().is_some(),
            t.get_compile_time_constant_as::<i64>().is_some(),
            t.get_compile_time_constant_as::<bool>().is_some(),
        ]
    };
    let expected: Vec<bool> = (1..=8).map(|tag| tag == stored.tag()).collect();
    assert_eq!(matches(&plain).to_vec(), expected);
    assert_eq!(matches(&default), [false; 8]);

    through_the_buffer(&[plain, default]);
}

#[test]
fn the_state_table_holds_for_all_eight_types() {
    state_table(1.5_f32, 0.0, DataType::Float, TensorValue::Float32(1.5));
    state_table(f16::from_f32(0.1), f16::ZERO, DataType::Half, TensorValue::Float16(f16::from_f32(0.1).to_f32()));
    state_table(bf16::from_f32(0.1), bf16::ZERO, DataType::BFloat16, TensorValue::BFloat16(bf16::from_f32(0.1).to_f32()));
    state_table(0xff_u8, 0, DataType::UInt8, TensorValue::Float8(0xff));
    state_table(i32::MIN, 0, DataType::Int32, TensorValue::Int32(i32::MIN));
    state_table(1e-300_f64, 0.0, DataType::Double, TensorValue::Float64(1e-300));
    state_table(i64::MAX, 0, DataType::Int64, TensorValue::Int64(i64::MAX));
    state_table(true, false, DataType::Boolean, TensorValue::Bool(true));
}

#[test]
fn a_tensor_starts_ordinary() {
    assert_eq!(row(&TensorAttributes::new()), ordinary());
    assert_eq!(TensorAttributes::default(), TensorAttributes::new());
    let mut t = TensorAttributes::new();
    t.set_is_pass_by_value(true);
    assert_eq!(row(&t), user_supplied());
}

/// A graph that reads all of the tensors, in order.
fn graph_of(scalars: &[TensorAttributes]) -> Result<GraphBuf, GraphError> {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, DataType::Float, DataType::Float);
    let inputs: Vec<Uid> = scalars.iter().map(|t| g.tensor(t.clone())).collect();
    let outputs = [g.tensor(TensorAttributes::packed(DataType::Float, &[4]))];
    g.node("", DataType::Float, hipplan_serialize::ops::CustomOp { custom_op_id: "t.t", inputs: &inputs, outputs: &outputs, data: &[] });
    g.build()
}

/// The two bits of a state, and what follows from them.
fn agrees(view: &TensorView<'_>, t: &TensorAttributes) {
    assert_eq!(view.is_runtime, t.get_is_runtime_pass_by_value());
    assert_eq!(view.value, t.get_value_variant());
    assert_eq!(view.is_by_value(), t.get_is_pass_by_value());
    assert_eq!(view.has_compile_time_constant(), t.get_has_compile_time_constant());
}

fn through_the_buffer(tensors: &[TensorAttributes]) {
    let graph = graph_of(tensors).expect("valid");
    let artifact = GraphBuf::new(&graph.view().to_artifact(), &Limits::DEFAULT).expect("an artifact");
    let canonical = artifact.view().canonical().expect("known fields only");
    let decoded = hipplan_serialize::canon::decode(&canonical.encoding, &Limits::DEFAULT).expect("decodes");
    for graph in [&graph, &artifact, &decoded] {
        for (view, t) in graph.view().tensors().iter().zip(tensors) {
            agrees(view, t);
        }
    }
}

#[test]
fn every_state_survives_the_buffer_and_stays_apart() {
    let mut supplied = TensorAttributes::packed(DataType::Float, &[1]);
    supplied.set_as_runtime_parameter();
    let all = [
        TensorAttributes::packed(DataType::Float, &[1]),
        supplied,
        TensorAttributes::scalar_of(2.0_f32, ScalarType::RuntimeParam),
        TensorAttributes::scalar(2.0_f32),
        // Zero is a value.
        TensorAttributes::scalar(0.0_f32),
        TensorAttributes::scalar(false),
    ];
    through_the_buffer(&all);
}

#[test]
fn a_value_without_a_flag_is_a_constant_of_the_baseline() {
    // The legacy form (R16 §9): the slot of the flag is not in the buffer at all.
    let graph = graph_of(&[TensorAttributes::scalar(0.001_f32)]).expect("valid");
    let root = flatbuffers::root::<hipplan_serialize::wire::generated::Graph<'_>>(graph.buffer()).expect("well-formed");
    let tensor = root.tensors().expect("tensors").get(0);
    assert_eq!(tensor._tab.vtable().get(hipplan_serialize::wire::generated::TensorAttributes::VT_IS_RUNTIME_PASS_BY_VALUE), 0);
    let view = graph.view();
    assert!(view.tensors()[0].has_compile_time_constant());
    assert_eq!(view.api_floor(), ApiVersion::BASELINE);
    assert_eq!(view.min_reader_version(), 0);
}

#[test]
fn floors_follow_the_tensors() {
    let plain = || TensorAttributes::packed(DataType::Float, &[4]);
    let runtime = || TensorAttributes::scalar_of(1.0_f32, ScalarType::RuntimeParam);
    let mut supplied = TensorAttributes::packed(DataType::Float, &[1]);
    supplied.set_as_runtime_parameter();
    let mut aligned = plain();
    aligned.set_alignment(64);
    let mut offsets = TensorAttributes::packed(DataType::Int32, &[5]);
    offsets.set_uid(Uid(77));
    let mut ragged = plain();
    ragged.set_ragged_offset(Some(Uid(77)));
    let mut multiplied = ragged.clone();
    multiplied.set_ragged_multiplier(2);

    let v = ApiVersion::new;
    let cases = [
        (vec![plain(), TensorAttributes::scalar(1.0_f32)], v(1, 0, 0), 0),
        (vec![plain(), supplied], v(1, 2, 0), 1),
        (vec![plain(), runtime()], v(1, 2, 0), 1),
        (vec![aligned.clone()], v(1, 3, 0), 0),
        (vec![offsets.clone(), ragged.clone()], v(1, 3, 0), 0),
        (vec![offsets.clone(), ragged, runtime()], v(1, 3, 0), 1),
        (vec![offsets, multiplied, runtime(), aligned], v(1, 4, 0), 1),
    ];
    for (tensors, floor, stamp) in cases {
        let graph = graph_of(&tensors).expect("valid");
        let view = graph.view();
        assert_eq!(view.api_floor(), floor);
        assert_eq!(view.min_reader_version(), stamp, "only a runtime scalar raises the reader version");
        // The stamp of the buffer is the floor.
        let root = flatbuffers::root::<hipplan_serialize::wire::generated::Graph<'_>>(graph.buffer()).expect("well-formed");
        let stamped = root.min_required_engine_api_version().expect("always written");
        assert_eq!((stamped.major(), stamped.minor(), stamped.patch()), (floor.major, floor.minor, floor.patch));
    }
    let mut g = GraphBuilder::new();
    g.set_override_shape_enabled(true);
    let [a, b, c] = [0; 3].map(|_| g.tensor(TensorAttributes::packed(DataType::Float, &[2, 2])));
    g.node("", DataType::Float, Matmul { a, b, c });
    assert_eq!(g.build().expect("valid").view().api_floor(), v(1, 1, 0));
}

#[test]
fn what_cannot_be_a_scalar_is_refused() {
    let mut virtual_runtime = TensorAttributes::packed(DataType::Float, &[1]);
    virtual_runtime.set_as_runtime_parameter().set_virtual(true);
    assert!(matches!(graph_of(&[virtual_runtime]), Err(GraphError::VirtualRuntime { .. })));
    let mut virtual_value = TensorAttributes::scalar(1.0_f32);
    virtual_value.set_virtual(true);
    assert!(matches!(graph_of(&[virtual_value.clone()]), Err(GraphError::VirtualValue { .. })));
    virtual_value.set_is_pass_by_value(true);
    assert!(matches!(graph_of(&[virtual_value]), Err(GraphError::VirtualRuntime { .. })));

    for dims in [&[2][..], &[1, 2], &[3, 1, 1]] {
        let mut many = TensorAttributes::scalar(1.0_f32);
        many.set_dims(dims).set_strides(&vec![1; dims.len()]);
        assert!(matches!(graph_of(&[many.clone()]), Err(GraphError::ScalarElements { .. })));
        many.set_as_runtime_parameter();
        assert!(matches!(graph_of(&[many]), Err(GraphError::ScalarElements { .. })));
    }
    let mut single = TensorAttributes::scalar(1.0_f32);
    single.set_dims(&[1, 1, 1]).set_strides(&[1, 1, 1]);
    assert!(graph_of(&[single]).is_ok(), "one element in more dims is one element");
}

#[test]
fn scalar_operands_take_any_of_the_three_states_and_nothing_else() {
    let layernorm = |epsilon: TensorAttributes| {
        let mut g = GraphBuilder::new();
        let t = |g: &mut GraphBuilder, dims: &[i64]| g.tensor(TensorAttributes::packed(DataType::Float, dims));
        let (x, scale, bias, y) = (t(&mut g, &[4, 8]), t(&mut g, &[1, 8]), t(&mut g, &[1, 8]), t(&mut g, &[4, 8]));
        let epsilon = g.tensor(epsilon);
        let op = Layernorm {
            x,
            scale,
            bias,
            epsilon,
            y,
            normalized_dim_count: 1,
            mean: None,
            inv_variance: None,
            forward_phase: NormFwdPhase::Inference,
        };
        g.node("ln", DataType::Float, op);
        g.build()
    };
    let mut supplied = TensorAttributes::packed(DataType::Float, &[1]);
    supplied.set_as_runtime_parameter();
    for epsilon in [supplied, TensorAttributes::scalar_of(1e-5_f32, ScalarType::RuntimeParam), TensorAttributes::scalar(1e-5_f32)] {
        assert!(layernorm(epsilon).is_ok());
    }
    let error = layernorm(TensorAttributes::packed(DataType::Float, &[1])).expect_err("an ordinary tensor");
    let GraphError::Rule(rule) = &error else { panic!("{error}") };
    assert!(matches!(&**rule, RuleError::OperandNotScalar(breach) if breach.field == "epsilon"), "{error}");
}

#[test]
fn graph_tensor_overloads_make_the_tagged_states() {
    let mut g = GraphBuilder::new();
    let a = g.scalar(1.0_f32, ScalarType::RuntimeParam);
    let b = g.scalar(1_i64, ScalarType::CompileTimeConst);
    let y = g.tensor(TensorAttributes::packed(DataType::Float, &[1]));
    g.node("", DataType::Float, hipplan_serialize::ops::CustomOp { custom_op_id: "t.t", inputs: &[a, b], outputs: &[y], data: &[] });
    let graph = g.build().expect("valid");
    let view = graph.view();
    let tensor = |uid| view.tensor(view.find(uid).expect("there"));
    agrees(tensor(a), &TensorAttributes::scalar_of(1.0_f32, ScalarType::RuntimeParam));
    agrees(tensor(b), &TensorAttributes::scalar(1_i64));
}
