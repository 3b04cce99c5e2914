//! What a forwarded problem's calls answer.
//!
//! A run with other scalars than (1, 0) whose plan is not loaded answers 6, not implemented. For images so does MIOpen. For volumes some of its
//! own solutions take such scalars, so that a program that relies on them loses by forwarding: it needs the plans for them stored, which the
//! miss policy `compile` sees to for volumes, or `MIOPEN_DISABLE_HIPDNN_FOR`.

use crate::command_log::{self, Call};
use crate::decide::{self, Answer, command, failed};
use crate::entry::native;
use crate::hipplan::{self, Binding, ExecuteOptions, status as code};
use crate::plans::{Bound, Entry, Forwarded};
use crate::problem::ProblemKey;
use crate::routing::EntryPoint;
use crate::{counters, handles, last_error, recorder, solution_id, trace};
use hipplan_miopen_abi::status::{self, Status};
use hipplan_miopen_abi::types::{AcceleratorQueue, ConvAlgoPerf, ConvSolution, Enum, Handle, data_type};
use hipplan_serialize::conv_problem::uid;
use hipplan_serialize::{ConvEpilogue, Uid};
use std::ffi::{c_int, c_void};
use std::fmt::Arguments;
use std::ptr;
use std::sync::atomic::Ordering;

/// A call of a forwarded problem.
#[derive(Debug, Clone, Copy)]
pub struct Ours {
    /// The function that was called.
    pub point: EntryPoint,
    /// The problem.
    pub entry: &'static Entry,
    /// Its plans.
    pub forwarded: &'static Forwarded,
}

/// Device memory of a call, by role.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// `x` or `dx`.
    pub x: *mut c_void,
    /// `w` or `dw`.
    pub w: *mut c_void,
    /// `y` or `dy`.
    pub y: *mut c_void,
}

/// The caller's workspace.
#[derive(Debug, Clone, Copy)]
pub struct Workspace {
    /// Device memory.
    pub address: *mut c_void,
    /// Its bytes.
    pub size: usize,
}

impl Workspace {
    /// What a caller passes. An address without bytes and bytes without an address are no workspace, as for stock MIOpen.
    #[inline]
    pub const fn given(address: *mut c_void, size: usize) -> Self {
        if address.is_null() || size == 0 { NO_WORKSPACE } else { Self { address, size } }
    }
}

const NO_WORKSPACE: Workspace = Workspace { address: ptr::null_mut(), size: 0 };

/// The scalars of a fused call in the form that its graph has: `(sums * scale + z) * scale_after`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusedScalars {
    /// Factor of the sums; 1 is none.
    pub scale: f64,
    /// `z` is added.
    pub added: bool,
    /// Factor of what both give; 1 is none.
    pub scale_after: f64,
}

impl Default for FusedScalars {
    fn default() -> Self {
        Self { scale: 1.0, added: false, scale_after: 1.0 }
    }
}

impl FusedScalars {
    /// `alpha1 * sums + alpha2 * z`; none if the two are too far apart for their quotient.
    pub fn new(alpha1: f64, alpha2: f64) -> Option<Self> {
        if alpha2 == 0.0 {
            return Some(Self { scale: alpha1, ..Self::default() });
        }
        let scale = quotient(alpha1, alpha2)?;
        Some(Self { scale, added: true, scale_after: alpha2 })
    }
}

/// `a / b`, unless it is so near the ends of float that it would lose what the two factors keep.
fn quotient(a: f64, b: f64) -> Option<f64> {
    let found = a / b;
    (found == 0.0 && a == 0.0 || (1.0 / MOST_RATIO..=MOST_RATIO).contains(&found.abs())).then_some(found)
}

/// Whether two of MIOpen's scalars for a tensor of this type are 1 and 0.
///
/// # Safety
/// They point to numbers of the type that MIOpen reads.
pub unsafe fn is_identity(alpha: *const c_void, beta: *const c_void, dtype: Enum) -> bool {
    let is_double = dtype == data_type::DOUBLE;
    // SAFETY: the caller's promise.
    unsafe { scalar(alpha, is_double) == 1.0 && scalar(beta, is_double) == 0.0 }
}

