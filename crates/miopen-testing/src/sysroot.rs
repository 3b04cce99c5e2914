//! The folder with MIOpen, found or made, and test programs compiled against it.

use crate::program::Program;
use hipplan_hip_testing::build::{self, BuildError};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::{env, fs, io};

/// Names a sysroot to use in place of the one that the script makes.
const VARIABLE: &str = "HIPPLAN_MIOPEN_SYSROOT";

/// Set to 1 by who has run the script already, and knows that the suite lacks MIOpen.
const NONE: &str = "HIPPLAN_NO_MIOPEN";

/// Exit status of the script where the suite has no MIOpen.
const SUITE_LACKS_IT: i32 = 3;

/// A sysroot that is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum SysrootError {
    /// The script could not be started.
    #[error("{script}: {source}; it needs bash", script = script.display())]
    Start {
        /// The script.
        script: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The script failed.
    #[error("{script} failed, {status}:\n{log}", script = script.display())]
    Script {
        /// The script.
        script: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote.
        log: String,
    },
    /// A file of the folder is not there.
    #[error("{path}: {source}; delete the folder, and it is made again", path = path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The stand-ins could not be built.
    #[error(transparent)]
    StandIn(#[from] BuildError),
}

/// A program that was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler could not be started.
    #[error("{compiler} did not start: {source}", compiler = compiler.display())]
    Start {
        /// The compiler.
        compiler: OsString,
        /// Why.
        source: io::Error,
    },
    /// The compiler refused the source.
    #[error("{compiler} failed, {status}:\n{log}", compiler = compiler.display())]
    Failed {
        /// The compiler.
        compiler: OsString,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote.
        log: String,
    },
    /// A file could not be written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The language of a test program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C11. `miopen.h` is usable: what it lacks for C is put before it.
    C,
    /// C++17.
    Cpp,
}

/// A folder with a real MIOpen, and the stand-ins beside it.
#[derive(Debug, Clone)]
pub struct Sysroot {
    root: PathBuf,
    hip: PathBuf,
    compiler: PathBuf,
}

