//! hipDNN JSON in: every operation, the dialects, and one clear error for everything else.

mod common;

use common::{corpus, corpus_json, import};
use hipplan_fuzzing::{FieldValue, Generator, Model, Style};
use hipplan_serialize::json::{self, JsonError};
use hipplan_serialize::{DataType, FieldRole, GraphBuf, GraphBuilder, Limits, OpKind, PointwiseMode, TensorAttributes, TensorValue};
use proptest::prelude::*;
use serde_json::{Value, json};

fn graph(value: &Value) -> GraphBuf {
    import(value).unwrap_or_else(|e| panic!("{e}\n{value:#}")).graph
}

fn error(value: &Value) -> JsonError {
    let error = import(value).expect_err("must be refused");
    assert!(error.to_string().starts_with("JSON: ") || matches!(error, JsonError::Graph(_)), "{error}");
    error
}

fn encoding(value: &Value) -> Vec<u8> {
    graph(value).view().canonical().expect("known fields only").encoding
}

fn edited(name: &str, f: impl FnOnce(&mut Value)) -> Value {
    let mut value = corpus_json(name);
    f(&mut value);
    value
}

/// The same nodes with their keys in the groups of hipDNN's grouped style; `scalars` is the group of what is no operand.
fn grouped(value: &Value, scalars: &str) -> Value {
    let mut value = value.clone();
    for node in value["nodes"].as_array_mut().expect("nodes") {
        let kind = OpKind::from_wire_name(node["type"].as_str().expect("a type")).expect("known");
        let node = node.as_object_mut().expect("an object");
        for spec in kind.fields() {
            // What hipDNN writes for an absent key, where it writes one.
            let field = node.remove(spec.wire_name).unwrap_or(Value::Null);
            let group = match spec.role {
                FieldRole::Input => "inputs",
                FieldRole::Output => "outputs",
                FieldRole::Attribute => scalars,
            };
            node.entry(group).or_insert(json!({}))[spec.wire_name] = field;
        }
    }
    value
}

#[test]
fn every_operation_is_read_flat_and_grouped() {
    for &kind in OpKind::ALL {
        let flat = Generator::full(kind).json(&Style { seed: 5 });
        let expected = encoding(&flat);
        let view_of = graph(&flat);
        assert_eq!(view_of.view().kind(view_of.view().nodes().next().expect("one node")), kind);
        for scalars in ["parameters", "attributes", "inputs"] {
            let grouped = grouped(&flat, scalars);
            let imported = import(&grouped).unwrap_or_else(|e| panic!("{}: {e}", kind.name()));
            assert_eq!(imported.warnings, [""; 0], "{}", kind.name());
            assert_eq!(imported.graph.view().canonical().expect("known fields only").encoding, expected, "{}", kind.name());
        }
    }
}

#[test]
fn keys_of_an_operation_that_must_be_there_are_missed_by_name() {
    for &kind in OpKind::ALL {
        let model = Generator::full(kind);
        for (i, spec) in kind.fields().iter().enumerate() {
            let mut without: Model = model.clone();
            without.nodes[0].fields[i] = FieldValue::Absent;
            let mut null = without.clone();
            null.nodes[0].fields[i] = FieldValue::Attribute(Value::Null);
            for value in [without, null].map(|m| m.json(&Style { seed: 5 })) {
                match import(&value) {
                    Err(JsonError::Missing { place, key }) if spec.required => {
                        assert_eq!(key, spec.wire_name);
                        assert!(place.starts_with("node 0 ") && place.contains(kind.wire_name()), "{place}");
                    }
                    // A rule of the operation may want what the format does not.
                    Ok(_) | Err(JsonError::Graph(_)) if !spec.required => {}
                    other => panic!("{}.{}: {other:?}", kind.name(), spec.name),
                }
            }
        }
    }
}

