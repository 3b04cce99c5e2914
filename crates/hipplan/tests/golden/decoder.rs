//! A reader of every format, written from `docs/format.md` alone: no type of hipplan's is used here. It trusts nothing it needs not.

use std::fmt::Write;

/// What a file says, one fact a line.
pub(crate) type Facts = String;

fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    from.get(at..at + N).and_then(|b| b.try_into().ok()).unwrap_or_else(|| panic!("{N} bytes at {at} of {}", from.len()))
}

fn u16_at(from: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes(from, at))
}

fn u32_at(from: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes(from, at))
}

fn u64_at(from: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes(from, at))
}

fn i64_at(from: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(bytes(from, at))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, b| text + &format!("{b:02x}"))
}

fn digest(context: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

fn zeros(from: &[u8]) {
    assert!(from.iter().all(|&b| b == 0), "reserved bytes are zero");
}

/// A graph artifact.
pub(crate) fn artifact(file: &[u8]) -> Facts {
    assert_eq!(bytes(file, 0), *b"\x89HPGR\x0d\x0a\x1a");
    assert_eq!(u16_at(file, 8), 1, "header version");
    zeros(&file[10..12]);
    zeros(&file[24..32]);
    let buffer = &file[64..];
    assert_eq!(u64_at(file, 16), buffer.len() as u64);
    assert_eq!(bytes(file, 32), digest("hipplan graph artifact 1", &[&file[..32], buffer]));
    format!("min_reader_version {}\nbuffer {} bytes\n", u32_at(file, 12), buffer.len())
}

/// Takes fields off the front of a canonical encoding.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        head
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u32(&mut self) -> u32 {
        u32_at(self.take(4), 0)
    }

    fn i64(&mut self) -> i64 {
        i64_at(self.take(8), 0)
    }
}

/// A canonical encoding: its key, and its records without the fields of the operations.
pub(crate) fn encoding(encoding: &[u8]) -> Facts {
    let mut out = format!("graph key {}\n", hex(&digest("hipplan graph key 1", &[encoding])));
    let mut fields = Fields(encoding);
    assert_eq!(fields.take(8), b"HPCANON\0");
    assert_eq!(fields.u32(), 1, "version");
    let flags = fields.u32();
    assert!(flags <= 1);
    _ = writeln!(out, "override shapes {}", flags == 1);
    for ordinal in 0..fields.u32() {
        let length = fields.u32() as usize;
        let mut t = Fields(fields.take(length));
        let (dtype, flags, tag, rank) = (t.u8(), t.u8(), t.u8(), usize::from(t.u8()));
        let (alignment, multiplier) = (t.i64(), t.i64());
        let value = (flags & 4 != 0).then(|| u64_at(t.take(8), 0));
        let ragged = (flags & 8 != 0).then(|| t.u32());
        let mut list = || (0..rank).map(|_| t.i64()).collect::<Vec<_>>();
        let (dims, strides) = (list(), list());
        assert!(t.0.is_empty() && flags < 16 && (tag != 0) == value.is_some());
        let states = [("virtual", 1), ("runtime", 2)].iter().filter(|s| flags & s.1 != 0).map(|s| s.0).collect::<Vec<_>>().join(" ");
        _ = writeln!(
            out,
            "tensor {ordinal}: type {dtype} dims {dims:?} strides {strides:?} alignment {alignment} multiplier {multiplier} \
             value {tag} {value:x?} ragged {ragged:?} [{states}]"
        );
    }
    for node in 0..fields.u32() {
        let length = fields.u32() as usize;
        let mut n = Fields(fields.take(length));
        _ = writeln!(out, "node {node}: operation {} compute {} fields {}", n.u8(), n.u8(), hex(n.0));
    }
    assert!(fields.0.is_empty());
    out
}

