//! How the bytes of a fuzzer become an input for a reader.

use crate::{Generator, Rng, Style};
use hipplan_serialize::OpKind;
use serde_json::Value;
use std::sync::OnceLock;

/// Takes an input of a fuzzer apart: how it is meant, and the rest.
#[derive(Clone, Copy, Debug)]
pub struct Shell<'a> {
    /// What is done with the rest; each target has its own few kinds.
    pub kind: u8,
    /// The rest.
    pub rest: &'a [u8],
}

impl<'a> Shell<'a> {
    /// The first byte is the kind.
    pub fn of(input: &'a [u8]) -> Option<Self> {
        input.split_first().map(|(&kind, rest)| Self { kind, rest })
    }

    /// The valid graph that the first byte of the rest names, and what follows it: changes.
    pub fn valid(self) -> (&'static Valid, &'a [u8]) {
        let (&index, changes) = self.rest.split_first().unwrap_or((&0, &[]));
        (Valid::get(index), changes)
    }
}

/// A valid graph in all its forms, made once: generating one takes longer than reading it.
#[derive(Debug)]
pub struct Valid {
    /// hipDNN JSON.
    pub json: Value,
    /// hipDNN buffer.
    pub buffer: Vec<u8>,
    /// Canonical encoding.
    pub encoding: Vec<u8>,
    /// What an artifact of it is stamped with.
    pub min_reader_version: u32,
}

impl Valid {
    /// One of 256 graphs: every operation comes first in eleven of them, alone in three.
    fn get(index: u8) -> &'static Self {
        static ALL: [OnceLock<Valid>; 256] = [const { OnceLock::new() }; 256];
        let make = || {
            let (first, more) = (usize::from(index) % OpKind::ALL.len(), usize::from(index) / OpKind::ALL.len());
            let mut generator = Generator::new(index.into());
            generator.node(OpKind::ALL[first]);
            for _ in 0..more % 4 {
                let kind = generator.rng.pick(OpKind::ALL);
                generator.node(kind);
            }
            let style = Style { seed: index.into() };
            let graph = generator.model.graph(&style);
            let view = graph.view();
            let canonical = view.canonical().expect("a generated graph has a key");
            Self {
                json: generator.model.json(&style),
                buffer: graph.buffer().to_vec(),
                encoding: canonical.encoding,
                min_reader_version: view.min_reader_version(),
            }
        };
        ALL[usize::from(index)].get_or_init(make)
    }
}

/// Changes a few bytes: each change is four bytes, a place (16 bits), a kind, and a value. Numbers that readers stumble over are likely.
pub fn patch(bytes: &mut [u8], changes: &[u8]) {
    const NUMBERS: [i64; 8] = [0, -1, 1, i64::MAX, i64::MIN, u32::MAX as i64, i32::MAX as i64, 1 << 40];
    for &[low, high, kind, value] in changes.as_chunks::<4>().0.iter().take(4) {
        let Some(at) = usize::from(u16::from_le_bytes([low, high])).checked_rem(bytes.len()) else { return };
        let number = NUMBERS[usize::from(value) % NUMBERS.len()].to_le_bytes();
        match kind % 5 {
            0 => bytes[at] = value,
            1 => bytes[at] ^= 1 << (value % 8),
            2 => bytes[at] = bytes[at].wrapping_add(value),
            width => {
                // Numbers stand at multiples of their width.
                let width = if width == 3 { 4 } else { 8 };
                let at = at / width * width;
                bytes[at..].iter_mut().zip(number).take(width).for_each(|(byte, new)| *byte = new);
            }
        }
    }
}

/// Changes a few values of a JSON text: each change is six bytes that pick a value and what becomes of it.
pub fn patch_json(value: &mut serde_json::Value, changes: &[u8]) {
    for change in changes.as_chunks::<6>().0.iter().take(4) {
        let mut rng = Rng::from_bytes(change);
        patch_one(value, &mut rng);
    }
}

fn patch_one(value: &mut serde_json::Value, rng: &mut Rng) {
    use serde_json::json;
    match value {
        Value::Array(list) if !list.is_empty() && !rng.one_in(16) => {
            let at = rng.below(list.len());
            match rng.below(16) {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                2 => list.reverse(),
                _ => patch_one(&mut list[at], rng),
            }
        }
        Value::Object(map) if !map.is_empty() && !rng.one_in(32) => {
            let Some(key) = map.keys().nth(rng.below(map.len())).cloned() else { return };
            if rng.one_in(16) {
                map.remove(&key);
            } else if let Some(inner) = map.get_mut(&key) {
                patch_one(inner, rng);
            }
        }
        leaf => {
            const NUMBERS: [i64; 12] = [0, 1, 2, 3, 4, 7, 8, 16, -1, i64::MAX, i64::MIN, 1 << 40];
            let others =
                [json!(null), json!(0.5), json!(1e300), json!(1), json!(true), json!("float"), json!([]), json!([1, 1]), json!({})];
            *leaf = match &*leaf {
                // Of one type mostly: a value of another type is refused before the graph is looked at.
                Value::Number(n) if !rng.one_in(16) => match n.as_i64() {
                    Some(n) if rng.one_in(2) => json!(n.wrapping_add(rng.below(5) as i64 - 2)),
                    _ => json!(rng.pick(&NUMBERS)),
                },
                Value::Bool(value) if !rng.one_in(16) => json!(!*value),
                Value::String(_) if !rng.one_in(16) => json!(rng.pick(&["float", "half", "int32", "boolean", "unset", "add", "relu_fwd"])),
                _ => rng.pick(&others),
            };
        }
    }
}
