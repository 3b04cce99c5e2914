//! Byte buffers aligned well enough to be read in place.

/// A byte buffer aligned to 64 bytes: graph buffers and plan files are read into one, so that their views can hand out
/// typed slices without copying.
pub type AlignedBytes = rkyv::util::AlignedVec<64>;

/// A copy of `bytes` in an aligned buffer.
pub fn aligned_copy(bytes: &[u8]) -> AlignedBytes {
    let mut copy = AlignedBytes::with_capacity(bytes.len());
    copy.extend_from_slice(bytes);
    copy
}

/// `n` rounded up to a multiple of 64, if that can be counted.
pub(crate) fn round_up_64(n: u64) -> Option<u64> {
    n.checked_add(63).map(|n| n & !63)
}
