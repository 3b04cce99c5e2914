//! Makes a split on disk.
//!
//! Every file is written beside its place, flushed and renamed. The wrapper comes last: until its one rename, programs find what they
//! found before, and afterwards everything that it needs is there. A command that was killed is repaired by running it again.

use crate::elf::Elf;
use crate::error::{At, ShimError, Unsuitable};
use crate::file::{self, Lock, Mapped, Staged};
use crate::fingerprint::{self, Fingerprint};
use crate::locate::{self, Libraries, RUNTIME_SONAME, Source};
use crate::manifest::{self, DATABASE, FileRecord, Input, Link, Manifest, Mode, Origin, Private};
use crate::private::{self, Request};
use crate::surface;
use crate::wrapper::Wrapper;
use hipplan_miopen_abi::table::SHIM_SONAME;
use std::path::{Path, PathBuf};

/// What an original that is put away begins with. Not `lib`, or `ldconfig` would point its links at it.
pub const BACKUP: &str = "hipplan-original-";

/// Where to put a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Into `lib` of this folder, which is made if it is not there.
    Prefix(PathBuf),
    /// Into the library's own folder.
    InPlace,
}

/// What to split, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The library, or a link to it.
    pub from: PathBuf,
    /// Where to.
    pub place: Place,
    /// The shim library, if it is to be that one.
    pub shim_library: Option<PathBuf>,
    /// Folders in which to look for the shim's libraries first.
    pub library_folders: Vec<PathBuf>,
}

/// What was done.
#[derive(Clone, Debug)]
pub struct Report {
    /// The folder with the split.
    pub folder: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// Whether everything was there already.
    pub is_unchanged: bool,
    /// What the user should know.
    pub remarks: Vec<String>,
}

/// Splits a library.
///
/// # Errors
/// If it is unfit, or something cannot be read or written. What was there before is still there then.
pub fn split(options: &Options) -> Result<Report, ShimError> {
    let source = Source::find(&options.from, options.place == Place::InPlace)?;
    let libraries = Libraries::find(options.shim_library.as_deref(), &options.library_folders)?;
    let original = Mapped::open(&source.original)?;
    let elf = locate::read(&original)?;
    let pair = source.private.as_deref().map(Mapped::open).transpose()?;
    let wrapper = match &pair {
        None => surface::wrapper_of_stock(&elf).map_err(locate::unsuitable(original.path()))?,
        Some(private) => surface::wrapper_of_pair(&elf, &locate::read(private)?).map_err(locate::unsuitable(original.path()))?,
    };

    let (folder, made) = match &options.place {
        Place::InPlace => (source.folder.clone(), Vec::new()),
        Place::Prefix(prefix) => make_folders(prefix, &source.folder)?,
    };
    let result = (|| {
        let _lock = Lock::take(&folder)?;
        file::remove_unfinished(&folder);
        let old = match Manifest::read(&folder) {
            Ok(old) => Some(old),
            Err(ShimError::NoManifest { .. }) => None,
            Err(error) => return Err(error),
        };
        let (source, original, pair) = (&source, &original, pair.as_ref());
        let work = Work { source, original, pair, wrapper: &wrapper, libraries: &libraries, folder: &folder, old: old.as_ref() };
        work.run(&options.place, &made)
    })();
    result.inspect_err(|_| {
        // Only what is empty goes.
        for made in made.iter().rev() {
            let _ = std::fs::remove_dir(manifest::resolve(&folder, made));
        }
    })
}

/// Makes `lib` of a prefix; gives it, and what was made, outermost first and as paths from it.
fn make_folders(prefix: &Path, source: &Path) -> Result<(PathBuf, Vec<PathBuf>), ShimError> {
    // The private library looks in the original's folder.
    if source.as_os_str().as_encoded_bytes().iter().any(|b| b":$".contains(b)) {
        return Err(ShimError::SearchPath { path: source.to_owned() });
    }
    let library = std::path::absolute(prefix.join("lib")).at(prefix, "is no path")?;
    let mut missing: Vec<PathBuf> = library.ancestors().take_while(|p| !p.exists()).map(Path::to_owned).collect();
    missing.reverse();
    std::fs::create_dir_all(&library).at(&library, "cannot be made")?;
    let library = library.canonicalize().at(&library, "cannot be found")?;
    if library == source {
        return Err(ShimError::SameFolder { path: library });
    }
    let above = missing.iter().filter_map(|m| m.canonicalize().ok()).filter(|m| library.starts_with(m));
    let made = above.map(|m| manifest::relative(&library, &m)).map(|m| if m.as_os_str().is_empty() { ".".into() } else { m }).collect();
    Ok((library, made))
}

