//! What a store asks of a far tier. Implementations are in a crate of their own.

use crate::EntryKind;

/// A tier behind all others: shared, far, perhaps slow or dead. Whatever it gives is checked as if it came from a stranger.
///
/// Every call is bounded in time by the implementation, which leaves a tier that does not answer alone after a while
/// ([`RemoteErrorKind::Resting`]): a dead one costs a stated delay once, not once a lookup.
pub trait RemoteTier: Send + Sync + std::fmt::Debug {
    /// The bytes of an entry, at most `max`; `None` where the tier says that it has none.
    ///
    /// # Errors
    /// The tier gave no answer, or refused, or what it has is larger.
    fn get(&self, kind: EntryKind, name: &[u8; 32], max: u64) -> Result<Option<Vec<u8>>, RemoteError>;

    /// Puts an entry there. Blobs and plans are immutable and may be left as they are; a record replaces the one before.
    ///
    /// # Errors
    /// The tier gave no answer, or refused.
    fn put(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<(), RemoteError>;

    /// What to call it in messages. Holds no credentials.
    fn name(&self) -> &str;
}

/// Why a far tier did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RemoteError {
    /// Which kind of failure.
    pub kind: RemoteErrorKind,
    /// What happened, where and what to do; no credentials.
    pub message: String,
}

/// Kinds of failures of a far tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RemoteErrorKind {
    /// No answer in the time that is allowed.
    Timeout,
    /// No connection.
    Unreachable,
    /// It answered that this may not be done.
    Refused,
    /// What it has is larger than was allowed.
    TooLarge,
    /// What it sent is not what it should have sent.
    Garbled,
    /// It failed before and is left alone for a while: nothing was sent.
    Resting,
    /// Anything else.
    Other,
}
