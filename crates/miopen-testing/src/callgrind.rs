//! Instructions of a program, by library, as valgrind counts them.

use crate::program::{Program, ProgramError, scratch};
use std::collections::BTreeMap;
use std::fs;

/// Instructions by library.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instructions(BTreeMap<String, u64>);

impl Instructions {
    /// Those in code of a library, by its file name.
    pub fn of(&self, library: &str) -> u64 {
        self.0.get(library).copied().unwrap_or(0)
    }

    /// All libraries.
    pub fn libraries(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, n)| (name.as_str(), *n))
    }

    /// Reads callgrind's output: `ob=` names the library of the lines behind it, and the last number of a line is a count. The line behind a
    /// `calls=` line is the cost of what was called, which stands there itself.
    fn parse(text: &str) -> Self {
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        let mut counts = BTreeMap::new();
        let (mut library, mut is_called) = ("", false);
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("ob=").or_else(|| line.strip_prefix("cob=")) {
                let (id, text) = name.split_once(' ').unwrap_or((name, ""));
                if !text.is_empty() {
                    names.insert(id, text);
                }
                if line.starts_with("ob=") {
                    library = names.get(id).copied().unwrap_or_default();
                }
            } else if line.starts_with("calls=") {
                is_called = true;
            } else if line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*')) {
                let count = line.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
                if !std::mem::take(&mut is_called) {
                    let name = library.rsplit('/').next().unwrap_or_default();
                    *counts.entry(name.to_owned()).or_insert(0) += count.unwrap_or(0);
                }
            }
        }
        Self(counts)
    }
}

/// Runs a program under callgrind.
///
/// # Errors
/// It cannot be started, or ends without a count.
pub fn count(program: &Program<'_>) -> Result<Instructions, ProgramError> {
    let folder = scratch()?;
    let out = folder.path().join("callgrind");
    let valgrind = ["valgrind".to_owned(), "--tool=callgrind".to_owned(), format!("--callgrind-out-file={}", out.display())];
    let program = program.clone().wrapped_in(valgrind);
    let output = program.run()?;
    let text = fs::read_to_string(&out).unwrap_or_default();
    let found = Instructions::parse(&text);
    if !output.status.success() || found.0.is_empty() {
        return Err(ProgramError::NoResult { program: program.path().to_owned(), status: output.status, log: output.stderr });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_where_they_run() {
        let text = "events: Ir\n\nob=(1) /lib/libA.so.1\nfl=(1) a.c\nfn=(1) f\n10 5\n+1 7\ncob=(2) /lib/libB.so\ncfn=(2) g\ncalls=3 20\n12 90\n\
                    13 1\n\nob=(2)\nfn=(2)\n20 90\n\nob=(1)\nfn=(3) h\n* 4\ntotals: 107\n";
        let found = Instructions::parse(text);
        assert_eq!((found.of("libA.so.1"), found.of("libB.so"), found.of("none")), (17, 90, 0));
    }
}
