//! Turns: what several need at once is built once, and nobody waits for ever.

use super::child;
use super::common::{new_store, warnings};
use hipplan_store::testing::{Op, Verdict, take_turn, with_hook};
use hipplan_store::{Turn, TurnOptions, Turned};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

const KEY: [u8; 32] = [7; 32];
/// Long enough that no test that passes waits for its end.
const LONG: TurnOptions = options(Duration::from_secs(300));
const SHORT: TurnOptions = options(Duration::from_millis(300));

const fn options(wait: Duration) -> TurnOptions {
    TurnOptions { wait, report_every: Duration::from_secs(300) }
}

/// A turn at a key that nobody has ready.
fn mine(root: Option<&Path>, key: &[u8; 32], options: &TurnOptions) -> Turn {
    match take_turn(root, key, options, &mut || None::<()>) {
        Turned::Mine(turn) => turn,
        Turned::Found(()) => panic!("found what nobody has built"),
    }
}

/// Builds by taking a turn, as a store does: the marks of all who have built are in `built`, what they have built is `result`.
fn build(root: &Path, options: &TurnOptions) -> bool {
    let result = root.join("result");
    match take_turn(Some(root), &KEY, options, &mut || result.exists().then_some(())) {
        Turned::Found(()) => false,
        Turned::Mine(_turn) => {
            OpenOptions::new().append(true).create(true).open(root.join("built")).unwrap().write_all(b"x").unwrap();
            std::thread::sleep(Duration::from_millis(100));
            fs::write(result, "").unwrap();
            true
        }
    }
}

/// What children do.
pub(crate) fn child(role: &str, root: &Path) {
    match role {
        "turn: build" => drop(build(root, &LONG)),
        "turn: build after a short wait" => drop(build(root, &SHORT)),
        "turn: hold" => {
            let turn = mine(Some(root), &KEY, &LONG);
            assert!(turn.shared());
            fs::write(root.join("held"), "").unwrap();
            until_told();
        }
        "turn: fork and die" => fork_and_die(root),
        "turn: fork and go on" => fork_and_go_on(root),
        "turn: fork among threads" => fork_among_threads(root),
        other => panic!("{other}"),
    }
}

/// Waits until the other end of standard input is closed.
fn until_told() {
    let _ = std::io::stdin().read(&mut [0]);
}

fn spawn(role: &str, root: &Path) -> Child {
    child::command(role, root).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

fn wait_for(path: &Path, child: &mut Child) {
    while !path.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the child has died");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A child that has a turn at `KEY`.
fn holder(root: &Path) -> Child {
    let mut holder = spawn("turn: hold", root);
    wait_for(&root.join("held"), &mut holder);
    holder
}

fn signal(child: &Child, signal: i32) {
    let pid = child.id().cast_signed();
    // SAFETY: a signal to a child that has not been waited for, so that the number is still its own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn threads_build_a_thing_once() {
    let dir = tempfile::tempdir().unwrap();
    for root in [None, Some(dir.path())] {
        let start = Barrier::new(8);
        let (built, result) = (Mutex::new(0), Mutex::new(None));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    match take_turn(root, &KEY, &LONG, &mut || *result.lock().unwrap()) {
                        Turned::Found(found) => assert_eq!(found, 5),
                        Turned::Mine(turn) => {
                            assert_eq!(turn.shared(), root.is_some());
                            *built.lock().unwrap() += 1;
                            std::thread::sleep(Duration::from_millis(30));
                            *result.lock().unwrap() = Some(5);
                        }
                    }
                });
            }
        });
        assert_eq!(*built.lock().unwrap(), 1);
    }
}

#[test]
fn what_is_finished_between_the_look_and_the_turn_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let found = take_turn(Some(dir.path()), &KEY, &LONG, &mut || Some(3));
    assert!(matches!(found, Turned::Found(3)), "{found:?}");
    // And the turn is free again.
    assert!(mine(Some(dir.path()), &KEY, &options(Duration::ZERO)).shared());
}

#[test]
fn a_builder_that_panics_gives_its_turn_back() {
    let dir = tempfile::tempdir().unwrap();
    let panicked = std::thread::scope(|scope| {
        let builder = scope.spawn(|| {
            let _turn = mine(Some(dir.path()), &KEY, &LONG);
            std::panic::resume_unwind(Box::new("the build fails"));
        });
        builder.join()
    });
    assert!(panicked.is_err());
    let (turn, warned) = warnings(|| mine(Some(dir.path()), &KEY, &options(Duration::ZERO)));
    assert!(turn.shared());
    assert_eq!(warned, [""; 0]);
}

