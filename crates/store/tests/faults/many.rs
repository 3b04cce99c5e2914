//! Many processes on one store, with upkeep throughout, a third of them killed.

use super::scenario::root;
use super::values::Values;
use super::{child, preload, scratch};
use hipplan_store::testing::set_claim_age;
use hipplan_store::{CompactOptions, GcOptions, Mode, Store, StoreError};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROCESSES: u64 = 32;
const KEYS: u8 = 50;
const WORKS: u64 = 200;
/// Upkeep ends when this file is there.
const STOP: &str = "stop";
/// Longer than a publisher takes here from a blob to the plan that names it; some that are stopped for longer have to put it again.
const GRACE: Duration = Duration::from_millis(1500);

/// How long one that looks after the store may be silent while it compacts, before the others take it to be dead.
const CLAIM: Duration = Duration::from_millis(1500);

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A child: gets and puts, and holds that what it finds is right.
pub(crate) fn work(seed: &str, folder: &Path) {
    let mut random = Random(seed.parse().unwrap());
    let values: Vec<Values> = (0..KEYS).map(Values::of).collect();
    let store = Store::open_or_degrade(root(folder));
    for _ in 0..WORKS {
        let values = &values[random.below(u64::from(KEYS)) as usize];
        match random.below(8) {
            0..=3 => _ = values.get(&store),
            4 | 5 => drop(values.put(&store)),
            6 => put_together(&store, values),
            _ => drop(values.get_or_build(&store)),
        }
    }
}

fn put_together(store: &Store, values: &Values) {
    let group = store.group();
    drop(group.put_blob(&values.blob).unwrap());
    drop(group.put_plan(&values.plan).unwrap());
    drop(group.put_selection(&values.key, &[values.id]).unwrap());
    drop(group.commit().unwrap());
}

/// A child: looks after the store until it is told to stop.
pub(crate) fn look_after(folder: &Path) {
    // What a killed one has left is not waited for long.
    set_claim_age(CLAIM);
    let store = Store::open(root(folder), Mode::ReadWrite).unwrap();
    let mut round = 0_u64;
    // One that takes the place of another that was killed finds what that has left.
    while !folder.join(STOP).exists() || round == 0 {
        let mut options = GcOptions::default();
        options.grace = GRACE;
        // Little room, so that plans go all the time; now and then all of it.
        options.max_bytes = (!round.is_multiple_of(4)).then_some(40_000);
        match store.gc(&options, &()) {
            Ok(_) => {}
            // Another is at work, or was killed.
            Err(StoreError::Io { cause, .. }) if cause.kind() == ErrorKind::ResourceBusy => continue,
            Err(error) => panic!("gc: {error}"),
        }
        let mut options = CompactOptions::default();
        options.all = round.is_multiple_of(3);
        options.wait = Duration::from_millis(50);
        store.compact(&options, &()).unwrap_or_else(|error| panic!("compact: {error}"));
        round += 1;
    }
}

/// How the processes of a round are started.
type Start<'s> = &'s dyn Fn(u64, &str, &Path) -> Command;

