//! The conventions of the ABI: what every plugin says of itself, the two calls for a list, null arguments, handles, configurations, texts.

mod common;

use common::{Engine, Failed, config, done, last_error, two_readers as graph};
use hipplan_engine::exports::*;
use hipplan_engine::{ENGINE_ID, payload};
use hipplan_engine_abi::status::*;
use hipplan_engine_abi::types::{ConstData, DeviceBuffer};
use hipplan_serialize::hipdnn::engine::{EngineConfig, EngineDetails, KnobValue};
use hipplan_serialize::{DataType, GraphBuilder, Limits, PointwiseMode, TensorAttributes, engine_id, ops};
use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};
use std::sync::Mutex;

fn text(get: unsafe extern "C" fn(*mut *const c_char) -> Status) -> String {
    let mut text = null();
    // SAFETY: the pointer is to a pointer, and the texts are constants.
    unsafe {
        assert_eq!(get(&raw mut text), SUCCESS);
        CStr::from_ptr(text).to_str().expect("UTF-8").to_owned()
    }
}

#[test]
fn it_says_who_it_is() {
    assert_eq!(text(hipdnnPluginGetName), "hipplan_engine");
    assert_eq!(text(hipdnnPluginGetVersion), env!("CARGO_PKG_VERSION"));
    assert_eq!(text(hipdnnPluginGetApiVersion), "1.4.0");
    let mut kind = TYPE_UNSPECIFIED;
    let mut name = null();
    // SAFETY: the pointers are to what they are said to be.
    unsafe {
        assert_eq!(hipdnnPluginGetType(&raw mut kind), SUCCESS);
        assert_eq!(hipdnnEnginePluginGetEngineName(ENGINE_ID, &raw mut name), SUCCESS);
        let name = CStr::from_ptr(name).to_str().expect("UTF-8");
        assert_eq!((kind, name, engine_id(name)), (TYPE_ENGINE, "HIPPLAN_CPU_ENGINE", ENGINE_ID));
        assert_eq!(hipdnnEnginePluginGetEngineName(7, &mut null()), INVALID_VALUE);
    }
}

#[test]
fn lists_are_given_in_two_calls_or_one() {
    let engine = Engine::new();
    let graph = graph();
    let graph = ConstData::of(graph.buffer());
    let (mut ids, mut num) = ([0; 3], 9);
    // SAFETY: the pointers are to what they are said to be.
    unsafe {
        assert_eq!(hipdnnEnginePluginGetAllEngineIds(null_mut(), 0, &raw mut num), SUCCESS);
        assert_eq!(num, 1);
        assert_eq!(hipdnnEnginePluginGetAllEngineIds(ids.as_mut_ptr(), 3, &raw mut num), SUCCESS);
        assert_eq!((ids, num), ([ENGINE_ID, 0, 0], 1));
        assert_eq!(hipdnnEnginePluginGetAllEngineIds(null_mut(), 1, &raw mut num), BAD_PARAM);
        assert_eq!(hipdnnEnginePluginGetAllEngineIds(ids.as_mut_ptr(), 3, null_mut()), BAD_PARAM);
        (ids, num) = ([0; 3], 9);
        assert_eq!(hipdnnEnginePluginGetApplicableEngineIds(engine.0, &graph, null_mut(), 0, &raw mut num), SUCCESS);
        assert_eq!(num, 1, "the total, whatever there is room for");
        assert_eq!(hipdnnEnginePluginGetApplicableEngineIds(engine.0, &graph, ids.as_mut_ptr(), 3, &raw mut num), SUCCESS);
        assert_eq!((ids, num), ([ENGINE_ID, 0, 0], 1));
        assert_eq!(hipdnnEnginePluginGetApplicableEngineIds(engine.0, &graph, null_mut(), 1, &raw mut num), BAD_PARAM);
    }
}

