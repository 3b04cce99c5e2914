//! The canonical encoding and the key of a graph (G7): golden vectors, what keeps a key, and what changes it.

mod common;

use common::{corpus_json, import};
use flatbuffers::{FlatBufferBuilder, WIPOffset};
use hipplan_fuzzing::{FieldValue, Generator, Model, Node, Rng, Style, Tensor};
use hipplan_serialize::ops::*;
use hipplan_serialize::wire::generated as wire;
use hipplan_serialize::{DataType, FieldRole, GraphBuf, GraphBuilder, GraphKey, Limits, OpKind, ScalarType, TensorAttributes, Uid, canon};
use proptest::prelude::*;
use serde_json::{Value, json};

fn key(graph: &GraphBuf) -> GraphKey {
    graph.view().canonical().expect("known fields only").key
}

// ---- golden vectors ----

/// One scalar of each kind, and one in each by-value state.
fn by_value_graph() -> GraphBuf {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, DataType::Float, DataType::Float);
    let mut inputs = vec![
        g.scalar(1.5_f32, ScalarType::CompileTimeConst),
        g.scalar(half::f16::from_f32(-2.0), ScalarType::RuntimeParam),
        g.scalar(half::bf16::from_f32(3.0), ScalarType::CompileTimeConst),
        g.scalar(0x38_u8, ScalarType::RuntimeParam),
        g.scalar(-4_i32, ScalarType::CompileTimeConst),
        g.scalar(1e300_f64, ScalarType::RuntimeParam),
        g.scalar(i64::MIN, ScalarType::CompileTimeConst),
        g.scalar(true, ScalarType::RuntimeParam),
    ];
    let mut supplied = TensorAttributes::packed(DataType::Float, &[1]);
    supplied.set_as_runtime_parameter();
    inputs.push(g.tensor(supplied));
    let outputs = [g.tensor(TensorAttributes::packed(DataType::Float, &[2, 3]))];
    g.node("all", DataType::Float, CustomOp { custom_op_id: "test.scalars", inputs: &inputs, outputs: &outputs, data: &[1, 2, 3] });
    g.build().expect("valid")
}

fn ragged_graph() -> GraphBuf {
    let mut g = GraphBuilder::new();
    let offsets = g.tensor(TensorAttributes::packed(DataType::Int32, &[5, 1, 1, 1]));
    let mut ragged = |alignment, multiplier| {
        let mut t = TensorAttributes::packed(DataType::Half, &[4, 8, 16, 64]);
        t.set_ragged_offset(Some(offsets)).set_alignment(alignment).set_ragged_multiplier(multiplier);
        g.tensor(t)
    };
    let (a, c) = (ragged(16, 1), ragged(64, 512));
    let b = g.tensor(TensorAttributes::packed(DataType::Half, &[1, 1, 64, 64]));
    g.node("m", DataType::Float, Matmul { a, b, c });
    g.build().expect("valid")
}

fn custom_graph() -> GraphBuf {
    let mut g = GraphBuilder::new();
    g.set_override_shape_enabled(true);
    let x = g.tensor(TensorAttributes::packed(DataType::Fp4E2M1, &[32]));
    let y = g.tensor(TensorAttributes::packed(DataType::Boolean, &[1, 7]));
    g.node("c", DataType::Int32, CustomOp { custom_op_id: "ünïcode", inputs: &[x, x], outputs: &[y], data: &[] });
    g.build().expect("valid")
}

#[test]
fn golden_encodings_and_keys() {
    let of_corpus = |name| import(&corpus_json(name)).expect("a graph").graph;
    let graphs = [
        ("conv_wrw", of_corpus("conv_wrw_bf16_nchw_3x3")),
        ("conv_bias_relu", of_corpus("conv_bias_relu_bf16_nchw_1x1")),
        ("sdpa", of_corpus("sdpa_fwd_fp16_hd128_nomask_stats")),
        ("by_value", by_value_graph()),
        ("ragged", ragged_graph()),
        ("custom_op", custom_graph()),
    ];
    let folder = common::corpus_folder().join("golden");
    for (name, graph) in graphs {
        let canonical = graph.view().canonical().expect("known fields only");
        let mut text = format!("key {}\n", canonical.key);
        for line in canonical.encoding.chunks(32) {
            line.iter().for_each(|b| text += &format!("{b:02x}"));
            text.push('\n');
        }
        let file = folder.join(name).with_extension("txt");
        // A changed encoding is a changed format: `docs/format.md`, the version and the contexts change with it.
        if std::env::var_os("HIPPLAN_WRITE_GOLDEN").is_some() {
            std::fs::create_dir_all(&folder).expect("folder");
            std::fs::write(&file, &text).expect("written");
        }
        let golden = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert_eq!(text, golden, "{name}: the canonical encoding has changed");
    }
}

