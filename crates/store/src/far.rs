//! The far tier as a store uses it: asked last, written last, never trusted, never in the way.

use crate::layer::{Directory, open_plan};
use crate::memo::Memo;
use crate::plans::PlanBytes;
use crate::record::{self, Record, RecordError, RecordKind};
use crate::targets::targets;
use crate::turn::{self, Purpose};
use crate::{Blob, EntryKind, Persisted, RemoteError, RemoteErrorKind, RemoteTier, Selection, Store, StoreError};
use hipplan_serialize::aligned::aligned_copy;
use hipplan_serialize::{Digest, PlanKey, PlanRef, SelectionKey};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Absent entries that are remembered, so that a miss asks the far tier once a process; beyond this number all are forgotten.
const MOST_ABSENT: usize = 4096;

/// What a store does with its far tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Entries that no layer has are asked for there, and kept in the layer in front.
    pub read: bool,
    /// What is put into the store is put there too.
    pub write: bool,
}

/// Entries that could not be put there, which are remembered so that nothing that names them is put there either. Beyond this number
/// nothing that names others is put any more.
const MOST_LOST: usize = 1 << 16;

type Name = (EntryKind, [u8; 32]);

/// A far tier, and what is known of it.
#[derive(Debug)]
pub(crate) struct Far {
    tier: Arc<dyn RemoteTier>,
    options: RemoteOptions,
    absent: Memo<HashSet<Name>>,
    /// Whoever takes a name for lost, or does not remember one, because others are slow would do so for the life of the process: so they are
    /// waited for.
    lost: Memo<HashSet<Name>>,
    /// More is lost than is remembered, or it is not to be had in the child of a fork.
    loses_track: AtomicBool,
    /// Kinds of failures, a bit each.
    warned: AtomicU32,
}

/// Why an entry was not put there.
#[derive(Debug)]
pub(crate) enum NotPut {
    Failed(RemoteError),
    /// Something that it names could not be put before.
    NamesWhatIsNot,
}

impl Far {
    pub(crate) fn new(tier: Arc<dyn RemoteTier>, options: RemoteOptions) -> Self {
        let (loses_track, warned) = (AtomicBool::new(false), AtomicU32::new(0));
        Self { tier, options, absent: Memo::default(), lost: Memo::of_this_process(), loses_track, warned }
    }

    /// The bytes of an entry, unchecked. That they cannot be had is a miss, of which one warning a kind is logged.
    fn get(&self, kind: EntryKind, name: &[u8; 32], max: u64) -> Option<Vec<u8>> {
        if !self.options.read || self.absent.get().is_some_and(|absent| absent.contains(&(kind, *name))) {
            return None;
        }
        match self.tier.get(kind, name, max) {
            Ok(Some(bytes)) if bytes.len() as u64 <= max => Some(bytes),
            Ok(Some(bytes)) => {
                let message = format!("{} bytes came, at most {max} were asked for", bytes.len());
                self.warn("not read from", &RemoteError { kind: RemoteErrorKind::TooLarge, message });
                None
            }
            Ok(None) => {
                if let Some(mut absent) = self.absent.get() {
                    if absent.len() >= MOST_ABSENT {
                        absent.clear();
                    }
                    absent.insert((kind, *name));
                }
                None
            }
            Err(error) => {
                self.warn("not read from", &error);
                None
            }
        }
    }

    /// Puts an entry there, as far as that may be; that it cannot be is warned of.
    fn put(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) {
        if let Err(NotPut::Failed(error)) = self.try_put(kind, name, bytes) {
            self.warn("not written to", &error);
        }
    }

