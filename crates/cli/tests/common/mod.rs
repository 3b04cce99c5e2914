//! What the tests of the command share: a scratch folder, and the real binary run in it with a bare environment.
#![allow(dead_code, reason = "each test binary uses a part")]

use hipplan::{
    ApiVersion, CompileError, Compiled, Compiler, Limits, Mode, Offer, Policy, ProviderIdentity, Providers, Refusal, Request, Site, Store,
    Target, VerifiedGraph, ensure_plan,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The shipped corpus.
pub(crate) fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/graphs").canonicalize().expect("corpus/graphs")
}

/// A folder that goes when this does.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        std::fs::write(&path, bytes).expect("written");
        path
    }

    /// The command, in this folder, knowing nothing of the user.
    pub(crate) fn hipplan(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hipplan"));
        command.args(args).current_dir(self.0.path()).env_clear().env("HOME", self.0.path().join("home"));
        command
    }

    /// Runs it; gives exit code, standard output and standard error.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&self.hipplan(args).output().expect("started"))
    }

    /// Runs it with `--json` and parses what it prints.
    pub(crate) fn json(&self, args: &[&str]) -> (i32, Value) {
        let ran = self.run(&[args, &["--json"]].concat());
        let value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{args:?}: {e}\n{ran:?}"));
        (ran.code, value)
    }
}

/// How a command ended. A panic is never an acceptable end.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let ran = Self { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) };
        assert!(!ran.err.contains("panicked") && ran.code != 101 && ran.code >= 0, "{ran:?}");
        ran
    }
}

/// Every file of a folder with its bytes.
pub(crate) fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut stack = vec![folder.to_path_buf()];
    while let Some(at) = stack.pop() {
        for entry in std::fs::read_dir(&at).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(folder).expect("inside").to_path_buf();
            // Of a store: who had its turn when, which is nobody's content.
            // And when it was used, which is no content either.
            if name == Path::new("locks") || name.extension().is_some_and(|end| end == "used") {
                continue;
            }
            if path.is_dir() {
                files.insert(name, Vec::new());
                stack.push(path);
            } else {
                files.insert(name, std::fs::read(&path).expect("readable"));
            }
        }
    }
    files
}

/// A graph of one node that multiplies `x` by a scalar in the given by-value state.
pub(crate) fn scalar_graph(state: &str) -> String {
    format!(
        r#"{{"name": "scale", "compute_data_type": "float", "intermediate_data_type": "float", "io_data_type": "float",
          "tensors": [
            {{"uid": 5, "name": "x", "data_type": "float", "dims": [4], "strides": [1], "virtual": false}},
            {{"uid": 6, "name": "alpha", "data_type": "float", "dims": [1], "strides": [1], "virtual": false{state}}},
            {{"uid": 7, "name": "y", "data_type": "float", "dims": [4], "strides": [1], "virtual": false}}],
          "nodes": [{{"name": "mul", "type": "PointwiseAttributes", "compute_data_type": "float",
            "inputs": {{"operation": "mul", "in_0_tensor_uid": 5, "in_1_tensor_uid": 6}}, "outputs": {{"out_0_tensor_uid": 7}}}}]}}"#
    )
}

/// A store `s` that has a plan of `good.json`, and no plan of use of other graphs, for each of the four reasons.
pub(crate) struct Lacks<'s>(&'s Scratch);

/// Puts a plan of a graph for a target into the store `s`.
pub(crate) fn put_plan_for(scratch: &Scratch, file: &str, target: &str) {
    let store = Store::open(scratch.path("s"), Mode::ReadWrite).expect("a store");
    Lacks(scratch).put(&store, file, &target.parse().expect("a target"), &writing(1));
}

impl<'s> Lacks<'s> {
    /// The reasons, the graphs, and the exit codes.
    pub(crate) const ALL: [(&'static str, &'static str, i32); 4] = [
        ("missing", "missing.json", 4),
        ("wrong-target", "other.json", 5),
        ("stale", "stale.json", 6),
        ("unreadable", "unreadable.json", 7),
    ];

