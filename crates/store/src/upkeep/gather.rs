//! What is to be folded into one pack: the entries that are there, the best of each, and their bytes.

use super::problems::Problems;
use super::progress::Counter;
use super::stamps::RowStamps;
use crate::layer::{Directory, hours, walk};
use crate::pack::{NewEntry, Pack, Sink};
use crate::{EntryKind, Limits, StoreError, entry, fs};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of records that are kept from the first look on, since others may replace them at any time. Beyond, one that was replaced when
/// its turn comes is left as it is.
const MOST_HELD: usize = 64 << 20;

/// A place from which an entry could be taken.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    kind: EntryKind,
    name: [u8; 32],
    /// Loose files are in front of packs, newer packs in front of older ones. 0 is the loose file, else it is one more than the number of
    /// the pack in the list.
    rank: u32,
    /// Hours since 1970 of the last use.
    stamp: u32,
    size: u64,
    is_bad: bool,
}

/// A loose file that was packed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Folded {
    pub(super) kind: EntryKind,
    pub(super) name: [u8; 32],
    pub(super) inode: fs::Inode,
    /// Hours since 1970 of the last use, as the pack says.
    pub(super) stamp: u32,
}

/// The entries of loose files and packs of a folder.
#[derive(Debug)]
pub(super) struct Gathered<'d> {
    directory: &'d Directory,
    limits: &'d Limits,
    /// Newest first; those that are not folded are `None` in `is_folded`.
    packs: Arc<[Arc<Pack>]>,
    is_folded: Vec<bool>,
    /// Stamps of the packs that are folded.
    used: HashMap<usize, RowStamps>,
    candidates: Vec<Candidate>,
    inodes: HashMap<(EntryKind, [u8; 32]), fs::Inode>,
    held: HashMap<(EntryKind, [u8; 32]), Box<[u8]>>,
    held_bytes: usize,
    /// Best of each entry, as places in `candidates`, in the order of a pack.
    chosen: Vec<usize>,
    pub(super) outcome: Outcome,
}

/// What is not folded, and why.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Damaged entries.
    pub(super) damaged: u64,
    /// What does not belong, is of another version, above a limit, or could not be read.
    pub(super) left: u64,
    pub(super) problems: Vec<StoreError>,
}

impl Outcome {
    fn left(&mut self, error: StoreError) {
        self.left = self.left.saturating_add(1);
        self.problems.note(error);
    }
}

