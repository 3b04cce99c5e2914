//! AMD code objects.

use super::Stage;
use crate::Rng;
use crate::shell::{Shell, patch};
use hipplan_serialize::Target;
use hipplan_serialize::code_object::{ArgKind, CodeObject, CodeObjectError};

/// Kind 0: bytes as they stand; 1: a note as it stands, in a valid file; 2: a valid object that the bytes choose; 3: the same with bytes
/// changed; 4: the same with bytes of its note changed.
pub(super) fn read(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let bytes = match shell.kind % 5 {
        0 => shell.rest.to_vec(),
        1 => file(0x54c, shell.rest, &[Kernel::of(&mut Rng::from_bytes(&[]), 0)]),
        kind => {
            let (choice, changes) = shell.rest.split_at(shell.rest.len().min(8));
            let mut rng = Rng::from_bytes(choice);
            let (flags, target) = rng.pick(&TARGETS);
            let kernels: Vec<_> = (0..rng.below(3)).map(|number| Kernel::of(&mut rng, number)).collect();
            let mut note = note(target, &kernels);
            if kind == 4 {
                patch(&mut note, changes);
            }
            let mut bytes = file(flags, &note, &kernels);
            if kind == 3 {
                patch(&mut bytes, changes);
            }
            if kind == 2 {
                assert!(CodeObject::read(&bytes).is_ok(), "{:?}", CodeObject::read(&bytes));
            }
            bytes
        }
    };
    match CodeObject::read(&bytes) {
        Ok(object) => {
            accepted(&object, &bytes);
            Stage::Accepted
        }
        Err(error) => {
            assert!(error.to_string().len() < 4096, "{error}");
            match error {
                CodeObjectError::Value { .. }
                | CodeObjectError::Missing { .. }
                | CodeObjectError::Twice { .. }
                | CodeObjectError::Target(_)
                | CodeObjectError::Disagreement { .. }
                | CodeObjectError::Symbol { .. }
                | CodeObjectError::Address { .. } => Stage::Meaning,
                _ => Stage::Form,
            }
        }
    }
}

/// What must hold of every object that is accepted.
fn accepted(object: &CodeObject<'_>, bytes: &[u8]) {
    assert!((4..=6).contains(&object.version));
    let target = Target::Amd(object.target.clone());
    assert_eq!(target.to_string().parse(), Ok(target.clone()));
    assert_eq!(object.target.is_generic(), object.generic_version != 0);
    // It runs on what it is built for, unless that is a family.
    assert_eq!(object.loads_on(&target).is_ok(), !object.target.is_generic());
    for kernel in &object.kernels {
        assert_eq!(kernel.symbol.strip_suffix(".kd").map(str::is_empty), Some(false));
        assert!(kernel.code.start <= kernel.code.end && kernel.code.end <= bytes.len() as u64);
        assert!(kernel.kernarg_align.is_power_of_two() && matches!(kernel.wavefront_size, 32 | 64));
        for arg in &kernel.args {
            assert!(u64::from(arg.offset) + u64::from(arg.size) <= kernel.kernarg_size.into());
            assert!(!matches!(arg.kind, ArgKind::Hidden(name) if !name.starts_with("hidden_")));
        }
        assert!(object.kernel(kernel.name).is_some());
    }
}

/// Flags of the header and the target that the note names.
const TARGETS: [(u32, &str); 8] = [
    (0x53f, "gfx90a"),
    (0xe3f, "gfx90a:sramecc+:xnack-"),
    (0x54c, "gfx942"),
    (0x036, "gfx1030"),
    (0x041, "gfx1100"),
    (0x04e, "gfx1201"),
    (0x0100_055f, "gfx9-4-generic"),
    (0x0fe, "gfx1310"),
];

/// A kernel that note and descriptor are made of.
#[derive(Debug)]
struct Kernel {
    name: String,
    kernarg: u32,
    lds: u32,
    private: u32,
    wave32: bool,
    dynamic_stack: bool,
    args: Vec<(u32, u32, &'static str)>,
}

impl Kernel {
    fn of(rng: &mut Rng, number: usize) -> Self {
        const KINDS: [&str; 4] = ["by_value", "global_buffer", "hidden_block_count_x", "hidden_none"];
        let args: Vec<_> = (0..rng.below(4)).map(|n| (8 * n as u32, 8, rng.pick(&KINDS))).collect();
        Self {
            name: format!("k{number}"),
            kernarg: 8 * args.len() as u32,
            lds: rng.pick(&[0, 256, 65536]),
            private: rng.pick(&[0, 16]),
            wave32: rng.one_in(2),
            dynamic_stack: rng.one_in(8),
            args,
        }
    }
}

/// MessagePack.
#[derive(Default)]
struct Pack(Vec<u8>);

impl Pack {
    fn text(&mut self, text: &str) {
        match text.len() {
            len @ 0..32 => self.0.push(0xa0 | len as u8),
            len => self.0.extend([0xd9, len as u8]),
        }
        self.0.extend(text.as_bytes());
    }

