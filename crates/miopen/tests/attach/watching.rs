//! What the watching functions note, the error record, and what is told at exit.

use crate::fake::{Fake, NATIVE_TIME, STATUS, call};
use crate::{allocations, child, enabled};
use hipplan_miopen::observe::{self, MAX_RANK, TensorNote, Wide};
use hipplan_miopen::routing::Family;
use hipplan_miopen::{counters, handles, last_error};
use hipplan_miopen_abi::types::{ConvolutionDescriptor, Enum, Handle, TensorDescriptor, data_type, tensor_layout};
use std::ffi::{CStr, c_char, c_void};
use std::process::Command;
use std::ptr::{null, without_provenance_mut};
use std::sync::atomic::Ordering::Relaxed;

pub(crate) fn body(role: &str) -> bool {
    match role {
        "tensors" => tensors(),
        "convolutions" => convolutions(),
        "errors" => errors(),
        "times" => times(),
        "count" => count(),
        "fork" => fork(),
        _ => match role.strip_prefix("setters ").map(str::parse) {
            Some(Ok(calls)) => setters(calls),
            _ => return false,
        },
    }
    true
}

fn attached() -> Fake {
    let fake = Fake::new();
    fake.attach();
    fake
}

fn array<const N: usize>(values: [u64; N]) -> [u64; MAX_RANK] {
    std::array::from_fn(|at| values.get(at).copied().unwrap_or(0))
}

