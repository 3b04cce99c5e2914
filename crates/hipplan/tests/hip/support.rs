//! A HIP runtime without a GPU, and a provider that compiles `y = x * alpha` into whatever program a test asks for.
#![allow(dead_code, reason = "each test binary uses a part")]

use hipplan::hip::{
    ArgumentPatch, DeviceMemory, HIP_PAYLOAD_KIND, HIP_PAYLOAD_VERSION, HipDevice, HipError, HipProgram, HipRuntime, HipTensor,
    KernelEntry, Launch, PatchSource, ScalarType, TensorPlace,
};
use hipplan::{
    ApiVersion, BoundPlan, CompileError, Compiled, Compiler, DataType, Device, Ensured, ExecError, GraphBuf, GraphBuilder, Mode, Offer,
    Plan, PointwiseMode, ProviderIdentity, Refusal, Runtime, Site, Store, Stream, Target, TensorAttributes, Uid, VariantPack,
    VerifiedGraph, ops,
};
use std::ffi::CString;
use std::path::{Path, PathBuf};

pub(crate) const X: i64 = 10;
pub(crate) const SCALAR: i64 = 20;
pub(crate) const Y: i64 = 30;
/// Elements of `x` and `y`.
pub(crate) const N: usize = 4;

/// Counters of the fake runtime, as `fake_hip.c` numbers them.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    Memory,
    Modules,
    Streams,
    Events,
    Loads,
    Launches,
    LastDevice,
    Inits,
}

/// The fake runtime, built for one test and loaded; the executor loads the same file.
pub(crate) struct Fake {
    pub(crate) path: PathBuf,
    library: libloading::Library,
    _folder: tempfile::TempDir,
}

impl Fake {
    /// Built with these definitions, such as `COUNT=2`.
    pub(crate) fn new(definitions: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("libfake_hip.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hip/fake_hip.c");
        let mut cc = std::process::Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-pthread", "-o"]).arg(&path).arg(source);
        cc.args(definitions.iter().map(|d| format!("-D{d}")));
        assert!(cc.status().expect("a C compiler").success());
        // SAFETY: the library has no constructors.
        let library = unsafe { libloading::Library::new(&path) }.expect("the library that was just built");
        Self { path, library, _folder: folder }
    }

    pub(crate) fn open(&self) -> Result<HipRuntime, HipError> {
        HipRuntime::open(&self.path)
    }

    pub(crate) fn device(&self, ordinal: u32) -> HipDevice {
        self.open().expect("the fake runtime").device(ordinal).expect("a device")
    }

    /// The next call of this function by this thread returns `code`, after so many that work.
    pub(crate) fn fail(&self, call: &str, code: i32, after: i32) {
        let call = CString::new(call).expect("a name").into_raw();
        // SAFETY: the function has this prototype in `fake_hip.c`; the name is never freed.
        unsafe {
            let fail = self.library.get::<unsafe extern "C" fn(*const std::ffi::c_char, i32, i32)>(b"fake_fail\0").expect("there");
            fail(call, code, after);
        }
    }

    pub(crate) fn count(&self, what: Count) -> i64 {
        // SAFETY: the function has this prototype in `fake_hip.c`.
        unsafe { self.library.get::<unsafe extern "C" fn(i32) -> i64>(b"fake_count\0").expect("there")(what as i32) }
    }

    /// Current device of this thread, and how often it was set.
    pub(crate) fn current(&self) -> (i32, i32) {
        let get = |name: &[u8]| {
            // SAFETY: both functions have this prototype in `fake_hip.c`.
            unsafe { self.library.get::<unsafe extern "C" fn() -> i32>(name).expect("there")() }
        };
        (get(b"fake_current\0"), get(b"fake_switches\0"))
    }

    pub(crate) fn set_current(&self, device: i32) {
        // SAFETY: the function has this prototype in `fake_hip.c`.
        unsafe { self.library.get::<unsafe extern "C" fn(i32)>(b"fake_set_current\0").expect("there")(device) };
    }

    /// Nothing is alive on the runtime.
    pub(crate) fn assert_empty(&self) {
        for what in [Count::Memory, Count::Modules, Count::Streams, Count::Events] {
            assert_eq!(self.count(what), 0, "alive of kind {}", what as i32);
        }
    }
}

