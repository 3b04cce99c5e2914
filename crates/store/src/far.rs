//! The far tier as a store uses it: asked last, written last, never trusted, never in the way.

use crate::layer::{Directory, open_plan};
use crate::plans::PlanBytes;
use crate::record::{self, Record, RecordKind};
use crate::{Blob, EntryKind, Persisted, RemoteError, RemoteErrorKind, RemoteTier, Selection, Store, StoreError};
use hipplan_serialize::aligned::aligned_copy;
use hipplan_serialize::{Digest, PlanKey, PlanRef, SelectionKey};
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

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

/// A far tier, and what is known of it.
#[derive(Debug)]
pub(crate) struct Far {
    tier: Arc<dyn RemoteTier>,
    options: RemoteOptions,
    absent: Mutex<HashSet<(EntryKind, [u8; 32])>>,
    warned: Mutex<HashSet<RemoteErrorKind>>,
}

impl Far {
    pub(crate) fn new(tier: Arc<dyn RemoteTier>, options: RemoteOptions) -> Self {
        Self { tier, options, absent: Mutex::default(), warned: Mutex::default() }
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

    fn put(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) {
        if !self.options.write {
            return;
        }
        self.absent.lock().unwrap_or_else(PoisonError::into_inner).remove(&(kind, *name));
        if let Err(error) = self.tier.put(kind, name, bytes) {
            self.warn("not written to", &error);
        }
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

    /// What to call an entry of it in a message.
    fn place(&self, kind: EntryKind, name: &[u8; 32]) -> std::path::PathBuf {
        kind.file(Path::new(self.tier.name()), name)
    }
}

impl Store {
    /// Puts an entry that is new here into the far tier.
    pub(crate) fn put_far(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) {
        if let Some(far) = self.far() {
            far.put(kind, name, bytes);
        }
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
                    layer.require_durable(EntryKind::Blob, &blob.hash.0, blob.size, missing)?;
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
            for plan in &plans {
                let missing = |path| StoreError::MissingTarget { path, what: "plan", named_by: format!("selection {key}") };
                layer.require_durable(EntryKind::Plan, &plan.root.0, plan.size, missing)?;
            }
            layer.publish_record(EntryKind::Selection, kind, &key.0, &plans)
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

    /// Keeps what came from afar in front, where that may be written. That it cannot be kept is warned of once.
    fn keep(&self, write: impl FnOnce(&Directory) -> Result<Persisted, StoreError>) {
        let Some(layer) = self.writable() else { return };
        if let Err(error) = write(layer) {
            layer.faults().not_persisted(&error);
        }
    }
}
