//! How much a folder takes.

use super::stamps::{RowStamps, nanos, time};
use crate::layer::{Directory, walk};
use crate::layout::{self, EntryKind, PACKS, PINS, QUARANTINE, TMP, TRASH};
use crate::{Store, StoreError, fs};
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

/// What files take.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Their lengths together.
    pub bytes: u64,
    /// Their number.
    pub files: u64,
}

impl Usage {
    fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.files = self.files.saturating_add(1);
    }
}

/// What a store has of a kind of entry, over all copies.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindStat {
    /// In files of their own.
    pub loose: u64,
    /// In packs.
    pub packed: u64,
    /// Bytes in both.
    pub bytes: u64,
    /// When the one that was used longest ago was used last.
    pub oldest: Option<SystemTime>,
    /// When the one that was used most recently was used last; in packs the hour in which it was.
    pub newest: Option<SystemTime>,
}

impl KindStat {
    fn note(&mut self, bytes: u64, stamp: SystemTime) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.oldest = Some(self.oldest.map_or(stamp, |oldest| oldest.min(stamp)));
        self.newest = Some(self.newest.map_or(stamp, |newest| newest.max(stamp)));
    }
}

/// What is in a layer, as far as names, sizes and stamps tell.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStat {
    /// By kind, in the order of [`EntryKind::ALL`].
    pub kinds: [KindStat; 4],
    /// All files, markers, locks and pins left out.
    pub usage: Usage,
    /// Packs.
    pub packs: u64,
    /// Bytes of the packs.
    pub pack_bytes: u64,
    /// Of those the bytes of entries that a copy in front of them hides. What nothing reaches is told by a gc that is a dry run.
    pub hidden_bytes: u64,
    /// Files in `tmp` and `trash`.
    pub leftovers: u64,
    /// Damaged entries that were set aside.
    pub quarantined: u64,
    /// Packs that cannot be opened, which [`Store::verify`] tells of: what is in them is not counted above, but for the bytes of the files.
    pub unread_packs: u64,
    /// Sets of pins.
    pub pins: u64,
}

impl StoreStat {
    fn kind(&mut self, kind: EntryKind) -> Option<&mut KindStat> {
        EntryKind::ALL.iter().position(|&k| k == kind).and_then(|i| self.kinds.get_mut(i))
    }
}

impl Store {
    /// Counts what is in each layer, in their order. No value is read: of packs the rows and their stamps, of loose files the names, sizes
    /// and times. In memory are 32 bytes for each loose file of the kind with most of them, and a few kilobytes for each pack.
    ///
    /// # Errors
    /// Something cannot be listed, or something else stands in place of a folder of the store. Names that do not belong are passed over.
    pub fn stat(&self) -> Result<Vec<StoreStat>, StoreError> {
        self.layers().iter().filter(|layer| layer.is_usable()).map(|layer| layer.stat()).collect()
    }
}

/// Counts what is in a folder.
pub(crate) fn stat_directory(directory: &Directory) -> Result<StoreStat, StoreError> {
    let mut stat = StoreStat { usage: measure_with(directory, past_strays)?, ..StoreStat::default() };
    let root = directory.root();
    let (packs, faults) = directory.packs().listed();
    stat.unread_packs = faults.len() as u64;
    stat.packs = packs.len() as u64;
    stat.pack_bytes = packs.iter().fold(0, |sum, pack| pack.bytes().saturating_add(sum));
    let stamps: Vec<RowStamps> = packs.iter().map(|pack| RowStamps::of(pack)).collect();
    for kind in EntryKind::ALL {
        let mut loose = Vec::new();
        for file in walk::files(root, kind) {
            let (name, path) = match file {
                Ok(file) => file,
                Err(fault) => {
                    past_strays(fault)?;
                    continue;
                }
            };
            let Some((size, changed)) = size_of(&path)? else { continue };
            let Some(of_kind) = stat.kind(kind) else { continue };
            of_kind.loose = of_kind.loose.saturating_add(1);
            of_kind.note(size, changed);
            loose.push(name);
        }
        // Both ascend: the smallest name that is at the head of any pack is next.
        let mut loose = loose.into_iter().peekable();
        let mut rows: Vec<_> = packs.iter().map(|pack| pack.rows(kind).peekable()).collect();
        loop {
            let mut next: Option<[u8; 32]> = None;
            for rows in &mut rows {
                match rows.peek() {
                    Some(Ok(row)) => next = Some(next.map_or(row.name, |name| name.min(row.name))),
                    Some(Err(_)) => drop(rows.next().transpose()?),
                    None => {}
                }
            }
            let Some(name) = next else { break };
            while loose.next_if(|loose| *loose < name).is_some() {}
            let mut is_hidden = loose.peek() == Some(&name);
            for (rows, stamps) in rows.iter_mut().zip(&stamps) {
                let Some(Ok(row)) = rows.next_if(|row| row.as_ref().is_ok_and(|row| row.name == name)) else { continue };
                if is_hidden {
                    stat.hidden_bytes = stat.hidden_bytes.saturating_add(row.size);
                }
                is_hidden = true;
                let Some(of_kind) = stat.kind(kind) else { continue };
                of_kind.packed = of_kind.packed.saturating_add(1);
                of_kind.note(row.size, stamps.shown(row.ordinal));
            }
        }
    }
    stat.leftovers = [TMP, TRASH].into_iter().map(|folder| names(root, folder)).sum::<Result<_, _>>()?;
    stat.quarantined = names(root, QUARANTINE)?;
    stat.pins = names(root, PINS)?;
    Ok(stat)
}

