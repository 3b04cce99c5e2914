//! What a person should see of a conversion, and no more than a person can read.

/// Warnings kept of one graph, so that a hostile one cannot fill the memory with them.
const MAX_WARNINGS: usize = 100;

/// A list that stops growing and counts on.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    list: Vec<String>,
    unshown: usize,
}

impl Warnings {
    pub(super) fn push(&mut self, warning: String) {
        if self.list.len() < MAX_WARNINGS {
            self.list.push(warning);
        } else {
            self.unshown = self.unshown.saturating_add(1);
        }
    }

    pub(super) fn into_list(mut self) -> Vec<String> {
        if self.unshown > 0 {
            self.list.push(format!("and {} more", self.unshown));
        }
        self.list
    }
}
