//! Removing what is named: first whatever leads to it, then the thing itself and what it alone leads to.

use super::decide::pinned;
use super::gc::{alone, graphs};
use super::pins::{self, Pin, PinSet};
use super::progress::UpkeepProgress;
use super::reach::{Holdings, Wanted};
use super::removal::Removal;
use super::stamps::is_fresh;
use super::sweep::{Sweep, Swept, namings_of};
use super::table::Marks;
use crate::{EntryKind, Store, StoreError};
use hipplan_serialize::PlanKey;
use std::collections::HashSet;
use std::time::{Duration, SystemTime};

/// Sweeps at most, as of a gc.
const MOST_SWEEPS: u32 = 4;
/// A blob that was used less than this ago stays for the next gc: a publisher may be about to name it.
const GRACE: Duration = Duration::from_secs(3600);

/// What was removed.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RemoveReport {
    /// Copies of plans that went.
    pub plans: u64,
    /// Copies of blobs that went. Those that were used in the last hour are left to the next [`gc`](Store::gc).
    pub blobs: u64,
    /// Copies of plan records and selections that went.
    pub records: u64,
    /// Records that lost some of their rows.
    pub shortened: u64,
    /// Packs that were written anew without what went.
    pub packs_rewritten: u64,
    /// Things that somebody used at the last moment, and that stayed.
    pub spared: u64,
    /// Those that were to go of which a pin keeps something.
    pub pinned: Vec<Pin>,
    /// Those that were to go and lead to nothing.
    pub missing: Vec<Pin>,
    /// What could not be read, or is of another version: what it may need or name has not been removed. The first thousand.
    pub unknown: Vec<StoreError>,
}

impl Store {
    /// Removes plans, selections, or all plans of graphs from the folder in front: first the rows and records that name them, then the
    /// plans, then the blobs that nothing else needs. A selection goes with those of its plans that no other selection names. What a pin
    /// keeps stays. Layers behind the folder are not touched, and what they have is found there still.
    ///
    /// # Errors
    /// As of [`gc`](Self::gc).
    pub fn remove(&self, targets: &[Pin], progress: &dyn UpkeepProgress) -> Result<RemoveReport, StoreError> {
        let directory = self.to_write()?;
        let _alone = alone(directory)?;
        let mut report = RemoveReport::default();
        let mut swept = Swept::default();
        for round in 0..MOST_SWEEPS {
            let pins = pins::all(directory)?;
            let wanted = Wanted { graphs: graphs(pins.iter().flat_map(|set| &set.targets).chain(targets)), all_plans: true };
            let mut holdings = Holdings::of(directory, self.limits(), &wanted, progress);
            report.unknown = std::mem::take(&mut holdings.unknown);
            if !report.unknown.is_empty() {
                break;
            }
            let (removal, found) = chosen(&holdings, targets, &pins);
            if round == 0 {
                (report.pinned, report.missing) = (found.pinned, found.missing);
            }
            report.unknown = std::mem::take(&mut holdings.unread_plans);
            let done = Sweep::new(directory, self.limits(), &holdings, removal).run(progress)?;
            swept.add(&done);
            if done.deferred == 0 {
                break;
            }
        }
        let [blobs, plans, plan_records, selections] = swept.removed;
        Ok(RemoveReport {
            plans,
            blobs,
            records: plan_records.saturating_add(selections),
            shortened: swept.shortened,
            packs_rewritten: swept.packs_rewritten,
            spared: swept.spared,
            ..report
        })
    }
}

/// What the targets led to.
#[derive(Debug, Default)]
struct Found {
    pinned: Vec<Pin>,
    missing: Vec<Pin>,
}

