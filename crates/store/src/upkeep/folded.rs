//! Removing what was folded into a pack.

use super::carry::NewStamps;
use super::claim::Claim;
use super::compact::CompactReport;
use super::gather::{Folded, Gathered};
use super::problems::Problems;
use super::progress::{Counter, UpkeepProgress};
use super::trash::{self, Condemned};
use crate::layer::{Directory, hours};
use crate::layout::PACKS;
use crate::pack::Pack;
use crate::{EntryKind, StoreError, fs};

/// The pack that was written, and those who go on with it.
pub(super) struct Removing<'n> {
    pub(super) directory: &'n Directory,
    pub(super) claim: &'n Claim,
    pub(super) pack: &'n Pack,
    pub(super) stamps: &'n NewStamps,
    pub(super) report: &'n mut CompactReport,
    pub(super) problems: &'n mut Vec<StoreError>,
}

impl Removing<'_> {
    /// Removes the packs that were folded. All that is in them is in the new one, or was damaged.
    pub(super) fn packs(&mut self, fold: &Gathered<'_>) {
        for (pack, used) in fold.folded_packs() {
            // Nobody replaces a pack, and what stands under its name has its content.
            if pack.path() == self.pack.path() {
                continue;
            }
            match fs::unlink(pack.path()) {
                Ok(_) => {
                    self.report.packs_folded = self.report.packs_folded.saturating_add(1);
                    self.stamps.renew_from(pack, used);
                    drop(fs::unlink(&pack.path().with_extension("used")));
                }
                Err(e) => self.problems.note(StoreError::io("delete", pack.path())(e)),
            }
        }
        let folder = self.directory.root().join(PACKS);
        if self.report.packs_folded > 0
            && let Err(e) = fs::sync_folder(&folder)
        {
            self.problems.note(StoreError::io("sync the folder", &folder)(e));
        }
    }

    /// Removes the loose files that were packed, folder by folder.
    pub(super) fn files(&mut self, files: &[Folded], progress: &dyn UpkeepProgress) {
        // What comes back from `trash` would be older than what is in the pack.
        let awaited = match (trash::awaits(self.directory), self.claim.is_overtaken()) {
            (Ok(awaited), Ok(false)) => Some(awaited),
            (Ok(_), Ok(true)) => None,
            (Err(error), _) | (_, Err(error)) => {
                self.problems.note(error);
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
                    Ok(None) => self.report.files_kept = self.report.files_kept.saturating_add(1),
                    Err(error) => {
                        self.report.files_kept = self.report.files_kept.saturating_add(1);
                        self.problems.note(error);
                    }
                }
            }
            self.delete(folder, condemned);
        }
    }

    /// Deletes what was taken away in one folder.
    fn delete(&mut self, folder: &[Folded], condemned: Vec<(&Folded, Condemned<'_>)>) {
        let Some(first) = folder.first().filter(|_| !condemned.is_empty()) else { return };
        let path = first.kind.file(self.directory.root(), &first.name);
        let parent = path.parent().unwrap_or(self.directory.root());
        // A name that a power cut brings back would be in front of what is put into packs from now on. As long as the file is in `trash`,
        // whoever puts there sees it.
        if let Err(e) = fs::sync_folder(parent) {
            // Dropped, they go back.
            self.report.files_kept = self.report.files_kept.saturating_add(condemned.len() as u64);
            return self.problems.note(StoreError::io("sync the folder", parent)(e));
        }
        for (file, one) in condemned {
            let used = one.status().ok().flatten().map(|status| hours(status.changed));
            if let Some(hours) = used.filter(|&hours| hours > file.stamp) {
                self.stamps.renew(file.kind, &file.name, hours);
            }
            match one.delete() {
                Ok(true) => self.report.files_folded = self.report.files_folded.saturating_add(1),
                Ok(false) => self.report.files_kept = self.report.files_kept.saturating_add(1),
                Err(error) => {
                    self.report.files_kept = self.report.files_kept.saturating_add(1);
                    self.problems.note(error);
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
        let in_front = packs.iter().take_while(|pack| pack.path() != self.pack.path());
        in_front.map(|pack| pack.find(file.kind, &file.name)).any(|found| !matches!(found, Ok(None)))
    }
}

impl Folded {
    fn is_record(&self) -> bool {
        matches!(self.kind, EntryKind::PlanRecord | EntryKind::Selection)
    }
}
