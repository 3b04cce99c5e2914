//! A folder of loose files and packs.

use super::durable::Durable;
use super::packed::{open_plan, packed_plan, packed_record};
use super::packs::Packs;
use super::stamps::is_stale;
use super::{Access, walk};
use crate::blob::Blob;
use crate::bundle::Trust;
use crate::entry::{self, check_blob_size, check_content, check_plan_size, check_size};
use crate::faults::{self, Faults};
use crate::pack::{Pack, PackRow};
use crate::plans::{PlanBytes, check_root};
use crate::record::Record;
use crate::{EntryKind, Limits, Mode, StoreError, fs, marker};
use hipplan_serialize::{AlignedBytes, Digest, PlanRef};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// As many packs are asked for what is named by its content before it is looked for among the loose files: asking two costs about what
/// opening a file that is not there does.
const FEW_PACKS: usize = 2;

/// A folder of plans.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    access: Access,
    faults: Faults,
    durable: Durable,
    packs: Packs,
}

impl Directory {
    /// Opens the folder `path`. Opening one that exists reads one small file and writes nothing.
    pub(crate) fn open(path: &Path, mode: Mode) -> Result<Self, StoreError> {
        let root = open_root(path, mode)?;
        let access = match mode {
            Mode::ReadWrite => Access::ReadWrite,
            Mode::ReadOnly => Access::ReadOnly,
        };
        Ok(Self::new(root, access, Trust::default()))
    }

    /// Opens the folder `path` to be read alone, as far as it is trusted.
    pub(crate) fn open_trusted(path: &Path, trust: Trust) -> Result<Self, StoreError> {
        let this = Self::new(open_root(path, Mode::ReadOnly)?, Access::ReadOnly, trust);
        let trust = this.packs.trust();
        let has_some = |kind| walk::files(&this.root, kind).any(|file| file.is_ok());
        if trust.looks() && EntryKind::ALL.into_iter().any(has_some) {
            faults::unsigned_files(&this.root, trust.takes_loose_files());
        }
        Ok(this)
    }

    /// Opens the folder `path` for looking up and putting, whatever the state of the place.
    pub(crate) fn open_or_degrade(path: &Path) -> Self {
        match open_root(path, Mode::ReadWrite) {
            Ok(root) => Self::new(root, Access::Degrading, Trust::default()),
            Err(error) => {
                let this = Self::new(path.to_owned(), Access::Unavailable(error), Trust::default());
                if let Access::Unavailable(error) = &this.access {
                    this.faults.not_persisted(error);
                }
                this
            }
        }
    }

