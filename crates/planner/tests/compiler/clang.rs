//! Real kernels through a real clang.

use crate::common::{clang, good, kernel, scratch, target};
use hipplan_planner::hip::compiler::check::Violation;
use hipplan_planner::hip::compiler::{Clang, KernelCompileError, KernelCompiler, KernelSource};
use hipplan_serialize::code_object::CodeObject;
use std::process::Command;

const TARGETS: [&str; 5] = ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"];

#[test]
fn five_targets() {
    let Some(clang) = clang("clang-19") else { return };
    assert!(clang.identity().starts_with("clang 19."), "{}", clang.identity());
    assert!(clang.revision().contains("-ffp-contract=off") && clang.revision().contains("LLD 19"), "{}", clang.revision());
    for text in TARGETS.into_iter().chain(["gfx90a:sramecc+:xnack-", "gfx942:xnack-"]) {
        let target = target(text);
        assert_eq!(clang.supports(&target), Ok(()));
        let bytes = clang.compile(&good(), &target).unwrap_or_else(|e| panic!("{e}"));
        let object = CodeObject::read(&bytes).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!((object.target.to_string().as_str(), object.version), (text, 5));
        let [kernel] = &object.kernels[..] else { panic!("{object:?}") };
        assert_eq!((kernel.name, kernel.kernarg_size, kernel.lds_size), ("good_0123456789abcdef", 24, 1024), "{text}");
        assert_eq!(kernel.wavefront_size, if text.starts_with("gfx9") { 64 } else { 32 });
        // Nothing of the machine is in it.
        let home = std::env::var("HOME").unwrap_or_default();
        for path in ["/tmp", "hipplan-", home.as_str()] {
            assert!(path.len() < 4 || !bytes.windows(path.len()).any(|w| w == path.as_bytes()), "{text} holds {path:?}");
        }
    }
}

#[test]
fn what_it_does_not_compile_for_is_said() {
    let Some(clang) = clang("clang-19") else { return };
    for (text, reason) in [
        ("cpu", "it compiles for AMD GPUs only"),
        ("host", "it compiles for AMD GPUs only"),
        ("sm_90", "it compiles for AMD GPUs only"),
        ("gfx950", "it does not know gfx950: use a later clang"),
        ("gfx1310", "it does not know gfx1310"),
        ("gfx11-generic", "an experiment before clang 20: use a later clang"),
    ] {
        let target = target(text);
        assert!(clang.supports(&target).is_err_and(|e| e.contains(reason)), "{text}: {:?}", clang.supports(&target));
        let error = clang.compile(&good(), &target).expect_err("a refusal");
        assert!(matches!(error, KernelCompileError::Target { .. }) && error.to_string().contains(reason), "{error}");
    }
    let processors: Vec<_> = clang.processors().collect();
    assert!(processors.contains(&"gfx1201") && !processors.contains(&"gfx9-generic"), "{processors:?}");
}

#[test]
fn newer_targets() {
    if std::env::var_os("HIPPLAN_NO_CLANG_22").is_some() {
        println!("skipped: there is no clang 22 for this distribution");
        return;
    }
    let Some(clang) = clang("clang-22") else { return };
    for (text, version) in [("gfx950", 5), ("gfx942", 5), ("gfx1250", 5), ("gfx9-4-generic", 6), ("gfx11-generic", 6)] {
        let bytes = clang.compile(&good(), &target(text)).unwrap_or_else(|e| panic!("{e}"));
        let object = CodeObject::read(&bytes).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!((object.target.to_string().as_str(), object.version), (text, version));
        assert_eq!(object.generic_version, u8::from(version == 6));
    }
}

/// Compiles in other processes: another HOME, folder, user-dependent variables, and nothing on PATH.
#[test]
fn the_same_bytes_everywhere() {
    let Some(clang) = clang("clang-19") else { return };
    if let Some(folder) = std::env::var_os("HIPPLAN_TEST_COMPILE_INTO") {
        // The inner run.
        let bytes = clang.compile(&good(), &target("gfx1100")).unwrap_or_else(|e| panic!("{e}"));
        std::fs::write(std::path::Path::new(&folder).join("object"), bytes).expect("written");
        return;
    }
    let here = clang.compile(&good(), &target("gfx1100")).unwrap_or_else(|e| panic!("{e}"));
    let bin = scratch();
    std::os::unix::fs::symlink(clang.program(), bin.path().join("clang-19")).expect("a link");
    for number in 0..2 {
        let folder = scratch();
        // Each of these would change what clang does if it saw it.
        std::fs::write(folder.path().join("stdint.h"), "#error found").expect("written");
        let status = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "clang::the_same_bytes_everywhere"])
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", if number == 0 { bin.path().to_owned() } else { clang.program().parent().expect("a folder").to_owned() })
            .env("HOME", folder.path())
            .env("TMPDIR", folder.path())
            .env("CPATH", folder.path())
            .env("CCC_OVERRIDE_OPTIONS", "+-O0")
            .env("USER", format!("user{number}"))
            .env("HIPPLAN_TEST_COMPILE_INTO", folder.path())
            .output()
            .expect("the test runs");
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
        assert!(std::fs::read(folder.path().join("object")).expect("an object") == here, "run {number} made other bytes");
        // The private folder is gone.
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }
}

