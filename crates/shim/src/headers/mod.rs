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
use crate::file::Staged;
use crate::locate;
use crate::manifest::Manifest;
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

    let include = public_include(&folder, source);
    let mut files = copy_public(source, &include.join("miopen"))?;
    let package = cmake::Package {
        wrapper: &manifest.wrapper.name,
        wrapper_soname: &manifest.soname,
        private: &manifest.private.file.name,
        include: &relative(&folder, &include),
        version: version.as_deref(),
    };
    let cmake = folder.join("cmake/miopen");
    let made = [
        (folder.join(PRIVATE_INCLUDE).join(PRIVATE_HEADER), Some(render::private_header(&parsed))),
        (include.join(FORWARDING_HEADER), Some(render::forwarding_header())),
        (cmake.join("miopen-config.cmake"), Some(package.config())),
        (cmake.join("miopen-config-version.cmake"), package.version_file()),
    ];
    for (path, text) in made {
        if let Some(text) = text {
            write(&path, text.as_bytes())?;
            files.push(path);
        }
    }
    Ok(Report { files, declared: declared.len(), not_exported, not_declared, version })
}

fn read(path: &Path) -> Result<Vec<u8>, HeadersError> {
    let found = std::fs::metadata(path).at(path, "cannot be read")?.len();
    if found > MAX_SIZE {
        return Err(HeadersError::Size { path: path.to_owned(), found });
    }
    Ok(std::fs::read(path).at(path, "cannot be read")?)
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| !b.is_ascii_alphanumeric() && *b != b'_')
}

/// The include path that public headers are found in: the source's own where the libraries are beside it, else `include` beside their folder.
fn public_include(folder: &Path, source: &Path) -> PathBuf {
    let own = source.parent().unwrap_or(Path::new("/"));
    let beside = folder.parent().unwrap_or(Path::new("/")).join("include");
    // A distribution's libraries are one folder deeper: lib/x86_64-linux-gnu.
    let deeper = folder.parent().and_then(Path::parent).map(|prefix| prefix.join("include"));
    if deeper.as_deref() == Some(own) { own.to_owned() } else { beside }
}

/// The path of `to` from `from`; both are absolute and without links.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| std::path::Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

/// Copies the headers beside `miopen.h`, unless they are there; links are followed.
fn copy_public(source: &Path, target: &Path) -> Result<Vec<PathBuf>, HeadersError> {
    if target.canonicalize().is_ok_and(|target| target == source) {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(source).at(source, "cannot be read")? {
        let path = entry.at(source, "cannot be read")?.path();
        let is_header = path.extension().is_some_and(|e| e == "h" || e == "hpp") && path.is_file();
        if let Some(name) = path.file_name().filter(|_| is_header) {
            let target = target.join(name);
            write(&target, &read(&path)?)?;
            files.push(target);
        }
    }
    files.sort();
    Ok(files)
}

/// Writes a file, and the folders above it; one that is as it should be stays as it is.
fn write(path: &Path, bytes: &[u8]) -> Result<(), ShimError> {
    if std::fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).at(folder, "cannot be made")?;
    Staged::with(path, bytes)?.commit(None)
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
        let lead = |from: &str, to: &str| relative(Path::new(from), Path::new(to)).display().to_string();
        assert_eq!(lead("/p/lib", "/p/include"), "../include");
        assert_eq!(lead("/usr/lib/x86_64-linux-gnu", "/usr/include"), "../../include");
        assert_eq!(lead("/p", "/p/include"), "include");
    }
}
