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
//! A claim that a kill left is below those that come later and in nobody's way.

use crate::entry::check_limit;
use crate::layer::Directory;
use crate::layout::{self, PACKS};
use crate::pack::Written;
use crate::{StoreError, fs};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Others that come in between, one after another, before it is given up.
const MOST_TRIES: u32 = 1000;

/// A generation that is kept for a pack in the making.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    folder: PathBuf,
    pub(super) generation: u32,
}

/// Takes a generation that is above those of all packs that can be seen from here.
pub(super) fn claim(directory: &Directory) -> Result<Claim, StoreError> {
    let folder = directory.uses_folder(PACKS)?;
    for _ in 0..MOST_TRIES {
        let generation = above(&folder, &Names::list(&folder)?)?;
        let path = folder.join(layout::claim_name(generation));
        let file = directory.write_temp(&[])?;
        match fs::rename_new(file, &path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(StoreError::io("create the file", &path)(e)),
        }
        let claim = Claim { path, folder: folder.clone(), generation };
        // A group may have given its pack this generation before it could see the claim.
        if Names::list(&folder)?.packs.iter().all(|&(other, _)| other < generation) {
            return Ok(claim);
        }
    }
    Err(StoreError::io("create a file in", &folder)(io::ErrorKind::AlreadyExists.into()))
}

impl Claim {
    /// Gives a pack the generation, durably.
    pub(super) fn publish(&self, directory: &Directory, written: Written) -> Result<PathBuf, StoreError> {
        let path = self.folder.join(layout::pack_name(self.generation, &written.root));
        fs::rename(written.temp, &path).map_err(StoreError::io("create the file", &path))?;
        directory.sync_name(&path)?;
        Ok(path)
    }

    /// Whether another compaction that may not have seen all that this one did is to write a pack above its own.
    pub(super) fn is_overtaken(&self) -> Result<bool, StoreError> {
        Ok(Names::list(&self.folder)?.claims.iter().any(|&other| other > self.generation))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // One that stays is in nobody's way.
        drop(fs::unlink(&self.path));
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
        if let Some(path) = publish_on_top(directory, write()?)? {
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

/// Removes what kills left beside the packs: claims, and stamps without a pack. Only for whoever is alone.
pub(super) fn sweep(directory: &Directory) -> Result<(), StoreError> {
    let folder = directory.root().join(PACKS);
    let names = list(&folder)?;
    for name in &names {
        let Some(name) = name.to_str() else { continue };
        let of_pack = name.strip_suffix(".used").map(|stem| format!("{stem}.pack"));
        let is_alone = of_pack.is_some_and(|pack| layout::parse_pack(&pack).is_some() && !names.iter().any(|name| *name == *pack));
        if is_alone || layout::parse_claim(name).is_some() {
            let path = folder.join(name);
            fs::unlink(&path).map_err(StoreError::io("delete", &path))?;
        }
    }
    Ok(())
}

/// Whether a compaction is at work: one whose claim is younger than this. It may have looked at what there is a while ago.
pub(super) fn is_claimed(directory: &Directory, younger: Duration) -> Result<bool, StoreError> {
    let folder = directory.root().join(PACKS);
    let claims = list(&folder)?.into_iter().filter(|name| name.to_str().and_then(layout::parse_claim).is_some());
    let is_young = |name: OsString| {
        let status = fs::status(&folder.join(name)).ok()?;
        SystemTime::now().duration_since(status.changed).map_or(true, |age| age < younger).then_some(())
    };
    Ok(claims.filter_map(is_young).next().is_some())
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
