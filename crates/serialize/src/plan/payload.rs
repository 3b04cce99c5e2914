//! The provider payload container (P3): what must be known before a slot of a variant pack is read.

use super::PayloadError;
use super::layout::{u32_at, u64_at};
use crate::wire::tensor_value::TensorValue;
use std::cmp::Ordering;

const MAGIC: [u8; 8] = *b"\x89HPPY\r\n\x1a";
const HEADER: usize = 64;
const BAKED: usize = 24;

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
    bytes: &'a [u8],
    kind: &'a str,
    version: u32,
    runtime: usize,
    baked: usize,
    body: &'a [u8],
}

/// Kind, version and the rest unread: enough to choose a loader.
#[derive(Clone, Copy, Debug)]
pub struct PayloadHead<'a> {
    bytes: &'a [u8],
    kind: &'a str,
    version: u32,
}

impl<'a> PayloadHead<'a> {
    /// Reads kind and version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PayloadError> {
        if bytes.len() < HEADER {
            return Err(PayloadError::TooShort { found: bytes.len() as u64 });
        }
        let mut magic = [0; 8];
        magic.copy_from_slice(&bytes[..8]);
        if magic != MAGIC {
            return Err(PayloadError::Magic { found: magic });
        }
        let name = &bytes[8..24];
        let len = name.iter().position(|&b| b == 0).unwrap_or(16);
        let text = name[..len].iter().all(|b| b.is_ascii_graphic()) && name[len..].iter().all(|&b| b == 0) && len > 0;
        let kind = match std::str::from_utf8(&name[..len]) {
            Ok(kind) if text => kind,
            _ => {
                let mut found = [0; 16];
                found.copy_from_slice(name);
                return Err(PayloadError::KindText { found });
            }
        };
        Ok(Self { bytes, kind, version: u32_at(bytes, 24) })
    }

    /// The provider's name for what the body holds.
    pub fn kind(&self) -> &'a str {
        self.kind
    }

    /// The provider's version of the body's layout.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Goes on reading for a loader that accepts `kind` in the versions `min..=max`; another kind or version is refused
    /// before anything behind it is read.
    pub fn accept(self, kind: &str, min: u32, max: u32) -> Result<PayloadView<'a>, PayloadError> {
        let found = self.version;
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
        let Self { bytes, kind, version } = self;
        let (runtime, baked, body_len) = (u32_at(bytes, 28), u32_at(bytes, 32), u64_at(bytes, 40));
        let zero = |field, range: std::ops::Range<usize>| match bytes[range].iter().find(|&&b| b != 0) {
            Some(&b) => Err(PayloadError::Field { field, found: u64::from(b), expected: "0".into() }),
            None => Ok(()),
        };
        zero("reserved field at 36", 36..40)?;
        zero("reserved field at 48", 48..64)?;
        // At most 2^37: no overflow in 64 bits.
        let tables = HEADER as u64 + u64::from(runtime) * 8 + u64::from(baked) * BAKED as u64;
        let body_at = tables.div_ceil(64) * 64;
        let expected = (bytes.len() as u64).checked_sub(body_at);
        if expected != Some(body_len) {
            let expected = expected.map_or_else(|| format!("tables that end before {}", bytes.len()), |n| n.to_string());
            return Err(PayloadError::Field { field: "body length", found: body_len, expected });
        }
        zero("padding behind the tables", tables as usize..body_at as usize)?;
        let view = Self::view(bytes, kind, version, runtime as usize, baked as usize, &bytes[body_at as usize..]);
        view.check_tables()?;
        Ok(view)
    }

    fn view(bytes: &'a [u8], kind: &'a str, version: u32, runtime: usize, baked: usize, body: &'a [u8]) -> PayloadView<'a> {
        PayloadView { bytes, kind, version, runtime, baked, body }
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
        self.bytes[HEADER..HEADER + self.runtime * 8].chunks_exact(8).map(|c| u64_at(c, 0) as i64)
    }

    /// Whether a pack entry of this uid is a host scalar.
    pub fn is_runtime(&self, uid: i64) -> bool {
        let uids = &self.bytes[HEADER..HEADER + self.runtime * 8];
        let (mut low, mut high) = (0, self.runtime);
        while low < high {
            let middle = low + (high - low) / 2;
            match (u64_at(uids, middle * 8) as i64).cmp(&uid) {
                Ordering::Equal => return true,
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        false
    }

    fn baked_rows(&self) -> impl ExactSizeIterator<Item = Result<BakedScalar, PayloadError>> + 'a {
        let at = HEADER + self.runtime * 8;
        self.bytes[at..at + self.baked * BAKED].chunks_exact(BAKED).map(|row| {
            let value = TensorValue::from_tag_and_bits(row[8], u64_at(row, 16)).ok_or_else(|| PayloadError::Field {
                field: "baked scalar's tag",
                found: u64::from(row[8]),
                expected: "a known tag and bits within its size".into(),
            })?;
            if row[9] > 1 || row[10..16].iter().any(|&b| b != 0) {
                return Err(PayloadError::Field {
                    field: "baked scalar's default flag",
                    found: u64::from(row[9]),
                    expected: "0 or 1, then zeros".into(),
                });
            }
            Ok(BakedScalar { uid: u64_at(row, 0) as i64, is_default: row[9] == 1, value })
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
        let name = self.kind.as_bytes();
        kind[..name.len().min(16)].copy_from_slice(&name[..name.len().min(16)]);
        if name.is_empty() || name.len() > 16 || !name.iter().all(|b| b.is_ascii_graphic()) {
            return Err(PayloadError::KindText { found: kind });
        }
        self.runtime_uids.sort_unstable();
        self.baked.sort_unstable_by_key(|b| b.uid);
        let count = |field, n: usize| {
            u32::try_from(n).map_err(|_| PayloadError::Field { field, found: n as u64, expected: "fewer than 2^32".into() })
        };
        let mut out = Vec::with_capacity(HEADER + self.body.len() + 64);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&kind);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&count("runtime uids", self.runtime_uids.len())?.to_le_bytes());
        out.extend_from_slice(&count("baked scalars", self.baked.len())?.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(self.body.len() as u64).to_le_bytes());
        out.resize(HEADER, 0);
        for uid in &self.runtime_uids {
            out.extend_from_slice(&uid.to_le_bytes());
        }
        for BakedScalar { uid, is_default, value } in &self.baked {
            out.extend_from_slice(&uid.to_le_bytes());
            out.extend_from_slice(&[value.tag(), u8::from(*is_default), 0, 0, 0, 0, 0, 0]);
            out.extend_from_slice(&value.bits().to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(64), 0);
        out.extend_from_slice(self.body);
        PayloadHead::parse(&out)?.read_tables()?;
        Ok(out)
    }
}
