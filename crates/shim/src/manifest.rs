//! What a split consists of, written beside it as `hipplan-split.json`.

use crate::error::{At, ShimError};
use crate::fingerprint::Fingerprint;
use crate::wrapper::{Export, Node};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

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
    /// Folders that were made for the split, outermost first.
    pub folders: Vec<PathBuf>,
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
        let manifest: Self = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        // Names are joined to the folder, and files of these names are removed.
        let runtime = manifest.runtime.iter().map(|f| &f.name);
        let files = [&manifest.wrapper.name, &manifest.private.file.name, &manifest.shim.name];
        if let Some(name) = files.into_iter().chain(runtime).chain(&manifest.backup).find(|n| !is_plain(Path::new(n))) {
            return Err(format!("{name:?} is not a file name"));
        }
        match manifest.links.iter().find(|l| !is_plain(&l.path) && l.path != Path::new(DATABASE)) {
            Some(link) => Err(format!("{:?} is not a link of a split", link.path)),
            None => Ok(manifest),
        }
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

/// A public name with its version, as `nm -D` writes it.
pub fn name_text(export: &Export) -> String {
    match &export.version {
        None => export.name.clone(),
        Some(version) => format!("{}{}{version}", export.name, if export.hidden { "@" } else { "@@" }),
    }
}