impl Sysroot {
    /// The folder that `HIPPLAN_MIOPEN_SYSROOT` names, or else `miopen-sysroot` in cargo's target folder, made by the script if it is not
    /// there yet; with the stand-ins for HIP and for a compiler. `None` where Debian's suite has no MIOpen.
    ///
    /// # Errors
    /// The folder cannot be made, or is not whole; there is no C++ compiler for the stand-ins.
    pub fn find_or_build() -> Result<Option<Self>, SysrootError> {
        let root = match env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
            Some(root) => PathBuf::from(root),
            None if env::var_os(NONE).is_some_and(|v| v == "1") => return Ok(None),
            None => {
                let root = target().join("miopen-sysroot");
                if !make(&root)? {
                    return Ok(None);
                }
                root
            }
        };
        let root = present(root)?;
        let runtimes = target().join("miopen-runtimes");
        let runtime = build::host_runtime(&runtimes, false)?;
        let mut hip = runtime.parent().unwrap_or(&runtimes).to_owned();
        // The runtime under the name that this MIOpen wants. What it has of HIP's interface is the same from ROCm 5 to 7.
        let needed_list = root.join("needed");
        let needed = fs::read_to_string(&needed_list).map_err(|source| SysrootError::Incomplete { path: needed_list, source })?;
        for name in needed.lines() {
            if hip.join(name).exists() {
                continue;
            }
            hip = hip.join(name.trim_start_matches("libamdhip64."));
            let done = fs::create_dir_all(&hip).and_then(|()| link(&runtime, &hip.join(name)));
            done.map_err(|source| SysrootError::Incomplete { path: hip.clone(), source })?;
        }
        let compiler = build::compiler_stand_in(&runtimes)?;
        let sysroot = Self { root, hip, compiler };
        for file in [sysroot.loader(), sysroot.miopen(), sysroot.driver_path(), sysroot.gtest_path(), sysroot.include()] {
            present(file)?;
        }
        Ok(Some(sysroot))
    }

    /// The sysroot for a test. `None`, with a message, where there is none to be had: the test then checks nothing. With `HIPPLAN_CI=1`, only
    /// a suite without MIOpen is such a case.
    ///
    /// # Panics
    /// With `HIPPLAN_CI=1`, if the sysroot cannot be made for any other reason.
    pub fn for_test() -> Option<&'static Self> {
        static SYSROOT: OnceLock<Option<Sysroot>> = OnceLock::new();
        let sysroot = SYSROOT.get_or_init(|| {
            Self::find_or_build().unwrap_or_else(|error| {
                assert!(env::var_os("HIPPLAN_CI").is_none_or(|v| v != "1"), "{error}");
                eprintln!("{error}");
                None
            })
        });
        if sysroot.is_none() {
            eprintln!("\n*** SKIPPED: no MIOpen to test with, see above ***\n");
        }
        sysroot.as_ref()
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Folder of the loader, of MIOpen and of what it needs, HIP apart.
    pub fn lib(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// Folder of `miopen/miopen.h` and `hip/hip_runtime_api.h`.
    pub fn include(&self) -> PathBuf {
        self.root.join("include")
    }

    /// Folder of the host HIP runtime, under the SONAME that MIOpen wants.
    pub fn hip(&self) -> &Path {
        &self.hip
    }

    /// The library to be preloaded that stands in for MIOpen's compiler.
    pub fn compiler(&self) -> &Path {
        &self.compiler
    }

    /// The stock library, by the name that programs ask for.
    pub fn miopen(&self) -> PathBuf {
        self.lib().join("libMIOpen.so.1")
    }

    /// MIOpen's driver. [`Sysroot::driver`] runs it.
    pub fn driver_path(&self) -> PathBuf {
        self.root.join("bin/MIOpenDriver")
    }

    /// MIOpen's tests. [`Sysroot::gtest`] runs them.
    pub fn gtest_path(&self) -> PathBuf {
        self.root.join("bin/miopen_gtest")
    }

    /// The loader of the sysroot's C library.
    pub fn loader(&self) -> PathBuf {
        self.lib().join("ld-linux-x86-64.so.2")
    }

    /// Versions of the packages that the folder was made of, a line each.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn packages(&self) -> io::Result<String> {
        fs::read_to_string(self.root.join("packages"))
    }

    /// A program to be run inside.
    pub fn command(&self, program: impl Into<PathBuf>) -> Program<'_> {
        Program::new(self, program.into())
    }

    /// Compiles a test program from text and links it with MIOpen and HIP: `folder/name`. Libraries are looked for in `libraries` first,
    /// so that a split MIOpen can be linked with. `options` are the compiler's, such as `-shared`.
    ///
    /// # Errors
    /// There is no compiler, it refuses the text, or a file cannot be written.
    pub fn compile(
        &self,
        folder: &Path,
        name: &str,
        language: Language,
        text: &str,
        libraries: &[&Path],
        options: &[&str],
    ) -> Result<PathBuf, CompileError> {
        let write = |path: &Path, text: &str| fs::write(path, text).map_err(|source| CompileError::Io { path: path.to_owned(), source });
        let (extension, compiler, standard) = match language {
            Language::C => ("c", env::var_os("CC").filter(|c| !c.is_empty()).unwrap_or_else(|| "cc".into()), "-std=gnu11"),
            Language::Cpp => ("cpp", build::cxx(), "-std=c++17"),
        };
        let source = folder.join(format!("{name}.{extension}"));
        write(&source, text)?;
        let out = folder.join(name);
        let mut command = Command::new(&compiler);
        command.args([standard, "-g", "-O1", "-Wall", "-D__HIP_PLATFORM_AMD__"]).arg("-isystem").arg(self.include());
        if language == Language::C {
            // The header uses this struct without its keyword.
            let prelude = folder.join(format!("{name}.prelude.h"));
            write(&prelude, "typedef struct miopenTensorArgument_t miopenTensorArgument_t;\n")?;
            command.arg("-include").arg(prelude);
        }
        command.arg(&source).arg("-o").arg(&out).args(options);
        let own = [self.hip.clone(), self.lib()];
        for library in libraries.iter().copied().chain(own.iter().map(PathBuf::as_path)) {
            command.arg("-L").arg(library);
        }
        // The libraries were linked with a newer C library than the compiler's.
        command.args(["-l:libMIOpen.so.1", "-Wl,--allow-shlib-undefined", "-pthread", "-ldl", "-lm"]).arg(self.hip_link_option());
        let output = command.output().map_err(|source| CompileError::Start { compiler: compiler.clone(), source })?;
        if output.status.success() {
            return Ok(out);
        }
        Err(CompileError::Failed { compiler, status: output.status, log: String::from_utf8_lossy(&output.stderr).into_owned() })
    }

    /// Compiles one of the crate's own programs, `programs/NAME.c`: `folder/name`.
    ///
    /// # Errors
    /// There is no such program, or as of [`compile`](Self::compile).
    pub fn program(&self, folder: &Path, name: &str) -> Result<PathBuf, CompileError> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        let source = sources.join(format!("{name}.c"));
        let text = fs::read_to_string(&source).map_err(|error| CompileError::Io { path: source, source: error })?;
        self.compile(folder, name, Language::C, &text, &[], &["-Wextra", &format!("-I{}", sources.display())])
    }

    fn hip_link_option(&self) -> OsString {
        let entries = fs::read_dir(&self.hip).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let name = entries.into_iter().find(|name| name.as_encoded_bytes().starts_with(b"libamdhip64.so."));
        let mut option = OsString::from("-l:");
        option.push(name.as_deref().unwrap_or(OsStr::new("libamdhip64.so.6")));
        option
    }
}

/// Cargo's target folder: what runs belongs there.
pub(crate) fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = env::var_os("CARGO_TARGET_DIR").filter(|v| !v.is_empty()).map_or_else(|| "target".into(), PathBuf::from);
    let folder = workspace.join(folder);
    folder.canonicalize().unwrap_or(folder)
}

/// Runs the script. False: the suite lacks MIOpen, as the script has said.
fn make(root: &Path) -> Result<bool, SysrootError> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/miopen-sysroot");
    let output = Command::new(&script).arg(root).output().map_err(|source| SysrootError::Start { script: script.clone(), source })?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => Ok(true),
        Some(SUITE_LACKS_IT) => {
            eprintln!("{log}");
            Ok(false)
        }
        _ => Err(SysrootError::Script { script, status: output.status, log }),
    }
}

fn present(path: PathBuf) -> Result<PathBuf, SysrootError> {
    path.canonicalize().map_err(|source| SysrootError::Incomplete { path: path.clone(), source })?;
    Ok(path)
}

/// A symbolic link, which may be there already.
fn link(to: &Path, at: &Path) -> io::Result<()> {
    match std::os::unix::fs::symlink(to, at) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}
