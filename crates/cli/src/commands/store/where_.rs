//! `hipplan store where`

use crate::{Exit, Global, location, output};
use hipplan::{LocationSource, LocationVerdict, NamedLayer, SignaturePolicy, Store, look_at_layer};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Tell where the store is, and why not elsewhere
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The first place that --store or HIPPLAN_STORE says is used, whatever its state; else the first usable one of the others, in this order.
Nothing is created by asking.

Examples:
  hipplan store where
  hipplan store where --layer /opt/plans/all.hpbundle --json

Exit codes:
  0  there is a place, it can be used, and so can the layers
  1  the place cannot be used, there is none, or a layer of --layer or HIPPLAN_LAYERS is not there or cannot be
     used: it is damaged, or is not signed as HIPPLAN_SIGNATURES or its own policy asks")]
pub(crate) struct Where {}

impl Where {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let location = location::locate(global);
        // In the order in which they are looked into.
        let of_options = location::of_options(global).map(|layer| ("--layer", layer));
        let of_environment = location.layers.iter().map(|layer| ("HIPPLAN_LAYERS", layer.clone()));
        let layers: Vec<Named> = of_options.chain(of_environment).map(|(by, layer)| Named::of(by, layer)).collect();
        let good = location.candidate().is_some_and(|c| c.verdict.is_usable()) && layers.iter().all(Named::is_good);
        if global.json {
            let row = |path: Option<&Path>, verdict: &LocationVerdict| json!({ "path": path.map(|p| p.display().to_string()), "verdict": verdict.code(), "text": verdict.to_string() });
            let candidates = location.candidates.iter().enumerate().map(|(i, c)| {
                let mut row = row(c.path.as_deref(), &c.verdict);
                row["source"] = source(c.source).into();
                row["used"] = (location.chosen == Some(i)).into();
                row
            });
            output::json(&json!({
                "store": location.path().map(|p| p.display().to_string()),
                "candidates": candidates.collect::<Vec<_>>(),
                "layers": layers.iter().map(|layer| {
                    let mut row = row(Some(&layer.path), &layer.verdict);
                    row["source"] = layer.by.into();
                    row["signatures"] = layer.signatures.map(SignaturePolicy::word).into();
                    row["error"] = layer.error.clone().into();
                    row
                }).collect::<Vec<_>>(),
            }))?;
        } else {
            let mut table = output::table(&["said by", "store", "verdict"]);
            for (i, candidate) in location.candidates.iter().enumerate() {
                let used = if location.chosen == Some(i) { "used: " } else { "" };
                let path = candidate.path.as_deref().map_or_else(|| "-".to_owned(), output::path);
                table.add_row([source(candidate.source), &path, &output::name(&format!("{used}{}", candidate.verdict))]);
            }
            output::print_table(&table, |row| (location.chosen == Some(row)).then_some(if good { output::GOOD } else { output::WARN }))?;
            for (i, Named { by, path, signatures, verdict, error }) in layers.iter().enumerate() {
                let text = match error {
                    Some(error) => format!("cannot be used: {}", output::name(error)),
                    None if *verdict == LocationVerdict::File => "read as a bundle".to_owned(),
                    None => output::name(&verdict.to_string()),
                };
                let policy = signatures.map_or(String::new(), |policy| format!(", signatures {}", policy.word()));
                output::line(format_args!("layer {}, of {by}: {}: {text}{policy}", i + 1, output::path(path)))?;
            }
            if location.candidate().is_none() {
                output::line("no place for a store: nothing is kept")?;
            }
        }
        Ok(if good { Exit::Good } else { Exit::Findings })
    }
}

/// A layer, and what names it.
struct Named {
    by: &'static str,
    path: PathBuf,
    /// The policy that it is named with.
    signatures: Option<SignaturePolicy>,
    verdict: LocationVerdict,
    /// Why it cannot be used, though it is there.
    error: Option<String>,
}

impl Named {
    fn of(by: &'static str, layer: NamedLayer) -> Self {
        let verdict = look_at_layer(&layer.path);
        // As every command opens it that reads layers.
        let open = || -> anyhow::Result<Store> { Ok(Store::open_layer_options(&layer.path, &layer.options()?)?) };
        let error = if is_layer(&verdict) { open().err().map(|error| output::error(&error)) } else { None };
        Self { by, verdict, error, path: layer.path, signatures: layer.signatures }
    }

    fn is_good(&self) -> bool {
        is_layer(&self.verdict) && self.error.is_none()
    }
}

fn is_layer(verdict: &LocationVerdict) -> bool {
    matches!(verdict, LocationVerdict::Store | LocationVerdict::File)
}

/// What says a place, in the terms of the command.
pub(crate) fn source(source: LocationSource) -> &'static str {
    match source {
        LocationSource::Argument => "--store",
        source => source.name(),
    }
}
