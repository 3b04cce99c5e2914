//! Development files of a split: the header of the private names, that of what wrappers add, and a CMake package.
//!
//! All are made from the user's own `miopen.h`, on the user's machine. The private header is outside every public include path: only who
//! links the CMake target `MIOpen_private` finds it.

mod cmake;
mod declarations;
pub mod objects;
mod render;
mod token;

use crate::error::{At, ShimError};
use crate::file::{self, Lock, Staged};
use crate::locate;
use crate::manifest::{self, FileRecord, Manifest, Mode};
use crate::names;
use declarations::Header;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folder of the private header, from that of the libraries; an include path.
pub const PRIVATE_INCLUDE: &str = "miopen_private/include";
/// The header of the private names, from [`PRIVATE_INCLUDE`].
pub const PRIVATE_HEADER: &str = "miopen/miopen_impl.h";
/// The header of what wrappers add, from the public include path.
pub const FORWARDING_HEADER: &str = "miopen/miopen_forwarding.h";
/// Largest header that is read, bytes.
const MAX_SIZE: u64 = 16 << 20;

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Files that were written or were there already, public headers included.
    pub files: Vec<PathBuf>,
    /// Functions that the private header declares.
    pub declared: usize,
    /// Functions that the header declares and the private library does not export: a program that calls one does not link.
    pub not_exported: Vec<String>,
    /// Functions that the private library exports and the header does not declare.
    pub not_declared: Vec<String>,
    /// MIOpen's version, if its headers tell it.
    pub version: Option<String>,
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeadersError {
    /// A file or the split cannot be used.
    #[error(transparent)]
    Shim(#[from] ShimError),
    /// Not MIOpen's header.
    #[error("{path}: it declares no function of MIOpen's; name the file miopen/miopen.h of its development package")]
    NoFunctions {
        /// The file.
        path: PathBuf,
    },
    /// Not where programs include it from.
    #[error("{path}: expected a file in a folder named miopen, because programs include <miopen/miopen.h>")]
    Place {
        /// The file.
        path: PathBuf,
    },
    /// Too large for a header.
    #[error("{path}: it has {found} bytes, a header has at most {MAX_SIZE}")]
    Size {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        found: u64,
    },
    /// A header of another split.
    #[error("{path}: it declares {name}; name the original miopen.h, not what was generated from it")]
    Generated {
        /// The file.
        path: PathBuf,
        /// A private name.
        name: String,
    },
}

/// Makes the development files of the split at `prefix` from the user's `miopen.h`. Its public headers are copied into the prefix, if they
/// are not those of it, so that the prefix can be moved as a whole.
///
/// # Errors
/// There is no split, the header is none of MIOpen's, or something cannot be written.
pub fn generate(header: &Path, prefix: &Path) -> Result<Report, HeadersError> {
    let folder = locate::split_folder(prefix)?;
    let _lock = Lock::take(&folder)?;
    let manifest = Manifest::read(&folder)?;
    let header = header.canonicalize().at(header, "cannot be found")?;
    let source = header.parent().unwrap_or(Path::new("/"));
    if source.file_name().is_none_or(|name| name != "miopen") {
        return Err(HeadersError::Place { path: header });
    }
    let text = read(&header)?;
    let parsed = Header::read(&text);
    let declared: BTreeSet<&str> = parsed.functions().map(|f| f.name.as_str()).collect();
    if declared.is_empty() {
        return Err(HeadersError::NoFunctions { path: header });
    }
    if let Some(name) = words(&text).find(|word| names::public_of(word).is_some()) {
        return Err(HeadersError::Generated { path: header, name: String::from_utf8_lossy(name).into_owned() });
    }
    let exports = manifest.exports();
    let exported: BTreeSet<&str> =
        exports.iter().map(|export| export.name.as_str()).filter(|name| names::is_public(name.as_bytes())).collect();
    let missing = |a: &BTreeSet<&str>, b: &BTreeSet<&str>| a.difference(b).map(|&name| name.to_owned()).collect();
    let (not_exported, not_declared) = (missing(&declared, &exported), missing(&exported, &declared));
    let version = version(source)?;

    let include = public_include(&folder, source, manifest.mode);
    let mut made = public_headers(source, &include.join("miopen"))?;
    let package = cmake::Package {
        wrapper: &manifest.wrapper.name,
        wrapper_soname: &manifest.soname,
        private: &manifest.private.file.name,
        include: &manifest::relative(&folder, &include),
        version: version.as_deref(),
    };
    let cmake = folder.join("cmake/miopen");
    let generated = [
        (folder.join(PRIVATE_INCLUDE).join(PRIVATE_HEADER), Some(render::private_header(&parsed))),
        (include.join(FORWARDING_HEADER), Some(render::forwarding_header())),
        (cmake.join("miopen-config.cmake"), Some(package.config())),
        (cmake.join("miopen-config-version.cmake"), package.version_file()),
    ];
    made.extend(generated.into_iter().filter_map(|(path, text)| Some((path, text?.into_bytes()))));
    install(&folder, &manifest, &made)?;
    let files = made.into_iter().map(|(path, _)| path).collect();
    Ok(Report { files, declared: declared.len(), not_exported, not_declared, version })
}

fn read(path: &Path) -> Result<Vec<u8>, HeadersError> {
    let found = file::require_regular(path)?.len();
    if found > MAX_SIZE {
        return Err(HeadersError::Size { path: path.to_owned(), found });
    }
    Ok(std::fs::read(path).at(path, "cannot be read")?)
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| !b.is_ascii_alphanumeric() && *b != b'_')
}

