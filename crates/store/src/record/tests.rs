use super::*;

/// Where the digest stands, and where the bytes behind it that it covers too begin.
const DIGEST_AT: usize = 32;
const KEY_AT: usize = 64;

const KEY: [u8; 32] = [0x11; 32];

fn plan(seed: u8) -> PlanRef {
    PlanRef { key: PlanKey([seed; 32]), root: RootHash([seed ^ 0xff; 32]), size: u64::from(seed) << 32 | 0x40 }
}

/// Where records of a kind stand.
fn entries(kind: RecordKind) -> EntryKind {
    if kind == RecordKind::Plan { EntryKind::PlanRecord } else { EntryKind::Selection }
}

fn samples() -> [(RecordKind, Vec<PlanRef>); 4] {
    [
        (RecordKind::Plan, vec![plan(0x11)]),
        (RecordKind::Selection, vec![plan(0x11)]),
        (RecordKind::Selection, vec![plan(3), plan(1), plan(2)]),
        (RecordKind::Set, vec![plan(1), plan(2), plan(3)]),
    ]
}

/// The digest of changed bytes, so that what lies behind the digest check is reached.
fn reseal(bytes: &mut [u8]) {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(&bytes[..DIGEST_AT]).update(&bytes[KEY_AT..]);
    let digest = hasher.finalize();
    bytes[DIGEST_AT..KEY_AT].copy_from_slice(digest.as_bytes());
}

#[test]
fn records_round_trip() {
    for (kind, rows) in samples() {
        let bytes = encode(kind, &KEY, &rows);
        assert_eq!(bytes.len(), 96 + 80 * rows.len());
        assert_eq!(decode(entries(kind), &KEY, &bytes), Ok(Record { kind, rows }));
    }
}

#[test]
fn the_layout_is_frozen() {
    let hex: String = encode(RecordKind::Plan, &KEY, &[plan(0x11)]).iter().map(|b| format!("{b:02x}")).collect();
    let golden = [
        "89485052430d0a1a",
        "0100 0100 01000000",
        "b000000000000000",
        "0000000000000000",
        "9e349fd549ad49825d1378074d11976a0dd38931a861f9e16379b23fd66d7cc8",
        "1111111111111111111111111111111111111111111111111111111111111111",
        "1111111111111111111111111111111111111111111111111111111111111111",
        "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
        "4000000011000000",
        "0000000000000000",
    ];
    assert_eq!(hex, golden.concat().replace(' ', ""));
}

#[test]
fn every_flipped_bit_and_every_truncation_is_refused() {
    for (kind, rows) in samples() {
        let good = encode(kind, &KEY, &rows);
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(decode(entries(kind), &KEY, &bad).is_err(), "bit {bit} of byte {at}");
            }
            assert!(decode(entries(kind), &KEY, &good[..at]).is_err(), "{at} bytes");
        }
        assert!(decode(entries(kind), &KEY, &[&good[..], &[0]].concat()).is_err(), "one byte more");
    }
}

#[test]
fn too_old_and_too_new_are_told_before_anything_else() {
    let mut bytes = encode(RecordKind::Plan, &KEY, &[plan(0x11)]);
    bytes[8] = 0;
    assert_eq!(decode(EntryKind::PlanRecord, &KEY, &bytes), Err(RecordError::TooOld { found: 0 }));
    bytes[8] = 2;
    assert_eq!(decode(EntryKind::PlanRecord, &KEY, &bytes), Err(RecordError::TooNew { found: 2 }));
}

#[test]
fn a_sealed_record_must_still_make_sense() {
    let field = |kind, key: &[u8; 32], bytes: &[u8]| match decode(entries(kind), key, bytes) {
        Err(RecordError::Field { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let good = encode(RecordKind::Selection, &KEY, &[plan(1)]);
    assert_eq!(field(RecordKind::Plan, &KEY, &good), "kind");
    assert_eq!(field(RecordKind::Selection, &[0x12; 32], &good), "request key");
    for at in [24, 31, 168, 175] {
        let mut bad = good.clone();
        bad[at] = 1;
        reseal(&mut bad);
        assert_eq!(field(RecordKind::Selection, &KEY, &bad), "a reserved byte");
    }
    assert_eq!(field(RecordKind::Selection, &KEY, &encode(RecordKind::Selection, &KEY, &[])), "number of rows");
    assert_eq!(field(RecordKind::Plan, &KEY, &encode(RecordKind::Plan, &KEY, &[])), "number of rows");
    assert_eq!(field(RecordKind::Plan, &KEY, &encode(RecordKind::Plan, &KEY, &[plan(0x11); 2])), "number of rows");
    assert_eq!(field(RecordKind::Plan, &KEY, &encode(RecordKind::Plan, &KEY, &[plan(1)])), "plan key of the row");
    for unsorted in [[plan(2), plan(1)], [plan(1); 2]] {
        assert_eq!(field(RecordKind::Set, &KEY, &encode(RecordKind::Set, &KEY, &unsorted)), "order of the rows");
    }
}

#[test]
fn a_hostile_number_of_rows_does_not_allocate() {
    let mut bad = encode(RecordKind::Selection, &KEY, &[plan(1)]);
    bad[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    reseal(&mut bad);
    assert!(matches!(decode(EntryKind::Selection, &KEY, &bad), Err(RecordError::Length { what: "the number of rows", .. })));
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, tail: Vec<u8>) {
        let _ = decode(EntryKind::PlanRecord, &KEY, &bytes);
        let mut sealed = encode(RecordKind::Selection, &KEY, &[plan(1)]);
        sealed.extend_from_slice(&tail);
        let at = bytes.len().min(sealed.len() - KEY_AT);
        sealed[KEY_AT..KEY_AT + at].copy_from_slice(&bytes[..at]);
        reseal(&mut sealed);
        let _ = decode(EntryKind::Selection, &KEY, &sealed);
    }
}
