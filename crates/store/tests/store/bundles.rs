//! Bundles: written, served in place, taken in, merged.

use super::common::{install_log, plan, plan_of_engine, put, selection_key, tree, warnings};
use super::compact::{compact, files, loose};
use hipplan_serialize::{Digest, PlanRef, RootHash, SelectionKey};
use hipplan_store::record::{self, RecordKind};
use hipplan_store::testing::write_pack;
use hipplan_store::{
    EntryKind, ExportReport, LayerOptions, Limits, Lookup, Mode, PackError, SecretKey, Store, StoreError, bundle_facts, check_pack,
    merge_bundles, sign_bundle, wrap_bundle,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder, and a store in it.
pub(crate) fn store_in(dir: &Path, name: &str) -> Store {
    install_log();
    Store::open(dir.join(name), Mode::ReadWrite).unwrap()
}

/// Puts a plan with a blob of its own, and lets a selection name it.
pub(crate) fn fill(store: &Store, graph: &[u8]) -> (PlanRef, Digest, SelectionKey) {
    let blob: Vec<u8> = graph.iter().copied().cycle().take(3000).collect();
    let blob = store.put_blob(&blob).unwrap().id;
    let plan = put(store, &plan(graph, 40, &[blob]));
    let key = selection_key(graph);
    assert!(store.put_selection(&key, &[plan]).unwrap().is_persisted());
    (plan, blob, key)
}

pub(crate) fn export_all(store: &Store, to: &Path) -> ExportReport {
    store.export(to, &["of the tests".into()], &mut |_| true).unwrap()
}

/// An empty store with one layer.
pub(crate) fn over(dir: &Path, layer: &Path) -> Store {
    store_in(dir, "front").with_layer(layer).unwrap()
}

fn rows(store: &Store, key: &SelectionKey) -> Vec<PlanRef> {
    store.find_selection(key).hit().map(|found| found.plans).unwrap_or_default()
}

/// Flips a byte of the part of a file that holds these bytes.
pub(crate) fn damage(file: &Path, part: &[u8]) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(part.len()).rposition(|window| window == part).unwrap();
    bytes[at + part.len() / 2] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_bundle_says_what_compiled_its_plans_and_that_follows_from_them() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let store = store_in(dir.path(), "a");
    let plans = ["ONE", "TWO", "TWO\n\u{1b}[31m"].map(|engine| put(&store, &plan_of_engine(engine.as_bytes(), engine, 40, &[])));
    let export = |name: &str, only: Option<PlanRef>| {
        let report = store.export(&at(name), &[], &mut |exported| only.is_none_or(|only| exported.plan == only)).unwrap();
        (report.root.unwrap(), bundle_facts(&at(name), dir.path(), false, &Limits::default()).unwrap().provenance)
    };
    let (root, lines) = export("all", None);
    let line = |engine: &str| format!("compiled by provider test, engine {engine}, revision 1");
    assert_eq!(lines, [line("ONE"), line("TWO"), line("TWO\u{fffd}\u{fffd}[31m")]);
    assert_eq!(export("again", None).0, root);
    // Those of the parts make those of the whole.
    for (part, only) in ["1", "2", "3"].into_iter().zip(plans) {
        assert_eq!(export(part, Some(only)).1.len(), 1);
    }
    let merged = merge_bundles(&["3", "1", "2"].map(at), &at("merged"), &Limits::default()).unwrap();
    assert_eq!(merged.root, root);
    // What somebody wrote stays with the packs of a store, also where it looks much the same; what an export wrote of other plans does not.
    let note = "compiled by provider and engine teams".to_owned();
    let noted = at("noted");
    store.export(&noted, std::slice::from_ref(&note), &mut |_| true).unwrap();
    let other = store_in(dir.path(), "b");
    other.import(&noted, &LayerOptions::default()).unwrap();
    let part = other.export(&at("of b"), &[], &mut |exported| exported.plan == plans[0]).unwrap();
    let facts = bundle_facts(&at("of b"), dir.path(), false, &Limits::default()).unwrap();
    assert_eq!(facts.provenance, [note.clone(), line("ONE")]);
    assert_eq!(store.export(&at("of a"), &[note], &mut |exported| exported.plan == plans[0]).unwrap().root, part.root);
}

