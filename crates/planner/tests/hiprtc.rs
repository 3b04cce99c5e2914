//! hiprtc, through worker processes: this program is its own worker, as any program that embeds hipplan may be.
//!
//! No test harness: `main` must begin with `serve_if_asked`.

use hipplan_planner::hip::compiler::hiprtc::serve_if_asked;
use hipplan_planner::hip::compiler::{Hiprtc, KernelCompileError, KernelCompiler, KernelSource};
use hipplan_serialize::Target;
use hipplan_serialize::code_object::{ArgKind, CodeObject};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn main() {
    // Before it is said that this program serves: it would be started with arguments that it does not know.
    let error = Hiprtc::find().expect_err("a refusal").to_string();
    assert!(error.contains("it is no worker for hiprtc: its main must begin with serve_if_asked()"), "{error}");
    serve_if_asked();

    // What a test runner passes on: names to filter by, and options.
    let wanted: Vec<_> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if std::env::args().any(|a| a == "--list") {
        return;
    }
    let tests: [(&str, fn()); 5] = [
        ("debians_library", debians_library),
        ("a_processor_that_the_library_does_not_know", a_processor_that_the_library_does_not_know),
        ("libraries_that_misbehave", libraries_that_misbehave),
        ("what_is_no_library", what_is_no_library),
        ("what_is_no_worker", what_is_no_worker),
    ];
    for (name, test) in tests {
        if wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str())) {
            println!("test {name} ...");
            test();
        }
    }
}

fn this() -> PathBuf {
    std::env::current_exe().expect("this program")
}

fn target(text: &str) -> Target {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// Whether a tool that is missing is an error.
fn everything() -> bool {
    std::env::var_os("HIPPLAN_CI").is_some_and(|v| v == "1")
}

fn kernel(body: &str) -> KernelSource {
    let text = format!(
        r#"
#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((shared))
#define TX ((int)__builtin_amdgcn_workitem_id_x())
#define BX ((int)__builtin_amdgcn_workgroup_id_x())
struct Args {{ const GLOBAL float* x; GLOBAL float* y; float factor; int count; }};
extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(256, 256))) void small_0123456789abcdef(const Args a)
{{
    {body}
}}
"#
    );
    KernelSource { name: "small_0123456789abcdef".into(), text, kernarg_size: 24, block: 256 }
}

fn good() -> KernelSource {
    kernel("const int i = BX * 256 + TX; if (i < a.count) a.y[i] = __builtin_fmaf(a.x[i], a.factor, 1.0f);")
}

/// The library that CI installs: HIP 5.2 with a clang 15 inside, which knows gfx90a and gfx10.
const DEBIANS: &str = "libamdhip64.so.5";

