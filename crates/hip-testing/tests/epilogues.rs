//! What MIOpen lets follow a convolution, and biases alone: the graphs that the shim asks for, compiled by the hip provider for the host
//! runtime and checked against the reference, also where what is added lies in the memory of the result.

mod common;

use hipplan_exec::hip::{DeviceMemory, HipDevice, HipRuntime};
use hipplan_exec::reference::{Inputs, Outputs, check};
use hipplan_exec::{BoundPlan, Device, ExecError, Plan, Restore, Stream, VariantPack, describe_misses, find_by_graph_key};
use hipplan_hip_testing::{HostCompiler, build};
use hipplan_planner::hip::{self, HipCompiler};
use hipplan_planner::{Providers, Request, Site, ensure_plan};
use hipplan_serialize::conv_problem::{bias, uid};
use hipplan_serialize::{
    ConvDirection, ConvEpilogue, ConvProblem, ConvProblemError, DataType, GraphBuf, Limits, Policy, ProblemMode, ProblemTensor, canon,
    driver,
};
use hipplan_store::{Mode, Store};
use std::ffi::c_void;

const LINES: &str = "
MIOpenDriver conv -n 2 -c 4 -H 7 -W 6 -k 8 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -g 1 -F 0
MIOpenDriver conv -n 2 -c 6 -H 9 -W 8 -k 4 -y 3 -x 2 -p 1 -q 0 -u 2 -v 2 -l 1 -j 2 -g 2 -F 0
MIOpenDriver conv -n 1 -c 5 -H 6 -W 6 -k 5 -y 3 -x 3 -p 1 -q 1 -g 5 -F 0
MIOpenDriver conv -n 2 -c 4 -H 5 -W 5 -k 6 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -m trans -g 1 -F 0
MIOpenDriver convfp16 -n 2 -c 8 -H 5 -W 6 -k 4 -y 1 -x 1 -F 0 --in_layout NHWC --fil_layout NHWC --out_layout NHWC
MIOpenDriver convbfp16 -n 2 -c 3 -H 5 -W 6 -k 4 -y 3 -x 3 -p 2 -q 2 -F 0
MIOpenDriver conv -n 1 -c 3 --in_d 4 -H 5 -W 4 -k 4 --fil_d 2 -y 3 -x 3 --pad_d 1 -p 1 -q 1 --spatial_dim 3 -F 0
";

fn problems() -> Vec<ConvProblem> {
    let log = driver::read_log(LINES.as_bytes(), &Limits::DEFAULT);
    assert!(log.skipped.is_empty(), "{:?}", log.skipped);
    let mut problems: Vec<ConvProblem> = log.problems.iter().map(|logged| logged.problem).collect();
    assert_eq!(problems.len(), 21);
    // Double is no type of the driver's.
    let mut double = problems[0];
    for tensor in [&mut double.x, &mut double.w, &mut double.y] {
        tensor.dtype = DataType::Double;
    }
    problems.push(double);
    problems
}

/// A compiler, a store and a device.
struct Bench {
    device: HipDevice,
    store: Store,
    providers: Providers,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let runtime = HipRuntime::open(build::host_runtime(&common::build_dir(), false).expect("built")).expect("opened");
        let folder = tempfile::tempdir().expect("a folder");
        let mut providers = Providers::none();
        providers.add(Box::new(HipCompiler::new(vec![Box::new(HostCompiler::new(false).expect("g++"))])));
        Self {
            device: runtime.device(0).expect("a device"),
            store: Store::open(folder.path(), Mode::ReadWrite).expect("a store"),
            providers,
            _folder: folder,
        }
    }

    fn bound(&self, graph: &GraphBuf, name: &str) -> BoundPlan {
        let view = graph.view();
        let device = Device::Hip(self.device);
        let canonical = view.canonical().expect("a key");
        let request = Request { site: &Site::present(&device), policy: &Policy::DEFAULT };
        ensure_plan(&self.store, &canonical, &request, &self.providers).unwrap_or_else(|e| panic!("{name}: {e}"));
        match find_by_graph_key(&self.store, &canonical.key, &device, self.providers.loaders(), &Policy::DEFAULT) {
            Restore::Found(bytes) => {
                let plan = Plan::new(bytes.view()).with_code_objects(&self.store);
                plan.bind_by_graph(&device, self.providers.loaders(), &view).unwrap_or_else(|e| panic!("{name}: {e}"))
            }
            Restore::Missed(misses) => panic!("{name}: {}", describe_misses(&misses)),
        }
    }

    /// Kernels of a graph that are compiled: one for each different launch.
    fn kernels(&self, graph: &GraphBuf) -> usize {
        let canonical = graph.view().canonical().expect("a key");
        let owned = canon::decode(&canonical.encoding, &canonical.limits).expect("a graph");
        let target = "gfx942:sramecc+:xnack-".parse().expect("a target");
        hip::kernels(&owned.view(), &target).expect("lowered").1.len()
    }

    /// Executes and checks, with what is added in the memory of the output or apart from it.
    fn check(&self, graph: &GraphBuf, name: &str, in_place: bool) {
        let mut plan = self.bound(graph, name);
        // What a caller gives who asked about the convolution alone, or about nothing.
        let workspace_size = plan.workspace_size();
        let report = check(&graph.view(), 7, &mut |inputs, outputs| self.execute(&mut plan, inputs, outputs, in_place));
        let report = report.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(report.passed(), "{name}, in place {in_place}: {report}");
        assert_eq!(workspace_size, 0, "{name}");
    }

    fn execute(&self, plan: &mut BoundPlan, inputs: &Inputs, outputs: &mut Outputs, in_place: bool) -> Result<(), ExecError> {
        let upload = |bytes: &[u8]| DeviceMemory::from_slice(&self.device, bytes);
        let mut given = Vec::new();
        for input in inputs.tensors() {
            given.push((input.uid, upload(input.tensor.bytes())?));
        }
        let [output] = outputs.tensors_mut() else { panic!("one output") };
        let mut written = upload(output.tensor.bytes())?;
        if in_place {
            let added = inputs.tensors().iter().find(|t| t.uid == uid::ADDED).expect("something is added");
            written.copy_from_host(0, added.tensor.bytes())?;
        }
        let mut workspace = DeviceMemory::new(&self.device, plan.workspace_size())?;
        let mut scalars: Vec<(i64, [u8; 8])> = Vec::new();
        for scalar in inputs.scalars() {
            scalars.push((scalar.uid.0, scalar.value.to_element(scalar.value.data_type()).expect("a number")));
        }
        let mut pack = VariantPack::new();
        for (uid, memory) in &given {
            let memory = if in_place && *uid == uid::ADDED { &written } else { memory };
            // SAFETY: device memory of the tensor's size that outlives the call.
            unsafe { pack.raw(uid.0, memory.as_ptr().cast()) };
        }
        for (uid, bytes) in &mut scalars {
            // SAFETY: the runtime set holds the uid, and the bytes are an element of its type that outlives the call.
            unsafe { pack.raw(*uid, bytes.as_mut_ptr().cast::<c_void>()) };
        }
        // SAFETY: as above.
        unsafe { pack.raw(output.uid.0, written.as_ptr().cast()) };
        plan.execute(&pack, &mut workspace, Stream::Default)?;
        drop(pack);
        self.device.synchronize()?;
        Ok(written.copy_to_host(0, output.tensor.bytes_mut())?)
    }
}

