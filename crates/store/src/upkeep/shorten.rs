//! Taking rows out of loose records.

use super::away::{Away, take_away};
use super::reach::read_loose_record;
use super::stamps::nanos;
use super::sweep::Sweep;
use super::table::Copied;
use super::trash;
use crate::layout::TRASH;
use crate::{EntryKind, StoreError, fs, record};
use hipplan_serialize::PlanRef;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

impl Sweep<'_> {
    /// Takes those rows out of a loose record that lead to plans which go, or removes it.
    pub(super) fn shorten(
        &mut self,
        kind: EntryKind,
        copy: &Copied,
        whole: bool,
        touched: &mut BTreeSet<PathBuf>,
    ) -> Result<(), StoreError> {
        let path = kind.file(self.directory.root(), &copy.name);
        let record = match read_loose_record(kind, &copy.name, &path, self.limits) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()),
            // Damaged meanwhile: it names nothing.
            Err(error) if error.is_damage() => return Ok(()),
            Err(error) => return Err(error),
        };
        let rows: Vec<PlanRef> = if whole { Vec::new() } else { record.rows.iter().filter(|row| self.stays(row)).copied().collect() };
        if rows.len() == record.rows.len() {
            return Ok(());
        }
        let away = if rows.is_empty() {
            let away = take_away(self.directory, kind, &copy.name, copy.stamp)?;
            if away == Away::Gone {
                self.swept.count(kind);
            }
            away
        } else {
            let bytes = record::encode(record.kind, &copy.name, &rows);
            let away = self.replace(kind, copy, &bytes)?;
            if away == Away::Gone {
                self.swept.shortened = self.swept.shortened.saturating_add(1);
            }
            away
        };
        touched.extend(path.parent().map(ToOwned::to_owned));
        match away {
            Away::Gone | Away::Absent => {}
            Away::InUse => self.spare_named(kind, &copy.name)?,
        }
        Ok(())
    }

    /// Whether a row of a record stays.
    pub(super) fn stays(&self, row: &PlanRef) -> bool {
        match self.holdings.plans.find(&row.root.0) {
            Some(plan) => !self.removal.plans.has(plan),
            // It may have been put since the plans were listed.
            None => !self.removal.dangling || trash::may_have(self.directory, EntryKind::Plan, &row.root.0),
        }
    }

    /// Puts other bytes in place of a record that has not been used or replaced since it was decided upon.
    fn replace(&self, kind: EntryKind, copy: &Copied, bytes: &[u8]) -> Result<Away, StoreError> {
        let path = kind.file(self.directory.root(), &copy.name);
        let seen = match fs::status(&path) {
            Ok(status) => status,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Away::Absent),
            Err(e) => return Err(StoreError::io("look at", &path)(e)),
        };
        if nanos(seen.changed) != copy.stamp {
            return Ok(Away::InUse);
        }
        // What a kill leaves there is put back only where nothing has the name.
        let to = self.directory.uses_folder(TRASH)?.join(kind.set_aside_name(&copy.name, trash::number()));
        let temp = self.directory.write_temp(bytes)?;
        fs::rename(temp, &to).map_err(StoreError::io("create the file", &to))?;
        let ours = fs::status(&to).map_err(StoreError::io("look at", &to))?.inode;
        match fs::exchange(&to, &path) {
            // What had the name is in the trash now.
            Ok(true) => {}
            Ok(false) => return self.replace_by_steps(kind, copy, &to, &seen),
            // Other upkeep has cleared the trash, or taken the record.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return fs::unlink(&to).map(|_| Away::InUse).map_err(StoreError::io("remove", &to));
            }
            Err(e) => return Err(StoreError::io("exchange", &path)(e)),
        }
        match fs::status(&to) {
            Ok(old) if old.inode == seen.inode && nanos(old.changed) == copy.stamp => {
                fs::unlink(&to).map_err(StoreError::io("remove", &to))?;
                return Ok(Away::Gone);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Away::InUse),
            _ => {}
        }
        // It was used or replaced a moment ago: it goes back. Where ours has been replaced too, what replaced it is newer yet.
        fs::exchange(&to, &path).map_err(StoreError::io("move back", &path))?;
        if fs::status(&to).is_ok_and(|back| back.inode != ours) {
            fs::rename_away(&to, &path).map_err(StoreError::io("move back", &path))?;
        } else {
            fs::unlink(&to).map_err(StoreError::io("remove", &to))?;
        }
        Ok(Away::InUse)
    }

    /// The same where files cannot be exchanged: for a moment nothing has the name.
    fn replace_by_steps(&self, kind: EntryKind, copy: &Copied, ours: &Path, seen: &fs::Status) -> Result<Away, StoreError> {
        let path = kind.file(self.directory.root(), &copy.name);
        let condemned = trash::condemn(self.directory, kind, &copy.name, seen.inode)?;
        let is_unused = |status: Option<fs::Status>| status.is_some_and(|status| nanos(status.changed) == copy.stamp);
        let is_in_place = match condemned {
            Some(condemned) if is_unused(condemned.status()?) => {
                let is_in_place = fs::rename_back(ours, &path).map_err(StoreError::io("create the file", &path))?;
                condemned.delete()?;
                is_in_place
            }
            Some(condemned) => condemned.put_back().map(|_| false)?,
            None => false,
        };
        fs::unlink(ours).map_err(StoreError::io("remove", ours))?;
        Ok(if is_in_place { Away::Gone } else { Away::InUse })
    }
}