#[test]
fn exports_of_equal_contents_have_equal_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let store = store_in(dir.path(), "a");
    for graph in [b"one", b"two", b"six"] {
        fill(&store, graph);
    }
    let set = selection_key(b"set");
    for graph in [b"two", b"one"] {
        let plan = store.find_selection(&selection_key(graph)).hit().unwrap().plans[0];
        assert!(store.add_to_set(&set, &plan).unwrap().is_persisted());
    }
    // Nothing leads to it.
    assert!(store.put_blob(b"an orphan").unwrap().persisted.is_persisted());
    let first = export_all(&store, &at("1.hpbundle"));
    assert_eq!((first.plans.len(), first.blobs, first.plan_records, first.selections), (3, 3, 3, 4));
    assert!(first.problems.is_empty(), "{:?}", first.problems);
    assert_eq!(export_all(&store, &at("2.hpbundle")).root, first.root);
    let bytes = std::fs::read(at("1.hpbundle")).unwrap();
    assert_eq!(std::fs::read(at("2.hpbundle")).unwrap(), bytes);
    check_pack(&at("1.hpbundle"), &Limits::default()).unwrap();

    // Elsewhere.
    std::fs::rename(at("a"), at("moved ü")).unwrap();
    let moved = Store::open(at("moved ü"), Mode::ReadOnly).unwrap();
    export_all(&moved, &at("3.hpbundle"));
    assert_eq!(std::fs::read(at("3.hpbundle")).unwrap(), bytes);
    // In a pack.
    let packed = store_in(dir.path(), "packed");
    packed.import(&at("1.hpbundle"), &LayerOptions::default()).unwrap();
    export_all(&packed, &at("4.hpbundle"));
    assert_eq!(std::fs::read(at("4.hpbundle")).unwrap(), bytes);
    // In a layer below.
    export_all(&over(dir.path(), &at("1.hpbundle")), &at("5.hpbundle"));
    assert_eq!(std::fs::read(at("5.hpbundle")).unwrap(), bytes);
}

#[test]
fn an_export_of_a_choice_holds_what_it_reaches_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("some.hpbundle");
    let store = store_in(dir.path(), "a");
    let (one, blob, _) = fill(&store, b"one");
    let (two, ..) = fill(&store, b"two");
    let both = selection_key(b"both");
    assert!(store.put_selection(&both, &[two, one]).unwrap().is_persisted());
    // Of nothing, nothing is written.
    let report = store.export(&out, &["note".into()], &mut |_| false).unwrap();
    assert_eq!((report.root, report.bytes, report.plans.len()), (None, 0, 0));
    assert!(!out.exists());
    let report = store.export(&out, &[], &mut |plan| plan.plan == one && plan.target == "cpu").unwrap();
    assert_eq!(report.plans.iter().map(|plan| plan.plan).collect::<Vec<_>>(), [one]);

    let store = Store::open_layer(&out).unwrap();
    assert_eq!(rows(&store, &both), [one], "the row that leads to another plan is left out");
    assert!(rows(&store, &selection_key(b"two")).is_empty());
    assert_eq!(store.find_plan(&one.key).hit(), Some(one));
    assert!(store.find_plan(&two.key).hit().is_none());
    assert_eq!(store.get_blob(&blob).hit().unwrap().len(), 3000);
    assert_eq!(bundle_facts(&out, dir.path(), true, &Limits::default()).unwrap().entries, [1, 1, 1, 2]);
    assert!(store.verify().is_clean(), "{:?}", store.verify());
}

#[test]
fn a_bundle_is_served_where_it_lies_and_nothing_is_written_there() {
    let dir = tempfile::tempdir().unwrap();
    let origin = store_in(dir.path(), "origin");
    let (plan, blob, key) = fill(&origin, b"one");
    export_all(&origin, &dir.path().join("b.hpbundle"));
    drop(origin);
    std::fs::remove_dir_all(dir.path().join("origin")).unwrap();
    let place = dir.path().join("other place");
    std::fs::create_dir(&place).unwrap();
    std::fs::rename(dir.path().join("b.hpbundle"), place.join("b.hpbundle")).unwrap();
    // A name that leads to the newest of several is followed.
    std::os::unix::fs::symlink("b.hpbundle", place.join("current")).unwrap();
    let before = tree(&place);

    let store = over(dir.path(), &place.join("current"));
    assert_eq!(rows(&store, &key), [plan]);
    assert_eq!(store.find_plan(&plan.key).hit(), Some(plan));
    assert_eq!(store.get_plan(&plan).hit().unwrap().view().plan_ref(), plan);
    assert_eq!(Digest::of(&store.get_blob(&blob).hit().unwrap()), blob);
    assert_eq!(tree(&place), before);
    assert!(tree(&dir.path().join("front")).keys().all(|path| path.starts_with("tmp") || path.starts_with("hipplan-store")));
}

