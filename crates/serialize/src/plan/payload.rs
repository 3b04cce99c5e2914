//! The provider payload container (P3): what must be known before a slot of a variant pack is read.

use super::PayloadError;
use crate::wire::tensor_value::TensorValue;
use bytemuck::{Pod, Zeroable};

const MAGIC: [u8; 8] = *b"\x89HPPY\r\n\x1a";
const HEADER: usize = 64;
const BAKED: usize = 24;

/// The header as it stands in the container.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    kind: [u8; 16],
    version: [u8; 4],
    runtime_count: [u8; 4],
    baked_count: [u8; 4],
    reserved_36: [u8; 4],
    body_len: [u8; 8],
    reserved_48: [u8; 16],
}

/// A baked scalar as it stands in the container.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct RawBaked {
    uid: [u8; 8],
    tag: u8,
    is_default: u8,
    reserved: [u8; 6],
    bits: [u8; 8],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER && size_of::<RawBaked>() == BAKED);

/// A scalar value that travels in a payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BakedScalar {
    /// Tensor uid; a canonical ordinal in a stored plan.
    pub uid: i64,
    /// A runtime scalar's default rather than a constant.
    pub is_default: bool,
    /// The value.
    pub value: TensorValue,
}

/// A checked container. The kind is known, the version is in the loader's range, and the two tables are in bounds and in order.
#[derive(Clone, Copy, Debug)]
pub struct PayloadView<'a> {
    kind: &'a str,
    version: u32,
    /// Little-endian uids.
    runtime: &'a [[u8; 8]],
    baked: &'a [RawBaked],
    body: &'a [u8],
}

/// Kind, version and the rest unread: enough to choose a loader.
#[derive(Clone, Copy, Debug)]
pub struct PayloadHead<'a> {
    header: &'a RawHeader,
    /// What follows the header.
    rest: &'a [u8],
    kind: &'a str,
}

impl<'a> PayloadHead<'a> {
    /// Reads kind and version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PayloadError> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(PayloadError::TooShort { found: bytes.len() as u64 });
        };
        let header: &RawHeader = bytemuck::cast_ref(header);
        if header.magic != MAGIC {
            return Err(PayloadError::Magic { found: header.magic });
        }
        let len = header.kind.iter().position(|&b| b == 0).unwrap_or(header.kind.len());
        let (name, zeros) = header.kind.split_at_checked(len).unwrap_or_default();
        let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_graphic) && zeros.iter().all(|&b| b == 0);
        match std::str::from_utf8(name) {
            Ok(kind) if is_name => Ok(Self { header, rest, kind }),
            _ => Err(PayloadError::KindText { found: header.kind }),
        }
    }

    /// The provider's name for what the body holds.
    pub fn kind(&self) -> &'a str {
        self.kind
    }

    /// The provider's version of the body's layout.
    pub fn version(&self) -> u32 {
        u32::from_le_bytes(self.header.version)
    }

    /// Goes on reading for a loader that accepts `kind` in the versions `min..=max`; another kind or version is refused
    /// before anything behind it is read.
    pub fn accept(self, kind: &str, min: u32, max: u32) -> Result<PayloadView<'a>, PayloadError> {
        let found = self.version();
        if self.kind != kind {
            return Err(PayloadError::UnknownKind { found: self.kind.to_owned(), expected: kind.to_owned() });
        }
        if found < min {
            return Err(PayloadError::TooOld { kind: kind.to_owned(), found, min, max });
        }
        if found > max {
            return Err(PayloadError::TooNew { kind: kind.to_owned(), found, min, max });
        }
        self.read_tables()
    }

    /// Reads the common tables without a loader: for inspection.
    pub fn read_tables(self) -> Result<PayloadView<'a>, PayloadError> {
        let Self { header, rest, kind } = self;
        let (runtime, baked) = (u32::from_le_bytes(header.runtime_count), u32::from_le_bytes(header.baked_count));
        let body_len = u64::from_le_bytes(header.body_len);
        let zero = |field, bytes: &[u8]| match bytes.iter().find(|&&b| b != 0) {
            Some(&b) => Err(PayloadError::Field { field, found: u64::from(b), expected: "0".into() }),
            None => Ok(()),
        };
        zero("reserved field at 36", &header.reserved_36)?;
        zero("reserved field at 48", &header.reserved_48)?;
        // Counts are of 32 bits: the tables have at most 2^37 bytes. The header is as long as the alignment of the body.
        let runtime_len = u64::from(runtime).saturating_mul(8);
        let baked_len = u64::from(baked).saturating_mul(BAKED as u64);
        let body_at = runtime_len.saturating_add(baked_len).checked_next_multiple_of(HEADER as u64).unwrap_or(u64::MAX);
        let expected = (rest.len() as u64).checked_sub(body_at);
        let split = |bytes: &'a [u8], at: u64| bytes.split_at_checked(usize::try_from(at).ok()?);
        let parts = (|| {
            let (tables, body) = split(rest, body_at)?;
            let (runtime, tables) = split(tables, runtime_len)?;
            let (baked, padding) = split(tables, baked_len)?;
            Some((runtime, baked, padding, body))
        })();
        let Some((runtime, baked, padding, body)) = parts.filter(|_| expected == Some(body_len)) else {
            let end = (rest.len() as u64).saturating_add(HEADER as u64);
            let expected = expected.map_or_else(|| format!("tables that end before {end}"), |n| n.to_string());
            return Err(PayloadError::Field { field: "body length", found: body_len, expected });
        };
        zero("padding behind the tables", padding)?;
        let baked: &[RawBaked] = bytemuck::cast_slice(baked.as_chunks::<BAKED>().0);
        let view = PayloadView { kind, version: self.version(), runtime: runtime.as_chunks().0, baked, body };
        view.check_tables()?;
        Ok(view)
    }
}

