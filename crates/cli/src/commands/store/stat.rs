//! `hipplan store stat`

use crate::{Exit, Global, location, output, quantity};
use hipplan::{EntryKind, StoreStat};
use serde_json::{Value, json};
use std::path::Path;

/// Count what is in the store, and when it was used
///
/// Names, sizes and times only. What nothing reaches is told by `hipplan store gc --dry-run`, which reads the records.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store stat --store plans
  hipplan store stat --json

Exit codes:
  0  counted
  2  there is no store, or a part of it cannot be listed")]
pub(crate) struct Stat {}

impl Stat {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let store = location::listed(global)?;
        let stats = store.stat()?;
        if global.json {
            let layers: Vec<Value> = store.paths().zip(&stats).map(|(path, stat)| layer(path, stat)).collect();
            output::json(&json!({ "layers": layers }))?;
            return Ok(Exit::Good);
        }
        for (path, stat) in store.paths().zip(&stats) {
            let mut table = output::table(&["kind", ">loose", ">in packs", ">size", ">used last", ">oldest use"]);
            for (kind, of_kind) in EntryKind::ALL.into_iter().zip(&stat.kinds) {
                let ago = |time: Option<_>| time.map_or_else(|| "-".to_owned(), quantity::ago);
                table.add_row([
                    kind.word(),
                    &of_kind.loose.to_string(),
                    &of_kind.packed.to_string(),
                    &output::bytes(of_kind.bytes),
                    &ago(of_kind.newest),
                    &ago(of_kind.oldest),
                ]);
            }
            output::print_table(&table, |_| None)?;
            output::line(format_args!(
                "{} in {} files, {} packs of {} ({} hidden by newer copies), {} unfinished, {} set aside, {} sets of pins, in {}",
                output::bytes(stat.usage.bytes),
                stat.usage.files,
                stat.packs,
                output::bytes(stat.pack_bytes),
                output::bytes(stat.hidden_bytes),
                stat.leftovers,
                stat.quarantined,
                stat.pins,
                output::path(path),
            ))?;
            if stat.unread_packs > 0 {
                output::line(format_args!("{} packs cannot be opened: `hipplan store verify` tells why", stat.unread_packs))?;
            }
        }
        Ok(Exit::Good)
    }
}

fn layer(path: &Path, stat: &StoreStat) -> Value {
    let kinds: serde_json::Map<String, Value> = EntryKind::ALL
        .into_iter()
        .zip(&stat.kinds)
        .map(|(kind, of_kind)| {
            let value = json!({
                "loose": of_kind.loose,
                "packed": of_kind.packed,
                "bytes": of_kind.bytes,
                "oldest": of_kind.oldest.map(quantity::seconds),
                "newest": of_kind.newest.map(quantity::seconds),
            });
            (kind.word().to_owned(), value)
        })
        .collect();
    json!({
        "path": path.display().to_string(),
        "kinds": kinds,
        "bytes": stat.usage.bytes,
        "files": stat.usage.files,
        "packs": stat.packs,
        "pack_bytes": stat.pack_bytes,
        "hidden_bytes": stat.hidden_bytes,
        "unread_packs": stat.unread_packs,
        "unfinished_writes": stat.leftovers,
        "set_aside": stat.quarantined,
        "pins": stat.pins,
    })
}