    fn new(root: PathBuf, access: Access, trust: Trust) -> Self {
        let packs = Packs::of(&root, trust);
        Self { root, access, faults: Faults::default(), durable: Durable::default(), packs }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(crate) fn packs(&self) -> &Packs {
        &self.packs
    }

    pub(super) fn durable(&self) -> &Durable {
        &self.durable
    }

    /// Why nothing could be opened.
    pub(crate) fn unavailable(&self) -> Option<&StoreError> {
        match &self.access {
            Access::Unavailable(error) => Some(error),
            Access::ReadOnly | Access::ReadWrite | Access::Degrading => None,
        }
    }

    /// The folder, if it is a store.
    pub(crate) fn usable_root(&self) -> Option<&Path> {
        if self.unavailable().is_some() { None } else { Some(&self.root) }
    }

    /// The folder whose loose files may be used: none where signatures are required.
    pub(crate) fn loose_root(&self) -> Option<&Path> {
        self.usable_root().filter(|_| self.packs.trust().takes_loose_files())
    }

    /// The record of a key.
    pub(crate) fn record(&self, entries: EntryKind, key: &[u8; 32], limits: &Limits) -> Result<Option<Record>, StoreError> {
        self.record_warned(entries, key, limits, |error| self.faults.entry(error))
    }

    /// The record of a key that is about to be replaced. Of what is not damaged, the put that this is a part of tells.
    pub(crate) fn record_to_replace(&self, entries: EntryKind, key: &[u8; 32], limits: &Limits) -> Result<Option<Record>, StoreError> {
        let read = || {
            self.record_warned(entries, key, limits, |error| {
                if error.is_damage() {
                    self.faults.entry(error);
                }
            })
        };
        // What is in a record that is taken to be missing would be lost: so it is asked for again.
        match read() {
            Ok(None) => read(),
            result => result,
        }
    }

    fn record_warned(
        &self,
        entries: EntryKind,
        key: &[u8; 32],
        limits: &Limits,
        warn: impl Fn(&StoreError),
    ) -> Result<Option<Record>, StoreError> {
        self.find_warned(
            entries,
            key,
            limits,
            |path, file| entry::read_record(entries, key, path, file, limits),
            |pack, row| packed_record(pack, row, limits),
            warn,
        )
    }

    /// The plan file of an address.
    pub(crate) fn plan(&self, plan: &PlanRef, limits: &Limits) -> Result<Option<PlanBytes>, StoreError> {
        let opened = |path: &Path, bytes: AlignedBytes| open_plan(path, bytes, plan);
        self.find(
            EntryKind::Plan,
            &plan.root.0,
            limits,
            |path, file| {
                check_size(path, file.size(), plan.size)?;
                check_plan_size(path, file.size(), limits)?;
                opened(path, file.read().map_err(StoreError::io("read", path))?)
            },
            |pack, row| {
                check_size(pack.path(), row.size, plan.size)?;
                opened(pack.path(), pack.read(row, limits.max_plan_bytes)?)
            },
        )
    }

    /// The blob of a digest.
    pub(crate) fn blob(&self, digest: &Digest, limits: &Limits) -> Result<Option<Blob>, StoreError> {
        self.find(
            EntryKind::Blob,
            &digest.hash.0,
            limits,
            |path, file| {
                check_size(path, file.size(), digest.size)?;
                check_blob_size(path, file.size(), limits)?;
                let blob = file.read().map_err(StoreError::io("read", path))?;
                check_content(path, "content hash", &Digest::of(&blob).hash, &digest.hash)?;
                Ok(blob.into())
            },
            |pack, row| {
                check_size(pack.path(), row.size, digest.size)?;
                pack.blob(row, limits.max_blob_bytes)
            },
        )
    }

    /// Every plan, ascending by root hash, loose ones before packed ones; one that stands in several places comes several times. A pack that
    /// cannot be opened is an error of its own.
    pub(crate) fn plans<'s>(&'s self, limits: &'s Limits) -> impl Iterator<Item = Result<PlanRef, StoreError>> + 's {
        let loose = self.loose_root().into_iter().flat_map(|root| walk::files(root, EntryKind::Plan));
        let loose = loose.filter_map(move |file| {
            let plan_of = |(root, path): ([u8; 32], PathBuf)| match self.open_loose_plan(&path, limits)? {
                Some(plan) => check_root(&path, &plan.view(), &root).map(Some),
                None => Ok(None),
            };
            file.and_then(plan_of).transpose()
        });
        let (packs, faults) = self.packs.listed();
        let packed = packs.into_iter().flat_map(move |pack| {
            let rows = pack.clone().into_rows(EntryKind::Plan);
            rows.map(move |row| packed_plan(&pack, &row?, limits).map(|plan| plan.view().plan_ref()))
        });
        loose.chain(faults.into_iter().map(Err)).chain(packed)
    }

    /// A loose plan file that opens.
    pub(crate) fn open_loose_plan(&self, path: &Path, limits: &Limits) -> Result<Option<PlanBytes>, StoreError> {
        let Some(file) = walk::open_listed(path)? else { return Ok(None) };
        check_plan_size(path, file.size(), limits)?;
        PlanBytes::open(path, file.read().map_err(StoreError::io("read", path))?).map(Some)
    }

    /// An entry: the loose file, else the newest pack that has it. What is damaged is warned of and passed over.
    fn find<T>(
        &self,
        kind: EntryKind,
        name: &[u8; 32],
        limits: &Limits,
        from_file: impl Fn(&Path, &fs::OpenFile) -> Result<T, StoreError>,
        from_pack: impl Fn(&Arc<Pack>, &PackRow) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.find_warned(kind, name, limits, from_file, from_pack, |error| self.faults.entry(error))
    }

    fn find_warned<T>(
        &self,
        kind: EntryKind,
        name: &[u8; 32],
        limits: &Limits,
        from_file: impl Fn(&Path, &fs::OpenFile) -> Result<T, StoreError>,
        from_pack: impl Fn(&Arc<Pack>, &PackRow) -> Result<T, StoreError>,
        warn: impl Fn(&StoreError),
    ) -> Result<Option<T>, StoreError> {
        let mut fault = None;
        let mut note = |error: StoreError| {
            warn(&error);
            fault.get_or_insert(error);
        };
        let ask = |packs: &[Arc<Pack>], asked: &[Arc<Pack>], note: &mut dyn FnMut(StoreError)| {
            for pack in packs.iter().filter(|pack| !asked.iter().any(|other| Arc::ptr_eq(other, pack))) {
                match pack.find(kind, name) {
                    Ok(Some(row)) => match from_pack(pack, &row) {
                        Ok(found) => {
                            self.stamp_row(pack, &row);
                            return Some(found);
                        }
                        Err(error) => note(error),
                    },
                    Ok(None) => {}
                    Err(error) => note(error),
                }
            }
            None
        };
        // What is named by its content is the same wherever it stands. So packs are asked before a path is made and opened, unless they are
        // many. Where they cannot be listed, that is told below.
        let is_by_content = matches!(kind, EntryKind::Blob | EntryKind::Plan);
        let asked = if is_by_content { self.packs.known() } else { Arc::default() };
        let asked = if asked.len() <= FEW_PACKS { asked } else { Arc::default() };
        if let Some(found) = ask(&asked, &[], &mut note) {
            return Ok(Some(found));
        }
        let path = kind.file(&self.root, name);
        let loose = if self.packs.trust().takes_loose_files() { entry::open(&path) } else { Ok(None) };
        match loose {
            Ok(Some(file)) => match from_file(&path, &file) {
                Ok(found) => {
                    self.stamp(&file);
                    return Ok(Some(found));
                }
                Err(error) => {
                    drop(self.set_aside(kind, name, &path, &file, &error, limits));
                    note(error);
                }
            },
            Ok(None) => {}
            Err(error) => note(error),
        }
        // A record may be in a newer pack than those that are known: it was loose a moment ago. Blobs and plans are the same everywhere.
        if !is_by_content && let Err(error) = self.packs.refresh() {
            note(error);
        }
        let mut packs = self.packs.current();
        // What is compacted meanwhile is in a pack that was not there a moment ago.
        for _ in 0..3 {
            if let Some(found) = ask(&packs, &asked, &mut note) {
                return Ok(Some(found));
            }
            match self.packs.refresh() {
                Ok(Some(new)) => packs = new,
                Ok(None) => break,
                Err(error) => {
                    note(error);
                    // The others are told of too.
                    self.packs.faults().iter().for_each(&warn);
                    break;
                }
            }
        }
        match fault {
            Some(error) => Err(error),
            None => Ok(None),
        }
    }

    /// Notes that a file was used, where this may be written and was not done in the last hour.
    fn stamp(&self, file: &fs::OpenFile) {
        if self.access.is_writable() && is_stale(file.status().changed, SystemTime::now()) {
            // A stamp is a hint.
            drop(file.touch());
        }
    }

    fn stamp_row(&self, pack: &Pack, row: &PackRow) {
        if self.access.is_writable() {
            self.packs.stamp(pack, row.ordinal, SystemTime::now());
        }
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
