//! Batches beside each other: what is expensive is compiled once, by whoever comes first.

mod common;

use common::{Folder, product};
use hipplan_planner::{
    BatchItem, BatchOptions, CompileError, Compiled, Compiler, Offer, ProviderIdentity, Providers, Refusal, Site, compile_batch,
};
use hipplan_serialize::{ApiVersion, Policy, Target, VerifiedGraph};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Takes its time to compile what the cpu provider would load, and counts how often it does.
struct Slow {
    time: Duration,
    compiled: Arc<AtomicUsize>,
}

impl Compiler for Slow {
    fn identity(&self) -> ProviderIdentity {
        ProviderIdentity { name: "slow".into(), api_version: ApiVersion { major: 1, minor: 0, patch: 0 } }
    }

    fn offers(&self, _: &VerifiedGraph<'_>, _: &Site) -> Result<Vec<Offer>, Refusal> {
        Ok(vec![Offer::new("SLOW", "1")])
    }

    fn compile(&self, graph: &VerifiedGraph<'_>, _: &Offer, _: &Site) -> Result<Compiled, CompileError> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.time);
        let code_objects = vec![graph.canonical().expect("a key").key.0.to_vec()];
        Ok(Compiled { kind: "cpu", version: 1, body: vec![1, 2, 3], workspace_size: 0, code_objects })
    }
}

/// Compiles as many graphs at once, each in a batch of its own; gives how many were compiled in all.
fn compile(folder: &Folder, batches: usize, graphs: i64, time: Duration) -> usize {
    let compiled = Arc::new(AtomicUsize::new(0));
    let graphs: Vec<_> = (1..=graphs).map(product).collect();
    let options = BatchOptions {
        sites: vec![Site::Offline("gfx942".parse::<Target>().expect("a target"))],
        policy: Policy::DEFAULT,
        jobs: 2,
        shard: None,
    };
    std::thread::scope(|scope| {
        for _ in 0..batches {
            scope.spawn(|| {
                let mut providers = Providers::none();
                providers.add(Box::new(Slow { time, compiled: compiled.clone() }));
                let items: Vec<_> = graphs.iter().map(|graph| BatchItem::of_graph("it".into(), &graph.view())).collect();
                let report = compile_batch(&folder.store(), &items, &options, &providers, &());
                assert_eq!(report.count("compiled") + report.count("present"), items.len());
            });
        }
    });
    compiled.load(Ordering::Relaxed)
}

/// Enough that plans are kept together: those that are expensive are not, for somebody may be waiting for them.
#[test]
fn batches_at_once_compile_what_is_expensive_once() {
    let folder = Folder::new();
    assert_eq!(compile(&folder, 2, 18, Duration::from_millis(110)), 18);
    assert!(folder.store().verify().is_clean());
    assert_eq!(compile(&folder, 1, 18, Duration::ZERO), 0, "all is there");
}

/// What was put piece by piece is no more files in the end than what is kept together.
#[test]
fn what_was_kept_at_once_is_folded_in_the_end() {
    let folder = Folder::new();
    assert_eq!(compile(&folder, 1, 18, Duration::from_millis(110)), 18);
    for part in ["plans", "objects", "index/plan", "index/select"] {
        assert!(folder.files(part).is_empty(), "{part}");
    }
    assert_eq!(folder.files("packs").iter().filter(|path| path.extension().is_some_and(|e| e == "pack")).count(), 1);
    assert!(folder.store().verify().is_clean());
}
