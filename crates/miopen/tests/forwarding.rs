//! Forwarding against a MIOpen and a libhipplan of this test's own: what is decided, what is executed with what, what is left to MIOpen.
#![expect(clippy::undocumented_unsafe_blocks, reason = "the descriptors are this test's own and outlive the calls")]

mod common;

use bytemuck::bytes_of;
use common::case::{Case, STREAM, W, X, Y, at, float};
use common::*;
use hipplan_miopen::counters::Decline;
use hipplan_miopen::entry::conv as api;
use hipplan_miopen::problem::{NoKey, ProblemKey};
use hipplan_miopen::{handles, hipplan, last_error, observe, solution_id};
use hipplan_miopen_abi::status;
use hipplan_miopen_abi::types::*;
use hipplan_serialize::ConvDirection::{BackwardData, BackwardWeights, Forward};
use hipplan_serialize::{ConvDirection, ConvEpilogue, ConvProblem, DataType, Limits, ProblemMode, driver};
use std::collections::HashSet;
use std::ptr;

const ALL: [ConvDirection; 3] = ConvDirection::ALL;

fn key(case: &Case) -> ProblemKey {
    case.read(Forward).unwrap_or_else(|e| panic!("{e:?}"))
}

#[test]
fn every_field_is_in_the_key() {
    let changes: &[fn(&mut Case)] = &[
        |c| c.x.dtype = data_type::BFLOAT16,
        |c| c.w.dtype = data_type::BFLOAT16,
        |c| c.y.dtype = data_type::BFLOAT16,
        |c| c.x.dims[0] += 1,
        |c| c.x.dims[3] += 1,
        |c| c.x.strides[0] += 1,
        |c| c.x.strides[3] += 1,
        |c| c.w.dims[1] += 1,
        |c| c.w.strides[2] += 1,
        |c| c.y.dims[2] += 1,
        |c| c.y.strides[1] += 1,
        |c| c.conv.mode = convolution_mode::TRANSPOSE,
        |c| c.conv.groups = 2,
        |c| c.conv.pads[0] += 1,
        |c| c.conv.pads[1] += 1,
        |c| c.conv.strides[0] += 1,
        |c| c.conv.strides[1] += 1,
        |c| c.conv.dilations[0] += 1,
        |c| c.conv.dilations[1] += 1,
    ];
    let mut keys = vec![key(&Case::new(100))];
    for change in changes {
        let mut case = Case::new(100);
        change(&mut case);
        keys.push(key(&case));
    }
    keys.extend([BackwardData, BackwardWeights].map(|direction| Case::new(100).read(direction).expect("a key")));
    DEVICE.set(3);
    keys.push(key(&Case::new(100)));
    DEVICE.set(0);
    let mut padded = Case::new(100);
    padded.conv.mode = convolution_mode::TRANSPOSE;
    observe::set_output_padding(padded.conv.descriptor(), &[1, 0]);
    keys.push(key(&padded));
    observe::forget_conv(padded.conv.descriptor());
    let different: HashSet<&[u8]> = keys.iter().map(bytes_of).collect();
    assert_eq!(different.len(), keys.len());
    let hashes: HashSet<u64> = keys.iter().map(ProblemKey::hash).collect();
    assert_eq!(hashes.len(), keys.len());
}

#[test]
fn descriptors_made_again_have_the_same_key() {
    let (first, mut second) = (Case::new(101), Case::new(101));
    assert_eq!(key(&first), key(&second));
    assert_eq!(key(&first).hash(), key(&second).hash());
    // Deprecated modes mean convolution.
    second.conv.mode = convolution_mode::DEPTHWISE;
    assert_eq!(key(&first), key(&second));
    // What is between one call and the next in the same object counts.
    second.x.dims[0] = 1;
    assert_ne!(key(&first), key(&second));
}

