//! Writes the kernel texts of graphs and logs for a target, each distinct text once, and prints how often each is used.
//!
//! `kernel_texts TARGET FOLDER INPUT...`

use hipplan_planner::hip::kernels;
use hipplan_serialize::import::{Imported, graph_of, import_any};
use hipplan_serialize::{GraphBuf, Limits, Target, canon};
use std::collections::BTreeMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(target), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: kernel_texts TARGET FOLDER INPUT...".into());
    };
    let target: Target = target.parse()?;
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    let (mut graphs, mut launches) = (0, 0);
    for input in arguments {
        let bytes = std::fs::read(&input)?;
        let list: Vec<GraphBuf> = match import_any(&bytes, &Limits::DEFAULT) {
            Err(error) => {
                println!("{input}: {error}");
                continue;
            }
            Ok(Imported::Graph(graph)) => vec![graph.graph],
            Ok(Imported::Log(log)) => log.problems.iter().filter_map(|p| Some(graph_of(&log, p, &Limits::DEFAULT).ok()?.graph)).collect(),
        };
        for graph in list {
            let canonical = graph.view().canonical()?;
            let owned = canon::decode(&canonical.encoding, &canonical.limits)?;
            match kernels(&owned.view(), &target) {
                Err(refusal) => println!("{input}: {refusal}"),
                Ok((program, sources)) => {
                    (graphs, launches) = (graphs + 1, launches + program.launches.len());
                    for source in sources {
                        std::fs::write(format!("{folder}/{}.hip", source.name), &source.text)?;
                        *uses.entry(source.name).or_default() += 1;
                    }
                }
            }
        }
    }
    for (name, count) in &uses {
        println!("{count:5} {name}");
    }
    println!("{graphs} graphs, {launches} launches, {} kernels", uses.len());
    Ok(())
}
