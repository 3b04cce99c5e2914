//! MIOpen's own tests and their verdict per case.

use crate::program::{Output, Program, ProgramError, scratch};
use crate::sysroot::Sysroot;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaseVerdict {
    /// It passed.
    Passed,
    /// A check of it failed.
    Failed,
    /// It skipped itself.
    Skipped,
}

/// A run of MIOpen's tests.
#[derive(Debug)]
pub struct GtestRun {
    /// Cases that ran, by `SUITE.CASE`.
    pub cases: BTreeMap<String, CaseVerdict>,
    /// The run.
    pub output: Output,
}

impl GtestRun {
    /// Cases with a verdict.
    pub fn count(&self, verdict: CaseVerdict) -> usize {
        self.cases.values().filter(|v| **v == verdict).count()
    }

    /// Cases whose verdict differs, or that only one run has: name, here, there.
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<(&'a str, Option<CaseVerdict>, Option<CaseVerdict>)> {
        let names: std::collections::BTreeSet<_> = self.cases.keys().chain(other.cases.keys()).collect();
        let both = names.into_iter().map(|name| (name.as_str(), self.cases.get(name).copied(), other.cases.get(name).copied()));
        both.filter(|(_, here, there)| here != there).collect()
    }
}

/// The cases of a report in JSON. `None`: it is not one.
fn cases(report: &Value) -> Option<BTreeMap<String, CaseVerdict>> {
    let mut cases = BTreeMap::new();
    for suite in report.get("testsuites")?.as_array()? {
        let name = suite.get("name")?.as_str()?;
        for case in suite.get("testsuite")?.as_array()? {
            if case.get("status").and_then(Value::as_str) != Some("RUN") {
                continue;
            }
            let verdict = if case.get("failures").is_some() {
                CaseVerdict::Failed
            } else if case.get("result").and_then(Value::as_str) == Some("SKIPPED") {
                CaseVerdict::Skipped
            } else {
                CaseVerdict::Passed
            };
            cases.insert(format!("{name}.{}", case.get("name")?.as_str()?), verdict);
        }
    }
    Some(cases)
}

impl Sysroot {
    /// MIOpen's tests whose names a filter of googletest's takes, such as `*CPU_*`.
    pub fn gtest(&self, filter: &str) -> Program<'_> {
        self.command(self.gtest_path()).args([format!("--gtest_filter={filter}")])
    }
}

impl Program<'_> {
    /// Runs MIOpen's tests, or others made with googletest, and reads the verdicts. A failed case is no error here.
    ///
    /// # Errors
    /// They cannot be started, or end before their report is written, as after a crash.
    pub fn cases(self) -> Result<GtestRun, ProgramError> {
        let scratch = scratch()?;
        let report = scratch.path().join("report.json");
        let program = self.args([format!("--gtest_output=json:{}", report.display())]);
        let output = program.run_in(scratch.path())?;
        // Values of parameters are printed as they are, which is not always UTF-8.
        let text = fs::read(&report).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        match serde_json::from_str(&text).ok().as_ref().and_then(cases) {
            Some(cases) => Ok(GtestRun { cases, output }),
            None => {
                let log: Vec<&str> = output.stderr.lines().collect();
                let log = log.get(log.len().saturating_sub(20)..).unwrap_or_default().join("\n");
                Err(ProgramError::NoResult { program: program.path().to_owned(), status: output.status, log })
            }
        }
    }
}
