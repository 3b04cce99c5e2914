//! A store of many small plans: what finding one costs, what upkeep does a second, and the memory that each takes.

use crate::measure::{median, memory};
use anyhow::{Context, Result, ensure};
use hipplan_serialize::plan::{CodeObjectV1, PayloadWriter, PlanMetaV1, PlanWriter};
use hipplan_serialize::{AlignedBytes, Digest, GraphKey, PlanIdentity, PlanKey, Policy, SelectionKey};
use hipplan_store::{CompactOptions, GcOptions, Mode, Store};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const TARGET: &str = "gfx90a:sramecc+:xnack-";
/// Lookups of a measurement.
const LOOKUPS: usize = 2_000;
/// Measurements of a size, in turn with the other sizes.
const ROUNDS: usize = 9;

/// The identity of plan number `i`.
fn identity(i: usize) -> PlanIdentity {
    PlanIdentity {
        graph: GraphKey::of_encoding(&(i as u64).to_le_bytes()),
        target: TARGET.into(),
        provider: "benchmark".into(),
        engine: "ENGINE".into(),
        engine_revision: "1".into(),
        knobs: Vec::new(),
    }
}

/// Plan number `i`, of some kilobytes, which names these code objects.
pub(crate) fn plan(i: usize, code_objects: &[Digest]) -> Result<AlignedBytes> {
    let identity = identity(i);
    let code_objects = code_objects.iter().map(|digest| CodeObjectV1 { hash: digest.hash.0, size: digest.size }).collect();
    let meta = PlanMetaV1 { code_objects, ..PlanMetaV1::of(&identity) };
    let body: Vec<u8> = (0..512).map(|at| (at * 7 + i) as u8).collect();
    let payload = PayloadWriter { kind: "benchmark", version: 1, runtime_uids: Vec::new(), baked: Vec::new(), body: &body };
    let payload = payload.finish()?;
    Ok(PlanWriter { meta: &meta, canonical: &(i as u64).to_le_bytes(), payload: &payload }.finish()?)
}

/// The selection that leads to plan number `i`.
pub(crate) fn selection(i: usize) -> SelectionKey {
    SelectionKey::new(&identity(i).graph, TARGET, &Policy::DEFAULT)
}

/// Makes a store of so many plans, in one pack, if it is not there.
fn fill(folder: &Path, size: usize) -> Result<()> {
    if folder.join("filled").exists() {
        return Ok(());
    }
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    let start = Instant::now();
    let store = Store::open(folder.join("store"), Mode::ReadWrite)?;
    let group = store.group();
    for i in 0..size {
        let put = group.put_plan(&plan(i, &[])?)?;
        let _ = group.put_selection(&selection(i), &[put.id])?;
    }
    let _ = group.commit()?;
    println!("{size} plans put in a group in {:.1} s", start.elapsed().as_secs_f64());
    child("compact", folder)?;
    std::fs::write(folder.join("filled"), "")?;
    Ok(())
}

/// All measurements over stores of these sizes.
pub(crate) fn run(folder: &Path, sizes: &[usize]) -> Result<()> {
    let place = |size: usize| folder.join(format!("plans-{size}"));
    for &size in sizes {
        fill(&place(size), size)?;
    }
    // For two seconds after a folder of packs was changed, its listing is not relied upon.
    std::thread::sleep(Duration::from_secs(3));
    let open = |size: usize| Ok((size, Store::open(place(size).join("store"), Mode::ReadOnly)?));
    lookups(&sizes.iter().map(|&size| open(size)).collect::<Result<Vec<_>>>()?)?;
    println!(
        "\n| a process | entries | time | entries a second | bytes a second | memory of its own at the end | most resident memory |\n|---|---:|---:|---:|---:|---:|---:|"
    );
    for &size in sizes {
        for what in ["lookups", "verify", "gc"] {
            child(what, &place(size))?;
        }
        // Some of it has gone.
        std::fs::remove_file(place(size).join("filled"))?;
    }
    Ok(())
}

