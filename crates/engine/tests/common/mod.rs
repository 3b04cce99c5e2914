//! The plugin as a host in the same process sees it: through its exported functions, with each status turned into a result.
#![allow(dead_code, reason = "each test binary uses a part")]

use hipplan_engine::exports::*;
use hipplan_engine_abi::status::{SUCCESS, Status};
use hipplan_engine_abi::types::{ConstData, DeviceBuffer, ExecutionContext, Handle};
use hipplan_exec::reference::{Inputs, Outputs};
use hipplan_serialize::hipdnn::engine::EngineConfig;
use hipplan_serialize::import::import;
use hipplan_serialize::{ConvMode, DataType, GraphBuf, GraphBuilder, Limits, PointwiseMode, TensorAttributes, Uid, ops};
use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};

/// A call that failed: status and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) Status, pub(crate) String);

/// What the host reads after a failure.
pub(crate) fn last_error() -> String {
    let mut text = std::ptr::null();
    // SAFETY: the pointer is to a pointer; the text stays until this thread's next failure.
    unsafe {
        hipdnnPluginGetLastErrorString(&raw mut text);
        CStr::from_ptr(text).to_str().expect("UTF-8").to_owned()
    }
}

pub(crate) fn done(status: Status) -> Result<(), Failed> {
    if status == SUCCESS { Ok(()) } else { Err(Failed(status, last_error())) }
}

/// A configuration of the engine, without settings.
pub(crate) fn config() -> Vec<u8> {
    EngineConfig { engine_id: hipplan_engine::ENGINE_ID, knobs: Vec::new() }.encode()
}

/// A handle.
pub(crate) struct Engine(pub(crate) Handle);

/// A context of a handle.
pub(crate) struct Context<'e> {
    engine: &'e Engine,
    pub(crate) raw: ExecutionContext,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: the handle was made by `new`.
        done(unsafe { hipdnnEnginePluginDestroy(self.0) }).expect("destroyed");
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: the plugin gave the context, and its handle lives.
        done(unsafe { hipdnnEnginePluginDestroyExecutionContext(self.engine.0, self.raw) }).expect("destroyed");
    }
}

impl Engine {
    pub(crate) fn new() -> Self {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a handle.
        done(unsafe { hipdnnEnginePluginCreate(&raw mut handle) }).expect("a handle");
        assert!(!handle.is_null());
        Self(handle)
    }

    /// Ids of the engines that take a graph.
    pub(crate) fn applicable(&self, graph: &[u8]) -> Result<Vec<i64>, Failed> {
        let (mut ids, mut num) = ([0; 4], u32::MAX);
        // SAFETY: the pointers are to what they are said to be.
        done(unsafe { hipdnnEnginePluginGetApplicableEngineIds(self.0, &ConstData::of(graph), ids.as_mut_ptr(), 4, &raw mut num) })?;
        Ok(ids[..num as usize].to_vec())
    }

    pub(crate) fn create(&self, graph: &[u8]) -> Result<Context<'_>, Failed> {
        self.create_with(&config(), graph)
    }

    pub(crate) fn create_with(&self, config: &[u8], graph: &[u8]) -> Result<Context<'_>, Failed> {
        let mut raw = std::ptr::dangling_mut();
        let (config, graph) = (ConstData::of(config), ConstData::of(graph));
        // SAFETY: the pointers are to what they are said to be.
        let status = unsafe { hipdnnEnginePluginCreateExecutionContext(self.0, &config, &graph, &raw mut raw) };
        self.made(status, raw)
    }

    pub(crate) fn restore(&self, bytes: &[u8]) -> Result<Context<'_>, Failed> {
        let mut raw = std::ptr::dangling_mut();
        // SAFETY: as above.
        let status = unsafe { hipdnnEnginePluginCreateExecutionContextFromSerialized(self.0, &ConstData::of(bytes), &raw mut raw) };
        self.made(status, raw)
    }

    fn made(&self, status: Status, raw: ExecutionContext) -> Result<Context<'_>, Failed> {
        let made = done(status);
        assert_eq!(raw.is_null(), made.is_err(), "a failure gives no context");
        made.map(|()| Context { engine: self, raw })
    }
}

