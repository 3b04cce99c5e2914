//! hipDNN JSON out: the style that hipDNN's reader wants, nothing lost, and in again.

mod common;

use common::{aligned, corpus, corpus_graphs, import};
use flatbuffers::FlatBufferBuilder;
use hipplan_fuzzing::{FieldValue, Generator, Style};
use hipplan_serialize::json::{self, ExportError};
use hipplan_serialize::ops::{CustomOp, Pointwise};
use hipplan_serialize::wire::generated as wire;
use hipplan_serialize::{
    DataType, GraphBuf, GraphBuilder, Limits, OpKind, PointwiseMode, ScalarType, TensorAttributes, TensorValue, Uid, VerifiedGraph,
};
use serde_json::{Value, json};

fn export(graph: &GraphBuf) -> json::Exported {
    json::export(&graph.view(), &Limits::DEFAULT).expect("JSON holds it")
}

/// Out and in again, in both spacings: the bytes must be the same.
fn round_trip(graph: &GraphBuf) -> Value {
    let out = export(graph);
    for text in [out.compact(), out.pretty()] {
        let back = json::import(text.as_bytes(), &Limits::DEFAULT).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(back.warnings, [""; 0], "{text}");
        assert!(back.graph.buffer() == graph.buffer(), "not the same bytes:\n{text}\n{}", export(&back.graph).pretty());
    }
    out.json
}

/// Random graphs of every operation: written, read, JSON out and in, written again. The number of graphs of each operation is
/// `HIPPLAN_PROPERTY_CASES`.
#[test]
fn random_graphs_of_every_operation_come_back_byte_for_byte() {
    let cases = std::env::var("HIPPLAN_PROPERTY_CASES").map_or(50, |n| n.parse::<u64>().expect("HIPPLAN_PROPERTY_CASES is a number"));
    let mut per_kind = vec![0_u64; OpKind::ALL.len()];
    for (&kind, n) in OpKind::ALL.iter().zip(&mut per_kind) {
        for case in 0..cases {
            let seed = u64::from(kind.tag()) << 32 | case;
            let mut generator = Generator::new(seed);
            for _ in 0..generator.rng.below(3) {
                let other = generator.rng.pick(OpKind::ALL);
                generator.node(other);
            }
            generator.node(kind);
            let graph = generator.model.graph(&Style { seed });
            let view = graph.view();
            assert!(view.nodes().any(|n| view.kind(n) == kind));
            round_trip(&graph);
            *n += 1;
        }
    }
    assert!(per_kind.iter().all(|&n| n == cases));
    println!("{cases} graphs of each of {} operations", per_kind.len());
}

#[test]
fn the_corpus_comes_back() {
    for (name, graph) in corpus_graphs() {
        let json = round_trip(&graph);
        assert!(json["nodes"].as_array().is_some_and(|n| !n.is_empty()), "{name}");
    }
}

/// hipDNN's own files, which its writer wrote, hold no key that we do not write and miss none that we do.
#[test]
fn files_of_hipdnns_writer_are_written_alike() {
    // Keys that some versions of the writer leave out.
    const NEWER: [&str; 3] = ["is_override_shape_enabled", "min_required_engine_api_version", "is_runtime_pass_by_value"];
    fn compare(theirs: &Value, ours: &Value, at: &str) {
        match (theirs, ours) {
            (Value::Object(a), Value::Object(b)) => {
                for (key, value) in a.iter().filter(|(k, _)| !k.starts_with('_')) {
                    match b.get(key) {
                        Some(other) => compare(value, other, &format!("{at}/{key}")),
                        None => assert!(
                            value.is_null() || (key == "alignment" && value == 16) || (key == "ragged_offset_multiplier" && value == 1),
                            "{at}/{key} is lost"
                        ),
                    }
                }
                for key in b.keys() {
                    assert!(a.contains_key(key) || NEWER.contains(&key.as_str()) || b[key] == false, "{at}/{key} is new");
                }
            }
            (Value::Array(a), Value::Array(b)) => {
                assert_eq!(a.len(), b.len(), "{at}");
                a.iter().zip(b).enumerate().for_each(|(i, (a, b))| compare(a, b, &format!("{at}/{i}")));
            }
            (Value::Number(a), Value::Number(b)) => {
                // Some were written by hand, with more digits than a float has.
                assert_eq!(a.as_f64().map(|v| v as f32), b.as_f64().map(|v| v as f32), "{at}");
            }
            _ => assert_eq!(theirs, ours, "{at}"),
        }
    }
    let mut compared = 0;
    for (name, text) in corpus() {
        // The samples are in the benchmark tool's dialect or misspelt; the reference file is in the older one.
        if name.starts_with("sample_") || name.starts_with("reference_") {
            continue;
        }
        let theirs: Value = serde_json::from_slice(&text).expect("JSON");
        let graph = json::import(&text, &Limits::DEFAULT).expect("a graph").graph;
        compare(&theirs, &export(&graph).json, &name);
        compared += 1;
    }
    assert!(compared >= 10, "{compared}");
}

