use super::*;

/// The damaged pack answers right or not at all: wrong bytes never, a panic never. Tells how many entries were not to be had.
fn answers(case: &Case, damaged: &Result<Arc<Pack>, StoreError>, what: &str) -> usize {
    let pack = match damaged {
        Ok(pack) => pack,
        Err(_) => return case.entries.len(),
    };
    let mut lost = 0;
    for (kind, name, bytes) in &case.entries {
        match get(pack, *kind, name) {
            Ok(Some(found)) => assert_eq!(found[..], bytes[..], "{what}"),
            Ok(None) | Err(_) => lost += 1,
        }
    }
    lost
}

#[test]
fn whatever_byte_is_changed_no_lookup_gives_wrong_bytes_and_a_check_finds_it() {
    let case = Case::new(few(), &["somewhere"]);
    let good = case.bytes();
    for at in 0..good.len() {
        for change in [1, 0xfe] {
            let mut bad = good.clone();
            bad[at] ^= change;
            let damaged = case.with(&bad);
            let lost = answers(&case, &damaged, &format!("byte {at}"));
            if at < 512 {
                assert!(damaged.is_err(), "byte {at} of the header");
            } else if at >= u64::from_le_bytes(good[80..88].try_into().unwrap()) as usize {
                assert!(lost <= 1, "byte {at} is in one value at most, and {lost} entries are lost");
            }
            let error = check_pack(&case.path, &Limits::default()).unwrap_err();
            assert!(["damaged", "too-old", "too-new"].contains(&error.code()), "byte {at}: {error}");
        }
    }
}

#[test]
fn whatever_the_tables_say_no_lookup_gives_wrong_bytes_even_if_the_digests_are_right() {
    let case = Case::new(few(), &["somewhere"]);
    let good = case.bytes();
    let values = u64::from_le_bytes(good[80..88].try_into().unwrap()) as usize;
    let [provenance, rows @ ..] = [64, 136, 168, 200].map(|at| u64::from_le_bytes(good[at..at + 8].try_into().unwrap()) as usize);
    for at in 0..values {
        for change in [1, 0x40, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= change;
            reseal(&mut bad);
            let damaged = case.with(&bad);
            answers(&case, &damaged, &format!("byte {at}"));
            // What is accepted is another pack: one with another name in it, or of other provenance.
            let sealed_again = (32..64).contains(&at) || (480..512).contains(&at);
            if let (Ok(facts), false) = (check_pack(&case.path, &Limits::default()), sealed_again) {
                assert_ne!(facts.root.0[..], good[32..64], "byte {at}");
                let in_name = |&rows: &usize| (rows..rows + 480).contains(&at) && (at - rows) % 80 < 32;
                assert!(at >= provenance || rows.iter().any(in_name), "byte {at}");
            }
        }
    }
}

#[test]
fn cut_short_or_grown_it_is_refused() {
    let case = Case::new(few(), &[]);
    let good = case.bytes();
    for length in (0..good.len()).step_by(7) {
        let error = case.with(&good[..length]).unwrap_err();
        assert_eq!(error.code(), "damaged", "{length} bytes");
    }
    let grown = |extra: usize| case.with(&[&good[..], &vec![0; extra]].concat());
    assert!(matches!(cause(grown(1).unwrap_err()), PackError::Length { .. }));
    assert!(matches!(cause(grown(127).unwrap_err()), PackError::Length { .. }));
    assert!(matches!(cause(grown(65 * 128).unwrap_err()), PackError::Length { .. }));
    let unsigned = grown(128).unwrap();
    assert!(matches!(cause(unsigned.signatures().unwrap_err()), PackError::Field { .. }));
    assert_eq!(answers(&case, &Ok(unsigned), "what is no signature does not sink the rest"), 0);
}

#[test]
fn cut_short_under_a_reader_it_is_an_error_of_the_lookup() {
    let large = entry(EntryKind::Blob, &[7; 300 << 10]);
    let case = Case::new(vec![large.clone()], &[]);
    let pack = case.open();
    let row = pack.find(EntryKind::Blob, &large.1).unwrap().unwrap();
    // It is mapped once, and then cut by somebody who is not hipplan.
    assert_eq!(pack.blob(&row, u64::MAX).unwrap().is_mapped(), maps_in(case.path.parent().unwrap()).unwrap());
    std::fs::File::options().write(true).open(&case.path).unwrap().set_len(4096).unwrap();
    for error in [pack.blob(&row, u64::MAX).map(drop).unwrap_err(), pack.read(&row, u64::MAX).map(drop).unwrap_err()] {
        assert!(matches!(cause(error), PackError::CutShort { .. }));
    }
    assert!(!pack.holds(&row, &large.2).unwrap());
}

#[test]
fn one_bad_value_costs_one_entry() {
    let case = Case::new(few(), &[]);
    let mut bad = case.bytes();
    let victim = case.open().rows(EntryKind::Plan).last().unwrap().unwrap();
    bad[victim.offset as usize] ^= 1;
    let pack = case.with(&bad).unwrap();
    pack.check_root().unwrap();
    let error = get(&pack, victim.kind, &victim.name).unwrap_err();
    assert!(error.is_damage());
    let text = error.to_string();
    assert!(text.contains("00000001-aa.pack") && text.contains(&victim.id().to_string()), "{text}");
    assert_eq!(answers(&case, &Ok(pack), "the rest"), 1);
}

#[test]
fn signatures_are_read_as_they_stand() {
    let case = Case::new(few(), &[]);
    let root = *case.open().root();
    let blocks = [1, 2].map(|n| SignatureBlock { public_key: [n; 32], signature: [n; 64] });
    let pack = case.with(&[case.bytes(), blocks[0].encode().to_vec(), blocks[1].encode().to_vec()].concat()).unwrap();
    assert_eq!(pack.signatures().unwrap(), blocks);
    assert_eq!(*pack.root(), root, "a signature changes no root");
    assert_eq!(check_pack(&case.path, &Limits::default()).unwrap().signed_by, [[1; 32], [2; 32]]);
}