/// Counts what is in a pack that stands alone.
pub(crate) fn stat_bundle(pack: &crate::pack::Pack) -> Result<StoreStat, StoreError> {
    let mut stat = StoreStat { packs: 1, pack_bytes: pack.bytes(), ..StoreStat::default() };
    stat.usage.add(pack.bytes());
    for kind in EntryKind::ALL {
        for row in pack.rows(kind) {
            let row = row?;
            let Some(of_kind) = stat.kind(kind) else { continue };
            of_kind.packed = of_kind.packed.saturating_add(1);
            of_kind.note(row.size, pack.status().changed);
        }
    }
    Ok(stat)
}

/// What does not belong is for [`Store::verify`] to tell of, and the rest is counted. What cannot be listed, or is not the store's own
/// folder, makes the numbers wrong; so does a link in place of one.
fn past_strays(fault: StoreError) -> Result<(), StoreError> {
    if fault.is_foreign() { Ok(()) } else { Err(fault) }
}

/// What all files of a folder take, markers, locks and pins left out. Folders of entries that cannot be listed count as empty: upkeep tells
/// of them where it looks for what they hold.
pub(super) fn measure(directory: &Directory) -> Result<Usage, StoreError> {
    measure_with(directory, |_| Ok(()))
}

/// The same; `fault` says whether to go on past something that cannot be listed or does not belong.
fn measure_with(directory: &Directory, fault: impl Fn(StoreError) -> Result<(), StoreError>) -> Result<Usage, StoreError> {
    let mut usage = Usage::default();
    let root = directory.root();
    for kind in EntryKind::ALL {
        for file in walk::files(root, kind) {
            match file {
                Ok((_, path)) => {
                    if let Some((size, _)) = size_of(&path)? {
                        usage.add(size);
                    }
                }
                Err(error) => fault(error)?,
            }
        }
    }
    for folder in [PACKS, TMP, TRASH, QUARANTINE] {
        if let Err(error) = walk::own_folders(root, folder) {
            fault(error)?;
            continue;
        }
        let folder = root.join(folder);
        for name in walk::names(&folder) {
            let name = name?;
            // It says that upkeep is at work, such as this.
            if name.to_str().is_some_and(|name| layout::parse_claim(name).is_some()) {
                continue;
            }
            if let Some((size, _)) = size_of(&folder.join(name))? {
                usage.add(size);
            }
        }
    }
    Ok(usage)
}

/// Length and stamp of a file; `None` when it has vanished, or is something else.
pub(super) fn size_of(path: &Path) -> Result<Option<(u64, SystemTime)>, StoreError> {
    match fs::status(path) {
        Ok(status) => Ok(match status.kind {
            fs::Kind::File { size } => Some((size, time(nanos(status.changed)))),
            fs::Kind::Folder | fs::Kind::Other(_) => None,
        }),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("look at", path)(e)),
    }
}

fn names(root: &Path, folder: &str) -> Result<u64, StoreError> {
    walk::own_folders(root, folder)?;
    walk::names(&root.join(folder)).into_iter().try_fold(0_u64, |sum, name| name.map(|_| sum.saturating_add(1)))
}

/// A copy of an entry in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryInfo {
    /// Its kind.
    pub kind: EntryKind,
    /// Its name: what it is the digest of, or the key that it answers, depends on the kind.
    pub name: [u8; 32],
    /// Bytes.
    pub size: u64,
    /// When it was used last; in packs the hour in which it was.
    pub used: SystemTime,
    /// The file that it is, or that it is in.
    pub path: std::path::PathBuf,
}

impl Store {
    /// Every copy of every entry of a kind, layer by layer, loose ones before packed ones, ascending by name in each place, found as the
    /// iterator advances. No value is read, and no more than one two-digit folder is in memory. What cannot be listed is an item too.
    pub fn entries(&self, kind: EntryKind) -> impl Iterator<Item = Result<EntryInfo, StoreError>> {
        self.layers().iter().filter(|layer| layer.is_usable()).flat_map(move |layer| layer.entries(kind))
    }
}

/// The entries of a folder.
pub(crate) fn entries_of_directory(directory: &Directory, kind: EntryKind) -> impl Iterator<Item = Result<EntryInfo, StoreError>> + use<> {
    let loose = walk::files(directory.root(), kind).filter_map(move |file| {
        let info = file.and_then(|(name, path)| Ok(size_of(&path)?.map(|(size, used)| EntryInfo { kind, name, size, used, path })));
        info.transpose()
    });
    let (packs, faults) = directory.packs().listed();
    loose.chain(faults.into_iter().map(Err)).chain(packs.into_iter().flat_map(move |pack| entries_of_pack(pack, kind)))
}

/// The entries of a pack.
pub(crate) fn entries_of_pack(
    pack: std::sync::Arc<crate::pack::Pack>,
    kind: EntryKind,
) -> impl Iterator<Item = Result<EntryInfo, StoreError>> {
    let stamps = RowStamps::of(&pack);
    pack.clone().into_rows(kind).map(move |row| {
        let row = row?;
        let used = stamps.shown(row.ordinal);
        Ok(EntryInfo { kind, name: row.name, size: row.size, used, path: pack.path().to_owned() })
    })
}
