//! A whole log, in pieces of any size: each different problem once, with what was skipped.

use super::error::SkipReason;
use super::lines::{self, Record, RecordForm};
use super::record::{self, Reading};
use crate::Limits;
use crate::conv_problem::{ConvDirection, ConvProblem};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Most bytes of a skipped line that are kept to show it.
const SHOWN: usize = 240;
/// Different texts of records that are remembered, so that a repeat costs a look-up; beyond, a repeat is read again.
const REMEMBERED: usize = 1 << 16;
/// Bytes of such a text; longer ones are read again.
const REMEMBERED_BYTES: usize = 1 << 10;

/// A problem of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedProblem {
    /// The problem.
    pub problem: ConvProblem,
    /// Line of its first record, from 1. A line that is continued has the number of its first part.
    pub line: u64,
    /// Records that say it.
    pub count: u64,
    /// Its first record, an index into [`DriverLog::records`].
    pub record: usize,
}

/// A record that introduced a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRecord {
    /// Its line, from 1.
    pub line: u64,
    /// Operation and flags, as they stand there.
    pub text: Box<str>,
    /// Where it comes from.
    pub form: RecordForm,
    /// The direction that the name of an API function in front of it says.
    pub prefix: Option<ConvDirection>,
    /// What was read leniently, or is probably not meant so.
    pub warnings: Box<[String]>,
}

impl LoggedRecord {
    /// How it was read, flag by flag. That is many times as large as the text, so it is not kept but made again from it.
    ///
    /// # Errors
    /// The limits are narrower than those that the log was read with.
    pub fn reading(&self, limits: &Limits) -> Result<Reading, SkipReason> {
        // It was accepted, so it is neither a comment nor cut off by what followed it.
        let record = Record { form: self.form, direction: self.prefix, followed: false, commented: false, args: self.text.as_bytes() };
        let mut reading = record::read(&record, limits)?;
        // The text may hold replacement characters where bytes were; the warnings are about the bytes.
        reading.warnings = self.warnings.to_vec();
        Ok(reading)
    }
}

/// A record that is no problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRecord {
    /// Line of the first of its kind, from 1.
    pub line: u64,
    /// The line, cut to a length that can be shown.
    pub text: String,
    /// Why.
    pub reason: SkipReason,
    /// Records with this text.
    pub count: u64,
}

/// What became of the lines of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Lines, continued ones counted as many as they are.
    pub lines: u64,
    /// Records: mentions of the driver, and problems in summaries.
    pub records: u64,
    /// Records that are problems.
    pub read: u64,
    /// Convolutions among the records that are none: what a person should look at.
    pub lost: u64,
    /// Other records: operations that are not convolutions, comments, sentences.
    pub other: u64,
    /// Skipped records that are counted but not listed, because there are more than the limit.
    pub unlisted: u64,
}

/// All that a text says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverLog {
    /// The different problems, in the order in which they were met.
    pub problems: Vec<LoggedProblem>,
    /// The records that introduced them.
    pub records: Vec<LoggedRecord>,
    /// The records that were skipped, in the order of their first lines.
    pub skipped: Vec<SkippedRecord>,
    /// The counts.
    pub coverage: Coverage,
}

/// What a record's text was found to be.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// Indices of its problems.
    Problems([Option<u32>; 3]),
    /// Index of the list of skipped records, if it is there.
    Skipped { at: Option<u32>, lost: bool },
}

/// BLAKE3 of a record, which stands for its text and all else that decides how it is read.
type Digest = [u8; 32];

/// Positions of the different problems, by their hashes: a problem is some 400 bytes, and is kept in the log alone.
#[derive(Debug, Default)]
struct Index {
    hasher: RandomState,
    at: HashMap<u64, usize>,
}

