//! Kernels through `clang`, as a child process, with nothing but its own back end: no ROCm, no headers, no device libraries.

use super::check::amd;
use super::child::Folder;
use super::error::Job;
use super::{KernelCompileError, KernelCompiler, KernelSource, accept};
use hipplan_serialize::{AmdTarget, Target};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names the compiler that [`Clang::find`] takes: a path, or a name on `PATH`.
pub const CLANG_VARIABLE: &str = "HIPPLAN_CLANG";

/// The oldest version whose code is trusted. Version 16 makes wrong code for gfx11: a condition kept in a scalar register across a loop is
/// overwritten inside it.
pub const OLDEST_CLANG: u32 = 19;
/// The oldest version for which code object version 6, and with it code for generic processors, is more than an experiment.
const OLDEST_GENERIC: u32 = 20;

/// Newest first, then names that say nothing, then where ROCm is.
const CANDIDATES: [&str; 8] = ["clang-23", "clang-22", "clang-21", "clang-20", "clang-19", "clang", "amdclang", "/opt/rocm/llvm/bin/clang"];

/// Characters of the first line of `--version` that are looked at; what says more is no clang.
const LONGEST_BANNER: usize = 256;

const WANTED: &str = "clang 19 or later with lld";
const ADVICE: &str = "install clang-19 and lld-19, or name another clang in HIPPLAN_CLANG";

/// Flags beside target and code object version. All that decides the bytes is here.
const FLAGS: [&str; 15] = [
    // A configuration file of the machine's would change the result.
    "--no-default-config",
    "-x",
    "hip",
    // One bare ELF file of device code.
    "--cuda-device-only",
    "--no-gpu-bundle-output",
    // The text brings all that it needs.
    "-nogpuinc",
    "-nogpulib",
    "-nostdinc",
    "-O3",
    "-std=c++17",
    // FMA where it is written, or compilers differ.
    "-ffp-contract=off",
    // Otherwise a hash of the path lands in a symbol.
    "-fuse-cuid=none",
    // No copies of the text beside a crash.
    "-fno-crash-diagnostics",
    "-fno-color-diagnostics",
    "-w",
];

/// Version of a clang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A `clang` of version 19 or later that compiles for AMD GPUs and has an `lld` to link with.
#[derive(Clone, Debug)]
pub struct Clang {
    program: PathBuf,
    version: Version,
    /// First line of `--version`: tells builds of one version apart.
    banner: String,
    linker: String,
    processors: BTreeSet<String>,
    limit: Duration,
}

impl Clang {
    /// Longest time that a compile may take, unless [`with_limit`](Self::with_limit) says otherwise.
    pub const LIMIT: Duration = Duration::from_secs(120);

    /// Finds a compiler: what `HIPPLAN_CLANG` names, otherwise the first of `clang-23` to `clang-19`, `clang`, `amdclang` on `PATH` and
    /// ROCm's own in `/opt/rocm` that can be used.
    ///
    /// # Errors
    /// There is none, with every candidate and why it will not do; or the one that the variable names cannot be used.
    pub fn find() -> Result<Self, KernelCompileError> {
        match std::env::var_os(CLANG_VARIABLE) {
            Some(named) if !named.is_empty() => Self::at(Path::new(&named)),
            _ => Self::among(&CANDIDATES),
        }
    }

    /// Takes the compiler at a path, or of a name on `PATH`.
    ///
    /// # Errors
    /// There is none, it is too old, its version cannot be told, it does not compile for AMD GPUs, or it has no linker.
    pub fn at(program: &Path) -> Result<Self, KernelCompileError> {
        let unusable = |reason: String| KernelCompileError::Unusable { path: program.to_owned(), reason };
        let missing = || match program {
            folder if folder.is_dir() => format!("it is a folder, not a program; {ADVICE}"),
            _ => format!("there is no such program; {ADVICE}"),
        };
        let found = on_path(program).ok_or_else(|| unusable(missing()))?;
        Self::probe(&found).map_err(unusable)
    }

