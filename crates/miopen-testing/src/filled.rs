//! A store of plans for the simulated device, and the kernels that it runs for them.
//!
//! The plans are the shipped ones: AMD code objects, compiled for gfx942. No processor here executes those, so the stand-in of HIP runs
//! their *twins*: the same kernel texts, compiled for the host, found by the kernels' names. A name ends in a hash of its text, so a twin
//! belongs to exactly one kernel.

use hipplan_hip_testing::HostCompiler;
use hipplan_planner::{CompileError, Providers, Request, Site, ensure_plan, hip};
use hipplan_serialize::import::{Imported, graph_of, import_any};
use hipplan_serialize::{Canonical, GraphKey, Limits, Policy, Target, VerifiedGraph, canon};
use hipplan_store::{Mode, Store};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The simulated device.
pub const TARGET: &str = "gfx942:sramecc+:xnack-";

/// Why the store was not filled.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Anything else: what, and why.
    #[error("{0}")]
    Other(String),
}

/// A store, and the folder of its kernels' twins beside it.
#[derive(Debug)]
pub struct Filled {
    folder: PathBuf,
    store: Store,
    host: HostCompiler,
    target: Target,
    providers: Providers,
}

/// What became of the inputs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Fill {
    /// Graphs that the store holds a plan of.
    pub compiled: Vec<GraphKey>,
    /// Graphs that no provider takes, and why.
    pub refused: Vec<String>,
}

impl Filled {
    /// An empty store below a folder. Compiled twins are kept in `cache`, from run to run.
    ///
    /// # Errors
    /// The folder cannot be used, or there is no C++ compiler.
    pub fn new(folder: &Path, cache: &Path) -> Result<Self, FillError> {
        let other = |e: &dyn std::fmt::Display| FillError::Other(e.to_string());
        let host = HostCompiler::new(false).map_err(FillError::Other)?.with_cache(cache);
        let store = Store::open(folder.join("store"), Mode::ReadWrite).map_err(|e| other(&e))?;
        let twins = folder.join("twins");
        fs::create_dir_all(&twins).map_err(|source| FillError::Io { path: twins, source })?;
        let target = TARGET.parse().map_err(|e: hipplan_serialize::target::ParseTargetError| other(&e.reason))?;
        Ok(Self { folder: folder.to_owned(), store, host, target, providers: Providers::default() })
    }

    /// The store's folder.
    pub fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// The folder of the twins, for `HIPPLAN_HOST_HIP_TWINS`.
    pub fn twins(&self) -> PathBuf {
        self.folder.join("twins")
    }

    /// Compiles one graph, and the twins of its kernels.
    ///
    /// # Errors
    /// Compiling failed. That no provider takes the graph is no error but is told in the result.
    pub fn graph(&self, graph: &VerifiedGraph<'_>, fill: &mut Fill) -> Result<(), FillError> {
        let canonical = graph.canonical().map_err(|e| FillError::Other(e.to_string()))?;
        let request = Request { site: &Site::of(&self.target), policy: &Policy::DEFAULT };
        match ensure_plan(&self.store, &canonical, &request, &self.providers) {
            Ok(_) => {}
            Err(e @ CompileError::NoApplicableEngines { .. }) => {
                fill.refused.push(e.to_string());
                return Ok(());
            }
            Err(e) => return Err(FillError::Other(e.to_string())),
        }
        self.twins_of(&canonical)?;
        fill.compiled.push(canonical.key);
        Ok(())
    }

    fn twins_of(&self, canonical: &Canonical) -> Result<(), FillError> {
        let other = |e: &dyn std::fmt::Display| FillError::Other(e.to_string());
        let owned = canon::decode(&canonical.encoding, &canonical.limits).map_err(|e| other(&e))?;
        let (_, sources) = hip::kernels(&owned.view(), &self.target).map_err(|e| other(&e))?;
        for source in &sources {
            self.host.compile_twin(source, &self.twins()).map_err(|e| other(&e))?;
        }
        Ok(())
    }

    /// Compiles files of any form that is imported: graph artifacts, JSON, driver lines, logs; and all files of folders.
    ///
    /// # Errors
    /// A file cannot be read or is none of those, or compiling failed.
    pub fn files(&self, paths: &[&Path]) -> Result<Fill, FillError> {
        let mut fill = Fill::default();
        for path in paths {
            let io_error = |source| FillError::Io { path: path.to_path_buf(), source };
            if path.is_dir() {
                let entries: io::Result<Vec<_>> = fs::read_dir(path).map_err(io_error)?.collect();
                let mut files: Vec<PathBuf> = entries.map_err(io_error)?.into_iter().map(|entry| entry.path()).collect();
                files.sort();
                let more = self.files(&files.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
                fill.compiled.extend(more.compiled);
                fill.refused.extend(more.refused);
            } else {
                self.bytes(&fs::read(path).map_err(io_error)?, &path.display().to_string(), &mut fill)?;
            }
        }
        Ok(fill)
    }

    /// Compiles driver lines.
    ///
    /// # Errors
    /// A line is none, or compiling failed.
    pub fn lines(&self, lines: &str) -> Result<Fill, FillError> {
        let mut fill = Fill::default();
        self.bytes(lines.as_bytes(), "the lines", &mut fill)?;
        Ok(fill)
    }

    fn bytes(&self, bytes: &[u8], name: &str, fill: &mut Fill) -> Result<(), FillError> {
        let other = |e: &dyn std::fmt::Display| FillError::Other(format!("{name}: {e}"));
        match import_any(bytes, &Limits::DEFAULT).map_err(|e| other(&e))? {
            Imported::Graph(graph) => self.graph(&graph.graph.view(), fill),
            Imported::Log(log) => {
                for problem in &log.problems {
                    let graph = graph_of(&log, problem, &Limits::DEFAULT).map_err(|e| other(&e))?;
                    self.graph(&graph.graph.view(), fill)?;
                }
                Ok(())
            }
        }
    }
}