impl Index {
    /// The position of a problem, or the key under which it is to be entered.
    fn find(&self, problem: &ConvProblem, problems: &[LoggedProblem]) -> Result<usize, u64> {
        let mut key = self.hasher.hash_one(problem);
        // Two problems with one hash: the second is under the next key that is free. Nothing is ever removed.
        while let Some(&at) = self.at.get(&key) {
            if problems.get(at).is_some_and(|known| known.problem == *problem) {
                return Ok(at);
            }
            key = key.wrapping_add(1);
        }
        Err(key)
    }
}

/// Reads a log piece by piece. Memory is bounded by the limits and the number of different records, under a kilobyte and the text for
/// each; time is linear.
#[derive(Debug)]
pub struct LogReader {
    limits: Limits,
    log: DriverLog,
    /// The unfinished line, continuations joined.
    line: Vec<u8>,
    /// Number of the line's first part.
    first: u64,
    /// Lines that are complete.
    complete: u64,
    /// The line went over the limit.
    too_long: bool,
    /// The line has been continued.
    continued: bool,
    index: Index,
    seen: HashMap<Digest, Known>,
}

impl LogReader {
    /// A reader under these limits.
    pub fn new(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            log: DriverLog::default(),
            line: Vec::new(),
            first: 1,
            complete: 0,
            too_long: false,
            continued: false,
            index: Index::default(),
            seen: HashMap::new(),
        }
    }

    /// Takes the next piece of the text, cut anywhere.
    pub fn push(&mut self, mut piece: &[u8]) {
        while let Some(at) = piece.iter().position(|&b| b == b'\n') {
            let (line, rest) = piece.split_at(at);
            piece = rest.get(1..).unwrap_or_default();
            self.append(line);
            self.complete = self.complete.saturating_add(1);
            self.end_of_line();
        }
        self.append(piece);
    }

    /// Ends the text.
    pub fn finish(mut self) -> DriverLog {
        if !self.line.is_empty() || self.too_long {
            if !self.continued || !self.line.is_empty() {
                self.complete = self.complete.saturating_add(1);
            }
            self.read_line();
        }
        self.log.coverage.lines = self.complete;
        self.log.problems.shrink_to_fit();
        self.log.records.shrink_to_fit();
        self.log
    }

    fn append(&mut self, part: &[u8]) {
        let room = self.limits.max_line_bytes.saturating_sub(self.line.len());
        self.too_long |= part.len() > room;
        self.line.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    fn end_of_line(&mut self) {
        while self.line.last().is_some_and(|b| matches!(b, b'\r' | b' ' | b'\t')) {
            self.line.pop();
        }
        // Continued by a backslash, where it matters: in a command.
        if self.line.last() == Some(&b'\\') && !self.too_long && (self.continued || lines::may_hold_record(&self.line)) {
            self.line.pop();
            self.line.push(b' ');
            self.continued = true;
            return;
        }
        self.read_line();
    }

    fn read_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if lines::may_hold_record(&line) {
            if line.contains(&0x1b) {
                line = lines::without_escapes(&line);
            }
            if self.too_long {
                let reason = SkipReason::LineTooLong { limit: self.limits.max_line_bytes };
                self.log.coverage.records = self.log.coverage.records.saturating_add(1);
                self.skip(&line, reason);
            } else {
                for record in lines::records(&line) {
                    self.record(&line, &record);
                }
            }
        }
        line.clear();
        self.line = line;
        self.too_long = false;
        self.continued = false;
        self.first = self.complete.saturating_add(1);
    }

    fn record(&mut self, line: &[u8], record: &Record<'_>) {
        // A comment that mentions the driver in a sentence is no command that was commented out.
        if record.commented && !record::names_operation(record) {
            return;
        }
        let coverage = &mut self.log.coverage;
        coverage.records = coverage.records.saturating_add(1);
        let small = record.args.len() <= REMEMBERED_BYTES;
        let key = small.then(|| digest(record));
        if let Some(known) = key.as_ref().and_then(|key| self.seen.get(key)).copied() {
            self.again(known);
            return;
        }
        let known = match record::read(record, &self.limits) {
            Ok(reading) => self.problems(record, reading),
            Err(reason) => self.skip(line, reason),
        };
        if let Some(key) = key
            && self.seen.len() < REMEMBERED
        {
            self.seen.insert(key, known);
        }
    }

    /// A text that was met before.
    fn again(&mut self, known: Known) {
        let DriverLog { problems, skipped, coverage, .. } = &mut self.log;
        match known {
            Known::Problems(at) => {
                coverage.read = coverage.read.saturating_add(1);
                for i in at.into_iter().flatten() {
                    if let Some(problem) = problems.get_mut(position(i)) {
                        problem.count = problem.count.saturating_add(1);
                    }
                }
            }
            Known::Skipped { at, lost } => {
                match lost {
                    true => coverage.lost = coverage.lost.saturating_add(1),
                    false => coverage.other = coverage.other.saturating_add(1),
                }
                match at.and_then(|i| skipped.get_mut(position(i))) {
                    Some(it) => it.count = it.count.saturating_add(1),
                    None => coverage.unlisted = coverage.unlisted.saturating_add(1),
                }
            }
        }
    }

    fn problems(&mut self, record: &Record<'_>, reading: Reading) -> Known {
        let mut at = [None; 3];
        let mut is_new = false;
        let records = self.log.records.len();
        let limit = self.limits.max_problems;
        for (slot, problem) in at.iter_mut().zip(&reading.problems) {
            let key = match self.index.find(problem, &self.log.problems) {
                Ok(known) => {
                    if let Some(it) = self.log.problems.get_mut(known) {
                        it.count = it.count.saturating_add(1);
                    }
                    *slot = u32::try_from(known).ok();
                    continue;
                }
                Err(key) => key,
            };
            let new = self.log.problems.len();
            if new >= limit {
                return self.skip(record.args, SkipReason::TooManyProblems { limit });
            }
            self.log.problems.push(LoggedProblem { problem: *problem, line: self.first, count: 1, record: records });
            self.index.at.insert(key, new);
            *slot = u32::try_from(new).ok();
            is_new = true;
        }
        if is_new {
            let text = String::from_utf8_lossy(record.args.trim_ascii()).into();
            let warnings = reading.warnings.into();
            self.log.records.push(LoggedRecord { line: self.first, text, form: record.form, prefix: record.direction, warnings });
        }
        self.log.coverage.read = self.log.coverage.read.saturating_add(1);
        Known::Problems(at)
    }

    fn skip(&mut self, line: &[u8], reason: SkipReason) -> Known {
        let coverage = &mut self.log.coverage;
        let lost = reason.is_loss();
        match lost {
            true => coverage.lost = coverage.lost.saturating_add(1),
            false => coverage.other = coverage.other.saturating_add(1),
        }
        let at = self.log.skipped.len();
        if at >= self.limits.max_skipped {
            coverage.unlisted = coverage.unlisted.saturating_add(1);
            return Known::Skipped { at: None, lost };
        }
        let line = line.trim_ascii();
        let mut text = String::from_utf8_lossy(line.get(..SHOWN).unwrap_or(line)).into_owned();
        if line.len() > SHOWN {
            text.push_str("..");
        }
        self.log.skipped.push(SkippedRecord { line: self.first, text, reason, count: 1 });
        Known::Skipped { at: u32::try_from(at).ok(), lost }
    }
}

/// What tells a record from others.
fn digest(record: &Record<'_>) -> Digest {
    let Record { form, direction, followed, commented, args } = *record;
    let direction = direction.map_or(0, ConvDirection::bit);
    let mut hasher = blake3::Hasher::new();
    hasher.update(form.name().as_bytes()).update(&[0]).update(&direction.to_le_bytes());
    hasher.update(&[u8::from(followed), u8::from(commented)]).update(args);
    hasher.finalize().into()
}

/// A position that was kept in 32 bits.
fn position(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// Reads a text that is in memory.
pub fn read_log(text: &[u8], limits: &Limits) -> DriverLog {
    let mut reader = LogReader::new(limits);
    reader.push(text);
    reader.finish()
}