#[test]
fn a_wrong_type_of_any_key_is_named() {
    for &kind in OpKind::ALL {
        let model = Generator::full(kind);
        for (i, spec) in kind.fields().iter().enumerate() {
            for wrong in [json!({"a": 1}), json!(1e300), json!([[1]]), json!([0.5]), json!(["x"])] {
                let mut model = model.clone();
                model.nodes[0].fields[i] = FieldValue::Attribute(wrong.clone());
                match import(&model.json(&Style { seed: 5 })) {
                    Err(JsonError::Type { place, key, .. } | JsonError::UnknownSpelling { place, key, .. }) => {
                        assert!(key.starts_with(spec.wire_name), "{key} for {}", spec.wire_name);
                        assert!(place.starts_with("node 0 "), "{place}");
                    }
                    other => panic!("{}.{} = {wrong}: {other:?}", kind.name(), spec.name),
                }
            }
        }
    }
}

#[test]
fn the_benchmark_dialect_means_the_same() {
    // Scalars in `attributes`, enums in upper case, groups where hipDNN writes none.
    let flat = |kind: &str, scalars: Value| {
        let mut node = json!({"name": "n", "type": kind, "compute_data_type": "float"});
        for (key, value) in scalars.as_object().expect("an object") {
            node[key] = value.clone();
        }
        let t =
            |uid, dims: Value| json!({"uid": uid, "name": "", "data_type": "float", "dims": dims, "strides": [16, 4, 1], "virtual": false});
        json!({
            "name": "g", "compute_data_type": "float", "intermediate_data_type": "float", "io_data_type": "float",
            "tensors": [t(1, json!([2, 4, 4])), t(2, json!([2, 1, 1]))], "nodes": [node],
        })
    };
    let a = flat("ReductionAttributes", json!({"mode": "min", "in_tensor_uid": 1, "out_tensor_uid": 2, "is_deterministic": false}));
    let mut b = flat("ReductionAttributes", json!({"inputs": {"in_tensor_uid": 1}, "outputs": {"out_tensor_uid": 2}}));
    for mode in ["MIN", "MIN_OP", "min_op", "Min"] {
        b["nodes"][0]["attributes"] = json!({"mode": mode});
        assert_eq!(encoding(&a), encoding(&b), "{mode}");
    }
    for name in ["sample_reduction", "sample_resample_fwd", "sample_layernorm", "sample_rmsnorm"] {
        let value = corpus_json(name);
        assert!(value["nodes"][0].get("attributes").is_some_and(Value::is_object), "{name} is in the benchmark dialect");
        assert_eq!(import(&value).expect("a graph").warnings, [""; 0], "{name}");
    }
    // Integer and text for one enum.
    let of_phase = |phase: Value| encoding(&edited("sample_layernorm", |v| v["nodes"][0]["attributes"]["forward_phase"] = phase));
    assert_eq!(of_phase(json!(2)), of_phase(json!("TRAINING")));
    assert_eq!(of_phase(json!(2)), of_phase(json!("training")));
    assert_ne!(of_phase(json!(1)), of_phase(json!("TRAINING")));
}

#[test]
fn the_older_names_of_the_graph_level_types() {
    let older = corpus_json("reference_bn_inference_old_dialect_nhwc");
    assert!(older.get("io_type").is_some() && older.get("io_data_type").is_none());
    let expected = encoding(&older);
    let pairs = [("io_type", "io_data_type"), ("compute_type", "compute_data_type"), ("intermediate_type", "intermediate_data_type")];
    let mut newer = older.clone();
    for (old, new) in pairs {
        newer[new] = newer.as_object_mut().expect("an object").remove(old).expect("there");
    }
    assert_eq!(encoding(&newer), expected);
    // Both, saying the same; then both, saying two things.
    for (old, new) in pairs {
        let mut both = newer.clone();
        both[old] = both[new].clone();
        assert_eq!(encoding(&both), expected);
        both[old] = json!("double");
        let error = error(&both);
        assert!(matches!(&error, JsonError::Ambiguous { key, second, .. } if key == new && *second == old), "{error}");
    }
}

