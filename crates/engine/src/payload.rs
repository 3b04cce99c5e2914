//! What a serialised execution context is: a header, the graph's uids, the runtime uid set, and a plan file.
//!
//! ```text
//!  0  magic                     89 'H' 'P' 'E' 'N' 0D 0A 1A
//!  8  major u16 | minor u16 | length of the header u32 = 64
//! 16  length of all bytes u64
//! 24  number of uids u32 | number of runtime uids u32
//! 32  digest, 32 bytes: BLAKE3, context "hipplan engine payload 1", over bytes 0..32 and 64 to the end
//! 64  uids i64: the graph's own, by canonical ordinal
//!     runtime uids i64, ascending: those whose slot is a host pointer (R16 §4.6, §5.5)
//!     zeros up to a multiple of 64, then the plan file to the end
//! ```
//!
//! All numbers are little-endian. The plan file is what `docs/format.md` says; it holds the defaults of runtime scalars, so none
//! degrades on the way (R16 §4.9).

use bytemuck::{Pod, Zeroable};
use hipplan_serialize::AlignedBytes;
use std::ops::Range;

/// Payload major that is written and read.
pub const MAJOR: u16 = 1;
/// Payload minor that is written, and the newest that is read.
pub const MINOR: u16 = 0;
/// First bytes of a payload.
pub const MAGIC: [u8; 8] = *b"\x89HPEN\r\n\x1a";

const HEADER: usize = 64;
const ALIGN: usize = 64;
/// Start and end of the digest in the header.
const DIGEST: Range<usize> = 32..64;
const CONTEXT: &str = "hipplan engine payload 1";
/// Most bytes that are read: far more than a plan of the CPU has, which holds no weights and no code.
const MAX_BYTES: u64 = 1 << 30;

/// Why a payload is refused: one variant per cause, in the order in which they are looked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum PayloadError {
    #[error("serialised context: {found} bytes, expected at least {expected}")]
    TooShort { found: u64, expected: u64 },
    #[error("serialised context: {found} bytes, expected at most {expected}")]
    TooLong { found: u64, expected: u64 },
    #[error("serialised context: it starts with {found:02x?}, expected {MAGIC:02x?}; it is another plugin's")]
    Magic { found: [u8; 8] },
    #[error(
        "serialised context: format {major}.{minor}, this plugin reads {MAJOR}.0 to {MAJOR}.{MINOR}; compile the graph again, or use a plugin that reads it"
    )]
    Version { major: u16, minor: u16 },
    #[error("serialised context: the header has {found} bytes, expected {expected}")]
    Header { found: u32, expected: u32 },
    #[error("serialised context: {found} bytes, and it says that it has {expected}; it is cut or joined")]
    Length { found: u64, expected: u64 },
    #[error("serialised context: the digest is {found}, expected {expected}; it is damaged, compile the graph again")]
    Digest { found: String, expected: String },
    #[error("serialised context: {uids} uids and {runtime} runtime uids do not fit into {found} bytes")]
    Counts { uids: u32, runtime: u32, found: u64 },
    #[error("serialised context: byte {at} is {found}, expected 0")]
    Padding { at: usize, found: u8 },
    #[error("serialised context: uid {uid} stands at two ordinals")]
    DuplicateUid { uid: i64 },
    #[error("serialised context: runtime uid {uid} is {problem}")]
    RuntimeUid { uid: i64, problem: &'static str },
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    major: [u8; 2],
    minor: [u8; 2],
    header: [u8; 4],
    total: [u8; 8],
    uids: [u8; 4],
    runtime: [u8; 4],
    digest: [u8; 32],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER);

/// A payload that has been checked, but for the plan file in it.
pub struct Payload {
    bytes: AlignedBytes,
    uids: Vec<i64>,
    runtime: Vec<i64>,
    plan: Range<usize>,
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Payload")
            .field("uids", &self.uids)
            .field("runtime", &self.runtime)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl Payload {
    /// Makes a payload. `uids` are the graph's by canonical ordinal, `runtime` those whose slot is a host pointer.
    ///
    /// # Errors
    /// What could not be read back.
    pub fn new(uids: &[i64], runtime: &[i64], plan: &[u8]) -> Result<Self, PayloadError> {
        let mut runtime = runtime.to_vec();
        runtime.sort_unstable();
        let found = plan.len() as u64;
        let too_long = |_| PayloadError::TooLong { found, expected: MAX_BYTES };
        let counts = (u32::try_from(uids.len()).map_err(too_long)?, u32::try_from(runtime.len()).map_err(too_long)?);
        let mut bytes = AlignedBytes::new();
        bytes.extend_from_slice(&[0; HEADER]);
        for uid in uids.iter().chain(&runtime) {
            bytes.extend_from_slice(&uid.to_le_bytes());
        }
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        bytes.extend_from_slice(plan);
        let header = RawHeader {
            magic: MAGIC,
            major: MAJOR.to_le_bytes(),
            minor: MINOR.to_le_bytes(),
            header: (HEADER as u32).to_le_bytes(),
            total: (bytes.len() as u64).to_le_bytes(),
            uids: counts.0.to_le_bytes(),
            runtime: counts.1.to_le_bytes(),
            digest: [0; 32],
        };
        bytes[..HEADER].copy_from_slice(bytemuck::bytes_of(&header));
        let digest = digest(&bytes);
        bytes[DIGEST].copy_from_slice(digest.as_bytes());
        Self::read(bytes)
    }

    /// Checks a payload: version and length before the digest, and the digest before anything behind the header.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, PayloadError> {
        // Nothing of a foreign payload is copied, however long it is.
        check_header(bytes)?;
        let mut copy = AlignedBytes::with_capacity(bytes.len());
        copy.extend_from_slice(bytes);
        Self::read(copy)
    }

