//! What can be wrong with a store or with what is put into it.

use crate::{KeyError, PackError, RecordError, fs, layout};
use hipplan_serialize::plan::PlanError;
use std::io;
use std::path::{Path, PathBuf};

/// A store or a file in it that cannot be used, or a put that is refused.
///
/// The message holds the path, what was found and what was expected; [`advice`](Self::advice) says what to do, and
/// [`code`](Self::code) is stable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {action} {path}: {cause}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, such as `create the folder`.
        action: &'static str,
        /// The system's answer.
        cause: io::Error,
    },
    /// No folder stands there, and a read-only store creates none.
    #[error("{path}: no store found there, expected a folder with a `hipplan-store` file", path = path.display())]
    NoSuchStore {
        /// The place of the store.
        path: PathBuf,
    },
    /// Neither a bundle nor a store stands where a layer was named.
    #[error("{path}: found nothing there, expected a bundle or the folder of a store", path = path.display())]
    NoSuchLayer {
        /// The place of the layer.
        path: PathBuf,
    },
    /// What a caller named is not of the kind that is wanted.
    #[error("{path}: found {found}, expected {expected}", path = path.display())]
    Named {
        /// What was named.
        path: PathBuf,
        /// What stands there.
        found: String,
        /// What is wanted.
        expected: &'static str,
        /// What to do about it.
        advice: &'static str,
    },
    /// The folder holds something else.
    #[error("{path}: not a hipplan store: found {found:?} and no `hipplan-store` file beside it", path = path.display())]
    NotAStore {
        /// The folder.
        path: PathBuf,
        /// Name of one thing in it.
        found: String,
    },
    /// The marker file is not a line that hipplan writes.
    #[error("{path}: found {found:?}, expected {expected:?}", path = path.display())]
    Marker {
        /// The marker file.
        path: PathBuf,
        /// Its first bytes.
        found: String,
        /// What hipplan writes.
        expected: &'static str,
    },
    /// The folder's layout is one that is no longer used.
    #[error("{path}: store layout {found} is too old, this hipplan uses {expected}", path = path.display())]
    TooOld {
        /// The marker file.
        path: PathBuf,
        /// Number in the marker.
        found: u64,
        /// Number of this hipplan.
        expected: u64,
    },
    /// The folder's layout is one that a newer hipplan made.
    #[error("{path}: store layout {found} is too new, this hipplan uses {expected}", path = path.display())]
    TooNew {
        /// The marker file.
        path: PathBuf,
        /// Number in the marker.
        found: u64,
        /// Number of this hipplan.
        expected: u64,
    },
    /// A put into a store that was opened read-only.
    #[error("{path}: the store is open read-only, nothing is written", path = path.display())]
    ReadOnly {
        /// The place of the store.
        path: PathBuf,
    },
    /// A put into a store that could not be opened.
    #[error("{path}: nothing is stored: {cause}", path = path.display())]
    Unavailable {
        /// The place of the store.
        path: PathBuf,
        /// Why opening it failed.
        cause: String,
    },
    /// Something other than a regular file stands under a name that hipplan uses.
    #[error("{path}: found {found}, expected {expected}", path = path.display())]
    FileType {
        /// The name.
        path: PathBuf,
        /// What stands there.
        found: &'static str,
        /// What should stand there.
        expected: &'static str,
    },
    /// A name that hipplan does not use.
    #[error("{path}: found {found} of this name, expected {expected}", path = path.display())]
    Foreign {
        /// The path.
        path: PathBuf,
        /// What stands there.
        found: &'static str,
        /// What may stand there.
        expected: &'static str,
    },
    /// A file has another size than its address says.
    #[error("{path}: found {found} bytes, expected {expected}; the file is truncated or has grown", path = path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size.
        found: u64,
        /// The size in its address.
        expected: u64,
    },
    /// A file or a put is larger than the reader's limits allow.
    #[error("{path}: {what} is {found}, the limit `{limit}` is {max}", path = path.display())]
    Limit {
        /// The file.
        path: PathBuf,
        /// What is too large.
        what: &'static str,
        /// How large it is.
        found: u64,
        /// Field of [`Limits`](crate::Limits).
        limit: &'static str,
        /// Its value.
        max: u64,
    },
    /// A file's content is not what its name or the request says.
    #[error("{path}: {what} is {found}, expected {expected}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was compared.
        what: &'static str,
        /// What the bytes give.
        found: String,
        /// What the name or the request says.
        expected: String,
    },
    /// A plan file that does not check.
    #[error("{path}: {cause}", path = path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: Box<PlanError>,
    },
    /// An index record that does not check.
    #[error("{path}: {cause}", path = path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: RecordError,
    },
    /// A pack that does not check, or an entry in it.
    #[error("{path}: {cause}", path = path.display())]
    Pack {
        /// The file; the folder of temporary files, where a pack was to be made.
        path: PathBuf,
        /// What is wrong with it.
        cause: Box<PackError>,
    },
    /// A file of keys that cannot be used.
    #[error("{path}{line}: {cause}", path = path.display(), line = line.map(|line| format!(":{line}")).unwrap_or_default())]
    Key {
        /// The file.
        path: PathBuf,
        /// Number of the line, where there are several.
        line: Option<u64>,
        /// What is wrong with it.
        cause: KeyError,
    },
    /// The bytes handed to a put are not a plan: nothing was written.
    #[error("not stored: {cause}")]
    NotAPlan {
        /// What is wrong with them.
        cause: Box<PlanError>,
    },
    /// A selection of no plan: nothing was written.
    #[error("not stored: selection {key} names no plan, expected at least one")]
    EmptySelection {
        /// Key of the selection.
        key: hipplan_serialize::SelectionKey,
    },
    /// A file of pins that is not as hipplan writes it, or has a name that none has. It may keep anything, so nothing is removed.
    #[error("{path}{at}: found {found:?}, expected {expected}", path = path.display(), at = at_line(*line))]
    Pins {
        /// The file.
        path: PathBuf,
        /// Line from 1 on; 0 where it is about the whole.
        line: usize,
        /// What stands there.
        found: String,
        /// What should stand there.
        expected: String,
    },
    /// A set of pins that is asked for under a name that none can have, or without pins: nothing was changed.
    #[error("{path}: found {found:?}, expected {expected}", path = path.display())]
    PinsRefused {
        /// The set, or the folder of such sets.
        path: PathBuf,
        /// What was asked for.
        found: String,
        /// What can be asked for.
        expected: &'static str,
        /// What to do about it.
        advice: &'static str,
    },
    /// Something names a file that is not in the store.
    #[error("{path}: found nothing, expected the {what} that {named_by} names", path = path.display())]
    MissingTarget {
        /// Where the file should be.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// What names it.
        named_by: String,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { path: path.to_owned(), action, cause }
    }

    pub(crate) fn pack(path: &Path, cause: PackError) -> Self {
        Self::Pack { path: path.to_owned(), cause: Box::new(cause) }
    }

    /// The path that the error is about; none where bytes of the caller were refused.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. }
            | Self::NoSuchStore { path }
            | Self::NoSuchLayer { path }
            | Self::Named { path, .. }
            | Self::NotAStore { path, .. }
            | Self::Marker { path, .. }
            | Self::TooOld { path, .. }
            | Self::TooNew { path, .. }
            | Self::ReadOnly { path }
            | Self::Unavailable { path, .. }
            | Self::FileType { path, .. }
            | Self::Foreign { path, .. }
            | Self::Size { path, .. }
            | Self::Limit { path, .. }
            | Self::Content { path, .. }
            | Self::Plan { path, .. }
            | Self::Record { path, .. }
            | Self::Pack { path, .. }
            | Self::Key { path, .. }
            | Self::Pins { path, .. }
            | Self::PinsRefused { path, .. }
            | Self::MissingTarget { path, .. } => Some(path),
            Self::NotAPlan { .. } | Self::EmptySelection { .. } => None,
        }
    }

    /// A short name of the cause that does not change between releases.
    pub fn code(&self) -> &'static str {
        if self.is_too_old() {
            return "too-old";
        }
        if self.is_too_new() {
            return "too-new";
        }
        match self {
            Self::Io { cause, .. } => match cause.kind() {
                io::ErrorKind::PermissionDenied => "no-permission",
                io::ErrorKind::ReadOnlyFilesystem => "read-only",
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "full",
                _ => "io",
            },
            Self::NoSuchStore { .. } | Self::NoSuchLayer { .. } => "no-such-store",
            Self::Named { .. } => "not-that",
            Self::NotAStore { .. } => "not-a-store",
            Self::ReadOnly { .. } => "read-only",
            Self::Unavailable { .. } => "unavailable",
            Self::FileType { .. } | Self::Foreign { .. } => "foreign",
            Self::Limit { .. } => "limit",
            Self::Marker { .. } | Self::TooOld { .. } | Self::TooNew { .. } => "marker",
            Self::Size { .. } | Self::Content { .. } | Self::Plan { .. } | Self::Record { .. } => "damaged",
            Self::Pack { cause, .. } => cause.code(),
            Self::Key { .. } => "key",
            Self::Pins { .. } | Self::PinsRefused { .. } => "pins",
            Self::NotAPlan { .. } | Self::EmptySelection { .. } => "refused",
            Self::MissingTarget { .. } => "missing-target",
        }
    }

    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        if let Self::Pack { path, cause } = self
            && let Some(advice) = pack_advice(path, cause, self.code())
        {
            return advice;
        }
        match self {
            Self::Io { cause, .. } => match cause.kind() {
                io::ErrorKind::NotFound => return "check the path",
                io::ErrorKind::AlreadyExists => return "name another, or move away what is there",
                io::ErrorKind::NotADirectory => return "check the path: something else has the name of a folder",
                _ => {}
            },
            Self::NoSuchLayer { .. } => return "check the path; a layer must be there, nothing is made of it",
            Self::Named { advice, .. } | Self::PinsRefused { advice, .. } => return advice,
            _ => {}
        }
        match self.code() {
            "too-old" => "compile again with this hipplan; the older entry may be deleted",
            "too-new" => "use the hipplan that wrote it, or another store",
            "no-permission" => "give this user access to the folder, or choose a store that the user owns",
            "read-only" => "choose a place on a file system that can be written, if results are to be kept",
            "full" => "free space on the file system of that path, or raise the quota",
            "no-such-store" => "check the path; what compiles or imports makes a store where there is none",
            "not-a-store" => "choose a folder that is empty or does not exist",
            "marker" => "restore the `hipplan-store` file, or choose another folder",
            "unavailable" => "choose another store",
            "foreign" => "move it out of the store; hipplan did not put it there",
            "limit" => "raise the limit if the file is trusted, else delete it",
            "damaged" => "nothing needs doing: the next put or `hipplan compile` of it replaces the file; deleting it is safe",
            "unsigned" => "have it signed with a key that is trusted (`hipplan bundle sign`), or do not require signatures",
            "untrusted" => "check where it comes from; trust the key of its signer, or have it signed with one that is trusted",
            "key" => "name the file that `hipplan bundle keygen` wrote; a secret key is kept by one, a public key is for all",
            "refused" => "this is a mistake of the caller, not of the store",
            "pins" => "put the file right, or remove it with `hipplan store unpin`; until then nothing is removed from the store",
            "missing-target" => "put blobs before plans and plans before selections; compile again if the file was deleted",
            _ => "check the path and the file system",
        }
    }

    /// Written by a version that is no longer read.
    pub fn is_too_old(&self) -> bool {
        match self {
            Self::TooOld { .. } | Self::Record { cause: RecordError::TooOld { .. }, .. } => true,
            Self::Plan { cause, .. } | Self::NotAPlan { cause } => cause.is_too_old(),
            Self::Pack { cause, .. } => cause.is_too_old(),
            _ => false,
        }
    }

    /// Written by a version that is not yet read.
    pub fn is_too_new(&self) -> bool {
        match self {
            Self::TooNew { .. } | Self::Record { cause: RecordError::TooNew { .. }, .. } => true,
            Self::Plan { cause, .. } | Self::NotAPlan { cause } => cause.is_too_new(),
            Self::Pack { cause, .. } => cause.is_too_new(),
            _ => false,
        }
    }

    /// What stands there is not what was written, or nothing does where something was.
    ///
    /// Not so where the system refuses to read ([`is_unreadable`](Self::is_unreadable)), where something else has a name in
    /// the store, where a file is of another version or above a limit, and where a put was refused.
    pub fn is_damage(&self) -> bool {
        matches!(self.code(), "damaged" | "missing-target")
    }

    /// The system refused, so nothing is known about the content.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Io { .. })
    }

    /// Nothing may be written there, by this user or by anybody.
    pub fn is_read_only(&self) -> bool {
        matches!(self.code(), "read-only" | "no-permission")
    }

    /// Something on the way to the file vanished.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
    }

    /// Something else stands in place of a folder.
    pub(crate) fn is_not_a_folder(&self) -> bool {
        match self {
            Self::Io { cause, .. } => cause.kind() == io::ErrorKind::NotADirectory,
            Self::FileType { .. } => true,
            _ => false,
        }
    }

    /// Something that hipplan does not use stands there, and is no way to something that it does.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign { found, .. } if *found != fs::LINK)
    }

    /// Others are at work, and go on for longer than they were waited for.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Io { cause, .. } if cause.kind() == io::ErrorKind::ResourceBusy)
    }
}

/// What to do about a pack, where it is not what is to be done about a file of one entry. Many entries stand in a pack, most of which may be
/// good: nobody is told to delete it.
fn pack_advice(path: &Path, cause: &PackError, code: &str) -> Option<&'static str> {
    let is_of_a_store = path.file_name().and_then(|name| name.to_str()).and_then(layout::parse_pack).is_some();
    match (code, is_of_a_store) {
        ("damaged", true) => Some("run `hipplan store repair`: it makes a new pack of what is good in this one"),
        // Nothing is found in it: it may well be no bundle at all.
        ("damaged", false) if matches!(cause, PackError::Magic { .. } | PackError::TooShort { .. }) => {
            Some("name a bundle; if it was one, fetch it anew, or have it exported again")
        }
        ("damaged", false) => {
            Some("fetch the bundle anew, or have it exported again; as long as it is damaged, what is good in it is found")
        }
        ("limit", _) => Some("raise the limit if the pack is trusted"),
        ("too-old", true) => Some("compile again with this hipplan; what is in the pack counts as missing"),
        ("too-old", false) => Some("have the bundle exported again with this hipplan"),
        _ => None,
    }
}

fn at_line(line: usize) -> String {
    if line == 0 { String::new() } else { format!(", line {line}") }
}
