//! What may be wrong with a code object.

use crate::target::ParseTargetError;

/// Bytes that are no code object, or one that does not say the same everywhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeObjectError {
    /// A bundle of clang's.
    #[error("this is {form}, not a code object: unpack it with clang-offload-bundler, or compile with --no-gpu-bundle-output")]
    Bundle {
        /// Which kind of bundle.
        form: &'static str,
    },
    /// Not an ELF file.
    #[error("not an ELF file: begins with {found:02x?}, expected 7f 45 4c 46")]
    Magic {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// An ELF file of another kind.
    #[error("{field} is {found}, expected {expected}")]
    Header {
        /// Name of the field.
        field: &'static str,
        /// What it holds.
        found: u64,
        /// What it must hold.
        expected: &'static str,
    },
    /// Something reaches beyond what holds it.
    #[error("{what} at {offset} with {size} bytes reaches beyond the {len} bytes of {within}")]
    Bounds {
        /// What.
        what: &'static str,
        /// Where it begins.
        offset: u64,
        /// How long it is.
        size: u64,
        /// What holds it.
        within: &'static str,
        /// How long that is.
        len: u64,
    },
    /// An address that no segment of the wanted kind holds in the file.
    #[error("{what} at address {address:#x} with {size} bytes is in no {kind} segment of the file")]
    Address {
        /// What.
        what: String,
        /// Where it should be.
        address: u64,
        /// How long it is.
        size: u64,
        /// Which segments were looked through.
        kind: &'static str,
    },
    /// Something that must be there once.
    #[error("there are {found} {what}, expected 1")]
    Count {
        /// What.
        what: &'static str,
        /// How many there are.
        found: usize,
    },
    /// The note is not MessagePack as the writer of notes makes it.
    #[error("metadata note, byte {at}: found {found}, expected {expected}")]
    Note {
        /// Place in the note.
        at: usize,
        /// What stands there.
        found: String,
        /// What should.
        expected: &'static str,
    },
    /// A key that must be in a map of the note is not.
    #[error("metadata note: {within} has no {key}")]
    Missing {
        /// The map.
        within: String,
        /// The key.
        key: &'static str,
    },
    /// A key stands twice in a map of the note.
    #[error("metadata note: {within} states {key} twice")]
    Twice {
        /// The map.
        within: String,
        /// The key.
        key: &'static str,
    },
    /// A value of the note that cannot be.
    #[error("metadata note: {key} of {within} is {found}, expected {expected}")]
    Value {
        /// The map.
        within: String,
        /// The key.
        key: &'static str,
        /// The value.
        found: String,
        /// What it must be.
        expected: String,
    },
    /// The note's target is none.
    #[error("metadata note: {0}")]
    Target(#[from] ParseTargetError),
    /// The note says one thing, and what it is about another.
    #[error("the metadata note disagrees with {with} about {what}: {note} in the note, {payload} there")]
    Disagreement {
        /// The other place.
        with: String,
        /// What about.
        what: &'static str,
        /// As the note has it.
        note: String,
        /// As the other place has it.
        payload: String,
    },
    /// A kernel of the note that the symbol table lacks.
    #[error("the metadata note names kernel descriptor {symbol:?}, and no symbol is called so")]
    Symbol {
        /// The name.
        symbol: String,
    },
}
