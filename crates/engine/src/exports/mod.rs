//! The functions of hipDNN's engine-plugin ABI. Unsafe: every pointer is what the ABI says of it; what is null where it may not be is answered
//! with BAD_PARAM.
//!
//! There is no plain `hipdnnEnginePluginSerializeExecutionContext`: hosts that look for it disagree about the arguments of the function that
//! makes a context of the bytes, and the name does not tell them apart. Hosts that know `...WithEngineId` agree.
#![expect(clippy::missing_safety_doc, reason = "said once, above, for all functions")]

mod base;
mod contexts;
mod engines;
mod serialized;

pub use base::*;
pub use contexts::*;
pub use engines::*;
pub use serialized::*;

/// What is exported has the types of the ABI.
const _: () = {
    use hipplan_engine_abi::functions::*;
    let _: (GetName, GetVersion, GetType) = (hipdnnPluginGetName, hipdnnPluginGetVersion, hipdnnPluginGetType);
    let _: (GetLastErrorString, GetApiVersion) = (hipdnnPluginGetLastErrorString, hipdnnPluginGetApiVersion);
    let _: (SetLoggingCallback, SetLogLevel) = (hipdnnPluginSetLoggingCallback, hipdnnPluginSetLogLevel);
    let _: (GetAllEngineIds, GetEngineName) = (hipdnnEnginePluginGetAllEngineIds, hipdnnEnginePluginGetEngineName);
    let _: (Create, Destroy, SetStream) = (hipdnnEnginePluginCreate, hipdnnEnginePluginDestroy, hipdnnEnginePluginSetStream);
    let _: GetApplicableEngineIds = hipdnnEnginePluginGetApplicableEngineIds;
    let _: (GetEngineDetails, DestroyEngineDetails) = (hipdnnEnginePluginGetEngineDetails, hipdnnEnginePluginDestroyEngineDetails);
    let _: GetWorkspaceSize = hipdnnEnginePluginGetWorkspaceSize;
    let _: CreateExecutionContext = hipdnnEnginePluginCreateExecutionContext;
    let _: DestroyExecutionContext = hipdnnEnginePluginDestroyExecutionContext;
    let _: GetWorkspaceSizeFromExecutionContext = hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext;
    let _: ExecuteOpGraph = hipdnnEnginePluginExecuteOpGraph;
    let _: ExecuteOpGraphWithOverrides = hipdnnEnginePluginExecuteOpGraphWithOverrides;
    let _: SerializeExecutionContextWithEngineId = hipdnnEnginePluginSerializeExecutionContextWithEngineId;
    let _: DestroySerializedExecutionContext = hipdnnEnginePluginDestroySerializedExecutionContext;
    let _: CreateExecutionContextFromSerialized = hipdnnEnginePluginCreateExecutionContextFromSerialized;
};
