//! Tables and JSON on standard output, colours where a terminal takes them.

use anstyle::{AnsiColor, Reset, Style};
use anyhow::Context;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::Value;
use std::io::Write;

/// What an error of writing is about.
const STDOUT: &str = "standard output";

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const STRONG: Style = Style::new().bold();
pub(crate) const RESET: Reset = Reset;

/// Prints a line. To a reader that has gone away nothing is said, and the command does its work all the same: what it does, and how it ends,
/// must not depend on who listens.
pub(crate) fn line(text: impl std::fmt::Display) -> anyhow::Result<()> {
    heard(writeln!(anstream::stdout().lock(), "{text}"))
}

fn heard(written: std::io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context(STDOUT),
    }
}

/// Prints bytes as they are, as [`line`] does.
pub(crate) fn raw(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    heard(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Prints a JSON value, indented.
pub(crate) fn json(value: &Value) -> anyhow::Result<()> {
    line(serde_json::to_string_pretty(value)?)
}

/// Prints an object of a list and other members as [`json`] does, with one item of the list in memory at a time. `then` is asked for the
/// others, of which there must be one at least, when the list is at its end.
pub(crate) fn json_list<const N: usize>(
    name: &str,
    items: impl Iterator<Item = Value>,
    then: impl FnOnce() -> [(&'static str, Value); N],
) -> anyhow::Result<()> {
    // A line break is never part of a JSON string.
    let indented = |value: &Value, by: &str| serde_json::to_string_pretty(value).map(|text| text.replace('\n', by));
    let mut items = items.peekable();
    if items.peek().is_none() {
        line(format_args!("{{\n  \"{name}\": [],"))?;
    } else {
        line(format_args!("{{\n  \"{name}\": ["))?;
        while let Some(item) = items.next() {
            let comma = if items.peek().is_some() { "," } else { "" };
            line(format_args!("    {}{comma}", indented(&item, "\n    ")?))?;
        }
        line("  ],")?;
    }
    for (i, (name, value)) in then().iter().enumerate() {
        let comma = if i + 1 == N { "" } else { "," };
        line(format_args!("  \"{name}\": {}{comma}", indented(value, "\n  ")?))?;
    }
    line("}")
}

/// A table with these headings. Columns whose heading starts with `>` are aligned to the right.
pub(crate) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings.iter().map(|h| h.trim_start_matches('>')));
    for (i, heading) in headings.iter().enumerate() {
        if let Some(column) = table.column_mut(i) {
            column.set_padding((if i == 0 { 0 } else { 1 }, 1));
            if heading.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table
}

/// Prints a table without trailing blanks; rows whose key is in `marks` are drawn in that style.
pub(crate) fn print_table(table: &Table, style_of: impl Fn(usize) -> Option<Style>) -> anyhow::Result<()> {
    for (i, row) in table.to_string().lines().enumerate() {
        let row = row.trim_end();
        match i.checked_sub(1) {
            None => line(format_args!("{STRONG}{row}{RESET}"))?,
            Some(i) => match style_of(i) {
                Some(style) => line(format_args!("{style}{row}{RESET}"))?,
                None => line(row)?,
            },
        }
    }
    Ok(())
}

/// Prints what is wrong with a file of a store, led by a word for the kind of fault.
pub(crate) fn problem(error: &hipplan::StoreError) -> anyhow::Result<()> {
    let word = match error {
        e if e.is_damage() => "damaged",
        e if e.is_unreadable() => "could not be read",
        e => e.code(),
    };
    line(format_args!("{BAD}{word}:{RESET} {}", name(&error.to_string())))
}

/// A number of things: "1 plan", "3 plans".
pub(crate) fn count(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// The same of things that a store has counted.
pub(crate) fn counted(n: u64, thing: &str) -> String {
    count(usize::try_from(n).unwrap_or(usize::MAX), thing)
}

/// The same of entries, which an s alone does not make more of.
pub(crate) fn entries(n: u64) -> String {
    if n == 1 { "1 entry".to_owned() } else { format!("{n} entries") }
}

/// Bytes as a person reads them.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A name that anybody may have chosen, on one line: control characters and those that turn text round are escaped.
pub(crate) fn name(text: &str) -> String {
    let is_harmless =
        |c: char| !c.is_control() && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if is_harmless(c) { c.to_string() } else { c.escape_unicode().to_string() }).collect()
}

/// A path on one line, as [`name`].
pub(crate) fn path(path: &std::path::Path) -> String {
    name(&path.display().to_string())
}

/// An error with its causes, and what to do about it: what control characters came with a name are escaped, the lines of a message are
/// kept.
pub(crate) fn error(error: &anyhow::Error) -> String {
    let of_cause = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<hipplan::StoreError>() {
        // One line, with paths in it that anybody may have chosen.
        Some(error) => name(&error.to_string()),
        None => cause.to_string(),
    };
    let mut text = String::new();
    for cause in error.chain().map(of_cause) {
        // Some say what their cause says.
        if !text.ends_with(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    if let Some(advice) = advice(error).filter(|advice| !text.contains(advice)) {
        text.push_str("; ");
        text.push_str(advice);
    }
    // The command has an option for it.
    let text = text.replace("limit `max_unwrapped_bytes`", "limit `--unpack-limit`");
    text.split('\n').map(name).collect::<Vec<_>>().join("\n")
}

/// What is to be done about an error, where the store or the system has a word for it.
fn advice(error: &anyhow::Error) -> Option<&'static str> {
    use std::io::ErrorKind;
    error.chain().find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<hipplan::StoreError>() {
            return Some(match error {
                hipplan::StoreError::Limit { limit: "max_unwrapped_bytes", .. } => "raise the limit if the bundle is trusted",
                error => error.advice(),
            });
        }
        match cause.downcast_ref::<std::io::Error>()?.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some("free space there, or raise the quota"),
            ErrorKind::ReadOnlyFilesystem => Some("choose a place on a file system that can be written"),
            _ => None,
        }
    })
}

/// Dims as a person reads them.
pub(crate) fn dims(dims: &[i64]) -> String {
    dims.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(super::name("a\nb\u{202e}c\u{1b}[31m é"), "a\\u{a}b\\u{202e}c\\u{1b}[31m é");
    }

    #[test]
    fn errors_keep_their_lines_and_nothing_else() {
        let error = anyhow::anyhow!("first\nsecond").context("a\u{1b}[31m\rb");
        assert_eq!(super::error(&error), "a\\u{1b}[31m\\u{d}b: first\nsecond");
    }

    #[test]
    fn an_error_ends_with_what_to_do_about_it() {
        use anyhow::Context;
        let text = |errno| {
            let error = Err::<(), _>(std::io::Error::from_raw_os_error(errno)).context("a.npy").expect_err("it is one");
            super::error(&error)
        };
        // ENOSPC, EDQUOT, EROFS and EIO.
        assert!(text(28).starts_with("a.npy: ") && text(28).ends_with("; free space there, or raise the quota"), "{}", text(28));
        assert!(text(122).ends_with("; free space there, or raise the quota"), "{}", text(122));
        assert!(text(30).ends_with("; choose a place on a file system that can be written"), "{}", text(30));
        assert!(!text(5).contains(';'), "{}", text(5));
        let of_store = |errno| hipplan::StoreError::Io {
            path: "s/tmp".into(),
            action: "create a file in",
            cause: std::io::Error::from_raw_os_error(errno),
        };
        for (errno, advice) in [(28, "free space"), (122, "raise the quota"), (30, "a file system that can be written"), (13, "access")] {
            let text = super::error(&anyhow::Error::from(of_store(errno)).context("store"));
            assert!(text.starts_with("store: cannot create a file in s/tmp: ") && text.contains(advice), "{text}");
        }
        // A message that repeats its cause is said once.
        let keys = hipplan::LayerOptionsError::from(of_store(5));
        assert_eq!(super::error(&keys.into()).matches("s/tmp").count(), 1);
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(super::bytes(0), "0 B");
        assert_eq!(super::bytes(1023), "1023 B");
        assert_eq!(super::bytes(1536), "1.5 KiB");
        assert_eq!(super::bytes(u64::MAX), "16777216.0 TiB");
    }
}
