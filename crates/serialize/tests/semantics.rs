//! The meaning of a graph (G6): for each error a graph of which it is the first.

mod common;

use common::{corpus_json, import};
use hipplan_fuzzing::{FieldValue, Generator, Style, Tensor};
use hipplan_serialize::json::{self, JsonError};
use hipplan_serialize::{GraphBuf, GraphError, Limits, OpKind};
use serde_json::{Value, json};

fn edited(name: &str, f: impl FnOnce(&mut Value)) -> Value {
    let mut value = corpus_json(name);
    f(&mut value);
    value
}

fn refused(value: &Value) -> GraphError {
    match import(value) {
        Err(JsonError::Graph(error)) => {
            assert!(error.to_string().starts_with("graph: "), "{error}");
            error
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted: {value:#}"),
    }
}

macro_rules! refuses {
    ($value:expr, $pattern:pat $(if $guard:expr)?) => {{
        let value = $value;
        let error = refused(&value);
        assert!(matches!(&error, $pattern $(if $guard)?), "{error:?}");
        error
    }};
}

/// Two convolutions in a row would do; this is a chain of abs nodes over tensors 1, 2, 3 ...
fn chain(nodes: &[(i64, i64)], virtuals: &[i64]) -> Value {
    let last = nodes.iter().flat_map(|&(a, b)| [a, b]).max().unwrap_or(1);
    let tensors: Vec<Value> = (1..=last)
        .map(|uid| json!({"uid": uid, "name": format!("t{uid}"), "data_type": "float", "dims": [4], "strides": [1], "virtual": virtuals.contains(&uid)}))
        .collect();
    let nodes: Vec<Value> = nodes
        .iter()
        .enumerate()
        .map(|(i, (x, y))| {
            json!({"name": format!("n{i}"), "type": "PointwiseAttributes", "compute_data_type": "float",
                   "operation": "abs", "in_0_tensor_uid": x, "out_0_tensor_uid": y})
        })
        .collect();
    json!({"name": "", "compute_data_type": "float", "intermediate_data_type": "float", "io_data_type": "float", "tensors": tensors, "nodes": nodes})
}

#[test]
fn wrong_order_cycles_and_orphans_are_told_apart() {
    assert!(import(&chain(&[(1, 2), (2, 3), (3, 4)], &[2, 3])).is_ok());
    refuses!(chain(&[(2, 3), (1, 2)], &[2]), GraphError::Order { reader, writer, tensor } if (reader.index, writer.index, tensor.uid) == (0, 1, 2));
    refuses!(chain(&[(1, 2), (3, 4), (2, 3)], &[2, 3]), GraphError::Order { reader, writer, .. } if (reader.index, writer.index) == (1, 2));
    refuses!(chain(&[(2, 1), (1, 2)], &[1, 2]), GraphError::Cycle { node, tensor } if (node.index, tensor.uid) == (0, 2));
    refuses!(chain(&[(3, 1), (1, 2), (2, 3)], &[]), GraphError::Cycle { node, .. } if node.index == 0);
    refuses!(chain(&[(1, 1)], &[]), GraphError::Cycle { node, tensor } if (node.index, tensor.uid) == (0, 1));
    refuses!(chain(&[(1, 2), (3, 4)], &[]), GraphError::Orphan { node } if node.index == 1);
    refuses!(chain(&[(1, 2), (3, 4), (2, 5), (4, 6)], &[]), GraphError::Orphan { node } if node.index == 1);
    // Two nodes that hang together only through a later one, or through a tensor that both read.
    assert!(import(&chain(&[(1, 2), (1, 3)], &[])).is_ok());
    let mut joined = chain(&[(1, 2), (3, 4), (2, 5)], &[]);
    joined["nodes"][2]["operation"] = json!("add");
    joined["nodes"][2]["in_1_tensor_uid"] = json!(4);
    assert!(import(&joined).is_ok());
}

#[test]
fn offsets_of_ragged_tensors_are_read() {
    let ragged = |nodes: &[(i64, i64)], tensor: usize, offsets: i64| {
        let mut value = chain(nodes, &[]);
        value["tensors"][tensor - 1]["ragged_offset_tensor_uid"] = json!(offsets);
        value
    };
    assert!(import(&ragged(&[(1, 2), (2, 4)], 4, 1)).is_ok());
    // Node 0 writes offsets, node 1 reads by them: in this order only.
    assert!(import(&ragged(&[(1, 2), (3, 4)], 3, 2)).is_ok(), "connected through the offsets");
    refuses!(ragged(&[(3, 4), (1, 2)], 3, 2), GraphError::Order { tensor, .. } if tensor.uid == 2);
    refuses!(ragged(&[(3, 4), (1, 2)], 4, 2), GraphError::Order { tensor, .. } if tensor.uid == 2);
    refuses!(ragged(&[(1, 2)], 1, 2), GraphError::Cycle { .. });

    refuses!(ragged(&[(1, 2)], 1, 77), GraphError::Ragged { tensor, uid: 77, .. } if tensor.uid == 1);
    let error = refuses!(ragged(&[(1, 2)], 1, 1), GraphError::Ragged { uid: 1, .. });
    assert!(error.to_string().contains("itself ragged"));
    let mut nested = ragged(&[(1, 2), (2, 3)], 2, 1);
    nested["tensors"][0]["ragged_offset_tensor_uid"] = json!(3);
    refuses!(nested, GraphError::Ragged { .. });
    let mut in_virtual = ragged(&[(1, 2), (2, 3)], 3, 2);
    in_virtual["tensors"][1]["virtual"] = json!(true);
    let error = refuses!(in_virtual, GraphError::Ragged { tensor, .. } if tensor.uid == 3);
    assert!(error.to_string().contains("virtual"));
}

#[test]
fn writers_and_readers() {
    refuses!(chain(&[(1, 2), (1, 2)], &[]), GraphError::WrittenTwice { tensor, first, second } if (tensor.uid, first.index, second.index) == (2, 0, 1));
    refuses!(chain(&[(1, 2), (2, 3)], &[1]), GraphError::VirtualUnwritten { tensor, node } if (tensor.uid, node.index) == (1, 0));
    // Two slots of one node.
    let mut twice = Generator::full(OpKind::RmsNormBackward).json(&Style { seed: 1 });
    twice["nodes"][0]["dscale_tensor_uid"] = twice["nodes"][0]["dx_tensor_uid"].clone();
    refuses!(twice, GraphError::WrittenTwice { first, second, .. } if first == second);

    let scalar = |t: usize, key: &str, value: Value| {
        let mut v = chain(&[(1, 2)], &[]);
        v["tensors"][t]["dims"] = json!([1]);
        v["tensors"][t][key] = value;
        if key == "value" {
            v["tensors"][t]["value_type"] = json!("Float32Value");
        }
        v
    };
    refuses!(scalar(1, "is_runtime_pass_by_value", json!(true)), GraphError::ScalarWritten { slot: "out_0", .. });
    refuses!(scalar(1, "value", json!(1.0)), GraphError::ScalarWritten { slot: "out_0", .. });
    refuses!(
        {
            let mut v = chain(&[(1, 2)], &[]);
            v["tensors"][1]["strides"] = json!([0]);
            v
        },
        GraphError::OutputOverlaps { axis: 0, dim: 4, .. }
    );
    assert!(
        import(&{
            let mut v = chain(&[(1, 2)], &[]);
            v["tensors"][0]["strides"] = json!([0]);
            v
        })
        .is_ok(),
        "an input may be broadcast"
    );
    refuses!(chain(&[], &[]), GraphError::Empty);
}

#[test]
fn uids_are_unique_and_lead_somewhere() {
    let duplicate = edited("sample_conv_fwd", |v| v["tensors"][2]["uid"] = v["tensors"][0]["uid"].clone());
    refuses!(duplicate, GraphError::DuplicateUid { first, second } if (first.index, second.index) == (0, 2));
    for &kind in OpKind::ALL {
        let value = Generator::full(kind).json(&Style { seed: 2 });
        for spec in kind.fields().iter().filter(|f| f.role != hipplan_serialize::FieldRole::Attribute) {
            let mut value = value.clone();
            match &mut value["nodes"][0][spec.wire_name] {
                Value::Array(list) => list[0] = json!(i64::MAX),
                Value::Null => continue,
                uid => *uid = json!(i64::MAX),
            }
            refuses!(value, GraphError::DanglingUid { slot, uid: i64::MAX, .. } if *slot == spec.name);
        }
    }
}

#[test]
fn tensors_by_themselves() {
    let with = |key: &str, value: Value| edited("sample_matmul", |v| v["tensors"][1][key] = value);
    refuses!(with("dims", json!([])), GraphError::NoDims { tensor } if tensor.index == 1);
    refuses!(with("strides", json!([1])), GraphError::StrideCount { strides: 1, .. });
    let rank = corpus_json("sample_matmul")["tensors"][1]["dims"].as_array().expect("dims").len();
    let dims = |last: i64| with("dims", json!([vec![1; rank - 1], vec![last]].concat()));
    for bad in [0, -1, i64::MIN] {
        refuses!(dims(bad), GraphError::Dim { axis, found, .. } if (*axis, *found) == (rank - 1, bad));
    }
    for bad in [-1, i64::MIN] {
        let strides = with("strides", json!([vec![1; rank - 1], vec![bad]].concat()));
        refuses!(strides, GraphError::Stride { axis, found, .. } if (*axis, *found) == (rank - 1, bad));
    }
    refuses!(dims(i64::MAX), GraphError::Limit { limit_name: "max_elements", .. });
    refuses!(with("strides", json!(vec![i64::MAX; rank])), GraphError::Limit { limit_name: "max_elements", .. });

    let untyped = |v: &mut Value, default: &str| {
        v["tensors"][1]["data_type"] = json!("unset");
        v[default] = json!("unset");
    };
    refuses!(edited("sample_matmul", |v| untyped(v, "io_data_type")), GraphError::TensorTypeUnset { default: "io_data_type", .. });
    let mut virtual_untyped = chain(&[(1, 2), (2, 3)], &[2]);
    untyped(&mut virtual_untyped, "intermediate_data_type");
    refuses!(virtual_untyped, GraphError::TensorTypeUnset { default: "intermediate_data_type", .. });
    let no_compute = edited("sample_matmul", |v| {
        v["compute_data_type"] = json!("unset");
        v["nodes"][0]["compute_data_type"] = json!("unset");
    });
    refuses!(no_compute, GraphError::ComputeTypeUnset { node } if node.index == 0);
    // The virtual tensor's type comes from the intermediate type, and only that.
    let mut value = chain(&[(1, 2), (2, 3)], &[2]);
    value["tensors"][1]["data_type"] = json!("unset");
    value["intermediate_data_type"] = json!("double");
    let graph = import(&value).expect("valid").graph;
    assert_eq!(graph.view().tensors()[1].dtype, hipplan_serialize::DataType::Double);
}

#[test]
fn every_scalar_operand_must_be_a_scalar() {
    let cases = [
        (OpKind::BatchnormInferenceVariance, "epsilon"),
        (OpKind::Batchnorm, "epsilon"),
        (OpKind::Batchnorm, "momentum"),
        (OpKind::Layernorm, "epsilon"),
        (OpKind::RmsNorm, "epsilon"),
        (OpKind::LayernormBackward, "epsilon"),
        (OpKind::Sdpa, "scale"),
        (OpKind::SdpaBackward, "scale"),
    ];
    for (kind, name) in cases {
        let mut model = Generator::full(kind);
        model.tensors.push(Tensor::packed(hipplan_serialize::DataType::Float, &[1]));
        model.nodes[0].set(name, FieldValue::Tensor(model.tensors.len() - 1));
        refuses!(model.json(&Style { seed: 3 }), GraphError::OperandNotScalar { slot, .. } if *slot == name);
    }
}

/// A broken rule names the field, in a corpus graph with one edit.
fn rule(name: &str, field: &str, f: impl FnOnce(&mut Value)) {
    refuses!(edited(name, f), GraphError::Rule { field: found, .. } if found == field);
}

fn dims(v: &mut Value, tensor: usize, dims: &[i64]) {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i];
    }
    v["tensors"][tensor]["dims"] = json!(dims);
    v["tensors"][tensor]["strides"] = json!(strides);
}

