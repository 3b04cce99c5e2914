//! Why a function failed: a status and a text.

use crate::payload::PayloadError;
use hipplan_engine_abi::status::{self, Status};
use hipplan_exec::ExecError;
use hipplan_planner::CompileError;
use hipplan_serialize::GraphError;
use hipplan_serialize::canon::{DecodeError, NoKey};
use hipplan_serialize::plan::PlanError;

/// A call that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Failure {
    fn new(status: Status, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// An argument that cannot be used at all: null, or no handle.
    pub(crate) fn bad_param(text: impl Into<String>) -> Self {
        Self::new(status::BAD_PARAM, text)
    }

    /// An argument that can be read and is refused.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(status::INVALID_VALUE, text)
    }

    /// The engine does not execute the graph.
    pub(crate) fn not_applicable(text: impl Into<String>) -> Self {
        Self::new(status::NOT_APPLICABLE, text)
    }

    /// What the caller cannot mend.
    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self::new(status::INTERNAL_ERROR, text)
    }
}

impl From<GraphError> for Failure {
    fn from(error: GraphError) -> Self {
        // What is too new or too large is no defect of the graph.
        match &error {
            GraphError::Limit { .. } | GraphError::UnknownEnum { .. } => Self::not_applicable(error.to_string()),
            _ if error.is_too_new() => Self::not_applicable(error.to_string()),
            _ => Self::invalid(error.to_string()),
        }
    }
}

impl From<NoKey> for Failure {
    fn from(error: NoKey) -> Self {
        Self::not_applicable(error.to_string())
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::internal(error.to_string())
    }
}

impl From<CompileError> for Failure {
    fn from(error: CompileError) -> Self {
        match &error {
            CompileError::NoKey(_) | CompileError::NoApplicableEngines { .. } => Self::not_applicable(error.to_string()),
            _ => Self::internal(error.to_string()),
        }
    }
}

impl From<PayloadError> for Failure {
    fn from(error: PayloadError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<ExecError> for Failure {
    fn from(error: ExecError) -> Self {
        let status = match &error {
            ExecError::OutOfMemory { .. } => status::ALLOC_FAILED,
            // What is wrong with a buffer.
            ExecError::InvalidValue { .. } | ExecError::Shape(_) => status::INVALID_VALUE,
            // What is wrong with a serialised context: its plan, or the uids beside it.
            ExecError::Plan(_)
            | ExecError::Cpu(_)
            | ExecError::Target { .. }
            | ExecError::UidsMissing { .. }
            | ExecError::UidTwice { .. }
            | ExecError::BindingDisagrees { .. }
            | ExecError::NoBinding { .. } => status::INVALID_VALUE,
            _ => status::INTERNAL_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
