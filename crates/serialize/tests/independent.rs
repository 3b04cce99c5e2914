//! The independent path: the wire format as `flatc` writes and reads it, under schemas that were typed a second time, from the
//! description of the format (`tests/independent/`). What it writes we read as meant; what we write it reads the same.

mod common;

use common::flatc::Flatc;
use common::{corpus, import};
use hipplan_fuzzing::{Generator, Style};
use hipplan_serialize::json::{self, ExportError};
use hipplan_serialize::{GraphBuf, GraphError, Limits, OpKind, VerifiedGraph};
use serde_json::{Map, Value, json};

/// Keys that stand in the node itself.
const NODE_KEYS: [&str; 3] = ["name", "type", "compute_data_type"];

/// hipDNN JSON with the keys of operations in the node, as flatc wants the same graph.
///
/// Enums are spelled in upper case or given as numbers, the union's tag stands beside it, structs are objects, what is absent has
/// no key.
fn for_flatc(graph: &Value) -> Value {
    let upper = |v: &Value| json!(v.as_str().expect("a type").to_uppercase());
    let mut out = graph.clone();
    let top = out.as_object_mut().expect("an object");
    for key in ["compute_data_type", "intermediate_data_type", "io_data_type"] {
        if let Some(ty) = top.get(key).map(upper) {
            top.insert(key.into(), ty);
        }
    }
    if let Some(id) = top.get("id") {
        let hex: String = id.as_str().expect("a text").chars().filter(|&c| c != '-').collect();
        let bytes: Vec<u8> = (0..16).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex")).collect();
        top.insert("id".into(), json!({"bytes": bytes}));
    }
    for tensor in top["tensors"].as_array_mut().expect("tensors") {
        tensor["data_type"] = upper(&tensor["data_type"]);
        if let Some(value) = tensor.get("value").cloned() {
            tensor["value"] = json!({"value": value});
        }
    }
    for node in top["nodes"].as_array_mut().expect("nodes") {
        let fields = node.as_object().expect("an object").iter().filter(|(k, _)| !NODE_KEYS.contains(&k.as_str()));
        let attributes: Map<String, Value> = fields.map(|(k, v)| (k.clone(), v.clone())).collect();
        *node = json!({
            "name": node["name"], "compute_data_type": upper(&node["compute_data_type"]),
            "attributes_type": node["type"], "attributes": attributes,
        });
    }
    out
}

/// With the stamp that hipDNN's later writers put into slot 8.
fn stamped(mut value: Value, graph: &VerifiedGraph<'_>) -> Value {
    let floor = graph.api_floor();
    value["min_required_engine_api_version"] = json!({"major": floor.major, "minor": floor.minor, "patch": floor.patch});
    value
}

/// Without empty lists and texts, which mean the same as absent ones.
fn without_empty(value: Value) -> Value {
    let is_empty = |v: &Value| v.as_array().is_some_and(Vec::is_empty) || v == "";
    match value {
        Value::Object(map) => map.into_iter().filter(|(_, v)| !is_empty(v)).map(|(k, v)| (k, without_empty(v))).collect(),
        Value::Array(list) => list.into_iter().map(without_empty).collect(),
        other => other,
    }
}

fn verify(bytes: &[u8]) -> VerifiedGraph<'_> {
    VerifiedGraph::verify(bytes, &Limits::DEFAULT).unwrap_or_else(|e| panic!("{e}"))
}

/// Everything that two graphs say, field by field, and their keys.
fn assert_same(a: &VerifiedGraph<'_>, b: &VerifiedGraph<'_>) {
    assert_eq!(a.name(), b.name());
    assert_eq!(a.default_types(), b.default_types());
    assert_eq!(a.is_override_shape_enabled(), b.is_override_shape_enabled());
    assert_eq!(a.preferred_engine_id(), b.preferred_engine_id());
    assert_eq!(a.id(), b.id());
    assert_eq!(a.tensors(), b.tensors());
    assert_eq!(a.node_count(), b.node_count());
    for node in a.nodes() {
        assert_eq!(a.node_label(node), b.node_label(node));
        assert_eq!(a.compute_type(node), b.compute_type(node));
        assert_eq!(a.op(node), b.op(node));
        assert_eq!(a.operands(node), b.operands(node));
    }
    // By bits; and types as stated.
    assert_eq!(a.canonical().expect("known fields").key, b.canonical().expect("known fields").key);
    let export = |g| json::export(g, &Limits::DEFAULT).expect("JSON holds it").json;
    let (mut a, mut b) = (export(a), export(b));
    for json in [&mut a, &mut b] {
        json.as_object_mut().expect("an object").remove("min_required_engine_api_version");
    }
    assert_eq!(a, b);
}