/// Finding a plan and reading it, in stores of several sizes in turn.
fn lookups(stores: &[(usize, Store)]) -> Result<()> {
    println!(
        "\n| plans in the store | one of 64 plans, us | against the first | any plan, us | against the first |\n|---:|---:|---:|---:|---:|"
    );
    let mut times = vec![[Vec::new(), Vec::new()]; stores.len()];
    for round in 0..ROUNDS {
        for at in 0..stores.len() {
            let at = (at + round) % stores.len();
            let (size, store) = &stores[at];
            for (column, among) in [64.min(*size), *size].into_iter().enumerate() {
                // The plans of a round are its own, so that those of a large store are in no cache of the processor.
                let keys = keys(*size, among, round);
                let _ = look(store, &keys)?;
                let start = Instant::now();
                look(store, &keys)?;
                times[at][column].push(start.elapsed().as_secs_f64() * 1e6 / keys.len() as f64);
            }
        }
    }
    let first = [median(&times[0][0]), median(&times[0][1])];
    for ((size, _), [few, any]) in stores.iter().zip(&times) {
        let [few, any] = [median(few), median(any)];
        println!("| {size} | {few:.2} | {:.2} | {any:.2} | {:.2} |", few / first[0], any / first[1]);
    }
    Ok(())
}

/// Keys of plans: some `among`, spread over all that there are.
fn keys(size: usize, among: usize, round: usize) -> Vec<(SelectionKey, PlanKey)> {
    let mut state = round as u64 + 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let i = ((state >> 33) as usize % among) * (size / among);
        (selection(i), identity(i).key())
    };
    (0..LOOKUPS).map(next).collect()
}

fn look(store: &Store, keys: &[(SelectionKey, PlanKey)]) -> Result<()> {
    for (selection, key) in keys {
        let found = store.find_selection(selection).hit().context("a selection")?;
        let plan = found.plans.first().context("a plan")?;
        ensure!(plan.key == *key);
        ensure!(store.get_plan(plan).hit().is_some());
    }
    Ok(())
}

/// A new process for one thing, which prints its row.
fn child(what: &str, folder: &Path) -> Result<()> {
    let status = Command::new(std::env::current_exe()?).args(["upkeep", what]).arg(folder).status()?;
    ensure!(status.success(), "{what} in {}", folder.display());
    Ok(())
}

/// The child.
pub(crate) fn upkeep(what: &str, folder: &Path) -> Result<()> {
    let mode = if what == "lookups" { Mode::ReadOnly } else { Mode::ReadWrite };
    let before = memory()?;
    let store = Store::open(folder.join("store"), mode)?;
    let stats = store.stat()?;
    let stat = stats.first().context("a layer")?;
    let (all, bytes) = (stat.kinds.iter().map(|kind| kind.loose + kind.packed).sum::<u64>(), stat.usage.bytes);
    let start = Instant::now();
    let entries = match what {
        "compact" => {
            let mut options = CompactOptions::default();
            options.all = true;
            store.compact(&options, &())?;
            all
        }
        "verify" => {
            let report = store.verify();
            ensure!(report.is_clean(), "{:?}", report.problems.first());
            report.plans + report.plan_records + report.selection_records
        }
        // The plans were just written, and nobody has used them since: all of the work, and little that goes.
        "gc" => {
            let mut options = GcOptions::default();
            options.grace = Duration::ZERO;
            options.now += Duration::from_secs(7200);
            options.max_bytes = Some(bytes - bytes / 100);
            let report = store.gc(&options, &())?;
            ensure!(report.evicted > 0, "nothing went: {report:?}");
            all
        }
        "lookups" => {
            let size: usize = folder.file_name().and_then(|name| name.to_str()?.rsplit('-').next()?.parse().ok()).context("a size")?;
            for round in 0..5 {
                look(&store, &keys(size, size, round))?;
            }
            5 * LOOKUPS as u64
        }
        _ => anyhow::bail!("unknown: {what}"),
    };
    let seconds = start.elapsed().as_secs_f64();
    let rate = if what == "lookups" { "-".to_owned() } else { format!("{:.0} MB", bytes as f64 / 1e6 / seconds) };
    let after = memory()?;
    let grown = |memory: u64| memory.saturating_sub(before.now) as f64 / 1024.0;
    println!(
        "| {what} | {entries} | {seconds:.2} s | {:.0} | {rate} | {:.1} MB | {:.1} MB |",
        entries as f64 / seconds,
        grown(after.now),
        grown(after.most)
    );
    Ok(())
}
