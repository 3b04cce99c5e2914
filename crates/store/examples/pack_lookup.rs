//! Time of a lookup in packs of more and more entries: `cargo run --release -p hipplan-store --example pack_lookup -- [ROWS...]`.
//!
//! Each pack is written by the store's own writer, of entries of 512 bytes, into the folder for temporary files (`TMPDIR`). Names are
//! looked up in random order, the packs by turns in one run, so that whatever else the machine does hits all of them. What is printed
//! is the median of the rounds, and its ratio to the first pack: names that are there (find), that are not (miss), finding with
//! reading and checking the bytes (get), and finding the same 64 names again and again (few). The first three touch memory all over a
//! pack, which large packs pay for with misses of the processor's caches; the last shows what the number of rows itself costs.

use hipplan_store::EntryKind;
use hipplan_store::testing::{OpenPack, write_pack};
use std::time::Instant;

const SIZE: u64 = 512;
/// Lookups in a round; the rounds of one pack use other names each.
const LOOKUPS: usize = 20_000;
const ROUNDS: usize = 15;

fn value(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; SIZE as usize];
    blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

struct Filled {
    pack: OpenPack,
    names: Vec<[u8; 32]>,
    nanoseconds: [Vec<f64>; 4],
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut sizes = std::env::args().skip(1).map(|size| size.parse()).collect::<Result<Vec<u64>, _>>()?;
    if sizes.is_empty() {
        sizes = vec![1_000, 100_000, 1_000_000];
    }
    let folder = tempfile::tempdir()?;
    let mut packs = Vec::new();
    for &rows in &sizes {
        let names: Vec<[u8; 32]> = (0..rows).map(|number| *blake3::hash(&value(number)).as_bytes()).collect();
        let entries: Vec<_> = names.iter().map(|name| (EntryKind::Blob, *name, SIZE)).collect();
        let path = folder.path().join(format!("{rows}.pack"));
        let started = Instant::now();
        write_pack(&path, &entries, &[], |number| value(number as u64))?;
        println!("{rows} rows: written in {:.2} s, {} bytes", started.elapsed().as_secs_f64(), std::fs::metadata(&path)?.len());
        let pack = OpenPack::open(&path)?.ok_or("the pack is gone")?;
        packs.push(Filled { pack, names, nanoseconds: Default::default() });
    }
    for round in 0..ROUNDS as u64 {
        for filled in &mut packs {
            measure(filled, round)?;
        }
    }
    println!("{:>10} {}", "rows", ["find", "miss", "get", "few"].map(|name| format!("{name:>8} ns    ratio")).join(" "));
    let medians: Vec<[f64; 4]> = packs.iter_mut().map(|filled| filled.nanoseconds.each_mut().map(|times| median(times))).collect();
    for (rows, times) in sizes.iter().zip(&medians) {
        let columns: Vec<String> =
            times.iter().zip(&medians[0]).map(|(time, first)| format!("{time:>11.0} {:>8.2}", time / first)).collect();
        println!("{rows:>10} {}", columns.join(" "));
    }
    Ok(())
}

fn measure(filled: &mut Filled, round: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut picks = vec![0; LOOKUPS * 8];
    blake3::Hasher::new().update(&round.to_le_bytes()).finalize_xof().fill(&mut picks);
    let picks = picks.as_chunks().0.iter().map(|pick| u64::from_le_bytes(*pick) % filled.names.len() as u64);
    let here: Vec<[u8; 32]> = picks.map(|pick| filled.names[pick as usize]).collect();
    let absent: Vec<[u8; 32]> = here.iter().map(|name| *blake3::hash(name).as_bytes()).collect();
    let time = |body: &mut dyn FnMut() -> Result<(), Box<dyn std::error::Error>>| {
        let started = Instant::now();
        body()?;
        Ok::<_, Box<dyn std::error::Error>>(started.elapsed().as_nanos() as f64 / LOOKUPS as f64)
    };
    let pack = &filled.pack;
    let find = time(&mut || {
        for name in &here {
            pack.find(EntryKind::Blob, name)?.ok_or("a name is missing")?;
        }
        Ok(())
    })?;
    let miss = time(&mut || {
        for name in &absent {
            if pack.find(EntryKind::Blob, name)?.is_some() {
                return Err("a name is there that was not put".into());
            }
        }
        Ok(())
    })?;
    let get = time(&mut || {
        for name in &here {
            let row = pack.find(EntryKind::Blob, name)?.ok_or("a name is missing")?;
            if pack.get(&row)?.len() as u64 != SIZE {
                return Err("an entry of another size".into());
            }
        }
        Ok(())
    })?;
    let few = time(&mut || {
        for name in here[..64].iter().cycle().take(LOOKUPS) {
            pack.find(EntryKind::Blob, name)?.ok_or("a name is missing")?;
        }
        Ok(())
    })?;
    for (times, new) in filled.nanoseconds.iter_mut().zip([find, miss, get, few]) {
        times.push(new);
    }
    Ok(())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}