#[test]
fn null_is_refused_everywhere() {
    let engine = Engine::new();
    let (graph, config) = (graph(), config());
    let context = engine.create(graph.buffer()).expect("a context");
    let (h, x) = (engine.0, context.raw);
    let (graph, config) = (ConstData::of(graph.buffer()), ConstData::of(&config));
    let (mut num, mut size, mut out, mut made) = (0, 0_usize, ConstData::EMPTY, null_mut());
    let (mut ids, empty) = ([0; 1], ConstData::EMPTY);
    let (ids, num, size, out, made) = (ids.as_mut_ptr(), &raw mut num, &raw mut size, &raw mut out, &raw mut made);
    let id = ENGINE_ID;
    // SAFETY: each pointer is null or to what it is said to be.
    let refused = unsafe {
        [
            hipdnnPluginGetName(null_mut()),
            hipdnnPluginGetVersion(null_mut()),
            hipdnnPluginGetApiVersion(null_mut()),
            hipdnnPluginGetType(null_mut()),
            hipdnnEnginePluginGetEngineName(id, null_mut()),
            hipdnnEnginePluginCreate(null_mut()),
            hipdnnEnginePluginDestroy(null_mut()),
            hipdnnEnginePluginSetStream(null_mut(), null_mut()),
            hipdnnEnginePluginGetApplicableEngineIds(null_mut(), &graph, ids, 1, num),
            hipdnnEnginePluginGetApplicableEngineIds(h, null(), ids, 1, num),
            hipdnnEnginePluginGetApplicableEngineIds(h, &empty, ids, 1, num),
            hipdnnEnginePluginGetApplicableEngineIds(h, &graph, ids, 1, null_mut()),
            hipdnnEnginePluginGetEngineDetails(null_mut(), id, &graph, out),
            hipdnnEnginePluginGetEngineDetails(h, id, null(), out),
            hipdnnEnginePluginGetEngineDetails(h, id, &graph, null_mut()),
            hipdnnEnginePluginDestroyEngineDetails(h, null_mut()),
            hipdnnEnginePluginDestroyEngineDetails(null_mut(), out),
            hipdnnEnginePluginGetWorkspaceSize(null_mut(), &config, &graph, size),
            hipdnnEnginePluginGetWorkspaceSize(h, null(), &graph, size),
            hipdnnEnginePluginGetWorkspaceSize(h, &config, null(), size),
            hipdnnEnginePluginGetWorkspaceSize(h, &config, &graph, null_mut()),
            hipdnnEnginePluginCreateExecutionContext(null_mut(), &config, &graph, made),
            hipdnnEnginePluginCreateExecutionContext(h, null(), &graph, made),
            hipdnnEnginePluginCreateExecutionContext(h, &config, null(), made),
            hipdnnEnginePluginCreateExecutionContext(h, &config, &graph, null_mut()),
            hipdnnEnginePluginDestroyExecutionContext(null_mut(), x),
            hipdnnEnginePluginDestroyExecutionContext(h, null_mut()),
            hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(null_mut(), x, size),
            hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(h, null_mut(), size),
            hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(h, x, null_mut()),
            hipdnnEnginePluginExecuteOpGraph(null_mut(), x, null_mut(), null(), 0),
            hipdnnEnginePluginExecuteOpGraph(h, null_mut(), null_mut(), null(), 0),
            hipdnnEnginePluginExecuteOpGraph(h, x, null_mut(), null(), 1),
            hipdnnEnginePluginExecuteOpGraphWithOverrides(h, x, null_mut(), null(), 0, 1, null(), null(), null(), null()),
            hipdnnEnginePluginSerializeExecutionContextWithEngineId(null_mut(), id, x, out),
            hipdnnEnginePluginSerializeExecutionContextWithEngineId(h, id, null_mut(), out),
            hipdnnEnginePluginSerializeExecutionContextWithEngineId(h, id, x, null_mut()),
            hipdnnEnginePluginDestroySerializedExecutionContext(h, null_mut()),
            hipdnnEnginePluginDestroySerializedExecutionContext(null_mut(), out),
            hipdnnEnginePluginCreateExecutionContextFromSerialized(null_mut(), &graph, made),
            hipdnnEnginePluginCreateExecutionContextFromSerialized(h, null(), made),
            hipdnnEnginePluginCreateExecutionContextFromSerialized(h, &empty, made),
            hipdnnEnginePluginCreateExecutionContextFromSerialized(h, &graph, null_mut()),
        ]
    };
    for (at, status) in refused.into_iter().enumerate() {
        assert_eq!(status, BAD_PARAM, "call {at}");
    }
    // SAFETY: null is ignored.
    unsafe { hipdnnPluginGetLastErrorString(null_mut()) };
}

