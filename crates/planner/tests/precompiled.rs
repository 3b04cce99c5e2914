//! Where plans must have been compiled before: nothing is compiled or written, and what is the matter is one of four words.

mod common;

use common::{Folder, canonical, product};
use hipplan_exec::{CodeObjects, Device, ExecError, Executable, Loader, Loaders};
use hipplan_planner::{
    BatchItem, BatchOptions, CompileError, Compiled, Compiler, Ensured, Lack, LackReason, Offer, Outcome, ProviderIdentity, Providers,
    Refusal, Request, Shard, Site, Sought, compile_batch, compile_graph, compile_in_process, ensure_plan, find_precompiled, nearest,
};
use hipplan_serialize::plan::{PayloadView, PlanView};
use hipplan_serialize::{ApiVersion, Canonical, Policy, SelectionKey, Target, VerifiedGraph};
use hipplan_store::{EntryKind, Mode, RemoteError, RemoteOptions, RemoteTier, Store};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Compiles for one target what the cpu provider would load, and counts how often it is asked for anything.
struct Fake {
    target: Target,
    asked: Arc<AtomicUsize>,
}

impl Compiler for Fake {
    fn identity(&self) -> ProviderIdentity {
        ProviderIdentity { name: "fake".into(), api_version: ApiVersion { major: 9, minor: 0, patch: 0 } }
    }

    fn offers(&self, _: &VerifiedGraph<'_>, site: &Site) -> Result<Vec<Offer>, Refusal> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if *site.target() == self.target { Ok(vec![Offer::new("FAKE", "1")]) } else { Err(Refusal::Target("another target".into())) }
    }

    fn compile(&self, _: &VerifiedGraph<'_>, _: &Offer, _: &Site) -> Result<Compiled, CompileError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(Compiled { kind: "cpu", version: 1, body: vec![1, 2, 3], workspace_size: 0, code_objects: vec![vec![7; 100]] })
    }
}

/// Loads nothing that is written today.
struct Newer;

impl Loader for Newer {
    fn kind(&self) -> &'static str {
        "cpu"
    }

    fn versions(&self) -> std::ops::RangeInclusive<u32> {
        2..=9
    }

    fn load(&self, _: &PlanView<'_>, _: &PayloadView<'_>, _: &Device, _: &dyn CodeObjects) -> Result<Box<dyn Executable>, ExecError> {
        Err(ExecError::OutOfMemory { what: "nothing", bytes: 0 })
    }
}

fn target(text: &str) -> Target {
    text.parse().expect("a target")
}

fn fake(of: &str) -> (Providers, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut providers = Providers::none();
    providers.add(Box::new(Fake { target: target(of), asked: asked.clone() }));
    (providers, asked)
}

fn look(store: &Store, graph: &Canonical, targets: &[Target], providers: &Providers) -> Result<(), Lack> {
    let sought = Sought { graph: &graph.key, device: None, targets, policy: &Policy::DEFAULT };
    find_precompiled(store, &sought, providers).map(|_| ())
}

/// Compiles for the target, and gives the store and what it was compiled with.
fn filled(folder: &Folder, graph: &Canonical, of: &str) -> (Store, Providers, Arc<AtomicUsize>) {
    let (providers, asked) = fake(of);
    let store = folder.store();
    let request = Request { site: &Site::Offline(target(of)), policy: &Policy::DEFAULT };
    assert!(matches!(ensure_plan(&store, graph, &request, &providers), Ok(Ensured::Compiled(_))));
    (store, providers, asked)
}

