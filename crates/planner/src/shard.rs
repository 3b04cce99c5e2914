//! A part of a batch, for one of several machines (C8).

use hipplan_serialize::GraphKey;
use std::fmt;
use std::str::FromStr;

/// Part `index` of `count`, from 1. Which part a graph is in follows from its key alone, so it does not matter in which order inputs are
/// named, or how often: the parts are disjoint, and together they are the whole.
///
/// A part is a range of keys, so the plans of two parts never share a record, and several processes can fill one store at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shard {
    index: u32,
    count: u32,
}

/// A text or numbers that name no part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("shard {text:?}: expected I/N with N from 1 up and I from 1 to N, such as 3/16")]
pub struct ParseShardError {
    /// What was given.
    pub text: String,
}

impl Shard {
    /// Part `index` of `count`, from 1.
    ///
    /// # Errors
    /// `index` is not from 1 to `count`.
    pub fn new(index: u32, count: u32) -> Result<Self, ParseShardError> {
        if (1..=count).contains(&index) { Ok(Self { index, count }) } else { Err(ParseShardError { text: format!("{index}/{count}") }) }
    }

    /// Which part, from 1.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Of how many.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether the graph is in this part.
    pub fn contains(&self, graph: &GraphKey) -> bool {
        let mut first = [0; 8];
        first.copy_from_slice(&graph.0[..8]);
        // The key is a hash: its first 64 bits as a fraction of all that there are, in units of one part. Rounding down never reaches
        // `count`.
        let part = (u128::from(u64::from_be_bytes(first)) * u128::from(self.count)) >> 64;
        part + 1 == u128::from(self.index)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = ParseShardError;

    fn from_str(text: &str) -> Result<Self, ParseShardError> {
        let fail = || ParseShardError { text: text.to_owned() };
        let number = |digits: &str| if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None };
        let (index, count) = text.split_once('/').ok_or_else(fail)?;
        let (index, count) = number(index).zip(number(count)).ok_or_else(fail)?;
        Self::new(index, count).map_err(|_| fail())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_refused() {
        for text in ["1/1", "1/2", "16/16", "4294967295/4294967295"] {
            assert_eq!(text.parse::<Shard>().expect("a shard").to_string(), text);
        }
        for text in ["", "/", "1", "0/1", "2/1", "0/0", "1/0", "-1/2", "+1/2", " 1/2", "1/2/3", "1/4294967296", "a/b", "1/"] {
            assert_eq!(text.parse::<Shard>(), Err(ParseShardError { text: text.to_owned() }));
        }
    }

    #[test]
    fn every_key_is_in_one_part() {
        let mut keys: Vec<GraphKey> = (0..2000_u32).map(|i| GraphKey::of_encoding(&i.to_le_bytes())).collect();
        keys.extend([GraphKey([0; 32]), GraphKey([0xff; 32])]);
        for count in [1, 2, 3, 7, 16, u32::MAX] {
            let few = if count > 16 { 1..=2 } else { 1..=count };
            let parts: Vec<Shard> = few.map(|i| Shard::new(i, count).expect("a shard")).collect();
            let sizes: Vec<usize> = parts.iter().map(|part| keys.iter().filter(|key| part.contains(key)).count()).collect();
            if count <= 16 {
                assert!(keys.iter().all(|key| parts.iter().filter(|part| part.contains(key)).count() == 1));
                let fair = keys.len() / count as usize;
                assert!(sizes.iter().all(|size| (fair / 2..=fair * 2).contains(size)), "{count}: {sizes:?}");
            }
            let last = Shard::new(count, count).expect("a shard");
            assert!(parts[0].contains(&GraphKey([0; 32])) && last.contains(&GraphKey([0xff; 32])));
        }
    }
}
