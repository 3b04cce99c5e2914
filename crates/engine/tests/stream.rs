//! Executions wait for the handle's stream, through the HIP library that the process has loaded: here one of a few lines of C.

mod common;

use common::{Context, Engine, Failed, done, two_readers};
use hipplan_engine::exports::hipdnnEnginePluginSetStream;
use hipplan_engine_abi::status::INTERNAL_ERROR;
use std::ffi::c_void;
use std::path::Path;
use std::process::Command;

const FAKE: &str = "
static void *last;
static int calls, answer;
int hipStreamSynchronize(void *stream) { last = stream; calls++; return answer; }
void *fake_last(void) { return last; }
int fake_calls(void) { return calls; }
void fake_answer(int code) { answer = code; }
";

/// A library of these lines.
fn fake(folder: &Path, soname: &str) -> libloading::Library {
    let (source, library) = (folder.join("hip.c"), folder.join(format!("{soname}.fake")));
    std::fs::write(&source, FAKE).expect("written");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let name = format!("-Wl,-soname,{soname}");
    let compiled = Command::new(compiler).args(["-shared", "-fPIC", &name, "-o"]).args([&library, &source]).status();
    assert!(compiled.expect("a C compiler").success());
    // SAFETY: the library that was just compiled; it initialises nothing.
    unsafe { libloading::Library::new(&library) }.expect("loaded")
}

fn execute(context: &Context<'_>) -> Result<(), Failed> {
    let mut memory = [[1.0_f32; 64]; 4];
    let [x, w, y, z] = memory.each_mut().map(|m| m.as_mut_ptr().cast::<c_void>());
    context.execute(&[(1, x), (2, w), (4, y), (5, z)])
}

#[test]
fn a_stream_is_waited_for_once_hip_is_loaded() {
    let engine = Engine::new();
    let context = engine.create(two_readers().buffer()).expect("a context");
    let stream = std::ptr::without_provenance_mut::<c_void>(0x1230);
    // SAFETY: the fake takes any number for a stream.
    let set = |stream| done(unsafe { hipdnnEnginePluginSetStream(engine.0, stream) }).expect("set");
    set(stream);
    execute(&context).expect("without HIP, nothing is waited for");

    // With two runtimes, nobody knows whose stream it is; one of the two is closed again.
    let folder = tempfile::tempdir().expect("a folder");
    let (hip, other) = (fake(folder.path(), "libamdhip64.so.7"), fake(folder.path(), "libamdhip64.so.6"));
    let refused = execute(&context).expect_err("two");
    assert!(refused.0 == INTERNAL_ERROR && refused.1.contains("libamdhip64.so.7 and libamdhip64.so.6"), "{refused:?}");
    drop(other);

    // SAFETY: the library that was just compiled; its functions have these types.
    unsafe {
        let calls = hip.get::<unsafe extern "C" fn() -> i32>(b"fake_calls\0").expect("there");
        let last = hip.get::<unsafe extern "C" fn() -> *mut c_void>(b"fake_last\0").expect("there");
        let answer = hip.get::<unsafe extern "C" fn(i32)>(b"fake_answer\0").expect("there");
        execute(&context).expect("executed");
        assert_eq!((calls(), last()), (1, stream));
        answer(700);
        let failed = execute(&context).expect_err("the stream has failed");
        assert!(failed.0 == INTERNAL_ERROR && failed.1.contains("700"), "{failed:?}");
        set(std::ptr::null_mut());
        execute(&context).expect("null is not waited for");
        assert_eq!(calls(), 2);
    }
}
