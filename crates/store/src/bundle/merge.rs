//! Making one bundle of several.

use super::output;
use super::wrap;
use crate::layer::{check_packed, packed_record};
use crate::pack::{NewEntry, Pack, PackRow};
use crate::record::{self, RecordKind};
use crate::upkeep::Counter;
use crate::{EntryKind, Limits, PackError, StoreError, UpkeepProgress};
use hipplan_serialize::ContentHash;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a merge has written, and what it has left out.
#[derive(Debug)]
#[non_exhaustive]
pub struct MergeReport {
    /// Digest of the bundle's tables, and by them of all that is in it.
    pub root: ContentHash,
    /// Length of the file.
    pub bytes: u64,
    /// Number of entries by kind, in the order of [`EntryKind::ALL`].
    pub entries: [u64; 4],
    /// Names for which the inputs had several good records that could not be united: the one whose bytes compare least was taken.
    pub conflicts: Vec<(EntryKind, [u8; 32])>,
    /// Sets that had more plans than [`Limits::max_record_rows`] when united: those of the least addresses were taken.
    pub cut: Vec<[u8; 32]>,
    /// Entries that were damaged in an input.
    pub problems: Vec<StoreError>,
}

/// An entry of the result.
enum Chosen {
    /// Bytes of an input.
    Row { input: usize, row: PackRow },
    /// Sets that were united.
    Made(Vec<u8>),
}

/// Writes what `inputs` hold into `output`, which may be one of them. Inputs may be wrapped.
///
/// The result depends on what the inputs hold and not on their order or on how often they are given, and merging some of them first makes
/// no difference. An entry that several have: a damaged one counts for nothing; two sets of plans are united; of other records the one
/// whose bytes compare least is taken. Blobs and plans of one name are equal. Provenance is united. Signatures are not taken over: they
/// are for other tables.
///
/// # Errors
/// An input is no bundle, its tables are damaged, or something is behind it that is no signature; the result cannot be written, would be
/// above a limit, or would replace what is no bundle.
pub fn merge_bundles(inputs: &[PathBuf], output: &Path, limits: &Limits) -> Result<MergeReport, StoreError> {
    merge_bundles_with(inputs, output, limits, &())
}

/// As [`merge_bundles`], telling how far it has come.
///
/// # Errors
/// As there.
pub fn merge_bundles_with(
    inputs: &[PathBuf],
    output: &Path,
    limits: &Limits,
    progress: &dyn UpkeepProgress,
) -> Result<MergeReport, StoreError> {
    let (_, folder) = output::place(output)?;
    // Kept until the end: what is wrapped has no name once it is open.
    let mut packs = Vec::with_capacity(inputs.len());
    for input in inputs {
        packs.push(open_any(input, &folder, limits)?);
    }
    let mut lines = BTreeSet::new();
    for pack in &packs {
        pack.check_root()?;
        // Signatures are not taken over, but what is no signature is refused as everywhere else.
        drop(pack.signatures()?);
        lines.extend(pack.provenance()?);
    }
    let mut merge = Merge {
        packs: &packs,
        limits,
        entries: Vec::new(),
        chosen: Vec::new(),
        counts: [0; 4],
        conflicts: Vec::new(),
        cut: Vec::new(),
        problems: Vec::new(),
    };
    for (kind, number) in EntryKind::ALL.into_iter().zip(0..) {
        merge.kind(kind, number, progress)?;
    }
    let Merge { entries, chosen, counts, conflicts, cut, problems, .. } = merge;
    let lines: Vec<String> = lines.into_iter().collect();
    let mut counter = Counter::new(progress, "writing", entries.len() as u64);
    let (root, bytes) = output::write(output, &entries, &lines, limits, &mut |number, sink| {
        counter.one();
        match chosen.get(number) {
            Some(Chosen::Row { input, row }) => packs.get(*input).map_or(Ok(()), |pack| pack.stream(row, sink)),
            Some(Chosen::Made(bytes)) => sink(bytes),
            None => Ok(()),
        }
    })?;
    Ok(MergeReport { root: ContentHash(root), bytes, entries: counts, conflicts, cut, problems })
}

/// Opens a bundle; one that is wrapped is unwrapped into a file in `tmp` that has no name any more.
pub(super) fn open_any(path: &Path, tmp: &Path, limits: &Limits) -> Result<Pack, StoreError> {
    if !wrap::is_wrapped(path)? {
        return output::open(path, limits);
    }
    let (temp, _) = wrap::unwrap_into(path, tmp, limits)?;
    let at = temp.path().map_err(StoreError::io("open", path))?;
    let pack = Pack::open(at, limits)?.ok_or_else(|| StoreError::io("open", path)(std::io::ErrorKind::NotFound.into()))?;
    Ok(pack.called(path))
}

