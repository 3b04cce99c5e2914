//! The native graph artifact: no changed, missing or added byte goes unnoticed, and too old, too new and damaged are told apart.

mod common;

use common::{aligned, corpus_graphs};
use hipplan_serialize::artifact::{Artifact, ArtifactError, HEADER_LEN, is_artifact};
use hipplan_serialize::{GraphBuf, GraphError, Limits, VerifiedGraph};

/// The smallest graph of the corpus, as a file.
fn small() -> Vec<u8> {
    let graphs = corpus_graphs();
    let (_, graph) = graphs.iter().min_by_key(|(_, g)| g.buffer().len()).expect("some");
    graph.view().to_artifact().to_vec()
}

/// The header of `docs/format.md`, written again by hand.
fn by_hand(version: u16, stamp: u32, buffer: &[u8]) -> Vec<u8> {
    let mut file = b"\x89HPGR\r\n\x1a".to_vec();
    file.extend(version.to_le_bytes());
    file.extend([0; 2]);
    file.extend(stamp.to_le_bytes());
    file.extend((buffer.len() as u64).to_le_bytes());
    file.extend([0; 8]);
    assert_eq!(file.len(), 32);
    rehash(file, buffer)
}

/// Puts the digest of the first 32 bytes and the buffer behind them.
fn rehash(mut head: Vec<u8>, buffer: &[u8]) -> Vec<u8> {
    head.truncate(32);
    let digest = blake3::Hasher::new_derive_key("hipplan graph artifact 1").update(&head).update(buffer).finalize();
    head.extend(digest.as_bytes());
    head.extend(buffer);
    head
}

fn error(file: &[u8]) -> ArtifactError {
    match VerifiedGraph::verify_any(&aligned(file), &Limits::DEFAULT) {
        Err(GraphError::Artifact(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_documented_layout_is_what_is_written() {
    for (name, graph) in corpus_graphs() {
        let stamp = graph.view().min_reader_version();
        assert_eq!(graph.view().to_artifact().as_slice(), by_hand(1, stamp, graph.buffer()), "{name}");
    }
}

#[test]
fn every_change_of_a_single_byte_is_refused() {
    let good = small();
    assert!(VerifiedGraph::verify_any(&aligned(&good), &Limits::DEFAULT).is_ok());
    let mut file = aligned(&good);
    for at in 0..good.len() {
        for change in 1..=255 {
            file[at] ^= change;
            let result = Artifact::parse(&file);
            assert!(result.is_err(), "byte {at} ^ {change:#x}");
            file[at] ^= change;
        }
        // Without its magic a file might still be a bare buffer: it is none.
        file[at] ^= 0x10;
        assert!(VerifiedGraph::verify_any(&file, &Limits::DEFAULT).is_err(), "byte {at}");
        file[at] ^= 0x10;
    }
}

#[test]
fn every_truncation_and_every_added_byte_is_refused() {
    let good = small();
    for end in 0..good.len() {
        assert!(GraphBuf::new(&good[..end], &Limits::DEFAULT).is_err(), "{end} bytes");
        let error = Artifact::parse(&good[..end]).expect_err("truncated");
        let expected =
            if end < HEADER_LEN { matches!(error, ArtifactError::TooShort { .. }) } else { matches!(error, ArtifactError::Length { .. }) };
        assert!(expected, "{end} bytes: {error}");
    }
    for more in [&[0][..], &[0; 64], b"\n"] {
        let mut file = good.clone();
        file.extend(more);
        assert!(matches!(error(&file), ArtifactError::Length { .. }));
    }
}

#[test]
fn old_new_and_damaged_are_three_errors() {
    let good = small();
    let buffer = &good[HEADER_LEN..];
    let state = |e: &ArtifactError| (e.is_too_old(), e.is_too_new());

    let old = error(&by_hand(0, 0, buffer));
    assert_eq!((state(&old), &old), ((true, false), &ArtifactError::TooOld { found: 0, expected: 1 }));
    for version in [2, 0x0100, u16::MAX] {
        let new = error(&by_hand(version, 0, buffer));
        assert_eq!((state(&new), &new), ((false, true), &ArtifactError::TooNew { found: version, expected: 1 }));
    }
    let new = error(&by_hand(1, 2, buffer));
    assert_eq!((state(&new), &new), ((false, true), &ArtifactError::ReaderVersion { found: 2, known: 1 }));

    let mut damaged = good.clone();
    damaged[HEADER_LEN + 5] ^= 1;
    let damaged = error(&damaged);
    assert!(matches!(damaged, ArtifactError::Digest { .. }));
    assert_eq!(state(&damaged), (false, false));
    assert_eq!(state(&error(&by_hand(1, 1, buffer))), (false, false), "a stamp that disagrees");
    // The version is looked at before the digest: a newer file need not be hashed as this one is.
    let mut newer = good.clone();
    newer[8] = 9;
    assert!(error(&newer).is_too_new());
    // Text mode and other mangling shows in the magic.
    assert!(is_artifact(&good));
    assert!(matches!(Artifact::parse(&[b'x'; 64]), Err(ArtifactError::Magic { .. })));
    assert!(matches!(Artifact::parse(b""), Err(ArtifactError::TooShort { found: 0 })));
}

#[test]
fn an_artifact_in_order_around_a_bad_buffer_is_a_bad_graph() {
    for buffer in [&b""[..], b"\0\0\0", b"not a flatbuffer"] {
        let result = GraphBuf::new(&by_hand(1, 0, buffer), &Limits::DEFAULT);
        assert!(matches!(result, Err(GraphError::Structure(_))), "{result:?}");
    }
}