struct Work<'w> {
    source: &'w Source,
    original: &'w Mapped,
    pair: Option<&'w Mapped>,
    wrapper: &'w Wrapper,
    libraries: &'w Libraries,
    folder: &'w Path,
    /// The split that is there.
    old: Option<&'w Manifest>,
}

/// A file of the split: staged, or there already.
struct Part {
    record: FileRecord,
    staged: Option<Staged>,
    /// Whether it was there before any split.
    is_preexisting: bool,
}

impl Work<'_> {
    fn run(&self, place: &Place, made: &[PathBuf]) -> Result<Report, ShimError> {
        let mode = if *place == Place::InPlace { Mode::InPlace } else { Mode::Prefix };
        let old = self.old;
        let wrapper_name = if mode == Mode::InPlace { self.source.name.clone() } else { self.wrapper.soname.clone() };
        self.refuse_strangers(mode, &wrapper_name)?;

        let mut remarks = Vec::new();
        let (size, blake3) = file::digest(self.original.path())?;
        let blake3 = blake3.to_hex().to_string();
        let backup = (mode == Mode::InPlace).then(|| format!("{BACKUP}{}", self.source.name));
        let stale = self.stale_backup(backup.as_deref(), &blake3)?;
        if let Some(old) = old.filter(|o| o.wrapper.name != wrapper_name) {
            remarks.push(format!("{} is gone: followed to {wrapper_name}, which has the same SONAME", old.wrapper.name));
        }
        let (private, fingerprint) = self.private(mode)?;
        let bytes = self.wrapper.build()?;
        self_check(&self.folder.join(&wrapper_name), &bytes)?;
        let wrapper = self.part(&wrapper_name, |target| Staged::with(target, &bytes))?;
        let shim = self.part(SHIM_SONAME, |target| Staged::copy_of(target, &self.libraries.shim))?;
        let runtime = match &self.libraries.runtime {
            Some(path) => Some(self.part(RUNTIME_SONAME, |target| Staged::copy_of(target, path))?),
            None => {
                remarks.push(format!(
                    "{RUNTIME_SONAME} was not found: everything works, but nothing is forwarded until it is beside {SHIM_SONAME}"
                ));
                None
            }
        };
        let links = self.links(mode, &mut remarks)?;

        let build_id = |elf: &Elf<'_>| elf.build_id().map(hexadecimal);
        let elf = locate::read(self.original)?;
        let parts = [Some(&private), Some(&wrapper), Some(&shim), runtime.as_ref()];
        let preexisting = parts.into_iter().flatten().filter(|p| p.is_preexisting).map(|p| p.record.name.clone()).collect();
        let all_there = parts.into_iter().flatten().all(|p| p.staged.is_none());
        let mut manifest = Manifest {
            format: manifest::FORMAT,
            made_by: env!("CARGO_PKG_VERSION").to_owned(),
            mode,
            input: Input { path: self.source.folder.join(&self.source.name), size, blake3, build_id: build_id(&elf) },
            soname: self.wrapper.soname.clone(),
            wrapper: wrapper.record.clone(),
            private: Private {
                file: private.record.clone(),
                origin: if self.pair.is_some() { Origin::Kept } else { Origin::Renamed },
                build_id: build_id(&locate::read(self.pair.unwrap_or(self.original))?),
                fingerprint,
            },
            shim: shim.record.clone(),
            runtime: runtime.as_ref().map(|r| r.record.clone()),
            links,
            folders: old.map(|o| o.folders.clone()).unwrap_or_default(),
            preexisting,
            development: old.map(|o| o.development.clone()).unwrap_or_default(),
            earlier: Vec::new(),
            backup,
            nodes: self.wrapper.nodes.clone(),
            names: self.wrapper.exports.iter().map(manifest::name_text).collect(),
        };
        manifest.add_folders(made.iter().cloned());
        for link in &manifest.links.clone() {
            manifest.add_folders(manifest::missing_folders(self.folder, &manifest::resolve(self.folder, &link.path)));
        }
        let is_unchanged = old == Some(&manifest)
            && all_there
            && manifest.links.iter().all(|l| std::fs::read_link(self.folder.join(&l.path)).is_ok_and(|t| t == l.target));
        if !is_unchanged {
            if let Some(stale) = stale {
                file::remove(&stale)?;
            }
            self.commit(&manifest, [Some(private), Some(shim), runtime], wrapper)?;
        }
        Ok(Report { folder: self.folder.to_owned(), manifest, is_unchanged, remarks })
    }

    /// Refuses to write over what no split made.
    fn refuse_strangers(&self, mode: Mode, wrapper: &str) -> Result<(), ShimError> {
        if let Some(old) = self.old {
            let place = self.folder.join(&old.wrapper.name);
            // An update may bring a file of another name, and take the one that was split.
            let is_followed = mode == Mode::InPlace && place.symlink_metadata().is_err();
            if old.mode != mode || old.soname != self.wrapper.soname || (old.wrapper.name != wrapper && !is_followed) {
                return Err(ShimError::InTheWay { path: place });
            }
        }
        // In place the wrapper's place is the original's, and the private library of a pair stays.
        let mut names = Vec::new();
        if self.pair.is_none() || mode == Mode::Prefix {
            names.push(self.wrapper.private_soname.as_str());
        }
        if mode == Mode::Prefix {
            names.push(wrapper);
        }
        for name in names {
            let path = self.folder.join(name);
            if path.symlink_metadata().is_ok() && !self.has_made(name) && !self.is_unfinished(name)? {
                return Err(ShimError::InTheWay { path });
            }
        }
        Ok(())
    }

    /// Whether the split that is there put a file of this name there.
    fn has_made(&self, name: &str) -> bool {
        self.old.is_some_and(|o| o.has_made(name))
    }

    /// The backup of a library that an update has replaced.
    fn stale_backup(&self, backup: Option<&str>, original: &str) -> Result<Option<PathBuf>, ShimError> {
        let digest = |path: &Path| -> Result<Option<String>, ShimError> {
            if path.symlink_metadata().is_ok() { Ok(Some(file::digest(path)?.1.to_hex().to_string())) } else { Ok(None) }
        };
        let put_away = self.old.and_then(|o| Some((o.backup.as_ref()?, &o.input.blake3)));
        let (old, known) = put_away.map_or((None, None), |(name, digest)| (Some(name.as_str()), Some(digest)));
        for name in [old, backup].into_iter().flatten() {
            let path = self.folder.join(name);
            match digest(&path)? {
                None => {}
                Some(found) if found == *original && Some(name) == backup => {}
                Some(found) if Some(&found) == known && Some(name) == old => return Ok(Some(path)),
                // Nobody knows what it is: it may be somebody's last copy.
                Some(_) => return Err(ShimError::InTheWay { path }),
            }
        }
        Ok(None)
    }

    /// Whether a private library without manifest is that of a split of this very library.
    fn is_unfinished(&self, name: &str) -> Result<bool, ShimError> {
        let path = self.folder.join(name);
        if !path.is_file() {
            return Ok(false);
        }
        let mapped = Mapped::open(&path)?;
        let Ok(elf) = locate::read(&mapped) else { return Ok(false) };
        if elf.soname() != Some(name.as_bytes()) {
            return Ok(false);
        }
        let has_private_names = elf.symbols().any(|(_, s)| s.is_exported() && crate::names::public_of(s.name).is_some());
        let same_build = elf.build_id().is_some() && elf.build_id() == locate::read(self.pair.unwrap_or(self.original))?.build_id();
        Ok(name == self.wrapper.private_soname && has_private_names && same_build)
    }

    /// The private library and what it must have kept.
    fn private(&self, mode: Mode) -> Result<(Part, Fingerprint), ShimError> {
        let name = &self.wrapper.private_soname;
        let base = self.pair.unwrap_or(self.original);
        let elf = locate::read(base)?;
        let fingerprint = Fingerprint::of(&elf, None, &mut |range| base.digest(range))?;
        if self.pair.is_some() && mode == Mode::InPlace {
            let (size, blake3) = file::digest(base.path())?;
            let file_name = base.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            // What is needed by this name may be a link.
            let name = if self.folder.join(name).exists() { name.clone() } else { file_name };
            let record = FileRecord { name, size, blake3: blake3.to_hex().to_string() };
            return Ok((Part { record, staged: None, is_preexisting: true }, fingerprint));
        }
        let base_folder = base.path().parent().unwrap_or(Path::new("/"));
        let runpath =
            (mode == Mode::Prefix).then(|| search_path(&elf, if self.pair.is_some() { base_folder } else { &self.source.folder }));
        let rename = self.pair.is_none();
        let request = Request { rename, soname: rename.then_some(name.as_str()), runpath: runpath.as_deref() };
        // What headers say wrongly of the input cannot be compared afterwards.
        if !fingerprint::contradictions(&elf).is_empty() {
            return Err(locate::unsuitable(base.path())(Unsuitable::Layout("its section headers are not what is loaded")));
        }
        let patch = private::plan(&elf, &request).map_err(locate::unsuitable(base.path()))?;
        let part = self.part(name, |target| {
            let staged = Staged::copy_of(target, base.path())?;
            patch.apply(staged.file()).at(target, "cannot be written")?;
            let made = Mapped::open(staged.path())?;
            verify(&made, &fingerprint).map_err(|what| ShimError::SelfCheck { path: target.to_owned(), what })?;
            Ok(staged)
        })?;
        Ok((part, fingerprint))
    }

    /// Stages a file, and drops it again if the same is there. Another file is replaced only if a split put it there, or it is what is split.
    fn part(&self, name: &str, stage: impl FnOnce(&Path) -> Result<Staged, ShimError>) -> Result<Part, ShimError> {
        let target = self.folder.join(name);
        let staged = stage(&target)?;
        let (size, digest) = staged.digest()?;
        let has_made = self.has_made(name);
        let may_be_link = !has_made && (name == SHIM_SONAME || name == RUNTIME_SONAME);
        let metadata = if may_be_link { target.metadata() } else { target.symlink_metadata() };
        let is_there = metadata.is_ok_and(|m| m.is_file() && m.len() == size) && file::digest(&target)?.1 == digest;
        if may_be_link && !is_there && target.symlink_metadata().is_ok() {
            return Err(ShimError::InTheWay { path: target });
        }
        let record = FileRecord { name: name.to_owned(), size, blake3: digest.to_hex().to_string() };
        Ok(Part { record, staged: (!is_there).then_some(staged), is_preexisting: may_be_link && is_there })
    }

    fn links(&self, mode: Mode, remarks: &mut Vec<String>) -> Result<Vec<Link>, ShimError> {
        let (soname, private) = (&self.wrapper.soname, &self.wrapper.private_soname);
        // A link is taken over if it is as it shall be, or as a split made it.
        let is_free = |at: &Path, link: &Link| match std::fs::read_link(at) {
            Ok(target) => {
                let is_old = |old: &Manifest| old.links.iter().any(|l| l.path == link.path && l.target == target);
                target == link.target || self.old.is_some_and(is_old)
            }
            Err(_) => at.symlink_metadata().is_err(),
        };
        let mut links = Vec::new();
        // For linkers, which look for names without a number.
        let development = private.split_once(".so").map(|(stem, _)| format!("{stem}.so")).filter(|name| name != private);
        if let Some(name) = development.filter(|_| self.pair.is_none() || mode == Mode::Prefix) {
            let (at, link) = (self.folder.join(&name), Link { path: name.into(), target: private.into() });
            match (is_free(&at, &link), mode) {
                (true, _) => links.push(link),
                (false, Mode::Prefix) => return Err(ShimError::InTheWay { path: at }),
                (false, Mode::InPlace) => remarks.push(format!("{}: was there and was left as it is", at.display())),
            }
        }
        if mode == Mode::InPlace {
            return Ok(links);
        }
        for name in self.source.other_names(soname) {
            let (at, link) = (self.folder.join(&name), Link { path: name.into(), target: soname.into() });
            if !is_free(&at, &link) {
                return Err(ShimError::InTheWay { path: at });
            }
            links.push(link);
        }
        // The private library looks for its databases from where it lies itself.
        if let Ok(database) = self.source.folder.join(DATABASE).canonicalize() {
            let at = self.folder.join(DATABASE);
            let link = Link { path: DATABASE.into(), target: database };
            if is_free(&at, &link) {
                links.push(link);
            } else {
                remarks.push(format!("{}: is used instead of {}", at.display(), link.target.display()));
            }
        }
        Ok(links)
    }

    /// Puts everything in place: first the manifest, so that a killed command's work is known, the wrapper last.
    fn commit(&self, manifest: &Manifest, parts: [Option<Part>; 3], wrapper: Part) -> Result<(), ShimError> {
        let metadata = self.original.metadata()?;
        // In a prefix the files are the user's own, not the vendor's.
        let like = (manifest.mode == Mode::InPlace).then_some(&metadata);
        let mut first = manifest.clone();
        if let Some(old) = self.old {
            let replaced = old.files().filter(|f| old.has_made(&f.name)).chain(&old.earlier);
            first.earlier = replaced.filter(|f| !manifest.files().any(|n| n == *f)).cloned().collect();
            first.links.extend(old.links.iter().filter(|l| !manifest.links.contains(l)).cloned());
        }
        first.write(self.folder)?;
        for staged in parts.into_iter().flatten().filter_map(|p| p.staged) {
            staged.commit(like)?;
        }
        if let Some(backup) = &manifest.backup {
            self.put_away(&self.folder.join(backup))?;
        }
        file::sync_folder(self.folder)?;
        if let Some(staged) = wrapper.staged {
            staged.commit(like)?;
        }
        for link in &manifest.links {
            let at = self.folder.join(&link.path);
            if let Some(parent) = at.parent() {
                std::fs::create_dir_all(parent).at(parent, "cannot be made")?;
            }
            file::link(&link.target, &at)?;
        }
        // Names that the input no longer has.
        for link in self.old.iter().flat_map(|o| &o.links).filter(|l| !manifest.links.iter().any(|n| n.path == l.path)) {
            let at = self.folder.join(&link.path);
            if std::fs::read_link(&at).is_ok_and(|t| t == link.target) {
                file::remove(&at)?;
            }
        }
        file::sync_folder(self.folder)?;
        if first != *manifest { manifest.write(self.folder) } else { Ok(()) }
    }

    /// Keeps the original under another name: the same file where the system allows it, so that putting it back changes nothing at all.
    fn put_away(&self, backup: &Path) -> Result<(), ShimError> {
        let original = self.original.path();
        // What is there has been compared: it is the original.
        if original == backup || backup.symlink_metadata().is_ok() {
            return Ok(());
        }
        let linked = tempfile::Builder::new().prefix(file::UNFINISHED).make_in(self.folder, |path| std::fs::hard_link(original, path));
        match linked {
            Ok(linked) => linked.persist(backup).map(|_| ()).map_err(|e| e.error).at(backup, "cannot be put in place"),
            Err(_) => {
                let metadata = self.original.metadata()?;
                let copy = Staged::copy_of(backup, original)?;
                if let Ok(time) = metadata.modified() {
                    copy.file().set_modified(time).at(backup, "its time cannot be set")?;
                }
                copy.commit(Some(&metadata))
            }
        }
    }
}

