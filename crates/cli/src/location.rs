//! Where the store is, and the layers below it.

use crate::{Global, output, remote};
use anyhow::{Context, anyhow, bail};
use hipplan::{LayerOptions, Location, Mode, NamedLayer, Store, StoreError};
use std::path::Path;

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
    let store = Store::open(path, Mode::ReadWrite).context(STORE)?;
    let store = layered(Some(store), layers(global, &location))?.context(NO_PLACE)?;
    remote::behind(&global.remote, store, true)
}

/// Opens a store that must be there, with the layers and the remote behind it, to look things up: nothing is changed in any of them. Where
/// there are layers or a remote, the store itself may be missing.
pub(crate) fn readable(global: &Global) -> anyhow::Result<Store> {
    let store = match near(global, remote::is_named(&global.remote)?)? {
        Some(store) => store,
        None => Store::nowhere(),
    };
    remote::behind(&global.remote, store, false)
}

/// As [`readable`], to list what there is: a remote lists nothing, so it is not asked, and a store that is missing is not replaced by it.
pub(crate) fn listed(global: &Global) -> anyhow::Result<Store> {
    near(global, false)?.context(NO_PLACE)
}

/// The store with the layers behind it; nothing where it is missing, there are no layers, and it `may_be_missing`.
fn near(global: &Global, may_be_missing: bool) -> anyhow::Result<Option<Store>> {
    let location = locate(global);
    let layers = layers(global, &location);
    let may_be_missing = may_be_missing || !layers.is_empty();
    let store = match location.path().map(|path| Store::open(path, Mode::ReadOnly)) {
        Some(Ok(store)) => Some(store),
        Some(Err(StoreError::NoSuchStore { .. })) | None if may_be_missing => None,
        Some(Err(error)) => return Err(not_opened(error, location.path())),
        None => bail!(NO_PLACE),
    };
    layered(store, layers)
}

/// What the environment says of signatures. What is not understood is an error, never no policy.
pub(crate) fn layer_options() -> anyhow::Result<LayerOptions> {
    Ok(LayerOptions::from_environment()?)
}

/// Those that are named by options, then those of the environment.
fn layers(global: &Global, location: &Location) -> Vec<NamedLayer> {
    of_options(global).chain(location.layers.iter().cloned()).collect()
}

/// The layers that are named by options.
pub(crate) fn of_options(global: &Global) -> impl Iterator<Item = NamedLayer> {
    global.layer.iter().map(|name| NamedLayer::of(name.as_os_str()))
}

/// The store with these layers below it.
fn layered(mut store: Option<Store>, layers: Vec<NamedLayer>) -> anyhow::Result<Option<Store>> {
    for layer in layers {
        let options = layer.options()?;
        let opened = match store {
            Some(store) => store.with_layer_options(&layer.path, &options),
            None => Store::open_layer_options(&layer.path, &options),
        };
        store = Some(opened.context("layer")?);
    }
    Ok(store)
}

/// Opens the store that must be there, alone, to look after it: no layer and no remote takes its place, and none that cannot be opened is
/// in the way.
pub(crate) fn existing(global: &Global) -> anyhow::Result<Store> {
    let location = locate(global);
    let path = location.path().context(NO_PLACE)?;
    // Opening it to write would make one.
    front(path, Mode::ReadOnly)?;
    front(path, Mode::ReadWrite)
}

/// As [`existing`], to be read alone.
pub(crate) fn existing_to_read(global: &Global) -> anyhow::Result<Store> {
    let location = locate(global);
    front(location.path().context(NO_PLACE)?, Mode::ReadOnly)
}

fn front(path: &Path, mode: Mode) -> anyhow::Result<Store> {
    Store::open(path, mode).map_err(|error| not_opened(error, Some(path)))
}

/// Why a store cannot be opened. A bundle is named for one now and then.
fn not_opened(error: StoreError, path: Option<&Path>) -> anyhow::Error {
    match path.filter(|path| path.is_file()) {
        Some(file) => anyhow!(
            "store: {} is a file, expected the folder of a store; a bundle is read where it lies with --layer or HIPPLAN_LAYERS",
            output::path(file)
        ),
        None => anyhow::Error::new(error).context(STORE),
    }
}

/// What an error is about; its path is in the error.
const STORE: &str = "store";

/// Where plans were looked for: the first layer; `null` where there is the remote alone.
pub(crate) fn place_json(store: &Store) -> serde_json::Value {
    store.paths().next().map(|path| path.display().to_string()).into()
}

/// Where plans were looked for, for messages.
pub(crate) fn place(store: &Store) -> String {
    match store.paths().next() {
        Some(path) => format!("store {}", output::path(path)),
        None => "remote store (there is no other)".to_owned(),
    }
}

const NO_PLACE: &str = "no store: give --store, or set HIPPLAN_STORE; `hipplan store where` says why no other place is used";
