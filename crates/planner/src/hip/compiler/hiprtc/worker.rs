//! The child process of [`Hiprtc`](super::Hiprtc): loads the library, does one thing, ends.
//!
//! A compiler library in the caller's process would take it along when it crashes, which hiprtc does for every processor that it does not
//! know, and cannot be stopped when it hangs. Forking instead of starting a program would carry the locks of other threads over.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// First argument of a worker.
pub(super) const MARK: &str = "hipplan-hiprtc-worker";
/// First line of what a worker answers.
pub(super) const GREETING: &str = "hipplan hiprtc worker 1";
/// Exit code if the library cannot be used; the reason is on standard error.
pub(super) const NO_LIBRARY: i32 = 4;

/// HIP 7 and 6 have a library of their own, HIP 5 of some distributions has it in the runtime.
#[rustfmt::skip]
const LIBRARIES: [&str; 10] = [
    "libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so", "/opt/rocm/lib/libhiprtc.so",
    "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", "/opt/rocm/lib/libamdhip64.so",
];
const COMGR: [&str; 3] = ["libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so"];

static SERVES: AtomicBool = AtomicBool::new(false);

/// Whether this program has called [`serve_if_asked`].
pub(super) fn serves() -> bool {
    SERVES.load(Ordering::Relaxed)
}

/// The program that is to work in place of this one.
static OTHER: OnceLock<PathBuf> = OnceLock::new();

/// Names a program that works for [`Hiprtc::find`](super::Hiprtc::find) in place of this one: a library in somebody else's program has none
/// of its own. The first call counts.
pub fn set_worker(program: &Path) {
    OTHER.get_or_init(|| program.to_owned());
}

/// The program that [`set_worker`] named.
pub(super) fn other() -> Option<&'static Path> {
    OTHER.get().map(PathBuf::as_path)
}

/// Makes this program one that [`Hiprtc`](super::Hiprtc) can use as its worker: call it first in `main`. If the program was started as a
/// worker, it does its work and ends; otherwise nothing happens.
pub fn serve_if_asked() {
    SERVES.store(true, Ordering::Relaxed);
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == MARK) {
        let code = serve(&args.collect::<Vec<_>>());
        // What libraries registered for the end of the process is not worth running.
        std::process::exit(code);
    }
}

/// `describe LIBRARY OUT`, or `compile LIBRARY OUT OPTION...` with the text on standard input. An empty library is to be looked for.
fn serve(args: &[OsString]) -> i32 {
    let [verb, library, out, options @ ..] = args else {
        eprintln!("expected describe or compile, a library, a file");
        return 2;
    };
    let loaded = match Hiprtc::load(Path::new(library)) {
        Ok(loaded) => loaded,
        Err(reason) => {
            eprintln!("{reason}");
            return NO_LIBRARY;
        }
    };
    let answer = match verb.to_str() {
        Some("describe") => Ok(loaded.describe().into_bytes()),
        Some("compile") => loaded.compile(options),
        _ => Err((2, "expected describe or compile".to_owned())),
    };
    let written = answer.and_then(|bytes| std::fs::write(out, bytes).map_err(|e| (2, e.to_string())));
    match written {
        Ok(()) => 0,
        Err((code, message)) => {
            eprintln!("{message}");
            code
        }
    }
}

type Program = *mut c_void;
type Create = unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Text = unsafe extern "C" fn(c_int) -> *const c_char;

/// The entry points that are used; the prototypes are the same from HIP 5.2 to 7.
struct Hiprtc {
    path: PathBuf,
    create: Create,
    compile: Compile,
    log_size: Size,
    log: Bytes,
    code_size: Size,
    code: Bytes,
    error: Text,
    /// Never closed: the process ends soon.
    _library: Library,
}

fn open(path: impl AsRef<std::ffi::OsStr>) -> Result<Library, String> {
    // SAFETY: the library is one that was named, or the system's own hiprtc or comgr; its initialisers are what loading it means. This
    // process has no other threads and does nothing else.
    unsafe { Library::open(Some(path.as_ref()), RTLD_NOW | RTLD_LOCAL) }.map_err(reason)
}

/// What the dynamic linker says, which is the cause of what `libloading` says.
fn reason(error: libloading::Error) -> String {
    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// A function of a library.
///
/// # Safety
/// `T` is the type of the function of this name.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T, String> {
    // SAFETY: by the caller's promise.
    unsafe { library.get::<T>(name) }.map(|symbol| *symbol).map_err(|_| format!("it has no {name}"))
}

impl Hiprtc {
    fn load(named: &Path) -> Result<Self, String> {
        if !named.as_os_str().is_empty() {
            return Self::from(named).map_err(|e| format!("{}: {e}", named.display()));
        }
        let mut tried = Vec::new();
        for name in LIBRARIES {
            match Self::from(Path::new(name)) {
                Ok(loaded) => return Ok(loaded),
                Err(reason) => tried.push(reason),
            }
        }
        Err(format!("no hiprtc was found: {}", tried.join("; ")))
    }

