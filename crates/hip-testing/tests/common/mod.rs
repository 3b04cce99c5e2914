//! HIP's functions of a stand-in runtime, called as the executor calls them, and kernels to call.

#![allow(dead_code, reason = "each test file uses a part of it")]

use hipplan_hip_testing::{HostCompiler, build};
use hipplan_planner::hip::compiler::KernelSource;
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

pub(crate) type Handle = *mut c_void;

macro_rules! functions {
    ($($name:ident($($type:ty),*) -> $result:ty;)*) => {
        #[expect(non_snake_case, reason = "HIP's names")]
        pub(crate) struct Hip {
            $(pub(crate) $name: unsafe extern "C" fn($($type),*) -> $result,)*
            _library: Library,
        }

        impl Hip {
            pub(crate) fn of(library: Library) -> Self {
                // SAFETY: the types are HIP's.
                unsafe {
                    Self { $($name: *library.get(stringify!($name)).expect(stringify!($name)),)* _library: library }
                }
            }
        }
    };
}

functions! {
    hipInit(c_uint) -> c_int;
    hipGetDeviceCount(*mut c_int) -> c_int;
    hipSetDevice(c_int) -> c_int;
    hipGetDevicePropertiesR0600(*mut u8, c_int) -> c_int;
    hipMemGetInfo(*mut usize, *mut usize) -> c_int;
    hipMalloc(*mut Handle, usize) -> c_int;
    hipFree(Handle) -> c_int;
    hipMemcpy(Handle, *const c_void, usize, c_int) -> c_int;
    hipMemcpyAsync(Handle, *const c_void, usize, c_int, Handle) -> c_int;
    hipStreamCreateWithFlags(*mut Handle, c_uint) -> c_int;
    hipStreamDestroy(Handle) -> c_int;
    hipStreamSynchronize(Handle) -> c_int;
    hipEventCreateWithFlags(*mut Handle, c_uint) -> c_int;
    hipEventDestroy(Handle) -> c_int;
    hipEventRecord(Handle, Handle) -> c_int;
    hipEventSynchronize(Handle) -> c_int;
    hipEventElapsedTime(*mut f32, Handle, Handle) -> c_int;
    hipDeviceSynchronize() -> c_int;
    hipModuleLoadData(*mut Handle, *const c_void) -> c_int;
    hipModuleUnload(Handle) -> c_int;
    hipModuleGetFunction(*mut Handle, Handle, *const c_char) -> c_int;
    hipModuleLaunchKernel(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut Handle, *mut Handle) -> c_int;
    hipModuleLoad(*mut Handle, *const c_char) -> c_int;
    hipExtModuleLaunchKernel(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, usize, Handle, *mut Handle, *mut Handle, Handle, Handle, c_uint) -> c_int;
    hipMemPtrGetInfo(Handle, *mut usize) -> c_int;
    hipStreamWaitEvent(Handle, Handle, c_uint) -> c_int;
    hipStreamBeginCapture(Handle, c_int) -> c_int;
    hipStreamEndCapture(Handle, *mut Handle) -> c_int;
    hipStreamIsCapturing(Handle, *mut c_int) -> c_int;
    hipThreadExchangeStreamCaptureMode(*mut c_int) -> c_int;
    hipGraphGetNodes(Handle, *mut Handle, *mut usize) -> c_int;
    hipGraphInstantiate(*mut Handle, Handle, *mut Handle, *mut c_char, usize) -> c_int;
    hipGraphLaunch(Handle, Handle) -> c_int;
    hipGraphDestroy(Handle) -> c_int;
    hipGraphExecDestroy(Handle) -> c_int;
    hipGetErrorName(c_int) -> *const c_char;
}

/// The host runtime with its extra functions.
pub(crate) struct Host {
    pub(crate) hip: Hip,
    configure: unsafe extern "C" fn(*const c_char, *const c_char) -> c_int,
    live: unsafe extern "C" fn(*mut u64),
    calls: unsafe extern "C" fn(*const c_char) -> u64,
}

