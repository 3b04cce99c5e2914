//! hipplan's own store, opened to be read.

use crate::population::{Population, Wanted, key};
use crate::{Backend, Reader};
use anyhow::{Context, Result, anyhow};
use hipplan_store::{CompactOptions, Lookup, Mode, Store};
use std::path::Path;

pub(crate) const BACKEND: Backend = Backend { name: "hipplan store", fill, open };

fn fill(folder: &Path, population: &Population) -> Result<()> {
    let store = Store::open(folder.join("store"), Mode::ReadWrite)?;
    let group = store.group();
    for (_, value) in population.values() {
        let _ = group.put_blob(&value)?;
    }
    let _ = group.commit()?;
    let mut all = CompactOptions::default();
    all.all = true;
    store.compact(&all, &())?;
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
    Ok(())
}

fn open_bundle(folder: &Path) -> Result<Box<dyn Reader>> {
    Ok(Box::new(Opened(Store::open_layer(folder.join("bundle"))?)))
}

struct Opened(Store);

fn open(folder: &Path) -> Result<Box<dyn Reader>> {
    Ok(Box::new(Opened(Store::open(folder.join("store"), Mode::ReadOnly)?)))
}

impl Reader for Opened {
    fn get(&mut self, wanted: &Wanted) -> Result<usize> {
        // Deriving a key is paid for as with the others.
        std::hint::black_box(key(&wanted.name));
        match self.0.get_blob(&wanted.digest) {
            Lookup::Hit(blob) => Ok(blob.len()),
            Lookup::Miss(miss) => Err(anyhow!("{miss}")),
        }
    }
}
