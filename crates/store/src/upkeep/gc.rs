//! Garbage collection: what nothing reaches goes, and what caps leave no room for.

use super::alone::Alone;
use super::claim::{Claim, Clock, stale_after};
use super::decide::decide;
use super::generation;
use super::leftovers::{Leftovers, clear};
use super::pins::{self, Pin, PinSet};
use super::progress::UpkeepProgress;
use super::reach::{Holdings, Wanted};
use super::sweep::{Sweep, Swept};
use super::trash;
use super::usage::{Usage, measure};
use super::wait::Wait;
use crate::layer::Directory;
use crate::layout::PACKS;
use crate::{Limits, Store, StoreError};
use hipplan_serialize::GraphKey;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

/// Sweeps of one gc at most: each takes what the one before had to leave because something else still named it.
const MOST_SWEEPS: u32 = 4;
/// How long other upkeep is waited for before this goes on beside it.
const ALONE: Duration = Duration::from_secs(30);
/// The grace age that is used where none is given.
const GRACE: Duration = Duration::from_secs(3600);

/// What a gc is to do.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GcOptions {
    /// Most bytes that the files of the store may have together, markers, locks and pins left out.
    pub max_bytes: Option<u64>,
    /// Most files that the store may have, markers, locks and pins left out. Packs are what makes few files of many entries.
    pub max_files: Option<u64>,
    /// Plans that were not used for longer than this go.
    pub max_age: Option<Duration>,
    /// What was used or written less than this ago stays whatever the caps are: a publisher may be about to name it. One hour. Less than
    /// a publisher takes from a blob to the plan that names it makes such puts fail, and commits of a group leave such plans out and say so.
    pub grace: Duration,
    /// Nothing is changed; the report says what would be.
    pub dry_run: bool,
    /// The time from which ages count.
    pub now: SystemTime,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self { max_bytes: None, max_files: None, max_age: None, grace: GRACE, dry_run: false, now: SystemTime::now() }
    }
}

/// What a gc did, or would do.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GcReport {
    /// What the files of the store took before, markers, locks and pins left out.
    pub before: Usage,
    /// What they take now; of a dry run what they would take if nobody else were at work.
    pub after: Usage,
    /// Plans that went although something named them, least recently used first.
    pub evicted: u64,
    /// Copies of blobs that went.
    pub blobs: u64,
    /// Copies of plans that went.
    pub plans: u64,
    /// Copies of plan records and selections that went.
    pub records: u64,
    /// Records that lost some of their rows.
    pub shortened: u64,
    /// Packs that were written anew without what went.
    pub packs_rewritten: u64,
    /// Unfinished writes that went.
    pub leftovers: u64,
    /// Damaged entries that had been set aside and went.
    pub quarantined: u64,
    /// Things that somebody used at the last moment, and that stayed.
    pub spared: u64,
    /// Plans that a cap demands and that stay because they are pinned.
    pub kept_pinned: u64,
    /// Plans that a cap demands and that stay because they are in use, or inside the grace age.
    pub kept_in_use: u64,
    /// What could not be read, or is of another version. As long as it is not known what it names, that stays: blobs, where these are
    /// plans; everything but leftovers, where they are records or packs. The first thousand.
    pub unknown: Vec<StoreError>,
    /// Whether a cap is exceeded still.
    pub is_over: bool,
}

impl GcReport {
    pub(super) fn count(&mut self, swept: &Swept) {
        let [blobs, plans, plan_records, selections] = swept.removed;
        (self.blobs, self.plans) = (blobs, plans);
        self.records = plan_records.saturating_add(selections);
        self.shortened = swept.shortened;
        self.packs_rewritten = swept.packs_rewritten;
        self.spared = swept.spared;
    }
}

impl Store {
    /// Removes from the folder in front what nothing reaches any more, and as far as caps demand it the plans that were used longest ago,
    /// with what they alone lead to. What pins reach stays, and what was used inside the grace age.
    ///
    /// May run beside readers, writers and other upkeep. Who has something open keeps it; a lookup meanwhile finds a thing whole or misses.
    /// Layers behind the folder are not touched.
    ///
    /// # Errors
    /// The folder may not be written; pins are damaged, so that it is not known what has to stay; other upkeep is removing things, and
    /// goes on doing so; or the system refuses something. What was done up to then is done: nothing names what is not there.
    pub fn gc(&self, options: &GcOptions, progress: &dyn UpkeepProgress) -> Result<GcReport, StoreError> {
        let directory = self.to_write()?;
        let _alone = if options.dry_run { None } else { Some(alone(directory)?) };
        collect(directory, self.limits(), options, progress)
    }
}

