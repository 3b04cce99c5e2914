//! What the environment decides: each test runs itself again as a process with the variables in question.
#![expect(clippy::undocumented_unsafe_blocks, reason = "the descriptors are this test's own and outlive the calls")]

mod common;

use common::case::{Case, W, X, Y, float};
use common::*;
use hipplan_miopen::{config, hipplan, last_error, solution_id};
use hipplan_miopen_abi::status;
use hipplan_miopen_abi::types::{convolution_mode, data_type};
use hipplan_serialize::ConvDirection::{BackwardData, BackwardWeights, Forward};
use hipplan_serialize::{ConvEpilogue, GraphBuf, GraphKey, Limits, driver};
use std::path::Path;
use std::process::Command;

/// In the child, runs the body and gives none; in the parent, runs the child with the variables and gives its standard error.
fn child(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Option<String> {
    if std::env::var_os("HIPPLAN_CHILD").is_some() {
        set_up();
        let (_, warnings) = config::init();
        assert!(warnings.is_empty(), "{warnings:?}");
        body();
        return None;
    }
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args([name, "--exact", "--nocapture"]).env("HIPPLAN_CHILD", "1").envs(variables.iter().copied());
    let output = command.output().expect("started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stdout));
    Some(text)
}

#[test]
fn a_miss_is_an_error_if_the_policy_says_so() {
    let text = child("a_miss_is_an_error_if_the_policy_says_so", &[(config::MISS, "error")], || {
        let case = Case::new(1);
        for _ in 0..2 {
            assert_eq!(case.workspace_size(Forward).0, status::UNSUPPORTED_OP);
            assert_eq!(last_error::code(), hipplan::status::MISS);
            case.store(Forward, &[0]);
        }
        assert_eq!(case.run(Forward, (0, 0)), status::UNSUPPORTED_OP, "it is pinned");
        // What no graph says is no miss.
        let mut strange = Case::new(2);
        strange.conv.mode = 9;
        assert_eq!(strange.workspace_size(Forward).0, NATIVE);
        let stored = Case::new(3);
        stored.store(Forward, &[0]);
        assert_eq!(stored.workspace_size(Forward), (0, 0));
    });
    if let Some(text) = text {
        assert!(text.contains("no plan is stored for conv -n 1 -c 4"), "{text}");
    }
}

#[test]
fn a_miss_is_compiled_if_the_policy_says_so() {
    let text = child("a_miss_is_compiled_if_the_policy_says_so", &[(config::MISS, "compile")], || {
        store().compiler = Some(Stored::Plans(vec![8]));
        let case = Case::new(1);
        assert_eq!(case.workspace_size(BackwardData), (0, 8));
        assert_eq!(case.run(BackwardData, (0x9000, 8)), 0);
        assert_eq!(store().compiled, [case.graph(BackwardData)], "and nothing for other scalars");
        // Neither a run nor anything else compiles.
        assert_eq!(Case::new(2).run(BackwardData, (0, 0)), NATIVE);
        let id = solution_id::OURS | 1;
        let early = Case::new(5);
        assert_eq!(early.immediate(BackwardData, (0x9000, 8), id), status::BAD_PARM);
        assert_eq!(store().compiled.len(), 1);
        assert_eq!(early.workspace_size(BackwardData), (0, 8), "a query still does");
        assert_eq!(early.immediate(BackwardData, (0x9000, 8), id), 0);
        store().compiled.truncate(1);
        // Volumes are compiled for other scalars, too.
        let volume = volume(6);
        assert_eq!(volume.workspace_size(Forward), (0, 8));
        assert_eq!(store().compiled.split_off(1).len(), 3);
        // One that cannot be compiled is MIOpen's.
        store().compiler = None;
        let case = Case::new(3);
        assert_eq!(case.workspace_size(Forward).0, NATIVE);
        store().compiler = Some(Stored::Plans(vec![8]));
        assert_eq!(case.workspace_size(Forward).0, NATIVE);
        assert_eq!(store().compiled.len(), 2);
        // Compiled, and still not to be loaded.
        store().compiler = Some(Stored::Fails(hipplan::status::PLAN));
        assert_eq!(Case::new(4).workspace_size(Forward).0, NATIVE);
    });
    if let Some(text) = text {
        assert_eq!(text.matches("not compiled: the compiler failed").count(), 1, "{text}");
    }
}

#[test]
fn plans_for_other_scalars_are_compiled_where_wanted() {
    child("plans_for_other_scalars_are_compiled_where_wanted", &[(config::MISS, "compile"), (config::SCALED, "1")], || {
        store().compiler = Some(Stored::Plans(vec![0]));
        let case = Case::new(1);
        assert_eq!(case.workspace_size(Forward), (0, 0));
        let bilinear = ConvEpilogue::bilinear(case.read(Forward).expect("a key").result().strides);
        let expected = [case.graph(Forward), case.graph_with(Forward, &ConvEpilogue::SCALE), case.graph_with(Forward, &bilinear)];
        assert_eq!(store().compiled, expected);
        assert_eq!(case.run_with(Forward, float(&2.0), float(&1.0), [X, W, Y], (0, 0)), 0);
    });
}

#[test]
fn types_and_keys_are_denied() {
    // The key of the problem below.
    let denied = Case::new(5);
    let key = if std::env::var_os("HIPPLAN_CHILD").is_some() { String::new() } else { denied.graph(Forward).to_string() };
    let list = format!("bf16, key:{}", &key[..key.len().min(12)]);
    child("types_and_keys_are_denied", &[(config::DISABLE, &list)], || {
        store().accept_all = true;
        assert_eq!(Case::of_type(1, data_type::BFLOAT16).workspace_size(Forward).0, NATIVE);
        assert_eq!(Case::of_type(1, data_type::HALF).workspace_size(Forward).0, 0);
        assert_eq!(denied.workspace_size(Forward).0, NATIVE);
        assert_eq!(denied.run(Forward, (0, 0)), NATIVE);
        assert_eq!(denied.workspace_size(BackwardWeights).0, 0);
    });
}

fn recorded(folder: &Path) -> Vec<GraphKey> {
    let mut keys: Vec<GraphKey> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let graph = GraphBuf::new(&std::fs::read(&path).expect("readable"), &Limits::DEFAULT).expect("a graph artifact");
            let key = graph.view().canonical().expect("a key").key;
            assert_eq!(path.file_name().and_then(|n| n.to_str()), Some(&*format!("{key}.hpgraph")));
            key
        })
        .collect();
    keys.sort();
    keys
}

