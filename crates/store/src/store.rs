//! A store: layers in order.

use crate::bundle::Trust;
use crate::far::Far;
use crate::layer::{Bundle, Directory, Layer};
use crate::turn::Purpose;
use crate::upkeep::pin_faults;
use crate::{
    LayerOptions, Limits, Lookup, Miss, Persisted, RemoteOptions, RemoteTier, StoreError, Turn, TurnOptions, Turned, UpkeepProgress,
    VerifyReport, faults, fs, turn, waits,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long others are waited for who read and replace a record. That takes a moment, and writing the pack of a group some seconds; who takes
/// longer has been stopped.
const WAIT_OF_WRITERS: Duration = Duration::from_secs(30);

/// What a caller means to do with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Look up and put. The store is created where there is none.
    ReadWrite,
    /// Look up only. Nothing in the folder is created, changed or touched.
    ReadOnly,
}

/// Plans, in layers that are looked into in order. Clones share what they have learnt of them.
///
/// The first layer is the folder that the store was opened with: the only one that is ever written, and only if it was opened for that.
/// Behind it come read-only folders and bundles ([`with_layer`](Self::with_layer)), and behind all of them at most one far tier
/// ([`with_remote`](Self::with_remote)).
#[derive(Debug, Clone)]
pub struct Store {
    limits: Limits,
    layers: Arc<[Arc<Layer>]>,
    far: Option<Arc<Far>>,
}

impl Store {
    /// Opens the store in the folder `path`. Opening one that exists reads one small file and writes nothing.
    ///
    /// # Errors
    /// The folder cannot be read or created, holds something else, or is a store of another layout.
    pub fn open(path: impl AsRef<Path>, mode: Mode) -> Result<Self, StoreError> {
        Directory::open(path.as_ref(), mode).map(|directory| Self::of(Layer::Directory(directory)))
    }

    /// Opens the store in the folder `path` for looking up and putting, whatever the state of the place.
    ///
    /// A store that can be neither opened nor created misses every lookup and keeps nothing. That a store can be read but
    /// not written is found out by the first put. Either way work goes on, such puts answer [`Persisted::No`] with the
    /// reason, and one warning is logged for the store.
    pub fn open_or_degrade(path: impl AsRef<Path>) -> Self {
        Self::of(Layer::Directory(Directory::open_or_degrade(path.as_ref())))
    }

    /// A store of no layers: it has nothing and keeps nothing. With a far tier behind it ([`with_remote`](Self::with_remote)), it finds what
    /// that has.
    pub fn nowhere() -> Self {
        Self { limits: Limits::default(), layers: Arc::default(), far: None }
    }

    /// Opens a bundle, or a folder, to be read alone.
    ///
    /// # Errors
    /// There is neither a bundle nor a store, or it cannot be read.
    pub fn open_layer(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_layer_options(path, &LayerOptions::default())
    }

    /// As [`open_layer`](Self::open_layer), with a say in whose signatures matter.
    ///
    /// # Errors
    /// As there; or a signature is required and there is none that counts: its code is `unsigned` or `untrusted`.
    pub fn open_layer_options(path: impl AsRef<Path>, options: &LayerOptions) -> Result<Self, StoreError> {
        open_layer(path.as_ref(), options).map(Self::of)
    }

    fn of(layer: Layer) -> Self {
        Self { limits: Limits::default(), layers: Arc::new([Arc::new(layer)]), far: None }
    }

    /// The same store with another layer behind those that it has: a folder, or a bundle. Nothing is ever created, changed or touched there.
    ///
    /// # Errors
    /// There is neither a bundle nor a store, or it cannot be read.
    pub fn with_layer(self, path: impl AsRef<Path>) -> Result<Self, StoreError> {
        self.with_layer_options(path, &LayerOptions::default())
    }

    /// As [`with_layer`](Self::with_layer), with a say in whose signatures matter.
    ///
    /// # Errors
    /// As there; or a signature is required and there is none that counts: its code is `unsigned` or `untrusted`.
    pub fn with_layer_options(self, path: impl AsRef<Path>, options: &LayerOptions) -> Result<Self, StoreError> {
        let layer = Arc::new(open_layer(path.as_ref(), options)?);
        Ok(Self { layers: self.layers.iter().cloned().chain([layer]).collect(), ..self })
    }

