//! MIOpen's way: one SQLite table of bzip2 blobs under a text key, with the MD5 of what is unpacked.

use crate::population::{Population, Wanted};
use crate::{Backend, Reader};
use anyhow::{Result, ensure};
use bzip2::Compression;
use bzip2::read::{BzDecoder, BzEncoder};
use md5::{Digest, Md5};
use rusqlite::{Connection, OpenFlags, params};
use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

pub(crate) const BACKEND: Backend = Backend { name: "SQLite + bz2 (MIOpen's way)", fill, open };

fn md5_hex(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn create(folder: &Path) -> Result<Connection> {
    let connection = Connection::open(folder.join("kern.kdb"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.execute_batch(
        "CREATE TABLE kern_db (id INTEGER PRIMARY KEY ASC, kernel_name TEXT NOT NULL, kernel_args TEXT NOT NULL, kernel_blob BLOB NOT NULL,
         kernel_hash TEXT NOT NULL, uncompressed_size INT NOT NULL);
         CREATE UNIQUE INDEX idx_kern_db ON kern_db (kernel_name, kernel_args);",
    )?;
    Ok(connection)
}

fn insert(connection: &Connection, file: &str, options: &str, value: &[u8]) -> Result<()> {
    let text = "INSERT INTO kern_db (kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size) VALUES (?, ?, ?, ?, ?)";
    let mut packed = Vec::new();
    BzEncoder::new(value, Compression::best()).read_to_end(&mut packed)?;
    connection.prepare_cached(text)?.execute(params![file, options, packed, md5_hex(value), value.len() as i64])?;
    Ok(())
}

fn fill(folder: &Path, population: &Population) -> Result<()> {
    let mut connection = create(folder)?;
    let transaction = connection.transaction()?;
    for (name, value) in population.values() {
        let (file, options) = name.split_once(' ').unwrap_or((&name, ""));
        insert(&transaction, file, options, &value)?;
    }
    transaction.commit()?;
    connection.pragma_update(None, "wal_checkpoint", "TRUNCATE")?;
    Ok(())
}

/// Puts values one by one, as MIOpen does with what it has just compiled.
pub(crate) fn publish(folder: &Path, values: &[Vec<u8>]) -> Result<()> {
    let connection = create(folder)?;
    for (i, value) in values.iter().enumerate() {
        insert(&connection, &format!("kernel_{i}.cpp.o"), "", value)?;
    }
    Ok(())
}

struct Database(Connection);

fn open(folder: &Path) -> Result<Box<dyn Reader>> {
    Ok(Box::new(Database(Connection::open_with_flags(folder.join("kern.kdb"), OpenFlags::SQLITE_OPEN_READ_ONLY)?)))
}

impl Reader for Database {
    fn get(&mut self, wanted: &Wanted) -> Result<usize> {
        let (file, options) = wanted.name.split_once(' ').unwrap_or((&wanted.name, ""));
        // The values stand in the text of the query, as MIOpen puts them there.
        let text = format!(
            "SELECT kernel_blob, kernel_hash, uncompressed_size FROM kern_db WHERE (kernel_name = '{file}') AND (kernel_args = '{options}');"
        );
        let (packed, hash, size): (Vec<u8>, String, i64) =
            self.0.query_row(&text, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let mut value = Vec::with_capacity(size as usize);
        BzDecoder::new(&packed[..]).read_to_end(&mut value)?;
        ensure!(md5_hex(&value) == hash, "damaged");
        Ok(value.len())
    }
}