#[test]
fn problems_are_recorded_once_whoever_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("made/by/the/recorder");
    child("problems_are_recorded_once_whoever_answers", &[(config::RECORD, record.to_str().expect("text"))], || {
        let folder = config::get().record.as_deref().expect("a folder");
        let (ours, theirs) = (Case::new(1), Case::new(2));
        ours.store(Forward, &[0]);
        let mut expected = vec![ours.graph(Forward), theirs.graph(Forward)];
        for case in [&ours, &theirs] {
            for _ in 0..3 {
                case.workspace_size(Forward);
                case.run(Forward, (0, 0));
            }
        }
        expected.sort();
        assert_eq!(recorded(folder), expected);
        // Other scalars are other graphs.
        for case in [&ours, &theirs] {
            for (alpha, beta) in [(2.0, 0.0), (0.5, 0.0), (1.0, 0.5)] {
                case.run_with(Forward, float(&alpha), float(&beta), [X, W, Y], (0, 0));
            }
            let strides = case.read(Forward).expect("a key").result().strides;
            expected.extend([ConvEpilogue::SCALE, ConvEpilogue::bilinear(strides)].map(|e| case.graph_with(Forward, &e)));
        }
        expected.sort();
        assert_eq!(recorded(folder), expected);
    });
}

#[test]
fn a_folder_that_cannot_be_written_is_a_warning() {
    let text = child("a_folder_that_cannot_be_written_is_a_warning", &[(config::RECORD, "/proc/nowhere")], || {
        let case = Case::new(1);
        case.store(Forward, &[0]);
        assert_eq!(case.workspace_size(Forward), (0, 0));
    });
    if let Some(text) = text {
        assert!(text.contains("/proc/nowhere") && text.contains("is not recorded"), "{text}");
    }
}

/// Cases that driver lines can say.
fn loggable() -> Vec<Case> {
    let mut cases = vec![Case::new(1), Case::of_type(2, data_type::HALF), Case::of_type(3, data_type::BFLOAT16)];
    // Channels last.
    let mut last = Case::new(4);
    for tensor in [&mut last.x, &mut last.w, &mut last.y] {
        let (c, w) = (tensor.dims[1], tensor.dims[3]);
        tensor.strides = vec![tensor.dims[2] * w * c, 1, w * c, c];
    }
    cases.push(last);
    let mut grouped = Case::new(5);
    grouped.conv.groups = 2;
    grouped.w = Tensor::new(data_type::FLOAT, &[8, 2, 3, 3]);
    cases.push(grouped);
    cases.push(volume(6));
    let mut transposed = Case::new(7);
    transposed.conv.mode = convolution_mode::TRANSPOSE;
    transposed.conv.strides = vec![2, 2];
    transposed.w = Tensor::new(data_type::FLOAT, &[4, 8, 3, 3]);
    transposed.y = Tensor::new(data_type::FLOAT, &[7, 8, 9, 11]);
    cases.push(transposed);
    cases
}