/// A text of rkyv's, whose eight bytes stand at `at`.
fn text(meta: &[u8], at: usize) -> String {
    let inline: [u8; 8] = bytes(meta, at);
    if inline[0] & 0xc0 != 0x80 {
        let len = inline.iter().position(|&b| b == 0xff).unwrap_or(8);
        return String::from_utf8(inline[..len].to_vec()).expect("UTF-8");
    }
    let word = u32_at(meta, at);
    let len = (word & 0x3f | (word & !0xff) >> 2) as usize;
    let start = at.checked_add_signed(u32_at(meta, at + 4).cast_signed() as isize).expect("in front of it");
    String::from_utf8(meta[start..start + len].to_vec()).expect("UTF-8")
}

/// Where the rows of a list stand, whose eight bytes stand at `at`.
fn rows(meta: &[u8], at: usize, row: usize) -> impl Iterator<Item = usize> {
    let count = u32_at(meta, at + 4) as usize;
    let start = at.checked_add_signed(u32_at(meta, at).cast_signed() as isize).expect("in front of it");
    (0..count).map(move |i| start + i * row)
}

/// A plan file, with all that is in it.
pub(crate) fn plan(file: &[u8]) -> Facts {
    assert_eq!(bytes(file, 0), *b"\x89HPPL\x0d\x0a\x1a");
    assert_eq!((u16_at(file, 8), u16_at(file, 10)), (1, 0), "major and minor");
    assert_eq!(u32_at(file, 12), 0, "required features");
    assert_eq!(u64_at(file, 16), file.len() as u64);
    let (sections, meta_len) = (u32_at(file, 24) as usize, u32_at(file, 28) as usize);
    let meta_at = 64 + 64 * sections;
    let body = meta_at + meta_len.next_multiple_of(64);
    let root = digest("hipplan plan root 1", &[&file[..32], &file[64..body]]);
    assert_eq!(bytes(file, 32), root);
    zeros(&file[meta_at + meta_len..body]);
    let mut out = format!("root hash {}\n", hex(&root));

    let meta = &file[meta_at..meta_at + meta_len];
    let m = meta_len - 152;
    let names = [("target", 64), ("provider", 72), ("engine", 80), ("engine revision", 96)];
    let texts = names.map(|(name, at)| (name, text(meta, m + at)));
    let graph_key: [u8; 32] = bytes(meta, m + 32);
    let knobs: Vec<_> = rows(meta, m + 116, 16).map(|at| (text(meta, at), text(meta, at + 8))).collect();
    let mut record = graph_key.to_vec();
    let mut field = |text: &str| {
        record.extend((text.len() as u64).to_le_bytes());
        record.extend(text.as_bytes());
    };
    texts.iter().for_each(|(_, text)| field(text));
    record.extend((knobs.len() as u64).to_le_bytes());
    for (id, value) in &knobs {
        for text in [id, value] {
            record.extend((text.len() as u64).to_le_bytes());
            record.extend(text.as_bytes());
        }
    }
    let plan_key = digest("hipplan plan key 1", &[&record]);
    assert_eq!(bytes(meta, m), plan_key, "the plan key is the hash of its record");
    _ = writeln!(out, "plan key {}", hex(&plan_key));
    _ = writeln!(out, "graph key {}", hex(&graph_key));
    for (name, text) in &texts {
        _ = writeln!(out, "{name} {text}");
    }
    _ = writeln!(out, "engine id {}", i64_at(meta, m + 88));
    _ = writeln!(out, "API floor {}.{}.{}", u32_at(meta, m + 104), u32_at(meta, m + 108), u32_at(meta, m + 112));
    _ = writeln!(out, "workspace {}", u64_at(meta, m + 128));
    for (id, value) in &knobs {
        _ = writeln!(out, "knob {id} {value}");
    }
    for at in rows(meta, m + 136, 32) {
        let list = |at| rows(meta, at, 8).map(|at| i64_at(meta, at)).collect::<Vec<_>>();
        _ = writeln!(
            out,
            "binding {}: role {} kind {} type {} dims {:?} strides {:?} first use {}",
            u32_at(meta, at),
            meta[at + 4],
            meta[at + 5],
            meta[at + 6],
            list(at + 8),
            list(at + 16),
            text(meta, at + 24)
        );
    }
    for at in rows(meta, m + 144, 40) {
        _ = writeln!(out, "code object {} {} bytes", hex(&meta[at..at + 32]), u64_at(meta, at + 32));
    }

    let mut next = body;
    for i in 0..sections {
        let row = &file[64 + 64 * i..][..64];
        zeros(&row[4..8]);
        zeros(&row[24..32]);
        let (offset, len) = (u64_at(row, 8) as usize, u64_at(row, 16) as usize);
        assert_eq!(offset, next);
        next += len.next_multiple_of(64);
        assert_eq!(bytes(row, 32), *blake3::hash(&file[offset..next]).as_bytes());
        zeros(&file[offset + len..next]);
        let section = &file[offset..offset + len];
        match u32_at(row, 0) {
            1 => out += &encoding(section),
            2 => out += &payload(section),
            kind => _ = writeln!(out, "section of kind {kind}"),
        }
    }
    assert_eq!(next, file.len());
    out
}

