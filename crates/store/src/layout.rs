//! Names in a store's folder.

use std::path::{Path, PathBuf};

/// Unfinished writes.
pub(crate) const TMP: &str = "tmp";

/// A folder of files named by 32 bytes in hexadecimal, spread over 256 folders by the first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Folder {
    /// Blobs by content hash.
    Objects,
    /// Plan files by root hash.
    Plans,
    /// Records by plan key.
    PlanIndex,
    /// Records by selection key.
    SelectionIndex,
}

impl Folder {
    /// Path below the root.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Plans => "plans",
            Self::PlanIndex => "index/plan",
            Self::SelectionIndex => "index/select",
        }
    }

    /// What follows the hexadecimal digits of a name.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Objects => "",
            Self::Plans => ".plan",
            Self::PlanIndex | Self::SelectionIndex => ".rec",
        }
    }

    /// What may stand in it, for messages.
    pub(crate) const fn expected(self) -> &'static str {
        match self {
            Self::Objects => "regular files named by 62 lower-case hexadecimal digits",
            Self::Plans => "regular files named by 62 lower-case hexadecimal digits and `.plan`",
            Self::PlanIndex | Self::SelectionIndex => "regular files named by 62 lower-case hexadecimal digits and `.rec`",
        }
    }

    /// The file of a name.
    pub(crate) fn file(self, root: &Path, name: &[u8; 32]) -> PathBuf {
        let mut text = String::with_capacity(self.path().len().saturating_add(66).saturating_add(self.suffix().len()));
        text.push_str(self.path());
        text.push('/');
        for (i, byte) in name.iter().enumerate() {
            text.extend([byte >> 4, byte & 15].into_iter().filter_map(|digit| char::from_digit(digit.into(), 16)));
            if i == 0 {
                text.push('/');
            }
        }
        text.push_str(self.suffix());
        root.join(text)
    }

    /// The name of a file, from its two-digit folder and what stands in it; the inverse of [`file`](Self::file).
    pub(crate) fn parse(self, shard: u8, file_name: &str) -> Option<[u8; 32]> {
        let digits = file_name.strip_suffix(self.suffix())?;
        let (pairs, []) = digits.as_bytes().as_chunks() else { return None };
        let mut name = [shard; 32];
        let [_, rest @ ..] = &mut name;
        if pairs.len() != rest.len() {
            return None;
        }
        for (byte, &pair) in rest.iter_mut().zip(pairs) {
            *byte = hex_byte(pair)?;
        }
        Some(name)
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
        for folder in [Folder::Objects, Folder::Plans, Folder::PlanIndex, Folder::SelectionIndex] {
            let path = folder.file(Path::new("/s"), &name);
            let file = path.file_name().unwrap().to_str().unwrap();
            let shard = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
            assert_eq!(path.parent().unwrap().parent().unwrap(), Path::new("/s").join(folder.path()));
            assert_eq!(folder.parse(Folder::parse_shard(shard).unwrap(), file), Some(name));
            assert_eq!(folder.parse(0, &file[1..]), None);
            assert_eq!(folder.parse(0, &format!("{file}x")), None);
            assert_eq!(folder.parse(0, &file.to_uppercase()), None);
        }
        for bad in ["", "a", "AB", "abc", "0x", "é"] {
            assert_eq!(Folder::parse_shard(bad), None, "{bad}");
        }
    }
}