fn chosen(holdings: &Holdings, targets: &[Pin], pins: &[PinSet]) -> (Removal, Found) {
    let pinned = pinned(holdings, pins);
    let mut removal = Removal::none(holdings);
    let mut found = Found::default();
    // Selections first: whether their plans are named elsewhere depends on which of them go.
    for target in targets {
        if let Pin::Selection(key) = target
            && let Some(entry) = holdings.selections.find(&key.0)
            && !pins.iter().any(|set| set.targets.contains(target))
        {
            removal.selections.set(entry);
        }
    }
    let mut named_elsewhere = Marks::none(holdings.plans.len());
    for (entry, _) in holdings.selections.entries().filter(|&(entry, _)| !removal.selections.has(entry)) {
        plans_of(holdings, EntryKind::Selection, entry).for_each(|plan| named_elsewhere.set(plan));
    }
    let mut keys = HashSet::new();
    for target in targets {
        let plans: Vec<u32> = match target {
            Pin::Plan(key) => plans_with(holdings, key).collect(),
            Pin::Graph(graph) => holdings.of_graphs.get(graph).cloned().unwrap_or_default(),
            Pin::Selection(key) => match holdings.selections.find(&key.0) {
                Some(entry) if !removal.selections.has(entry) => {
                    found.pinned.push(*target);
                    continue;
                }
                Some(entry) => {
                    let own = plans_of(holdings, EntryKind::Selection, entry).filter(|&plan| !named_elsewhere.has(plan));
                    keys.extend(own.filter_map(|plan| holdings.key(plan)));
                    continue;
                }
                None => Vec::new(),
            },
        };
        if plans.is_empty() {
            found.missing.push(*target);
        }
        keys.extend(plans.into_iter().filter_map(|plan| holdings.key(plan)));
    }
    // Plans with one key stay or go together.
    let kept: HashSet<PlanKey> =
        holdings.plans.entries().filter(|&(plan, _)| pinned.has(plan)).filter_map(|(plan, _)| holdings.key(plan)).collect();
    let is_kept = |target: &Pin| match target {
        Pin::Plan(key) => kept.contains(key),
        Pin::Graph(graph) => {
            holdings.of_graphs.get(graph).into_iter().flatten().any(|&plan| holdings.key(plan).is_some_and(|key| kept.contains(&key)))
        }
        Pin::Selection(_) => false,
    };
    found.pinned.extend(targets.iter().filter(|target| is_kept(target)));
    let mut going = Marks::none(holdings.plans.len());
    for (plan, _) in holdings.plans.entries() {
        if holdings.key(plan).is_some_and(|key| keys.contains(&key) && !kept.contains(&key)) {
            removal.plans.set(plan);
            going.set(plan);
        }
    }
    removal.rewrite_packs_of(holdings, &going);
    for (entry, copies) in holdings.selections.entries() {
        if removal.selections.has(entry) {
            removal.rewrite_packs(copies);
        }
    }
    // Blobs that were needed by nothing before are left to a gc.
    let mut was_needed = Marks::none(holdings.blobs.len());
    for &(plan, blob) in &holdings.needs {
        if going.has(plan) {
            was_needed.set(blob);
        }
    }
    let now = SystemTime::now();
    removal.take_unneeded_blobs(holdings, |blob| !was_needed.has(blob) || is_fresh(holdings.last_use(EntryKind::Blob, blob), now, GRACE));
    (removal, found)
}

fn plans_with<'h>(holdings: &'h Holdings, key: &PlanKey) -> impl Iterator<Item = u32> + 'h {
    let key = *key;
    holdings.plans.entries().map(|(plan, _)| plan).filter(move |&plan| holdings.key(plan) == Some(key))
}

/// The plans that any copy of a record names.
fn plans_of(holdings: &Holdings, kind: EntryKind, entry: u32) -> impl Iterator<Item = u32> + '_ {
    let table = holdings.table(kind);
    let first = table.first_copy(entry);
    let copies = u32::try_from(table.copies_of(entry).len()).unwrap_or(0);
    (first..first.saturating_add(copies)).flat_map(move |copy| namings_of(holdings.namings(kind), copy)).map(|naming| naming.plan)
}