impl<'a> PayloadView<'a> {
    /// The provider's name for what the body holds.
    pub fn kind(&self) -> &'a str {
        self.kind
    }

    /// The provider's version of the body's layout.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The uids whose pack entries are host scalars, ascending.
    pub fn runtime_uids(&self) -> impl ExactSizeIterator<Item = i64> + 'a {
        self.runtime.iter().map(|&uid| i64::from_le_bytes(uid))
    }

    /// Whether a pack entry of this uid is a host scalar.
    pub fn is_runtime(&self, uid: i64) -> bool {
        self.runtime.binary_search_by_key(&uid, |&uid| i64::from_le_bytes(uid)).is_ok()
    }

    fn baked_rows(&self) -> impl ExactSizeIterator<Item = Result<BakedScalar, PayloadError>> + 'a {
        self.baked.iter().map(|raw| {
            let RawBaked { uid, tag, is_default, reserved, bits } = *raw;
            let value = TensorValue::from_tag_and_bits(tag, u64::from_le_bytes(bits)).ok_or_else(|| PayloadError::Field {
                field: "baked scalar's tag",
                found: u64::from(tag),
                expected: "a known tag and bits within its size".into(),
            })?;
            if is_default > 1 || reserved != [0; 6] {
                return Err(PayloadError::Field {
                    field: "baked scalar's default flag",
                    found: u64::from(is_default),
                    expected: "0 or 1, then zeros".into(),
                });
            }
            Ok(BakedScalar { uid: i64::from_le_bytes(uid), is_default: is_default == 1, value })
        })
    }

    /// Constants and defaults, ascending by uid.
    pub fn baked(&self) -> impl Iterator<Item = BakedScalar> + 'a {
        self.baked_rows().filter_map(Result::ok)
    }

    /// The provider's own bytes, starting at a multiple of 64 of the container.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    fn check_tables(&self) -> Result<(), PayloadError> {
        let ascending = |field, uids: &mut dyn Iterator<Item = i64>| {
            let mut last: Option<i64> = None;
            for uid in uids {
                if last.is_some_and(|last| uid <= last) {
                    return Err(PayloadError::Field { field, found: uid as u64, expected: "uids in ascending order".into() });
                }
                last = Some(uid);
            }
            Ok(())
        };
        ascending("runtime uid", &mut self.runtime_uids())?;
        for row in self.baked_rows() {
            let row = row?;
            if row.is_default != self.is_runtime(row.uid) {
                return Err(PayloadError::Field {
                    field: "default flag of a baked scalar",
                    found: u64::from(row.is_default),
                    expected: format!("to agree with the runtime set for uid {}", row.uid),
                });
            }
        }
        ascending("baked scalar's uid", &mut self.baked().map(|b| b.uid))
    }
}

/// Makes a container.
#[derive(Debug)]
pub struct PayloadWriter<'a> {
    /// The provider's name for what the body holds: 1 to 16 graphic ASCII characters.
    pub kind: &'a str,
    /// The provider's version of the body's layout.
    pub version: u32,
    /// Uids whose pack entries are host scalars.
    pub runtime_uids: Vec<i64>,
    /// Constants and defaults.
    pub baked: Vec<BakedScalar>,
    /// The provider's own bytes.
    pub body: &'a [u8],
}

impl PayloadWriter<'_> {
    /// The container as bytes; what cannot be read back is refused.
    pub fn finish(mut self) -> Result<Vec<u8>, PayloadError> {
        let mut kind = [0; 16];
        for (to, &from) in kind.iter_mut().zip(self.kind.as_bytes()) {
            *to = from;
        }
        if self.kind.is_empty() || self.kind.len() > kind.len() || !self.kind.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(PayloadError::KindText { found: kind });
        }
        self.runtime_uids.sort_unstable();
        self.baked.sort_unstable_by_key(|b| b.uid);
        let count = |field, n: usize| {
            u32::try_from(n).map_err(|_| PayloadError::Field { field, found: n as u64, expected: "fewer than 2^32".into() })
        };
        let header = RawHeader {
            magic: MAGIC,
            kind,
            version: self.version.to_le_bytes(),
            runtime_count: count("runtime uids", self.runtime_uids.len())?.to_le_bytes(),
            baked_count: count("baked scalars", self.baked.len())?.to_le_bytes(),
            body_len: (self.body.len() as u64).to_le_bytes(),
            ..RawHeader::zeroed()
        };
        let mut out = bytemuck::bytes_of(&header).to_vec();
        for uid in &self.runtime_uids {
            out.extend_from_slice(&uid.to_le_bytes());
        }
        for &BakedScalar { uid, is_default, value } in &self.baked {
            let raw = RawBaked {
                uid: uid.to_le_bytes(),
                tag: value.tag(),
                is_default: u8::from(is_default),
                bits: value.bits().to_le_bytes(),
                ..RawBaked::zeroed()
            };
            out.extend_from_slice(bytemuck::bytes_of(&raw));
        }
        out.resize(out.len().next_multiple_of(HEADER), 0);
        out.extend_from_slice(self.body);
        PayloadHead::parse(&out)?.read_tables()?;
        Ok(out)
    }
}
