//! What can be wrong with a pack, or with what is to become one.

use crate::EntryKind;
use crate::pack::format::{HEADER, VERSION};
use hipplan_serialize::ContentHash;
use std::fmt;

/// An entry in messages: its kind and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryId {
    /// What it is.
    pub kind: EntryKind,
    /// Content hash, root hash or key, as the kind has it.
    pub name: [u8; 32],
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.word(), ContentHash(self.name))
    }
}

/// A file that is no pack or not one that can be read, an entry in it that is not what was put there, or entries of which no
/// pack can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// Fewer bytes than a header.
    #[error("pack: {found} bytes are fewer than the {HEADER} of a header; the file is truncated or not a pack")]
    TooShort {
        /// Bytes present.
        found: u64,
    },
    /// The first eight bytes are not a pack's.
    #[error("pack: magic is {found:02x?}; this is not a pack")]
    Magic {
        /// Bytes present.
        found: [u8; 8],
    },
    /// Written by a hipplan too old to be read.
    #[error("pack: version {found} is too old, this hipplan reads {VERSION}")]
    TooOld {
        /// Version in the file.
        found: u16,
    },
    /// Written by a newer hipplan.
    #[error("pack: version {found} is too new, this hipplan reads {VERSION}")]
    TooNew {
        /// Version in the file.
        found: u16,
    },
    /// It needs something that this hipplan does not know.
    #[error("pack: required feature bit {found} is not known to this hipplan")]
    Feature {
        /// Number of the lowest unknown bit.
        found: u32,
    },
    /// The header is not the one that was written.
    #[error("pack: digest of the header is {found}, it says {expected}; the file is damaged")]
    Header {
        /// Digest of the bytes present.
        found: ContentHash,
        /// Digest stated.
        expected: ContentHash,
    },
    /// The file ends too early, or goes on behind its end with something else than signatures.
    #[error("pack: {found} bytes present, expected {expected}{more}; the file is truncated or has grown", more = .signed)]
    Length {
        /// Bytes present.
        found: u64,
        /// Bytes stated.
        expected: u64,
        /// What may follow them.
        signed: &'static str,
    },
    /// A field has a value that no writer gives it.
    #[error("pack: {field} is {found}, expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// The header, tables and provenance are not those that were written.
    #[error("pack: root of the tables is {found}, the header says {expected}; the file is damaged")]
    Root {
        /// Root of the bytes present.
        found: ContentHash,
        /// Root stated.
        expected: ContentHash,
    },
    /// The fan-out table points elsewhere than at the rows of a bucket.
    #[error("pack: bucket {bucket} of the {kind} fan-out has rows {found}, expected {expected}", kind = .kind.word())]
    FanOut {
        /// Kind of entries.
        kind: EntryKind,
        /// Number of the bucket.
        bucket: u32,
        /// The rows that it names.
        found: String,
        /// What they should be.
        expected: &'static str,
    },
    /// A row has a value that no writer gives it.
    #[error("pack: {field} of {kind} row {row} is {found}, expected {expected}", kind = .kind.word())]
    Row {
        /// Kind of entries.
        kind: EntryKind,
        /// Number of the row among those of its kind.
        row: u32,
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// The bytes of an entry are not those that were put there.
    #[error("pack: digest of {entry} is {found}, its row says {expected}; the entry is damaged")]
    Entry {
        /// The entry.
        entry: EntryId,
        /// Digest of the bytes present.
        found: ContentHash,
        /// Digest stated.
        expected: ContentHash,
    },
    /// The file has become shorter since it was opened.
    #[error("pack: the file has been cut short since it was opened with {opened} bytes; packs are replaced, never changed")]
    CutShort {
        /// Bytes that it had.
        opened: u64,
    },
    /// Something is more than the reader's limits allow.
    #[error("pack: {what} is {found}, the limit `{limit}` is {max}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        found: u64,
        /// Field of [`Limits`](crate::Limits).
        limit: &'static str,
        /// Its value.
        max: u64,
    },
    /// An entry is larger than its reader allows.
    #[error("pack: {entry} has {found} bytes, at most {max} are allowed for it")]
    TooLarge {
        /// The entry.
        entry: EntryId,
        /// Its size.
        found: u64,
        /// The most that is taken.
        max: u64,
    },
    /// A signature is required and there is none.
    #[error("pack: found no signature, expected one by a key that is trusted")]
    Unsigned,
    /// There are signatures, and none of them counts.
    #[error("pack: found signatures by {found}, expected one by a key that is trusted, of which there are {trusted}")]
    Untrusted {
        /// The keys, and what is wrong with each.
        found: String,
        /// Number of trusted keys.
        trusted: usize,
    },
    /// A bundle cannot be got out of its wrapping.
    #[error("wrapped bundle: {found}, expected {expected}")]
    Wrapping {
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
    /// A pack cannot be made of these entries: nothing was written.
    #[error("not packed: {what} is {found}, expected {expected}")]
    Refused {
        /// What is wrong.
        what: &'static str,
        /// Its value.
        found: String,
        /// What it should be.
        expected: String,
    },
}

impl PackError {
    /// See [`StoreError::code`](crate::StoreError::code).
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::TooOld { .. } => "too-old",
            Self::TooNew { .. } | Self::Feature { .. } => "too-new",
            Self::Limit { .. } | Self::TooLarge { .. } => "limit",
            Self::Refused { .. } => "refused",
            Self::Unsigned => "unsigned",
            Self::Untrusted { .. } => "untrusted",
            Self::TooShort { .. }
            | Self::Magic { .. }
            | Self::Header { .. }
            | Self::Length { .. }
            | Self::Field { .. }
            | Self::Root { .. }
            | Self::FanOut { .. }
            | Self::Row { .. }
            | Self::Entry { .. }
            | Self::CutShort { .. }
            | Self::Wrapping { .. } => "damaged",
        }
    }

    pub(crate) fn is_too_old(&self) -> bool {
        self.code() == "too-old"
    }

    pub(crate) fn is_too_new(&self) -> bool {
        self.code() == "too-new"
    }
}
