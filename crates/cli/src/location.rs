//! Where the store is.

use crate::{Global, output};
use anyhow::{Context, bail};
use hipplan::{Mode, Store};
use std::path::PathBuf;

/// The store's folder: the option, else the environment, else the user's cache folder. Relative cache variables are ignored, as the
/// XDG specification asks.
pub(crate) fn store_path(global: &Global) -> anyhow::Result<PathBuf> {
    if let Some(path) = &global.store {
        return Ok(path.clone());
    }
    let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(path) = var("HIPPLAN_STORE") {
        return Ok(path);
    }
    if let Some(cache) = var("XDG_CACHE_HOME").filter(|p| p.is_absolute()) {
        return Ok(cache.join("hipplan/store"));
    }
    match var("HOME").filter(|p| p.is_absolute()) {
        Some(home) => Ok(home.join(".cache/hipplan/store")),
        None => bail!("no store: give --store, or set HIPPLAN_STORE, XDG_CACHE_HOME or HOME"),
    }
}

/// Opens the store to write, and makes it if it is not there.
pub(crate) fn writable(global: &Global) -> anyhow::Result<Store> {
    let path = store_path(global)?;
    Store::open(&path, Mode::ReadWrite).with_context(|| format!("store {}", output::path(&path)))
}

/// Opens a store that must be there, and changes nothing in it.
pub(crate) fn readable(global: &Global) -> anyhow::Result<Store> {
    let path = store_path(global)?;
    Store::open(&path, Mode::ReadOnly).with_context(|| format!("store {}", output::path(&path)))
}