impl<'d> Gathered<'d> {
    /// `is_folded` says which of the packs go.
    pub(super) fn new(directory: &'d Directory, limits: &'d Limits, packs: Arc<[Arc<Pack>]>, is_folded: Vec<bool>) -> Self {
        Self {
            directory,
            limits,
            packs,
            is_folded,
            used: HashMap::new(),
            candidates: Vec::new(),
            inodes: HashMap::new(),
            held: HashMap::new(),
            held_bytes: 0,
            chosen: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    /// Looks at every loose file.
    pub(super) fn list_loose(&mut self, counter: &mut Counter<'_>) {
        for kind in EntryKind::ALL {
            for file in walk::files(self.directory.root(), kind) {
                counter.one();
                match file.and_then(|(name, path)| Ok((name, entry::open(&path)?, path))) {
                    Ok((name, Some(file), path)) => self.add_loose(kind, name, &path, &file),
                    Ok((_, None, _)) => {}
                    Err(error) => self.outcome.left(error),
                }
            }
        }
    }

    fn add_loose(&mut self, kind: EntryKind, name: [u8; 32], path: &std::path::Path, file: &fs::OpenFile) {
        let size = file.size();
        if let Err(error) = entry::check_limits(kind, path, size, self.limits) {
            return self.outcome.left(error);
        }
        if matches!(kind, EntryKind::PlanRecord | EntryKind::Selection) {
            let bytes = match file.read().map_err(StoreError::io("read", path)) {
                Ok(bytes) => bytes,
                Err(error) => return self.outcome.left(error),
            };
            if let Err(error) = entry::check_bytes(kind, &name, path, &bytes) {
                return self.refuse_loose(kind, &name, path, file, error);
            }
            if self.held_bytes.saturating_add(bytes.len()) <= MOST_HELD {
                self.held_bytes = self.held_bytes.saturating_add(bytes.len());
                self.held.insert((kind, name), bytes.as_slice().into());
            }
        }
        self.inodes.insert((kind, name), file.status().inode);
        let stamp = hours(file.status().changed);
        self.candidates.push(Candidate { kind, name, rank: 0, stamp, size, is_bad: false });
    }

    /// A loose file that is not packed: set aside if it is damaged, else it stays.
    fn refuse_loose(&mut self, kind: EntryKind, name: &[u8; 32], path: &std::path::Path, file: &fs::OpenFile, error: StoreError) {
        if error.is_damage() {
            drop(self.directory.set_aside(kind, name, path, file, &error, self.limits));
            self.directory.faults().entry(&error);
            self.outcome.damaged = self.outcome.damaged.saturating_add(1);
            self.outcome.problems.note(error);
        } else {
            self.outcome.left(error);
        }
    }

    /// Looks at the rows of the packs that are to go. One whose rows, or whose provenance, cannot be read stays.
    pub(super) fn list_packs(&mut self, counter: &mut Counter<'_>) {
        let packs = Arc::clone(&self.packs);
        for (number, pack) in packs.iter().enumerate() {
            if !self.folds(number) {
                continue;
            }
            let before = self.candidates.len();
            if let Err(error) = self.add_pack(number, pack, counter) {
                self.candidates.truncate(before);
                self.keep_pack(number);
                self.outcome.left(error);
            }
        }
    }

    fn add_pack(&mut self, number: usize, pack: &Pack, counter: &mut Counter<'_>) -> Result<(), StoreError> {
        let rank = u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
        let used = RowStamps::of(pack);
        // Said of the new pack; where it cannot be read, the pack stays.
        drop(pack.provenance()?);
        for kind in EntryKind::ALL {
            for row in pack.rows(kind) {
                let row = row?;
                let stamp = used.carried(row.ordinal);
                self.candidates.push(Candidate { kind, name: row.name, rank, stamp, size: row.size, is_bad: false });
                counter.one();
            }
        }
        self.used.insert(number, used);
        Ok(())
    }

    fn folds(&self, number: usize) -> bool {
        self.is_folded.get(number).copied().unwrap_or(false)
    }

    fn keep_pack(&mut self, number: usize) {
        if let Some(folded) = self.is_folded.get_mut(number) {
            *folded = false;
        }
    }

    /// Whether there is anything to take.
    pub(super) fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Chooses of each entry the one in front; a record only if no pack that stays is in front of it.
    pub(super) fn choose(&mut self) -> Vec<NewEntry> {
        self.candidates.sort_unstable_by_key(|candidate| (candidate.kind, candidate.name, candidate.rank));
        let mut chosen = Vec::new();
        let mut last = None;
        for (place, candidate) in self.candidates.iter().enumerate() {
            let entry = (candidate.kind, candidate.name);
            if candidate.is_bad || last == Some(entry) {
                continue;
            }
            last = Some(entry);
            if !self.is_hidden(candidate) {
                chosen.push(place);
            }
        }
        self.chosen = chosen;
        let new = |candidate: &Candidate| NewEntry { kind: candidate.kind, name: candidate.name, size: candidate.size };
        self.chosen.iter().filter_map(|&place| self.candidates.get(place)).map(new).collect()
    }

    /// Whether a pack that stays has a good record in front of this one.
    fn is_hidden(&self, candidate: &Candidate) -> bool {
        if matches!(candidate.kind, EntryKind::Blob | EntryKind::Plan) {
            return false;
        }
        let in_front = usize::try_from(candidate.rank.saturating_sub(1)).unwrap_or(0);
        self.packs.iter().take(in_front).enumerate().filter(|(number, _)| !self.folds(*number)).any(|(_, pack)| {
            let row = pack.find(candidate.kind, &candidate.name).ok().flatten();
            row.is_some_and(|row| pack.check_value(&row).is_ok())
        })
    }

    /// Stamps of what was chosen, in the order of the pack.
    pub(super) fn stamps(&self) -> Vec<u32> {
        self.chosen.iter().filter_map(|&place| self.candidates.get(place)).map(|candidate| candidate.stamp).collect()
    }

    /// Hands the bytes of an entry that was chosen to the sink. They are right if this succeeds; an error of the sink is `Ok(Err)`.
    pub(super) fn read(&self, number: usize, sink: &mut Sink<'_>) -> Result<Result<(), StoreError>, StoreError> {
        let Some(candidate) = self.chosen.get(number).and_then(|&place| self.candidates.get(place)) else { return Ok(Ok(())) };
        let mut stopped = Ok(());
        let mut take = |piece: &[u8]| {
            stopped = sink(piece);
            // The source has nothing to do with it.
            if stopped.is_err() { Err(StoreError::io("write", self.directory.root())(std::io::ErrorKind::Other.into())) } else { Ok(()) }
        };
        let read = self.read_candidate(candidate, &mut take);
        match stopped {
            Err(_) => Ok(stopped),
            Ok(()) => read.map(Ok),
        }
    }

    fn read_candidate(&self, candidate: &Candidate, take: &mut Sink<'_>) -> Result<(), StoreError> {
        let Candidate { kind, ref name, rank, size, .. } = *candidate;
        if let Some(bytes) = self.held.get(&(kind, *name)).filter(|_| rank == 0) {
            return take(bytes);
        }
        let number = usize::try_from(rank).ok().and_then(|rank| rank.checked_sub(1));
        if let Some(number) = number {
            let Some(pack) = self.packs.get(number) else { return Ok(()) };
            let vanished = || StoreError::MissingTarget { path: pack.path().to_owned(), what: kind.word(), named_by: "a row".into() };
            let row = pack.find(kind, name)?.ok_or_else(vanished)?;
            return pack.stream(&row, take);
        }
        let path = kind.file(self.directory.root(), name);
        let gone = |e: std::io::ErrorKind| StoreError::io("read", &path)(e.into());
        let file = entry::open(&path)?.ok_or_else(|| gone(std::io::ErrorKind::NotFound))?;
        if file.size() != size {
            return Err(gone(std::io::ErrorKind::Interrupted));
        }
        if kind == EntryKind::Blob {
            let mut hasher = blake3::Hasher::new();
            let mut stopped = Ok(());
            let read = file.pieces(0, size, |piece| {
                hasher.update(piece);
                stopped = take(piece);
                stopped.is_ok()
            });
            read.map_err(StoreError::io("read", &path))?;
            stopped?;
            let found = hipplan_serialize::ContentHash(*hasher.finalize().as_bytes());
            return entry::check_content(&path, "content hash", &found, &hipplan_serialize::ContentHash(*name));
        }
        // A record that was replaced by another of the same size is not the one whose file is to go.
        if self.inodes.get(&(kind, *name)) != Some(&file.status().inode) {
            return Err(gone(std::io::ErrorKind::Interrupted));
        }
        let bytes = file.read().map_err(StoreError::io("read", &path))?;
        entry::check_bytes(kind, name, &path, &bytes)?;
        take(&bytes)
    }

    /// Reads all that was chosen, from number `from` on, and takes what is bad out of the choice.
    pub(super) fn check_from(&mut self, from: usize) {
        for number in from..self.chosen.len() {
            if let Err(error) = self.read(number, &mut |_| Ok(())) {
                self.refuse(number, error);
            }
        }
    }

    fn refuse(&mut self, number: usize, error: StoreError) {
        let Some(candidate) = self.chosen.get(number).and_then(|&place| self.candidates.get_mut(place)) else { return };
        candidate.is_bad = true;
        let Candidate { kind, name, rank, .. } = *candidate;
        if rank == 0 {
            let path = kind.file(self.directory.root(), &name);
            if let Ok(Some(file)) = entry::open(&path) {
                self.refuse_loose(kind, &name, &path, &file, error);
            }
        } else if error.is_damage() {
            self.directory.faults().entry(&error);
            self.outcome.damaged = self.outcome.damaged.saturating_add(1);
            self.outcome.problems.note(error);
        } else {
            // What cannot be read now may be readable another time.
            self.keep_pack(usize::try_from(rank.saturating_sub(1)).unwrap_or(usize::MAX));
            self.outcome.left(error);
        }
    }

    /// The loose files that were packed, in the order of their folders.
    pub(super) fn folded_files(&self) -> Vec<Folded> {
        let chosen = self.chosen.iter().filter_map(|&place| self.candidates.get(place)).filter(|candidate| candidate.rank == 0);
        chosen
            .filter_map(|&Candidate { kind, name, stamp, .. }| Some(Folded { kind, name, stamp, inode: *self.inodes.get(&(kind, name))? }))
            .collect()
    }

    /// Whether all that was taken still has its name, or another file has it. What others have taken away meanwhile must not come back by
    /// being folded: it may name what went with it.
    pub(super) fn is_in_place(&self) -> Result<bool, StoreError> {
        let packs = self.folded_packs().map(|(pack, _)| (pack.path().to_owned(), Some(pack.status().inode)));
        let files = self.folded_files().into_iter().map(|file| (file.kind.file(self.directory.root(), &file.name), None));
        for (path, inode) in packs.chain(files) {
            match walk::twice(|| fs::status(&path)) {
                Ok(status) if inode.is_none_or(|inode| status.inode == inode) => {}
                Ok(_) => return Ok(false),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
                Err(e) => return Err(StoreError::io("look at", &path)(e)),
            }
        }
        Ok(true)
    }

    /// The packs that were folded, with their stamps.
    pub(super) fn folded_packs(&self) -> impl Iterator<Item = (&Arc<Pack>, &RowStamps)> {
        self.packs.iter().enumerate().filter_map(|(number, pack)| Some((pack, self.used.get(&number).filter(|_| self.folds(number))?)))
    }
}
