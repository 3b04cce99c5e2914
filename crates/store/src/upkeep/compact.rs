//! Folding loose files and small packs into one pack.
//!
//! Readers find every entry at every moment: the pack has its name, durably, before anything goes. A record that somebody replaces
//! meanwhile stays the one that is found. Loose files are in front of packs, and a loose file goes only if it is the very one that was
//! packed ([`trash`]); the pack is behind those of groups that were put since ([`generation`]); and a record whose key is in such a pack,
//! or of which another compaction may have an older copy, keeps its loose file.
//!
//! A kill leaves entries in two places, or files that the next upkeep puts back or sweeps.

use super::alone::Alone;
use super::carry::NewStamps;
use super::gather::{Folded, Gathered};
use super::generation::{self, Claim};
use super::progress::{Counter, UpkeepProgress};
use super::trash::{self, Condemned};
use super::withdraw::withdraw;
use crate::entry::check_limit;
use crate::layer::{Directory, hours};
use crate::layout::{self, PACKS};
use crate::pack::{self, Pack, Written};
use crate::{EntryKind, Limits, Store, StoreError, fs};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Times that a pack is written before it is given up: each time without what was found bad the time before.
const MOST_WRITES: u32 = 5;

/// What is folded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactOptions {
    /// Loose files, and not packs alone.
    pub files: bool,
    /// All packs, and not only the small ones when there are many. Their signatures are lost.
    pub all: bool,
    /// A pack of fewer bytes is small.
    pub small_pack_bytes: u64,
    /// More small packs than this are folded.
    pub few_packs: usize,
    /// How long to wait for other upkeep of the store to end. Then both go on: it is double work, and otherwise right.
    pub wait: Duration,
}

impl Default for CompactOptions {
    /// Loose files, and packs below 64 MiB when there are more than eight; waits ten seconds.
    fn default() -> Self {
        Self { files: true, all: false, small_pack_bytes: 64 << 20, few_packs: 8, wait: Duration::from_secs(10) }
    }
}

/// What [`Store::compact`] did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CompactReport {
    /// The new pack; none where there was nothing to fold.
    pub pack: Option<PathBuf>,
    /// Entries in it.
    pub entries: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Loose files that are now in it alone.
    pub files_folded: u64,
    /// Loose files that were packed and stay, for somebody has replaced them or may need them.
    pub files_kept: u64,
    /// Packs that are now in it alone.
    pub packs_folded: u64,
    /// Damaged entries: files were set aside, and what packs held of them was not taken over.
    pub damaged: u64,
    /// Entries that stay where they are: of another version, above a limit, unreadable, or not hipplan's.
    pub left: u64,
    /// What upkeep that was killed had taken away and left undecided, and which is in its place again.
    pub put_back: Vec<PathBuf>,
    /// What was wrong with entries that are damaged or left, and what could not be removed; the first thousand.
    pub problems: Vec<StoreError>,
}

impl Store {
    /// Folds the loose files of the writable folder, and small packs if there are many, into one new pack.
    ///
    /// May run beside readers, writers and other upkeep. Readers miss nothing. Memory is needed for about 200 bytes an entry.
    ///
    /// # Errors
    /// The store may not be written, or the pack could not be. What was there is still there then.
    pub fn compact(&self, options: &CompactOptions, progress: &dyn UpkeepProgress) -> Result<CompactReport, StoreError> {
        compact(self.to_write()?, self.limits(), options, progress)
    }
}

fn compact(
    directory: &Directory,
    limits: &Limits,
    options: &CompactOptions,
    progress: &dyn UpkeepProgress,
) -> Result<CompactReport, StoreError> {
    if !options.files && !packs_to_fold(&directory.packs().listed().0, options).contains(&true) {
        return Ok(CompactReport::default());
    }
    directory.uses_folder(PACKS)?;
    let alone = Alone::wait(directory, options.wait)?;
    let put_back = trash::recover(directory)?;
    if alone.is_certain() {
        generation::sweep(directory)?;
    }
    let claim = generation::claim(directory)?;
    directory.packs().refresh()?;
    let packs = directory.packs().current();
    let is_folded = packs_to_fold(&packs, options);

    let mut fold = Gathered::new(directory, limits, packs, is_folded);
    if options.files {
        fold.list_loose(&mut Counter::new(progress, "listing files", 0));
    }
    fold.list_packs(&mut Counter::new(progress, "listing packs", 0));
    let mut report = CompactReport { put_back, ..CompactReport::default() };
    if !fold.is_empty() {
        write(directory, limits, &claim, &mut fold, progress, &mut report)?;
    }
    report.damaged = fold.outcome.damaged;
    report.left = fold.outcome.left;
    let mut problems = fold.outcome.problems;
    problems.append(&mut report.problems);
    report.problems = problems;
    Ok(report)
}

