//! Keys of signatures: as bytes, as text, as files.

use crate::{StoreError, faults, fs};
use ed25519_dalek::SigningKey;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What a public key begins with as text.
const PUBLIC: &str = "hipplan-public:";
/// What a secret key begins with as text.
const SECRET: &str = "hipplan-secret:";
/// Longer files are no lists of keys.
const MAX_KEY_FILE_BYTES: u64 = 1 << 20;
/// Permissions that nobody but the owner of a secret key is to have.
const OF_OTHERS: u32 = 0o077;
/// Ending of the files that are read in a folder of keys.
const ENDING: &str = "pub";

/// The public half of a key: what a signature is checked with. As text one word, `hipplan-public:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub(super) [u8; 32]);

/// The secret half of a key: what a signature is made with. It is wiped from memory when it is dropped and is never printed.
pub struct SecretKey(pub(super) SigningKey);

/// A text that is no key, or a random number that is not to be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not the one word that a key is. What was found is not repeated: it may be a secret.
    #[error("no {what} key: expected `{prefix}` and 64 lower-case hexadecimal digits")]
    Text {
        /// Public or secret.
        what: &'static str,
        /// What it begins with.
        prefix: &'static str,
    },
    /// What stands there cannot be a file of keys.
    #[error("found {found}, expected a regular file of 1 MiB at most")]
    NotAFile {
        /// What it is.
        found: String,
    },
    /// The bytes are no point of the curve, or one that signs anything.
    #[error("public key {found} is not usable: it is no point of the curve, or one of small order; expected a key that `keygen` made")]
    Weak {
        /// The key.
        found: PublicKey,
    },
    /// The system has no random numbers.
    #[error("no key was made: the system gives no random numbers: {cause}")]
    Random {
        /// The system's answer.
        cause: String,
    },
}

impl PublicKey {
    /// The key of these bytes.
    ///
    /// # Errors
    /// Nothing can be signed with it, or anything is signed by it.
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self, KeyError> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(&bytes);
        match key {
            Ok(key) if !key.is_weak() => Ok(Self(bytes)),
            Ok(_) | Err(_) => Err(KeyError::Weak { found: Self(bytes) }),
        }
    }

    /// Its bytes.
    pub const fn to_bytes(self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = PUBLIC.to_owned();
        crate::layout::push_hex(&mut text, &self.0);
        f.write_str(&text)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::from_bytes(parse(text, PUBLIC).ok_or(KeyError::Text { what: "public", prefix: PUBLIC })?)
    }
}

impl SecretKey {
    /// A new key, of the system's random numbers.
    ///
    /// # Errors
    /// The system has none.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|e| KeyError::Random { cause: e.to_string() })?;
        Ok(Self::from_seed(seed))
    }

    /// The key of these 32 secret bytes.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// Reads the key from its file. If its group or others may do anything with it, that is warned of: whoever can read it can sign as its
    /// owner.
    ///
    /// # Errors
    /// The file cannot be read or holds no secret key.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let (text, file) = read_text(path)?;
        let seed = parse(text.trim_end(), SECRET).ok_or(KeyError::Text { what: "secret", prefix: SECRET });
        if seed.is_ok() && file.status().mode & OF_OTHERS != 0 {
            faults::secret_for_others(path, file.status().mode);
        }
        seed.map(Self::from_seed).map_err(|cause| StoreError::Key { path: path.to_owned(), line: None, cause })
    }

    /// Writes the key into a new file that its owner alone may read, and its public half into another.
    ///
    /// # Errors
    /// One of the files is there already, or cannot be written; then neither is left.
    pub fn write_new(&self, secret: &Path, public: &Path) -> Result<(), StoreError> {
        let absolute = |path| fs::absolute(path).map_err(StoreError::io("use the path", path));
        let (secret, public) = (&absolute(secret)?, &absolute(public)?);
        let mut text = SECRET.to_owned();
        crate::layout::push_hex(&mut text, self.0.as_bytes());
        text.push('\n');
        fs::write_new(secret, text.as_bytes(), 0o600).map_err(StoreError::io("create the file", secret))?;
        fs::write_new(public, format!("{}\n", self.public()).as_bytes(), 0o644).map_err(|e| {
            // A secret whose public half nobody has is of no use.
            drop(fs::unlink(secret));
            StoreError::io("create the file", public)(e)
        })
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public())
    }
}