fn tensors() {
    let fake = attached();
    let tensor: TensorDescriptor = without_provenance_mut(0x10);
    let other: TensorDescriptor = without_provenance_mut(0x20);
    let with_layout = |layout: Enum, dims: &[i32]| {
        let count = i32::try_from(dims.len()).expect("few");
        call!(fake, miopenSetNdTensorDescriptorWithLayout: fn(TensorDescriptor, Enum, Enum, *const i32, i32) -> i32, tensor, data_type::HALF, layout, dims.as_ptr(), count)
    };
    let v2 = |dims: &[usize], strides: Option<&[usize]>| {
        let count = i32::try_from(dims.len()).expect("few");
        call!(fake, miopenSetTensorDescriptorV2: fn(TensorDescriptor, Enum, i32, *const usize, *const usize) -> i32, tensor, data_type::HALF, count, dims.as_ptr(), strides.map_or(null(), <[usize]>::as_ptr))
    };
    let set_4d = |n: i32| call!(fake, miopenSet4dTensorDescriptor: fn(TensorDescriptor, Enum, i32, i32, i32, i32) -> i32, tensor, data_type::HALF, n, 65_536, 256, 256);
    let wide = |dims: &[u64; MAX_RANK], strides: &[u64; MAX_RANK], rank| {
        Some(TensorNote { wide: Some(Wide { rank, dims: *dims, strides: *strides }), ..TensorNote::default() })
    };

    // What getters tell is not noted.
    for layout in [tensor_layout::NCHW, tensor_layout::NHWC, tensor_layout::NCDHW, tensor_layout::NDHWC] {
        assert_eq!(with_layout(layout, &[1, 2, 3, 4]), 0);
        assert_eq!(observe::tensor(tensor), None);
    }
    // Vectorised ones are, and numbers that nobody knows.
    for layout in [tensor_layout::CHWN, tensor_layout::NCHWC4, tensor_layout::NCHWC8, tensor_layout::CHWNC4, tensor_layout::CHWNC8, -1] {
        assert_eq!(with_layout(layout, &[1, 8, 3, 4]), 0);
        assert_eq!(observe::tensor(tensor), Some(TensorNote { layout: Some(layout), ..TensorNote::default() }));
        assert_eq!(observe::tensor(other), None);
    }
    // A setter that fails changes nothing.
    STATUS.store(3, Relaxed);
    assert_eq!(with_layout(tensor_layout::NCHW, &[1, 2, 3, 4]), 3);
    assert!(observe::tensor(tensor).is_some());
    STATUS.store(0, Relaxed);
    // The cast type is kept beside what there is, and both go with the next setter or with the descriptor.
    assert_eq!(call!(fake, miopenSetTensorCastType: fn(TensorDescriptor, Enum) -> i32, tensor, data_type::FLOAT8_FNUZ), 0);
    assert_eq!(observe::tensor(tensor), Some(TensorNote { layout: Some(-1), cast_type: Some(data_type::FLOAT8_FNUZ), wide: None }));
    assert_eq!(
        call!(fake, miopenSet4dTensorDescriptorEx: fn(TensorDescriptor, Enum, i32, i32, i32, i32, i32, i32, i32, i32) -> i32, tensor, data_type::HALF, 1, 1, 1, 1, 1, 1, 1, 1),
        0
    );
    assert_eq!(observe::tensor(tensor), None);
    assert_eq!(call!(fake, miopenSetTensorCastType: fn(TensorDescriptor, Enum) -> i32, tensor, data_type::HALF), 0);
    assert!(observe::tensor(tensor).is_some());
    assert_eq!(call!(fake, miopenDestroyTensorDescriptor: fn(TensorDescriptor) -> i32, tensor), 0);
    assert_eq!(observe::tensor(tensor), None);

    // Beyond 32 bits, with strides of the caller's, packed, and channels last.
    let (dims, strides) = ([2, 3, 4, 5], [1 << 33, 20, 5, 1]);
    assert_eq!(v2(&dims, Some(&strides)), 0);
    assert_eq!(observe::tensor(tensor), wide(&array([2, 3, 4, 5]), &array([1 << 33, 20, 5, 1]), 4));
    assert_eq!(v2(&dims, Some(&[60, 20, 5, 1])), 0);
    assert_eq!(observe::tensor(tensor), None);
    assert_eq!(v2(&[2, 1 << 20, 1 << 12], None), 0);
    assert_eq!(observe::tensor(tensor), wide(&array([2, 1 << 20, 1 << 12]), &array([1 << 32, 1 << 12, 1]), 3));
    assert_eq!(v2(&[1, usize::MAX], None), 0);
    assert!(observe::tensor(tensor).is_some());
    assert_eq!(set_4d(2), 0);
    assert_eq!(observe::tensor(tensor), wide(&array([2, 65_536, 256, 256]), &array([1 << 32, 65_536, 256, 1]), 4));
    assert_eq!(with_layout(tensor_layout::NHWC, &[2, 65_536, 256, 256]), 0);
    assert_eq!(observe::tensor(tensor), wide(&array([2, 65_536, 256, 256]), &array([1 << 32, 1, 1 << 24, 65_536]), 4));
    let packed = [2_i32, 65_536, 65_536];
    let set = |strides: *const i32| call!(fake, miopenSetTensorDescriptor: fn(TensorDescriptor, Enum, i32, *const i32, *const i32) -> i32, tensor, data_type::HALF, 3, packed.as_ptr(), strides);
    assert_eq!(set(null()), 0);
    assert_eq!(observe::tensor(tensor), wide(&array([2, 65_536, 65_536]), &array([1 << 32, 65_536, 1]), 3));
    assert_eq!(set(packed.as_ptr()), 0);
    assert_eq!(observe::tensor(tensor), None);
    // Nothing noted: nothing allocated.
    let target = fake.target("miopenSetTensorDescriptor");
    // SAFETY: the function has this signature.
    let set = unsafe {
        std::mem::transmute::<*const std::ffi::c_void, unsafe extern "C" fn(TensorDescriptor, Enum, i32, *const i32, *const i32) -> i32>(
            target,
        )
    };
    let before = allocations();
    // SAFETY: arrays of three.
    let status = unsafe { set(tensor, data_type::HALF, 3, packed.as_ptr(), packed.as_ptr()) };
    let noted = observe::tensor(tensor);
    assert_eq!((status, noted, allocations()), (0, None, before));
}