    /// As [`with_layer`](Self::with_layer); a layer that cannot be used is warned of, once, and left out.
    #[must_use]
    pub fn with_layer_or_warn(self, path: impl AsRef<Path>) -> Self {
        self.with_layer_options_or_warn(path, &LayerOptions::default())
    }

    /// As [`with_layer_options`](Self::with_layer_options); a layer that cannot be used is warned of, once, and left out.
    #[must_use]
    pub fn with_layer_options_or_warn(self, path: impl AsRef<Path>, options: &LayerOptions) -> Self {
        match open_layer(path.as_ref(), options) {
            Ok(layer) => Self { layers: self.layers.iter().cloned().chain([Arc::new(layer)]).collect(), ..self },
            Err(error) => {
                faults::left_out(&error);
                self
            }
        }
    }

    /// The same store with a far tier behind all layers, in place of the one that it had.
    #[must_use]
    pub fn with_remote(self, tier: Arc<dyn RemoteTier>, options: RemoteOptions) -> Self {
        Self { far: Some(Arc::new(Far::new(tier, options))), ..self }
    }

    /// The same store without its far tier: what is here, for questions that are not worth asking a network for.
    #[must_use]
    pub fn without_remote(self) -> Self {
        Self { far: None, ..self }
    }

    /// The same store under other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Limits on what is read and written.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The folder or bundle that the store was opened with, as an absolute path; empty for one of no layers.
    pub fn root(&self) -> &Path {
        self.layers.first().map_or(Path::new(""), |layer| layer.path())
    }

    /// Whether the layer in front is a folder, and no bundle, which nothing can be put into.
    pub fn is_of_a_folder(&self) -> bool {
        self.directory().is_some()
    }

