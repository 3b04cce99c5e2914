//! The plan file and the payload container: each error, every changed byte, and equal bytes for equal parts.

mod common;

use common::{aligned, corpus_json, import};
use hipplan_serialize::plan::{
    BakedScalar, BindingV1, CodeObjectV1, KnobV1, PayloadError, PayloadHead, PayloadWriter, PlanError, PlanMetaV1, PlanView, PlanWriter,
};
use hipplan_serialize::{GraphKey, PlanIdentity, TensorValue, engine_id};

fn canonical() -> Vec<u8> {
    let graph = import(&corpus_json("sample_add")).expect("a graph").graph;
    graph.view().canonical().expect("known fields only").encoding
}

fn binding(ordinal: u32, role: u8, kind: u8) -> BindingV1 {
    let (dims, strides) = if kind == 0 { (vec![2, 3], vec![3, 1]) } else { (vec![1], vec![1]) };
    BindingV1 { ordinal, role, kind, dtype: 1, dims, strides, first_use: format!("node 0 pointwise.in_{ordinal}") }
}

/// Metadata with every list filled.
fn meta() -> PlanMetaV1 {
    let knob = |id: &str, value: &str| KnobV1 { id: id.into(), value: value.into() };
    let mut meta = PlanMetaV1 {
        plan_key: [0; 32],
        graph_key: GraphKey::of_encoding(&canonical()).0,
        target: "gfx942:sramecc+:xnack-".into(),
        provider: "cpu".into(),
        engine: "CPU_ENGINE".into(),
        engine_id: engine_id("CPU_ENGINE"),
        engine_revision: "7".into(),
        api_floor: [1, 2, 0],
        knobs: vec![knob("a", "1"), knob("b", "2")],
        workspace_size: 4096,
        bindings: vec![binding(0, 0, 0), binding(1, 0, 1), binding(3, 0, 2), binding(4, 0, 3), binding(9, 1, 0)],
        code_objects: vec![CodeObjectV1 { hash: [5; 32], size: 99 }],
    };
    meta.plan_key = key_of(&meta);
    meta
}

fn key_of(meta: &PlanMetaV1) -> [u8; 32] {
    let identity = PlanIdentity {
        graph: GraphKey(meta.graph_key),
        target: meta.target.clone(),
        provider: meta.provider.clone(),
        engine: meta.engine.clone(),
        engine_revision: meta.engine_revision.clone(),
        knobs: meta.knobs.iter().map(|k| hipplan_serialize::Knob { id: k.id.clone(), value: k.value.clone() }).collect(),
    };
    identity.key().0
}

fn payload() -> Vec<u8> {
    let baked = |uid, is_default, value| BakedScalar { uid, is_default, value };
    let baked = vec![baked(4, false, TensorValue::Float32(1.5)), baked(3, true, TensorValue::Int64(-1))];
    PayloadWriter { kind: "cpu-program", version: 3, runtime_uids: vec![3, 1], baked, body: b"the body" }.finish().expect("a payload")
}

fn plan() -> Vec<u8> {
    PlanWriter { meta: &meta(), canonical: &canonical(), payload: &payload() }.finish().expect("a plan").to_vec()
}

/// The layout of `docs/format.md`, written again by hand: every field can be wrong, and the hashes are right nevertheless.
struct File {
    magic: [u8; 8],
    major: u16,
    minor: u16,
    features: u32,
    meta: Vec<u8>,
    /// Kind and bytes.
    sections: Vec<(u32, Vec<u8>)>,
    /// Changes to the section table: row, byte in the row, value.
    rows: Vec<(usize, usize, u64)>,
    section_count: Option<u32>,
    length: Option<u64>,
}

impl File {
    fn new() -> Self {
        Self::of(&meta(), payload())
    }

