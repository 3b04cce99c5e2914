//! A MIOpen whose descriptors are structs of ours, and a libhipplan whose plans only remember what they were executed with.
#![allow(clippy::allow_attributes, reason = "each test program uses a part of this")]
#![allow(dead_code, reason = "each test program uses a part of this")]
#![allow(clippy::too_many_arguments, reason = "MIOpen's signatures")]
#![allow(non_snake_case, reason = "MIOpen's names")]
#![allow(unreachable_pub, reason = "a module of test programs")]

use hipplan_miopen::hipplan::{self, Api, BindOptions, Binding, Context, ExecuteOptions, Key, OpenOptions, Plan};
use hipplan_miopen::private;
use hipplan_miopen_abi::status;
use hipplan_miopen_abi::table::WrapperEntry;
use hipplan_miopen_abi::types::*;
use hipplan_serialize::{GraphKey, Limits, VerifiedGraph};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard};

pub mod case;

/// `miopenTensorDescriptor_t`.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    pub dtype: Enum,
    pub dims: Vec<i32>,
    pub strides: Vec<i32>,
}

impl Tensor {
    pub fn new(dtype: Enum, dims: &[i32]) -> Self {
        let mut strides = vec![1; dims.len()];
        for axis in (0..dims.len().saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1] * dims[axis + 1];
        }
        Self { dtype, dims: dims.to_vec(), strides }
    }

    pub fn descriptor(&self) -> TensorDescriptor {
        ptr::from_ref(self).cast_mut().cast()
    }
}

/// `miopenConvolutionDescriptor_t`.
#[derive(Debug, Clone, PartialEq)]
pub struct Conv {
    pub mode: Enum,
    pub pads: Vec<i32>,
    pub strides: Vec<i32>,
    pub dilations: Vec<i32>,
    pub groups: i32,
    /// None: the library does not know the attribute.
    pub fp16_alternative: Option<i32>,
}

impl Conv {
    pub fn new(spatial: usize) -> Self {
        Self {
            mode: 0,
            pads: vec![0; spatial],
            strides: vec![1; spatial],
            dilations: vec![1; spatial],
            groups: 1,
            fp16_alternative: Some(-1),
        }
    }

    pub fn descriptor(&self) -> ConvolutionDescriptor {
        ptr::from_ref(self).cast_mut().cast()
    }
}

/// `miopenHandle_t`.
#[derive(Debug)]
pub struct Stream(pub *mut c_void);

impl Stream {
    pub fn handle(&self) -> Handle {
        ptr::from_ref(self).cast_mut().cast()
    }
}

/// `miopenActivationDescriptor_t`.
#[derive(Debug)]
pub struct Activation(pub Enum);

impl Activation {
    pub fn descriptor(&self) -> ActivationDescriptor {
        ptr::from_ref(self).cast_mut().cast()
    }
}

unsafe fn tensor<'a>(tensor: TensorDescriptor) -> &'a Tensor {
    unsafe { &*tensor.cast() }
}

unsafe fn conv<'a>(conv: ConvolutionDescriptor) -> &'a Conv {
    unsafe { &*conv.cast() }
}

unsafe fn put(place: *mut c_int, values: &[i32]) {
    for (at, value) in values.iter().enumerate() {
        unsafe { place.add(at).write(*value) };
    }
}

unsafe extern "C" fn miopenGetStream(handle: Handle, stream: *mut AcceleratorQueue) -> c_int {
    unsafe { *stream = (*handle.cast::<Stream>()).0 };
    0
}

unsafe extern "C" fn miopenGetTensorDescriptorSize(desc: TensorDescriptor, rank: *mut c_int) -> c_int {
    unsafe { *rank = tensor(desc).dims.len() as c_int };
    0
}

unsafe extern "C" fn miopenGetTensorDescriptor(desc: TensorDescriptor, dtype: *mut Enum, dims: *mut c_int, strides: *mut c_int) -> c_int {
    unsafe {
        let tensor = tensor(desc);
        *dtype = tensor.dtype;
        put(dims, &tensor.dims);
        put(strides, &tensor.strides);
    }
    0
}

