//! Writes first inputs for every fuzz target into a folder: `cargo run -p hipplan-fuzzing --example seeds -- FOLDER`.
//!
//! They are where fuzzing starts when there is no corpus; `corpus/fuzz` holds what a long run made of them, minimised.

use hipplan_fuzzing::{Rng, TARGETS};
use hipplan_serialize::{Limits, json};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("name a folder")?;
    let folder = Path::new(&folder);
    let graphs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/graphs");
    let mut graphs: Vec<_> = std::fs::read_dir(graphs)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    graphs.retain(|f| f.extension().is_some_and(|e| e == "json"));
    graphs.sort();
    let lines = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/miopen/driver-lines.txt"))?;
    for target in &TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder)?;
        // Shells around random bytes, of every kind.
        let mut rng = Rng::new(1);
        for kind in 0..48 {
            let mut input = vec![kind];
            input.extend((0..[1, 9, 17, 40][usize::from(kind / 12) % 4]).map(|_| rng.below(256) as u8));
            std::fs::write(folder.join(format!("random-{kind}")), input)?;
        }
        // Real command lines.
        if target.name.starts_with("driver") {
            for (number, line) in lines.lines().enumerate().filter(|(_, line)| line.contains("Driver")) {
                std::fs::write(folder.join(format!("line-{number}")), [&[0][..], line.as_bytes()].concat())?;
            }
        }
        if target.name == "hipdnn_container" {
            for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/hipdnn-containers"))? {
                let file = file?;
                std::fs::write(folder.join(file.file_name()), [&[0][..], &std::fs::read(file.path())?].concat())?;
            }
        }
        if target.name == "code_object" {
            for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/code-objects"))? {
                let file = file?;
                if file.path().extension().is_some_and(|e| e == "co") {
                    std::fs::write(folder.join(file.file_name()), [&[0][..], &std::fs::read(file.path())?].concat())?;
                }
            }
        }
        // Libraries that the bytes choose, whole and changed.
        if target.name == "elf_split" {
            for seed in 0..16_u8 {
                for kind in 1..4 {
                    let input: Vec<u8> = [kind].into_iter().chain([seed; 8]).chain((0..8).map(|_| rng.below(256) as u8)).collect();
                    std::fs::write(folder.join(format!("library-{kind}-{seed}")), input)?;
                }
            }
        }
        // Real graphs, as they stand.
        for file in &graphs {
            let text = std::fs::read(file)?;
            let graph = json::import(&text, &Limits::DEFAULT)?.graph;
            let bytes = match target.name {
                "graph_buffer" => graph.buffer().to_vec(),
                "graph_artifact" => graph.view().to_artifact().to_vec(),
                "canonical_encoding" => graph.view().canonical()?.encoding,
                "json_graph" => text,
                _ => continue,
            };
            let name = file.file_stem().unwrap_or_default();
            std::fs::write(folder.join(name), [&[0][..], &bytes].concat())?;
        }
    }
    Ok(())
}