#[test]
fn unknown_spellings_are_refused_with_the_choices() {
    let cases: [(&str, &[&str], &str, &str); 8] = [
        ("sample_conv_fwd", &["nodes", "0", "parameters", "conv_mode"], "ConvMode", "CROSS_CORRELATION"),
        ("sample_relu", &["nodes", "0", "inputs", "operation"], "PointwiseMode", "relu_fwd"),
        ("sample_reduction", &["nodes", "0", "attributes", "mode"], "ReductionMode", "norm1"),
        ("sample_sdpa", &["nodes", "0", "attributes", "diagonal_alignment"], "DiagonalAlignment", "BOTTOM_RIGHT"),
        ("sample_conv_fwd", &["io_data_type"], "DataType", "bfloat16"),
        ("sample_conv_fwd", &["tensors", "1", "data_type"], "DataType", "bfloat16"),
        ("sample_conv_fwd", &["nodes", "0", "compute_data_type"], "DataType", "bfloat16"),
        ("sample_conv_fwd", &["nodes", "0", "type"], "operation", "ConvolutionFwdAttributes"),
    ];
    for (name, path, kind, choice) in cases {
        let value = edited(name, |v| *v.pointer_mut(&format!("/{}", path.join("/"))).expect("there") = json!("nonsense"));
        let error = error(&value);
        let JsonError::UnknownSpelling { place, key, found, kind: found_kind, expected } = &error else { panic!("{error}") };
        assert_eq!((found.as_str(), *found_kind, key.as_str()), ("nonsense", kind, path[path.len() - 1]));
        assert!(expected.contains(choice), "{expected}");
        let expected_place = match path[0] {
            "nodes" => "node 0",
            "tensors" => "tensor 1",
            _ => "the graph",
        };
        assert!(place.starts_with(expected_place), "{place}");
    }
    for (number, ok) in
        [(json!(2), true), (json!(3), false), (json!(-1), false), (json!(258), false), (json!(1.0), false), (json!(true), false)]
    {
        let value = edited("sample_conv_fwd", |v| v["nodes"][0]["parameters"]["conv_mode"] = number.clone());
        assert_eq!(import(&value).is_ok(), ok, "{number}");
    }
    let value = edited("sample_conv_fwd", |v| v["tensors"][0]["value_type"] = json!("Float99Value"));
    assert!(matches!(error(&value), JsonError::UnknownSpelling { key, kind: "TensorValue", .. } if key == "value_type"));
}

#[test]
fn float16_is_half_with_a_warning_wherever_it_stands() {
    let half = edited("sample_matmul", |v| {
        v["io_data_type"] = json!("half");
        v["tensors"][0]["data_type"] = json!("half");
        v["nodes"][0]["compute_data_type"] = json!("half");
    });
    for path in ["/io_data_type", "/tensors/0/data_type", "/nodes/0/compute_data_type"] {
        let mut value = half.clone();
        *value.pointer_mut(path).expect("there") = json!("float16");
        let imported = import(&value).expect("accepted");
        assert_eq!(imported.graph.view().canonical().expect("known").encoding, encoding(&half));
        assert_eq!(imported.warnings.len(), 1, "{path}");
        assert!(imported.warnings[0].contains("float16") && imported.warnings[0].contains("half"), "{:?}", imported.warnings);
    }
    let upper = edited("sample_sdpa", |v| v["nodes"][0]["attributes"]["mma_core_mode"] = json!("UNSET"));
    let lower = edited("sample_sdpa", |v| v["nodes"][0]["attributes"]["mma_core_mode"] = json!("unset"));
    assert_eq!(encoding(&upper), encoding(&lower));
}

#[test]
fn null_is_the_same_as_no_key() {
    for key in [
        "is_runtime_pass_by_value",
        "alignment",
        "ragged_offset_tensor_uid",
        "ragged_offset_multiplier",
        "value",
        "value_type",
        "name",
        "virtual",
    ] {
        let absent = edited("sample_add", |v| drop(v["tensors"][0].as_object_mut().expect("an object").remove(key)));
        let null = edited("sample_add", |v| v["tensors"][0][key] = Value::Null);
        assert_eq!(graph(&absent).buffer(), graph(&null).buffer(), "{key}");
    }
    for key in ["preferred_engine_id", "id", "is_override_shape_enabled", "min_required_engine_api_version"] {
        let null = edited("sample_add", |v| v[key] = Value::Null);
        assert!(import(&null).is_ok(), "{key}");
    }
    // Where there is no default, null is as bad as nothing.
    for key in ["uid", "dims", "strides", "data_type"] {
        for value in [
            edited("sample_add", |v| drop(v["tensors"][1].as_object_mut().expect("an object").remove(key))),
            edited("sample_add", |v| v["tensors"][1][key] = Value::Null),
        ] {
            let error = error(&value);
            assert!(matches!(&error, JsonError::Missing { place, key: k } if place.starts_with("tensor 1") && k == key), "{error}");
        }
    }
    for (key, place) in [("nodes", "the graph"), ("tensors", "the graph")] {
        for value in [
            edited("sample_add", |v| drop(v.as_object_mut().expect("an object").remove(key))),
            edited("sample_add", |v| v[key] = Value::Null),
        ] {
            assert_eq!(error(&value), JsonError::Missing { place: place.into(), key: key.into() });
        }
    }
    let untyped = edited("sample_add", |v| v["nodes"][0]["type"] = Value::Null);
    assert!(matches!(error(&untyped), JsonError::Missing { place, key } if place.starts_with("node 0") && key == "type"));
}