/// The public keys of a file, one a line, or of all files of a folder that end in `.pub`. Behind a key may stand a remark, after a blank;
/// empty lines and those that begin with `#` are passed over.
///
/// # Errors
/// Something cannot be read, or a line holds no key: a list of keys that is only half understood trusts nobody.
pub fn read_trusted_keys(path: &Path) -> Result<Vec<PublicKey>, StoreError> {
    let status = fs::status_followed(path).map_err(StoreError::io("look at", path))?;
    let files: Vec<PathBuf> = if status.kind == fs::Kind::Folder {
        let names = fs::list(path).map_err(StoreError::io("list the folder", path))?;
        names.iter().map(|name| path.join(name)).filter(|file| file.extension().is_some_and(|e| e == ENDING)).collect()
    } else {
        vec![path.to_owned()]
    };
    let mut keys = Vec::new();
    for file in files {
        let (text, _) = read_text(&file)?;
        for (line, number) in text.lines().zip(1_u64..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let word = line.split_whitespace().next().unwrap_or_default();
            let key = word.parse().map_err(|cause| StoreError::Key { path: file.clone(), line: Some(number), cause })?;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    Ok(keys)
}

/// The text of a file of keys, and the file.
fn read_text(path: &Path) -> Result<(String, fs::OpenFile), StoreError> {
    // A link to a key is as good as a key.
    let real = fs::resolved(path).map_err(StoreError::io("open", path))?;
    let opened = fs::open(&real).map_err(StoreError::io("open", path))?;
    let wrong = |found| StoreError::Key { path: path.to_owned(), line: None, cause: KeyError::NotAFile { found } };
    let file = opened.map_err(|kind| wrong(kind.name().to_owned()))?;
    if file.size() > MAX_KEY_FILE_BYTES {
        return Err(wrong(format!("a file of {} bytes", file.size())));
    }
    let bytes = file.read().map_err(StoreError::io("read", path))?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), file))
}

fn parse(text: &str, prefix: &str) -> Option<[u8; 32]> {
    crate::layout::hex_bytes(text.strip_prefix(prefix)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_print_parse_and_stay_secret() {
        let key = SecretKey::from_seed([7; 32]);
        let public = key.public();
        assert_eq!(public.to_string().parse(), Ok(public));
        assert!(!format!("{key:?}").contains("0707"), "{key:?}");
        assert_ne!(SecretKey::generate().unwrap().public(), SecretKey::generate().unwrap().public());
        for bad in
            ["", "hipplan-public:", "hipplan-public:00", &public.to_string().to_uppercase(), &format!("{public} "), &format!("{public}0")]
        {
            assert!(matches!(bad.parse::<PublicKey>(), Err(KeyError::Text { .. })), "{bad:?}");
        }
        // The neutral element signs everything for everybody.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        assert!(matches!(PublicKey::from_bytes(neutral), Err(KeyError::Weak { .. })));
    }

    #[test]
    fn key_files_are_new_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let (secret, public) = (dir.path().join("k"), dir.path().join("k.pub"));
        let key = SecretKey::generate().unwrap();
        key.write_new(&secret, &public).unwrap();
        assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(SecretKey::read(&secret).unwrap().public(), key.public());
        assert_eq!(read_trusted_keys(&public).unwrap(), [key.public()]);

        let before = std::fs::read(&secret).unwrap();
        let other = SecretKey::generate().unwrap();
        other.write_new(&secret, &dir.path().join("other.pub")).unwrap_err();
        assert_eq!(std::fs::read(&secret).unwrap(), before);
        other.write_new(&dir.path().join("other"), &public).unwrap_err();
        assert!(!dir.path().join("other").exists() && !dir.path().join("other.pub").exists());
        assert!(SecretKey::read(&public).unwrap_err().to_string().contains("secret"));
    }

    #[test]
    fn lists_of_keys_are_files_or_folders_and_are_understood_whole() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = [[1; 32], [2; 32]].map(|seed| SecretKey::from_seed(seed).public());
        let file = dir.path().join("a.pub");
        std::fs::write(&file, format!("# ours\n\n{a} build farm\n{b}\n{a}\n")).unwrap();
        assert_eq!(read_trusted_keys(&file).unwrap(), [a, b]);
        std::fs::write(dir.path().join("b.pub"), b.to_string()).unwrap();
        std::fs::write(dir.path().join("notes.txt"), "no key").unwrap();
        assert_eq!(read_trusted_keys(dir.path()).unwrap(), [a, b]);
        std::fs::write(dir.path().join("c.pub"), format!("{a}\nnonsense\n")).unwrap();
        let error = read_trusted_keys(dir.path()).unwrap_err();
        assert_eq!(error.code(), "key");
        assert!(error.to_string().contains("c.pub:2"), "{error}");
        read_trusted_keys(&dir.path().join("missing")).unwrap_err();
    }
}
