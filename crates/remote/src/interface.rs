//! Stand-in until hipplan-store has it.
#![allow(missing_docs, reason = "stand-in")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    Blob,
    Plan,
    PlanRecord,
    Selection,
}
pub trait RemoteTier: Send + Sync + std::fmt::Debug {
    fn get(&self, kind: EntryKind, name: &[u8; 32], max: u64) -> Result<Option<Vec<u8>>, RemoteError>;
    fn put(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<(), RemoteError>;
    fn name(&self) -> &str;
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    pub message: String,
    pub kind: RemoteErrorKind,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteErrorKind {
    Timeout,
    Unreachable,
    Refused,
    TooLarge,
    Open,
    Other,
}
