//! The guard against readers that would drop the flag (R16 §4.10).

use crate::graphs::{State, scale_in};
use hipplan::artifact::{Artifact, ArtifactError};
use hipplan::{ApiVersion, GraphBuf, GraphError, Limits, VerifiedGraph};

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
        let root = flatbuffers::root::<hipplan_serialize::wire::generated::Graph<'_>>(graph.buffer()).expect("well-formed");
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
