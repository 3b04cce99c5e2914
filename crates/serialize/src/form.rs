//! What some bytes are, told from the bytes alone and without reading them whole.
#![deny(clippy::as_conversions)]

use crate::wire::root::{RawTable, u32_at};
use crate::{artifact, hipdnn, plan};

/// What packs begin with. They are read by the store, and only recognised here.
const PACK: [u8; 8] = *b"\x89HPPK\r\n\x1a";

/// The forms that hipplan can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// No bytes at all.
    Empty,
    /// A native graph artifact.
    Artifact,
    /// A native plan file.
    Plan,
    /// A pack of a store, or a bundle, which is one that travels.
    Bundle,
    /// hipDNN's container of a graph and perhaps a plan (`HDGP`).
    Container,
    /// Text: hipDNN JSON, if it is anything of hipDNN's.
    Text,
    /// A bare hipDNN graph buffer.
    Graph,
    /// A bare hipDNN plan envelope.
    Envelope,
    /// Could be a bare graph and could be a bare plan envelope. No known writer makes such a buffer.
    GraphOrEnvelope,
    /// None of these, or damaged where it would show what it is.
    Unknown,
}

impl Form {
    /// A word for messages and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Artifact => "graph artifact",
            Self::Plan => "plan file",
            Self::Bundle => "bundle of plans",
            Self::Container => "hipDNN graph-and-plan container (HDGP)",
            Self::Text => "text",
            Self::Graph => "hipDNN graph buffer",
            Self::Envelope => "hipDNN plan envelope",
            Self::GraphOrEnvelope => "hipDNN graph buffer or plan envelope",
            Self::Unknown => "unknown",
        }
    }
}

/// Tells the form of some bytes. Looks at a bounded number of places, verifies nothing and takes no memory: the reader of the
/// form says what is wrong with the bytes.
///
/// In this order: the identifiers of those forms that have one, then text, then the shape of the root table. A bare graph and a
/// bare plan envelope carry no identifier. A graph has lists of tables in slots 4 and 5 and text, or nothing, in slot 0. An
/// envelope has a small number in slot 0, a list of numbers in slot 3, and bytes in slot 4 or 5.
pub fn detect(bytes: &[u8]) -> Form {
    if bytes.is_empty() {
        Form::Empty
    } else if artifact::is_artifact(bytes) {
        Form::Artifact
    } else if plan::is_plan(bytes) {
        Form::Plan
    } else if bytes.starts_with(&PACK) {
        Form::Bundle
    } else if hipdnn::container::is_container(bytes) {
        Form::Container
    } else if is_text(without_mark(bytes)) {
        Form::Text
    } else {
        match RawTable::root(bytes).map(|root| (is_graph(&root), is_envelope(bytes, &root))) {
            Some((true, true)) => Form::GraphOrEnvelope,
            Some((true, false)) => Form::Graph,
            Some((false, true)) => Form::Envelope,
            Some((false, false)) | None => Form::Unknown,
        }
    }
}

/// Whether bytes are text with MIOpenDriver lines in it, which may be any number of graphs. The beginning of a text is enough to
/// tell that it is none: JSON begins with a brace, a binary form holds a zero early. Logs hold all sorts of things: they need not be
/// [`Form::Text`].
pub fn may_be_log(beginning: &[u8]) -> bool {
    let beginning = beginning.get(..4096).unwrap_or(beginning);
    matches!(detect(beginning), Form::Text | Form::Unknown) && !beginning.contains(&0) && !is_json(without_mark(beginning))
}

/// Text behind the mark that some editors put before it.
pub(crate) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Text in 16-bit units, by its mark.
pub(crate) fn is_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
}

fn is_json(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    // A Python list of words is no JSON: its strings have single quotes, or its first word is a path.
    text.first() == Some(&b'{')
        || text.first() == Some(&b'[') && text.get(1..).is_some_and(|t| matches!(t.trim_ascii_start().first(), Some(b'{' | b'[' | b']')))
}

/// UTF-8 without control characters at the start. The last character may be cut.
fn is_text(text: &[u8]) -> bool {
    let Some((text, _)) = text.split_at_checked(text.len().min(256)) else { return false };
    // Logs may be coloured.
    let is_plain = |b: &u8| !b.is_ascii_control() || b.is_ascii_whitespace() || *b == 0x1b;
    text.iter().all(is_plain) && std::str::from_utf8(text).map_or_else(|e| e.error_len().is_none(), |_| true)
}

fn is_graph(root: &RawTable<'_>) -> bool {
    let absent_or = |slot, there: bool| there || root.slot(slot).is_none();
    let (tensors, nodes) = (root.has_tables(4), root.has_tables(5));
    absent_or(0, root.vector(0, 1).is_some()) && absent_or(4, tensors) && absent_or(5, nodes) && (tensors || nodes)
}

fn is_envelope(bytes: &[u8], root: &RawTable<'_>) -> bool {
    let version = root.slot(0).filter(|&(_, room)| room >= 4).and_then(|(at, _)| u32_at(bytes, at));
    version.is_some_and(|v| (1..=0xffff).contains(&v))
        && root.vector(3, 8).is_some_and(|uids| !uids.is_empty())
        && (root.vector(4, 1).is_some() || root.vector(5, 1).is_some())
}