#[test]
fn one_bad_entry_does_not_sink_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.hpbundle");
    let origin = store_in(dir.path(), "origin");
    let (bad, bad_blob, bad_key) = fill(&origin, b"bad");
    let (good, good_blob, good_key) = fill(&origin, b"good");
    export_all(&origin, &file);
    damage(&file, &origin.get_blob(&bad_blob).hit().unwrap());

    // Served.
    let store = over(dir.path(), &file);
    assert!(matches!(store.get_blob(&bad_blob), Lookup::Miss(_)));
    assert_eq!(Digest::of(&store.get_blob(&good_blob).hit().unwrap()), good_blob);
    assert_eq!(rows(&store, &good_key), [good]);
    assert_eq!(store.get_plan(&bad).hit().unwrap().view().plan_ref(), bad);
    // Looked at.
    let facts = bundle_facts(&file, dir.path(), true, &Limits::default()).unwrap();
    assert_eq!(facts.report.unwrap().problems.len(), 1);
    // Taken in: what hangs on it is left out.
    let taken = store_in(dir.path(), "taken");
    let report = taken.import(&file, &LayerOptions::default()).unwrap();
    assert_eq!(report.new, [1, 1, 1, 1]);
    let codes: Vec<_> = report.problems.iter().map(StoreError::code).collect();
    assert_eq!(codes, ["damaged", "missing-target", "missing-target", "missing-target"], "{:?}", report.problems);
    assert!(taken.verify().is_clean(), "{:?}", taken.verify());
    assert_eq!(rows(&taken, &good_key), [good]);
    assert!(rows(&taken, &bad_key).is_empty());
    // Merged with one that has it whole.
    let (whole, merged) = (dir.path().join("whole"), dir.path().join("merged"));
    export_all(&origin, &whole);
    let report = merge_bundles(&[file.clone(), whole.clone()], &merged, &Limits::default()).unwrap();
    assert_eq!((report.problems.len(), report.conflicts.len()), (1, 0));
    assert_eq!(std::fs::read(&merged).unwrap(), std::fs::read(&whole).unwrap());
    // Exported: a plan without its code is of no use.
    let again = over(dir.path(), &file).export(&dir.path().join("again"), &[], &mut |_| true).unwrap();
    assert_eq!(again.plans.iter().map(|plan| plan.plan).collect::<Vec<_>>(), [good]);
    assert_eq!(again.problems.len(), 1);
}

#[test]
fn a_plan_record_that_is_damaged_in_a_bundle_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.hpbundle");
    let origin = store_in(dir.path(), "origin");
    let (plan, _, key) = fill(&origin, b"one");
    export_all(&origin, &file);
    damage(&file, &record::encode(RecordKind::Plan, &plan.key.0, &[plan]));
    let target = store_in(dir.path(), "target");
    let report = target.import(&file, &LayerOptions::default()).unwrap();
    assert_eq!((report.new, report.problems.len()), ([1; 4], 1));
    assert_eq!(target.find_plan(&plan.key).hit(), Some(plan));
    assert_eq!(rows(&target, &key), [plan]);
    assert!(target.verify().is_clean(), "{:?}", target.verify());
}

#[test]
fn each_way_of_being_no_bundle_is_told_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.hpbundle");
    let origin = store_in(dir.path(), "origin");
    fill(&origin, b"one");
    export_all(&origin, &file);
    let good = std::fs::read(&file).unwrap();
    let opened = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        // What a layer finds when it is opened, or an import before it takes anything.
        let by_layer = Store::open_layer(&file).map(drop);
        let target = store_in(dir.path(), "target");
        let by_import = target.import(&file, &LayerOptions::default()).map(drop);
        assert!(target.iter_plans().next().is_none());
        let error = by_layer.and(by_import).unwrap_err();
        let StoreError::Pack { path, cause } = &error else { panic!("{error:?}") };
        assert_eq!(path, &file);
        (error.code(), *cause.clone())
    };
    assert!(matches!(opened(&good[..100]), ("damaged", PackError::TooShort { found: 100 })));
    assert!(matches!(opened(&good[..good.len() - 64]), ("damaged", PackError::Length { .. })));
    assert!(matches!(opened(&[&good[..], b"garbage"].concat()), ("damaged", PackError::Length { .. })));
    assert!(matches!(opened(&[&good[..], &[0; 128]].concat()), ("damaged", PackError::Field { field: "magic of a signature block", .. })));
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    assert!(matches!(opened(&with(0, b'P')), ("damaged", PackError::Magic { .. })));
    assert!(matches!(opened(&with(8, 2)), ("too-new", PackError::TooNew { found: 2 })));
    assert!(matches!(opened(&with(12, 4)), ("too-new", PackError::Feature { found: 2 })));
    assert!(matches!(opened(&with(40, 0)), ("damaged", PackError::Header { .. })));
    // A row that was changed: the tables are not those of the root.
    let row = good.len() / 2;
    let rows_at = (512..row).find(|&at| good[at..at + 32] == blob_name(&good)[..]).unwrap();
    assert!(matches!(opened(&with(rows_at + 70, 0xff)), ("damaged", PackError::Root { .. })));
}

#[test]
fn a_merge_refuses_what_is_behind_a_bundle_and_no_signature() {
    let dir = tempfile::tempdir().unwrap();
    let [good, bad, packed, merged] = ["good", "bad", "packed", "merged"].map(|name| dir.path().join(name));
    let origin = store_in(dir.path(), "origin");
    fill(&origin, b"one");
    export_all(&origin, &good);
    let whole = std::fs::read(&good).unwrap();
    // As many bytes as a signature has, and a signature whose last byte, a reserved one, is wrong.
    std::fs::write(&bad, &whole).unwrap();
    sign_bundle(&bad, &SecretKey::from_seed([1; 32]), &Limits::default()).unwrap();
    let mut signed = std::fs::read(&bad).unwrap();
    *signed.last_mut().unwrap() = 1;
    for bytes in [[&whole[..], &[7; 128]].concat(), signed] {
        std::fs::write(&bad, &bytes).unwrap();
        wrap_bundle(&bad, &packed, 3, &Limits::default()).unwrap();
        for input in [&bad, &packed] {
            for inputs in [[input.clone(), good.clone()], [good.clone(), input.clone()]] {
                let error = merge_bundles(&inputs, &merged, &Limits::default()).unwrap_err();
                let StoreError::Pack { path, cause } = &error else { panic!("{error:?}") };
                assert!(path == input && matches!(**cause, PackError::Field { .. }), "{error}");
                assert!(!merged.exists());
            }
        }
    }
}

