//! The packs of a folder, as this process knows them.

use super::listing::{Bad, Began, Current, Listing, Turn};
use super::stamps::hours;
use crate::bundle::{Trust, is_refusal};
use crate::layout::{self, PACKS};
use crate::pack::{Pack, Used};
use crate::{Limits, StoreError, faults, fs};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Instant, SystemTime};

/// Listings of a folder whose packs come and go, before one is made do with.
const MOST_LISTINGS: u32 = 32;

/// The packs of a folder. Readers take no lock: the list is replaced whole.
#[derive(Debug)]
pub(crate) struct Packs {
    folder: PathBuf,
    trust: Trust,
    listing: Current,
    /// One thread lists at a time. The others wait for it, for there may be in the new list what they look for; but not for long.
    lister: AtomicU64,
}

/// What one look into the folder gave.
struct Opened {
    packs: Vec<Arc<Pack>>,
    bad: Vec<Bad>,
    has_vanished: bool,
}

impl Packs {
    pub(super) fn of(root: &Path, trust: Trust) -> Self {
        Self { folder: root.join(PACKS), trust, listing: Current::default(), lister: AtomicU64::new(0) }
    }

    /// Whose packs are used.
    pub(super) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The packs that are known, newest first. None are before the folder was listed.
    pub(crate) fn current(&self) -> Arc<[Arc<Pack>]> {
        self.listing.peek().map_or_else(Arc::default, |listing| listing.packs.clone())
    }

    /// The same, after a first listing. What is wrong with that is told by whoever looks again.
    pub(super) fn known(&self) -> Arc<[Arc<Pack>]> {
        let first = || self.list_in_turn(false).map_or_else(|_| Arc::default(), |listing| listing.packs.clone());
        self.listing.peek().map_or_else(first, |listing| listing.packs.clone())
    }

    /// The packs that are there, newest first, and what keeps others from being opened: for going through them all.
    pub(crate) fn listed(&self) -> (Vec<Arc<Pack>>, Vec<StoreError>) {
        let looked = self.look(true);
        let mut faults = self.faults();
        // Where the folder cannot be listed, that is all that is known of it.
        if let Err(error) = looked
            && faults.is_empty()
        {
            faults.push(error);
        }
        (self.current().to_vec(), faults)
    }

    /// What keeps packs of the last listing from being opened.
    pub(crate) fn faults(&self) -> Vec<StoreError> {
        self.listing.peek().map_or_else(Vec::new, |listing| listing.faults())
    }

    /// Looks whether the folder has changed since it was listed; if so, gives what it holds now. An error where that is no news, and a pack
    /// cannot be opened.
    pub(crate) fn refresh(&self) -> Result<Option<Arc<[Arc<Pack>]>>, StoreError> {
        self.look(false)
    }