impl Context<'_> {
    pub(crate) fn workspace_size(&self) -> usize {
        let mut size = usize::MAX;
        // SAFETY: the context lives, and the pointer is to a size.
        done(unsafe { hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(self.engine.0, self.raw, &raw mut size) }).expect("a size");
        size
    }

    /// Executes with a workspace of exactly the stated size, at an address that is a multiple of no more than 1.
    pub(crate) fn execute(&self, buffers: &[(i64, *mut c_void)]) -> Result<(), Failed> {
        let buffers: Vec<_> = buffers.iter().map(|&(uid, ptr)| DeviceBuffer { uid, ptr }).collect();
        let mut workspace = vec![0xaa_u8; self.workspace_size() + 1];
        let start = workspace.as_mut_ptr().wrapping_add(1);
        // SAFETY: the tests give pointers that are what the ABI says.
        done(unsafe { hipdnnEnginePluginExecuteOpGraph(self.engine.0, self.raw, start.cast(), buffers.as_ptr(), buffers.len() as u32) })
    }

    /// Executes with the harness's inputs and outputs.
    pub(crate) fn execute_inputs(&self, inputs: &Inputs, outputs: &mut Outputs) -> Result<(), Failed> {
        let elements: Vec<_> = inputs.scalars().iter().map(|s| s.value.to_element(s.value.data_type()).expect("an element")).collect();
        let mut buffers: Vec<(i64, *mut c_void)> = Vec::new();
        for input in inputs.tensors() {
            buffers.push((input.uid.0, input.tensor.bytes().as_ptr().cast_mut().cast()));
        }
        for (scalar, element) in inputs.scalars().iter().zip(&elements).filter(|(s, _)| !s.is_default) {
            buffers.push((scalar.uid.0, element.as_ptr().cast_mut().cast()));
        }
        for output in outputs.tensors_mut() {
            buffers.push((output.uid.0, output.tensor.bytes_mut().as_mut_ptr().cast()));
        }
        self.execute(&buffers)
    }

    pub(crate) fn serialize(&self) -> Vec<u8> {
        let mut lent = ConstData::EMPTY;
        // SAFETY: the context lives; the bytes are copied before they are given back.
        unsafe {
            let id = hipplan_engine::ENGINE_ID;
            done(hipdnnEnginePluginSerializeExecutionContextWithEngineId(self.engine.0, id, self.raw, &raw mut lent)).expect("bytes");
            let copy = std::slice::from_raw_parts(lent.ptr.cast::<u8>(), lent.size).to_vec();
            done(hipdnnEnginePluginDestroySerializedExecutionContext(self.engine.0, &raw mut lent)).expect("given back");
            assert_eq!(lent, ConstData::EMPTY);
            copy
        }
    }
}

/// Every graph of the shipped corpus and of the one made by hand, by file.
pub(crate) fn corpus() -> Vec<(PathBuf, GraphBuf)> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut files = Vec::new();
    for folder in ["graphs", "graphs-handmade"] {
        files.extend(std::fs::read_dir(home.join(folder)).expect("the corpus").map(|entry| entry.expect("an entry").path()));
    }
    files.retain(|path| path.extension().is_some_and(|e| e == "json"));
    files.sort();
    assert!(files.len() > 40, "{files:?}");
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("a file");
        let graph = import(&bytes, &Limits::DEFAULT).unwrap_or_else(|e| panic!("{}: {e}", path.display())).graph;
        (path, graph)
    };
    files.into_iter().map(read).collect()
}

/// A virtual tensor that two nodes read, so that it lies in a workspace: `v = conv(x, w)`, `y = relu(v)`, `z = |v|`; uids 1, 2, 4, 5.
pub(crate) fn two_readers() -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let tensor = |uid, dims: &[i64]| {
        let mut tensor = TensorAttributes::packed(DataType::Float, dims);
        tensor.set_uid(Uid(uid));
        tensor
    };
    let x = builder.tensor(tensor(1, &[1, 2, 4, 4]));
    let w = builder.tensor(tensor(2, &[3, 2, 1, 1]));
    let mut between = tensor(3, &[1, 3, 4, 4]);
    between.set_virtual(true);
    let between = builder.tensor(between);
    let y = builder.tensor(tensor(4, &[1, 3, 4, 4]));
    let z = builder.tensor(tensor(5, &[1, 3, 4, 4]));
    let conv = ops::ConvolutionFwd {
        x,
        w,
        y: between,
        pre_padding: &[0, 0],
        post_padding: &[0, 0],
        stride: &[1, 1],
        dilation: &[1, 1],
        conv_mode: ConvMode::CrossCorrelation,
    };
    builder.node("conv", DataType::Float, conv);
    builder.node("relu", DataType::Float, ops::Pointwise::unary(PointwiseMode::ReluFwd, between, y));
    builder.node("abs", DataType::Float, ops::Pointwise::unary(PointwiseMode::Abs, between, z));
    builder.build().expect("a graph")
}
