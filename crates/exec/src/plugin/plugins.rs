//! The plugins of a process, and what was wrong with others.

use super::hosted::{Plugin, Problem};
use super::source::PluginSource;
use hipplan_serialize::engine_id_text;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A plugin, or an engine of one, that is not used. Nothing is left out silently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFailure {
    /// The file or folder.
    pub path: PathBuf,
    /// The plugin's name, where it has said that.
    pub plugin: Option<String>,
    /// The engine, where the plugin is used without it.
    pub engine: Option<i64>,
    /// Why it, or which engine and why, is not used.
    pub reason: String,
}

impl std::fmt::Display for PluginFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match &self.plugin {
            Some(plugin) => write!(f, "plugin {plugin} ({path}): {}", self.reason),
            None => write!(f, "{path}: {}", self.reason),
        }
    }
}

/// Plugins in the order of their search, and what was wrong with others. Copies are the same plugins.
#[derive(Clone, Debug, Default)]
pub struct Plugins(Arc<Found>);

#[derive(Debug, Default)]
struct Found {
    plugins: Vec<Plugin>,
    failures: Vec<PluginFailure>,
}

impl Plugins {
    /// The plugins, in the order of their search. No two have an engine of one id.
    pub fn iter(&self) -> std::slice::Iter<'_, Plugin> {
        self.0.plugins.iter()
    }

    /// What is not used, and why.
    pub fn failures(&self) -> &[PluginFailure] {
        &self.0.failures
    }

    /// There is no plugin.
    pub fn is_empty(&self) -> bool {
        self.0.plugins.is_empty()
    }

    /// The plugin that has the engine of this id.
    pub fn find_engine(&self, id: i64) -> Option<&Plugin> {
        self.iter().find(|plugin| plugin.engine(id).is_some())
    }
}

impl<'p> IntoIterator for &'p Plugins {
    type Item = &'p Plugin;
    type IntoIter = std::slice::Iter<'p, Plugin>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Plugins while they are being loaded.
#[derive(Default)]
pub(super) struct Loading {
    found: Found,
    /// Files that have been loaded or refused, as the file system knows them, and what was said of each.
    files: Vec<(PathBuf, PluginSource)>,
}

impl Loading {
    pub(super) fn fail(&mut self, path: &Path, plugin: Option<String>, reason: impl Into<String>) {
        self.found.failures.push(PluginFailure { path: path.to_owned(), plugin, engine: None, reason: reason.into() });
    }

    /// Loads one file with what `source` says of it.
    pub(super) fn load(&mut self, path: &Path, source: &PluginSource) {
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) => return self.fail(path, None, format!("it cannot be opened: {error}")),
        };
        if let Some((_, before)) = self.files.iter().find(|(file, _)| *file == real) {
            // The same file by another path, or twice.
            if (before.memory, before.hooks) != (source.memory, source.hooks) {
                let reason = format!("it has been found already, as {before}; the first counts");
                self.fail(path, None, reason);
            }
            return;
        }
        self.files.push((real, source.clone()));
        let claimed = |id: i64| {
            let first = self.found.plugins.iter().find(|first| first.engine(id).is_some())?;
            Some(format!("plugin {} ({}), found before, has it too", first.name(), first.path().display()))
        };
        let plugin = match Plugin::load(path, source.memory, source.hooks, claimed) {
            Ok(plugin) => plugin,
            Err(Problem { plugin, reason }) => return self.fail(path, plugin, reason),
        };
        for (id, why) in plugin.left_out() {
            let (plugin, reason) = (Some(plugin.name().to_owned()), format!("engine {} is not used: {why}", engine_id_text(*id)));
            self.found.failures.push(PluginFailure { path: path.to_owned(), plugin, engine: Some(*id), reason });
        }
        self.found.plugins.push(plugin);
    }

    pub(super) fn finish(self) -> Plugins {
        Plugins(Arc::new(self.found))
    }
}
