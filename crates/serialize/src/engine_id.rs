//! Engine ids: hipDNN's number of an engine, from its name, and the text of one that has no name.

/// hipDNN's engine id: FNV-1a, 64 bits, over the name, read as signed; 0 for the empty name.
pub const fn engine_id(name: &str) -> i64 {
    let mut bytes = name.as_bytes();
    if bytes.is_empty() {
        return 0;
    }
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    while let [byte, rest @ ..] = bytes {
        hash = (hash ^ *byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
        bytes = rest;
    }
    hash as i64
}

/// The id of an engine that is written as text in a plan: a name has the id of [`engine_id`], and `0x` with exactly 16 upper-case hexadecimal
/// digits, as an engine without a name is written, is the id itself.
pub fn engine_id_of_text(text: &str) -> i64 {
    text.strip_prefix("0x").and_then(id_of_digits).unwrap_or_else(|| engine_id(text))
}

/// Sixteen upper-case hexadecimal digits as a number, read as signed.
fn id_of_digits(digits: &str) -> Option<i64> {
    let is_exact = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'));
    u64::from_str_radix(digits, 16).ok().filter(|_| is_exact).map(u64::cast_signed)
}

/// An engine's id as text, for one that has no name: `0x` and 16 upper-case hexadecimal digits.
pub fn engine_id_text(id: i64) -> String {
    format!("{id:#018X}").replacen("0X", "0x", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_form_of_an_id_is_taken_for_one() {
        for id in [0, 1, -1, i64::MIN, i64::MAX, engine_id("MIOPEN_ENGINE"), -6_748_551_569_128_940_061] {
            assert_eq!(engine_id_of_text(&engine_id_text(id)), id);
        }
        assert_eq!(engine_id_text(engine_id("MIOPEN_ENGINE")), "0x15B46865C717A122");
        assert_eq!(engine_id_text(-1), "0xFFFFFFFFFFFFFFFF");
        for name in [
            "",
            "MIOPEN_ENGINE",
            "0x15b46865c717a122",
            "0X15B46865C717A122",
            "0x5B46865C717A122",
            "0x015B46865C717A122",
            "0x+5B46865C717A122",
        ] {
            assert_eq!(engine_id_of_text(name), engine_id(name), "{name}");
        }
    }

    #[test]
    fn engine_ids_follow_hipdnn() {
        assert_eq!(engine_id("MIOPEN_ENGINE"), 1_563_989_756_945_604_898);
        assert_eq!(engine_id("MIOPEN_ENGINE_DETERMINISTIC"), -6_748_551_569_128_940_061);
        assert_eq!(engine_id("HIPBLASLT_ENGINE"), 8_768_140_637_164_053_035);
        assert_eq!(engine_id(""), 0);
    }
}
