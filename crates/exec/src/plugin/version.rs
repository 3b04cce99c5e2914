//! Which of two versions of a plugin is older.

/// Whether a plugin of version `found` may have the plans of version `made`.
///
/// # Errors
/// Why it may not: it is older, or nobody can tell.
pub(super) fn check(found: &str, made: &str) -> Result<(), &'static str> {
    match (numbers(found), numbers(made)) {
        (Some(found), Some(made)) if found < made => Err("is older"),
        (Some(_), Some(_)) => Ok(()),
        _ if found == made => Ok(()),
        _ => Err("differs, and that it is newer cannot be told: one of the two is not dotted numbers"),
    }
}

/// Dotted numbers; zeros at the end say nothing.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let number = |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten();
    let mut numbers = text.split('.').map(number).collect::<Option<Vec<u64>>>()?;
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_dotted_numbers_or_as_texts() {
        for (found, made) in [
            ("1.2.3", "1.2.3"),
            ("1.10.0", "1.9.9"),
            ("2", "1.9"),
            ("1.2", "1.2.0"),
            ("1.2.0.0", "1.2"),
            ("1.2.0.1", "1.2"),
            ("01.2", "1.2"),
            ("2024-beta", "2024-beta"),
            ("", ""),
        ] {
            assert_eq!(check(found, made), Ok(()), "{found} for {made}");
        }
        for (found, made) in [("1.2.2", "1.2.3"), ("1.9.9", "1.10.0"), ("1.9", "2"), ("1.2", "1.2.1"), ("0", "0.0.1")] {
            assert_eq!(check(found, made), Err("is older"), "{found} for {made}");
        }
        let far = "99999999999999999999.0";
        for (found, made) in [("1.3-beta", "1.2"), ("1.3", "1.2-beta"), ("b", "a"), ("1..2", "1.2"), ("+1", "1"), ("1.", "1"), (far, "1")] {
            assert!(check(found, made).is_err_and(|why| why != "is older"), "{found} for {made}");
        }
    }
}