    fn number(&mut self, key: &str, n: u32) {
        self.text(key);
        match n {
            0..128 => self.0.push(n as u8),
            128..65536 => self.0.extend([&[0xcd][..], &(n as u16).to_be_bytes()].concat()),
            _ => self.0.extend([&[0xce][..], &n.to_be_bytes()].concat()),
        }
    }
}

fn note(target: &str, kernels: &[Kernel]) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.0.push(0x83);
    pack.text("amdhsa.kernels");
    pack.0.push(0x90 | kernels.len() as u8);
    for kernel in kernels {
        pack.0.push(0x8d);
        pack.text(".args");
        pack.0.push(0x90 | kernel.args.len() as u8);
        for &(offset, size, kind) in &kernel.args {
            pack.0.push(0x83);
            pack.number(".offset", offset);
            pack.number(".size", size);
            pack.text(".value_kind");
            pack.text(kind);
        }
        pack.number(".kernarg_segment_size", kernel.kernarg);
        pack.number(".kernarg_segment_align", 8);
        pack.number(".group_segment_fixed_size", kernel.lds);
        pack.number(".private_segment_fixed_size", kernel.private);
        pack.number(".wavefront_size", if kernel.wave32 { 32 } else { 64 });
        pack.number(".max_flat_workgroup_size", 256);
        pack.number(".sgpr_count", 10);
        pack.number(".vgpr_count", 4);
        pack.number(".vgpr_spill_count", 0);
        pack.text(".name");
        pack.text(&kernel.name);
        pack.text(".symbol");
        pack.text(&format!("{}.kd", kernel.name));
        pack.text(".uses_dynamic_stack");
        pack.0.push(0xc2 | u8::from(kernel.dynamic_stack));
    }
    pack.text("amdhsa.target");
    pack.text(&format!("amdgcn-amd-amdhsa--{target}"));
    pack.text("amdhsa.version");
    pack.0.extend([0x92, 1, 2]);
    pack.0
}

/// Adds bytes at a multiple of eight; gives where.
fn put(out: &mut Vec<u8>, bytes: &[u8]) -> u64 {
    out.resize(out.len().next_multiple_of(8), 0);
    let at = out.len() as u64;
    out.extend(bytes);
    at
}

fn words(list: &[u64]) -> Vec<u8> {
    list.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A file around a note: header, three segments, descriptors and code of the kernels, symbols, four sections. Addresses are places in the
/// file.
fn file(flags: u32, note: &[u8], kernels: &[Kernel]) -> Vec<u8> {
    const SEGMENTS: usize = 64;
    const TABLE: usize = SEGMENTS + 3 * 56;
    let mut out = vec![0; TABLE];
    let held = [&6_u32.to_le_bytes()[..], &(note.len() as u32).to_le_bytes(), &32_u32.to_le_bytes(), b"AMDGPU\0\0", note].concat();
    let note_at = put(&mut out, &held);
    let data = put(&mut out, &[]);
    let code = data + 64 * kernels.len() as u64;
    for (number, kernel) in kernels.iter().enumerate() {
        let mut descriptor = [0_u8; 64];
        for (at, word) in [(0, kernel.lds), (4, kernel.private), (8, kernel.kernarg)] {
            descriptor[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let (from, to) = (data + 64 * number as u64, code + 16 * number as u64);
        descriptor[16..24].copy_from_slice(&(to - from).to_le_bytes());
        descriptor[57] = u8::from(kernel.wave32) << 2 | u8::from(kernel.dynamic_stack) << 3;
        out.extend(descriptor);
    }
    out.resize(out.len() + 16 * kernels.len(), 0xbf);
    let code_end = out.len() as u64;

    let (mut strings, mut symbols) = (vec![0_u8], vec![0_u8; 24]);
    for (number, kernel) in kernels.iter().enumerate() {
        let number = number as u64;
        for (name, kind, address, size) in
            [(kernel.name.clone(), 0x12, code + 16 * number, 16), (format!("{}.kd", kernel.name), 0x11, data + 64 * number, 64)]
        {
            symbols.extend((strings.len() as u32).to_le_bytes());
            symbols.extend([kind, 3, 1, 0]);
            symbols.extend(words(&[address, size]));
            strings.extend(name.as_bytes());
            strings.push(0);
        }
    }
    let symbols_at = put(&mut out, &symbols);
    let strings_at = put(&mut out, &strings);
    let mut sections = vec![0_u8; 64];
    for (kind, offset, size, link) in
        [(11_u64, symbols_at, symbols.len() as u64, 2_u64), (3, strings_at, strings.len() as u64, 0), (1, data, code - data, 0)]
    {
        sections.extend(words(&[kind << 32, 2, offset, offset, size, link, 8, 24]));
    }
    let sections_at = put(&mut out, &sections);

    let segment = |kind: u64, flags: u64, at: u64, size: u64| words(&[kind | flags << 32, at, at, at, size, size, 8]);
    let segments = [segment(1, 4, data, code - data), segment(1, 5, code, code_end - code), segment(4, 4, note_at, held.len() as u64)];
    out[SEGMENTS..TABLE].copy_from_slice(&segments.concat());
    out[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x03\0\0\0\0\0\0\0");
    out[8] = if flags >> 24 == 0 { 3 } else { 4 };
    out[16..24].copy_from_slice(&[3, 0, 224, 0, 1, 0, 0, 0]);
    out[32..48].copy_from_slice(&words(&[SEGMENTS as u64, sections_at]));
    out[48..52].copy_from_slice(&flags.to_le_bytes());
    for (at, half) in [(52, 64_u16), (54, 56), (56, 3), (58, 64), (60, 4), (62, 0)] {
        out[at..at + 2].copy_from_slice(&half.to_le_bytes());
    }
    out
}
