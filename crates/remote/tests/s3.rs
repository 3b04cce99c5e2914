//! Against a real S3 server: what is put is found, by others too, and nothing that is there is written again.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;
#[path = "servers/s3.rs"]
mod s3;

use common::{name, noise, open, there_and_back, unhurried, unhurried_with};
use hipplan_remote::Options;
use hipplan_store::{EntryKind, RemoteErrorKind, RemoteTier};
use s3::{KEY, S3, SECRET};

#[test]
fn entries_of_every_kind_there_and_back() {
    let s3 = S3::start();
    there_and_back(&open("s3://plans/team/a", unhurried_with(s3.settings())));
    there_and_back(&open("s3://plans", unhurried_with(s3.settings())));
}

#[test]
fn keys_and_bytes_are_what_the_documents_say() {
    let s3 = S3::start();
    let remote = open("s3://plans/team", unhurried_with(s3.settings()));
    assert_eq!(remote.name(), "s3://plans/team");
    let entry = vec![5; 1000];
    remote.put(EntryKind::Plan, &name(1), &entry).unwrap();
    let files: Vec<String> = s3.files().into_iter().filter(|file| file.starts_with("team/")).collect();
    assert_eq!(files, ["team/v1/plan/1f/202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e"]);
    let stored = std::fs::read(s3.bucket().join(&files[0])).unwrap();
    assert_eq!(&stored[..8], b"\x89HPRM\r\n\x1a");
    assert_eq!(stored[8..16], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(stored[16..24], 1000_u64.to_le_bytes());
    assert_eq!(stored[24..28], [0x28, 0xb5, 0x2f, 0xfd], "a zstd frame");
    assert_eq!(zstd::decode_all(&stored[24..]).unwrap(), entry);
}

#[test]
fn another_process_finds_what_one_has_put() {
    let s3 = S3::start();
    open("s3://plans/p", unhurried_with(s3.settings())).put(EntryKind::Blob, &name(1), b"entry").unwrap();
    let other = open("s3://plans/p", unhurried_with(s3.settings()));
    assert_eq!(other.get(EntryKind::Blob, &name(1), 5).unwrap().as_deref(), Some(&b"entry"[..]));
    assert_eq!(open("s3://plans/q", unhurried_with(s3.settings())).get(EntryKind::Blob, &name(1), 5).unwrap(), None);
}

#[test]
fn blobs_and_plans_are_put_once_and_records_are_replaced() {
    let s3 = S3::start();
    let (first, second) = (open("s3://plans", unhurried_with(s3.settings())), open("s3://plans", unhurried_with(s3.settings())));
    for (kind, stays) in [(EntryKind::Blob, true), (EntryKind::Plan, true), (EntryKind::PlanRecord, false), (EntryKind::Selection, false)] {
        first.put(kind, &name(1), b"first").unwrap();
        second.put(kind, &name(1), b"second").unwrap();
        let expected: &[u8] = if stays { b"first" } else { b"second" };
        assert_eq!(first.get(kind, &name(1), 9).unwrap().as_deref(), Some(expected), "{kind:?}");
    }
}

#[test]
fn what_was_got_and_is_put_again_was_bad_and_is_replaced() {
    let s3 = S3::start();
    let remote = open("s3://plans", unhurried_with(s3.settings()));
    remote.put(EntryKind::Blob, &name(1), b"good").unwrap();
    let file = s3.bucket().join(s3.files().into_iter().find(|file| file.starts_with("v1/blob")).unwrap());
    // A whole entry with wrong content: only the store, which knows the hash, can tell.
    open("s3://plans", unhurried_with(s3.settings())).put(EntryKind::Blob, &name(2), b"evil").unwrap();
    let other = s3.files().into_iter().find(|found| found.starts_with("v1/blob") && !file.ends_with(found)).unwrap();
    std::fs::copy(s3.bucket().join(other), &file).unwrap();
    let reader = open("s3://plans", unhurried_with(s3.settings()));
    assert_eq!(reader.get(EntryKind::Blob, &name(1), 9).unwrap().as_deref(), Some(&b"evil"[..]));
    reader.put(EntryKind::Blob, &name(1), b"good").unwrap();
    assert_eq!(reader.get(EntryKind::Blob, &name(1), 9).unwrap().as_deref(), Some(&b"good"[..]));
    // One that does not even unpack.
    std::fs::write(&file, b"garbage").unwrap();
    let reader = open("s3://plans", unhurried_with(s3.settings()));
    let error = reader.get(EntryKind::Blob, &name(1), 9).unwrap_err();
    assert!(error.message.contains("damaged there"), "{}", error.message);
    reader.put(EntryKind::Blob, &name(1), b"good").unwrap();
    assert_eq!(reader.get(EntryKind::Blob, &name(1), 9).unwrap().as_deref(), Some(&b"good"[..]));
}

#[test]
fn limits_hold() {
    let s3 = S3::start();
    let remote = open("s3://plans", unhurried_with(s3.settings()));
    let entry = noise(5000);
    remote.put(EntryKind::Blob, &name(1), &entry).unwrap();
    assert_eq!(remote.get(EntryKind::Blob, &name(1), 5000).unwrap().unwrap(), entry);
    for limit in [4999, 100, 0] {
        assert_eq!(remote.get(EntryKind::Blob, &name(1), limit).unwrap_err().kind, RemoteErrorKind::TooLarge, "{limit}");
    }
    // Small in the bucket, large when unpacked.
    remote.put(EntryKind::Blob, &name(2), &vec![0; 32 << 20]).unwrap();
    assert_eq!(remote.get(EntryKind::Blob, &name(2), 1 << 20).unwrap_err().kind, RemoteErrorKind::TooLarge);
    // Not a reason to leave the remote alone.
    assert_eq!(remote.get(EntryKind::Blob, &name(3), 1 << 20).unwrap(), None);
}

#[test]
fn wrong_credentials_are_said_and_never_shown() {
    let s3 = S3::start();
    let mut options = unhurried();
    options.settings = s3::settings(s3.address, "another-secret-of-the-tests");
    assert!(!format!("{options:?}").contains("another-secret"), "{options:?}");
    let remote = open("s3://plans", options);
    assert!(!format!("{remote:?}").contains("another-secret"), "{remote:?}");
    let error = remote.get(EntryKind::Blob, &name(1), 9).unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Refused);
    assert!(error.message.contains("SignatureDoesNotMatch"), "{}", error.message);
    for secret in ["another-secret-of-the-tests", SECRET, KEY] {
        assert!(!error.message.contains(secret), "{}", error.message);
    }
}