unsafe extern "C" fn miopenGetConvolutionSpatialDim(desc: ConvolutionDescriptor, spatial: *mut c_int) -> c_int {
    unsafe { *spatial = conv(desc).pads.len() as c_int };
    0
}

unsafe extern "C" fn miopenGetConvolutionNdDescriptor(
    desc: ConvolutionDescriptor,
    requested: c_int,
    spatial: *mut c_int,
    pads: *mut c_int,
    strides: *mut c_int,
    dilations: *mut c_int,
    mode: *mut Enum,
) -> c_int {
    unsafe {
        let conv = conv(desc);
        assert_eq!(requested as usize, conv.pads.len());
        *spatial = requested;
        put(pads, &conv.pads);
        put(strides, &conv.strides);
        put(dilations, &conv.dilations);
        *mode = conv.mode;
    }
    0
}

unsafe extern "C" fn miopenGetConvolutionGroupCount(desc: ConvolutionDescriptor, groups: *mut c_int) -> c_int {
    unsafe { *groups = conv(desc).groups };
    0
}

unsafe extern "C" fn miopenGetConvolutionAttribute(desc: ConvolutionDescriptor, attribute: Enum, value: *mut c_int) -> c_int {
    assert_eq!(attribute, convolution_attribute::FP16_ALT_IMPL);
    match unsafe { conv(desc) }.fp16_alternative {
        Some(found) => {
            unsafe { *value = found };
            0
        }
        None => status::BAD_PARM,
    }
}

unsafe extern "C" fn miopenGetActivationDescriptor(
    desc: ActivationDescriptor,
    mode: *mut Enum,
    _: *mut f64,
    _: *mut f64,
    _: *mut f64,
) -> c_int {
    unsafe { *mode = (*desc.cast::<Activation>()).0 };
    0
}

/// What a native function answers: no status of MIOpen's, so that it is recognised.
pub const NATIVE: c_int = 77;

thread_local! {
    static CALLED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// The native functions that this thread has called since it asked last.
pub fn native_calls() -> Vec<&'static str> {
    CALLED.with(|called| std::mem::take(&mut *called.borrow_mut()))
}

macro_rules! natives {
    ($($name:ident($($type:ty),*);)*) => {
        $(unsafe extern "C" fn $name($(_: $type),*) -> c_int {
            CALLED.with(|called| called.borrow_mut().push(stringify!($name)));
            NATIVE
        })*

        const NATIVES: &[(&str, *const c_void)] = &[$((stringify!($name), $name as *const c_void)),*];
    };
}