/// Three spatial dimensions.
fn volume(batch: i32) -> Case {
    let mut volume = Case::new(batch);
    volume.x = Tensor::new(data_type::FLOAT, &[batch, 4, 3, 5, 7]);
    volume.w = Tensor::new(data_type::FLOAT, &[8, 4, 1, 3, 2]);
    volume.y = Tensor::new(data_type::FLOAT, &[batch, 8, 5, 3, 3]);
    volume.conv = Conv::new(3);
    (volume.conv.pads, volume.conv.strides, volume.conv.dilations) = (vec![1, 0, 1], vec![1, 1, 2], vec![1, 1, 3]);
    volume
}

#[test]
fn forwarded_calls_are_logged_as_miopen_logs_them() {
    let name = "forwarded_calls_are_logged_as_miopen_logs_them";
    let text = child(name, &[("MIOPEN_ENABLE_LOGGING_CMD", "1")], || {
        store().accept_all = true;
        for case in loggable() {
            for direction in [Forward, BackwardData, BackwardWeights] {
                assert_eq!(case.workspace_size(direction), (0, 0));
                assert_eq!(case.find(direction, (0, 0)).0, 0);
                assert_eq!(case.run(direction, (0, 0)), 0);
                let id = case.solution(direction, 1).1.expect("a solution").solution_id;
                assert_eq!(case.immediate(direction, (0, 0), id), 0);
            }
        }
        // What goes to MIOpen is logged there.
        store().accept_all = false;
        let theirs = Case::new(99);
        assert_eq!(theirs.find(Forward, (0, 0)).0, NATIVE);
        assert_eq!(theirs.run(Forward, (0, 0)), NATIVE);
    });
    let Some(text) = text else { return };
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("MIOpen(HIP): Command [")).collect();
    let cases = loggable();
    assert_eq!(lines.len(), cases.len() * 9, "{text}");
    assert_eq!(
        lines[..3],
        [
            "MIOpen(HIP): Command [LogCmdFindConvolution] ./bin/MIOpenDriver conv -n 1 -c 4 -H 5 -W 6 -k 8 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1",
            "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 1 -c 4 -H 5 -W 6 -k 8 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1",
            "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 1 -c 4 -H 5 -W 6 -k 8 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1 -S 0",
        ]
    );
    let mut triples = lines.chunks(3);
    for case in &cases {
        for direction in [Forward, BackwardData, BackwardWeights] {
            for line in triples.next().expect("three lines a direction") {
                let log = driver::read_log(line.as_bytes(), &Limits::DEFAULT);
                let [logged] = &log.problems[..] else { panic!("{line}: {:?}", log.skipped) };
                let key = logged.problem.to_graph(&Limits::DEFAULT).expect("a graph").view().canonical().expect("a key").key;
                assert_eq!(key, case.graph(direction), "{line}");
            }
        }
    }
}

#[test]
fn without_the_library_affected_calls_fail_and_nothing_else() {
    let name = "without_the_library_affected_calls_fail_and_nothing_else";
    let variables = [(config::LIBRARY, "/nowhere/libhipplan.so.0"), ("HIPPLAN_TEST_NO_LIBRARY", "1")];
    let text = child(name, &variables, || {
        let case = Case::new(1);
        assert_eq!(case.workspace_size(Forward).0, status::INTERNAL_ERROR);
        assert_eq!(case.find(Forward, (0, 0)).0, status::INTERNAL_ERROR);
        assert_eq!(case.run(Forward, (0, 0)), status::INTERNAL_ERROR);
        assert_eq!(last_error::code(), last_error::UNAVAILABLE);
        // MIOpen's own solutions, and what is none of ours, are MIOpen's still.
        assert_eq!(case.immediate(Forward, (0, 0), 85), NATIVE);
        let mut strange = Case::new(2);
        strange.conv.mode = 9;
        assert_eq!(strange.workspace_size(Forward).0, NATIVE);
    });
    if let Some(text) = text {
        assert!(text.contains("/nowhere/libhipplan.so.0"), "{text}");
    }
}