#[test]
fn a_file_that_is_replaced_keeps_its_permissions() {
    use hipplan_store::testing::{Op, Verdict, with_hook};
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let [file, packed] = ["b.hpbundle", "b.hpbundle.zst"].map(|name| out.join(name));
    let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let [one, two, three] = [1, 2, 3].map(|seed| SecretKey::from_seed([seed; 32]));
    let limits = Limits::default();
    let origin = store_in(dir.path(), "origin");
    fill(&origin, b"one");
    export_all(&origin, &file);
    set(&file, 0o600);
    assert!(sign_bundle(&file, &one, &limits).unwrap());
    assert_eq!(mode(&file), 0o600);
    set(&file, 0o640);
    export_all(&origin, &file);
    assert_eq!(mode(&file), 0o640);
    // More than the umask may leave a new file.
    set(&file, 0o666);
    merge_bundles(std::slice::from_ref(&file), &file, &limits).unwrap();
    assert_eq!(mode(&file), 0o666);
    wrap_bundle(&file, &packed, 3, &limits).unwrap();
    set(&packed, 0o600);
    wrap_bundle(&file, &packed, 3, &limits).unwrap();
    assert_eq!(mode(&packed), 0o600);

    // Where they cannot be kept, and where the file is read-only, it stays as it is.
    let before = tree(&out);
    let hook = |op: Op<'_>| if op.name() == "set-mode" { Verdict::Fail(libc::EPERM) } else { Verdict::Go };
    let error = with_hook(hook, || sign_bundle(&file, &two, &limits)).unwrap_err();
    assert!(error.to_string().contains("keep the permissions of") && error.code() == "no-permission", "{error}");
    let error = with_hook(hook, || origin.export(&file, &["other".into()], &mut |_| true)).unwrap_err();
    assert_eq!(error.code(), "no-permission", "{error}");
    set(&file, 0o444);
    let error = sign_bundle(&file, &three, &limits).unwrap_err();
    assert!(error.code() == "not-that" && error.to_string().contains("read-only"), "{error}");
    assert!(tree(&out) == before, "nothing is replaced, and nothing left");
}

#[test]
fn only_a_bundle_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let [file, graph] = ["b.hpbundle", "graph.json"].map(|name| out.join(name));
    let limits = Limits::default();
    let origin = store_in(dir.path(), "origin");
    fill(&origin, b"one");
    export_all(&origin, &file);
    let good = std::fs::read(&file).unwrap();
    std::fs::write(&graph, "{}").unwrap();
    let marker = origin.root().join("hipplan-store");
    let contents = || (tree(&out), std::fs::read(&marker).unwrap());
    let before = contents();
    for other in [&graph, &marker] {
        let errors = [
            origin.export(other, &[], &mut |_| true).unwrap_err(),
            merge_bundles(std::slice::from_ref(&file), other, &limits).unwrap_err(),
            wrap_bundle(&file, other, 3, &limits).unwrap_err(),
        ];
        for error in errors {
            assert!(error.code() == "not-that" && error.to_string().contains("no bundle"), "{error}");
            assert!(error.advice().contains("only a bundle is replaced"), "{}", error.advice());
        }
    }
    assert!(contents() == before, "nothing is replaced, and nothing left");
    // An empty file, one that was cut short, and one that is wrapped.
    let packed = out.join("b.hpbundle.zst");
    wrap_bundle(&file, &packed, 3, &limits).unwrap();
    for bytes in [Vec::new(), good[..100].to_vec(), good[..20].to_vec(), std::fs::read(&packed).unwrap()] {
        std::fs::write(&graph, bytes).unwrap();
        export_all(&origin, &graph);
        assert_eq!(std::fs::read(&graph).unwrap(), good);
    }
}

/// The name of the one blob of a bundle, which is its digest too and so stands there twice in a row.
fn blob_name(bundle: &[u8]) -> Vec<u8> {
    let at = (512..bundle.len() - 64).find(|&at| bundle[at..at + 32] == bundle[at + 32..at + 64] && bundle[at] != bundle[at + 1]).unwrap();
    bundle[at..at + 32].to_vec()
}

