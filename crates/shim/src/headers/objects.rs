//! Which of MIOpen's names object files ask for: a provider's may be private ones only.

use crate::error::{At, ShimError};
use crate::file::Mapped;
use crate::names;
use object::read::archive::ArchiveFile;
use object::{FileKind, Object, ObjectSection, ObjectSymbol};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a file asks MIOpen for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct References {
    /// The file; of an archive, with the member behind it: `libprovider.a(conv.o)`.
    pub name: String,
    /// Names of private functions, which a provider is to use.
    pub private: BTreeSet<String>,
    /// Names of public functions: calls of them go through the wrapper, and may come back to the provider.
    pub public: BTreeSet<String>,
    /// Mangled names of MIOpen's C++ internals, which change from version to version.
    pub internal: BTreeSet<String>,
}

impl References {
    /// Only private functions are asked for.
    pub fn is_good(&self) -> bool {
        self.public.is_empty() && self.internal.is_empty()
    }
}

/// Why a file cannot be judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// It cannot be read.
    #[error(transparent)]
    Shim(#[from] ShimError),
    /// It is nothing that is linked.
    #[error("{name}: neither an ELF object file or library nor an archive of such: {reason}")]
    NoObject {
        /// The file, or the member.
        name: String,
        /// Why not.
        reason: String,
    },
    /// Its symbols are not those of what it is linked into.
    #[error(
        "{name}: it holds code for link-time optimisation only, whose references are decided when linking; check the library that it is linked into"
    )]
    LinkTime {
        /// The file, or the member.
        name: String,
    },
    /// An archive of nothing.
    #[error("{path}: an archive without a single object file")]
    EmptyArchive {
        /// The archive.
        path: PathBuf,
    },
}

/// Reads an object file, a shared library, a program, or an archive of object files.
///
/// # Errors
/// It is none of these, or cannot be judged.
pub fn read(path: &Path) -> Result<Vec<References>, ObjectsError> {
    let mapped = Mapped::open(path)?;
    let (bytes, name) = (mapped.bytes(), path.display().to_string());
    if !matches!(FileKind::parse(bytes), Ok(FileKind::Archive)) {
        return Ok(vec![one(bytes, name)?]);
    }
    let bad = |e: object::Error| ObjectsError::NoObject { name: name.clone(), reason: e.to_string() };
    let archive = ArchiveFile::parse(bytes).map_err(bad)?;
    let mut all = Vec::new();
    for member in archive.members() {
        let member = member.map_err(bad)?;
        let inside = format!("{name}({})", String::from_utf8_lossy(member.name()));
        if archive.is_thin() {
            let beside = path.parent().unwrap_or(Path::new(".")).join(String::from_utf8_lossy(member.name()).as_ref());
            let bytes = std::fs::read(&beside).at(&beside, "a member of a thin archive cannot be read")?;
            all.push(one(&bytes, inside)?);
        } else {
            all.push(one(member.data(bytes).map_err(bad)?, inside)?);
        }
    }
    if all.is_empty() { Err(ObjectsError::EmptyArchive { path: path.to_owned() }) } else { Ok(all) }
}

fn one(bytes: &[u8], name: String) -> Result<References, ObjectsError> {
    if bytes.starts_with(b"BC\xc0\xde") || bytes.starts_with(b"\xde\xc0\x17\x0b") {
        return Err(ObjectsError::LinkTime { name });
    }
    let bad = |reason: String| ObjectsError::NoObject { name: name.clone(), reason };
    let kind = FileKind::parse(bytes).map_err(|e| bad(e.to_string()))?;
    if !matches!(kind, FileKind::Elf32 | FileKind::Elf64) {
        return Err(bad(format!("it is {kind:?}")));
    }
    let object = object::File::parse(bytes).map_err(|e| bad(e.to_string()))?;
    let is_slim = object.symbols().any(|symbol| symbol.name_bytes() == Ok(b"__gnu_lto_slim"));
    if is_slim || object.sections().any(|section| section.name_bytes() == Ok(b".llvm.lto")) {
        return Err(ObjectsError::LinkTime { name });
    }
    let mut found = References { name, private: BTreeSet::new(), public: BTreeSet::new(), internal: BTreeSet::new() };
    // A stripped library has dynamic symbols only.
    for symbol in object.symbols().chain(object.dynamic_symbols()).filter(|symbol| symbol.is_undefined()) {
        let Ok(symbol) = symbol.name_bytes() else { continue };
        // `nm` and old linkers write the version behind the name.
        let symbol = symbol.split(|&b| b == b'@').next().unwrap_or_default();
        let text = || String::from_utf8_lossy(symbol).into_owned();
        if names::public_of(symbol).is_some() {
            found.private.insert(text());
        } else if names::is_public(symbol) {
            found.public.insert(text());
        } else if is_internal(symbol) {
            found.internal.insert(text());
        }
    }
    Ok(found)
}

/// Whether a mangled name is of something in namespace `miopen`: a function, a variable, a table or type information of a class there.
fn is_internal(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b"_Z") else { return false };
    let special: [&[u8]; 8] = [b"TV", b"TI", b"TS", b"TT", b"GV", b"GR", b"TW", b"TH"];
    let rest = special.iter().find_map(|prefix| rest.strip_prefix(*prefix)).unwrap_or(rest);
    let Some(nested) = rest.strip_prefix(b"N") else { return false };
    let end = nested.iter().position(|b| !matches!(b, b'r' | b'V' | b'K' | b'R' | b'O')).unwrap_or(nested.len());
    nested.get(end..).is_some_and(|path| path.starts_with(b"6miopen"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_namespace_are_told_from_others() {
        for name in ["_ZN6miopen6HandleC1Ev", "_ZNK6miopen4core3fooERKNS_6HandleE", "_ZTIN6miopen6solver4BaseE", "_ZGVN6miopen1xE"] {
            assert!(is_internal(name.as_bytes()), "{name}");
        }
        for name in ["_ZN8provider4callEPN6miopen6HandleE", "_ZSt4moveIN6miopen1xEE", "miopenCreate", "_ZN7miopens1xE", "_Z", "_ZN"] {
            assert!(!is_internal(name.as_bytes()), "{name}");
        }
    }
}