const MULTIPLY: u64 = 1;
const ADD: u64 = 2;

impl Ours {
    fn fail(&self, status: Status, code: i32, text: Arguments<'_>) -> Status {
        failed(self.point, status, code, format_args!("{}: {}: {text}", self.point.name(), command(&self.entry.key)))
    }

    #[cold]
    fn bad(&self, text: &str) -> Status {
        self.fail(status::BAD_PARM, code::INVALID_ARGUMENT, format_args!("{text}"))
    }

    #[inline]
    fn done(&self) -> Status {
        counters::hit(self.point.family());
        last_error::clear();
        status::SUCCESS
    }

    /// Writes one answer of the caller's.
    #[inline]
    unsafe fn put<T>(&self, place: *mut T, value: T) -> Status {
        if place.is_null() {
            return self.bad("the place for the answer is null");
        }
        // SAFETY: the caller vouches for places that are not null.
        unsafe { place.write(value) };
        self.done()
    }

    /// `GetWorkSpaceSize`.
    ///
    /// # Safety
    /// `size` is null or can be written to.
    pub unsafe fn workspace_size(&self, size: *mut usize) -> Status {
        // SAFETY: the caller's promise.
        unsafe { self.put(size, self.forwarded.plan.workspace as usize) }
    }

    /// `Find...Algorithm`: runs the plan on the caller's memory, and gives the one result that there is.
    ///
    /// # Safety
    /// As of MIOpen's function.
    pub unsafe fn find(
        &self,
        handle: Handle,
        memory: Memory,
        requested: c_int,
        returned: *mut c_int,
        results: *mut ConvAlgoPerf,
        workspace: Workspace,
    ) -> Status {
        command_log::log(Call::Find, &self.entry.key);
        if returned.is_null() || results.is_null() {
            return self.bad("the place for the results is null");
        }
        if requested < 1 {
            return self.bad("fewer than one result is asked for");
        }
        let plan = match self.fit(memory, workspace) {
            Ok(plan) => plan,
            Err(status) => return status,
        };
        let mut ms = 0.0;
        // SAFETY: the caller's promise.
        let status = unsafe { self.launch(handle, plan, &plain(memory), workspace, Some(&mut ms)) };
        if status != status::SUCCESS {
            return status;
        }
        self.entry.set_measured(ms);
        let result = ConvAlgoPerf { algorithm: solution_id::ALGORITHM, time: ms, memory: plan.workspace as usize };
        // SAFETY: room for at least one result, as the caller says.
        unsafe {
            results.write(result);
            returned.write(1);
        }
        status
    }

