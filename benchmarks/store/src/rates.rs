//! How many kernels a second can be published, durably and not.

use crate::plans::{plan, selection};
use crate::population::Population;
use crate::sync;
use anyhow::Result;
use hipplan_store::{Mode, Store};
use std::path::Path;
use std::time::Instant;

/// One way to publish.
type Publish = fn(&Path, &[Vec<u8>]) -> Result<()>;

/// In turn, each with and without waiting for the disk.
pub(crate) fn run(folder: &Path, material: &[u8], count: usize) -> Result<()> {
    let values: Vec<Vec<u8>> = Population::new(material, count).of_size(60_000, count).collect();
    let ways: [(&str, Publish); 4] = [
        ("hipplan: code object, plan, selection, each put alone", alone),
        ("hipplan: the same in a group", group),
        ("file + BLAKE3, renamed", files),
        ("SQLite + bz2, a transaction each", crate::sqlite::publish),
    ];
    println!("\n{count} kernels of 60 KB, kernels a second\n| way | durable | without fsync |\n|---|---:|---:|");
    for (name, publish) in ways {
        let mut rates = Vec::new();
        for durable in [true, false] {
            let place = folder.join("rates");
            let _ = std::fs::remove_dir_all(&place);
            std::fs::create_dir_all(&place)?;
            sync::wait_for_the_disk(durable);
            let start = Instant::now();
            publish(&place, &values)?;
            rates.push(values.len() as f64 / start.elapsed().as_secs_f64());
            sync::wait_for_the_disk(true);
            std::fs::remove_dir_all(&place)?;
        }
        println!("| {name} | {:.0} | {:.0} |", rates[0], rates[1]);
    }
    Ok(())
}

fn alone(folder: &Path, values: &[Vec<u8>]) -> Result<()> {
    let store = Store::open(folder.join("store"), Mode::ReadWrite)?;
    for (i, value) in values.iter().enumerate() {
        let blob = store.put_blob(value)?.id;
        let put = store.put_plan(&plan(i, &[blob])?)?;
        let _ = store.put_selection(&selection(i), &[put.id])?;
    }
    Ok(())
}

fn group(folder: &Path, values: &[Vec<u8>]) -> Result<()> {
    let store = Store::open(folder.join("store"), Mode::ReadWrite)?;
    let group = store.group();
    for (i, value) in values.iter().enumerate() {
        let blob = group.put_blob(value)?.id;
        let put = group.put_plan(&plan(i, &[blob])?)?;
        let _ = group.put_selection(&selection(i), &[put.id])?;
    }
    let _ = group.commit()?;
    Ok(())
}

fn files(folder: &Path, values: &[Vec<u8>]) -> Result<()> {
    for (i, value) in values.iter().enumerate() {
        let (temp, name) = (folder.join("temp"), folder.join(i.to_string()));
        let mut file = std::fs::File::create(&temp)?;
        std::io::Write::write_all(&mut file, &[&blake3::hash(value).as_bytes()[..], value].concat())?;
        file.sync_all()?;
        std::fs::rename(&temp, &name)?;
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}
