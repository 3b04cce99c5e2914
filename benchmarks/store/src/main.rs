//! Fetching a compiled kernel by key, beside the ways of others, in one run: see `docs/benchmarks.md`.
//!
//! `store-benchmark prepare FOLDER MATERIAL` makes the populations, `store-benchmark run FOLDER` measures them. MATERIAL is a file of
//! code objects that values are made of. `store-benchmark rates FOLDER MATERIAL` publishes, `store-benchmark plans FOLDER` finds plans and
//! does upkeep.

mod by_hand;
mod files;
mod hipplan;
mod lmdb;
mod measure;
mod plans;
mod population;
mod rates;
mod redb_file;
mod sqlite;
mod sync;

use anyhow::{Context, Result, bail};
use population::{Population, Wanted};
use std::path::{Path, PathBuf};

/// One way to keep values by key.
pub(crate) struct Backend {
    /// Name in the table.
    pub(crate) name: &'static str,
    /// Puts all values of a population into an empty folder.
    pub(crate) fill: fn(&Path, &Population) -> Result<()>,
    /// Opens what is in the folder, for reading.
    pub(crate) open: fn(&Path) -> Result<Box<dyn Reader>>,
}

/// An open database.
pub(crate) trait Reader {
    /// Finds a value, checks it, and says how long it is. The key is derived from the name in here.
    fn get(&mut self, wanted: &Wanted) -> Result<usize>;
}

pub(crate) const BACKENDS: [Backend; 7] =
    [by_hand::BACKEND, hipplan::BACKEND, hipplan::BUNDLE, sqlite::BACKEND, files::BACKEND, lmdb::BACKEND, redb_file::BACKEND];

/// Numbers of entries.
const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["prepare", folder, material] => prepare(Path::new(folder), Path::new(material), &SIZES),
        ["prepare", folder, material, most] => {
            let most: usize = most.parse()?;
            prepare(Path::new(folder), Path::new(material), &SIZES.into_iter().filter(|size| *size <= most).collect::<Vec<_>>())
        }
        ["run", folder] => measure::run(Path::new(folder), &SIZES),
        ["rates", folder, material] => rates::run(Path::new(folder), &read(Path::new(material))?, 500),
        ["plans", folder] => plans::run(Path::new(folder), &SIZES),
        ["plans", folder, most] => {
            let most: usize = most.parse()?;
            plans::run(Path::new(folder), &SIZES.into_iter().filter(|size| *size <= most).collect::<Vec<_>>())
        }
        ["upkeep", what, folder] => plans::upkeep(what, Path::new(folder)),
        // What a new process does: one get, and the time of opening and getting on its output.
        ["cold", backend, folder, name, digest] => measure::cold(backend, Path::new(folder), &Wanted::parse(name, digest)?),
        _ => bail!("usage: store-benchmark prepare FOLDER MATERIAL [MOST] | run FOLDER | rates FOLDER MATERIAL | plans FOLDER [MOST]"),
    }
}

fn read(material: &Path) -> Result<Vec<u8>> {
    std::fs::read(material).with_context(|| format!("read {}", material.display()))
}

fn prepare(folder: &Path, material: &Path, sizes: &[usize]) -> Result<()> {
    let material = read(material)?;
    std::fs::create_dir_all(folder)?;
    for &size in sizes {
        let population = Population::new(&material, size);
        population::write_wanted(folder, &population)?;
        for backend in &BACKENDS {
            let place = place(folder, backend, size);
            if place.join("filled").exists() {
                continue;
            }
            let _ = std::fs::remove_dir_all(&place);
            std::fs::create_dir_all(&place)?;
            let start = std::time::Instant::now();
            (backend.fill)(&place, &population).with_context(|| format!("fill {}", backend.name))?;
            std::fs::write(place.join("filled"), "")?;
            println!("{:>9} entries  {:<28} filled in {:.1} s", size, backend.name, start.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

/// Where a population of a backend is.
pub(crate) fn place(folder: &Path, backend: &Backend, size: usize) -> PathBuf {
    folder.join(format!("{}-{size}", backend.name.replace(' ', "-")))
}