/// A real code object of the corpus, with a kernel `scale` of the same argument as that of the fake runtime, which executes its own. There
/// are two that run on a gfx942.
pub(crate) fn code_object(number: usize) -> Vec<u8> {
    real_object(["gfx942-v5", "gfx9-4-generic-v6"][number - 1])
}

pub(crate) fn real_object(name: &str) -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/code-objects").join(name).with_extension("co");
    std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// What the fake runtime takes for a code object on a device of the target `host`, whose code objects nobody reads before HIP does.
pub(crate) fn opaque_object() -> Vec<u8> {
    b"\x7fELF and no more".to_vec()
}

/// `y = x * alpha` of four floats, the scalar made by `make`.
pub(crate) fn graph(make: impl FnOnce(&mut TensorAttributes)) -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let device = |uid, name: &str| {
        let mut tensor = TensorAttributes::packed(DataType::Float, &[N as i64]);
        tensor.set_uid(Uid(uid)).set_name(name);
        tensor
    };
    let x = builder.tensor(device(X, "x"));
    let mut scalar = TensorAttributes::packed(DataType::Float, &[1]);
    make(&mut scalar);
    scalar.set_uid(Uid(SCALAR)).set_name("alpha");
    let scalar = builder.tensor(scalar);
    let y = builder.tensor(device(Y, "y"));
    builder.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, scalar, y));
    let graph = builder.build().expect("a graph");
    let uids: Vec<i64> = graph.view().canonical().expect("a key").uids.iter().map(|uid| uid.0).collect();
    assert_eq!(uids, [X, SCALAR, Y], "programs below name them by position");
    graph
}

/// The graph with a user-supplied scalar.
pub(crate) fn runtime_graph() -> GraphBuf {
    graph(|t| {
        t.set_as_runtime_parameter();
    })
}

pub(crate) fn external(ordinal: u32, written: bool) -> HipTensor {
    HipTensor { place: TensorPlace::External { ordinal }, bytes: 4 * N as u64, written }
}

pub(crate) fn patch(offset: u32, tensor: u32, source: PatchSource) -> ArgumentPatch {
    ArgumentPatch { offset, tensor, source }
}

/// Kernargs of `scale`: y, x, a, n.
pub(crate) fn kernarg(template: &mut Vec<u8>) {
    template.extend([0; 20]);
    template.extend((N as u32).to_ne_bytes());
}

/// One launch of `scale`.
pub(crate) fn program() -> HipProgram {
    let mut kernargs = Vec::new();
    kernarg(&mut kernargs);
    HipProgram {
        tensors: vec![
            external(0, false),
            HipTensor { place: TensorPlace::Scalar { ordinal: 1 }, bytes: 4, written: false },
            external(2, true),
        ],
        kernels: vec![KernelEntry { code_object: 0, name: "scale".into(), kernarg_size: 24, block: 64 }],
        launches: vec![Launch { kernel: 0, grid: [1, 1, 1], kernarg_at: 0, patches_at: 0, patches: 3 }],
        patches: vec![
            patch(0, 2, PatchSource::Address),
            patch(8, 0, PatchSource::Address),
            patch(16, 1, PatchSource::Value(ScalarType::F32)),
        ],
        kernargs,
        workspace_size: 0,
    }
}

/// Two launches of `scale` through the workspace: `y = (x * alpha) * alpha`. The graph does not say that; nobody compares.
pub(crate) fn program_with_workspace() -> HipProgram {
    let mut program = program();
    program.workspace_size = 512;
    program.tensors.push(HipTensor { place: TensorPlace::Workspace { offset: 256 }, bytes: 4 * N as u64, written: true });
    kernarg(&mut program.kernargs);
    program.launches = vec![
        Launch { kernel: 0, grid: [1, 1, 1], kernarg_at: 0, patches_at: 0, patches: 3 },
        Launch { kernel: 0, grid: [1, 1, 1], kernarg_at: 24, patches_at: 3, patches: 3 },
    ];
    let scalar = patch(16, 1, PatchSource::Value(ScalarType::F32));
    program.patches = vec![
        patch(0, 3, PatchSource::Address),
        patch(8, 0, PatchSource::Address),
        scalar,
        patch(0, 2, PatchSource::Address),
        patch(8, 3, PatchSource::Address),
        scalar,
    ];
    program
}

