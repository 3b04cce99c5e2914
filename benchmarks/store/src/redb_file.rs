//! redb; the digest stands in front of the value.

use crate::population::{Population, Wanted, key};
use crate::{Backend, Reader};
use anyhow::{Context, Result, ensure};
use redb::{Database, ReadableDatabase, TableDefinition};
use std::path::Path;

pub(crate) const BACKEND: Backend = Backend { name: "redb", fill, open };
const TABLE: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("kernels");

fn fill(folder: &Path, population: &Population) -> Result<()> {
    let database = Database::create(folder.join("redb"))?;
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(TABLE)?;
        for (name, value) in population.values() {
            let bytes = [&blake3::hash(&value).as_bytes()[..], &[0; 32], &value].concat();
            table.insert(&key(&name), &bytes[..])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

struct Opened(redb::ReadOnlyDatabase);

fn open(folder: &Path) -> Result<Box<dyn Reader>> {
    Ok(Box::new(Opened(redb::ReadOnlyDatabase::open(folder.join("redb"))?)))
}

impl Reader for Opened {
    fn get(&mut self, wanted: &Wanted) -> Result<usize> {
        let transaction = self.0.begin_read()?;
        let table = transaction.open_table(TABLE)?;
        let found = table.get(&key(&wanted.name))?.context("a value")?;
        let bytes = found.value();
        ensure!(blake3::hash(&bytes[64..]).as_bytes()[..] == bytes[..32], "damaged");
        Ok(bytes.len() - 64)
    }
}
