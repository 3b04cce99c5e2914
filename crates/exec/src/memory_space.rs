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

/// A [`MemorySpace`] as one number, which is compared for every entry of a pack: the space's own 32 bits of number, and their complement.
/// So the bits of one key are never all among those of another, and one test tells a space from others and lets [`ANY`](Self::ANY) pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceKey(u64);

impl SpaceKey {
    /// Memory that nobody said whose it is.
    pub(crate) const ANY: Self = Self(0);
    /// Number of host memory. That of a device is its ordinal and, above it, its runtime, of which there are never so many.
    const HOST: u32 = u32::MAX;

    pub(crate) fn of(space: MemorySpace) -> Self {
        let number = match space {
            MemorySpace::Host => Self::HOST,
            MemorySpace::Hip { ordinal, runtime } => u32::from(runtime) << 16 | u32::from(ordinal),
        };
        Self(u64::from(number) << 32 | u64::from(!number))
    }

    /// It is this space, or any.
    #[inline]
    pub(crate) fn is_within(self, space: Self) -> bool {
        self.0 & !space.0 == 0
    }

    pub(crate) fn space(self) -> MemorySpace {
        match (self.0 >> 32) as u32 {
            Self::HOST => MemorySpace::Host,
            number => MemorySpace::Hip { ordinal: number as u16, runtime: (number >> 16) as u16 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_space_has_a_key_of_its_own() {
        let devices = [(0, 0), (1, 0), (0, 1), (3, 0), (u16::MAX, 0), (0, u16::MAX), (u16::MAX, u16::MAX - 1)];
        let devices = devices.map(|(ordinal, runtime)| MemorySpace::Hip { ordinal, runtime });
        let spaces: Vec<MemorySpace> = std::iter::once(MemorySpace::Host).chain(devices).collect();
        for (i, &space) in spaces.iter().enumerate() {
            assert_eq!(SpaceKey::of(space).space(), space);
            for (j, &other) in spaces.iter().enumerate() {
                assert_eq!(SpaceKey::of(space).is_within(SpaceKey::of(other)), i == j, "{space} in {other}");
            }
            assert!(SpaceKey::ANY.is_within(SpaceKey::of(space)));
        }
    }
}