/// All, or the small ones if there are many. One alone is folded only if all are, and only if there is something to fold it with.
fn packs_to_fold(packs: &[Arc<Pack>], options: &CompactOptions) -> Vec<bool> {
    if options.all {
        return vec![true; packs.len()];
    }
    // What somebody has signed would be worth less folded.
    let is_signed = |pack: &Arc<Pack>| !pack.signatures().is_ok_and(|signatures| signatures.is_empty());
    let is_small = |pack: &Arc<Pack>| pack.bytes() < options.small_pack_bytes && !is_signed(pack);
    let many = packs.iter().filter(|pack| is_small(pack)).count() > options.few_packs;
    packs.iter().map(|pack| many && is_small(pack)).collect()
}

fn write(
    directory: &Directory,
    limits: &Limits,
    claim: &Claim,
    fold: &mut Gathered<'_>,
    progress: &dyn UpkeepProgress,
    report: &mut CompactReport,
) -> Result<(), StoreError> {
    let mut provenance = BTreeSet::new();
    for (pack, _) in fold.folded_packs() {
        provenance.extend(pack.provenance()?);
    }
    let provenance: Vec<String> = provenance.into_iter().collect();
    let mut tries = 0_u32;
    let (written, count) = loop {
        let entries = fold.choose();
        let count = entries.len() as u64;
        check_limit(&directory.root().join(PACKS), "number of entries", count, "max_pack_rows", u64::from(limits.max_pack_rows))?;
        let is_one_pack = fold.folded_files().is_empty() && fold.folded_packs().count() < 2;
        if entries.is_empty() || is_one_pack {
            return Ok(());
        }
        let mut failed: Option<(usize, StoreError)> = None;
        let mut counter = Counter::new(progress, "packing", count);
        let tmp = directory.temp_folder()?;
        let written = pack::write(&tmp, &entries, &provenance, &mut |number, sink| {
            counter.one();
            fold.read(number, sink).unwrap_or_else(|error| {
                failed = Some((number, error));
                Err(StoreError::io("read", directory.root())(std::io::ErrorKind::Other.into()))
            })
        });
        tries = tries.saturating_add(1);
        match (written, failed) {
            (Ok(written), None) => break (written, count),
            // Other upkeep is at work, and what is left of what it takes away does not belong together.
            (Err(_), Some((_, error))) if error.is_not_found() => return Ok(()),
            (Err(_), Some((number, _))) if tries < MOST_WRITES => fold.check_from(number),
            (_, Some((_, error))) | (Err(error), None) => return Err(error),
        }
    };
    let bytes = written.bytes;
    let pack = publish(directory, claim, fold, written)?;
    // The name of the pack first, then the look at what went into it: gc takes names away first, and then looks for packs. So one of the two
    // finds the other out.
    if !fold.is_in_place()? {
        return match Pack::open(&pack, limits)? {
            Some(pack) => withdraw(directory, limits, &Arc::new(pack), &fold.stamps()),
            None => Ok(()),
        };
    }
    (report.entries, report.bytes) = (count, bytes);
    let stamps = NewStamps::open(&pack, limits);
    remove_packs(directory, fold, &pack, &stamps, report);
    let new = New { directory, claim, path: &pack, stamps: &stamps };
    new.remove_files(&fold.folded_files(), progress, report);
    report.pack = Some(pack);
    drop(directory.packs().refresh());
    Ok(())
}

/// Stamps first: who opens the pack may add to them at once.
fn publish(directory: &Directory, claim: &Claim, fold: &Gathered<'_>, written: Written) -> Result<PathBuf, StoreError> {
    let used = directory.root().join(PACKS).join(layout::pack_name(claim.generation, &written.root)).with_extension("used");
    let stamps: Vec<u8> = fold.stamps().into_iter().flat_map(u32::to_le_bytes).collect();
    let stamps = directory.write_temp(&stamps)?;
    fs::rename(stamps, &used).map_err(StoreError::io("create the file", &used))?;
    claim.publish(directory, written).inspect_err(|_| drop(fs::unlink(&used)))
}