/// A small convolution whose tensors are 0: image, 1: filter, 2: the other side.
fn conv(kind: &str, f: impl FnOnce(&mut Value)) -> Value {
    let (inputs, outputs) = match kind {
        "ConvolutionFwdAttributes" => (json!({"x_tensor_uid": 1, "w_tensor_uid": 2}), json!({"y_tensor_uid": 3})),
        "ConvolutionBwdAttributes" => (json!({"dy_tensor_uid": 3, "w_tensor_uid": 2}), json!({"dx_tensor_uid": 1})),
        _ => (json!({"x_tensor_uid": 1, "dy_tensor_uid": 3}), json!({"dw_tensor_uid": 2})),
    };
    let t = |uid| json!({"uid": uid, "name": "", "data_type": "float", "dims": [1], "strides": [1], "virtual": false});
    let mut value = json!({
        "name": "", "compute_data_type": "float", "intermediate_data_type": "float", "io_data_type": "float",
        "tensors": [t(1), t(2), t(3)],
        "nodes": [{"name": "c", "type": kind, "compute_data_type": "float", "inputs": inputs, "outputs": outputs, "parameters": {
            "pre_padding": [1, 0], "post_padding": [2, 1], "stride": [2, 1], "dilation": [1, 2], "conv_mode": "CROSS_CORRELATION"}}],
    });
    // Two groups of three channels; (9 + 3 - 3) / 2 + 1 = 5 and (8 + 1 - 5) / 1 + 1 = 5.
    dims(&mut value, 0, &[2, 6, 9, 8]);
    dims(&mut value, 1, &[4, 3, 3, 3]);
    dims(&mut value, 2, &[2, 4, 5, 5]);
    f(&mut value);
    value
}

