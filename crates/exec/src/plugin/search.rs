//! Where plugins are looked for.

use super::plugins::{Loading, Plugins};
use super::secure::is_secure_execution;
use super::source::{PluginSource, PluginSourceError};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Names plugins in the text form of [`PluginSource`], which semicolons separate.
pub const PLUGINS_VARIABLE: &str = "HIPPLAN_PLUGINS";
/// hipDNN's variable: the folder of its engine plugins, in place of the default.
pub const HIPDNN_PLUGIN_DIR_VARIABLE: &str = "HIPDNN_PLUGIN_DIR";
/// hipDNN's variable: its backend library, below whose folder the default folder is.
pub const HIPDNN_BACKEND_VARIABLE: &str = "HIPDNN_BACKEND_LIBRARY_PATH";
/// Where ROCm is installed.
const ROCM_PATH_VARIABLE: &str = "ROCM_PATH";
const DEFAULT_ROCM_PATH: &str = "/opt/rocm";
/// Below the folder of hipDNN's backend library.
const HIPDNN_FOLDER: &str = "hipdnn_plugins/engines";
/// Most plugins of one folder.
const MAX_FILES: usize = 1024;

/// Where plugins are looked for, in order. Of two plugins with an engine of one id, the first has it.
///
/// The environment is read when it is added, and not at all by a process with rights that its caller does not have (setuid): it would run
/// the caller's code with them.
#[derive(Clone, Debug, Default)]
pub struct PluginSearch {
    sources: Vec<Wanted>,
}

/// A source, and whether it may be absent.
#[derive(Clone, Debug)]
struct Wanted {
    source: PluginSource,
    is_optional: bool,
}

impl PluginSearch {
    /// Looks nowhere.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks in a file or folder.
    pub fn add(&mut self, source: PluginSource) -> &mut Self {
        self.sources.push(Wanted { source, is_optional: false });
        self
    }

    /// Looks where the environment variable `HIPPLAN_PLUGINS` says.
    ///
    /// # Errors
    /// Its text names no sources.
    pub fn add_environment(&mut self) -> Result<&mut Self, PluginSourceError> {
        if let Some(text) = environment(PLUGINS_VARIABLE) {
            for source in PluginSource::parse_list(&text)? {
                self.add(source);
            }
        }
        Ok(self)
    }

    /// Looks where hipDNN does: in the folder that `HIPDNN_PLUGIN_DIR` names, or else in `hipdnn_plugins/engines` below the folder of the
    /// backend library that `HIPDNN_BACKEND_LIBRARY_PATH` names, or else below `lib` of ROCm (`ROCM_PATH`, or `/opt/rocm`). Its plugins compute
    /// on HIP devices. A default folder that is not there is passed over.
    pub fn add_hipdnn_folders(&mut self) -> &mut Self {
        let (path, is_optional) = hipdnn_folder(environment);
        self.sources.push(Wanted { source: PluginSource::new(path), is_optional });
        self
    }

    /// Loads what is found. A plugin that cannot be used is told by [`Plugins::failures`], and does not keep others from being used.
    pub fn load(&self) -> Plugins {
        let mut loading = Loading::default();
        for Wanted { source, is_optional } in &self.sources {
            let path = source.path.as_path();
            if !path.is_dir() {
                // A default folder that is not there is no name of a library.
                if !is_optional || path.exists() {
                    loading.load(&searched_as_path(&as_library(path)), source);
                }
                continue;
            }
            match libraries(path) {
                Ok(files) if files.len() > MAX_FILES => {
                    loading.fail(path, None, format!("it has {} shared libraries, the most is {MAX_FILES}", files.len()));
                }
                Ok(files) => files.iter().for_each(|file| loading.load(file, source)),
                Err(error) => loading.fail(path, None, format!("it cannot be listed: {error}")),
            }
        }
        loading.finish()
    }
}

/// hipDNN's folder, and whether it may be absent: a default may, what somebody named may not.
fn hipdnn_folder(variable: impl Fn(&str) -> Option<OsString>) -> (PathBuf, bool) {
    if let Some(folder) = variable(HIPDNN_PLUGIN_DIR_VARIABLE) {
        return (folder.into(), false);
    }
    let backend = variable(HIPDNN_BACKEND_VARIABLE).and_then(|library| Path::new(&library).parent().map(Path::to_owned));
    // A bare name is looked for by the system's loader: it says nothing of a folder, least of all of the current one.
    let backend = backend.filter(|folder| !folder.as_os_str().is_empty());
    let lib = backend.unwrap_or_else(|| Path::new(&variable(ROCM_PATH_VARIABLE).unwrap_or_else(|| DEFAULT_ROCM_PATH.into())).join("lib"));
    (lib.join(HIPDNN_FOLDER), true)
}