/// The importer's problem as descriptors.
fn case_of(problem: &ConvProblem) -> Box<Case> {
    let dtype = |dtype: DataType| match dtype {
        DataType::Half => data_type::HALF,
        DataType::Float => data_type::FLOAT,
        DataType::Int32 => data_type::INT32,
        DataType::Int8 => data_type::INT8,
        DataType::BFloat16 => data_type::BFLOAT16,
        other => panic!("{other}"),
    };
    let spatial = usize::from(problem.spatial);
    let ints = |list: &[i64]| list.iter().map(|&n| i32::try_from(n).expect("a driver's number")).collect::<Vec<_>>();
    // As the getter has them: strides cut to 32 bits.
    let tensor = |t: &hipplan_serialize::ProblemTensor| Tensor {
        dtype: dtype(t.dtype),
        dims: ints(&t.dims[..spatial + 2]),
        strides: t.strides[..spatial + 2].iter().map(|&n| n as i32).collect(),
    };
    // Notes are of addresses.
    let mut case = Box::new(Case::new(1));
    (case.x, case.w, case.y) = (tensor(&problem.x), tensor(&problem.w), tensor(&problem.y));
    for (descriptor, t) in [(case.x.descriptor(), problem.x), (case.w.descriptor(), problem.w), (case.y.descriptor(), problem.y)] {
        if t.strides.iter().any(|&stride| i32::try_from(stride).is_err()) {
            let mut wide = observe::Wide { rank: spatial + 2, dims: [0; observe::MAX_RANK], strides: [0; observe::MAX_RANK] };
            for axis in 0..spatial + 2 {
                (wide.dims[axis], wide.strides[axis]) = (t.dims[axis] as u64, t.strides[axis] as u64);
            }
            observe::set_tensor(descriptor, observe::TensorNote { wide: Some(wide), ..Default::default() });
        }
    }
    case.conv = Conv::new(spatial);
    case.conv.mode = if problem.mode == ProblemMode::Transpose { convolution_mode::TRANSPOSE } else { convolution_mode::CONVOLUTION };
    case.conv.groups = i32::try_from(problem.groups).expect("a driver's number");
    case.conv.pads = ints(&problem.pads[..spatial]);
    case.conv.strides = ints(&problem.strides[..spatial]);
    case.conv.dilations = ints(&problem.dilations[..spatial]);
    observe::set_output_padding(case.conv.descriptor(), &ints(&problem.output_pads[..spatial]));
    case
}

/// A problem that was logged and the same problem met at run time ask for the same graph.
#[test]
fn driver_lines_and_descriptors_have_the_same_graph_key() {
    let text = include_bytes!("../../../corpus/miopen/driver-lines.txt");
    let log = driver::read_log(text, &Limits::DEFAULT);
    let mut compared = 0;
    for logged in &log.problems {
        let problem = &logged.problem;
        let case = case_of(problem);
        let read = case.read(problem.direction).unwrap_or_else(|e| panic!("{problem:?}: {e:?}"));
        assert_eq!(read.problem().as_ref(), Some(problem));
        let importer = problem.to_graph(&Limits::DEFAULT).expect("a graph").view().canonical().expect("a key").key;
        // The query asks for that graph, and for no other.
        case.workspace_size(problem.direction);
        let is_int8 = problem.result().dtype == DataType::Int8;
        assert_eq!(store().bound.iter().any(|&(asked, _)| asked == importer), !is_int8, "{problem:?}");
        assert_eq!(hipplan_miopen::decide::graph(&read, None).expect("a graph").1, importer);
        observe::forget_conv(case.conv.descriptor());
        for tensor in [&case.x, &case.w, &case.y] {
            observe::forget_tensor(tensor.descriptor());
        }
        compared += 1;
    }
    assert!(compared >= 70, "{compared} problems");
}

/// As PyTorch does: workspace, find, then runs of any algorithm with the size that find said.
#[test]
fn find_mode_is_answered_by_the_plan() {
    for (number, direction) in ALL.into_iter().enumerate() {
        let case = Case::new(110 + number as i32);
        case.store(direction, &[256]);
        assert_eq!(case.workspace_size(direction), (0, 256));
        let (status, perf) = case.find(direction, (0x9000, 256));
        assert_eq!((status, perf), (0, Some(ConvAlgoPerf { algorithm: algorithm::IMPLICIT_GEMM, time: MS, memory: 256 })));
        let found = executed().expect("find runs the plan");
        assert!(found.timed);
        for _ in 0..2 {
            // New descriptors, more workspace than needed.
            let again = Case::new(110 + number as i32);
            assert_eq!(again.run(direction, (0x9000, 300)), 0);
            let run = executed().expect("run runs the plan");
            assert_eq!(run.bound(), [(1, X), (2, W), (3, Y)]);
            assert_eq!((run.graph(), run.plan), (case.graph(direction), found.plan));
            assert_eq!((run.workspace, run.stream, run.timed), ((0x9000, 300), STREAM, false));
        }
    }
    assert!(native_calls().is_empty());
}

