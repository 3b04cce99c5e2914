//! The generators make valid graphs, and many kinds of them.

use hipplan_fuzzing::{FieldValue, Generator, Model, Style};
use hipplan_serialize::{FieldRole, OpKind};
use std::collections::HashSet;

/// Fields of the nodes of this kind that are there.
fn present(model: &Model, kind: OpKind, into: &mut HashSet<usize>) {
    for node in model.nodes.iter().filter(|n| n.kind == kind) {
        into.extend((0..node.fields.len()).filter(|&i| !matches!(node.fields[i], FieldValue::Absent)));
    }
}

#[test]
fn single_nodes_of_every_operation_are_valid_with_and_without_each_optional_field() {
    for &kind in OpKind::ALL {
        let (mut seen, mut missing, mut ranks) = (HashSet::new(), HashSet::new(), HashSet::new());
        for seed in 0..200 {
            let model = Generator::single(seed, kind);
            let graph = model.graph(&Style { seed });
            assert_eq!(graph.view().node_count(), 1);
            let mut here = HashSet::new();
            present(&model, kind, &mut here);
            missing.extend((0..kind.fields().len()).filter(|i| !here.contains(i)));
            ranks.insert(model.tensors[model.nodes[0].operands()[0]].dims.len());
            seen.extend(here);
        }
        for (i, spec) in kind.fields().iter().enumerate() {
            assert!(seen.contains(&i), "{}.{} never appears", kind.name(), spec.name);
            let is_dropped = missing.contains(&i);
            assert_eq!(is_dropped, is_dropped && !spec.required, "{}.{} is required and missing", kind.name(), spec.name);
            if !spec.required && spec.role != FieldRole::Attribute {
                assert!(is_dropped, "{}.{} is never absent", kind.name(), spec.name);
            }
        }
        let fixed = matches!(kind, OpKind::Sdpa | OpKind::SdpaBackward | OpKind::MoeGroupedMatmul | OpKind::MoeGroupedMatmulBwd);
        assert!(fixed || ranks.len() >= 3, "{}: ranks {ranks:?}", kind.name());
    }
}

#[test]
fn full_graphs_have_every_field_that_can_be_there_at_once() {
    for &kind in OpKind::ALL {
        let model = Generator::full(kind);
        model.graph(&Style { seed: 1 });
        let mut here = HashSet::new();
        present(&model, kind, &mut here);
        let absent: Vec<&str> = (0..kind.fields().len()).filter(|i| !here.contains(i)).map(|i| kind.fields()[i].name).collect();
        let expected: &[&str] = if matches!(kind, OpKind::Sdpa | OpKind::SdpaBackward) { &["attn_scale_value"] } else { &[] };
        assert_eq!(absent, expected, "{}", kind.name());
    }
}

#[test]
fn chains_of_every_operation_are_valid() {
    let mut pairs = HashSet::new();
    for seed in 0..400 {
        let nodes = 2 + seed as usize % 7;
        let model = Generator::random(seed, nodes);
        let graph = model.graph(&Style { seed });
        assert!(graph.view().node_count() >= nodes);
        pairs.extend(model.nodes.windows(2).map(|pair| (pair[0].kind, pair[1].kind)));
    }
    assert!(OpKind::ALL.iter().all(|&kind| pairs.iter().any(|&(_, b)| b == kind)), "an operation never follows another");
    assert!(pairs.len() > 300, "{} pairs", pairs.len());
}