struct Merge<'m> {
    packs: &'m [Pack],
    limits: &'m Limits,
    entries: Vec<NewEntry>,
    chosen: Vec<Chosen>,
    counts: [u64; 4],
    conflicts: Vec<(EntryKind, [u8; 32])>,
    cut: Vec<[u8; 32]>,
    problems: Vec<StoreError>,
}

impl Merge<'_> {
    fn kind(&mut self, kind: EntryKind, number: usize, progress: &dyn UpkeepProgress) -> Result<(), StoreError> {
        let mut rows: Vec<(usize, PackRow)> = Vec::new();
        for (input, pack) in self.packs.iter().enumerate() {
            for row in pack.rows(kind) {
                rows.push((input, row?));
            }
        }
        rows.sort_unstable_by_key(|(input, row)| (row.name, row.digest, *input));
        let mut counter = Counter::new(progress, "choosing entries", rows.len() as u64);
        for same in rows.chunk_by(|(_, a), (_, b)| a.name == b.name) {
            same.iter().for_each(|_| counter.one());
            let before = self.entries.len();
            self.name(kind, same);
            if let Some(count) = self.counts.get_mut(number) {
                *count = count.saturating_add(self.entries.len().saturating_sub(before) as u64);
            }
        }
        Ok(())
    }

    /// Chooses among the rows of one name.
    fn name(&mut self, kind: EntryKind, rows: &[(usize, PackRow)]) {
        let mut good: Vec<(usize, &PackRow)> = Vec::new();
        for (input, row) in rows {
            // Of rows that say they hold the same bytes, one that does is enough.
            if good.last().is_some_and(|(_, known)| known.digest == row.digest) {
                continue;
            }
            let Some(pack) = self.packs.get(*input) else { continue };
            match check_entry(pack, row, self.limits) {
                Ok(()) => good.push((*input, row)),
                Err(error) => self.problems.push(error),
            }
        }
        match (kind, &good[..]) {
            (_, []) => {}
            (_, [(input, row)]) => self.take(*input, row),
            (EntryKind::Selection, _) => self.unite(&good),
            (_, _) => self.least(kind, &good),
        }
    }

    fn take(&mut self, input: usize, row: &PackRow) {
        self.entries.push(NewEntry { kind: row.kind, name: row.name, size: row.size });
        self.chosen.push(Chosen::Row { input, row: *row });
    }

    /// One set of several; anything else is a conflict. Plans of one key all stay, other than in a set that a plan is added to: no input is
    /// newer than another, and whichever of them is of use is for a reader to say.
    fn unite(&mut self, rows: &[(usize, &PackRow)]) {
        let mut plans = BTreeSet::new();
        for (input, row) in rows {
            let record = self.packs.get(*input).map(|pack| packed_record(pack, row, self.limits));
            match record {
                Some(Ok(record)) if record.kind == RecordKind::Set => plans.extend(record.rows),
                Some(Ok(_)) => return self.least(EntryKind::Selection, rows),
                Some(Err(error)) => self.problems.push(error),
                None => {}
            }
        }
        let Some((_, first)) = rows.first() else { return };
        let most = usize::try_from(self.limits.max_record_rows).unwrap_or(usize::MAX);
        if plans.len() > most {
            self.cut.push(first.name);
        }
        let plans: Vec<_> = plans.into_iter().take(most).collect();
        let bytes = record::encode(RecordKind::Set, &first.name, &plans);
        self.entries.push(NewEntry { kind: EntryKind::Selection, name: first.name, size: bytes.len() as u64 });
        self.chosen.push(Chosen::Made(bytes));
    }

    /// The row whose bytes compare least.
    fn least(&mut self, kind: EntryKind, rows: &[(usize, &PackRow)]) {
        let mut least: Option<(Vec<u8>, usize, &PackRow)> = None;
        for (input, row) in rows {
            let bytes = match self.packs.get(*input).map(|pack| pack.read(row, row.size)) {
                Some(Ok(bytes)) => bytes.to_vec(),
                Some(Err(error)) => {
                    self.problems.push(error);
                    continue;
                }
                None => continue,
            };
            if least.as_ref().is_none_or(|(known, ..)| bytes < *known) {
                least = Some((bytes, *input, row));
            }
        }
        if let Some((_, input, row)) = least {
            self.conflicts.push((kind, row.name));
            self.take(input, row);
        }
    }
}

/// Whether an entry is what its name says, looked at by itself.
pub(super) fn check_entry(pack: &Pack, row: &PackRow, limits: &Limits) -> Result<(), StoreError> {
    let max = limits.max_blob_bytes;
    if row.kind == EntryKind::Blob && row.size > max {
        return Err(StoreError::pack(pack.path(), PackError::TooLarge { entry: row.id(), found: row.size, max }));
    }
    check_packed(pack, row, limits)
}
