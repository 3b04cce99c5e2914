use super::common::{plan, plan_of_engine, selection_key, tree};
use hipplan_serialize::PlanRef;
use hipplan_store::{Mode, Store};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The folder after putting the same plans in this order, some of them again.
fn filled(order: &[usize], again: &[usize]) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Mode::ReadWrite).unwrap();
    for &i in order.iter().chain(again) {
        let graph = [i as u8 / 2];
        let blob = store.put_blob(&graph).unwrap().id;
        let other: PlanRef = store.put_plan(&plan(&graph, 64, &[])).unwrap().id;
        let file = plan_of_engine(&graph, ["E", "F"][i % 2], 100 + i, &[blob]);
        let id = store.put_plan(&file).unwrap().id;
        assert!(store.put_selection(&selection_key(&[i as u8]), &[id, other]).unwrap().is_persisted());
    }
    tree(dir.path())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn equal_sets_of_plans_make_equal_folders(
        order in Just((0..8_usize).collect::<Vec<_>>()).prop_shuffle(),
        again in prop::collection::vec(0..8_usize, 0..4),
    ) {
        prop_assert_eq!(filled(&order, &again), filled(&[0, 1, 2, 3, 4, 5, 6, 7], &[]));
    }
}
