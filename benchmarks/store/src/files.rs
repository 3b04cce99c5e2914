//! A file for each value, in 256 folders; the digest stands in front of the value.

use crate::population::{Population, Wanted, key};
use crate::{Backend, Reader};
use anyhow::{Result, ensure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub(crate) const BACKEND: Backend = Backend { name: "file + BLAKE3", fill, open };

fn path(folder: &Path, key: &[u8; 32]) -> PathBuf {
    let mut name = String::with_capacity(65);
    for (i, byte) in key.iter().enumerate() {
        let _ = write!(name, "{byte:02x}");
        if i == 0 {
            name.push('/');
        }
    }
    folder.join(name)
}

fn fill(folder: &Path, population: &Population) -> Result<()> {
    for first in 0..=255_u8 {
        std::fs::create_dir_all(folder.join(format!("{first:02x}")))?;
    }
    for (name, value) in population.values() {
        std::fs::write(path(folder, &key(&name)), [&blake3::hash(&value).as_bytes()[..], &[0; 32], &value].concat())?;
    }
    Ok(())
}

struct Files(PathBuf);

fn open(folder: &Path) -> Result<Box<dyn Reader>> {
    Ok(Box::new(Files(folder.to_owned())))
}

impl Reader for Files {
    fn get(&mut self, wanted: &Wanted) -> Result<usize> {
        let bytes = std::fs::read(path(&self.0, &key(&wanted.name)))?;
        ensure!(blake3::hash(&bytes[64..]).as_bytes()[..] == bytes[..32], "damaged");
        Ok(bytes.len() - 64)
    }
}