/// Folder that the runtimes are built into, shared by all tests.
pub(crate) fn build_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("runtimes")
}

impl Host {
    /// A library of its own: another test of the same process has other settings and counts. Libraries are told apart by their file.
    pub(crate) fn open() -> (tempfile::TempDir, Self) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("libamdhip64.so.6");
        std::fs::copy(build::host_runtime(&build_dir(), false).expect("built"), &path).expect("copied");
        (folder, Self::open_at(&path))
    }

    pub(crate) fn open_at(path: &Path) -> Self {
        // SAFETY: the runtime's initialisers read the environment.
        unsafe {
            let library = Library::new(path).expect("the runtime");
            let configure = *library.get("hipplan_host_configure").expect("configure");
            let live = *library.get("hipplan_host_live").expect("live");
            let calls = *library.get("hipplan_host_calls").expect("calls");
            Self { hip: Hip::of(library), configure, live, calls }
        }
    }

    pub(crate) fn set(&self, key: &str, value: &str) {
        let (key_c, value_c) = (CString::new(key).expect("text"), CString::new(value).expect("text"));
        // SAFETY: two texts.
        assert_eq!(unsafe { (self.configure)(key_c.as_ptr(), value_c.as_ptr()) }, 0, "{key}={value}");
    }

    /// Allocations, bytes, host allocations, modules, streams, events.
    pub(crate) fn live(&self) -> [u64; 6] {
        let mut counts = [0_u64; 7];
        // SAFETY: the runtime writes seven counts.
        unsafe { (self.live)(counts.as_mut_ptr()) };
        std::array::from_fn(|i| counts[i])
    }

    pub(crate) fn calls(&self, name: &str) -> u64 {
        let name = CString::new(name).expect("text");
        // SAFETY: a text.
        unsafe { (self.calls)(name.as_ptr()) }
    }
}

impl Hip {
    /// A stream, independent of the null stream or not.
    pub(crate) fn stream(&self, independent: bool) -> Handle {
        let mut out = ptr::null_mut();
        // SAFETY: a place for the handle.
        assert_eq!(unsafe { (self.hipStreamCreateWithFlags)(&raw mut out, c_uint::from(independent)) }, 0);
        out
    }

    pub(crate) fn event(&self) -> Handle {
        let mut out = ptr::null_mut();
        // SAFETY: a place for the handle.
        assert_eq!(unsafe { (self.hipEventCreateWithFlags)(&raw mut out, 0) }, 0);
        out
    }

    pub(crate) fn malloc(&self, size: usize) -> Result<Handle, c_int> {
        let mut out = ptr::null_mut();
        // SAFETY: a place for the address.
        result(unsafe { (self.hipMalloc)(&raw mut out, size) }).map(|()| out)
    }

    pub(crate) fn free(&self, memory: Handle) -> Result<(), c_int> {
        // SAFETY: the runtime checks the address.
        result(unsafe { (self.hipFree)(memory) })
    }

    pub(crate) fn upload<T: Copy>(&self, to: Handle, from: &[T]) {
        // SAFETY: the runtime checks the device's end, and the slice is the other.
        assert_eq!(unsafe { (self.hipMemcpy)(to, from.as_ptr().cast(), size_of_val(from), 1) }, 0);
    }

    pub(crate) fn download<T: Copy + Default>(&self, from: Handle, count: usize) -> Vec<T> {
        let mut to = vec![T::default(); count];
        // SAFETY: the runtime checks the device's end, and the vector is the other.
        assert_eq!(unsafe { (self.hipMemcpy)(to.as_mut_ptr().cast(), from, count * size_of::<T>(), 2) }, 0);
        to
    }

    pub(crate) fn load(&self, image: &[u8]) -> Result<Handle, c_int> {
        let mut out = ptr::null_mut();
        // SAFETY: an image whose length its headers tell.
        result(unsafe { (self.hipModuleLoadData)(&raw mut out, image.as_ptr().cast()) }).map(|()| out)
    }

