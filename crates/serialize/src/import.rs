//! A graph in any form that is known here, told apart by its bytes.

use crate::conv_problem::ConvProblemError;
use crate::driver::{self, DriverLog, LoggedProblem, SkipReason};
use crate::form::{self, Form};
use crate::hipdnn::container::{Container, ContainerError};
use crate::json::JsonError;
use crate::{GraphBuf, GraphError, Limits, json};

/// The forms that a graph comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphForm {
    /// A native artifact.
    Artifact,
    /// A bare hipDNN buffer.
    HipdnnBuffer,
    /// hipDNN's container of a graph and perhaps a plan, of which the graph is taken.
    HipdnnContainer,
    /// hipDNN JSON.
    Json,
    /// A convolution as MIOpenDriver is told of it, in a command or a log.
    MiopenDriver,
}

impl GraphForm {
    /// A word for messages and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Artifact => "graph artifact",
            Self::HipdnnBuffer => "hipDNN buffer",
            Self::HipdnnContainer => "hipDNN container (HDGP)",
            Self::Json => "hipDNN JSON",
            Self::MiopenDriver => "MIOpen driver line",
        }
    }
}

/// Bytes that are no graph in any known form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Nothing to read.
    #[error("the input is empty; a graph artifact, a hipDNN graph buffer, hipDNN JSON or MIOpenDriver lines were expected")]
    Empty,
    /// A file of hipplan's that is not a graph.
    #[error("this is a {0}, not a graph; a graph artifact, a hipDNN graph buffer, hipDNN JSON or MIOpenDriver lines were expected")]
    NotAGraph(&'static str),
    /// The binary graph is refused.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The container is refused, or the graph inside.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The JSON is refused.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Text in 16-bit units, as some shells write it.
    #[error("the text is UTF-16; convert it to UTF-8 first")]
    Utf16,
    /// The driver is mentioned, and no convolution with it.
    #[error("MIOpenDriver is mentioned {records} times and no mention is a convolution; the first, line {line}: {reason}")]
    NoProblem {
        /// How often.
        records: u64,
        /// Line of the first.
        line: u64,
        /// Why that is none.
        reason: Box<SkipReason>,
    },
    /// More than one graph where one is wanted.
    #[error(
        "the text holds {problems} different convolutions ({first} in line {line}, ..), and one graph is wanted here; import them one by one"
    )]
    Several {
        /// How many.
        problems: usize,
        /// The direction of the first.
        first: &'static str,
        /// Its line.
        line: u64,
    },
    /// A problem that makes no graph.
    #[error(transparent)]
    Problem(#[from] ConvProblemError),
}

/// A graph and how it was read.
#[derive(Debug)]
pub struct ImportedGraph {
    /// The graph.
    pub graph: GraphBuf,
    /// The form that it came in.
    pub form: GraphForm,
    /// What was read leniently or not at all, for a person to see.
    pub warnings: Vec<String>,
}

/// What an input holds.
#[derive(Debug)]
pub enum Imported {
    /// One graph.
    Graph(Box<ImportedGraph>),
    /// MIOpenDriver lines, with at least one convolution.
    Log(DriverLog),
}

/// The one problem of a log as a graph.
///
/// # Errors
/// A log with no problem, or with several.
pub fn one_of(log: &DriverLog, limits: &Limits) -> Result<ImportedGraph, ImportError> {
    match &log.problems[..] {
        [] => Err(no_problem(log)),
        [one] => Ok(graph_of(log, one, limits)?),
        [first, ..] => Err(ImportError::Several { problems: log.problems.len(), first: first.problem.direction.name(), line: first.line }),
    }
}

/// A problem of a log as a graph, with the warnings of its record.
///
/// # Errors
/// The limits are narrower than those that the log was read with.
pub fn graph_of(log: &DriverLog, problem: &LoggedProblem, limits: &Limits) -> Result<ImportedGraph, ConvProblemError> {
    let warnings = log.records.get(problem.record).map(|r| r.warnings.to_vec()).unwrap_or_default();
    Ok(ImportedGraph { graph: problem.problem.to_graph(limits)?, form: GraphForm::MiopenDriver, warnings })
}

