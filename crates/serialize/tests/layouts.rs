//! Whatever freedom a writer takes that the FlatBuffers format leaves: the graph is the same.

mod common;

use common::import;
use common::scatter::{Child, Table, scatter};
use hipplan_fuzzing::{Generator, Rng, Style};
use hipplan_serialize::{DataType, FieldRole, GraphError, Limits, OpKind, VerifiedGraph, json};
use serde_json::Value;

fn integer(v: &Value) -> i64 {
    v.as_i64().unwrap_or_else(|| panic!("{v} is no integer"))
}

fn integers(v: Option<&Value>) -> Child {
    Child::Numbers(8, v.and_then(Value::as_array).into_iter().flatten().flat_map(|v| integer(v).to_le_bytes()).collect())
}

fn text(v: Option<&Value>) -> Child {
    Child::Text(v.and_then(Value::as_str).unwrap_or_default().to_owned())
}

fn data_type(table: &mut Table, slot: u16, v: Option<&Value>, rng: &mut Rng) {
    let ty = v.and_then(Value::as_str).map_or(DataType::Unset, |name| DataType::from_name(name).expect("a type"));
    table.number(slot, [ty.to_wire() as u8], [0], rng);
}

fn flag(table: &mut Table, slot: u16, v: Option<&Value>, rng: &mut Rng) {
    table.number(slot, [u8::from(v == Some(&Value::Bool(true)))], [0], rng);
}

fn number(table: &mut Table, slot: u16, v: Option<&Value>, default: i64, rng: &mut Rng) {
    table.number(slot, v.map_or(default, integer).to_le_bytes(), default.to_le_bytes(), rng);
}

fn tensor(v: &Value, rng: &mut Rng) -> Table {
    let mut t = Table::default();
    number(&mut t, 0, v.get("uid"), 0, rng);
    t.child(1, text(v.get("name")), rng);
    data_type(&mut t, 2, v.get("data_type"), rng);
    t.child(3, integers(v.get("strides")), rng);
    t.child(4, integers(v.get("dims")), rng);
    flag(&mut t, 5, v.get("virtual"), rng);
    if let Some(value) = v.get("value") {
        let float = || value.as_f64().expect("a number") as f32;
        let (tag, align, bytes) = match v["value_type"].as_str().expect("a kind") {
            "Float32Value" => (1, 4, float().to_le_bytes().to_vec()),
            "Float16Value" => (2, 4, float().to_le_bytes().to_vec()),
            "BFloat16Value" => (3, 4, float().to_le_bytes().to_vec()),
            "Float8Value" => (4, 1, vec![integer(value) as u8]),
            "Int32Value" => (5, 4, (integer(value) as i32).to_le_bytes().to_vec()),
            "Float64Value" => (6, 8, value.as_f64().expect("a number").to_le_bytes().to_vec()),
            "Int64Value" => (7, 8, integer(value).to_le_bytes().to_vec()),
            "BoolValue" => (8, 1, vec![u8::from(*value == Value::Bool(true))]),
            other => panic!("{other}"),
        };
        t.number(6, [tag], [0], rng);
        t.child(7, Child::Struct(align, bytes), rng);
    }
    flag(&mut t, 8, v.get("is_runtime_pass_by_value"), rng);
    if let Some(uid) = v.get("ragged_offset_tensor_uid") {
        t.always(9, 8, integer(uid).to_le_bytes().to_vec());
    }
    number(&mut t, 10, v.get("alignment"), 16, rng);
    number(&mut t, 11, v.get("ragged_offset_multiplier"), 1, rng);
    t
}

/// The table of an operation. Slots are those of the description of the format; what is null-optional there is stored even when it
/// is 0.
fn attributes(kind: OpKind, v: &Value, rng: &mut Rng) -> Table {
    let mut t = Table::default();
    for (slot, spec) in (0_u16..).zip(kind.fields()) {
        let Some(value) = v.get(spec.wire_name) else { continue };
        let is_operand = spec.role != FieldRole::Attribute;
        match (spec.wire_name, value) {
            ("custom_op_id", _) => t.child(slot, text(Some(value)), rng),
            ("data", Value::Array(list)) => t.child(slot, Child::Numbers(1, list.iter().map(|v| integer(v) as u8).collect()), rng),
            ("block_size", Value::Array(list)) => {
                t.child(slot, Child::Numbers(4, list.iter().flat_map(|v| (integer(v) as i32).to_le_bytes()).collect()), rng);
            }
            (_, Value::Array(_)) => t.child(slot, integers(Some(value)), rng),
            ("generate_index" | "generate_stats", _) => t.always(slot, 1, vec![u8::from(*value == Value::Bool(true))]),
            (_, Value::Bool(_)) => flag(&mut t, slot, Some(value), rng),
            ("axis" | "axis_tensor_uid" | "left_bound" | "right_bound", _) => t.always(slot, 8, integer(value).to_le_bytes().to_vec()),
            ("max_seq_len_kv", _) => t.always(slot, 4, (integer(value) as i32).to_le_bytes().to_vec()),
            ("block_size" | "top_k", _) => t.number(slot, (integer(value) as i32).to_le_bytes(), [0; 4], rng),
            ("normalized_dim_count", _) => number(&mut t, slot, Some(value), 0, rng),
            _ if is_operand && spec.required => number(&mut t, slot, Some(value), 0, rng),
            _ if is_operand => t.always(slot, 8, integer(value).to_le_bytes().to_vec()),
            (
                "relu_lower_clip"
                | "relu_upper_clip"
                | "relu_lower_clip_slope"
                | "swish_beta"
                | "elu_alpha"
                | "softplus_beta"
                | "dropout_probability"
                | "attn_scale_value",
                _,
            ) => t.always(slot, 4, (value.as_f64().expect("a number") as f32).to_le_bytes().to_vec()),
            // The generator gives enums as their numbers.
            _ => t.number(slot, [integer(value) as u8], [0], rng),
        }
    }
    t
}

