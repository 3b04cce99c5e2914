//! Why a plan file or a payload is refused.

/// A plan file that cannot be used. *Too old*, *too new* and *damaged* are told apart by
/// [`is_too_old`](Self::is_too_old) and [`is_too_new`](Self::is_too_new).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Fewer bytes than a header.
    #[error("plan: {found} bytes are fewer than the {expected} of a header; the file is truncated or not a plan")]
    TooShort {
        /// Bytes present.
        found: u64,
        /// Bytes of a header.
        expected: u64,
    },
    /// The first eight bytes are not a plan's.
    #[error("plan: magic is {found:02x?}; this is not a plan file (a `.plan` written by hipplan was expected)")]
    Magic {
        /// Bytes present.
        found: [u8; 8],
    },
    /// Written by a hipplan too old to be read.
    #[error("plan: format major {found} is too old, this hipplan reads {expected}; compile the graph again")]
    TooOld {
        /// Major in the file.
        found: u16,
        /// Major of this reader.
        expected: u16,
    },
    /// Written by a newer hipplan.
    #[error("plan: format major {found} is too new, this hipplan reads {expected}; use the hipplan that wrote it, or compile again")]
    TooNew {
        /// Major in the file.
        found: u16,
        /// Major of this reader.
        expected: u16,
    },
    /// The file requires something that this reader does not know.
    #[error("plan: required feature bits {unknown:#x} are unknown to this hipplan; the file is too new")]
    UnknownFeature {
        /// The bits.
        unknown: u32,
    },
    /// The header's length is not the file's.
    #[error("plan: {found} bytes present, the header says {expected}; the file is truncated or has grown")]
    Length {
        /// Bytes present.
        found: u64,
        /// Bytes stated.
        expected: u64,
    },
    /// The buffer does not start at a multiple of 16.
    #[error("plan: the buffer starts at an address that is not a multiple of 16; read the file into `AlignedBytes`")]
    Misaligned,
    /// Header, section table or metadata are not what was written.
    #[error("plan: root hash over header, section table and metadata is {found}, the header says {expected}; the file is damaged")]
    RootHash {
        /// Hash of the bytes present.
        found: crate::RootHash,
        /// Hash stated.
        expected: crate::RootHash,
    },
    /// A row of the section table contradicts the file.
    #[error("plan: section {index}: {field} is {found}, expected {expected}")]
    Section {
        /// Row in the section table.
        index: u32,
        /// Field of the row.
        field: &'static str,
        /// What the row says.
        found: u64,
        /// What the file implies.
        expected: u64,
    },
    /// A section that every plan has stands not exactly once.
    #[error("plan: {count} sections of kind {name}, expected exactly 1")]
    SectionCount {
        /// Name of the kind.
        name: &'static str,
        /// How often it stands in the table.
        count: u32,
    },
    /// The bytes of a section are not what was written.
    #[error("plan: section {index} ({name}): digest is {found}, the section table says {expected}; the file is damaged")]
    SectionDigest {
        /// Row in the section table.
        index: u32,
        /// Name of the kind.
        name: &'static str,
        /// Digest of the bytes present.
        found: crate::ContentHash,
        /// Digest stated.
        expected: crate::ContentHash,
    },
    /// The metadata does not decode.
    #[error("plan: metadata does not validate: {0}")]
    Metadata(String),
    /// A field of the metadata contradicts another or its own type.
    #[error("plan: metadata: {field} is {found}, expected {expected}")]
    MetadataField {
        /// The field.
        field: String,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: String,
    },
    /// The payload container is refused.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// Something is too large for the format's fixed-width fields.
    #[error("plan: {what} has {size} bytes, the format holds at most {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The format's limit.
        limit: u64,
    },
}

impl PlanError {
    /// Written by a version that is no longer read.
    pub fn is_too_old(&self) -> bool {
        matches!(self, Self::TooOld { .. } | Self::Payload(PayloadError::TooOld { .. }))
    }

    /// Written by a version that is not yet read.
    pub fn is_too_new(&self) -> bool {
        matches!(self, Self::TooNew { .. } | Self::UnknownFeature { .. } | Self::Payload(PayloadError::TooNew { .. }))
    }
}

/// A provider payload container that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// Fewer bytes than a container header.
    #[error("payload: {found} bytes are fewer than the 64 of a container header")]
    TooShort {
        /// Bytes present.
        found: u64,
    },
    /// The first eight bytes are not a container's.
    #[error("payload: magic is {found:02x?}, not a provider payload container's")]
    Magic {
        /// Bytes present.
        found: [u8; 8],
    },
    /// The kind is not a zero-padded ASCII name.
    #[error("payload: kind {found:02x?} is not a zero-padded ASCII name")]
    KindText {
        /// Bytes present.
        found: [u8; 16],
    },
    /// No loader for this kind.
    #[error("payload: kind {found:?} is unknown, loaders here accept {expected}; nothing in it was read")]
    UnknownKind {
        /// Kind in the container.
        found: String,
        /// Kinds that are accepted.
        expected: String,
    },
    /// Below the range that the loader accepts.
    #[error("payload: {kind} format version {found} is too old, the loader reads {min}..={max}; compile the graph again")]
    TooOld {
        /// Kind in the container.
        kind: String,
        /// Version in the container.
        found: u32,
        /// Oldest version read.
        min: u32,
        /// Newest version read.
        max: u32,
    },
    /// Above the range that the loader accepts.
    #[error("payload: {kind} format version {found} is too new, the loader reads {min}..={max}; use the hipplan that wrote it")]
    TooNew {
        /// Kind in the container.
        kind: String,
        /// Version in the container.
        found: u32,
        /// Oldest version read.
        min: u32,
        /// Newest version read.
        max: u32,
    },
    /// A field contradicts the container.
    #[error("payload: {field} is {found}, expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it holds.
        found: u64,
        /// What it should hold.
        expected: String,
    },
    /// The body does not decode.
    #[error("payload: {kind} body: {reason}")]
    Body {
        /// Kind in the container.
        kind: String,
        /// What is wrong.
        reason: String,
    },
}
