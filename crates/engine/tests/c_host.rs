//! The library through a host in C, whose declarations were typed from the ABI's document: a context is made, executed, stored and restored there,
//! and again in a new process, and the results are those of the reference.

mod common;

use common::{corpus, two_readers};
use hipplan_engine_testing::Plugins;
use hipplan_exec::reference::{Inputs, Outputs, check};
use hipplan_serialize::{DataType, GraphBuf, GraphBuilder, PointwiseMode, ScalarType, TensorAttributes, Uid, ops};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo builds it beside the tests.
fn library() -> PathBuf {
    let tests = std::env::current_exe().expect("this executable");
    tests.parent().expect("its folder").join("libhipplan_engine.so")
}

/// The lines that the host printed about a graph.
fn run(mode: &[(&str, &Path)], inputs: &Inputs, outputs: &mut Outputs, folder: &Path) -> Result<Vec<String>, String> {
    let mut command = Command::new(Plugins::host_program().expect("the host"));
    command.arg(library());
    for (option, file) in mode {
        command.arg(option).arg(file);
    }
    let file = |kind: &str, uid: Uid, bytes: &[u8]| -> OsString {
        let path = folder.join(format!("{kind}{}", uid.0));
        std::fs::write(&path, bytes).expect("written");
        path.into()
    };
    for input in inputs.tensors() {
        command.args(["in", &input.uid.0.to_string()]).arg(file("in", input.uid, input.tensor.bytes()));
    }
    for scalar in inputs.scalars().iter().filter(|s| !s.is_default) {
        let dtype = scalar.value.data_type();
        let element = scalar.value.to_element(dtype).expect("an element");
        let bytes = &element[..dtype.bits().div_ceil(8) as usize];
        command.args(["scalar", &scalar.uid.0.to_string()]).arg(file("scalar", scalar.uid, bytes));
    }
    for output in outputs.tensors_mut() {
        let path = folder.join(format!("out{}", output.uid.0));
        command.args(["out", &output.uid.0.to_string(), &output.tensor.bytes().len().to_string()]).arg(path);
    }
    let ran = command.output().expect("the host runs");
    let lines: Vec<String> = String::from_utf8_lossy(&ran.stdout).lines().map(str::to_owned).collect();
    if !ran.status.success() {
        return Err(format!("{}: {lines:?} {}", ran.status, String::from_utf8_lossy(&ran.stderr)));
    }
    for output in outputs.tensors_mut() {
        let bytes = std::fs::read(folder.join(format!("out{}", output.uid.0))).map_err(|e| e.to_string())?;
        // The host poisons in its own way; what lies between elements is not compared here.
        let (size, offsets) = (output.tensor.dtype().bits().div_ceil(8) as usize, output.tensor.offsets().collect::<Vec<_>>());
        for offset in offsets {
            output.tensor.bytes_mut()[offset * size..][..size].copy_from_slice(&bytes[offset * size..][..size]);
        }
    }
    Ok(lines)
}

/// `y = (x + 2) * alpha`, where 2 is a constant, `alpha` is user-supplied, and a default is added in the end.
fn scalars() -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let tensor = |is_virtual| {
        let mut tensor = TensorAttributes::packed(DataType::Float, &[2, 5]);
        tensor.set_virtual(is_virtual);
        tensor
    };
    let x = builder.tensor(tensor(false));
    let constant = builder.tensor(TensorAttributes::scalar(2.0_f32));
    let mut alpha = TensorAttributes::packed(DataType::Float, &[1]);
    alpha.set_as_runtime_parameter();
    let alpha = builder.tensor(alpha);
    let default = builder.tensor(TensorAttributes::scalar_of(0.5_f32, ScalarType::RuntimeParam));
    let (a, b, y) = (builder.tensor(tensor(true)), builder.tensor(tensor(true)), builder.tensor(tensor(false)));
    builder.node("add", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, x, constant, a));
    builder.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, a, alpha, b));
    builder.node("shift", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, b, default, y));
    builder.build().expect("a graph")
}

#[test]
fn a_c_host_gets_right_results_fresh_restored_and_in_a_new_process() {
    let few = ["conv_bias_relu_bf16_nchw_1x1", "sample_matmul", "sample_relu", "sample_batchnorm"];
    let picked = corpus().into_iter().filter(|(path, _)| few.iter().any(|few| path.file_stem().is_some_and(|s| s == *few)));
    let own = [(PathBuf::from("two readers"), two_readers()), (PathBuf::from("scalars"), scalars())];
    let mut checked = 0;
    for (path, graph) in picked.chain(own) {
        let name = path.display();
        let folder = tempfile::tempdir().expect("a folder");
        let (file, saved) = (folder.path().join("graph"), folder.path().join("saved"));
        std::fs::write(&file, graph.buffer()).expect("written");
        let fresh = check(&graph.view(), 3, &mut |inputs, outputs| {
            let lines = run(&[("--graph", &file), ("--save", &saved)], inputs, outputs, folder.path())?;
            let has = |line: &str| lines.iter().any(|l| l == line);
            assert!(has("name hipplan_engine") && has("api 1.4.0") && has("type 1") && has("done"), "{name}: {lines:?}");
            assert!(has(&format!("engine {} HIPPLAN_CPU_ENGINE", hipplan_engine::ENGINE_ID)), "{name}: {lines:?}");
            assert!(has("applicable 1") && has("restored") && has("same") && !has("different"), "{name}: {lines:?}");
            Ok::<_, String>(())
        });
        let restored = check(&graph.view(), 4, &mut |inputs, outputs| {
            run(&[("--load", &saved)], inputs, outputs, folder.path())
                .map(|lines| assert_eq!(lines.last().map(String::as_str), Some("done")))
        });
        for report in [fresh, restored] {
            let report = report.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(report.passed(), "{name}:\n{report}");
        }
        checked += 1;
    }
    assert_eq!(checked, few.len() + 2);
}

#[test]
fn a_c_host_is_told_what_is_missing() {
    let graph = scalars();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("graph");
    std::fs::write(&file, graph.buffer()).expect("written");
    let ran =
        Command::new(Plugins::host_program().expect("the host")).arg(library()).arg("--graph").arg(&file).output().expect("the host runs");
    let text = String::from_utf8_lossy(&ran.stdout);
    let last = text.lines().last().unwrap_or_default();
    assert_eq!(ran.status.code(), Some(1), "{text}");
    assert!(last.starts_with("error hipdnnEnginePluginExecuteOpGraph 2 invalid value: tensor uid"), "{last}");
}
