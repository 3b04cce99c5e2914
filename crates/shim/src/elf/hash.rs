//! The two hash tables through which the dynamic linker finds symbols: lookup as it does it, and the tables after names have changed.
//!
//! Sources: System V ABI chapter 5 ("Hash Table"); for the GNU table, what glibc's `do_lookup_x` reads.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable
)]

use super::{Elf, slice, u32_at, u64_at};
use crate::error::Unsuitable;
use object::elf;
use std::ops::Range;

const GNU: Unsuitable = Unsuitable::Layout("the GNU hash table is damaged");
const SYSV: Unsuitable = Unsuitable::Layout("the SysV hash table is damaged");

/// `DT_GNU_HASH`.
#[derive(Clone, Debug)]
pub struct GnuHash<'a> {
    /// The whole table in the file.
    pub range: Range<u64>,
    /// Symbols before this one are not in the table.
    pub first: u32,
    shift: u32,
    bloom: &'a [u8],
    buckets: &'a [u8],
    chains: &'a [u8],
}

impl<'a> GnuHash<'a> {
    pub(super) fn read(bytes: &'a [u8], range: Range<u64>, symbols: u32) -> Result<Self, Unsuitable> {
        let table = slice(bytes, range.clone()).ok_or(GNU)?;
        let word = |at| u32_at(table, at).ok_or(GNU);
        let (buckets, first, bloom, shift) = (word(0)?, word(4)?, word(8)?, word(12)?);
        // The null symbol is never in it. glibc masks with the number of words, so it must be a power of two.
        let sane = buckets != 0 && bloom.is_power_of_two() && shift < 32 && first != 0 && first <= symbols.max(1);
        let lengths = u64::from(bloom).checked_mul(8).zip(u64::from(buckets).checked_mul(4));
        let (true, Some((bloom, buckets))) = (sane, lengths) else { return Err(GNU) };
        let at = |n: u64, more: u64| n.checked_add(more).ok_or(GNU);
        let buckets_at = at(16, bloom)?;
        let chains_at = at(buckets_at, buckets)?;
        let chains = u64::from(symbols.saturating_sub(first)).checked_mul(4).ok_or(GNU)?;
        let part = |start, end| slice(table, start..end).ok_or(GNU);
        Ok(Self {
            first,
            shift,
            bloom: part(16, buckets_at)?,
            buckets: part(buckets_at, chains_at)?,
            chains: part(chains_at, at(chains_at, chains)?)?,
            range,
        })
    }

    /// Number of buckets.
    pub fn bucket_count(&self) -> u32 {
        u32::try_from(self.buckets.as_chunks::<4>().0.len()).unwrap_or(u32::MAX)
    }

    /// Whether the dynamic linker comes past this symbol when it looks for its name.
    pub fn finds(&self, name: &[u8], symbol: u32) -> bool {
        self.search(name, symbol).unwrap_or(false)
    }

    fn search(&self, name: &[u8], symbol: u32) -> Option<bool> {
        let hash = elf::gnu_hash(name);
        let words = u64::try_from(self.bloom.as_chunks::<8>().0.len()).ok()?;
        let word = u64_at(self.bloom, u64::from(hash >> 6).checked_rem(words)?.checked_mul(8)?)?;
        if word >> (hash & 63) & (word >> (hash.checked_shr(self.shift)? & 63)) & 1 == 0 {
            return Some(false);
        }
        let mut at = u32_at(self.buckets, u64::from(hash.checked_rem(self.bucket_count())?).checked_mul(4)?)?;
        if at < self.first {
            return Some(false);
        }
        loop {
            let chain = u32_at(self.chains, u64::from(at.checked_sub(self.first)?).checked_mul(4)?)?;
            if chain | 1 == hash | 1 && at == symbol {
                return Some(true);
            }
            if chain & 1 != 0 {
                return Some(false);
            }
            at = at.checked_add(1)?;
        }
    }

    /// The order in which the symbols from [`first`](Self::first) must stand for these names, as their old indices: ascending by
    /// bucket, the old order within one.
    pub fn order(&self, names: &[&[u8]]) -> Vec<u32> {
        let buckets = self.bucket_count();
        let bucket = |i: u32| {
            let name = usize::try_from(i).ok().and_then(|i| names.get(i)).copied().unwrap_or_default();
            elf::gnu_hash(name).checked_rem(buckets)
        };
        let end = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let mut order: Vec<u32> = (self.first..end).collect();
        order.sort_by_cached_key(|&i| bucket(i));
        order
    }