/// Compiles every graph into the same program.
struct Always(HipProgram, Vec<Vec<u8>>);

impl Compiler for Always {
    fn identity(&self) -> ProviderIdentity {
        ProviderIdentity { name: "test".into(), api_version: ApiVersion::new(9, 0, 0) }
    }

    fn offers(&self, _: &VerifiedGraph<'_>, site: &Site) -> Result<Vec<Offer>, Refusal> {
        match site.target() {
            Target::Cpu => Err(Refusal::Target("for GPUs".into())),
            _ => Ok(vec![Offer::new("always", "1")]),
        }
    }

    fn compile(&self, _: &VerifiedGraph<'_>, _: &Offer, _: &Site) -> Result<Compiled, CompileError> {
        let body = rkyv::to_bytes::<rkyv::rancor::Error>(&self.0).expect("an archive").to_vec();
        let workspace_size = self.0.workspace_size;
        let code_objects = self.1.clone();
        Ok(Compiled { kind: HIP_PAYLOAD_KIND, version: HIP_PAYLOAD_VERSION, body, workspace_size, code_objects })
    }
}

/// A store with the plan of a graph, for one device.
pub(crate) struct Stored {
    pub(crate) runtime: Runtime,
    pub(crate) graph: GraphBuf,
    pub(crate) folder: tempfile::TempDir,
}

impl Stored {
    pub(crate) fn new(device: &HipDevice, graph: GraphBuf, program: HipProgram) -> Self {
        Self::with_objects(device, graph, program, vec![code_object(1)])
    }

    pub(crate) fn with_objects(device: &HipDevice, graph: GraphBuf, program: HipProgram, objects: Vec<Vec<u8>>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = Store::open(folder.path().join("store"), Mode::ReadWrite).expect("a store");
        let mut runtime = Runtime::on(store, Device::Hip(*device));
        // No other compiler: the `hip` provider's would make kernels of its own.
        *runtime.providers_mut() = hipplan::Providers::none();
        runtime.providers_mut().add(Box::new(Always(program, objects)));
        assert!(matches!(runtime.compile(&graph.view()), Ok(Ensured::Compiled(_))));
        Self { runtime, graph, folder }
    }

    /// Bound to the device that it was compiled for.
    pub(crate) fn bind(&self) -> Result<BoundPlan, ExecError> {
        self.bind_to(self.runtime.device())
    }

    pub(crate) fn bind_to(&self, device: &Device) -> Result<BoundPlan, ExecError> {
        let key = self.graph.view().canonical().expect("a key").key;
        let bytes = self.runtime.find(&key).unwrap_or_else(|e| panic!("{e}"));
        let plan = Plan::new(bytes.view()).with_code_objects(self.runtime.store());
        plan.bind_by_graph(device, &hipplan::Loaders::default(), &self.graph.view())
    }
}

/// `x`, `y` and a workspace on a device.
pub(crate) struct Buffers {
    pub(crate) x: DeviceMemory,
    pub(crate) y: DeviceMemory,
    pub(crate) workspace: DeviceMemory,
}

impl Buffers {
    pub(crate) fn new(device: &HipDevice, plan: &BoundPlan) -> Self {
        let x = DeviceMemory::from_slice(device, &[1.0_f32, 2.0, 3.0, 4.0]).expect("memory");
        let mut y = DeviceMemory::new(device, 4 * N as u64).expect("memory");
        y.fill(0xff).expect("filled");
        Self { x, y, workspace: DeviceMemory::new(device, plan.workspace_size()).expect("memory") }
    }

    /// Executes, and gives `y` when that is done.
    pub(crate) fn execute(
        &mut self,
        plan: &mut BoundPlan,
        stream: Stream<'_>,
        fill: impl FnOnce(&mut VariantPack<'_>),
    ) -> Result<[f32; N], ExecError> {
        let mut pack = VariantPack::new();
        pack.device_input(X, &self.x).device_output(Y, &mut self.y);
        fill(&mut pack);
        plan.execute(&pack, &mut self.workspace, stream)?;
        drop(pack);
        let mut y = [f32::NAN; N];
        self.y.copy_to_host(0, &mut y)?;
        Ok(y)
    }
}
