//! Every call of every scenario fails in every way: the caller is not failed, is told once, and the store stays whole.

use super::common::warnings;
use super::scenario::{self, Scenario, root};
use super::scratch;
use super::values::{Promise, Told, check, told};
use hipplan_store::testing::{Op, Verdict, with_hook};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

const ERRNOS: [(&str, i32); 10] = [
    ("EIO", libc::EIO),
    ("ESTALE", libc::ESTALE),
    ("ENOLCK", libc::ENOLCK),
    ("ENOSPC", libc::ENOSPC),
    ("EDQUOT", libc::EDQUOT),
    ("EACCES", libc::EACCES),
    ("EROFS", libc::EROFS),
    ("EMFILE", libc::EMFILE),
    ("ENOENT", libc::ENOENT),
    ("EINTR", libc::EINTR),
];

/// Which calls fail.
#[derive(Debug, Clone, Copy)]
enum Which {
    /// This one alone.
    One(usize),
    /// This one and all behind it: a disk that dies.
    From(usize),
}

impl Which {
    fn hits(self, number: usize) -> bool {
        match self {
            Self::One(at) => number == at,
            Self::From(at) => number >= at,
        }
    }
}

/// What a run of a scenario gave.
struct Ran {
    promised: Vec<Promise>,
    told: Told,
    warned: Vec<String>,
    calls: Vec<&'static str>,
}

/// Runs a scenario with some calls judged so.
fn run(scenario: &Scenario, folder: &Path, which: Which, verdict: Verdict) -> Ran {
    let calls = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&calls);
    let hook = move |op: Op<'_>| {
        let mut seen = seen.borrow_mut();
        seen.push(op.name());
        if which.hits(seen.len() - 1) { verdict } else { Verdict::Go }
    };
    let ((promised, told), warned) = warnings(|| told(|| with_hook(hook, || (scenario.run)(folder))));
    Ran { promised, told, warned, calls: calls.take() }
}

/// What a warning is about, without the place.
fn cause(warning: &str) -> String {
    let field = |name: &str| warning.split(' ').find(|part| part.starts_with(name)).unwrap_or("").to_owned();
    let message = warning.split("message=").nth(1).unwrap_or(warning);
    format!("{} {message}", field("code="))
}

fn matrix(name: &str) {
    let scenario = scenario::of(name);
    let work = scratch::folder();
    let template = work.path().join("template");
    std::fs::create_dir(&template).unwrap();
    let kept = (scenario.before)(&template);
    let folder = work.path().join("tried");

    // Nothing fails: everything is found, without a word unless something was damaged.
    scratch::copy(&template, &folder);
    let Ran { promised, told, warned, calls } = run(scenario, &folder, Which::One(usize::MAX), Verdict::Go);
    assert!(is_damaging(scenario) || told == Told::default() && warned.is_empty(), "{name}: {told:?} {warned:#?}");
    assert_told(told, &warned, name);
    check(&root(&folder), &promised, &name);
    assert!((scenario.after)(&folder), "{name}");
    std::fs::remove_dir_all(&folder).unwrap();

    let (mut tried, mut failed) = (0_u64, 0_u64);
    let mut sites: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let verdicts: Vec<_> = ERRNOS.iter().map(|&(name, errno)| (name, Verdict::Fail(errno))).chain([("short", Verdict::Short(1))]).collect();
    for at in 0..calls.len() {
        for (number, &(fault, verdict)) in verdicts.iter().enumerate() {
            // Calls that move no bytes are never short.
            if fault == "short" && !matches!(calls[at], "read" | "write") {
                continue;
            }
            // Where there are many calls, most are made at the same places: there, faults take turns, unless all of it is wanted.
            let is_long = calls.len() > 300 && scratch::number("HIPPLAN_STORE_ROUNDS", 0) == 0;
            if is_long && !(at + number).is_multiple_of(4) {
                continue;
            }
            for which in [Which::One(at), Which::From(at)] {
                // What a dead disk says matters less than that it is dead.
                if matches!(which, Which::From(_)) && !matches!(fault, "EIO" | "EACCES" | "ESTALE" | "short") {
                    continue;
                }
                let what = format!("{name}, {} as {fault}: {which:?}", calls[at]);
                scratch::copy(&template, &folder);
                let one = || try_one(scenario, &folder, which, verdict, &kept, &what);
                // All that fails is told, not only the first.
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(one)).is_err() {
                    failed += 1;
                }
                std::fs::remove_dir_all(&folder).unwrap();
                sites.entry(calls[at]).or_default().insert(fault);
                tried += 1;
            }
        }
    }
    let sites: Vec<_> = sites.iter().map(|(site, faults)| format!("{site}x{}", faults.len())).collect();
    println!("{name}: {} calls, {tried} runs: {}", calls.len(), sites.join(" "));
    assert_eq!(failed, 0, "{name}: runs that failed, see above");
}