/// A random graph around an operation, as JSON with the keys of operations in the node.
fn model(kind: OpKind, case: u64) -> Value {
    let seed = 0x5eed << 40 | u64::from(kind.tag()) << 32 | case;
    let mut generator = Generator::new(seed);
    for _ in 0..generator.rng.below(3) {
        let other = generator.rng.pick(OpKind::ALL);
        generator.node(other);
    }
    generator.node(kind);
    generator.model.json(&Style { seed })
}

/// Random graphs of every operation.
fn models(per_kind: u64) -> Vec<Value> {
    OpKind::ALL.iter().flat_map(|&kind| (0..per_kind).map(move |case| model(kind, case))).collect()
}

fn cases() -> u64 {
    std::env::var("HIPPLAN_PROPERTY_CASES").map_or(20, |n| n.parse().expect("HIPPLAN_PROPERTY_CASES is a number"))
}

fn read(json: &Value) -> GraphBuf {
    import(json).unwrap_or_else(|e| panic!("{e}\n{json:#}")).graph
}

#[test]
fn what_flatc_writes_we_read_and_what_we_write_it_reads() {
    let Some(flatc) = Flatc::find() else { return };
    let all: Vec<(OpKind, u64)> = OpKind::ALL.iter().flat_map(|&kind| (0..cases()).map(move |case| (kind, case))).collect();
    for some in all.chunks(2000) {
        let models: Vec<Value> = some.iter().map(|&(kind, case)| model(kind, case)).collect();
        let ours: Vec<GraphBuf> = models.iter().map(read).collect();
        let values: Vec<Value> = models.iter().zip(&ours).map(|(m, g)| stamped(for_flatc(m), &g.view())).collect();
        let theirs = flatc.encode("graph_main", &values);
        for (theirs, ours) in theirs.iter().zip(&ours) {
            assert_same(&verify(theirs), &ours.view());
        }
        let buffers: Vec<&[u8]> = ours.iter().map(GraphBuf::buffer).collect();
        let seen = flatc.decode("graph_main", &buffers);
        for ((seen, expected), ours) in seen.into_iter().zip(flatc.decode("graph_main", &theirs)).zip(&ours) {
            assert_eq!(without_empty(seen), without_empty(expected), "{:?}", ours.view().name());
        }
    }
    println!("{} graphs", all.len());
}

/// Real graphs: our own JSON of them, in hipDNN's style, is flattened for flatc.
#[test]
fn the_corpus_takes_the_same_path() {
    let Some(flatc) = Flatc::find() else { return };
    let ours: Vec<GraphBuf> = corpus().iter().map(|(_, text)| json::import(text, &Limits::DEFAULT).expect("a graph").graph).collect();
    let flat = |graph: &GraphBuf| {
        let mut json = json::export(&graph.view(), &Limits::DEFAULT).expect("JSON holds it").json;
        for node in json["nodes"].as_array_mut().expect("nodes") {
            let kind = OpKind::from_wire_name(node["type"].as_str().expect("a type")).expect("known");
            let node = node.as_object_mut().expect("an object");
            for group in ["inputs", "outputs", "parameters", "attributes"] {
                if let Some(Value::Object(keys)) = node.remove(group) {
                    node.extend(keys.into_iter().filter(|(_, v)| !v.is_null()));
                }
            }
            // hipDNN's JSON spells enums in its own ways; flatc takes their numbers.
            let op = graph.view().nodes().find(|&n| graph.view().kind(n) == kind).map(|n| graph.view().op(n));
            assert!(op.is_some());
            for (key, value) in node.iter_mut().filter(|(k, _)| !NODE_KEYS.contains(&k.as_str())) {
                if let (Some(text), true) = (value.as_str(), key != "custom_op_id") {
                    let text = text.to_uppercase();
                    let wire = match (key.as_str(), text.as_str()) {
                        ("mode", "MIN" | "MAX") => format!("{text}_OP"),
                        _ => text,
                    };
                    *value = json!(wire);
                }
            }
        }
        json
    };
    let values: Vec<Value> = ours.iter().map(|g| for_flatc(&flat(g))).collect();
    for (theirs, ours) in flatc.encode("graph_main", &values).iter().zip(&ours) {
        assert_same(&verify(theirs), &ours.view());
    }
}

/// What a writer could say when the schema ended at these slots. A scalar that was user-supplied becomes a constant.
fn reduced(model: &Value, keep_flag: bool, keep_alignment: bool, keep_override: bool) -> Value {
    let mut out = model.clone();
    let top = out.as_object_mut().expect("an object");
    top.remove("id");
    if !keep_override {
        top.remove("is_override_shape_enabled");
    }
    for tensor in top["tensors"].as_array_mut().expect("tensors") {
        let tensor = tensor.as_object_mut().expect("an object");
        tensor.remove("ragged_offset_multiplier");
        if !keep_alignment {
            tensor.remove("alignment");
            tensor.remove("ragged_offset_tensor_uid");
        }
        if !keep_flag && tensor.remove("is_runtime_pass_by_value") == Some(json!(true)) && !tensor.contains_key("value") {
            tensor.insert("value_type".into(), json!("Float32Value"));
            tensor.insert("value".into(), json!(0.5));
        }
    }
    out
}

