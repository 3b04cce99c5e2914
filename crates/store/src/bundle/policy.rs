//! Whether it matters who signed what a layer holds.

use super::keys::{PublicKey, read_trusted_keys};
use super::sign::trusted_signer;
use crate::pack::Pack;
use crate::{StoreError, faults};
use std::ffi::OsString;
use std::path::Path;

/// What is done about signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SignaturePolicy {
    /// Nothing: they are not looked at.
    #[default]
    Off,
    /// What no trusted key has signed is warned of, once, and used.
    Warn,
    /// What no trusted key has signed is never used: neither a bundle, nor a pack of a folder, nor a loose file, which cannot be signed.
    Require,
}

/// How a layer that is only read is treated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerOptions {
    /// What is done about signatures.
    pub signatures: SignaturePolicy,
    /// Keys whose signatures count.
    pub trusted: Vec<PublicKey>,
}

/// The environment asks for something that cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerOptionsError {
    /// No such policy.
    #[error("HIPPLAN_SIGNATURES is {found:?}, expected `off`, `warn` or `require`")]
    Policy {
        /// The value.
        found: OsString,
    },
    /// Signatures are to be looked at, and no key is trusted.
    #[error(
        "HIPPLAN_SIGNATURES is {policy:?} and no key is trusted; let HIPPLAN_TRUSTED_KEYS name a file with public keys, one a line, or a folder of such files that end in .pub"
    )]
    NoKeys {
        /// The value.
        policy: &'static str,
    },
    /// The keys cannot be read.
    #[error("HIPPLAN_TRUSTED_KEYS: {0}")]
    Keys(#[from] StoreError),
}

impl SignaturePolicy {
    /// The word for it in the environment.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Require => "require",
        }
    }
}

impl LayerOptions {
    /// What `HIPPLAN_SIGNATURES` and `HIPPLAN_TRUSTED_KEYS` say; signatures are not looked at where neither is set.
    ///
    /// # Errors
    /// They say something that cannot be done. Nothing is to be read then: a policy that is not understood is not one that was not set.
    pub fn from_environment() -> Result<Self, LayerOptionsError> {
        Self::from_variables(&|name| std::env::var_os(name))
    }

    /// As [`from_environment`](Self::from_environment), of an environment that is handed in.
    ///
    /// # Errors
    /// As there.
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, LayerOptionsError> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let policies = [SignaturePolicy::Off, SignaturePolicy::Warn, SignaturePolicy::Require];
        let signatures = match set("HIPPLAN_SIGNATURES") {
            None => SignaturePolicy::Off,
            Some(found) => {
                let known = policies.into_iter().find(|policy| found == policy.word());
                known.ok_or(LayerOptionsError::Policy { found })?
            }
        };
        if signatures == SignaturePolicy::Off {
            return Ok(Self::default());
        }
        let trusted = match set("HIPPLAN_TRUSTED_KEYS") {
            Some(path) => read_trusted_keys(Path::new(&path))?,
            None => Vec::new(),
        };
        if trusted.is_empty() {
            return Err(LayerOptionsError::NoKeys { policy: signatures.word() });
        }
        Ok(Self { signatures, trusted })
    }
}

/// Whether a pack was good and not signed as it must be.
pub(crate) fn is_refusal(error: &StoreError) -> bool {
    matches!(error.code(), "unsigned" | "untrusted")
}

/// The options of a layer, as the layer asks them.
#[derive(Debug, Default)]
pub(crate) struct Trust(LayerOptions);

impl Trust {
    pub(crate) fn of(options: &LayerOptions) -> Self {
        Self(options.clone())
    }

    /// Whether files that cannot be signed may be used.
    pub(crate) fn takes_loose_files(&self) -> bool {
        self.0.signatures != SignaturePolicy::Require
    }

    /// Checks a pack that was just opened. Where signatures matter, all its tables are read once and held, so that what is found in them
    /// later is what was signed, whatever becomes of the file.
    pub(crate) fn check(&self, pack: &mut Pack) -> Result<(), StoreError> {
        if self.0.signatures == SignaturePolicy::Off {
            // What they are worth makes no difference. That they are some does: anything else behind a pack is damage.
            return pack.signatures().map(drop);
        }
        self.check_signed(pack)
    }

    /// Out of line: the arithmetic of signatures wants more stack than all the rest of opening a store.
    #[inline(never)]
    fn check_signed(&self, pack: &mut Pack) -> Result<(), StoreError> {
        pack.hold_tables()?;
        let signed = pack.check_root().and_then(|()| trusted_signer(pack, &self.0.trusted));
        match signed {
            Ok(_) => Ok(()),
            Err(error) if self.0.signatures == SignaturePolicy::Warn && is_refusal(&error) => {
                faults::untrusted(&error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::SecretKey;

    #[test]
    fn the_environment_is_understood_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let keys = dir.path().join("keys");
        let key = SecretKey::from_seed([3; 32]).public();
        std::fs::write(&keys, key.to_string()).unwrap();
        let read = |policy: &str, keys: Option<&Path>| {
            let variable = |name: &str| match name {
                "HIPPLAN_SIGNATURES" => Some(OsString::from(policy)),
                "HIPPLAN_TRUSTED_KEYS" => keys.map(|keys| keys.as_os_str().to_owned()),
                _ => None,
            };
            LayerOptions::from_variables(&variable)
        };
        assert_eq!(read("", None).unwrap(), LayerOptions::default());
        assert_eq!(read("off", Some(Path::new("/no/such/file"))).unwrap(), LayerOptions::default());
        assert_eq!(read("require", Some(&keys)).unwrap(), LayerOptions { signatures: SignaturePolicy::Require, trusted: vec![key] });
        assert_eq!(read("warn", Some(&keys)).unwrap().signatures, SignaturePolicy::Warn);
        assert!(matches!(read("Require", Some(&keys)), Err(LayerOptionsError::Policy { .. })));
        assert!(matches!(read("require", None), Err(LayerOptionsError::NoKeys { .. })));
        assert!(matches!(read("warn", Some(Path::new("/no/such/file"))), Err(LayerOptionsError::Keys(_))));
    }
}
