//! The FlatBuffers compiler as a second, independent reader and writer.

use hipplan_serialize::AlignedBytes;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `flatc`, and a folder for its files.
pub struct Flatc {
    program: OsString,
    folder: tempfile::TempDir,
}

/// Files of one call: a command line has a limit.
const BATCH: usize = 400;

impl Flatc {
    /// The one named by `FLATC`, else the one in `PATH`. Without one, tests that need it say so and pass; with `HIPPLAN_CI` that
    /// is an error.
    pub fn find() -> Option<Self> {
        let program = std::env::var_os("FLATC").unwrap_or_else(|| "flatc".into());
        match Command::new(&program).arg("--version").output() {
            Ok(output) if output.status.success() => Some(Self { program, folder: tempfile::tempdir().expect("a temporary folder") }),
            _ => {
                assert!(std::env::var_os("HIPPLAN_CI").is_none(), "flatc is needed and not installed");
                eprintln!("skipped: flatc is not installed");
                None
            }
        }
    }

    fn schema(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/independent").join(name).with_extension("fbs")
    }

    fn run(&self, arguments: &[&str], schema: &str, files: &[PathBuf]) {
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("-o").arg(self.folder.path()).arg(Self::schema(schema));
        if arguments.contains(&"--raw-binary") {
            command.arg("--");
        }
        let output = command.args(files).output().expect("flatc runs");
        assert!(
            output.status.success(),
            "flatc {arguments:?} {schema}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Buffers of these values, in flatc's JSON, under one of the schemas in `independent/`.
    pub fn encode(&self, schema: &str, values: &[Value]) -> Vec<AlignedBytes> {
        self.encode_with(&["--binary"], schema, values)
    }

    /// [`encode`](Self::encode) by a writer that stores scalars that equal their defaults.
    pub fn encode_with_defaults(&self, schema: &str, values: &[Value]) -> Vec<AlignedBytes> {
        self.encode_with(&["--binary", "--force-defaults"], schema, values)
    }

    fn encode_with(&self, arguments: &[&str], schema: &str, values: &[Value]) -> Vec<AlignedBytes> {
        self.convert(arguments, schema, values.iter().map(|v| v.to_string().into_bytes()), "json", "bin", |bytes| super::aligned(&bytes))
    }

    /// What flatc sees in these buffers.
    pub fn decode(&self, schema: &str, buffers: &[impl AsRef<[u8]>]) -> Vec<Value> {
        let bytes = buffers.iter().map(|b| b.as_ref().to_vec());
        self.convert(&["--json", "--strict-json", "--raw-binary"], schema, bytes, "bin", "json", |text| {
            serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&text)))
        })
    }

    fn convert<T>(
        &self,
        arguments: &[&str],
        schema: &str,
        inputs: impl Iterator<Item = Vec<u8>>,
        from: &str,
        to: &str,
        read: impl Fn(Vec<u8>) -> T,
    ) -> Vec<T> {
        let at = |i: usize, extension: &str| self.folder.path().join(format!("b{i}")).with_extension(extension);
        let mut count = 0;
        for (i, input) in inputs.enumerate() {
            std::fs::write(at(i, from), input).expect("written");
            count = i + 1;
        }
        let files: Vec<PathBuf> = (0..count).map(|i| at(i, from)).collect();
        files.chunks(BATCH).for_each(|batch| self.run(arguments, schema, batch));
        let result = (0..count).map(|i| read(std::fs::read(at(i, to)).expect("flatc wrote it"))).collect();
        for i in 0..count {
            [from, to].into_iter().for_each(|extension| std::fs::remove_file(at(i, extension)).expect("removed"));
        }
        result
    }
}
