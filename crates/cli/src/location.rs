//! Where the store is.

use crate::{Global, output};
use anyhow::{Context, bail};
use hipplan::{Location, Mode, Store};

/// What the option, the environment and the user's folders say.
pub(crate) fn locate(global: &Global) -> Location {
    hipplan::locate(global.store.as_deref())
}

/// Opens the store to write, and makes it if it is not there.
pub(crate) fn writable(global: &Global) -> anyhow::Result<Store> {
    let location = locate(global);
    let path = match location.settle() {
        Ok(path) => path,
        Err(_) if location.path().is_none() => bail!(NO_PLACE),
        Err(verdict) => bail!("no store: {verdict}; give --store, or set HIPPLAN_STORE"),
    };
    Store::open(path, Mode::ReadWrite).with_context(|| format!("store {}", output::path(path)))
}

/// Opens a store that must be there, and changes nothing in it.
pub(crate) fn readable(global: &Global) -> anyhow::Result<Store> {
    let location = locate(global);
    let path = location.path().context(NO_PLACE)?;
    Store::open(path, Mode::ReadOnly).with_context(|| format!("store {}", output::path(path)))
}

/// Opens a store that must be there, to change what is in it.
pub(crate) fn existing(global: &Global) -> anyhow::Result<Store> {
    let store = readable(global)?;
    Store::open(store.root(), Mode::ReadWrite).with_context(|| format!("store {}", output::path(store.root())))
}

const NO_PLACE: &str = "no store: give --store, or set HIPPLAN_STORE; `hipplan store where` says why no other place is used";