/// `docs/format.md`, typed in by hand.
#[test]
fn the_documented_layout_is_what_is_written() {
    let mut g = GraphBuilder::new();
    g.set_name("not encoded").set_types(DataType::Double, DataType::Half, DataType::Float).set_override_shape_enabled(true);
    let unused = TensorAttributes::packed(DataType::Float, &[9]);
    g.tensor(unused);
    let mut x = TensorAttributes::new();
    x.set_uid(Uid(-5)).set_dims(&[2, 1, 3]).set_strides(&[8, 77, 2]).set_ragged_offset(Some(Uid(40))).set_ragged_multiplier(7);
    let x = g.tensor(x);
    let mut offsets = TensorAttributes::packed(DataType::Int64, &[3]);
    offsets.set_uid(Uid(40));
    g.tensor(offsets);
    let scale = g.scalar(-1_i32, ScalarType::RuntimeParam);
    let mut y = TensorAttributes::packed(DataType::Unset, &[2, 1, 3]);
    y.set_virtual(true).set_alignment(256);
    let y = g.tensor(y);
    let mut op = pointwise(hipplan_serialize::PointwiseMode::Mul, x, Some(scale), y);
    op.relu_upper_clip = Some(-0.0);
    op.axis = Some(1);
    g.node("nor is this", DataType::Unset, op);
    let canonical = g.build().expect("valid").view().canonical().expect("known fields only");

    let mut e: Vec<u8> = b"HPCANON\0".to_vec();
    let u32s = |e: &mut Vec<u8>, list: &[u32]| list.iter().for_each(|v| e.extend(v.to_le_bytes()));
    let i64s = |e: &mut Vec<u8>, list: &[i64]| list.iter().for_each(|v| e.extend(v.to_le_bytes()));
    u32s(&mut e, &[1, 1, 4]);
    // x: float (io), ragged, rank 3; its dim of size 1 takes the stride 2 * 8.
    u32s(&mut e, &[4 + 16 + 4 + 48]);
    e.extend([1, 8, 0, 3]);
    i64s(&mut e, &[16, 7]);
    u32s(&mut e, &[1]);
    i64s(&mut e, &[2, 1, 3, 8, 16, 2]);
    // Its offsets: int64.
    u32s(&mut e, &[4 + 16 + 16]);
    e.extend([15, 0, 0, 1]);
    i64s(&mut e, &[16, 1, 3, 1]);
    // The scalar: int32, runtime with a value of tag 5.
    u32s(&mut e, &[4 + 16 + 8 + 16]);
    e.extend([6, 2 | 4, 5, 1]);
    i64s(&mut e, &[16, 1, 0xffff_ffff, 1, 1]);
    // y: half (intermediate), virtual.
    u32s(&mut e, &[4 + 16 + 48]);
    e.extend([2, 1, 0, 3]);
    i64s(&mut e, &[256, 1, 2, 1, 3, 3, 6, 1]);
    // The node: pointwise, double.
    u32s(&mut e, &[1]);
    let mut node: Vec<u8> = vec![2, 4, 30];
    node.extend([0, 1, 0, 0, 0, 0x80, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
    u32s(&mut node, &[0]);
    node.push(1);
    u32s(&mut node, &[2]);
    node.push(0);
    u32s(&mut node, &[3]);
    node.extend([0, 0, 0]);
    u32s(&mut e, &[node.len() as u32]);
    e.extend(node);
    assert_eq!(canonical.encoding, e);
    assert_eq!(canonical.uids, [x, Uid(40), scale, y]);
    assert_eq!(canonical.key.0, blake3::derive_key("hipplan graph key 1", &e));
}

fn pointwise(mode: hipplan_serialize::PointwiseMode, in_0: Uid, in_1: Option<Uid>, out_0: Uid) -> Pointwise {
    Pointwise { in_1, ..Pointwise::unary(mode, in_0, out_0) }
}

// ---- what keeps a key ----

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Uids, names, ids, list order, preferred engine, unused tensors, strides of dims of size 1, and where a type is stated.
    #[test]
    fn how_a_graph_is_written_down_does_not_matter(seed: u64, nodes in 1..7_usize, styles: [u64; 3]) {
        let model = Generator::random(seed, nodes);
        let graphs = styles.map(|seed| model.graph(&Style { seed }));
        let canonicals = graphs.each_ref().map(|g| g.view().canonical().expect("known fields only"));
        prop_assert_eq!(&canonicals[0].encoding, &canonicals[1].encoding);
        prop_assert_eq!(&canonicals[0].encoding, &canonicals[2].encoding);
        prop_assert_eq!(canonicals[0].key, canonicals[2].key);
        prop_assert_eq!(canonicals[0].uids.len(), canonicals[1].uids.len());

        // The encoding is a graph, whose own encoding it is; through the artifact nothing changes.
        let decoded = canon::decode(&canonicals[0].encoding, &Limits::DEFAULT).expect("decodes");
        prop_assert_eq!(&decoded.view().canonical().expect("known fields only").encoding, &canonicals[0].encoding);
        let again = GraphBuf::new(&graphs[1].view().to_artifact(), &Limits::DEFAULT).expect("an artifact");
        prop_assert_eq!(again.buffer(), graphs[1].buffer());
        // Tensors that nothing names do not execute, and so the decoded graph has none.
        prop_assert_eq!(decoded.view().tensors().len(), canonicals[0].uids.len());
    }

    /// Two different graphs have two keys, unless they are one graph written twice.
    #[test]
    fn one_changed_thing_changes_the_key(seed: u64, nodes in 1..5_usize, change: u64, style: u64) {
        let model = Generator::random(seed, nodes);
        let mut changed = model.clone();
        let mut rng = Rng::new(change);
        mutate_used_tensor(&mut changed, &mut rng);
        // A change may be one that no graph survives (a written scalar, a broken shape rule): that is no key at all.
        if let Ok(other) = import(&changed.json(&Style { seed: style })) {
            prop_assert_ne!(key(&model.graph(&Style { seed: style })), key(&other.graph));
        }
    }
}

/// Changes one field of one tensor that a node names.
fn mutate_used_tensor(model: &mut Model, rng: &mut Rng) {
    let used: Vec<usize> = model.nodes.iter().flat_map(Node::operands).collect();
    let at = rng.pick(&used);
    let t = &mut model.tensors[at];
    match rng.below(8) {
        0 => t.dtype = if t.dtype == DataType::Int32 { DataType::UInt8 } else { DataType::Int32 },
        1 => t.alignment += 16,
        2 => t.multiplier += 1,
        3 => t.is_virtual = !t.is_virtual,
        4 => t.is_runtime = !t.is_runtime,
        5 => {
            let axis = rng.below(t.dims.len());
            t.dims[axis] += 1;
        }
        6 => match t.dims.iter().position(|&d| d > 1) {
            Some(axis) => t.strides[axis] += 1000,
            None => t.alignment = 1,
        },
        _ => t.value = if t.value.is_some() { None } else { Some(("Int32Value", json!(7))) },
    }
}

// ---- what changes a key: every field ----

/// Values of every kind that an attribute may have, in JSON.
fn candidates() -> Vec<Value> {
    let mut all = vec![Value::Null, json!(true), json!(false), json!(0.5), json!(0.25), json!(-0.5), json!("a.b"), json!("a.c")];
    all.extend((0..6).map(|n| json!(n)));
    all.extend([json!([]), json!([0]), json!([1]), json!([7, 1]), json!([1, 7])]);
    all.extend((0..5).flat_map(|a| (0..5).map(move |b| json!([a, b]))));
    all
}

/// Graphs in which together every field of the operation can be changed without breaking a rule.
fn bases(kind: OpKind) -> Vec<Model> {
    let mut base = Generator::full(kind);
    match kind {
        OpKind::Pointwise => {
            let image = base.tensors[base.nodes[0].operands()[0]].dims.clone();
            let with = |mode: i8, inputs: usize| {
                let mut model = base.clone();
                model.nodes[0].set("mode", FieldValue::Attribute(json!(mode)));
                for (i, name) in ["in_0", "in_1", "in_2"].into_iter().enumerate() {
                    model.tensors.push(Tensor::packed(DataType::Float, &image));
                    let operand = if i < inputs { FieldValue::Tensor(model.tensors.len() - 1) } else { FieldValue::Absent };
                    model.nodes[0].set(name, operand);
                }
                model
            };
            vec![with(4, 3), with(2, 2), with(1, 1)]
        }
        OpKind::ConvolutionFwd | OpKind::ConvolutionBwd | OpKind::ConvolutionWrw => {
            // A filter of one tap and a stride above one leave room in every attribute.
            let (image, filter, small) = ([2, 4, 5, 5], [4, 4, 1, 1], [2, 4, 2, 2]);
            let names = match kind {
                OpKind::ConvolutionFwd => ["x", "w", "y"],
                OpKind::ConvolutionBwd => ["dx", "w", "dy"],
                _ => ["x", "dw", "dy"],
            };
            for (name, dims) in names.into_iter().zip([image, filter, small]) {
                base.tensors.push(Tensor::packed(DataType::Float, &dims));
                base.nodes[0].set(name, FieldValue::Tensor(base.tensors.len() - 1));
            }
            for (name, value) in [("pre_padding", json!([0, 0])), ("post_padding", json!([0, 0])), ("stride", json!([3, 3]))] {
                base.nodes[0].set(name, FieldValue::Attribute(value));
            }
            vec![base]
        }
        OpKind::Sdpa | OpKind::SdpaBackward => {
            // The scale is an operand or an attribute.
            let mut by_attribute = base.clone();
            by_attribute.nodes[0].set("scale", FieldValue::Absent);
            vec![base, by_attribute]
        }
        _ => vec![base],
    }
}

#[test]
fn every_field_of_every_operation_is_in_the_key() {
    let style = Style { seed: 3 };
    for &kind in OpKind::ALL {
        let bases = bases(kind);
        let graphs: Vec<GraphBuf> = bases.iter().map(|b| b.graph(&style)).collect();
        for (i, spec) in kind.fields().iter().enumerate() {
            let mut tried = 0;
            let place = format!("{}.{}", kind.name(), spec.name);
            for (base, graph) in bases.iter().zip(&graphs) {
                let base_key = key(graph);
                let view = graph.view();
                let base_op = view.op(view.nodes().next().expect("one node"));
                let mutants: Vec<Model> = match spec.role {
                    FieldRole::Attribute => candidates()
                        .into_iter()
                        .map(|value| {
                            let mut mutant = base.clone();
                            mutant.nodes[0].fields[i] = FieldValue::Attribute(value);
                            mutant
                        })
                        .collect(),
                    _ => operand_mutants(base, i),
                };
                for mutant in mutants {
                    let Ok(other) = import(&mutant.json(&style)) else { continue };
                    let view = other.graph.view();
                    let op = view.op(view.nodes().next().expect("one node"));
                    // The same value in other words (null for false) is no change. Floats are equal here where their bits may differ.
                    if spec.role == FieldRole::Attribute && op == base_op {
                        continue;
                    }
                    tried += 1;
                    assert_ne!(key(&other.graph), base_key, "{place}: {:?} and {:?}", base.nodes[0].fields[i], mutant.nodes[0].fields[i]);
                }
            }
            assert!(tried > 0, "{place}: no change was tried; teach `bases` or `candidates` about it");
        }
    }
}

/// The node with another tensor in its field `i`, and with the operand dropped.
fn operand_mutants(base: &Model, i: usize) -> Vec<Model> {
    // The same in everything but its alignment, so that no rule of shapes is broken.
    let other = |model: &mut Model, t: usize| {
        let mut copy = model.tensors[t].clone();
        copy.alignment *= 2;
        model.tensors.push(copy);
        model.tensors.len() - 1
    };
    let mut mutants = Vec::new();
    let mut with = |f: &dyn Fn(&mut Model) -> FieldValue| {
        let mut model = base.clone();
        model.nodes[0].fields[i] = f(&mut model);
        mutants.push(model);
    };
    match &base.nodes[0].fields[i] {
        FieldValue::Tensor(t) => {
            with(&|model| FieldValue::Tensor(other(model, *t)));
            with(&|_| FieldValue::Absent);
        }
        FieldValue::Tensors(list) => {
            for at in 0..list.len() {
                with(&|model| {
                    let mut list = list.clone();
                    list[at] = other(model, list[at]);
                    FieldValue::Tensors(list)
                });
                with(&|_| FieldValue::Tensors([&list[..at], &list[at + 1..]].concat()));
            }
            with(&|model| {
                let more = other(model, list[0]);
                FieldValue::Tensors([&list[..], &[more]].concat())
            });
        }
        FieldValue::Absent | FieldValue::Attribute(_) => {}
    }
    mutants
}

#[test]
fn absent_is_not_the_default_and_floats_count_by_their_bits() {
    let graph = |clip: Option<f32>, axis: Option<i64>| {
        let mut g = GraphBuilder::new();
        let x = g.tensor(TensorAttributes::packed(DataType::Float, &[4]));
        let y = g.tensor(TensorAttributes::packed(DataType::Float, &[4]));
        let mut op = pointwise(hipplan_serialize::PointwiseMode::ReluFwd, x, None, y);
        (op.relu_lower_clip, op.axis) = (clip, axis);
        g.node("", DataType::Float, op);
        key(&g.build().expect("valid"))
    };
    let clips =
        [None, Some(0.0), Some(-0.0), Some(f32::MIN_POSITIVE / 2.0), Some(f32::NAN), Some(f32::from_bits(0x7fc0_0001)), Some(-f32::NAN)];
    let mut keys: Vec<GraphKey> = clips.map(|clip| graph(clip, None)).to_vec();
    keys.extend([graph(None, Some(0)), graph(None, Some(1)), graph(Some(0.0), Some(0))]);
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count);
}

