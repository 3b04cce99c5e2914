//! What is installed, and what a running process has.

use crate::error::{At, ShimError};
use crate::file::{self, Mapped};
use crate::locate::{self, RUNTIME_SONAME};
use crate::manifest::{self, Manifest, Mode};
use crate::names;
use hipplan_miopen_abi::table::{SHIM_SONAME, TABLE_SYMBOL};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The variable that turns forwarding on.
pub const FORWARDING: &str = "MIOPEN_HIPDNN_FORWARDING";

/// How far a split is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All of it is there.
    Split,
    /// A command was killed, or files are missing: `hipplan shim split` again, or `unsplit`.
    Unfinished(Vec<String>),
    /// Something else has the wrapper's place, such as an update of MIOpen.
    Replaced(String),
}

/// A split on disk.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Its folder.
    pub folder: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// How far it is.
    pub state: State,
}

/// The split at `path`. Sizes are compared, and the digest of the wrapper only: `check` does more.
///
/// # Errors
/// If there is no split.
pub fn installed(path: &Path) -> Result<Installed, ShimError> {
    let folder = locate::split_folder(path)?;
    let manifest = Manifest::read(&folder)?;
    let mut missing = Vec::new();
    for record in manifest.files().filter(|f| f.name != manifest.wrapper.name) {
        match std::fs::metadata(folder.join(&record.name)) {
            Ok(metadata) if metadata.len() == record.size => {}
            Ok(metadata) => missing.push(format!("{}: {} bytes, expected {}", record.name, metadata.len(), record.size)),
            Err(error) => missing.push(format!("{}: {error}", record.name)),
        }
    }
    for link in &manifest.links {
        if std::fs::read_link(folder.join(&link.path)).ok().as_ref() != Some(&link.target) {
            missing.push(format!("{}: is not a link to {}", link.path.display(), link.target.display()));
        }
    }
    let place = folder.join(&manifest.wrapper.name);
    let wrapper = file::digest(&place).map(|(_, d)| d.to_hex().to_string());
    let state = match wrapper {
        Ok(found) if found == manifest.wrapper.blake3 && missing.is_empty() => State::Split,
        Ok(found) if found == manifest.wrapper.blake3 => State::Unfinished(missing),
        Ok(found) if found == manifest.input.blake3 && manifest.mode == Mode::InPlace => {
            missing.insert(0, format!("{}: is still, or again, the original", manifest.wrapper.name));
            State::Unfinished(missing)
        }
        Ok(found) => State::Replaced(format!("{}: BLAKE3 {found}, the wrapper's is {}", place.display(), manifest.wrapper.blake3)),
        Err(error) => {
            missing.insert(0, error.to_string());
            State::Unfinished(missing)
        }
    };
    Ok(Installed { folder, manifest, state })
}

/// What a mapped file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The wrapper of a split.
    Wrapper,
    /// Its private library.
    Private,
    /// The shim library.
    Shim,
    /// The runtime library.
    Runtime,
    /// MIOpen as its vendor ships it.
    Stock,
    /// It cannot be told: the file is gone or cannot be read.
    Unknown,
}

impl Role {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wrapper => "wrapper",
            Self::Private => "private library",
            Self::Shim => "shim library",
            Self::Runtime => "runtime library",
            Self::Stock => "stock MIOpen",
            Self::Unknown => "unknown",
        }
    }
}

/// A library that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Its path, as the process mapped it.
    pub path: PathBuf,
    /// What it is.
    pub role: Role,
    /// Whether the file at that path is another by now, or gone.
    pub is_replaced: bool,
    /// The folder of the split to which it belongs.
    pub unit: Option<PathBuf>,
}

/// What a process has.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// The libraries, by path.
    pub copies: Vec<Copy>,
    /// The value of [`FORWARDING`] with which it was started; none if it is not set or cannot be read.
    pub forwarding: Option<String>,
    /// Whether its environment could be read.
    pub environment_is_known: bool,
    /// What is not as it should be.
    pub findings: Vec<String>,
}

/// What a running process has mapped.
///
/// # Errors
/// If there is no such process, or it is somebody else's.
pub fn process(pid: u32) -> Result<Process, ShimError> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let maps = std::fs::read(folder.join("maps")).map_err(|source| ShimError::Process { pid, source })?;
    let environment = std::fs::read(folder.join("environ")).ok();
    let forwarding = environment.as_deref().and_then(|e| variable(e, FORWARDING));
    // Paths are the process's own: it may be in a container. Where its root cannot be entered, they are taken as ours.
    let root = folder.join("root");
    let root = if root.join(".").metadata().is_ok() { root } else { PathBuf::from("/") };
    let copies = copies(&maps, &root);
    let findings = judge(&copies);
    Ok(Process { pid, copies, forwarding, environment_is_known: environment.is_some(), findings })
}