/// Where hipDNN's reader looks for the keys of each operation, and which it wants even when there is nothing to say: written
/// down from the description of that reader, not from the table in the code.
#[test]
fn every_operation_has_the_keys_that_hipdnns_reader_wants() {
    let none: &[&str] = &[];
    for &kind in OpKind::ALL {
        // Only what must be there, for the format and for the rules of the operation.
        let least = |seed| {
            let mut generator = Generator::new(seed);
            generator.node(kind);
            for (spec, field) in kind.fields().iter().zip(&mut generator.model.nodes[0].fields) {
                if !spec.required && !["in_1_tensor_uid", "in_2_tensor_uid", "block_size"].contains(&spec.wire_name) {
                    *field = FieldValue::Absent;
                }
            }
            import(&generator.model.json(&Style { seed })).ok()
        };
        let imported = (0..50).find_map(least).unwrap_or_else(|| panic!("{}: no graph without optional fields", kind.name()));
        let json = export(&imported.graph).json;
        let node = json["nodes"][0].as_object().expect("an object");
        let keys = |group: &str| -> Vec<&str> {
            node.get(group).and_then(Value::as_object).map_or(vec![], |m| m.keys().map(String::as_str).collect())
        };
        let mut own: Vec<&str> = node.keys().map(String::as_str).filter(|k| !["name", "type", "compute_data_type"].contains(k)).collect();
        own.retain(|k| !["inputs", "outputs", "parameters", "attributes", "block_size"].contains(k));
        let (inputs, outputs, group, scalars, in_node): (&[&str], &[&str], &str, &[&str], &[&str]) = match kind.wire_name() {
            "ConvolutionFwdAttributes" => (&["w", "x"], &["y"], "parameters", CONV, none),
            "ConvolutionBwdAttributes" => (&["dy", "w"], &["dx"], "parameters", CONV, none),
            "ConvolutionWrwAttributes" => (&["dy", "x"], &["dw"], "parameters", CONV, none),
            "PointwiseAttributes" => (POINTWISE, &["out_0"], "", none, none),
            "MatmulAttributes" => (&["a", "b"], &["c"], "", none, none),
            "BatchnormInferenceAttributes" => (&["bias", "inv_variance", "mean", "scale", "x"], &["y"], "", none, none),
            "BatchnormInferenceAttributesVarianceExt" => (&["bias", "epsilon", "mean", "scale", "variance", "x"], &["y"], "", none, none),
            "BatchnormAttributes" => (
                &["bias", "epsilon", "momentum", "peer_stats", "prev_running_mean", "prev_running_variance", "scale", "x"],
                &["inv_variance", "mean", "next_running_mean", "next_running_variance", "y"],
                "",
                none,
                none,
            ),
            "BatchnormBackwardAttributes" => {
                (&["dy", "inv_variance", "mean", "peer_stats", "scale", "x"], &["dbias", "dscale", "dx"], "", none, none)
            }
            "LayernormAttributes" => {
                (&["bias", "epsilon", "scale", "x"], &["inv_variance", "mean", "y"], "", none, &["forward_phase", "normalized_dim_count"])
            }
            "LayernormBackwardAttributes" => {
                (&["dy", "epsilon", "inv_variance", "mean", "scale", "x"], &["dbias", "dscale", "dx"], "", none, &["normalized_dim_count"])
            }
            "RMSNormAttributes" => (&["epsilon", "scale", "x"], &["y"], "", none, none),
            "RMSNormBackwardAttributes" => (&["dy", "inv_rms", "scale", "x"], &["dscale", "dx"], "", none, none),
            "ReductionAttributes" => (none, none, "", none, &["in_tensor_uid", "is_deterministic", "mode", "out_tensor_uid"]),
            "ResampleFwdAttributes" => (
                none,
                none,
                "",
                none,
                &["padding_mode", "post_padding", "pre_padding", "resample_mode", "stride", "window", "x_tensor_uid", "y_tensor_uid"],
            ),
            "ResampleBwdAttributes" => (
                none,
                none,
                "",
                none,
                &["dx_tensor_uid", "dy_tensor_uid", "padding_mode", "post_padding", "pre_padding", "resample_mode", "stride", "window"],
            ),
            "SdpaAttributes" => (
                &[
                    "attn_mask",
                    "block_mask",
                    "descale_k",
                    "descale_q",
                    "descale_s",
                    "descale_v",
                    "dropout_mask",
                    "dropout_scale",
                    "k",
                    "offset",
                    "page_table_k",
                    "page_table_v",
                    "q",
                    "scale",
                    "scale_o",
                    "scale_s",
                    "seed",
                    "seq_len_kv",
                    "seq_len_q",
                    "sink_token",
                    "v",
                ],
                &["amax_o", "amax_s", "max", "o", "rng_dump", "stats", "sum_exp"],
                "attributes",
                &[
                    "alibi_mask",
                    "attn_scale_value",
                    "causal_mask",
                    "causal_mask_bottom_right",
                    "diagonal_alignment",
                    "dropout_probability",
                    "generate_stats",
                    "implementation",
                    "left_bound",
                    "max_seq_len_kv",
                    "mma_core_mode",
                    "padding_mask",
                    "right_bound",
                ],
                none,
            ),
            "SdpaBackwardAttributes" => (
                &[
                    "attn_mask",
                    "do",
                    "dropout_mask",
                    "dropout_scale",
                    "dropout_scale_inv",
                    "k",
                    "o",
                    "offset",
                    "q",
                    "scale",
                    "seed",
                    "seq_len_kv",
                    "seq_len_q",
                    "stats",
                    "v",
                ],
                &["dbias", "dk", "dq", "dv"],
                "parameters",
                &[
                    "alibi_mask",
                    "attn_scale_value",
                    "causal_mask",
                    "causal_mask_bottom_right",
                    "diagonal_alignment",
                    "dropout_probability",
                    "left_bound",
                    "padding_mask",
                    "right_bound",
                ],
                none,
            ),
            "BlockScaleDequantizeAttributes" => (&["scale", "x"], &["y"], "", none, &["is_negative_scale"]),
            "BlockScaleQuantizeAttributes" => (&["x"], &["scale", "y"], "", none, &["transpose"]),
            "CustomOpAttributes" => (none, none, "", none, &["custom_op_id", "data", "input_tensor_uids", "output_tensor_uids"]),
            "MoeGroupedMatmulAttributes" => (&["first_token_offset", "token", "weight"], &["output"], "", none, &["mode", "top_k"]),
            "MoeGroupedMatmulBwdAttributes" => (&["doutput", "first_token_offset", "token"], &["dweight"], "", none, none),
            other => panic!("{other} has no line here"),
        };
        let uid = |list: &[&str]| -> Vec<String> {
            let plain = |k: &str| POINTWISE.contains(&k) && !k.starts_with("in_") && k != "axis";
            let mut list: Vec<String> = list.iter().map(|k| if plain(k) { (*k).to_owned() } else { format!("{k}_tensor_uid") }).collect();
            list.sort();
            list
        };
        assert_eq!(keys("inputs"), uid(inputs), "{}", kind.name());
        assert_eq!(keys("outputs"), uid(outputs), "{}", kind.name());
        assert_eq!(keys("parameters"), if group == "parameters" { scalars } else { none }, "{}", kind.name());
        assert_eq!(keys("attributes"), if group == "attributes" { scalars } else { none }, "{}", kind.name());
        assert_eq!(own, in_node, "{}", kind.name());
    }
}

