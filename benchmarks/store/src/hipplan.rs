//! hipplan's own store, opened to be read.
//!
//! A blob is named by its content, so that its name here leads to its digest by way of a file that is read before anything is measured:
//! a plan that names a code object holds the digest, and deriving a key is paid for as with the others.

use crate::population::{Population, key};
use crate::{Backend, Reader};
use anyhow::{Context, Result, anyhow};
use hipplan_serialize::{ContentHash, Digest};
use hipplan_store::{CompactOptions, Lookup, Mode, Store};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

pub(crate) const BACKEND: Backend = Backend { name: "hipplan store", fill, open };

fn fill(folder: &Path, population: &Population) -> Result<()> {
    let store = Store::open(folder.join("store"), Mode::ReadWrite)?;
    let group = store.group();
    let mut digests = String::new();
    for (name, value) in population.values() {
        let put = group.put_blob(&value)?;
        if value.len() > 1000 {
            writeln!(digests, "{}\t{}\t{name}", put.id.hash, put.id.size)?;
        }
    }
    let _ = group.commit()?;
    let mut all = CompactOptions::default();
    all.all = true;
    store.compact(&all, &())?;
    std::fs::write(folder.join("digests"), digests)?;
    Ok(())
}

/// The same pack, served as a bundle: one file, and nothing beside it to look at.
pub(crate) const BUNDLE: Backend = Backend { name: "hipplan bundle", fill: link, open: open_bundle };

/// Takes the pack of the store of the same size, which was filled before.
fn link(folder: &Path, _: &Population) -> Result<()> {
    let name = folder.file_name().and_then(|name| name.to_str()).context("a name")?;
    let store = folder.with_file_name(name.replace("bundle", "store"));
    let pack = std::fs::read_dir(store.join("store/packs"))?.filter_map(Result::ok).map(|entry| entry.path());
    let pack = pack.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "pack")).context("a pack")?;
    std::fs::hard_link(pack, folder.join("bundle"))?;
    std::fs::copy(store.join("digests"), folder.join("digests"))?;
    Ok(())
}

fn open_bundle(folder: &Path) -> Result<Box<dyn Reader>> {
    Ok(Box::new(Opened { store: Store::open_layer(folder.join("bundle"))?, digests: HashMap::new() }))
}

struct Opened {
    store: Store,
    digests: HashMap<String, Digest>,
}

fn open(folder: &Path) -> Result<Box<dyn Reader>> {
    Ok(Box::new(Opened { store: Store::open(folder.join("store"), Mode::ReadOnly)?, digests: HashMap::new() }))
}

/// Reads the digest of every name: not measured.
pub(crate) fn digest_of(folder: &Path, name: &str) -> Result<Digest> {
    let text = std::fs::read_to_string(folder.join("digests"))?;
    let line = text.lines().find(|line| line.ends_with(name)).context("a digest")?;
    let mut fields = line.split('\t');
    let hash = fields.next().and_then(|hex| parse(hex)).context("a hash")?;
    Ok(Digest { hash: ContentHash(hash), size: fields.next().context("a size")?.parse()? })
}

fn parse(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(bytes)
}

thread_local! {
    /// Digests that were read before the measurement.
    pub(crate) static KNOWN: std::cell::RefCell<HashMap<String, Digest>> = std::cell::RefCell::default();
}

impl Reader for Opened {
    fn get(&mut self, name: &str) -> Result<usize> {
        std::hint::black_box(key(name));
        let digest = match self.digests.get(name) {
            Some(digest) => *digest,
            None => {
                let digest = KNOWN.with_borrow(|known| known.get(name).copied()).context("a digest that was read before")?;
                self.digests.insert(name.to_owned(), digest);
                digest
            }
        };
        match self.store.get_blob(&digest) {
            Lookup::Hit(blob) => Ok(blob.len()),
            Lookup::Miss(miss) => Err(anyhow!("{miss}")),
        }
    }
}
