//! `hipplan store ls`

use crate::{Exit, Global, location, output, quantity};
use hipplan::{EntryInfo, EntryKind, PlanKey, StoreError};
use serde_json::json;
use std::cell::RefCell;

/// List the entries of the store: blobs, plans, and the records that name plans
///
/// Names, sizes and times only: nothing is read but listings, however many entries there are. `hipplan ls` opens the plans and tells what is in them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store ls --store plans
  hipplan store ls --kind plan --json

Exit codes:
  0  listed
  1  something could not be listed; each is told of
  2  there is no store")]
pub(crate) struct Ls {
    /// Only entries of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    Blob,
    Plan,
    PlanRecord,
    Selection,
}

impl Ls {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let store = location::listed(global)?;
        let kinds = match self.kind {
            Some(Kind::Blob) => vec![EntryKind::Blob],
            Some(Kind::Plan) => vec![EntryKind::Plan],
            Some(Kind::PlanRecord) => vec![EntryKind::PlanRecord],
            Some(Kind::Selection) => vec![EntryKind::Selection],
            None => EntryKind::ALL.to_vec(),
        };
        let problems: RefCell<Vec<StoreError>> = RefCell::default();
        let entries = kinds.into_iter().flat_map(|kind| store.entries(kind)).filter_map(|entry| match entry {
            Ok(entry) => Some(entry),
            Err(error) => {
                problems.borrow_mut().push(error);
                None
            }
        });
        if global.json {
            output::json_list("entries", entries.map(|entry| row(&entry)), || {
                let texts: Vec<String> = problems.borrow().iter().map(ToString::to_string).collect();
                [("problems", texts.into()), ("store", store.root().display().to_string().into())]
            })?;
        } else {
            // One after another: there may be millions.
            for entry in entries {
                output::line(format_args!(
                    "{:<11} {}  {:>10}  {:>10}  {}",
                    entry.kind.word(),
                    PlanKey(entry.name),
                    output::bytes(entry.size),
                    quantity::ago(entry.used),
                    output::path(entry.path.strip_prefix(store.root()).unwrap_or(&entry.path)),
                ))?;
            }
            for problem in problems.borrow().iter() {
                anstream::eprintln!("{}", output::name(&problem.to_string()));
            }
        }
        Ok(if problems.borrow().is_empty() { Exit::Good } else { Exit::Findings })
    }
}

fn row(entry: &EntryInfo) -> serde_json::Value {
    json!({
        "kind": entry.kind.word(),
        "name": PlanKey(entry.name).to_string(),
        "bytes": entry.size,
        "used": quantity::seconds(entry.used),
        "path": entry.path.display().to_string(),
    })
}
