//! Stores of several machines with one bucket behind them.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;
#[path = "servers/s3.rs"]
mod s3;

use common::{open, unhurried_with};
use hipplan_remote::Remote;
use hipplan_serialize::SelectionKey;
use hipplan_store::{EntryKind, Lookup, Mode, Persisted, RemoteOptions, RemoteTier, Store};
use s3::S3;
use std::path::Path;
use std::sync::Arc;

/// A plan file, whole in itself.
const PLAN: &[u8] = include_bytes!("../../../corpus/golden/v1.cpu.plan");

fn machine(folder: &Path, remote: Remote, write: bool) -> Store {
    Store::open(folder, Mode::ReadWrite).unwrap().with_remote(Arc::new(remote), RemoteOptions { read: true, write })
}

fn hit<T>(lookup: Lookup<T>) -> T {
    lookup.hit().expect("it is there")
}

#[test]
fn what_one_machine_puts_another_finds_and_keeps() {
    let s3 = S3::start();
    let folder = tempfile::tempdir().unwrap();
    let key = SelectionKey([7; 32]);
    let blob = common::noise(100_000);
    let (plan, digest) = {
        let writer = machine(&folder.path().join("writer"), open("s3://plans/fleet", unhurried_with(s3.settings())), true);
        let digest = writer.put_blob(&blob).unwrap().id;
        let plan = writer.put_plan(PLAN).unwrap().id;
        assert!(matches!(writer.put_selection(&key, &[plan]).unwrap(), Persisted::New));
        (plan, digest)
    };
    assert_eq!(s3.files().iter().filter(|file| file.starts_with("fleet/v1/")).count(), 4, "{:?}", s3.files());

    let place = folder.path().join("reader");
    let reader = machine(&place, open("s3://plans/fleet", unhurried_with(s3.settings())), false);
    assert_eq!(hit(reader.find_selection(&key)).plans, [plan]);
    assert_eq!(hit(reader.find_plan(&plan.key)), plan);
    assert_eq!(hit(reader.get_plan(&plan)).bytes(), PLAN);
    assert_eq!(&hit(reader.get_blob(&digest))[..], &blob[..]);

    // It is kept: the bucket is not needed any more.
    let alone = Store::open(&place, Mode::ReadOnly).unwrap();
    assert_eq!(hit(alone.find_selection(&key)).plans, [plan]);
    assert_eq!(hit(alone.get_plan(&plan)).bytes(), PLAN);
    assert_eq!(&hit(alone.get_blob(&digest))[..], &blob[..]);
}

#[test]
fn a_damaged_entry_is_a_miss_and_the_next_put_repairs_it() {
    let s3 = S3::start();
    let folder = tempfile::tempdir().unwrap();
    let blob = common::noise(10_000);
    let writer = machine(&folder.path().join("writer"), open("s3://plans", unhurried_with(s3.settings())), true);
    let digest = writer.put_blob(&blob).unwrap().id;
    let hex = digest.hash.to_string();
    let file = s3.files().into_iter().find(|file| file.starts_with("v1/blob") && file.ends_with(&hex[2..])).unwrap();
    let file = s3.bucket().join(file);
    let good = std::fs::read(&file).unwrap();
    // Entries of one size, of a smaller and of a larger one that unpack, and one that does not.
    let others = [vec![7; 10_000], vec![7; 9_999], vec![7; 10_001]].map(|other| {
        let remote = open("s3://plans/other", unhurried_with(s3.settings()));
        remote.put(EntryKind::Blob, &common::name(other.len() as u8), &other).unwrap();
        let name = common::name(other.len() as u8).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        std::fs::read(s3.bucket().join(format!("other/v1/blob/{}/{}", &name[..2], &name[2..]))).unwrap()
    });
    for (at, bad) in others.into_iter().chain([b"garbage".to_vec()]).enumerate() {
        std::fs::write(&file, &bad).unwrap();
        let reader = machine(&folder.path().join(format!("reader-{at}")), open("s3://plans", unhurried_with(s3.settings())), true);
        assert!(reader.get_blob(&digest).hit().is_none(), "{at}");
        assert_eq!(reader.put_blob(&blob).unwrap().id, digest);
        assert!(std::fs::read(&file).unwrap() == good, "{at}: the bucket has the good one again");
    }
}

#[test]
fn a_dead_remote_changes_no_result() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens at port 1 of this machine.
    let store = machine(folder.path(), open("http://127.0.0.1:1/plans", common::unhurried()), true);
    for of in 0..20 {
        let blob = common::noise(1000 + of);
        let digest = store.put_blob(&blob).unwrap().id;
        assert_eq!(&hit(store.get_blob(&digest))[..], &blob[..]);
    }
    let plan = store.put_plan(PLAN).unwrap().id;
    assert!(store.find_selection(&SelectionKey([9; 32])).hit().is_none());
    assert_eq!(hit(store.get_plan(&plan)).bytes(), PLAN);
}