#[test]
fn immediate_mode_is_answered_by_the_plan() {
    for (number, direction) in ALL.into_iter().enumerate() {
        let case = Case::new(120 + number as i32);
        case.store(direction, &[64]);
        assert_eq!(case.solution_count(direction), (0, 1));
        let (status, solution) = case.solution(direction, 10);
        let solution = solution.expect("a solution");
        assert_eq!((status, solution.workspace_size, solution.algorithm), (0, 64, algorithm::IMPLICIT_GEMM));
        assert!(solution.time < 0.0, "not measured yet");
        assert!(solution_id::is_ours(solution.solution_id));
        assert_eq!(solution.solution_id >> 32, 0x8000_4850);
        assert_eq!(case.solution(direction, 0), (0, None));
        assert_eq!(case.solution_workspace(direction, solution.solution_id), (0, 64));
        assert_eq!(case.compile(direction, solution.solution_id), 0);
        assert_eq!(case.immediate(direction, (0x9000, 64), solution.solution_id), 0);
        let run = executed().expect("executed");
        assert_eq!((run.bound(), run.graph()), (&[(1, X), (2, W), (3, Y)][..], case.graph(direction)));
        // A find leaves its time.
        case.find(direction, (0x9000, 64));
        assert_eq!(case.solution(direction, 1).1.expect("a solution").time, MS);
    }
    assert!(native_calls().is_empty());
}

#[test]
fn what_has_no_plan_is_pinned_to_miopen() {
    for (number, direction) in ALL.into_iter().enumerate() {
        let case = Case::new(130 + number as i32);
        assert_eq!(case.workspace_size(direction).0, NATIVE);
        case.store(direction, &[0]);
        assert_eq!(case.find(direction, (0, 0)).0, NATIVE);
        assert_eq!(case.run(direction, (0, 0)), NATIVE);
        assert_eq!(case.solution_count(direction).0, NATIVE);
        assert_eq!(case.solution(direction, 1).0, NATIVE);
        let name = ["Forward", "BackwardData", "BackwardWeights"][number];
        let expected = [
            format!("miopenConvolution{name}GetWorkSpaceSize"),
            format!("miopenFindConvolution{name}Algorithm"),
            format!("miopenConvolution{name}"),
            format!("miopenConvolution{name}GetSolutionCount"),
            format!("miopenConvolution{name}GetSolution"),
        ];
        assert_eq!(native_calls(), expected);
    }
    assert_eq!(executed(), None);
}

#[test]
fn a_run_without_a_query_is_miopens_and_pins_nothing() {
    let case = Case::new(140);
    case.store(Forward, &[0]);
    assert_eq!(case.run(Forward, (0, 0)), NATIVE);
    assert_eq!(case.workspace_size(Forward), (0, 0));
    assert_eq!(case.run(Forward, (0, 0)), 0);
    // On another device it is another problem.
    let elsewhere = Case::new(140);
    DEVICE.set(5);
    assert_eq!(elsewhere.run(Forward, (0, 0)), NATIVE);
    DEVICE.set(0);
}

#[test]
fn a_small_workspace_takes_the_small_plan() {
    let case = Case::new(150);
    case.store(Forward, &[1024, 16]);
    assert_eq!(case.workspace_size(Forward), (0, 1024));
    let (status, perf) = case.find(Forward, (0x9000, 100));
    assert_eq!((status, perf.map(|p| p.memory)), (0, Some(16)));
    let small = executed().expect("executed");
    assert_eq!(case.run(Forward, (0x9000, 16)), 0);
    assert_eq!(executed().expect("executed").plan, small.plan);
    assert_eq!(case.run(Forward, (0x9000, 1024)), 0);
    assert_ne!(executed().expect("executed").plan, small.plan);
    for workspace in [(0x9000, 15), (0, 0), (0x9000, 0), (0, 1024)] {
        assert_eq!(case.run(Forward, workspace), status::BAD_PARM, "{workspace:?}");
        assert_eq!(case.find(Forward, workspace).0, status::BAD_PARM, "{workspace:?}");
    }
    assert_eq!(case.run(Forward, (0x9000, 15)), status::BAD_PARM);
    assert_eq!(last_error::code(), hipplan::status::WORKSPACE);
    assert_eq!(executed(), None);
    assert!(native_calls().is_empty());

    // One that needs none is preferred over one that needs less.
    let case = Case::new(151);
    case.store(Forward, &[1024, 512, 0]);
    case.workspace_size(Forward);
    assert_eq!(case.find(Forward, (0, 0)).1.map(|p| p.memory), Some(0));
    // An address without bytes and bytes without an address are no workspace.
    for workspace in [(0x9000, 0), (0, 1024)] {
        assert_eq!(case.run(Forward, workspace), 0, "{workspace:?}");
        assert_eq!(case.find(Forward, workspace).0, 0, "{workspace:?}");
    }
    // And without such a plan, less is an error.
    let case = Case::new(152);
    case.store(Forward, &[1024]);
    case.workspace_size(Forward);
    assert_eq!(case.run(Forward, (0x9000, 512)), status::BAD_PARM);
}