#[test]
fn older_slot_sets_are_read() {
    let Some(flatc) = Flatc::find() else { return };
    let models = models(cases().min(100));
    for (schema, flag, alignment, override_shapes) in
        [("graph_oldest", false, false, false), ("graph_override", false, false, true), ("graph_no_id", true, true, true)]
    {
        // Without its offsets, a tensor of offsets is unused, and nodes may no longer hang together.
        let pairs: Vec<(Value, GraphBuf)> = models
            .iter()
            .map(|m| reduced(m, flag, alignment, override_shapes))
            .filter_map(|m| import(&m).ok().map(|i| (for_flatc(&m), i.graph)))
            .collect();
        assert!(pairs.len() * 10 > models.len() * 9, "{} of {}", pairs.len(), models.len());
        let values: Vec<Value> = pairs.iter().map(|(v, g)| if flag { stamped(v.clone(), &g.view()) } else { v.clone() }).collect();
        for (theirs, (_, ours)) in flatc.encode(schema, &values).iter().zip(&pairs) {
            assert_same(&verify(theirs), &ours.view());
        }
    }
}

/// R16's own form of slot 8, in many surroundings: accepted up to 1, and never taken for a version.
#[test]
fn a_number_in_slot_8_is_a_reader_version() {
    let Some(flatc) = Flatc::find() else { return };
    let models: Vec<Value> = models(cases().min(100)).iter().map(|m| reduced(m, true, false, true)).collect();
    let pairs: Vec<(Value, GraphBuf)> = models.iter().filter_map(|m| import(m).ok().map(|i| (for_flatc(m), i.graph))).collect();
    assert!(pairs.len() * 10 > models.len() * 9);
    for stamp in [None, Some(0), Some(1), Some(2), Some(u32::MAX)] {
        let with = |v: &Value| {
            let mut v = v.clone();
            if let Some(stamp) = stamp {
                v["min_reader_version"] = json!(stamp);
            }
            v
        };
        let values: Vec<Value> = pairs.iter().map(|(v, _)| with(v)).collect();
        for (theirs, (_, ours)) in flatc.encode("graph_uint", &values).iter().zip(&pairs) {
            if stamp <= Some(1) {
                assert_same(&verify(theirs), &ours.view());
                continue;
            }
            match VerifiedGraph::verify(theirs, &Limits::DEFAULT) {
                Err(GraphError::TooNew { field: "min_reader_version", found, .. }) => assert_eq!(Some(found), stamp.map(|s| s.to_string())),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_version_in_slot_8_above_ours_is_too_new() {
    let Some(flatc) = Flatc::find() else { return };
    let models = models(2);
    for (version, ok) in [([1, 4, 0], true), ([0, 0, 0], true), ([1, 4, 1], false), ([1, 5, 0], false), ([2, 0, 0], false)] {
        let [major, minor, patch] = version;
        let with = |m: &Value| {
            let mut v = for_flatc(m);
            v["min_required_engine_api_version"] = json!({"major": major, "minor": minor, "patch": patch});
            v
        };
        for (buffer, model) in flatc.encode("graph_main", &models.iter().map(with).collect::<Vec<_>>()).iter().zip(&models) {
            match VerifiedGraph::verify(buffer, &Limits::DEFAULT) {
                Ok(graph) => {
                    assert!(ok);
                    assert_same(&graph, &read(model).view());
                }
                Err(error) => assert!(!ok && error.is_too_new(), "{version:?}: {error}"),
            }
        }
    }
}

/// An operation with a larger tag is "unknown to this version", wherever it stands and whatever the union's new member is;
/// never a failure of the verifier, never another operation.
#[test]
fn operations_of_a_newer_writer_are_named_by_their_number() {
    let Some(flatc) = Flatc::find() else { return };
    let members = [
        (24, "FutureAttributes", json!({"x_tensor_uid": 1, "y_tensor_uid": 2, "note": "n"})),
        (24, "FutureAttributes", json!({})),
        (25, "FutureStruct", json!({"x": 7})),
        (26, "FutureText", json!("text")),
    ];
    for model in models(3) {
        let graph = for_flatc(&model);
        let nodes = graph["nodes"].as_array().expect("nodes").len();
        let mut values = Vec::new();
        for at in 0..nodes {
            for (_, name, content) in &members {
                let mut value = graph.clone();
                value["nodes"][at]["attributes_type"] = json!(name);
                value["nodes"][at]["attributes"] = content.clone();
                values.push(value);
            }
        }
        let buffers = flatc.encode("graph_newer", &values);
        for (i, buffer) in buffers.iter().enumerate() {
            let (at, expected) = (i / members.len(), members[i % members.len()].0);
            match VerifiedGraph::verify(buffer, &Limits::DEFAULT) {
                Err(error @ GraphError::UnknownOperation { .. }) => {
                    let GraphError::UnknownOperation { index, tag, .. } = error else { continue };
                    assert_eq!((index as usize, tag), (at, expected));
                    assert!(error.is_too_new());
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Fields that nobody knows yet: the graph is read, it has no key, and JSON does not lose them in silence.
#[test]
fn fields_of_a_newer_writer_cost_the_key_and_nothing_else() {
    let Some(flatc) = Flatc::find() else { return };
    let matmul = |m: &&Value| m["nodes"].as_array().is_some_and(|n| n.iter().any(|n| n["type"] == "MatmulAttributes"));
    let models = models(20);
    let model = models.iter().find(matmul).expect("a graph with a matmul");
    let at = model["nodes"].as_array().and_then(|n| n.iter().position(|n| n["type"] == "MatmulAttributes")).expect("a matmul");
    let plain = for_flatc(model);
    type Edit<'e> = (&'static str, &'e dyn Fn(&mut Value));
    let edits: [Edit<'_>; 6] = [
        ("", &|_| ()),
        ("the graph", &|v| v["partition"] = json!([1])),
        ("the graph", &|v| v["owner"] = json!("x")),
        ("tensor 1", &|v| v["tensors"][1]["swizzle"] = json!(2)),
        ("node 0", &|v| v["nodes"][0]["priority"] = json!(1)),
        ("node", &|v| v["nodes"][at]["attributes"]["flops"] = json!("2*m*n*k")),
    ];
    let values: Vec<Value> = edits
        .iter()
        .map(|(_, edit)| {
            let mut value = plain.clone();
            edit(&mut value);
            value
        })
        .collect();
    for (buffer, (place, _)) in flatc.encode("graph_newer", &values).iter().zip(&edits) {
        let graph = verify(buffer);
        if place.is_empty() {
            // A newer writer that says nothing new.
            assert_same(&graph, &read(model).view());
            continue;
        }
        assert!(graph.canonical().is_err(), "{place}");
        let error = json::export(&graph, &Limits::DEFAULT).expect_err("it would be lost");
        assert!(matches!(&error, ExportError::UnknownFields { table } if table.starts_with(place)), "{error}");
    }
}

/// Absent and empty lists and texts mean the same.
#[test]
fn empty_is_absent() {
    let Some(flatc) = Flatc::find() else { return };
    let models: Vec<Value> = models(3).iter().map(for_flatc).collect();
    let mut absent = Vec::new();
    let mut empty = Vec::new();
    for model in &models {
        // What is empty is left out here, and added there wherever a list or a text may stand.
        let least = without_empty(model.clone());
        let mut most = least.clone();
        let add = |v: &mut Value, key: &str, what: Value| {
            if v.get(key).is_none() {
                v[key] = what;
            }
        };
        add(&mut most, "name", json!(""));
        for tensor in most["tensors"].as_array_mut().expect("tensors") {
            tensor["name"] = json!("");
        }
        for node in most["nodes"].as_array_mut().expect("nodes") {
            add(node, "name", json!(""));
            let lists: &[(&str, Value)] = match node["attributes_type"].as_str().expect("a type") {
                "BatchnormAttributes" | "BatchnormBackwardAttributes" => &[("peer_stats_tensor_uid", json!([]))],
                "BlockScaleDequantizeAttributes" => &[("block_size", json!([]))],
                "CustomOpAttributes" => &[("data", json!([])), ("custom_op_id", json!("")), ("input_tensor_uids", json!([]))],
                _ => &[],
            };
            for (key, what) in lists {
                add(&mut node["attributes"], key, what.clone());
            }
        }
        let mut least = least;
        for tensor in least["tensors"].as_array_mut().expect("tensors") {
            tensor.as_object_mut().expect("an object").remove("name");
        }
        absent.push(least);
        empty.push(most);
    }
    let (absent, empty) = (flatc.encode("graph_main", &absent), flatc.encode("graph_main", &empty));
    let mut differ = 0;
    for (absent, empty) in absent.iter().zip(&empty) {
        assert_same(&verify(absent), &verify(empty));
        differ += usize::from(absent.len() != empty.len());
    }
    assert_eq!(differ, absent.len(), "flatc writes what is empty");
}
