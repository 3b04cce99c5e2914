//! Names of the exported functions.
//!
//! Contexts are serialised by a family of three functions, of which there are several: with the engine's id, plain, and `_ext`. The plain
//! names stand for two forms, which differ in the arguments of the last function.

use std::ffi::CStr;

/// See [`GetName`](crate::functions::GetName).
pub const GET_NAME: &CStr = c"hipdnnPluginGetName";
/// See [`GetVersion`](crate::functions::GetVersion).
pub const GET_VERSION: &CStr = c"hipdnnPluginGetVersion";
/// See [`GetType`](crate::functions::GetType).
pub const GET_TYPE: &CStr = c"hipdnnPluginGetType";
/// See [`GetLastErrorString`](crate::functions::GetLastErrorString).
pub const GET_LAST_ERROR_STRING: &CStr = c"hipdnnPluginGetLastErrorString";

/// See [`GetApiVersion`](crate::functions::GetApiVersion).
pub const GET_API_VERSION: &CStr = c"hipdnnPluginGetApiVersion";
/// See [`SetLoggingCallback`](crate::functions::SetLoggingCallback).
pub const SET_LOGGING_CALLBACK: &CStr = c"hipdnnPluginSetLoggingCallback";
/// See [`SetLogLevel`](crate::functions::SetLogLevel).
pub const SET_LOG_LEVEL: &CStr = c"hipdnnPluginSetLogLevel";

/// See [`GetAllEngineIds`](crate::functions::GetAllEngineIds).
pub const GET_ALL_ENGINE_IDS: &CStr = c"hipdnnEnginePluginGetAllEngineIds";
/// See [`Create`](crate::functions::Create).
pub const CREATE: &CStr = c"hipdnnEnginePluginCreate";
/// See [`Destroy`](crate::functions::Destroy).
pub const DESTROY: &CStr = c"hipdnnEnginePluginDestroy";
/// See [`SetStream`](crate::functions::SetStream).
pub const SET_STREAM: &CStr = c"hipdnnEnginePluginSetStream";
/// See [`GetApplicableEngineIds`](crate::functions::GetApplicableEngineIds).
pub const GET_APPLICABLE_ENGINE_IDS: &CStr = c"hipdnnEnginePluginGetApplicableEngineIds";
/// See [`GetEngineDetails`](crate::functions::GetEngineDetails).
pub const GET_ENGINE_DETAILS: &CStr = c"hipdnnEnginePluginGetEngineDetails";
/// See [`DestroyEngineDetails`](crate::functions::DestroyEngineDetails).
pub const DESTROY_ENGINE_DETAILS: &CStr = c"hipdnnEnginePluginDestroyEngineDetails";
/// See [`GetWorkspaceSize`](crate::functions::GetWorkspaceSize).
pub const GET_WORKSPACE_SIZE: &CStr = c"hipdnnEnginePluginGetWorkspaceSize";
/// See [`CreateExecutionContext`](crate::functions::CreateExecutionContext).
pub const CREATE_EXECUTION_CONTEXT: &CStr = c"hipdnnEnginePluginCreateExecutionContext";
/// See [`DestroyExecutionContext`](crate::functions::DestroyExecutionContext).
pub const DESTROY_EXECUTION_CONTEXT: &CStr = c"hipdnnEnginePluginDestroyExecutionContext";
/// See [`GetWorkspaceSizeFromExecutionContext`](crate::functions::GetWorkspaceSizeFromExecutionContext).
pub const GET_WORKSPACE_SIZE_FROM_EXECUTION_CONTEXT: &CStr = c"hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext";
/// See [`ExecuteOpGraph`](crate::functions::ExecuteOpGraph).
pub const EXECUTE_OP_GRAPH: &CStr = c"hipdnnEnginePluginExecuteOpGraph";

