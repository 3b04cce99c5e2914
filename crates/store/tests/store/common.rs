//! Plans to store, folders to look at, and warnings to count.

use hipplan_serialize::plan::{CodeObjectV1, PayloadWriter, PlanMetaV1, PlanWriter};
use hipplan_serialize::{AlignedBytes, Digest, GraphKey, PlanIdentity, PlanRef, Policy, SelectionKey};
use hipplan_store::{Mode, Persisted, Store};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use tempfile::TempDir;
use tracing::field::{Field, Visit};
use tracing::span;

/// A new store, and the folder that it dies with.
pub(crate) fn new_store() -> (TempDir, Store) {
    install_log();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store"), Mode::ReadWrite).unwrap();
    (dir, store)
}

/// A valid plan of a graph of these bytes, with a payload of that many bytes.
pub(crate) fn plan(graph: &[u8], body: usize, code_objects: &[Digest]) -> AlignedBytes {
    plan_of_engine(graph, "ENGINE", body, code_objects)
}

pub(crate) fn plan_of_engine(graph: &[u8], engine: &str, body: usize, code_objects: &[Digest]) -> AlignedBytes {
    let identity = PlanIdentity {
        graph: GraphKey::of_encoding(graph),
        target: "cpu".into(),
        provider: "test".into(),
        engine: engine.into(),
        engine_revision: "1".into(),
        knobs: Vec::new(),
    };
    let meta = PlanMetaV1 {
        code_objects: code_objects.iter().map(|d| CodeObjectV1 { hash: d.hash.0, size: d.size }).collect(),
        ..PlanMetaV1::of(&identity)
    };
    let body: Vec<u8> = (0..body).map(|i| (i * 7) as u8).collect();
    let payload = PayloadWriter { kind: "test", version: 1, runtime_uids: Vec::new(), baked: Vec::new(), body: &body };
    PlanWriter { meta: &meta, canonical: graph, payload: &payload.finish().unwrap() }.finish().unwrap()
}

pub(crate) fn selection_key(graph: &[u8]) -> SelectionKey {
    SelectionKey::new(&GraphKey::of_encoding(graph), "cpu", &Policy::DEFAULT)
}

/// Puts a plan that must be stored.
pub(crate) fn put(store: &Store, plan: &[u8]) -> PlanRef {
    let put = store.put_plan(plan).unwrap();
    assert!(put.persisted.is_persisted());
    put.id
}

pub(crate) fn is_new(persisted: &Persisted) -> bool {
    matches!(persisted, Persisted::New)
}

/// Everything below a folder: folders map to `None`, files to their bytes.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    fn walk(root: &Path, at: &Path, out: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if path.is_dir() {
                out.insert(name, None);
                walk(root, &path, out);
            } else {
                out.insert(name, Some(std::fs::read(&path).unwrap()));
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(root, root, &mut out);
    out
}

/// The one file below `folder` of a store.
pub(crate) fn only_file(store: &Store, folder: &str) -> PathBuf {
    let root = store.root().join(folder);
    let files: Vec<_> = tree(&root).into_iter().filter(|(_, bytes)| bytes.is_some()).collect();
    assert_eq!(files.len(), 1, "{folder}: {files:?}");
    root.join(&files[0].0)
}

/// Runs `f` and gives the warnings that it logged on this thread, as `field=value` texts.
pub(crate) fn warnings<T>(f: impl FnOnce() -> T) -> (T, Vec<String>) {
    install_log();
    EVENTS.set(Vec::new());
    (f(), EVENTS.take())
}

thread_local! {
    static EVENTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// One subscriber for the whole process, installed before anything can log: scoped ones race with each other for whether a
/// place in the code is worth logging.
pub(crate) fn install_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Log).unwrap());
}

struct Log;

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN && metadata.target().starts_with("hipplan_store")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        EVENTS.with_borrow_mut(|events| events.push(fields.0));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
