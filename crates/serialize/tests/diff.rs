//! The differences of two graphs, held against their real keys.

mod common;

use common::{corpus, corpus_graphs, import};
use hipplan_fuzzing::{FieldValue, Generator, Model, Node, Rng, Style, Tensor};
use hipplan_serialize::diff::{self, Difference, Place, Verdict};
use hipplan_serialize::{DataType, FieldRole, GraphBuf, OpKind, PointwiseMode};
use proptest::prelude::*;
use serde_json::{Value, json};

fn differences(a: &GraphBuf, b: &GraphBuf) -> Vec<Difference> {
    diff::graphs(&a.view(), &b.view())
}

/// The property that makes the list worth reading. Tells whether the keys are equal.
fn check(a: &GraphBuf, b: &GraphBuf) -> bool {
    let list = differences(a, b);
    let counts = list.iter().any(|d| d.changes_key);
    let equal = a.view().canonical().expect("known").key == b.view().canonical().expect("known").key;
    assert_eq!(equal, !counts, "{list:#?}");
    assert_eq!(diff::verdict(&a.view(), &b.view()), if equal { Verdict::SameKey } else { Verdict::DifferentKeys });
    for d in &list {
        assert!(d.a != d.b, "a difference differs: {d:?}");
        assert!(!d.field.is_empty() && !d.place.to_string().is_empty(), "{d:?}");
    }
    // The other way round the same things differ; an order is told from the first side.
    let is_order = |d: &Difference| d.field == "order of the tensor list";
    let mut back: Vec<_> = differences(b, a).into_iter().filter(|d| !is_order(d)).map(|d| (d.field, d.b, d.a, d.changes_key)).collect();
    let mut list: Vec<_> = list.into_iter().filter(|d| !is_order(d)).map(|d| (d.field, d.a, d.b, d.changes_key)).collect();
    if equal {
        back.sort();
        list.sort();
        assert_eq!(back, list);
    }
    assert_eq!(back.iter().any(|d| d.3), counts);
    equal
}

