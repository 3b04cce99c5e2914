//! `hipplan store pin`, `unpin` and `pins`

use super::named::{Meant, Named};
use crate::{Exit, Global, location, output};
use anyhow::bail;
use hipplan::Pin;
use serde_json::json;

/// Keep plans, selections, or all plans of a graph from removal
///
/// They stay with all that they lead to, whatever the limits of a gc are, until the set is let go of. A whole key need not be in the store
/// yet; that it is not is said.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store pin --as release-1 5d0c1f22a9b3
  hipplan store pin --as resnet --graph 9f3a

Exit codes:
  0  pinned
  2  not done: there is no store, no plan like that in it, or the name cannot be that of a set")]
pub(crate) struct PinSome {
    /// Name of the set of pins; one that is there is replaced
    #[arg(long = "as", value_name = "NAME")]
    name: String,
    #[command(flatten)]
    named: Named,
}

impl PinSome {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let store = location::existing(global)?;
        let Meant { pins, absent, unmatched } = self.named.resolve(&store)?;
        if let [first, ..] = &unmatched[..] {
            bail!("nothing is pinned: the store has no {first}");
        }
        store.pin(&self.name, &pins)?;
        let texts = |pins: &[Pin]| pins.iter().map(ToString::to_string).collect::<Vec<_>>();
        if global.json {
            output::json(&json!({ "name": self.name, "pins": texts(&pins), "not_there_yet": texts(&absent) }))?;
        } else {
            for pin in texts(&absent) {
                output::line(format_args!("{}not in the store yet:{} {pin}", output::WARN, output::RESET))?;
            }
            output::line(format_args!("{} kept by {}", output::count(pins.len(), "pin"), output::name(&self.name)))?;
        }
        Ok(Exit::Good)
    }
}

/// Let go of what a set of pins keeps
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store unpin release-1

Exit codes:
  0  let go of
  1  there is no such set
  2  not done: there is no store, or it cannot be written")]
pub(crate) struct Unpin {
    /// Name of the set of pins
    name: String,
}

impl Unpin {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let was_there = location::existing(global)?.unpin(&self.name)?;
        if global.json {
            output::json(&json!({ "name": self.name, "removed": was_there }))?;
        } else if !was_there {
            output::line(format_args!("no set of pins is called {}", output::name(&self.name)))?;
        }
        Ok(if was_there { Exit::Good } else { Exit::Findings })
    }
}

/// List the pins
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store pins --store plans

Exit codes:
  0  listed
  2  there is no store, or a set of pins is damaged")]
pub(crate) struct List {}

impl List {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let sets = location::existing_to_read(global)?.pins()?;
        if global.json {
            let rows = sets.iter().map(|set| {
                let pins: Vec<String> = set.targets.iter().map(ToString::to_string).collect();
                json!({ "name": set.name, "pins": pins })
            });
            output::json(&json!({ "sets": rows.collect::<Vec<_>>() }))?;
        } else {
            for set in &sets {
                for pin in &set.targets {
                    output::line(format_args!("{}  {pin}", output::name(&set.name)))?;
                }
            }
        }
        Ok(Exit::Good)
    }
}
