//! hipDNN engine plugins as providers: shared libraries that speak the `hipdnnEnginePlugin*` C ABI are found ([`PluginSearch`]), loaded
//! ([`Plugins`]), asked for engines and contexts ([`Plugin`]), and given their plans back ([`PluginLoader`]).
//!
//! What can be checked of a plugin is checked, and a plugin that breaks the ABI is an error that names it and leaves the others be: wrong
//! counts, ids that are repeated or unknown, null where something should be, no bytes, absurd sizes and versions. What cannot be isolated:
//! a plugin is code in this process. It can crash it, write where it likes, hang, change what its thread has set, or say that it does what
//! it does not. Name no plugin that you would not link with.
//!
//! A plugin's library is never closed. Every thread has handles of its own, by device and stream. On a HIP device executions are put on the
//! stream; that a scalar has been read when `execute` returns is then the plugin's duty (R16 §4.6).
//!
//! Unsafe code is in the modules of what calls, or is called by, a plugin: `symbols`, `handshake`, `call`, `text`, `log`; in the uses of `call`
//! in `handle`, `context`, `hosted` and `executable`; and in `secure`.

mod call;
mod context;
mod error;
mod executable;
mod handle;
mod handshake;
mod hosted;
mod loader;
mod log;
mod plugins;
mod program;
mod search;
mod secure;
mod source;
mod symbols;
mod text;
mod version;

pub use context::PluginContext;
pub use error::PluginError;
pub use hosted::{Plugin, PluginEngine};
pub use loader::PluginLoader;
pub use plugins::{PluginFailure, Plugins};
pub use program::{ArchivedPluginProgram, PLUGIN_PAYLOAD_KIND, PLUGIN_PAYLOAD_VERSION, PluginProgram};
pub use search::{HIPDNN_BACKEND_VARIABLE, HIPDNN_PLUGIN_DIR_VARIABLE, PLUGINS_VARIABLE, PluginSearch};
pub use source::{PluginMemory, PluginSource, PluginSourceError, StatedHooks};