    /// The run of Find 1.0.
    ///
    /// # Safety
    /// As of MIOpen's function.
    #[inline]
    pub unsafe fn run(&self, handle: Handle, alpha: *const c_void, memory: Memory, beta: *const c_void, workspace: Workspace) -> Status {
        command_log::log(Call::Run, &self.entry.key);
        if alpha.is_null() || beta.is_null() {
            return self.bad("alpha or beta is null");
        }
        let plan = match self.fit(memory, workspace) {
            Ok(plan) => plan,
            Err(status) => return status,
        };
        let is_double = self.entry.key.result_type() == data_type::DOUBLE;
        // SAFETY: MIOpen's rule of what they point to.
        let (alpha, beta) = unsafe { (scalar(alpha, is_double), scalar(beta, is_double)) };
        if alpha == 1.0 && beta == 0.0 {
            // SAFETY: the caller's promise.
            return unsafe { self.launch(handle, plan, &plain(memory), workspace, None) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.run_scaled(handle, [alpha, beta], memory, workspace, is_double) }
    }

    /// A run with other scalars than (1, 0): what MIOpen refuses for images is refused here unless its plan is loaded.
    #[cold]
    unsafe fn run_scaled(&self, handle: Handle, [alpha, beta]: [f64; 2], memory: Memory, workspace: Workspace, is_double: bool) -> Status {
        record_scaled(self.entry, beta);
        let refused = |text| self.fail(status::NOT_IMPLEMENTED, code::UNSUPPORTED, text);
        if alpha == 0.0 {
            return refused(format_args!("alpha is 0"));
        }
        let key = &self.entry.key;
        let result = match key.direction {
            0 => memory.y,
            1 => memory.x,
            _ => memory.w,
        };
        let (plan, first) =
            if beta == 0.0 { (self.forwarded.scaled, Some(alpha)) } else { (self.forwarded.bilinear, quotient(alpha, beta)) };
        let Some(plan) = plan else {
            return refused(format_args!("no plan for alpha {alpha} and beta {beta} was stored when the problem was first asked about"));
        };
        let Some(first) = first else { return refused(format_args!("alpha {alpha} and beta {beta} are too far apart")) };
        let mut scalars = [Scalar::new(first, is_double), Scalar::new(beta, is_double)];
        let [first, second] = &mut scalars;
        let [x, w, y] = plain(memory);
        let bindings = [x, w, y, bind(uid::SCALE, first.address()), bind(uid::ADDED, result), bind(uid::SCALE_AFTER, second.address())];
        let used = if beta == 0.0 { &bindings[..4] } else { &bindings };
        // SAFETY: the caller's promise, and the scalars outlive the call.
        unsafe { self.launch(handle, plan, used, workspace, None) }
    }

    /// `GetSolutionCount`.
    ///
    /// # Safety
    /// `count` is null or can be written to.
    pub unsafe fn solution_count(&self, count: *mut usize) -> Status {
        // SAFETY: the caller's promise.
        unsafe { self.put(count, 1) }
    }

    /// `GetSolution`: the one that there is, with the time of the last find.
    ///
    /// # Safety
    /// As of MIOpen's function.
    pub unsafe fn solution(&self, most: usize, count: *mut usize, solutions: *mut ConvSolution) -> Status {
        if count.is_null() || solutions.is_null() {
            return self.bad("the place for the solutions is null");
        }
        let found = usize::from(most > 0);
        if found > 0 {
            let solution = ConvSolution {
                // Negative is MIOpen's word for "not measured".
                time: self.entry.measured().unwrap_or(-1.0),
                workspace_size: self.forwarded.plan.workspace as usize,
                solution_id: self.forwarded.solution,
                algorithm: solution_id::ALGORITHM,
            };
            // SAFETY: room for `most` solutions, as the caller says.
            unsafe { solutions.write(solution) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.put(count, found) }
    }

    /// `GetSolutionWorkspaceSize` with an id of ours.
    ///
    /// # Safety
    /// `size` is null or can be written to.
    pub unsafe fn solution_workspace(&self, size: *mut usize) -> Status {
        // SAFETY: the caller's promise.
        unsafe { self.workspace_size(size) }
    }

    /// `CompileSolution` with an id of ours: everything was loaded when the problem was decided.
    pub fn compile(&self) -> Status {
        self.done()
    }

    /// The immediate run with an id of ours. Any of ours will do, also one that an earlier process was given, before another plan was stored:
    /// what is run is the problem's plan, and another id than its own is only traced.
    ///
    /// # Safety
    /// As of MIOpen's function.
    #[inline]
    pub unsafe fn immediate(&self, handle: Handle, memory: Memory, workspace: Workspace, id: u64) -> Status {
        command_log::log(Call::Immediate, &self.entry.key);
        if id != self.forwarded.solution {
            trace::note(format_args!(
                "{}: solution {id:#x} is not the problem's plan, {:#x} is",
                self.point.name(),
                self.forwarded.solution
            ));
        }
        match self.fit(memory, workspace) {
            // SAFETY: the caller's promise.
            Ok(plan) => unsafe { self.launch(handle, plan, &plain(memory), workspace, None) },
            Err(status) => status,
        }
    }

    /// `miopenConvolutionBiasActivationForward`.
    ///
    /// # Safety
    /// As of MIOpen's function.
    pub unsafe fn fused(&self, handle: Handle, memory: Memory, z: *mut c_void, bias: *mut c_void, scalars: FusedScalars) -> Status {
        if bias.is_null() || (scalars.added && z.is_null()) {
            return self.bad("a tensor's memory is null");
        }
        let plan = match self.fit(memory, NO_WORKSPACE) {
            Ok(plan) => plan,
            Err(status) => return status,
        };
        let is_double = self.entry.key.result_type() == data_type::DOUBLE;
        let (mut scale, mut scale_after) = (Scalar::new(scalars.scale, is_double), Scalar::new(scalars.scale_after, is_double));
        let [x, w, y] = plain(memory);
        let mut bindings = [x, w, y, bind(uid::BIAS, bias), x, x, x];
        let mut used = 4;
        let mut add = |binding| {
            bindings[used] = binding;
            used += 1;
        };
        if scalars.scale != 1.0 {
            add(bind(uid::SCALE, scale.address()));
        }
        if scalars.added {
            add(bind(uid::ADDED, z));
        }
        if scalars.scale_after != 1.0 {
            add(bind(uid::SCALE_AFTER, scale_after.address()));
        }
        // SAFETY: the caller's promise, and the scalars outlive the call.
        unsafe { self.launch(handle, plan, &bindings[..used], NO_WORKSPACE, None) }
    }

    /// `miopenConvolutionForwardBias`: `y` is read and written.
    ///
    /// # Safety
    /// As of MIOpen's function.
    pub unsafe fn forward_bias(&self, handle: Handle, bias: *mut c_void, y: *mut c_void) -> Status {
        let bindings = [bind(uid::Y, y), bind(uid::ADDED, y), bind(uid::BIAS, bias)];
        // SAFETY: the caller's promise.
        unsafe { self.bias(handle, bias, y, &bindings) }
    }

    /// `miopenConvolutionBackwardBias`.
    ///
    /// # Safety
    /// As of MIOpen's function.
    pub unsafe fn backward_bias(&self, handle: Handle, dy: *mut c_void, db: *mut c_void) -> Status {
        // SAFETY: the caller's promise.
        unsafe { self.bias(handle, db, dy, &[bind(uid::Y, dy), bind(uid::BIAS, db)]) }
    }

    unsafe fn bias(&self, handle: Handle, bias: *mut c_void, tensor: *mut c_void, bindings: &[Binding]) -> Status {
        if bias.is_null() || tensor.is_null() {
            return self.bad("a tensor's memory is null");
        }
        match self.forwarded.within(0) {
            // SAFETY: the caller's promise.
            Some(plan) => unsafe { self.launch(handle, plan, bindings, NO_WORKSPACE, None) },
            None => self.too_small(NO_WORKSPACE),
        }
    }

    /// The plan that the workspace is enough for. Checks as MIOpen does.
    #[inline]
    fn fit(&self, memory: Memory, workspace: Workspace) -> Result<Bound, Status> {
        if memory.x.is_null() || memory.w.is_null() || memory.y.is_null() {
            return Err(self.bad("a tensor's memory is null"));
        }
        self.forwarded.within(workspace.size).ok_or_else(|| self.too_small(workspace))
    }

    #[cold]
    fn too_small(&self, workspace: Workspace) -> Status {
        let (given, least) = (workspace.size, self.forwarded.small.map_or(self.forwarded.plan.workspace, |small| small.workspace));
        self.fail(status::BAD_PARM, code::WORKSPACE, format_args!("{given} bytes of workspace, the least that a plan takes is {least}"))
    }

    /// Launches. With `time`, or if the handle times its calls, waits and takes the time.
    ///
    /// # Safety
    /// The bindings' memory is what the plan's tensors need.
    #[inline]
    pub unsafe fn launch(&self, handle: Handle, plan: Bound, bindings: &[Binding], workspace: Workspace, time: Option<&mut f32>) -> Status {
        let mut stream: AcceleratorQueue = ptr::null_mut();
        let status = native!(miopenGetStream(handle, &raw mut stream));
        if status != status::SUCCESS {
            return self.fail(status, code::INVALID_ARGUMENT, format_args!("the handle has no stream"));
        }
        let api = match hipplan::api() {
            Ok(api) => api,
            Err(why) => return self.fail(status::INTERNAL_ERROR, last_error::UNAVAILABLE, format_args!("{why}")),
        };
        let is_profiling = handles::is_profiling(handle);
        let mut ms = 0.0_f32;
        let options = ExecuteOptions { struct_size: size_of::<ExecuteOptions>(), flags: 0, kernel_ms: &raw mut ms };
        let options = if is_profiling || time.is_some() { &raw const options } else { ptr::null() };
        // SAFETY: a bound plan, and the caller's promise.
        let found =
            unsafe { (api.execute)(plan.plan, bindings.as_ptr(), bindings.len(), workspace.address, workspace.size, stream, options) };
        if found != code::OK {
            return self.fail(last_error::translate(found), found, format_args!("{}", api.last_error_text()));
        }
        if is_profiling {
            handles::set_kernel_time(handle, ms);
        }
        if let Some(time) = time {
            *time = ms;
        }
        self.done()
    }
}

/// Largest quotient of two scalars that is taken, and the smallest is one by it: far from where float ends.
const MOST_RATIO: f64 = (1_u64 << 40) as f64;

/// A run of a problem that MIOpen answers: what the recorder is to know of it.
///
/// # Safety
/// The scalars are null or point to numbers of the type that MIOpen reads.
#[cold]
pub unsafe fn recorded_run(key: &ProblemKey, alpha: *const c_void, beta: *const c_void) {
    let Some(entry) = crate::plans::table().find(key) else { return };
    if alpha.is_null() || beta.is_null() {
        return;
    }
    let is_double = key.result_type() == data_type::DOUBLE;
    // SAFETY: MIOpen's rule of what they point to.
    let (alpha, beta) = unsafe { (scalar(alpha, is_double), scalar(beta, is_double)) };
    if alpha != 0.0 && (alpha, beta) != (1.0, 0.0) {
        record_scaled(entry, beta);
    }
}

/// Records the graph of a call with scalars, once.
fn record_scaled(entry: &Entry, beta: f64) {
    if !recorder::is_on() {
        return;
    }
    let (bit, epilogue) =
        if beta == 0.0 { (MULTIPLY, ConvEpilogue::SCALE) } else { (ADD, ConvEpilogue::bilinear(entry.key.result().strides)) };
    if entry.recorded.fetch_or(bit, Ordering::Relaxed) & bit == 0
        && let Some((graph, key)) = decide::graph(&entry.key, Some(epilogue))
    {
        recorder::record(&graph, &key);
    }
}

/// One of MIOpen's scalars.
///
/// # Safety
/// It points to a double or a float.
#[inline]
unsafe fn scalar(pointer: *const c_void, is_double: bool) -> f64 {
    if is_double {
        // SAFETY: the caller's promise.
        unsafe { pointer.cast::<f64>().read_unaligned() }
    } else {
        // SAFETY: the caller's promise.
        f64::from(unsafe { pointer.cast::<f32>().read_unaligned() })
    }
}

/// A runtime scalar of a plan: a double, or a float in its first half.
#[derive(Debug, Clone, Copy)]
#[repr(align(8))]
pub struct Scalar([u8; 8]);

impl Scalar {
    /// A value as an element of its type.
    pub fn new(value: f64, is_double: bool) -> Self {
        if is_double {
            return Self(value.to_ne_bytes());
        }
        let [a, b, c, d] = (value as f32).to_ne_bytes();
        Self([a, b, c, d, 0, 0, 0, 0])
    }

    /// Where a plan reads it.
    pub const fn address(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

/// A binding.
#[inline]
pub const fn bind(uid: Uid, pointer: *mut c_void) -> Binding {
    Binding { uid: uid.0, pointer }
}

/// The bindings of a convolution alone.
#[inline]
const fn plain(memory: Memory) -> [Binding; 3] {
    [bind(uid::X, memory.x), bind(uid::W, memory.w), bind(uid::Y, memory.y)]
}

/// The answer to a query or an execution as a status: ours by `ours`, MIOpen's by `native`.
#[inline]
pub fn answered(point: EntryPoint, answer: Answer, ours: impl FnOnce(Ours) -> Status, native: impl FnOnce() -> Status) -> Status {
    match answer {
        Answer::Plan(entry, forwarded) => ours(Ours { point, entry, forwarded }),
        Answer::Private => native(),
        Answer::Failed(status) => status,
    }
}