fn store_scaled(case: &Case, direction: ConvDirection) -> [hipplan_serialize::GraphKey; 2] {
    let strides = case.read(direction).expect("a key").result().strides;
    let keys = [ConvEpilogue::SCALE, ConvEpilogue::bilinear(strides)].map(|epilogue| case.graph_with(direction, &epilogue));
    for key in keys {
        store().graphs.insert(key, Stored::Plans(vec![0]));
    }
    keys
}

#[test]
fn scalars_are_runtime_scalars_of_plans_of_their_own() {
    for (number, direction) in ALL.into_iter().enumerate() {
        let case = Case::new(160 + number as i32);
        case.store(direction, &[0]);
        let [scaled, bilinear] = store_scaled(&case, direction);
        assert_eq!(case.workspace_size(direction), (0, 0));
        let result = [Y, X, W][number];
        for alpha in [0.5_f32, -2.0] {
            assert_eq!(case.run_with(direction, float(&alpha), float(&0.0), [X, W, Y], (0, 0)), 0);
            let run = executed().expect("executed");
            assert_eq!((run.graph(), run.bound().len(), run.scalars[0]), (scaled, 4, f64::from(alpha)));
            assert_eq!(case.run_with(direction, float(&alpha), float(&0.5), [X, W, Y], (0, 0)), 0);
            let run = executed().expect("executed");
            // (sums * alpha / beta + y) * beta
            assert_eq!((run.graph(), run.scalars), (bilinear, [f64::from(alpha) / 0.5, 0.5]));
            assert_eq!(run.bound()[..3], [(1, X), (2, W), (3, Y)]);
            assert!(run.bound().contains(&(4, result)));
        }
        assert_eq!(case.run(direction, (0, 0)), 0);
        assert_eq!(executed().expect("executed").graph(), case.graph(direction));
        for (alpha, beta) in [(0.0, 0.0), (0.0, 1.0), (1.0, 1e-30), (1e30, 1.0), (f32::NAN, 1.0)] {
            let status = case.run_with(direction, float(&alpha), float(&beta), [X, W, Y], (0, 0));
            assert_eq!(status, status::NOT_IMPLEMENTED, "{alpha} {beta}");
        }
        assert_eq!(executed(), None);
    }
    assert!(native_calls().is_empty());
}

#[test]
fn scalars_without_a_plan_are_refused_as_miopen_does() {
    let case = Case::new(165);
    case.store(Forward, &[0]);
    case.workspace_size(Forward);
    for (alpha, beta) in [(2.0, 0.0), (1.0, 1.0)] {
        assert_eq!(case.run_with(Forward, float(&alpha), float(&beta), [X, W, Y], (0, 0)), status::NOT_IMPLEMENTED);
        assert_eq!(last_error::code(), hipplan::status::UNSUPPORTED);
    }
    assert_eq!(case.run(Forward, (0, 0)), 0);
    assert_eq!(last_error::code(), 0, "the record is of the last call");
}

#[test]
fn scalars_of_doubles_are_doubles() {
    let case = Case::of_type(166, data_type::DOUBLE);
    case.store(Forward, &[0]);
    let [scaled, _] = store_scaled(&case, Forward);
    case.workspace_size(Forward);
    scalars_are_doubles(true);
    let (alpha, beta) = (1.0 / 3.0, 0.0_f64);
    let status = case.run_with(Forward, ptr::from_ref(&alpha).cast(), ptr::from_ref(&beta).cast(), [X, W, Y], (0, 0));
    scalars_are_doubles(false);
    let run = executed().expect("executed");
    assert_eq!((status, run.graph(), run.scalars[0]), (0, scaled, alpha));
}