#[test]
fn convolutions() {
    for (kind, [x, w, y]) in [
        ("ConvolutionFwdAttributes", ["x", "w", "y"]),
        ("ConvolutionBwdAttributes", ["dx", "w", "dy"]),
        ("ConvolutionWrwAttributes", ["x", "dw", "dy"]),
    ] {
        assert!(import(&conv(kind, |_| ())).is_ok(), "{kind}");
        let rule = |field: String, f: &dyn Fn(&mut Value)| {
            refuses!(conv(kind, f), GraphError::Rule { field: found, node, .. } if *found == field && &*node.name == "c");
        };
        let p = |v: &mut Value, key: &str, value: Value| v["nodes"][0]["parameters"][key] = value;
        rule(format!("rank of {x}"), &|v| dims(v, 0, &[2, 6]));
        rule(format!("rank of {x}"), &|v| dims(v, 0, &[2, 6, 1, 1, 1, 1]));
        rule(format!("rank of {w}"), &|v| dims(v, 1, &[4, 3, 3]));
        rule(format!("rank of {y}"), &|v| dims(v, 2, &[2, 4, 5, 5, 1]));
        for key in ["pre_padding", "post_padding", "stride", "dilation"] {
            rule(format!("length of {key}"), &|v| p(v, key, json!([1])));
            rule(format!("length of {key}"), &|v| p(v, key, json!([])));
            rule(key.into(), &|v| p(v, key, json!([1, -1])));
        }
        for key in ["stride", "dilation"] {
            rule(key.into(), &|v| p(v, key, json!([0, 1])));
        }
        rule("conv_mode".into(), &|v| p(v, "conv_mode", json!("UNSET")));
        rule(format!("{y}.dims[0]"), &|v| dims(v, 2, &[3, 4, 5, 5]));
        rule(format!("{y}.dims[1]"), &|v| dims(v, 2, &[2, 5, 5, 5]));
        rule(format!("{x}.dims[1]"), &|v| dims(v, 0, &[2, 7, 9, 8]));
        rule(format!("{x}.dims[1]"), &|v| dims(v, 1, &[4, 12, 3, 3]));
        rule(format!("{w}.dims[0]"), &|v| {
            dims(v, 1, &[5, 3, 3, 3]);
            dims(v, 2, &[2, 5, 5, 5]);
        });
        rule(format!("{y}.dims[2]"), &|v| dims(v, 2, &[2, 4, 6, 5]));
        rule(format!("{y}.dims[3]"), &|v| dims(v, 2, &[2, 4, 5, 4]));
        rule(format!("{y}.dims[2]"), &|v| p(v, "stride", json!([i64::MAX, 1])));
        rule(format!("{y}.dims[2]"), &|v| p(v, "pre_padding", json!([i64::MAX, 0])));
        rule(format!("{x}.dims[3] with padding"), &|v| p(v, "dilation", json!([1, i64::MAX])));
        rule(format!("{x}.dims[2] with padding"), &|v| {
            dims(v, 0, &[2, 6, 2, 8]);
            p(v, "pre_padding", json!([0, 0]));
            p(v, "post_padding", json!([0, 1]));
        });
    }
}

