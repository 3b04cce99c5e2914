//! Why a graph has its key and its floor, or none.

mod common;

use common::{corpus_json, import};
use flatbuffers::{FlatBufferBuilder, WIPOffset};
use hipplan_serialize::explain::{self, StampAgreement};
use hipplan_serialize::floors::{Cause, Feature, causes};
use hipplan_serialize::graph::Stamp;
use hipplan_serialize::import::import as import_bytes;
use hipplan_serialize::plan::BindingKind;
use hipplan_serialize::wire::generated as wire;
use hipplan_serialize::{ApiVersion, DataType, GraphBuf, GraphBuilder, Limits, ScalarType, TensorAttributes, Uid, ops};

/// A matmul of hand-written tables: a field in a slot that nobody knows where asked for, and a stamp of either form.
fn hand_made(graph: bool, tensor: bool, op: bool, stamp: Stamp) -> GraphBuf {
    let mut fbb = FlatBufferBuilder::new();
    let mut tensors = Vec::new();
    for uid in 1..=3_i64 {
        let (dims, strides) = (fbb.create_vector(&[4_i64, 4]), fbb.create_vector(&[4_i64, 1]));
        let start = fbb.start_table();
        fbb.push_slot_always(wire::TensorAttributes::VT_UID, uid);
        fbb.push_slot_always(wire::TensorAttributes::VT_DIMS, dims);
        fbb.push_slot_always(wire::TensorAttributes::VT_STRIDES, strides);
        fbb.push_slot_always(wire::TensorAttributes::VT_DATA_TYPE, wire::DataType::FLOAT);
        if tensor && uid > 1 {
            fbb.push_slot_always(4 + 2 * (12 + uid as u16), 1_u8);
        }
        let end = fbb.end_table(start);
        tensors.push(WIPOffset::<wire::TensorAttributes<'_>>::new(end.value()));
    }
    let start = fbb.start_table();
    for (slot, uid) in [(0, 1_i64), (1, 2), (2, 3)] {
        fbb.push_slot_always(4 + 2 * slot, uid);
    }
    if op {
        fbb.push_slot_always(4 + 2 * 3, 1_u8);
        fbb.push_slot_always(4 + 2 * 5, 1_u8);
    }
    let attributes = fbb.end_table(start);
    let start = fbb.start_table();
    fbb.push_slot_always(wire::Node::VT_COMPUTE_DATA_TYPE, wire::DataType::FLOAT);
    fbb.push_slot_always(wire::Node::VT_ATTRIBUTES_TYPE, wire::NodeAttributes::MatmulAttributes);
    fbb.push_slot_always(wire::Node::VT_ATTRIBUTES, attributes);
    let end = fbb.end_table(start);
    let nodes = fbb.create_vector(&[WIPOffset::<wire::Node<'_>>::new(end.value())]);
    let tensors = fbb.create_vector(&tensors);
    let start = fbb.start_table();
    fbb.push_slot_always(wire::Graph::VT_TENSORS, tensors);
    fbb.push_slot_always(wire::Graph::VT_NODES, nodes);
    match stamp {
        Stamp::Absent => {}
        Stamp::Reader(n) => fbb.push_slot_always(wire::Graph::VT_MIN_REQUIRED_ENGINE_API_VERSION, n),
        Stamp::Api(v) => {
            fbb.push_slot_always(wire::Graph::VT_MIN_REQUIRED_ENGINE_API_VERSION, wire::EngineApiVersion::new(v.major, v.minor, v.patch))
        }
    }
    if graph {
        fbb.push_slot_always(4 + 2 * 11, 1_u8);
    }
    let root = fbb.end_table(start);
    fbb.finish_minimal(root);
    GraphBuf::new(fbb.finished_data(), &Limits::DEFAULT).expect("valid, as far as it is known")
}

#[test]
fn every_table_with_unknown_fields_is_named_with_its_slots() {
    let known = hand_made(false, false, false, Stamp::Absent);
    let all = explain::explain(&known.view());
    assert!(all.key.is_some() && all.unknown.is_empty());
    let newer = hand_made(true, true, true, Stamp::Absent);
    let all = explain::explain(&newer.view());
    assert_eq!(all.key, None);
    let lines: Vec<String> = all.unknown.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "the graph table: slot 11 (known are the first 10)",
            "tensor 1 (uid 2): slot 14 (known are the first 12)",
            "tensor 2 (uid 3): slot 15 (known are the first 12)",
            "the operation of node 0 (matmul): slots 3, 5 (known are the first 3)",
        ]
    );
    for (graph, tensor, op) in [(true, false, false), (false, true, false), (false, false, true), (false, false, false)] {
        let buf = hand_made(graph, tensor, op, Stamp::Absent);
        let view = buf.view();
        assert_eq!(view.unknown_tables().is_empty(), view.canonical().is_ok());
    }
}

#[test]
fn both_forms_of_the_stamp_are_told_and_judged() {
    let v = ApiVersion::new;
    for (stamp, expected) in [
        (Stamp::Absent, StampAgreement::Agrees),
        (Stamp::Reader(0), StampAgreement::Agrees),
        (Stamp::Reader(1), StampAgreement::TooHigh),
        (Stamp::Api(v(1, 0, 0)), StampAgreement::Agrees),
        (Stamp::Api(v(1, 4, 0)), StampAgreement::TooHigh),
    ] {
        let graph = hand_made(false, false, false, stamp);
        let all = explain::explain(&graph.view());
        assert_eq!((all.stamp, all.stamp_agreement), (stamp, expected));
        assert_eq!(all.floor, ApiVersion::BASELINE);
    }
}

/// A graph that reads tensors with every feature.
fn with_features() -> GraphBuf {
    let mut g = GraphBuilder::new();
    g.set_override_shape_enabled(true).set_name("all of it").set_id(Some([7; 16])).set_preferred_engine_id(Some(-4));
    let plain = || TensorAttributes::packed(DataType::Float, &[2, 1]);
    let offsets = g.tensor(TensorAttributes::packed(DataType::Int32, &[3]));
    let mut aligned = plain();
    aligned.set_alignment(64).set_name("aligned");
    let mut ragged = plain();
    ragged.set_ragged_offset(Some(offsets)).set_ragged_multiplier(3).set_strides(&[1, 77]);
    let mut runtime = TensorAttributes::packed(DataType::Float, &[1]);
    runtime.set_as_runtime_parameter();
    let inputs: Vec<Uid> =
        [aligned, ragged, runtime, TensorAttributes::scalar_of(1.5_f32, ScalarType::RuntimeParam), TensorAttributes::scalar(2.5_f32)]
            .into_iter()
            .map(|t| g.tensor(t))
            .collect();
    let outputs = [g.tensor(plain())];
    g.tensor(plain());
    g.node("n", DataType::Float, ops::CustomOp { custom_op_id: "t.t", inputs: &inputs, outputs: &outputs, data: &[] });
    g.build().expect("valid")
}

#[test]
fn each_step_of_the_floor_names_what_causes_it() {
    let graph = with_features();
    let view = graph.view();
    let found: Vec<(Feature, Option<i64>)> =
        causes(&view).into_iter().map(|c: Cause| (c.feature, c.tensor.map(|ix| view.tensor(ix).uid.0))).collect();
    assert_eq!(
        found,
        [
            (Feature::OverrideShapes, None),
            (Feature::RuntimePassByValue, Some(4)),
            (Feature::RuntimePassByValue, Some(5)),
            (Feature::Alignment, Some(2)),
            (Feature::Ragged, Some(3)),
            (Feature::RaggedMultiplier, Some(3)),
        ]
    );
    assert_eq!(found.iter().map(|c| c.0.floor()).max(), Some(view.api_floor()));
    let all = explain::explain(&view);
    assert_eq!(all.stamp, Stamp::Api(ApiVersion::new(1, 4, 0)));
    assert_eq!(all.stamp_agreement, StampAgreement::Agrees);
}

#[test]
fn what_the_key_leaves_out_and_what_each_scalar_is() {
    let graph = with_features();
    let view = graph.view();
    let all = explain::explain(&view);
    let found = |what: &str| all.left_out.iter().find(|l| l.what == what).map(|l| l.found.clone());
    assert_eq!(found("graph name").as_deref(), Some("\"all of it\""));
    assert_eq!(found("node names").as_deref(), Some("\"n\""));
    assert_eq!(found("tensor names").as_deref(), Some("\"aligned\""));
    assert_eq!(found("graph id"), Some("07".repeat(16)));
    assert_eq!(found("preferred engine").as_deref(), Some("-4"));
    assert_eq!(found("unused tensors").as_deref(), Some("tensor 7 (uid 8)"));
    assert!(found("strides of dims of size 1").is_some_and(|t| t.contains("(uid 3)")));
    let states: Vec<(i64, BindingKind)> = all.by_value.iter().map(|b| (view.tensor(b.tensor).uid.0, b.state)).collect();
    assert_eq!(states, [(4, BindingKind::RuntimeScalar), (5, BindingKind::DefaultedScalar), (6, BindingKind::Constant)]);
}

#[test]
fn what_is_refused_has_a_hint() {
    let mut bad = corpus_json("sample_conv_fwd");
    bad["tensors"][0]["uid"] = bad["tensors"][1]["uid"].clone();
    let error = import_bytes(bad.to_string().as_bytes(), &Limits::DEFAULT).expect_err("two tensors with one uid");
    assert!(explain::hint(&error).contains("uids"), "{error}");
    for (bytes, word) in [(&b""[..], "nothing was read"), (b"{\"nodes\": [}", "line and column"), (b"\x01\x02\x03\x04\x05\x06", "cut off")]
    {
        let error = import_bytes(bytes, &Limits::DEFAULT).expect_err("no graph");
        assert!(explain::hint(&error).contains(word), "{error}: {}", explain::hint(&error));
    }
    assert!(import(&corpus_json("sample_conv_fwd")).is_ok());
}