/// The include paths that a split's public headers may be in. A distribution's libraries are one folder deeper: lib/x86_64-linux-gnu.
pub(crate) fn public_includes(folder: &Path, mode: Mode) -> Vec<PathBuf> {
    let above = folder.ancestors().skip(1).take(if mode == Mode::InPlace { 2 } else { 1 });
    above.map(|prefix| prefix.join("include")).collect()
}

/// The include path that public headers are found in: the source's own where the libraries are beside it, else `include` beside their folder.
fn public_include(folder: &Path, source: &Path, mode: Mode) -> PathBuf {
    let own = source.parent().unwrap_or(Path::new("/"));
    let all = public_includes(folder, mode);
    let own = all.iter().find(|path| path.as_path() == own);
    own.or(all.first()).cloned().unwrap_or_else(|| PathBuf::from("/include"))
}

/// The headers beside `miopen.h` and where they go, unless they are there; links are followed.
fn public_headers(source: &Path, target: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, HeadersError> {
    if target.canonicalize().is_ok_and(|target| target == source) {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(source).at(source, "cannot be read")? {
        let path = entry.at(source, "cannot be read")?.path();
        let is_header = path.extension().is_some_and(|e| e == "h" || e == "hpp") && path.is_file();
        if let Some(name) = path.file_name().filter(|_| is_header) {
            files.push((target.join(name), read(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

/// Writes files, and the folders above them, and keeps record of them in the manifest. One that is as it should be stays as it is and is
/// recorded only if it was made here before.
///
/// # Errors
/// One that nobody made here is in the way: then none is written.
fn install(folder: &Path, manifest: &Manifest, files: &[(PathBuf, Vec<u8>)]) -> Result<(), ShimError> {
    let (mut records, mut to_write, mut folders) = (Vec::new(), Vec::new(), Vec::new());
    for (path, bytes) in files {
        let name = manifest::relative(folder, path);
        let Some(name) = name.to_str() else {
            return Err(std::io::Error::from(std::io::ErrorKind::InvalidFilename)).at(path, "the name is not UTF-8");
        };
        let digest = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
        let record = |bytes: &[u8]| FileRecord { name: name.to_owned(), size: bytes.len() as u64, blake3: digest(bytes) };
        let there = if path.symlink_metadata().is_ok() { Some(std::fs::read(path).at(path, "cannot be read")?) } else { None };
        let is_made = there.as_ref().is_some_and(|found| manifest.development.contains(&record(found)));
        match there {
            Some(found) if found == *bytes && !is_made => continue,
            Some(found) if found == *bytes => {}
            Some(_) if !is_made => return Err(ShimError::InTheWay { path: path.clone() }),
            _ => to_write.push((path, bytes)),
        }
        folders.extend(manifest::missing_folders(folder, path));
        records.push(record(bytes));
    }
    // While files are replaced, both what they were and what they become is known.
    let old = &manifest.development;
    let mut next = manifest.clone();
    next.add_folders(folders);
    next.development.extend(records.iter().filter(|r| !old.contains(r)).cloned());
    if next != *manifest {
        next.write(folder)?;
    }
    for (path, bytes) in to_write {
        let parent = path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(parent).at(parent, "cannot be made")?;
        file::remove_unfinished(parent);
        Staged::with(path, bytes)?.commit(None)?;
    }
    // Others stay, such as public headers from which this was made.
    let others: Vec<_> = old.iter().filter(|o| !records.iter().any(|r| r.name == o.name)).cloned().collect();
    records.extend(others);
    if next.development != records {
        next.development = records;
        next.write(folder)?;
    }
    Ok(())
}

/// MIOpen's version, from `version.h` beside its header.
fn version(source: &Path) -> Result<Option<String>, HeadersError> {
    let path = source.join("version.h");
    if !path.is_file() {
        return Ok(None);
    }
    let text = read(&path)?;
    let part = |name: &str| {
        let define = format!("MIOPEN_VERSION_{name}");
        let line = text.split(|&b| b == b'\n').find_map(|line| {
            let mut words = std::str::from_utf8(line).ok()?.trim().strip_prefix('#')?.split_whitespace();
            (words.next() == Some("define") && words.next() == Some(&define)).then(|| words.next())?
        });
        line.filter(|digits| !digits.is_empty() && digits.len() < 10 && digits.bytes().all(|b| b.is_ascii_digit())).map(str::to_owned)
    };
    let parts: Option<Vec<String>> = ["MAJOR", "MINOR", "PATCH"].into_iter().map(part).collect();
    Ok(parts.map(|parts| parts.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_lead_from_one_to_the_other() {
        let lead = |from: &str, to: &str| manifest::relative(Path::new(from), Path::new(to)).display().to_string();
        assert_eq!(lead("/p/lib", "/p/include"), "../include");
        assert_eq!(lead("/usr/lib/x86_64-linux-gnu", "/usr/include"), "../../include");
        assert_eq!(lead("/p", "/p/include"), "include");
    }
}
