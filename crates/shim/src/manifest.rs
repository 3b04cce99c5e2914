//! What a split consists of, written beside it as `hipplan-split.json`.

use crate::error::{At, ShimError};
use crate::file::{self, Staged};
use crate::fingerprint::Fingerprint;
use crate::wrapper::{Export, Node};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// The manifest's file name.
pub const NAME: &str = "hipplan-split.json";
/// Version of the manifest's form.
pub const FORMAT: u32 = 1;
/// Largest manifest that is read, bytes.
const MAX_SIZE: u64 = 64 << 20;

/// Where the split is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// In a folder of its own; the original is where it was.
    Prefix,
    /// In the original's folder; the original is put away.
    InPlace,
}

/// Where the private library comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The original with its public names renamed.
    Renamed,
    /// The private library of another split, as it was (in a prefix: with a longer search path).
    Kept,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Name in the manifest's folder.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Digest, hexadecimal.
    pub blake3: String,
}

/// What was split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Its path then, without links.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Digest, hexadecimal.
    pub blake3: String,
    /// GNU build id, hexadecimal.
    pub build_id: Option<String>,
}

/// The private library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Private {
    /// The file; its name is its SONAME.
    #[serde(flatten)]
    pub file: FileRecord,
    /// Where it comes from.
    pub origin: Origin,
    /// GNU build id, hexadecimal; that of the original.
    pub build_id: Option<String>,
    /// What must be as in the original; for [`Origin::Kept`], as in the private library that was there.
    pub fingerprint: Fingerprint,
}

/// A symbolic link that belongs to the split.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// Where it is, from the manifest's folder.
    pub path: PathBuf,
    /// Where it leads.
    pub target: PathBuf,
}

/// A split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of this crate that made it.
    pub made_by: String,
    /// Where it is.
    pub mode: Mode,
    /// What was split.
    pub input: Input,
    /// Its SONAME, which the wrapper has.
    pub soname: String,
    /// The wrapper.
    pub wrapper: FileRecord,
    /// The private library.
    pub private: Private,
    /// The shim library.
    pub shim: FileRecord,
    /// The runtime library; the split works without, but forwards nothing.
    pub runtime: Option<FileRecord>,
    /// Links.
    pub links: Vec<Link>,
    /// Folders that were made for the split, from the manifest's folder.
    pub folders: Vec<PathBuf>,
    /// Files of the split that were there before it, such as those of an installed hipplan: undoing the split leaves them.
    #[serde(default)]
    pub preexisting: Vec<String>,
    /// Development files that were made for the split; their names are paths from the manifest's folder.
    #[serde(default)]
    pub development: Vec<FileRecord>,
    /// What files of the split were before, while they are being replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<FileRecord>,
    /// Name of the original that was put away, in place only.
    pub backup: Option<String>,
    /// The original's version nodes.
    pub nodes: Vec<Node>,
    /// The public names: `name@@VERSION`, `name@VERSION` if that is not the default version, `name` if it has none.
    pub names: Vec<String>,
}

