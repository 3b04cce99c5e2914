//! Names in a store's folder.

use std::path::{Path, PathBuf};

/// Unfinished writes.
pub(crate) const TMP: &str = "tmp";
/// Packs: many entries in one file.
pub(crate) const PACKS: &str = "packs";
/// Damaged entries that were set aside.
pub(crate) const QUARANTINE: &str = "quarantine";
/// What is about to be removed.
pub(crate) const TRASH: &str = "trash";
/// Files that the kernel's locks are taken on.
pub(crate) const LOCKS: &str = "locks";
/// What may not be removed.
pub(crate) const PINS: &str = "pins";

/// Generation and the first half of the root of a pack, from its file name.
pub(crate) fn parse_pack(file_name: &str) -> Option<(u32, [u8; 16])> {
    let (generation, rest) = file_name.split_at_checked(8)?;
    let id = rest.strip_prefix('-')?.strip_suffix(".pack")?;
    Some((u32::from_be_bytes(hex_bytes(generation)?), hex_bytes(id)?))
}

/// File name of a pack; the inverse of [`parse_pack`].
pub(crate) fn pack_name(generation: u32, root: &[u8; 32]) -> String {
    let mut name = String::with_capacity(46);
    push_hex(&mut name, &generation.to_be_bytes());
    name.push('-');
    push_hex(&mut name, root.get(..16).unwrap_or_default());
    name.push_str(".pack");
    name
}

/// Generation of a pack in the making, from the name of the file that says so.
pub(crate) fn parse_claim(file_name: &str) -> Option<u32> {
    Some(u32::from_be_bytes(hex_bytes(file_name.strip_suffix(".claim")?)?))
}

/// Name of a file that keeps a generation for a pack in the making; the inverse of [`parse_claim`].
pub(crate) fn claim_name(generation: u32) -> String {
    format!("{generation:08x}.claim")
}

/// Lower-case hexadecimal digits of bytes.
pub(crate) fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.extend([byte >> 4, byte & 15].into_iter().filter_map(|digit| char::from_digit(digit.into(), 16)));
    }
}

/// Bytes from lower-case hexadecimal digits: one name has one spelling.
pub(crate) fn hex_bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let (pairs, []) = digits.as_bytes().as_chunks() else { return None };
    if pairs.len() != N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, &pair) in bytes.iter_mut().zip(pairs) {
        *byte = hex_byte(pair)?;
    }
    Some(bytes)
}

/// Kinds of entries. Each has a folder of files named by 32 bytes in hexadecimal, spread over 256 folders by the first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// Blobs by content hash.
    Blob,
    /// Plan files by root hash.
    Plan,
    /// Records by plan key.
    PlanRecord,
    /// Records by selection key.
    Selection,
}

impl EntryKind {
    /// All of them, in the order in which they are published: what is named comes before what names it.
    pub const ALL: [Self; 4] = [Self::Blob, Self::Plan, Self::PlanRecord, Self::Selection];

    /// A word for messages, file names and addresses.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Plan => "plan",
            Self::PlanRecord => "plan-record",
            Self::Selection => "selection",
        }
    }

    /// Path below the root.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Blob => "objects",
            Self::Plan => "plans",
            Self::PlanRecord => "index/plan",
            Self::Selection => "index/select",
        }
    }

    /// What follows the hexadecimal digits of a name.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Blob => "",
            Self::Plan => ".plan",
            Self::PlanRecord | Self::Selection => ".rec",
        }
    }

    /// What may stand in it, for messages.
    pub(crate) const fn expected(self) -> &'static str {
        match self {
            Self::Blob => "regular files named by 62 lower-case hexadecimal digits",
            Self::Plan => "regular files named by 62 lower-case hexadecimal digits and `.plan`",
            Self::PlanRecord | Self::Selection => "regular files named by 62 lower-case hexadecimal digits and `.rec`",
        }
    }

    /// The file of a name.
    pub(crate) fn file(self, root: &Path, name: &[u8; 32]) -> PathBuf {
        let mut text = String::with_capacity(self.path().len().saturating_add(66).saturating_add(self.suffix().len()));
        text.push_str(self.path());
        text.push('/');
        let (shard, rest) = name.split_first_chunk::<1>().unwrap_or((&[0], &[]));
        push_hex(&mut text, shard);
        text.push('/');
        push_hex(&mut text, rest);
        text.push_str(self.suffix());
        root.join(text)
    }

    /// The name of a file, from its two-digit folder and what stands in it; the inverse of [`file`](Self::file).
    pub(crate) fn parse(self, shard: u8, file_name: &str) -> Option<[u8; 32]> {
        let rest: [u8; 31] = hex_bytes(file_name.strip_suffix(self.suffix())?)?;
        let mut name = [shard; 32];
        name.get_mut(1..)?.copy_from_slice(&rest);
        Some(name)
    }

    /// File name of an entry that is set aside.
    pub(crate) fn set_aside_name(self, name: &[u8; 32], number: u32) -> String {
        let mut text = format!("{}-", self.word());
        push_hex(&mut text, name);
        text.push('-');
        push_hex(&mut text, &number.to_be_bytes());
        text
    }

    /// The first byte of the names in a two-digit folder.
    pub(crate) fn parse_shard(folder_name: &str) -> Option<u8> {
        hex_byte(folder_name.as_bytes().try_into().ok()?)
    }
}

/// Two lower-case hexadecimal digits: one file has one name.
fn hex_byte(pair: [u8; 2]) -> Option<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).filter(|_| !c.is_ascii_uppercase());
    let [high, low] = pair.map(digit);
    u8::try_from(high? << 4 | low?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_print_and_parse() {
        let name: [u8; 32] = std::array::from_fn(|i| (i * 37 + 0xab) as u8);
        for folder in EntryKind::ALL {
            let path = folder.file(Path::new("/s"), &name);
            let file = path.file_name().unwrap().to_str().unwrap();
            let shard = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
            assert_eq!(path.parent().unwrap().parent().unwrap(), Path::new("/s").join(folder.path()));
            assert_eq!(folder.parse(EntryKind::parse_shard(shard).unwrap(), file), Some(name));
            assert_eq!(folder.parse(0, &file[1..]), None);
            assert_eq!(folder.parse(0, &format!("{file}x")), None);
            assert_eq!(folder.parse(0, &file.to_uppercase()), None);
        }
        for bad in ["", "a", "AB", "abc", "0x", "é"] {
            assert_eq!(EntryKind::parse_shard(bad), None, "{bad}");
        }
    }
}
