//! What went wrong, as reports tell it: the first thousand, however much there is.

use crate::StoreError;

/// Problems that a report lists.
const MOST_PROBLEMS: usize = 1000;

/// A list that does not grow beyond that.
pub(super) trait Problems {
    /// Adds one, if there is room.
    fn note(&mut self, error: StoreError);

    /// Adds as many as there is room for.
    fn note_all(&mut self, errors: impl IntoIterator<Item = StoreError>) {
        errors.into_iter().take(MOST_PROBLEMS).for_each(|error| self.note(error));
    }
}

impl Problems for Vec<StoreError> {
    fn note(&mut self, error: StoreError) {
        if self.len() < MOST_PROBLEMS {
            self.push(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thousand_are_kept() {
        let error = |n: usize| StoreError::Size { path: "p".into(), found: n as u64, expected: 0 };
        let mut problems = Vec::new();
        problems.note_all((0..600).map(error));
        problems.note_all((600..5000).map(error));
        problems.note(error(9999));
        assert_eq!(problems.len(), MOST_PROBLEMS);
        assert!(matches!(problems.last(), Some(StoreError::Size { found: 999, .. })));
    }
}
