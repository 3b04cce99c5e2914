//! Whose memory a buffer is.

use std::fmt;

/// Whose memory a buffer is. A bound plan takes buffers of its own device only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemorySpace {
    /// This process: slices, and what else the processor addresses.
    Host,
    /// A HIP device.
    Hip {
        /// Number of the device within its runtime, as HIP counts.
        ordinal: u16,
        /// Which of the HIP runtimes that this process has opened: 0 where there is only one.
        runtime: u16,
    },
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host memory"),
            Self::Hip { ordinal, runtime: 0 } => write!(f, "memory of HIP device {ordinal}"),
            Self::Hip { ordinal, runtime } => write!(f, "memory of HIP device {ordinal} of the runtime opened as number {runtime}"),
        }
    }
}