#[test]
fn pointwise() {
    let op = |f: &dyn Fn(&mut Value)| edited("sample_add", |v| f(&mut v["nodes"][0]["inputs"]));
    let field = |value: Value, field: &str| {
        refuses!(value, GraphError::Rule { field: found, .. } if found == field);
    };
    field(op(&|i| i["operation"] = json!("unset")), "operation");
    field(op(&|i| i["in_1_tensor_uid"] = Value::Null), "in_1");
    field(op(&|i| i["in_2_tensor_uid"] = i["in_0_tensor_uid"].clone()), "in_2");
    field(op(&|i| i["operation"] = json!("abs")), "in_1");
    field(op(&|i| i["operation"] = json!("binary_select")), "in_2");
    let mut gen_index = chain(&[(1, 2)], &[]);
    gen_index["nodes"][0]["operation"] = json!("gen_index");
    field(gen_index.clone(), "axis");
    for (axis, ok) in [(-1, false), (0, true), (1, false)] {
        gen_index["nodes"][0]["axis_tensor_uid"] = json!(axis);
        if ok { assert!(import(&gen_index).is_ok()) } else { field(gen_index.clone(), "axis") }
    }

    // Shapes: in_0, in_1, out_0.
    let shapes = |a: &[i64], b: &[i64], out: &[i64]| {
        edited("sample_add", |v| {
            let uids = [
                &v["nodes"][0]["inputs"]["in_0_tensor_uid"],
                &v["nodes"][0]["inputs"]["in_1_tensor_uid"],
                &v["nodes"][0]["outputs"]["out_0_tensor_uid"],
            ]
            .map(|u| u.clone());
            for (uid, shape) in uids.iter().zip([a, b, out]) {
                let at = v["tensors"].as_array().expect("tensors").iter().position(|t| t["uid"] == *uid).expect("there");
                dims(v, at, shape);
            }
        })
    };
    for (a, b, out) in
        [(&[2, 3][..], &[2, 3][..], &[2, 3][..]), (&[2, 1], &[1, 3], &[2, 3]), (&[3], &[2, 3], &[2, 3]), (&[1], &[1], &[1, 1])]
    {
        assert!(import(&shapes(a, b, out)).is_ok(), "{a:?} {b:?} {out:?}");
    }
    field(shapes(&[2, 3, 1], &[3], &[2, 3]), "rank of in_0");
    field(shapes(&[2, 3], &[1, 1, 1], &[2, 3]), "rank of in_1");
    field(shapes(&[2, 4], &[2, 3], &[2, 3]), "in_0.dims");
    field(shapes(&[2, 3], &[2], &[2, 3]), "in_1.dims");
    field(shapes(&[1, 3], &[3], &[2, 3]), "out_0.dims");
}