/// See [`ExecuteOpGraphWithOverrides`](crate::functions::ExecuteOpGraphWithOverrides).
pub const EXECUTE_OP_GRAPH_WITH_OVERRIDES: &CStr = c"hipdnnEnginePluginExecuteOpGraphWithOverrides";
/// See [`SerializeExecutionContextWithEngineId`](crate::functions::SerializeExecutionContextWithEngineId).
pub const SERIALIZE_EXECUTION_CONTEXT_WITH_ENGINE_ID: &CStr = c"hipdnnEnginePluginSerializeExecutionContextWithEngineId";
/// See [`SerializeExecutionContext`](crate::functions::SerializeExecutionContext).
pub const SERIALIZE_EXECUTION_CONTEXT: &CStr = c"hipdnnEnginePluginSerializeExecutionContext";
/// See [`DestroySerializedExecutionContext`](crate::functions::DestroySerializedExecutionContext).
pub const DESTROY_SERIALIZED_EXECUTION_CONTEXT: &CStr = c"hipdnnEnginePluginDestroySerializedExecutionContext";
/// See [`CreateExecutionContextFromSerialized`](crate::functions::CreateExecutionContextFromSerialized).
pub const CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED: &CStr = c"hipdnnEnginePluginCreateExecutionContextFromSerialized";
/// See [`SerializeExecutionContextExt`](crate::functions::SerializeExecutionContextExt).
pub const SERIALIZE_EXECUTION_CONTEXT_EXT: &CStr = c"hipdnnEnginePluginSerializeExecutionContext_ext";
/// See [`DestroySerializedExecutionContext`](crate::functions::DestroySerializedExecutionContext).
pub const DESTROY_SERIALIZED_EXECUTION_CONTEXT_EXT: &CStr = c"hipdnnEnginePluginDestroySerializedExecutionContext_ext";
/// See [`CreateExecutionContextFromSerialized`](crate::functions::CreateExecutionContextFromSerialized).
pub const CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED_EXT: &CStr = c"hipdnnEnginePluginCreateExecutionContextFromSerialized_ext";
/// See [`GetEngineName`](crate::functions::GetEngineName).
pub const GET_ENGINE_NAME: &CStr = c"hipdnnEnginePluginGetEngineName";

/// Functions that every plugin has.
pub const BASE: [&CStr; 4] = [GET_NAME, GET_VERSION, GET_TYPE, GET_LAST_ERROR_STRING];
/// Functions that a plugin may have.
pub const BASE_OPTIONAL: [&CStr; 3] = [GET_API_VERSION, SET_LOGGING_CALLBACK, SET_LOG_LEVEL];
/// Functions that every engine plugin has.
pub const ENGINE: [&CStr; 12] = [
    GET_ALL_ENGINE_IDS,
    CREATE,
    DESTROY,
    SET_STREAM,
    GET_APPLICABLE_ENGINE_IDS,
    GET_ENGINE_DETAILS,
    DESTROY_ENGINE_DETAILS,
    GET_WORKSPACE_SIZE,
    CREATE_EXECUTION_CONTEXT,
    DESTROY_EXECUTION_CONTEXT,
    GET_WORKSPACE_SIZE_FROM_EXECUTION_CONTEXT,
    EXECUTE_OP_GRAPH,
];
/// Functions that an engine plugin may have.
pub const ENGINE_OPTIONAL: [&CStr; 9] = [
    EXECUTE_OP_GRAPH_WITH_OVERRIDES,
    SERIALIZE_EXECUTION_CONTEXT_WITH_ENGINE_ID,
    SERIALIZE_EXECUTION_CONTEXT,
    DESTROY_SERIALIZED_EXECUTION_CONTEXT,
    CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED,
    SERIALIZE_EXECUTION_CONTEXT_EXT,
    DESTROY_SERIALIZED_EXECUTION_CONTEXT_EXT,
    CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED_EXT,
    GET_ENGINE_NAME,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_abis_and_each_is_there_once() {
        let all: Vec<&str> =
            [&BASE[..], &BASE_OPTIONAL, &ENGINE, &ENGINE_OPTIONAL].concat().iter().map(|name| name.to_str().expect("ASCII")).collect();
        for (i, name) in all.iter().enumerate() {
            assert!(!all[..i].contains(name), "{name}");
            let is_base = i < BASE.len() + BASE_OPTIONAL.len();
            let rest = name.strip_prefix(if is_base { "hipdnnPlugin" } else { "hipdnnEnginePlugin" }).expect("the prefix");
            assert!(rest.starts_with(|c: char| c.is_ascii_uppercase()), "{name}");
        }
    }
}