/// A provider payload container, without its body.
pub(crate) fn payload(bytes_of: &[u8]) -> Facts {
    assert_eq!(bytes(bytes_of, 0), *b"\x89HPPY\x0d\x0a\x1a");
    let kind = bytes_of[8..24].split(|&b| b == 0).next().expect("a name");
    let (version, runtime, baked) = (u32_at(bytes_of, 24), u32_at(bytes_of, 28) as usize, u32_at(bytes_of, 32) as usize);
    zeros(&bytes_of[36..40]);
    zeros(&bytes_of[48..64]);
    let tables = 64 + runtime * 8 + baked * 24;
    let body = tables.next_multiple_of(64);
    zeros(&bytes_of[tables..body]);
    assert_eq!(u64_at(bytes_of, 40), (bytes_of.len() - body) as u64);
    let mut out = format!("payload {} version {version}, body {}\n", String::from_utf8_lossy(kind), hex(&bytes_of[body..]));
    for i in 0..runtime {
        _ = writeln!(out, "runtime uid {}", i64_at(bytes_of, 64 + 8 * i));
    }
    for i in 0..baked {
        let row = &bytes_of[64 + runtime * 8 + i * 24..][..24];
        zeros(&row[10..16]);
        _ = writeln!(out, "baked uid {} default {} value {} {:x}", i64_at(row, 0), row[9], row[8], u64_at(row, 16));
    }
    out
}

/// The payload of a hosted plugin, with its body.
pub(crate) fn plugin_payload(file: &[u8]) -> Facts {
    let mut out = payload(file);
    assert!(out.starts_with("payload hipdnn-plugin version 1,"), "{out}");
    let body = &file[file.len() - u64_at(file, 40) as usize..];
    let p = body.len() - 48;
    let list = |at| rows(body, at, 1).map(|at| body[at]).collect::<Vec<_>>();
    _ = writeln!(out, "plugin {} version {}", text(body, p), text(body, p + 8));
    assert!(body[p + 16] < 4);
    zeros(&body[p + 17..p + 24]);
    _ = writeln!(out, "hooks {}", body[p + 16]);
    _ = writeln!(out, "engine id {}", i64_at(body, p + 24));
    _ = writeln!(out, "configuration {}", hex(&list(p + 32)));
    _ = writeln!(out, "bytes {}", hex(&list(p + 40)));
    out
}

