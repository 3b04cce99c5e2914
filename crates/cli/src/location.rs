//! Where the store is.

use crate::{Global, output, remote};
use anyhow::Context;
use hipplan::{Mode, Store};
use std::path::PathBuf;

/// The store's folder: the option, else the environment, else the user's cache folder.
pub(crate) fn store_path(global: &Global) -> anyhow::Result<PathBuf> {
    let path = global.store.clone().or_else(hipplan::default_store_path);
    path.context("no store: give --store, or set HIPPLAN_STORE, XDG_CACHE_HOME or HOME")
}

/// Opens the store to write, and makes it if it is not there.
pub(crate) fn writable(global: &Global) -> anyhow::Result<Store> {
    let path = store_path(global)?;
    let store = Store::open(&path, Mode::ReadWrite).with_context(|| format!("store {}", output::path(&path)))?;
    remote::behind(&global.remote, store, true)
}

/// Opens a store that must be there, and changes nothing in it.
pub(crate) fn readable(global: &Global) -> anyhow::Result<Store> {
    let path = store_path(global)?;
    let store = Store::open(&path, Mode::ReadOnly).with_context(|| format!("store {}", output::path(&path)))?;
    remote::behind(&global.remote, store, false)
}
