//! hipDNN's plan envelope in every layout, its container, and what some bytes are.

mod common;

use common::flatc::Flatc;
use common::{aligned, corpus_folder, corpus_graphs};
use flatbuffers::FlatBufferBuilder;
use hipplan_fuzzing::{Generator, Rng, Style};
use hipplan_serialize::form::{self, Form};
use hipplan_serialize::hipdnn::container::{self, Container, ContainerError, Finding};
use hipplan_serialize::hipdnn::envelope::{EngineConfig, EnvelopeError, EnvelopeParts, KnobValue, Layout, PlanEnvelope};
use hipplan_serialize::import::{GraphForm, ImportError, import};
use hipplan_serialize::wire::generated as wire;
use hipplan_serialize::{AlignedBytes, GraphBuf, GraphError, Limits, Uid, VerifiedGraph};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(bytes: &[u8]) -> Result<PlanEnvelope<'_>, EnvelopeError> {
    PlanEnvelope::read(bytes, &Limits::DEFAULT)
}

fn uids(list: &[i64]) -> Vec<Uid> {
    list.iter().map(|&uid| Uid(uid)).collect()
}

/// `C = A B` on tensors 1, 2 and 3, in flatc's JSON.
fn matmul() -> Value {
    let tensor =
        |uid, dims: [i64; 2]| json!({"uid": uid, "name": format!("t{uid}"), "data_type": "FLOAT", "dims": dims, "strides": [dims[1], 1]});
    json!({
        "name": "matmul", "io_data_type": "FLOAT", "compute_data_type": "FLOAT",
        "tensors": [tensor(1, [4, 8]), tensor(2, [8, 2]), tensor(3, [4, 2])],
        "nodes": [{"name": "mm", "attributes_type": "MatmulAttributes",
                   "attributes": {"a_tensor_uid": 1, "b_tensor_uid": 2, "c_tensor_uid": 3}}],
        "min_required_engine_api_version": {"major": 1, "minor": 0, "patch": 0},
    })
}

fn engine_config() -> Value {
    json!({"engine_id": -77, "knobs": [
        {"knob_id": "tile", "value_type": "IntValue", "value": {"value": 128}},
        {"knob_id": "alpha", "value_type": "FloatValue", "value": {"value": 0.25}},
        {"knob_id": "path", "value_type": "StringValue", "value": {"value": "fast"}},
        {"knob_id": "none"},
    ]})
}

const PAYLOAD: [u8; 11] = *b"FUSPLAN\0\x01\x00\x07";

/// The plans of the corpus: layout, schema, values.
fn plans(config: &[u8]) -> Vec<(Layout, &'static str, Value)> {
    let plan = |version: u32, more: Value| {
        let mut plan =
            json!({"version": version, "engine_id": -77, "workspace_size": 4096, "tensor_uids": [1, 2, 3], "plugin_payload": PAYLOAD});
        plan.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        plan
    };
    vec![
        (Layout::A, "plan_a", plan(1, json!({"engine_config": config}))),
        (Layout::B, "plan_b", plan(1, json!({}))),
        (Layout::C, "plan_c", plan(1, json!({"is_override_shape_enabled": true}))),
        (Layout::D, "plan_d", plan(2, json!({"is_override_shape_enabled": true, "tensor_alignments": [16, 16, 64]}))),
    ]
}

/// A file of the corpus.
fn golden(name: &str) -> AlignedBytes {
    aligned(&std::fs::read(corpus_folder().join("hipdnn-containers").join(name)).unwrap_or_else(|e| panic!("{name}: {e}")))
}

/// The files of the corpus are what flatc makes. With `HIPPLAN_BLESS=1` they are written.
#[test]
fn the_corpus_is_what_flatc_makes() {
    let Some(flatc) = Flatc::find() else { return };
    let one = |schema: &str, value: Value| flatc.encode(schema, &[value]).remove(0);
    let graph = one("graph_main", matmul());
    let config = one("engine_config", engine_config());
    let mut files = vec![("graph.bin", aligned(&graph)), ("engine_config.bin", aligned(&config))];
    let mut newest = Vec::new();
    for ((_, schema, value), name) in plans(&config).into_iter().zip(["plan_a.bin", "plan_b.bin", "plan_c.bin", "plan_d.bin"]) {
        let bytes = one(schema, value);
        newest = bytes.to_vec();
        files.push((name, bytes));
    }
    files.push(("container_graph.bin", one("container", json!({"graph_blob": graph.to_vec()}))));
    files.push(("container.bin", one("container", json!({"graph_blob": graph.to_vec(), "plan_blob": newest}))));
    files.push(("container_unaligned.bin", one("container_unaligned", json!({"graph_blob": graph.to_vec(), "plan_blob": newest}))));
    for (name, bytes) in files {
        if std::env::var_os("HIPPLAN_BLESS").is_some() {
            std::fs::write(corpus_folder().join("hipdnn-containers").join(name), &bytes).expect("written");
        }
        assert!(golden(name)[..] == bytes[..], "{name}");
    }
}