#[test]
fn matmul() {
    let field = |a: &[i64], b: &[i64], c: &[i64], field: &str| {
        let value = edited("sample_matmul", |v| {
            let uids = [
                &v["nodes"][0]["inputs"]["a_tensor_uid"],
                &v["nodes"][0]["inputs"]["b_tensor_uid"],
                &v["nodes"][0]["outputs"]["c_tensor_uid"],
            ]
            .map(|u| u.clone());
            for (uid, shape) in uids.iter().zip([a, b, c]) {
                let at = v["tensors"].as_array().expect("tensors").iter().position(|t| t["uid"] == *uid).expect("there");
                dims(v, at, shape);
            }
        });
        if field.is_empty() {
            assert!(import(&value).is_ok(), "{a:?} {b:?} {c:?}");
        } else {
            refuses!(value, GraphError::Rule { field: found, .. } if found == field);
        }
    };
    field(&[2, 3], &[3, 4], &[2, 4], "");
    field(&[5, 2, 3], &[1, 3, 4], &[5, 2, 4], "");
    field(&[2, 3], &[7, 5, 3, 4], &[7, 5, 2, 4], "");
    field(&[3], &[3, 4], &[2, 4], "rank of a");
    field(&[2, 3], &[3], &[2, 4], "rank of b");
    field(&[2, 3], &[3, 4], &[4], "rank of c");
    field(&[2, 3], &[4, 4], &[2, 4], "b.dims[-2]");
    field(&[2, 3], &[3, 4], &[2, 5], "c.dims");
    field(&[2, 3], &[3, 4], &[4, 2], "c.dims");
    field(&[5, 2, 3], &[6, 3, 4], &[5, 2, 4], "b.dims");
    field(&[5, 2, 3], &[3, 4], &[1, 2, 4], "c.dims");
    field(&[2, 3], &[3, 4], &[9, 2, 4], "c.dims");
}

