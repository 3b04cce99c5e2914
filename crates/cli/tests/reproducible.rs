//! The same inputs give the same store, byte for byte: whatever the folder, user, home, order and number of jobs.

mod common;

use common::{Scratch, corpus, tree};
use std::path::PathBuf;

#[test]
fn two_compilations_give_one_store() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus()).expect("corpus").map(|e| e.expect("an entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "json"));
    files.sort();

    let first = Scratch::new();
    let status = first
        .hipplan(&["compile", "--store", "a-store", "--jobs", "1"])
        .args(&files)
        .env("USER", "alice")
        .env("LANG", "C")
        .output()
        .expect("compiled");
    assert_eq!(status.status.code(), Some(3), "some operations are not implemented: {status:?}");

    let second = Scratch::new();
    let elsewhere = second.path("somewhere else entirely");
    std::fs::create_dir(&elsewhere).expect("a folder");
    // Copies in another folder, other names, another order, another home and user, more jobs, twice over.
    let copies: Vec<PathBuf> = files
        .iter()
        .enumerate()
        .rev()
        .map(|(i, file)| {
            let copy = elsewhere.join(format!("graph number {i}.json"));
            std::fs::copy(file, &copy).expect("copied");
            copy
        })
        .collect();
    for _ in 0..2 {
        let status = second
            .hipplan(&["compile", "--store", "deep/er/store", "--jobs", "7"])
            .args(&copies)
            .env("USER", "bob")
            .env("HOME", "/nonexistent")
            .env("LANG", "de_DE.UTF-8")
            .env("TZ", "Asia/Tokyo")
            .output()
            .expect("compiled");
        assert_eq!(status.status.code(), Some(3), "{status:?}");
    }

    let (a, b) = (tree(&first.path("a-store")), tree(&second.path("deep/er/store")));
    let (_, listed) = first.json(&["ls", "--store", "a-store"]);
    assert!(listed["plans"].as_array().is_some_and(|plans| plans.len() >= 14), "{listed:#}");
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (name, bytes) in &a {
        assert!(b[name] == *bytes, "{} differs", name.display());
    }
}