#[test]
fn every_field_of_a_tensor_is_in_the_key() {
    // An operation without shape rules, whose x is the first tensor.
    let base = || {
        let mut g = Generator::new(1);
        g.node(OpKind::CustomOp);
        let mut model = g.model;
        model.tensors =
            vec![Tensor::packed(DataType::Float, &[2, 1, 3]), Tensor::packed(DataType::Float, &[2]), Tensor::packed(DataType::Int32, &[3])];
        model.tensors.push(Tensor::packed(DataType::Int32, &[3]));
        model.nodes[0].set("inputs", FieldValue::Tensors(vec![0]));
        model.nodes[0].set("outputs", FieldValue::Tensors(vec![1]));
        model
    };
    let scalar = |t: &mut Tensor| *t = Tensor::packed(DataType::Float, &[1]);
    let value = |t: &mut Tensor, kind: &'static str, number: Value| {
        *t = Tensor::packed(DataType::Float, &[1]);
        t.value = Some((kind, number));
    };
    type Change = Box<dyn Fn(&mut Model)>;
    let changes: Vec<(&str, Change)> = vec![
        ("nothing", Box::new(|_| ())),
        ("dtype", Box::new(|m| m.tensors[0].dtype = DataType::Half)),
        ("dim", Box::new(|m| m.tensors[0].dims = vec![2, 1, 4])),
        ("order of dims", Box::new(|m| m.tensors[0] = Tensor::packed(DataType::Float, &[1, 2, 3]))),
        ("rank", Box::new(|m| m.tensors[0] = Tensor::packed(DataType::Float, &[2, 3]))),
        ("trailing rank", Box::new(|m| m.tensors[0] = Tensor::packed(DataType::Float, &[2, 1, 3, 1]))),
        ("stride 0", Box::new(|m| m.tensors[0].strides[0] = 4)),
        ("stride 2", Box::new(|m| m.tensors[0].strides[2] = 2)),
        ("broadcast", Box::new(|m| m.tensors[0].strides[0] = 0)),
        ("alignment", Box::new(|m| m.tensors[0].alignment = 32)),
        ("multiplier", Box::new(|m| m.tensors[0].multiplier = 2)),
        ("ragged", Box::new(|m| m.tensors[0].ragged = Some(2))),
        ("ragged output", Box::new(|m| m.tensors[1].ragged = Some(2))),
        ("both ragged", Box::new(|m| (0..2).for_each(|i| m.tensors[i].ragged = Some(2)))),
        ("both ragged, apart", Box::new(|m| (0..2).for_each(|i| m.tensors[i].ragged = Some(2 + i)))),
        ("virtual output", Box::new(|m| m.tensors[1].is_virtual = true)),
        ("scalar", Box::new(move |m| scalar(&mut m.tensors[0]))),
        (
            "runtime",
            Box::new(move |m| {
                scalar(&mut m.tensors[0]);
                m.tensors[0].is_runtime = true;
            }),
        ),
        ("constant", Box::new(move |m| value(&mut m.tensors[0], "Float32Value", json!(1.0)))),
        (
            "default",
            Box::new(move |m| {
                value(&mut m.tensors[0], "Float32Value", json!(1.0));
                m.tensors[0].is_runtime = true;
            }),
        ),
        ("number", Box::new(move |m| value(&mut m.tensors[0], "Float32Value", json!(1.000_000_119_209_289_6)))),
        ("half", Box::new(move |m| value(&mut m.tensors[0], "Float16Value", json!(1.0)))),
        ("bfloat16", Box::new(move |m| value(&mut m.tensors[0], "BFloat16Value", json!(1.0)))),
        ("double", Box::new(move |m| value(&mut m.tensors[0], "Float64Value", json!(1.0)))),
        ("zero", Box::new(move |m| value(&mut m.tensors[0], "Float32Value", json!(0.0)))),
        ("minus zero", Box::new(move |m| value(&mut m.tensors[0], "Float32Value", json!(-0.0)))),
        ("int", Box::new(move |m| value(&mut m.tensors[0], "Int32Value", json!(1)))),
        ("long", Box::new(move |m| value(&mut m.tensors[0], "Int64Value", json!(1)))),
        ("minus one", Box::new(move |m| value(&mut m.tensors[0], "Int64Value", json!(-1)))),
        ("unsigned minus one", Box::new(move |m| value(&mut m.tensors[0], "Int32Value", json!(-1)))),
        ("byte", Box::new(move |m| value(&mut m.tensors[0], "Float8Value", json!(1)))),
        ("bool", Box::new(move |m| value(&mut m.tensors[0], "BoolValue", json!(true)))),
        ("compute type", Box::new(|m| m.nodes[0].compute = DataType::Int64)),
        ("override shapes", Box::new(|m| m.override_shapes = !m.override_shapes)),
        ("input twice", Box::new(|m| m.nodes[0].set("inputs", FieldValue::Tensors(vec![0, 0])))),
        (
            "inputs equal but two",
            Box::new(|m| {
                m.tensors.push(m.tensors[0].clone());
                m.nodes[0].set("inputs", FieldValue::Tensors(vec![0, m.tensors.len() - 1]));
            }),
        ),
        (
            "node twice",
            Box::new(|m| {
                m.nodes.push(m.nodes[0].clone());
                m.tensors.push(m.tensors[1].clone());
                let y = m.tensors.len() - 1;
                m.nodes[1].set("outputs", FieldValue::Tensors(vec![y]));
            }),
        ),
    ];
    let style = Style { seed: 11 };
    let keys: Vec<(&str, GraphKey)> = changes
        .iter()
        .map(|(name, change)| {
            let mut model = base();
            change(&mut model);
            (*name, key(&model.graph(&style)))
        })
        .collect();
    for (i, (a_name, a)) in keys.iter().enumerate() {
        for (b_name, b) in &keys[..i] {
            assert_ne!(a, b, "{a_name} and {b_name}");
        }
    }
}

