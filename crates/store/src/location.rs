//! Where the store is that nobody names, and the layers below it.

mod private;
mod verdict;

pub use verdict::Verdict;

use crate::NamedLayer;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What says where the store is, in the order in which it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LocationSource {
    /// The caller.
    Argument,
    /// The variable `HIPPLAN_STORE`.
    Environment,
    /// `hipplan/store` in the folder that `XDG_CACHE_HOME` names.
    XdgCacheHome,
    /// `.cache/hipplan/store` in the folder that `HOME` names.
    Home,
    /// `hipplan-<uid>/store` in the folder that `TMPDIR` names.
    Tmpdir,
    /// `hipplan-<uid>/store` in `/var/tmp`.
    VarTmp,
    /// `hipplan-<uid>/store` in `/tmp`.
    Tmp,
}

impl LocationSource {
    /// All of them, in order.
    pub const ALL: [Self; 7] = [Self::Argument, Self::Environment, Self::XdgCacheHome, Self::Home, Self::Tmpdir, Self::VarTmp, Self::Tmp];

    /// The variable, or what else it is, in a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Argument => "argument",
            Self::Environment => "HIPPLAN_STORE",
            Self::XdgCacheHome => "XDG_CACHE_HOME",
            Self::Home => "HOME",
            Self::Tmpdir => "TMPDIR",
            Self::VarTmp => "/var/tmp",
            Self::Tmp => "/tmp",
        }
    }

    /// Somebody wants the store there and nowhere else: such a place is never replaced by another, whatever its state.
    pub const fn is_said(self) -> bool {
        matches!(self, Self::Argument | Self::Environment)
    }

    /// A place among the temporary files of all users.
    pub const fn is_temporary(self) -> bool {
        matches!(self, Self::Tmpdir | Self::VarTmp | Self::Tmp)
    }

    fn value(self, explicit: Option<&Path>, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<OsString> {
        match self {
            Self::Argument => explicit.map(|path| path.as_os_str().to_owned()),
            Self::VarTmp | Self::Tmp => Some(self.name().into()),
            Self::Environment | Self::XdgCacheHome | Self::Home | Self::Tmpdir => variable(self.name()),
        }
    }

    /// The place of the store, from what says it, and what is to be said of it.
    fn judge(self, value: Option<&OsStr>) -> (Option<PathBuf>, Verdict) {
        let Some(value) = value else { return (None, Verdict::NotSet) };
        let value = Path::new(value);
        // A variable that is empty is taken as one that is not set; an argument is not.
        if value.as_os_str().is_empty() {
            return ((self == Self::Argument).then(|| value.to_owned()), Verdict::Empty);
        }
        if self.is_said() {
            let verdict = match verdict::look(value) {
                Verdict::File => Verdict::unusable(
                    "foreign",
                    format!("{}: found a file, expected a folder; bundles go into HIPPLAN_LAYERS", value.display()),
                ),
                verdict => verdict,
            };
            return (Some(value.to_owned()), verdict);
        }
        let place = match self {
            Self::XdgCacheHome => value.join("hipplan/store"),
            Self::Home => value.join(".cache/hipplan/store"),
            _ => private::folder(value).join("store"),
        };
        let verdict = if !value.is_absolute() {
            Verdict::Relative
        } else if value.parent().is_none() {
            Verdict::Root
        } else if self.is_temporary() {
            private::look(value)
        } else {
            // A cache folder is made where it is not there; a home is not: its user has none.
            let home = if self == Self::Home { verdict::folder_is_there(value) } else { None };
            home.unwrap_or_else(|| verdict::look(&place))
        };
        let verdict = match verdict {
            Verdict::File => Verdict::unusable("foreign", format!("{}: found a file, expected a folder", place.display())),
            verdict => verdict,
        };
        (Some(place), verdict)
    }
}

/// A place where the store may be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// What says it.
    pub source: LocationSource,
    /// The place, as it is said; `None` where nothing says one.
    pub path: Option<PathBuf>,
    /// What is to be said of it.
    pub verdict: Verdict,
}