#[test]
fn a_thread_that_keeps_its_turn_is_not_waited_for_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    // Without a folder, a key is one for the whole process: this one is no other test's.
    let key = [0xa7; 32];
    for root in [None, Some(dir.path())] {
        let kept = mine(root, &key, &LONG);
        let mut looks = 0;
        let (turn, warned) = warnings(|| {
            take_turn(root, &key, &SHORT, &mut || {
                looks += 1;
                None::<()>
            })
        });
        assert!(matches!(turn, Turned::Mine(ref turn) if !turn.shared()), "{turn:?}");
        assert_eq!((warned.len(), looks), (1, 1), "{warned:?}");
        assert!(warned[0].contains("code=\"waited-in-vain\"") && warned[0].contains("another thread of this process"), "{warned:?}");
        // Who went on without a turn does not give back the other's.
        drop(turn);
        let (_, warned) = warnings(|| mine(root, &key, &options(Duration::ZERO)));
        assert_eq!(warned.len(), 1);
        drop(kept);
        let (_, warned) = warnings(|| mine(root, &key, &options(Duration::ZERO)));
        assert_eq!(warned, [""; 0]);
    }
}

#[test]
fn keys_of_one_process_do_not_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let now = options(Duration::ZERO);
    let (turns, warned) = warnings(|| {
        // Two of one lock file, one of another.
        let mut alike = KEY;
        alike[31] ^= 1;
        [KEY, alike, [8; 32]].map(|key| mine(Some(dir.path()), &key, &now))
    });
    assert_eq!(warned, [""; 0]);
    assert!(turns.iter().all(Turn::shared));
    let names: Vec<_> = super::common::tree(&dir.path().join("locks")).into_keys().collect();
    assert_eq!(names, [Path::new("07"), Path::new("08")]);
    // The lock is kept as long as one of those who share it needs it.
    let [first, alike, _other] = turns;
    drop(first);
    assert!(alike.shared());
    assert!(File::open(dir.path().join("locks/07")).unwrap().try_lock().is_err());
    drop(alike);
    File::open(dir.path().join("locks/07")).unwrap().try_lock().unwrap();
}

#[test]
fn there_are_no_more_than_64_lock_files_and_they_stay() {
    let dir = tempfile::tempdir().unwrap();
    let now = options(Duration::ZERO);
    for first in 0..=255 {
        assert!(mine(Some(dir.path()), &[first; 32], &now).shared());
    }
    assert_eq!(fs::read_dir(dir.path().join("locks")).unwrap().count(), 64);
}

#[test]
fn eight_processes_build_a_thing_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut children: Vec<Child> = (0..8).map(|_| spawn("turn: build", dir.path())).collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    assert_eq!(fs::read(dir.path().join("built")).unwrap(), b"x");
}

#[test]
fn eight_processes_finish_where_locks_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("locks"), "").unwrap();
    let mut children: Vec<Child> = (0..8).map(|_| spawn("turn: build", dir.path())).collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    let built = fs::read(dir.path().join("built")).unwrap().len();
    assert!((1..=8).contains(&built), "{built}");
    // One warning for the cause, however often.
    let ((), warned) = warnings(|| {
        for key in 0..3 {
            assert!(!mine(Some(dir.path()), &[key; 32], &LONG).shared());
        }
    });
    assert_eq!(warned.len(), 1, "{warned:?}");
    for part in ["code=\"no-locks\"", "Not a directory", "advice="] {
        assert!(warned[0].contains(part), "{part} in {warned:?}");
    }
}

#[test]
fn a_stopped_holder_is_waited_for_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut stopped = holder(dir.path());
    signal(&stopped, libc::SIGSTOP);
    // Others have their bounded wait and then build for themselves.
    let mut children: Vec<Child> = (0..4).map(|_| spawn("turn: build after a short wait", dir.path())).collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    assert!(fs::read(dir.path().join("built")).unwrap().len() <= 4);

    let (turn, warned) = warnings(|| mine(Some(dir.path()), &KEY, &SHORT));
    assert!(!turn.shared());
    assert_eq!(warned.len(), 1, "{warned:?}");
    let who = format!("process {} on ", stopped.id());
    for part in ["code=\"waited-in-vain\"", &who, "with key 070707070707", "locks/07", "advice="] {
        assert!(warned[0].contains(part), "{part} in {warned:?}");
    }
    drop(turn);
    // Keys of the same lock file do not wait for the same holder again: this wait would outlast the test.
    let mut alike = KEY;
    alike[31] ^= 1;
    let (turn, warned) = warnings(|| mine(Some(dir.path()), &alike, &LONG));
    assert!(!turn.shared());
    assert_eq!(warned, [""; 0]);
    drop(turn);

    signal(&stopped, libc::SIGCONT);
    drop(stopped.stdin.take());
    assert!(stopped.wait().unwrap().success());
    assert!(mine(Some(dir.path()), &KEY, &LONG).shared());
}

