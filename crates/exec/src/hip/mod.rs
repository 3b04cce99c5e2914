//! AMD GPUs: the HIP runtime, its devices, and plans of the `hip` provider on them.
//!
//! Nothing is linked with HIP: [`HipRuntime::find`] opens its library on first use (with the feature `hip-link`, the program is linked with
//! it instead). A runtime stays loaded until the process ends. After `fork` every call is refused in the child; when the process exits,
//! nothing is given back any more.
//!
//! Unsafe code is in the modules of what it calls HIP for: `symbols`, `process`, `runtime`, `device`, `memory`, `stream`, `event`,
//! `module`, `launch`, and the one call of the latter in `executable`.

mod check;
mod code;
mod code_object;
mod device;
mod error;
mod event;
mod executable;
mod launch;
mod loader;
mod memory;
mod module;
mod process;
mod program;
mod runtime;
mod scalar;
mod stream;
mod symbols;

pub use crate::workspace::HIP_WORKSPACE_ALIGN;
pub use check::HipProgramError;
pub use code::HipCode;
pub(crate) use device::CurrentDevice;
pub use device::HipDevice;
pub use error::{HipError, HipFailure, LoadAttempt, LoadFailure};
pub use event::HipEvent;
pub use loader::{HIP_PAYLOAD_KIND, HIP_PAYLOAD_VERSION, HipLoader};
pub use memory::{DeviceMemory, DeviceSlice, DeviceSliceMut};
pub(crate) use process::may_release;
pub use program::{ArgumentPatch, HipProgram, HipTensor, KernelEntry, Launch, PatchSource, ScalarType, TensorPlace};
pub use runtime::{HIP_LIBRARY_VARIABLE, HipRuntime};
pub use stream::HipStream;
