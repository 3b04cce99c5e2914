//! What a child does that damages a store and looks what becomes of it. A signal ends it.

use super::child::say;
use super::values::Values;
use crate::layout::QUARANTINE;
use crate::{CompactOptions, EntryKind, Mode, Store, fs};
use std::path::{Path, PathBuf};

/// Names in the folder of a test.
const LOOSE: &str = "damaged";
const PACKED: &str = "damaged-pack";
const CUT: &str = "cut-pack";

/// What happens to a file.
#[derive(Debug, Clone, Copy)]
enum Change {
    Byte,
    Cut,
}

impl Change {
    const fn words(self) -> &'static str {
        match self {
            Self::Byte => "one of whose bytes was changed",
            Self::Cut => "which was cut short",
        }
    }
}

/// Entries are damaged: each must be a miss, be set aside and be put again.
pub(super) fn damage(folder: &Path) -> Result<(), String> {
    loose(&folder.join(LOOSE))?;
    packed(&folder.join(PACKED))?;
    let is_mapped = cut_under_a_reader(&folder.join(CUT))?;
    say(if is_mapped { "mapped" } else { "read" })
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn open(root: &Path) -> Result<Store, String> {
    Store::open(root, Mode::ReadWrite).map_err(text)
}

/// Files of their own.
fn loose(root: &Path) -> Result<(), String> {
    let values = Values::of(0)?;
    put(&values, root)?;
    // Of a plan, opening it checks the head; what executes it checks the rest.
    let changes = [
        (EntryKind::Blob, Change::Byte),
        (EntryKind::Selection, Change::Byte),
        (EntryKind::Blob, Change::Cut),
        (EntryKind::Plan, Change::Cut),
        (EntryKind::Selection, Change::Cut),
    ];
    for (kind, change) in changes {
        let store = open(root)?;
        let (file, what) = (values.file(&store, kind), format!("a {}, {},", kind.word(), change.words()));
        let set_aside = count(&root.join(QUARANTINE));
        match change {
            Change::Byte => fs::change_byte(&file, opened(&file)?.size() / 2).map_err(text)?,
            Change::Cut => fs::cut(&file, 5).map_err(text)?,
        }
        if values.get_past_faults(&store)? {
            return Err(format!("{what} is found"));
        }
        if count(&root.join(QUARANTINE)) <= set_aside {
            return Err(format!("{what} is not set aside"));
        }
        put(&values, root).map_err(|e| format!("{what} and was set aside: {e}"))?;
    }
    Ok(())
}

/// Entries of a pack.
fn packed(root: &Path) -> Result<(), String> {
    let values = Values::of(1)?;
    for kind in [EntryKind::Blob, EntryKind::Plan] {
        let pack = pack_of(&[&values], root)?;
        let bytes: &[u8] = if kind == EntryKind::Blob { &values.blob } else { &values.plan };
        let at = place_of(bytes, &pack)?.saturating_add(bytes.len() as u64 / 2);
        fs::change_byte(&pack, at).map_err(text)?;
        let what = format!("a {} of a pack, {},", kind.word(), Change::Byte.words());
        if values.get_past_faults(&open(root)?)? {
            return Err(format!("{what} is found"));
        }
        put(&values, root).map_err(|e| format!("{what}: {e}"))?;
    }
    Ok(())
}

/// A pack is cut short while a reader has it mapped. Says whether it was mapped.
fn cut_under_a_reader(root: &Path) -> Result<bool, String> {
    let (small, large) = (Values::of(2)?, Values::large(3)?);
    let pack = pack_of(&[&small, &large], root)?;
    let reader = open(root)?;
    if !large.get(&reader)? || !small.get(&reader)? {
        return Err("what was folded into a pack is not found".into());
    }
    let is_mapped = fs::is_local(&opened(&pack)?, &pack).map_err(text)?;
    let at = place_of(&large.blob, &pack)?.saturating_add(large.blob.len() as u64 / 3);
    fs::cut(&pack, at).map_err(text)?;
    if large.get_past_faults(&reader)? {
        return Err("a code object is found in a pack that was cut short before its end".into());
    }
    // What stands before the cut may be found; what is found is right.
    small.get_past_faults(&reader)?;
    for values in [&small, &large] {
        put(values, root).map_err(|e| format!("a pack was cut short under its reader: {e}"))?;
        if !values.get_past_faults(&reader)? {
            return Err("a reader of a pack that was cut short does not find what was put again".into());
        }
    }
    Ok(is_mapped)
}

/// Puts all of it, and looks it up as somebody who comes anew.
fn put(values: &Values, root: &Path) -> Result<(), String> {
    if !values.put(&open(root)?).map_err(text)? {
        return Err("a put was not kept".into());
    }
    if !values.get(&open(root)?)? {
        return Err("what was put is not found".into());
    }
    Ok(())
}

/// A pack that these are in.
fn pack_of(all: &[&Values], root: &Path) -> Result<PathBuf, String> {
    for values in all {
        put(values, root)?;
    }
    let options = CompactOptions { all: true, ..CompactOptions::default() };
    let report = open(root)?.compact(&options, &()).map_err(text)?;
    report.pack.ok_or_else(|| "nothing was folded into a pack".to_owned())
}

/// Where these bytes stand in a file.
fn place_of(bytes: &[u8], path: &Path) -> Result<u64, String> {
    let all = opened(path)?.read().map_err(text)?;
    let place = all.windows(bytes.len()).position(|window| window == bytes);
    place.map(|place| place as u64).ok_or_else(|| "a pack does not have what was folded into it".to_owned())
}

fn opened(path: &Path) -> Result<fs::OpenFile, String> {
    fs::open(path).map_err(text)?.map_err(|kind| format!("found {} where a file was put", kind.name()))
}

/// How many names a folder has that may not be there.
fn count(folder: &Path) -> usize {
    fs::list(folder).map_or(0, |names| names.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Op, Verdict, with_hook};

    #[test]
    fn what_is_not_set_aside_and_what_is_found_all_the_same_is_told() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(damage(&dir.path().join("good")), Ok(()));
        // Where nothing can be moved out of the way.
        let hook = |op: Op<'_>| match op {
            Op::Rename { to, .. } if to.parent().is_some_and(|folder| folder.ends_with(QUARANTINE)) => Verdict::Fail(libc::EACCES),
            _ => Verdict::Go,
        };
        let error = with_hook(hook, || damage(&dir.path().join("kept"))).unwrap_err();
        assert_eq!(error, "a blob, one of whose bytes was changed, is not set aside");
        // Where a change does not stay, all is found, which is wrong here.
        let mut undo = None;
        let hook = move |op: Op<'_>| {
            if let Some((path, bytes)) = undo.take() {
                std::fs::write::<PathBuf, Vec<u8>>(path, bytes).unwrap();
            }
            if let Op::Write { path, bytes: [_], .. } = op {
                undo = Some((path.to_owned(), std::fs::read(path).unwrap()));
            }
            Verdict::Go
        };
        let error = with_hook(hook, || damage(&dir.path().join("unchanged"))).unwrap_err();
        assert_eq!(error, "a blob, one of whose bytes was changed, is found");
    }
}