/// Slot 8 of the graph.
enum Slot8 {
    None,
    Reader(u32),
    Version([u32; 3]),
}

fn graph(v: &Value, slot_8: &Slot8, rng: &mut Rng) -> Table {
    let mut g = Table::default();
    g.child(0, text(v.get("name")), rng);
    for (slot, key) in [(1, "compute_data_type"), (2, "intermediate_data_type"), (3, "io_data_type")] {
        data_type(&mut g, slot, v.get(key), rng);
    }
    let tensors = v["tensors"].as_array().expect("tensors").iter().map(|t| tensor(t, rng)).collect();
    g.child(4, Child::Tables(tensors), rng);
    let mut nodes = Vec::new();
    for v in v["nodes"].as_array().expect("nodes") {
        let kind = OpKind::from_wire_name(v["type"].as_str().expect("a type")).expect("known");
        let mut node = Table::default();
        node.child(0, text(v.get("name")), rng);
        data_type(&mut node, 1, v.get("compute_data_type"), rng);
        node.number(2, [kind.tag()], [0], rng);
        node.child(3, Child::Table(attributes(kind, v, rng)), rng);
        nodes.push(node);
    }
    g.child(5, Child::Tables(nodes), rng);
    if let Some(engine) = v.get("preferred_engine_id") {
        g.always(6, 8, integer(engine).to_le_bytes().to_vec());
    }
    flag(&mut g, 7, v.get("is_override_shape_enabled"), rng);
    match slot_8 {
        Slot8::None => {}
        Slot8::Reader(version) => g.always(8, 4, version.to_le_bytes().to_vec()),
        Slot8::Version(version) => g.always(8, 4, version.iter().flat_map(|v| v.to_le_bytes()).collect()),
    }
    if let Some(id) = v.get("id").and_then(Value::as_str) {
        let hex: String = id.chars().filter(|&c| c != '-').collect();
        g.always(9, 1, (0..16).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex")).collect());
    }
    g
}

#[test]
fn every_layout_of_a_graph_is_the_same_graph() {
    let cases = std::env::var("HIPPLAN_PROPERTY_CASES").map_or(20, |n| n.parse::<u64>().expect("HIPPLAN_PROPERTY_CASES is a number"));
    let (mut sizes, mut count) = (std::collections::BTreeSet::new(), 0);
    for &kind in OpKind::ALL {
        for case in 0..cases {
            let seed = 0x1a << 40 | u64::from(kind.tag()) << 32 | case;
            let mut generator = Generator::new(seed);
            generator.node(kind);
            let other = generator.rng.pick(OpKind::ALL);
            generator.node(other);
            let model = generator.model.json(&Style { seed });
            let ours = import(&model).unwrap_or_else(|e| panic!("{e}\n{model:#}")).graph;
            let ours = ours.view();
            let mut rng = Rng::new(seed);
            let version = ours.api_floor();
            for slot_8 in [Slot8::None, Slot8::Reader(1), Slot8::Version([version.major, version.minor, version.patch])] {
                // The two forms of slot 8 are told apart by the room that they have: a number has no gap of 8 bytes behind it.
                let tight = matches!(slot_8, Slot8::Reader(_));
                let bytes = scatter(&graph(&model, &slot_8, &mut rng), tight, &mut rng);
                let seen = VerifiedGraph::verify(&bytes, &Limits::DEFAULT).unwrap_or_else(|e| panic!("{e}\n{model:#}"));
                assert_eq!(seen.canonical(), ours.canonical(), "{model:#}");
                assert_eq!(seen.tensors(), ours.tensors());
                assert_eq!((seen.name(), seen.id(), seen.preferred_engine_id()), (ours.name(), ours.id(), ours.preferred_engine_id()));
                let export = |g| json::export(g, &Limits::DEFAULT).expect("JSON holds it").json;
                assert_eq!(export(&seen), export(&ours));
                assert!(seen.nodes().all(|n| seen.node_name(n) == ours.node_name(n)));
                sizes.insert(bytes.len());
                count += 1;
            }
        }
    }
    assert!(sizes.len() * 3 > count.min(1000), "layouts differ: {} sizes of {count} buffers", sizes.len());
}

/// The reader guard, wherever slot 8 stands in the table.
#[test]
fn a_newer_stamp_is_found_wherever_it_stands() {
    for case in 0..300 {
        let model = Generator::random(case, 1).json(&Style { seed: case });
        let mut rng = Rng::new(case);
        for (slot_8, field) in [(Slot8::Reader(2), "min_reader_version"), (Slot8::Version([1, 5, 0]), "min_required_engine_api_version")] {
            let tight = matches!(slot_8, Slot8::Reader(_));
            let bytes = scatter(&graph(&model, &slot_8, &mut rng), tight, &mut rng);
            match VerifiedGraph::verify(&bytes, &Limits::DEFAULT) {
                Err(GraphError::TooNew { field: found, .. }) => assert_eq!(found, field),
                other => panic!("{other:?}"),
            }
        }
    }
}