natives! {
    miopenConvolutionForwardGetWorkSpaceSize(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, *mut usize);
    miopenConvolutionBackwardDataGetWorkSpaceSize(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, *mut usize);
    miopenConvolutionBackwardWeightsGetWorkSpaceSize(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, *mut usize);
    miopenFindConvolutionForwardAlgorithm(Handle, TensorDescriptor, *const c_void, TensorDescriptor, *const c_void, ConvolutionDescriptor, TensorDescriptor, *mut c_void, c_int, *mut c_int, *mut ConvAlgoPerf, *mut c_void, usize, u8);
    miopenFindConvolutionBackwardDataAlgorithm(Handle, TensorDescriptor, *const c_void, TensorDescriptor, *const c_void, ConvolutionDescriptor, TensorDescriptor, *mut c_void, c_int, *mut c_int, *mut ConvAlgoPerf, *mut c_void, usize, u8);
    miopenFindConvolutionBackwardWeightsAlgorithm(Handle, TensorDescriptor, *const c_void, TensorDescriptor, *const c_void, ConvolutionDescriptor, TensorDescriptor, *mut c_void, c_int, *mut c_int, *mut ConvAlgoPerf, *mut c_void, usize, u8);
    miopenConvolutionForward(Handle, *const c_void, TensorDescriptor, *const c_void, TensorDescriptor, *const c_void, ConvolutionDescriptor, Enum, *const c_void, TensorDescriptor, *mut c_void, *mut c_void, usize);
    miopenConvolutionBackwardData(Handle, *const c_void, TensorDescriptor, *const c_void, TensorDescriptor, *const c_void, ConvolutionDescriptor, Enum, *const c_void, TensorDescriptor, *mut c_void, *mut c_void, usize);
    miopenConvolutionBackwardWeights(Handle, *const c_void, TensorDescriptor, *const c_void, TensorDescriptor, *const c_void, ConvolutionDescriptor, Enum, *const c_void, TensorDescriptor, *mut c_void, *mut c_void, usize);
    miopenConvolutionForwardGetSolutionCount(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, *mut usize);
    miopenConvolutionBackwardDataGetSolutionCount(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, *mut usize);
    miopenConvolutionBackwardWeightsGetSolutionCount(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, *mut usize);
    miopenConvolutionForwardGetSolution(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, usize, *mut usize, *mut ConvSolution);
    miopenConvolutionBackwardDataGetSolution(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, usize, *mut usize, *mut ConvSolution);
    miopenConvolutionBackwardWeightsGetSolution(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, usize, *mut usize, *mut ConvSolution);
    miopenConvolutionForwardGetSolutionWorkspaceSize(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, u64, *mut usize);
    miopenConvolutionBackwardDataGetSolutionWorkspaceSize(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, u64, *mut usize);
    miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, u64, *mut usize);
    miopenConvolutionForwardCompileSolution(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, u64);
    miopenConvolutionBackwardDataCompileSolution(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, u64);
    miopenConvolutionBackwardWeightsCompileSolution(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, u64);
    miopenConvolutionForwardImmediate(Handle, TensorDescriptor, *const c_void, TensorDescriptor, *const c_void, ConvolutionDescriptor, TensorDescriptor, *mut c_void, *mut c_void, usize, u64);
    miopenConvolutionBackwardDataImmediate(Handle, TensorDescriptor, *const c_void, TensorDescriptor, *const c_void, ConvolutionDescriptor, TensorDescriptor, *mut c_void, *mut c_void, usize, u64);
    miopenConvolutionBackwardWeightsImmediate(Handle, TensorDescriptor, *const c_void, TensorDescriptor, *const c_void, ConvolutionDescriptor, TensorDescriptor, *mut c_void, *mut c_void, usize, u64);
    miopenConvolutionForwardBias(Handle, *const c_void, TensorDescriptor, *const c_void, *const c_void, TensorDescriptor, *mut c_void);
    miopenConvolutionBackwardBias(Handle, *const c_void, TensorDescriptor, *const c_void, *const c_void, TensorDescriptor, *mut c_void);
    miopenConvolutionBiasActivationForward(Handle, *const c_void, TensorDescriptor, *const c_void, TensorDescriptor, *const c_void, ConvolutionDescriptor, Enum, *mut c_void, usize, *const c_void, TensorDescriptor, *const c_void, TensorDescriptor, *const c_void, ActivationDescriptor, TensorDescriptor, *mut c_void);
}

const GETTERS: &[(&str, *const c_void)] = &[
    ("miopenGetStream", miopenGetStream as *const c_void),
    ("miopenGetTensorDescriptorSize", miopenGetTensorDescriptorSize as *const c_void),
    ("miopenGetTensorDescriptor", miopenGetTensorDescriptor as *const c_void),
    ("miopenGetConvolutionSpatialDim", miopenGetConvolutionSpatialDim as *const c_void),
    ("miopenGetConvolutionNdDescriptor", miopenGetConvolutionNdDescriptor as *const c_void),
    ("miopenGetConvolutionGroupCount", miopenGetConvolutionGroupCount as *const c_void),
    ("miopenGetConvolutionAttribute", miopenGetConvolutionAttribute as *const c_void),
    ("miopenGetActivationDescriptor", miopenGetActivationDescriptor as *const c_void),
];

