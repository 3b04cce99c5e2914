//! The canonical encoding of a graph (G7): what a [`GraphKey`] is the hash of, and all that a provider sees.
//!
//! The layout is in `docs/format.md`.

mod decode;
mod encode;

pub(crate) use decode::Decoder;
pub use decode::{DecodeError, decode, decode_as, is_override_shape_enabled};
pub(crate) use encode::{Encoder, UsedTensors, canonical_strides, encode};

use crate::{GraphKey, Limits, Uid};

pub(crate) const MAGIC: [u8; 8] = *b"HPCANON\0";
pub(crate) const VERSION: u32 = 1;

/// Bits of a tensor record's flags.
pub(crate) mod flag {
    pub(crate) const VIRTUAL: u8 = 1;
    pub(crate) const RUNTIME: u8 = 2;
    pub(crate) const VALUE: u8 = 4;
    pub(crate) const RAGGED: u8 = 8;
}

/// A graph in canonical form: what it executes, without how its author named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    /// The encoding.
    pub encoding: Vec<u8>,
    /// Its hash.
    pub key: GraphKey,
    /// The author's uid of each tensor, by canonical ordinal.
    pub uids: Vec<Uid>,
    /// The limits under which the graph was checked: with them the encoding can be decoded.
    pub limits: Limits,
}

/// Why a graph has no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "graph: no key: {place} holds fields that this hipplan does not know, so it cannot tell what the graph computes; use a newer hipplan"
)]
pub struct NoKey {
    /// The table with unknown fields.
    pub place: String,
}
