//! Replays every input of `corpus/fuzz`, and holds the glue in `fuzz/` to the list of targets.

use hipplan_fuzzing::{Stage, TARGETS, Target};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = entries.map(|e| e.expect("an entry").path()).collect();
    files.sort();
    files
}

/// At least a fifth of the inputs of every target gets past the form of what it reads: the corpus is not a heap of broken headers.
#[test]
fn every_input_is_read() {
    for target in &TARGETS {
        let files = files(&root().join("corpus/fuzz").join(target.name));
        let mut stages = Vec::new();
        for file in &files {
            let input = std::fs::read(file).expect("readable");
            let read = std::panic::catch_unwind(|| target.read(&input));
            stages.push(read.unwrap_or_else(|_| panic!("{}", file.display())));
        }
        let deep = stages.iter().filter(|&&s| s > Stage::Form).count();
        println!("{}: {deep} of {} inputs reach the semantic stage", target.name, files.len());
        assert!(files.len() >= 10, "{}: {} inputs", target.name, files.len());
        assert!(deep * 5 >= files.len(), "{}: {deep} of {}", target.name, files.len());
        assert!(stages.contains(&Stage::Accepted), "{}: no input is accepted", target.name);
    }
}

#[test]
fn there_is_glue_for_every_target() {
    let names: BTreeSet<String> = TARGETS.iter().map(|t| t.name.to_owned()).collect();
    let glue = files(&root().join("fuzz/fuzz_targets"));
    let found: BTreeSet<String> = glue.iter().map(|f| f.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    assert_eq!(found, names);
    for (file, name) in glue.iter().zip(&found) {
        let text = std::fs::read_to_string(file).expect("readable");
        assert!(text.contains(&format!("Target::find({name:?})")), "{}", file.display());
    }
    let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("readable");
    assert!(names.iter().all(|name| manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\""))));
}

#[test]
fn short_inputs_are_read_by_all() {
    for target in &TARGETS {
        assert_eq!(Target::find(target.name).name, target.name);
        for len in 0..40 {
            for byte in [0, 1, 2, 3, 0x80, 0xff] {
                target.read(&vec![byte; len]);
            }
        }
    }
}
