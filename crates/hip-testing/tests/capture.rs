//! Stream capture on the host runtime: what is recorded, what a capture refuses, and what a graph does.

mod common;

use common::{Handle, Hip, Host, image, reverse};
use std::ffi::c_int;
use std::ptr;

const NULL: Handle = ptr::null_mut();
const GLOBAL: c_int = 0;
const THREAD_LOCAL: c_int = 1;
const RELAXED: c_int = 2;

/// Name, what it returns in a capture, and how it is called.
type Call<'a> = (&'a str, c_int, Box<dyn FnMut() -> c_int + 'a>);

/// A kernel that reverses 256 numbers, and the memory for it.
struct Reversal {
    module: Handle,
    function: Handle,
    memory: Handle,
}

impl Reversal {
    fn new(hip: &Hip) -> Self {
        let source = reverse();
        let module = hip.load(&image(&source, false)).expect("loaded");
        let function = hip.function(module, &source.name).expect("found");
        let memory = hip.malloc(1024).expect("memory");
        hip.upload(memory, &forward());
        Self { module, function, memory }
    }

    fn launch(&self, hip: &Hip, stream: Handle) -> Result<(), c_int> {
        hip.launch(self.function, [1, 1, 1], 256, &[self.memory as u64, 1], stream)
    }
}

fn forward() -> Vec<i32> {
    (0..256).collect()
}

fn backward() -> Vec<i32> {
    (0..256).rev().collect()
}

fn begin(hip: &Hip, stream: Handle, mode: c_int) {
    // SAFETY: the runtime checks the handle.
    assert_eq!(unsafe { (hip.hipStreamBeginCapture)(stream, mode) }, 0);
}

fn end(hip: &Hip, stream: Handle) -> Result<Handle, c_int> {
    let mut graph = ptr::without_provenance_mut(1);
    // SAFETY: a place for the handle; the runtime checks the stream's.
    let code = unsafe { (hip.hipStreamEndCapture)(stream, &raw mut graph) };
    if code == 0 {
        return Ok(graph);
    }
    assert_eq!(graph, NULL);
    Err(code)
}

fn state(hip: &Hip, stream: Handle) -> c_int {
    let mut state = -1;
    // SAFETY: a place for the state; the runtime checks the handle.
    assert_eq!(unsafe { (hip.hipStreamIsCapturing)(stream, &raw mut state) }, 0);
    state
}

#[test]
fn what_is_captured_happens_at_each_launch_of_the_graph() {
    let (_folder, host) = Host::open();
    let hip = &host.hip;
    let it = Reversal::new(hip);
    let stream = hip.stream(true);
    assert_eq!(state(hip, stream), 0);
    begin(hip, stream, GLOBAL);
    assert_eq!(state(hip, stream), 1);
    it.launch(hip, stream).expect("recorded");
    let graph = end(hip, stream).expect("a graph");
    assert_eq!(state(hip, stream), 0);
    assert_eq!(hip.download::<i32>(it.memory, 256), forward());
    assert_eq!(host.calls("kernel reverse"), 0);
    let (mut nodes, mut executable) = (0, NULL);
    // SAFETY: places for what is asked for; the runtime checks the handles.
    unsafe {
        assert_eq!((hip.hipGraphGetNodes)(graph, ptr::null_mut(), &raw mut nodes), 0);
        assert_eq!(nodes, 1);
        assert_eq!((hip.hipGraphInstantiate)(&raw mut executable, graph, ptr::null_mut(), ptr::null_mut(), 0), 0);
        assert_eq!((hip.hipGraphDestroy)(graph), 0);
        assert_eq!((hip.hipGraphDestroy)(graph), 1);
        for expected in [backward(), forward(), backward()] {
            assert_eq!((hip.hipGraphLaunch)(executable, stream), 0);
            assert_eq!((hip.hipStreamSynchronize)(stream), 0);
            assert_eq!(hip.download::<i32>(it.memory, 256), expected);
        }
        assert_eq!((hip.hipGraphExecDestroy)(executable), 0);
        assert_eq!((hip.hipGraphLaunch)(executable, stream), 1);
    }
    assert_eq!(host.calls("kernel reverse"), 3);
}