/// Changes something: a field of a tensor, an operand, an attribute, the order or number of nodes, the graph's flag.
fn mutate(model: &mut Model, rng: &mut Rng) {
    let used: Vec<usize> = model.nodes.iter().flat_map(Node::operands).collect();
    let at = rng.pick(&used);
    let node = rng.below(model.nodes.len());
    match rng.below(16) {
        0 => model.tensors[at].dtype = if model.tensors[at].dtype == DataType::Int32 { DataType::UInt8 } else { DataType::Int32 },
        1 => model.tensors[at].alignment += 16,
        2 => model.tensors[at].multiplier += 1,
        3 => model.tensors[at].is_virtual = !model.tensors[at].is_virtual,
        4 => model.tensors[at].is_runtime = !model.tensors[at].is_runtime,
        5 => {
            let t = &mut model.tensors[at];
            let axis = rng.below(t.dims.len());
            t.dims[axis] += 1;
        }
        6 => {
            let t = &mut model.tensors[at];
            let axis = rng.below(t.strides.len());
            t.strides[axis] += 1000;
        }
        7 => {
            let values = [None, Some(("Int32Value", json!(7))), Some(("Float32Value", json!(-0.0))), Some(("Float32Value", json!(0.0)))];
            model.tensors[at].value = rng.pick(&values);
        }
        8 => {
            let offsets = model.push(Tensor::packed(DataType::Int32, &[9]));
            model.tensors[at].ragged = Some(offsets);
        }
        9 => model.override_shapes = !model.override_shapes,
        10 => model.nodes[node].compute = if model.nodes[node].compute == DataType::Half { DataType::Double } else { DataType::Half },
        11 => {
            // An operand becomes another tensor, or a copy of itself.
            let copy = model.push(model.tensors[at].clone());
            let other = if rng.one_in(2) { copy } else { rng.pick(&used) };
            let slots: Vec<usize> = (0..model.nodes[node].fields.len()).collect();
            let slot = rng.pick(&slots);
            if let FieldValue::Tensor(t) = &mut model.nodes[node].fields[slot] {
                *t = other;
            }
        }
        12 => {
            let slot = rng.below(model.nodes[node].fields.len());
            if model.nodes[node].kind.fields()[slot].role == FieldRole::Attribute {
                let values =
                    [json!(0), json!(1), json!(2), json!(true), json!(false), json!([1, 1]), json!([2, 2]), json!("x.y"), json!(0.25)];
                model.nodes[node].fields[slot] = FieldValue::Attribute(rng.pick(&values));
            }
        }
        13 => _ = model.nodes.remove(node),
        14 => {
            let other = rng.below(model.nodes.len());
            model.nodes.swap(node, other);
        }
        // Written twice unless its results are made anew.
        _ => {
            let mut copy = model.nodes[node].clone();
            for (spec, field) in copy.kind.fields().iter().zip(&mut copy.fields) {
                match field {
                    FieldValue::Tensor(t) if spec.role == FieldRole::Output => *t = model.push(model.tensors[*t].clone()),
                    FieldValue::Tensors(list) if spec.role == FieldRole::Output => {
                        for t in list {
                            *t = model.push(model.tensors[*t].clone());
                        }
                    }
                    _ => {}
                }
            }
            let at = rng.below(model.nodes.len() + 1);
            model.nodes.insert(at, copy);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_ways_to_write_one_graph_differ_in_nothing_that_counts(seed: u64, nodes in 1..7_usize, styles: [u64; 2]) {
        let model = Generator::random(seed, nodes);
        let [a, b] = styles.map(|seed| model.graph(&Style { seed }));
        prop_assert!(check(&a, &b));
        prop_assert_eq!(differences(&a, &a), Vec::new());
    }

    #[test]
    fn a_changed_graph_has_a_difference_that_counts_exactly_when_its_key_differs(
        seed: u64, nodes in 1..6_usize, changes: [u64; 4], count in 1..4_usize, styles: [u64; 2],
    ) {
        let model = Generator::random(seed, nodes);
        let mut changed = model.clone();
        for &change in &changes[..count] {
            if !changed.nodes.is_empty() {
                mutate(&mut changed, &mut Rng::new(change));
            }
        }
        // A change may be one that no graph survives.
        if let Ok(other) = import(&changed.json(&Style { seed: styles[1] })) {
            check(&model.graph(&Style { seed: styles[0] }), &other.graph);
        }
    }

    #[test]
    fn unrelated_graphs_too(seeds: [u64; 2], nodes in [1..5_usize, 1..5_usize]) {
        let [a, b] = [0, 1].map(|i| Generator::random(seeds[i], nodes[i]).graph(&Style { seed: seeds[i] }));
        check(&a, &b);
    }
}

#[test]
fn enough_mutants_are_valid_and_of_both_sorts() {
    let (mut same, mut different) = (0, 0);
    for seed in 0..600 {
        let model = Generator::random(seed, 3);
        let mut changed = model.clone();
        mutate(&mut changed, &mut Rng::new(seed));
        if let Ok(other) = import(&changed.json(&Style { seed })) {
            if check(&model.graph(&Style { seed: seed + 1 }), &other.graph) { same += 1 } else { different += 1 }
        }
    }
    assert!(same >= 30 && different >= 150, "{same} {different}");
}

#[test]
fn every_pair_of_the_corpus() {
    let graphs = corpus_graphs();
    for (i, (name, a)) in graphs.iter().enumerate() {
        for (other, b) in &graphs[i..] {
            assert_eq!(check(a, b), name == other, "{name} {other}");
        }
    }
}

/// A corpus graph, changed as JSON; the fields that differ, with whether they count.
fn edited(name: &str, edit: impl Fn(&mut Value)) -> Vec<(String, String, bool)> {
    let (_, text) = corpus().into_iter().find(|(n, _)| n == name).expect("in the corpus");
    let mut value: Value = serde_json::from_slice(&text).expect("JSON");
    let before = import(&value).expect("valid").graph;
    edit(&mut value);
    let after = import(&value).expect("still valid").graph;
    check(&before, &after);
    differences(&before, &after).into_iter().map(|d| (d.place.to_string(), d.field, d.changes_key)).collect()
}

#[test]
fn one_change_is_one_difference() {
    let one = |place: &str, field: &str, counts| vec![(place.to_owned(), field.to_owned(), counts)];
    let name = "sample_conv_fwd";
    assert_eq!(edited(name, |v| v["name"] = json!("other")), one("graph", "name", false));
    assert_eq!(edited(name, |v| v["preferred_engine_id"] = json!(3)), one("graph", "preferred_engine_id", false));
    let at = |v: &Value, i: usize| format!("tensor {i} {} (uid {})", v["name"], v["uid"]);
    let (_, text) = corpus().into_iter().find(|(n, _)| n == name).expect("in the corpus");
    let base: Value = serde_json::from_slice(&text).expect("JSON");
    let tensor = at(&base["tensors"][1], 1);
    let found = edited(name, |v| v["tensors"][1]["alignment"] = json!(64));
    // The stamp follows from the floor, which the alignment raises.
    assert_eq!(found, [one("graph", "stamp", false), one(&tensor, "alignment", true)].concat());
    assert_eq!(edited(name, |v| v["tensors"][1]["strides"][3] = json!(2)), one(&tensor, "strides", true));
}

#[test]
fn a_node_in_the_middle_does_not_shift_the_rest() {
    use PointwiseMode::{Abs, Ceil, Erf, Exp, Neg};
    let unary = |modes: &[PointwiseMode]| {
        let mut model = Model { tensors: vec![Tensor::packed(DataType::Float, &[4])], nodes: Vec::new(), override_shapes: false };
        for &mode in modes {
            let x = model.tensors.len() - 1;
            let y = model.push(Tensor::packed(DataType::Float, &[4]));
            let mut fields: Vec<FieldValue> = OpKind::Pointwise.fields().iter().map(|_| FieldValue::Absent).collect();
            fields[0] = FieldValue::Attribute(json!(mode.name()));
            let mut node = Node { kind: OpKind::Pointwise, compute: DataType::Float, fields };
            node.set("in_0", FieldValue::Tensor(x));
            node.set("out_0", FieldValue::Tensor(y));
            model.nodes.push(node);
        }
        model
    };
    // A node between four others, which are recognised.
    let style = Style { seed: 5 };
    let (a, b) = (unary(&[Abs, Ceil, Erf, Exp]).graph(&style), unary(&[Abs, Ceil, Neg, Erf, Exp]).graph(&style));
    let list = differences(&a, &b);
    let only_b: Vec<_> = list.iter().filter(|d| matches!(d.place, Place::Node(None, Some(_)))).collect();
    assert_eq!(only_b.len(), 1, "{list:#?}");
    assert!(list.iter().all(|d| !(matches!(d.place, Place::Node(Some(_), None)) || d.field == "operation" && d.a.is_some())), "{list:#?}");
    // Besides: one more tensor, and the one operand that reads it.
    assert_eq!(list.iter().filter(|d| d.changes_key).count(), 3, "{list:#?}");
}
