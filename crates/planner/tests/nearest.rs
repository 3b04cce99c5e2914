//! The nearest entry of a store: what differs is named field by field, and the work is bounded.

mod common;

use common::{Folder, canonical, product, shaped};
use hipplan_planner::{Ensured, FieldDifference, Nearest, Providers, Request, Site, Sought, ensure_plan, nearest};
use hipplan_serialize::{DataType, GraphBuf, Knob, Policy, Target, import};
use hipplan_store::Store;

fn fill(store: &Store, graphs: &[GraphBuf]) {
    for graph in graphs {
        let request = Request { site: &Site::of(&Target::Cpu), policy: &Policy::DEFAULT };
        let ensured = ensure_plan(store, &canonical(graph), &request, &Providers::default());
        assert!(matches!(ensured, Ok(Ensured::Compiled(_))), "{ensured:?}");
    }
}

fn near_to(store: &Store, graph: &GraphBuf, target: &str, policy: &Policy, most: usize) -> Nearest {
    let (key, target) = (canonical(graph).key, target.parse().expect("a target"));
    let targets = [target];
    let sought = Sought { graph: &key, device: None, targets: &targets, policy };
    nearest(store, &graph.view(), &sought, &Providers::default(), most)
}

fn texts(nearest: &Nearest) -> Vec<String> {
    nearest.entry.iter().flat_map(|entry| &entry.differing).map(FieldDifference::to_string).collect()
}

#[test]
fn an_empty_store_has_nothing_near() {
    let folder = Folder::new();
    let found = near_to(&folder.store(), &product(4), "cpu", &Policy::DEFAULT, 100);
    assert_eq!(found, Nearest { entry: None, looked_at: 0, is_exact: true });
}

#[test]
fn dims_and_types_differ_place_by_place() {
    let folder = Folder::new();
    let store = folder.store();
    // The same rank and type but for one dim of each tensor, another rank, another type.
    let near = shaped(&[64, 8], DataType::Float);
    fill(&store, &[shaped(&[64, 7], DataType::Half), near, shaped(&[5, 6, 7], DataType::Float)]);
    let asked = import::import(
        br#"{"name": "mine", "compute_data_type": "float", "intermediate_data_type": "float", "io_data_type": "float",
          "tensors": [
            {"uid": 50, "name": "left", "data_type": "float", "dims": [32, 8], "strides": [8, 1], "virtual": false},
            {"uid": 60, "name": "right", "data_type": "float", "dims": [32, 8], "strides": [8, 1], "virtual": false},
            {"uid": 70, "name": "out", "data_type": "float", "dims": [32, 8], "strides": [8, 1], "virtual": false}],
          "nodes": [{"name": "times", "type": "PointwiseAttributes", "compute_data_type": "float",
            "inputs": {"operation": "mul", "in_0_tensor_uid": 50, "in_1_tensor_uid": 60}, "outputs": {"out_0_tensor_uid": 70}}]}"#,
        &hipplan_serialize::Limits::DEFAULT,
    );
    let asked = asked.expect("a graph").graph;
    let found = near_to(&store, &asked, "cpu", &Policy::DEFAULT, 100);
    assert_eq!(
        texts(&found),
        [
            "tensor 0 \"left\" (uid 50) dims[0]: 32 here, 64 in the store",
            "tensor 1 \"right\" (uid 60) dims[0]: 32 here, 64 in the store",
            "tensor 2 \"out\" (uid 70) dims[0]: 32 here, 64 in the store",
        ]
    );
    assert!(found.is_exact && found.looked_at == 3);
}

#[test]
fn the_same_graph_for_another_target_comes_first() {
    let folder = Folder::new();
    let store = folder.store();
    fill(&store, &[product(4), product(5)]);
    let found = near_to(&store, &product(4), "gfx942", &Policy::DEFAULT, 0);
    assert_eq!(texts(&found), ["request target: gfx942 here, cpu in the store"]);
    assert!(found.is_exact && found.looked_at == 0, "its record was found, and nothing can be nearer");
}

#[test]
fn engine_provider_and_settings_are_named() {
    let folder = Folder::new();
    let store = folder.store();
    fill(&store, &[product(4)]);
    let knob = Knob { id: "tile".into(), value: "64".into() };
    let policy = Policy { engine: Some("MINE".into()), provider: Some("my".into()), preferred: Some(1), knobs: vec![knob] };
    let found = near_to(&store, &product(4), "cpu", &policy, 100);
    let texts = texts(&found);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[0].starts_with("request engine: MINE here, ") && texts[0].ends_with(" in the store"), "{texts:?}");
    assert_eq!(texts[1..], ["request provider: my here, cpu in the store", "request knob tile: 64 here, nothing in the store"]);
}

#[test]
fn the_work_is_bounded_and_says_so() {
    let folder = Folder::new();
    let store = folder.store();
    let graphs: Vec<_> = (10..20).map(product).collect();
    fill(&store, &graphs);
    let asked = shaped(&[10], DataType::Half);
    for most in [0, 1, 9] {
        let found = near_to(&store, &asked, "cpu", &Policy::DEFAULT, most);
        assert!(!found.is_exact && found.looked_at == most && found.entry.is_some() == (most > 0), "{found:?}");
    }
    let found = near_to(&store, &asked, "cpu", &Policy::DEFAULT, 10);
    assert!(found.is_exact && found.looked_at == 10, "{found:?}");
    assert_eq!(found.entry.expect("the one with these dims").identity.graph, canonical(&product(10)).key);
    // Files that are no plans are passed over.
    for file in folder.files("plans").iter().skip(1) {
        std::fs::write(file, "garbage").expect("written");
    }
    let found = near_to(&store, &asked, "cpu", &Policy::DEFAULT, 10);
    assert!(found.is_exact && found.looked_at == 1 && found.entry.is_some(), "{found:?}");
}