fn no_problem(log: &DriverLog) -> ImportError {
    match log.skipped.first() {
        Some(first) => ImportError::NoProblem { records: log.coverage.records, line: first.line, reason: Box::new(first.reason.clone()) },
        None => ImportError::NoProblem { records: 0, line: 0, reason: Box::new(SkipReason::NoOperation { found: String::new() }) },
    }
}

/// Reads one graph in any form.
///
/// # Errors
/// What is wrong, in the terms of the form that the bytes seem to have; or several graphs.
pub fn import(bytes: &[u8], limits: &Limits) -> Result<ImportedGraph, ImportError> {
    match import_any(bytes, limits)? {
        Imported::Graph(graph) => Ok(*graph),
        Imported::Log(log) => one_of(&log, limits),
    }
}

/// Reads a graph in any form, or a text with MIOpenDriver lines.
///
/// # Errors
/// What is wrong, in the terms of the form that the bytes seem to have.
pub fn import_any(bytes: &[u8], limits: &Limits) -> Result<Imported, ImportError> {
    let one = |graph, form, warnings| Ok(Imported::Graph(Box::new(ImportedGraph { graph, form, warnings })));
    let seen = form::detect(bytes);
    match seen {
        Form::Empty => return Err(ImportError::Empty),
        form @ (Form::Plan | Form::Bundle | Form::Envelope) => return Err(ImportError::NotAGraph(form.name())),
        Form::Container => {
            let container = Container::open(bytes, limits)?;
            let graph = container.graph()?;
            let warnings = container.plan_bytes().map(|_| "the container holds a plan too, which is left behind: only the graph was read");
            let graph = GraphBuf::new(graph.buffer(), limits)?;
            return one(graph, GraphForm::HipdnnContainer, warnings.into_iter().map(str::to_owned).collect());
        }
        _ => {}
    }
    if form::is_utf16(bytes) {
        return Err(ImportError::Utf16);
    }
    let text = form::without_mark(bytes);
    if form::may_be_log(bytes) && driver::mentions_driver(text) {
        let log = driver::read_log(text, limits);
        return if log.problems.is_empty() { Err(no_problem(&log)) } else { Ok(Imported::Log(log)) };
    }
    // Text is taken for JSON, whatever it starts with: "not JSON" says more about a text than where a FlatBuffer would break.
    if seen == Form::Text {
        let json::Imported { graph, warnings } = json::import(text, limits)?;
        return one(graph, GraphForm::Json, warnings);
    }
    let form = if seen == Form::Artifact { GraphForm::Artifact } else { GraphForm::HipdnnBuffer };
    one(GraphBuf::new(bytes, limits)?, form, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_graph_says_what_it_is() {
        let read = |bytes: &[u8]| import(bytes, &Limits::DEFAULT).map(|i| i.form).map_err(|e| e.to_string());
        assert!(read(b"").is_err_and(|e| e.contains("empty")));
        assert!(read(b"\x89HPPL\r\n\x1a....").is_err_and(|e| e.contains("plan file")));
        assert!(read(b"\0\0\0\0HDGP....").is_err_and(|e| e.contains("HDGP")));
        assert!(read(b"  {}").is_err_and(|e| e.starts_with("JSON")));
        assert!(read(b"\x89HPGR\r\n\x1a").is_err_and(|e| e.starts_with("graph artifact")));
        assert!(read(b"hello, world").is_err_and(|e| e.starts_with("JSON")));
        assert!(read(b"\x01\x02\x03\x04\x05\x06").is_err_and(|e| e.starts_with("graph:")));
        assert!(read(b"\xff\xfeM\0I\0O\0").is_err_and(|e| e.contains("UTF-16")));
        assert!(read(b"MIOpenDriver pool -n 1").is_err_and(|e| e.contains("pool is not a convolution")));
        assert_eq!(read(b"noise\n['./bin/MIOpenDriver', 'conv', '-F', '1']\n"), Ok(GraphForm::MiopenDriver));
        assert_eq!(read(b"['./bin/MIOpenDriver', 'conv', '-F', '1']"), Ok(GraphForm::MiopenDriver));
        let error = read(b"MIOpenDriver conv\nMIOpenDriver conv -F 1").err();
        assert!(error.is_some_and(|e| e.contains("3 different convolutions (fwd in line 1")));
    }
}