    fn among(candidates: &[&str]) -> Result<Self, KernelCompileError> {
        let mut tried = Vec::new();
        for name in candidates {
            let Some(program) = on_path(Path::new(name)) else {
                tried.push(format!("{name}: not there"));
                continue;
            };
            match Self::probe(&program) {
                Ok(clang) => return Ok(clang),
                Err(reason) => tried.push(format!("{}: {reason}", program.display())),
            }
        }
        Err(KernelCompileError::Missing { wanted: WANTED, tried, advice: ADVICE })
    }

    /// Asks a program what it is.
    fn probe(program: &Path) -> Result<Self, String> {
        let limit = Duration::from_secs(60);
        let ask = |program: &Path, args: &[&str]| -> Result<String, String> {
            let job = || Box::new(Job { compiler: program.display().to_string(), kernel: "nothing".into(), target: args.join(" ") });
            let asked = Folder::new().and_then(|folder| {
                let ended = folder.run(program, args, b"", limit, job)?;
                let said = folder.said()?;
                ended.success(job).map(|()| said)
            });
            asked.map_err(|e| match e {
                KernelCompileError::Refused { code, message, .. } => format!("{} ended with {code}: {message}", args.join(" ")),
                KernelCompileError::Crashed { how, .. } => format!("{} crashed ({how})", args.join(" ")),
                KernelCompileError::TimedOut { .. } => format!("{} did not end within {} s", args.join(" "), limit.as_secs()),
                other => other.to_string(),
            })
        };
        let banner = ask(program, &["--version"])?;
        let banner: String = banner.lines().next().unwrap_or_default().trim().chars().take(LONGEST_BANNER).collect();
        let version = version_of(&banner)?;
        if version.major < OLDEST_CLANG {
            return Err(format!(
                "version {version} is too old: {OLDEST_CLANG} is the oldest whose code for gfx11 is right (16 overwrites loop conditions)"
            ));
        }
        let listed = ask(program, &["--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"])
            .map_err(|e| format!("it does not compile for AMD GPUs: {e}"))?;
        let processors: BTreeSet<_> =
            listed.lines().filter_map(|l| l.strip_prefix('\t')).filter(|l| l.starts_with("gfx")).map(|l| l.trim().to_owned()).collect();
        if processors.is_empty() {
            return Err("it does not compile for AMD GPUs: it lists no gfx processor".into());
        }
        // The driver looks beside itself first, then on PATH.
        let linker = ask(program, &["--target=amdgcn-amd-amdhsa", "-nogpulib", "-print-prog-name=lld"])?;
        let linker = PathBuf::from(linker.trim());
        if !linker.is_absolute() {
            return Err(format!("it finds no lld to link with: install lld-{} beside it", version.major));
        }
        // `lld` takes its flavour from its name or its first argument.
        let linker = ask(&linker, &["-flavor", "gnu", "--version"]).map_err(|e| format!("its linker {} fails: {e}", linker.display()))?;
        let linker = linker.lines().next().unwrap_or_default().trim().to_owned();
        Ok(Self { program: program.to_owned(), version, banner, linker, processors, limit: Self::LIMIT })
    }

    /// The same with another longest time for a compile.
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Processors that it compiles for, generic ones among them.
    pub fn processors(&self) -> impl Iterator<Item = &str> {
        self.processors.iter().map(String::as_str).filter(|p| !p.ends_with("-generic") || self.version.major >= OLDEST_GENERIC)
    }

    fn refusal(&self, target: &Target) -> Option<String> {
        let target = match amd(target) {
            Ok(target) => target,
            Err(reason) => return Some(reason),
        };
        if target.is_generic() && self.version.major < OLDEST_GENERIC {
            return Some(format!(
                "generic processors need code object version 6, which is an experiment before clang {OLDEST_GENERIC}: use a later clang"
            ));
        }
        if !self.processors.contains(target.processor()) {
            return Some(format!("it does not know {}: use a later clang (gfx950 needs 20, gfx1250 22)", target.processor()));
        }
        (!target.is_known()).then(|| format!("hipplan does not know {}", target.processor()))
    }
}

