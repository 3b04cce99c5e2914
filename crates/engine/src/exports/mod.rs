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
