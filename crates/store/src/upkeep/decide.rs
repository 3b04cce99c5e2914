//! What a gc removes: what nothing reaches, and what was not used for longest as far as caps demand it.

use super::gc::GcOptions;
use super::pins::{Pin, PinSet};
use super::reach::{Holdings, Naming};
use super::removal::Removal;
use super::stamps::{is_fresh, nanos};
use super::sweep::namings_of;
use super::table::{Copied, Marks};
use super::usage::Usage;
use crate::EntryKind;
use crate::pack::{ALIGN, ROW};
use std::collections::HashSet;

/// Bytes of a pack of which one part in so many is dead before it is written anew without need.
const DEAD_SHARE: u64 = 4;

/// What is to be done.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) removal: Removal,
    /// Plans that go although something names them.
    pub(super) evicted: u64,
    /// Plans that caps would have gone on with, were they not pinned.
    pub(super) pinned: u64,
    /// Plans that caps would have gone on with, were they not in use.
    pub(super) in_use: u64,
}

/// Plans that pins reach. Whoever has listed the holdings has asked for the graphs of the pins.
pub(super) fn pinned(holdings: &Holdings, pins: &[PinSet]) -> Marks {
    let mut marks = Marks::none(holdings.plans.len());
    let mut keys = HashSet::new();
    for pin in pins.iter().flat_map(|set| &set.targets) {
        match pin {
            Pin::Plan(key) => drop(keys.insert(*key)),
            Pin::Selection(key) => {
                let Some(entry) = holdings.selections.find(&key.0) else { continue };
                let first = holdings.selections.first_copy(entry);
                let copies = u32::try_from(holdings.selections.copies_of(entry).len()).unwrap_or(0);
                for copy in first..first.saturating_add(copies) {
                    namings_of(&holdings.by_selection, copy).for_each(|naming| marks.set(naming.plan));
                }
            }
            Pin::Graph(graph) => holdings.of_graphs.get(graph).into_iter().flatten().for_each(|&plan| marks.set(plan)),
        }
    }
    for (plan, _) in holdings.plans.entries() {
        if holdings.key(plan).is_some_and(|key| keys.contains(&key)) {
            marks.set(plan);
        }
    }
    marks
}

/// Plans that a record names which is read.
pub(super) fn live(holdings: &Holdings) -> Marks {
    let mut live = Marks::none(holdings.plans.len());
    for kind in [EntryKind::PlanRecord, EntryKind::Selection] {
        for naming in holdings.namings(kind).iter().filter(|naming| !holdings.is_hidden(kind, naming.record)) {
            live.set(naming.plan);
        }
    }
    live
}

/// Plans that something may rely on which leaves no other trace: those that were used inside the grace age, and those that a record
/// names which was.
fn fresh(holdings: &Holdings, options: &GcOptions) -> Marks {
    let mut fresh = Marks::none(holdings.plans.len());
    for (plan, _) in holdings.plans.entries() {
        if is_fresh(holdings.last_use(EntryKind::Plan, plan), options.now, options.grace) {
            fresh.set(plan);
        }
    }
    // A put of what was there already may have come between the listing of plans and that of what names them: then only the names show
    // that it was.
    for kind in [EntryKind::PlanRecord, EntryKind::Selection] {
        let is_in_use = |copy: &Copied| is_fresh(copy.stamp, options.now, options.grace);
        for naming in holdings.namings(kind) {
            if holdings.table(kind).copy(naming.record).is_some_and(is_in_use) {
                fresh.set(naming.plan);
            }
        }
    }
    fresh
}