fn convolutions() {
    let fake = attached();
    let conv: ConvolutionDescriptor = without_provenance_mut(0x10);
    let pad = |h: i32, w: i32| call!(fake, miopenSetTransposeConvOutputPadding: fn(ConvolutionDescriptor, i32, i32) -> i32, conv, h, w);
    let pad_nd = |values: &[i32]| {
        let count = i32::try_from(values.len()).expect("few");
        call!(fake, miopenSetTransposeConvNdOutputPadding: fn(ConvolutionDescriptor, i32, *const i32) -> i32, conv, count, values.as_ptr())
    };
    assert_eq!(pad(0, 0), 0);
    assert_eq!(observe::conv(conv), None);
    assert_eq!(pad(1, 2), 0);
    let note = observe::conv(conv).expect("noted");
    assert_eq!((note.spatial, &note.output_padding[..3]), (2, &[1, 2, 0][..]));
    assert_eq!(pad_nd(&[0, 0, 3]), 0);
    let note = observe::conv(conv).expect("noted");
    assert_eq!((note.spatial, &note.output_padding[..4]), (3, &[0, 0, 3, 0][..]));
    assert_eq!(pad_nd(&[0, 0, 0]), 0);
    assert_eq!(observe::conv(conv), None);
    type Array = *const i32;
    let values = [1_i32, 1, 1];
    for way in 0..3 {
        assert_eq!(pad(0, 1), 0);
        assert!(observe::conv(conv).is_some());
        match way {
            0 => {
                call!(fake, miopenInitConvolutionDescriptor: fn(ConvolutionDescriptor, Enum, i32, i32, i32, i32, i32, i32) -> i32, conv, 0, 0, 0, 1, 1, 1, 1)
            }
            1 => {
                call!(fake, miopenInitConvolutionNdDescriptor: fn(ConvolutionDescriptor, i32, Array, Array, Array, Enum) -> i32, conv, 3, values.as_ptr(), values.as_ptr(), values.as_ptr(), 1)
            }
            _ => call!(fake, miopenDestroyConvolutionDescriptor: fn(ConvolutionDescriptor) -> i32, conv),
        };
        assert_eq!(observe::conv(conv), None);
    }
}

fn errors() {
    let fake = attached();
    let text = |status: i32| {
        let text = call!(fake, miopenGetErrorString: fn(i32) -> *const c_char, status);
        // SAFETY: a string.
        unsafe { CStr::from_ptr(text) }.to_str().expect("UTF-8").to_owned()
    };
    let code = || call!(fake, miopenGetLastForwardedError: fn() -> i32,);
    assert_eq!((text(5).as_str(), code()), ("miopenStatusInternalError", 0));
    assert_eq!(last_error::fail(5, 6, format_args!("device {} is gone\0", 1)), 5);
    assert_eq!(text(5), "[hipDNN-forwarded] miopenStatusInternalError: device 1 is gone ");
    assert_eq!((text(8).as_str(), code()), ("miopenStatusUnsupportedOp", 6));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!((text(5).as_str(), code()), ("miopenStatusInternalError", 0)));
    });
    last_error::clear();
    assert_eq!((text(5).as_str(), code()), ("miopenStatusInternalError", 0));
    // A long text is cut, and recording allocates nothing.
    let long = "ä".repeat(2000);
    let before = allocations();
    assert_eq!(last_error::fail_with(2, format_args!("{long}")), 8);
    assert_eq!(allocations(), before);
    assert!(text(8).starts_with("[hipDNN-forwarded] miopenStatusUnsupportedOp: ää") && text(8).ends_with("ä...") && text(8).len() < 700);
    // Each kind is told once.
    for _ in 0..3 {
        assert_eq!(last_error::fail(5, 6, format_args!("again")), 5);
        assert_eq!(last_error::fail(3, 8, format_args!("a small workspace")), 3);
        assert_eq!(last_error::fail(5, last_error::UNAVAILABLE, format_args!("no library")), 5);
    }
    assert_eq!(code(), last_error::UNAVAILABLE);
    for (code, status) in [(1, 3), (2, 8), (3, 8), (4, 5), (5, 5), (6, 5), (7, 5), (8, 3), (9, 5), (10, 5), (99, 5), (-1, 5)] {
        assert_eq!(last_error::translate(code), status, "{code}");
    }
    // What MIOpen answers itself has no text of an earlier failure. Destroying something keeps it.
    assert_eq!(call!(fake, miopenDestroyTensorDescriptor: fn(TensorDescriptor) -> i32, without_provenance_mut(0x60)), 0);
    assert_eq!(code(), last_error::UNAVAILABLE);
    STATUS.store(5, Relaxed);
    assert_eq!(call!(fake, miopenSetTensorCastType: fn(TensorDescriptor, Enum) -> i32, without_provenance_mut(0x60), 1), 5);
    assert_eq!((code(), text(5).as_str()), (0, "miopenStatusInternalError"));
    // Solution ids: MIOpen's are asked of it.
    STATUS.store(6, Relaxed);
    let mut algorithm = -1;
    let mut ask = |id: u64| call!(fake, miopenGetSolverIdConvAlgorithm: fn(u64, *mut Enum) -> i32, id, &raw mut algorithm);
    assert_eq!((ask(85), ask(1 << 63), ask(hipplan_miopen::solution_id::OURS | 7)), (6, 6, 0));
    assert_eq!(algorithm, hipplan_miopen::solution_id::ALGORITHM);
}

