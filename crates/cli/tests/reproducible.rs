//! The same inputs give the same store, byte for byte: whatever the folder, user, home, order and number of jobs.

mod common;

use common::{Ran, Scratch, corpus, tree};
use std::path::{Path, PathBuf};

/// Inputs of one call. Each plan of so few has files of its own; how those of many are spread over packs is a matter of time.
const FEW: usize = 12;

fn graphs() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus()).expect("corpus").map(|e| e.expect("an entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "json"));
    files.sort();
    files
}

/// Copies in another folder, with other names, in another order.
fn copies(files: &[PathBuf], elsewhere: &Path) -> Vec<PathBuf> {
    std::fs::create_dir(elsewhere).expect("a folder");
    let copied = files.iter().enumerate().rev().map(|(i, file)| {
        let copy = elsewhere.join(format!("graph number {i}.json"));
        std::fs::copy(file, &copy).expect("copied");
        copy
    });
    copied.collect()
}

fn compile(scratch: &Scratch, store: &str, jobs: &str, files: &[PathBuf], environment: &[(&str, &str)]) {
    let mut command = scratch.hipplan(&["compile", "--store", store, "--jobs", jobs]);
    let ran = Ran::of(&command.args(files).envs(environment.iter().copied()).output().expect("started"));
    // 3: some operations are not implemented.
    assert!(ran.code == 0 || ran.code == 3, "{ran:?}");
}

const ALICE: [(&str, &str); 2] = [("USER", "alice"), ("LANG", "C")];
/// Another home and user, and other ways of writing.
const BOB: [(&str, &str); 4] = [("USER", "bob"), ("HOME", "/nonexistent"), ("LANG", "de_DE.UTF-8"), ("TZ", "Asia/Tokyo")];

#[test]
fn two_compilations_give_one_store() {
    let files = graphs();
    let first = Scratch::new();
    files.chunks(FEW).for_each(|some| compile(&first, "a-store", "1", some, &ALICE));
    let second = Scratch::new();
    let copies = copies(&files, &second.path("somewhere else entirely"));
    // More jobs, twice over.
    for _ in 0..2 {
        copies.chunks(FEW).for_each(|some| compile(&second, "deep/er/store", "7", some, &BOB));
    }

    let (a, b) = (tree(&first.path("a-store")), tree(&second.path("deep/er/store")));
    let (_, listed) = first.json(&["ls", "--store", "a-store"]);
    assert!(listed["plans"].as_array().is_some_and(|plans| plans.len() >= 14), "{listed:#}");
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (name, bytes) in &a {
        assert!(b[name] == *bytes, "{} differs", name.display());
    }
}

/// What is kept together is the same too, in whatever files it stands.
#[test]
fn many_plans_at_once_give_one_bundle() {
    let bundle = |scratch: &Scratch, store: &str| {
        let ran = scratch.run(&["bundle", "export", "-o", "all.hpbundle", "--store", store]);
        assert_eq!(ran.code, 0, "{ran:?}");
        std::fs::read(scratch.path("all.hpbundle")).expect("a bundle")
    };
    let files = graphs();
    let [piecemeal, first, second] = [(); 3].map(|()| Scratch::new());
    files.chunks(FEW).for_each(|some| compile(&piecemeal, "s", "3", some, &ALICE));
    compile(&first, "a-store", "1", &files, &ALICE);
    let copies = copies(&files, &second.path("somewhere else entirely"));
    compile(&second, "deep/er/store", "7", &copies, &BOB);
    let expected = bundle(&piecemeal, "s");
    assert!(bundle(&first, "a-store") == expected, "one job");
    assert!(bundle(&second, "deep/er/store") == expected, "seven jobs");
}
