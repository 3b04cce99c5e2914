//! Pins: what upkeep may not remove, in small text files that anybody can read.

use super::gc::graphs;
use crate::layer::{Directory, packed_plan, walk};
use crate::layout::PINS;
use crate::plans::PlanBytes;
use crate::{EntryKind, Store, StoreError, entry, fs};
use hipplan_serialize::{GraphKey, PlanKey, SelectionKey};
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes of the largest file that is read: some 220,000 lines.
const MAX_BYTES: u64 = 16 << 20;
const EXPECTED_SIZE: &str = "at most 16777216 bytes, which are some 220000 targets";
/// Characters of the longest name.
const MAX_NAME: usize = 100;

/// A thing that is to stay, or to be removed, together with what it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pin {
    /// The plans of a key.
    Plan(PlanKey),
    /// A selection, and the plans that it names.
    Selection(SelectionKey),
    /// All plans of a graph, for every target, engine and setting.
    Graph(GraphKey),
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(key) => write!(f, "plan {key}"),
            Self::Selection(key) => write!(f, "selection {key}"),
            Self::Graph(key) => write!(f, "graph {key}"),
        }
    }
}

impl FromStr for Pin {
    type Err = String;

    /// Reads `plan`, `selection` or `graph`, a space, and 64 hexadecimal digits.
    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let expected = || "`plan`, `selection` or `graph`, a space and 64 hexadecimal digits".to_owned();
        let (word, digits) = line.split_once(' ').ok_or_else(expected)?;
        match word {
            "plan" => digits.parse().map(Self::Plan).map_err(|_| expected()),
            "selection" => digits.parse().map(Self::Selection).map_err(|_| expected()),
            "graph" => digits.parse().map(Self::Graph).map_err(|_| expected()),
            _ => Err(expected()),
        }
    }
}

/// A named set of pins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinSet {
    /// File name in the folder `pins`.
    pub name: String,
    /// What stays.
    pub targets: Vec<Pin>,
}

impl Store {
    /// Keeps these things, and all that they lead to, from [`gc`](Self::gc) and [`remove`](Self::remove), in place of what the set of this
    /// name kept before. What is not in the store yet is kept as soon as it is.
    ///
    /// A gc that is at work has either seen the pins, or finds that what they keep has just been used and leaves it.
    ///
    /// # Errors
    /// The name is not one of up to 100 letters, digits, `-`, `_` and `.`, beginning with a letter or digit; there is no target, or there are more
    /// than some 220,000; or it cannot be written.
    pub fn pin(&self, name: &str, targets: &[Pin]) -> Result<(), StoreError> {
        let directory = self.to_write()?;
        let path = path_of(directory, name)?;
        if targets.is_empty() {
            return Err(StoreError::PinsRefused {
                path,
                found: "nothing".into(),
                expected: "at least one pin",
                advice: "name what is to stay; `hipplan store unpin` removes a set",
            });
        }
        let mut text = String::new();
        for target in targets {
            text.push_str(&target.to_string());
            text.push('\n');
        }
        if text.len() as u64 > MAX_BYTES {
            // One that nobody reads would keep everything.
            let found = format!("{} targets, {} bytes of text", targets.len(), text.len());
            return Err(StoreError::Named {
                path,
                found,
                expected: EXPECTED_SIZE,
                advice: "pin them in several sets, each of a name of its own",
            });
        }
        directory.uses_folder(PINS)?;
        let temp = directory.write_temp(text.as_bytes())?;
        fs::rename(temp, &path).map_err(StoreError::io("create the file", &path))?;
        directory.sync_name(&path)?;
        self.touch_pinned(directory, targets);
        Ok(())
    }

    /// Removes a set of pins; tells whether there was one of this name.
    ///
    /// # Errors
    /// The name cannot be that of a set, or it cannot be removed.
    pub fn unpin(&self, name: &str) -> Result<bool, StoreError> {
        let directory = self.to_write()?;
        let path = path_of(directory, name)?;
        let removed = fs::unlink(&path).map_err(StoreError::io("remove", &path))?;
        if removed {
            directory.sync_name(&path)?;
        }
        Ok(removed)
    }

    /// The sets of pins of the folder in front, by name.
    ///
    /// # Errors
    /// One of them is damaged or cannot be read, or something else stands among them.
    pub fn pins(&self) -> Result<Vec<PinSet>, StoreError> {
        self.directory().map_or_else(|| Ok(Vec::new()), all)
    }