fn times() {
    let fake = attached();
    let handle: Handle = without_provenance_mut(0x50);
    let time = || {
        let mut time = -1.0_f32;
        assert_eq!(call!(fake, miopenGetKernelTime: fn(Handle, *mut f32) -> i32, handle, &raw mut time), 0);
        time
    };
    let native = |ms: f32| NATIVE_TIME.store(ms.to_bits(), Relaxed);
    native(1.0);
    assert!(!handles::is_profiling(handle));
    assert_eq!(call!(fake, miopenEnableProfiling: fn(Handle, u8) -> i32, handle, 2), 0);
    assert!(handles::is_profiling(handle));
    assert_eq!(time(), 1.0);
    handles::set_kernel_time(handle, 0.25);
    assert_eq!(time(), 0.25);
    // Another operation of MIOpen's, which nobody watches.
    native(3.0);
    assert_eq!(time(), 3.0);
    handles::set_kernel_time(handle, 0.5);
    assert_eq!(time(), 0.5);
    handles::native_call(handle);
    assert_eq!(time(), 3.0);
    assert_eq!(call!(fake, miopenEnableProfiling: fn(Handle, u8) -> i32, handle, 0), 0);
    assert!(!handles::is_profiling(handle));
}

fn count() {
    let _fake = attached();
    counters::hit(Family::ConvForward);
    counters::hit(Family::ConvForward);
    counters::miss(Family::ConvForward);
    counters::private_call(Family::Bias);
    counters::failure(Family::FusedConv);
    counters::decline(Family::ConvBackwardData, counters::Decline::DisabledByEnv);
    if std::env::var_os("HIPPLAN_TEST_FORK").is_some() {
        // SAFETY: the child leaves at once, by way of its exit handlers.
        match unsafe { libc::fork() } {
            // SAFETY: as above.
            0 => unsafe { libc::exit(0) },
            child => {
                // SAFETY: nobody else waits for it.
                unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            }
        }
    }
}

/// Forks while other threads change what is noted; the children go on.
fn fork() {
    let fake = attached();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 1..4_usize {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    for at in 0..100_usize {
                        let address = (thread << 20) + 16 * at;
                        observe::set_cast_type(without_provenance_mut(address), Some(0));
                        handles::enable_profiling(without_provenance_mut(address), true);
                        observe::forget_tensor(without_provenance_mut(address));
                    }
                }
            });
        }
        for _ in 0..200 {
            // SAFETY: the child uses only what is promised to work there, and leaves by `_exit`.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "the system forks");
            if child == 0 {
                let tensor: TensorDescriptor = without_provenance_mut(0x99);
                let set = call!(fake, miopenSetTensorCastType: fn(TensorDescriptor, Enum) -> i32, tensor, 1);
                handles::enable_profiling(without_provenance_mut(0x98), true);
                let good = set == 0 && observe::tensor(tensor).is_some() && handles::is_profiling(without_provenance_mut(0x98));
                // SAFETY: nothing else is to be done in the child.
                unsafe { libc::_exit(i32::from(!good)) };
            }
            let mut status = -1;
            // SAFETY: the status is a local.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0);
        }
        stop.store(true, Relaxed);
    });
}

/// So many calls of the two setters that frameworks call before every convolution.
fn setters(calls: u32) {
    let fake = attached();
    let (tensor, conv) = (without_provenance_mut(0x10), without_provenance_mut(0x20));
    let targets = [fake.target("miopenSetTensorDescriptor"), fake.target("miopenInitConvolutionNdDescriptor")];
    type Tensor = unsafe extern "C" fn(TensorDescriptor, Enum, i32, *const i32, *const i32) -> i32;
    type Conv = unsafe extern "C" fn(ConvolutionDescriptor, i32, *const i32, *const i32, *const i32, Enum) -> i32;
    // SAFETY: the functions have these signatures.
    let (set, init) =
        unsafe { (std::mem::transmute::<*const c_void, Tensor>(targets[0]), std::mem::transmute::<*const c_void, Conv>(targets[1])) };
    let values = [1_i32; 4];
    let v = values.as_ptr();
    for _ in 0..calls {
        // SAFETY: arrays of four.
        assert_eq!(unsafe { (set(tensor, 1, 4, v, v), init(conv, 2, v, v, v, 0)) }, (0, 0));
    }
}