/// Where the store is, and why there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// The places that were thought of, one for each source, in order.
    pub candidates: Vec<Candidate>,
    /// Which of them is used: the first that is said, else the first that is usable. A place that is said may be unusable; then there is
    /// no store, rather than one elsewhere.
    pub chosen: Option<usize>,
    /// The layers below it that `HIPPLAN_LAYERS` names, in order: folders and bundles, separated by `:`, which are only read.
    pub layers: Vec<NamedLayer>,
}

/// Finds out where the store is. Nothing is created.
pub fn locate(explicit: Option<&Path>) -> Location {
    locate_with(explicit, &|name| std::env::var_os(name))
}

/// As [`locate`], with the variables of another environment.
pub fn locate_with(explicit: Option<&Path>, variable: &dyn Fn(&str) -> Option<OsString>) -> Location {
    let mut candidates: Vec<Candidate> = Vec::with_capacity(LocationSource::ALL.len());
    let mut chosen = None;
    for source in LocationSource::ALL {
        let (path, verdict) = match chosen {
            // A folder on a server that does not answer is not asked for what is not needed.
            Some(_) => (None, Verdict::NotLookedAt),
            None => source.judge(source.value(explicit, variable).as_deref()),
        };
        if chosen.is_none() && path.is_some() && (source.is_said() || verdict.is_usable()) {
            chosen = Some(candidates.len());
        }
        candidates.push(Candidate { source, path, verdict });
    }
    let layers = variable("HIPPLAN_LAYERS").unwrap_or_default();
    let layers = layers.as_bytes().split(|&byte| byte == b':').filter(|layer| !layer.is_empty());
    let layers = layers.map(|layer| NamedLayer::of(OsStr::from_bytes(layer))).collect();
    Location { candidates, chosen, layers }
}

impl Location {
    /// The place that is used; `None` where there is no place at all.
    pub fn candidate(&self) -> Option<&Candidate> {
        self.candidates.get(self.chosen?)
    }

    /// The path that is used.
    pub fn path(&self) -> Option<&Path> {
        self.candidate()?.path.as_deref()
    }

    /// The path to open a store at, for writing. Where it is among temporary files, the folder of this user is made for it, so that it is
    /// this user's alone, and a warning says once that the store is not where it would be looked for.
    ///
    /// # Errors
    /// There is no place for a store, or the folder cannot be made or is somebody else's. The verdict says so.
    pub fn settle(&self) -> Result<&Path, Verdict> {
        let Some(Candidate { source, path: Some(path), .. }) = self.candidate() else { return Err(Verdict::NotSet) };
        if source.is_temporary() {
            // `hipplan-<uid>/store`.
            private::make(path.ancestors().nth(2).unwrap_or(path))?;
            self.warn_temporary(path);
        }
        Ok(path)
    }

    fn warn_temporary(&self, path: &Path) {
        static WARNED: AtomicBool = AtomicBool::new(false);
        if WARNED.swap(true, Ordering::Relaxed) {
            return;
        }
        let why = |source| self.candidates.iter().find(|c| c.source == source).map(|c| format!("{}: {}", source.name(), c.verdict));
        let causes: Vec<_> = [LocationSource::XdgCacheHome, LocationSource::Home].into_iter().filter_map(why).collect();
        tracing::warn!(
            code = "temporary-place",
            cause = causes.join("; "),
            advice = "set HIPPLAN_STORE to a folder that is kept",
            "the plan store is among temporary files, in {}",
            path.display()
        );
    }
}

/// What is to be said of a layer that is only read: [`Verdict::File`] is a bundle, if its content is one.
pub fn look_at_layer(path: &Path) -> Verdict {
    match verdict::look(path) {
        Verdict::Store | Verdict::ReadOnly => Verdict::Store,
        Verdict::New => Verdict::unusable("no-such-store", format!("{}: no store found there", path.display())),
        verdict => verdict,
    }
}
