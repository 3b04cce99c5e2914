//! Which of several packs counts: the order of those that are made at once.
//!
//! A record in a pack of a greater generation is in front of that of a smaller one. What a group of puts writes is news, and must be in
//! front of all that was there before; what a compaction writes is what was there when it looked, and must be behind what was put since.
//! There is no lock, so:
//!
//! * A compaction first takes a generation above all packs ([`claim`]): a file of that number, which only one can create. Only then it
//!   looks at what there is.
//! * A group gives its pack a generation above all packs and claims, and then looks again: while there is one that is not below, it takes
//!   another ([`publish_on_top`]). So whatever was claimed before the group had its place is below it, and a claim that comes later is of
//!   a compaction that has yet to look, and finds the pack of the group.
//!
//! A claim that a kill left is below those that come later and in nobody's way, and gets old ([`claim`](super::claim)).

use super::alone::Alone;
use super::claim::{Claim, Clock, bury, claims, is_stale};
use super::readable::open_written;
use crate::entry::check_limit;
use crate::layer::Directory;
use crate::layer::walk::twice;
use crate::layout::{self, PACKS, TRASH};
use crate::pack::Written;
use crate::{StoreError, fs};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Others that come in between, one after another, before it is given up.
const MOST_TRIES: u32 = 1000;

/// Takes a generation that is above those of all packs that can be seen from here.
pub(super) fn claim(directory: &Directory, alone: &Alone) -> Result<Claim, StoreError> {
    let folder = directory.uses_folder(PACKS)?;
    for _ in 0..MOST_TRIES {
        let generation = above(&folder, &Names::list(&folder)?)?;
        let Some(claim) = Claim::make(directory, &folder, generation, alone)? else { continue };
        // A group may have given its pack this generation before it could see the claim.
        if Names::list(&folder)?.packs.iter().all(|&(other, _)| other < generation) {
            return Ok(claim);
        }
    }
    Err(StoreError::io("create a file in", &folder)(io::ErrorKind::AlreadyExists.into()))
}

impl Claim {
    /// Whether another compaction that may not have seen all that this one did is to write a pack above its own.
    pub(super) fn is_overtaken(&self) -> Result<bool, StoreError> {
        Ok(Names::list(self.folder())?.claims.iter().any(|&other| other > self.generation))
    }
}

/// Times that a pack is written which compactions fold before it has its place.
const MOST_WRITES: u32 = 3;

/// Writes a pack and gives it a generation above all others, durably. `None` when others have folded it each time before it had its place.
pub(crate) fn write_on_top(
    directory: &Directory,
    mut write: impl FnMut() -> Result<Written, StoreError>,
) -> Result<Option<PathBuf>, StoreError> {
    for _ in 0..MOST_WRITES {
        let written = write()?;
        // One that no reader could open would be as good as lost, and whoever put it has been told that it is kept.
        drop(open_written(&written)?);
        if let Some(path) = publish_on_top(directory, written)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Gives a pack a generation above all others, durably. `None` when a compaction that did not know it to be the newest has folded it
/// before it was: then it is to be written again.
fn publish_on_top(directory: &Directory, written: Written) -> Result<Option<PathBuf>, StoreError> {
    let folder = directory.uses_folder(PACKS)?;
    let place = |generation| folder.join(layout::pack_name(generation, &written.root));
    let mut generation = above(&folder, &Names::list(&folder)?)?;
    let mut path = place(generation);
    fs::rename(written.temp, &path).map_err(StoreError::io("create the file", &path))?;
    let id = written.root.first_chunk().copied().unwrap_or_default();
    for _ in 0..MOST_TRIES {
        directory.sync_name(&path)?;
        let mut names = Names::list(&folder)?;
        let all = names.packs.len();
        names.packs.retain(|&pack| pack != (generation, id));
        if names.packs.len() == all {
            return Ok(None);
        }
        if names.packs.iter().all(|&pack| pack < (generation, id)) && names.claims.iter().all(|&claim| claim < generation) {
            return Ok(Some(path));
        }
        generation = above(&folder, &names)?;
        let next = place(generation);
        match fs::rename_away(&path, &next) {
            Ok(()) => path = next,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StoreError::io("rename", &path)(e)),
        }
    }
    Err(StoreError::io("rename", &path)(io::ErrorKind::AlreadyExists.into()))
}

/// Removes what kills left beside the packs: claims of nobody who is at work, and stamps of packs that are nowhere, if they are
/// as old.
pub(super) fn sweep(directory: &Directory, alone: &Alone, clock: &Clock) -> Result<(), StoreError> {
    let folder = directory.root().join(PACKS);
    let names = list(&folder)?;
    let stamps = names.iter().filter(|name| is_left_alone(directory, Path::new(name)));
    let stamps = stamps.map(|name| folder.join(name)).filter(|path| is_stale(directory, path, clock));
    claims(&names).try_for_each(|name| bury(directory, &folder.join(name), clock, alone))?;
    stamps.into_iter().try_for_each(|path| fs::unlink(&path).map(drop).map_err(StoreError::io("delete", &path)))
}

/// Whether a name among the packs is that of stamps whose pack is nowhere, not even in `trash`, from where it may come back.
pub(super) fn is_left_alone(directory: &Directory, name: &Path) -> bool {
    let pack = name.with_extension("pack");
    let is_ours = name.extension() == Some(OsStr::new("used")) && pack.to_str().is_some_and(|pack| layout::parse_pack(pack).is_some());
    let is_nowhere = |folder: &str| matches!(twice(|| fs::status(&directory.root().join(folder).join(&pack))), Err(e) if e.kind() == io::ErrorKind::NotFound);
    // What is put back between the looks at the first two is in the first again.
    is_ours && is_nowhere(PACKS) && is_nowhere(TRASH) && is_nowhere(PACKS)
}

/// Whether a compaction is at work. It may have looked at what there is a while ago.
pub(super) fn is_claimed(directory: &Directory, clock: &Clock) -> Result<bool, StoreError> {
    let folder = directory.root().join(PACKS);
    let names = list(&folder)?;
    let is_gone = |path: &Path| matches!(twice(|| fs::status(path)), Err(e) if e.kind() == io::ErrorKind::NotFound);
    let of_compactions = claims(&names).filter(|name| **name != *layout::claim_name(0));
    let mut paths = of_compactions.map(|name| folder.join(name));
    Ok(paths.any(|path| !is_stale(directory, &path, clock) && !is_gone(&path)))
}

/// What stands in the folder of packs.
struct Names {
    packs: Vec<(u32, [u8; 16])>,
    claims: Vec<u32>,
}

impl Names {
    fn list(folder: &Path) -> Result<Self, StoreError> {
        let names = list(folder)?;
        let names = || names.iter().filter_map(|name| name.to_str());
        Ok(Self { packs: names().filter_map(layout::parse_pack).collect(), claims: names().filter_map(layout::parse_claim).collect() })
    }
}

fn list(folder: &Path) -> Result<Vec<OsString>, StoreError> {
    match fs::list(folder) {
        Ok(names) => Ok(names),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(StoreError::io("list the folder", folder)(e)),
    }
}

/// A generation above all of these.
fn above(folder: &Path, names: &Names) -> Result<u32, StoreError> {
    let generations = names.packs.iter().map(|&(generation, _)| generation).chain(names.claims.iter().copied());
    let top = generations.max().unwrap_or(0);
    let max = u64::from(u32::MAX).saturating_sub(1);
    check_limit(folder, "generation of a pack", u64::from(top), "generations", max)?;
    Ok(top.saturating_add(1))
}
