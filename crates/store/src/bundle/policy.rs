//! Whether it matters who signed what a layer holds.

use super::keys::{PublicKey, read_trusted_keys};
use super::sign::trusted_signer;
use crate::pack::Pack;
use crate::{StoreError, faults};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

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
    /// Signatures are to be looked at, by `HIPPLAN_SIGNATURES` or by what names a layer, and no key is trusted.
    #[error(
        "signatures are under the policy {policy:?} and no key is trusted; let HIPPLAN_TRUSTED_KEYS name a file with public keys, one a line, or a folder of such files that end in .pub"
    )]
    NoKeys {
        /// The word for it.
        policy: &'static str,
    },
    /// The keys cannot be read.
    #[error("HIPPLAN_TRUSTED_KEYS: {0}")]
    Keys(#[from] StoreError),
}

impl SignaturePolicy {
    const ALL: [Self; 3] = [Self::Off, Self::Warn, Self::Require];

    /// The word for it in the environment.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Require => "require",
        }
    }
}

/// A layer as options and the environment name it: a path, and before it, if the layer is held to another policy than the others, that
/// policy and `=`, as in `require=/opt/plans/site.hpbundle`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedLayer {
    /// A bundle, or the folder of a store.
    pub path: PathBuf,
    /// What is done about its signatures; `None` where that is said for all layers.
    pub signatures: Option<SignaturePolicy>,
}

impl NamedLayer {
    /// Takes a name apart. A path that begins like a policy is written with `./` before it.
    pub fn of(name: &OsStr) -> Self {
        let bytes = name.as_bytes();
        for policy in SignaturePolicy::ALL {
            if let Some(path) = bytes.strip_prefix(policy.word().as_bytes()).and_then(|rest| rest.strip_prefix(b"=")) {
                return Self { path: OsStr::from_bytes(path).into(), signatures: Some(policy) };
            }
        }
        Self { path: name.into(), signatures: None }
    }

    /// How it is treated: as its name says, else as the environment does.
    ///
    /// # Errors
    /// Those of [`LayerOptions::from_environment`], which count whatever the name says.
    pub fn options(&self) -> Result<LayerOptions, LayerOptionsError> {
        self.options_with(&|name| std::env::var_os(name))
    }

    /// As [`options`](Self::options), of an environment that is handed in.
    ///
    /// # Errors
    /// As there.
    pub fn options_with(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<LayerOptions, LayerOptionsError> {
        LayerOptions::read(self.signatures, variable)
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
        Self::read(None, variable)
    }

    /// What the variables say, `own` being the policy of a layer that has one.
    fn read(own: Option<SignaturePolicy>, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, LayerOptionsError> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let of_all = match set("HIPPLAN_SIGNATURES") {
            None => SignaturePolicy::Off,
            Some(found) => {
                let known = SignaturePolicy::ALL.into_iter().find(|policy| found == policy.word());
                known.ok_or(LayerOptionsError::Policy { found })?
            }
        };
        let signatures = own.unwrap_or(of_all);
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

    /// Whether signatures are looked at.
    pub(crate) fn looks(&self) -> bool {
        self.0.signatures != SignaturePolicy::Off
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

    #[test]
    fn a_layer_is_named_with_a_policy_of_its_own_or_without() {
        let of = |name: &str| {
            let NamedLayer { path, signatures } = NamedLayer::of(name.as_ref());
            (path.to_str().unwrap().to_owned(), signatures)
        };
        for (name, path, policy) in [
            ("/opt/a", "/opt/a", None),
            ("require=/opt/a", "/opt/a", Some(SignaturePolicy::Require)),
            ("warn=a=b", "a=b", Some(SignaturePolicy::Warn)),
            ("off=", "", Some(SignaturePolicy::Off)),
            ("off=warn=a", "warn=a", Some(SignaturePolicy::Off)),
            // Paths, all of them.
            ("./require=a", "./require=a", None),
            ("Require=a", "Require=a", None),
            ("require", "require", None),
            ("required=a", "required=a", None),
            ("=a", "=a", None),
        ] {
            assert_eq!(of(name), (path.to_owned(), policy), "{name}");
        }
        let keys = tempfile::NamedTempFile::new().unwrap();
        let key = SecretKey::from_seed([3; 32]).public();
        std::fs::write(keys.path(), key.to_string()).unwrap();
        let read = |name: &str, of_all: &str, has_keys: bool| {
            let variable = |name: &str| match name {
                "HIPPLAN_SIGNATURES" => Some(OsString::from(of_all)),
                "HIPPLAN_TRUSTED_KEYS" => has_keys.then(|| keys.path().into()),
                _ => None,
            };
            NamedLayer::of(name.as_ref()).options_with(&variable)
        };
        let policy = |name: &str, of_all: &str| read(name, of_all, true).map(|options| options.signatures).unwrap();
        assert_eq!(policy("a", "warn"), SignaturePolicy::Warn);
        assert_eq!(policy("require=a", ""), SignaturePolicy::Require);
        assert_eq!(policy("require=a", "off"), SignaturePolicy::Require);
        assert_eq!(policy("off=a", "require"), SignaturePolicy::Off);
        assert_eq!(read("require=a", "", true).unwrap().trusted, [key]);
        assert!(matches!(read("require=a", "", false), Err(LayerOptionsError::NoKeys { policy: "require" })));
        // What is not understood is an error for every layer.
        assert!(matches!(read("off=a", "perhaps", true), Err(LayerOptionsError::Policy { .. })));
    }
}
