//! Signing a bundle, and what its signatures are worth.

use super::keys::{PublicKey, SecretKey};
use super::output;
use crate::pack::{Pack, PackError, SignatureBlock};
use crate::{Limits, StoreError};
use ed25519_dalek::{Signature, Signer, VerifyingKey};
use std::path::Path;

/// What a signature of a bundle is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureStanding {
    /// The key that it is said to be by.
    pub key: [u8; 32],
    /// It is by that key, and over this bundle.
    pub is_valid: bool,
}

/// Adds a signature to a bundle, which is replaced by a copy that has it; tells whether there is a new one. A bundle may have several,
/// by different keys.
///
/// What is signed is the root of the bundle: header, rows and provenance, and by the rows' digests every byte of every entry. So only a
/// bundle whose tables are right is signed. That the entries are right, whoever reads them finds out one by one.
///
/// # Errors
/// It is no bundle, or a damaged one, or has too many signatures; or it cannot be written.
pub fn sign_bundle(path: &Path, key: &SecretKey, limits: &Limits) -> Result<bool, StoreError> {
    let pack = output::open(path, limits)?;
    pack.check_root()?;
    let public_key = key.public().to_bytes();
    let standings = standings(&pack)?;
    if standings.iter().any(|standing| standing.key == public_key && standing.is_valid) {
        return Ok(false);
    }
    let most = Pack::MOST_SIGNATURES;
    if standings.len() as u64 >= most {
        let (what, found) = ("number of signatures", standings.len().to_string());
        return Err(StoreError::pack(path, PackError::Refused { what, found, expected: format!("fewer than {most} before one is added") }));
    }
    let signature = key.0.sign(&SignatureBlock::message(pack.root())).to_bytes();
    let block = SignatureBlock { public_key, signature }.encode();
    output::copy_and_append(&pack, &block)?;
    Ok(true)
}

/// Of every signature, in the order of the file, what it is worth.
pub(super) fn standings(pack: &Pack) -> Result<Vec<SignatureStanding>, StoreError> {
    let message = SignatureBlock::message(pack.root());
    let standing = |block: SignatureBlock| {
        let signature = Signature::from_bytes(&block.signature);
        // Strict: a key that signs anything, and a signature with more than one spelling, are none.
        let is_valid = VerifyingKey::from_bytes(&block.public_key).is_ok_and(|key| key.verify_strict(&message, &signature).is_ok());
        SignatureStanding { key: block.public_key, is_valid }
    };
    Ok(pack.signatures()?.into_iter().map(standing).collect())
}

/// A trusted key that has signed the pack, whose root must have been checked.
pub(super) fn trusted_signer(pack: &Pack, trusted: &[PublicKey]) -> Result<PublicKey, StoreError> {
    let standings = standings(pack)?;
    let good = standings.iter().find(|standing| standing.is_valid && trusted.contains(&PublicKey(standing.key)));
    if let Some(good) = good {
        return Ok(PublicKey(good.key));
    }
    let found: Vec<String> = standings
        .iter()
        .map(|standing| format!("{} ({})", PublicKey(standing.key), if standing.is_valid { "not trusted" } else { "wrong" }))
        .collect();
    let cause =
        if found.is_empty() { PackError::Unsigned } else { PackError::Untrusted { found: found.join(", "), trusted: trusted.len() } };
    Err(StoreError::pack(pack.path(), cause))
}