/// Removes the packs that were folded. All that is in them is in the new one, or was damaged.
fn remove_packs(directory: &Directory, fold: &Gathered<'_>, new: &Path, stamps: &NewStamps, report: &mut CompactReport) {
    for (pack, used) in fold.folded_packs() {
        // Nobody replaces a pack, and what stands under its name has its content.
        if pack.path() == new {
            continue;
        }
        match fs::unlink(pack.path()) {
            Ok(_) => {
                report.packs_folded = report.packs_folded.saturating_add(1);
                stamps.renew_from(pack, used);
                drop(fs::unlink(&pack.path().with_extension("used")));
            }
            Err(e) => report.problem(StoreError::io("delete", pack.path())(e)),
        }
    }
    let folder = directory.root().join(PACKS);
    if report.packs_folded > 0
        && let Err(e) = fs::sync_folder(&folder)
    {
        report.problem(StoreError::io("sync the folder", &folder)(e));
    }
}

/// The pack that was written, and those who go on with it.
struct New<'n> {
    directory: &'n Directory,
    claim: &'n Claim,
    path: &'n Path,
    stamps: &'n NewStamps,
}

impl New<'_> {
    /// Removes the loose files that were packed, folder by folder.
    fn remove_files(&self, files: &[Folded], progress: &dyn UpkeepProgress, report: &mut CompactReport) {
        // What comes back from `trash` would be older than what is in the pack.
        let awaited = match (trash::awaits(self.directory), self.claim.is_overtaken()) {
            (Ok(awaited), Ok(false)) => Some(awaited),
            (Ok(_), Ok(true)) => None,
            (Err(error), _) | (_, Err(error)) => {
                report.problem(error);
                None
            }
        };
        let mut counter = Counter::new(progress, "removing files", files.len() as u64);
        for folder in files.chunk_by(|a, b| a.kind == b.kind && a.name.first() == b.name.first()) {
            let mut condemned = Vec::with_capacity(folder.len());
            for file in folder {
                counter.one();
                let goes = !file.is_record() || awaited.as_ref().is_some_and(|awaited| !awaited.contains(&(file.kind, file.name)));
                let goes = goes && !(file.is_record() && self.is_behind(file));
                match if goes { trash::condemn(self.directory, file.kind, &file.name, file.inode) } else { Ok(None) } {
                    Ok(Some(one)) => condemned.push((file, one)),
                    Ok(None) => report.files_kept = report.files_kept.saturating_add(1),
                    Err(error) => {
                        report.files_kept = report.files_kept.saturating_add(1);
                        report.problem(error);
                    }
                }
            }
            self.delete(folder, condemned, report);
        }
    }

    /// Deletes what was taken away in one folder.
    fn delete(&self, folder: &[Folded], condemned: Vec<(&Folded, Condemned<'_>)>, report: &mut CompactReport) {
        let Some(first) = folder.first().filter(|_| !condemned.is_empty()) else { return };
        let path = first.kind.file(self.directory.root(), &first.name);
        let parent = path.parent().unwrap_or(self.directory.root());
        // A name that a power cut brings back would be in front of what is put into packs from now on. As long as the file is in `trash`,
        // whoever puts there sees it.
        if let Err(e) = fs::sync_folder(parent) {
            // Dropped, they go back.
            report.files_kept = report.files_kept.saturating_add(condemned.len() as u64);
            return report.problem(StoreError::io("sync the folder", parent)(e));
        }
        for (file, one) in condemned {
            let used = one.status().ok().flatten().map(|status| hours(status.changed));
            if let Some(hours) = used.filter(|&hours| hours > file.stamp) {
                self.stamps.renew(file.kind, &file.name, hours);
            }
            match one.delete() {
                Ok(true) => report.files_folded = report.files_folded.saturating_add(1),
                Ok(false) => report.files_kept = report.files_kept.saturating_add(1),
                Err(error) => {
                    report.files_kept = report.files_kept.saturating_add(1);
                    report.problem(error);
                }
            }
        }
    }

    /// Whether a pack in front of the new one has this record, or it cannot be told.
    fn is_behind(&self, file: &Folded) -> bool {
        if self.directory.packs().refresh().is_err() {
            return true;
        }
        let packs = self.directory.packs().current();
        let in_front = packs.iter().take_while(|pack| pack.path() != self.path);
        in_front.map(|pack| pack.find(file.kind, &file.name)).any(|found| !matches!(found, Ok(None)))
    }
}

impl Folded {
    fn is_record(&self) -> bool {
        matches!(self.kind, EntryKind::PlanRecord | EntryKind::Selection)
    }
}

impl CompactReport {
    fn problem(&mut self, error: StoreError) {
        self.problems.push(error);
    }
}