#[test]
fn wrong_types_name_place_key_and_expectation() {
    let cases: [(&str, Value, &str, &str); 22] = [
        ("/name", json!(3), "the graph", "name"),
        ("/nodes", json!({}), "the graph", "nodes"),
        ("/tensors", json!("x"), "the graph", "tensors"),
        ("/nodes/0", json!([]), "the graph", "nodes[0]"),
        ("/tensors/2", json!(7), "the graph", "tensors[2]"),
        ("/io_data_type", json!(["float"]), "the graph", "io_data_type"),
        ("/is_override_shape_enabled", json!(1), "the graph", "is_override_shape_enabled"),
        ("/preferred_engine_id", json!("MIOPEN"), "the graph", "preferred_engine_id"),
        ("/id", json!("not a uuid"), "the graph", "id"),
        ("/id", json!("3f2b8c1e-5d4a-1e6f-9a7b-0c1d2e3f4a5b"), "the graph", "id"),
        ("/min_required_engine_api_version", json!("1.2.0"), "the graph", "min_required_engine_api_version"),
        ("/min_required_engine_api_version", json!({"major": -1, "minor": 0, "patch": 0}), "min_required_engine_api_version", "major"),
        ("/tensors/0/uid", json!("1"), "tensor 0", "uid"),
        ("/tensors/0/uid", json!(u64::MAX), "tensor 0", "uid"),
        ("/tensors/0/uid", json!(1.5), "tensor 0", "uid"),
        ("/tensors/0/dims", json!(16), "tensor 0", "dims"),
        ("/tensors/0/dims", json!([1, null]), "tensor 0", "dims[1]"),
        ("/tensors/0/strides", json!([1, "1"]), "tensor 0", "strides[1]"),
        ("/tensors/0/virtual", json!("no"), "tensor 0", "virtual"),
        ("/tensors/0/alignment", json!(true), "tensor 0", "alignment"),
        ("/nodes/0/inputs", json!([1, 2]), "node 0", "inputs"),
        ("/nodes/0/name", json!({}), "node 0", "name"),
    ];
    for (path, wrong, place, key) in cases {
        let value = edited("sample_add", |v| {
            let (parent, last) = path.rsplit_once('/').expect("a path");
            match v.pointer_mut(parent).expect("there") {
                Value::Array(list) => list[last.parse::<usize>().expect("an index")] = wrong.clone(),
                map => map[last] = wrong.clone(),
            }
        });
        let error = error(&value);
        let JsonError::Type { place: found_place, key: found_key, expected, .. } = &error else { panic!("{path}: {error}") };
        assert!(found_place.starts_with(place) && found_key == key && !expected.is_empty(), "{path}: {error}");
    }
    for value in [json!([]), json!(3), json!(null), json!("graph")] {
        assert!(matches!(error(&value), JsonError::Type { .. }));
    }
}

