//! How large a thing from disk may be before anything is allocated for it.

/// Limits on what a store reads and writes. A file above its limit is a miss, a put above it is refused; the message names
/// the field to raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest plan file in bytes.
    pub max_plan_bytes: u64,
    /// Largest blob in bytes.
    pub max_blob_bytes: u64,
    /// Most rows of an index record.
    pub max_record_rows: u32,
    /// Most entries of a pack.
    pub max_pack_rows: u32,
    /// Most bytes of the provenance of a pack.
    pub max_provenance_bytes: u64,
    /// Most bytes that a wrapped bundle may have when it is unwrapped.
    pub max_unwrapped_bytes: u64,
}

impl Default for Limits {
    /// 1 GiB a plan, 4 GiB a blob, 1024 rows a record, 2^24 entries and 1 MiB of provenance a pack, 16 GiB a bundle that comes
    /// wrapped.
    fn default() -> Self {
        Self {
            max_plan_bytes: 1 << 30,
            max_blob_bytes: 4 << 30,
            max_record_rows: 1024,
            max_pack_rows: 1 << 24,
            max_provenance_bytes: 1 << 20,
            max_unwrapped_bytes: 16 << 30,
        }
    }
}

impl Limits {
    /// Those under which the packs of a folder are opened, whatever limits a store was given: what one writes, all others must be able to
    /// open.
    pub(crate) fn of_packs() -> Self {
        Self::default()
    }
}

/// Longer markers are not ours, nor those of any layout to come.
pub(crate) const MAX_MARKER_BYTES: u64 = 4096;