    fn of(meta: &PlanMetaV1, payload: Vec<u8>) -> Self {
        Self {
            magic: *b"\x89HPPL\r\n\x1a",
            major: 1,
            minor: 0,
            features: 0,
            meta: rkyv::to_bytes::<rkyv::rancor::Error>(meta).expect("serializes").to_vec(),
            sections: vec![(1, canonical()), (2, payload)],
            rows: Vec::new(),
            section_count: None,
            length: None,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let pad = |b: &[u8]| {
            let mut b = b.to_vec();
            b.resize(b.len().next_multiple_of(64), 0);
            b
        };
        let count = self.sections.len();
        let mut behind_header = Vec::new();
        let mut body = Vec::new();
        let body_at = 64 + 64 * count + self.meta.len().next_multiple_of(64);
        for (kind, bytes) in &self.sections {
            let padded = pad(bytes);
            behind_header.extend(kind.to_le_bytes());
            behind_header.extend([0; 4]);
            behind_header.extend(((body_at + body.len()) as u64).to_le_bytes());
            behind_header.extend((bytes.len() as u64).to_le_bytes());
            behind_header.extend([0; 8]);
            behind_header.extend(blake3::hash(&padded).as_bytes());
            body.extend(padded);
        }
        for &(row, at, value) in &self.rows {
            behind_header[row * 64 + at..row * 64 + at + 8].copy_from_slice(&value.to_le_bytes());
        }
        behind_header.extend(pad(&self.meta));
        let length = self.length.unwrap_or((64 + behind_header.len() + body.len()) as u64);

        let mut file = self.magic.to_vec();
        file.extend(self.major.to_le_bytes());
        file.extend(self.minor.to_le_bytes());
        file.extend(self.features.to_le_bytes());
        file.extend(length.to_le_bytes());
        file.extend(self.section_count.unwrap_or(count as u32).to_le_bytes());
        file.extend((self.meta.len() as u32).to_le_bytes());
        assert_eq!(file.len(), 32);
        let root = blake3::Hasher::new_derive_key("hipplan plan root 1").update(&file).update(&behind_header).finalize();
        file.extend(root.as_bytes());
        file.extend(behind_header);
        file.extend(body);
        file
    }

    fn with(f: impl FnOnce(&mut Self)) -> PlanError {
        let mut file = Self::new();
        f(&mut file);
        refused(&file.bytes())
    }
}

/// Opens and checks every byte.
fn check(file: &[u8]) -> Result<(), PlanError> {
    PlanView::open(&aligned(file))?.verify()
}

fn refused(file: &[u8]) -> PlanError {
    let error = check(file).expect_err("must be refused");
    assert!(!error.to_string().is_empty());
    error
}

fn age(e: &PlanError) -> (bool, bool) {
    (e.is_too_old(), e.is_too_new())
}

#[test]
fn the_documented_layout_is_what_is_written() {
    assert_eq!(plan(), File::new().bytes());
    let file = aligned(&plan());
    let view = PlanView::open(&file).expect("a plan");
    assert_eq!(view.verify(), Ok(()));
    assert_eq!(view.root().0[..], file[32..64]);
    assert_eq!(view.canonical().expect("in order"), canonical());
    let plan_ref = view.plan_ref();
    assert_eq!((plan_ref.key.0, plan_ref.root, plan_ref.size), (meta().plan_key, view.root(), file.len() as u64));
    assert_eq!(view.meta().identity().key().0, meta().plan_key);
    let loaded = view.payload().expect("in order").accept("cpu-program", 1, 3).expect("accepted");
    assert_eq!(loaded.body(), b"the body");
    assert!((loaded.body().as_ptr() as usize).is_multiple_of(64), "a body can be used in place");
}

#[test]
fn equal_parts_give_equal_bytes() {
    let first = plan();
    assert!((0..3).all(|_| plan() == first));
    // Not the address, not the spare room of a list, not the order in which scalars were named.
    let mut roomy = meta();
    roomy.knobs.reserve(100);
    roomy.target.reserve(1000);
    let baked = vec![
        BakedScalar { uid: 3, is_default: true, value: TensorValue::Int64(-1) },
        BakedScalar { uid: 4, is_default: false, value: TensorValue::Float32(1.5) },
    ];
    let payload =
        PayloadWriter { kind: "cpu-program", version: 3, runtime_uids: vec![1, 3], baked, body: b"the body" }.finish().expect("a payload");
    let again = PlanWriter { meta: &roomy, canonical: &canonical(), payload: &payload }.finish().expect("a plan");
    assert_eq!(again.as_slice(), first);
}

#[test]
fn every_change_of_a_single_byte_is_refused() {
    let good = plan();
    assert_eq!(check(&good), Ok(()));
    let mut file = aligned(&good);
    for at in 0..good.len() {
        for change in 1..=255 {
            file[at] ^= change;
            assert!(PlanView::open(&file).and_then(|v| v.verify()).is_err(), "byte {at} ^ {change:#x}");
            file[at] ^= change;
        }
    }
}

#[test]
fn every_truncation_and_every_added_byte_is_refused() {
    let good = plan();
    for end in 0..good.len() {
        let error = refused(&good[..end]);
        let expected = if end < 64 { matches!(error, PlanError::TooShort { .. }) } else { matches!(error, PlanError::Length { .. }) };
        assert!(expected, "{end} bytes: {error}");
        assert_eq!(age(&error), (false, false));
    }
    for more in [1, 63, 64, 128] {
        let mut file = good.clone();
        file.resize(good.len() + more, 0);
        assert!(matches!(refused(&file), PlanError::Length { .. }));
        // Also when the length in the header goes along.
        let error = File::with(|f| f.length = Some((good.len() + more) as u64));
        assert!(matches!(error, PlanError::Length { .. }), "{error}");
    }
}

#[test]
fn old_new_and_damaged_are_three_errors() {
    let old = File::with(|f| f.major = 0);
    assert_eq!((age(&old), &old), ((true, false), &PlanError::TooOld { found: 0, expected: 1 }));
    let new = File::with(|f| f.major = 2);
    assert_eq!((age(&new), &new), ((false, true), &PlanError::TooNew { found: 2, expected: 1 }));
    for bit in 0..32 {
        let new = File::with(|f| f.features = 1 << bit);
        assert_eq!((age(&new), &new), ((false, true), &PlanError::UnknownFeature { unknown: 1 << bit }));
    }
    let mut damaged = plan();
    let at = damaged.len() - 1;
    damaged[at] ^= 1;
    let damaged = refused(&damaged);
    assert!(matches!(damaged, PlanError::SectionDigest { index: 1, name: "any", .. }), "{damaged}");
    assert_eq!(age(&damaged), (false, false));
    // A higher minor is read.
    let mut file = File::new();
    file.minor = 9;
    assert_eq!(check(&file.bytes()), Ok(()));
    // Version before hashes: a newer file need not be hashed as this one is.
    let mut newer = plan();
    newer[8] = 3;
    assert!(refused(&newer).is_too_new());
}

#[test]
fn header_and_table_errors() {
    assert!(matches!(File::with(|f| f.magic = *b"\x89HPPL\n\x1a\0"), PlanError::Magic { .. }));
    assert!(matches!(refused(b""), PlanError::TooShort { found: 0, expected: 64 }));
    assert!(matches!(File::with(|f| f.length = Some(64)), PlanError::Length { .. }));
    assert!(matches!(File::with(|f| f.section_count = Some(u32::MAX)), PlanError::Length { .. }));
    let mut root = plan();
    root[40] ^= 1;
    assert!(matches!(refused(&root), PlanError::RootHash { .. }));
    let file = aligned(&[&[0; 8][..], &plan()].concat());
    assert_eq!(PlanView::open(&file[8..]).map(|_| ()), Err(PlanError::Misaligned));

    let section = |row, at, value| File::with(|f| f.rows.push((row, at, value)));
    for (row, at, value) in [(0, 8, 0), (0, 8, u64::MAX), (0, 8, 64), (1, 8, 1 << 40), (1, 8, 65)] {
        let error = section(row, at, value);
        assert!(
            matches!(&error, PlanError::Section { index, field: "offset", found, .. } if (*index, *found) == (row as u32, value)),
            "{error}"
        );
    }
    for (row, value) in [(0, u64::MAX), (0, u64::MAX - 63), (1, 1 << 20), (0, 1 << 63)] {
        let error = section(row, 16, value);
        assert!(matches!(&error, PlanError::Section { field: "length", found, .. } if *found == value), "{error}");
    }
    // A section that ends early leaves the next one at another place, or bytes behind the last.
    assert!(matches!(section(0, 16, 1), PlanError::Section { index: 1, field: "offset", .. }));
    assert!(matches!(section(1, 16, 1), PlanError::Length { .. }));
    assert!(matches!(section(0, 32, 0), PlanError::SectionDigest { index: 0, .. }));

    assert!(matches!(File::with(|f| drop(f.sections.pop())), PlanError::SectionCount { name: "provider payload", count: 0 }));
    assert!(matches!(File::with(|f| f.sections.clear()), PlanError::SectionCount { name: "canonical graph", count: 0 }));
    assert!(matches!(File::with(|f| f.sections.push((1, canonical()))), PlanError::SectionCount { name: "canonical graph", count: 2 }));
    // A section of a kind that nobody knows is ignored, but its bytes are checked.
    let mut file = File::new();
    file.sections.insert(1, (77, b"from the future".to_vec()));
    let mut bytes = file.bytes();
    assert_eq!(check(&bytes), Ok(()));
    let at = bytes.windows(6).position(|w| w == b"future").expect("there");
    bytes[at] ^= 1;
    assert!(PlanView::open(&aligned(&bytes)).is_ok(), "opening does not read sections");
    assert!(matches!(refused(&bytes), PlanError::SectionDigest { index: 1, .. }));
}

#[test]
fn metadata_errors() {
    for meta in [vec![], vec![0xff; 64], vec![0; 7]] {
        assert!(matches!(File::with(|f| f.meta = meta), PlanError::Metadata(_)));
    }
    type Change = fn(&mut PlanMetaV1);
    let cases: Vec<(&str, Change)> = vec![
        ("graph key", |m| m.graph_key[0] ^= 1),
        ("plan key", |m| m.plan_key[0] ^= 1),
        ("plan key", |m| m.target = "gfx90a".into()),
        ("plan key", |m| m.provider = "hip".into()),
        ("plan key", |m| m.engine_revision = "8".into()),
        ("plan key", |m| m.knobs[0].value = "9".into()),
        ("engine id", |m| m.engine_id += 1),
        ("engine id", |m| m.engine = "OTHER".into()),
        ("knob id", |m| m.knobs.reverse()),
        ("knob id", |m| m.knobs[1].id = "a".into()),
        ("binding 1: ordinal", |m| m.bindings[1].ordinal = 0),
        ("binding 4: ordinal", |m| m.bindings[4].ordinal = 4),
        ("binding 0: role", |m| m.bindings[0].role = 2),
        ("binding 1: role", |m| m.bindings[1].role = 1),
        ("binding 0: kind", |m| m.bindings[0].kind = 4),
        ("binding 0: data type", |m| m.bindings[0].dtype = 0),
        ("binding 0: data type", |m| m.bindings[0].dtype = 19),
        ("binding 0: data type", |m| m.bindings[0].dtype = -1),
        ("binding 0: strides", |m| m.bindings[0].strides = vec![1]),
        ("binding 0: strides", |m| m.bindings[0].strides = vec![-3, 1]),
        ("binding 0: strides", |m| m.bindings[0].strides = vec![i64::MAX, 1]),
        ("binding 0: strides", |m| m.bindings[0].strides = vec![i64::MAX / 8, 1]),
        ("binding 0: dims", |m| m.bindings[0].dims = vec![0, 3]),
        ("binding 0: dims", |m| m.bindings[0].dims = vec![i64::MIN, 3]),
        ("binding 0: dims", |m| m.bindings[0].dims = vec![i64::MAX, i64::MAX]),
        ("binding 0: dims", |m| (m.bindings[0].dims, m.bindings[0].strides) = (vec![], vec![])),
        ("binding 1: dims", |m| m.bindings[1].dims = vec![2]),
        // The payload's runtime set is the authority (R16 §4.6).
        ("runtime scalars among the bindings", |m| m.bindings[1].kind = 3),
        ("runtime scalars among the bindings", |m| m.bindings[3].kind = 1),
        ("runtime scalars among the bindings", |m| drop(m.bindings.remove(2))),
        ("runtime scalars among the bindings", |m| m.bindings[2].ordinal = 2),
        ("runtime scalars among the bindings", |m| m.bindings.clear()),
    ];
    for (field, change) in cases {
        let mut meta = meta();
        change(&mut meta);
        let error = refused(&File::of(&meta, payload()).bytes());
        assert!(matches!(&error, PlanError::MetadataField { field: found, .. } if found == field), "{field}: {error}");
        assert_eq!(age(&error), (false, false));
        // Nothing is written that is not read.
        let written = PlanWriter { meta: &meta, canonical: &canonical(), payload: &payload() }.finish();
        assert_eq!(written.map(|_| ()), Err(error));
    }
    // The graph and its key.
    let error = File::with(|f| f.sections[0].1[9] ^= 1);
    assert!(matches!(&error, PlanError::MetadataField { field, .. } if field == "graph key"), "{error}");
}

#[test]
fn metadata_bytes_never_make_a_reader_panic() {
    let good = File::new();
    for at in 0..good.meta.len() {
        for flip in [0x01, 0x7f, 0x80, 0xff] {
            let mut file = File::new();
            file.meta[at] ^= flip;
            if let Err(error) = check(&file.bytes()) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
    for end in 0..good.meta.len() {
        let mut file = File::new();
        file.meta.truncate(end);
        _ = check(&file.bytes());
    }
}

// ---- the payload container ----

/// The container of `docs/format.md`, written by hand with its fields as given.
fn container(runtime: &[i64], baked: &[(i64, u8, u8, u64)], body: &[u8]) -> Vec<u8> {
    let mut b = b"\x89HPPY\r\n\x1a".to_vec();
    b.extend(b"kind\0\0\0\0\0\0\0\0\0\0\0\0");
    b.extend(5_u32.to_le_bytes());
    b.extend((runtime.len() as u32).to_le_bytes());
    b.extend((baked.len() as u32).to_le_bytes());
    b.extend([0; 4]);
    b.extend((body.len() as u64).to_le_bytes());
    b.extend([0; 16]);
    runtime.iter().for_each(|uid| b.extend(uid.to_le_bytes()));
    for (uid, tag, is_default, bits) in baked {
        b.extend(uid.to_le_bytes());
        b.extend([*tag, *is_default, 0, 0, 0, 0, 0, 0]);
        b.extend(bits.to_le_bytes());
    }
    b.resize(b.len().next_multiple_of(64), 0);
    b.extend(body);
    b
}

fn tables(bytes: &[u8]) -> Result<(), PayloadError> {
    PayloadHead::parse(bytes)?.read_tables().map(|_| ())
}

fn field(bytes: &[u8], edit: impl FnOnce(&mut Vec<u8>)) -> &'static str {
    let mut bytes = bytes.to_vec();
    edit(&mut bytes);
    match tables(&bytes) {
        Err(PayloadError::Field { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn containers_are_as_documented() {
    let baked = [(-9, 1, 0, 0x3fc0_0000), (0, 7, 1, u64::MAX), (5, 8, 0, 1), (6, 4, 0, 255)];
    let by_hand = container(&[-7, 0, 3], &baked, b"abc");
    let scalars: Vec<BakedScalar> = [
        (6, false, TensorValue::Float8(255)),
        (5, false, TensorValue::Bool(true)),
        (0, true, TensorValue::Int64(-1)),
        (-9, false, TensorValue::Float32(1.5)),
    ]
    .into_iter()
    .map(|(uid, is_default, value)| BakedScalar { uid, is_default, value })
    .collect();
    let written = PayloadWriter { kind: "kind", version: 5, runtime_uids: vec![3, -7, 0], baked: scalars.clone(), body: b"abc" }.finish();
    assert_eq!(written.as_deref(), Ok(&by_hand[..]));
    let view = PayloadHead::parse(&by_hand).and_then(PayloadHead::read_tables).expect("in order");
    assert_eq!((view.kind(), view.version(), view.body()), ("kind", 5, &b"abc"[..]));
    assert!(view.runtime_uids().eq([-7, 0, 3]));
    assert!(view.baked().eq(scalars.into_iter().rev()));
    for (uid, expected) in
        [(-8, false), (-7, true), (-1, false), (0, true), (1, false), (3, true), (4, false), (i64::MIN, false), (i64::MAX, false)]
    {
        assert_eq!(view.is_runtime(uid), expected, "{uid}");
    }
    // Empty tables, empty body, and tables that just fill their padding.
    assert_eq!(tables(&container(&[], &[], b"")), Ok(()));
    assert_eq!(tables(&container(&[1, 2, 3, 4, 5, 6, 7, 8], &[], b"x")), Ok(()));
}

#[test]
fn kinds_and_versions_are_refused_before_anything_else_is_read() {
    // Everything behind the version is garbage.
    let mut bytes = container(&[1], &[], b"abc");
    bytes[28..].fill(0xff);
    let head = || PayloadHead::parse(&bytes).expect("a head");
    assert_eq!((head().kind(), head().version()), ("kind", 5));
    let refusal = |kind, min, max| head().accept(kind, min, max).map(|_| ()).expect_err("refused");
    assert_eq!(refusal("other", 1, 9), PayloadError::UnknownKind { found: "kind".into(), expected: "other".into() });
    let old = refusal("kind", 6, 9);
    assert_eq!(old, PayloadError::TooOld { kind: "kind".into(), found: 5, min: 6, max: 9 });
    let new = refusal("kind", 1, 4);
    assert_eq!(new, PayloadError::TooNew { kind: "kind".into(), found: 5, min: 1, max: 4 });
    assert_eq!((age(&old.into()), age(&new.into())), ((true, false), (false, true)));
    assert!(matches!(refusal("kind", 5, 5), PayloadError::Field { .. }));

    let good = container(&[], &[], b"");
    for end in 0..64 {
        assert_eq!(tables(&good[..end]), Err(PayloadError::TooShort { found: end as u64 }));
    }
    let mut bad = good.clone();
    bad[3] ^= 1;
    assert!(matches!(tables(&bad), Err(PayloadError::Magic { .. })));
    for kind in [*b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", *b"a\0b\0\0\0\0\0\0\0\0\0\0\0\0\0", *b"a b\0\0\0\0\0\0\0\0\0\0\0\0\0", [0xc3; 16]] {
        let mut bad = good.clone();
        bad[8..24].copy_from_slice(&kind);
        assert_eq!(tables(&bad), Err(PayloadError::KindText { found: kind }));
    }
    let mut full = good;
    full[8..24].copy_from_slice(b"sixteen.letters!");
    assert_eq!(PayloadHead::parse(&full).expect("a head").kind(), "sixteen.letters!");
}

#[test]
fn every_field_of_a_container_is_checked() {
    let good = container(&[1, 4, 9], &[(2, 1, 0, 5), (4, 5, 1, 6)], b"abc");
    assert_eq!(tables(&good), Ok(()));
    assert_eq!(field(&good, |b| b[36] = 1), "reserved field at 36");
    assert_eq!(field(&good, |b| b[63] = 1), "reserved field at 48");
    assert_eq!(field(&good, |b| b[40] = 4), "body length");
    assert_eq!(field(&good, |b| b.push(0)), "body length");
    assert_eq!(field(&good, |b| b.truncate(b.len() - 1)), "body length");
    for at in [28, 32] {
        assert_eq!(field(&good, |b| b[at..at + 4].fill(0xff)), "body length");
    }
    assert_eq!(field(&good, |b| b[191] = 1), "padding behind the tables");
    assert_eq!(field(&good, |b| b[64] = 4), "runtime uid");
    assert_eq!(field(&good, |b| b[72] = 5), "default flag of a baked scalar", "4 is runtime no more");
}

#[test]
fn baked_scalars_are_checked() {
    let baked = |rows: &[(i64, u8, u8, u64)]| match tables(&container(&[1, 4], rows, b"")) {
        Err(PayloadError::Field { field, .. }) => field,
        Ok(()) => "",
        other => panic!("{other:?}"),
    };
    assert_eq!(baked(&[(2, 1, 0, 5), (4, 5, 1, 6)]), "");
    assert_eq!(baked(&[(4, 5, 1, 6), (2, 1, 0, 5)]), "baked scalar's uid");
    assert_eq!(baked(&[(2, 1, 0, 5), (2, 1, 0, 5)]), "baked scalar's uid");
    // A default belongs to a runtime scalar, a constant to none.
    assert_eq!(baked(&[(2, 1, 1, 5)]), "default flag of a baked scalar");
    assert_eq!(baked(&[(4, 1, 0, 5)]), "default flag of a baked scalar");
    assert_eq!(baked(&[(2, 1, 2, 5)]), "baked scalar's default flag");
    for (tag, bits) in [(0, 0), (9, 0), (8, 2), (4, 256), (1, 1 << 32), (5, u64::MAX)] {
        assert_eq!(baked(&[(2, tag, 0, bits)]), "baked scalar's tag", "{tag} {bits}");
    }
    let refused =
        |kind: &str, runtime: Vec<i64>| PayloadWriter { kind, version: 1, runtime_uids: runtime, baked: vec![], body: b"" }.finish();
    assert!(matches!(refused("", vec![]), Err(PayloadError::KindText { .. })));
    assert!(matches!(refused("seventeen.letters", vec![]), Err(PayloadError::KindText { .. })));
    assert!(matches!(refused("ä", vec![]), Err(PayloadError::KindText { .. })));
    assert!(matches!(refused("k", vec![2, 2]), Err(PayloadError::Field { field: "runtime uid", .. })));
}

#[test]
fn large_tables_are_checked_in_time() {
    // 200,000 runtime uids and as many defaults: a search through all for each would take minutes.
    let runtime: Vec<i64> = (0..200_000).collect();
    let baked: Vec<_> = runtime.iter().map(|&uid| (uid, 1, 1, 0)).collect();
    assert_eq!(tables(&container(&runtime, &baked, b"")), Ok(()));
}

#[test]
fn a_bad_payload_refuses_the_plan() {
    let error = File::with(|f| f.sections[1].1 = b"short".to_vec());
    assert_eq!(error, PlanError::Payload(PayloadError::TooShort { found: 5 }));
    let error = File::with(|f| f.sections[1].1[40] ^= 1);
    assert!(matches!(error, PlanError::Payload(PayloadError::Field { .. })), "{error}");
    let body = PayloadError::Body { kind: "cpu".into(), reason: "ends early".into() };
    assert_eq!(PlanError::from(body).to_string(), "payload: cpu body: ends early");
}