/// The search path of a private library in another folder: what it had, then where that led from the original folder, then that folder.
pub(crate) fn search_path(elf: &Elf<'_>, folder: &Path) -> Vec<u8> {
    let old = elf.names(object::elf::DT_RUNPATH).next().or_else(|| elf.names(object::elf::DT_RPATH).next()).unwrap_or_default();
    let origin = folder.as_os_str().as_encoded_bytes();
    let entries: Vec<&[u8]> = old.split(|&b| b == b':').filter(|e| !e.is_empty()).collect();
    let mut all: Vec<Vec<u8>> = entries.iter().map(|e| e.to_vec()).collect();
    all.push(origin.to_vec());
    for entry in entries {
        let rest = entry.strip_prefix(b"$ORIGIN").or_else(|| entry.strip_prefix(b"${ORIGIN}"));
        all.extend(rest.map(|rest| [origin, rest].concat()));
    }
    let mut seen = std::collections::HashSet::new();
    all.retain(|e| seen.insert(e.clone()));
    all.join(&b':')
}

/// What is wrong with a private library that was just written.
pub(crate) fn verify(made: &Mapped, original: &Fingerprint) -> Result<(), String> {
    let elf = locate::read(made).map_err(|e| e.to_string())?;
    let print = Fingerprint::of(&elf, Some(original.segments), &mut |range| made.digest(range)).map_err(|e| e.to_string())?;
    let mut found = print.differences(original);
    found.extend(print.relocation_differences(original));
    found.extend(print.section_differences(original));
    found.extend(fingerprint::contradictions(&elf));
    found.extend(fingerprint::added_segments(&elf, original.segments));
    if let Some((_, symbol)) = elf.symbols().find(|(i, s)| s.is_exported() && !elf.finds(s.name, *i)) {
        found.push(format!("{} is not found through the hash table", String::from_utf8_lossy(symbol.name)));
    }
    match found.into_iter().next() {
        Some(first) => Err(first),
        None => Ok(()),
    }
}

/// The wrapper that was just made is a library.
fn self_check(path: &Path, bytes: &[u8]) -> Result<(), ShimError> {
    let elf = Elf::read(bytes).map_err(|e| ShimError::SelfCheck { path: path.to_owned(), what: e.to_string() })?;
    match elf.symbols().find(|(i, s)| s.is_exported() && !elf.finds(s.name, *i)) {
        Some((_, s)) => {
            let what = format!("{} is not found through the hash table", String::from_utf8_lossy(s.name));
            Err(ShimError::SelfCheck { path: path.to_owned(), what })
        }
        None => Ok(()),
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
