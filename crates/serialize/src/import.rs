//! A graph in any form that is known here, told apart by its bytes.

use crate::json::JsonError;
use crate::{GraphBuf, GraphError, Limits, artifact, json, plan};

/// The forms that a graph comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphForm {
    /// A native artifact.
    Artifact,
    /// A bare hipDNN buffer.
    HipdnnBuffer,
    /// hipDNN JSON.
    Json,
}

impl GraphForm {
    /// A word for messages and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Artifact => "graph artifact",
            Self::HipdnnBuffer => "hipDNN buffer",
            Self::Json => "hipDNN JSON",
        }
    }
}

/// Bytes that are no graph in any known form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Nothing to read.
    #[error("the input is empty; a graph artifact, a hipDNN graph buffer or hipDNN JSON was expected")]
    Empty,
    /// A file of hipplan's that is not a graph.
    #[error("this is a {0}, not a graph; a graph artifact, a hipDNN graph buffer or hipDNN JSON was expected")]
    NotAGraph(&'static str),
    /// The binary graph is refused.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The JSON is refused.
    #[error(transparent)]
    Json(#[from] JsonError),
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

/// Reads a graph in any form.
///
/// # Errors
/// What is wrong, in the terms of the form that the bytes seem to have.
pub fn import(bytes: &[u8], limits: &Limits) -> Result<ImportedGraph, ImportError> {
    if bytes.is_empty() {
        return Err(ImportError::Empty);
    }
    if plan::is_plan(bytes) {
        return Err(ImportError::NotAGraph("plan file"));
    }
    if bytes.get(4..8) == Some(b"HDGP") {
        return Err(ImportError::NotAGraph("hipDNN graph-and-plan container (HDGP)"));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // Text is taken for JSON, whatever it starts with: "not JSON" says more about a text than where a FlatBuffer would break.
    if text[..text.len().min(64)].iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) {
        let json::Imported { graph, warnings } = json::import(text, limits)?;
        return Ok(ImportedGraph { graph, form: GraphForm::Json, warnings });
    }
    let form = if artifact::is_artifact(bytes) { GraphForm::Artifact } else { GraphForm::HipdnnBuffer };
    Ok(ImportedGraph { graph: GraphBuf::new(bytes, limits)?, form, warnings: Vec::new() })
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
    }
}
