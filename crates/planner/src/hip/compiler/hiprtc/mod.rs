//! Kernels through ROCm's own run-time compiler, `hiprtc`, opened at run time and always in a child process.
//!
//! The child is a worker: a program whose `main` begins with [`serve_if_asked`], such as the `hipplan` command.

mod worker;

pub use worker::{serve_if_asked, set_worker};

use super::check::amd;
use super::child::Folder;
use super::error::Job;
use super::{KernelCompileError, KernelCompiler, KernelSource, accept, clang};
use hipplan_serialize::key::Digest;
use hipplan_serialize::{AmdTarget, Target};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names the library that [`Hiprtc::find`] takes.
pub const HIPRTC_VARIABLE: &str = "HIPPLAN_HIPRTC_LIBRARY";

const ADVICE: &str = "install ROCm's hiprtc, or name its library in HIPPLAN_HIPRTC_LIBRARY";

/// Flags beside target and code object version. All that decides the bytes is here.
const FLAGS: [&str; 6] = ["-O3", "-std=c++17", "-ffp-contract=off", "-nostdinc", "-fno-color-diagnostics", "-w"];

/// What tells one build of the library from another: its code for this text.
const PROBE: &str = "
struct Args { const float* x; float* y; };
extern \"C\" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(64, 64))) void probe(const Args a)
{
    const int i = (int)__builtin_amdgcn_workitem_id_x();
    a.y[i] = __builtin_fmaf(a.x[i], a.x[i + 64], 1.0f);
}
";

/// `hiprtc`, with the targets that it was found to compile for.
#[derive(Clone, Debug)]
pub struct Hiprtc {
    worker: PathBuf,
    library: PathBuf,
    /// Processors; nothing if the code object manager does not say.
    processors: Option<Vec<String>>,
    comgr: String,
    /// Version of the clang inside, if it leaves one in its code.
    clang: Option<(u32, String)>,
    probe: String,
    limit: Duration,
}

impl Hiprtc {
    /// Finds the library: what `HIPPLAN_HIPRTC_LIBRARY` names, otherwise `libhiprtc.so.7`, `.6`, `.5`, `.so`, ROCm's own in `/opt/rocm`, then
    /// the same of `libamdhip64`, which has it in older releases. The worker is this program, or
    /// the one that [`set_worker`] named: no other is ever started.
    ///
    /// # Errors
    /// There is none, with every name that was tried; or this program is no worker, because its `main` does not call [`serve_if_asked`].
    pub fn find() -> Result<Self, KernelCompileError> {
        let named = std::env::var_os(HIPRTC_VARIABLE).filter(|name| !name.is_empty());
        let library = named.as_deref().map(Path::new);
        if let Some(worker) = worker::other() {
            return Self::with_worker(worker, library);
        }
        let program = std::env::current_exe().map_err(|source| KernelCompileError::Start { program: "this program".into(), source })?;
        if !worker::serves() {
            let reason = "it is no worker for hiprtc: its main must begin with serve_if_asked()".to_owned();
            return Err(KernelCompileError::Unusable { path: program, reason });
        }
        Self::with_worker(&program, library)
    }

