//! Scratch memory: one aligned allocation, made when a program is prepared and carved up by offsets.

use super::CpuError;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment of every scratch region, in bytes.
pub(crate) const ALIGN: usize = 64;
/// Most scratch that a program may ask for.
pub(crate) const MAX_SCRATCH: u64 = 8 << 30;

/// Rounds a byte count up to [`ALIGN`].
pub(crate) const fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGN as u64)
}

/// Bytes of `count` elements of `T`, aligned; saturating, so that a limit check catches what does not fit.
pub(crate) fn bytes_of<T>(count: u64) -> u64 {
    let bytes = count.saturating_mul(size_of::<T>() as u64);
    if bytes > MAX_SCRATCH { u64::MAX / 4 } else { aligned(bytes) }
}

/// Zeroed memory aligned to [`ALIGN`].
///
/// It is asked for with the allocator's own alignment and aligned here: an over-aligned request is zeroed by hand, which touches every
/// page of it when a plan is bound, whereas fresh pages are zero already.
#[derive(Debug)]
pub(crate) struct Scratch {
    start: NonNull<u8>,
    /// What was allocated, `ALIGN` bytes more than was asked for; nothing for no bytes.
    allocation: Option<(NonNull<u8>, Layout)>,
}

// SAFETY: the memory is owned; access goes through raw pointers, for which the accessors argue.
unsafe impl Send for Scratch {}
// SAFETY: as for `Send`; the shared methods only hand out the address.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// Allocates `bytes`.
    pub(crate) fn new(bytes: u64) -> Result<Self, CpuError> {
        if bytes > MAX_SCRATCH {
            return Err(CpuError::ScratchTooLarge { needed: bytes, limit: MAX_SCRATCH });
        }
        if bytes == 0 {
            return Ok(Self { start: NonNull::dangling(), allocation: None });
        }
        let out = || CpuError::OutOfMemory { needed: bytes };
        let size = usize::try_from(bytes).ok().and_then(|size| size.checked_add(ALIGN)).ok_or_else(out)?;
        let layout = Layout::from_size_align(size, 1).map_err(|_| out())?;
        // SAFETY: the layout's size is not zero.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(out)?;
        // SAFETY: an address is less than `ALIGN` bytes below its next multiple, and that many more than asked for were allocated.
        let start = unsafe { first.add(first.addr().get().wrapping_neg() % ALIGN) };
        Ok(Self { start, allocation: Some((first, layout)) })
    }

    /// First byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some((first, layout)) = self.allocation {
            // SAFETY: the memory came from `alloc_zeroed` with this layout and is freed once.
            unsafe { dealloc(first.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_zero_and_limits_hold() {
        let scratch = Scratch::new(1000).unwrap();
        assert_eq!(scratch.start() as usize % ALIGN, 0);
        // SAFETY: a thousand bytes were allocated, zeroed.
        assert!(unsafe { std::slice::from_raw_parts(scratch.start(), 1000) }.iter().all(|&b| b == 0));
        assert!(Scratch::new(0).is_ok());
        assert!(matches!(Scratch::new(MAX_SCRATCH + 1), Err(CpuError::ScratchTooLarge { .. })));
        assert_eq!(bytes_of::<f32>(17), 128);
        assert!(bytes_of::<f64>(u64::MAX) > MAX_SCRATCH);
    }
}
