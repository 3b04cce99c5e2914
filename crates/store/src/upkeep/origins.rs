//! Where a pack comes from that several were folded into: what all of them say, as far as there is room.
//!
//! Lines are taken from the newest pack to the oldest, of each in their order, as long as they fit. What does not fit is left out, and one
//! line more says how many lines that were, those included that earlier foldings had left out.

use super::readable::size_of_line;
use std::collections::HashSet;

/// What such a line says behind the number.
const LEFT_OUT: &str = " lines of older provenance left out";

/// Lines for a pack, of a limited size.
#[derive(Debug)]
pub(super) struct Origins {
    max: u64,
    /// In the order in which they came.
    lines: Vec<String>,
    known: HashSet<String>,
    size: u64,
    left_out: u64,
}

impl Origins {
    /// None, and room for so many bytes.
    pub(super) fn new(max: u64) -> Self {
        Self { max, lines: Vec::new(), known: HashSet::new(), size: 0, left_out: 0 }
    }

    /// Takes the lines of a pack; newer ones come first.
    pub(super) fn add(&mut self, lines: Vec<String>) {
        for line in lines {
            if let Some(earlier) = left_out(&line) {
                self.left_out = self.left_out.saturating_add(earlier);
                continue;
            }
            if self.known.contains(&line) {
                continue;
            }
            let size = self.size.saturating_add(size_of_line(&line));
            if size > self.max {
                self.left_out = self.left_out.saturating_add(1);
                continue;
            }
            self.size = size;
            self.known.insert(line.clone());
            self.lines.push(line);
        }
    }

    /// The lines, with one more where some are left out.
    pub(super) fn finish(mut self) -> Vec<String> {
        if self.left_out == 0 {
            return self.lines;
        }
        // The line that says so wants room too: that of the oldest.
        let mut says_so = format!("{}{LEFT_OUT}", self.left_out);
        while self.size.saturating_add(size_of_line(&says_so)) > self.max {
            let Some(line) = self.lines.pop() else { return Vec::new() };
            self.size = self.size.saturating_sub(size_of_line(&line));
            self.left_out = self.left_out.saturating_add(1);
            says_so = format!("{}{LEFT_OUT}", self.left_out);
        }
        self.lines.push(says_so);
        self.lines
    }
}

/// Lines that an earlier folding left out, if this is the line that says so.
fn left_out(line: &str) -> Option<u64> {
    let number = line.strip_suffix(LEFT_OUT)?;
    number.parse().ok().filter(|parsed: &u64| parsed.to_string() == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(max: u64, packs: &[&[&str]]) -> Vec<String> {
        let mut origins = Origins::new(max);
        packs.iter().for_each(|pack| origins.add(pack.iter().map(|&line| line.to_owned()).collect()));
        let lines = origins.finish();
        assert!(lines.iter().map(|line| size_of_line(line)).sum::<u64>() <= max);
        lines
    }

    #[test]
    fn what_fits_is_kept_once() {
        assert_eq!(lines(6, &[&["a", "b"], &["b", "c"]]), ["a", "b", "c"]);
        assert_eq!(lines(0, &[]), [""; 0]);
    }

    #[test]
    fn the_oldest_give_way_and_one_line_says_how_many() {
        let long = "x".repeat(60);
        assert_eq!(
            lines(100, &[&["new"], &[&long, "old"], &[&long, &long.to_uppercase()]]),
            ["new", "3 lines of older provenance left out"]
        );
        // What an earlier folding left out counts still, and takes no other room.
        assert_eq!(
            lines(100, &[&["2 lines of older provenance left out", "a"], &["3 lines of older provenance left out"]]),
            ["a", "5 lines of older provenance left out"]
        );
        assert_eq!(lines(100, &[&["02 lines of older provenance left out"]]), ["02 lines of older provenance left out"]);
        assert_eq!(lines(10, &[&["more than there is room for"]]), [""; 0]);
    }
}
