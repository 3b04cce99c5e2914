//! The table in `docs/by-value.md` names every test of the matrix, and no other.

use std::collections::BTreeSet;

const SOURCES: [&str; 9] = [
    include_str!("constant_operations.rs"),
    include_str!("floors.rs"),
    include_str!("harness.rs"),
    include_str!("mixed.rs"),
    include_str!("packs.rs"),
    include_str!("reader_guard.rs"),
    include_str!("restored.rs"),
    include_str!("states.rs"),
    include_str!("validation.rs"),
];
const DOCUMENT: &str = include_str!("../../../../docs/by-value.md");

/// Number of bullets in section 9 of the RFC.
const BULLETS: usize = 17;

#[test]
fn the_document_maps_every_bullet_to_tests_that_exist() {
    let mut tests = BTreeSet::new();
    for source in SOURCES {
        let mut lines = source.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line == "#[test]" {
                let name = lines.next().and_then(|l| l.strip_prefix("fn ")).and_then(|l| l.split('(').next()).expect("a test");
                assert!(tests.insert(name), "{name} stands twice");
            }
        }
    }
    // The one that is a process of another test.
    assert!(tests.remove("process_b"));
    assert!(tests.iter().all(|name| name.starts_with("r16_")), "{tests:?}");
    let rows: Vec<&str> = DOCUMENT.lines().filter(|line| line.starts_with("| ") && line.contains("`r16_")).collect();
    assert_eq!(rows.len(), BULLETS, "one row a bullet");
    let mut told = BTreeSet::new();
    for name in rows.iter().flat_map(|row| row.split('`')).filter(|word| word.starts_with("r16_")) {
        assert!(told.insert(name), "{name} stands in the table twice");
    }
    let unknown: Vec<_> = told.difference(&tests).collect();
    let untold: Vec<_> = tests.difference(&told).collect();
    assert!(unknown.is_empty() && untold.is_empty(), "no such tests: {unknown:?}; not in the table: {untold:?}");
}
