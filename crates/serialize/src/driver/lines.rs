//! Records in noisy text: where in a line a driver command begins and ends, how it got there, and its words.

use super::flags;
use crate::conv_problem::ConvDirection;

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordForm {
    /// A command for the driver.
    Command,
    /// A line of `MIOPEN_ENABLE_LOGGING_CMD`, of any version.
    CommandLog,
    /// The problem in a summary of an execution, `Problem="conv .."`.
    ExecutionLog,
    /// Operation and flags alone.
    Bare,
}

impl RecordForm {
    /// A word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::CommandLog => "command log",
            Self::ExecutionLog => "execution log",
            Self::Bare => "operation and flags",
        }
    }

    /// Whether MIOpen printed it, so that what [`NOT_IN_LOGS`](super::NOT_IN_LOGS) lists is not told.
    pub const fn is_log(self) -> bool {
        matches!(self, Self::CommandLog | Self::ExecutionLog)
    }
}

/// One record found in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record<'a> {
    pub(super) form: RecordForm,
    /// The direction that the name of an API function in front of the record says.
    pub(super) direction: Option<ConvDirection>,
    /// Another record begins on the same line behind it.
    pub(super) followed: bool,
    /// The line is a comment.
    pub(super) commented: bool,
    /// Everything behind the program: operation and flags.
    pub(super) args: &'a [u8],
}

const PROGRAM: &[u8] = b"MIOpenDriver";
const EXECUTION: &[u8] = b"Problem=\"";

fn is_blank(b: u8) -> bool {
    b <= b' ' || b == 0x7f
}

fn is_quote(b: u8) -> bool {
    matches!(b, b'"' | b'\'' | b'`')
}

/// Characters between words: blanks, control characters, quotes, and what Python puts round the items of a list.
fn is_separator(b: u8) -> bool {
    is_blank(b) || is_quote(b) || matches!(b, b',' | b'[' | b']' | b'(' | b')')
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    let first = *what.first()?;
    let mut from = 0_usize;
    loop {
        let rest = text.get(from..)?;
        let at = from.checked_add(rest.iter().position(|&b| b == first)?)?;
        if text.get(at..)?.starts_with(what) {
            return Some(at);
        }
        from = at.checked_add(1)?;
    }
}

fn find_from(text: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    find(text.get(from..)?, what)?.checked_add(from)
}

fn slice(text: &[u8], from: usize, to: usize) -> &[u8] {
    text.get(from..to).unwrap_or_default()
}

/// Whether a line can hold a record at all: what most lines of a log are asked.
pub(super) fn may_hold_record(line: &[u8]) -> bool {
    if find(line, PROGRAM).is_some() || find(line, EXECUTION).is_some() {
        return true;
    }
    begins_with_convolution(line)
}

/// Whether a line is the operation of a convolution and a flag.
fn begins_with_convolution(line: &[u8]) -> bool {
    let mut words = words(line);
    let is_convolution = |word: &[u8]| word.starts_with(b"conv") && flags::base_argument(word).is_some();
    words.next().is_some_and(is_convolution) && words.next().is_some_and(|w| w.starts_with(b"-"))
}

/// The words of a text, without quotes, commas and brackets.
pub(super) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| is_separator(b)).filter(|w| !w.is_empty())
}

/// Where a record begins: at its program's path, or at its operation.
struct Start<'a> {
    /// First byte that is not of what stands before.
    at: usize,
    /// First byte of the operation.
    args: usize,
    form: RecordForm,
    /// The quote that encloses the whole record.
    quote: Option<u8>,
    /// Text before, since the last record.
    prefix: &'a [u8],
}

/// All records of a line.
pub(super) fn records(line: &[u8]) -> Vec<Record<'_>> {
    let mut starts: Vec<Start<'_>> = Vec::new();
    let mut from = 0_usize;
    while let Some(start) = next_start(line, from) {
        from = start.args;
        starts.push(start);
    }
    if starts.is_empty() {
        starts.extend(bare(line));
    }
    let commented = line.iter().find(|b| !is_blank(**b)) == Some(&b'#');
    let mut records = Vec::with_capacity(starts.len());
    for (i, start) in starts.iter().enumerate() {
        let next = starts.get(i.saturating_add(1)).map(|s| s.at);
        let mut end = next.unwrap_or(line.len()).max(start.args);
        // The prefix of a next line, printed into this one.
        for marker in [&b"MIOpen("[..], b"MIOpen:", b"MIOpen Error", b"MIOpen Warning", b"miopenConvolution", b"miopenFindConvolution"] {
            if let Some(at) = find_from(line, start.args, marker) {
                end = end.min(at);
            }
        }
        if let Some(quote) = start.quote
            && let Some(at) = slice(line, start.args, end).iter().position(|&b| b == quote)
        {
            end = start.args.saturating_add(at);
        }
        let args = slice(line, start.args, end);
        let is_logged = find(start.prefix, b"Command [").is_some() || find(start.prefix, b"MIOpen(").is_some();
        let direction = direction(start.prefix);
        let form = match start.form {
            RecordForm::Command if is_logged || direction.is_some() => RecordForm::CommandLog,
            form => form,
        };
        let followed = end < line.len() && start.quote.is_none() && slice(line, end, line.len()).iter().any(|b| !is_blank(*b));
        records.push(Record { form, direction, followed, commented, args });
    }
    records
}