fn rounds(name: &str, start: Start<'_>) {
    let rounds = scratch::number("HIPPLAN_STORE_ROUNDS", 1);
    let work = scratch::folder();
    let mut random = Random(7);
    let mut killed_in_all = 0;
    for round in 0..rounds {
        let began = Instant::now();
        let folder = work.path().join(round.to_string());
        fs::create_dir(&folder).unwrap();
        drop(Store::open(root(&folder), Mode::ReadWrite).unwrap());
        let spawn = |number: u64, role: &str| start(number, role, &folder).stdout(Stdio::null()).spawn().unwrap();
        let mut upkeep: Vec<Child> = (0..scratch::number("HIPPLAN_STORE_UPKEEP", 2)).map(|number| spawn(number, "look after")).collect();
        let mut workers: Vec<(Child, bool)> =
            (0..PROCESSES).map(|number| (spawn(number, &format!("work: {}", round * 1000 + number)), false)).collect();
        let mut victims: Vec<usize> = (0..workers.len()).collect();
        for _ in 0..PROCESSES / 3 {
            std::thread::sleep(Duration::from_millis(random.below(40)));
            let victim = victims.swap_remove(random.below(victims.len() as u64) as usize);
            let (victim, killed) = &mut workers[victim];
            victim.kill().unwrap();
            *killed = true;
        }
        // One that looks after the store is killed as well, and another takes its place.
        upkeep[0].kill().unwrap();
        upkeep[0].wait().unwrap();
        upkeep[0] = spawn(2, "look after");
        let mut survivors = 0;
        for (mut worker, killed) in workers {
            let status = worker.wait().unwrap();
            let was_killed = killed && status.signal() == Some(libc::SIGKILL);
            assert!(status.success() || was_killed, "{name}, round {round}: {status:?}");
            survivors += u64::from(status.success());
            killed_in_all += u64::from(was_killed);
        }
        fs::write(folder.join(STOP), "").unwrap();
        for mut one in upkeep {
            assert!(one.wait().unwrap().success(), "{name}, round {round}: upkeep");
        }
        check(&root(&folder), &format!("{name}, round {round}"));
        println!("{name}, round {round}: {survivors} of {PROCESSES} survived, clean, after {:.1} s", began.elapsed().as_secs_f64());
        fs::remove_dir_all(&folder).unwrap();
    }
    // Who is too fast has ended before it is killed, but not all of them.
    assert!(killed_in_all > 0, "{name}: in {rounds} rounds all ended before they were killed");
}

/// The store is clean; what is missing can be put, and then there is one plan for each key.
fn check(root: &Path, what: &str) {
    let report = Store::open(root, Mode::ReadOnly).unwrap().verify();
    assert!(report.is_clean(), "{what}: {:?}", report.problems);
    let store = Store::open(root, Mode::ReadWrite).unwrap();
    let values: Vec<Values> = (0..KEYS).map(Values::of).collect();
    for values in &values {
        assert_eq!(values.put(&store).len(), 3, "{what}");
    }
    let fresh = Store::open(root, Mode::ReadOnly).unwrap();
    assert!(values.iter().all(|values| values.get(&fresh)), "{what}");
    let plans: BTreeSet<_> = fresh.iter_plans().map(Result::unwrap).collect();
    assert_eq!(plans, values.iter().map(|values| values.id).collect(), "{what}");
    let report = fresh.verify();
    assert!(report.is_clean(), "{what}: {:?}", report.problems);
}

#[test]
fn a_third_of_many_processes_is_killed() {
    rounds("many", &|_, role, folder| child::command(role, folder));
}

#[test]
fn the_same_where_locks_are_refused() {
    let Some(library) = preload::library() else { return };
    let always = format!("flock:{}", libc::ENOLCK);
    rounds("many without locks", &|_, role, folder| {
        let mut command = child::command(role, folder);
        command.env("LD_PRELOAD", library).env("HIPPLAN_SHIM_ALWAYS", &always);
        command
    });
}

#[test]
fn the_same_in_two_mount_namespaces_with_temporary_folders_of_their_own() {
    let temporary = scratch::folder();
    let shared = temporary.path().join("tmp");
    for name in ["tmp", "0", "1"] {
        fs::create_dir(temporary.path().join(name)).unwrap();
    }
    let Some(unshare) = mount_namespace(&shared) else { return };
    rounds("many in two namespaces", &|number, role, folder| {
        let own = temporary.path().join((number % 2).to_string());
        let script = "mount --bind \"$HIPPLAN_TEST_OWN\" \"$TMPDIR\" && exec \"$0\" \"$@\"";
        let mut command = child::command_under(&["unshare", unshare, "sh", "-c", script], role, folder);
        command.env("TMPDIR", &shared).env("HIPPLAN_TEST_OWN", own);
        command
    });
}

/// The option with which `unshare` makes a namespace in which a folder can be mounted: as root, or as one who is root there. `None` where
/// none does, which CI must not be.
fn mount_namespace(folder: &Path) -> Option<&'static str> {
    let works = |option: &&str| {
        let mut command = Command::new("unshare");
        command.args([*option, "mount", "--bind"]).arg(folder).arg(folder);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let option = ["-m", "-Urm"].into_iter().find(works);
    assert!(option.is_some() || std::env::var_os("HIPPLAN_CI").is_none(), "mount namespaces need `unshare`, and root or user namespaces");
    if option.is_none() {
        println!("NOT RUN: mount namespaces need `unshare`, and root or user namespaces");
    }
    option
}