    /// The same; `is_thorough` tries packs again that could not be opened a moment ago.
    fn look(&self, is_thorough: bool) -> Result<Option<Arc<[Arc<Pack>]>>, StoreError> {
        let before = self.listing.get();
        // The first listing looks at the folder itself.
        if let Some(before) = &before {
            match fs::status(&self.folder) {
                Ok(status) if before.still_holds(&status, is_thorough) => return before.fault().map_or(Ok(None), Err),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    if !before.packs.is_empty() || before.has_faults() {
                        self.listing.set(Arc::new(Listing::of_nothing()));
                    }
                    return Ok(None);
                }
                Err(e) => return Err(StoreError::io("look at", &self.folder)(e)),
            }
        }
        let listing = self.list_in_turn(is_thorough)?;
        let has_other_packs = listing.has_other_packs(before.as_deref());
        match listing.fault() {
            // What is new may hold what is looked for, even where something else could not be opened.
            Some(error) if !has_other_packs => Err(error),
            _ => Ok(has_other_packs.then(|| listing.packs.clone())),
        }
    }

    /// Lists the folder, unless another thread has done so for us.
    fn list_in_turn(&self, is_thorough: bool) -> Result<Arc<Listing>, StoreError> {
        let from = Instant::now();
        let _turn = Turn::take(&self.lister, || self.listing.peek().is_some_and(|listing| listing.began_after(from)));
        let before = match self.listing.get() {
            // Who was waited for may have. Who was waited for in vain has not: then it is done twice.
            Some(known) if known.began_after(from) => return Ok(known),
            before => before,
        };
        let listing = Arc::new(self.list(before.as_deref(), is_thorough)?);
        self.listing.set(listing.clone());
        Ok(listing)
    }

    /// Lists the folder. Packs that are open already stay open.
    ///
    /// A pack that vanishes between the listing and the opening has been folded into another one, which came before it went: so the folder
    /// is listed again, for what was in it must not be missed.
    fn list(&self, before: Option<&Listing>, is_thorough: bool) -> Result<Listing, StoreError> {
        let mut began: Option<Began> = None;
        for turn in 1_u32.. {
            let Some((status, names)) = self.names()? else { break };
            // The folder's time was taken before its names: a change in between is seen the next time.
            let this = began.map_or_else(|| Began::now(before, &status), Began::is_before_a_change);
            let opened = self.open_all(&names, before, is_thorough);
            if !opened.has_vanished || turn >= MOST_LISTINGS {
                return Ok(this.found(opened.packs, opened.bad));
            }
            began = Some(this);
        }
        Ok(Listing::of_nothing())
    }

    /// The state of the folder, and the names of packs in it; `None` where there is none.
    fn names(&self) -> Result<Option<(fs::Status, Vec<OsString>)>, StoreError> {
        let path = &self.folder;
        match fs::list_with_status(path, |name| name.to_str().and_then(layout::parse_pack).is_some()) {
            Ok(listed) => Ok(Some(listed)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(match fs::kind(path) {
                Ok(fs::Kind::Folder) | Err(_) => StoreError::io("list the folder", path)(e),
                Ok(other) => StoreError::FileType { path: path.clone(), found: other.name(), expected: "a folder" },
            }),
        }
    }

    /// The packs that are there now, newest first, those that cannot be opened, and whether one has vanished.
    fn open_all(&self, names: &[OsString], before: Option<&Listing>, is_thorough: bool) -> Opened {
        let mut opened = Opened { packs: Vec::with_capacity(names.len()), bad: Vec::new(), has_vanished: false };
        for name in names.iter().rev() {
            let path = self.folder.join(name);
            if let Some(known) = before.and_then(|before| before.packs.iter().find(|pack| pack.path() == path)) {
                opened.packs.push(known.clone());
                continue;
            }
            let before = before.and_then(|before| before.bad(&path));
            if let Some(bad) = before
                && let Some(bad) = bad.still_is(fs::status(&path).ok(), is_thorough)
            {
                opened.bad.push(bad);
                continue;
            }
            match self.open(path, before) {
                Ok(Some(pack)) => opened.packs.push(pack),
                Ok(None) => opened.has_vanished = true,
                Err(bad) => opened.bad.push(bad),
            }
        }
        opened
    }

    /// Opens a pack that is trusted far enough; `None` where it is not there any more.
    fn open(&self, path: PathBuf, before: Option<&Bad>) -> Result<Option<Arc<Pack>>, Bad> {
        match Pack::open(&path, &Limits::of_packs()) {
            Ok(Some(pack)) => self.trusted(pack, before).map(Some),
            Ok(None) => Ok(None),
            Err(_) => self.open_again(path, before),
        }
    }

    /// Opens what did not open a moment ago, now behind a look at it: so what takes its name in between is looked at another time.
    #[cold]
    fn open_again(&self, path: PathBuf, before: Option<&Bad>) -> Result<Option<Arc<Pack>>, Bad> {
        let status = fs::status(&path).ok();
        match Pack::open(&path, &Limits::of_packs()) {
            Ok(Some(pack)) => self.trusted(pack, before).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(Bad::new(path, status, error, false, before)),
        }
    }

    fn trusted(&self, mut pack: Pack, before: Option<&Bad>) -> Result<Arc<Pack>, Bad> {
        let Err(error) = self.trust.check(&mut pack) else { return Ok(Arc::new(pack)) };
        let is_refused = is_refusal(&error);
        if is_refused && before.is_none_or(|bad| !bad.is_refused()) {
            faults::not_trusted(&error);
        }
        Err(Bad::new(pack.path().to_owned(), Some(*pack.status()), error, is_refused, before))
    }

    /// Notes that a row was used, if that was not done in this hour; tells whether it is noted.
    pub(super) fn stamp(&self, pack: &Pack, ordinal: u32, now: SystemTime) -> bool {
        let Some(listing) = self.listing.peek() else { return false };
        let Some(at) = listing.packs.iter().position(|known| std::ptr::eq(&**known, pack)) else { return false };
        let Some(cell) = listing.stamps.get(at) else { return false };
        let used = cell.get_or_init(|| Box::new(Used::open(pack.path(), pack.rows_in_all(), true)));
        used.as_ref().is_some_and(|used| used.stamp(ordinal, hours(now)))
    }
}
