//! One program, run inside the sysroot.

use crate::sysroot::Sysroot;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::{env, fs, io};
use tempfile::TempDir;

/// The device that a program finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// None: `hipGetDevice` returns 100.
    None,
    /// A simulated gfx942 with 304 compute units. Modules are AMD code objects, and kernels run as their twins or are MIOpen's naive ones.
    Gfx942,
    /// Simulated devices of another arch name, `host` among them: as many as are told.
    Arch(String, u32),
}

/// What becomes of MIOpen's naive convolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NaiveKernels {
    /// They compute.
    Run,
    /// Their launches do nothing: results are wrong, which a check of results must see.
    Skip,
    /// They are not found: what needs them fails.
    Missing,
}

impl NaiveKernels {
    fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Skip => "skip",
            Self::Missing => "missing",
        }
    }
}

/// A program that did not run.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started.
    #[error("{program}: {source}", program = program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder or file for it could not be made or read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It ran and left nothing that could be read as its result.
    #[error("{program} left no result, {status}:\n{log}", program = program.display())]
    NoResult {
        /// The program.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote to stderr last.
        log: String,
    },
}

/// What the host HIP runtime counted in a process: calls by function, and events. See `hipplan-hip-testing`'s `settings.cpp`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// Calls of a function, or events of a name.
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Modules that were loaded.
    pub fn module_loads(&self) -> u64 {
        self.of("module")
    }

    /// Times that MIOpen ran its compiler.
    pub fn compiler_runs(&self) -> u64 {
        self.of("compiler")
    }

    /// Kernels that ran, by name, with their numbers of launches.
    pub fn kernels(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().filter_map(|(name, count)| Some((name.strip_prefix("kernel ")?, *count)))
    }

    /// Reads the file that the runtime writes.
    fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        Self(lines.filter_map(|(count, name)| Some((name.to_owned(), count.parse().ok()?))).collect())
    }
}

/// What a program left.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output; bytes that are no UTF-8 are replaced.
    pub stdout: String,
    /// Its standard error; as above.
    pub stderr: String,
    /// What the HIP runtime counted; nothing where the process ended without destructors.
    pub counts: Counts,
}

/// A program to be run by the sysroot's own loader, with no variable of MIOpen's or of this project inherited. Unless something else is
/// said: with the simulated gfx942, with naive kernels that compute, and with an empty home folder.
#[derive(Debug, Clone)]
pub struct Program<'a> {
    sysroot: &'a Sysroot,
    program: PathBuf,
    arguments: Vec<OsString>,
    libraries: Vec<PathBuf>,
    preload: Vec<PathBuf>,
    wrapper: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    device: Device,
    naive: NaiveKernels,
    home: Option<PathBuf>,
    folder: Option<PathBuf>,
}

impl<'a> Program<'a> {
    pub(crate) fn new(sysroot: &'a Sysroot, program: PathBuf) -> Self {
        Self {
            sysroot,
            program,
            arguments: Vec::new(),
            libraries: Vec::new(),
            preload: vec![sysroot.compiler().to_owned()],
            wrapper: Vec::new(),
            variables: Vec::new(),
            device: Device::Gfx942,
            naive: NaiveKernels::Run,
            home: None,
            folder: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Adds a folder in front of the sysroot's libraries, behind those that were added before.
    #[must_use]
    pub fn libraries(mut self, folder: impl Into<PathBuf>) -> Self {
        self.libraries.push(folder.into());
        self
    }

    /// Preloads a library.
    #[must_use]
    pub fn preload(mut self, library: impl Into<PathBuf>) -> Self {
        self.preload.push(library.into());
        self
    }

    /// Runs another program with the loader and its arguments behind its own, such as `valgrind --tool=callgrind`.
    #[must_use]
    pub fn wrapped_in<S: AsRef<OsStr>>(mut self, command: impl IntoIterator<Item = S>) -> Self {
        self.wrapper = command.into_iter().map(|a| a.as_ref().to_owned()).collect();
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the device.
    #[must_use]
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// Sets what becomes of MIOpen's naive convolutions.
    #[must_use]
    pub fn naive(mut self, naive: NaiveKernels) -> Self {
        self.naive = naive;
        self
    }

    /// Sets the folder of the kernels' twins, `NAME.so` each, that AMD code objects run as.
    #[must_use]
    pub fn twins(self, folder: impl AsRef<Path>) -> Self {
        self.env("HIPPLAN_HOST_HIP_TWINS", folder.as_ref())
    }

    /// Lets every run of MIOpen's compiler fail.
    #[must_use]
    pub fn compiler_fails(self) -> Self {
        self.env("HIPPLAN_HOST_COMPILER", "fail")
    }

    /// Sets the home folder, with MIOpen's user databases and kernel cache; it stays.
    #[must_use]
    pub fn home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.home = Some(folder.into());
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// The command line, with `scratch` for temporary files, and for the home folder where none was set. For tests that start a process
    /// themselves.
    pub fn command(&self, scratch: &Path) -> Command {
        let sysroot = self.sysroot;
        let own = [sysroot.hip().to_owned(), sysroot.lib()];
        let joined = |paths: &mut dyn Iterator<Item = &PathBuf>| {
            let parts: Vec<&OsStr> = paths.map(|p| p.as_os_str()).collect();
            parts.join(OsStr::new(":"))
        };
        let line: Vec<OsString> = self.wrapper.iter().cloned().chain([sysroot.loader().into_os_string()]).collect();
        let mut words = line.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).arg("--preload").arg(joined(&mut self.preload.iter()));
        command.arg("--library-path").arg(joined(&mut self.libraries.iter().chain(&own)));
        command.arg(&self.program).args(&self.arguments);
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if ["MIOPEN_", "HIPPLAN_", "LD_", "HIP_", "ROC", "GTEST_", "CARGO", "RUST"].iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        let (arch, devices) = match &self.device {
            Device::None => ("gfx942:sramecc+:xnack-", 0),
            Device::Gfx942 => ("gfx942:sramecc+:xnack-", 1),
            Device::Arch(name, count) => (name.as_str(), *count),
        };
        command
            .env("LC_ALL", "C")
            .env("HOME", self.home.as_deref().unwrap_or(scratch))
            .env("TMPDIR", scratch)
            .env("HIPPLAN_HOST_HIP_ARCH", arch)
            .env("HIPPLAN_HOST_HIP_DEVICES", devices.to_string())
            .env("HIPPLAN_HOST_HIP_NAIVE", self.naive.name())
            .env("HIPPLAN_HOST_HIP_COUNTS", scratch.join("counts"))
            // A reference on the simulated GPU would be the same kernel again.
            .env("MIOPEN_DRIVER_USE_GPU_REFERENCE", "0");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Runs it to its end. An exit status other than 0 is no error here.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(&self) -> Result<Output, ProgramError> {
        let scratch = scratch()?;
        self.run_in(scratch.path())
    }

    pub(crate) fn run_in(&self, scratch: &Path) -> Result<Output, ProgramError> {
        let output = self.command(scratch).output();
        let output = output.map_err(|source| ProgramError::Start { program: self.program.clone(), source })?;
        let counts = fs::read_to_string(scratch.join("counts")).map(|text| Counts::parse(&text)).unwrap_or_default();
        Ok(Output {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            counts,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.program
    }
}

pub(crate) fn scratch() -> Result<TempDir, ProgramError> {
    tempfile::tempdir().map_err(|source| ProgramError::Io { path: env::temp_dir(), source })
}