    /// Where the layers are, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.layers.iter().map(|layer| layer.path())
    }

    /// Why [`open_or_degrade`](Self::open_or_degrade) could open nothing; `None` when there is a store.
    pub fn unavailable(&self) -> Option<&StoreError> {
        self.directory().and_then(Directory::unavailable)
    }

    /// Reads and checks every entry of every layer: every byte, and that what is named is there. Pins are read of the folder in front, for
    /// those of a layer keep nothing here.
    ///
    /// Writes nothing, logs nothing, and may run beside readers and writers.
    pub fn verify(&self) -> VerifyReport {
        self.verify_with(&())
    }

    /// As [`verify`](Self::verify), telling how far it has come.
    pub fn verify_with(&self, progress: &dyn UpkeepProgress) -> VerifyReport {
        let mut all = VerifyReport::default();
        self.layers.iter().for_each(|layer| all.add(layer.verify(&self.limits, progress)));
        if let Some(directory) = self.directory().filter(|directory| directory.usable_root().is_some()) {
            for fault in pin_faults(directory) {
                // What stands in place of the folder itself is told of already.
                if all.problems.iter().all(|told| told.path() != fault.path()) {
                    all.problems.push(fault);
                }
            }
        }
        all
    }

    pub(crate) fn layers(&self) -> &[Arc<Layer>] {
        &self.layers
    }

    pub(crate) fn far(&self) -> Option<&Far> {
        self.far.as_deref()
    }

    /// The folder in front, whether or not it may be written.
    pub(crate) fn directory(&self) -> Option<&Directory> {
        match self.layers.first().map(|layer| &**layer) {
            Some(Layer::Directory(directory)) => Some(directory),
            Some(Layer::Bundle(_)) | None => None,
        }
    }

    /// The folder in front, if it may be written.
    pub(crate) fn writable(&self) -> Option<&Directory> {
        self.directory().filter(|directory| directory.access().is_writable())
    }

    /// The folder in front, to be changed.
    pub(crate) fn to_write(&self) -> Result<&Directory, StoreError> {
        let path = || self.root().to_owned();
        match self.directory() {
            Some(directory) if directory.access().is_writable() => Ok(directory),
            Some(directory) => Err(match directory.unavailable() {
                Some(cause) => StoreError::Unavailable { path: path(), cause: cause.to_string() },
                None => StoreError::ReadOnly { path: path() },
            }),
            None => Err(StoreError::ReadOnly { path: path() }),
        }
    }

    /// Runs a lookup in one layer after the other, then in the far tier: a fault becomes a miss, of which the layer has warned.
    pub(crate) fn lookup<T>(
        &self,
        mut find: impl FnMut(&Layer) -> Result<Option<T>, StoreError>,
        far: impl FnOnce() -> Option<T>,
    ) -> Lookup<T> {
        let mut fault = None;
        let mut is_usable = false;
        for layer in self.layers.iter().filter(|layer| layer.is_usable()) {
            is_usable = true;
            match find(layer) {
                Ok(Some(found)) => return Lookup::Hit(found),
                Ok(None) => {}
                Err(error) => {
                    fault.get_or_insert(error);
                }
            }
        }
        if self.far.is_some() {
            is_usable = true;
            if let Some(found) = far() {
                return Lookup::Hit(found);
            }
        }
        Lookup::Miss(match fault {
            Some(error) => Miss::Fault(error),
            None if is_usable => Miss::Absent,
            None => Miss::NoStore,
        })
    }

    /// Waits for the turn to build what a key names, so that it is built once by all threads, and by all processes that share the
    /// writable folder. `look` is asked again after each wait: what another has built is found rather than built again.
    ///
    /// Nothing here fails: where locks are refused, or a wait ends, the caller builds for itself, and one warning says why.
    pub fn turn<T>(&self, key: &[u8; 32], options: &TurnOptions, mut look: impl FnMut() -> Option<T>) -> Turned<T> {
        turn::take(self.writable().map(Directory::root), key, Purpose::Build, options, &mut look)
    }

    /// Keeps others from writing what is about to be read and replaced. Where that is not to be had, work goes on.
    pub(crate) fn turn_to_write(&self, layer: &Directory, key: &[u8; 32]) -> Option<Turn> {
        self.turns_to_write(layer, [key]).pop()
    }

    /// The same for several keys, which are waited for together no longer than one. Who takes several takes them in an order that is the same
    /// for all.
    pub(crate) fn turns_to_write<'k>(&self, layer: &Directory, keys: impl IntoIterator<Item = &'k [u8; 32]>) -> Vec<Turn> {
        let options = TurnOptions { wait: waits::at_most(WAIT_OF_WRITERS), ..TurnOptions::default() };
        turn::take_all(layer.root(), keys.into_iter(), Purpose::Record, &options)
    }

    /// Runs a put into the layer in front.
    pub(crate) fn put(&self, write: impl FnOnce(&Directory) -> Result<Persisted, StoreError>) -> Result<Persisted, StoreError> {
        match self.directory() {
            Some(directory) => directory.put(|| write(directory)),
            None => Err(StoreError::ReadOnly { path: self.root().to_owned() }),
        }
    }
}

/// A folder or a bundle that is only read. A link that was named is followed once, here: what it leads to later makes no difference.
fn open_layer(path: &Path, options: &LayerOptions) -> Result<Layer, StoreError> {
    let absolute = fs::absolute(path).map_err(StoreError::io("use the path", path))?;
    let trust = Trust::of(options);
    // Mostly it is no link, and then its path need not be resolved.
    let (kind, is_link) = match fs::kind(&absolute) {
        Ok(fs::Kind::Other(_)) => (fs::status_followed(&absolute).map(|status| status.kind), true),
        kind => (kind, false),
    };
    match kind {
        Ok(fs::Kind::File { .. }) => {
            let path = if is_link { fs::resolved(&absolute).map_err(StoreError::io("open", &absolute))? } else { absolute.clone() };
            Bundle::open(&path, &trust)?.map(Layer::Bundle).ok_or(StoreError::NoSuchLayer { path: absolute })
        }
        Ok(fs::Kind::Other(found)) => {
            let (found, expected) = (found.to_owned(), "a bundle or the folder of a store");
            Err(StoreError::Named { path: absolute, found, expected, advice: "name the file of a bundle, or the folder of a store" })
        }
        Ok(fs::Kind::Folder) | Err(_) => match Directory::open_trusted(&absolute, trust) {
            Err(StoreError::NoSuchStore { path }) => Err(StoreError::NoSuchLayer { path }),
            opened => opened.map(Layer::Directory),
        },
    }
}