#[test]
fn an_import_finds_what_a_layer_below_would_find() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("b.hpbundle"), dir.path().join("o.hpbundle"));
    let origin = store_in(dir.path(), "origin");
    let (one, ..) = fill(&origin, b"one");
    let (two, ..) = fill(&origin, b"two");
    let (three, ..) = fill(&origin, b"three");
    let [key, set, other_set] = [b"key", b"set", b"new"].map(|name| selection_key(name));
    assert!(origin.put_selection(&key, &[one, two]).unwrap().is_persisted());
    assert!(origin.add_to_set(&set, &two).unwrap().is_persisted());
    assert!(origin.add_to_set(&other_set, &two).unwrap().is_persisted());
    export_all(&origin, &file);

    let build = |name: &str| {
        let store = store_in(dir.path(), name);
        fill(&store, b"three");
        fill(&store, b"one");
        assert!(store.put_selection(&key, &[three, one]).unwrap().is_persisted());
        assert!(store.add_to_set(&set, &three).unwrap().is_persisted());
        store
    };
    let (target, layered) = (build("target"), build("layered").with_layer(&file).unwrap());
    let report = target.import(&file, &LayerOptions::default()).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    // Blobs, plans and plan records of one and three were there; two selections were united, two are new.
    assert_eq!((report.new, report.present), ([1, 1, 1, 4], 8));
    for key in [key, other_set, selection_key(b"one"), selection_key(b"two")] {
        assert_eq!(rows(&target, &key), rows(&layered, &key));
    }
    assert_eq!(rows(&target, &key), [three, one, two]);
    let mut united = vec![two, three];
    united.sort_unstable();
    assert_eq!(rows(&target, &set), united);
    assert!(target.verify().is_clean(), "{:?}", target.verify());
    assert_eq!(export_all(&target, &out).root, export_all(&layered, &out).root);

    // What is there is not taken again, be it loose or in a pack.
    let entries = || tree(target.root()).into_iter().filter(|(path, _)| !path.starts_with("locks")).collect::<Vec<_>>();
    let before = entries();
    let again = target.import(&file, &LayerOptions::default()).unwrap();
    assert_eq!((again.new, again.pack), ([0; 4], None));
    assert!(entries() == before);

    let read_only = Store::open(target.root(), Mode::ReadOnly).unwrap();
    assert_eq!(read_only.import(&file, &LayerOptions::default()).unwrap_err().code(), "read-only");
}

#[test]
fn an_import_replaces_what_is_damaged_and_its_pack_is_seen_by_others() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.hpbundle");
    let origin = store_in(dir.path(), "origin");
    let (plan, blob, key) = fill(&origin, b"one");
    export_all(&origin, &file);
    let target = store_in(dir.path(), "target");
    let reader = Store::open(target.root(), Mode::ReadOnly).unwrap();
    assert!(rows(&reader, &key).is_empty());
    target.import(&file, &LayerOptions::default()).unwrap();
    assert_eq!(rows(&reader, &key), [plan], "a pack that came since it looked");
    assert_eq!(target.put_blob(&origin.get_blob(&blob).hit().unwrap()).unwrap().id, blob);

    let loose = store_in(dir.path(), "loose");
    fill(&loose, b"one");
    let of_plan = |store: &Store| tree(store.root()).into_keys().find(|path| path.starts_with("plans") && path.extension().is_some());
    let damaged = loose.root().join(of_plan(&loose).unwrap());
    std::fs::write(&damaged, b"short").unwrap();
    let (report, _) = warnings(|| loose.import(&file, &LayerOptions::default()).unwrap());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(loose.verify().is_clean(), "{:?}", loose.verify());
    assert!(loose.get_plan(&plan).hit().is_some());
}

/// A selection: its name, whether it is a set, and the plans that it names.
type Named = (u8, bool, Vec<(u8, u8)>);

/// What a random bundle is made of: plans by number and engine, and records that name some of them.
#[derive(Debug, Clone)]
struct Model {
    plans: Vec<(u8, u8)>,
    records: Vec<(u8, u8, u8)>,
    selections: Vec<Named>,
    lines: Vec<u8>,
    bad: Option<usize>,
}

fn model() -> impl Strategy<Value = Model> {
    let plan = (0..4_u8, 0..3_u8);
    (
        prop::collection::vec(plan.clone(), 0..5),
        prop::collection::vec((0..4_u8, 0..3_u8, 0..3_u8), 0..4),
        prop::collection::vec((0..4_u8, any::<bool>(), prop::collection::vec(plan, 1..4)), 0..4),
        prop::collection::vec(0..5_u8, 0..3),
        prop::option::of(0..16_usize),
    )
        .prop_map(|(plans, records, selections, lines, bad)| Model { plans, records, selections, lines, bad })
}

/// A plan of a graph and an engine; `body` tells plans of one key apart.
fn bytes_of(graph: u8, body: u8) -> (PlanRef, Vec<u8>) {
    let bytes = plan_of_engine(&[b'g', graph], "ENGINE", usize::from(body) * 3, &[]);
    (hipplan_serialize::plan::PlanView::open(&bytes).unwrap().plan_ref(), bytes.to_vec())
}