#[test]
fn every_layout_is_told_from_its_bytes() {
    for (name, layout, override_shapes, alignments) in [
        ("plan_a.bin", Layout::A, false, None),
        ("plan_b.bin", Layout::B, false, None),
        ("plan_c.bin", Layout::C, true, None),
        ("plan_d.bin", Layout::D, true, Some(&[16, 16, 64][..])),
    ] {
        let bytes = golden(name);
        let config = golden("engine_config.bin");
        let expected = PlanEnvelope {
            version: if layout == Layout::D { 2 } else { 1 },
            layout,
            engine_id: -77,
            workspace_size: 4096,
            tensor_uids: &uids(&[1, 2, 3]),
            engine_config: if layout == Layout::A { &config } else { &[] },
            payload: &PAYLOAD,
            override_shapes,
            alignments,
            has_unknown_fields: false,
        };
        assert_eq!(read(&bytes), Ok(expected), "{name}");
        assert_eq!(form::detect(&bytes), Form::Envelope, "{name}");
    }
}

#[test]
fn the_engine_config_of_layout_a_is_taken_apart() {
    let bytes = golden("plan_a.bin");
    let config = EngineConfig::read(read(&bytes).expect("valid").engine_config, &Limits::DEFAULT).expect("valid");
    let knobs = vec![
        ("tile", KnobValue::Int(128)),
        ("alpha", KnobValue::Float(0.25)),
        ("path", KnobValue::Text("fast")),
        ("none", KnobValue::Unknown(0)),
    ];
    assert_eq!(config, EngineConfig { engine_id: -77, knobs, has_unknown_fields: false });
    for bad in [&b""[..], b"\xff\xff\xff\xff", &PAYLOAD] {
        assert!(matches!(EngineConfig::read(bad, &Limits::DEFAULT), Err(EnvelopeError::EngineConfig(_))));
    }
    let limits = Limits { max_tables: 3, ..Limits::DEFAULT };
    assert!(matches!(EngineConfig::read(read(&bytes).expect("valid").engine_config, &limits), Err(EnvelopeError::EngineConfig(_))));
}

