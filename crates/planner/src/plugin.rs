//! The compiling half of a hipDNN engine plugin (C4).

use crate::compile::CompileError;
use crate::provider::{Compiled, Compiler, InProcess, Offer, Persistence, ProviderIdentity, Refusal, Site};
use hipplan_exec::plugin::{PLUGIN_PAYLOAD_KIND, PLUGIN_PAYLOAD_VERSION, Plugin, PluginContext};
use hipplan_exec::{Device, MemorySpace};
use hipplan_serialize::hipdnn::engine::{EngineConfig, KnobInfo};
use hipplan_serialize::{Knob, VerifiedGraph, engine_id_of_text};

/// A hipDNN engine plugin as a provider. The plugin interface knows no target, so it compiles for a device that is present, and what it
/// makes is believed to run on that device's target.
///
/// The plugin is shown the canonical graph as hipDNN writes it, with ordinals for uids. It shares this process: a plugin that crashes,
/// or writes where it should not, is not survived.
#[derive(Clone, Debug)]
pub struct PluginCompiler(Plugin);

impl PluginCompiler {
    /// The provider of a plugin.
    pub fn new(plugin: Plugin) -> Self {
        Self(plugin)
    }

    fn device<'s>(&self, site: &'s Site) -> Result<&'s Device, Refusal> {
        let Some(device) = site.device() else {
            let target = site.target();
            let reason = format!(
                "plugins compile for a device that is present; target {target} was only named (--target native is the GPU that is there)"
            );
            return Err(Refusal::Target(reason));
        };
        if self.0.serves(device) {
            return Ok(device);
        }
        Err(Refusal::Target(match device.memory_space() {
            MemorySpace::Host => "it computes in the memory of an AMD GPU; name it as host:PATH if it computes in host memory".to_owned(),
            MemorySpace::Hip { runtime: 0, .. } => format!("it was named as one that computes in host memory, and the device is {device}"),
            _ => format!("it does not compute in the memory of the device {device}"),
        }))
    }

    fn fail(&self, engine: &str, reason: String) -> CompileError {
        CompileError::Provider { provider: self.0.name().to_owned(), engine: engine.to_owned(), reason }
    }

    /// The context of an offer.
    fn context(&self, graph: &VerifiedGraph<'_>, offer: &Offer, site: &Site) -> Result<PluginContext, CompileError> {
        let fail = |reason| self.fail(&offer.engine, reason);
        let device = self.device(site).map_err(|refusal| fail(refusal.to_string()))?;
        let config = config(engine_id_of_text(&offer.engine), &offer.knobs, &offer.settings).map_err(fail)?;
        self.0.create_context(device, &config, graph).map_err(|error| fail(error.to_string()))
    }
}

/// What the plugin is told: the settings that were asked for, and no defaults.
fn config(engine_id: i64, knobs: &[KnobInfo], settings: &[Knob]) -> Result<EngineConfig, String> {
    let set = |setting: &Knob| {
        let known = knobs.iter().find(|known| known.id == setting.id);
        let known = known.ok_or_else(|| format!("the knob {} is not one of the engine's", setting.id))?;
        Ok((setting.id.clone(), known.parse_value(&setting.value).map_err(|error| error.to_string())?))
    };
    Ok(EngineConfig { engine_id, knobs: settings.iter().map(set).collect::<Result<_, String>>()? })
}

impl Compiler for PluginCompiler {
    fn identity(&self) -> ProviderIdentity {
        ProviderIdentity { name: self.0.name().to_owned(), api_version: self.0.api_version() }
    }

    fn offers(&self, graph: &VerifiedGraph<'_>, site: &Site) -> Result<Vec<Offer>, Refusal> {
        let device = self.device(site)?;
        if graph.is_override_shape_enabled() && !self.0.executes_overrides() {
            return Err(Refusal::Declined(
                "it does not export hipdnnEnginePluginExecuteOpGraphWithOverrides, which execute-time shapes need".to_owned(),
            ));
        }
        let failed = |error: hipplan_exec::plugin::PluginError| Refusal::Failed(error.to_string());
        let engines = self.0.applicable_engines(device, graph).map_err(failed)?;
        if engines.is_empty() {
            return Err(Refusal::Declined("it says that none of its engines takes the graph".to_owned()));
        }
        let persistence = match self.0.persistence() {
            Ok(()) => Persistence::Payload,
            Err(reason) => Persistence::ProcessOnly(reason.to_owned()),
        };
        let mut offers = Vec::with_capacity(engines.len());
        for engine in self.0.engines().iter().filter(|engine| engines.contains(&engine.id)) {
            let details = self.0.engine_details(device, engine.id, graph).map_err(failed)?;
            offers.push(Offer {
                knobs: details.knobs,
                persistence: persistence.clone(),
                ..Offer::new(engine.name.clone(), self.0.version())
            });
        }
        Ok(offers)
    }

    fn compile(&self, graph: &VerifiedGraph<'_>, offer: &Offer, site: &Site) -> Result<Compiled, CompileError> {
        let context = self.context(graph, offer, site)?;
        let fail = |reason| self.fail(&offer.engine, reason);
        let program = context.program().map_err(|error| fail(error.to_string()))?;
        Ok(Compiled {
            kind: PLUGIN_PAYLOAD_KIND,
            version: PLUGIN_PAYLOAD_VERSION,
            body: program.to_body().map_err(|error| fail(error.to_string()))?.to_vec(),
            workspace_size: context.workspace_size(),
            code_objects: Vec::new(),
        })
    }

    fn compile_in_process(&self, graph: &VerifiedGraph<'_>, offer: &Offer, site: &Site) -> Result<InProcess, CompileError> {
        let context = self.context(graph, offer, site)?;
        let workspace_size = context.workspace_size();
        Ok(InProcess { executable: context.into_executable(graph.tensors().len()), workspace_size })
    }
}
