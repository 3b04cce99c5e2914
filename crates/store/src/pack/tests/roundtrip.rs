use super::*;
use crate::fs::{Op, Verdict, with_hook};
use std::cell::RefCell;
use std::rc::Rc;

fn check_all(case: &Case) {
    let pack = case.open();
    pack.check_root().unwrap();
    for (kind, name, bytes) in &case.entries {
        assert_eq!(get(&pack, *kind, name).unwrap().as_deref(), Some(&bytes[..]));
        let row = pack.find(*kind, name).unwrap().unwrap();
        assert!(pack.holds(&row, bytes).unwrap());
        assert!(!pack.holds(&row, &[&bytes[..], b"x"].concat()).unwrap());
        let mut other = bytes.clone();
        if let Some(last) = other.last_mut() {
            *last ^= 1;
            assert!(!pack.holds(&row, &other).unwrap());
        }
        let mut absent = *name;
        absent[30] ^= 0x80;
        assert_eq!(pack.find(*kind, &absent).unwrap(), None);
        let mut streamed = Vec::new();
        let mut take = |piece: &[u8]| {
            streamed.extend_from_slice(piece);
            Ok(())
        };
        pack.stream(&row, &mut take).unwrap();
        assert_eq!(streamed, *bytes);
    }
    let mut ordinal = 0;
    for kind in EntryKind::ALL {
        let rows: Vec<PackRow> = pack.rows(kind).map(Result::unwrap).collect();
        assert_eq!(rows.len(), pack.len(kind) as usize);
        assert!(rows.is_sorted_by(|a, b| a.name < b.name));
        for row in rows {
            assert_eq!((row.kind, row.ordinal), (kind, ordinal));
            assert_eq!(pack.find(kind, &row.name).unwrap(), Some(row));
            ordinal += 1;
        }
    }
    assert_eq!(ordinal as usize, case.entries.len());
    let facts = check_pack(&case.path, &Limits::default()).unwrap();
    assert_eq!(facts.entries.len(), case.entries.len());
    assert_eq!(facts.root.0, *pack.root());
    assert_eq!(facts.bytes, pack.bytes());
}

#[test]
fn every_entry_is_found_and_given_back() {
    check_all(&Case::new(few(), &["b", "a"]));
    check_all(&Case::new(many(5000), &[]));
    check_all(&Case::new(many(1), &[]));
    check_all(&Case::new(Vec::new(), &["of nothing"]));
}

#[test]
fn equal_contents_have_equal_bytes_in_whatever_order_they_come() {
    let forwards = Case::new(few(), &["a", "b"]);
    let mut entries = few();
    entries.reverse();
    entries.rotate_left(5);
    let backwards = Case::new(entries, &["b", "a", "b"]);
    assert_eq!(forwards.bytes(), backwards.bytes());
    assert_eq!(forwards.open().provenance().unwrap(), ["a", "b"]);
    let other = Case::new(few(), &["a"]);
    assert_ne!(forwards.open().root(), other.open().root());
}

#[test]
fn names_that_are_no_digests_are_found_too() {
    // One bucket holds them all.
    let entries: Entries = (0..3000_u32)
        .map(|n| {
            let mut name = [0xee; 32];
            name[28..].copy_from_slice(&(2 * n).to_be_bytes());
            (EntryKind::Selection, name, n.to_le_bytes().to_vec())
        })
        .collect();
    check_all(&Case::new(entries, &[]));
}

#[test]
fn large_blobs_are_mapped_and_outlive_the_name_of_their_pack() {
    let large = entry(EntryKind::Blob, &[7; 300 << 10]);
    let case = Case::new([few(), vec![large.clone()]].concat(), &[]);
    let pack = case.open();
    let row = pack.find(EntryKind::Blob, &large.1).unwrap().unwrap();
    let blob = pack.blob(&row, u64::MAX).unwrap();
    let is_mapped = maps_in(case.path.parent().unwrap()).unwrap();
    assert_eq!(blob.is_mapped(), is_mapped);
    assert!((blob.as_ptr() as usize).is_multiple_of(64));
    drop(pack);
    std::fs::write(case.path.with_extension("new"), [0; 64]).unwrap();
    std::fs::rename(case.path.with_extension("new"), &case.path).unwrap();
    let copy = blob.clone();
    assert_eq!(blob[..], large.2[..]);
    drop(blob);
    assert_eq!(format!("{copy:?}"), format!("Blob {{ len: 307200, mapped: {is_mapped} }}"));
    let owned = Blob::from(copy.into_aligned());
    assert!(!owned.is_mapped());
    assert_eq!(owned.as_ref(), &large.2[..]);
}

#[test]
fn what_cannot_be_mapped_is_read() {
    let large = entry(EntryKind::Blob, &[7; 300 << 10]);
    let case = Case::new(vec![large.clone()], &[]);
    for refused in ["map", "statfs"] {
        let pack = case.open();
        let hook = move |op: Op<'_>| if op.name() == refused { Verdict::Fail(libc::ENODEV) } else { Verdict::Go };
        let blob = with_hook(hook, || {
            let row = pack.find(EntryKind::Blob, &large.1).unwrap().unwrap();
            pack.blob(&row, u64::MAX).unwrap()
        });
        assert!(!blob.is_mapped(), "{refused}");
        assert_eq!(blob[..], large.2[..]);
    }
}