/// Random envelopes of every layout, by writers that leave defaults out and by writers that store them.
#[test]
fn random_envelopes_of_every_layout() {
    let Some(flatc) = Flatc::find() else { return };
    let mut rng = Rng::new(9);
    for (schema, version) in [("plan_a", 1_u32), ("plan_b", 1), ("plan_c", 1), ("plan_d", 2)] {
        let mut plans = Vec::new();
        for _ in 0..300 {
            let count = rng.below(5) + 1;
            let numbers = |rng: &mut Rng| (0..count).map(|_| rng.any() as i64 >> rng.below(64)).collect::<Vec<i64>>();
            let bytes = |rng: &mut Rng, least: usize| (0..rng.below(40) + least).map(|_| rng.below(256) as u8).collect::<Vec<u8>>();
            let mut plan = json!({"version": version, "plugin_payload": bytes(&mut rng, 1), "tensor_uids": numbers(&mut rng)});
            if rng.one_in(2) {
                plan["engine_id"] = json!(rng.any() as i64);
            }
            if rng.one_in(2) {
                plan["workspace_size"] = json!(rng.any() as i64 >> 1 & i64::MAX);
            }
            if schema == "plan_a" && rng.one_in(2) {
                plan["engine_config"] = json!(bytes(&mut rng, 0));
            }
            if version == 2 {
                plan["tensor_alignments"] = json!(numbers(&mut rng));
            }
            if schema == "plan_c" || version == 2 {
                plan["is_override_shape_enabled"] = json!(rng.one_in(2));
            }
            plans.push(plan);
        }
        for (with_defaults, buffers) in [(false, flatc.encode(schema, &plans)), (true, flatc.encode_with_defaults(schema, &plans))] {
            for (plan, buffer) in plans.iter().zip(&buffers) {
                let seen = read(buffer).unwrap_or_else(|e| panic!("{schema}: {e}\n{plan}"));
                let flag = plan["is_override_shape_enabled"] == true;
                let layout = match schema {
                    "plan_a" => Layout::A,
                    "plan_c" if flag || with_defaults => Layout::C,
                    "plan_b" | "plan_c" => Layout::B,
                    _ => Layout::D,
                };
                assert_eq!((seen.layout, seen.version, seen.override_shapes), (layout, version, flag), "{plan}");
                assert_eq!(json!(seen.engine_id), *plan.get("engine_id").unwrap_or(&json!(0)));
                assert_eq!(json!(seen.workspace_size), *plan.get("workspace_size").unwrap_or(&json!(0)));
                assert_eq!(json!(seen.tensor_uids.iter().map(|u| u.0).collect::<Vec<_>>()), plan["tensor_uids"]);
                assert_eq!(json!(seen.payload), plan["plugin_payload"]);
                assert_eq!(json!(seen.engine_config), *plan.get("engine_config").unwrap_or(&json!([])));
                assert_eq!(json!(seen.alignments), plan["tensor_alignments"]);
                assert!(!seen.has_unknown_fields);
                assert_eq!(form::detect(buffer), Form::Envelope);
            }
        }
        if version == 2 {
            // What we write of the same parts, flatc reads as the same.
            let ours: Vec<AlignedBytes> = plans
                .iter()
                .map(|plan| {
                    let numbers =
                        |key: &str| -> Vec<i64> { plan[key].as_array().expect("a list").iter().filter_map(Value::as_i64).collect() };
                    let payload: Vec<u8> =
                        plan["plugin_payload"].as_array().expect("bytes").iter().filter_map(|v| v.as_u64().map(|v| v as u8)).collect();
                    let parts = EnvelopeParts {
                        engine_id: plan["engine_id"].as_i64().unwrap_or(0),
                        workspace_size: plan["workspace_size"].as_u64().unwrap_or(0),
                        tensor_uids: &uids(&numbers("tensor_uids")),
                        alignments: &numbers("tensor_alignments"),
                        payload: &payload,
                        override_shapes: plan["is_override_shape_enabled"] == true,
                    };
                    let bytes = parts.to_bytes(&Limits::DEFAULT).expect("valid");
                    let seen = read(&bytes).expect("valid");
                    assert_eq!((seen.layout, seen.payload, seen.workspace_size), (Layout::D, &payload[..], parts.workspace_size));
                    bytes
                })
                .collect();
            assert_eq!(flatc.decode(schema, &ours), flatc.decode(schema, &flatc.encode(schema, &plans)));
        }
    }
}

