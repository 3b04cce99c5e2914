//! Forks of a process whose other threads open and close files of its store.

use crate::child;
use crate::common::new_store;
use crate::turns::{exit_status, fork};
use hipplan_store::{CompactOptions, Mode, Store};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Blobs in the pack.
const BLOBS: u32 = 8;

/// Forks while other threads list the packs anew and open stamps of theirs. The system copies descriptors a little before memory, so what a
/// thread opens in between is what a child could know of and not have.
pub(crate) fn fork_among_listings(root: &Path) {
    let store = Store::open(root, Mode::ReadWrite).unwrap();
    let use_all = |store: &Store| (0..BLOBS).for_each(|n| assert!(store.put_blob(&n.to_le_bytes()).unwrap().persisted.is_persisted()));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (store, done, use_all) = (&store, &done, &use_all);
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
        let forks = (0..300_u32).map(|n| {
            let child = fork(|| {
                // What is opened now may have the number of what the child does not have. The pack is used, listed again and let go of.
                let own = root.join(format!("child {n}"));
                fs::write(&own, n.to_string()).unwrap();
                let file = fs::File::open(&own).unwrap();
                use_all(&store);
                fs::write(root.join("packs/mark child"), "").unwrap();
                use_all(&store);
                assert_eq!(std::io::read_to_string(file).unwrap(), n.to_string());
            });
            exit_status(child)
        });
        let failed = forks.filter(|status| *status != 0).count();
        done.store(true, Relaxed);
        assert_eq!(failed, 0);
    });
}

#[test]
fn a_child_knows_of_no_open_file_that_it_does_not_have() {
    let (_folder, store) = new_store();
    (0..BLOBS).for_each(|n| drop(store.put_blob(&n.to_le_bytes()).unwrap()));
    store.compact(&CompactOptions::default(), &()).unwrap();
    let root = store.root().to_owned();
    assert!(child::command("forks: among listings", &root).status().unwrap().success());
}