const CONV: &[&str] = &["conv_mode", "dilation", "post_padding", "pre_padding", "stride"];
const POINTWISE: &[&str] = &[
    "axis",
    "elu_alpha",
    "in_0",
    "in_1",
    "in_2",
    "operation",
    "relu_lower_clip",
    "relu_lower_clip_slope",
    "relu_upper_clip",
    "softplus_beta",
    "swish_beta",
];

#[test]
fn enums_are_spelled_as_hipdnn_spells_them() {
    let node = |kind, seed| {
        let graph = {
            let mut g = Generator::new(seed);
            g.node(kind);
            let node = &mut g.model.nodes[0];
            for (spec, field) in kind.fields().iter().zip(&mut node.fields) {
                let number = match spec.wire_name {
                    "forward_phase" | "conv_mode" | "diagonal_alignment" => 1,
                    "mode" if kind == OpKind::Reduction => 3,
                    _ => continue,
                };
                *field = FieldValue::Attribute(json!(number));
            }
            g.model.graph(&Style { seed: 1 })
        };
        export(&graph).json["nodes"][0].clone()
    };
    assert_eq!(node(OpKind::Layernorm, 1)["forward_phase"], 1);
    assert_eq!(node(OpKind::RmsNorm, 1)["forward_phase"], "INFERENCE");
    assert_eq!(node(OpKind::Reduction, 1)["mode"], "min");
    assert_eq!(node(OpKind::ConvolutionFwd, 1)["parameters"]["conv_mode"], "CONVOLUTION");
    assert_eq!(node(OpKind::SdpaBackward, 1)["parameters"]["diagonal_alignment"], "BOTTOM_RIGHT");
}

