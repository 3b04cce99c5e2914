//! Measuring: rounds over all backends in a new random order each, medians.

use crate::population::{VALUES, Wanted, wanted};
use crate::{BACKENDS, Backend, place};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// New processes a backend, size and number of entries; every fifth after the files were dropped from memory.
const COLD_ROUNDS: usize = 75;
/// Gets in one process.
const WARM_ROUNDS: usize = 9;

/// Prints all tables.
pub(crate) fn run(folder: &Path, sizes: &[usize]) -> Result<()> {
    let sizes: Vec<usize> = sizes.iter().copied().filter(|&size| place(folder, &BACKENDS[0], size).join("filled").exists()).collect();
    for (label, bytes, _) in VALUES {
        for &size in &sizes {
            let values = wanted(folder, size, bytes)?;
            let mut rows: Vec<[Vec<f64>; 3]> = BACKENDS.iter().map(|_| Default::default()).collect();
            for round in 0..COLD_ROUNDS {
                for at in shuffled(BACKENDS.len(), round) {
                    let backend = &BACKENDS[at];
                    let place = place(folder, backend, size);
                    let value = &values[(round * 7) % values.len()];
                    let is_dropped = round % 5 == 4;
                    if is_dropped {
                        drop_from_memory(&place)?;
                    } else {
                        // In memory for sure.
                        cold_in_child(backend, &place, value)?;
                    }
                    rows[at][usize::from(is_dropped)].push(cold_in_child(backend, &place, value)?);
                }
            }
            for round in 0..WARM_ROUNDS {
                for at in shuffled(BACKENDS.len(), round) {
                    let backend = &BACKENDS[at];
                    rows[at][2].push(warm(backend, &place(folder, backend, size), &values)?);
                }
            }
            print_table(label, size, &rows);
        }
    }
    Ok(())
}

fn print_table(label: &str, size: usize, rows: &[[Vec<f64>; 3]]) {
    println!("\n{label} among {size}: us (median), and against the mapped pack by hand");
    println!("| way | new process | | after the file left memory | | same process | |\n|---|---:|---:|---:|---:|---:|---:|");
    let floor: [f64; 3] = std::array::from_fn(|i| median(&rows[0][i]));
    for (backend, times) in BACKENDS.iter().zip(rows) {
        let cells: Vec<String> = (0..3)
            .map(|i| {
                let time = median(&times[i]);
                format!("{time:.1} | {:.2}", time / floor[i])
            })
            .collect();
        println!("| {} | {} |", backend.name, cells.join(" | "));
    }
}

/// Microseconds of one get of each value in turn, in a process that has got all of them before.
fn warm(backend: &Backend, place: &Path, values: &[Wanted]) -> Result<f64> {
    let mut reader = (backend.open)(place)?;
    for value in values {
        ensure!(reader.get(value)? as u64 == value.digest.size);
    }
    let mut times = Vec::new();
    for value in values.iter().cycle().take(64) {
        let start = Instant::now();
        ensure!(reader.get(value)? as u64 == value.digest.size);
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&times))
}

/// A new process that opens and gets; microseconds inside it.
fn cold_in_child(backend: &Backend, place: &Path, value: &Wanted) -> Result<f64> {
    let child =
        Command::new(std::env::current_exe()?).args(["cold", backend.name]).arg(place).args([&value.name, &value.digest()]).output()?;
    ensure!(child.status.success(), "{}: {}", backend.name, String::from_utf8_lossy(&child.stderr));
    Ok(String::from_utf8(child.stdout)?.trim().parse()?)
}

/// The child.
pub(crate) fn cold(backend: &str, place: &Path, value: &Wanted) -> Result<()> {
    let backend = BACKENDS.iter().find(|known| known.name == backend).context("a backend")?;
    let start = Instant::now();
    let mut reader = (backend.open)(place)?;
    reader.get(value)?;
    println!("{}", start.elapsed().as_secs_f64() * 1e6);
    Ok(())
}

/// Has the system forget what it holds of the large files below a folder. It does so of clean pages that nobody maps.
fn drop_from_memory(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            // Of a folder a value: 256 of them hold a million files.
            if entry.file_name().len() > 2 || folder.read_dir()?.count() < 200 {
                drop_from_memory(&entry.path())?;
            }
        } else if entry.metadata()?.len() > 40_000 {
            let file = File::open(entry.path())?;
            // SAFETY: advice about an open file.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        }
    }
    Ok(())
}

pub(crate) fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Memory of this process that is nobody else's, in KiB.
pub(crate) struct Memory {
    /// Not counting what is mapped from files.
    pub(crate) now: u64,
    /// The most that was resident, mapped files included.
    pub(crate) most: u64,
}

/// As `/proc/self/status` has it.
pub(crate) fn memory() -> Result<Memory> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).context("a line")?;
        Ok::<u64, anyhow::Error>(line.trim_start_matches(':').trim().trim_end_matches(" kB").parse()?)
    };
    Ok(Memory { now: field("RssAnon")?, most: field("VmHWM")? })
}

/// The numbers below `n` in an order of this round's own.
fn shuffled(n: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    let mut state = round as u64 + 1;
    for i in (1..n).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(i, (state >> 33) as usize % (i + 1));
    }
    order
}
