//! After bind, executing through the C API allocates nothing.

mod common;
#[path = "../../hipplan/tests/common/counting.rs"]
mod counting;

use common::{ALPHA, BETA, X, Y, scale_and_shift};
use counting::allocations;
use hipplan_capi::*;
use hipplan_hip_testing::{HostCompiler, build};
use hipplan_planner::Providers;
use hipplan_planner::hip::HipCompiler;
use hipplan_serialize::Target;
use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::ptr;

/// Allocations of a few executions: with all that may be bound, with unknown tensors, with an override, and with a missing one.
fn executions(device: &CStr, store: &Path, tensors: [*mut c_void; 2], stream: *mut c_void) -> u64 {
    let graph = scale_and_shift().view().to_artifact();
    let store = CString::new(store.to_str().expect("text")).expect("text");
    let stores = [store.as_ptr()];
    let options = hipplan_open_options_t {
        struct_size: size_of::<hipplan_open_options_t>(),
        stores: stores.as_ptr(),
        store_count: 1,
        device: device.as_ptr(),
        flags: 0,
        reserved: 0,
    };
    let (mut alpha, mut beta) = (2.0_f32, 1.0_f32);
    let entry = |uid, pointer| hipplan_binding_t { uid, pointer };
    let mut bindings = vec![entry(X, tensors[0]), entry(Y, tensors[1])];
    bindings.extend([entry(ALPHA, (&raw mut alpha).cast()), entry(BETA, (&raw mut beta).cast())]);
    bindings.extend((0..100).map(|i| entry(1000 + i, ptr::null_mut())));
    let overriding = hipplan_execute_options_t {
        struct_size: size_of::<hipplan_execute_options_t>(),
        flags: HIPPLAN_EXECUTE_OVERRIDE,
        kernel_ms: ptr::null_mut(),
        override_count: 0,
        override_uids: ptr::null(),
        override_ranks: ptr::null(),
        override_dims: ptr::null(),
        override_strides: ptr::null(),
    };
    let (mut library, mut plan, none) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: as the header says.
    unsafe {
        assert_eq!(hipplan_open(&raw const options, &raw mut library), HIPPLAN_OK);
        let bound = hipplan_bind_by_graph(library, graph.as_ptr().cast(), graph.len(), ptr::null(), &raw mut plan);
        assert_eq!(bound, HIPPLAN_OK, "{:?}", CStr::from_ptr(hipplan_last_error()));
        let before = allocations();
        for _ in 0..3 {
            for count in [3, 4, bindings.len()] {
                for options in [ptr::null(), &raw const overriding] {
                    assert_eq!(hipplan_execute(plan, bindings.as_ptr(), count, none, 0, stream, options), HIPPLAN_OK);
                }
            }
        }
        let allocated = allocations() - before;
        hipplan_release(plan);
        hipplan_close(library);
        allocated
    }
}

/// One test, so that no other thread of the test program allocates meanwhile.
#[test]
fn execute_allocates_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let graph = scale_and_shift();
    common::compile(&store, &graph.view(), &Target::Cpu, &Providers::default());
    let (mut x, mut y) = ([1.0_f32; 4], [0.0_f32; 4]);
    let tensors = [x.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
    assert_eq!(executions(c"cpu", &store, tensors, ptr::null_mut()), 0);
    assert_eq!(y, [3.0; 4]);

    let runtimes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runtimes");
    let runtime = build::host_runtime(&runtimes, false).expect("built");
    let compiler = HostCompiler::new(false).expect("g++").with_cache(&runtimes.join("kernels"));
    let mut providers = Providers::none();
    providers.add(Box::new(HipCompiler::new(vec![Box::new(compiler)])));
    common::compile(&store, &graph.view(), &"host".parse().expect("a target"), &providers);
    // SAFETY: one thread; the stand-in's functions have these types. It counts its own allocations as nobody's: they are made in C++.
    unsafe {
        std::env::set_var("HIPPLAN_HIP_LIBRARY", &runtime);
        let library = libloading::Library::new(&runtime).expect("the runtime");
        let malloc: unsafe extern "C" fn(*mut *mut c_void, usize) -> i32 = *library.get(b"hipMalloc\0").expect("hipMalloc");
        let make: unsafe extern "C" fn(*mut *mut c_void, u32) -> i32 = *library.get(b"hipStreamCreateWithFlags\0").expect("streams");
        let mut memory = [ptr::null_mut(); 2];
        let mut stream = ptr::null_mut();
        assert_eq!((malloc(&raw mut memory[0], 16), malloc(&raw mut memory[1], 16), make(&raw mut stream, 0)), (0, 0, 0));
        for stream in [ptr::null_mut(), stream] {
            assert_eq!(executions(c"hip", &store, memory, stream), 0);
        }
    }
}