    pub(crate) fn unload(&self, module: Handle) -> Result<(), c_int> {
        // SAFETY: the runtime checks the handle.
        result(unsafe { (self.hipModuleUnload)(module) })
    }

    pub(crate) fn function(&self, module: Handle, name: &str) -> Result<Handle, c_int> {
        let name = CString::new(name).expect("text");
        let mut out = ptr::null_mut();
        // SAFETY: a place for the handle and a text.
        result(unsafe { (self.hipModuleGetFunction)(&raw mut out, module, name.as_ptr()) }).map(|()| out)
    }

    pub(crate) fn launch(&self, function: Handle, grid: [c_uint; 3], block: c_uint, kernarg: &[u64], stream: Handle) -> Result<(), c_int> {
        self.launch_bytes(function, grid, block, kernarg, size_of_val(kernarg), stream)
    }

    pub(crate) fn launch_bytes(
        &self,
        function: Handle,
        grid: [c_uint; 3],
        block: c_uint,
        kernarg: &[u64],
        mut size: usize,
        stream: Handle,
    ) -> Result<(), c_int> {
        let size_at = (&raw mut size).cast::<c_void>();
        let mut extra = [1 as Handle, kernarg.as_ptr() as Handle, 2 as Handle, size_at, 3 as Handle];
        let [x, y, z] = grid;
        let none = ptr::null_mut();
        // SAFETY: the runtime checks sizes before it reads the buffer.
        result(unsafe { (self.hipModuleLaunchKernel)(function, x, y, z, block, 1, 1, 0, stream, none, extra.as_mut_ptr()) })
    }
}

pub(crate) fn result(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// The part of the macro layer that these kernels use.
const MACROS: &str = "
#if defined(HP_HOST)
#define SHARED static thread_local
#define SYNC() hp_host_sync()
#define TX hp_host_tx()
#define BX hp_host_bx()
#define BY hp_host_by()
#define BZ hp_host_bz()
#define KERNEL(name, block, args) \\
    static void name##_body(const args& a); \\
    extern \"C\" const unsigned name##_block; \\
    extern \"C\" const unsigned name##_kernarg; \\
    const unsigned name##_block = block; \\
    const unsigned name##_kernarg = sizeof(args); \\
    extern \"C\" void name(const void* kernarg) { name##_body(*static_cast<const args*>(kernarg)); } \\
    static void name##_body(const args& a)
#else
#define SHARED __shared__
#define SYNC() __syncthreads()
#define TX ((int)threadIdx.x)
#define BX ((int)blockIdx.x)
#define BY ((int)blockIdx.y)
#define BZ ((int)blockIdx.z)
#define KERNEL(name, block, args) extern \"C\" __global__ void __launch_bounds__(block) name(const args a)
#endif
";

pub(crate) fn kernel(name: &str, block: u32, kernarg_size: u32, body: &str) -> KernelSource {
    KernelSource { name: name.to_owned(), text: format!("{MACROS}{body}"), kernarg_size, block }
}

/// Each block reverses its 256 numbers three times through shared memory, and adds its position in the grid.
pub(crate) fn reverse() -> KernelSource {
    kernel(
        "reverse",
        256,
        16,
        "struct Args { int* data; int rounds, unused; };
         KERNEL(reverse, 256, Args) {
             SHARED int tile[256];
             int* at = a.data + ((BZ * 3 + BY) * 5 + BX) * 256;
             for (int i = 0; i < a.rounds; ++i) {
                 tile[TX] = at[TX];
                 SYNC();
                 at[TX] = tile[255 - TX];
                 SYNC();
             }
             at[TX] += 1000 * BX + 10000 * BY + 100000 * BZ;
         }",
    )
}

/// The module of a kernel: what the host compiler makes.
pub(crate) fn image(source: &KernelSource, sanitize: bool) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = HostCompiler::new(sanitize).expect("g++").compile_twin(source, folder.path()).expect("compiled");
    std::fs::read(path).expect("read")
}
