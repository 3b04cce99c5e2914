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
use super::claim::Claim;
use super::claim::Clock;
use super::folded::Removing;
use super::gather::Gathered;
use super::generation;
use super::origins::Origins;
use super::problems::Problems;
use super::progress::{Counter, UpkeepProgress};
use super::readable::{check_readable, open_written};
use super::trash;
use super::withdraw::withdraw;
use crate::layer::Directory;
use crate::layout::{self, PACKS};
use crate::pack::{self, Pack, Written};
use crate::{Limits, Store, StoreError, fs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Times that a pack is written before it is given up: each time without what was found bad the time before.
const MOST_WRITES: u32 = 5;
/// Times that it is begun anew because other upkeep has taken away what was being packed.
const MOST_BEGINNINGS: u32 = 4;

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
    /// Not beside other upkeep: where that goes on for longer than the wait, or locks are refused, nothing is folded.
    pub only_alone: bool,
}

impl Default for CompactOptions {
    /// Loose files, and packs below 64 MiB when there are more than eight; waits ten seconds.
    fn default() -> Self {
        Self { files: true, all: false, small_pack_bytes: 64 << 20, few_packs: 8, wait: Duration::from_secs(10), only_alone: false }
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
    /// Nothing was folded, for other upkeep has taken away what was being packed, each time that it was begun anew; or it is at work, and
    /// this was to be done [alone](CompactOptions::only_alone). Another time will do.
    pub gave_up: bool,
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
    if options.only_alone && !alone.is_sure() {
        return Ok(CompactReport { gave_up: true, ..CompactReport::default() });
    }
    let mut report = CompactReport { put_back: trash::recover(directory)?, ..CompactReport::default() };
    generation::sweep(directory, &alone, &Clock::default())?;
    for _ in 0..MOST_BEGINNINGS {
        report.gave_up = !fold(directory, &alone, limits, options, progress, &mut report)?;
        if !report.gave_up {
            break;
        }
    }
    Ok(report)
}

/// Lists what there is, and folds it. `false` when others have taken away what was being packed: what is there now is another thing, and
/// nothing was folded.
fn fold(
    directory: &Directory,
    alone: &Alone,
    limits: &Limits,
    options: &CompactOptions,
    progress: &dyn UpkeepProgress,
    report: &mut CompactReport,
) -> Result<bool, StoreError> {
    // A new one each time: what is found under it may be newer than the one before.
    let claim = generation::claim(directory, alone)?;
    directory.packs().refresh()?;
    let packs = directory.packs().current();
    let is_folded = packs_to_fold(&packs, options);

    let mut fold = Gathered::new(directory, limits, packs, is_folded);
    if options.files {
        fold.list_loose(&mut Counter::new(progress, "listing files", 0));
    }
    fold.list_packs(&mut Counter::new(progress, "listing packs", 0));
    // Of an earlier time what was set aside counts still; what was left is met again.
    report.problems.retain(StoreError::is_damage);
    let mut removing = Vec::new();
    let is_done = fold.is_empty() || write(directory, limits, &claim, &mut fold, progress, report, &mut removing)?;
    report.damaged = report.damaged.saturating_add(fold.outcome.damaged);
    report.left = fold.outcome.left;
    report.problems.note_all(fold.outcome.problems);
    report.problems.note_all(removing);
    Ok(is_done)
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

/// Writes the pack and removes what is in it; what cannot be removed is told in `problems`. `false` when others have taken away what was
/// being packed.
fn write(
    directory: &Directory,
    limits: &Limits,
    claim: &Claim,
    fold: &mut Gathered<'_>,
    progress: &dyn UpkeepProgress,
    report: &mut CompactReport,
    problems: &mut Vec<StoreError>,
) -> Result<bool, StoreError> {
    let mut tries = 0_u32;
    let (written, count) = loop {
        let entries = fold.choose();
        let count = entries.len() as u64;
        let is_one_pack = fold.folded_files().is_empty() && fold.folded_packs().count() < 2;
        if entries.is_empty() || is_one_pack {
            return Ok(true);
        }
        let provenance = provenance(fold, limits)?;
        for limits in [limits, &Limits::of_packs()] {
            check_readable(&directory.root().join(PACKS), &entries, &provenance, limits)?;
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
            (Err(_), Some((_, error))) if error.is_not_found() => return Ok(false),
            (Err(_), Some((number, _))) if tries < MOST_WRITES => fold.check_from(number),
            (_, Some((_, error))) | (Err(error), None) => return Err(error),
        }
    };
    let bytes = written.bytes;
    // All that it stands for goes when it has its name: so it must be one that every reader opens.
    let pack = open_written(&written)?;
    if !claim.stands() {
        return Ok(false);
    }
    let path = publish(directory, claim, fold, written)?;
    let pack = Arc::new(pack.called(&path));
    // The name of the pack first, then the look at what went into it: gc takes names away first, and then looks for packs. So one of the two
    // finds the other out.
    if !fold.is_in_place()? {
        withdraw(directory, limits, &pack, &fold.stamps())?;
        return Ok(false);
    }
    (report.entries, report.bytes) = (count, bytes);
    let stamps = NewStamps::of(&pack);
    let mut removing = Removing { directory, claim, pack: &pack, stamps: &stamps, report, problems };
    removing.packs(fold);
    removing.files(&fold.folded_files(), progress);
    report.pack = Some(path);
    drop(directory.packs().refresh());
    Ok(true)
}

/// The lines of all packs that are folded, as far as readers have room for them.
fn provenance(fold: &Gathered<'_>, limits: &Limits) -> Result<Vec<String>, StoreError> {
    let mut origins = Origins::new(limits.max_provenance_bytes.min(Limits::of_packs().max_provenance_bytes));
    // Newest first.
    for (pack, _) in fold.folded_packs() {
        origins.add(pack.provenance()?);
    }
    Ok(origins.finish())
}

/// Stamps first: who opens the pack may add to them at once.
fn publish(directory: &Directory, claim: &Claim, fold: &Gathered<'_>, written: Written) -> Result<PathBuf, StoreError> {
    let used = directory.root().join(PACKS).join(layout::pack_name(claim.generation, &written.root)).with_extension("used");
    let stamps: Vec<u8> = fold.stamps().into_iter().flat_map(u32::to_le_bytes).collect();
    let stamps = directory.write_temp(&stamps)?;
    fs::rename(stamps, &used).map_err(StoreError::io("create the file", &used))?;
    claim.publish(directory, written).inspect_err(|_| drop(fs::unlink(&used)))
}