#[test]
fn node_order_is_part_of_the_graph() {
    let graph = |modes: [hipplan_serialize::PointwiseMode; 2]| {
        let mut g = GraphBuilder::new();
        let t = |g: &mut GraphBuilder| g.tensor(TensorAttributes::packed(DataType::Float, &[4]));
        let (x, y, z) = (t(&mut g), t(&mut g), t(&mut g));
        g.node("", DataType::Float, pointwise(modes[0], x, None, y));
        g.node("", DataType::Float, pointwise(modes[1], x, None, z));
        key(&g.build().expect("valid"))
    };
    use hipplan_serialize::PointwiseMode as M;
    assert_ne!(graph([M::Abs, M::Neg]), graph([M::Neg, M::Abs]));
}

// ---- fields from the future ----

/// Which table gets a field that nobody knows, behind those that it has.
#[derive(Clone, Copy, PartialEq)]
enum Extra {
    Nowhere,
    Graph,
    Tensor,
    UnusedTensor,
    Node,
    Op,
}

fn with_extra(extra: Extra) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let unknown = |fbb: &mut FlatBufferBuilder<'static>, slot: u16, here: bool| {
        if here {
            fbb.push_slot_always(4 + 2 * slot, 1_u8);
        }
    };
    let mut tensors = Vec::new();
    for uid in 1..=4_i64 {
        let (dims, strides) = (fbb.create_vector(&[4_i64, 4]), fbb.create_vector(&[4_i64, 1]));
        let start = fbb.start_table();
        fbb.push_slot_always(wire::TensorAttributes::VT_UID, uid);
        fbb.push_slot_always(wire::TensorAttributes::VT_DIMS, dims);
        fbb.push_slot_always(wire::TensorAttributes::VT_STRIDES, strides);
        fbb.push_slot_always(wire::TensorAttributes::VT_DATA_TYPE, wire::DataType::FLOAT);
        unknown(&mut fbb, 12, (extra == Extra::Tensor && uid == 2) || (extra == Extra::UnusedTensor && uid == 4));
        let end = fbb.end_table(start);
        tensors.push(WIPOffset::<wire::TensorAttributes<'_>>::new(end.value()));
    }
    let start = fbb.start_table();
    for (slot, uid) in [(0, 1_i64), (1, 2), (2, 3)] {
        fbb.push_slot_always(4 + 2 * slot, uid);
    }
    unknown(&mut fbb, 3, extra == Extra::Op);
    let op = fbb.end_table(start);
    let name = fbb.create_string("mm");
    let start = fbb.start_table();
    fbb.push_slot_always(wire::Node::VT_NAME, name);
    fbb.push_slot_always(wire::Node::VT_COMPUTE_DATA_TYPE, wire::DataType::FLOAT);
    fbb.push_slot_always(wire::Node::VT_ATTRIBUTES_TYPE, wire::NodeAttributes::MatmulAttributes);
    fbb.push_slot_always(wire::Node::VT_ATTRIBUTES, op);
    unknown(&mut fbb, 4, extra == Extra::Node);
    let end = fbb.end_table(start);
    let nodes = fbb.create_vector(&[WIPOffset::<wire::Node<'_>>::new(end.value())]);
    let tensors = fbb.create_vector(&tensors);
    let start = fbb.start_table();
    fbb.push_slot_always(wire::Graph::VT_TENSORS, tensors);
    fbb.push_slot_always(wire::Graph::VT_NODES, nodes);
    unknown(&mut fbb, 10, extra == Extra::Graph);
    let root = fbb.end_table(start);
    fbb.finish_minimal(root);
    fbb.finished_data().to_vec()
}

#[test]
fn unknown_fields_leave_a_graph_without_a_key() {
    let places = [
        (Extra::Graph, "the graph table"),
        (Extra::Tensor, "tensor 1 (uid 2)"),
        (Extra::UnusedTensor, "tensor 3 (uid 4)"),
        (Extra::Node, "node 0 \"mm\" (matmul)"),
        (Extra::Op, "node 0 \"mm\" (matmul)"),
    ];
    let known = GraphBuf::new(&with_extra(Extra::Nowhere), &Limits::DEFAULT).expect("valid");
    assert!(known.view().canonical().is_ok());
    for (extra, place) in places {
        let graph = GraphBuf::new(&with_extra(extra), &Limits::DEFAULT).expect("valid, as far as it is known");
        let error = graph.view().canonical().expect_err(place);
        assert_eq!(error.place, place);
        assert!(error.to_string().contains(place), "{error}");
    }
}