#[test]
fn batchnorm_inference() {
    let name = "bn_inference_variance_bf16_ncl";
    let value = corpus_json(name);
    let at = |key: &str, group: &str| {
        let uid = &value["nodes"][0][group][key];
        value["tensors"].as_array().expect("tensors").iter().position(|t| t["uid"] == *uid).expect("there")
    };
    let (x, y) = (at("x_tensor_uid", "inputs"), at("y_tensor_uid", "outputs"));
    let image: Vec<i64> = value["tensors"][x]["dims"].as_array().expect("dims").iter().filter_map(Value::as_i64).collect();
    let c = image[1];
    rule(name, "rank of x", |v| dims(v, x, &[8]));
    rule(name, "y.dims", |v| dims(v, y, &[image[0], c, image[2] + 1]));
    for parameter in ["mean", "variance", "scale", "bias"] {
        let t = at(&format!("{parameter}_tensor_uid"), "inputs");
        for bad in [&[1, c + 1, 1][..], &[c, 1, 1], &[1, c], &[1, c, 1, 1], &[1], &[1, c, 2]] {
            rule(name, &format!("{parameter}.dims"), |v| dims(v, t, bad));
        }
        assert!(import(&edited(name, |v| dims(v, t, &[c]))).is_ok());
    }
    let plain = "reference_bn_inference_old_dialect_nhwc";
    rule(plain, "inv_variance.dims", |v| {
        let uid = v["nodes"][0]["inputs"]["inv_variance_tensor_uid"].clone();
        let at = v["tensors"].as_array().expect("tensors").iter().position(|t| t["uid"] == uid).expect("there");
        dims(v, at, &[1, 1, 1, 1]);
    });
}

#[test]
fn every_limit_names_itself() {
    let text = corpus_json("conv_bias_relu_bf16_nchw_1x1").to_string();
    let good = json::import(text.as_bytes(), &Limits::DEFAULT).expect("a graph").graph;
    let (bytes, tensors) = (good.buffer().len() as u64, good.view().tensors().len());
    let d = Limits::DEFAULT;
    let exact = Limits { max_bytes: bytes, max_tensors: tensors, max_nodes: 3, max_rank: 4, ..d };
    assert!(GraphBuf::new(good.buffer(), &exact).is_ok());
    for (limits, name, limit) in [
        (Limits { max_bytes: bytes - 1, ..d }, "max_bytes", bytes - 1),
        (Limits { max_tables: 5, ..d }, "max_tables", 5),
        (Limits { max_depth: 2, ..d }, "max_depth", 2),
        (Limits { max_tensors: tensors - 1, ..d }, "max_tensors", tensors as u64 - 1),
        (Limits { max_nodes: 2, ..d }, "max_nodes", 2),
        (Limits { max_rank: 3, ..d }, "max_rank", 3),
        (Limits { max_elements: 10, ..d }, "max_elements", 10),
    ] {
        let error = GraphBuf::new(good.buffer(), &limits).expect_err(name);
        let GraphError::Limit { limit_name, limit: stated, found, .. } = &error else { panic!("{name}: {error}") };
        assert_eq!((*limit_name, *stated), (name, limit));
        assert!(*found > limit && error.to_string().contains(name), "{error}");
    }
    // What the formats can count cannot be lifted.
    let deep = edited("sample_relu", |v| {
        for t in 0..2 {
            dims(v, t, &[1; 256]);
        }
    });
    let limits = Limits { max_rank: 1000, ..d };
    let error = json::import(deep.to_string().as_bytes(), &limits).expect_err("rank 256");
    assert!(matches!(error, JsonError::Graph(GraphError::Limit { limit_name: "max_rank", limit: 255, .. })), "{error}");
    let deep = edited("sample_relu", |v| {
        for t in 0..2 {
            dims(v, t, &[1; 255]);
        }
    });
    let graph = json::import(deep.to_string().as_bytes(), &limits).expect("rank 255").graph;
    let canonical = graph.view().canonical().expect("known fields only");
    assert!(hipplan_serialize::canon::decode(&canonical.encoding, &limits).is_ok());
}

