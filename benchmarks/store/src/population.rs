//! What is stored: values of two sizes made of real code objects, and small ones that fill up.

use anyhow::{Context, Result};
use hipplan_serialize::{ContentHash, Digest};
use std::path::{Path, PathBuf};

/// Sizes of the values that are fetched, and how many there are of each.
pub(crate) const VALUES: [(&str, usize, usize); 2] = [("60 KB", 60_000, 64), ("1 MB", 1_000_000, 16)];
/// Size of the others.
const FILLER: usize = 512;
/// Bytes that are taken from the material in one piece.
const RUN: usize = 16 << 10;

/// Values by name.
pub(crate) struct Population {
    material: Vec<u8>,
    size: usize,
}

impl Population {
    pub(crate) fn new(material: &[u8], size: usize) -> Self {
        Self { material: material.to_vec(), size }
    }

    /// Names and values, one after the other.
    pub(crate) fn values(&self) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
        let large = VALUES.into_iter().flat_map(|(_, size, count)| (0..count).map(move |i| (name(size, i), size, i)));
        let filled = VALUES.iter().map(|(.., count)| count).sum::<usize>();
        let small = (filled..self.size).map(|i| (name(FILLER, i), FILLER, i));
        large.chain(small).map(|(name, size, i)| (name, self.value(size, i)))
    }

    /// Values of one size, without a name.
    pub(crate) fn of_size(&self, size: usize, count: usize) -> impl Iterator<Item = Vec<u8>> + '_ {
        (0..count).map(move |i| self.value(size, i))
    }

    /// Runs of the material, in an order that each value has of its own.
    fn value(&self, size: usize, seed: usize) -> Vec<u8> {
        let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ size as u64;
        let mut value = Vec::with_capacity(size);
        while value.len() < size {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let run = RUN.min(size - value.len());
            let at = (state >> 33) as usize % (self.material.len() - run);
            value.extend_from_slice(&self.material[at..at + run]);
        }
        // Each is of its own, whatever the material.
        value[..8].copy_from_slice(&state.to_le_bytes());
        value[8..16].copy_from_slice(&(seed as u64).to_le_bytes());
        value
    }
}

/// A value that is fetched.
///
/// A plan that names a code object holds its digest, as a `.kdb` is asked by the code object's name: each way takes what its users have.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) digest: Digest,
}

impl Wanted {
    /// From the name and what [`digest`](Self::digest) is written as.
    pub(crate) fn parse(name: &str, digest: &str) -> Result<Self> {
        let (hex, size) = digest.split_once(':').context("a digest and a size")?;
        let hash = blake3::Hash::from_hex(hex)?;
        Ok(Self { name: name.to_owned(), digest: Digest { hash: ContentHash(*hash.as_bytes()), size: size.parse()? } })
    }

    /// As a word that [`parse`](Self::parse) reads.
    pub(crate) fn digest(&self) -> String {
        format!("{}:{}", self.digest.hash, self.digest.size)
    }
}

/// Writes down what the values that are fetched are, for [`wanted`].
pub(crate) fn write_wanted(folder: &Path, population: &Population) -> Result<()> {
    let large = population.values().take(VALUES.iter().map(|(.., count)| count).sum());
    let lines: String =
        large.map(|(name, value)| Wanted { name, digest: Digest::of(&value) }).map(|w| format!("{}\t{}\n", w.name, w.digest())).collect();
    Ok(std::fs::write(wanted_file(folder, population.size), lines)?)
}

/// The values of one size among so many.
pub(crate) fn wanted(folder: &Path, entries: usize, bytes: usize) -> Result<Vec<Wanted>> {
    let lines = std::fs::read_to_string(wanted_file(folder, entries)).context("read what is wanted: prepare first")?;
    let all = lines.lines().map(|line| line.split_once('\t').context("a tab").and_then(|(name, digest)| Wanted::parse(name, digest)));
    let all: Vec<Wanted> = all.collect::<Result<_>>()?;
    Ok(all.into_iter().filter(|wanted| wanted.digest.size == bytes as u64).collect())
}

fn wanted_file(folder: &Path, entries: usize) -> PathBuf {
    folder.join(format!("wanted-{entries}"))
}

/// The name of a value, as a kernel has a file name and options.
fn name(size: usize, i: usize) -> String {
    format!("kernel_{i}.cpp.o -mcpu=gfx90a -DSIZE={size}")
}

/// The key that all but SQLite look a value up by.
pub(crate) fn key(name: &str) -> [u8; 32] {
    *blake3::hash(name.as_bytes()).as_bytes()
}
