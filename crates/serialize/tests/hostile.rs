//! No bytes make a reader panic: damaged graph buffers, artifacts and canonical encodings. Run with debug assertions on.

mod common;

use common::{aligned, corpus_graphs};
use hipplan_fuzzing::{Generator, Style};
use hipplan_serialize::ops::Matmul;
use hipplan_serialize::{DataType, GraphBuf, GraphBuilder, Limits, TensorAttributes, VerifiedGraph, canon};
use proptest::prelude::*;

/// Verifies, and if that succeeds asks everything of the graph.
fn exercise(bytes: &[u8]) -> bool {
    let graph = match VerifiedGraph::verify_any(bytes, &Limits::DEFAULT) {
        Ok(graph) => graph,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    for ix in graph.tensor_ixs() {
        let t = graph.tensor(ix);
        assert_eq!(graph.find(t.uid), Some(ix));
        _ = (graph.tensor_label(ix).to_string(), t.elements(), t.span_bytes(), t.is_by_value());
    }
    for node in graph.nodes() {
        _ = (graph.node_label(node).to_string(), graph.op(node), graph.compute_type(node));
        for operand in graph.operands(node) {
            assert_ne!(graph.slot_name(node, operand), "");
        }
    }
    _ = (graph.name(), graph.id(), graph.default_types(), graph.preferred_engine_id(), graph.api_floor());
    if let Ok(canonical) = graph.canonical() {
        let decoded =
            canon::decode(&canonical.encoding, &Limits::DEFAULT).unwrap_or_else(|e| panic!("an encoding that does not decode: {e}"));
        assert_eq!(decoded.view().tensors().len(), canonical.uids.len());
    }
    true
}

#[test]
fn damaged_buffers_of_the_corpus() {
    let (mut tried, mut survived) = (0, 0);
    for (name, graph) in corpus_graphs() {
        let good = graph.buffer();
        assert!(exercise(&aligned(good)), "{name}");
        for end in 0..good.len() {
            exercise(&aligned(&good[..end]));
        }
        let mut bytes = aligned(good);
        for at in 0..good.len() {
            for flip in [0x01, 0x80, 0xff] {
                bytes[at] ^= flip;
                tried += 1;
                survived += usize::from(exercise(&bytes));
                bytes[at] ^= flip;
            }
        }
        // Offsets, lengths and vtables, replaced whole.
        for at in (0..good.len() - 3).step_by(2) {
            for word in [0_u32, 1, 2, 4, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, good.len() as u32 - 1] {
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
                exercise(&bytes);
                bytes[at..at + 4].copy_from_slice(&good[at..at + 4]);
            }
        }
    }
    // Most of a buffer is numbers whose change makes another valid graph, so all of the above is reached.
    assert!(survived > tried / 10, "{survived} of {tried}");
}

#[test]
fn vtables_too_short_for_their_own_header() {
    // The verifier of flatbuffers 25.12.19 accepts a vtable of 0 or 2 bytes, on which `VTable::num_fields` underflows.
    let mut tried = 0;
    for (_, graph) in corpus_graphs() {
        let good = graph.buffer();
        // Wherever two bytes look like the length of a vtable.
        for at in (4..good.len() - 1).step_by(2) {
            let len = u16::from_le_bytes([good[at], good[at + 1]]);
            if (4..120).contains(&len) && len % 2 == 0 {
                for short in [0, 1, 2, 3, 4, 0xffff_u16] {
                    let mut bytes = aligned(good);
                    bytes[at..at + 2].copy_from_slice(&short.to_le_bytes());
                    exercise(&bytes);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 1000);
}

#[test]
fn damaged_canonical_encodings() {
    let decode = |bytes: &[u8]| match canon::decode(bytes, &Limits::DEFAULT) {
        Ok(graph) => assert_eq!(graph.view().canonical().expect("known fields only").encoding, bytes, "decoded, so it is canonical"),
        Err(error) => assert!(!error.to_string().is_empty()),
    };
    for (_, graph) in corpus_graphs() {
        let good = graph.view().canonical().expect("known fields only").encoding;
        decode(&good);
        for end in 0..good.len() {
            assert!(canon::decode(&good[..end], &Limits::DEFAULT).is_err());
        }
        let mut longer = good.clone();
        longer.push(0);
        assert!(canon::decode(&longer, &Limits::DEFAULT).is_err());
        let mut bytes = good.clone();
        for at in 0..good.len() {
            for flip in [0x01, 0x40, 0xff] {
                bytes[at] ^= flip;
                decode(&bytes);
                bytes[at] ^= flip;
            }
        }
    }
}

#[test]
fn an_encoding_is_accepted_only_as_it_is_written() {
    let mut g = GraphBuilder::new();
    let [a, b, c] = [[2, 3], [3, 4], [2, 4]].map(|dims| g.tensor(TensorAttributes::packed(DataType::Float, &dims)));
    g.node("", DataType::Float, Matmul { a, b, c });
    let good = g.build().expect("valid").view().canonical().expect("known fields only").encoding;
    // The same graph with its first two tensors, of 56 bytes each, numbered the other way round.
    let (a, b, end) = (20, 76, 132);
    let mut swapped = [&good[..a], &good[b..end], &good[a..b], &good[end..]].concat();
    let node = swapped.len() - 12;
    (swapped[node], swapped[node + 4]) = (1, 0);
    assert_eq!(canon::decode(&swapped, &Limits::DEFAULT).expect_err("another spelling"), canon::DecodeError::NotCanonical);
    // A stride that addresses nothing, other than as it is normalised.
    let mut g = GraphBuilder::new();
    let [a, b, c] = [[1, 3], [3, 4], [1, 4]].map(|dims| g.tensor(TensorAttributes::packed(DataType::Float, &dims)));
    g.node("", DataType::Float, Matmul { a, b, c });
    let mut stride = g.build().expect("valid").view().canonical().expect("known fields only").encoding;
    assert_eq!(stride[60], 3);
    stride[60] = 5;
    assert_eq!(canon::decode(&stride, &Limits::DEFAULT).expect_err("another spelling"), canon::DecodeError::NotCanonical);
}

#[test]
fn limits_hold_for_encodings() {
    let (_, graph) = corpus_graphs().swap_remove(0);
    let encoding = graph.view().canonical().expect("known fields only").encoding;
    let limits = Limits { max_bytes: encoding.len() as u64 - 1, ..Limits::DEFAULT };
    let error = canon::decode(&encoding, &limits).expect_err("too large");
    assert!(error.to_string().contains("max_bytes"), "{error}");
}

#[test]
fn misaligned_buffers_are_refused() {
    let (_, graph) = corpus_graphs().swap_remove(0);
    let mut bytes = aligned(&[0]);
    bytes.extend_from_slice(graph.buffer());
    let error = VerifiedGraph::verify(&bytes[1..], &Limits::DEFAULT).expect_err("misaligned");
    assert_eq!(error, hipplan_serialize::GraphError::Misaligned);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Several changes at once, on graphs over all operations.
    #[test]
    fn damaged_random_graphs(seed: u64, nodes in 1..4_usize, changes in proptest::collection::vec((any::<u32>(), any::<u8>()), 1..6)) {
        let graph = Generator::random(seed, nodes).graph(&Style { seed });
        let mut bytes = aligned(graph.buffer());
        for (at, value) in changes {
            let at = at as usize % bytes.len();
            bytes[at] = value;
            exercise(&bytes);
        }
        let _ = GraphBuf::new(&bytes, &Limits::DEFAULT);
    }

    #[test]
    fn noise(bytes: Vec<u8>) {
        exercise(&aligned(&bytes));
        prop_assert!(canon::decode(&bytes, &Limits::DEFAULT).is_err());
        let mut framed = b"HPCANON\0\x01\0\0\0\0\0\0\0".to_vec();
        framed.extend(&bytes);
        prop_assert!(canon::decode(&framed, &Limits::DEFAULT).is_err());
    }
}
