//! The table in `docs/by-value.md` names every test of the matrix, and no other; `mutations.toml` breaks the code once for each of its rows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Number of bullets in section 9 of the RFC.
const BULLETS: usize = 17;

fn read(file: impl AsRef<Path>) -> String {
    let file = file.as_ref();
    fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// A bullet and its tests.
struct Row {
    bullet: String,
    tests: Vec<String>,
}

fn rows() -> Vec<Row> {
    let document = read(format!("{CRATE}/../../docs/by-value.md"));
    let rows = document.lines().filter(|line| line.starts_with("| ") && line.contains("`r16_"));
    let rows = rows.map(|line| {
        let bullet = line.split('|').nth(1).expect("a first column").trim().to_owned();
        let tests = line.split('`').filter(|word| word.starts_with("r16_")).map(str::to_owned).collect();
        Row { bullet, tests }
    });
    let rows: Vec<Row> = rows.collect();
    assert_eq!(rows.len(), BULLETS, "one row a bullet");
    rows
}

#[test]
fn the_document_maps_every_bullet_to_tests_that_exist() {
    let mut tests = BTreeSet::new();
    let folder = fs::read_dir(format!("{CRATE}/tests/r16")).expect("the folder of these tests");
    for file in folder.map(|entry| entry.expect("an entry").path()).filter(|path| path.file_name().is_some_and(|n| n != "table.rs")) {
        let source = read(file);
        let mut lines = source.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line == "#[test]" {
                let name = lines.next().and_then(|l| l.strip_prefix("fn ")).and_then(|l| l.split('(').next()).expect("a test");
                assert!(tests.insert(name.to_owned()), "{name} stands twice");
            }
        }
    }
    // The one that is a process of another test.
    assert!(tests.remove("process_b"));
    assert!(tests.iter().all(|name| name.starts_with("r16_")), "{tests:?}");
    let mut told = BTreeSet::new();
    for name in rows().into_iter().flat_map(|row| row.tests) {
        assert!(told.insert(name.clone()), "{name} stands in the table twice");
    }
    let unknown: Vec<_> = told.difference(&tests).collect();
    let untold: Vec<_> = tests.difference(&told).collect();
    assert!(unknown.is_empty() && untold.is_empty(), "no such tests: {unknown:?}; not in the table: {untold:?}");
}

/// The texts of this key in `mutations.toml`, where each stands on a line of its own.
fn of_the_mutations<'t>(table: &'t str, key: &str) -> Vec<&'t str> {
    let values = table.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'));
    values.inspect(|value| assert!(!value.contains(['\\', '"']), "{value}: an escape, which this test does not read")).collect()
}

#[test]
fn every_bullet_has_a_mutation_that_can_be_applied() {
    // In the copy that `scripts/mutations` makes, they have been.
    if env!("CARGO_PKG_VERSION") == "0.0.0-mutated" {
        return;
    }
    let table = read(format!("{CRATE}/mutations.toml"));
    let rows = rows();
    let bullets: Vec<&str> = rows.iter().map(|row| row.bullet.as_str()).collect();
    assert_eq!(of_the_mutations(&table, "bullet"), bullets);
    let [tests, files, finds, replacements, done] = ["test", "file", "find", "replace", "does"].map(|key| of_the_mutations(&table, key));
    assert!([&tests, &files, &finds, &replacements, &done].iter().all(|column| column.len() == BULLETS), "every mutation has every field");
    for (row, test) in rows.iter().zip(tests) {
        assert!(row.tests.iter().all(|name| name.starts_with(&format!("{test}_"))), "{}: tests of {test}: {:?}", row.bullet, row.tests);
    }
    for ((row, file), find) in rows.iter().zip(files).zip(finds) {
        let source = read(format!("{CRATE}/../../{file}"));
        let parts: Vec<&str> = find.split(['«', '»']).collect();
        assert_eq!(parts.len(), 3, "{}: one expression between « and »: {find}", row.bullet);
        assert_eq!(source.matches(&parts.concat()).count(), 1, "{}: {file} holds it once: {find}", row.bullet);
    }
}