/// The calls that a body makes.
fn calls<T>(body: impl FnOnce() -> T) -> (T, Vec<String>) {
    let calls = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&calls);
    let hook = move |op: Op<'_>| {
        let text = match op {
            Op::Read { len, .. } => format!("read {len}"),
            op => op.name().to_owned(),
        };
        noted.borrow_mut().push(text);
        Verdict::Go
    };
    let value = with_hook(hook, body);
    (value, calls.take())
}

#[test]
fn opening_reads_the_header_and_a_lookup_two_places() {
    let case = Case::new(many(5000), &[]);
    let (pack, opening) = calls(|| case.open());
    assert_eq!(opening, ["open", "stat", "read 512"]);
    let (row, lookup) = calls(|| pack.find(EntryKind::Blob, &case.entries[99].1).unwrap().unwrap());
    let [fan_out, bucket] = &lookup[..] else { panic!("{lookup:?}") };
    assert_eq!(fan_out, "read 8");
    let bucket: usize = bucket.strip_prefix("read ").unwrap().parse().unwrap();
    assert!(bucket <= 40 * 80, "{bucket}");
    let (_, value) = calls(|| pack.read(&row, u64::MAX).unwrap());
    assert_eq!(value, ["read 4"]);
    let (none, absent_kind) = calls(|| pack.find(EntryKind::Plan, &case.entries[99].1).unwrap());
    assert_eq!((none, absent_kind.len()), (None, 0));
}

#[test]
fn writing_gathers_what_it_writes_and_syncs_once() {
    let entries = many(40_000);
    let folder = tempfile::tempdir().unwrap();
    let (written, calls) = calls(|| written(folder.path(), &entries, &[]).unwrap());
    let count = |name| calls.iter().filter(|call| *call == name).count();
    // Values, tables, header.
    assert_eq!((count("create"), count("sync-file")), (1, 1));
    assert_eq!(calls.last().unwrap(), "sync-file");
    let most = (written.bytes >> 20) as usize + 6;
    assert!(count("write") <= most, "{} of {most}", count("write"));
}

#[test]
fn a_fault_of_any_call_of_the_writer_is_an_error_and_leaves_nothing() {
    let entries = few();
    for at in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let seen = Rc::new(RefCell::new(0));
        let (mut next, met) = (0, Rc::clone(&seen));
        let hook = move |op: Op<'_>| {
            next += 1;
            if next - 1 == at && op.name() != "unlink" {
                *met.borrow_mut() = 1;
                return Verdict::Fail(libc::ENOSPC);
            }
            Verdict::Go
        };
        let result = with_hook(hook, || written(folder.path(), &entries, &[]).map(drop));
        if *seen.borrow() == 0 {
            assert!(at >= 5, "{at} calls");
            result.unwrap();
            break;
        }
        assert_eq!(result.unwrap_err().code(), "full", "call {at}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "call {at}");
    }
}

#[test]
fn short_reads_and_writes_change_nothing() {
    let entries = few();
    let case = with_hook(|_: Op<'_>| Verdict::Short(7), || Case::new(entries, &["a"]));
    assert_eq!(case.bytes(), Case::new(few(), &["a"]).bytes());
    with_hook(|_: Op<'_>| Verdict::Short(7), || check_all(&case));
}

#[test]
fn no_pack_is_made_of_what_is_not_right() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |entries: &Entries, provenance: &[&str]| {
        let error = written(folder.path(), entries, provenance).unwrap_err();
        assert_eq!(error.code(), "refused");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        match cause(error) {
            PackError::Refused { what, .. } => what,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(&[few(), few()].concat(), &[]), "an entry");
    assert_eq!(refused(&few(), &["a\nb"]), "a line of provenance");
    assert_eq!(refused(&vec![(EntryKind::Blob, [1; 32], b"x".to_vec())], &[]), "digest of a blob");
    for given in [3, 5] {
        let new = [NewEntry { kind: EntryKind::Plan, name: [1; 32], size: 4 }];
        let result = write(folder.path(), &new, &[], &mut |_, sink| sink(&[0; 5][..given]));
        assert!(matches!(cause(result.unwrap_err()), PackError::Refused { what: "size of an entry", .. }));
    }
    let new = [1, 2].map(|n| NewEntry { kind: EntryKind::Plan, name: [n; 32], size: u64::MAX / 2 });
    let result = write(folder.path(), &new, &[], &mut |_, _| panic!("nothing is asked for"));
    assert!(matches!(cause(result.unwrap_err()), PackError::Refused { what: "the size of all entries", .. }));
    // What the caller cannot read is the caller's error, as it is.
    let new = [NewEntry { kind: EntryKind::Plan, name: [1; 32], size: 4 }];
    let fail = || StoreError::ReadOnly { path: "there".into() };
    let result = write(folder.path(), &new, &[], &mut |_, _| Err(fail()));
    assert!(matches!(result, Err(StoreError::ReadOnly { .. })));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]

    #[test]
    fn whatever_is_packed_is_found(
        values in proptest::collection::vec((0..4_usize, proptest::collection::vec(0_u8.., 0..400)), 0..120),
        lines in proptest::collection::vec("[a-z ü]{1,9}", 0..4),
    ) {
        let mut entries: Entries = values.iter().map(|(kind, bytes)| entry(EntryKind::ALL[*kind], bytes)).collect();
        entries.sort();
        entries.dedup();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        check_all(&Case::new(entries, &lines));
    }
}
