//! The floor: one mapped file with a fan-out and sorted rows in front, read by hand. It trusts the file in everything but the value.

use crate::population::{Population, Wanted, key};
use crate::{Backend, Reader};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

pub(crate) const BACKEND: Backend = Backend { name: "mapped pack by hand", fill, open };

/// Row: key, digest of the value, offset, length.
const ROW: usize = 80;
const BITS: u32 = 16;

fn fill(folder: &Path, population: &Population) -> Result<()> {
    let mut rows = Vec::new();
    let mut at = 0_u64;
    let mut data = BufWriter::new(File::create(folder.join("data"))?);
    for (name, value) in population.values() {
        let padding = value.len().next_multiple_of(64) - value.len();
        data.write_all(&value)?;
        data.write_all(&[0; 64][..padding])?;
        rows.push((key(&name), *blake3::hash(&value).as_bytes(), at, value.len() as u64));
        at += (value.len() + padding) as u64;
    }
    data.into_inner()?.sync_all()?;
    rows.sort_unstable();
    let mut index = BufWriter::new(File::create(folder.join("pack"))?);
    let bucket = |key: &[u8; 32]| u32::from_be_bytes([key[0], key[1], key[2], key[3]]) >> (32 - BITS);
    let mut row = 0_u32;
    for b in 0..1 << BITS {
        while rows.get(row as usize).is_some_and(|r| bucket(&r.0) < b) {
            row += 1;
        }
        index.write_all(&row.to_le_bytes())?;
    }
    index.write_all(&(rows.len() as u32).to_le_bytes())?;
    let front = ((4 << BITS) + 4 + rows.len() * ROW).next_multiple_of(64);
    for (key, digest, offset, len) in &rows {
        index.write_all(key)?;
        index.write_all(digest)?;
        index.write_all(&(front as u64 + offset).to_le_bytes())?;
        index.write_all(&len.to_le_bytes())?;
    }
    index.write_all(&vec![0; front - ((4 << BITS) + 4 + rows.len() * ROW)])?;
    std::io::copy(&mut File::open(folder.join("data"))?, &mut index)?;
    index.into_inner()?.sync_all()?;
    std::fs::remove_file(folder.join("data"))?;
    Ok(())
}

struct Pack(memmap2::Mmap);

fn open(folder: &Path) -> Result<Box<dyn Reader>> {
    let file = File::open(folder.join("pack"))?;
    // SAFETY: nobody changes the file while it is measured.
    Ok(Box::new(Pack(unsafe { memmap2::Mmap::map(&file)? })))
}

impl Reader for Pack {
    fn get(&mut self, wanted: &Wanted) -> Result<usize> {
        let key = key(&wanted.name);
        let u32_at = |at: usize| u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes")) as usize;
        let bucket = (u32::from_be_bytes([key[0], key[1], key[2], key[3]]) >> (32 - BITS)) as usize;
        let rows = &self.0[(4 << BITS) + 4..];
        let (mut low, mut high) = (u32_at(4 * bucket), u32_at(4 * bucket + 4));
        while low < high {
            let middle = low.midpoint(high);
            let row = &rows[middle * ROW..(middle + 1) * ROW];
            match row[..32].cmp(&key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let number = |at: usize| u64::from_le_bytes(row[at..at + 8].try_into().expect("eight bytes")) as usize;
                    let value = self.0.get(number(64)..number(64) + number(72)).context("inside the file")?;
                    ensure!(blake3::hash(value).as_bytes()[..] == row[32..64], "damaged");
                    return Ok(value.len());
                }
            }
        }
        anyhow::bail!("not there")
    }
}