/// Most instructions of one call of each of the two, MIOpen's own work apart. A build with debug assertions checks more.
const MOST_INSTRUCTIONS: u64 = if cfg!(debug_assertions) { 180 } else { 120 };

#[test]
fn watching_setters_costs_few_instructions() {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("HIPPLAN_CI").is_none(), "valgrind is needed and not installed");
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instructions = |calls: u32| -> u64 {
        let out = format!("--callgrind-out-file={}", folder.path().join(calls.to_string()).display());
        let ran = child(&["valgrind", "--tool=callgrind", &out], &format!("setters {calls}"), &[("MIOPEN_HIPDNN_FORWARDING", "1")]);
        let line = ran.err.lines().find_map(|line| line.split_once("Collected : ")).expect("a sum of instructions").1;
        line.trim().parse().expect("a number")
    };
    let (few, many) = (1_000, 21_000);
    let each = (instructions(many) - instructions(few)) / u64::from(many - few);
    println!("{each} instructions");
    assert!((10..=MOST_INSTRUCTIONS).contains(&each), "{each} instructions, at most {MOST_INSTRUCTIONS} are allowed");
}

#[test]
fn what_no_getter_tells_of_tensors_is_noted() {
    enabled("tensors", &[]);
}

#[test]
fn output_padding_is_noted() {
    enabled("convolutions", &[]);
}

#[test]
fn failures_are_recorded_for_each_thread_and_told_once_for_each_kind() {
    let ran = enabled("errors", &[]);
    let told: Vec<_> = ran.err.lines().filter(|line| line.contains("forwarded call failed")).collect();
    assert_eq!(told.len(), 4, "{told:#?}");
    assert_eq!(
        told[0].trim_end_matches(['\0', ' ']),
        "[hipplan] error: forwarded call failed with miopenStatusInternalError (5): device 1 is gone"
    );
    for level in ["1", "2"] {
        assert!(!enabled("errors", &[("MIOPEN_LOG_LEVEL", level)]).err.contains("failed"));
    }
}

#[test]
fn the_time_is_that_of_the_last_call() {
    enabled("times", &[]);
}

#[test]
fn a_fork_leaves_the_tables_usable() {
    enabled("fork", &[]);
}

const REPORT: &str = "\
[hipplan] report convolution-forward: hits=2 misses=1 private=0 failures=0
[hipplan] report convolution-backward-data: hits=0 misses=0 private=0 failures=0 declined:disabled-by-env=1
[hipplan] report convolution-backward-weights: hits=0 misses=0 private=0 failures=0
[hipplan] report bias: hits=0 misses=0 private=1 failures=0
[hipplan] report convolution-bias-activation: hits=0 misses=0 private=0 failures=1
";

#[test]
fn counters_are_told_at_exit_once() {
    let ran = enabled("count", &[("HIPPLAN_MIOPEN_REPORT", "1"), ("HIPPLAN_TEST_FORK", "1")]);
    assert_eq!(ran.err.matches(REPORT).count(), 1, "{}", ran.err);
    assert_eq!(ran.err.matches("report bias").count(), 1, "a forked child tells nothing: {}", ran.err);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("report");
    let ran = enabled("count", &[("HIPPLAN_MIOPEN_REPORT", file.to_str().expect("UTF-8"))]);
    assert!(!ran.err.contains("report"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(file).expect("the report"), REPORT);
    assert!(!enabled("count", &[("HIPPLAN_MIOPEN_REPORT", "0")]).err.contains("report"));
    let ran = enabled("count", &[("HIPPLAN_MIOPEN_REPORT", "/nowhere/report")]);
    assert!(ran.err.contains("warning: HIPPLAN_MIOPEN_REPORT=/nowhere/report: "), "{}", ran.err);
}
