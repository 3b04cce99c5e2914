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
        self.found.failures.push(PluginFailure { path: path.to_owned(), plugin, reason: reason.into() });
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
        let (plugin, problems) = match Plugin::load(path, source.memory, source.hooks) {
            Ok(loaded) => loaded,
            Err(Problem { plugin, reason }) => return self.fail(path, plugin, reason),
        };
        for Problem { plugin, reason } in problems {
            self.fail(path, plugin, reason);
        }
        let mut claimed = Vec::new();
        for engine in plugin.engines() {
            if let Some(first) = self.found.plugins.iter().find(|first| first.engine(engine.id).is_some()) {
                let (name, id) = (first.name(), engine_id_text(engine.id));
                let reason = format!("engine {id} is not used: plugin {name} ({}), found before, has it too", first.path().display());
                claimed.push((engine.id, reason));
            }
        }
        let ids: Vec<i64> = claimed.iter().map(|&(id, _)| id).collect();
        for (_, reason) in claimed {
            self.fail(path, Some(plugin.name().to_owned()), reason);
        }
        self.found.plugins.push(plugin.without(&ids));
    }

    pub(super) fn finish(self) -> Plugins {
        Plugins(Arc::new(self.found))
    }
}