#[test]
fn many_threads_share_one_remote_inside_and_outside_of_a_runtime() {
    let s3 = S3::start();
    let remote = open("s3://plans", unhurried_with(s3.settings()));
    let job = |of: u8| {
        let entry = noise(usize::from(of) * 1000);
        remote.put(EntryKind::Blob, &name(of), &entry).unwrap();
        assert_eq!(remote.get(EntryKind::Blob, &name(of), 1 << 20).unwrap().unwrap(), entry);
    };
    std::thread::scope(|scope| {
        for of in 0..16 {
            scope.spawn(move || {
                if of % 2 == 0 {
                    job(of);
                } else {
                    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async { job(of) });
                }
            });
        }
    });
}

#[test]
fn settings_that_nobody_knows_are_refused() {
    let mut options = Options::default();
    options.settings = vec![("aws_endpint".into(), "http://127.0.0.1:1".into())];
    let error = hipplan_remote::Remote::open("s3://plans", options).unwrap_err().to_string();
    assert!(error.contains("s3://plans") && error.contains("aws_endpint"), "{error}");
}

/// Several processes put and get the same entries at the same time, as a fleet does that compiles one list.
#[test]
fn many_processes_share_one_bucket() {
    let entry = |of: u8| noise(1000 + usize::from(of));
    if let Some(address) = std::env::var_os("HIPPLAN_TEST_S3") {
        let remote = open("s3://plans/fleet", unhurried_with(s3::settings(address.to_str().unwrap().parse().unwrap(), s3::SECRET)));
        for of in 0..20 {
            remote.put(EntryKind::Blob, &name(of), &entry(of)).unwrap();
            remote.put(EntryKind::Selection, &name(of), &entry(of)).unwrap();
            assert_eq!(remote.get(EntryKind::Blob, &name(of), 1 << 20).unwrap(), Some(entry(of)));
            assert_eq!(remote.get(EntryKind::Selection, &name(of), 1 << 20).unwrap(), Some(entry(of)));
        }
        return;
    }
    let s3 = S3::start();
    let children: Vec<_> = (0..4)
        .map(|_| {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "many_processes_share_one_bucket"])
                .env("HIPPLAN_TEST_S3", s3.address.to_string())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let remote = open("s3://plans/fleet", unhurried_with(s3.settings()));
    for of in 0..20 {
        assert_eq!(remote.get(EntryKind::Blob, &name(of), 1 << 20).unwrap(), Some(entry(of)));
    }
    assert_eq!(s3.files().iter().filter(|file| file.starts_with("fleet/v1/blob/")).count(), 20);
}
