//! Where a pack comes from: lines of text, sorted and without repeats, so that packs of the same origins have the same bytes.

use super::error::PackError;

/// The lines as bytes, sorted, each once.
pub(super) fn encode(lines: &[String]) -> Result<Vec<u8>, PackError> {
    if let Some(line) = lines.iter().find(|line| !is_line(line)) {
        let expected = "text of at least one character, none of them a control character".into();
        return Err(PackError::Refused { what: "a line of provenance", found: format!("{line:?}"), expected });
    }
    let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
    }
    Ok(bytes)
}

/// The lines of these bytes.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<String>, PackError> {
    let wrong = |found: String, expected: &str| PackError::Field { field: "provenance", found, expected: expected.into() };
    let text = std::str::from_utf8(bytes).map_err(|e| wrong(e.to_string(), "UTF-8"))?;
    let mut lines: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        let Some(line) = line.strip_suffix('\n').filter(|line| is_line(line)) else {
            return Err(wrong(format!("{line:?}"), "lines of text, each with its end and without other control characters"));
        };
        if lines.last().is_some_and(|before| before.as_str() >= line) {
            return Err(wrong(format!("{line:?}"), "lines in ascending order, each once"));
        }
        lines.push(line.to_owned());
    }
    Ok(lines)
}

/// It is printed to terminals.
fn is_line(line: &str) -> bool {
    !line.is_empty() && !line.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_and_kept_once() {
        let lines = ["b ü", "a", "b ü"].map(String::from);
        let bytes = encode(&lines).unwrap();
        assert_eq!(bytes, "a\nb ü\n".as_bytes());
        assert_eq!(decode(&bytes).unwrap(), ["a", "b ü"]);
        assert_eq!(decode(&[]), Ok(Vec::new()));
        assert_eq!(encode(&[]), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_sorted_list_of_lines_is_refused() {
        for bad in ["", "a\nb", "a\r", "\x1b[31mred", "a\0"] {
            assert_eq!(encode(&[bad.into()]).unwrap_err().code(), "refused", "{bad:?}");
        }
        for bad in [&b"a"[..], b"\n", b"b\na\n", b"a\na\n", b"a\r\n", b"\x1b\n", b"\xff\n", b"a\n\n"] {
            assert_eq!(decode(bad).unwrap_err().code(), "damaged", "{bad:?}");
        }
    }
}
