//! Aligned memory of this process whose size somebody else chose: not getting it is an error, not the end of the process.

/// Alignment of host memory, in bytes.
pub(crate) const ALIGN: usize = 64;

/// Zeroed bytes that start at a multiple of [`ALIGN`].
#[derive(Debug, Default)]
pub(crate) struct HostMemory {
    memory: Vec<u8>,
    /// First aligned byte, and the bytes from there.
    start: usize,
    len: usize,
}

impl HostMemory {
    /// So many bytes; nothing when they cannot be had.
    pub(crate) fn zeroed(bytes: u64) -> Option<Self> {
        let len = usize::try_from(bytes).ok()?;
        if len == 0 {
            return Some(Self::default());
        }
        let mut memory = Vec::new();
        memory.try_reserve_exact(len.checked_add(ALIGN)?).ok()?;
        memory.resize(len + ALIGN, 0);
        let start = (memory.as_ptr() as usize).wrapping_neg() % ALIGN;
        Some(Self { memory, start, len })
    }
}

impl std::ops::Deref for HostMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for HostMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

impl Clone for HostMemory {
    /// The copy is aligned by itself: a copied vector starts elsewhere.
    fn clone(&self) -> Self {
        let mut copy = Self { memory: vec![0; self.memory.len()], start: 0, len: self.len };
        if self.len > 0 {
            copy.start = (copy.memory.as_ptr() as usize).wrapping_neg() % ALIGN;
        }
        copy.copy_from_slice(self);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_an_impossible_amount_is_refused() {
        for bytes in [0, 1, 63, 64, 4097] {
            let mut memory = HostMemory::zeroed(bytes).expect("a little memory");
            memory.fill(7);
            for copy in [&memory.clone(), &memory] {
                assert_eq!(**copy, vec![7; bytes as usize]);
                assert!(bytes == 0 || (copy.as_ptr() as usize).is_multiple_of(ALIGN));
            }
        }
        for bytes in [1 << 60, u64::MAX - 63, u64::MAX] {
            assert!(HostMemory::zeroed(bytes).is_none(), "{bytes}");
        }
    }
}