    fn read(bytes: AlignedBytes) -> Result<Self, PayloadError> {
        let header = check_header(&bytes)?;
        let (count, runtime_count) = (u32::from_le_bytes(header.uids), u32::from_le_bytes(header.runtime));
        let counts = || PayloadError::Counts { uids: count, runtime: runtime_count, found: bytes.len() as u64 };
        let numbers = |start: usize, count: u32| {
            let end = (count as usize).checked_mul(size_of::<i64>()).and_then(|len| start.checked_add(len)).ok_or_else(counts)?;
            let rows = bytes.get(start..end).ok_or_else(counts)?;
            Ok((rows.as_chunks().0.iter().map(|&row| i64::from_le_bytes(row)).collect::<Vec<_>>(), end))
        };
        let (uids, end) = numbers(HEADER, count)?;
        let (runtime, end) = numbers(end, runtime_count)?;
        let start = end.checked_next_multiple_of(ALIGN).ok_or_else(counts)?;
        let padding = bytes.get(end..start).ok_or_else(counts)?;
        if let Some((at, &found)) = (end..).zip(padding).find(|&(_, &byte)| byte != 0) {
            return Err(PayloadError::Padding { at, found });
        }
        check_uids(&uids, &runtime)?;
        let plan = start..bytes.len();
        Ok(Self { bytes, uids, runtime, plan })
    }

    /// All of it, as it is stored.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The graph's uids by canonical ordinal; no two are equal.
    pub fn uids(&self) -> &[i64] {
        &self.uids
    }

    /// The uids whose slot is a host pointer, ascending; each is one of [`uids`](Self::uids).
    pub fn runtime_uids(&self) -> &[i64] {
        &self.runtime
    }

    /// The plan file, which starts at a multiple of 64. It has not been looked at.
    pub fn plan(&self) -> &[u8] {
        &self.bytes[self.plan.clone()]
    }
}

/// Everything that is known before the body is read.
fn check_header(bytes: &[u8]) -> Result<RawHeader, PayloadError> {
    let found = bytes.len() as u64;
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return Err(PayloadError::TooShort { found, expected: HEADER as u64 });
    };
    let raw: RawHeader = bytemuck::pod_read_unaligned(header);
    if raw.magic != MAGIC {
        return Err(PayloadError::Magic { found: raw.magic });
    }
    let (major, minor) = (u16::from_le_bytes(raw.major), u16::from_le_bytes(raw.minor));
    if major != MAJOR || minor > MINOR {
        return Err(PayloadError::Version { major, minor });
    }
    let header = u32::from_le_bytes(raw.header);
    if header as usize != HEADER {
        return Err(PayloadError::Header { found: header, expected: HEADER as u32 });
    }
    let expected = u64::from_le_bytes(raw.total);
    if expected != found {
        return Err(PayloadError::Length { found, expected });
    }
    if found > MAX_BYTES {
        return Err(PayloadError::TooLong { found, expected: MAX_BYTES });
    }
    let expected = blake3::Hash::from_bytes(raw.digest);
    let found = digest(bytes);
    if found != expected {
        return Err(PayloadError::Digest { found: found.to_string(), expected: expected.to_string() });
    }
    Ok(raw)
}

/// The digest of a payload of at least a header.
fn digest(bytes: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(bytes.get(..DIGEST.start).unwrap_or_default()).update(bytes.get(HEADER..).unwrap_or_default());
    hasher.finalize()
}