#[test]
fn shared_parts_are_counted_as_often_as_they_are_used() {
    // A vector of nodes that all lead to one node with a long list: small on disk, large when read.
    use flatbuffers::{FlatBufferBuilder, WIPOffset};
    use hipplan_serialize::wire::generated as wire;
    let mut fbb = FlatBufferBuilder::new();
    let list = fbb.create_vector(&vec![1_i64; 20_000]);
    let args = wire::CustomOpAttributesArgs { input_tensor_uids: Some(list), ..Default::default() };
    let op = wire::CustomOpAttributes::create(&mut fbb, &args);
    let args = wire::NodeArgs {
        attributes_type: wire::NodeAttributes::CustomOpAttributes,
        attributes: Some(op.as_union_value()),
        compute_data_type: wire::DataType::FLOAT,
        ..Default::default()
    };
    let node = wire::Node::create(&mut fbb, &args);
    let nodes: Vec<WIPOffset<wire::Node<'_>>> = vec![node; 2000];
    let nodes = fbb.create_vector(&nodes);
    let root = wire::Graph::create(&mut fbb, &wire::GraphArgs { nodes: Some(nodes), ..Default::default() });
    fbb.finish_minimal(root);
    let limits = Limits { max_bytes: 1 << 20, ..Limits::DEFAULT };
    let error = GraphBuf::new(fbb.finished_data(), &limits).expect_err("320 MB of operands");
    assert!(matches!(error, GraphError::Limit { limit_name: "max_bytes (times 4)", .. }), "{error}");
}

#[test]
fn values_and_enums_from_a_newer_writer() {
    use hipplan_serialize::wire::generated as wire;
    let value = corpus_json("bn_inference_variance_bf16_ncl");
    let graph = import(&value).expect("a graph").graph;
    let root = flatbuffers::root::<wire::Graph<'_>>(graph.buffer()).expect("well-formed");
    let tensor = root.tensors().expect("tensors").iter().find(|t| t.value_type() != 0).expect("a scalar");
    let place = |table: &flatbuffers::Table<'_>, field: u16| table.loc() + usize::from(table.vtable().get(field));
    let node = root.nodes().expect("nodes").get(0);
    let with = |at: usize, byte: u8| {
        let mut bytes = graph.buffer().to_vec();
        bytes[at] = byte;
        GraphBuf::new(&bytes, &Limits::DEFAULT).expect_err("unknown")
    };
    let error = with(place(&tensor._tab, wire::TensorAttributes::VT_VALUE_TYPE), 9);
    assert!(matches!(error, GraphError::Value { .. }), "{error}");
    for number in [19, 127, 128, 255] {
        let error = with(place(&tensor._tab, wire::TensorAttributes::VT_DATA_TYPE), number);
        assert!(
            matches!(&error, GraphError::UnknownEnum { field: "data_type", number: n, kind: "DataType", .. } if *n == number as i8),
            "{error}"
        );
        let error = with(place(&node._tab, wire::Node::VT_COMPUTE_DATA_TYPE), number);
        assert!(
            matches!(&error, GraphError::UnknownEnum { field: "compute_data_type", place, .. } if place.starts_with("node 0")),
            "{error}"
        );
        let error = with(place(&root._tab, wire::Graph::VT_IO_DATA_TYPE), number);
        assert!(matches!(&error, GraphError::UnknownEnum { field: "io_data_type", place, .. } if place == "the graph table"), "{error}");
    }
    let conv = import(&corpus_json("sample_conv_fwd")).expect("a graph").graph;
    let root = flatbuffers::root::<wire::Graph<'_>>(conv.buffer()).expect("well-formed");
    let op = root.nodes().expect("nodes").get(0).attributes_as_convolution_fwd_attributes().expect("a convolution");
    let mut bytes = conv.buffer().to_vec();
    bytes[place(&op._tab, wire::ConvolutionFwdAttributes::VT_CONV_MODE)] = 3;
    let error = GraphBuf::new(&bytes, &Limits::DEFAULT).expect_err("unknown");
    assert!(matches!(&error, GraphError::UnknownEnum { field: "conv_mode", number: 3, kind: "ConvMode", .. }), "{error}");
}