/// A variable that is set and not empty, if this process may do what it says.
fn environment(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    if is_secure_execution() {
        tracing::warn!(target: "hipplan::plugin", "{name} is ignored: this process has rights that its caller does not have");
        return None;
    }
    Some(value)
}

/// A name without a slash is a file of this folder, as any other path is: the system's loader would look for it elsewhere.
fn searched_as_path(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new(".").join(path),
        _ => path.to_owned(),
    }
}

/// A path without an extension may be the name of a library, and gets the platform's prefix and extension, as hipDNN has it. What is there as it
/// is written is meant so, and what is there neither way is told as it is written.
fn as_library(path: &Path) -> PathBuf {
    if let (Some(name), None, false) = (path.file_name(), path.extension(), path.exists()) {
        let mut file = OsString::from("lib");
        file.push(name);
        file.push(".so");
        let library = path.with_file_name(file);
        if library.exists() {
            return library;
        }
    }
    path.to_owned()
}

/// The shared libraries of a folder, one level deep, sorted by name.
fn libraries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("so")) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hipdnns_folder_is_the_named_one_or_below_the_backend() {
        let folder = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|&(name, value)| (name.to_owned(), OsString::from(value))).collect();
            hipdnn_folder(move |name| set.iter().find(|(set, _)| set == name).map(|(_, value)| value.clone()))
        };
        assert_eq!(folder(&[]), ("/opt/rocm/lib/hipdnn_plugins/engines".into(), true));
        assert_eq!(folder(&[("ROCM_PATH", "/r")]), ("/r/lib/hipdnn_plugins/engines".into(), true));
        let backend = ("HIPDNN_BACKEND_LIBRARY_PATH", "/b/libhipdnn_backend.so");
        assert_eq!(folder(&[backend, ("ROCM_PATH", "/r")]), ("/b/hipdnn_plugins/engines".into(), true));
        assert_eq!(folder(&[("HIPDNN_PLUGIN_DIR", "/d"), backend]), ("/d".into(), false));
        let bare = ("HIPDNN_BACKEND_LIBRARY_PATH", "libhipdnn_backend.so");
        assert_eq!(folder(&[bare, ("ROCM_PATH", "/r")]), ("/r/lib/hipdnn_plugins/engines".into(), true));
    }

    #[test]
    fn a_folder_is_one_level_of_shared_libraries_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b.so", "a.so", "c.so.1", "readme", "d"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        std::fs::create_dir_all(folder.path().join("deeper.so")).expect("a folder");
        std::fs::write(folder.path().join("deeper.so/e.so"), "").expect("a file");
        let found = libraries(folder.path()).expect("a list");
        assert_eq!(found, [folder.path().join("a.so"), folder.path().join("b.so")]);
    }

    #[test]
    fn what_cannot_be_loaded_is_told_with_its_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = folder.path().join("text.so");
        std::fs::write(&text, "no library").expect("a file");
        let absent = folder.path().join("absent.so");
        let plugins = PluginSearch::new().add(PluginSource::new(folder.path())).add(PluginSource::host(&absent)).load();
        assert!(plugins.is_empty());
        let [first, second] = plugins.failures() else { panic!("{:?}", plugins.failures()) };
        assert_eq!((&first.path, &first.plugin), (&text, &None));
        assert!(!first.reason.starts_with(&text.display().to_string()), "{first}");
        assert_eq!((&second.path, &second.plugin), (&absent, &None));
        assert!(second.to_string().starts_with(&format!("{}: it cannot be opened: ", absent.display())), "{second}");
    }

    #[test]
    fn a_name_without_extension_is_that_of_a_library() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let failed = |name: &str| {
            let plugins = PluginSearch::new().add(PluginSource::new(at(name))).load();
            plugins.failures()[0].path.clone()
        };
        std::fs::write(at("libp.so"), "no library").expect("a file");
        std::fs::write(at("libp.so.so"), "no library").expect("a file");
        assert_eq!((failed("p"), failed("p.so"), failed("q")), (at("libp.so"), at("p.so"), at("q")));
        // What is there is meant as it is written.
        std::fs::write(at("p"), "no library either").expect("a file");
        assert_eq!(failed("p"), at("p"));
    }

    #[test]
    fn a_bare_name_is_a_file_of_this_folder() {
        assert_eq!(searched_as_path(Path::new("a.so")), Path::new("./a.so"));
        assert_eq!(searched_as_path(Path::new("b/a.so")), Path::new("b/a.so"));
        assert_eq!(searched_as_path(Path::new("/a.so")), Path::new("/a.so"));
    }
}