/// Whether something is damaged from the beginning.
fn is_damaging(scenario: &Scenario) -> bool {
    scenario.name.contains("damage")
}

/// Of what a program does not get there is a warning: one that nothing is kept, whatever was put, and one or more of what cannot be used.
fn assert_told(told: Told, warned: &[String], what: &str) {
    let count = |text: &str| warned.iter().filter(|warning| warning.contains(text)).count();
    assert!(told.not_kept == 0 || count("does not keep results") == 1, "{what}: {told:?} {warned:#?}");
    assert!(told.not_usable == 0 || count("cannot be used") > 0, "{what}: {told:?} {warned:#?}");
}

/// One run of a scenario with calls that fail, and what the next ones find.
fn try_one(scenario: &Scenario, folder: &Path, which: Which, verdict: Verdict, kept: &[Promise], what: &str) {
    let Ran { promised, told, warned, .. } = run(scenario, folder, which, verdict);
    assert_told(told, &warned, what);
    let causes: BTreeSet<String> = warned.iter().map(|warning| cause(warning)).collect();
    let is_damaged = is_damaging(scenario);
    if !is_damaged {
        assert!(causes.len() == warned.len(), "{what}: {warned:#?}");
        // One cause, one warning: none is left out where it matters, and none comes twice.
        let least = usize::from(told != Told::default());
        assert!((least..=1).contains(&warned.len()) || matches!(which, Which::From(_)), "{what}: {told:?} {warned:#?}");
        assert!(warned.is_empty() || !matches!(verdict, Verdict::Short(_)), "{what}: {warned:#?}");
    }
    let promised: Vec<Promise> = kept.iter().chain(&promised).cloned().collect();
    if is_damaged {
        // What has not been met yet is found and set aside, or put right, by the next.
        drop(warnings(|| (scenario.run)(folder)));
    }
    check(&root(folder), &promised, &what);
    // The next one is not in the way of anything that was left.
    let again = (scenario.run)(folder);
    check(&root(folder), &again, &format_args!("again after {what}"));
    assert!((scenario.after)(folder), "again after {what}");
}

macro_rules! matrix {
    ($($test:ident: $($name:literal),+;)+) => {
        $(#[test] fn $test() { for name in [$($name),+] { matrix(name); } })+

        #[test]
        fn no_scenario_is_left_out() {
            let here: Vec<&str> = [$(&[$($name),+][..]),+].concat();
            let all: Vec<&str> = scenario::ALL.iter().map(|scenario| scenario.name).collect();
            assert_eq!(here, all);
        }
    };
}

matrix! {
    gets: "get loose", "get packed", "get mapped";
    gets_from_layers: "get from a layer", "get from a bundle";
    gets_of_what_is_damaged: "get damaged", "get damaged, packed behind";
    puts: "put into nothing", "put new";
    puts_of_what_is_there: "put unchanged", "put unchanged, packed";
    puts_over_damage: "put over damage";
    selections: "replace a selection", "replace a selection, packed", "add to a set";
    collections: "gc of all", "gc of packs";
    compactions: "compact", "compact packs";
    groups: "group", "group over loose files";
    builds: "get or build, built", "get or build, in nothing", "get or build, new";
}
