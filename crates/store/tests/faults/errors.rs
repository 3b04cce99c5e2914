//! System calls that go past the C library fail, by the kernel's own answer: what `preload.rs` cannot reach.

use super::kills::{TRACED, run, sites};
use super::values::check;
use super::{scenario, scratch, traced};
use std::collections::BTreeSet;

/// Calls that are made of the kernel directly.
const PAST_THE_LIBRARY: [&str; 4] = ["getdents64", "fstatfs", "faccessat2", "renameat2"];
const ERRORS: [&str; 4] = ["EIO", "ESTALE", "ENOMEM", "EACCES"];

#[test]
fn calls_past_the_c_library_fail() {
    if !traced::is_possible() {
        return;
    }
    let all = std::env::var_os("HIPPLAN_STORE_ROUNDS").is_some();
    let few = ["get mapped", "put new", "gc of packs", "compact packs"];
    let mut failed = BTreeSet::new();
    for scenario in scenario::ALL.iter().filter(|scenario| all || few.contains(&scenario.name)) {
        let work = scratch::folder();
        let (template, folder, log) = (work.path().join("template"), work.path().join("tried"), work.path().join("log"));
        std::fs::create_dir(&template).unwrap();
        let kept = (scenario.before)(&template);
        scratch::copy(&template, &folder);
        let sites = sites(scenario, &folder, &log).into_iter().filter(|(call, _)| PAST_THE_LIBRARY.contains(&&**call));
        for ((call, number), error) in sites.zip(ERRORS.into_iter().cycle()) {
            std::fs::remove_dir_all(&folder).unwrap();
            scratch::copy(&template, &folder);
            let inject = format!("inject={call}:error={error}:when={number}");
            let what = format!("{}: {call} {number} failed with {error}", scenario.name);
            assert!(run(scenario, &folder, &["-e", TRACED, "-e", &inject, "-o", "/dev/null"]).success(), "{what}");
            if scenario.name.contains("damage") {
                drop((scenario.run)(&folder));
            }
            check(&scenario::root(&folder), &kept, &what);
            let promised = (scenario.run)(&folder);
            check(&scenario::root(&folder), &promised, &format_args!("again after {what}"));
            assert!((scenario.after)(&folder), "again after {what}");
            failed.insert(call);
        }
    }
    assert!(["getdents64", "fstatfs"].iter().all(|call| failed.contains(*call)), "{failed:?}");
    println!("failed: {failed:?}");
}