/// Calls that no graph can hold fail, and what was captured until then is lost.
#[test]
fn calls_that_cannot_be_captured_spoil_the_capture() {
    let (_folder, host) = Host::open();
    let hip = &host.hip;
    let it = Reversal::new(hip);
    let stream = hip.stream(true);
    let bytes = image(&reverse(), false);
    let mut out = [0_i32; 256];
    let event = hip.event();
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    let copy = || unsafe { (hip.hipMemcpy)(out.as_mut_ptr().cast(), it.memory, 1024, 2) };
    // SAFETY: as above.
    let wait = || unsafe { (hip.hipDeviceSynchronize)() };
    // SAFETY: as above.
    let wait_stream = || unsafe { (hip.hipStreamSynchronize)(stream) };
    // SAFETY: as above.
    let wait_event = || unsafe {
        assert_eq!((hip.hipEventRecord)(event, stream), 0);
        (hip.hipEventSynchronize)(event)
    };
    let code = |result: Result<(), c_int>| result.err().unwrap_or(0);
    let mut calls: Vec<Call<'_>> = vec![
        ("hipMalloc", 900, Box::new(|| code(hip.malloc(8).map(drop)))),
        ("hipFree", 900, Box::new(|| code(hip.free(it.memory)))),
        ("hipModuleLoadData", 900, Box::new(|| code(hip.load(&bytes).map(drop)))),
        ("hipModuleUnload", 900, Box::new(|| code(hip.unload(it.module)))),
        ("hipMemcpy", 900, Box::new(copy)),
        ("hipDeviceSynchronize", 900, Box::new(wait)),
        ("hipStreamSynchronize", 900, Box::new(wait_stream)),
        ("hipEventSynchronize", 907, Box::new(wait_event)),
    ];
    for (name, expected, call) in &mut calls {
        begin(hip, stream, GLOBAL);
        it.launch(hip, stream).expect("recorded");
        assert_eq!(call(), *expected, "{name}");
        assert_eq!(state(hip, stream), 2, "{name}");
        assert_eq!(it.launch(hip, stream), Err(901), "{name}");
        assert_eq!(end(hip, stream), Err(901), "{name}");
        assert_eq!(state(hip, stream), 0, "{name}");
    }
    drop(calls);
    assert_eq!(host.live()[..4], [1, 1024, 0, 1]);
    // And outside of one they work.
    it.launch(hip, stream).expect("launched");
    assert_eq!(hip.download::<i32>(it.memory, 256), backward());
}

#[test]
fn modes_say_whom_a_capture_concerns() {
    let (_folder, host) = Host::open();
    let hip = &host.hip;
    let stream = hip.stream(true);
    let elsewhere = || std::thread::scope(|scope| scope.spawn(|| hip.malloc(8).map(|m| m as usize)).join().expect("no panic"));
    for (mode, own, other) in [(GLOBAL, false, false), (THREAD_LOCAL, false, true), (RELAXED, true, true)] {
        begin(hip, stream, mode);
        assert_eq!(hip.malloc(8).is_ok(), own, "{mode}");
        assert_eq!(end(hip, stream).is_ok(), own, "{mode}");
        begin(hip, stream, mode);
        assert_eq!(elsewhere().is_ok(), other, "{mode}");
        assert_eq!(end(hip, stream).is_ok(), other, "{mode}");
    }
    // A thread may exempt itself.
    let mut mode = RELAXED;
    begin(hip, stream, GLOBAL);
    // SAFETY: a place for the mode.
    assert_eq!(unsafe { (hip.hipThreadExchangeStreamCaptureMode)(&raw mut mode) }, 0);
    assert_eq!(mode, GLOBAL);
    assert!(hip.malloc(8).is_ok());
    assert!(end(hip, stream).is_ok());
}

#[test]
fn streams_join_a_capture_through_events() {
    let (_folder, host) = Host::open();
    let hip = &host.hip;
    let it = Reversal::new(hip);
    let (first, second, event) = (hip.stream(true), hip.stream(true), hip.event());
    // SAFETY: the runtime checks handles.
    let record = |stream| unsafe { (hip.hipEventRecord)(event, stream) };
    // SAFETY: the runtime checks handles.
    let wait = |stream| unsafe { (hip.hipStreamWaitEvent)(stream, event, 0) };
    begin(hip, first, GLOBAL);
    assert_eq!((record(first), wait(second)), (0, 0));
    assert_eq!(state(hip, second), 1);
    it.launch(hip, second).expect("recorded");
    assert_eq!((record(second), wait(first)), (0, 0));
    it.launch(hip, first).expect("recorded");
    let graph = end(hip, first).expect("a graph");
    assert_eq!(state(hip, second), 0);
    let mut nodes = 0;
    // SAFETY: a place for the number; the runtime checks the handle.
    assert_eq!(unsafe { (hip.hipGraphGetNodes)(graph, ptr::null_mut(), &raw mut nodes) }, 0);
    assert_eq!(nodes, 2);

    // The end belongs to the stream of the beginning.
    begin(hip, first, GLOBAL);
    assert_eq!((record(first), wait(second)), (0, 0));
    assert_eq!(end(hip, second), Err(903));
    assert_eq!(end(hip, first), Err(901));
    // Work outside cannot be waited for inside.
    assert_eq!(record(second), 0);
    begin(hip, first, GLOBAL);
    assert_eq!(wait(first), 905);
    assert_eq!(end(hip, first), Err(901));
    assert_eq!(end(hip, first), Err(401));
}

/// The null stream waits for other streams, so that work on it cannot be beside a capture of such a stream.
#[test]
fn the_null_stream_is_not_used_beside_a_capture() {
    let (_folder, host) = Host::open();
    let hip = &host.hip;
    let it = Reversal::new(hip);
    for (independent, expected) in [(true, Ok(())), (false, Err(906))] {
        let stream = hip.stream(independent);
        begin(hip, stream, GLOBAL);
        assert_eq!(it.launch(hip, NULL), expected);
        assert_eq!(end(hip, stream).map(drop), expected.map_err(|_| 901));
    }
    // SAFETY: no handle.
    assert_eq!(unsafe { (hip.hipStreamBeginCapture)(NULL, GLOBAL) }, 900);
}