#[test]
fn a_handle_is_no_context_and_a_context_no_handle() {
    let engine = Engine::new();
    let context = engine.create(graph().buffer()).expect("a context");
    // SAFETY: both live, and are told apart by their first word.
    unsafe {
        assert_eq!(hipdnnEnginePluginDestroy(context.raw.cast()), BAD_PARAM);
        assert!(last_error().contains("is no handle"), "{}", last_error());
        assert_eq!(hipdnnEnginePluginDestroyExecutionContext(engine.0, engine.0.cast()), BAD_PARAM);
        assert!(last_error().contains("is no execution context"), "{}", last_error());
        // No handle is a context's own.
        let other = Engine::new();
        assert_eq!(hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(other.0, context.raw, &mut 0), SUCCESS);
    }
}

#[test]
fn a_configuration_is_for_this_engine_and_sets_nothing() {
    let engine = Engine::new();
    let graph = graph();
    let with = |config: EngineConfig| engine.create_with(&config.encode(), graph.buffer()).err();
    assert_eq!(with(EngineConfig { engine_id: ENGINE_ID, knobs: Vec::new() }), None);
    let other = with(EngineConfig { engine_id: 5, knobs: Vec::new() }).expect("refused");
    assert!(other.0 == INVALID_VALUE && other.1.contains("engine id 5"), "{other:?}");
    let knob = with(EngineConfig { engine_id: ENGINE_ID, knobs: vec![("test.block".to_owned(), KnobValue::Int(8))] }).expect("refused");
    assert!(knob.0 == INVALID_VALUE && knob.1.contains("test.block") && knob.1.contains('8'), "{knob:?}");
    let damaged = engine.create_with(&[0xff; 24], graph.buffer()).err().expect("refused");
    assert_eq!(damaged.0, INVALID_VALUE, "{damaged:?}");
}

#[test]
fn details_name_the_engine_and_offer_no_knobs() {
    let engine = Engine::new();
    let graph = graph();
    let graph = ConstData::of(graph.buffer());
    let mut lent = ConstData::EMPTY;
    // SAFETY: the bytes are copied before they are given back.
    unsafe {
        done(hipdnnEnginePluginGetEngineDetails(engine.0, ENGINE_ID, &graph, &raw mut lent)).expect("details");
        let bytes = std::slice::from_raw_parts(lent.ptr.cast(), lent.size).to_vec();
        let details = EngineDetails::parse(&bytes, &Limits::DEFAULT).expect("details");
        assert_eq!((details.engine_id, details.name.as_deref()), (ENGINE_ID, Some("HIPPLAN_CPU_ENGINE")));
        assert!(details.knobs.is_empty());
        let mut copy = lent;
        done(hipdnnEnginePluginDestroyEngineDetails(engine.0, &raw mut lent)).expect("given back");
        assert_eq!(lent, ConstData::EMPTY);
        done(hipdnnEnginePluginDestroyEngineDetails(engine.0, &raw mut lent)).expect("nothing to give back");
        assert_eq!(hipdnnEnginePluginDestroyEngineDetails(engine.0, &raw mut copy), BAD_PARAM, "twice");
        assert_eq!(hipdnnEnginePluginGetEngineDetails(engine.0, 3, &graph, &raw mut lent), INVALID_VALUE);
        let mut size = 0;
        let config = config();
        done(hipdnnEnginePluginGetWorkspaceSize(engine.0, &ConstData::of(&config), &graph, &raw mut size)).expect("a size");
        let context = engine.create(std::slice::from_raw_parts(graph.ptr.cast(), graph.size)).expect("a context");
        assert_eq!(size, context.workspace_size());
    }
}

#[test]
fn what_is_no_graph_is_an_error_and_what_is_too_new_is_not_applicable() {
    let engine = Engine::new();
    let whole = graph().buffer().to_vec();
    for bytes in [&b"no graph"[..], &whole[..whole.len() / 2], &[0; 64]] {
        let Failed(status, text) = engine.applicable(bytes).expect_err("no graph");
        assert!(status == INVALID_VALUE && text.starts_with("graph"), "{status} {text}");
    }
    let mut builder = GraphBuilder::new();
    let (x, y) = (TensorAttributes::packed(DataType::Float, &[1; 9]), TensorAttributes::packed(DataType::Float, &[1; 9]));
    let (x, y) = (builder.tensor(x), builder.tensor(y));
    builder.node("relu", DataType::Float, ops::Pointwise::unary(PointwiseMode::ReluFwd, x, y));
    let large = builder.build_with(&Limits { max_rank: 9, ..Limits::DEFAULT }).expect("a graph of rank 9");
    assert_eq!(engine.applicable(large.buffer()), Ok(Vec::new()));
    assert_eq!(engine.create(large.buffer()).err().expect("refused").0, NOT_APPLICABLE);
}