/// The value of a variable in a block of `NAME=VALUE` strings.
fn variable(block: &[u8], name: &str) -> Option<String> {
    let value = |entry: &[u8]| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec());
    block.split(|&b| b == 0).find_map(value).map(|v| String::from_utf8_lossy(&v).into_owned())
}

/// What of a `maps` table is ours or MIOpen, by path; the process's root is at `root`.
fn copies(maps: &[u8], root: &Path) -> Vec<Copy> {
    mapped_files(maps).into_iter().filter_map(|file| copy(file, root)).collect()
}

/// A mapped file: its path, device (as `maps` writes it), inode, and whether it is deleted. One path may be that of several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MappedFile {
    path: PathBuf,
    device: String,
    inode: u64,
    is_deleted: bool,
}

/// The files of a `maps` table. Its lines: address, permissions, offset, device, inode, path.
fn mapped_files(maps: &[u8]) -> BTreeSet<MappedFile> {
    let mut files = BTreeSet::new();
    for line in maps.split(|&b| b == b'\n') {
        let mut rest = line.trim_ascii_start();
        let mut word = || {
            let end = rest.iter().position(|&b| b == b' ').unwrap_or(rest.len());
            let (word, more) = rest.split_at(end);
            rest = more.trim_ascii_start();
            String::from_utf8_lossy(word).into_owned()
        };
        let (_, _, _, device, inode) = (word(), word(), word(), word(), word());
        if rest.starts_with(b"/") {
            let (path, is_deleted) = rest.strip_suffix(b" (deleted)").map_or((rest, false), |p| (p, true));
            let path = PathBuf::from(OsStr::from_bytes(path));
            files.insert(MappedFile { path, device, inode: inode.parse().unwrap_or(0), is_deleted });
        }
    }
    files
}

/// What a mapped file is, if it is any of ours or MIOpen.
fn copy(file: MappedFile, root: &Path) -> Option<Copy> {
    let path = file.path;
    let at = root.join(path.strip_prefix("/").unwrap_or(&path));
    let name = path.file_name()?.to_string_lossy().into_owned();
    let lower = name.to_ascii_lowercase();
    if !name.contains(".so") || !(lower.contains("miopen") || lower.contains("hipplan")) {
        return None;
    }
    let now = std::fs::metadata(&at).ok();
    // Overlay filesystems show one device here and another there, so only the inode decides.
    let is_replaced = file.is_deleted || now.as_ref().is_none_or(|m| m.ino() != file.inode);
    let unit = path.parent().filter(|folder| {
        let folder = root.join(folder.strip_prefix("/").unwrap_or(folder));
        Manifest::read(&folder).is_ok_and(|m| {
            let is_it = |found: &Metadata| now.as_ref().is_some_and(|now| (now.dev(), now.ino()) == (found.dev(), found.ino()));
            let same = |f: &manifest::FileRecord| f.name == name || std::fs::metadata(folder.join(&f.name)).is_ok_and(|m| is_it(&m));
            m.files().any(same)
        })
    });
    let unit = unit.map(Path::to_owned);
    let role = if is_replaced { by_name(&name) } else { by_content(&at).unwrap_or(Role::Unknown) };
    Some(Copy { path, role, is_replaced, unit })
}

/// What the file was, when it is not there to be looked at.
fn by_name(name: &str) -> Role {
    match name {
        SHIM_SONAME => Role::Shim,
        RUNTIME_SONAME => Role::Runtime,
        name if name.contains("_private.so") => Role::Private,
        _ => Role::Unknown,
    }
}

fn by_content(path: &Path) -> Option<Role> {
    let mapped = Mapped::open(path).ok()?;
    let elf = locate::read(&mapped).ok()?;
    let exports = |is: &dyn Fn(&[u8]) -> bool| elf.symbols().any(|(_, s)| s.is_exported() && is(s.name));
    Some(match () {
        () if exports(&|n| n == TABLE_SYMBOL.as_bytes()) => Role::Wrapper,
        () if elf.soname() == Some(SHIM_SONAME.as_bytes()) => Role::Shim,
        () if elf.soname() == Some(RUNTIME_SONAME.as_bytes()) => Role::Runtime,
        () if exports(&|n| names::public_of(n).is_some()) => Role::Private,
        () if exports(&names::is_public) => Role::Stock,
        () => return None,
    })
}

