//! Builds the stand-in runtimes, and the stand-in for a compiler, from their C++ sources with g++.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// A runtime that was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The compiler could not be started.
    #[error("{compiler} did not start: {source}; install g++, or name a C++17 compiler in CXX")]
    Start {
        /// The compiler.
        compiler: String,
        /// Why.
        source: io::Error,
    },
    /// The compiler refused the sources.
    #[error("{compiler} failed, {status}:\n{log}")]
    Failed {
        /// The compiler.
        compiler: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it wrote.
        log: String,
    },
}

/// A source file: its path below the crate's `runtime` folder, and its text.
type Source = (&'static str, &'static str);

macro_rules! sources {
    ($($path:literal),* $(,)?) => { [$(($path, include_str!(concat!("../runtime/", $path)))),*] };
}

const COMMON: [Source; 2] = sources!["common/hip_abi.h", "common/hip_abi.cpp"];
const HOST: [Source; 10] = sources![
    "host/host.h",
    "host/run.h",
    "host/settings.cpp",
    "host/device.cpp",
    "host/memory.cpp",
    "host/stream.cpp",
    "host/capture.cpp",
    "host/naive.cpp",
    "host/module.cpp",
    "host/host.map",
];
const COMPILER: [Source; 1] = sources!["preload/compiler.cpp"];
const HOST_ROCM5: [Source; 1] = sources!["host/host-rocm5.map"];
const CUDA: [Source; 2] = sources!["cuda/cuda.cpp", "cuda/cuda.map"];

/// What stands before the text of a kernel that is compiled for the host: the runner of a block's threads.
pub const HOST_KERNEL_HEAD: &str = concat!(include_str!("../runtime/host/run.h"), include_str!("../runtime/host/fiber.h"));

/// Compiler options that make a library find errors of memory and undefined behaviour. The process must have [`asan_library`] preloaded.
pub const SANITIZE: [&str; 4] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1"];

/// Name or path of the C++ compiler: `CXX`, or g++.
pub fn cxx() -> OsString {
    env::var_os("CXX").filter(|c| !c.is_empty()).unwrap_or_else(|| "g++".into())
}

/// The library of AddressSanitizer, to be preloaded (`LD_PRELOAD`) where something was built with [`SANITIZE`]. `None` where the compiler
/// has none.
pub fn asan_library() -> Option<PathBuf> {
    let output = Command::new(cxx()).arg("-print-file-name=libasan.so").output().ok()?;
    // Without the library, the compiler prints the bare name.
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}

/// Builds the host runtime into a folder, unless it is there already, and returns the path of the library, `libamdhip64.so.6`.
///
/// Settings and counters of the library are told in `runtime/host/settings.cpp`.
///
/// # Errors
/// The folder cannot be written, or there is no compiler.
pub fn host_runtime(dir: &Path, sanitize: bool) -> Result<PathBuf, BuildError> {
    let sources = [&COMMON[..], &HOST[..]].concat();
    let options = ["-Wl,--version-script,host/host.map", "-Wl,-soname,libamdhip64.so.6"];
    library(dir, if sanitize { "host-sanitized" } else { "host" }, "libamdhip64.so.6", &sources, &options, sanitize)
}

/// The host runtime as ROCm 5 would be: `libamdhip64.so.5`, with the old layout of device properties alone.
///
/// # Errors
/// As of [`host_runtime`].
pub fn host_runtime_rocm5(dir: &Path) -> Result<PathBuf, BuildError> {
    let sources = [&COMMON[..], &HOST[..], &HOST_ROCM5[..]].concat();
    let options = ["-Wl,--version-script,host/host-rocm5.map", "-Wl,-soname,libamdhip64.so.5", "-DHIPPLAN_HOST_ROCM5"];
    library(dir, "host-rocm5", "libamdhip64.so.5", &sources, &options, false)
}

/// Builds the stand-in for MIOpen's compiler, `libhipplan_compiler.so`, and returns its path. It is preloaded where a program runs MIOpen
/// on the host runtime: `runtime/preload/compiler.cpp` tells what it does.
///
/// # Errors
/// As of [`host_runtime`].
pub fn compiler_stand_in(dir: &Path) -> Result<PathBuf, BuildError> {
    library(dir, "compiler", "libhipplan_compiler.so", &COMPILER, &[], false)
}

/// Builds the cuda runtime into a folder, unless it is there already, and returns the path of the library. It opens NVIDIA's driver when
/// it is first called, so that it builds anywhere.
///
/// # Errors
/// As of [`host_runtime`].
pub fn cuda_runtime(dir: &Path) -> Result<PathBuf, BuildError> {
    let sources = [&COMMON[..], &CUDA[..]].concat();
    let options = ["-Wl,--version-script,cuda/cuda.map", "-Wl,-soname,libamdhip64.so.6"];
    library(dir, "cuda", "libamdhip64.so.6", &sources, &options, false)
}

/// Compiles a library from sources into `dir/NAME-HASH/FILE`, the hash being of all that goes in.
fn library(dir: &Path, name: &str, file: &str, sources: &[Source], options: &[&str], sanitize: bool) -> Result<PathBuf, BuildError> {
    let fixed = ["-std=c++17", "-O2", "-g1", "-shared", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Wl,-z,defs"];
    let sanitize = if sanitize { &SANITIZE[..] } else { &[] };
    let compiler = cxx();
    let mut hash = blake3::Hasher::new();
    for part in fixed.iter().chain(options).chain(sanitize).chain(sources.iter().flat_map(|(path, text)| [path, text])) {
        hash.update(part.as_bytes()).update(&[0]);
    }
    hash.update(compiler.as_encoded_bytes());
    let hash = hash.finalize().to_hex();
    let home = dir.join(format!("{name}-{}", hash.get(..16).unwrap_or_default()));
    let library = home.join(file);
    if library.exists() {
        return Ok(library);
    }
    fs::create_dir_all(&home).map_err(|source| BuildError::Io { path: home.clone(), source })?;
    // Tests of one program ask at the same time: one builds, the others wait.
    let lock_path = home.join("lock");
    let lock = fs::File::create(&lock_path).and_then(|file| file.lock().map(|()| file));
    let _lock = lock.map_err(|source| BuildError::Io { path: lock_path, source })?;
    if library.exists() {
        return Ok(library);
    }
    let work = tempfile::tempdir_in(&home).map_err(|source| BuildError::Io { path: home.clone(), source })?;
    for (path, text) in sources {
        let path = work.path().join(path);
        let folder = path.parent().unwrap_or(work.path());
        fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).map_err(|source| BuildError::Io { path, source })?;
    }
    let inputs = sources.iter().map(|(path, _)| *path).filter(|path| path.ends_with(".cpp"));
    let mut command = Command::new(&compiler);
    // `-z defs` and a sanitizer do not go together where its library comes by preloading.
    let fixed = fixed.iter().filter(|f| sanitize.is_empty() || **f != "-Wl,-z,defs");
    command.args(fixed).args(options).args(sanitize).args(inputs).arg("-ldl").arg("-o").arg(file).current_dir(work.path());
    run(&mut command)?;
    let built = work.path().join(file);
    fs::rename(&built, &library).map_err(|source| BuildError::Io { path: library.clone(), source })?;
    Ok(library)
}

fn run(command: &mut Command) -> Result<(), BuildError> {
    let compiler = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| BuildError::Start { compiler: compiler.clone(), source })?;
    if output.status.success() {
        return Ok(());
    }
    Err(BuildError::Failed { compiler, status: output.status, log: String::from_utf8_lossy(&output.stderr).into_owned() })
}
