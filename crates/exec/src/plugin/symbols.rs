//! The functions of a plugin, resolved into plain pointers.

use super::exit;
use super::file;
use super::program::HookForm;
use super::source::StatedHooks;
use hipplan_engine_abi::functions::*;
use hipplan_engine_abi::symbols as names;
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::path::Path;

/// What is called of a plugin.
#[derive(Debug)]
pub(super) struct Symbols {
    pub(super) get_name: GetName,
    pub(super) get_version: GetVersion,
    pub(super) get_type: GetType,
    pub(super) get_last_error_string: GetLastErrorString,
    pub(super) get_api_version: Option<GetApiVersion>,
    pub(super) set_logging_callback: Option<SetLoggingCallback>,
    pub(super) set_log_level: Option<SetLogLevel>,
    pub(super) get_all_engine_ids: GetAllEngineIds,
    pub(super) create: Create,
    pub(super) destroy: Destroy,
    pub(super) set_stream: SetStream,
    pub(super) get_applicable_engine_ids: GetApplicableEngineIds,
    pub(super) get_engine_details: GetEngineDetails,
    pub(super) destroy_engine_details: DestroyEngineDetails,
    pub(super) create_execution_context: CreateExecutionContext,
    pub(super) destroy_execution_context: DestroyExecutionContext,
    pub(super) get_workspace_size_from_execution_context: GetWorkspaceSizeFromExecutionContext,
    pub(super) execute_op_graph: ExecuteOpGraph,
    pub(super) execute_op_graph_with_overrides: Option<ExecuteOpGraphWithOverrides>,
    pub(super) get_engine_name: Option<GetEngineName>,
    /// How contexts are stored, or why not.
    pub(super) hooks: Result<Hooks, String>,
}

/// The functions that store contexts, in one of the forms that there are of them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hooks {
    /// `SerializeExecutionContextWithEngineId`, and a create function of three arguments.
    WithEngineId {
        serialize: SerializeExecutionContextWithEngineId,
        destroy: DestroySerializedExecutionContext,
        create: CreateExecutionContextFromSerialized,
    },
    /// `SerializeExecutionContext`, and a create function of three arguments.
    Plain { serialize: SerializeExecutionContext, destroy: DestroySerializedExecutionContext, create: CreateExecutionContextFromSerialized },
    /// `SerializeExecutionContext`, and a create function of four arguments.
    WithConfig {
        serialize: SerializeExecutionContext,
        destroy: DestroySerializedExecutionContext,
        create: CreateExecutionContextFromSerializedWithConfig,
    },
    /// Names with `_ext`.
    Ext {
        serialize: SerializeExecutionContextExt,
        destroy: DestroySerializedExecutionContext,
        create: CreateExecutionContextFromSerialized,
    },
}

impl Hooks {
    /// Which form it is.
    pub(super) fn form(&self) -> HookForm {
        match self {
            Self::WithEngineId { .. } => HookForm::WithEngineId,
            Self::Plain { .. } => HookForm::Plain,
            Self::WithConfig { .. } => HookForm::WithConfig,
            Self::Ext { .. } => HookForm::Ext,
        }
    }
}

/// The exported functions of an open library.
struct Exports<'l>(&'l libloading::Library);

impl Exports<'_> {
    /// # Safety
    /// `F` is the function pointer type of the symbol in the plugin ABI.
    unsafe fn find<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the type is the symbol's, as the caller promised for the ABI, and whoever names a library as a plugin for the library.
        unsafe { self.0.get::<F>(name.to_bytes_with_nul()) }.ok().map(|symbol| *symbol)
    }

    /// Which of these names are exported.
    fn present(&self, wanted: &[&'static CStr]) -> (Vec<&'static CStr>, Vec<&'static CStr>) {
        // SAFETY: any function is at least an address, which is all that is read; it is not called.
        wanted.iter().partition(|name| unsafe { self.find::<*const std::ffi::c_void>(name) }.is_some())
    }
}

