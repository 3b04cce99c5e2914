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
