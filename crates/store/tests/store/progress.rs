//! Long work tells how far it has come.

use super::bundles::{export_all, fill, store_in};
use hipplan_store::{LayerOptions, Limits, UpkeepProgress, bundle_facts_with, merge_bundles_with};
use std::cell::RefCell;

/// What was told.
#[derive(Default)]
struct Told(RefCell<Vec<(&'static str, u64, u64)>>);

impl UpkeepProgress for Told {
    fn step(&self, phase: &'static str, done: u64, all: u64) {
        assert!(all == 0 || done <= all, "{phase}: {done} of {all}");
        self.0.borrow_mut().push((phase, done, all));
    }
}

/// What `work` tells.
fn told<T>(work: impl FnOnce(&Told) -> T) -> Vec<(&'static str, u64, u64)> {
    let told = Told::default();
    work(&told);
    told.0.into_inner()
}

#[test]
fn checks_and_work_on_bundles_tell_how_far_they_have_come() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let store = store_in(dir.path(), "a");
    // More than the things between two calls.
    for number in 0..300_u32 {
        fill(&store, &number.to_le_bytes());
    }
    let steps = told(|told| assert!(store.verify_with(told).is_clean()));
    for phase in ["checking blobs", "checking plans", "checking plan records", "checking selections"] {
        assert!(steps.contains(&(phase, 0, 0)) && steps.contains(&(phase, 256, 0)), "{phase} in {steps:?}");
    }
    let steps = told(|told| store.export_with(&at("a.hpbundle"), &[], &mut |_| true, told).unwrap());
    for phase in [("reading plans", 256, 300), ("reading selections", 256, 300), ("writing", 1024, 1200)] {
        assert!(steps.contains(&phase), "{phase:?} in {steps:?}");
    }
    fill(&store, b"one more");
    export_all(&store, &at("b.hpbundle"));
    let inputs = [at("a.hpbundle"), at("b.hpbundle")];
    let steps = told(|told| merge_bundles_with(&inputs, &at("ab.hpbundle"), &Limits::default(), told).unwrap());
    for phase in [("choosing entries", 512, 601), ("writing", 1024, 1204)] {
        assert!(steps.contains(&phase), "{phase:?} in {steps:?}");
    }
    let steps = told(|told| bundle_facts_with(&at("ab.hpbundle"), dir.path(), true, &Limits::default(), told).unwrap());
    assert!(steps.contains(&("checking plans", 256, 301)), "{steps:?}");
    let other = store_in(dir.path(), "b");
    let steps = told(|told| other.import_with(&at("ab.hpbundle"), &LayerOptions::default(), told).unwrap());
    for phase in [("checking entries", 256, 301), ("writing", 1024, 1204)] {
        assert!(steps.contains(&phase), "{phase:?} in {steps:?}");
    }
    // What was taken in stands in a pack, whose length is known.
    let steps = told(|told| assert!(other.verify_with(told).is_clean()));
    assert!(steps.contains(&("checking plans", 256, 301)), "{steps:?}");
}
