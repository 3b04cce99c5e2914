//! The packs of a folder, as this process knows them.

use super::stamps::hours;
use crate::bundle::{Trust, is_refusal};
use crate::layout::{self, PACKS};
use crate::pack::{Pack, Used};
use crate::{Limits, StoreError, faults, fs};
use arc_swap::ArcSwap;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

/// A listing made this soon after the folder changed may have missed a change of the same tick of the clock.
const UNSETTLED: Duration = Duration::from_secs(2);

/// Listings of a folder whose packs come and go, before one is made do with.
const MOST_LISTINGS: u32 = 32;

/// Packs, a fault, and whether one has vanished.
type Opened = (Vec<Arc<Pack>>, Option<StoreError>, bool);

/// The packs of a folder. Readers take no lock: the list is replaced whole.
#[derive(Debug)]
pub(crate) struct Packs {
    folder: PathBuf,
    trust: Trust,
    listing: OnceLock<ArcSwap<Listing>>,
    /// One thread lists at a time; the others go on with what there is. Holds the packs that were found not to be trusted, which is told once.
    listing_now: Mutex<HashSet<PathBuf>>,
}

/// What a listing of the folder gave.
#[derive(Debug, Default)]
struct Listing {
    /// Newest first.
    packs: Arc<[Arc<Pack>]>,
    stamps: Vec<OnceLock<Option<Used>>>,
    /// When the folder was last changed, if it can be relied upon that nothing has happened since at the same time.
    changed: Option<SystemTime>,
    inode: Option<fs::Inode>,
}

impl Packs {
    pub(super) fn of(root: &Path, trust: Trust) -> Self {
        Self { folder: root.join(PACKS), trust, listing: OnceLock::new(), listing_now: Mutex::default() }
    }

    /// Whose packs are used.
    pub(super) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The packs that are known, newest first. None are before the first [`refresh`](Self::refresh).
    pub(crate) fn current(&self) -> Arc<[Arc<Pack>]> {
        self.listing().load().packs.clone()
    }

    fn listing(&self) -> &ArcSwap<Listing> {
        self.listing.get_or_init(ArcSwap::default)
    }

    /// The packs that are there, for going through them all.
    pub(crate) fn listed(&self) -> Vec<Arc<Pack>> {
        drop(self.refresh());
        self.current().to_vec()
    }

    /// Looks whether the folder has changed since it was listed; if so, gives what it holds now.
    pub(crate) fn refresh(&self) -> Result<Option<Arc<[Arc<Pack>]>>, StoreError> {
        let before = self.listing().load_full();
        let status = match fs::status(&self.folder) {
            Ok(status) if status.kind == fs::Kind::Folder => status,
            Ok(status) => {
                let (path, found) = (self.folder.clone(), status.kind.name());
                return Err(StoreError::FileType { path, found, expected: "a folder" });
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                if before.packs.is_empty() {
                    return Ok(None);
                }
                self.listing().store(Arc::default());
                return Ok(None);
            }
            Err(e) => return Err(StoreError::io("look at", &self.folder)(e)),
        };
        if before.inode == Some(status.inode) && before.changed == Some(status.changed) {
            return Ok(None);
        }
        let mut refused = self.listing_now.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.listing().load_full();
        let (listing, fault) = self.list(&before, &status, &mut refused)?;
        let is_new = listing.packs.len() != before.packs.len() || listing.packs.iter().zip(&*before.packs).any(|(a, b)| !Arc::ptr_eq(a, b));
        let packs = listing.packs.clone();
        self.listing().store(Arc::new(listing));
        match fault {
            // What is new may hold what is looked for, even where something else could not be opened.
            Some(error) if !is_new => Err(error),
            _ => Ok(is_new.then_some(packs)),
        }
    }

    /// Lists the folder. Packs that are open already stay open.
    ///
    /// A pack that vanishes between the listing and the opening has been folded into another one, which came before it went: so the folder
    /// is listed again, for what was in it must not be missed.
    fn list(
        &self,
        before: &Listing,
        status: &fs::Status,
        refused: &mut HashSet<PathBuf>,
    ) -> Result<(Listing, Option<StoreError>), StoreError> {
        // The folder's time was taken before its names are: a change in between is seen the next time.
        let is_settled = SystemTime::now().duration_since(status.changed).is_ok_and(|age| age >= UNSETTLED);
        let mut tries = 0_u32;
        loop {
            let (packs, fault, has_vanished) = self.open_all(before, refused)?;
            tries = tries.saturating_add(1);
            if has_vanished && tries < MOST_LISTINGS {
                continue;
            }
            let stamps = packs.iter().map(|_| OnceLock::new()).collect();
            let changed = (is_settled && fault.is_none() && tries == 1).then_some(status.changed);
            return Ok((Listing { packs: packs.into(), stamps, changed, inode: Some(status.inode) }, fault));
        }
    }

    /// The packs that are there now, newest first, with what keeps one from being opened, and whether one has vanished.
    fn open_all(&self, before: &Listing, refused: &mut HashSet<PathBuf>) -> Result<Opened, StoreError> {
        let names = fs::list(&self.folder).map_err(StoreError::io("list the folder", &self.folder))?;
        let mut packs = Vec::new();
        let (mut fault, mut has_vanished) = (None, false);
        for name in names.iter().rev() {
            if name.to_str().and_then(layout::parse_pack).is_none() {
                continue;
            }
            let path = self.folder.join(name);
            if let Some(known) = before.packs.iter().find(|pack| pack.path() == path) {
                packs.push(known.clone());
                continue;
            }
            match Pack::open(&path, &Limits::of_packs()) {
                Ok(Some(mut pack)) => match self.trust.check(&mut pack) {
                    Ok(()) => packs.push(Arc::new(pack)),
                    // It stays so until the folder changes.
                    Err(error) if is_refusal(&error) => {
                        if refused.insert(path) {
                            faults::not_trusted(&error);
                        }
                    }
                    Err(error) => fault = Some(error),
                },
                Ok(None) => has_vanished = true,
                Err(error) => fault = Some(error),
            }
        }
        Ok((packs, fault, has_vanished))
    }

    /// Notes that a row was used, if that was not done in this hour.
    pub(super) fn stamp(&self, pack: &Pack, ordinal: u32, now: SystemTime) {
        let listing = self.listing().load();
        let Some(at) = listing.packs.iter().position(|known| std::ptr::eq(&**known, pack)) else { return };
        let used = listing.stamps.get(at).map(|used| used.get_or_init(|| Used::open(pack.path(), pack.rows_in_all(), true)));
        if let Some(Some(used)) = used {
            used.stamp(ordinal, hours(now));
        }
    }
}