    /// Takes a library, or looks for one, with another program as the worker.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn with_worker(worker: &Path, library: Option<&Path>) -> Result<Self, KernelCompileError> {
        let shown = library.map_or_else(|| PathBuf::from("hiprtc"), Path::to_owned);
        // The child runs in another folder.
        let library = library
            .map(|l| if l.components().count() > 1 { std::path::absolute(l).unwrap_or_else(|_| l.to_owned()) } else { l.to_owned() });
        let worker = std::path::absolute(worker).unwrap_or_else(|_| worker.to_owned());
        let job = || Box::new(Job { compiler: shown.display().to_string(), kernel: "nothing".into(), target: "a description".into() });
        let library = library.as_deref().map_or(OsStr::new(""), Path::as_os_str);
        let args = [OsStr::new(worker::MARK), OsStr::new("describe"), library, OsStr::new(Folder::OUTPUT)];
        let folder = Folder::new()?;
        let ended = folder.run(&worker, args, b"", Duration::from_secs(60), job)?;
        match ended.success(job) {
            Err(KernelCompileError::Refused { code: worker::NO_LIBRARY, message, .. }) if library.is_empty() => {
                return Err(KernelCompileError::Missing { wanted: "hiprtc", tried: vec![message], advice: ADVICE });
            }
            Err(KernelCompileError::Refused { code: worker::NO_LIBRARY, message, .. }) => {
                return Err(KernelCompileError::Unusable { path: shown, reason: format!("{message}; {ADVICE}") });
            }
            other => other?,
        }
        // A program that is no worker may succeed at whatever it does.
        let answer = match folder.output(job) {
            Err(KernelCompileError::NoOutput { .. }) => Vec::new(),
            other => other?,
        };
        let answer = String::from_utf8_lossy(&answer);
        if answer.lines().next() != Some(worker::GREETING) {
            let reason = "it is no worker for hiprtc of this version: its main must begin with serve_if_asked()".to_owned();
            return Err(KernelCompileError::Unusable { path: worker, reason });
        }
        let field = |name: &str| answer.lines().find_map(|l| l.strip_prefix(name)).map(str::to_owned);
        let isas = answer.lines().filter_map(|l| l.strip_prefix("isa ")).filter_map(|isa| isa.parse().ok());
        let isas = isas.filter_map(|target| if let Target::Amd(target) = target { Some(target.processor().to_owned()) } else { None });
        let mut found = Self {
            worker,
            library: field("library ").map(PathBuf::from).unwrap_or_default(),
            processors: field("comgr ").map(|_| isas.collect()),
            comgr: field("comgr ").unwrap_or_else(|| "unknown".to_owned()),
            clang: None,
            probe: String::new(),
            limit: clang::Clang::LIMIT,
        };
        found.probe()?;
        Ok(found)
    }

    /// Compiles the probe, for what can be learned from its code.
    fn probe(&mut self) -> Result<(), KernelCompileError> {
        let known = self.processors.as_deref().unwrap_or_default();
        let usual = ["gfx90a", "gfx1030", "gfx942", "gfx1100", "gfx1201"].into_iter().find(|p| known.iter().any(|k| k == p));
        let processor = usual.unwrap_or("gfx90a");
        let job = || Box::new(Job { compiler: "hiprtc".into(), kernel: "a probe".into(), target: processor.into() });
        let target = processor.parse().ok().and_then(|t| if let Target::Amd(t) = t { Some(t) } else { None });
        let Some(target) = target else { return Ok(()) };
        let object = self.run(PROBE.as_bytes(), &target, job)?;
        self.clang = newest_clang(&object);
        self.probe = Digest::of(&object).hash.to_string();
        Ok(())
    }

    /// The same with another longest time for a compile.
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The library, as it was opened.
    pub fn library(&self) -> &Path {
        &self.library
    }

    fn run(&self, text: &[u8], target: &AmdTarget, job: impl Fn() -> Box<Job>) -> Result<Vec<u8>, KernelCompileError> {
        let folder = Folder::new()?;
        let chosen = [format!("--offload-arch={target}"), format!("-mcode-object-version={}", clang::code_object_version(target))];
        let args = [OsStr::new(worker::MARK), OsStr::new("compile"), self.library.as_os_str(), OsStr::new(Folder::OUTPUT)];
        let options = FLAGS.into_iter().chain(chosen.iter().map(String::as_str)).map(OsStr::new);
        folder.run(&self.worker, args.into_iter().chain(options), text, self.limit, &job)?.success(&job)?;
        folder.output(&job)
    }

    fn refusal(&self, target: &Target) -> Option<String> {
        let target = match amd(target) {
            Ok(target) => target,
            Err(reason) => return Some(reason),
        };
        if let Some(known) = &self.processors
            && !known.iter().any(|k| k == target.processor())
        {
            return Some(format!("it does not know {}: use a later ROCm, or clang", target.processor()));
        }
        let old = self.clang.as_ref().filter(|(major, _)| *major < clang::OLDEST_CLANG && !is_old_family(target.processor()));
        if let Some((_, version)) = old {
            let oldest = clang::OLDEST_CLANG;
            return Some(format!(
                "the clang in it is {version}, and {oldest} is the oldest whose code for gfx11 is right: use a later ROCm, or clang"
            ));
        }
        (!target.is_known()).then(|| format!("hipplan does not know {}", target.processor()))
    }
}

/// Processors before gfx11, for which older compilers make right code too.
fn is_old_family(processor: &str) -> bool {
    processor.starts_with("gfx9") || processor.starts_with("gfx10")
}

/// The newest clang that left its name in an object: the libraries linked in may be of older ones.
fn newest_clang(object: &[u8]) -> Option<(u32, String)> {
    const NAME: &[u8] = b"clang version ";
    let places = object.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    let versions = places.filter_map(|(at, _)| -> Option<(u32, String)> {
        let rest = object.get(at + NAME.len()..)?;
        let end = rest.iter().position(|b| !(b.is_ascii_digit() || *b == b'.'))?;
        let version = String::from_utf8_lossy(rest.get(..end)?).into_owned();
        Some((version.split('.').next()?.parse().ok()?, version))
    });
    versions.max_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(&b.1)))
}

impl KernelCompiler for Hiprtc {
    fn identity(&self) -> String {
        let clang = self.clang.as_ref().map_or("unknown", |(_, version)| version);
        format!("hiprtc (clang {clang}, comgr {})", self.comgr)
    }

    fn revision(&self) -> String {
        format!("{}; probe {}; {} -mcode-object-version=5, generic 6", self.identity(), self.probe, FLAGS.join(" "))
    }

    fn supports(&self, target: &Target) -> Result<(), String> {
        self.refusal(target).map_or(Ok(()), Err)
    }

    fn compile(&self, source: &KernelSource, target: &Target) -> Result<Vec<u8>, KernelCompileError> {
        let job = || Box::new(Job { compiler: self.identity(), kernel: source.name.clone(), target: target.to_string() });
        let refuse = |reason| KernelCompileError::Target { compiler: self.identity(), target: target.to_string(), reason };
        self.supports(target).map_err(refuse)?;
        let amd = amd(target).map_err(refuse)?;
        let object = self.run(source.text.as_bytes(), amd, job)?;
        accept(&object, source, amd, job)?;
        Ok(object)
    }
}
