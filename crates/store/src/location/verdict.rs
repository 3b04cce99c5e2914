//! Whether a store is, or could be, at a place. Nothing is created by looking.

use crate::{StoreError, fs, marker};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What is to be said of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// A store is there.
    Store,
    /// A store is there that this user may only read.
    ReadOnly,
    /// Nothing is there, and a store can be made.
    New,
    /// A file is there: as a layer, it is read as a bundle. No folder for a store.
    File,
    /// Nothing says a place.
    NotSet,
    /// A place is said by no characters.
    Empty,
    /// The path is relative, and would be another place for each working folder.
    Relative,
    /// The path is that of the root folder, which is nobody's.
    Root,
    /// There is no such folder, and hipplan does not make it: it is a home, or a folder for temporary files.
    Absent {
        /// The folder.
        folder: PathBuf,
    },
    /// The place cannot be used.
    Unusable {
        /// A short name of the cause that does not change between releases.
        code: &'static str,
        /// What is wrong.
        cause: String,
    },
    /// An earlier candidate is used, and this one was not looked at.
    NotLookedAt,
}

impl Verdict {
    /// Whether a store can be opened there, if only for looking up.
    pub fn is_usable(&self) -> bool {
        matches!(self, Self::Store | Self::ReadOnly | Self::New)
    }

    /// A short name that does not change between releases.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::ReadOnly => "read-only",
            Self::New => "new",
            Self::File => "file",
            Self::NotSet => "not-set",
            Self::Empty => "empty",
            Self::Relative => "relative",
            Self::Root => "root",
            Self::Absent { .. } => "absent",
            Self::Unusable { code, .. } => code,
            Self::NotLookedAt => "not-looked-at",
        }
    }

    pub(super) fn unusable(code: &'static str, cause: impl Into<String>) -> Self {
        Self::Unusable { code, cause: cause.into() }
    }

    fn of(error: &StoreError) -> Self {
        Self::unusable(error.code(), error.to_string())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Store => "a store is there",
            Self::ReadOnly => "a store is there, which this user may only read",
            Self::New => "no store is there yet; one can be made",
            Self::File => "a file is there",
            Self::NotSet => "not set",
            Self::Empty => "set, but empty",
            Self::Relative => "a relative path, expected an absolute one",
            Self::Root => "the root folder, expected a folder of the user",
            Self::Absent { folder } => return write!(f, "there is no folder {}", folder.display()),
            Self::Unusable { cause, .. } => cause,
            Self::NotLookedAt => "not looked at",
        })
    }
}

/// Looks at a place for a store.
pub(super) fn look(path: &Path) -> Verdict {
    if path.as_os_str().is_empty() {
        return Verdict::Empty;
    }
    let path = match fs::absolute(path) {
        Ok(path) => path,
        Err(e) => return Verdict::of(&StoreError::io("use the path", path)(e)),
    };
    match fs::status_followed(&path) {
        Ok(status) if matches!(status.kind, fs::Kind::File { .. }) => return Verdict::File,
        Ok(status) if status.kind != fs::Kind::Folder => {
            return Verdict::of(&StoreError::FileType { path, found: status.kind.name(), expected: "a folder" });
        }
        _ => {}
    }
    match marker::require(&path) {
        Ok(()) if fs::may_write(&path).is_ok() => Verdict::Store,
        Ok(()) => Verdict::ReadOnly,
        Err(StoreError::NoSuchStore { .. }) => can_be_made(&path),
        Err(error) => Verdict::of(&error),
    }
}

/// Whether this user could make a store in a folder that is empty, or not there.
fn can_be_made(path: &Path) -> Verdict {
    for folder in path.ancestors() {
        match fs::status_followed(folder) {
            Ok(status) if status.kind == fs::Kind::Folder => {
                return match fs::may_write(folder) {
                    Ok(()) => Verdict::New,
                    Err(e) => Verdict::of(&StoreError::io("make a store in", folder)(e)),
                };
            }
            Ok(status) => {
                let error = StoreError::FileType { path: folder.to_owned(), found: status.kind.name(), expected: "a folder" };
                return Verdict::of(&error);
            }
            // Not there, or below a file: the folder above is looked at.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                // A name that leads nowhere cannot be made a folder.
                if fs::kind(folder).is_ok() {
                    return Verdict::unusable(
                        "foreign",
                        format!("{}: found a symbolic link to nothing, expected a folder", folder.display()),
                    );
                }
            }
            Err(e) => return Verdict::of(&StoreError::io("look at", folder)(e)),
        }
    }
    Verdict::Absent { folder: path.to_owned() }
}

/// Whether a folder that hipplan does not make is there.
pub(super) fn folder_is_there(folder: &Path) -> Option<Verdict> {
    match fs::status_followed(folder) {
        Ok(status) if status.kind == fs::Kind::Folder => None,
        Ok(status) => Some(Verdict::of(&StoreError::FileType { path: folder.to_owned(), found: status.kind.name(), expected: "a folder" })),
        Err(e) if e.kind() == ErrorKind::NotFound => Some(Verdict::Absent { folder: folder.to_owned() }),
        Err(e) => Some(Verdict::of(&StoreError::io("look at", folder)(e))),
    }
}
