//! Which providers a command has, and which engine it asks for.

use crate::output;
use anyhow::{Context, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use hipplan::plugin::{PluginSearch, PluginSource};
use hipplan::{Knob, Policy, Providers, engine_id_text};

/// Plugins that a command loads.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engines")]
pub(crate) struct PluginOptions {
    /// hipDNN engine plugin: PATH of a library or of a folder of them, host:PATH if it computes in host memory; may be given several times, and adds to $HIPPLAN_PLUGINS
    #[arg(long = "plugin", value_name = "PLUGIN", value_parser = OsStringValueParser::new().try_map(|text| PluginSource::parse(&text)))]
    plugins: Vec<PluginSource>,
    /// Load hipDNN's own plugins too: those in $HIPDNN_PLUGIN_DIR, or else in its default folder
    #[arg(long)]
    hipdnn_plugins: bool,
}

impl PluginOptions {
    /// The options as they were given, each after a blank, for advice.
    pub(crate) fn arguments(&self) -> String {
        let plugins = self.plugins.iter().map(|plugin| format!(" --plugin {}", output::name(&plugin.to_string())));
        plugins.chain(self.hipdnn_plugins.then(|| " --hipdnn-plugins".to_owned())).collect()
    }

    /// The built-in providers, and behind them the plugins. Those that cannot be loaded are warned of.
    pub(crate) fn providers(&self) -> anyhow::Result<Providers> {
        let mut search = PluginSearch::new();
        for source in &self.plugins {
            search.add(source.clone());
        }
        search.add_environment()?;
        if self.hipdnn_plugins {
            search.add_hipdnn_folders();
        }
        let plugins = search.load();
        for failure in plugins.failures() {
            tracing::warn!("{}", output::name(&failure.to_string()));
        }
        let mut providers = Providers::default();
        providers.add_plugins(&plugins);
        Ok(providers)
    }
}

/// The engine that a command asks for.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engines")]
pub(crate) struct EngineOptions {
    /// Only this engine: its name, or its id in hexadecimal (0x...) or decimal
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    engine: Option<String>,
    /// Only engines of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Setting of the engine, as `hipplan engines` lists them; may be given several times
    #[arg(long = "knob", value_name = "ID=VALUE")]
    knobs: Vec<String>,
}

impl EngineOptions {
    /// The options as they were given, each after a blank, for advice.
    pub(crate) fn arguments(&self) -> String {
        let engine = self.engine.iter().map(|name| format!(" --engine {}", output::name(name)));
        let provider = self.provider.iter().map(|name| format!(" --provider {}", output::name(name)));
        let knobs = self.knobs.iter().map(|knob| format!(" --knob {}", output::name(knob)));
        engine.chain(provider).chain(knobs).collect()
    }

    /// What was asked for. The engine that a graph prefers is not in it.
    pub(crate) fn policy(&self) -> anyhow::Result<Policy> {
        let knob = |text: &String| match text.split_once('=') {
            Some((id, value)) if !id.is_empty() => Ok(Knob { id: id.to_owned(), value: value.to_owned() }),
            _ => bail!("expected ID=VALUE"),
        };
        let knobs = self.knobs.iter().map(|text| knob(text).with_context(|| format!("--knob {}", output::name(text))));
        Ok(Policy {
            engine: self.engine.as_deref().map(engine_name),
            provider: self.provider.clone(),
            preferred: None,
            knobs: knobs.collect::<Result<_, _>>()?,
        })
    }
}

/// An engine as it was typed: an id, in hexadecimal or decimal, or a name.
fn engine_name(text: &str) -> String {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let id = match hexadecimal {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        _ => text.parse::<i64>().ok(),
    };
    id.map_or_else(|| text.to_owned(), engine_id_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_told_apart() {
        assert_eq!(engine_name("MINE"), "MINE");
        assert_eq!(engine_name("0x15b46865c717a122"), "0x15B46865C717A122");
        assert_eq!(engine_name("1563989756945604898"), "0x15B46865C717A122");
        assert_eq!(engine_name("-1"), "0xFFFFFFFFFFFFFFFF");
        assert_eq!(engine_name("0xZZ"), "0xZZ");
        assert_eq!(engine_name("0x"), "0x");
    }
}
