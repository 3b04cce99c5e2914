//! Which providers a command has, and which engine it asks for.

use crate::output;
use anyhow::{Context, bail};
use hipplan::plugin::{PluginSearch, PluginSource};
use hipplan::{Knob, Policy, Providers};

/// Plugins that a command loads.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engines")]
pub(crate) struct PluginOptions {
    /// hipDNN engine plugin: PATH of a library or of a folder of them, host:PATH if it computes in host memory; may be given several times, and adds to $HIPPLAN_PLUGINS
    #[arg(long = "plugin", value_name = "PLUGIN")]
    plugins: Vec<PluginSource>,
    /// Load hipDNN's own plugins too: those in $HIPDNN_PLUGIN_DIR, or else in its default folder
    #[arg(long)]
    hipdnn_plugins: bool,
}

impl PluginOptions {
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
            tracing::warn!("plugin {}: {}", output::path(&failure.path), output::name(&failure.reason));
        }
        let mut providers = Providers::default();
        if plugins.iter().next().is_some() || !plugins.failures().is_empty() {
            providers.add_plugins(&plugins);
        }
        Ok(providers)
    }
}

/// The engine that a command asks for.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engines")]
pub(crate) struct EngineOptions {
    /// Only this engine: its name, or its id as 0x and 16 digits
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Only engines of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Setting of the engine, as `hipplan engines` lists them; may be given several times
    #[arg(long = "knob", value_name = "ID=VALUE")]
    knobs: Vec<String>,
}

impl EngineOptions {
    /// What was asked for. The engine that a graph prefers is not in it.
    pub(crate) fn policy(&self) -> anyhow::Result<Policy> {
        let knob = |text: &String| match text.split_once('=') {
            Some((id, value)) if !id.is_empty() => Ok(Knob { id: id.to_owned(), value: value.to_owned() }),
            _ => bail!("expected ID=VALUE"),
        };
        let knobs = self.knobs.iter().map(|text| knob(text).with_context(|| format!("--knob {}", output::name(text))));
        Ok(Policy {
            engine: self.engine.clone(),
            provider: self.provider.clone(),
            preferred: None,
            knobs: knobs.collect::<Result<_, _>>()?,
        })
    }
}
