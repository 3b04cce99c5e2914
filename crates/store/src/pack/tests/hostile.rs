//! Packs whose digests are right and whose content is meant to mislead, exhaust or overflow their reader.

use super::*;

/// The pack with a number of eight bytes in its header changed.
fn with_u64(case: &Case, at: usize, number: u64) -> Result<Arc<Pack>, StoreError> {
    let mut bad = case.bytes();
    bad[at..at + 8].copy_from_slice(&number.to_le_bytes());
    reseal_header(&mut bad);
    case.with(&bad)
}

fn with_u32(case: &Case, at: usize, number: u32) -> Result<Arc<Pack>, StoreError> {
    let mut bad = case.bytes();
    bad[at..at + 4].copy_from_slice(&number.to_le_bytes());
    reseal_header(&mut bad);
    case.with(&bad)
}

fn field(result: Result<Arc<Pack>, StoreError>) -> &'static str {
    match cause(result.unwrap_err()) {
        PackError::Field { field, .. } => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn too_old_and_too_new_are_told_before_anything_else() {
    for (at, number, code) in [(8, 0, "too-old"), (8, 2, "too-new"), (12, 4, "too-new")] {
        let case = Case::new(few(), &[]);
        let mut bad = case.bytes();
        bad[at] = number;
        // Whatever else the versions to come change.
        bad[200..].fill(0xaa);
        let error = case.with(&bad).unwrap_err();
        assert_eq!(error.code(), code);
        assert_eq!((error.is_too_old(), error.is_too_new()), (code == "too-old", code == "too-new"));
        assert!(!error.is_damage());
    }
    let case = Case::new(few(), &[]);
    let mut bad = case.bytes();
    bad[12] = 4;
    assert_eq!(cause(case.with(&bad).unwrap_err()), PackError::Feature { found: 2 });
    assert!(matches!(cause(case.with(&[0x7f; 600]).unwrap_err()), PackError::Magic { .. }));
}

#[test]
fn everything_has_one_place() {
    let case = Case::new(few(), &["a"]);
    let numbers = [0, 1, 64, 512, 1 << 32, u64::MAX, u64::MAX - 63];
    for (at, name) in [(64, "offset of the provenance"), (80, "offset of the values"), (96, "offset of a fan-out"), (104, "offset of rows")]
    {
        let stated = u64::from_le_bytes(case.bytes()[at..at + 8].try_into().unwrap());
        for number in numbers.into_iter().filter(|&number| number != stated) {
            let case = Case::new(few(), &["a"]);
            assert_eq!(field(with_u64(&case, at, number)), name, "{number}");
        }
    }
    for number in [0, 63, 512, u64::MAX] {
        let case = Case::new(few(), &["a"]);
        assert_eq!(field(with_u64(&case, 16, number)), "length", "{number}");
    }
    let case = Case::new(few(), &["a"]);
    let error = with_u64(&case, 16, u64::MAX - 63).unwrap_err();
    assert!(matches!(cause(error), PackError::Length { .. }));
    for at in [10, 24, 88, 120, 152, 223, 224, 479] {
        let case = Case::new(few(), &["a"]);
        let mut bad = case.bytes();
        bad[at] = 1;
        reseal_header(&mut bad);
        assert_eq!(field(case.with(&bad)), "a reserved byte", "{at}");
    }
}

#[test]
fn sizes_are_held_against_limits_before_anything_is_read_or_allocated() {
    let case = Case::new(few(), &["a"]);
    let limit = |result: Result<Arc<Pack>, StoreError>| {
        let error = result.unwrap_err();
        assert_eq!(error.code(), "limit");
        match cause(error) {
            PackError::Limit { limit, .. } => limit,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(limit(with_u32(&case, 112, u32::MAX)), "max_pack_rows");
    let case = Case::new(few(), &["a"]);
    assert_eq!(limit(with_u64(&case, 72, u64::MAX)), "max_provenance_bytes");
    let case = Case::new(few(), &["a"]);
    assert_eq!(field(with_u32(&case, 116, 3)), "bits of a fan-out");
    let case = Case::new(few(), &["a"]);
    assert_eq!(field(with_u32(&case, 116, 200)), "bits of a fan-out");

    let case = Case::new(few(), &["a"]);
    let small = Limits { max_pack_rows: 23, ..Limits::default() };
    assert_eq!(Pack::open(&case.path, &small).map(drop).unwrap_err().code(), "limit");
    assert!(Pack::open(&case.path, &Limits { max_pack_rows: 24, ..small }).is_ok());
    let pack = case.open();
    let row = pack.rows(EntryKind::Plan).map(Result::unwrap).find(|row| row.size == 300).unwrap();
    assert!(pack.read(&row, 300).is_ok());
    for error in [pack.read(&row, 299).map(drop).unwrap_err(), pack.blob(&row, 299).map(drop).unwrap_err()] {
        assert_eq!(error.code(), "limit");
        assert!(matches!(cause(error), PackError::TooLarge { found: 300, max: 299, .. }));
    }
}

/// The pack with a change to its tables, sealed as if a writer had made it so.
fn changed(case: &Case, change: impl FnOnce(&mut [u8], &Pack)) -> Arc<Pack> {
    let mut bad = case.bytes();
    change(&mut bad, &case.open());
    reseal(&mut bad);
    case.with(&bad).unwrap()
}

fn put<const N: usize>(bytes: &mut [u8], at: u64, new: [u8; N]) {
    bytes[at as usize..][..N].copy_from_slice(&new);
}

#[test]
fn a_fan_out_that_misleads_is_found_by_the_lookup() {
    for (bucket, wrong) in [(1, 0_u32), (1, 500), (1, u32::MAX), (0, 1), (0, u32::MAX)] {
        let case = Case::new(many(100), &[]);
        let pack = changed(&case, |bytes, pack| {
            let table = pack.header.table(EntryKind::Blob);
            assert_eq!(table.bits, 3);
            put(bytes, table.fan_out_offset + 4 * bucket, wrong.to_le_bytes());
        });
        let results: Vec<_> = case.entries.iter().map(|(kind, name, _)| pack.find(*kind, name)).collect();
        // Nobody is told that a name is absent that is there.
        assert!(results.iter().all(|result| !matches!(result, Ok(None))), "{bucket}: {wrong}");
        let faults: Vec<_> = results.into_iter().filter_map(Result::err).map(cause).collect();
        assert!(!faults.is_empty() && faults.iter().all(|fault| matches!(fault, PackError::FanOut { .. })), "{bucket}: {wrong}");
        assert!(matches!(cause(pack.check_root().unwrap_err()), PackError::FanOut { .. }), "{bucket}: {wrong}");
    }
}

#[test]
fn rows_that_are_out_of_order_end_the_list() {
    let case = Case::new(many(100), &[]);
    let pack = changed(&case, |bytes, pack| {
        let table = pack.header.table(EntryKind::Blob);
        let [a, b] = [10, 11].map(|row| table.row_offset(row) as usize);
        let row: [u8; 80] = bytes[a..a + 80].try_into().unwrap();
        bytes.copy_within(b..b + 80, a);
        put(bytes, b as u64, row);
    });
    let rows: Vec<_> = pack.rows(EntryKind::Blob).collect();
    assert!(rows.len() < 100 && rows[..rows.len() - 1].iter().all(Result::is_ok));
    assert!(matches!(cause(rows.into_iter().last().unwrap().unwrap_err()), PackError::Row { .. }));
    assert!(matches!(cause(pack.check_root().unwrap_err()), PackError::Row { .. }));
}

#[test]
fn rows_that_share_bytes_or_lead_out_of_the_file_are_refused() {
    let length = Case::new(many(100), &[]).bytes().len() as u64;
    // Offset or size of row 50, and whether a lookup of it alone can see it.
    let cases = [
        (64, 0, true),
        (64, 64, true),
        (64, 1, true),
        (64, u64::MAX, true),
        (64, u64::MAX - 63, true),
        (64, length + 64, true),
        (64, length, true),
        (72, length, true),
        (72, u64::MAX, true),
        (72, u64::MAX - 4, true),
        // Over the values behind it: a pack that is far smaller than what it says it holds.
        (72, 128, false),
    ];
    for (at, number, seen) in cases {
        let case = Case::new(many(100), &[]);
        let pack = changed(&case, |bytes, pack| {
            put(bytes, pack.header.table(EntryKind::Blob).row_offset(50) + at, number.to_le_bytes());
        });
        let rows: Vec<_> = pack.rows(EntryKind::Blob).collect();
        assert!(matches!(cause(rows.into_iter().last().unwrap().unwrap_err()), PackError::Row { .. }), "{at}: {number}");
        assert!(matches!(cause(pack.check_root().unwrap_err()), PackError::Row { .. }), "{at}: {number}");
        let found: Vec<_> = case.entries.iter().map(|(kind, name, _)| pack.find(*kind, name)).filter_map(Result::err).collect();
        assert_eq!(found.len(), usize::from(seen), "{at}: {number}");
    }
    // The last value ends before the file does: room for what no row names.
    let case = Case::new(many(100), &[]);
    let mut bad = [case.bytes(), vec![0; 64]].concat();
    put(&mut bad, 16, (length + 64).to_le_bytes());
    reseal(&mut bad);
    let pack = case.with(&bad).unwrap();
    assert!(matches!(cause(pack.check_root().unwrap_err()), PackError::Field { field: "length", .. }));
}

#[test]
fn a_blob_of_another_name_is_refused_though_its_digest_is_right() {
    let case = Case::new(many(100), &[]);
    let pack = changed(&case, |bytes, pack| {
        let at = pack.header.table(EntryKind::Blob).row_offset(50);
        // The last byte of the name, so that the order stays.
        bytes[at as usize + 31] ^= 1;
    });
    let row = pack.rows(EntryKind::Blob).last().unwrap();
    assert!(matches!(cause(row.unwrap_err()), PackError::Row { field: "digest", .. }));
}

#[test]
fn zeros_between_values_stay_zero() {
    let case = Case::new(many(3), &[]);
    let pack = changed(&case, |bytes, _| *bytes.last_mut().unwrap() = 1);
    pack.check_root().unwrap();
    let error = check_pack(&case.path, &Limits::default()).unwrap_err();
    assert!(matches!(cause(error), PackError::Field { field: "a byte behind a value", .. }));
}

#[test]
fn a_pack_that_nobody_serves_can_be_looked_into() {
    let case = Case::new(few(), &[]);
    for (kind, name, bytes) in &case.entries {
        assert_eq!(find_in_pack(&case.path, *kind, name, &Limits::default()).unwrap().as_deref(), Some(&bytes[..]));
    }
    let (kind, name, _) = &case.entries[5];
    assert!(find_in_pack(&case.path, *kind, &[0; 32], &Limits::default()).unwrap().is_none());
    let small = Limits { max_blob_bytes: 299, max_plan_bytes: 299, max_record_rows: 2, ..Limits::default() };
    let too_large = |kind: EntryKind| {
        let (_, name, _) = case.entries.iter().find(|entry| entry.0 == kind && entry.2.len() == 300).unwrap();
        find_in_pack(&case.path, kind, name, &small).unwrap_err().code()
    };
    assert_eq!(EntryKind::ALL.map(too_large), ["limit"; 4]);
    assert_eq!(find_in_pack(&case.path.with_extension("not"), *kind, name, &small).unwrap_err().code(), "io");
}

#[test]
fn what_is_no_file_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Pack::open(&folder.path().join("none.pack"), &Limits::default()).unwrap().is_none());
    assert_eq!(Pack::open(folder.path(), &Limits::default()).unwrap_err().code(), "foreign");
    let case = Case::new(few(), &[]);
    let link = folder.path().join("link.pack");
    std::os::unix::fs::symlink(&case.path, &link).unwrap();
    assert_eq!(Pack::open(&link, &Limits::default()).unwrap_err().code(), "foreign");
    assert_eq!(check_pack(&folder.path().join("none.pack"), &Limits::default()).unwrap_err().code(), "io");
}

#[test]
fn unreadable_is_not_damaged() {
    use crate::fs::{Op, Verdict, with_hook};
    let case = Case::new(few(), &[]);
    let pack = case.open();
    let (kind, name, _) = &case.entries[0];
    let error = with_hook(|_: Op<'_>| Verdict::Fail(libc::EIO), || pack.find(*kind, name)).unwrap_err();
    assert!(error.is_unreadable() && !error.is_damage());
    assert!(pack.find(*kind, name).unwrap().is_some(), "and passes");
    assert_eq!(pack.status().kind, fs::Kind::File { size: pack.bytes() });
    assert_eq!(pack.path(), case.path);
}
