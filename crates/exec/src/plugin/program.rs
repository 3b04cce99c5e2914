//! The body of a plugin's payload.

use super::text::MAX_NAME;
use hipplan_serialize::plan::PayloadError;
use rkyv::{Archive, Deserialize, Serialize};

/// Payload kind of hosted plugins.
pub const PLUGIN_PAYLOAD_KIND: &str = "hipdnn-plugin";
/// Payload version that is written for hosted plugins: the layout and meaning of [`PluginProgram`]. What is in the plugin's own bytes, and
/// its version, is the plugin's.
pub const PLUGIN_PAYLOAD_VERSION: u32 = 1;

/// The functions that a plugin stores contexts with, in one of the forms that there are of them. What one form has stored, another cannot be
/// given: the functions that restore have one name and different arguments.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[rkyv(derive(Debug))]
#[non_exhaustive]
pub enum HookForm {
    /// `SerializeExecutionContextWithEngineId`; three arguments restore.
    WithEngineId,
    /// `SerializeExecutionContext`; three arguments restore.
    Plain,
    /// `SerializeExecutionContext`; four arguments restore, the engine config among them.
    WithConfig,
    /// Names with `_ext`.
    Ext,
}

impl HookForm {
    /// As a message says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::WithEngineId => "SerializeExecutionContextWithEngineId",
            Self::Plain => "SerializeExecutionContext (hooks=plain)",
            Self::WithConfig => "SerializeExecutionContext (hooks=config)",
            Self::Ext => "SerializeExecutionContext_ext",
        }
    }
}

impl From<&ArchivedHookForm> for HookForm {
    fn from(form: &ArchivedHookForm) -> Self {
        match form {
            ArchivedHookForm::WithEngineId => Self::WithEngineId,
            ArchivedHookForm::Plain => Self::Plain,
            ArchivedHookForm::WithConfig => Self::WithConfig,
            ArchivedHookForm::Ext => Self::Ext,
        }
    }
}

/// A plan of a hosted plugin: its bytes whole, and all that says which plugin may have them.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[rkyv(derive(Debug))]
pub struct PluginProgram {
    /// Name of the plugin.
    pub plugin: String,
    /// Its own version.
    pub plugin_version: String,
    /// The functions that stored it.
    pub hooks: HookForm,
    /// The engine.
    pub engine_id: i64,
    /// The engine config that the graph was compiled with; some plugins want it again.
    pub config: Vec<u8>,
    /// What the plugin stored.
    pub bytes: Vec<u8>,
}

impl PluginProgram {
    /// The body of a payload.
    ///
    /// # Errors
    /// It is too large to be written.
    pub fn to_body(&self) -> Result<rkyv::util::AlignedVec, PayloadError> {
        rkyv::to_bytes::<rkyv::rancor::Error>(self).map_err(|e| body(e.to_string()))
    }
}

/// A body that is not what it should be.
pub(super) fn body(reason: String) -> PayloadError {
    PayloadError::Body { kind: PLUGIN_PAYLOAD_KIND.to_owned(), reason }
}

/// Checks a body, and gives it in place.
pub(super) fn read(bytes: &[u8]) -> Result<&ArchivedPluginProgram, PayloadError> {
    let program = rkyv::access::<ArchivedPluginProgram, rkyv::rancor::Error>(bytes).map_err(|e| body(e.to_string()))?;
    for (what, text) in [("plugin name", &program.plugin), ("plugin version", &program.plugin_version)] {
        if text.is_empty() || text.len() > MAX_NAME {
            return Err(body(format!("the {what} has {} bytes, expected 1 to {MAX_NAME}", text.len())));
        }
    }
    if program.bytes.is_empty() {
        return Err(body("the plugin's bytes are empty".to_owned()));
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn program() -> PluginProgram {
        PluginProgram {
            plugin: "p".into(),
            plugin_version: "1.2".into(),
            hooks: HookForm::Ext,
            engine_id: -7,
            config: vec![1, 2],
            bytes: vec![3; 100],
        }
    }

    #[test]
    fn a_body_comes_back_and_what_is_missing_is_told() {
        let body = program().to_body().expect("small");
        let read_back = rkyv::deserialize::<PluginProgram, rkyv::rancor::Error>(read(&body).expect("a body")).expect("small");
        assert_eq!(read_back, program());
        type Change = fn(&mut PluginProgram);
        let changes: [(Change, &str); 4] = [
            (|p| p.plugin.clear(), "plugin name"),
            (|p| p.plugin = "x".repeat(257), "plugin name"),
            (|p| p.plugin_version.clear(), "plugin version"),
            (|p| p.bytes.clear(), "bytes are empty"),
        ];
        for (change, what) in changes {
            let mut other = program();
            change(&mut other);
            let error = read(&other.to_body().expect("small")).expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    proptest! {
        #[test]
        fn damaged_bodies_are_errors_or_other_contents(at: prop::sample::Index, with: u8, cut: prop::sample::Index) {
            let mut bytes = program().to_body().expect("small");
            let (at, cut) = (at.index(bytes.len()), cut.index(bytes.len()));
            bytes[at] = with;
            for bytes in [&bytes[..], &bytes[..cut], &bytes[cut..]] {
                if let Err(error) = read(bytes) {
                    prop_assert!(error.to_string().contains(PLUGIN_PAYLOAD_KIND), "{error}");
                }
            }
        }
    }
}
