//! Kernels compiled for NVIDIA GPUs by NVRTC, for the cuda runtime. It needs NVRTC's library, and no GPU.

use hipplan_planner::hip::compiler::{KernelCompileError, KernelCompiler, KernelSource};
use hipplan_serialize::{Target, TestTarget};
use libloading::Library;
use std::env;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::fmt;
use std::ptr;

/// Where NVRTC is looked for, unless [`NvrtcCompiler::PATH`] says.
const CANDIDATES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// Options of every kernel, beside the architecture.
const FLAGS: [&str; 2] = ["--std=c++17", "--fmad=false"];

type Program = *mut c_void;

/// NVRTC's functions, under their names.
struct Functions {
    create: unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    error_text: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// NVRTC by dynamic loading. Its targets are `sm_90` and the like.
pub struct NvrtcCompiler {
    functions: Functions,
    version: (c_int, c_int),
    /// Keeps the functions valid.
    _library: Library,
}

impl fmt::Debug for NvrtcCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.identity())
    }
}

/// NVRTC was not found: each path that was tried, and why it failed.
#[derive(Debug, thiserror::Error)]
#[error("NVRTC was not opened: {}; install the PyPI package nvidia-cuda-nvrtc-cu12 or CUDA, or name the library in {}", .0.join("; "), NvrtcCompiler::PATH)]
pub struct OpenNvrtcError(Vec<String>);

impl NvrtcCompiler {
    /// Environment variable that names the library.
    pub const PATH: &'static str = "HIPPLAN_NVRTC_LIBRARY";

    /// Opens the library.
    ///
    /// # Errors
    /// No candidate can be opened, or lacks a function.
    pub fn open() -> Result<Self, OpenNvrtcError> {
        let given = env::var_os(Self::PATH).filter(|path| !path.is_empty());
        let paths = given.map_or_else(|| CANDIDATES.map(OsString::from).to_vec(), |path| vec![path]);
        let mut tried = Vec::new();
        for path in paths {
            // SAFETY: NVRTC's library has no initialisers that need care.
            match unsafe { Library::new(&path) }.and_then(Self::of) {
                Ok(compiler) => return Ok(compiler),
                Err(e) => tried.push(format!("{}: {e}", path.display())),
            }
        }
        Err(OpenNvrtcError(tried))
    }

    fn of(library: Library) -> Result<Self, libloading::Error> {
        // SAFETY: the types are those of NVRTC's header, the same in CUDA 11.1 to 13.
        let (functions, version) = unsafe {
            let functions = Functions {
                create: *library.get(c"nvrtcCreateProgram")?,
                compile: *library.get(c"nvrtcCompileProgram")?,
                log_size: *library.get(c"nvrtcGetProgramLogSize")?,
                log: *library.get(c"nvrtcGetProgramLog")?,
                cubin_size: *library.get(c"nvrtcGetCUBINSize")?,
                cubin: *library.get(c"nvrtcGetCUBIN")?,
                destroy: *library.get(c"nvrtcDestroyProgram")?,
                error_text: *library.get(c"nvrtcGetErrorString")?,
            };
            let ask = *library.get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(c"nvrtcVersion")?;
            let mut version = (0, 0);
            ask(&raw mut version.0, &raw mut version.1);
            (functions, version)
        };
        Ok(Self { functions, version, _library: library })
    }

    fn check(&self, code: c_int, call: &str) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function returns a constant text for every number.
        let text = unsafe {
            let text = (self.functions.error_text)(code);
            if text.is_null() { "unknown".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        Err(format!("{call}: {text} ({code})"))
    }

    fn build(&self, source: &KernelSource, target: &Target) -> Result<Vec<u8>, String> {
        let text = CString::new(source.text.as_str()).map_err(|e| format!("the text holds a null byte: {e}"))?;
        let name = CString::new(format!("{}.cu", source.name)).map_err(|e| format!("the name holds a null byte: {e}"))?;
        let mut program = ptr::null_mut();
        // SAFETY: two texts that end in null bytes, and no headers.
        let code = unsafe { (self.functions.create)(&raw mut program, text.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null()) };
        self.check(code, "nvrtcCreateProgram")?;
        let result = self.cubin(program, target);
        // SAFETY: the program was created above, and nothing uses it later.
        unsafe { (self.functions.destroy)(&raw mut program) };
        let cubin = result?;
        // A kernel that is not there fails here rather than where it is launched.
        let symbol = [b"\0", source.name.as_bytes(), b"\0"].concat();
        if !cubin.windows(symbol.len()).any(|w| w == symbol) {
            return Err(format!("the text defines no kernel of the name {}", source.name));
        }
        Ok(cubin)
    }

    fn cubin(&self, program: Program, target: &Target) -> Result<Vec<u8>, String> {
        let f = &self.functions;
        let arch = CString::new(format!("--gpu-architecture={target}")).map_err(|e| e.to_string())?;
        let fixed = FLAGS.map(CString::new).into_iter().collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        let options: Vec<_> = fixed.iter().chain([&arch]).map(|o| o.as_ptr()).collect();
        let count = c_int::try_from(options.len()).map_err(|e| e.to_string())?;
        // SAFETY: the options outlive the call.
        let compiled = self.check(unsafe { (f.compile)(program, count, options.as_ptr()) }, "nvrtcCompileProgram");
        if let Err(error) = compiled {
            let mut size = 0;
            // SAFETY: the buffer has the size that the library asks for.
            let log = unsafe {
                self.check((f.log_size)(program, &raw mut size), "nvrtcGetProgramLogSize")?;
                let mut log = vec![0_u8; size];
                self.check((f.log)(program, log.as_mut_ptr().cast()), "nvrtcGetProgramLog")?;
                log
            };
            let log = String::from_utf8_lossy(&log);
            return Err(format!("{error}\n{}", log.trim_end_matches('\0')));
        }
        let mut size = 0;
        // SAFETY: the buffer has the size that the library asks for.
        unsafe {
            self.check((f.cubin_size)(program, &raw mut size), "nvrtcGetCUBINSize")?;
            let mut cubin = vec![0_u8; size];
            self.check((f.cubin)(program, cubin.as_mut_ptr().cast()), "nvrtcGetCUBIN")?;
            Ok(cubin)
        }
    }
}

impl KernelCompiler for NvrtcCompiler {
    fn identity(&self) -> String {
        format!("nvrtc {}.{}", self.version.0, self.version.1)
    }

    fn revision(&self) -> String {
        format!("{} {}", self.identity(), FLAGS.join(" "))
    }

    fn supports(&self, target: &Target) -> Result<(), String> {
        match target {
            Target::Test(TestTarget::Sm(_)) => Ok(()),
            _ => Err("it compiles for `sm_` targets, of the project's tests".to_owned()),
        }
    }

    fn compile(&self, source: &KernelSource, target: &Target) -> Result<Vec<u8>, KernelCompileError> {
        self.supports(target).map_err(|reason| KernelCompileError::Target {
            compiler: self.identity(),
            target: target.to_string(),
            reason,
        })?;
        self.build(source, target).map_err(|log| KernelCompileError::Failed { compiler: self.identity(), kernel: source.name.clone(), log })
    }
}
