//! The guard against readers that would drop the flag (R16 §4.10).

use crate::graphs::{State, scale_in};
use flatbuffers::{FlatBufferBuilder, WIPOffset};
use hipplan::artifact::{Artifact, ArtifactError};
use hipplan::{ApiVersion, GraphBuf, GraphError, Limits, VerifiedGraph};
use hipplan_serialize::wire::generated as wire;

#[test]
fn r16_reader_guard_stamps_runtime_graphs_and_no_others() {
    for (state, version, floor) in [
        (State::Supplied, 1, ApiVersion::RUNTIME_PASS_BY_VALUE),
        (State::Defaulted, 1, ApiVersion::RUNTIME_PASS_BY_VALUE),
        (State::Constant, 0, ApiVersion::BASELINE),
    ] {
        let graph = scale_in(state, 1.0);
        let artifact = graph.view().to_artifact();
        assert_eq!(Artifact::parse(&artifact).expect("an artifact").min_reader_version, version, "{state:?}");
        // hipDNN's own slot carries the floor: a uint once, which was replaced by a version.
        let root = flatbuffers::root::<wire::Graph<'_>>(graph.buffer()).expect("well-formed");
        let stamp = root.min_required_engine_api_version().expect("always written");
        assert_eq!((stamp.major(), stamp.minor(), stamp.patch()), (floor.major, floor.minor, floor.patch), "{state:?}");
    }
}

#[test]
fn r16_reader_guard_refuses_a_graph_that_asks_for_a_newer_reader() {
    let graph = scale_in(State::Supplied, 1.0);
    // Before anything else is read: what follows is no graph at all.
    for version in [2, 9, u32::MAX] {
        let artifact = Artifact { min_reader_version: version, buffer: b"no graph" }.to_bytes();
        let error = VerifiedGraph::verify_any(&artifact, &Limits::DEFAULT).expect_err("too new");
        assert_eq!(error, GraphError::Artifact(ArtifactError::ReaderVersion { found: version, known: 1 }));
    }
    // A stamp that leaves the flag out is a lie, and is not believed: an older reader would have taken the graph.
    let artifact = Artifact { min_reader_version: 0, buffer: graph.buffer() }.to_bytes();
    let error = VerifiedGraph::verify_any(&artifact, &Limits::DEFAULT).expect_err("it has a runtime scalar");
    assert_eq!(error, GraphError::Artifact(ArtifactError::Stamp { found: 0, expected: 1 }));
    let constant = scale_in(State::Constant, 1.0);
    assert!(GraphBuf::new(&constant.view().to_artifact(), &Limits::DEFAULT).is_ok(), "which loads everywhere");
}

#[test]
fn r16_reader_guard_refuses_hipdnn_stamps_from_the_future() {
    let graph = scale_in(State::Supplied, 1.0);
    let bytes = graph.buffer().to_vec();
    let stamp: Vec<u8> = [1_u32, 2, 0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let at: Vec<usize> = (0..bytes.len() - 12).filter(|&at| bytes[at..at + 12] == stamp).collect();
    let [at] = at[..] else { panic!("the stamp stands in the buffer {} times", at.len()) };
    for (version, known) in [([1_u32, 4, 0], true), ([1, 5, 0], false), ([2, 0, 0], false)] {
        let mut changed = bytes.clone();
        for (word, byte) in version.iter().zip((at..).step_by(4)) {
            changed[byte..byte + 4].copy_from_slice(&word.to_le_bytes());
        }
        let result = GraphBuf::new(&changed, &Limits::DEFAULT);
        assert_eq!(result.is_ok(), known, "{version:?}");
        assert!(result.err().is_none_or(|e| e.is_too_new()), "{version:?}");
    }
}

/// `y = s + s`, s a user-supplied scalar, with the stamp as the RFC has it: a number, in the slot that later got a version.
fn stamped_by_number(stamp: u32) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let tensor = |fbb: &mut FlatBufferBuilder<'_>, uid: i64, is_runtime: bool| {
        let (dims, strides) = (fbb.create_vector(&[1_i64]), fbb.create_vector(&[1_i64]));
        let start = fbb.start_table();
        fbb.push_slot_always(wire::TensorAttributes::VT_UID, uid);
        fbb.push_slot_always(wire::TensorAttributes::VT_DATA_TYPE, wire::DataType::FLOAT);
        fbb.push_slot_always(wire::TensorAttributes::VT_DIMS, dims);
        fbb.push_slot_always(wire::TensorAttributes::VT_STRIDES, strides);
        fbb.push_slot_always(wire::TensorAttributes::VT_IS_RUNTIME_PASS_BY_VALUE, is_runtime);
        let end = fbb.end_table(start);
        WIPOffset::<wire::TensorAttributes<'_>>::new(end.value())
    };
    let tensors = [tensor(&mut fbb, 1, true), tensor(&mut fbb, 2, false)];
    // Pointwise: the mode (add is 2), in_0, in_1, out_0.
    let start = fbb.start_table();
    fbb.push_slot_always(4_u16, 2_i8);
    for (slot, uid) in [(5_u16, 1_i64), (6, 1), (8, 2)] {
        fbb.push_slot_always(4 + 2 * slot, uid);
    }
    let op = fbb.end_table(start);
    let start = fbb.start_table();
    fbb.push_slot_always(wire::Node::VT_ATTRIBUTES_TYPE, 2_u8);
    fbb.push_slot_always(wire::Node::VT_ATTRIBUTES, op);
    let node = fbb.end_table(start);
    let nodes = fbb.create_vector(&[WIPOffset::<wire::Node<'_>>::new(node.value())]);
    let tensors = fbb.create_vector(&tensors);
    let start = fbb.start_table();
    fbb.push_slot_always(wire::Graph::VT_TENSORS, tensors);
    fbb.push_slot_always(wire::Graph::VT_NODES, nodes);
    fbb.push_slot_always(wire::Graph::VT_COMPUTE_DATA_TYPE, wire::DataType::FLOAT);
    fbb.push_slot_always(wire::Graph::VT_MIN_REQUIRED_ENGINE_API_VERSION, stamp);
    let root = fbb.end_table(start);
    fbb.finish_minimal(root);
    fbb.finished_data().to_vec()
}

#[test]
fn r16_reader_guard_honours_the_number_of_the_rfc_in_hipdnn_graphs() {
    let graph = GraphBuf::new(&stamped_by_number(1), &Limits::DEFAULT).unwrap_or_else(|e| panic!("{e}"));
    assert!(graph.view().tensors()[0].is_runtime, "the flag is there");
    for stamp in [2, 3, u32::MAX] {
        let error = GraphBuf::new(&stamped_by_number(stamp), &Limits::DEFAULT).expect_err("too new");
        assert!(matches!(&error, GraphError::TooNew { field: "min_reader_version", found, .. } if *found == stamp.to_string()), "{error}");
    }
}