    /// The table for symbols of these names, as many as before and ordered as [`order`](Self::order) says; `names` begins with the null
    /// symbol's.
    pub fn rebuilt(&self, names: &[&[u8]]) -> Vec<u8> {
        let first = usize::try_from(self.first).unwrap_or(usize::MAX);
        let hashes: Vec<u32> = names.iter().skip(first).map(|n| elf::gnu_hash(n)).collect();
        let mut bloom = vec![0_u64; self.bloom.as_chunks::<8>().0.len()];
        let mut buckets = vec![0_u32; self.buckets.as_chunks::<4>().0.len()];
        let mut chains = Vec::with_capacity(hashes.len());
        let bucket_of = |hash: u32| hash.checked_rem(self.bucket_count()).and_then(|b| usize::try_from(b).ok()).unwrap_or(0);
        for ((index, &hash), next) in (self.first..).zip(&hashes).zip(hashes.iter().skip(1).map(Some).chain([None])) {
            let word = usize::try_from(hash >> 6).unwrap_or(0).checked_rem(bloom.len()).unwrap_or(0);
            if let Some(word) = bloom.get_mut(word) {
                *word |= 1 << (hash & 63) | 1 << (hash.checked_shr(self.shift).unwrap_or(0) & 63);
            }
            let bucket = bucket_of(hash);
            if let Some(start) = buckets.get_mut(bucket).filter(|b| **b == 0) {
                *start = index;
            }
            let is_last = next.is_none_or(|&next| bucket_of(next) != bucket);
            chains.push(hash & !1 | u32::from(is_last));
        }
        let header = [self.bucket_count(), self.first, u32::try_from(bloom.len()).unwrap_or(0), self.shift];
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        let bloom: Vec<u8> = bloom.iter().flat_map(|w| w.to_le_bytes()).collect();
        [words(&header), bloom, words(&buckets), words(&chains)].concat()
    }
}

/// `DT_HASH`.
#[derive(Clone, Debug)]
pub struct SysvHash<'a> {
    /// The whole table in the file.
    pub range: Range<u64>,
    buckets: &'a [u8],
    chains: &'a [u8],
}

impl<'a> SysvHash<'a> {
    pub(super) fn read(bytes: &'a [u8], range: Range<u64>, symbols: u32) -> Result<Self, Unsuitable> {
        let table = slice(bytes, range.clone()).ok_or(SYSV)?;
        let (Some(buckets), Some(chains)) = (u32_at(table, 0), u32_at(table, 4)) else { return Err(SYSV) };
        if buckets == 0 || chains != symbols {
            return Err(SYSV);
        }
        let end = |start: u64, n: u32| u64::from(n).checked_mul(4).and_then(|n| start.checked_add(n)).ok_or(SYSV);
        let buckets_end = end(8, buckets)?;
        let chains_end = end(buckets_end, chains)?;
        let part = |start, end| slice(table, start..end).ok_or(SYSV);
        Ok(Self { range, buckets: part(8, buckets_end)?, chains: part(buckets_end, chains_end)? })
    }

    /// Whether the dynamic linker comes past this symbol when it looks for its name.
    pub fn finds(&self, name: &[u8], symbol: u32) -> bool {
        self.search(name, symbol).unwrap_or(false)
    }

    fn search(&self, name: &[u8], symbol: u32) -> Option<bool> {
        let word = |table, i: u32| u32_at(table, u64::from(i).checked_mul(4)?);
        let buckets = u32::try_from(self.buckets.as_chunks::<4>().0.len()).ok()?;
        let mut at = word(self.buckets, elf::hash(name).checked_rem(buckets)?)?;
        // A chain that is longer than there are symbols goes in a circle.
        for _ in self.chains.as_chunks::<4>().0 {
            if at == 0 || at == symbol {
                return Some(at != 0);
            }
            at = word(self.chains, at)?;
        }
        None
    }

    /// The table for symbols of these names, as many as before; `names` begins with the null symbol's.
    pub fn rebuilt(&self, names: &[&[u8]]) -> Vec<u8> {
        let mut buckets = vec![0_u32; self.buckets.as_chunks::<4>().0.len()];
        let mut chains = vec![0_u32; names.len()];
        // From the last, because each is put in front.
        for (index, name) in names.iter().enumerate().skip(1).rev() {
            let bucket = usize::try_from(elf::hash(name)).unwrap_or(0).checked_rem(buckets.len()).unwrap_or(0);
            if let (Some(bucket), Some(chain)) = (buckets.get_mut(bucket), chains.get_mut(index)) {
                *chain = std::mem::replace(bucket, u32::try_from(index).unwrap_or(0));
            }
        }
        let header = [buckets.len(), chains.len()].map(|n| u32::try_from(n).unwrap_or(0));
        header.iter().chain(&buckets).chain(&chains).flat_map(|w| w.to_le_bytes()).collect()
    }
}

impl Elf<'_> {
    /// Whether the dynamic linker finds this symbol, by every hash table that the library has.
    pub fn finds(&self, name: &[u8], symbol: u32) -> bool {
        self.gnu_hash.as_ref().is_none_or(|h| h.finds(name, symbol)) && self.sysv_hash.as_ref().is_none_or(|h| h.finds(name, symbol))
    }
}
