//! Where the decisions of a generator come from.

/// A source of numbers: SplitMix64, so that what is made is a function of the seed; or the bytes that a fuzzer gives, as long as
/// there are any.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
    bytes: Vec<u8>,
    at: usize,
}

impl Rng {
    /// Numbers that follow from a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed, bytes: Vec::new(), at: 0 }
    }

    /// Decisions are read from `bytes`, one byte each where one is enough; behind their end they follow from a fixed seed.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { state: 0, bytes: bytes.to_vec(), at: 0 }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(taken)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        if let Some(bytes) = self.take() {
            return u64::from_le_bytes(bytes);
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n <= 256
            && let Some([byte]) = self.take()
        {
            return usize::from(byte) % n;
        }
        (self.any() % n as u64) as usize
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Any order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}
