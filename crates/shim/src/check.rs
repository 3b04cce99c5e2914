//! Checks that wrapper, private library and shim library are one unit, and that the split changed nothing else.

mod headers;
mod libraries;
mod unit;
mod wrapper;

use crate::error::ShimError;
use crate::locate;
use crate::manifest::{self, Manifest};
use std::path::{Path, PathBuf};
use unit::Unit;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it must be.
    Good,
    /// It works, but somebody should look.
    Warning,
    /// Not as it must be.
    Failed,
    /// There was nothing to check, or an earlier check failed on which it rests.
    Skipped,
}

/// One check.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its name, stable.
    pub id: &'static str,
    /// What must hold.
    pub about: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// What was found; for one that was skipped, why.
    pub findings: Vec<String>,
}

/// All checks of a split.
#[derive(Clone, Debug)]
pub struct Report {
    /// The folder with the split.
    pub folder: PathBuf,
    /// The checks, in their order.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether nothing failed.
    pub fn is_good(&self) -> bool {
        self.checks.iter().all(|c| c.verdict != Verdict::Failed)
    }
}

/// What a check says.
pub(crate) enum Outcome {
    Found(Vec<String>),
    Warn(Vec<String>),
    Skip(String),
}

type Run = fn(&Unit) -> Result<Outcome, ShimError>;

/// Every check: name, what must hold, how it is found out.
const CHECKS: [(&str, &str, Run); 21] = [
    ("files", "every file of the manifest is there, with its size and digest", libraries::files),
    ("links", "every link leads where it led", libraries::links),
    ("build-id", "the private library has the build id of what was split", libraries::build_id),
    ("superset", "the wrapper exports every public name that the private library and the original have", wrapper::superset),
    ("impl-export", "the wrapper exports no private name, the private library no public one", libraries::leak),
    ("soname", "each library has its SONAME", libraries::sonames),
    ("needed", "the wrapper needs the private and the shim library, and neither needs the wrapper", libraries::needed),
    ("search-path", "the libraries find each other, and what the original found", libraries::search_path),
    ("versions", "the wrapper has the original's version nodes, and each name its version", wrapper::versions),
    (
        "undefined",
        "what the wrapper refers to is in the private and the shim library, and the shim library refers to neither",
        libraries::undefined,
    ),
    ("hash", "every defined dynamic symbol is found through the hash tables", libraries::hash),
    ("stubs", "each public name is two instructions that jump through its slot to its private name", wrapper::stubs),
    ("slots", "the slots have pages of their own", wrapper::slots),
    ("table", "the table names each public name with its slot and private name, in order", wrapper::table),
    ("attach", "the wrapper hands its table to the shim library when it is initialised", wrapper::attach),
    ("wrapper", "the wrapper is what is generated for the names of the manifest, byte for byte", wrapper::whole),
    ("original", "what was split is still there", libraries::original),
    ("relocations", "the private library's relocations are the original's, names apart", libraries::relocations),
    ("tables", "its symbols, versions and dynamic section are the original's, names apart", libraries::tables),
    ("sections", "its other sections are the original's, byte for byte", libraries::sections),
    ("headers", "no public header declares a private name", headers::leak),
];

/// Checks the split at `path`: its folder, its prefix, or a file of it.
///
/// # Errors
/// If there is no split. What is wrong with one is in the report.
pub fn check(path: &Path) -> Result<Report, ShimError> {
    let folder = locate::split_folder(path)?;
    let about = "the manifest says what belongs to the split";
    let manifest = match Manifest::read(&folder) {
        Ok(manifest) => manifest,
        Err(error @ ShimError::Manifest { .. }) => {
            let failed = Check { id: "manifest", about, verdict: Verdict::Failed, findings: vec![error.to_string()] };
            let rest = CHECKS.iter().map(|&(id, about, _)| Check {
                id,
                about,
                verdict: Verdict::Skipped,
                findings: vec![format!("{} cannot be read", manifest::NAME)],
            });
            return Ok(Report { folder, checks: std::iter::once(failed).chain(rest).collect() });
        }
        Err(error) => return Err(error),
    };
    let unit = Unit::open(&folder, manifest);
    let mut checks = vec![Check { id: "manifest", about, verdict: Verdict::Good, findings: Vec::new() }];
    for (id, about, run) in CHECKS {
        let (verdict, findings) = match run(&unit) {
            Ok(Outcome::Found(findings)) if findings.is_empty() => (Verdict::Good, findings),
            Ok(Outcome::Found(findings)) => (Verdict::Failed, findings),
            Ok(Outcome::Warn(findings)) => (Verdict::Warning, findings),
            Ok(Outcome::Skip(why)) => (Verdict::Skipped, vec![why]),
            Err(error) => (Verdict::Failed, vec![error.to_string()]),
        };
        checks.push(Check { id, about, verdict, findings });
    }
    Ok(Report { folder, checks })
}