#[test]
fn nulls_are_statuses() {
    let case = Case::new(170);
    case.store(Forward, &[0]);
    let mut size = 0;
    let [x, w, y] = [case.x.descriptor(), case.w.descriptor(), case.y.descriptor()];
    let (handle, conv) = (case.handle(), case.conv.descriptor());
    let none = ptr::null_mut();
    for [handle, x, w, y, conv] in (0..5).map(|null| {
        let mut objects = [handle.cast::<()>(), x.cast(), w.cast(), y.cast(), conv.cast()];
        objects[null] = ptr::null_mut();
        objects
    }) {
        let (h, x, w, y, c) = (handle.cast(), x.cast(), w.cast(), y.cast(), conv.cast());
        unsafe {
            assert_eq!(api::miopenConvolutionForwardGetWorkSpaceSize(h, w, x, c, y, &raw mut size), status::BAD_PARM);
            assert_eq!(api::miopenConvolutionForward(h, none, x, none, w, none, c, 0, none, y, none, none, 0), status::BAD_PARM);
        }
        assert_eq!(last_error::code(), hipplan::status::INVALID_ARGUMENT);
    }
    assert_eq!(case.workspace_size_to(Forward, ptr::null_mut()), status::BAD_PARM);
    assert_eq!(case.workspace_size(Forward), (0, 0));
    for memory in [[0, W, Y], [X, 0, Y], [X, W, 0]] {
        assert_eq!(case.run_with(Forward, float(&1.0), float(&0.0), memory, (0, 0)), status::BAD_PARM);
        let (mut returned, mut perf) = (0, ConvAlgoPerf { algorithm: 0, time: 0.0, memory: 0 });
        let status = case.find_to(Forward, memory, 1, &raw mut returned, &raw mut perf, (0, 0));
        assert_eq!(status, status::BAD_PARM);
    }
    assert_eq!(case.run_with(Forward, ptr::null(), float(&0.0), [X, W, Y], (0, 0)), status::BAD_PARM);
    assert_eq!(case.run_with(Forward, float(&1.0), ptr::null(), [X, W, Y], (0, 0)), status::BAD_PARM);
    let (mut returned, mut perf) = (0, ConvAlgoPerf { algorithm: 0, time: 0.0, memory: 0 });
    let find = |requested, returned, perf| case.find_to(Forward, [X, W, Y], requested, returned, perf, (0, 0));
    assert_eq!(find(0, &raw mut returned, &raw mut perf), status::BAD_PARM);
    assert_eq!(find(1, ptr::null_mut(), &raw mut perf), status::BAD_PARM);
    assert_eq!(find(1, &raw mut returned, ptr::null_mut()), status::BAD_PARM);
    unsafe {
        let null = ptr::null_mut();
        assert_eq!(api::miopenConvolutionForwardGetSolutionCount(handle, w, x, conv, y, null), status::BAD_PARM);
        assert_eq!(api::miopenConvolutionForwardGetSolution(handle, w, x, conv, y, 1, null, ptr::null_mut()), status::BAD_PARM);
        let id = solution_id::OURS;
        assert_eq!(api::miopenConvolutionForwardGetSolutionWorkspaceSize(handle, w, x, conv, y, id, null), status::BAD_PARM);
    }
    let mut strange = Case::new(171);
    strange.conv = Conv::new(0);
    assert_eq!(strange.workspace_size(Forward).0, status::BAD_PARM);
    assert_eq!(executed(), None);
    assert!(native_calls().is_empty());
}

#[test]
fn foreign_solutions_pass_through_and_strays_of_ours_are_errors() {
    let (ours, theirs) = (Case::new(180), Case::new(181));
    ours.store(BackwardData, &[0]);
    let id = ours.solution(BackwardData, 1).1.expect("a solution").solution_id;
    for case in [&ours, &theirs] {
        assert_eq!(case.solution_workspace(BackwardData, 85).0, NATIVE);
        assert_eq!(case.compile(BackwardData, 85), NATIVE);
        assert_eq!(case.immediate(BackwardData, (0, 0), 85), NATIVE);
    }
    assert_eq!(native_calls().len(), 6);
    assert_eq!(theirs.immediate(BackwardData, (0, 0), id), status::BAD_PARM, "nobody has asked about that problem");
    assert_eq!(theirs.solution_workspace(BackwardData, id).0, status::BAD_PARM);
    assert_eq!(theirs.compile(BackwardData, id), status::BAD_PARM);
    assert_eq!(theirs.immediate(BackwardData, (0, 0), id), status::BAD_PARM, "and now it is pinned to MIOpen");
    assert_eq!(last_error::code(), hipplan::status::INVALID_ARGUMENT);
    assert!(native_calls().is_empty());
    assert_eq!(ours.immediate(BackwardData, (0, 0), id), 0);
}