#[test]
fn broken_promises() {
    let Some(clang) = clang("clang-19") else { return };
    let broken = |source: &KernelSource| match clang.compile(source, &target("gfx1100")) {
        Err(KernelCompileError::Promise { job, source: violation }) => {
            assert_eq!((job.kernel.as_str(), job.target.as_str()), (source.name.as_str(), "gfx1100"));
            violation
        }
        other => panic!("{other:?}"),
    };

    let hidden = broken(&kernel("hidden", 64, "a.y[TX] = (float)__builtin_amdgcn_workgroup_size_x();"));
    assert!(matches!(&hidden, Violation::HiddenArguments { found } if found.contains("hidden_group_size_x")), "{hidden}");

    let body = "float own[256];
        for (int i = 0; i < 256; ++i) own[(i * a.count) & 255] = a.x[i];
        a.y[TX] = own[(TX * a.count) & 255];";
    let scratch = broken(&kernel("scratch", 64, body));
    assert!(matches!(scratch, Violation::Scratch { found } if found >= 1024), "{scratch}");

    // 300 values that all live across a barrier: too many for 1024 threads.
    let body = "float v[300];
        _Pragma(\"unroll\") for (int i = 0; i < 300; ++i) v[i] = a.x[i * 1024 + TX];
        __builtin_amdgcn_s_barrier();
        float s = 0.0f;
        for (int k = 0; k < a.count; ++k) { _Pragma(\"unroll\") for (int i = 0; i < 300; ++i) v[i] = v[i] * a.factor + v[(i + 1) % 300]; }
        _Pragma(\"unroll\") for (int i = 0; i < 300; ++i) s += v[i];
        a.y[TX] = s;";
    let spills = broken(&kernel("spills", 1024, body));
    assert!(matches!(spills, Violation::Spills { .. } | Violation::Scratch { .. }), "{spills}");

    let mut larger = good();
    larger.kernarg_size = 32;
    let arguments = broken(&larger);
    assert!(matches!(arguments, Violation::Arguments { expected: 32, .. }), "{arguments}");
    assert!(arguments.to_string().contains("ByValue of 24 bytes at 0"), "{arguments}");

    let mut larger = good();
    larger.block = 512;
    assert_eq!(broken(&larger), Violation::Block { found: 256, expected: 512 });

    let mut other = good();
    other.name = "another".to_owned();
    assert_eq!(broken(&other), Violation::Kernels { found: vec![good().name], expected: "another".to_owned() });

    let mut two = good();
    two.text += "KERNEL(second, 64)(const Args a) { a.y[TX] = 1.0f; }";
    assert!(matches!(broken(&two), Violation::Kernels { found, .. } if found.len() == 2));

    let mut pointers = good();
    pointers.text = pointers.text.replace("(const Args a)", "(const Args a, GLOBAL float* z)");
    assert!(matches!(broken(&pointers), Violation::Arguments { .. }));

    // Dynamic LDS has no size in the note; its use is a symbol that no launch resolves.
    let body = "SHARED float tile[20000]; tile[TX] = a.x[TX]; __builtin_amdgcn_s_barrier(); a.y[TX] = tile[(TX * a.count) % 20000];";
    match clang.compile(&kernel("lds", 64, body), &target("gfx1100")) {
        Err(KernelCompileError::Promise { source: Violation::Lds { found }, .. }) => assert!(found > 65536),
        // Later compilers refuse it themselves.
        Err(KernelCompileError::Refused { message, .. }) => assert!(message.contains("local memory"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_compiler_refuses_or_dies_of() {
    let Some(clang) = clang("clang-19") else { return };
    let mut wrong = good();
    wrong.text += "\nint f( { }";
    let error = clang.compile(&wrong, &target("gfx90a")).expect_err("a refusal");
    assert!(matches!(&error, KernelCompileError::Refused { code: 1, message, .. } if message.contains("error: expected")), "{error}");

    let mut includes = good();
    includes.text = format!("#include <stdint.h>\n{}", includes.text);
    let error = clang.compile(&includes, &target("gfx90a")).expect_err("a refusal");
    assert!(error.to_string().contains("'stdint.h' file not found"), "{error}");

    // An instruction of gfx11 that this clang cannot select on gfx12, and does not refuse either.
    let mut dies = kernel("dies", 32, "h16 x = {}; f8 c = {}; c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, x, c); a.y[TX] = c[0];");
    dies.text = format!(
        "typedef _Float16 h16 __attribute__((ext_vector_type(16)));\ntypedef float f8 __attribute__((ext_vector_type(8)));\n{}",
        dies.text
    );
    let error = clang.compile(&dies, &target("gfx1201")).expect_err("a crash");
    assert!(matches!(&error, KernelCompileError::Crashed { message, .. } if message.contains("Cannot select")), "{error}");
    clang.compile(&dies, &target("gfx1100")).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn many_threads() {
    let Some(clang) = clang("clang-19") else { return };
    let clang: &Clang = &clang;
    let first = clang.compile(&good(), &target("gfx90a")).unwrap_or_else(|e| panic!("{e}"));
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| clang.compile(&good(), &target("gfx90a")))).collect();
        for one in all {
            assert_eq!(one.join().expect("no panic").unwrap_or_else(|e| panic!("{e}")), first);
        }
    });
}
