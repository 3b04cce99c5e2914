//! hipDNN engine plugins as providers: shared libraries that speak the `hipdnnEnginePlugin*` C ABI are found ([`PluginSearch`]), loaded
//! ([`Plugins`]), asked for engines and contexts ([`Plugin`]), and given their plans back ([`PluginLoader`]).
//!
//! What can be checked of a plugin is checked, and a plugin that breaks the ABI is an error that names it and leaves the others be: wrong
//! counts, ids that are repeated or unknown, null where something should be, no bytes, absurd sizes and versions. What cannot be isolated:
//! a plugin is code in this process. It can crash it, write where it likes, hang, change what its thread has set, or say that it does what
//! it does not. Name no plugin that you would not link with. The floating-point state of the calling thread is put back after every call.
//!
//! A plugin's library is never closed. Every thread has handles of its own, by device and stream, which others take over when it ends; none is
//! destroyed. Once the process has begun to exit, nothing is given back. On a HIP device executions are put on the stream; that a scalar has
//! been read when `execute` returns is then the plugin's duty (R16 §4.6).
//!
//! The ABI says nothing of some things that a host must know. Assumed is that
//! * a handle may be used by one thread after another, and put on another stream when nothing of it is under way;
//! * a context may be used, by one thread after another, with any handle of its plugin on its device, while the handle that it was made with
//!   lives;
//! * the handles of a plugin that are not destroyed have different values (one that repeats a value is refused);
//! * what a function gives the address of, graph and config among it, is not kept when it returns;
//! * a plugin that computes on HIP devices does so on the one that is current, of the HIP runtime that the process finds.
//!
//! Unsafe code is in the modules of what calls, or is called by, a plugin: `symbols`, `handshake`, `answers`, `call`, `given`, `text`, `log`; in the uses
//! of `call` in `handle`, `context`, `hosted` and `executable`; and in `exit`, `float_state` and `secure`.

mod answers;
mod call;
mod context;
mod error;
mod executable;
mod exit;
mod file;
mod float_state;
mod given;
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
pub use program::{ArchivedPluginProgram, HookForm, PLUGIN_PAYLOAD_KIND, PLUGIN_PAYLOAD_VERSION, PluginProgram};
pub use search::{HIPDNN_BACKEND_VARIABLE, HIPDNN_PLUGIN_DIR_VARIABLE, PLUGINS_VARIABLE, PluginSearch};
pub use source::{PluginMemory, PluginSource, PluginSourceError, StatedHooks};
