//! Signature blocks: what may follow a pack. Making and checking signatures is done elsewhere.

use super::error::PackError;
use bytemuck::{Pod, Zeroable};

const MAGIC: [u8; 8] = *b"\x89HPSG\r\n\x1a";
const CONTEXT: [u8; 24] = *b"hipplan pack signature 1";

/// A signature over the root of a pack, and the key that it is said to be by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignatureBlock {
    /// Ed25519 public key.
    pub(crate) public_key: [u8; 32],
    /// Ed25519 signature of [`message`](Self::message).
    pub(crate) signature: [u8; 64],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawBlock {
    magic: [u8; 8],
    public_key: [u8; 32],
    signature: [[u8; 32]; 2],
    reserved: [u8; 24],
}

const _: () = assert!(size_of::<RawBlock>() == SignatureBlock::BYTES);

impl SignatureBlock {
    /// Bytes of a block.
    pub(crate) const BYTES: usize = super::format::SIGNATURE as usize;

    /// What is signed of a pack with this root.
    pub(crate) fn message(root: &[u8; 32]) -> [u8; 56] {
        let mut message = [0; 56];
        let (context, rest) = message.split_at_mut(CONTEXT.len());
        context.copy_from_slice(&CONTEXT);
        rest.copy_from_slice(root);
        message
    }

    /// Its bytes.
    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let signature = bytemuck::cast(self.signature);
        bytemuck::cast(RawBlock { magic: MAGIC, public_key: self.public_key, signature, ..RawBlock::zeroed() })
    }

    pub(super) fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, PackError> {
        let raw: &RawBlock = bytemuck::cast_ref(bytes);
        let wrong = |field, found: String, expected: String| Err(PackError::Field { field, found, expected });
        if raw.magic != MAGIC {
            return wrong("magic of a signature block", format!("{:02x?}", raw.magic), format!("{MAGIC:02x?}"));
        }
        if let Some(byte) = raw.reserved.iter().find(|&&byte| byte != 0) {
            return wrong("a reserved byte of a signature block", byte.to_string(), "0".into());
        }
        Ok(Self { public_key: raw.public_key, signature: bytemuck::cast(raw.signature) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_round_trip_and_no_byte_of_one_can_change_unnoticed() {
        let block = SignatureBlock { public_key: [7; 32], signature: std::array::from_fn(|i| i as u8) };
        let good = block.encode();
        assert_eq!(SignatureBlock::decode(&good), Ok(block));
        for at in 0..good.len() {
            let mut bad = good;
            bad[at] ^= 1;
            assert_ne!(SignatureBlock::decode(&bad), Ok(block), "{at}");
        }
        assert_eq!(SignatureBlock::message(&[3; 32])[..24], *b"hipplan pack signature 1");
        assert_eq!(SignatureBlock::message(&[3; 32])[24..], [3; 32]);
    }
}
