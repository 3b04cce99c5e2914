//! Folders to work in.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A new folder: where `HIPPLAN_STORE_SCRATCH` says, else in memory, where syncing costs nothing.
pub(crate) fn folder() -> TempDir {
    match std::env::var_os("HIPPLAN_STORE_SCRATCH") {
        Some(base) => tempfile::tempdir_in(base).unwrap(),
        None => tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap(),
    }
}

/// A number from the environment.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Copies a folder with all that is in it, times of change included.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            keep_time(&entry.path(), &target);
        }
    }
    keep_time(from, to);
}

fn keep_time(from: &Path, to: &Path) {
    let changed = fs::metadata(from).unwrap().modified().unwrap();
    File::open(to).unwrap().set_modified(changed).unwrap();
}

/// Makes everything look as if it had not been used for long.
pub(crate) fn age(path: &Path, age: std::time::Duration) {
    let old = std::time::SystemTime::now() - age;
    for path in everything(path) {
        File::open(path).unwrap().set_modified(old).unwrap();
    }
}

/// All files and folders, those in a folder before it.
fn everything(path: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    if path.is_dir() {
        all = fs::read_dir(path).unwrap().flat_map(|entry| everything(&entry.unwrap().path())).collect();
    }
    all.push(path.to_owned());
    all
}
