//! Whose memory a buffer is.

use std::fmt;
use std::num::NonZeroU64;

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

/// A [`MemorySpace`] as one number, which is compared for every entry of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceKey(NonZeroU64);

impl SpaceKey {
    const HOST: NonZeroU64 = NonZeroU64::MIN;

    pub(crate) fn of(space: MemorySpace) -> Self {
        Self(match space {
            MemorySpace::Host => Self::HOST,
            MemorySpace::Hip { ordinal, runtime } => Self::HOST | (1 << 40) | (u64::from(ordinal) << 24) | (u64::from(runtime) << 8),
        })
    }

    pub(crate) fn space(self) -> MemorySpace {
        match self.0.get() {
            key if key == Self::HOST.get() => MemorySpace::Host,
            key => MemorySpace::Hip { ordinal: (key >> 24) as u16, runtime: (key >> 8) as u16 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_space_has_a_key_of_its_own() {
        let devices = [(0, 0), (1, 0), (0, 1), (u16::MAX, 0), (0, u16::MAX), (u16::MAX, u16::MAX)];
        let devices = devices.map(|(ordinal, runtime)| MemorySpace::Hip { ordinal, runtime });
        let spaces: Vec<MemorySpace> = std::iter::once(MemorySpace::Host).chain(devices).collect();
        for (i, &space) in spaces.iter().enumerate() {
            assert_eq!(SpaceKey::of(space).space(), space);
            assert!(spaces[..i].iter().all(|&other| SpaceKey::of(other) != SpaceKey::of(space)));
        }
    }
}