/// One custom operation over the given tensors, whose types are stated by the graph.
fn of_tensors(tensors: Vec<TensorAttributes>) -> GraphBuf {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, DataType::Float, DataType::Half);
    let inputs: Vec<Uid> = tensors.into_iter().map(|t| g.tensor(t)).collect();
    let y = g.tensor(TensorAttributes::packed(DataType::Unset, &[1]));
    g.node("", DataType::Unset, CustomOp { custom_op_id: "t.t", inputs: &inputs, outputs: &[y], data: &[0, 255] });
    g.build().expect("valid")
}

#[test]
fn what_is_unset_stays_unset_and_what_is_unused_stays() {
    let mut unused = TensorAttributes::packed(DataType::Unset, &[3]);
    unused.set_uid(Uid(-9)).set_name("\u{1}\"ä");
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, DataType::Unset, DataType::Half)
        .set_id(Some([0xf0, 1, 2, 3, 4, 5, 0x46, 7, 0x88, 9, 10, 11, 12, 13, 14, 15]));
    g.set_preferred_engine_id(Some(i64::MIN)).set_name("");
    g.tensor(unused);
    let x = g.tensor(TensorAttributes::packed(DataType::Unset, &[3]));
    let y = g.tensor(TensorAttributes::packed(DataType::Float, &[3]));
    g.node("", DataType::Unset, Pointwise::unary(PointwiseMode::Abs, x, y));
    let json = round_trip(&g.build().expect("valid"));
    assert_eq!(json["tensors"][0]["data_type"], "unset");
    assert_eq!(json["tensors"][0]["uid"], -9);
    assert_eq!(json["nodes"][0]["compute_data_type"], "unset");
    assert_eq!(json["intermediate_data_type"], "unset");
    assert_eq!(json["id"], "f0010203-0405-4607-8809-0a0b0c0d0e0f");
    assert_eq!(json["preferred_engine_id"], i64::MIN);
    assert_eq!(json["min_required_engine_api_version"], json!({"major": 1, "minor": 0, "patch": 0}));
    assert_eq!(json["name"], "");
}

#[test]
fn values_keep_every_bit() {
    let floats = [1e-5_f32, -0.0, f32::MIN_POSITIVE, f32::from_bits(1), f32::MAX, 0.1, 16_777_217.0];
    let doubles = [1e-300_f64, -0.0, f64::from_bits(1), f64::MAX, 0.1, 1.0];
    let mut tensors: Vec<_> = floats.iter().map(|&v| TensorAttributes::scalar_of(v, ScalarType::RuntimeParam)).collect();
    tensors.extend(doubles.iter().map(|&v| TensorAttributes::scalar(v)));
    tensors.extend([i64::MIN, i64::MAX].map(TensorAttributes::scalar));
    tensors.extend([i32::MIN, i32::MAX].map(TensorAttributes::scalar));
    tensors.extend([0_u8, 255].map(TensorAttributes::scalar));
    let graph = of_tensors(tensors);
    let json = round_trip(&graph);
    assert!(json.to_string().contains("9.999999747378752e-6"), "the double that equals the float");
    assert_eq!(json["min_required_engine_api_version"]["minor"], 2);
    let values: Vec<TensorValue> = graph.view().tensors().iter().filter_map(|t| t.value).collect();
    assert_eq!(values[0], TensorValue::Float32(1e-5));
    assert_eq!(values.len(), 19);
}