/// Programs keep ids from one run to the next.
#[test]
fn an_immediate_run_may_be_a_problems_first_call() {
    let case = Case::new(182);
    case.store(BackwardData, &[64]);
    let stale = hipplan_miopen::solution_id::OURS | 7;
    for _ in 0..2 {
        assert_eq!(case.immediate(BackwardData, (0x9000, 64), stale), 0, "any id of ours will do");
        assert_eq!(executed().map(|run| run.graph()), Some(case.graph(BackwardData)));
    }
    let graph = case.graph(BackwardData);
    assert_eq!(store().bound.iter().filter(|(key, most)| *key == graph && *most == u64::MAX).count(), 1, "loaded once");
    assert!(native_calls().is_empty());
}

#[test]
fn an_engines_failure_is_the_calls() {
    let case = Case::new(190);
    case.store(Forward, &[0]);
    case.workspace_size(Forward);
    for (code, status) in [(6, status::INTERNAL_ERROR), (8, status::BAD_PARM), (7, status::INTERNAL_ERROR)] {
        execute_fails(code);
        assert_eq!(case.run(Forward, (0, 0)), status);
        assert_eq!(last_error::code(), code);
    }
    execute_fails(0);
    assert!(native_calls().is_empty());
    assert_eq!(case.run(Forward, (0, 0)), 0);

    // Failing to load is not having nothing: the call fails, and the next one tries again.
    let case = Case::new(191);
    store().graphs.insert(case.graph(Forward), Stored::Fails(hipplan::status::DEVICE));
    assert_eq!(case.workspace_size(Forward).0, status::INTERNAL_ERROR);
    assert_eq!(last_error::code(), hipplan::status::DEVICE);
    case.store(Forward, &[0]);
    assert_eq!(case.workspace_size(Forward), (0, 0));
    assert_eq!(last_error::code(), 0);
    // A damaged plan is having nothing.
    let case = Case::new(192);
    store().graphs.insert(case.graph(Forward), Stored::Fails(hipplan::status::PLAN));
    assert_eq!(case.workspace_size(Forward).0, NATIVE);
}