/// A stored graph: the workspaces of its plans, or what binding fails with.
#[derive(Debug, Clone)]
pub enum Stored {
    Plans(Vec<u64>),
    Fails(i32),
}

/// The store that all tests of a program share: they keep apart by their problems.
#[derive(Debug, Default)]
pub struct Store {
    pub graphs: HashMap<GraphKey, Stored>,
    /// What compiling a graph stores; none fails.
    pub compiler: Option<Stored>,
    /// Graphs bound, with the keys.
    pub bound: Vec<(GraphKey, u64)>,
    pub compiled: Vec<GraphKey>,
    /// Every graph asked about stores itself.
    pub accept_all: bool,
}

static STORE: LazyLock<Mutex<Store>> = LazyLock::new(Mutex::default);

pub fn store() -> MutexGuard<'static, Store> {
    STORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A bound plan.
#[derive(Debug)]
pub struct FakePlan {
    pub graph: GraphKey,
    pub workspace: u64,
}

/// The last execution of this thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Executed {
    pub plan: *const FakePlan,
    pub bindings: [(i64, usize); 8],
    /// Runtime scalars as read during the call: by uid 5 and 6.
    pub scalars: [f64; 2],
    pub workspace: (usize, usize),
    pub stream: usize,
    pub timed: bool,
    pub count: usize,
}

impl Executed {
    pub fn graph(&self) -> GraphKey {
        unsafe { &*self.plan }.graph
    }

    pub fn bound(&self) -> &[(i64, usize)] {
        &self.bindings[..self.count]
    }
}

