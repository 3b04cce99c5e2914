//! What a plugin answers, to be believed only after a look: texts of errors, and lists of engine ids.

use super::symbols::Symbols;
use super::text;
use hipplan_engine_abi::status::{Status, status_name};
use std::collections::HashSet;
use std::ffi::CStr;

/// Room behind what a plugin may write, to notice one that writes more.
const GUARD: usize = 16;
/// What unwritten room holds: no plugin writes it by chance.
const UNTOUCHED: i64 = 0x5AFE_5AFE_5AFE_5AFE_u64 as i64;

/// A failed call's status and what the plugin says of it.
pub(super) fn failure(symbols: &Symbols, function: &CStr, status: Status) -> String {
    let text = last_error(symbols);
    let name = status_name(status).unwrap_or("an unknown status");
    let text = if text.is_empty() { "it does not say why" } else { &text };
    format!("{} failed with {name} ({status}): {text}", function.to_string_lossy())
}

/// What the plugin says of the error before, on this thread.
pub(super) fn last_error(symbols: &Symbols) -> String {
    let mut text = std::ptr::null();
    // SAFETY: the pointer is to a pointer.
    unsafe { (symbols.get_last_error_string)(&raw mut text) };
    // SAFETY: it is null still, or a text of the plugin that stays until its next call on this thread.
    unsafe { text::lossy(text) }
}

/// Memory for `max` ids, and the guard behind it.
pub(super) fn room(max: usize) -> Vec<i64> {
    vec![UNTOUCHED; max + GUARD]
}

/// Shortens ids to those that were stored in such [`room`].
///
/// # Errors
/// The guard was written, or fewer were stored than counted.
pub(super) fn stored(ids: &mut Vec<i64>, count: u32) -> Result<(), String> {
    let guard = ids.len().saturating_sub(GUARD);
    if ids[guard..].iter().any(|&id| id != UNTOUCHED) {
        return Err(format!("stores more than the {guard} ids that there is room for"));
    }
    ids.truncate(guard.min(count as usize));
    match ids.iter().position(|&id| id == UNTOUCHED) {
        Some(stored) => Err(format!("counts {count} ids and stores {stored}")),
        None => Ok(()),
    }
}

/// An id that is there twice.
pub(super) fn repeated(ids: &[i64]) -> Option<i64> {
    let mut seen = HashSet::new();
    ids.iter().copied().find(|&id| !seen.insert(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_writes_too_much_or_too_little_is_noticed() {
        let mut ids = room(2);
        ids[0] = 4;
        assert_eq!(stored(&mut ids, 1), Ok(()));
        assert_eq!(ids, [4]);
        let mut ids = room(2);
        ids[2] = 4;
        assert!(stored(&mut ids, 2).is_err());
        let mut ids = room(2);
        ids[0] = 4;
        assert_eq!(stored(&mut ids, 2), Err("counts 2 ids and stores 1".to_owned()));
        assert_eq!((repeated(&[1, 2, 1]), repeated(&[1, 2])), (Some(1), None));
    }
}
