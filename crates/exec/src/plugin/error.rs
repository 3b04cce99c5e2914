//! What went wrong with a plugin.

use super::program::HookForm;
use super::source::PluginMemory;
use crate::hip::HipError;
use hipplan_engine_abi::status::{INVALID_VALUE, Status, status_name};
use hipplan_serialize::ApiVersion;
use hipplan_serialize::canon::NoKey;
use hipplan_serialize::hipdnn::engine::EngineDetailsError;
use std::fmt;

/// A plugin that failed, or that a plan cannot be executed with.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum PluginError {
    /// A function of the plugin reports an error.
    #[error("plugin {plugin}: {function} failed with {}: {}", StatusText(*.status), said(.text))]
    Call { plugin: String, function: &'static str, status: Status, text: String },
    /// A function of the plugin did what the ABI rules out.
    #[error("plugin {plugin}: {function} breaks the plugin ABI: {what}; report it to the plugin's makers")]
    Misbehaved { plugin: String, function: &'static str, what: String },
    /// Engine details that cannot be read.
    #[error("plugin {plugin}: {error}; report it to the plugin's makers")]
    Details { plugin: String, error: EngineDetailsError },
    /// The plugin computes in other memory than the device's.
    #[error("plugin {plugin} computes in {} and does not serve the device {device}; {advice}", memory_name(*.memory))]
    Device { plugin: String, memory: PluginMemory, device: String, advice: &'static str },
    /// An engine that the plugin does not have, or that was dropped.
    #[error("plugin {plugin} offers no engine {engine}")]
    NoEngine { plugin: String, engine: String },
    /// Engines take the graph, and were left out when the plugin was loaded.
    #[error("plugin {plugin}: of its engines only such take the graph as are not used: {engines}")]
    EnginesLeftOut { plugin: String, engines: String },
    /// The plugin's API version is below what a graph asks for: it would misread the graph (R16 §4.7).
    #[error("the graph needs engine API {floor}, and plugin {plugin} {version} speaks {found}; load a newer plugin")]
    GraphFloor { plugin: String, version: String, floor: ApiVersion, found: ApiVersion },
    /// The graph may have shapes of its own in every execution.
    #[error("the graph takes execute-time shapes, and plugin {plugin} {version} does not; load a newer plugin")]
    GraphOverrides { plugin: String, version: String },
    /// Buffers are told apart by canonical ordinals.
    #[error(
        "plugin {plugin} compiles graphs in canonical form only, and tensor {ordinal} of this one has uid {uid}; decode its canonical encoding"
    )]
    NotCanonical { plugin: String, ordinal: i64, uid: i64 },
    /// The graph has no key.
    #[error(transparent)]
    NoKey(#[from] NoKey),
    /// The plugin has no way to store what it compiled.
    #[error("plugin {plugin}: provider cannot persist: {reason}")]
    NotPersistent { plugin: String, reason: String },
    /// More than the ABI can count.
    #[error("plugin {plugin}: {found} {what}, the most is {limit}")]
    Limit { plugin: String, what: &'static str, found: u64, limit: u64 },
    /// Memory that the system does not give.
    #[error("plugin {plugin}: {what} has {bytes} bytes, which cannot be had")]
    OutOfMemory { plugin: String, what: &'static str, bytes: u64 },
    /// The context needs more than the plan says.
    #[error("plugin {plugin}: the restored plan needs {found} bytes of workspace, its metadata says {expected}; compile the graph again")]
    Workspace { plugin: String, found: u64, expected: u64 },
    /// No plugin is loaded that has the plan's engine.
    #[error("the plan is of plugin {plugin} {version}, engine {engine}, and no loaded plugin has that engine{loaded}; load it")]
    NotLoaded { plugin: String, version: String, engine: String, loaded: String },
    /// Another plugin has the engine's id.
    #[error(
        "the plan is of plugin {plugin} {version}, and engine {engine} is here of plugin {found} {found_version}; load the plan's plugin in its place, or compile the graph again"
    )]
    OtherPlugin { plugin: String, version: String, engine: String, found: String, found_version: String },
    /// An older plugin, or one whose age cannot be told.
    #[error(
        "the plan is of plugin {plugin} {version}, and its version {found_version} is loaded, which {why}; load {version} or a newer one, or compile the graph again"
    )]
    Version { plugin: String, version: String, found_version: String, why: &'static str },
    /// The plugin's API version is below the floor of the graph.
    #[error(
        "the plan needs engine API {floor}, and plugin {plugin} {found_version} (the plan is of {version}) speaks {found}; load a newer plugin"
    )]
    ApiFloor { plugin: String, version: String, found_version: String, floor: ApiVersion, found: ApiVersion },
    /// The graph may have shapes of its own in every execution.
    #[error(
        "the plan's graph takes execute-time shapes, and plugin {plugin} {found_version} (the plan is of {version}) does not; load a newer plugin"
    )]
    NoOverrides { plugin: String, version: String, found_version: String },
    /// The plan was stored by functions of another form than the plugin's.
    #[error(
        "the plan is of plugin {plugin} {version} and was stored with {}, and the plugin that is loaded stores with {}; name the plugin with the hooks that it was compiled with, or compile the graph again", .stored.name(), .found.name()
    )]
    Hooks { plugin: String, version: String, stored: HookForm, found: HookForm },
    /// The plugin is named as one of another memory than that of the plan's target.
    #[error("the plan of plugin {plugin} {version} is for target {target}, and the plugin that is loaded computes in {}; {}", memory_name(*.memory), memory_advice(*.memory))]
    Memory { plugin: String, version: String, target: String, memory: PluginMemory },
    /// The HIP device failed.
    #[error(transparent)]
    Hip(#[from] HipError),
}

impl PluginError {
    /// What a function of the plugin returned.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Call { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The plugin reports hipDNN's INVALID_VALUE, such as for a pack without a tensor that it needs (R16 §4.9).
    pub fn is_invalid_value(&self) -> bool {
        self.status() == Some(INVALID_VALUE)
    }
}

/// A status by name and number; a number without a name is some other version's.
struct StatusText(Status);

impl fmt::Display for StatusText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match status_name(self.0) {
            Some(name) => write!(f, "{name} (status {})", self.0),
            None => write!(f, "the unknown status {}", self.0),
        }
    }
}

fn said(text: &str) -> &str {
    if text.is_empty() { "it does not say why" } else { text }
}

fn memory_name(memory: PluginMemory) -> &'static str {
    match memory {
        PluginMemory::Device => "the memory of HIP devices",
        PluginMemory::Host => "host memory",
    }
}

pub(super) fn memory_advice(memory: PluginMemory) -> &'static str {
    match memory {
        PluginMemory::Device => "if it does compute in host memory, name it as host:PATH",
        PluginMemory::Host => "if it does compute on HIP devices, name it without the word host",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_plugin_function_status_and_the_plugins_words() {
        let call = |status, text: &str| PluginError::Call { plugin: "p".into(), function: "hipdnnF", status, text: text.into() };
        let error = call(2, "uid 7 is missing");
        assert_eq!(error.to_string(), "plugin p: hipdnnF failed with INVALID_VALUE (status 2): uid 7 is missing");
        assert!(error.is_invalid_value());
        let error = call(77, "");
        assert_eq!(error.to_string(), "plugin p: hipdnnF failed with the unknown status 77: it does not say why");
        assert_eq!((error.status(), error.is_invalid_value()), (Some(77), false));
    }
}