#[test]
fn values_of_all_kinds_are_read_to_the_bit() {
    let read = |kind: Value, number: Value| {
        let value = edited("bn_inference_variance_bf16_ncl", |v| {
            let tensors = v["tensors"].as_array_mut().expect("tensors");
            let t = tensors.iter_mut().find(|t| t.get("value_type").is_some()).expect("a scalar");
            t["value_type"] = kind;
            t["value"] = number;
        });
        import(&value).map(|i| i.graph.view().tensors().iter().find_map(|t| t.value))
    };
    let ok = [
        ("Float32Value", json!(9.999_999_747_378_752e-6), TensorValue::Float32(1e-5)),
        ("Float32Value", json!(1e-5), TensorValue::Float32(1e-5)),
        ("Float16Value", json!(0.5), TensorValue::Float16(0.5)),
        ("BFloat16Value", json!(-0.0), TensorValue::BFloat16(-0.0)),
        ("Float8Value", json!(255), TensorValue::Float8(255)),
        ("Int32Value", json!(i32::MIN), TensorValue::Int32(i32::MIN)),
        ("Int64Value", json!(i64::MIN), TensorValue::Int64(i64::MIN)),
        ("Float64Value", json!(1e-300), TensorValue::Float64(1e-300)),
        ("Float64Value", json!(3), TensorValue::Float64(3.0)),
        ("BoolValue", json!(true), TensorValue::Bool(true)),
        ("BoolValue", json!(0), TensorValue::Bool(false)),
    ];
    for (kind, number, expected) in ok {
        assert_eq!(read(json!(kind), number.clone()), Ok(Some(expected)), "{kind} {number}");
    }
    let bad = [
        ("Float32Value", json!(1e300)),
        ("Float32Value", json!("1")),
        ("Float8Value", json!(256)),
        ("Float8Value", json!(-1)),
        ("Int32Value", json!(2_147_483_648_i64)),
        ("Int32Value", json!(1.0)),
        ("Int64Value", json!(u64::MAX)),
        ("BoolValue", json!(2)),
        ("BoolValue", json!("true")),
    ];
    for (kind, number) in bad {
        assert!(matches!(read(json!(kind), number.clone()), Err(JsonError::Type { key, .. }) if key == "value"), "{kind} {number}");
    }
    for kind in ["Float32Value", "Int64Value", "BoolValue"] {
        assert!(matches!(read(json!(kind), Value::Null), Err(JsonError::Missing { key, .. }) if key == "value"), "{kind}");
    }
    // hipDNN writes the kind of a truth value as "NONE": what it is can no longer be told.
    for kind in [json!("NONE"), Value::Null, json!("")] {
        assert!(matches!(read(kind, json!(1)), Err(JsonError::Type { key, .. }) if key == "value_type"));
    }
    assert!(matches!(read(json!("NONE"), Value::Null), Err(JsonError::Graph(_))), "an ordinary tensor, which epsilon may not be");
}

#[test]
fn keys_that_stand_twice_must_agree() {
    let twice = |group: &str, key: &str, value: Value| edited("sample_conv_fwd", |v| v["nodes"][0][group][key] = value);
    let expected = encoding(&corpus_json("sample_conv_fwd"));
    let x = corpus_json("sample_conv_fwd")["nodes"][0]["inputs"]["x_tensor_uid"].clone();
    assert_eq!(encoding(&twice("parameters", "x_tensor_uid", x.clone())), expected);
    assert_eq!(encoding(&twice("outputs", "x_tensor_uid", x.clone())), expected);
    assert_eq!(encoding(&edited("sample_conv_fwd", |v| v["nodes"][0]["x_tensor_uid"] = x)), expected);
    for group in ["outputs", "parameters", "attributes"] {
        let error = error(&edited("sample_conv_fwd", |v| {
            let node = v["nodes"][0].as_object_mut().expect("an object");
            node.entry(group).or_insert(json!({}))["x_tensor_uid"] = json!(99);
        }));
        let JsonError::Ambiguous { place, key, first, second } = &error else { panic!("{error}") };
        assert!(place.starts_with("node 0") && key == "x_tensor_uid" && *first == "inputs" && *second == group, "{error}");
    }
    let error = error(&edited("sample_conv_fwd", |v| v["nodes"][0]["conv_mode"] = json!("CONVOLUTION")));
    assert!(matches!(error, JsonError::Ambiguous { second: "the node", .. }), "{error}");
}

