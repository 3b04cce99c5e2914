//! How an entry lies in a remote tier: a small header and one zstd frame.
//!
//! Near tiers keep entries as they are, since hashing them is then all that a get costs; far ones are paid by the byte.
//! The layout is written down in `docs/remote.md`.

use std::io::Read;

const MAGIC: [u8; 8] = *b"\x89HPRM\r\n\x1a";
const VERSION: u16 = 1;
/// Magic, version u16, zero u16, zero u32, length u64.
const HEADER: usize = 24;
const LEVEL: i32 = 3;
/// A reader of one frame takes no more memory than this for its window: 8 MiB. Level 3 writes 2 MiB at most.
const WINDOW_LOG: u32 = 23;
/// What is taken for the result before anything of it is there.
const FIRST_PIECE: u64 = 1 << 20;

/// Why bytes from a remote tier are not an entry.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum WrapError {
    #[error("found {found} bytes, expected a header of {HEADER} at least")]
    Short { found: usize },
    #[error("found {found:02x?} at the beginning, expected {MAGIC:02x?}: not an entry of hipplan's")]
    Magic { found: [u8; 8] },
    #[error("version {found} is too new, this hipplan reads {VERSION}")]
    TooNew { found: u16 },
    #[error("version {found} is too old, this hipplan reads {VERSION}")]
    TooOld { found: u16 },
    #[error("a reserved field is not zero")]
    Reserved,
    #[error("an entry of {found} bytes, the reader's limit is {max}")]
    TooLarge { found: u64, max: u64 },
    #[error("unpacked to {found} bytes, its header says {expected}")]
    Length { found: u64, expected: u64 },
    #[error("more than the {expected} bytes that its header says")]
    Longer { expected: u64 },
    #[error("{found} bytes behind the zstd frame, expected none")]
    Trailing { found: usize },
    #[error("the zstd frame does not unpack: {0}")]
    Frame(String),
}

impl From<std::io::Error> for WrapError {
    fn from(error: std::io::Error) -> Self {
        Self::Frame(error.to_string())
    }
}

/// The most that an entry of `max` bytes takes when wrapped. Bytes that do not compress grow by less than a 256th.
pub(crate) fn most(max: u64) -> u64 {
    max.saturating_add(max >> 8).saturating_add(1024)
}

/// The bytes to send for an entry.
pub(crate) fn wrap(entry: &[u8]) -> Result<Vec<u8>, WrapError> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    // So that damage is noticed here, and told from an entry that is not what its name says.
    compressor.include_checksum(true)?;
    compressor.include_contentsize(true)?;
    let frame = compressor.compress(entry)?;
    let mut wrapped = Vec::with_capacity(HEADER.saturating_add(frame.len()));
    wrapped.extend_from_slice(&MAGIC);
    wrapped.extend_from_slice(&VERSION.to_le_bytes());
    wrapped.extend_from_slice(&[0; 6]);
    wrapped.extend_from_slice(&(entry.len() as u64).to_le_bytes());
    wrapped.extend_from_slice(&frame);
    Ok(wrapped)
}

/// The entry in bytes that came from a remote tier. Never more than `max` bytes are unpacked, nor than the header says.
pub(crate) fn unwrap(wrapped: &[u8], max: u64) -> Result<Vec<u8>, WrapError> {
    let (magic, rest) = split::<8>(wrapped, wrapped.len())?;
    if magic != MAGIC {
        return Err(WrapError::Magic { found: magic });
    }
    let (version, rest) = split::<2>(rest, wrapped.len())?;
    match u16::from_le_bytes(version) {
        VERSION => {}
        found if found > VERSION => return Err(WrapError::TooNew { found }),
        found => return Err(WrapError::TooOld { found }),
    }
    let (reserved, rest) = split::<6>(rest, wrapped.len())?;
    let (length, frame) = split::<8>(rest, wrapped.len())?;
    if reserved != [0; 6] {
        return Err(WrapError::Reserved);
    }
    let length = u64::from_le_bytes(length);
    if length > max {
        return Err(WrapError::TooLarge { found: length, max });
    }
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frame)?.single_frame();
    decoder.window_log_max(WINDOW_LOG)?;
    let first = usize::try_from(length.min(FIRST_PIECE)).unwrap_or_default();
    let mut entry = Vec::with_capacity(first);
    decoder.by_ref().take(length.saturating_add(1)).read_to_end(&mut entry)?;
    let found = entry.len() as u64;
    if found > length {
        return Err(WrapError::Longer { expected: length });
    }
    if found != length {
        return Err(WrapError::Length { found, expected: length });
    }
    match decoder.finish() {
        [] => Ok(entry),
        trailing => Err(WrapError::Trailing { found: trailing.len() }),
    }
}

