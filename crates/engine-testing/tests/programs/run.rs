//! One run of the host program.

use hipplan::GraphBuf;
use hipplan::reference::{Inputs, Outputs};
use hipplan_engine_testing::Plugins;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A run's folder and the items that are told to the program.
pub(crate) struct Run {
    folder: tempfile::TempDir,
    items: Vec<String>,
    outputs: Vec<i64>,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), items: Vec::new(), outputs: Vec::new() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).expect("written");
        path.display().to_string()
    }

    fn item(&mut self, kind: &str, uid: i64, bytes: &[u8]) {
        let path = self.file(&format!("{kind}-{uid}"), bytes);
        self.items.extend([kind.to_owned(), uid.to_string(), path]);
    }

    pub(crate) fn input(&mut self, uid: i64, bytes: &[u8]) -> &mut Self {
        self.item("in", uid, bytes);
        self
    }

    pub(crate) fn scalar(&mut self, uid: i64, bytes: &[u8]) -> &mut Self {
        self.item("scalar", uid, bytes);
        self
    }

    pub(crate) fn output(&mut self, uid: i64, size: usize) -> &mut Self {
        let path = self.folder.path().join(format!("out-{uid}"));
        self.items.extend(["out".to_owned(), uid.to_string(), size.to_string(), path.display().to_string()]);
        self.outputs.push(uid);
        self
    }

    pub(crate) fn written(&self, uid: i64) -> Vec<u8> {
        fs::read(self.folder.path().join(format!("out-{uid}"))).expect("an output")
    }

    /// The harness's inputs, and room for its outputs.
    pub(crate) fn case(&mut self, inputs: &Inputs, outputs: &Outputs) -> &mut Self {
        for input in inputs.tensors() {
            self.input(input.uid.0, input.tensor.bytes());
        }
        for scalar in inputs.scalars().iter().filter(|s| !s.is_default) {
            let dtype = scalar.value.data_type();
            let element = scalar.value.to_element(dtype).expect("an element of its own type");
            self.scalar(scalar.uid.0, &element[..dtype.bits() as usize / 8]);
        }
        for output in outputs.tensors() {
            self.output(output.uid.0, output.tensor.bytes().len());
        }
        self
    }

    /// Runs the program with options before the items.
    pub(crate) fn start(&self, plugin: &Path, options: &[&str]) -> Output {
        let host = Plugins::host_program().expect("the host program");
        Command::new(host).arg(plugin).args(options).args(&self.items).output().expect("the host program runs")
    }

    /// Runs the program, which ends well, and returns its lines.
    pub(crate) fn lines(&self, plugin: &Path, options: &[&str]) -> Vec<String> {
        let output = self.start(plugin, options);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{out}{err}", output.status);
        out.lines().map(str::to_owned).collect()
    }

    /// Runs the program to a failing call, and returns that line.
    pub(crate) fn error(&self, plugin: &Path, options: &[&str]) -> String {
        let output = self.start(plugin, options);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{}\n{out}{err}", output.status);
        let last = out.lines().last().expect("a line");
        assert!(last.starts_with("error "), "{out}");
        last.to_owned()
    }

    pub(crate) fn graph(&self, graph: &GraphBuf) -> String {
        self.file("graph", graph.buffer())
    }
}