/// Decides; `usage` is what the folder takes now, leftovers that go anyway left out.
pub(super) fn decide(holdings: &Holdings, options: &GcOptions, pins: &[PinSet], usage: Usage) -> Decision {
    let (live, fresh, pinned) = (live(holdings), fresh(holdings, options), pinned(holdings, pins));
    let mut removal = Removal::none(holdings);
    for (plan, _) in holdings.plans.entries() {
        if !live.has(plan) && !fresh.has(plan) && !pinned.has(plan) {
            removal.plans.set(plan);
        }
    }
    let spare_blob = |blob| is_fresh(holdings.last_use(EntryKind::Blob, blob), options.now, options.grace);
    removal.take_unneeded_blobs(holdings, spare_blob);
    let mut tally = Tally::of(holdings, &removal, usage);
    tally.write_worthwhile_packs(&mut removal, 1, DEAD_SHARE);
    let mut decision = Decision { removal, evicted: 0, pinned: 0, in_use: 0 };
    if options.max_age.is_none() && !tally.is_over(options) {
        return decision;
    }
    // Whatever is dead goes before anything is that lives.
    if tally.is_over(options) {
        tally.write_worthwhile_packs(&mut decision.removal, 0, 1);
    }
    evict(holdings, options, &mut decision, &mut tally, &live, &fresh, &pinned);
    decision.removal.take_unneeded_blobs(holdings, spare_blob);
    decision
}

/// Plans with one key stay or go together: what names one of them needs the record of the key.
fn evict(
    holdings: &Holdings,
    options: &GcOptions,
    decision: &mut Decision,
    tally: &mut Tally<'_>,
    live: &Marks,
    fresh: &Marks,
    pinned: &Marks,
) {
    let mut groups: Vec<(u64, [u8; 32], u32)> = Vec::new();
    for (plan, _) in holdings.plans.entries() {
        if let Some(key) = holdings.key(plan).filter(|_| live.has(plan)) {
            groups.push((holdings.last_use(EntryKind::Plan, plan), key.0, plan));
        }
    }
    // The last use of a group is that of any plan in it.
    groups.sort_unstable_by_key(|&(stamp, key, plan)| (key, stamp, plan));
    for group in groups.chunk_by_mut(|a, b| a.1 == b.1) {
        let last = group.last().map_or(0, |&(stamp, ..)| stamp);
        group.iter_mut().for_each(|(stamp, ..)| *stamp = last);
    }
    groups.sort_unstable();
    let too_old = options.max_age.and_then(|age| options.now.checked_sub(age)).map(nanos);
    let mut evicted = Marks::none(holdings.plans.len());
    for group in groups.chunk_by(|a, b| a.1 == b.1) {
        let is_too_old = too_old.is_some_and(|oldest| group.first().is_some_and(|&(stamp, ..)| stamp < oldest));
        if !is_too_old && !tally.is_over(options) {
            break;
        }
        let plans = || group.iter().map(|&(.., plan)| plan);
        let count = group.len() as u64;
        if plans().any(|plan| pinned.has(plan)) {
            decision.pinned = decision.pinned.saturating_add(count);
            continue;
        }
        if plans().any(|plan| fresh.has(plan)) {
            decision.in_use = decision.in_use.saturating_add(count);
            continue;
        }
        // A plan in a pack is no file.
        let brings_files = plans().any(|plan| holdings.plans.copies_of(plan).iter().any(Copied::is_loose));
        if !is_too_old && !tally.is_over_in_bytes(options) && !brings_files {
            continue;
        }
        decision.evicted = decision.evicted.saturating_add(count);
        for plan in plans() {
            decision.removal.plans.set(plan);
            evicted.set(plan);
            tally.without(plan);
        }
    }
    decision.removal.rewrite_packs_of(holdings, &evicted);
}

/// What the removal of this and that brings.
struct Tally<'h> {
    holdings: &'h Holdings,
    left: Usage,
    /// Dead bytes of each pack that is not written anew yet.
    dead: Vec<u64>,
    /// For each blob, plans that stay and need it.
    needed_by: Vec<u32>,
    /// Record copies and what they name, by plan.
    named_by: [Vec<Naming>; 2],
    /// For each copy of a record, plans that stay and that it names.
    rows: [Vec<u32>; 2],
}

const RECORDS: [EntryKind; 2] = [EntryKind::PlanRecord, EntryKind::Selection];