    /// Puts an entry there, unless something that it names could not be put: no name ever leads to what is not there.
    pub(crate) fn try_put(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<(), NotPut> {
        if let Some(mut absent) = self.absent.get() {
            absent.remove(&(kind, *name));
        }
        let is_whole = self.has_all(kind, name, bytes);
        let put = if is_whole { self.tier.put(kind, name, bytes).map_err(NotPut::Failed) } else { Err(NotPut::NamesWhatIsNot) };
        match self.lost.get_for_sure() {
            Some(mut lost) if put.is_ok() => _ = lost.remove(&(kind, *name)),
            Some(mut lost) if lost.len() < MOST_LOST => _ = lost.insert((kind, *name)),
            // Not put before counts as not put still.
            None if put.is_ok() => {}
            Some(_) | None => self.loses_track.store(true, Ordering::Relaxed),
        }
        put
    }

    /// Whether all that an entry names has been put, as far as this process has to do with it. Where that is not known, it has not.
    fn has_all(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> bool {
        if kind == EntryKind::Blob {
            return true;
        }
        if self.loses_track.load(Ordering::Relaxed) {
            return false;
        }
        let is_lost = |key: Name| self.lost.get_for_sure().is_none_or(|lost| lost.contains(&key));
        match self.lost.get_for_sure().map(|lost| lost.is_empty()) {
            Some(true) => true,
            // Looked at one by one: there may be many, and others want to get at it.
            Some(false) => !targets(kind, name, bytes).iter().any(|target| is_lost(target.key())),
            None => false,
        }
    }

    /// One warning for each kind of failure. That a tier rests after a failure is no news.
    fn warn(&self, what: &str, error: &RemoteError) {
        if error.kind == RemoteErrorKind::Resting {
            return;
        }
        let bit = 1_u32.checked_shl(error.kind as u32).unwrap_or(0);
        if self.warned.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            tracing::warn!(tier = self.tier.name(), cause = %error, "an entry was {what} the far tier; work goes on without it");
        }
    }

    /// What came is not what was asked for.
    fn garbled(&self, error: &StoreError) {
        self.warn("not taken from", &RemoteError { kind: RemoteErrorKind::Garbled, message: error.to_string() });
    }

    /// Whether anything is put there.
    pub(crate) fn is_written(&self) -> bool {
        self.options.write
    }

    /// What to call it.
    pub(crate) fn name(&self) -> &str {
        self.tier.name()
    }

    /// What to call an entry of it in a message.
    fn place(&self, kind: EntryKind, name: &[u8; 32]) -> std::path::PathBuf {
        kind.file(Path::new(self.tier.name()), name)
    }
}

impl Store {
    /// Puts an entry that is new here into the far tier.
    pub(crate) fn put_far(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) {
        let Some(far) = self.far().filter(|far| far.is_written()) else { return };
        match (kind == EntryKind::Selection).then(|| record::decode(kind, name, bytes)) {
            Some(Ok(Record { kind: RecordKind::Set, rows })) => match self.try_put_set(far, &SelectionKey(*name), rows) {
                Err(NotPut::Failed(error)) => far.warn("not written to", &error),
                Ok(()) | Err(NotPut::NamesWhatIsNot) => {}
            },
            _ => far.put(kind, name, bytes),
        }
    }

    /// Puts a set into the far tier, together with what others have added to the one there. Of two who do so in the same moment one's
    /// addition may be lost: the other's plan is still found by its key, or compiled once more.
    pub(crate) fn try_put_set(&self, far: &Far, key: &SelectionKey, rows: Vec<PlanRef>) -> Result<(), NotPut> {
        let most = self.limits().max_record_rows;
        // What cannot be read is not replaced.
        let there = far.tier.get(EntryKind::Selection, &key.0, record::size_of_rows(most)).map_err(NotPut::Failed)?;
        let there = match there.map(|bytes| record::decode(EntryKind::Selection, &key.0, &bytes)) {
            Some(Ok(record)) => record.rows,
            // Newer machines keep what they have.
            Some(Err(cause @ RecordError::TooNew { .. })) => {
                let error = StoreError::Record { path: far.place(EntryKind::Selection, &key.0), cause };
                return Err(NotPut::Failed(RemoteError { kind: RemoteErrorKind::Garbled, message: error.to_string() }));
            }
            // What is damaged is replaced.
            Some(Err(_)) | None => Vec::new(),
        };
        let rows = united(rows, there, most);
        far.try_put(EntryKind::Selection, &key.0, &record::encode(RecordKind::Set, &key.0, &rows))
    }