fn debian() -> Option<Hiprtc> {
    match Hiprtc::with_worker(&this(), Some(Path::new(DEBIANS))) {
        Ok(hiprtc) => Some(hiprtc),
        Err(e) if !everything() => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn debians_library() {
    let Some(hiprtc) = debian() else { return };
    println!("{}: {}", hiprtc.library().display(), hiprtc.revision());
    assert!(hiprtc.identity().starts_with("hiprtc (clang 15.0.") && hiprtc.identity().contains("comgr 2."), "{}", hiprtc.identity());
    for text in ["gfx90a", "gfx90a:sramecc+:xnack-", "gfx1030", "gfx906"] {
        assert_eq!(hiprtc.supports(&target(text)), Ok(()), "{text}");
        let bytes = hiprtc.compile(&good(), &target(text)).unwrap_or_else(|e| panic!("{e}"));
        let object = CodeObject::read(&bytes).unwrap_or_else(|e| panic!("{text}: {e}"));
        // This release makes version 4 whatever it is asked for.
        assert_eq!((object.target.to_string().as_str(), object.version), (text, 4));
        let kernel = &object.kernels[0];
        assert!(matches!(kernel.args[..], [arg] if arg.size == 24 && arg.kind == ArgKind::ByValue), "{kernel:?}");
        assert_eq!(hiprtc.compile(&good(), &target(text)).unwrap_or_else(|e| panic!("{e}")), bytes, "{text}");
    }
    for (text, reason) in [
        ("gfx1100", "it does not know gfx1100: use a later ROCm, or clang"),
        ("gfx942", "it does not know gfx942"),
        ("gfx12-generic", "it does not know gfx12-generic"),
        ("cpu", "it compiles for AMD GPUs only"),
    ] {
        assert!(hiprtc.supports(&target(text)).is_err_and(|e| e.contains(reason)), "{text}");
        assert!(matches!(hiprtc.compile(&good(), &target(text)), Err(KernelCompileError::Target { .. })), "{text}");
    }
    // What the text does wrong, in the compiler's words.
    let error = hiprtc.compile(&kernel("a.z[0] = 1;"), &target("gfx90a")).expect_err("a refusal");
    assert!(matches!(error, KernelCompileError::Refused { code: 1, .. }), "{error}");
    assert!(error.to_string().contains("HIPRTC_ERROR_COMPILATION") && error.to_string().contains("no member named 'z'"), "{error}");
    let hidden = hiprtc.compile(&kernel("a.y[TX] = (float)__builtin_amdgcn_workgroup_size_x();"), &target("gfx90a"));
    assert!(matches!(hidden, Err(KernelCompileError::Promise { .. })), "{hidden:?}");
    let body = "float own[256]; for (int i = 0; i < 256; ++i) own[(i * a.count) & 255] = a.x[i]; a.y[TX] = own[(TX * a.count) & 255];";
    let scratch = hiprtc.compile(&kernel(body), &target("gfx1030")).expect_err("a broken promise").to_string();
    assert!(scratch.contains("bytes of scratch memory, expected 0"), "{scratch}");
    // Found without being named, too, if nothing newer is there.
    match Hiprtc::find() {
        Ok(found) => println!("found {}", found.library().display()),
        Err(e) => panic!("{e}"),
    }
}

/// Why the list is asked first, and why there is a process around it: the library takes its process along.
fn a_processor_that_the_library_does_not_know() {
    if debian().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text");
    std::fs::write(&text, good().text).expect("written");
    let ran = Command::new(this())
        .args(["hipplan-hiprtc-worker", "compile", DEBIANS, "out", "--offload-arch=gfx1100"])
        .current_dir(folder.path())
        .stdin(std::fs::File::open(&text).expect("a file"))
        .output()
        .expect("the worker runs");
    use std::os::unix::process::ExitStatusExt;
    assert!(ran.status.signal().is_some(), "{ran:?}");
}

/// Builds a library with hiprtc's names, whose compile does this.
fn fake(folder: &Path, compile: &str) -> Option<PathBuf> {
    let source = format!(
        r#"
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int hiprtcCreateProgram(void** p, const char* text, const char* name, int n, const char** h, const char** i) {{ *p = "program"; return 0; }}
int hiprtcCompileProgram(void* p, int n, const char** options) {{
    for (int i = 0; i < n; i++) if (strstr(options[i], "gfx90a:xnack+")) {{ {compile} }}
    return 0;
}}
int hiprtcGetProgramLogSize(void* p, size_t* n) {{ *n = 8; return 0; }}
int hiprtcGetProgramLog(void* p, char* out) {{ memcpy(out, "the log\n", 8); return 0; }}
int hiprtcGetCodeSize(void* p, size_t* n) {{ *n = 4; return 0; }}
int hiprtcGetCode(void* p, char* out) {{ memcpy(out, "code", 4); return 0; }}
const char* hiprtcGetErrorString(int code) {{ return code == 6 ? "HIPRTC_ERROR_COMPILATION" : NULL; }}
"#
    );
    let (c, library) = (folder.join("fake.c"), folder.join("libfake.so"));
    std::fs::write(&c, source).expect("written");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(&c).output();
    match built {
        Ok(built) => assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr)),
        Err(e) if !everything() => {
            println!("skipped: cc: {e}");
            return None;
        }
        Err(e) => panic!("cc: {e}"),
    }
    Some(library)
}

fn libraries_that_misbehave() {
    for (compile, message) in [
        ("abort();", "crashed (SIGABRT)"),
        ("*(volatile int*)0 = 1;", "crashed (SIGSEGV)"),
        ("for (;;) sleep(1);", "was stopped after 0.5 s"),
        ("return 6;", "ended with 1: hiprtc error 6, HIPRTC_ERROR_COMPILATION\nthe log"),
        ("return 11;", "hiprtc error 11, an unknown error"),
        ("puts(\"noise\"); exit(0);", "succeeded, but left nothing where its code should be"),
        ("", "made what is not a code object: not an ELF file: begins with [63, 6f, 64, 65]"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(library) = fake(folder.path(), compile) else { return };
        let hiprtc = Hiprtc::with_worker(&this(), Some(&library)).unwrap_or_else(|e| panic!("{e}"));
        // Only what hangs may run into the limit, however busy the machine is.
        let limit = if message.starts_with("was stopped") { Duration::from_millis(500) } else { Duration::from_secs(60) };
        let error = hiprtc.with_limit(limit).compile(&good(), &target("gfx90a:xnack+")).expect_err("a failure");
        assert!(error.to_string().contains(message), "{compile}: {error}");
    }
}

fn what_is_no_library() {
    let error = Hiprtc::with_worker(&this(), Some(Path::new("/nowhere/libhiprtc.so"))).expect_err("a refusal");
    assert!(matches!(error, KernelCompileError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("/nowhere/libhiprtc.so: cannot open shared object file"), "{error}");
    assert!(error.to_string().contains("name its library in HIPPLAN_HIPRTC_LIBRARY"), "{error}");
    // A library of something else.
    let error = Hiprtc::with_worker(&this(), Some(Path::new("libm.so.6"))).expect_err("a refusal");
    assert!(error.to_string().contains("it has no hiprtcCreateProgram"), "{error}");
}

fn what_is_no_worker() {
    let error = Hiprtc::with_worker(Path::new("/nowhere/worker"), None).expect_err("a refusal");
    assert!(matches!(error, KernelCompileError::Start { .. }), "{error}");
    let error = Hiprtc::with_worker(Path::new("/bin/true"), None).expect_err("a refusal");
    assert!(error.to_string().contains("it is no worker for hiprtc of this version"), "{error}");
}