impl<'h> Tally<'h> {
    fn of(holdings: &'h Holdings, removal: &Removal, usage: Usage) -> Self {
        let mut this = Self {
            holdings,
            left: usage,
            dead: vec![0; holdings.packs.len()],
            needed_by: vec![0; holdings.blobs.len()],
            named_by: RECORDS.map(|kind| holdings.namings(kind).to_vec()),
            rows: RECORDS.map(|kind| vec![0; holdings.table(kind).all().len()]),
        };
        this.named_by.iter_mut().for_each(|namings| namings.sort_unstable_by_key(|naming| naming.plan));
        for &(plan, blob) in &holdings.needs {
            if !removal.plans.has(plan) {
                add(&mut this.needed_by, blob, 1);
            }
        }
        for (rows, kind) in this.rows.iter_mut().zip(RECORDS) {
            holdings.namings(kind).iter().for_each(|naming| add(rows, naming.record, 1));
            for (number, copy) in (0_u32..).zip(holdings.table(kind).all()) {
                if let Some(pack) = copy.pack().filter(|_| holdings.is_hidden(kind, number)) {
                    note_dead(&mut this.dead, pack, copy);
                }
            }
        }
        for (kind, marks) in [(EntryKind::Plan, &removal.plans), (EntryKind::Blob, &removal.blobs)] {
            for (_, copies) in holdings.table(kind).entries().filter(|&(entry, _)| marks.has(entry)) {
                copies.iter().for_each(|copy| this.go(copy));
            }
        }
        this
    }

    /// A copy goes: at once, or when its pack is written anew.
    fn go(&mut self, copy: &Copied) {
        match copy.pack() {
            Some(pack) => note_dead(&mut self.dead, pack, copy),
            None => {
                self.left.bytes = self.left.bytes.saturating_sub(copy.size);
                self.left.files = self.left.files.saturating_sub(1);
            }
        }
    }

    /// The packs of which this share is dead are written anew: more than `over` in `of` parts, or any at all.
    fn write_worthwhile_packs(&mut self, removal: &mut Removal, over: u64, of: u64) {
        for ((dead, pack), rewrite) in self.dead.iter_mut().zip(&self.holdings.packs).zip(&mut removal.rewrite) {
            let least = pack.bytes().saturating_mul(over).checked_div(of).unwrap_or(0).max(1);
            if *dead >= least {
                *rewrite = true;
                self.left.bytes = self.left.bytes.saturating_sub(*dead);
                *dead = 0;
            }
        }
    }

    /// A plan goes, from whatever pack it is in, with the blobs and records that are not needed without it.
    fn without(&mut self, plan: u32) {
        let holdings = self.holdings;
        let mut gone: Vec<Copied> = holdings.plans.copies_of(plan).to_vec();
        for blob in holdings.needs_of(plan) {
            if let Some(count) = self.needed_by.get_mut(blob as usize) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    gone.extend(holdings.blobs.copies_of(blob));
                }
            }
        }
        for ((kind, namings), rows) in RECORDS.into_iter().zip(&self.named_by).zip(&mut self.rows) {
            let start = namings.partition_point(|naming| naming.plan < plan);
            for naming in namings.get(start..).unwrap_or_default().iter().take_while(|naming| naming.plan == plan) {
                let Some(rows) = rows.get_mut(naming.record as usize) else { continue };
                *rows = rows.saturating_sub(1);
                if *rows == 0 {
                    gone.extend(holdings.table(kind).copy(naming.record));
                }
            }
        }
        for copy in gone {
            if copy.is_loose() {
                self.go(&copy);
            } else {
                self.left.bytes = self.left.bytes.saturating_sub(in_pack(&copy));
            }
        }
    }

    fn is_over_in_bytes(&self, options: &GcOptions) -> bool {
        options.max_bytes.is_some_and(|max| self.left.bytes > max)
    }

    fn is_over(&self, options: &GcOptions) -> bool {
        self.is_over_in_bytes(options) || options.max_files.is_some_and(|max| self.left.files > max)
    }
}

fn note_dead(dead: &mut [u64], pack: usize, copy: &Copied) {
    if let Some(dead) = dead.get_mut(pack) {
        *dead = dead.saturating_add(in_pack(copy));
    }
}

fn add(counts: &mut [u32], at: u32, more: u32) {
    if let Some(count) = counts.get_mut(at as usize) {
        *count = count.saturating_add(more);
    }
}

/// Bytes that an entry takes in a pack.
fn in_pack(copy: &Copied) -> u64 {
    copy.size.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX).saturating_add(ROW as u64)
}
