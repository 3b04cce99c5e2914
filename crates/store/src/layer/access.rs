//! What may be done with a layer.

use crate::StoreError;

/// What may be done with a layer, and what a failed write is.
#[derive(Debug)]
pub(crate) enum Access {
    /// Nothing is written, created or touched.
    ReadOnly,
    /// A failed write is an error.
    ReadWrite,
    /// As `ReadWrite`, but a failed write is an answer rather than an error.
    Degrading,
    /// Opening failed, and work goes on without.
    Unavailable(StoreError),
}

impl Access {
    /// Whether anything may be written.
    pub(crate) const fn is_writable(&self) -> bool {
        matches!(self, Self::ReadWrite | Self::Degrading)
    }
}