/// Code object version that is asked for: 5 loads from ROCm 5 on; generic processors have none before 6.
pub(super) fn code_object_version(target: &AmdTarget) -> u32 {
    if target.is_generic() { 6 } else { 5 }
}

/// The version in the first line of `--version`.
fn version_of(banner: &str) -> Result<Version, String> {
    let unknown = || format!("its version cannot be told from {banner:?}: expected `clang version N.N.N`");
    if banner.starts_with("Apple") {
        return Err(format!("{banner:?} numbers its versions in its own way and does not compile for AMD GPUs"));
    }
    let (_, rest) = banner.split_once("clang version ").ok_or_else(unknown)?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match [numbers.next(), numbers.next(), numbers.next()] {
        [Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))] => Ok(Version { major, minor, patch }),
        _ => Err(unknown()),
    }
}

/// A path with a folder in it as it stands, made absolute; a bare name as `PATH` has it.
fn on_path(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return std::path::absolute(program).ok().filter(|p| p.is_file());
    }
    let path = std::env::var_os("PATH")?;
    // The child runs in another folder: relative entries are made absolute here.
    let entries = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    entries.filter_map(|folder| std::path::absolute(folder.join(program)).ok()).find(|file| file.is_file())
}

impl KernelCompiler for Clang {
    fn identity(&self) -> String {
        format!("clang {}", self.version)
    }

    fn revision(&self) -> String {
        format!("{}; {}; {} -mcode-object-version=5, generic 6", self.banner, self.linker, FLAGS.join(" "))
    }

    fn supports(&self, target: &Target) -> Result<(), String> {
        self.refusal(target).map_or(Ok(()), Err)
    }

    fn compile(&self, source: &KernelSource, target: &Target) -> Result<Vec<u8>, KernelCompileError> {
        let job = || Box::new(Job { compiler: self.identity(), kernel: source.name.clone(), target: target.to_string() });
        let refuse = |reason| KernelCompileError::Target { compiler: self.identity(), target: target.to_string(), reason };
        self.supports(target).map_err(refuse)?;
        let amd = amd(target).map_err(refuse)?;
        let folder = Folder::new()?;
        let chosen = [format!("--offload-arch={amd}"), format!("-mcode-object-version={}", code_object_version(amd))];
        let args = FLAGS.into_iter().chain(chosen.iter().map(String::as_str)).chain(["-", "-o", Folder::OUTPUT]);
        folder.run(&self.program, args, source.text.as_bytes(), self.limit, job)?.success(job)?;
        let object = folder.output(job)?;
        accept(&object, source, amd, job)?;
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_or_refused() {
        for (banner, expected) in [
            ("Debian clang version 19.1.7 (3~deb12u1)", "19.1.7"),
            ("clang version 22.1.8 (https://github.com/llvm/llvm-project abc)", "22.1.8"),
            ("Ubuntu clang version 14.0.0-1ubuntu1.1", "14.0.0"),
            ("AMD clang version 19.0.0git (https://github.com/RadeonOpenCompute/llvm-project roc-6.4.1 25184)", "19.0.0"),
        ] {
            assert_eq!(version_of(banner).map(|v| v.to_string()), Ok(expected.to_owned()), "{banner}");
        }
        for (banner, reason) in [
            ("Apple clang version 17.0.0 (clang-1700.0.13.5)", "in its own way"),
            ("gcc (Debian 12.2.0-14) 12.2.0", "cannot be told"),
            ("clang version next", "cannot be told"),
            ("clang version 19", "cannot be told"),
            ("clang version 99999999999.0.0", "cannot be told"),
            ("", "cannot be told"),
        ] {
            assert!(version_of(banner).is_err_and(|e| e.contains(reason)), "{banner}");
        }
    }
}