/// The next `N` bytes and the rest; `found` is the length of the whole, for the message.
fn split<const N: usize>(bytes: &[u8], found: usize) -> Result<([u8; N], &[u8]), WrapError> {
    match bytes.split_first_chunk::<N>() {
        Some((chunk, rest)) => Ok((*chunk, rest)),
        None => Err(WrapError::Short { found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that no compressor makes smaller.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect()
    }

    #[test]
    fn there_and_back() {
        for entry in [vec![], vec![7], vec![0; 3 << 20], noise(3 << 20), noise(4095)] {
            let wrapped = wrap(&entry).unwrap();
            assert!(wrapped.len() as u64 <= most(entry.len() as u64));
            assert_eq!(unwrap(&wrapped, entry.len() as u64).unwrap(), entry);
        }
        assert!(wrap(&vec![0; 1 << 20]).unwrap().len() < 1000, "it is compressed");
    }

    #[test]
    fn no_byte_may_change_and_none_be_missing() {
        let entry = noise(300);
        let wrapped = wrap(&entry).unwrap();
        for at in 0..wrapped.len() {
            for bit in 0..8 {
                let mut damaged = wrapped.clone();
                damaged[at] ^= 1 << bit;
                if let Ok(found) = unwrap(&damaged, 1 << 20) {
                    // zstd ignores one bit of its frame header, by its specification.
                    assert_eq!(found, entry, "bit {bit} of byte {at}");
                }
            }
            assert!(unwrap(&wrapped[..at], 1 << 20).is_err(), "the first {at} bytes");
        }
        let mut longer = wrapped;
        longer.push(0);
        assert_eq!(unwrap(&longer, 1 << 20), Err(WrapError::Trailing { found: 1 }));
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let bomb = wrap(&vec![0; 16 << 20]).unwrap();
        assert_eq!(unwrap(&bomb, 1 << 20), Err(WrapError::TooLarge { found: 16 << 20, max: 1 << 20 }));
        let mut lying = bomb.clone();
        lying[16..24].copy_from_slice(&1000_u64.to_le_bytes());
        assert_eq!(unwrap(&lying, 1 << 20), Err(WrapError::Longer { expected: 1000 }));
        let mut boasting = wrap(&[1, 2, 3]).unwrap();
        boasting[16..24].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        assert_eq!(unwrap(&boasting, u64::MAX), Err(WrapError::Length { found: 3, expected: 1 << 40 }));
        // A window above the limit: a frame header that asks for 2 GiB.
        let mut wide = wrap(&[]).unwrap();
        wide.truncate(HEADER);
        wide.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 1, 0, 0]);
        assert!(matches!(unwrap(&wide, 1 << 20), Err(WrapError::Frame(_))));
    }

    #[test]
    fn other_things_are_told_apart() {
        assert_eq!(unwrap(b"", 9), Err(WrapError::Short { found: 0 }));
        assert_eq!(unwrap(b"<!DOCTYPE html><html>hello", 9), Err(WrapError::Magic { found: *b"<!DOCTYP" }));
        let mut other = wrap(b"entry").unwrap();
        other[8] = 2;
        assert_eq!(unwrap(&other, 9), Err(WrapError::TooNew { found: 2 }));
        other[8] = 0;
        assert_eq!(unwrap(&other, 9), Err(WrapError::TooOld { found: 0 }));
        other[8] = 1;
        other[12] = 1;
        assert_eq!(unwrap(&other, 9), Err(WrapError::Reserved));
    }
}
