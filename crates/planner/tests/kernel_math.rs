//! The elementary functions of the kernels: how far they are off, and that AMD's targets need nothing else for them.
#![expect(clippy::unwrap_used, reason = "a test may panic, also in its helper functions")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// What a tool prints. Nothing if it is not installed, which an error where everything has to be.
fn run(command: &mut Command) -> Option<String> {
    match command.output() {
        Ok(out) => {
            assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
            Some(String::from_utf8_lossy(&out.stdout).into_owned())
        }
        Err(error) => {
            assert!(std::env::var_os("HIPPLAN_CI").is_none(), "{command:?}: {error}");
            eprintln!("skipped: {command:?}: {error}");
            None
        }
    }
}

/// Largest errors in units in the last place, float and double. Measured with ten times the points, and rounded up.
const BOUNDS: [(&str, f64, f64); 20] = [
    ("exp", 1.1, 0.9),
    ("exp_wide", 1.1, 0.9),
    ("expm1", 1.5, 1.7),
    ("log", 1.0, 0.9),
    ("log1p", 1.0, 1.0),
    ("sin", 0.8, 0.8),
    ("cos", 0.8, 0.8),
    ("tan", 2.4, 2.4),
    ("sin_angles", 0.8, 0.8),
    ("cos_angles", 0.8, 0.8),
    ("tan_angles", 2.4, 2.4),
    ("tanh", 1.8, 1.6),
    ("erf", 1.2, 1.2),
    ("sigmoid", 3.0, 2.4),
    ("sqrt", 0.5, 0.5),
    ("rsqrt", 1.5, 1.5),
    ("ceil", 0.0, 0.0),
    ("floor", 0.0, 0.0),
    ("trunc", 0.0, 0.0),
    ("pow", 0.51, 1.5),
];

#[test]
fn functions_are_right_to_the_last_places() {
    let dir = tempfile::tempdir().unwrap();
    let binary = dir.path().join("kernel_math");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel_math.cpp");
    let mut compile = Command::new("g++");
    compile.args(["-std=c++17", "-O2", "-ffp-contract=off", "-DHP_HOST", "-iquote"]);
    let Some(_) = run(compile.arg(kernels()).arg(source).arg("-o").arg(&binary)) else { return };
    let printed = run(Command::new(binary).arg("20000")).unwrap();
    let mut lines = printed.lines();
    for (ty, bound) in [("float", (|b| b.1) as fn(&(&str, f64, f64)) -> f64), ("double", |b| b.2)] {
        for row in &BOUNDS {
            let line = lines.next().unwrap();
            let [name, found_ty, error] = line.split(' ').take(3).collect::<Vec<_>>()[..] else { panic!("{line}") };
            assert_eq!((name, found_ty), (row.0, ty));
            assert!(error.parse::<f64>().unwrap() <= bound(row), "{line}: more than {} ulp", bound(row));
        }
    }
    assert_eq!(lines.next(), None);
}

/// A kernel that calls every function of one name.
fn kernel_of(call: &str) -> String {
    let mut text = String::new();
    for file in ["prelude.h", "math.h", "pointwise.h"] {
        text.push_str(&std::fs::read_to_string(kernels().join(file)).unwrap());
    }
    text.push_str("struct Args { GLOBAL float* f; GLOBAL double* d; };\nKERNEL(the_kernel, 64, Args)\n{\n");
    for (element, pointer) in [("float", "f"), ("double", "d")] {
        let call = call.replace("ELEMENT", element);
        text.push_str(&format!("    {{ const {element} x = a.{pointer}[TX], y = a.{pointer}[TX + 64]; a.{pointer}[TX] = {call}; }}\n"));
    }
    text + "}\n"
}

#[test]
fn no_function_needs_a_library_or_scratch_memory() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["ceil", "cos", "erf", "exp", "expm1", "floor", "log", "log1p", "sigmoid", "sin", "sqrt", "tan", "tanh", "trunc"];
    let mut sum: Vec<String> = names.iter().map(|name| format!("hp_{name}(x)")).collect();
    sum.extend(["pow", "max_op", "gelu_bwd", "gelu_approx_tanh_bwd", "swish_bwd"].map(|name| match name {
        "swish_bwd" => "hp_swish_bwd(x, y, (ELEMENT)2)".to_owned(),
        _ => format!("hp_{name}(x, y)"),
    }));
    sum.push("hp_softplus_fwd(x, (ELEMENT)2)".to_owned());
    let source = dir.path().join("kernel.hip");
    std::fs::write(&source, kernel_of(&sum.join(" + "))).unwrap();
    for arch in ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"] {
        let mut compile = Command::new("clang-19");
        compile.args([
            "-x",
            "hip",
            "--cuda-device-only",
            "-nogpuinc",
            "-nogpulib",
            "-O3",
            "-std=c++17",
            "-ffp-contract=off",
            "-S",
            "-o",
            "-",
        ]);
        let Some(assembly) = run(compile.arg(format!("--offload-arch={arch}")).arg(&source)) else { return };
        let value_of = |name: &str| {
            let line = assembly.lines().find(|line| line.trim_start().starts_with(name));
            line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
        };
        assert_eq!(value_of(".private_segment_fixed_size:").as_deref(), Some("0"), "{arch}");
        assert_eq!(value_of(".vgpr_spill_count:").as_deref(), Some("0"), "{arch}");
        // A call of a library would need the address of its function.
        assert!(!assembly.contains("s_swappc_b64") && !assembly.contains("@gotpcrel"), "{arch} calls something");
    }
}