/// What is wrong with these libraries being in one process.
fn judge(copies: &[Copy]) -> Vec<String> {
    let mut findings: Vec<String> = copies
        .iter()
        .filter(|c| c.is_replaced)
        .map(|c| format!("{}: was replaced since the process loaded it; restart the process", c.path.display()))
        .collect();
    let of = |role: Role| copies.iter().filter(move |c| c.role == role);
    let has_wrapper = of(Role::Wrapper).next().is_some();
    findings.extend(
        of(Role::Stock)
            .filter(|_| has_wrapper)
            .map(|c| format!("{}: a second MIOpen beside the split; what is bound to it passes the wrapper by", c.path.display())),
    );
    for role in [Role::Wrapper, Role::Private, Role::Shim] {
        if of(role).count() > 1 {
            findings.push(format!("{} copies of the {}: they do not know of each other", of(role).count(), role.name()));
        }
    }
    let units: BTreeSet<_> =
        copies.iter().filter(|c| [Role::Wrapper, Role::Private, Role::Shim].contains(&c.role)).map(|c| &c.unit).collect();
    if has_wrapper && units.len() > 1 {
        findings.push("wrapper, private library and shim library are not of one split".to_owned());
    }
    findings
}

/// Whether a process can be looked at by this user; for a message before the table.
///
/// # Errors
/// If its folder in `/proc` cannot be read.
pub fn command_of(pid: u32) -> Result<String, ShimError> {
    let path = PathBuf::from(format!("/proc/{pid}/comm"));
    std::fs::read_to_string(&path).map(|t| t.trim_end().to_owned()).at(&path, "cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_taken_apart() {
        let maps = "7f00-7f01 r--p 00000000 fe:00 42                         /opt/my lib/libMIOpen.so.1\n\
                    7f01-7f02 r-xp 00001000 fe:00 42                         /opt/my lib/libMIOpen.so.1\n\
                    7f03-7f04 rw-p 00000000 00:00 0 \n\
                    7f05-7f06 r--p 00000000 fe:00 7                          /x/libhipplan.so.0 (deleted)\n\
                    7ffc-7ffd rw-p 00000000 00:00 0                          [stack]\n";
        let files: Vec<MappedFile> = mapped_files(maps.as_bytes()).into_iter().collect();
        let file = |path: &str, inode, is_deleted| MappedFile { path: path.into(), device: "fe:00".to_owned(), inode, is_deleted };
        assert_eq!(files, [file("/opt/my lib/libMIOpen.so.1", 42, false), file("/x/libhipplan.so.0", 7, true)]);
    }

    /// Paths need not be text, lead from the process's own root, and one may be that of a file that is gone and of its successor.
    #[test]
    fn a_process_has_its_own_root() {
        let root = tempfile::tempdir().expect("a folder");
        let name = OsStr::from_bytes(b"lib\xff");
        std::fs::create_dir(root.path().join(name)).expect("a folder");
        let at = root.path().join(name).join("libMIOpen.so.1");
        std::fs::write(&at, "new").expect("written");
        let inode = std::fs::metadata(&at).expect("there").ino();
        let mut maps = Vec::new();
        for (inode, end) in [(inode + 1, " (deleted)"), (inode, "")] {
            maps.extend(format!("7f00-7f01 r--p 00000000 fe:00 {inode}     ").into_bytes());
            maps.extend(b"/lib\xff/libMIOpen.so.1");
            maps.extend(format!("{end}\n").into_bytes());
        }
        let found: Vec<bool> = copies(&maps, root.path()).into_iter().map(|c| c.is_replaced).collect();
        assert!(found.len() == 2 && found.contains(&true) && found.contains(&false), "{found:?}");
        assert!(copies(&maps, Path::new("/nonexistent")).iter().all(|c| c.is_replaced));
    }

    #[test]
    fn variables_are_whole_names() {
        let block = b"A=1\0XMIOPEN_HIPDNN_FORWARDING=no\0MIOPEN_HIPDNN_FORWARDING=enabled\0";
        assert_eq!(variable(block, FORWARDING).as_deref(), Some("enabled"));
        assert_eq!(variable(b"MIOPEN_HIPDNN_FORWARDINGS=1\0", FORWARDING), None);
    }

    #[test]
    fn mixtures_are_found() {
        let copy =
            |path: &str, role, unit: Option<&str>, is_replaced| Copy { path: path.into(), role, is_replaced, unit: unit.map(Into::into) };
        let good = vec![
            copy("/p/libMIOpen.so.1", Role::Wrapper, Some("/p"), false),
            copy("/p/libMIOpen_private.so.1", Role::Private, Some("/p"), false),
            copy("/p/libhipplan_miopen.so.0", Role::Shim, Some("/p"), false),
        ];
        assert_eq!(judge(&good), Vec::<String>::new());
        let with = |more: Copy| judge(&[good.clone(), vec![more]].concat());
        assert_eq!(with(copy("/usr/lib/libMIOpen.so.1", Role::Stock, None, false)).len(), 1);
        assert_eq!(with(copy("/q/libhipplan_miopen.so.0", Role::Shim, Some("/q"), false)).len(), 2);
        assert_eq!(judge(&[copy("/p/x", Role::Private, Some("/p"), true)]).len(), 1);
    }
}