#[test]
fn nothing_is_compiled_or_written_in_any_way() {
    let folder = Folder::new();
    let (graph, other) = (product(4), product(5));
    let key = canonical(&graph);
    let (store, mut providers, asked) = filled(&folder, &key, "gfx942");
    let before = folder.tree();
    let calls = asked.load(Ordering::Relaxed);
    providers.require_precompiled(true);
    let site = Site::Offline(target("gfx942"));
    let request = Request { site: &site, policy: &Policy::DEFAULT };
    assert!(matches!(ensure_plan(&store, &key, &request, &providers), Ok(Ensured::Present(_))));
    let lacking = |result: Result<(), CompileError>| match result {
        Err(CompileError::NotPrecompiled(lack)) => assert_eq!(lack.reason, LackReason::Missing, "{lack}"),
        other => panic!("{other:?}"),
    };
    lacking(ensure_plan(&store, &canonical(&other), &request, &providers).map(|_| ()));
    lacking(compile_graph(&other.view(), &request, &providers).map(|_| ()));
    let here = Request { site: &Site::of(&Target::Cpu), policy: &Policy::DEFAULT };
    lacking(compile_in_process(&graph.view(), &here, &providers).map(|_| ()));
    // A preference is not asked about either.
    let preferring = Policy { preferred: Some(7), ..Policy::DEFAULT };
    lacking(ensure_plan(&store, &canonical(&other), &Request { policy: &preferring, ..request }, &providers).map(|_| ()));

    // A store that lacks a record is not put right, and one that is open to read only is enough.
    std::fs::remove_dir_all(folder.path().join("index/plan")).expect("removed");
    let read_only = Store::open(folder.path(), Mode::ReadOnly).expect("opened");
    assert!(matches!(ensure_plan(&read_only, &key, &request, &providers), Ok(Ensured::Present(_))));
    let after: BTreeSet<_> = folder.tree().into_keys().collect();
    assert!(after.is_subset(&before.into_keys().collect()) && !folder.path().join("index/plan").exists());

    assert_eq!(asked.load(Ordering::Relaxed), calls, "no compiler is asked");
    let counts = providers.counters().get();
    assert_eq!((counts.hits, counts.missed(LackReason::Missing), counts.compiled), (2, 3, 1), "{counts:?}");
}

#[test]
fn a_plan_for_another_target_is_a_wrong_target() {
    let folder = Folder::new();
    let graph = canonical(&product(4));
    let (store, providers, _) = filled(&folder, &graph, "gfx90a:sramecc+:xnack-");
    let targets = ["gfx942", "gfx9-4-generic"].map(target);
    let lack = look(&store, &graph, &targets, &providers).expect_err("no plan");
    assert_eq!(lack.to_string(), "wrong-target: no plan for target gfx942 or gfx9-4-generic; there is one for gfx90a:sramecc+:xnack-");
    assert_eq!(look(&store, &graph, &[target("gfx90a:sramecc+:xnack-")], &providers), Ok(()));
    let lack = look(&store, &canonical(&product(5)), &targets, &providers).expect_err("no plan");
    assert_eq!(lack.to_string(), "missing: no plan for target gfx942 or gfx9-4-generic, nor for any other");
    // Neither is one of another engine than was asked for.
    let policy = Policy::engine("OTHER");
    let sought = Sought { graph: &graph.key, device: None, targets: &targets, policy: &policy };
    let lack = find_precompiled(&store, &sought, &providers).expect_err("no plan");
    assert_eq!(
        lack.to_string(),
        "missing: no plan for target gfx942 or gfx9-4-generic with the engine and settings that were asked for, nor for any other"
    );
}

/// A far tier that has nothing, and counts what it is asked for.
#[derive(Debug, Default)]
struct Nothing(AtomicUsize);

impl RemoteTier for Nothing {
    fn get(&self, _: EntryKind, _: &[u8; 32], _: u64) -> Result<Option<Vec<u8>>, RemoteError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }

    fn put(&self, _: EntryKind, _: &[u8; 32], _: &[u8]) -> Result<(), RemoteError> {
        panic!("nothing is written")
    }

    fn name(&self) -> &str {
        "nothing"
    }
}