/// What says that something is being removed, as long as it is.
pub(super) struct AtWork {
    // In this order: who has the lock next knows that who had it has no claim any more.
    _claim: Option<Claim>,
    _alone: Alone,
}

/// Waits until nothing else is being removed, puts back what upkeep that was killed had taken away, and clears away what it left to say
/// that it is at work.
///
/// Two that remove things at once would be right about each other as long as both live. But what one of them has taken away comes back
/// when it is killed, and the other may have seen that it was away, and removed what it needs. So where there is no lock a claim keeps
/// them apart.
pub(super) fn alone(directory: &Directory) -> Result<AtWork, StoreError> {
    let alone = Alone::wait(directory, ALONE)?;
    let (mut wait, clock) = (Wait::new(directory.root(), longest_wait()), Clock::default());
    let claim = loop {
        generation::sweep(directory, &alone, &clock)?;
        match directory.uses_folder(PACKS).and_then(|folder| Claim::make(directory, &folder, 0, &alone)) {
            Ok(Some(claim)) => break Some(claim),
            Ok(None) if !wait.is_over() => {
                let who = || {
                    format!(
                        "somebody who removes things, or did when it was killed, and whose claim is in {}",
                        directory.root().join(PACKS).display()
                    )
                };
                wait.nap(who, "this gives up");
            }
            Ok(None) => {
                let action = "remove anything while other upkeep is at work, or was killed a moment ago, in";
                return Err(StoreError::io(action, directory.root())(ErrorKind::ResourceBusy.into()));
            }
            // Where there is no room for a new file, some can still be made.
            Err(_) => break None,
        }
    };
    trash::recover(directory)?;
    Ok(AtWork { _claim: claim, _alone: alone })
}

/// How long other upkeep is waited for that has a claim and not the lock.
fn longest_wait() -> Duration {
    stale_after().checked_div(4).unwrap_or(ALONE)
}

pub(super) fn collect(
    directory: &Directory,
    limits: &Limits,
    options: &GcOptions,
    progress: &dyn UpkeepProgress,
) -> Result<GcReport, StoreError> {
    let mut report = GcReport { before: measure(directory)?, ..GcReport::default() };
    let Leftovers { files, quarantined, bytes } = clear(directory, options)?;
    (report.leftovers, report.quarantined) = (files, quarantined);
    let mut swept = Swept::default();
    for _ in 0..MOST_SWEEPS {
        let pins = pins::all(directory)?;
        let mut holdings = Holdings::of(directory, limits, &wanted(&pins), progress);
        let mut usage = measure(directory)?;
        if options.dry_run {
            usage.bytes = usage.bytes.saturating_sub(bytes);
            usage.files = usage.files.saturating_sub(files.saturating_add(quarantined));
        }
        report.after = usage;
        report.unknown = std::mem::take(&mut holdings.unknown);
        if !report.unknown.is_empty() {
            break;
        }
        let decision = decide(&holdings, options, &pins, usage);
        report.unknown = std::mem::take(&mut holdings.unread_plans);
        report.evicted = report.evicted.saturating_add(decision.evicted);
        (report.kept_pinned, report.kept_in_use) = (decision.pinned, decision.in_use);
        if options.dry_run {
            let expected = Sweep::new(directory, limits, &holdings, decision.removal).expect(usage)?;
            report.count(&expected.swept);
            report.after = expected.after;
            break;
        }
        let done = Sweep::new(directory, limits, &holdings, decision.removal).run(progress)?;
        swept.add(&done);
        report.count(&swept);
        report.after = measure(directory)?;
        let has_done = done.removed.iter().any(|&count| count > 0);
        if !has_done || done.deferred == 0 && !is_over(&report.after, options) {
            break;
        }
    }
    report.is_over = is_over(&report.after, options);
    Ok(report)
}

fn is_over(usage: &Usage, options: &GcOptions) -> bool {
    options.max_bytes.is_some_and(|max| usage.bytes > max) || options.max_files.is_some_and(|max| usage.files > max)
}

/// What has to be known for these pins.
pub(super) fn wanted(pins: &[PinSet]) -> Wanted {
    Wanted { graphs: graphs(pins.iter().flat_map(|set| &set.targets)), all_plans: false }
}

/// The graphs among these.
pub(super) fn graphs<'p>(pins: impl Iterator<Item = &'p Pin>) -> HashSet<GraphKey> {
    let graphs = pins.filter_map(|pin| match pin {
        Pin::Graph(graph) => Some(*graph),
        Pin::Plan(_) | Pin::Selection(_) => None,
    });
    graphs.collect()
}