fn list(names: &[&'static CStr]) -> String {
    names.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>().join(", ")
}

/// Without these, a library is no engine plugin.
const REQUIRED: [&CStr; 16] = [
    names::GET_NAME,
    names::GET_VERSION,
    names::GET_TYPE,
    names::GET_LAST_ERROR_STRING,
    names::GET_ALL_ENGINE_IDS,
    names::CREATE,
    names::DESTROY,
    names::SET_STREAM,
    names::GET_APPLICABLE_ENGINE_IDS,
    names::GET_ENGINE_DETAILS,
    names::DESTROY_ENGINE_DETAILS,
    names::GET_WORKSPACE_SIZE,
    names::CREATE_EXECUTION_CONTEXT,
    names::DESTROY_EXECUTION_CONTEXT,
    names::GET_WORKSPACE_SIZE_FROM_EXECUTION_CONTEXT,
    names::EXECUTE_OP_GRAPH,
];

impl Symbols {
    /// Opens a library for good and resolves its functions.
    ///
    /// # Errors
    /// What the system's loader says, or which functions are missing.
    pub(super) fn open(path: &Path, stated: StatedHooks) -> Result<Self, String> {
        // It may have threads, handlers that run at exit, and texts that are kept: it is never closed, whatever it turns out to be.
        let library = ManuallyDrop::new(open(path)?);
        exit::after_load();
        let exports = Exports(&library);
        let (_, missing) = exports.present(&REQUIRED);
        Self::resolve(&exports, stated).ok_or_else(|| format!("it is no engine plugin: it does not export {}", list(&missing)))
    }

    /// Nothing, if a required function is missing.
    fn resolve(exports: &Exports<'_>, stated: StatedHooks) -> Option<Self> {
        // SAFETY: each field has the ABI's type of the function that is looked up for it.
        unsafe {
            // Required, and not called: contexts say what they need.
            exports.find::<GetWorkspaceSize>(names::GET_WORKSPACE_SIZE)?;
            Some(Self {
                get_name: exports.find(names::GET_NAME)?,
                get_version: exports.find(names::GET_VERSION)?,
                get_type: exports.find(names::GET_TYPE)?,
                get_last_error_string: exports.find(names::GET_LAST_ERROR_STRING)?,
                get_api_version: exports.find(names::GET_API_VERSION),
                set_logging_callback: exports.find(names::SET_LOGGING_CALLBACK),
                set_log_level: exports.find(names::SET_LOG_LEVEL),
                get_all_engine_ids: exports.find(names::GET_ALL_ENGINE_IDS)?,
                create: exports.find(names::CREATE)?,
                destroy: exports.find(names::DESTROY)?,
                set_stream: exports.find(names::SET_STREAM)?,
                get_applicable_engine_ids: exports.find(names::GET_APPLICABLE_ENGINE_IDS)?,
                get_engine_details: exports.find(names::GET_ENGINE_DETAILS)?,
                destroy_engine_details: exports.find(names::DESTROY_ENGINE_DETAILS)?,
                create_execution_context: exports.find(names::CREATE_EXECUTION_CONTEXT)?,
                destroy_execution_context: exports.find(names::DESTROY_EXECUTION_CONTEXT)?,
                get_workspace_size_from_execution_context: exports.find(names::GET_WORKSPACE_SIZE_FROM_EXECUTION_CONTEXT)?,
                execute_op_graph: exports.find(names::EXECUTE_OP_GRAPH)?,
                execute_op_graph_with_overrides: exports.find(names::EXECUTE_OP_GRAPH_WITH_OVERRIDES),
                get_engine_name: exports.find(names::GET_ENGINE_NAME),
                hooks: hooks(exports, stated),
            })
        }
    }
}

fn open(path: &Path) -> Result<libloading::Library, String> {
    file::check(path)?;
    #[cfg(unix)]
    // SAFETY: whoever names a library as a plugin has it run code in this process; its constructors have no requirements. Its symbols are
    // its own (RTLD_LOCAL), and all that it needs is there when it is loaded (RTLD_NOW).
    let opened = unsafe {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        Library::open(Some(path), RTLD_NOW | RTLD_LOCAL).map(libloading::Library::from)
    };
    #[cfg(not(unix))]
    // SAFETY: as above.
    let opened = unsafe { libloading::Library::new(path) };
    // The system's message is the cause of the library's, and starts with the path, which the report shows anyway.
    opened.map_err(|error| {
        let text = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        text.strip_prefix(&format!("{}: ", path.display())).map(str::to_owned).unwrap_or(text)
    })
}

/// The forms in the order in which they are looked for: a name that says its arguments before one that does not, and that only where its
/// user has stated them.
fn hooks(exports: &Exports<'_>, stated: StatedHooks) -> Result<Hooks, String> {
    let with_id = [
        names::SERIALIZE_EXECUTION_CONTEXT_WITH_ENGINE_ID,
        names::DESTROY_SERIALIZED_EXECUTION_CONTEXT,
        names::CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED,
    ];
    let plain = [names::SERIALIZE_EXECUTION_CONTEXT, with_id[1], with_id[2]];
    let ext = [
        names::SERIALIZE_EXECUTION_CONTEXT_EXT,
        names::DESTROY_SERIALIZED_EXECUTION_CONTEXT_EXT,
        names::CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED_EXT,
    ];
    // SAFETY: each variable has the ABI's type of the function that is looked up for it. Which of the two types the plain create function has,
    // the user has stated; with a serialize function that takes the engine's id, it has three arguments.
    let found = unsafe {
        let destroy = exports.find(with_id[1]);
        if let (Some(serialize), Some(destroy), Some(create)) = (exports.find(with_id[0]), destroy, exports.find(with_id[2])) {
            Some(Hooks::WithEngineId { serialize, destroy, create })
        } else if let (StatedHooks::Plain, Some(serialize), Some(destroy), Some(create)) =
            (stated, exports.find(plain[0]), destroy, exports.find(plain[2]))
        {
            Some(Hooks::Plain { serialize, destroy, create })
        } else if let (StatedHooks::WithConfig, Some(serialize), Some(destroy), Some(create)) =
            (stated, exports.find(plain[0]), destroy, exports.find(plain[2]))
        {
            Some(Hooks::WithConfig { serialize, destroy, create })
        } else if let (Some(serialize), Some(destroy), Some(create)) = (exports.find(ext[0]), exports.find(ext[1]), exports.find(ext[2])) {
            Some(Hooks::Ext { serialize, destroy, create })
        } else {
            None
        }
    };
    found.ok_or_else(|| {
        if exports.present(&plain).1.is_empty() {
            let create = plain[2].to_string_lossy();
            return format!(
                "{create} takes 3 arguments in some plugins and 4 in others, and nothing tells them apart; state it with \
                 hooks=plain:PATH (3 arguments) or hooks=config:PATH (4: an engine config comes first)"
            );
        }
        let families = [with_id, plain, ext];
        // Of an incomplete family, the serialize function says that it was meant; without any, the functions that are there do.
        let meant = families.into_iter().max_by_key(|family| {
            let (present, _) = exports.present(family);
            (present.contains(&family[0]), present.len())
        });
        match meant.map(|family| exports.present(&family)) {
            Some((present, missing)) if !present.is_empty() => {
                format!("it exports {}, and not {}, of the functions that store contexts", list(&present), list(&missing))
            }
            _ => "it exports no functions that store contexts".to_owned(),
        }
    })
}