#[test]
fn a_far_tier_is_asked_for_what_is_sought_and_not_for_every_target_there_is() {
    let folder = Folder::new();
    let product = product(4);
    let graph = canonical(&product);
    let (store, providers, _) = filled(&folder, &graph, "gfx90a");
    let tier = Arc::new(Nothing::default());
    let store = store.with_remote(Arc::<Nothing>::clone(&tier), RemoteOptions { read: true, write: false });
    let targets = ["gfx942", "gfx9-4-generic"].map(target);
    let lack = look(&store, &graph, &targets, &providers).expect_err("no plan");
    assert_eq!(lack.reason, LackReason::WrongTarget, "{lack}");
    let asked = tier.0.load(Ordering::Relaxed);
    assert!((1..=4).contains(&asked), "{asked} requests for two targets");
    let sought = Sought { graph: &graph.key, device: None, targets: &targets, policy: &Policy::DEFAULT };
    assert!(nearest(&store, &product.view(), &sought, &providers, 10).entry.is_some());
    assert!(tier.0.load(Ordering::Relaxed) <= asked + 4, "{} requests", tier.0.load(Ordering::Relaxed));
}

#[test]
fn a_plan_that_no_loader_accepts_is_stale() {
    let folder = Folder::new();
    let graph = canonical(&product(4));
    let (store, mut providers, _) = filled(&folder, &graph, "gfx942");
    *providers.loaders_mut() = Loaders::none();
    let targets = [target("gfx942")];
    let lack = look(&store, &graph, &targets, &providers).expect_err("no loader");
    assert!(lack.reason == LackReason::Stale && lack.detail.contains("no loader accepts it"), "{lack}");
    providers.loaders_mut().add(Box::new(Newer));
    let lack = look(&store, &graph, &targets, &providers).expect_err("too old");
    assert!(lack.reason == LackReason::Stale && lack.detail.contains("too old"), "{lack}");
    assert_eq!(providers.counters().get().missed(LackReason::Stale), 2);
}

#[test]
fn damage_anywhere_is_unreadable() {
    let graph = canonical(&product(4));
    let targets = [target("gfx942")];
    for part in ["plans", "objects", "index/select"] {
        for what in ["garbage", "cut", "flipped", "gone"] {
            let folder = Folder::new();
            let (store, providers, _) = filled(&folder, &graph, "gfx942");
            for file in folder.files(part) {
                let mut bytes = std::fs::read(&file).expect("read");
                match what {
                    "garbage" => bytes = b"garbage".to_vec(),
                    "cut" => bytes.truncate(bytes.len() / 2),
                    "flipped" => *bytes.last_mut().expect("not empty") ^= 1,
                    _ => {
                        std::fs::remove_file(&file).expect("removed");
                        continue;
                    }
                }
                std::fs::write(&file, bytes).expect("written");
            }
            let lack = look(&store, &graph, &targets, &providers).expect_err(part);
            // A record or a plan that is gone was never there, as far as anybody can tell.
            let expected = if what == "gone" && part != "objects" { LackReason::Missing } else { LackReason::Unreadable };
            assert_eq!(lack.reason, expected, "{part} {what}: {lack}");
        }
    }
}

#[test]
fn a_batch_says_of_every_row_what_is_the_matter() {
    let folder = Folder::new();
    let (store, mut providers, _) = filled(&folder, &canonical(&product(4)), "gfx942");
    let (ninety, _) = fake("gfx90a");
    let request = Request { site: &Site::Offline(target("gfx90a")), policy: &Policy::DEFAULT };
    assert!(matches!(ensure_plan(&store, &canonical(&product(5)), &request, &ninety), Ok(Ensured::Compiled(_))));
    providers.require_precompiled(true);
    let mut items: Vec<BatchItem> =
        [4, 5, 6, 4].map(|length| BatchItem::of_graph(length.to_string(), &product(length).view())).into_iter().collect();
    items.push(BatchItem::invalid("bad".into(), "no graph".into()));
    let options = BatchOptions { sites: vec![Site::Offline(target("gfx942"))], policy: Policy::DEFAULT, jobs: 3, shard: None };
    let report = compile_batch(&store, &items, &options, &providers, &());
    let words: Vec<&str> = report.rows.iter().map(|row| row.outcome.word()).collect();
    assert_eq!(words, ["present", "wrong-target", "missing", "duplicate", "invalid"]);
    assert_eq!(report.lacking(), Some(LackReason::WrongTarget));
}

