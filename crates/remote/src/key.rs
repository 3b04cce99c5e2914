//! Where an entry lies below the prefix: `v1/<kind>/<ab>/<62 hex>`, as in a folder of objects.

use hipplan_store::EntryKind;
use object_store::path::Path;

/// Raised when the wrapping or the folders change so that older readers would be wrong; both versions can share a bucket.
const LAYOUT: &str = "v1";

/// Name of the folder of a kind.
pub(crate) fn folder(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Blob => "blob",
        EntryKind::Plan => "plan",
        EntryKind::PlanRecord => "plan-record",
        EntryKind::Selection => "selection",
    }
}

/// The path of an entry.
pub(crate) fn path(prefix: &Path, kind: EntryKind, name: &[u8; 32]) -> Path {
    let hex: String = name.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
    let (ab, rest) = hex.split_at(2);
    [LAYOUT, folder(kind), ab, rest].into_iter().fold(prefix.clone(), |path, part| path.join(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_that_the_documents_say() {
        let name: [u8; 32] = std::array::from_fn(|at| at as u8 + 0xe0);
        let hex = "e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
        let prefix = Path::from("team/plans");
        assert_eq!(path(&prefix, EntryKind::Blob, &name).as_ref(), format!("team/plans/v1/blob/e0/{hex}"));
        assert_eq!(path(&Path::default(), EntryKind::PlanRecord, &name).as_ref(), format!("v1/plan-record/e0/{hex}"));
        assert_eq!([EntryKind::Plan, EntryKind::Selection].map(folder), ["plan", "selection"]);
    }
}