thread_local! {
    static EXECUTED: Cell<Option<Executed>> = const { Cell::new(None) };
    static EXECUTE_FAILS: Cell<i32> = const { Cell::new(0) };
    static DOUBLES: Cell<bool> = const { Cell::new(false) };
    pub static DEVICE: Cell<i32> = const { Cell::new(0) };
    static ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// Takes the last execution of this thread.
pub fn executed() -> Option<Executed> {
    EXECUTED.take()
}

/// Executions of this thread fail with this code from now on.
pub fn execute_fails(code: i32) {
    EXECUTE_FAILS.set(code);
}

/// Scalars of this thread's executions are doubles.
pub fn scalars_are_doubles(are: bool) {
    DOUBLES.set(are);
}

fn fail(code: i32, text: &str) -> i32 {
    ERROR.with(|error| *error.borrow_mut() = CString::new(text).expect("no NUL"));
    code
}

/// Milliseconds that every execution takes.
pub const MS: f32 = 0.25;

unsafe extern "C" fn last_error() -> *const c_char {
    ERROR.with(|error| error.borrow().as_ptr())
}
unsafe extern "C" fn open(_: *const OpenOptions, context: *mut *mut Context) -> i32 {
    unsafe { *context = ptr::dangling_mut() };
    0
}
unsafe extern "C" fn hip_current_device(device: *mut i32) -> i32 {
    unsafe { *device = DEVICE.get() };
    if DEVICE.get() < 0 { 6 } else { 0 }
}
unsafe fn key_of(graph: *const c_void, size: usize) -> GraphKey {
    let bytes = unsafe { std::slice::from_raw_parts(graph.cast::<u8>(), size) };
    VerifiedGraph::verify_any(bytes, &Limits::DEFAULT).expect("a graph").canonical().expect("a key").key
}
unsafe extern "C" fn find(_: *mut Context, key: *const Key) -> i32 {
    let key = GraphKey(unsafe { (*key).bytes });
    match store().graphs.get(&key) {
        Some(Stored::Plans(_)) => 0,
        _ => hipplan::status::MISS,
    }
}
unsafe extern "C" fn bind_by_graph(
    _: *mut Context,
    graph: *const c_void,
    size: usize,
    options: *const BindOptions,
    plan: *mut *mut Plan,
) -> i32 {
    let key = unsafe { key_of(graph, size) };
    let most = if options.is_null() { u64::MAX } else { unsafe { (*options).max_workspace } };
    let mut store = store();
    store.bound.push((key, most));
    if store.accept_all {
        store.graphs.entry(key).or_insert(Stored::Plans(vec![0]));
    }
    match store.graphs.get(&key) {
        None => fail(hipplan::status::MISS, "nothing is stored"),
        Some(Stored::Fails(code)) => fail(*code, "the plan is damaged"),
        Some(Stored::Plans(plans)) => match plans.iter().find(|&&workspace| workspace <= most) {
            None => fail(hipplan::status::WORKSPACE, "nothing so small is stored"),
            Some(&workspace) => {
                unsafe { *plan = Box::into_raw(Box::new(FakePlan { graph: key, workspace })).cast() };
                0
            }
        },
    }
}
unsafe extern "C" fn compile(_: *mut Context, graph: *const c_void, size: usize) -> i32 {
    let key = unsafe { key_of(graph, size) };
    let mut store = store();
    store.compiled.push(key);
    match store.compiler.clone() {
        Some(stored) => {
            store.graphs.insert(key, stored);
            0
        }
        None => fail(hipplan::status::COMPILE, "the compiler failed"),
    }
}
unsafe extern "C" fn plan_workspace_size(plan: *const Plan) -> u64 {
    unsafe { (*plan.cast::<FakePlan>()).workspace }
}
unsafe extern "C" fn plan_key(plan: *const Plan, key: *mut Key) -> i32 {
    unsafe { (*key).bytes = *(*plan.cast::<FakePlan>()).graph.as_bytes() };
    0
}
unsafe extern "C" fn execute(
    plan: *mut Plan,
    bindings: *const Binding,
    count: usize,
    workspace: *mut c_void,
    workspace_size: usize,
    stream: *mut c_void,
    options: *const ExecuteOptions,
) -> i32 {
    if EXECUTE_FAILS.get() != 0 {
        return fail(EXECUTE_FAILS.get(), "the engine failed");
    }
    let mut seen = Executed {
        plan: plan.cast(),
        bindings: [(0, 0); 8],
        scalars: [0.0; 2],
        workspace: (workspace.addr(), workspace_size),
        stream: stream.addr(),
        timed: !options.is_null() && unsafe { !(*options).kernel_ms.is_null() },
        count,
    };
    for at in 0..count {
        let binding = unsafe { *bindings.add(at) };
        seen.bindings[at] = (binding.uid, binding.pointer.addr());
        if let Some(scalar) = usize::try_from(binding.uid - 5).ok().filter(|&n| n < 2) {
            let double = DOUBLES.get();
            let value =
                if double { unsafe { *binding.pointer.cast::<f64>() } } else { f64::from(unsafe { *binding.pointer.cast::<f32>() }) };
            seen.scalars[scalar] = value;
        }
    }
    if seen.timed {
        unsafe { *(*options).kernel_ms = MS };
    }
    EXECUTED.set(Some(seen));
    0
}
/// Puts both in place, once for the program.
pub fn set_up() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let entries: Vec<WrapperEntry> = NATIVES
            .iter()
            .chain(GETTERS)
            .map(|&(name, implementation)| {
                let name: &'static CStr = Box::leak(CString::new(name).expect("no NUL").into_boxed_c_str());
                WrapperEntry { name: name.as_ptr(), slot: ptr::null_mut(), implementation }
            })
            .collect();
        unsafe { private::init(&entries) };
        if std::env::var_os("HIPPLAN_TEST_NO_LIBRARY").is_some() {
            return;
        }
        hipplan::provide(Api {
            last_error,
            open,
            hip_current_device,
            find,
            bind_by_graph,
            compile,
            plan_workspace_size,
            plan_key,
            execute,
        });
    });
}