    pub(crate) fn new(scratch: &'s Scratch) -> Self {
        let lacks = Self(scratch);
        for (name, length) in [("good", 4), ("missing", 9), ("other", 40), ("stale", 400), ("unreadable", 4000)] {
            let text = scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#);
            scratch.write(&format!("{name}.json"), text.replace("\"dims\": [4]", &format!("\"dims\": [{length}]")));
        }
        let store = Store::open(scratch.path("s"), Mode::ReadWrite).expect("a store");
        lacks.put(&store, "good.json", &Target::Cpu, &Providers::default());
        lacks.put(&store, "other.json", &"gfx942".parse().expect("a target"), &writing(1));
        lacks.put(&store, "stale.json", &Target::Cpu, &writing(999));
        let before = tree(&scratch.path("s/plans"));
        lacks.put(&store, "unreadable.json", &Target::Cpu, &Providers::default());
        for (name, mut bytes) in tree(&scratch.path("s/plans")) {
            if !before.contains_key(&name) && !bytes.is_empty() {
                bytes.truncate(bytes.len() / 2);
                scratch.write(&format!("s/plans/{}", name.display()), bytes);
            }
        }
        lacks
    }

    fn put(&self, store: &Store, file: &str, target: &Target, providers: &Providers) {
        let graph = hipplan::import(&std::fs::read(self.0.path(file)).expect("read"), &Limits::DEFAULT).expect("a graph").graph;
        let request = Request { site: &Site::of(target), policy: &Policy::DEFAULT };
        ensure_plan(store, &graph.view().canonical().expect("a key"), &request, providers).expect("compiled");
    }

    /// The graph key of a file.
    pub(crate) fn key(&self, file: &str) -> String {
        let graph = hipplan::import(&std::fs::read(self.0.path(file)).expect("read"), &Limits::DEFAULT).expect("a graph").graph;
        graph.view().canonical().expect("a key").key.to_string()
    }
}

/// Compiles for any target what the loader of the CPU has, or not, for its version. Nothing can execute it.
fn writing(version: u32) -> Providers {
    struct Writing(u32);

    impl Compiler for Writing {
        fn identity(&self) -> ProviderIdentity {
            ProviderIdentity { name: "cpu".into(), api_version: ApiVersion { major: 9, minor: 0, patch: 0 } }
        }

        fn offers(&self, _: &VerifiedGraph<'_>, _: &Site) -> Result<Vec<Offer>, Refusal> {
            Ok(vec![Offer::new("HIPPLAN_CPU", "999")])
        }

        fn compile(&self, _: &VerifiedGraph<'_>, _: &Offer, _: &Site) -> Result<Compiled, CompileError> {
            Ok(Compiled { kind: "cpu", version: self.0, body: vec![1], workspace_size: 0, code_objects: Vec::new() })
        }
    }

    let mut providers = Providers::none();
    providers.add(Box::new(Writing(version)));
    providers
}

/// A folder with nothing in it but the compiler of kernels, to be the whole of `PATH`; nothing where clang 19 is not installed, which is an
/// error where everything must be checked.
pub(crate) fn only_clang(scratch: &Scratch) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("clang-19")).find(|file| file.is_file());
    let Some(found) = found else {
        assert!(std::env::var_os("HIPPLAN_CI").is_none_or(|v| v != "1"), "clang-19 is not on PATH; install clang-19 and lld-19");
        println!("skipped: clang-19 is not on PATH");
        return None;
    };
    let folder = scratch.path("bin");
    std::fs::create_dir_all(&folder).expect("a folder");
    // The driver finds its own folder, and lld in it, through the link.
    std::os::unix::fs::symlink(found, folder.join("clang-19")).expect("a link");
    Some(folder)
}
