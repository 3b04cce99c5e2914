//! What the tests share: small libraries made by the C compiler with any linker, split and run.
#![allow(dead_code, reason = "each test binary uses a part")]

use hipplan_shim::install::{Options, Place, Report};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the consumer prints.
pub(crate) const PRINTED: &str = "8 8 9 20 8 7\n55 11 24 7.5 1\n3 4 13\n";
/// The same with a shim that adds 1000 in miopenAdd. The library's own calls pass the wrapper by.
pub(crate) const FORWARDED: &str = "1008 8 9 20 8 7\n55 11 24 7.5 1\n3 4 13\n";

/// Whether everything must be checked.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("HIPPLAN_CI").is_some_and(|v| v == "1")
}

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../shim/tests/c").join(name)
}

/// Runs a command that must succeed; gives what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A linker.
#[derive(Clone, Debug)]
pub(crate) struct Linker {
    pub(crate) name: String,
    arguments: Vec<String>,
}

/// GNU ld, gold and every lld that is installed; `folder` is for what the compiler needs to find them.
pub(crate) fn linkers(folder: &Path) -> Vec<Linker> {
    let mut linkers = Vec::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut names: Vec<(String, PathBuf)> = Vec::new();
    for entry in std::env::split_paths(&path).flat_map(|p| std::fs::read_dir(p).into_iter().flatten().flatten()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_lld = name.strip_prefix("ld.lld").is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        if ["ld.bfd", "ld.gold"].contains(&name.as_str()) || is_lld {
            names.push((name, entry.path()));
        }
    }
    names.sort();
    names.dedup_by(|a, b| a.0 == b.0);
    for (name, at) in names {
        let kind = name.trim_start_matches("ld.").split('-').next().unwrap_or_default().to_owned();
        let place = folder.join(format!("linker-{name}"));
        std::fs::create_dir_all(&place).expect("a folder");
        std::os::unix::fs::symlink(at.canonicalize().expect("a linker"), place.join(format!("ld.{kind}"))).expect("a link");
        linkers.push(Linker { name, arguments: vec![format!("-fuse-ld={kind}"), format!("-B{}/", place.display())] });
    }
    for needed in ["ld.bfd", "ld.gold", "ld.lld"] {
        let found = linkers.iter().any(|l| l.name.starts_with(needed));
        assert!(found || !is_ci(), "{needed} is needed and not installed");
        if !found {
            println!("skipped: {needed} is not installed");
        }
    }
    linkers
}

/// Objects, a consumer and a shim library, compiled once.
pub(crate) struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    /// Nothing without a C compiler, which is an error where everything must be checked.
    pub(crate) fn new() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let workshop = Self { folder };
        if Command::new("cc").arg("--version").output().is_err() {
            assert!(!is_ci(), "cc is needed and not installed");
            println!("skipped: cc is not installed");
            return None;
        }
        let compile = |name: &str, more: &[&str]| {
            run(Command::new("cc")
                .args(["-O1", "-g", "-fPIC", "-c", "-o"])
                .arg(workshop.path(&format!("{name}.o")))
                .arg(source(&format!("{name}.c")))
                .args(more));
        };
        compile("library", &[]);
        compile("consumer", &[]);
        std::fs::write(workshop.path("versions.map"), "MIOPEN_HIP_1 { global: miopen*; constructed; helperOfMine; local: *; };\n")
            .expect("written");
        std::fs::create_dir(workshop.path("libs")).expect("a folder");
        run(Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wl,-soname,libhipplan_miopen.so.0", "-o"])
            .arg(workshop.path("libs/libhipplan_miopen.so.0"))
            .arg(source("shim.c")));
        Some(workshop)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn libs(&self) -> PathBuf {
        self.path("libs")
    }

    /// Links the library into `folder/name` with SONAME `libMIOpen.so.1`; nothing if this linker does not know an option.
    pub(crate) fn library(&self, folder: &Path, name: &str, linker: Option<&Linker>, options: &[&str]) -> Option<PathBuf> {
        std::fs::create_dir_all(folder).expect("a folder");
        let library = folder.join(name);
        let mut command = Command::new("cc");
        command.args(["-shared", "-Wl,-soname,libMIOpen.so.1", "-Wl,--build-id=sha1", "-o"]).arg(&library).arg(self.path("library.o"));
        command.args(linker.map(|l| l.arguments.clone()).unwrap_or_default()).args(options);
        let output = command.output().expect("cc");
        let text = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || text.contains("unrecognized") || text.contains("unknown") || text.contains("ignored") {
            println!("not made: {options:?}: {}", text.lines().next().unwrap_or_default());
            return None;
        }
        Some(library)
    }

    /// The usual library: versioned, not stripped, with its links.
    pub(crate) fn usual(&self, folder: &Path) -> PathBuf {
        let map = format!("-Wl,--version-script={}", self.path("versions.map").display());
        let library = self.library(folder, "libMIOpen.so.1.0", None, &[&map]).expect("a library");
        for (link, to) in [("libMIOpen.so.1", "libMIOpen.so.1.0"), ("libMIOpen.so", "libMIOpen.so.1")] {
            std::os::unix::fs::symlink(to, folder.join(link)).expect("a link");
        }
        library
    }

    /// A program that was linked with this library.
    pub(crate) fn consumer(&self, library: &Path, name: &str) -> PathBuf {
        let program = self.path(name);
        run(Command::new("cc").arg("-o").arg(&program).arg(self.path("consumer.o")).arg(library).arg("-Wl,-z,now"));
        program
    }

    /// Options for a split with this workshop's shim library.
    pub(crate) fn options(&self, from: &Path, place: Place) -> Options {
        Options { from: from.to_owned(), place, shim_library: None, library_folders: vec![self.libs()] }
    }

    pub(crate) fn split(&self, from: &Path, place: Place) -> Report {
        hipplan_shim::split(&self.options(from, place)).unwrap_or_else(|e| panic!("{}: {e}", from.display()))
    }
}

/// Runs a program with libraries from this folder; gives what it printed.
pub(crate) fn run_with(program: &Path, libraries: &Path, forwarding: bool) -> String {
    let mut command = Command::new(program);
    command.env_clear().env("LD_LIBRARY_PATH", libraries).env("LD_WARN", "1");
    if forwarding {
        command.env("MIOPEN_HIPDNN_FORWARDING", "enabled");
    }
    let output = command.output().expect("started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Every check of a split is good, apart from those named.
pub(crate) fn assert_good(folder: &Path, others: &[&str]) {
    let report = hipplan_shim::check(folder).expect("a split");
    for check in &report.checks {
        let is_good = check.verdict == hipplan_shim::check::Verdict::Good;
        assert!(is_good || others.contains(&check.id), "{}: {:?} {:?}", check.id, check.verdict, check.findings);
    }
    assert!(report.is_good());
}

/// Something with the runtime library's SONAME.
pub(crate) fn run_library(workshop: &Workshop) -> PathBuf {
    let (source, to) = (workshop.path("runtime.c"), workshop.path("runtime.so"));
    std::fs::write(&source, "int hipplan_version(void) { return 1; }\n").expect("written");
    run(Command::new("cc").args(["-shared", "-fPIC", "-Wl,-soname,libhipplan.so.0", "-o"]).arg(&to).arg(&source));
    to
}