#[test]
fn a_long_wait_is_warned_of_once_with_who_and_what_and_how_long() {
    let dir = tempfile::tempdir().unwrap();
    let mut holder = holder(dir.path());
    let often = TurnOptions { wait: Duration::from_secs(2), report_every: Duration::from_millis(50) };
    let (_, warned) = warnings(|| mine(Some(dir.path()), &KEY, &often));
    assert_eq!(warned.len(), 2, "{warned:?}");
    let (who, store) = (format!("process {} on ", holder.id()), dir.path().display().to_string());
    for part in ["code=\"waits\"", &who, "a turn to build key 070707070707", &store, "advice=nothing needs doing", "without it in "] {
        assert!(warned[0].contains(part), "{part} in {warned:?}");
    }
    assert!(warned[1].contains("code=\"waited-in-vain\""), "{warned:?}");
    // One thread waits for another: once for a key, however many wait.
    let kept = mine(None, &[0xa8; 32], &LONG);
    let codes = |warned: &[String], code: &str| warned.iter().filter(|text| text.contains(&format!("code=\"{code}\""))).count();
    for told in [1, 0] {
        let (_, warned) = warnings(|| mine(None, &[0xa8; 32], &often));
        assert_eq!([codes(&warned, "waits"), codes(&warned, "waited-in-vain")], [told, 1], "{warned:?}");
    }
    drop(kept);
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
}

#[test]
fn a_killed_holder_frees_its_lock() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = holder(dir.path());
    let (turn, warned) = warnings(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                killed.kill().unwrap();
                killed.wait().unwrap();
            });
            mine(Some(dir.path()), &KEY, &LONG)
        })
    });
    assert!(turn.shared());
    assert_eq!(warned, [""; 0]);
}

#[test]
fn whatever_a_lock_is_refused_with_the_turn_is_given_with_one_warning() {
    let causes = [
        libc::ENOLCK,
        libc::EOPNOTSUPP,
        libc::EACCES,
        libc::EROFS,
        libc::ENOENT,
        libc::ENOSPC,
        libc::EDQUOT,
        libc::EMFILE,
        libc::EIO,
        libc::ESTALE,
    ];
    for site in ["create", "lock", "make-folder", "stat"] {
        for cause in causes {
            let (_dir, store) = new_store();
            let root = store.root().to_owned();
            let (turns, warned) = warnings(|| {
                let hook = move |op: Op<'_>| if op.name() == site { Verdict::Fail(cause) } else { Verdict::Go };
                with_hook(hook, || [1, 2].map(|key| mine(Some(&root), &[key; 32], &LONG).shared()))
            });
            assert_eq!(turns, [false; 2], "{site} {cause}");
            assert_eq!(warned.len(), 1, "{site} {cause}: {warned:?}");
            assert!(warned[0].contains("code=\"no-locks\""), "{warned:?}");
        }
    }
    // Without the holder's text there is a poorer message, and no other harm.
    for site in ["write", "read"] {
        let (_dir, store) = new_store();
        let root = store.root().to_owned();
        // The first turn makes the folder, which reads and writes other files.
        drop(mine(Some(&root), &KEY, &LONG));
        let hook = move |op: Op<'_>| if op.name() == site { Verdict::Fail(libc::EIO) } else { Verdict::Go };
        let (shared, warned) = warnings(|| with_hook(hook, || mine(Some(&root), &KEY, &LONG).shared()));
        assert!(shared);
        assert_eq!(warned, [""; 0]);
    }
}

/// Forks; the child runs `f` and ends without running anything else of this process.
pub(crate) fn fork(f: impl FnOnce()) -> i32 {
    // SAFETY: other threads of this process may be at work, and the child has none of them. It allocates all the same, and for that relies on
    // the C library, whose `fork` takes the locks of its allocator first and gives them back in the child (glibc and musl do), and on Rust's
    // default allocator being that one. Of other locks that a thread may hold, the child takes those of a store, which is what is tested:
    // one that it waited for without end would hang it, and break nothing. It uses no standard stream but its input, unless it fails, and
    // leaves by `_exit`, which runs no handler and no destructor of its parent's.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_ok();
        // SAFETY: ends the child.
        unsafe { libc::_exit(if good { 0 } else { 1 }) };
    }
    pid
}