    fn from(path: &Path) -> Result<Self, String> {
        let library = open(path)?;
        // SAFETY: these are the prototypes of hiprtc's header.
        unsafe {
            Ok(Self {
                create: symbol(&library, "hiprtcCreateProgram")?,
                compile: symbol(&library, "hiprtcCompileProgram")?,
                log_size: symbol(&library, "hiprtcGetProgramLogSize")?,
                log: symbol(&library, "hiprtcGetProgramLog")?,
                code_size: symbol(&library, "hiprtcGetCodeSize")?,
                code: symbol(&library, "hiprtcGetCode")?,
                error: symbol(&library, "hiprtcGetErrorString")?,
                path: path.to_owned(),
                _library: library,
            })
        }
    }

    fn describe(&self) -> String {
        let mut text = format!("{GREETING}\nlibrary {}\n", self.path.display());
        match self.comgr() {
            Ok(lines) => text += &lines,
            Err(reason) => text += &format!("unlisted {}\n", reason.replace('\n', " ")),
        }
        text
    }

    /// Version and targets of the code object manager that the library compiles with: that beside it, or the one that is loaded.
    fn comgr(&self) -> Result<String, String> {
        type Version = unsafe extern "C" fn(*mut usize, *mut usize);
        type Count = unsafe extern "C" fn(*mut usize) -> c_int;
        type Name = unsafe extern "C" fn(usize, *mut *const c_char) -> c_int;
        let beside = self.path.parent().filter(|folder| folder.is_absolute());
        let named = beside.into_iter().flat_map(|folder| COMGR.map(|name| folder.join(name))).chain(COMGR.map(PathBuf::from));
        let mut tried = Vec::new();
        // By name, what is loaded already is found first; it comes with the library in some releases, with the first compile in others.
        let library = named.map(open).find_map(|opened| opened.map_err(|e| tried.push(e)).ok()).ok_or_else(|| tried.join("; "))?;
        // SAFETY: these are the prototypes of comgr's header; they are the same in versions 2 and 3.
        let (version, count, name): (Version, Count, Name) = unsafe {
            (
                symbol(&library, "amd_comgr_get_version")?,
                symbol(&library, "amd_comgr_get_isa_count")?,
                symbol(&library, "amd_comgr_get_isa_name")?,
            )
        };
        let (mut major, mut minor, mut isas) = (0, 0, 0);
        // SAFETY: the pointers are to variables of this function.
        let status = unsafe {
            version(&raw mut major, &raw mut minor);
            count(&raw mut isas)
        };
        if status != 0 {
            return Err(format!("amd_comgr_get_isa_count gives {status}"));
        }
        let mut text = format!("comgr {major}.{minor}\n");
        for index in 0..isas.min(4096) {
            let mut isa = ptr::null();
            // SAFETY: the index is below the count; what comes back is a text of the library's that lives as long as it.
            let isa = unsafe {
                if name(index, &raw mut isa) != 0 || isa.is_null() {
                    return Err(format!("amd_comgr_get_isa_name fails for {index}"));
                }
                CStr::from_ptr(isa)
            };
            text += &format!("isa {}\n", isa.to_string_lossy());
        }
        // Functions of it may still be on the stack of its threads.
        std::mem::forget(library);
        Ok(text)
    }

    fn compile(&self, options: &[OsString]) -> Result<Vec<u8>, (i32, String)> {
        let broken = |e: &dyn std::fmt::Display| (2, e.to_string());
        let mut text = Vec::new();
        std::io::stdin().lock().read_to_end(&mut text).map_err(|e| broken(&e))?;
        let text = CString::new(text).map_err(|e| broken(&e))?;
        let options: Result<Vec<_>, _> = options.iter().map(|o| CString::new(o.as_encoded_bytes())).collect();
        let options = options.map_err(|e| broken(&e))?;
        let pointers: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).map_err(|e| broken(&e))?;
        let mut program = ptr::null_mut();
        // SAFETY: the texts end in zero and outlive the calls; no headers are given. The program is never destroyed: the process ends.
        let code = unsafe {
            let code = (self.create)(&raw mut program, text.as_ptr(), c"kernel".as_ptr(), 0, ptr::null(), ptr::null());
            if code == 0 { (self.compile)(program, count, pointers.as_ptr()) } else { code }
        };
        if code != 0 {
            let log = self.fetch(program, self.log_size, self.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n']).to_owned();
            // SAFETY: a text of the library's, which ends in zero.
            let name = unsafe {
                let name = (self.error)(code);
                if name.is_null() { "an unknown error".into() } else { CStr::from_ptr(name).to_string_lossy() }
            };
            return Err((1, format!("hiprtc error {code}, {name}\n{log}")));
        }
        self.fetch(program, self.code_size, self.code).map_err(|code| (1, format!("hiprtc error {code}: it gives no code")))
    }

    /// What the library holds for a program: its log, its code.
    fn fetch(&self, program: Program, size: Size, bytes: Bytes) -> Result<Vec<u8>, c_int> {
        let mut len = 0;
        // SAFETY: the pointer is to a variable of this function.
        let code = unsafe { size(program, &raw mut len) };
        if code != 0 || program.is_null() {
            return Err(code);
        }
        let mut buffer = vec![0_u8; len];
        // SAFETY: the buffer has the size that the library asked for.
        match unsafe { bytes(program, buffer.as_mut_ptr().cast()) } {
            0 => Ok(buffer),
            code => Err(code),
        }
    }
}