/// A uid names one tensor, and the runtime set is an ascending list of some of them.
fn check_uids(uids: &[i64], runtime: &[i64]) -> Result<(), PayloadError> {
    let mut sorted = uids.to_vec();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(PayloadError::DuplicateUid { uid: pair[0] });
    }
    if let Some(pair) = runtime.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(PayloadError::RuntimeUid { uid: pair[1], problem: "not in ascending order" });
    }
    match runtime.iter().find(|uid| sorted.binary_search(uid).is_err()) {
        Some(&uid) => Err(PayloadError::RuntimeUid { uid, problem: "no tensor of the graph" }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Payload {
        Payload::new(&[7, -3, i64::MAX, 40], &[40, -3], b"not a plan, and not looked at").expect("a payload")
    }

    /// The bytes with a field changed and the digest made right.
    fn forged(change: impl FnOnce(&mut Vec<u8>)) -> Result<Payload, PayloadError> {
        let mut bytes = sample().bytes().to_vec();
        change(&mut bytes);
        let digest = digest(&bytes);
        bytes[DIGEST].copy_from_slice(digest.as_bytes());
        Payload::parse(&bytes)
    }

    #[test]
    fn it_reads_what_it_writes() {
        let payload = sample();
        let read = Payload::parse(payload.bytes()).expect("readable");
        assert_eq!(read.uids(), [7, -3, i64::MAX, 40]);
        assert_eq!(read.runtime_uids(), [-3, 40]);
        assert_eq!(read.plan(), b"not a plan, and not looked at");
        assert!(read.plan().as_ptr().addr().is_multiple_of(64));
        assert_eq!(read.bytes(), payload.bytes());
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        let whole = sample().bytes().to_vec();
        for len in 0..whole.len() {
            assert!(Payload::parse(&whole[..len]).is_err(), "cut to {len}");
        }
        for at in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(Payload::parse(&bytes).is_err(), "bit {at}");
        }
        let mut longer = whole;
        longer.push(0);
        assert!(matches!(Payload::parse(&longer), Err(PayloadError::Length { .. })));
    }

    #[test]
    fn each_refusal_has_its_own_cause() {
        assert!(matches!(forged(|b| b[0] = 0), Err(PayloadError::Magic { .. })));
        assert_eq!(forged(|b| b[8] = 2).err(), Some(PayloadError::Version { major: 2, minor: 0 }));
        assert_eq!(forged(|b| b[8] = 0).err(), Some(PayloadError::Version { major: 0, minor: 0 }));
        assert_eq!(forged(|b| b[10] = 1).err(), Some(PayloadError::Version { major: 1, minor: 1 }));
        assert_eq!(forged(|b| b[12] = 65).err(), Some(PayloadError::Header { found: 65, expected: 64 }));
        assert!(matches!(forged(|b| b[16] ^= 1), Err(PayloadError::Length { .. })));
        assert!(matches!(forged(|b| b[24..28].fill(0xff)), Err(PayloadError::Counts { uids: u32::MAX, .. })));
        assert!(matches!(forged(|b| b[28..32].fill(0xff)), Err(PayloadError::Counts { runtime: u32::MAX, .. })));
        // The fourth uid becomes the first.
        assert_eq!(forged(|b| b.copy_within(64..72, 88)).err(), Some(PayloadError::DuplicateUid { uid: 7 }));
        assert!(matches!(forged(|b| b[96..104].fill(0)), Err(PayloadError::RuntimeUid { uid: 0, problem: "no tensor of the graph" })));
        assert!(matches!(
            forged(|b| b.copy_within(96..104, 104)),
            Err(PayloadError::RuntimeUid { uid: -3, problem: "not in ascending order" })
        ));
        assert_eq!(forged(|b| b[120] = 9).err(), Some(PayloadError::Padding { at: 120, found: 9 }));
        assert!(Payload::new(&[1, 1], &[], b"").is_err() && Payload::new(&[1], &[2], b"").is_err());
    }

    proptest! {
        #[test]
        fn any_uids_come_back(uids in proptest::collection::btree_set(any::<i64>(), 0..40), keep in any::<u64>(), plan in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut uids: Vec<i64> = uids.into_iter().collect();
            let middle = uids.len() / 3;
            uids.rotate_left(middle);
            let mut runtime: Vec<i64> = uids.iter().enumerate().filter(|(i, _)| keep >> (i % 64) & 1 == 1).map(|(_, &uid)| uid).collect();
            let payload = Payload::new(&uids, &runtime, &plan).expect("a payload");
            let read = Payload::parse(payload.bytes()).expect("readable");
            runtime.sort_unstable();
            prop_assert_eq!(read.uids(), &uids[..]);
            prop_assert_eq!(read.runtime_uids(), &runtime[..]);
            prop_assert_eq!(read.plan(), &plan[..]);
        }

        #[test]
        fn what_a_valid_digest_covers_is_an_error_or_a_payload(at in 0_usize..160, value in any::<u8>()) {
            // No panic, and no range outside of the bytes.
            if let Ok(payload) = forged(|bytes| { if let Some(byte) = bytes.get_mut(at) { *byte = value } }) {
                prop_assert_eq!(payload.uids().len(), 4);
                prop_assert!(payload.plan().len() <= payload.bytes().len());
            }
        }
    }
}
