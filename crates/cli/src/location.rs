//! Where the store is, and the layers below it.

use crate::{Global, output, remote};
use anyhow::{Context, bail};
use hipplan::{LayerOptions, Location, Mode, Store, StoreError};
use std::path::PathBuf;

/// What the option, the environment and the user's folders say.
pub(crate) fn locate(global: &Global) -> Location {
    hipplan::locate(global.store.as_deref())
}

/// Opens the store to write, and makes it if it is not there; with the layers below it.
pub(crate) fn writable(global: &Global) -> anyhow::Result<Store> {
    let location = locate(global);
    let path = match location.settle() {
        Ok(path) => path,
        Err(_) if location.path().is_none() => bail!(NO_PLACE),
        Err(verdict) => bail!("no store: {verdict}; give --store, or set HIPPLAN_STORE"),
    };
    let store = Store::open(path, Mode::ReadWrite).with_context(|| format!("store {}", output::path(path)))?;
    let store = layered(Some(store), layers(global, &location))?.context(NO_PLACE)?;
    remote::behind(&global.remote, store, true)
}

/// Opens a store that must be there, with the layers below it, and changes nothing in any of them. Where there are layers, the store itself
/// may be missing.
pub(crate) fn readable(global: &Global) -> anyhow::Result<Store> {
    let location = locate(global);
    let layers = layers(global, &location);
    let store = match location.path().map(|path| (path, Store::open(path, Mode::ReadOnly))) {
        Some((_, Ok(store))) => Some(store),
        Some((_, Err(StoreError::NoSuchStore { .. }))) | None if !layers.is_empty() => None,
        Some((path, Err(error))) => return Err(error).with_context(|| format!("store {}", output::path(path))),
        None => bail!(NO_PLACE),
    };
    let store = layered(store, layers)?.context(NO_PLACE)?;
    remote::behind(&global.remote, store, false)
}

/// What the environment says of signatures. What is not understood is an error, never no policy.
pub(crate) fn layer_options() -> anyhow::Result<LayerOptions> {
    Ok(LayerOptions::from_environment()?)
}

/// Those that are named by options, then those of the environment.
fn layers(global: &Global, location: &Location) -> Vec<PathBuf> {
    global.layer.iter().chain(&location.layers).cloned().collect()
}

/// The store with these layers below it.
fn layered(mut store: Option<Store>, layers: Vec<PathBuf>) -> anyhow::Result<Option<Store>> {
    if layers.is_empty() {
        return Ok(store);
    }
    let options = layer_options()?;
    for path in layers {
        let opened = match store {
            Some(store) => store.with_layer_options(&path, &options),
            None => Store::open_layer_options(&path, &options),
        };
        store = Some(opened.map_err(|error| with_advice(error, &format!("layer {}", output::path(&path))))?);
    }
    Ok(store)
}

/// The error with what to do about it.
pub(crate) fn with_advice(error: StoreError, what: &str) -> anyhow::Error {
    let advice = error.advice();
    anyhow::Error::new(error).context(format!("{what} ({advice})"))
}

/// Opens a store that must be there, to change what is in it.
pub(crate) fn existing(global: &Global) -> anyhow::Result<Store> {
    let store = readable(global)?;
    Store::open(store.root(), Mode::ReadWrite).with_context(|| format!("store {}", output::path(store.root())))
}

const NO_PLACE: &str = "no store: give --store, or set HIPPLAN_STORE; `hipplan store where` says why no other place is used";
