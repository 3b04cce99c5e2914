//! The far tier as a store uses it: asked last, written last, never trusted, never in the way.

use crate::layer::{Directory, open_plan};
use crate::plans::PlanBytes;
use crate::record::{self, Record, RecordError, RecordKind};
use crate::targets::targets;
use crate::{Blob, EntryKind, Persisted, RemoteError, RemoteErrorKind, RemoteTier, Selection, Store, StoreError};
use hipplan_serialize::aligned::aligned_copy;
use hipplan_serialize::{Digest, PlanKey, PlanRef, SelectionKey};
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
/// nothing is put any more.
const MOST_LOST: usize = 1 << 16;

type Name = (EntryKind, [u8; 32]);

/// A far tier, and what is known of it.
#[derive(Debug)]
pub(crate) struct Far {
    tier: Arc<dyn RemoteTier>,
    options: RemoteOptions,
    absent: Mutex<HashSet<Name>>,
    lost: Mutex<HashSet<Name>>,
    warned: Mutex<HashSet<RemoteErrorKind>>,
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
        Self { tier, options, absent: Mutex::default(), lost: Mutex::default(), warned: Mutex::default() }
    }

    /// The bytes of an entry, unchecked. That they cannot be had is a miss, of which one warning a kind is logged.
    fn get(&self, kind: EntryKind, name: &[u8; 32], max: u64) -> Option<Vec<u8>> {
        if !self.options.read || self.absent.lock().unwrap_or_else(PoisonError::into_inner).contains(&(kind, *name)) {
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
                let mut absent = self.absent.lock().unwrap_or_else(PoisonError::into_inner);
                if absent.len() >= MOST_ABSENT {
                    absent.clear();
                }
                absent.insert((kind, *name));
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
        self.absent.lock().unwrap_or_else(PoisonError::into_inner).remove(&(kind, *name));
        let is_whole = self.has_all(kind, name, bytes);
        let put = if is_whole { self.tier.put(kind, name, bytes).map_err(NotPut::Failed) } else { Err(NotPut::NamesWhatIsNot) };
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if put.is_ok() {
            lost.remove(&(kind, *name));
        } else if lost.len() < MOST_LOST {
            lost.insert((kind, *name));
        }
        put
    }

    /// Whether all that an entry names has been put, as far as this process has to do with it.
    fn has_all(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> bool {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if lost.is_empty() || kind == EntryKind::Blob {
            return true;
        }
        lost.len() < MOST_LOST && !targets(kind, name, bytes).iter().any(|target| lost.contains(&target.key()))
    }

    /// One warning for each kind of failure. That a tier rests after a failure is no news.
    fn warn(&self, what: &str, error: &RemoteError) {
        if error.kind == RemoteErrorKind::Resting {
            return;
        }
        let is_new = self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(error.kind);
        if is_new {
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
            // A lookup waits for nobody who writes. Two who keep what came from afar keep the same; an addition that is lost in that moment
            // is found by its own request.
            let _turn = self.turn_to_write_within(layer, &key.0, Duration::ZERO);
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

/// Two sets as one: of plans with one key that of the first; as many of the second as there is room for.
fn united(mut first: Vec<PlanRef>, second: Vec<PlanRef>, most: u32) -> Vec<PlanRef> {
    let keys: HashSet<PlanKey> = first.iter().map(|plan| plan.key).collect();
    let room = (most as usize).saturating_sub(first.len());
    first.extend(second.into_iter().filter(|plan| !keys.contains(&plan.key)).take(room));
    first.sort_unstable();
    first.dedup();
    first
}
