//! LMDB, by way of `heed`; the digest stands in front of the value.

use crate::population::{Population, Wanted, key};
use crate::{Backend, Reader};
use anyhow::{Context, Result, ensure};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use std::path::Path;

pub(crate) const BACKEND: Backend = Backend { name: "LMDB (heed)", fill, open };

fn fill(folder: &Path, population: &Population) -> Result<()> {
    // SAFETY: nobody else has it open.
    let env = unsafe { EnvOpenOptions::new().map_size(16 << 30).open(folder)? };
    let mut transaction = env.write_txn()?;
    let database: Database<Bytes, Bytes> = env.create_database(&mut transaction, None)?;
    for (name, value) in population.values() {
        database.put(&mut transaction, &key(&name), &[&blake3::hash(&value).as_bytes()[..], &[0; 32], &value].concat())?;
    }
    transaction.commit()?;
    Ok(())
}

struct Opened(Env, Database<Bytes, Bytes>);

fn open(folder: &Path) -> Result<Box<dyn Reader>> {
    // SAFETY: nobody changes it while it is measured.
    let env = unsafe { EnvOpenOptions::new().map_size(16 << 30).flags(EnvFlags::READ_ONLY).open(folder)? };
    let transaction = env.read_txn()?;
    let database = env.open_database(&transaction, None)?.context("a database")?;
    transaction.commit()?;
    Ok(Box::new(Opened(env, database)))
}

impl Reader for Opened {
    fn get(&mut self, wanted: &Wanted) -> Result<usize> {
        let transaction = self.0.read_txn()?;
        let bytes = self.1.get(&transaction, &key(&wanted.name))?.context("a value")?;
        ensure!(blake3::hash(&bytes[64..]).as_bytes()[..] == bytes[..32], "damaged");
        Ok(bytes.len() - 64)
    }
}