/// Writes a bundle that holds what the model says, dangling records and all.
fn write_model(path: &Path, model: &Model) {
    let mut entries: BTreeMap<(EntryKind, [u8; 32]), Vec<u8>> = BTreeMap::new();
    for &(graph, body) in &model.plans {
        let (id, bytes) = bytes_of(graph, body);
        entries.insert((EntryKind::Plan, id.root.0), bytes);
        let blob = vec![graph; 100];
        entries.insert((EntryKind::Blob, Digest::of(&blob).hash.0), blob);
    }
    for &(graph, body, size) in &model.records {
        let id = PlanRef { size: u64::from(size), root: RootHash([body; 32]), ..bytes_of(graph, 0).0 };
        entries.insert((EntryKind::PlanRecord, id.key.0), record::encode(RecordKind::Plan, &id.key.0, &[id]));
    }
    for (name, is_set, plans) in &model.selections {
        let mut rows: Vec<PlanRef> = plans.iter().map(|&(graph, body)| bytes_of(graph, body).0).collect();
        let kind = if *is_set { RecordKind::Set } else { RecordKind::Selection };
        if *is_set {
            rows.sort_unstable();
            rows.dedup();
        }
        entries.insert((EntryKind::Selection, [*name; 32]), record::encode(kind, &[*name; 32], &rows));
    }
    let list: Vec<_> = entries.iter().map(|(&(kind, name), bytes)| (kind, name, bytes.len() as u64)).collect();
    let values: Vec<&Vec<u8>> = entries.values().collect();
    let lines: Vec<String> = model.lines.iter().map(|line| format!("line {line}")).collect();
    write_pack(path, &list, &lines, |number| values[number].clone()).unwrap();
    if let Some(value) = model.bad.and_then(|bad| values.get(bad)) {
        damage(path, value);
    }
}

struct Merger {
    dir: TempDir,
    next: usize,
}

impl Merger {
    fn path(&mut self) -> PathBuf {
        self.next += 1;
        self.dir.path().join(self.next.to_string())
    }

    fn merge(&mut self, inputs: &[&PathBuf]) -> PathBuf {
        let out = self.path();
        let inputs: Vec<PathBuf> = inputs.iter().map(|path| (*path).clone()).collect();
        merge_bundles(&inputs, &out, &Limits::default()).unwrap();
        out
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn merging_is_associative_commutative_and_idempotent(models in prop::array::uniform3(model())) {
        let mut merger = Merger { dir: tempfile::tempdir().unwrap(), next: 0 };
        let [a, b, c] = models.map(|model| {
            let path = merger.path();
            write_model(&path, &model);
            path
        });
        let all = merger.merge(&[&a, &b, &c]);
        let bytes = std::fs::read(&all).unwrap();
        check_pack(&all, &Limits::default()).unwrap();
        let (ab, bc, ac) = (merger.merge(&[&a, &b]), merger.merge(&[&b, &c]), merger.merge(&[&c, &a]));
        for inputs in [[&ab, &c], [&a, &bc], [&bc, &a], [&b, &ac], [&all, &a], [&all, &all]] {
            let merged = merger.merge(&inputs);
            prop_assert_eq!(&std::fs::read(merged).unwrap(), &bytes, "{:?}", inputs);
        }
        let reversed = merger.merge(&[&c, &b, &a, &b]);
        prop_assert_eq!(&std::fs::read(reversed).unwrap(), &bytes);
    }
}

#[test]
fn conflicts_are_settled_as_written_down() {
    let mut merger = Merger { dir: tempfile::tempdir().unwrap(), next: 0 };
    let nothing = Model { plans: vec![], records: vec![], selections: vec![], lines: vec![], bad: None };
    let set = |rows: &[(u8, u8)]| Model { selections: vec![(1, true, rows.to_vec())], ..nothing.clone() };
    let list = |rows: &[(u8, u8)]| Model { selections: vec![(1, false, rows.to_vec())], ..nothing.clone() };
    let (a, b) = (
        file_of(&mut merger, Model { lines: vec![1], ..set(&[(0, 0)]) }),
        file_of(&mut merger, Model { lines: vec![2], ..set(&[(1, 0), (0, 0)]) }),
    );
    let (c, d) = (file_of(&mut merger, list(&[(0, 0)])), file_of(&mut merger, list(&[(1, 0)])));
    let out = merger.path();
    let merge = |inputs: &[&PathBuf]| {
        let inputs: Vec<PathBuf> = inputs.iter().map(|path| (*path).clone()).collect();
        let report = merge_bundles(&inputs, &out, &Limits::default()).unwrap();
        let found = rows(&Store::open_layer(&out).unwrap(), &SelectionKey([1; 32]));
        (report, found)
    };
    let (report, found) = merge(&[&a, &b]);
    let mut both = vec![bytes_of(0, 0).0, bytes_of(1, 0).0];
    both.sort_unstable();
    assert_eq!((found, report.conflicts.len()), (both, 0));
    assert_eq!(bundle_facts(&out, &out, false, &Limits::default()).unwrap().provenance, ["line 1", "line 2"]);
    let (report, found) = merge(&[&c, &d]);
    assert_eq!(report.conflicts, [(EntryKind::Selection, [1; 32])]);
    let row = |plan| record::encode(RecordKind::Selection, &[1; 32], &[plan]);
    let least = [bytes_of(0, 0).0, bytes_of(1, 0).0].into_iter().min_by_key(|plan| row(*plan)).unwrap();
    assert_eq!(found, [least]);
    // Sets that are too many for one record are cut, and that is told.
    let mut few = Limits::default();
    few.max_record_rows = 2;
    let (e, f) = (file_of(&mut merger, set(&[(2, 0), (3, 0)])), file_of(&mut merger, set(&[(0, 0), (1, 0)])));
    let report = merge_bundles(&[e, f], &merger.path(), &few).unwrap();
    assert_eq!(report.cut, [[1; 32]]);
}

fn file_of(merger: &mut Merger, model: Model) -> PathBuf {
    let path = merger.path();
    write_model(&path, &model);
    path
}

#[test]
fn of_imports_at_once_none_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let target = store_in(dir.path(), "target");
    let key = selection_key(b"all");
    let mut expected = Vec::new();
    let mut files = Vec::new();
    for graph in 0..8_u8 {
        let name = format!("origin {graph}");
        let origin = store_in(dir.path(), &name);
        let (plan, ..) = fill(&origin, &[graph, 9]);
        assert!(origin.add_to_set(&key, &plan).unwrap().is_persisted());
        let file = dir.path().join(format!("{graph}.hpbundle"));
        export_all(&origin, &file);
        expected.push(plan);
        files.push(file);
    }
    expected.sort_unstable();
    std::thread::scope(|scope| {
        for file in &files {
            // As another process would: nothing is shared but the folder.
            let store = Store::open(target.root(), Mode::ReadWrite).unwrap();
            scope.spawn(move || store.import(file, &LayerOptions::default()).unwrap());
        }
    });
    let found = Store::open(target.root(), Mode::ReadOnly).unwrap();
    assert_eq!(rows(&found, &key), expected);
    assert!(found.verify().is_clean(), "{:?}", found.verify());
}

