//! Every graph of the corpus is read, keyed, written and read again.

use hipplan_serialize::{GraphBuf, Limits, VerifiedGraph, canon, json};
use std::path::{Path, PathBuf};

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/graphs");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("corpus/graphs").map(|e| e.expect("entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "json"));
    files.sort();
    files
}

#[test]
fn every_graph_imports_and_round_trips() {
    let files = corpus();
    assert_eq!(files.len(), 25, "graphs in the corpus");
    for file in files {
        let name = file.display();
        let text = std::fs::read(&file).expect("readable");
        let imported = json::import(&text, &Limits::DEFAULT).unwrap_or_else(|e| panic!("{name}: {e}"));
        let graph = imported.graph.view();
        let canonical = graph.canonical().unwrap_or_else(|e| panic!("{name}: {e}"));

        // Through the native artifact.
        let artifact = graph.to_artifact();
        let again = VerifiedGraph::verify_any(&artifact, &Limits::DEFAULT).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(again.buffer(), graph.buffer(), "{name}: exporting is a slice");
        assert_eq!(again.canonical(), Ok(canonical.clone()), "{name}");

        // Through the canonical form, which is its own canonical form.
        let decoded = canon::decode(&canonical.encoding, &Limits::DEFAULT).unwrap_or_else(|e| panic!("{name}: {e}"));
        let recoded = decoded.view().canonical().expect("known fields only");
        assert_eq!(recoded.encoding, canonical.encoding, "{name}");
        assert!(recoded.uids.iter().enumerate().all(|(i, uid)| uid.0 == i as i64), "{name}: uids are ordinals");
    }
}

#[test]
fn bare_buffers_and_artifacts_are_both_graphs() {
    let text = std::fs::read(&corpus()[0]).expect("readable");
    let graph = json::import(&text, &Limits::DEFAULT).expect("a graph").graph;
    let bare = GraphBuf::new(graph.buffer(), &Limits::DEFAULT).expect("bare");
    let native = GraphBuf::new(&graph.view().to_artifact(), &Limits::DEFAULT).expect("native");
    assert_eq!(bare.buffer(), native.buffer());
}