    /// Stamps what is pinned, for a gc that has read the pins already. What is looked at to find it is not used, and gets no stamp.
    fn touch_pinned(&self, directory: &Directory, targets: &[Pin]) {
        let limits = self.limits();
        for target in targets {
            let (kind, key) = match target {
                Pin::Plan(key) => (EntryKind::PlanRecord, key.0),
                Pin::Selection(key) => (EntryKind::Selection, key.0),
                Pin::Graph(_) => continue,
            };
            directory.stamp_now(kind, &key);
            if let Ok(Some(record)) = directory.record(kind, &key, limits) {
                record.rows.iter().filter_map(|plan| directory.plan(plan, limits).ok().flatten()).for_each(|plan| touch(directory, &plan));
            }
        }
        // No name leads to the plans of a graph.
        let graphs = graphs(targets.iter());
        if graphs.is_empty() {
            return;
        }
        let loose = walk::files(directory.root(), EntryKind::Plan).flatten();
        let loose = loose.filter_map(|(_, path)| directory.open_loose_plan(&path, limits).ok().flatten());
        let (packs, _) = directory.packs().listed();
        let packed = packs.iter().flat_map(|pack| {
            let rows = pack.rows(EntryKind::Plan).map_while(Result::ok);
            rows.filter_map(|row| packed_plan(pack, &row, limits).ok())
        });
        let of_graphs = |plan: &PlanBytes| graphs.contains(&plan.view().meta().graph_key());
        loose.chain(packed).filter(of_graphs).for_each(|plan| touch(directory, &plan));
    }
}

/// Stamps a plan, its record and its code objects.
fn touch(directory: &Directory, plan: &PlanBytes) {
    let id = plan.view().plan_ref();
    directory.stamp_now(EntryKind::PlanRecord, &id.key.0);
    directory.stamp_now(EntryKind::Plan, &id.root.0);
    plan.code_objects().for_each(|blob| directory.stamp_now(EntryKind::Blob, &blob.hash.0));
}

/// All sets of a folder. Whatever cannot be read may keep anything, so it is an error.
pub(super) fn all(directory: &Directory) -> Result<Vec<PinSet>, StoreError> {
    sets(directory).collect()
}

/// What is wrong with the sets of a folder, each of which keeps upkeep from removing anything.
pub(crate) fn pin_faults(directory: &Directory) -> impl Iterator<Item = StoreError> + use<> {
    sets(directory).filter_map(Result::err)
}

/// The sets of a folder, by name, read as the iterator advances.
fn sets(directory: &Directory) -> impl Iterator<Item = Result<PinSet, StoreError>> + use<> {
    let folder = directory.root().join(PINS);
    let names = walk::own_folders(directory.root(), PINS).map_or_else(|error| vec![Err(error)], |()| walk::names(&folder));
    names.into_iter().filter_map(move |name| name.and_then(|name| set(&folder, &name)).transpose())
}

/// A set; `None` when it has vanished.
fn set(folder: &Path, name: &OsStr) -> Result<Option<PinSet>, StoreError> {
    let path = folder.join(name);
    let Some(name) = name.to_str().filter(|name| is_name(name)) else {
        let (found, expected) = (name.to_string_lossy().into_owned(), EXPECTED_NAME.to_owned());
        return Err(StoreError::Pins { path, line: 0, found, expected });
    };
    Ok(read(&path)?.map(|targets| PinSet { name: name.to_owned(), targets }))
}

/// The targets of a file; `None` when it has vanished.
fn read(path: &Path) -> Result<Option<Vec<Pin>>, StoreError> {
    let Some(file) = walk::open_listed(path)? else { return Ok(None) };
    entry::check_limit(path, "size in bytes", file.size(), "of a file of pins", MAX_BYTES)?;
    let bytes = file.read().map_err(StoreError::io("read", path))?;
    let wrong = |line: usize, found: &str, expected: String| {
        let found = found.chars().take(100).collect();
        StoreError::Pins { path: path.to_owned(), line, found, expected }
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong(0, "bytes that are not UTF-8", "text".into()))?;
    let complete = text.strip_suffix('\n');
    let complete = complete.ok_or_else(|| wrong(0, "no line break at the end", "whole lines; the file is cut off".into()))?;
    let target = |(line, text): (usize, &str)| text.parse().map_err(|expected| wrong(line.saturating_add(1), text, expected));
    complete.split('\n').enumerate().map(target).collect::<Result<_, _>>().map(Some)
}

const EXPECTED_NAME: &str = "a name of 1 to 100 letters, digits, `-`, `_` and `.` that begins with a letter or digit";

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn path_of(directory: &Directory, name: &str) -> Result<PathBuf, StoreError> {
    let folder = directory.root().join(PINS);
    if is_name(name) {
        return Ok(folder.join(name));
    }
    Err(StoreError::PinsRefused {
        path: folder,
        found: name.chars().take(MAX_NAME).collect(),
        expected: EXPECTED_NAME,
        advice: "name the set with letters, digits, `-`, `_` and `.`, a letter or digit first",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_lead_elsewhere() {
        for good in ["a", "release-1.2", "A_b.c", "0"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "a/b", "../a", "a b", "é", "a\0", "-x", &"a".repeat(101)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn targets_print_and_parse() {
        let digits = "0123456789abcdef".repeat(4);
        for word in ["plan", "selection", "graph"] {
            let line = format!("{word} {digits}");
            assert_eq!(line.parse::<Pin>().unwrap().to_string(), line);
        }
        for bad in
            ["", "plan", "plan ", "blob 00", &format!("plan  {digits}"), &format!("plan {digits}0"), &format!("plan {} ", &digits[1..])]
        {
            assert!(bad.parse::<Pin>().is_err(), "{bad:?}");
        }
    }
}
