//! The reader guard (G3): both historic forms of slot 8, the native stamp, and what a newer writer may say elsewhere.

mod common;

use flatbuffers::{FlatBufferBuilder, WIPOffset};
use hipplan_serialize::artifact::{Artifact, ArtifactError};
use hipplan_serialize::wire::generated::{self as wire, EngineApiVersion, Graph};
use hipplan_serialize::{DataType, GraphBuf, GraphBuilder, GraphError, Limits, ScalarType, TensorAttributes, VerifiedGraph, ops};

/// What stands in slot 8, and beside it.
#[derive(Clone, Copy)]
struct Slot8 {
    uint: Option<u32>,
    version: Option<[u32; 3]>,
    /// Other fields of the table, so that slot 8 is at its end, in its middle or alone.
    preferred: bool,
    with_id: bool,
    /// Tensors that no verifier accepts: an offset out of the buffer.
    garbage: bool,
    tag: u8,
}

const PLAIN: Slot8 = Slot8 { uint: None, version: None, preferred: false, with_id: false, garbage: false, tag: 9 };

/// A matmul, written slot by slot.
fn graph(s: Slot8) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let mut tensors = Vec::new();
    for uid in 1..=3_i64 {
        let (dims, strides) = (fbb.create_vector(&[4_i64, 4]), fbb.create_vector(&[4_i64, 1]));
        let start = fbb.start_table();
        fbb.push_slot_always(wire::TensorAttributes::VT_UID, uid);
        fbb.push_slot_always(wire::TensorAttributes::VT_DIMS, dims);
        fbb.push_slot_always(wire::TensorAttributes::VT_STRIDES, strides);
        let end = fbb.end_table(start);
        tensors.push(WIPOffset::<wire::TensorAttributes<'_>>::new(end.value()));
    }
    let start = fbb.start_table();
    for (slot, uid) in [(0, 1_i64), (1, 2), (2, 3)] {
        fbb.push_slot_always(4 + 2 * slot, uid);
    }
    let op = fbb.end_table(start);
    let start = fbb.start_table();
    fbb.push_slot_always(wire::Node::VT_ATTRIBUTES_TYPE, s.tag);
    fbb.push_slot_always(wire::Node::VT_ATTRIBUTES, op);
    let end = fbb.end_table(start);
    let nodes = fbb.create_vector(&[WIPOffset::<wire::Node<'_>>::new(end.value())]);
    let tensors = fbb.create_vector(&tensors);
    let start = fbb.start_table();
    if s.preferred {
        fbb.push_slot_always(Graph::VT_PREFERRED_ENGINE_ID, 7_i64);
    }
    if let Some(v) = s.uint {
        fbb.push_slot_always(Graph::VT_MIN_REQUIRED_ENGINE_API_VERSION, v);
    }
    if let Some([major, minor, patch]) = s.version {
        fbb.push_slot_always(Graph::VT_MIN_REQUIRED_ENGINE_API_VERSION, EngineApiVersion::new(major, minor, patch));
    }
    if s.garbage {
        fbb.push_slot_always(Graph::VT_TENSORS, 0x7fff_fff0_u32);
    } else {
        fbb.push_slot_always(Graph::VT_TENSORS, tensors);
    }
    fbb.push_slot_always(Graph::VT_NODES, nodes);
    if s.with_id {
        fbb.push_slot_always(Graph::VT_ID, wire::Uuid::new(&[9; 16]));
    }
    fbb.push_slot_always(Graph::VT_IO_DATA_TYPE, wire::DataType::FLOAT);
    fbb.push_slot_always(Graph::VT_COMPUTE_DATA_TYPE, wire::DataType::FLOAT);
    let root = fbb.end_table(start);
    fbb.finish_minimal(root);
    fbb.finished_data().to_vec()
}

fn verify(bytes: &[u8]) -> Result<(), GraphError> {
    GraphBuf::new(bytes, &Limits::DEFAULT).map(|_| ())
}

/// Every table around slot 8.
fn surroundings() -> impl Iterator<Item = Slot8> {
    [(false, false), (false, true), (true, false), (true, true)].into_iter().map(|(preferred, with_id)| Slot8 {
        preferred,
        with_id,
        ..PLAIN
    })
}

#[test]
fn both_forms_are_honoured() {
    for s in surroundings() {
        assert_eq!(verify(&graph(s)), Ok(()));
        for uint in [0, 1] {
            assert_eq!(verify(&graph(Slot8 { uint: Some(uint), ..s })), Ok(()), "{uint}");
        }
        for version in [[1, 0, 0], [1, 2, 0], [1, 3, 9], [1, 4, 0], [0, 9, 0]] {
            assert_eq!(verify(&graph(Slot8 { version: Some(version), ..s })), Ok(()), "{version:?}");
        }
    }
}

#[test]
fn a_newer_stamp_is_refused_before_a_tensor_is_looked_at() {
    for s in surroundings() {
        let s = Slot8 { garbage: true, ..s };
        assert!(matches!(verify(&graph(s)), Err(GraphError::Structure(_))), "the tensors are garbage");
        for uint in [2, 3, u32::MAX] {
            let error = verify(&graph(Slot8 { uint: Some(uint), ..s })).expect_err("too new");
            assert!(
                matches!(&error, GraphError::TooNew { field: "min_reader_version", found, .. } if *found == uint.to_string()),
                "{error}"
            );
            assert!(error.is_too_new() && !error.is_too_old());
        }
        for version in [[1, 4, 1], [1, 5, 0], [2, 0, 0], [u32::MAX, 0, 0]] {
            let error = verify(&graph(Slot8 { version: Some(version), ..s })).expect_err("too new");
            assert!(matches!(error, GraphError::TooNew { field: "min_required_engine_api_version", .. }), "{error}");
            assert!(error.is_too_new());
        }
    }
}

/// A buffer that ends with its root table, whose last field is slot 8; the table is said to be `table_len` bytes long.
fn root_at_the_end(stamp: &[u8], table_len: u16) -> Vec<u8> {
    let mut b: Vec<u8> = vec![0; 4];
    let vtable = b.len() as u32;
    let mut entries = [0_u16; 11];
    entries[0] = 22;
    entries[1] = table_len;
    entries[10] = 4;
    entries.iter().for_each(|e| b.extend(e.to_le_bytes()));
    b.extend([0; 2]);
    let table = b.len() as u32;
    b[..4].copy_from_slice(&table.to_le_bytes());
    b.extend((table - vtable).to_le_bytes());
    b.extend(stamp);
    b
}

#[test]
fn a_stamp_at_the_buffers_end_is_read_and_one_behind_it_refused() {
    let words = |list: &[u32]| -> Vec<u8> { list.iter().flat_map(|v| v.to_le_bytes()).collect() };
    assert_eq!(verify(&root_at_the_end(&words(&[1, 4, 0]), 16)), Err(GraphError::Empty));
    assert!(verify(&root_at_the_end(&words(&[1, 5, 0]), 16)).is_err_and(|e| e.is_too_new()));
    assert_eq!(verify(&root_at_the_end(&words(&[1]), 8)), Err(GraphError::Empty));
    assert!(verify(&root_at_the_end(&words(&[2]), 8)).is_err_and(|e| e.is_too_new()));
    // A stamp that cannot be read whole must not be taken for none.
    for (stamp, table_len) in [(words(&[1, 5]), 16), (words(&[9]), 16), (vec![], 16), (vec![2, 0], 8), (vec![], 8)] {
        let result = verify(&root_at_the_end(&stamp, table_len));
        assert!(matches!(&result, Err(GraphError::Structure(text)) if text.contains("slot 8")), "{result:?}");
    }
}

fn runtime_graph() -> GraphBuf {
    let mut g = GraphBuilder::new();
    let s = g.scalar(1.0_f32, ScalarType::RuntimeParam);
    let y = g.tensor(TensorAttributes::packed(DataType::Float, &[1]));
    g.node("", DataType::Float, ops::CustomOp { custom_op_id: "t.t", inputs: &[s], outputs: &[y], data: &[] });
    g.build().expect("valid")
}

#[test]
fn the_native_stamp_is_refused_before_the_buffer_is_verified() {
    for stamp in [2, 7, u32::MAX] {
        let artifact = Artifact { min_reader_version: stamp, buffer: b"no flatbuffer" }.to_bytes();
        let error = VerifiedGraph::verify_any(&artifact, &Limits::DEFAULT).expect_err("too new");
        assert_eq!(error, GraphError::Artifact(ArtifactError::ReaderVersion { found: stamp, known: 1 }));
        assert!(error.is_too_new() && !error.is_too_old());
    }
}

#[test]
fn a_native_stamp_must_agree_with_the_tensors() {
    let runtime = runtime_graph();
    let plain = graph(PLAIN);
    for (buffer, stamp, implied) in [(runtime.buffer(), 0, 1), (plain.as_slice(), 1, 0)] {
        let artifact = Artifact { min_reader_version: stamp, buffer }.to_bytes();
        let error = VerifiedGraph::verify_any(&artifact, &Limits::DEFAULT).expect_err("a contradiction");
        assert_eq!(error, GraphError::Artifact(ArtifactError::Stamp { found: stamp, expected: implied }));
        assert!(!error.is_too_new() && !error.is_too_old());
        let artifact = Artifact { min_reader_version: implied, buffer }.to_bytes();
        assert!(VerifiedGraph::verify_any(&artifact, &Limits::DEFAULT).is_ok());
    }
    assert_eq!(Artifact::parse(&runtime.view().to_artifact()).expect("an artifact").min_reader_version, 1);
}

#[test]
fn an_operation_from_the_future_is_named_by_its_number() {
    for tag in [24, 99, 255] {
        let error = verify(&graph(Slot8 { tag, ..PLAIN })).expect_err("unknown");
        assert!(matches!(error, GraphError::UnknownOperation { index: 0, tag: found, .. } if found == tag), "{error}");
        assert!(error.is_too_new() && error.to_string().contains(&tag.to_string()));
    }
    assert!(matches!(verify(&graph(Slot8 { tag: 0, ..PLAIN })), Err(GraphError::NoOperation { .. })));
}

#[test]
fn a_buffer_older_than_the_guard_is_read() {
    // Slots 7 to 9 were not there yet: the vtable ends behind slot 6.
    let bytes = graph(Slot8 { preferred: true, ..PLAIN });
    let root = flatbuffers::root::<Graph<'_>>(&bytes).expect("well-formed");
    assert_eq!(root._tab.vtable().num_bytes(), 4 + 2 * 7);
    assert_eq!(verify(&bytes), Ok(()));
    let graph = GraphBuf::new(&bytes, &Limits::DEFAULT).expect("valid");
    assert!(!graph.view().is_override_shape_enabled());
    assert_eq!(graph.view().preferred_engine_id(), Some(7));
    assert_eq!(graph.view().id(), None);
}
