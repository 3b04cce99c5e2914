//! The sysroot's MIOpen, split, with the libraries of this checkout: what users get, in a folder of the test's.

use crate::filled::Filled;
use crate::program::Program;
use crate::sysroot::{Sysroot, target};
use hipplan_shim::install::{Options, Place, split};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A split MIOpen.
#[derive(Debug)]
pub struct Split {
    folder: PathBuf,
}

impl Split {
    /// Builds the libraries in the profile of this test, and splits the sysroot's MIOpen, once for all tests: what is there already is left.
    ///
    /// # Errors
    /// What went wrong, with the log of the build.
    pub fn make(sysroot: &Sysroot) -> Result<Self, String> {
        let home = target().join("miopen-testing");
        let libraries = home.join("libraries");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build-libraries");
        let profile = if cfg!(debug_assertions) { "--debug" } else { "--release" };
        let output = Command::new(&script)
            .args([profile, "--only", "capi,miopen", "--prefix"])
            .arg(&libraries)
            .output()
            .map_err(|e| format!("{}: {e}", script.display()))?;
        if !output.status.success() {
            return Err(format!("{}: {}\n{}", script.display(), output.status, String::from_utf8_lossy(&output.stderr)));
        }
        let options = Options {
            from: sysroot.miopen(),
            place: Place::Prefix(home.join("split")),
            shim_library: Some(libraries.join("lib/libhipplan_miopen.so.0")),
            library_folders: vec![libraries.join("lib")],
        };
        let report = split(&options).map_err(|e| e.to_string())?;
        Ok(Self { folder: report.folder })
    }

    /// The split for a test.
    ///
    /// # Panics
    /// It cannot be made.
    pub fn for_test(sysroot: &Sysroot) -> &'static Self {
        static SPLIT: OnceLock<Split> = OnceLock::new();
        SPLIT.get_or_init(|| Self::make(sysroot).unwrap_or_else(|error| panic!("{error}")))
    }

    /// The folder with the wrapper and the others.
    pub fn lib(&self) -> &Path {
        &self.folder
    }

    /// The program with the split MIOpen, forwarding off.
    #[must_use]
    pub fn disabled<'a>(&self, program: Program<'a>) -> Program<'a> {
        program.libraries(&self.folder)
    }

    /// The program with the split MIOpen, forwarding on, with plans from a store and their twins.
    #[must_use]
    pub fn enabled<'a>(&self, program: Program<'a>, filled: &Filled) -> Program<'a> {
        self.forwarding(program).env("HIPPLAN_MIOPEN_STORE", filled.store()).twins(filled.twins())
    }

    /// The program with the split MIOpen, forwarding on, and nothing else set.
    #[must_use]
    pub fn forwarding<'a>(&self, program: Program<'a>) -> Program<'a> {
        self.disabled(program).env("MIOPEN_HIPDNN_FORWARDING", "enabled")
    }
}