/// The name in `trash` of a loose record.
fn trash_name(record: &Path, kind: &str) -> String {
    let digits: String = record.to_str().unwrap().chars().rev().skip(".rec".len()).filter(char::is_ascii_hexdigit).take(64).collect();
    format!("trash/{kind}-{}-00000001", digits.chars().rev().collect::<String>())
}

/// What a kill left in `trash` comes back with the next upkeep, and hides nothing of what was imported meanwhile.
#[test]
fn what_comes_back_from_the_trash_is_not_in_front_of_an_import() {
    let dir = tempfile::tempdir().unwrap();
    let key = selection_key(b"g");
    let [first, second, other] = [("A", 10), ("B", 10), ("B", 20)].map(|(engine, body)| plan_of_engine(b"g", engine, body, &[]));
    let origin = store_in(dir.path(), "origin");
    let two = put(&origin, &second);
    assert!(origin.put_selection(&key, &[two]).unwrap().is_persisted());
    let file = dir.path().join("b.hpbundle");
    export_all(&origin, &file);
    // A record of one plan, which the pack that a killed compaction has written has too, or a newer one of both.
    for has_both in [false, true] {
        let target = store_in(dir.path(), &format!("target {has_both}"));
        let one = put(&target, &first);
        assert!(target.put_selection(&key, &[one]).unwrap().is_persisted());
        let record = &files(target.root(), "index/select")[0];
        let left = (std::fs::read(target.root().join(record)).unwrap(), trash_name(record, "selection"));
        if has_both {
            put(&target, &second);
            assert!(target.put_selection(&key, &[one, two]).unwrap().is_persisted());
        }
        compact(&target);
        assert!(!target.root().join(record).exists());
        std::fs::create_dir_all(target.root().join("trash")).unwrap();
        std::fs::write(target.root().join(left.1), left.0).unwrap();
        let report = target.import(&file, &LayerOptions::default()).unwrap();
        assert_eq!(report.new, if has_both { [0; 4] } else { [0, 1, 1, 1] });
        assert_eq!(rows(&target, &key), [one, two]);
        compact(&target);
        assert_eq!(rows(&target, &key), [one, two], "{has_both}");
        assert!(target.verify().is_clean(), "{:?}", target.verify());
    }
    // A plan record, of another plan of the same key.
    let target = store_in(dir.path(), "target of plan records");
    let there = put(&target, &other);
    assert!(there.key == two.key && there.root != two.root);
    let record = &files(target.root(), "index/plan")[0];
    std::fs::create_dir_all(target.root().join("trash")).unwrap();
    std::fs::rename(target.root().join(record), target.root().join(trash_name(record, "plan-record"))).unwrap();
    target.import(&file, &LayerOptions::default()).unwrap();
    assert_eq!(target.find_plan(&two.key).hit(), Some(two));
    compact(&target);
    assert_eq!(target.find_plan(&two.key).hit(), Some(two));
    assert!(target.verify().is_clean(), "{:?}", target.verify());
}

