//! Compiles the C programs, once for every set of switches.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::{env, fs, io};

/// A program that was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A switch that the sources do not know.
    #[error("switch {found:?}: expected one of programs/variant.h, or the name of a function of the ABI to leave out")]
    Switch {
        /// The switch.
        found: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The compiler could not be started.
    #[error("{compiler} did not start: {source}; install a C11 compiler, or name one in CC")]
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
        status: ExitStatus,
        /// What it wrote.
        log: String,
    },
}

/// A source file: its name and its text.
type Source = (&'static str, &'static str);

macro_rules! sources {
    ($($path:literal),* $(,)?) => { [$(($path, include_str!(concat!("../programs/", $path)))),*] };
}

/// Sources that no switch changes.
const COMMON: [Source; 6] = sources!["element.c", "flat.c", "graph.c", "interpreter.c", "pointwise.c", "shapes.c"];
const VARIANT: [Source; 5] = sources!["execute.c", "payload.c", "plugin.c", "record.c", "settings.c"];
const HOST: [Source; 2] = sources!["flat.c", "host.c"];
const HEADERS: [Source; 10] = sources![
    "context.h",
    "flat.h",
    "graph.h",
    "hipdnn_engine_plugin.h",
    "interpreter.h",
    "pointwise.h",
    "record.h",
    "settings.h",
    "shapes.h",
    "variant.h",
];

const STRICT: [&str; 7] = ["-std=gnu11", "-O1", "-g1", "-fPIC", "-Wall", "-Wextra", "-Werror"];

/// The test plugins.
///
/// Compiled programs stay in a folder beside the test's own program, under a hash of all that goes into them, so that each is compiled
/// once. The compiler is `CC`, or `cc`; `HIPPLAN_PLUGIN_CFLAGS` adds options to it, separated by blanks.
#[derive(Clone, Copy, Debug)]
pub struct Plugins;

impl Plugins {
    /// Compiles a variant of the test plugin and returns its path. A switch is `NAME` or `NAME=VALUE` for one in `programs/variant.h`,
    /// or `FUNCTION=omitted` to leave out a function of the ABI.
    ///
    /// Plugins of other names are other files: each has its own counters in a process.
    ///
    /// # Errors
    /// A switch that does not exist, no compiler, or no place to write to.
    pub fn build(name: &str, switches: &[&str]) -> Result<PathBuf, CompileError> {
        if let Some(found) = switches.iter().find(|s| !is_known(s)) {
            return Err(CompileError::Switch { found: (*found).to_owned() });
        }
        let definitions: Vec<String> = switches.iter().map(|s| format!("-D{s}")).collect();
        let common = build("common", "common.o", &COMMON, &["-fvisibility=hidden", "-r", "-nostdlib"], &[])?;
        let mut options: Vec<&OsStr> = definitions.iter().map(OsStr::new).collect();
        options.extend(["-fvisibility=hidden", "-shared", "-pthread"].map(OsStr::new));
        options.push(common.as_os_str());
        build("plugin", &format!("{name}.so"), &VARIANT, &options, &["-lm"])
    }

    /// Compiles the host program, `programs/host.c`, and returns its path.
    ///
    /// # Errors
    /// As of [`build`](Self::build).
    pub fn host_program() -> Result<PathBuf, CompileError> {
        build::<&str>("host", "host", &HOST, &[], &["-ldl", "-pthread"])
    }
}

/// Whether a switch has the name of one that a source asks for, or of a function of the ABI that a source defines.
fn is_known(switch: &str) -> bool {
    let name = switch.split('=').next().unwrap_or(switch);
    let lines = || VARIANT.iter().chain(HEADERS.iter().filter(|(file, _)| *file == "variant.h")).flat_map(|(_, text)| text.lines());
    // The headers' own guards end so too.
    let mut asked_for = lines().filter_map(|l| l.strip_prefix("#ifndef ").or(l.strip_prefix("#ifdef "))).filter(|l| !l.ends_with("_H"));
    let mut defined = lines().filter(|l| l.starts_with("hipdnnPluginStatus_t ") || l.starts_with("void "));
    let is_defined = |line: &str| line.split_once('(').and_then(|(head, _)| head.rsplit(' ').next()) == Some(name);
    asked_for.any(|switch| switch == name) || (name.starts_with("hipdnn") && defined.any(is_defined))
}

fn compiler() -> OsString {
    env::var_os("CC").filter(|c| !c.is_empty()).unwrap_or_else(|| "cc".into())
}

/// Where compiled programs stay: beside the folder of the test's program.
fn home() -> Result<PathBuf, CompileError> {
    let program = env::current_exe().map_err(|source| CompileError::Io { path: "the running program".into(), source })?;
    let folder = program.parent().and_then(Path::parent).map_or_else(env::temp_dir, Path::to_path_buf);
    Ok(folder.join("engine-testing"))
}

/// Compiles sources into `HOME/KIND-HASH/FILE`, unless it is there.
fn build<S: AsRef<OsStr>>(kind: &str, file: &str, sources: &[Source], options: &[S], libraries: &[&str]) -> Result<PathBuf, CompileError> {
    let compiler = compiler();
    let extra = env::var("HIPPLAN_PLUGIN_CFLAGS").unwrap_or_default();
    let mut hash = blake3::Hasher::new();
    for (path, text) in sources.iter().chain(&HEADERS) {
        hash.update(path.as_bytes()).update(&[0]).update(text.as_bytes()).update(&[0]);
    }
    for part in options.iter().map(AsRef::as_ref).chain(STRICT.map(OsStr::new)).chain([compiler.as_os_str(), OsStr::new(&extra)]) {
        hash.update(part.as_encoded_bytes()).update(&[0]);
    }
    let hash = hash.finalize().to_hex();
    let home = home()?.join(format!("{kind}-{}", hash.get(..16).unwrap_or_default()));
    let built = home.join(file);
    if built.exists() {
        return Ok(built);
    }
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| CompileError::Io { path, source }
    };
    fs::create_dir_all(&home).map_err(io(&home))?;
    // Tests of one program ask at the same time: one builds, the others wait.
    let lock = home.join("lock");
    let _lock = fs::File::create(&lock).and_then(|file| file.lock().map(|()| file)).map_err(io(&lock))?;
    if built.exists() {
        return Ok(built);
    }
    let work = tempfile::tempdir_in(&home).map_err(io(&home))?;
    for (path, text) in sources.iter().chain(&HEADERS) {
        let path = work.path().join(path);
        fs::write(&path, text).map_err(io(&path))?;
    }
    let mut command = Command::new(&compiler);
    command.args(STRICT).args(sources.iter().map(|(path, _)| path)).args(options).args(extra.split_whitespace());
    command.args(libraries).arg("-o").arg("built").current_dir(work.path());
    run(&mut command)?;
    fs::rename(work.path().join("built"), &built).map_err(io(&built))?;
    Ok(built)
}

fn run(command: &mut Command) -> Result<(), CompileError> {
    let compiler = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| CompileError::Start { compiler: compiler.clone(), source })?;
    if output.status.success() {
        return Ok(());
    }
    Err(CompileError::Failed { compiler, status: output.status, log: String::from_utf8_lossy(&output.stderr).into_owned() })
}
