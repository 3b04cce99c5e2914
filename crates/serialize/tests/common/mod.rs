//! Shared by the tests: the corpus.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this module")]

pub mod flatc;
pub mod scatter;

use hipplan_serialize::{AlignedBytes, GraphBuf, Limits, json};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The repository's `corpus` folder.
pub fn corpus_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

/// Name and text of every graph of the corpus.
pub fn corpus() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(corpus_folder().join("graphs")).expect("corpus/graphs");
    let mut files: Vec<_> = entries.map(|e| e.expect("entry").path()).filter(|f| f.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    assert_eq!(files.len(), 25, "graphs in the corpus");
    let name = |f: &PathBuf| f.file_stem().expect("a name").to_string_lossy().into_owned();
    files.iter().map(|f| (name(f), std::fs::read(f).expect("readable"))).collect()
}

/// One graph of the corpus as JSON, for editing.
pub fn corpus_json(name: &str) -> Value {
    let text = std::fs::read(corpus_folder().join("graphs").join(name).with_extension("json")).expect("in the corpus");
    serde_json::from_slice(&text).expect("JSON")
}

/// Every graph of the corpus as a buffer.
pub fn corpus_graphs() -> Vec<(String, GraphBuf)> {
    corpus().into_iter().map(|(name, text)| (name, json::import(&text, &Limits::DEFAULT).expect("a graph").graph)).collect()
}

pub fn import(value: &Value) -> Result<json::Imported, json::JsonError> {
    json::import(value.to_string().as_bytes(), &Limits::DEFAULT)
}

pub fn aligned(bytes: &[u8]) -> AlignedBytes {
    hipplan_serialize::aligned::aligned_copy(bytes)
}
