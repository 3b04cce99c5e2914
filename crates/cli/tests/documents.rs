//! What the documents name is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The names of all tests, as `file::test`; a file that is called `mod` has the name of its folder.
fn tests_below(folder: &Path, all: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            tests_below(&path, all);
            continue;
        }
        if path.extension().is_none_or(|end| end != "rs") {
            continue;
        }
        let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
        let file = match name(&path) {
            file if file == "mod" => name(folder),
            file => file,
        };
        let text = std::fs::read_to_string(&path).expect("text");
        for (_, after) in text.match_indices("#[test]").map(|(at, _)| text.split_at(at)) {
            let test = after.lines().skip(1).find_map(|line| line.trim().strip_prefix("fn ")?.split('(').next());
            all.insert(format!("{file}::{}", test.expect("a function behind the mark of a test")));
        }
    }
}

#[test]
fn every_test_that_the_threat_model_names_is_there() {
    let mut all = BTreeSet::new();
    tests_below(&root().join("crates"), &mut all);
    let text = std::fs::read_to_string(root().join("docs/security.md")).expect("read");
    let claims = text.lines().filter(|line| line.starts_with("| ")).filter_map(|line| line.trim_matches('|').split(" | ").nth(1));
    let rows: Vec<&str> = claims.filter(|tests| tests.contains("::")).collect();
    let named: Vec<&str> = rows.iter().flat_map(|tests| tests.split('`')).filter(|word| word.contains("::")).collect();
    assert!(rows.len() >= 20 && named.len() >= 30, "{} claims, {} tests", rows.len(), named.len());
    let missing: Vec<&&str> = named.iter().filter(|name| !all.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // Each claim of the table has a test of its own.
    let table = text.split("| claim | test |").nth(1).expect("the table");
    let table = table.split("\n\n").next().expect("its end");
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        assert!(row.contains("::"), "no test: {row}");
    }
}

/// The texts of all Rust sources of the crates but tests.
fn sources(folder: &Path, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && !["tests", "benches", "examples", "target"].contains(&&*name) && !name.ends_with("testing") {
            sources(&path, all);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            all.push(std::fs::read_to_string(&path).expect("text"));
        }
    }
}

/// Words of this form between quotes.
fn quoted(text: &str, quote: char) -> impl Iterator<Item = &str> {
    let is_variable =
        |word: &&str| word.starts_with("HIPPLAN_") && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    text.split(quote).filter(is_variable)
}

#[test]
fn every_environment_variable_that_is_read_is_in_the_table() {
    // What some begin with; and names of engines, and of results of the C library, which are read from nowhere.
    let others = ["HIPPLAN_MIOPEN_", "HIPPLAN_CPU", "HIPPLAN_CPU_ENGINE", "HIPPLAN_HIP", "HIPPLAN_WRAPPER_1"];
    let results = std::fs::read_to_string(root().join("crates/capi/src/failure.rs")).expect("text");
    let results: BTreeSet<&str> = quoted(&results, '"').filter(|name| *name != "HIPPLAN_STORE" && *name != "HIPPLAN_DEVICE").collect();
    let mut texts = Vec::new();
    sources(&root().join("crates"), &mut texts);
    let read: BTreeSet<&str> =
        texts.iter().flat_map(|text| quoted(text, '"')).filter(|name| !others.contains(name) && !results.contains(name)).collect();
    let document = std::fs::read_to_string(root().join("docs/environment.md")).expect("text");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `HIPPLAN_")).map(|row| row.split('`').next().expect("a name"));
    let rows: Vec<String> = rows.map(|rest| format!("HIPPLAN_{rest}")).collect();
    let listed: BTreeSet<&str> = rows.iter().map(String::as_str).collect();
    assert_eq!(listed.len(), rows.len(), "each once");
    assert!(read.len() >= 20, "{read:?}");
    assert_eq!(read, listed);
    for name in listed {
        assert!(document.matches(&format!("| `{name}` |")).count() == 1, "{name}");
    }
}