#[test]
fn a_truth_value_is_written_with_a_warning() {
    let graph = of_tensors(vec![TensorAttributes::scalar(true)]);
    let json = round_trip(&graph);
    assert_eq!((&json["tensors"][0]["value_type"], &json["tensors"][0]["value"]), (&json!("BoolValue"), &json!(true)));
    let warnings = export(&graph).warnings;
    assert!(matches!(&warnings[..], [w] if w.starts_with("tensor 0") && w.contains("BoolValue")), "{warnings:?}");
    // However many there are, a person gets a list that can be read.
    let many = export(&of_tensors(vec![TensorAttributes::scalar(true); 250])).warnings;
    assert_eq!((many.len(), many.last().map(String::as_str)), (101, Some("and 150 more")));
}

#[test]
fn an_id_of_another_version_is_left_out_with_a_warning() {
    let mut g = GraphBuilder::new();
    let [x, y] = [0, 1].map(|_| g.tensor(TensorAttributes::packed(DataType::Float, &[3])));
    g.set_id(Some([0xab; 16])).node("", DataType::Float, Pointwise::unary(PointwiseMode::Abs, x, y));
    let out = export(&g.build().expect("valid"));
    assert!(out.json.get("id").is_none());
    assert!(matches!(&out.warnings[..], [w] if w.contains("abababab-abab-abab-abab-abababababab")), "{:?}", out.warnings);
}

#[test]
fn numbers_that_json_cannot_hold_are_refused_by_name() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut scalar = TensorAttributes::scalar(value);
        scalar.set_name("eps");
        let error = json::export(&of_tensors(vec![scalar]).view(), &Limits::DEFAULT).expect_err("no JSON number");
        assert!(matches!(&error, ExportError::NotFinite { place, key, .. } if place == "tensor 0 \"eps\"" && key == "value"), "{error}");
    }
    let graph = of_tensors(vec![TensorAttributes::scalar(f64::NAN)]);
    assert!(matches!(json::export(&graph.view(), &Limits::DEFAULT), Err(ExportError::NotFinite { .. })));

    let mut g = GraphBuilder::new();
    let [x, y] = [0, 1].map(|_| g.tensor(TensorAttributes::packed(DataType::Float, &[3])));
    let op = Pointwise { relu_upper_clip: Some(f32::INFINITY), ..Pointwise::unary(PointwiseMode::ReluFwd, x, y) };
    g.node("r", DataType::Float, op);
    let error = json::export(&g.build().expect("valid").view(), &Limits::DEFAULT).expect_err("no JSON number");
    assert!(
        matches!(&error, ExportError::NotFinite { place, key, found } if place == "node 0 \"r\"" && key == "relu_upper_clip" && found == "inf"),
        "{error}"
    );
}