/// Writing the pack of an import may take minutes: whoever adds to a set does not wait for that.
#[test]
fn an_import_that_writes_its_pack_keeps_nobody_from_writing_records() {
    use hipplan_store::testing::{Op, Verdict, with_hook};
    let dir = tempfile::tempdir().unwrap();
    let origin = store_in(dir.path(), "origin");
    fill(&origin, b"one");
    let file = dir.path().join("b.hpbundle");
    export_all(&origin, &file);
    let target = store_in(dir.path(), "target");
    let locked = std::rc::Rc::new(std::cell::RefCell::new(std::collections::BTreeSet::new()));
    let (note, root) = (std::rc::Rc::clone(&locked), target.root().to_owned());
    let hook = move |op: Op<'_>| {
        if op.name() == "write" && op.path().starts_with(root.join("tmp")) {
            for lock in std::fs::read_dir(root.join("locks")).unwrap() {
                let path = lock.unwrap().path();
                if std::fs::File::open(&path).unwrap().try_lock().is_err() {
                    note.borrow_mut().insert(path.file_name().unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        Verdict::Go
    };
    let report = with_hook(hook, || target.import(&file, &LayerOptions::default()).unwrap());
    assert!(report.pack.is_some());
    assert_eq!(locked.borrow().iter().collect::<Vec<_>>(), ["80"], "imports have a lock of their own");
}

/// What is no file and stands where an entry goes is replaced, as a put does; a folder is not, and costs what names that entry alone.
#[test]
fn an_import_is_not_ended_by_what_is_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let origin = store_in(dir.path(), "origin");
    let (one, blob, of_one) = fill(&origin, b"one");
    let file = dir.path().join("b.hpbundle");
    let own = loose(&origin);
    let (two, _, of_two) = fill(&origin, b"two");
    export_all(&origin, &file);
    assert_eq!(own.len(), 4);

    let target = store_in(dir.path(), "target");
    for path in &own {
        let path = target.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(dir.path().join("b.hpbundle"), path).unwrap();
    }
    let (report, _) = warnings(|| target.import(&file, &LayerOptions::default()).unwrap());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!((rows(&target, &of_one), rows(&target, &of_two)), (vec![one], vec![two]));
    assert!(target.verify().is_clean(), "{:?}", target.verify());

    for path in &own {
        let target = store_in(dir.path(), &format!("target {}", path.display().to_string().replace('/', " ")));
        std::fs::create_dir_all(target.root().join(path)).unwrap();
        let (report, _) = warnings(|| target.import(&file, &LayerOptions::default()).unwrap());
        assert!(matches!(&report.problems[..], [StoreError::FileType { .. }, ..]), "{:?}", report.problems);
        let (found, _) = warnings(|| (rows(&target, &of_two), target.get_plan(&two).hit().is_some()));
        assert_eq!(found, (vec![two], true));
        // Nothing names what is not there.
        let (problems, _) = warnings(|| target.verify().problems);
        assert!(problems.iter().all(|problem| problem.code() == "foreign"), "{problems:?}");
    }
    assert!(over(dir.path(), &file).get_blob(&blob).hit().is_some());
}

/// A fault of the file system at any call of an import ends it with an error, and leaves the store clean and whole for the next try.
#[test]
fn an_import_that_fails_anywhere_leaves_a_clean_store() {
    use hipplan_store::testing::{Op, Verdict, with_hook};
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.hpbundle");
    let origin = store_in(dir.path(), "origin");
    let (one, ..) = fill(&origin, b"one");
    let (two, ..) = fill(&origin, b"two");
    let key = selection_key(b"key");
    assert!(origin.put_selection(&key, &[one, two]).unwrap().is_persisted());
    export_all(&origin, &file);
    let mut failures = 0;
    for at in 0.. {
        let target = store_in(dir.path(), &format!("target {at}"));
        fill(&target, b"three");
        let (three, ..) = fill(&target, b"one");
        assert!(target.put_selection(&key, &[three]).unwrap().is_persisted());
        let calls = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = std::rc::Rc::clone(&calls);
        let hook = move |_: Op<'_>| {
            count.set(count.get() + 1);
            if count.get() == at + 1 { Verdict::Fail(libc::ENOSPC) } else { Verdict::Go }
        };
        let (result, _) = warnings(|| with_hook(hook, || target.import(&file, &LayerOptions::default())));
        failures += usize::from(result.is_err());
        let again = Store::open(target.root(), Mode::ReadWrite).unwrap();
        assert!(again.verify().is_clean(), "{at}: {:?}", again.verify());
        assert!(!rows(&again, &key).is_empty(), "{at}");
        let (report, _) = warnings(|| again.import(&file, &LayerOptions::default()).unwrap());
        assert!(report.problems.is_empty(), "{at}: {:?}", report.problems);
        assert_eq!(rows(&again, &key), [one, two], "{at}");
        if calls.get() <= at {
            break;
        }
    }
    assert!(failures > 20, "{failures}");
}
