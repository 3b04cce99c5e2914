//! Forks of a process whose other threads, or whose own frames, are at work in its store.

use crate::child;
use crate::common::{new_store, tree};
use crate::turns::{exit_status, failed_forks};
use arc_swap::ArcSwap;
use hipplan_serialize::Digest;
use hipplan_store::{CompactOptions, GcOptions, Mode, Store, UpkeepProgress};
use std::cell::Cell;
use std::fs::{self, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// Blobs in the pack.
const BLOBS: u32 = 8;

fn use_all(store: &Store) {
    (0..BLOBS).for_each(|n| assert!(store.put_blob(&n.to_le_bytes()).unwrap().persisted.is_persisted()));
}

/// Forks while other threads list the packs anew and open stamps of theirs, and packs by handles of their own. The system copies descriptors a
/// little before memory, so what a thread opens in between is what a child could know of and not have.
pub(crate) fn fork_among_listings(root: &Path) {
    let store = Store::open(root, Mode::ReadWrite).unwrap();
    let blob = Digest::of(&0_u32.to_le_bytes());
    let open = || Arc::new(Store::open(root, Mode::ReadWrite).unwrap());
    // What a thread has opened last, and opens the pack of. Small values are read through the descriptor of their pack.
    let latest = ArcSwap::new(open());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                let store = open();
                latest.store(Arc::clone(&store));
                assert!(store.get_blob(&blob).hit().is_some());
            }
        });
        for thread in 0..2 {
            let (store, done) = (&store, &done);
            let mark = root.join("packs").join(format!("mark {thread}"));
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    // The folder has changed, so it is listed again.
                    fs::write(&mark, "").unwrap();
                    use_all(store);
                    fs::remove_file(&mark).unwrap();
                }
            });
        }
        let failed = failed_forks(300, |n| {
            // What is opened now may have the number of what the child does not have. The pack is used, listed again and let go of.
            let own = root.join(format!("child {n}"));
            fs::write(&own, n.to_string()).unwrap();
            let file = fs::File::open(&own).unwrap();
            assert!(latest.swap(Arc::new(store.clone())).get_blob(&blob).hit().is_some());
            use_all(&store);
            let mark = root.join("packs/mark child");
            fs::write(&mark, "").unwrap();
            use_all(&store);
            fs::remove_file(mark).unwrap();
            assert_eq!(std::io::read_to_string(file).unwrap(), n.to_string());
        });
        done.store(true, Relaxed);
        assert_eq!(failed, 0);
    });
}

#[test]
fn a_child_knows_of_no_open_file_that_it_does_not_have() {
    let (_folder, store) = new_store();
    use_all(&store);
    store.compact(&CompactOptions::default(), &()).unwrap();
    let root = store.root().to_owned();
    assert!(child::command("forks: among listings", &root).status().unwrap().success());
}

/// Forks at every step; the child leaves through the frames that are at work.
struct Forks<'r> {
    root: &'r Path,
    steps: Cell<u32>,
}

impl UpkeepProgress for Forks<'_> {
    fn step(&self, _: &'static str, _: u64, _: u64) {
        let before = tree(self.root);
        // SAFETY: this process has no other thread but those that renew claims, which hold no lock that the child would need.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: has the system end this process where it hangs.
            unsafe { libc::alarm(60) };
            resume_unwind(Box::new(Leaves));
        }
        assert_eq!(exit_status(child), 0);
        assert!(before == tree(self.root), "the child has changed something");
        let lock = fs::File::open(self.root.join("locks/upkeep")).unwrap();
        assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)), "the child has given the lock back");
        self.steps.set(self.steps.get() + 1);
    }
}

/// What a child unwinds with.
struct Leaves;

pub(crate) fn fork_in_upkeep(root: &Path) {
    let store = Store::open(root, Mode::ReadWrite).unwrap();
    let forks = Forks { root, steps: Cell::new(0) };
    let parent = std::process::id();
    let work = || {
        store.compact(&CompactOptions::default(), &forks).unwrap();
        let mut options = GcOptions::default();
        options.now = SystemTime::now() + Duration::from_secs(7200);
        store.gc(&options, &forks).unwrap()
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(report) => assert_eq!((report.blobs, std::process::id()), (u64::from(BLOBS), parent)),
        Err(panic) if panic.is::<Leaves>() => {
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) }
        }
        Err(panic) => resume_unwind(panic),
    }
    assert!(forks.steps.get() > 2);
}

#[test]
fn a_child_that_leaves_the_middle_of_upkeep_ends_nothing_of_its_parents() {
    let (_folder, store) = new_store();
    use_all(&store);
    let root = store.root().to_owned();
    assert!(child::command("forks: in the middle of upkeep", &root).status().unwrap().success());
}
