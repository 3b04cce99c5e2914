//! The whole main job through the real binary: the shipped corpus compiled, run again from new processes, checked.

mod common;

use common::{Scratch, corpus};

#[test]
fn the_corpus_compiles_runs_and_checks() {
    let scratch = Scratch::new();
    let corpus = corpus();
    let (code, value) = scratch.json(&["quickstart", "--corpus", corpus.to_str().expect("UTF-8")]);
    assert_eq!(code, 0, "{value:#}");
    let rows = value["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 25);
    for row in rows {
        let source = row["source"].as_str().expect("a source");
        match row["outcome"].as_str() {
            Some("compiled") => assert_eq!(row["run"]["check"]["passed"], true, "{source}: {row:#}"),
            Some("refused") => {
                let detail = row["detail"].as_str().expect("a reason");
                assert!(detail.contains("is not implemented"), "{source}: {detail}");
            }
            other => panic!("{source}: {other:?}"),
        }
    }
    assert_eq!(value["checked"], rows.iter().filter(|r| r["outcome"] == "compiled").count());
    assert_eq!(value["bad"], 0);
    assert!(rows.iter().filter(|r| r["outcome"] == "compiled").count() >= 14);
}

#[test]
fn the_table_names_every_graph_and_sums_up() {
    let scratch = Scratch::new();
    let corpus = corpus();
    let store = scratch.path("store");
    let ran = scratch.run(&["quickstart", "--corpus", corpus.to_str().expect("UTF-8"), "--store", store.to_str().expect("UTF-8")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for name in ["sample_conv_fwd", "conv_wrw_bf16_nchw_3x3", "no engine has layernorm yet", "all right", "refused"] {
        assert!(ran.out.contains(name), "{name} is not in\n{}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'), "no colours where nobody looks");
    assert_eq!(ran.err, "", "no progress bar where nobody looks");
    // The store that was named is kept, is sound, and lists what was compiled.
    let store = store.to_str().expect("UTF-8");
    assert_eq!(scratch.run(&["verify", "--store", store]).code, 0);
    let (_, listed) = scratch.json(&["ls", "--store", store]);
    assert!(listed["plans"].as_array().expect("plans").len() >= 14);
}
