//! Kernels compiled as C++ for the host runtime.

use crate::build::{HOST_KERNEL_HEAD, SANITIZE, cxx};
use hipplan_planner::hip::compiler::{KernelCompileError, KernelCompiler, KernelSource};
use hipplan_serialize::{Target, TestTarget};
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of every kernel. Contraction is off, as on every other compiler: a fused multiply-add stands in the text where it is meant.
const FLAGS: [&str; 14] = [
    "-x",
    "c++",
    "-std=c++17",
    "-O2",
    "-shared",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-ident",
    "-DHP_HOST",
    "-Wl,-Bsymbolic",
    "-Wl,--build-id=none",
];

/// g++, compiling kernels into libraries that the host runtime loads as modules. Its target is `host`.
#[derive(Debug)]
pub struct HostCompiler {
    program: OsString,
    identity: String,
    flags: Vec<&'static str>,
    cache: Option<PathBuf>,
}

impl HostCompiler {
    /// The compiler of this machine. Kernels find errors of memory and undefined behaviour if `sanitize` is set; they then run only in a
    /// process that has [`crate::build::asan_library`] preloaded.
    ///
    /// # Errors
    /// There is no compiler.
    pub fn new(sanitize: bool) -> Result<Self, String> {
        let program = cxx();
        let output = Command::new(&program).arg("--version").output().map_err(|e| format!("{}: {e}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let identity = text.lines().next().unwrap_or_default().to_owned();
        if !output.status.success() || identity.is_empty() {
            return Err(format!("{} --version: {}", program.display(), output.status));
        }
        let mut flags = FLAGS.to_vec();
        // Otherwise each FMA is a call into the maths library.
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx2") {
            flags.extend(["-mavx2", "-mfma"]);
        }
        if sanitize {
            flags.extend(SANITIZE);
        }
        Ok(Self { program, identity, flags, cache: None })
    }

    /// Keeps what it compiles in a folder, and takes it from there.
    #[must_use]
    pub fn with_cache(mut self, folder: &Path) -> Self {
        self.cache = Some(folder.to_owned());
        self
    }

    /// Compiles the twin of a kernel into a folder, as `NAME.so`: what the host runtime runs where it answers as an AMD device and is
    /// asked for a kernel of that name.
    ///
    /// # Errors
    /// As of [`KernelCompiler::compile`]; or the file cannot be written.
    pub fn compile_twin(&self, source: &KernelSource, folder: &Path) -> Result<PathBuf, KernelCompileError> {
        let path = folder.join(format!("{}.so", source.name));
        let image = self.build(source)?;
        publish(&path, &image).map_err(|e| self.failed(source, format!("{}: {e}", path.display())))?;
        Ok(path)
    }

    fn build(&self, source: &KernelSource) -> Result<Vec<u8>, KernelCompileError> {
        let KernelSource { name, text, kernarg_size, block } = source;
        let promise = format!("{name}_kernarg == {kernarg_size} && {name}_block == {block}");
        let text = format!("{HOST_KERNEL_HEAD}\n#line 1 \"{name}\"\n{text}\nstatic_assert({promise}, \"not what the source promises\");\n");
        let kept = self.cache.as_ref().map(|folder| {
            let key = blake3::Hasher::new().update(self.revision().as_bytes()).update(&[0]).update(text.as_bytes()).finalize();
            folder.join(format!("{}.so", key.to_hex()))
        });
        if let Some(image) = kept.as_ref().and_then(|path| fs::read(path).ok()) {
            return Ok(image);
        }
        let image = self.run(&text).map_err(|log| self.failed(source, log))?;
        if let Some(path) = kept {
            publish(&path, &image).map_err(|e| self.failed(source, format!("{}: {e}", path.display())))?;
        }
        Ok(image)
    }

    fn run(&self, text: &str) -> Result<Vec<u8>, String> {
        let work = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
        let out = work.path().join("kernel.so");
        let mut child = Command::new(&self.program)
            .args(&self.flags)
            .arg("-o")
            .arg(&out)
            .arg("-")
            .current_dir(work.path())
            .env_remove("HOME")
            // What a program under test was started with is not for its compiler.
            .env_remove("LD_PRELOAD")
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        // The compiler reads all of its input before it writes much. Where it ends early, its status and log say why.
        let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(text.as_bytes()));
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        if !output.status.success() || written.is_err() {
            return Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
        fs::read(&out).map_err(|e| format!("{}: {e}", out.display()))
    }

    fn failed(&self, source: &KernelSource, log: String) -> KernelCompileError {
        KernelCompileError::Failed { compiler: self.identity(), kernel: source.name.clone(), log }
    }
}

/// Writes a file whole or not at all.
fn publish(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

impl KernelCompiler for HostCompiler {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn revision(&self) -> String {
        let head = blake3::hash(HOST_KERNEL_HEAD.as_bytes()).to_hex();
        format!("{} {} {}", self.identity, self.flags.join(" "), head.get(..16).unwrap_or_default())
    }

    fn supports(&self, target: &Target) -> Result<(), String> {
        match target {
            Target::Test(TestTarget::Host) => Ok(()),
            _ => Err("it compiles for `host`, the project's test runtime".to_owned()),
        }
    }

    fn compile(&self, source: &KernelSource, target: &Target) -> Result<Vec<u8>, KernelCompileError> {
        self.supports(target).map_err(|reason| KernelCompileError::Target {
            compiler: self.identity(),
            target: target.to_string(),
            reason,
        })?;
        self.build(source)
    }
}