/// What was there and would not do is told when it is replaced.
#[test]
fn a_compiled_plan_says_what_it_replaces() {
    let folder = Folder::new();
    let graph = product(4);
    let (store, providers, _) = filled(&folder, &canonical(&graph), "gfx942");
    let file = folder.files("plans").pop().expect("a plan");
    std::fs::write(&file, "garbage").expect("written");
    let items = [BatchItem::of_graph("it".into(), &graph.view()), BatchItem::of_graph("new".into(), &product(5).view())];
    let options = BatchOptions { sites: vec![Site::Offline(target("gfx942"))], policy: Policy::DEFAULT, jobs: 1, shard: None };
    let report = compile_batch(&store, &items, &options, &providers, &());
    let replaced: Vec<Option<LackReason>> = report
        .rows
        .iter()
        .map(|row| match &row.outcome {
            Outcome::Compiled { in_place_of, .. } => in_place_of.as_ref().map(|lack| lack.reason),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(replaced, [Some(LackReason::Unreadable), None]);
    let counts = providers.counters().get();
    assert_eq!((counts.missed(LackReason::Unreadable), counts.missed(LackReason::Missing), counts.compiled), (1, 2, 3));
}

/// The shards of a batch are disjoint, are the whole together, and leave the same store, whatever the order of inputs.
#[test]
fn shards_are_the_whole() {
    let graphs: Vec<_> = (1..40).map(product).collect();
    let item = |i: usize| BatchItem::of_graph(format!("graph {i}"), &graphs[i].view());
    let mut items: Vec<BatchItem> = (0..graphs.len()).map(item).collect();
    items.push(item(3));
    items.push(BatchItem::invalid("bad".into(), "no graph".into()));
    let compile = |folder: &Folder, items: &[BatchItem], shard| {
        let (providers, _) = fake("gfx942");
        let options = BatchOptions { sites: vec![Site::Offline(target("gfx942"))], policy: Policy::DEFAULT, jobs: 2, shard };
        compile_batch(&folder.store(), items, &options, &providers, &())
    };
    let whole = Folder::new();
    assert_eq!(compile(&whole, &items, None).count("compiled"), graphs.len());
    let parts = Folder::new();
    let mut seen = BTreeSet::new();
    for index in [3, 1, 2] {
        items.reverse();
        let report = compile(&parts, &items, Some(Shard::new(index, 3).expect("a shard")));
        assert_eq!(report.rows.len() + report.elsewhere, items.len());
        assert_eq!(report.count("invalid"), 1, "told of in every shard");
        assert!(report.count("compiled") > 0 && report.count("present") == 0);
        for row in report.rows.iter().filter(|row| row.outcome.word() == "compiled") {
            assert!(seen.insert(row.graph), "{row:?}");
        }
    }
    assert_eq!(seen.len(), graphs.len());
    // One pack for the whole, or one for each shard: what is in them is the same, records too.
    let exported = [&parts, &whole].map(|folder| {
        let out = folder.path().with_extension("hpbundle");
        folder.store().export(&out, &[], &mut |_| true).expect("exported").root
    });
    assert_eq!(exported[0], exported[1]);
    let plans = |folder: &Folder| folder.store().iter_plans().map(|plan| plan.expect("a plan")).collect::<BTreeSet<_>>();
    assert_eq!(plans(&parts), plans(&whole));
    assert_eq!(plans(&whole).len(), graphs.len());
    let selection = SelectionKey::new(&canonical(&graphs[0]).key, "gfx942", &Policy::DEFAULT);
    assert!(parts.store().find_selection(&selection).hit().is_some());
}
