//! The kernels of the hip provider: every kind compiles for every target and keeps what its text promises, equal classes share a kernel,
//! and the machine code has the instructions that it was written for.
#![expect(clippy::unwrap_used, reason = "a test may panic, also in its helper functions")]

use hipplan_exec::hip::HipProgram;
use hipplan_planner::hip::compiler::{Clang, KernelCompiler, KernelSource};
use hipplan_planner::hip::kernels;
use hipplan_serialize::{DataType, GraphBuf, GraphBuilder, Limits, PointwiseMode, TensorAttributes, canon, import, ops};
use std::collections::BTreeMap;
use std::process::Command;

/// The compiler. Nothing if it is not installed, which is an error where everything has to be.
fn clang() -> Option<Clang> {
    match Clang::find() {
        Ok(clang) => Some(clang),
        Err(error) => {
            assert!(std::env::var_os("HIPPLAN_CI").is_none(), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn lower(graph: &GraphBuf, target: &str) -> (HipProgram, Vec<KernelSource>) {
    let canonical = graph.view().canonical().unwrap();
    let owned = canon::decode(&canonical.encoding, &canonical.limits).unwrap();
    kernels(&owned.view(), &target.parse().unwrap()).unwrap_or_else(|refusal| panic!("{target}: {refusal}"))
}

/// A convolution as a driver line, without what they have in common.
fn conv(flags: &str) -> GraphBuf {
    let name = if flags.contains("int8") {
        "convint8"
    } else if flags.contains("fp16") {
        "convfp16"
    } else {
        "conv"
    };
    let flags = flags.replace("int8 ", "").replace("fp16 ", "");
    import::import(format!("./bin/MIOpenDriver {name} {flags} -m conv -t 1").as_bytes(), &Limits::DEFAULT).unwrap().graph
}

/// A chain of pointwise operations over a broadcast operand.
fn chain() -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let x = builder.tensor(TensorAttributes::packed(DataType::BFloat16, &[2, 6, 5]));
    let b = builder.tensor(TensorAttributes::packed(DataType::Float, &[1, 6, 1]));
    let mut between = TensorAttributes::packed(DataType::Float, &[2, 6, 5]);
    between.set_virtual(true);
    let [y, z] = [0; 2].map(|_| builder.tensor(between.clone()));
    let out = builder.tensor(TensorAttributes::packed(DataType::Half, &[2, 6, 5]));
    builder.node("add", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, x, b, y));
    builder.node("gelu", DataType::Float, ops::Pointwise::unary(PointwiseMode::GeluFwd, y, z));
    builder.node("tanh", DataType::Float, ops::Pointwise::unary(PointwiseMode::TanhFwd, z, out));
    builder.build().unwrap()
}

/// Every kernel body and kind of number, small enough to compile often.
fn representatives() -> Vec<(&'static str, GraphBuf)> {
    vec![
        ("gemm", conv("-n 32 -c 64 -H 28 -W 28 -k 128 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 1")),
        ("gemm", conv("fp16 -n 8 -c 64 -H 14 -W 14 -k 64 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -I NHWC -O NHWC -f NHWC -F 1")),
        ("gemm", conv("int8 -n 8 -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 1")),
        ("gemm", conv("-n 32 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 4")),
        ("gemm", conv("-n 8 -c 32 -H 28 -W 28 -k 32 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2")),
        ("direct", conv("-n 4 -c 32 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -g 32 -F 1")),
        ("block", conv("-n 32 -c 32 -H 56 -W 56 -k 32 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -g 32 -F 4")),
        ("elementwise", chain()),
    ]
}

#[test]
fn every_kind_compiles_for_every_target() {
    let Some(clang) = clang() else { return };
    for target in ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"] {
        let mut kinds = BTreeMap::new();
        for (kind, graph) in representatives() {
            let (program, sources) = lower(&graph, target);
            assert!(sources.iter().any(|s| s.name.starts_with(kind)), "{target}: {kind}: {:?}", program.kernels);
            for source in sources {
                *kinds.entry(source.name.split('_').next().unwrap().to_owned()).or_insert(0) += 1;
                // It holds the object against the text's promises: arguments, shared memory, no scratch, no spills.
                clang.compile(&source, &target.parse().unwrap()).unwrap_or_else(|e| panic!("{e}"));
            }
        }
        assert_eq!(kinds.keys().map(String::as_str).collect::<Vec<_>>(), ["block", "direct", "elementwise", "gemm"], "{target}");
    }
}

#[test]
fn tiled_products_use_packed_arithmetic_and_wide_loads() {
    let Some(clang) = clang() else { return };
    let dir = tempfile::tempdir().unwrap();
    for (target, multiply, least, load) in [
        ("gfx90a", "v_pk_fma_f32", 64, "ds_read_b128"),
        ("gfx942", "v_pk_fma_f32", 64, "ds_read_b128"),
        ("gfx1030", "v_fmac_f32", 64, "ds_read_b128"),
        ("gfx1100", "v_dual_fmac_f32", 64, "ds_load_b128"),
        // Its compiler pairs fewer of them.
        ("gfx1201", "v_dual_fmac_f32", 16, "ds_load_b128"),
    ] {
        let (_, sources) = lower(&representatives()[0].1, target);
        let source = sources.iter().find(|s| s.name.starts_with("gemm")).unwrap();
        let path = dir.path().join("kernel.hip");
        std::fs::write(&path, &source.text).unwrap();
        let mut command = Command::new(clang.program());
        command.args([
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
        let output = command.arg(format!("--offload-arch={target}")).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let assembly = String::from_utf8(output.stdout).unwrap();
        let count = |text: &str| assembly.lines().filter(|l| l.trim_start().starts_with(text)).count();
        assert!(count(multiply) >= least, "{target}: {} {multiply}", count(multiply));
        assert!(count(load) >= 8, "{target}: {} {load}", count(load));
        // Memory is addressed as global, never through generic pointers, and nothing lives in scratch.
        assert_eq!([count("flat_"), count("scratch_"), count("buffer_")], [0; 3], "{target}");
    }
}

#[test]
fn layers_of_one_class_share_a_kernel() {
    let names = |flags: &str| -> Vec<String> { lower(&conv(flags), "gfx942").1.into_iter().map(|s| s.name).collect() };
    let a = names("-n 32 -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -F 1");
    let b = names("-n 32 -c 256 -H 28 -W 28 -k 512 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -F 1");
    assert_eq!(a, b);
    // Another filter, another class.
    assert_ne!(a, names("-n 32 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 1"));
}

#[test]
fn texts_depend_on_nothing_but_graph_and_target() {
    for (_, graph) in representatives() {
        assert_eq!(lower(&graph, "gfx1100"), lower(&graph, "gfx1100"));
    }
}