fn next_start(line: &[u8], from: usize) -> Option<Start<'_>> {
    let program = find_program(line, from);
    let execution = find_from(line, from, EXECUTION);
    match (program, execution) {
        (Some((at, _)), Some(other)) if other < at => Some(execution_start(line, from, other)),
        (None, Some(other)) => Some(execution_start(line, from, other)),
        (Some((at, behind)), _) => {
            let at_path = path_start(line, from, at);
            let before = at_path.checked_sub(1).and_then(|i| line.get(i)).copied().filter(|b| is_quote(*b));
            // Python quotes each word; then the quote behind the program closes that word only.
            let quote = before.filter(|q| line.get(behind) != Some(q));
            Some(Start { at: at_path, args: behind, form: RecordForm::Command, quote, prefix: slice(line, from, at_path) })
        }
        (None, None) => None,
    }
}

fn execution_start(line: &[u8], from: usize, at: usize) -> Start<'_> {
    let args = at.saturating_add(EXECUTION.len());
    Start { at, args, form: RecordForm::ExecutionLog, quote: Some(b'"'), prefix: slice(line, from, at) }
}

/// The program's name as a word of its own: where it begins, and where what is behind begins.
fn find_program(line: &[u8], mut from: usize) -> Option<(usize, usize)> {
    loop {
        let at = find_from(line, from, PROGRAM)?;
        let mut behind = at.checked_add(PROGRAM.len())?;
        if line.get(behind..)?.starts_with(b".exe") {
            behind = behind.checked_add(4)?;
        }
        match line.get(behind) {
            None => return Some((at, behind)),
            // Very old versions print a colon.
            Some(b':') => return Some((at, behind.checked_add(1)?)),
            Some(&b) if is_separator(b) => return Some((at, behind)),
            Some(_) => from = behind,
        }
    }
}

/// Where the path of the program at `at` begins. What is glued to its front belongs to the text before.
fn path_start(line: &[u8], from: usize, at: usize) -> usize {
    let before = slice(line, from, at);
    let word = before.iter().rposition(|&b| is_separator(b)).map_or(0, |i| i.saturating_add(1));
    let glued = before.get(word..).unwrap_or_default();
    if !glued.last().is_some_and(|b| matches!(b, b'/' | b'\\' | b'}')) {
        // No path, or a value to which the program is glued.
        return at;
    }
    let begins = |i: usize| {
        let rest = glued.get(i..).unwrap_or_default();
        rest.starts_with(b"./") || rest.starts_with(b"../") || rest.starts_with(b"/") || rest.starts_with(b"$") || rest.starts_with(b"~/")
    };
    // A relative path such as `build/bin/` begins with its word; only digits are a value in front of it.
    let digits = glued.iter().take_while(|b| b.is_ascii_digit()).count();
    let skip = if digits > 0 && begins(digits) { digits } else { 0 };
    from.saturating_add(word).saturating_add(skip)
}

/// A line of operation and flags alone.
fn bare(line: &[u8]) -> Option<Start<'_>> {
    let at = line.iter().position(|&b| !is_separator(b))?;
    begins_with_convolution(line).then(|| {
        let quote = at.checked_sub(1).and_then(|i| line.get(i)).copied().filter(|b| is_quote(*b));
        Start { at, args: at, form: RecordForm::Bare, quote, prefix: b"" }
    })
}

/// The direction that the last API function in front of a record names.
fn direction(prefix: &[u8]) -> Option<ConvDirection> {
    let word = words(prefix).filter(|w| w.starts_with(b"miopen")).last()?;
    let names = [
        (&b"ConvolutionForward"[..], ConvDirection::Forward),
        (b"ConvolutionBackwardData", ConvDirection::BackwardData),
        (b"ConvolutionBackwardWeights", ConvDirection::BackwardWeights),
    ];
    names.into_iter().find(|(name, _)| find(word, name).is_some()).map(|(_, direction)| direction)
}

/// The words of a record: up to whatever ends a command in a shell or a comment.
pub(super) fn arguments(args: &[u8]) -> Vec<&[u8]> {
    let mut list = Vec::new();
    for word in words(args) {
        // A line break that somebody wrote as two characters.
        let (word, cut) = match find(word, b"\\n").or_else(|| find(word, b"\\r")) {
            Some(at) => (word.get(..at).unwrap_or_default(), true),
            None => (word, false),
        };
        let ends = matches!(word, [b'#' | b'|' | b'>' | b'<' | b'&' | b';', ..] | [b'0'..=b'9', b'>', ..]);
        if ends {
            break;
        }
        let (word, stop) = match word {
            [head @ .., b';'] => (head, true),
            // A continuation that was joined, or a lone backslash.
            [b'\\'] => continue,
            other => (other, cut),
        };
        if !word.is_empty() {
            list.push(word);
        }
        if stop {
            break;
        }
    }
    list
}

/// Copies a line without terminal colours.
pub(super) fn without_escapes(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut bytes = line.iter().copied();
    while let Some(b) = bytes.next() {
        if b != 0x1b {
            out.push(b);
            continue;
        }
        if bytes.next() == Some(b'[') {
            // Parameters, up to the letter that ends the sequence.
            for b in bytes.by_ref() {
                if (0x40..0x7f).contains(&b) {
                    break;
                }
            }
        }
    }
    out
}
