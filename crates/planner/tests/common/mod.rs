//! What tests of the planner share: graphs of one node, and a folder with a store.
#![allow(dead_code, reason = "each test binary uses a part")]

use hipplan_serialize::{Canonical, DataType, GraphBuf, GraphBuilder, PointwiseMode, TensorAttributes, ops};
use hipplan_store::{Mode, Store};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// `z = x * y` with so many elements.
pub(crate) fn product(length: i64) -> GraphBuf {
    shaped(&[length], DataType::Float)
}

/// `z = x * y` of these dims.
pub(crate) fn shaped(dims: &[i64], dtype: DataType) -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let [x, y, z] = [(); 3].map(|()| builder.tensor(TensorAttributes::packed(dtype, dims)));
    builder.node("mul", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, y, z));
    builder.build().expect("a graph")
}

pub(crate) fn canonical(graph: &GraphBuf) -> Canonical {
    graph.view().canonical().expect("a key")
}

/// A folder for a store, which goes when this does.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("store")
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(self.path(), Mode::ReadWrite).expect("a store")
    }

    /// The files in a part of the store.
    pub(crate) fn files(&self, part: &str) -> Vec<PathBuf> {
        let tree = tree(&self.path().join(part));
        tree.into_keys().map(|name| self.path().join(part).join(name)).collect()
    }

    /// Every file with its bytes.
    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        tree(&self.path())
    }
}

fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(&at).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(folder).expect("inside").to_owned(), std::fs::read(&path).expect("read"));
            }
        }
    }
    files
}