/// An index record of the store.
pub(crate) fn record(file: &[u8]) -> Facts {
    assert_eq!(bytes(file, 0), *b"\x89HPRC\x0d\x0a\x1a");
    assert_eq!(u16_at(file, 8), 1, "version");
    assert_eq!(u64_at(file, 16), file.len() as u64);
    zeros(&file[24..32]);
    assert_eq!(bytes(file, 32), digest("hipplan index record 1", &[&file[..32], &file[64..]]));
    let mut out = format!("record of kind {} for {}\n", u16_at(file, 10), hex(&file[64..96]));
    for i in 0..u32_at(file, 12) as usize {
        let row = &file[96 + 80 * i..][..80];
        zeros(&row[72..]);
        _ = writeln!(out, "plan {} root {} {} bytes", hex(&row[..32]), hex(&row[32..64]), u64_at(row, 64));
    }
    assert_eq!(file.len(), 96 + 80 * u32_at(file, 12) as usize);
    out
}

/// A pack of entries, with the bytes of each held against its row.
pub(crate) fn pack(file: &[u8]) -> Facts {
    assert_eq!(bytes(file, 0), *b"\x89HPPK\x0d\x0a\x1a");
    assert_eq!((u16_at(file, 8), u32_at(file, 12)), (1, 0), "version and required features");
    for reserved in [10..12, 24..32, 88..96, 224..480] {
        zeros(&file[reserved]);
    }
    let number = |at| usize::try_from(u64_at(file, at)).expect("an offset");
    let (length, values) = (number(16), number(80));
    assert_eq!(bytes(file, 480), digest("hipplan pack header 1", &[&file[..480]]));
    let root = digest("hipplan pack root 1", &[&file[..32], &[0; 32], &file[64..480], &[0; 32], &file[512..values]]);
    assert_eq!(bytes(file, 32), root);
    let mut out = format!("root {}\n", hex(&root));
    // Everything is where the things before it end.
    let mut next = 512;
    let mut take = |at: usize, len: usize| {
        assert_eq!(at, next);
        next = (at + len).next_multiple_of(64);
        zeros(&file[at + len..next]);
        &file[at..at + len]
    };
    let kinds = [96, 128, 160, 192].map(|at| (number(at), number(at + 8), u32_at(file, at + 16) as usize, u32_at(file, at + 20)));
    let fan_outs = kinds.map(|(fan_out, _, _, bits)| take(fan_out, ((1 << bits) + 1) * 4));
    let rows = kinds.map(|(_, rows, count, _)| take(rows, count * 80));
    let provenance = take(number(64), number(72));
    assert_eq!(next, values);
    let words = ["blob", "plan", "plan record", "selection"];
    for (((word, rows), fan_out), (_, _, count, bits)) in words.iter().zip(rows).zip(fan_outs).zip(kinds) {
        let bucket = |row: &[u8]| (u64::from(u32::from_be_bytes(bytes(row, 0))) << bits >> 32) as usize;
        let rows: Vec<&[u8]> = rows.chunks(80).collect();
        assert!(rows.is_sorted_by(|a, b| a[..32] < b[..32]));
        for b in 0..=1 << bits {
            assert_eq!(u32_at(fan_out, 4 * b) as usize, rows.iter().filter(|row| bucket(row) < b).count());
        }
        assert_eq!(rows.len(), count);
        for row in rows {
            let (offset, size) = (u64_at(row, 64) as usize, u64_at(row, 72) as usize);
            assert_eq!(offset, next);
            next = (offset + size).next_multiple_of(64);
            zeros(&file[offset + size..next]);
            assert_eq!(bytes(row, 32), *blake3::hash(&file[offset..offset + size]).as_bytes());
            _ = writeln!(out, "{word} {} {size} bytes", hex(&row[..32]));
        }
    }
    assert_eq!(next, length);
    for line in std::str::from_utf8(provenance).expect("UTF-8").lines() {
        _ = writeln!(out, "provenance {line}");
    }
    for block in file[length..].chunks(128) {
        assert_eq!(bytes(block, 0), *b"\x89HPSG\x0d\x0a\x1a");
        zeros(&block[104..]);
        _ = writeln!(out, "signed by {}", hex(&block[8..40]));
    }
    out
}