#[test]
fn scaled_and_bilinear_convolutions_are_right_in_place_and_apart() {
    let bench = Bench::new();
    for problem in problems() {
        let name = format!("{problem:?}");
        let plain = problem.to_graph(&Limits::DEFAULT).expect("a graph");
        let scaled = problem.to_graph_with(&ConvEpilogue::SCALE, &Limits::DEFAULT).expect("a graph");
        // Half of the same.
        if problem.groups == 1 {
            bench.check(&scaled, &name, false);
        }
        let bilinear = problem.to_graph_with(&ConvEpilogue::bilinear(problem.result().strides), &Limits::DEFAULT).expect("a graph");
        bench.check(&bilinear, &name, false);
        bench.check(&bilinear, &name, true);
        // All of it is behind the sums of the same kernels.
        assert_eq!(bench.kernels(&scaled), bench.kernels(&plain), "{name}");
        assert_eq!(bench.kernels(&bilinear), bench.kernels(&plain), "{name}");
    }
}

#[test]
fn fused_convolutions_are_right() {
    let bench = Bench::new();
    for problem in problems().into_iter().filter(|p| p.direction == ConvDirection::Forward && p.mode == ProblemMode::Convolution) {
        // Each combination once, and the simplest and the largest of all problems.
        let all = problem == problems()[0];
        for bits in (0..8).filter(|bits| all || matches!(bits, 0 | 7)) {
            let epilogue = ConvEpilogue {
                scale: bits & 1 != 0,
                added: (bits & 2 != 0).then_some(problem.y.strides),
                scale_after: bits & 4 != 0,
                bias: true,
                relu: true,
            };
            let graph = problem.to_graph_with(&epilogue, &Limits::DEFAULT).expect("a graph");
            let name = format!("{epilogue:?} {problem:?}");
            bench.check(&graph, &name, false);
            if epilogue.added.is_some() {
                bench.check(&graph, &name, true);
            }
            assert_eq!(bench.kernels(&graph), bench.kernels(&problem.to_graph(&Limits::DEFAULT).expect("a graph")), "{name}");
        }
    }
}

#[test]
fn biases_alone_are_right() {
    let bench = Bench::new();
    let types = [DataType::Float, DataType::Half, DataType::Double];
    let shapes: [(&[i64], &[i64]); 4] = [
        (&[3, 5, 7, 6], &[210, 42, 6, 1]),
        (&[3, 5, 7, 6], &[210, 1, 30, 5]),
        (&[2, 4, 9], &[36, 9, 1]),
        (&[2, 3, 4, 5, 6], &[360, 120, 30, 6, 1]),
    ];
    for dtype in types {
        let some = if dtype == DataType::Float { &shapes[..] } else { &shapes[1..2] };
        for &(dims, strides) in some {
            let y = ProblemTensor::new(dtype, dims, strides).expect("a tensor");
            let spatial = (dims.len() - 2) as u8;
            let name = format!("{y:?}");
            let forward = bias::forward_graph(&y, spatial, &Limits::DEFAULT).expect("a graph");
            bench.check(&forward, &name, false);
            bench.check(&forward, &name, true);
            let backward = bias::backward_graph(&y, spatial, &Limits::DEFAULT).expect("a graph");
            bench.check(&backward, &name, false);
        }
    }
}

#[test]
fn integers_have_nothing_behind_their_sums() {
    let mut problem = problems()[0];
    (problem.x.dtype, problem.w.dtype, problem.y.dtype) = (DataType::Int8, DataType::Int8, DataType::Int32);
    problem.to_graph(&Limits::DEFAULT).expect("a graph");
    let refused = problem.to_graph_with(&ConvEpilogue::SCALE, &Limits::DEFAULT);
    assert!(matches!(refused, Err(ConvProblemError::Epilogue { compute: DataType::Int32 })), "{refused:?}");
    assert!(bias::forward_graph(&problem.y, 2, &Limits::DEFAULT).is_err());
    assert!(bias::backward_graph(&problem.y, 4, &Limits::DEFAULT).is_err());
}