impl Manifest {
    /// Reads the manifest of a folder.
    ///
    /// # Errors
    /// If there is none, or it cannot be understood.
    pub fn read(folder: &Path) -> Result<Self, ShimError> {
        let path = folder.join(NAME);
        let size = match std::fs::metadata(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(ShimError::NoManifest { path: folder.to_owned(), manifest: NAME });
            }
            metadata => metadata.at(&path, "cannot be read")?.len(),
        };
        let bad = |reason: String| ShimError::Manifest { path: path.clone(), reason };
        if size > MAX_SIZE {
            return Err(bad(format!("{size} bytes, expected at most {MAX_SIZE}")));
        }
        let text = std::fs::read(&path).at(&path, "cannot be read")?;
        let manifest = Self::parse(&text).map_err(&bad)?;
        Ok(manifest)
    }

    /// Understands a manifest.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let Format { format } = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        if format != FORMAT {
            return Err(format!("format {format}, expected {FORMAT}; it was made by another version of hipplan"));
        }
        let mut manifest: Self = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        // Names are joined to the folder, and files of these names are removed.
        let runtime = manifest.runtime.iter().map(|f| &f.name);
        let files = [&manifest.wrapper.name, &manifest.private.file.name, &manifest.shim.name];
        if let Some(name) = files.into_iter().chain(runtime).chain(&manifest.backup).find(|n| !is_plain(Path::new(n))) {
            return Err(format!("{name:?} is not a file name"));
        }
        if let Some(record) = manifest.development.iter().find(|f| !is_development(Path::new(&f.name))) {
            return Err(format!("{:?} is not a development file of a split", record.name));
        }
        // Folders are removed if they are empty; a path that says nothing of where the split is now is of no use.
        manifest.folders.retain(|f| is_relative(f));
        match manifest.links.iter().find(|l| !is_plain(&l.path) && l.path != Path::new(DATABASE)) {
            Some(link) => Err(format!("{:?} is not a link of a split", link.path)),
            None => Ok(manifest),
        }
    }

    /// Writes it into its folder, and flushes both.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), ShimError> {
        Staged::with(&folder.join(NAME), self.to_text().as_bytes())?.commit(None)?;
        file::sync_folder(folder)
    }

    /// As text.
    pub fn to_text(&self) -> String {
        // Of a structure of strings and numbers, this cannot fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Every file of the split.
    pub fn files(&self) -> impl Iterator<Item = &FileRecord> {
        [&self.wrapper, &self.private.file, &self.shim].into_iter().chain(&self.runtime)
    }

    /// Whether a file of this name is there because a split put it there.
    pub fn has_made(&self, name: &str) -> bool {
        self.files().any(|f| f.name == name) && !self.preexisting.iter().any(|p| p == name)
    }

    /// Adds folders that were made.
    pub(crate) fn add_folders(&mut self, made: impl IntoIterator<Item = PathBuf>) {
        for folder in made {
            if !self.folders.contains(&folder) {
                self.folders.push(folder);
            }
        }
    }

    /// The public names, taken apart.
    pub fn exports(&self) -> Vec<Export> {
        let take = |text: &String| {
            let (name, version) = text.split_once('@').map_or((text.as_str(), None), |(n, v)| (n, Some(v)));
            let default = version.and_then(|v| v.strip_prefix('@'));
            let hidden = version.is_some() && default.is_none();
            Export { name: name.to_owned(), version: default.or(version).map(str::to_owned), hidden }
        };
        self.names.iter().map(take).collect()
    }
}

/// Where MIOpen looks for its databases, from the folder of its library.
pub const DATABASE: &str = "../share/miopen/db";

fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    matches!((parts.next(), parts.next()), (Some(std::path::Component::Normal(_)), None))
        && !path.as_os_str().as_encoded_bytes().contains(&0)
}

/// Upward first, then downward.
fn is_relative(path: &Path) -> bool {
    let mut below = path.components().skip_while(|c| matches!(c, Component::ParentDir | Component::CurDir));
    below.all(|c| matches!(c, Component::Normal(_))) && !path.as_os_str().as_encoded_bytes().contains(&0)
}

/// A header or a file of the CMake package: in one of the folders that only these have.
fn is_development(path: &Path) -> bool {
    let up = path.components().take_while(|c| *c == Component::ParentDir).count();
    let below: Vec<_> = path.components().skip(up).map(Component::as_os_str).collect();
    let Some((_, folders)) = below.split_last() else { return false };
    let is_in = |expected: &[&str]| folders.iter().copied().eq(expected.iter().map(std::ffi::OsStr::new));
    is_relative(path)
        && match up {
            0 => is_in(&["miopen_private", "include", "miopen"]) || is_in(&["cmake", "miopen"]),
            1 | 2 => is_in(&["include", "miopen"]),
            _ => false,
        }
}

/// Where a path leads from a folder, both without links.
pub(crate) fn resolve(folder: &Path, path: &Path) -> PathBuf {
    let mut at = folder.to_owned();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                at.pop();
            }
            Component::CurDir => {}
            other => at.push(other),
        }
    }
    at
}

/// The path of `to` from `from`; both are absolute and without links.
pub(crate) fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

/// The folders above `path` that are not there, outermost first, from `folder`.
pub(crate) fn missing_folders(folder: &Path, path: &Path) -> Vec<PathBuf> {
    let missing = path.ancestors().skip(1).take_while(|p| !p.exists());
    let mut missing: Vec<PathBuf> = missing.map(|p| relative(folder, p)).collect();
    missing.reverse();
    missing
}

/// A public name with its version, as `nm -D` writes it.
pub fn name_text(export: &Export) -> String {
    match &export.version {
        None => export.name.clone(),
        Some(version) => format!("{}{}{version}", export.name, if export.hidden { "@" } else { "@@" }),
    }
}
