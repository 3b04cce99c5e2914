//! The argument struct of a kernel: its C++ text and its bytes, made by one writer so that they cannot disagree.

use hipplan_exec::hip::{ArgumentPatch, PatchSource, ScalarType};
use std::fmt::Write;

/// A field of the struct.
#[derive(Clone, Debug)]
struct Field {
    declaration: String,
    bytes: Vec<u8>,
    /// What is written over the bytes at execute: a tensor or scalar of the program, and how.
    patch: Option<(u32, PatchSource)>,
}

/// A struct in the making: 8-byte fields come first, so that no padding arises between fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    wide: Vec<Field>,
    narrow: Vec<Field>,
}

impl Arguments {
    /// A pointer to elements of a C++ type, filled at execute.
    pub(super) fn pointer(&mut self, name: &str, element: &str, tensor: u32) {
        self.wide.push(Field {
            declaration: format!("GLOBAL {element}* {name};"),
            bytes: vec![0; 8],
            patch: Some((tensor, PatchSource::Address)),
        });
    }

    /// A runtime scalar, filled at execute.
    pub(super) fn scalar(&mut self, name: &str, scalar: ScalarType, tensor: u32) {
        let (list, element, size) = match scalar {
            ScalarType::F32 => (&mut self.narrow, "float", 4),
            ScalarType::F64 => (&mut self.wide, "double", 8),
        };
        list.push(Field {
            declaration: format!("{element} {name};"),
            bytes: vec![0; size],
            patch: Some((tensor, PatchSource::Value(scalar))),
        });
    }

    /// A number of elements: 4 bytes, or 8 in a kernel whose tensors are too large for that.
    pub(super) fn index(&mut self, name: &str, value: i64, is_wide: bool) {
        if is_wide {
            self.wide.push(Field { declaration: format!("long long {name};"), bytes: value.to_le_bytes().to_vec(), patch: None });
        } else {
            self.int(name, value);
        }
    }

    /// A number that the caller knows to fit 32 bits.
    pub(super) fn int(&mut self, name: &str, value: i64) {
        debug_assert!(i32::try_from(value).is_ok(), "{name} = {value}");
        self.narrow.push(Field { declaration: format!("int {name};"), bytes: (value as i32).to_le_bytes().to_vec(), patch: None });
    }

    /// A divisor, from 1 to `i32::MAX`.
    pub(super) fn divisor(&mut self, name: &str, value: i64) {
        let bytes = division(value as u32).into_iter().flat_map(u32::to_le_bytes).collect();
        self.narrow.push(Field { declaration: format!("Div {name};"), bytes, patch: None });
    }

    /// The definition of `struct Args`. It tells names and order, no values.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("struct Args {\n");
        for field in self.wide.iter().chain(&self.narrow) {
            let _ = writeln!(text, "    {}", field.declaration);
        }
        text.push_str("};\n");
        text
    }

    /// The bytes, a multiple of 8, and what is written into them at execute.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<ArgumentPatch>) {
        let (mut bytes, mut patches) = (Vec::new(), Vec::new());
        for field in self.wide.into_iter().chain(self.narrow) {
            if let Some((tensor, source)) = field.patch {
                patches.push(ArgumentPatch { offset: bytes.len() as u32, tensor, source });
            }
            bytes.extend(field.bytes);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        (bytes, patches)
    }
}

/// Multiplier, shift and divisor with `n / d == (high32(n * multiplier) + n) >> shift` for every `n` below 2^31.
///
/// With `shift = ceil(log2 d)` and `multiplier = floor(2^32 (2^shift - d) / d) + 1`: the usual round-up method.
fn division(d: u32) -> [u32; 3] {
    let shift = u32::BITS - (d.max(1) - 1).leading_zeros();
    let excess = (1_u64 << shift) - u64::from(d.max(1));
    let multiplier = (excess << 32) / u64::from(d.max(1)) + 1;
    [multiplier as u32, shift, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(n: u32, [multiplier, shift, _]: [u32; 3]) -> u32 {
        let high = ((u64::from(n) * u64::from(multiplier)) >> 32) as u32;
        (high + n) >> shift
    }

    #[test]
    fn division_is_division() {
        let mut state = 1_u64;
        for d in (1..2000).chain([4095, 4096, 4097, 65535, 65537, 1 << 30, (1 << 30) + 1, i32::MAX as u32 - 1, i32::MAX as u32]) {
            let magic = division(d);
            let near = [
                0,
                1,
                d - 1,
                d,
                d.saturating_add(1),
                i32::MAX as u32,
                i32::MAX as u32 / d * d,
                (i32::MAX as u32 / d * d).saturating_sub(1),
            ];
            for n in near.into_iter().filter(|&n| n <= i32::MAX as u32) {
                assert_eq!(divide(n, magic), n / d, "{n} / {d}");
            }
            for _ in 0..200 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let n = (state >> 33) as u32;
                assert_eq!(divide(n, magic), n / d, "{n} / {d}");
            }
        }
    }

    #[test]
    fn wide_fields_come_first() {
        let mut arguments = Arguments::default();
        arguments.int("n", 3);
        arguments.pointer("x", "const float", 7);
        arguments.scalar("alpha", ScalarType::F32, 9);
        assert_eq!(arguments.text(), "struct Args {\n    GLOBAL const float* x;\n    int n;\n    float alpha;\n};\n");
        let (bytes, patches) = arguments.finish();
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        let expected = [
            ArgumentPatch { offset: 0, tensor: 7, source: PatchSource::Address },
            ArgumentPatch { offset: 12, tensor: 9, source: PatchSource::Value(ScalarType::F32) },
        ];
        assert_eq!(patches, expected);
    }
}
