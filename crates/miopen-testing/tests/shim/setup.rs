//! What the tests share: compiled programs, a filled store.

use hipplan_miopen_testing::Sysroot;
use hipplan_miopen_testing::filled::Filled;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};
use tempfile::TempDir;

/// A folder for what this process makes.
pub(crate) static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

/// A program of `crates/miopen-testing/programs`, compiled once.
pub(crate) fn program(sysroot: &Sysroot, name: &str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().expect("not poisoned");
    let compile = || sysroot.program(FOLDER.path(), name).unwrap_or_else(|error| panic!("{error}"));
    built.entry(name.to_owned()).or_insert_with(compile).clone()
}

/// A library of the same folder, to be preloaded.
pub(crate) fn preloaded(name: &str) -> PathBuf {
    let path = FOLDER.path().join(format!("lib{name}.so"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("programs/{name}.c"));
    let built = FOLDER.path().join(format!("lib{name}.{}.so", std::thread::current().name().unwrap_or("main").replace("::", "-")));
    let output =
        Command::new("cc").args(["-O1", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"]).arg(&built).arg(source).arg("-ldl").output();
    let output = output.expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(built, &path).expect("renamed");
    path
}

/// An empty store in a folder. Twins that were compiled in an earlier run are taken from there.
pub(crate) fn empty_store(folder: &Path) -> Filled {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("twins");
    Filled::new(folder, &cache).expect("a store")
}

/// The counters that `HIPPLAN_MIOPEN_REPORT=1` prints: of a family, a counter's number.
pub(crate) struct Report(BTreeMap<(String, String), u64>);

impl Report {
    pub(crate) fn of(stderr: &str) -> Self {
        let mut counters = BTreeMap::new();
        for line in stderr.lines().filter_map(|line| line.strip_prefix("[hipplan] report ")) {
            let (family, numbers) = line.split_once(": ").expect("a family");
            for number in numbers.split(' ') {
                let (name, value) = number.split_once('=').expect("a number");
                counters.insert((family.to_owned(), name.to_owned()), value.parse().expect("a number"));
            }
        }
        assert!(!counters.is_empty(), "no report: {stderr}");
        Self(counters)
    }

    /// Sum over all families of counters whose names begin like this.
    pub(crate) fn all(&self, prefix: &str) -> u64 {
        self.0.iter().filter(|((_, name), _)| name.starts_with(prefix)).map(|(_, value)| value).sum()
    }
}