/// A graph of one custom operation, written slot by slot: slot 8 as told, and a field that nobody knows yet.
fn raw(uint: Option<u32>, version: Option<[u32; 3]>, runtime: bool, newer: bool) -> hipplan_serialize::AlignedBytes {
    let mut fbb = FlatBufferBuilder::new();
    let one = fbb.create_vector(&[1_i64]);
    let start = fbb.start_table();
    fbb.push_slot_always(wire::TensorAttributes::VT_UID, 5_i64);
    fbb.push_slot_always(wire::TensorAttributes::VT_DIMS, one);
    fbb.push_slot_always(wire::TensorAttributes::VT_STRIDES, one);
    fbb.push_slot_always(wire::TensorAttributes::VT_IS_RUNTIME_PASS_BY_VALUE, runtime);
    fbb.push_slot_always(wire::TensorAttributes::VT_DATA_TYPE, 1_i8);
    if newer {
        fbb.push_slot_always(4 + 2 * 12, 1_u8);
    }
    let tensor = fbb.end_table(start);
    let tensors = fbb.create_vector(&[flatbuffers::WIPOffset::<wire::TensorAttributes<'_>>::new(tensor.value())]);
    let uids = fbb.create_vector(&[5_i64]);
    let custom_op_id = fbb.create_string("t.t");
    let args = wire::CustomOpAttributesArgs { custom_op_id: Some(custom_op_id), input_tensor_uids: Some(uids), ..Default::default() };
    let op = wire::CustomOpAttributes::create(&mut fbb, &args);
    let args = wire::NodeArgs {
        compute_data_type: wire::DataType::FLOAT,
        attributes_type: wire::NodeAttributes(16),
        attributes: Some(op.as_union_value()),
        ..Default::default()
    };
    let node = wire::Node::create(&mut fbb, &args);
    let nodes = fbb.create_vector(&[node]);
    let start = fbb.start_table();
    if let Some(v) = uint {
        fbb.push_slot_always(wire::Graph::VT_MIN_REQUIRED_ENGINE_API_VERSION, v);
    }
    if let Some([major, minor, patch]) = version {
        fbb.push_slot_always(wire::Graph::VT_MIN_REQUIRED_ENGINE_API_VERSION, wire::EngineApiVersion::new(major, minor, patch));
    }
    fbb.push_slot_always(wire::Graph::VT_TENSORS, tensors);
    fbb.push_slot_always(wire::Graph::VT_NODES, nodes);
    let root = fbb.end_table(start);
    fbb.finish_minimal(root);
    aligned(fbb.finished_data())
}

#[test]
fn slot_8_is_written_in_its_newer_form_and_never_below_the_floor() {
    for (uint, version, runtime, written, warns) in [
        (None, None, false, [1, 0, 0], false),
        (None, None, true, [1, 2, 0], false),
        (Some(1), None, true, [1, 2, 0], true),
        (Some(0), None, false, [1, 0, 0], true),
        (None, Some([1, 2, 0]), true, [1, 2, 0], false),
        (None, Some([1, 3, 7]), true, [1, 3, 7], false),
        (None, Some([1, 0, 0]), true, [1, 2, 0], true),
    ] {
        let bytes = raw(uint, version, runtime, false);
        let graph = VerifiedGraph::verify(&bytes, &Limits::DEFAULT).expect("valid");
        let out = json::export(&graph, &Limits::DEFAULT).expect("JSON holds it");
        let [major, minor, patch] = written;
        assert_eq!(out.json["min_required_engine_api_version"], json!({"major": major, "minor": minor, "patch": patch}));
        assert_eq!(out.warnings.len(), usize::from(warns), "{:?}", out.warnings);
        let back = import(&out.json).expect("a graph").graph;
        assert_eq!(back.view().canonical(), graph.canonical());
    }
}

#[test]
fn what_this_version_does_not_know_is_not_lost_in_silence() {
    let bytes = raw(None, None, false, true);
    let graph = VerifiedGraph::verify(&bytes, &Limits::DEFAULT).expect("valid");
    let error = json::export(&graph, &Limits::DEFAULT).expect_err("a field would be lost");
    assert!(matches!(&error, ExportError::UnknownFields { table } if table.contains("tensor 0")), "{error}");
}

#[test]
fn a_text_that_no_importer_would_take_is_refused_before_it_is_made() {
    // One list of 10 kB that 10 nodes share: at least 200 kB of numbers in JSON.
    let mut fbb = FlatBufferBuilder::new();
    let (one, data, uids) = (fbb.create_vector(&[1_i64]), fbb.create_vector(&[7_u8; 10_000]), fbb.create_vector(&[0_i64]));
    let tensor = wire::TensorAttributes::VT_DIMS;
    let start = fbb.start_table();
    fbb.push_slot_always(tensor, one);
    fbb.push_slot_always(wire::TensorAttributes::VT_STRIDES, one);
    fbb.push_slot_always(wire::TensorAttributes::VT_DATA_TYPE, 1_i8);
    let tensor = fbb.end_table(start);
    let tensors = fbb.create_vector(&[flatbuffers::WIPOffset::<wire::TensorAttributes<'_>>::new(tensor.value())]);
    let custom_op_id = Some(fbb.create_string("t.t"));
    let args = wire::CustomOpAttributesArgs { custom_op_id, input_tensor_uids: Some(uids), data: Some(data), ..Default::default() };
    let op = wire::CustomOpAttributes::create(&mut fbb, &args);
    let args = wire::NodeArgs {
        compute_data_type: wire::DataType::FLOAT,
        attributes_type: wire::NodeAttributes(16),
        attributes: Some(op.as_union_value()),
        ..Default::default()
    };
    let node = wire::Node::create(&mut fbb, &args);
    let nodes = fbb.create_vector(&[node; 10]);
    let root = wire::Graph::create(&mut fbb, &wire::GraphArgs { tensors: Some(tensors), nodes: Some(nodes), ..Default::default() });
    fbb.finish_minimal(root);
    let bytes = aligned(fbb.finished_data());
    let graph = VerifiedGraph::verify(&bytes, &Limits::DEFAULT).expect("valid");
    let limits = Limits { max_json_bytes: 150_000, ..Limits::DEFAULT };
    assert_eq!(json::export(&graph, &limits), Err(ExportError::TooLarge { limit: 150_000 }));
    assert!(json::export(&graph, &Limits::DEFAULT).is_ok());
}