/// Forks so many children, one after the other, each for some minutes at most; tells how many failed.
pub(crate) fn failed_forks(children: u32, f: impl Fn(u32)) -> usize {
    let statuses = (0..children).map(|n| {
        let child = fork(|| {
            // SAFETY: has the system end this process where it hangs.
            unsafe { libc::alarm(300) };
            f(n);
        });
        exit_status(child)
    });
    statuses.filter(|status| *status != 0).count()
}

pub(crate) fn exit_status(pid: i32) -> i32 {
    let mut status = -1;
    // SAFETY: waits for a child of this process; `status` is valid for writing.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}

/// Takes a turn, forks a child that outlives it, and dies.
fn fork_and_die(root: &Path) {
    let turn = mine(Some(root), &KEY, &LONG);
    assert!(turn.shared());
    fork(|| {
        assert!(!turn.shared(), "a child has no part in its parent's turn");
        // Standard input is the other end of the test.
        until_told();
        fs::write(root.join("survived"), "").unwrap();
    });
    fs::write(root.join("forked"), "").unwrap();
    std::process::abort();
}

#[test]
fn a_child_that_outlives_its_parent_does_not_keep_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let mut parent = spawn("turn: fork and die", dir.path());
    let tell = parent.stdin.take();
    let _ = parent.wait().unwrap();
    assert!(dir.path().join("forked").exists() && !dir.path().join("survived").exists());
    // The child lives until it is told; that it has the lock no longer may take it a moment.
    let (turn, warned) = warnings(|| mine(Some(dir.path()), &KEY, &LONG));
    assert!(turn.shared() && warned.is_empty(), "{warned:?}");
    assert!(!dir.path().join("survived").exists());
    drop(tell);
    let told = Instant::now();
    while !dir.path().join("survived").exists() {
        assert!(told.elapsed() < Duration::from_secs(300), "it has not survived");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Takes a turn and forks a child that drops what it has of it.
fn fork_and_go_on(root: &Path) {
    let mut turn = Some(mine(Some(root), &KEY, &LONG));
    let lock_file = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| to.ends_with("locks/07"));
    let open = fs::read_dir("/proc/self/fd").unwrap().map(Result::unwrap).find(lock_file).unwrap();
    let number: i32 = open.file_name().to_str().unwrap().parse().unwrap();
    let child = fork(|| {
        // A file where the lock file was: closing that number again would close this one.
        let path = root.join("a file");
        let mut files: Vec<File> = Vec::new();
        while files.last().is_none_or(|file| file.as_raw_fd() < number) {
            files.push(OpenOptions::new().append(true).create(true).open(&path).unwrap());
        }
        let file = files.last_mut().unwrap();
        assert_eq!(file.as_raw_fd(), number, "the child has closed the lock file");
        drop(turn.take());
        file.write_all(b"still open").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"still open");
        // The parent still has its turn, and the child waits as any other process does.
        assert!(!mine(Some(root), &KEY, &options(Duration::from_millis(20))).shared());
        // It has turns of its own.
        assert!(mine(Some(root), &[8; 32], &LONG).shared());
    });
    assert_eq!(exit_status(child), 0);
    assert!(turn.is_some_and(|turn| turn.shared()));
}

#[test]
fn a_forked_child_drops_what_it_has_of_a_turn() {
    let dir = tempfile::tempdir().unwrap();
    assert!(spawn("turn: fork and go on", dir.path()).wait().unwrap().success());
}

/// Forks while other threads take turns and give them back: their tables and files are in every state.
fn fork_among_threads(root: &Path) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for first in 0..3 {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    let _turn = mine(Some(root), &[first; 32], &LONG);
                }
            });
        }
        let failed = failed_forks(200, |_| {
            assert!(mine(Some(root), &[9; 32], &LONG).shared());
            // A fork that falls between the opening of a file and its entry leaves a copy here. It is never locked.
            std::thread::sleep(Duration::from_millis(2));
            for entry in fs::read_dir("/proc/self/fdinfo").unwrap() {
                let text = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
                assert!(!text.contains("lock:"), "{text}");
            }
        });
        done.store(true, Relaxed);
        assert_eq!(failed, 0);
    });
}

#[test]
fn a_child_of_a_process_with_busy_threads_takes_turns_and_has_no_file_of_theirs() {
    // What tells of locks in a child tells of them here.
    let dir = tempfile::tempdir().unwrap();
    let turn = mine(Some(dir.path()), &KEY, &LONG);
    let infos = fs::read_dir("/proc/self/fdinfo").unwrap();
    assert!(infos.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok()).any(|text| text.contains("lock:")));
    drop(turn);
    assert!(spawn("turn: fork among threads", dir.path()).wait().unwrap().success());
}
