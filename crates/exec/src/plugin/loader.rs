//! The executing half of hosted plugins.

use super::context::PluginContext;
use super::error::PluginError;
use super::hosted::Plugin;
use super::plugins::Plugins;
use super::program::{self, ArchivedPluginProgram, PLUGIN_PAYLOAD_KIND, PLUGIN_PAYLOAD_VERSION};
use super::version;
use crate::loader::{Executable, Loader};
use crate::{CodeObjects, Device, ExecError};
use hipplan_serialize::engine_id_text;
use hipplan_serialize::plan::{ArchivedPlanMetaV1, PayloadView, PlanView};
use std::ops::RangeInclusive;

/// Restores plans of hosted plugins: the plugin is found by the engine's id, and who it is and how old is compared with what the plan says
/// before it is given a byte (R16 §7.4). What of the bytes it understands is then for the plugin to say (R16 §5.5).
#[derive(Clone, Debug, Default)]
pub struct PluginLoader(Plugins);

impl PluginLoader {
    /// Restores with these plugins.
    pub fn new(plugins: &Plugins) -> Self {
        Self(plugins.clone())
    }

    /// The plugin that may have a plan's bytes, and what the payload says.
    fn choose<'p>(&self, plan: &PlanView<'_>, payload: &PayloadView<'p>) -> Result<(&Plugin, &'p ArchivedPluginProgram), ExecError> {
        let program = program::read(payload.body())?;
        agree(program, plan.meta())?;
        let engine = plan.meta().engine.as_str();
        let plugin = self.0.find_engine(program.engine_id.to_native()).ok_or_else(|| PluginError::NotLoaded {
            plugin: program.plugin.as_str().to_owned(),
            version: program.plugin_version.as_str().to_owned(),
            engine: engine.to_owned(),
            loaded: self.others(program.plugin.as_str()),
        })?;
        permit(plugin, program, plan)?;
        Ok((plugin, program))
    }

    /// What is loaded in place of a plugin, or why that one is not, for a message.
    fn others(&self, plugin: &str) -> String {
        let why: Vec<_> = self.0.failures().iter().filter(|f| f.plugin.as_deref() == Some(plugin)).map(|f| f.reason.as_str()).collect();
        let loaded: Vec<_> = self.0.iter().map(|p| format!("{} {}", p.name(), p.version())).collect();
        match (why.as_slice(), loaded.as_slice()) {
            ([], []) => " (there is none)".to_owned(),
            ([], loaded) => format!(" (there are {})", loaded.join(", ")),
            (why, _) => format!(" ({plugin} is here and is not used: {})", why.join("; ")),
        }
    }
}

/// What the payload says twice is one thing.
fn agree(program: &ArchivedPluginProgram, meta: &ArchivedPlanMetaV1) -> Result<(), ExecError> {
    let texts = [
        ("plugin", program.plugin.as_str(), meta.provider.as_str()),
        ("plugin version", program.plugin_version.as_str(), meta.engine_revision.as_str()),
    ];
    let differs = texts.into_iter().find(|(_, found, expected)| found != expected);
    let (field, found, expected) = match differs {
        Some((field, found, expected)) => (field, found.to_owned(), expected.to_owned()),
        None if program.engine_id != meta.engine_id => {
            ("engine id", engine_id_text(program.engine_id.to_native()), engine_id_text(meta.engine_id.to_native()))
        }
        None => return Ok(()),
    };
    Err(program::body(format!("{field} is {found}, the metadata says {expected}")).into())
}

/// Whether a plugin may have the bytes: it is the plan's, not older, and speaks what the graph needs.
fn permit(plugin: &Plugin, program: &ArchivedPluginProgram, plan: &PlanView<'_>) -> Result<(), PluginError> {
    let meta = plan.meta();
    let (made_by, made) = (program.plugin.as_str(), program.plugin_version.as_str());
    let (name, version, found_version) = (|| made_by.to_owned(), || made.to_owned(), || plugin.version().to_owned());
    if plugin.name() != made_by {
        let (engine, found) = (meta.engine.as_str().to_owned(), plugin.name().to_owned());
        return Err(PluginError::OtherPlugin { plugin: name(), version: version(), engine, found, found_version: found_version() });
    }
    version::check(plugin.version(), made).map_err(|why| PluginError::Version {
        plugin: name(),
        version: version(),
        found_version: found_version(),
        why,
    })?;
    let (found, floor) = (plugin.api_version(), meta.api_floor());
    if found < floor {
        return Err(PluginError::ApiFloor { plugin: name(), version: version(), found_version: found_version(), floor, found });
    }
    if plan.is_override_shape_enabled() && !plugin.executes_overrides() {
        return Err(PluginError::NoOverrides { plugin: name(), version: version(), found_version: found_version() });
    }
    plugin.hooks().map(|_| ())
}

impl Loader for PluginLoader {
    fn kind(&self) -> &'static str {
        PLUGIN_PAYLOAD_KIND
    }

    fn versions(&self) -> RangeInclusive<u32> {
        PLUGIN_PAYLOAD_VERSION..=PLUGIN_PAYLOAD_VERSION
    }

    fn accepts(&self, plan: &PlanView<'_>, payload: &PayloadView<'_>) -> Result<(), ExecError> {
        self.choose(plan, payload).map(|_| ())
    }

    fn load(
        &self,
        plan: &PlanView<'_>,
        payload: &PayloadView<'_>,
        device: &Device,
        _: &dyn CodeObjects,
    ) -> Result<Box<dyn Executable>, ExecError> {
        let (plugin, program) = self.choose(plan, payload)?;
        let context = PluginContext::restore(plugin, device, program.engine_id.to_native(), &program.config, &program.bytes)?;
        let (found, expected) = (context.workspace_size(), plan.meta().workspace_size.to_native());
        if found > expected {
            return Err(PluginError::Workspace { plugin: plugin.name().to_owned(), found, expected }.into());
        }
        Ok(context.into_executable(plan.meta().bindings.len()))
    }
}