#[test]
fn missing_buffers_and_a_missing_workspace_are_named() {
    let engine = Engine::new();
    let context = engine.create(graph().buffer()).expect("a context");
    let mut memory = [0.0_f32; 64];
    let at = memory.as_mut_ptr();
    let failed = context.execute(&[(1, at.cast()), (4, at.cast()), (5, at.cast())]).expect_err("w is missing");
    assert!(failed.0 == INVALID_VALUE && failed.1.contains("uid 2"), "{failed:?}");
    let crooked = at.wrapping_byte_add(2);
    let failed = context.execute(&[(1, crooked.cast()), (2, at.cast()), (4, at.cast()), (5, at.cast())]).expect_err("crooked");
    assert!(failed.0 == INVALID_VALUE && failed.1.contains("multiple of 4"), "{failed:?}");
    assert!(context.workspace_size() > 0);
    let buffers = [1, 2, 4, 5].map(|uid| DeviceBuffer { uid, ptr: at.cast() });
    // SAFETY: the workspace is null, which is refused before anything is computed.
    let status = unsafe { hipdnnEnginePluginExecuteOpGraph(engine.0, context.raw, null_mut(), buffers.as_ptr(), 4) };
    assert!(status == BAD_PARAM && last_error().contains("workspace is null"), "{}", last_error());
}

#[test]
fn a_foreign_payload_is_refused_before_it_is_read() {
    let engine = Engine::new();
    let Failed(status, text) =
        engine.restore(b"FUSPLAN\0\x01\0\0\0 and what another provider stores after that, as long as it likes").err().expect("foreign");
    assert!(status == INVALID_VALUE && text.contains("another plugin's"), "{text}");
    let mut newer = engine.create(graph().buffer()).expect("a context").serialize();
    newer[10] = u8::try_from(payload::MINOR).expect("small") + 1;
    let Failed(status, text) = engine.restore(&newer).err().expect("newer");
    assert!(status == INVALID_VALUE && text.contains("format 1.1") && text.contains("reads 1.0 to 1.0"), "{text}");
}

static LINES: Mutex<Vec<(Severity, String)>> = Mutex::new(Vec::new());

unsafe extern "C" fn keep_line(severity: Severity, text: *const c_char) {
    // SAFETY: the plugin gives a text that ends in zero.
    let text = unsafe { CStr::from_ptr(text) }.to_str().expect("UTF-8").to_owned();
    LINES.lock().expect("not poisoned").push((severity, text));
}

#[test]
fn failures_are_logged_from_the_level_that_is_set() {
    let engine = Engine::new();
    let graph = graph();
    let has = |severity, part: &str| LINES.lock().expect("not poisoned").iter().any(|(s, t)| *s == severity && t.contains(part));
    // SAFETY: the function stays, and does not unwind. Other tests may log meanwhile.
    unsafe {
        assert_eq!(hipdnnPluginSetLoggingCallback(Some(keep_line)), SUCCESS);
        assert_eq!(hipdnnEnginePluginGetEngineName(41, &mut null()), INVALID_VALUE);
        assert!(has(SEVERITY_ERROR, "engine id 41"));
        assert_eq!(hipdnnPluginSetLogLevel(SEVERITY_INFO), SUCCESS);
        drop(engine.create(graph.buffer()).expect("a context"));
        assert!(has(SEVERITY_INFO, "was compiled"));
        assert_eq!(hipdnnPluginSetLogLevel(SEVERITY_OFF), SUCCESS);
        assert_eq!(hipdnnEnginePluginGetEngineName(42, &mut null()), INVALID_VALUE);
        assert!(!has(SEVERITY_ERROR, "engine id 42"));
        assert_eq!(hipdnnPluginSetLoggingCallback(None), SUCCESS);
    }
}
