//! What lookups and puts answer.

use crate::StoreError;

/// The answer of a lookup. No fault of the store is an error to the caller: it is a miss that says why.
#[derive(Debug)]
#[must_use]
pub enum Lookup<T> {
    /// Found and checked.
    Hit(T),
    /// Not to be had from this store.
    Miss(Miss),
}

/// Why a lookup missed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Miss {
    /// The store holds no such entry.
    #[error("not in the store")]
    Absent,
    /// The store could not be opened, so it holds nothing: [`Store::unavailable`](crate::Store::unavailable) says why.
    #[error("no store could be opened")]
    NoStore,
    /// There is an entry, but it cannot be used. A warning has been logged, once for this path; or once for this kind of
    /// refusal, where the system refuses to read.
    #[error(transparent)]
    Fault(StoreError),
}

impl<T> Lookup<T> {
    /// What was found, the reason for a miss dropped.
    pub fn hit(self) -> Option<T> {
        self.ok().ok()
    }

    /// As a result, for `?` and `map_err`.
    ///
    /// # Errors
    /// The reason for the miss.
    pub fn ok(self) -> Result<T, Miss> {
        match self {
            Self::Hit(found) => Ok(found),
            Self::Miss(why) => Err(why),
        }
    }
}

/// The answer of a put: the address of what was put, and whether it will be there next time.
#[derive(Debug)]
#[must_use]
pub struct Put<T> {
    /// The address, valid whether or not it was persisted.
    pub id: T,
    /// What became of the bytes.
    pub persisted: Persisted,
}

/// What became of the bytes of a put.
#[derive(Debug)]
#[must_use]
pub enum Persisted {
    /// Nothing stood under the name; the bytes now do, durably.
    New,
    /// The same bytes were already there; they have been made durable.
    Unchanged,
    /// Something else stood under the name, a damaged object or an older record; the bytes have replaced it, durably.
    Replaced,
    /// Not stored. Only a store of [`Store::open_or_degrade`](crate::Store::open_or_degrade) answers this; another store
    /// gives an error.
    No(StoreError),
}

impl Persisted {
    /// Whether it will be there next time.
    pub fn is_persisted(&self) -> bool {
        !matches!(self, Self::No(_))
    }

    /// Whether something was written.
    pub(crate) fn is_news(&self) -> bool {
        matches!(self, Self::New | Self::Replaced)
    }
}
