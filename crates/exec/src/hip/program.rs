//! The `hip` provider's program: what a plan's payload holds. Flat arrays addressed by position; nothing is nested.

use rkyv::{Archive, Deserialize, Serialize};

/// Kernels, and the launches that execute a graph, in order on one stream.
///
/// A kernel takes one argument, a struct by value: a launch passes its bytes as the whole kernarg segment. The bytes are a template;
/// addresses of tensors and values of scalars are written into it at execute.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone, Default)]
pub struct HipProgram {
    /// Tensors that some launch addresses, and scalars that some launch takes.
    pub tensors: Vec<HipTensor>,
    /// Kernels, each used by some launch.
    pub kernels: Vec<KernelEntry>,
    /// Launches, in order.
    pub launches: Vec<Launch>,
    /// Patches of all launches, grouped by launch.
    pub patches: Vec<ArgumentPatch>,
    /// Kernarg templates of all launches; each starts at a multiple of 8.
    pub kernargs: Vec<u8>,
    /// Bytes of workspace.
    pub workspace_size: u64,
}

/// One tensor or scalar of a program.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone, Copy)]
pub struct HipTensor {
    /// Where it lies.
    pub place: TensorPlace,
    /// Bytes from its first element to its last, or reserved for it in the workspace; for a scalar, the size of the element.
    pub bytes: u64,
    /// Whether some launch writes it.
    pub written: bool,
}

/// Where a tensor lies.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone, Copy)]
pub enum TensorPlace {
    /// In device memory whose address is given per execute.
    External {
        /// Canonical ordinal: the binding of the plan.
        ordinal: u32,
    },
    /// In host memory: one element, read during the call. Its type is the binding's.
    Scalar {
        /// Canonical ordinal: the binding of the plan.
        ordinal: u32,
    },
    /// In the workspace.
    Workspace {
        /// Byte offset, a multiple of 256.
        offset: u64,
    },
}

/// A kernel of a code object.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone)]
pub struct KernelEntry {
    /// Position of its code object in the plan's metadata.
    pub code_object: u32,
    /// Its symbol.
    pub name: String,
    /// Size of its argument struct in bytes: the explicit kernarg segment.
    pub kernarg_size: u32,
    /// Threads of a block, in one dimension.
    pub block: u32,
}

/// One launch.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone, Copy)]
pub struct Launch {
    /// Position of its kernel.
    pub kernel: u32,
    /// Blocks in each dimension, none of them 0.
    pub grid: [u32; 3],
    /// Where its kernarg template starts in [`HipProgram::kernargs`]; it has the kernel's `kernarg_size` bytes.
    pub kernarg_at: u32,
    /// First of its patches.
    pub patches_at: u32,
    /// Number of its patches.
    pub patches: u32,
}

/// A value that is written into a kernarg template at execute.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone, Copy)]
pub struct ArgumentPatch {
    /// Byte offset in the template of the launch, aligned for what is written.
    pub offset: u32,
    /// Position of the tensor or scalar.
    pub tensor: u32,
    /// What is written.
    pub source: PatchSource,
}

/// What a patch writes.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Eq, Clone, Copy)]
pub enum PatchSource {
    /// 8 bytes: the device address of the tensor's first element.
    Address,
    /// The value of a scalar, converted from the binding's type.
    Value(ScalarType),
}

/// The type that a kernel takes a scalar in.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Eq, Clone, Copy)]
pub enum ScalarType {
    /// 4 bytes.
    F32,
    /// 8 bytes.
    F64,
}
