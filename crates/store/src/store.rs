//! Opening a store.

use crate::faults::Faults;
use crate::publish::Durable;
use crate::{Limits, Lookup, Miss, Persisted, StoreError, fs, marker};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a caller means to do with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Look up and put. The store is created where there is none.
    ReadWrite,
    /// Look up only. Nothing in the folder is created, changed or touched.
    ReadOnly,
}

/// A folder of plans. Clones share what they have learnt of it.
#[derive(Debug, Clone)]
pub struct Store {
    limits: Limits,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    access: Access,
    faults: Faults,
    durable: Durable,
}

#[derive(Debug)]
enum Access {
    ReadOnly,
    ReadWrite,
    /// As `ReadWrite`, but a failed write is an answer rather than an error.
    Degrading,
    /// Opening failed, and work goes on without.
    Unavailable(StoreError),
}

impl Store {
    /// Opens the store in the folder `path`. Opening one that exists reads one small file and writes nothing.
    ///
    /// # Errors
    /// The folder cannot be read or created, holds something else, or is a store of another layout.
    pub fn open(path: impl AsRef<Path>, mode: Mode) -> Result<Self, StoreError> {
        let root = open_root(path.as_ref(), mode)?;
        let access = match mode {
            Mode::ReadWrite => Access::ReadWrite,
            Mode::ReadOnly => Access::ReadOnly,
        };
        Ok(Self::new(root, access))
    }

    /// Opens the store in the folder `path` for looking up and putting, whatever the state of the place.
    ///
    /// A store that can be neither opened nor created misses every lookup and keeps nothing. That a store can be read but
    /// not written is found out by the first put. Either way work goes on, such puts answer [`Persisted::No`] with the
    /// reason, and one warning is logged for the store.
    pub fn open_or_degrade(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        match open_root(path, Mode::ReadWrite) {
            Ok(root) => Self::new(root, Access::Degrading),
            Err(error) => {
                let faults = Faults::default();
                faults.not_persisted(&error);
                let shared = Shared { root: path.to_owned(), access: Access::Unavailable(error), faults, durable: Durable::default() };
                Self { limits: Limits::default(), shared: Arc::new(shared) }
            }
        }
    }

    fn new(root: PathBuf, access: Access) -> Self {
        let shared = Shared { root, access, faults: Faults::default(), durable: Durable::default() };
        Self { limits: Limits::default(), shared: Arc::new(shared) }
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

    /// The folder, as an absolute path.
    pub fn root(&self) -> &Path {
        &self.shared.root
    }

    /// Why [`open_or_degrade`](Self::open_or_degrade) could open nothing; `None` when there is a store.
    pub fn unavailable(&self) -> Option<&StoreError> {
        match &self.shared.access {
            Access::Unavailable(error) => Some(error),
            Access::ReadOnly | Access::ReadWrite | Access::Degrading => None,
        }
    }

    /// The folder, if it is a store.
    pub(crate) fn usable_root(&self) -> Option<&Path> {
        if self.unavailable().is_some() { None } else { Some(self.root()) }
    }

    pub(crate) fn durable(&self) -> &Durable {
        &self.shared.durable
    }

    /// Runs a lookup: a fault becomes a miss, and a warning.
    pub(crate) fn lookup<T>(&self, find: impl FnOnce() -> Result<Option<T>, StoreError>) -> Lookup<T> {
        if self.usable_root().is_none() {
            return Lookup::Miss(Miss::NoStore);
        }
        match find() {
            Ok(Some(found)) => Lookup::Hit(found),
            Ok(None) => Lookup::Miss(Miss::Absent),
            Err(error) => {
                self.shared.faults.entry(&error);
                Lookup::Miss(Miss::Fault(error))
            }
        }
    }

    /// Runs a put: a fault of the store becomes an answer, and a warning, where that was asked for.
    pub(crate) fn put(&self, write: impl FnOnce() -> Result<Persisted, StoreError>) -> Result<Persisted, StoreError> {
        let path = || self.root().to_owned();
        let result = match &self.shared.access {
            Access::ReadWrite => return write(),
            Access::ReadOnly => return Err(StoreError::ReadOnly { path: path() }),
            Access::Degrading => write(),
            Access::Unavailable(error) => Err(StoreError::Unavailable { path: path(), cause: error.to_string() }),
        };
        result.or_else(|error| {
            self.shared.faults.not_persisted(&error);
            Ok(Persisted::No(error))
        })
    }
}

fn open_root(path: &Path, mode: Mode) -> Result<PathBuf, StoreError> {
    let root = fs::absolute(path).map_err(StoreError::io("use the path", path))?;
    match mode {
        Mode::ReadOnly => marker::require(&root)?,
        Mode::ReadWrite => marker::ensure(&root)?,
    }
    Ok(root)
}
