//! The executor: a stored plan is opened, bound to a device and executed, with no graph and no compiler.
//!
//! * [`Plan`]: a checked plan file; [`BoundPlan`]: loaded on a [`Device`] and ready.
//! * [`VariantPack`]: what one execution is given, by tensor uid.
//! * [`Loader`]: the executing half of a provider; [`cpu`]: the CPU provider's kernels; [`hip`]: AMD GPUs; [`plugin`]: hipDNN's engine plugins.
//! * [`mod@reference`]: naive implementations in higher precision, which every provider is checked against.

mod agreement;
mod argument_table;
mod arguments;
mod code_objects;
pub mod cpu;
mod cpu_loader;
mod device;
mod error;
pub mod hip;
mod host_memory;
mod loader;
mod lock;
mod memory_space;
mod plan;
pub mod plugin;
pub mod reference;
mod requirement;
mod restore;
mod shapes;
mod stream;
mod variant_pack;
mod workspace;

pub use arguments::{Arguments, BindingIx};
pub use code_objects::CodeObjects;
pub use cpu_loader::{CPU_PAYLOAD_KIND, CPU_PAYLOAD_VERSION, CpuLoader};
pub use device::Device;
pub use error::{ExecError, InvalidValue};
pub use loader::{Executable, Loader, Loaders};
pub use memory_space::MemorySpace;
pub use plan::{BoundPlan, Plan};
pub use requirement::Requirement;
pub use restore::{Restore, RestoreMiss, describe_misses, find_by_graph_key, find_for_targets};
pub use shapes::{ShapeError, ShapeOverrides, TensorShape};
pub use stream::{RawHipStream, Stream};
pub use variant_pack::VariantPack;
pub use workspace::{WORKSPACE_ALIGN, Workspace, WorkspaceRef};
