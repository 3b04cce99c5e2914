//! The executing half of hosted plugins.

use super::context::{PluginContext, Subject};
use super::error::PluginError;
use super::hosted::Plugin;
use super::plugins::{PluginFailure, Plugins};
use super::program::{self, ArchivedPluginProgram, HookForm, PLUGIN_PAYLOAD_KIND, PLUGIN_PAYLOAD_VERSION};
use super::source::PluginMemory;
use super::version;
use crate::loader::{Executable, Loader};
use crate::{CodeObjects, Device, ExecError};
use hipplan_serialize::plan::{ArchivedPlanMetaV1, PayloadView, PlanView};
use hipplan_serialize::{ApiVersion, Target, aligned, engine_id_text};
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
            loaded: self.others(program.plugin.as_str(), program.engine_id.to_native()),
        })?;
        permit(plugin, program, plan, payload)?;
        Ok((plugin, program))
    }

    /// What is loaded in place of a plugin, or why that one or its engine is not, for a message.
    fn others(&self, plugin: &str, engine: i64) -> String {
        let failures = self.0.failures().iter();
        let is_why = |f: &&PluginFailure| f.plugin.as_deref() == Some(plugin) && f.engine.is_none_or(|id| id == engine);
        let why: Vec<_> = failures.clone().filter(is_why).map(|f| f.reason.as_str()).collect();
        if !why.is_empty() {
            return format!(" ({plugin} is here and is not used: {})", why.join("; "));
        }
        let loaded: Vec<_> = self.0.iter().map(|p| format!("{} {}", p.name(), p.version())).collect();
        // It may be one of those that have not said their name.
        let unnamed: Vec<_> = failures.filter(|f| f.plugin.is_none()).map(ToString::to_string).collect();
        let loaded = if loaded.is_empty() { "there is none".to_owned() } else { format!("there are {}", loaded.join(", ")) };
        if unnamed.is_empty() { format!(" ({loaded})") } else { format!(" ({loaded}; not used: {})", unnamed.join("; ")) }
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

/// The API floor of the plan's graph. What the metadata states may be wrong; which scalars are runtime scalars is said by the payload, and a
/// plugin that does not know of them would take a host pointer for a buffer of its device.
fn floor(plan: &PlanView<'_>, payload: &PayloadView<'_>) -> ApiVersion {
    let runtime = (payload.runtime_uids().len() > 0).then_some(ApiVersion::RUNTIME_PASS_BY_VALUE);
    let shapes = plan.is_override_shape_enabled().then_some(ApiVersion::OVERRIDE_SHAPES);
    [runtime, shapes].into_iter().flatten().fold(plan.meta().api_floor(), ApiVersion::max)
}

/// Whether a plugin may have the bytes: it is the plan's, not older, computes where the plan does, speaks what the graph needs, and reads what was
/// stored as it was stored.
fn permit(plugin: &Plugin, program: &ArchivedPluginProgram, plan: &PlanView<'_>, payload: &PayloadView<'_>) -> Result<(), PluginError> {
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
    let target = meta.target.as_str();
    let is_of_host = target.parse::<Target>().is_ok_and(|target| target == Target::Cpu);
    if is_of_host != (plugin.memory() == PluginMemory::Host) {
        let (target, memory) = (target.to_owned(), plugin.memory());
        return Err(PluginError::Memory { plugin: name(), version: version(), target, memory });
    }
    let (found, floor) = (plugin.api_version(), floor(plan, payload));
    if found < floor {
        return Err(PluginError::ApiFloor { plugin: name(), version: version(), found_version: found_version(), floor, found });
    }
    if plan.is_override_shape_enabled() && !plugin.executes_overrides() {
        return Err(PluginError::NoOverrides { plugin: name(), version: version(), found_version: found_version() });
    }
    let (found, stored) = (plugin.hooks()?.form(), HookForm::from(&program.hooks));
    if found != stored {
        return Err(PluginError::Hooks { plugin: name(), version: version(), stored, found });
    }
    Ok(())
}

impl Loader for PluginLoader {
    fn kind(&self) -> &'static str {
        PLUGIN_PAYLOAD_KIND
    }

    fn versions(&self) -> RangeInclusive<u32> {
        PLUGIN_PAYLOAD_VERSION..=PLUGIN_PAYLOAD_VERSION
    }

    fn judges_payload(&self) -> bool {
        true
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
        let (config, bytes) = (aligned::aligned_copy(&program.config), aligned::aligned_copy(&program.bytes));
        let subject = Subject { device, engine: program.engine_id.to_native(), graph: plan.meta().graph_key(), config };
        let context = PluginContext::restore(plugin, subject, &bytes)?;
        let (found, expected) = (context.workspace_size(), plan.meta().workspace_size.to_native());
        if found > expected {
            return Err(PluginError::Workspace { plugin: plugin.name().to_owned(), found, expected }.into());
        }
        Ok(context.into_executable(plan.meta().bindings.len()))
    }
}