    /// A blob from the far tier, kept in front.
    pub(crate) fn pull_blob(&self, digest: &Digest) -> Option<Blob> {
        let far = self.far()?;
        let bytes = far.get(EntryKind::Blob, &digest.hash.0, digest.size.min(self.limits().max_blob_bytes))?;
        let found = Digest::of(&bytes);
        if found != *digest {
            let (found, expected) =
                (format!("{} of {} bytes", found.hash, found.size), format!("{} of {} bytes", digest.hash, digest.size));
            let path = far.place(EntryKind::Blob, &digest.hash.0);
            far.garbled(&StoreError::Content { path, what: "content hash", found, expected });
            return None;
        }
        self.keep(|layer| layer.publish(EntryKind::Blob, &digest.hash.0, &bytes));
        Some(aligned_copy(&bytes).into())
    }

    /// A plan from the far tier, kept in front together with its code objects; one whose code objects cannot be had is given and not kept.
    pub(crate) fn pull_plan(&self, plan: &PlanRef) -> Option<PlanBytes> {
        let far = self.far()?;
        let bytes = far.get(EntryKind::Plan, &plan.root.0, plan.size.min(self.limits().max_plan_bytes))?;
        let path = far.place(EntryKind::Plan, &plan.root.0);
        let opened = open_plan(&path, aligned_copy(&bytes), plan);
        let checked = opened.and_then(|opened| match opened.view().verify() {
            Ok(()) => Ok(opened),
            Err(cause) => Err(StoreError::Plan { path: path.clone(), cause: Box::new(cause) }),
        });
        let opened = checked.inspect_err(|error| far.garbled(error)).ok()?;
        let has_all = opened.code_objects().all(|blob| self.get_blob(&blob).hit().is_some());
        if has_all {
            self.keep(|layer| {
                for blob in opened.code_objects() {
                    let missing = |path| crate::plans::missing_code_object(plan, path);
                    match layer.require_now(EntryKind::Blob, &blob.hash.0, blob.size, missing) {
                        // A layer below has it, where a plan in front may not look for it.
                        Err(error @ StoreError::MissingTarget { .. }) => {
                            let bytes = self.get_blob(&blob).hit().ok_or(error)?;
                            let _ = layer.publish(EntryKind::Blob, &blob.hash.0, &bytes)?;
                        }
                        required => required?,
                    }
                }
                let persisted = layer.publish(EntryKind::Plan, &plan.root.0, opened.bytes())?;
                layer.publish_record(EntryKind::PlanRecord, RecordKind::Plan, &plan.key.0, &[*plan]).map(|_| persisted)
            });
        }
        Some(opened)
    }

    /// What a plan key leads to in the far tier, if the plan can be had.
    pub(crate) fn pull_plan_record(&self, key: &PlanKey) -> Option<PlanRef> {
        let plan = self.pull_record(EntryKind::PlanRecord, &key.0)?.rows.into_iter().next()?;
        self.has_or_pulls(&plan).then_some(plan)
    }

    /// What a selection of the far tier names, as far as it can be had.
    pub(crate) fn pull_selection(&self, key: &SelectionKey) -> Option<Selection> {
        let Record { kind, rows } = self.pull_record(EntryKind::Selection, &key.0)?;
        let plans: Vec<PlanRef> = rows.into_iter().filter(|plan| self.has_or_pulls(plan)).collect();
        if plans.is_empty() {
            return None;
        }
        self.keep(|layer| {
            // A lookup waits for nobody who writes, and takes nothing away that somebody is adding: then the next one keeps it.
            let Some(_turn) = turn::take_at_once(layer.root(), &key.0, Purpose::Record) else { return Ok(Persisted::Unchanged) };
            // Somebody may have made one meanwhile.
            let (kind, rows) = match layer.record_to_replace(EntryKind::Selection, &key.0, self.limits()) {
                Ok(None) => (kind, plans.clone()),
                Ok(Some(Record { kind: RecordKind::Set, rows })) if kind == RecordKind::Set => {
                    (kind, united(rows, plans.clone(), self.limits().max_record_rows))
                }
                Ok(Some(_)) => return Ok(Persisted::Unchanged),
                // What is damaged is replaced.
                Err(error) if error.is_damage() => (kind, plans.clone()),
                Err(error) => return Err(error),
            };
            let own = self.own_plans_now(layer, key, &rows)?;
            if own.is_empty() {
                return Ok(Persisted::Unchanged);
            }
            layer.publish_record(EntryKind::Selection, kind, &key.0, &own)
        });
        Some(Selection { plans })
    }

