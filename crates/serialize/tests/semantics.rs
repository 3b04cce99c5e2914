//! The meaning of a graph (G6), between its tensors and nodes: for each error a graph of which it is the first. The rules of the
//! operations are tested in `rules.rs`.

mod common;

use common::{corpus_json, import};
use hipplan_fuzzing::{Generator, Style, Tensor};
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
    // Offsets are int32, one per element of the batch and one for the end.
    let ragged = |nodes: &[(i64, i64)], tensor: usize, offsets: i64| {
        let mut value = chain(nodes, &[]);
        for t in value["tensors"].as_array_mut().expect("tensors") {
            t["data_type"] = json!("int32");
        }
        value["tensors"][tensor - 1]["dims"] = json!([3]);
        value["tensors"][tensor - 1]["ragged_offset_tensor_uid"] = json!(offsets);
        value
    };
    // Pointwise keeps shapes, so tensors that are no offsets follow the ragged one.
    let same = |mut value: Value, tensors: &[usize]| {
        for &t in tensors {
            value["tensors"][t - 1]["dims"] = json!([3]);
        }
        value
    };
    assert!(import(&same(ragged(&[(3, 4)], 4, 1), &[3])).is_ok());
    // Node 0 writes offsets, node 1 reads by them: in this order only.
    let good = same(ragged(&[(1, 2), (3, 4)], 3, 2), &[4]);
    assert!(import(&good).is_ok(), "connected through the offsets");
    refuses!(same(ragged(&[(3, 4), (1, 2)], 3, 2), &[4]), GraphError::Order { tensor, .. } if tensor.uid == 2);
    refuses!(same(ragged(&[(3, 4), (1, 2)], 4, 2), &[3]), GraphError::Order { tensor, .. } if tensor.uid == 2);
    refuses!(ragged(&[(1, 2)], 1, 2), GraphError::Cycle { .. });

    refuses!(ragged(&[(1, 2)], 1, 77), GraphError::RaggedMissing { tensor, uid: 77 } if tensor.uid == 1);
    refuses!(ragged(&[(1, 2)], 1, 1), GraphError::RaggedNested { tensor, offsets } if (tensor.uid, offsets.uid) == (1, 1));
    let mut nested = ragged(&[(1, 2), (2, 3)], 2, 1);
    nested["tensors"][0]["ragged_offset_tensor_uid"] = json!(3);
    nested["tensors"][0]["dims"] = json!([3]);
    refuses!(nested, GraphError::RaggedNested { tensor, offsets } if (tensor.uid, offsets.uid) == (2, 1) || (tensor.uid, offsets.uid) == (1, 3));
    let mut in_virtual = ragged(&[(1, 2), (2, 3)], 3, 2);
    in_virtual["tensors"][1]["virtual"] = json!(true);
    refuses!(in_virtual, GraphError::RaggedVirtual { tensor, offsets } if (tensor.uid, offsets.uid) == (3, 2));

    let with = |tensor: usize, key: &str, to: Value| {
        let mut value = good.clone();
        value["tensors"][tensor - 1][key] = to;
        value
    };
    refuses!(with(2, "data_type", json!("float")), GraphError::RaggedType { offsets, found: hipplan_serialize::DataType::Float, .. } if offsets.uid == 2);
    assert!(import(&with(2, "data_type", json!("int64"))).is_ok());
    refuses!(with(2, "dims", json!([3])), GraphError::RaggedCount { found: 3, expected: 4, .. });
    refuses!(with(3, "dims", json!([4])), GraphError::RaggedCount { found: 4, expected: 5, .. });
    for bad in [0, -1, i64::MIN] {
        refuses!(with(3, "ragged_offset_multiplier", json!(bad)), GraphError::RaggedMultiplier { tensor, found } if (tensor.uid, *found) == (3, bad));
    }
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
    refuses!(
        {
            let mut v = chain(&[(1, 2)], &[]);
            for tensor in 0..2 {
                v["tensors"][tensor]["dims"] = json!([4, 8]);
                v["tensors"][tensor]["strides"] = json!([4, 1]);
            }
            v
        },
        GraphError::OutputTooDense { elements: 32, places: 20, tensor, .. } if tensor.uid == 2
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
    refuses!(with("alignment", json!(-1)), GraphError::Alignment { tensor, found: -1 } if tensor.index == 1);
    assert!(import(&with("alignment", json!(0))).is_ok());
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

fn dims(v: &mut Value, tensor: usize, dims: &[i64]) {
    let packed = Tensor::packed(hipplan_serialize::DataType::Float, dims);
    v["tensors"][tensor]["dims"] = json!(dims);
    v["tensors"][tensor]["strides"] = json!(packed.strides);
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
    assert!(matches!(error, GraphError::Limit { limit_name: "16 times the buffer, 4 times max_bytes", .. }), "{error}");
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
