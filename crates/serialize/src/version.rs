//! The engine-plugin API version: what a provider states and a graph requires.

use std::fmt;
use std::str::FromStr;

/// A version of hipDNN's engine-plugin API, ordered as semver orders releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// Incompatible changes.
    pub major: u32,
    /// Additions.
    pub minor: u32,
    /// Repairs.
    pub patch: u32,
}

impl ApiVersion {
    /// A version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// What every plugin speaks; also the version of a plugin that states none.
    pub const BASELINE: Self = Self::new(1, 0, 0);
    /// Execute-time shapes.
    pub const OVERRIDE_SHAPES: Self = Self::new(1, 1, 0);
    /// Runtime pass-by-value scalars (R16 §4.7).
    pub const RUNTIME_PASS_BY_VALUE: Self = Self::new(1, 2, 0);
    /// Ragged tensors, and alignments other than 16.
    pub const RAGGED_OR_ALIGNMENT: Self = Self::new(1, 3, 0);
    /// Ragged offsets with a multiplier.
    pub const RAGGED_MULTIPLIER: Self = Self::new(1, 4, 0);
    /// The newest version whose features this crate can read.
    pub const NEWEST_KNOWN: Self = Self::RAGGED_MULTIPLIER;
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A text that is not `MAJOR.MINOR.PATCH`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("API version {0:?} is not MAJOR.MINOR.PATCH")]
pub struct ParseVersionError(pub String);

impl FromStr for ApiVersion {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, ParseVersionError> {
        let fail = || ParseVersionError(text.to_owned());
        let mut parts = text.split('.').map(|part| {
            let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
            if plain { part.parse::<u32>().map_err(|_| fail()) } else { Err(fail()) }
        });
        let mut next = || parts.next().ok_or_else(fail)?;
        let version = Self::new(next()?, next()?, next()?);
        if parts.next().is_some() { Err(fail()) } else { Ok(version) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_text() {
        assert!(ApiVersion::BASELINE < ApiVersion::OVERRIDE_SHAPES);
        assert!(ApiVersion::new(1, 10, 0) > ApiVersion::new(1, 9, 9));
        assert_eq!("1.2.0".parse(), Ok(ApiVersion::RUNTIME_PASS_BY_VALUE));
        for bad in ["", "1", "1.2", "1.2.3.4", "1.2.x", "1.-2.0", "1.+2.0", "1..2", "01.2.3", "99999999999.0.0"] {
            assert!(bad.parse::<ApiVersion>().is_err(), "{bad}");
        }
    }
}