    fn has_or_pulls(&self, plan: &PlanRef) -> bool {
        let has = |layer: &crate::layer::Layer| matches!(layer.plan(plan, self.limits()), Ok(Some(_)));
        self.layers().iter().any(|layer| has(layer)) || self.pull_plan(plan).is_some()
    }

    fn pull_record(&self, entries: EntryKind, key: &[u8; 32]) -> Option<Record> {
        let far = self.far()?;
        let bytes = far.get(entries, key, record::size_of_rows(self.limits().max_record_rows))?;
        let decoded = record::decode(entries, key, &bytes).map_err(|cause| StoreError::Record { path: far.place(entries, key), cause });
        decoded.inspect_err(|error| far.garbled(error)).ok()
    }

    /// Keeps what came from afar in front, where that may be written. That it cannot be kept is warned of once; that it is not all there
    /// is no news.
    fn keep(&self, write: impl FnOnce(&Directory) -> Result<Persisted, StoreError>) {
        let Some(layer) = self.writable() else { return };
        match write(layer) {
            Ok(_) | Err(StoreError::MissingTarget { .. }) => {}
            Err(error) => layer.faults().not_persisted(&error),
        }
    }
}

/// Two sets as one, as if the second had been added to before the first: of plans with one key that of the first; as many of the second as there is room for.
fn united(mut first: Vec<PlanRef>, second: Vec<PlanRef>, most: u32) -> Vec<PlanRef> {
    let keys: HashSet<PlanKey> = first.iter().map(|plan| plan.key).collect();
    let room = (most as usize).saturating_sub(first.len());
    first.extend(second.into_iter().filter(|plan| !keys.contains(&plan.key)).take(room));
    first.sort_unstable();
    first.dedup();
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Takes everything but blobs.
    #[derive(Debug)]
    struct Picky;

    impl RemoteTier for Picky {
        fn get(&self, _: EntryKind, _: &[u8; 32], _: u64) -> Result<Option<Vec<u8>>, RemoteError> {
            Ok(None)
        }

        fn put(&self, kind: EntryKind, _: &[u8; 32], _: &[u8]) -> Result<(), RemoteError> {
            let refused = || RemoteError { kind: RemoteErrorKind::Refused, message: "no blobs".to_owned() };
            if kind == EntryKind::Blob { Err(refused()) } else { Ok(()) }
        }

        fn name(&self) -> &str {
            "picky"
        }
    }

    #[test]
    fn what_is_in_use_for_long_is_neither_lost_nor_lost_track_of() {
        let far = Far::new(Arc::new(Picky), RemoteOptions { read: true, write: true });
        let plan = PlanRef { key: PlanKey([1; 32]), root: hipplan_serialize::RootHash([2; 32]), size: 3 };
        let record = record::encode(RecordKind::Plan, &plan.key.0, &[plan]);
        let put_record = || far.try_put(EntryKind::PlanRecord, &plan.key.0, &record);
        let put_blob = || far.try_put(EntryKind::Blob, &[4; 32], b"a blob");
        for (put, is_put) in [(&put_record as &(dyn Fn() -> Result<(), NotPut> + Sync), true), (&put_blob, false)] {
            let (tell, told) = mpsc::channel();
            std::thread::scope(|scope| {
                let far = &far;
                scope.spawn(move || {
                    let _lost = far.lost.get();
                    tell.send(()).unwrap();
                    // As one that the system stops for that long.
                    std::thread::sleep(Duration::from_millis(200));
                });
                told.recv().unwrap();
                assert_eq!(put().is_ok(), is_put);
            });
        }
        assert!(!far.loses_track.load(Ordering::Relaxed));
        let lost: Vec<_> = far.lost.get().unwrap().iter().copied().collect();
        assert_eq!(lost, [(EntryKind::Blob, [4; 32])]);
        assert!(put_record().is_ok());
    }
}