#[test]
fn what_no_graph_says_is_miopens() {
    let set_note = |case: &Case, note| observe::set_tensor(case.x.descriptor(), note);
    let note = observe::TensorNote::default;
    let mut half = Case::of_type(200, data_type::HALF);
    half.conv.fp16_alternative = Some(1);
    assert_eq!(half.read(Forward).err(), Some(NoKey::Declined(Decline::Fp16Alternative)));
    assert_eq!(half.workspace_size(Forward).0, NATIVE);
    half.conv.fp16_alternative = Some(0);
    half.read(Forward).expect("0 means nothing");

    let mut case = Case::new(201);
    set_note(&case, observe::TensorNote { layout: Some(tensor_layout::NCHWC4), ..note() });
    assert_eq!(case.read(Forward).err(), Some(NoKey::Declined(Decline::Layout)));
    set_note(&case, observe::TensorNote { cast_type: Some(data_type::FLOAT8_FNUZ), ..note() });
    assert_eq!(case.read(Forward).err(), Some(NoKey::Declined(Decline::CastType)));
    set_note(&case, observe::TensorNote { cast_type: Some(data_type::FLOAT), ..note() });
    case.read(Forward).expect("a cast to the own type is none");
    // What the getters cut is known from the setter.
    let mut wide = observe::Wide { rank: 4, dims: [0; observe::MAX_RANK], strides: [0; observe::MAX_RANK] };
    wide.dims[..4].copy_from_slice(&[201, 4, 5, 6]);
    wide.strides[..4].copy_from_slice(&[1 << 33, 30, 6, 1]);
    set_note(&case, observe::TensorNote { wide: Some(wide), ..note() });
    assert_eq!(case.read(Forward).expect("a key").tensors[0].strides[0], 120, "set since, and nobody watched");
    case.x.strides[0] = 0;
    assert_eq!(case.read(Forward).expect("a key").tensors[0].strides[..4], [1 << 33, 30, 6, 1]);
    observe::forget_tensor(case.x.descriptor());

    let mut case = Case::new(202);
    case.x = Tensor::new(data_type::FLOAT, &[202, 4, 5, 6, 7, 8]);
    assert_eq!(case.read(Forward).err(), Some(NoKey::Declined(Decline::Rank)));
    case.x = Tensor::new(data_type::FLOAT, &[202, 4, 5]);
    assert_eq!(case.read(Forward).err(), Some(NoKey::Declined(Decline::Rank)));
    let mut case = Case::new(203);
    case.conv.mode = 9;
    assert_eq!(case.read(Forward).err(), Some(NoKey::Declined(Decline::Mode)));
    // Outputs that MIOpen does not check: no graph has them.
    let changes: [fn(&mut Case); 7] = [
        |c| c.y.dims[3] += 1,
        |c| c.y.dims[0] += 1,
        |c| c.y.dims[1] += 1,
        |c| c.conv.groups = 3,
        |c| c.x.dtype = data_type::INT64,
        |c| c.w.dtype = data_type::HALF,
        |c| c.y.dtype = data_type::HALF,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut case = Case::new(220 + number as i32);
        change(&mut case);
        assert_eq!(case.workspace_size(Forward).0, NATIVE);
        assert_eq!(case.run(Forward, (0, 0)), NATIVE);
    }
    // Sums that do not fit are not the same there and here.
    for (batch, result, expected) in [(210, data_type::INT8, NATIVE), (211, data_type::INT32, 0)] {
        let mut case = Case::of_type(batch, data_type::INT8);
        case.y.dtype = result;
        case.store(Forward, &[0]);
        assert_eq!(case.workspace_size(Forward).0, expected);
    }
    // Without a device nothing is known.
    DEVICE.set(-1);
    let case = Case::new(209);
    case.store(Forward, &[0]);
    assert_eq!(case.workspace_size(Forward).0, NATIVE);
    DEVICE.set(0);
    assert_eq!(case.workspace_size(Forward), (0, 0));
}

#[test]
fn threads_that_ask_for_one_problem_get_one_plan() {
    let asked = Case::new(220);
    asked.store(Forward, &[0]);
    let graph = asked.graph(Forward);
    let plans: Vec<usize> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let case = Case::new(220);
                    assert_eq!(case.workspace_size(Forward), (0, 0));
                    for _ in 0..100 {
                        assert_eq!(case.run(Forward, (0, 0)), 0);
                    }
                    executed().expect("executed").plan.addr()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    assert!(plans.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(store().bound.iter().filter(|(asked, _)| *asked == graph).count(), 1);
}

#[test]
fn a_timed_handle_times_forwarded_calls() {
    let case = Case::new(230);
    case.store(Forward, &[0]);
    case.workspace_size(Forward);
    handles::enable_profiling(case.handle(), true);
    assert_eq!(case.run(Forward, (0, 0)), 0);
    assert!(executed().expect("executed").timed);
    assert_eq!(handles::kernel_time(case.handle()), Some(MS));
    handles::enable_profiling(case.handle(), false);
    assert_eq!(case.run(Forward, (0, 0)), 0);
    assert!(!executed().expect("executed").timed);
}

#[test]
fn one_spatial_dimension_and_three() {
    for (batch, dims) in [(240, &[6][..]), (241, &[3, 5, 6])] {
        let mut case = Case::new(batch);
        let with = |head: [i32; 2], dims: &[i32]| [&head[..], dims].concat();
        let taps = vec![1; dims.len()];
        case.x = Tensor::new(data_type::HALF, &with([batch, 4], dims));
        case.w = Tensor::new(data_type::HALF, &with([8, 4], &taps));
        case.y = Tensor::new(data_type::HALF, &with([batch, 8], dims));
        case.conv = Conv::new(dims.len());
        case.store(Forward, &[0]);
        assert_eq!(case.workspace_size(Forward), (0, 0));
        assert_eq!(case.run(Forward, (0, 0)), 0);
    }
    assert!(!at(1).is_null());
}