#[test]
fn unknown_keys_are_warnings_and_comments_are_not() {
    let value = edited("sample_add", |v| {
        v["_comment"] = json!("about the graph");
        v["new_thing"] = json!(1);
        v["tensors"][0]["_c"] = json!(1);
        v["tensors"][0]["swizzle"] = json!(2);
        v["nodes"][0]["inputs"]["in_9_tensor_uid"] = json!(3);
        v["nodes"][0]["note"] = json!("x".repeat(500));
    });
    let warnings = import(&value).expect("accepted").warnings;
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    for (key, place) in [("new_thing", "the graph"), ("swizzle", "tensor 0"), ("in_9_tensor_uid", "node 0"), ("note", "node 0")] {
        assert!(warnings.iter().any(|w| w.starts_with(place) && w.contains(key) && w.len() < 300), "{key}: {warnings:?}");
    }
}

#[test]
fn stamps_above_the_reader_are_too_new() {
    let version = |major, minor, patch| json!({"major": major, "minor": minor, "patch": patch});
    for (key, value, ok) in [
        ("min_required_engine_api_version", version(1, 4, 0), true),
        ("min_required_engine_api_version", version(1, 4, 1), false),
        ("min_required_engine_api_version", version(2, 0, 0), false),
        ("min_reader_version", json!(1), true),
        ("min_reader_version", json!(2), false),
    ] {
        // The guard comes first: the tensors are not looked at.
        let result = import(&edited("sample_add", |v| {
            v[key] = value.clone();
            if !ok {
                v["tensors"] = json!("garbage");
            }
        }));
        match result {
            Ok(_) => assert!(ok, "{key} {value}"),
            Err(JsonError::Graph(error)) => assert!(!ok && error.is_too_new(), "{key} {value}: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn huge_and_deep_texts_are_refused() {
    let limits = Limits { max_json_bytes: 100, ..Limits::DEFAULT };
    assert_eq!(json::import(&[b' '; 101], &limits).map(|_| ()), Err(JsonError::TooLarge { found: 101, limit: 100 }));
    for text in ["[", "{\"a\":"] {
        assert!(matches!(json::import(text.repeat(1_000_000).as_bytes(), &Limits::DEFAULT), Err(JsonError::Syntax(_))));
    }
    for text in [&b""[..], b"\xff", b"{\"name\":\"\xff\"}", b"nul", b"{}{}", b"\xef\xbb\xbf{}", b"{\"a\":1e999999999}"] {
        assert!(json::import(text, &Limits::DEFAULT).is_err());
    }
    let limits = Limits { max_tensors: 2, ..Limits::DEFAULT };
    let text = corpus_json("sample_add").to_string();
    let error = json::import(text.as_bytes(), &limits).expect_err("three tensors");
    assert!(error.to_string().contains("max_tensors"), "{error}");
    let limits = Limits { max_nodes: 0, ..Limits::DEFAULT };
    assert!(json::import(text.as_bytes(), &limits).expect_err("a node").to_string().contains("max_nodes"));
}

#[test]
fn a_long_name_is_not_repeated_in_every_warning() {
    // 1 MiB of name, 50,000 unknown keys: as much as 50 GiB of warnings.
    let value = edited("sample_add", |v| {
        v["nodes"][0]["name"] = json!("n".repeat(1 << 20));
        v["tensors"][0]["name"] = json!("ä".repeat(1 << 20));
        for i in 0..50_000 {
            v["nodes"][0][format!("k{i}")] = json!(0);
        }
        v["tensors"][0]["k"] = json!(0);
    });
    let warnings = import(&value).expect("accepted").warnings;
    assert!(warnings.len() <= 101 && warnings.iter().all(|w| w.len() < 300));
    assert_eq!(warnings.last().map(String::as_str), Some("and 49901 more"));
}

#[test]
fn import_is_what_the_builder_builds() {
    let mut g = GraphBuilder::new();
    g.set_name("a").set_types(DataType::Float, DataType::Unset, DataType::Half).set_preferred_engine_id(Some(-5));
    let x = g.tensor(TensorAttributes::packed(DataType::Unset, &[2, 3]));
    let y = g.tensor(TensorAttributes::packed(DataType::Float, &[2, 3]));
    let op = hipplan_serialize::ops::Pointwise {
        mode: PointwiseMode::Max,
        relu_lower_clip: None,
        relu_upper_clip: None,
        relu_lower_clip_slope: None,
        axis: None,
        in_0: x,
        in_1: Some(x),
        in_2: None,
        out_0: y,
        swish_beta: None,
        elu_alpha: None,
        softplus_beta: None,
    };
    g.node("n", DataType::Unset, op);
    let t = |uid, ty| json!({"uid": uid, "name": "", "data_type": ty, "dims": [2, 3], "strides": [3, 1], "virtual": false});
    let value = json!({
        "name": "a", "compute_data_type": "float", "intermediate_data_type": "unset", "io_data_type": "half", "preferred_engine_id": -5,
        "tensors": [t(1, "unset"), t(2, "float")],
        "nodes": [{"name": "n", "type": "PointwiseAttributes", "compute_data_type": "unset",
                   "inputs": {"operation": "max", "in_0_tensor_uid": 1, "in_1_tensor_uid": 1}, "outputs": {"out_0_tensor_uid": 2}}],
    });
    let built = g.build().expect("valid");
    assert_eq!(graph(&value).view().canonical(), built.view().canonical());
    assert_eq!(graph(&value).view().preferred_engine_id(), Some(-5));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Flipped, cut, deleted and doubled text of the corpus.
    #[test]
    fn damaged_text_never_panics(pick: u32, edits in proptest::collection::vec((0..5_u8, any::<u32>(), any::<u8>()), 1..4)) {
        let texts = corpus();
        let mut text = texts[pick as usize % texts.len()].1.clone();
        for (kind, at, byte) in edits {
            if text.is_empty() {
                break;
            }
            let at = at as usize % text.len();
            match kind {
                0 => text[at] ^= byte | 1,
                1 => text.truncate(at),
                2 => drop(text.drain(at..(at + usize::from(byte % 30)).min(text.len()))),
                3 => text[at] = b"0123456789-.,:{}[]\"eE nft"[usize::from(byte) % 25],
                _ => {
                    let part = text[at..(at + usize::from(byte)).min(text.len())].to_vec();
                    text.splice(at..at, part);
                }
            }
        }
        if let Err(error) = json::import(&text, &Limits::DEFAULT) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    /// One value of a good graph replaced by another.
    #[test]
    fn replaced_values_never_panic(pick: u32, at: u32, with in 0..14_usize) {
        let texts = corpus();
        let mut value: Value = serde_json::from_slice(&texts[pick as usize % texts.len()].1).expect("JSON");
        let with = [
            Value::Null, json!(true), json!(-1), json!(0), json!(i64::MAX), json!(i64::MIN), json!(u64::MAX), json!(1e308), json!(""),
            json!("unset"), json!([]), json!({}), json!([0, 0, 0, 0]), json!([i64::MAX, i64::MAX, i64::MAX]),
        ][with].clone();
        let mut paths = Vec::new();
        list_paths(&value, String::new(), &mut paths);
        let path = &paths[at as usize % paths.len()];
        *value.pointer_mut(path).expect("listed") = with;
        if let Err(error) = import(&value) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn doubles_are_read_to_the_bit(bits: u64) {
        let number = f64::from_bits(bits);
        prop_assume!(number.is_finite());
        let text = format!("{number:?}");
        prop_assert_eq!(serde_json::from_str::<f64>(&text).map(f64::to_bits).ok(), Some(bits), "{}", text);
    }
}

fn list_paths(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| list_paths(v, format!("{at}/{k}"), out)),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| list_paths(v, format!("{at}/{i}"), out)),
        _ => {}
    }
    out.push(at);
}

/// Attention without a word on masks is attention without masks: hipDNN refuses it, so it is told.
#[test]
fn attributes_that_are_all_missing_are_told() {
    for (file, group) in [("sample_sdpa", "attributes"), ("sample_sdpa_backward", "parameters")] {
        let whole = corpus_json(file);
        assert_eq!(import(&whole).expect("a graph").warnings, Vec::<String>::new(), "{file}");
        let mut bare = whole.clone();
        bare["nodes"][0].as_object_mut().expect("a node").remove(group).expect("was there");
        let warnings = import(&bare).expect("a graph").warnings;
        assert!(warnings.len() == 1 && warnings[0].contains(group) && warnings[0].contains("defaults"), "{warnings:?}");
    }
}