/// An envelope written slot by slot.
fn raw(fields: impl FnOnce(&mut FlatBufferBuilder<'_>, [u32; 3])) -> AlignedBytes {
    let mut fbb = FlatBufferBuilder::new();
    let lists = [fbb.create_vector(&[5_i64, 6]).value(), fbb.create_vector(&[7_u8; 3]).value(), fbb.create_vector(&[16_i64, 0]).value()];
    let start = fbb.start_table();
    fields(&mut fbb, lists);
    let root = fbb.end_table(start);
    fbb.finish_minimal(root);
    aligned(fbb.finished_data())
}

fn list<'a>(at: u32) -> flatbuffers::WIPOffset<flatbuffers::Vector<'a, u8>> {
    flatbuffers::WIPOffset::new(at)
}

const SLOT: fn(u16) -> u16 = |slot| 4 + 2 * slot;

#[test]
fn each_thing_that_is_wrong_has_its_own_error() {
    type Put<'p> = &'p dyn Fn(&mut FlatBufferBuilder<'_>, [u32; 3]);
    let good = |fbb: &mut FlatBufferBuilder<'_>, lists: [u32; 3], version: u32| {
        fbb.push_slot_always(SLOT(0), version);
        fbb.push_slot_always(SLOT(3), list(lists[0]));
        fbb.push_slot_always(SLOT(4), list(lists[1]));
    };
    let cases: [(&str, Put<'_>, EnvelopeError); 10] = [
        ("too new", &|fbb, l| good(fbb, l, 3), EnvelopeError::TooNew { found: 3, known: 2 }),
        ("no version", &|fbb, l| fbb.push_slot_always(SLOT(3), list(l[0])), EnvelopeError::Missing { field: "version" }),
        ("version 0", &|fbb, l| good(fbb, l, 0), EnvelopeError::Missing { field: "version" }),
        (
            "no uids",
            &|fbb, l| {
                fbb.push_slot_always(SLOT(0), 1_u32);
                fbb.push_slot_always(SLOT(4), list(l[1]));
            },
            EnvelopeError::Missing { field: "tensor_uids" },
        ),
        (
            "no payload",
            &|fbb, l| {
                fbb.push_slot_always(SLOT(0), 1_u32);
                fbb.push_slot_always(SLOT(3), list(l[0]));
            },
            EnvelopeError::Missing { field: "plugin_payload" },
        ),
        ("no alignments", &|fbb, l| good(fbb, l, 2), EnvelopeError::Missing { field: "tensor_alignments" }),
        (
            "workspace",
            &|fbb, l| {
                good(fbb, l, 1);
                fbb.push_slot_always(SLOT(2), -1_i64);
            },
            EnvelopeError::Workspace { found: -1 },
        ),
        (
            "slot 5",
            &|fbb, l| {
                good(fbb, l, 1);
                fbb.push_slot_always(SLOT(5), 2_u8);
            },
            EnvelopeError::Slot5 { found: 2 },
        ),
        (
            "a list behind the end",
            &|fbb, l| {
                good(fbb, l, 2);
                fbb.push_slot_always(SLOT(6), 0x7fff_fff0_u32);
            },
            EnvelopeError::Damaged("tensor_alignments leads to no vector inside the buffer".into()),
        ),
        (
            "a number of one byte",
            &|fbb, l| {
                good(fbb, l, 1);
                fbb.push_slot_always(SLOT(2), 1_u8);
            },
            EnvelopeError::Damaged("workspace_size has 1 bytes in the table, expected 8".into()),
        ),
    ];
    for (name, put, expected) in cases {
        let bytes = raw(put);
        let found = read(&bytes).expect_err(name);
        let shown = found.to_string();
        assert!(shown.starts_with("plan envelope: "), "{shown}");
        assert_eq!(found.is_too_new(), name == "too new");
        if let EnvelopeError::Damaged(text) = &expected {
            // How many bytes lie behind the last field is the builder's affair.
            assert!(matches!(&found, EnvelopeError::Damaged(t) if t.split(' ').next() == text.split(' ').next()), "{name}: {found}");
        } else {
            assert_eq!(found, expected, "{name}");
        }
    }
    let with_alignments = |which: usize| {
        raw(|fbb, l| {
            good(fbb, l, 2);
            fbb.push_slot_always(SLOT(6), list(l[which]));
        })
    };
    assert!(read(&with_alignments(2)).is_ok());
    // The length of a list counts elements: the three bytes are read as three numbers, which the buffer happens to hold.
    assert_eq!(read(&with_alignments(1)), Err(EnvelopeError::AlignmentCount { uids: 2, alignments: 3 }));
    let bytes = golden("plan_d.bin");
    let limits = Limits { max_bytes: bytes.len() as u64 - 1, ..Limits::DEFAULT };
    assert!(matches!(PlanEnvelope::read(&bytes, &limits), Err(EnvelopeError::Limit { limit_name: "max_bytes", .. })));
    let mut shifted = aligned(&[0; 4]);
    shifted.extend_from_slice(&bytes);
    assert_eq!(read(&shifted[4..]), Err(EnvelopeError::Misaligned));
    for nothing in [&[][..], &[0; 4], &[0xff; 64], b"HDGP"] {
        assert!(matches!(read(&aligned(nothing)), Err(EnvelopeError::Damaged(_))), "{nothing:?}");
    }
}

#[test]
fn a_newer_version_is_told_before_anything_else_is_read() {
    // Slots that no layout of today has, in all the wrong types.
    let bytes = raw(|fbb, _| {
        fbb.push_slot_always(SLOT(0), 7_u32);
        (1..9).for_each(|slot| fbb.push_slot_always(SLOT(slot), 0x7fff_fff1_u32));
    });
    assert_eq!(read(&bytes), Err(EnvelopeError::TooNew { found: 7, known: 2 }));
}

#[test]
fn fields_of_a_newer_writer_are_noticed() {
    let Some(flatc) = Flatc::find() else { return };
    let plan = json!({"version": 2, "tensor_uids": [1], "plugin_payload": [1], "tensor_alignments": [0], "graph_digest": [1, 2]});
    let bytes = flatc.encode("plan_newer", &[plan]).remove(0);
    assert!(read(&bytes).expect("valid").has_unknown_fields);
}

#[test]
fn the_writer_refuses_what_a_reader_would() {
    let parts =
        EnvelopeParts { engine_id: 1, workspace_size: 0, tensor_uids: &[Uid(1)], alignments: &[0], payload: &[1], override_shapes: false };
    let write = |parts: EnvelopeParts<'_>| parts.to_bytes(&Limits::DEFAULT).map(|_| ());
    assert_eq!(write(parts), Ok(()));
    assert_eq!(write(EnvelopeParts { tensor_uids: &[], ..parts }), Err(EnvelopeError::Missing { field: "tensor_uids" }));
    assert_eq!(write(EnvelopeParts { payload: &[], ..parts }), Err(EnvelopeError::Missing { field: "plugin_payload" }));
    assert_eq!(write(EnvelopeParts { alignments: &[], ..parts }), Err(EnvelopeError::AlignmentCount { uids: 1, alignments: 0 }));
    let found = 1 << 63;
    assert_eq!(write(EnvelopeParts { workspace_size: found, ..parts }), Err(EnvelopeError::WorkspaceTooLarge { found }));
    let limits = Limits { max_bytes: 100, ..Limits::DEFAULT };
    assert!(matches!(parts.to_bytes(&limits), Err(EnvelopeError::Limit { limit_name: "max_bytes", .. })));
}

fn graph() -> GraphBuf {
    GraphBuf::new(&golden("graph.bin"), &Limits::DEFAULT).expect("valid")
}

#[test]
fn containers_are_read_in_place_or_by_copying() {
    let plan = golden("plan_d.bin");
    for (name, with_plan) in [("container_graph.bin", false), ("container.bin", true), ("container_unaligned.bin", true)] {
        let bytes = golden(name);
        assert_eq!(form::detect(&bytes), Form::Container);
        // Whatever the place of the file in memory.
        for shift in 0..8 {
            let mut shifted = aligned(&vec![0; shift]);
            shifted.extend_from_slice(&bytes);
            let container = Container::open(&shifted[shift..], &Limits::DEFAULT).expect("valid");
            assert_eq!(container.graph().expect("valid").buffer(), &golden("graph.bin")[..], "{name}");
            assert_eq!(container.plan_bytes(), with_plan.then_some(&plan[..]), "{name}");
            let envelope = container.plan().expect("valid");
            assert_eq!(envelope.map(|e| e.layout), with_plan.then_some(Layout::D));
            assert!(!container.has_unknown_fields());
            if let Some(envelope) = envelope {
                assert_eq!(container::compare(&container.graph().expect("valid"), &envelope), []);
            }
        }
    }
}

/// Whoever wants a graph gets the one in the container; a plan is no graph.
#[test]
fn import_takes_the_graph_of_a_container() {
    for (name, warnings) in [("container_graph.bin", 0), ("container.bin", 1), ("container_unaligned.bin", 1)] {
        let imported = import(&golden(name), &Limits::DEFAULT).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(imported.graph.buffer(), &golden("graph.bin")[..], "{name}");
        assert_eq!((imported.form, imported.warnings.len()), (GraphForm::HipdnnContainer, warnings), "{name}");
    }
    for name in ["plan_a.bin", "plan_b.bin", "plan_c.bin", "plan_d.bin"] {
        assert!(matches!(import(&golden(name), &Limits::DEFAULT), Err(ImportError::NotAGraph("hipDNN plan envelope"))), "{name}");
    }
}

#[test]
fn what_is_written_is_read_by_flatc_and_by_us() {
    let graph = graph();
    let written: Vec<AlignedBytes> = [None, Some("plan_a.bin"), Some("plan_b.bin"), Some("plan_c.bin"), Some("plan_d.bin")]
        .into_iter()
        .map(|plan| {
            let plan = plan.map(golden);
            let bytes = container::write(&graph.view(), plan.as_deref(), &Limits::DEFAULT).expect("valid");
            let container = Container::open(&bytes, &Limits::DEFAULT).expect("valid");
            assert_eq!(container.graph_bytes(), graph.buffer());
            assert_eq!(container.plan_bytes(), plan.as_deref());
            // In place: both stand at multiples of 8 of the file.
            let inside = |inner: &[u8]| bytes.as_ptr_range().contains(&inner.as_ptr());
            assert!(inside(container.graph_bytes()) && container.plan_bytes().is_none_or(inside));
            assert!(bytes.len() % 8 == 0 && container::is_container(&bytes));
            assert_eq!(form::detect(&bytes), Form::Container);
            assert!(flatbuffers::root::<wire::SerializedGraphAndPlan<'_>>(&bytes).is_ok());
            bytes
        })
        .collect();
    let Some(flatc) = Flatc::find() else { return };
    for (seen, bytes) in flatc.decode("container", &written).iter().zip(&written) {
        let container = Container::open(bytes, &Limits::DEFAULT).expect("valid");
        assert_eq!(seen["graph_blob"], json!(container.graph_bytes()));
        assert_eq!(seen["plan_blob"], json!(container.plan_bytes()));
    }
    // Of the same content, flatc's file and ours hold the same.
    assert_eq!(flatc.decode("container", &[golden("container.bin")]), flatc.decode("container", &written[4..]));
}

#[test]
fn containers_that_are_wrong_say_why() {
    let open = |bytes: &[u8], limits: &Limits| Container::open(bytes, limits).map(|_| ());
    let default = Limits::DEFAULT;
    assert_eq!(open(b"HDGP", &default), Err(ContainerError::NotAContainer));
    assert!(matches!(open(b"\xff\xff\xff\xffHDGP", &default), Err(ContainerError::Damaged(_))));
    let make = |graph: Option<&[u8]>, plan: Option<&[u8]>| {
        let mut fbb = FlatBufferBuilder::new();
        let args = wire::SerializedGraphAndPlanArgs {
            graph_blob: graph.map(|b| fbb.create_vector(b)),
            plan_blob: plan.map(|b| fbb.create_vector(b)),
        };
        let root = wire::SerializedGraphAndPlan::create(&mut fbb, &args);
        fbb.finish(root, Some("HDGP"));
        fbb.finished_data().to_vec()
    };
    let good = golden("graph.bin");
    assert_eq!(open(&make(None, Some(&[1])), &default), Err(ContainerError::NoGraph));
    assert_eq!(open(&make(Some(&[]), None), &default), Err(ContainerError::NoGraph));

    // An inner buffer that is wrong is wrong when it is asked for.
    let bytes = make(Some(&[1, 2, 3]), Some(&[4, 5, 6]));
    let container = Container::open(&bytes, &default).expect("two blobs");
    assert!(matches!(container.graph(), Err(ContainerError::Graph(GraphError::Structure(_)))));
    assert!(matches!(container.plan(), Err(ContainerError::Envelope(EnvelopeError::Damaged(_)))));
    assert!(Container::open(&make(Some(&good), Some(&[])), &default).expect("a graph").plan().expect("none").is_none());

    // The limits reach the inner buffers, and hold for both together.
    let bytes = make(Some(&good), None);
    let limits = Limits { max_bytes: bytes.len() as u64 - 1, ..default };
    assert!(matches!(open(&bytes, &limits), Err(ContainerError::Limit { limit_name: "max_bytes", .. })));
    let limits = Limits { max_tensors: 2, ..default };
    let error = Container::open(&bytes, &limits).expect("a graph").graph().expect_err("three tensors");
    assert!(matches!(&error, ContainerError::Graph(GraphError::Limit { limit_name: "max_tensors", .. })), "{error}");
    let mut fbb = FlatBufferBuilder::new();
    let blob = fbb.create_vector(&[9_u8; 1000]);
    let args = wire::SerializedGraphAndPlanArgs { graph_blob: Some(blob), plan_blob: Some(blob) };
    let root = wire::SerializedGraphAndPlan::create(&mut fbb, &args);
    fbb.finish(root, Some("HDGP"));
    let limits = Limits { max_bytes: 1999, ..default };
    let error = open(fbb.finished_data(), &limits).expect_err("the same bytes twice");
    assert!(matches!(error, ContainerError::Limit { found: 2000, limit_name: "max_bytes", .. }), "{error}");

    // Export.
    let view = graph();
    let write = |plan: &[u8], limits: &Limits| container::write(&view.view(), Some(plan), limits).map(|_| ());
    let nothing = write(b"", &default);
    assert!(matches!(nothing, Err(ContainerError::Envelope(EnvelopeError::Damaged(_)))), "{nothing:?}");
    let foreign = EnvelopeParts {
        engine_id: 1,
        workspace_size: 0,
        tensor_uids: &[Uid(1), Uid(44)],
        alignments: &[0, 0],
        payload: &[1],
        override_shapes: false,
    };
    let bytes = foreign.to_bytes(&default).expect("valid");
    assert_eq!(write(&bytes, &default), Err(ContainerError::OtherGraph { uid: 44 }));
    let limits = Limits { max_bytes: view.buffer().len() as u64 + 10, ..default };
    assert!(matches!(write(&bytes, &limits), Err(ContainerError::Limit { limit_name: "max_bytes", .. })));
}

#[test]
fn plans_are_compared_with_graphs() {
    let graph = graph();
    let compare = |list: &[i64]| {
        let tensor_uids = uids(list);
        let alignments = vec![16; list.len()];
        let parts = EnvelopeParts {
            engine_id: 1,
            workspace_size: 0,
            tensor_uids: &tensor_uids,
            alignments: &alignments,
            payload: &[1],
            override_shapes: false,
        };
        let bytes = parts.to_bytes(&Limits::DEFAULT).expect("valid");
        container::compare(&graph.view(), &read(&bytes).expect("valid"))
    };
    assert_eq!(compare(&[3, 1, 2]), []);
    assert_eq!(compare(&[1, 2, 3, 2, 9, 8]), [Finding::UidNotInGraph(Uid(9)), Finding::UidRepeated(Uid(2))]);
    assert_eq!(compare(&[1]), [Finding::TensorNotInPlan(Uid(2))]);
    let (_, chain) = corpus_graphs().into_iter().find(|(_, g)| g.view().tensors().iter().any(|t| t.is_virtual)).expect("a chain");
    let chain = chain.view();
    let inner = chain.tensors().iter().find(|t| t.is_virtual).map(|t| t.uid).expect("virtual");
    let parts =
        EnvelopeParts { engine_id: 1, workspace_size: 0, tensor_uids: &[inner], alignments: &[16], payload: &[1], override_shapes: false };
    let bytes = parts.to_bytes(&Limits::DEFAULT).expect("valid");
    let findings = container::compare(&chain, &read(&bytes).expect("valid"));
    assert_eq!(findings.first(), Some(&Finding::UidVirtual(inner)));
    assert!(findings.iter().all(|f| f.to_string().contains("uid")));
}

#[test]
fn forms_are_told_apart() {
    let plan_file = b"\x89HPPL\r\n\x1a....";
    for (bytes, expected) in [
        (&b""[..], Form::Empty),
        (b"  {\"name\"", Form::Text),
        (b"\xef\xbb\xbf{}", Form::Text),
        (b"./bin/MIOpenDriver conv -n 1", Form::Text),
        ("\u{1b}[1mgrün\u{1b}[0m\r\n".as_bytes(), Form::Text),
        ("ä".repeat(127).as_bytes(), Form::Text),
        (&"ä".repeat(200).as_bytes()[..255], Form::Text),
        (plan_file, Form::Plan),
        (b"\0\0\0\0HDGP", Form::Container),
        (b"\x01\x02\x03\x04\x05\x06", Form::Unknown),
        (&[0; 100], Form::Unknown),
        (&[0xff; 100], Form::Unknown),
    ] {
        assert_eq!(form::detect(bytes), expected, "{bytes:?}");
    }
    for (name, graph) in corpus_graphs() {
        assert_eq!(form::detect(graph.buffer()), Form::Graph, "{name}");
        assert_eq!(form::detect(&graph.view().to_artifact()), Form::Artifact, "{name}");
    }
    for seed in 0..200 {
        let graph = Generator::random(seed, 3).graph(&Style { seed });
        assert_eq!(form::detect(graph.buffer()), Form::Graph, "{seed}");
    }
    // Both shapes at once: only made on purpose.
    let both = {
        let mut fbb = FlatBufferBuilder::new();
        let numbers = fbb.create_vector(&[5_i64]);
        let start = fbb.start_table();
        let table = fbb.end_table(start);
        let tables = fbb.create_vector(&[flatbuffers::WIPOffset::<wire::Node<'_>>::new(table.value())]);
        let text = fbb.create_string("x");
        let start = fbb.start_table();
        fbb.push_slot_always(SLOT(0), text);
        fbb.push_slot_always(SLOT(3), numbers);
        fbb.push_slot_always(SLOT(4), tables);
        fbb.push_slot_always(SLOT(5), tables);
        let root = fbb.end_table(start);
        fbb.finish_minimal(root);
        fbb.finished_data().to_vec()
    };
    assert_eq!(form::detect(&both), Form::GraphOrEnvelope);
}

/// Asks everything of some bytes.
fn exercise(bytes: &[u8]) -> bool {
    _ = form::detect(bytes).name();
    let mut accepted = false;
    match read(bytes) {
        Ok(envelope) => {
            accepted = true;
            assert!(!envelope.payload.is_empty() && !envelope.tensor_uids.is_empty());
            _ = EngineConfig::read(envelope.engine_config, &Limits::DEFAULT).map_err(|e| e.to_string());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match Container::open(bytes, &Limits::DEFAULT) {
        Ok(container) => {
            accepted = true;
            _ = container.graph().map_err(|e| e.to_string());
            _ = container.plan().map_err(|e| e.to_string());
            if let (Ok(graph), Ok(Some(plan))) = (container.graph(), container.plan()) {
                _ = container::compare(&graph, &plan);
                _ = container::write(&graph, container.plan_bytes(), &Limits::DEFAULT);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    accepted
}

const FILES: [&str; 8] = [
    "plan_a.bin",
    "plan_b.bin",
    "plan_c.bin",
    "plan_d.bin",
    "container_graph.bin",
    "container.bin",
    "container_unaligned.bin",
    "engine_config.bin",
];

#[test]
fn no_damage_makes_a_reader_panic() {
    for name in FILES {
        let good = golden(name);
        assert!(exercise(&good) || name == "engine_config.bin");
        for end in 0..good.len() {
            exercise(&aligned(&good[..end]));
            _ = EngineConfig::read(&good[..end], &Limits::DEFAULT);
        }
        let mut bytes = aligned(&good);
        for at in 0..good.len() {
            for flip in [1, 2, 4, 8, 16, 32, 64, 128, 0xff] {
                bytes[at] ^= flip;
                exercise(&bytes);
                _ = EngineConfig::read(&bytes, &Limits::DEFAULT);
                bytes[at] ^= flip;
            }
        }
        for at in (0..good.len() - 3).step_by(2) {
            for word in [0_u32, 1, 4, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_fffc, 0xffff_ffff, good.len() as u32 - 1] {
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
                exercise(&bytes);
                bytes[at..at + 4].copy_from_slice(&good[at..at + 4]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_changes_at_once(pick in 0..FILES.len(), changes in proptest::collection::vec((any::<u32>(), any::<u8>()), 1..8)) {
        let mut bytes = golden(FILES[pick]);
        for (at, value) in changes {
            let at = at as usize % bytes.len();
            bytes[at] = value;
            exercise(&bytes);
        }
    }

    #[test]
    fn noise(bytes: Vec<u8>) {
        exercise(&aligned(&bytes));
        let mut framed = bytes.clone();
        if framed.len() >= 8 {
            framed[..4].copy_from_slice(&[12, 0, 0, 0]);
            framed[4..8].copy_from_slice(b"HDGP");
        }
        exercise(&aligned(&framed));
    }

    #[test]
    fn a_written_graph_is_found_again(seed: u64) {
        let graph = Generator::random(seed, 2).graph(&Style { seed });
        let bytes = container::write(&graph.view(), None, &Limits::DEFAULT).expect("valid");
        let container = Container::open(&bytes, &Limits::DEFAULT).expect("valid");
        prop_assert_eq!(container.graph_bytes(), graph.buffer());
        prop_assert!(VerifiedGraph::verify(container.graph_bytes(), &Limits::DEFAULT).is_ok());
    }
}
