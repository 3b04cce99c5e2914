//! Where plans execute.

use crate::hip::{HipDevice, HipRuntime};
use crate::{ExecError, MemorySpace};
use hipplan_serialize::Target;
use std::fmt;

/// A device that plans are bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// This process: buffers are its memory, and an execution has finished when `execute` returns.
    Cpu,
    /// An AMD GPU: buffers are its memory, and executions are put on streams.
    Hip(HipDevice),
}

impl Device {
    /// The AMD GPU with this number, of the HIP runtime that [`HipRuntime::find`] finds.
    ///
    /// # Errors
    /// There is no HIP runtime or no such device, or its architecture has no target.
    pub fn hip(ordinal: u32) -> Result<Self, ExecError> {
        Ok(Self::Hip(HipRuntime::find()?.device(ordinal)?))
    }

    /// The device that a text names: `cpu`, `hip` (the first AMD GPU) or `hip:N`.
    ///
    /// # Errors
    /// The text names none, or the device is not there.
    pub fn parse(text: &str) -> Result<Self, ExecError> {
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "hip" => Self::hip(0),
            // Digits only: a number may also start with a plus sign.
            Some(("hip", digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Self::hip(digits.parse().map_err(|_| ExecError::DeviceName { text: text.to_owned() })?)
            }
            _ => Err(ExecError::DeviceName { text: text.to_owned() }),
        }
    }

    /// Its target, with all features that it reports.
    pub fn target(&self) -> &Target {
        match self {
            Self::Cpu => &Target::Cpu,
            Self::Hip(device) => device.target(),
        }
    }

    /// Targets whose plans are looked up for the device, best first. It runs those of some others too, of which
    /// [`Target::loads_on`] tells.
    pub fn targets(&self) -> Vec<Target> {
        match self {
            Self::Cpu => vec![Target::Cpu],
            Self::Hip(device) => device.targets(),
        }
    }

    /// Whose memory its buffers are.
    pub fn memory_space(&self) -> MemorySpace {
        match self {
            Self::Cpu => MemorySpace::Host,
            Self::Hip(device) => device.memory_space(),
        }
    }
}

impl fmt::Display for Device {
    /// As [`Device::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Hip(device) => write!(f, "hip:{}", device.ordinal()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_no_device_is_refused() {
        assert_eq!(Device::parse("cpu").ok(), Some(Device::Cpu));
        for text in ["", "CPU", "cpu:0", "gpu", "hip:", "hip:-1", "hip:+1", "hip:1:2", "hip:99999999999999999999", "hip 0"] {
            assert!(matches!(Device::parse(text), Err(ExecError::DeviceName { .. })), "{text}");
        }
    }
}
