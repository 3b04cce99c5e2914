//! Code objects: what real ones hold, and what is refused.

use hipplan_serialize::Target;
use hipplan_serialize::code_object::{ArgKind, CodeObject, CodeObjectError};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/code-objects")
}

fn object(name: &str) -> Vec<u8> {
    let file = folder().join(name).with_extension("co");
    std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn refusal(bytes: &[u8]) -> CodeObjectError {
    CodeObject::read(bytes).expect_err("a refusal")
}

type Real = (&'static str, &'static str, u8, u8, (u64, u32, u32, u32));

/// File, target, version, generic version, and of kernel `scale`: place and length of the code, SGPRs, VGPRs, wavefront; all as
/// llvm-readelf prints them.
#[rustfmt::skip]
const REAL: [Real; 10] = [
    ("gfx90a-v5", "gfx90a", 5, 0, (116, 11, 4, 64)),
    ("gfx90a-sramecc-on-xnack-off-v4", "gfx90a:sramecc+:xnack-", 4, 0, (116, 9, 4, 64)),
    ("gfx942-v5", "gfx942", 5, 0, (108, 14, 4, 64)),
    ("gfx950-v6", "gfx950", 6, 0, (108, 14, 4, 64)),
    ("gfx1030-v5", "gfx1030", 5, 0, (116, 9, 4, 32)),
    ("gfx1100-v5", "gfx1100", 5, 0, (136, 18, 4, 32)),
    ("gfx1201-v5", "gfx1201", 5, 0, (140, 10, 4, 32)),
    ("gfx1250-v5", "gfx1250", 5, 0, (144, 10, 2, 32)),
    ("gfx9-4-generic-v6", "gfx9-4-generic", 6, 1, (108, 14, 4, 64)),
    ("gfx11-generic-v6", "gfx11-generic", 6, 1, (136, 18, 4, 32)),
];

#[test]
fn real_objects() {
    for (file, target, version, generic, (code, sgprs, vgprs, wavefront)) in REAL {
        let bytes = object(file);
        let found = CodeObject::read(&bytes).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert_eq!((found.target.to_string().as_str(), found.version, found.generic_version), (target, version, generic), "{file}");
        let scale = found.kernel("scale").expect("a kernel");
        assert_eq!(scale.symbol, "scale.kd");
        assert_eq!((scale.kernarg_size, scale.kernarg_align, scale.lds_size, scale.private_size), (24, 8, 0, 0), "{file}");
        assert_eq!((scale.sgprs, scale.vgprs, scale.agprs, scale.wavefront_size), (sgprs, vgprs, 0, wavefront), "{file}");
        assert_eq!((scale.max_workgroup_size, scale.sgpr_spills, scale.vgpr_spills), (256, 0, 0), "{file}");
        assert!(!scale.uses_dynamic_stack);
        let [arg] = scale.args[..] else { panic!("{file}: {:?}", scale.args) };
        assert_eq!((arg.offset, arg.size, arg.kind), (0, 24, ArgKind::ByValue));
        assert_eq!(scale.code.end - scale.code.start, code, "{file}");
        assert!(scale.code.start.is_multiple_of(256) && scale.code.end <= bytes.len() as u64);
    }
}

#[test]
fn hidden_arguments_scratch_and_lds_are_seen() {
    for (file, hidden) in [("gfx90a-v5", 13), ("gfx1100-v5", 13)] {
        let bytes = object(file);
        let found = CodeObject::read(&bytes).expect("a code object");
        assert_eq!(found.kernels.len(), 2);
        let odd = found.kernel("odd").expect("a kernel");
        assert_eq!((odd.kernarg_size, odd.lds_size, odd.private_size, odd.max_workgroup_size), (280, 256, 272, 64), "{file}");
        assert_eq!(odd.args.iter().filter(|a| matches!(a.kind, ArgKind::Hidden(_))).count(), hidden, "{file}");
        assert!(odd.args.iter().any(|a| a.kind == ArgKind::Hidden("hidden_group_size_x")));
        assert!(found.kernel("neither").is_none());
    }
}

#[test]
fn what_loads_where() {
    let device: Target = "gfx942:sramecc+:xnack-".parse().expect("a target");
    for (file, loads) in [("gfx942-v5", true), ("gfx9-4-generic-v6", true), ("gfx90a-v5", false), ("gfx1100-v5", false)] {
        let bytes = object(file);
        assert_eq!(CodeObject::read(&bytes).expect("a code object").loads_on(&device).is_ok(), loads, "{file}");
    }
}

#[test]
fn what_is_no_code_object_is_refused() {
    let good = object("gfx90a-v5");
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        refusal(&bad).to_string()
    };
    assert!(refusal(b"").to_string().starts_with("not an ELF file"));
    assert!(refusal(b"#include").to_string().contains("begins with [23, 69, 6e, 63]"));
    let bundle = refusal(b"__CLANG_OFFLOAD_BUNDLE__\x02\0\0\0\0\0\0\0").to_string();
    assert!(bundle.contains("an offload bundle, not a code object: unpack it with clang-offload-bundler"), "{bundle}");
    assert!(refusal(b"CCOB\x02\0").to_string().contains("a compressed offload bundle"));
    assert!(refusal(&good[..63]).to_string().contains("the header at 0 with 64 bytes reaches beyond the 63 bytes of the file"));
    for (at, bytes, message) in [
        (4, &[1_u8][..], "the ELF class is 1, expected 2"),
        (5, &[2], "the byte order is 2"),
        (6, &[0], "the ELF version is 0"),
        (7, &[3], "the operating system is 3, expected 64 (HSA)"),
        (8, &[1], "the version of the ABI is 1, expected 2 to 4 (code object version 4 to 6)"),
        (8, &[5], "the version of the ABI is 5"),
        (16, &[1], "the kind of file is 1, expected 3"),
        (18, &[62], "the machine is 62, expected 224 (AMDGPU)"),
        (32, &[0xff; 8], "the table of segments at 18446744073709551615"),
        (40, &[0xff; 8], "the table of sections at 18446744073709551615"),
        (54, &[32], "the size of a segment header is 32"),
        (56, &[0xff; 2], "the number of segments is 65535, expected at most 256"),
        (56, &[0, 0], "there are 0 metadata notes, expected 1"),
        (60, &[0, 0], "there are 0 dynamic symbol tables, expected 1"),
    ] {
        let found = with(at, bytes);
        assert!(found.contains(message), "{at}: {found}");
    }
}

/// Where a text stands in the file.
fn place(bytes: &[u8], text: &[u8]) -> usize {
    bytes.windows(text.len()).position(|w| w == text).expect("it is there")
}

#[test]
fn a_note_that_disagrees_with_the_payload_is_refused() {
    let good = object("gfx942-v5");
    let descriptor = {
        // Of all 64-byte steps the one whose third word is the kernarg size, and whose entry leads to the code.
        let found = CodeObject::read(&good).expect("a code object");
        let code = found.kernels[0].code.start;
        (0..good.len() as u64)
            .step_by(64)
            .find(|&at| {
                let field = |at: u64, len| good.get(at as usize..at as usize + len).unwrap_or_default();
                field(at + 8, 4) == 24_u32.to_le_bytes() && field(at + 16, 8) == (0x1600_i64 - 0x500).to_le_bytes() && at < code
            })
            .expect("a descriptor") as usize
    };
    let change = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        refusal(&bad).to_string()
    };
    for (at, bytes, message) in [
        (descriptor, &[8_u8][..], "about the size of LDS: 0 in the note, 8 there"),
        (descriptor + 4, &[16], "about the size of scratch memory: 0 in the note, 16 there"),
        (descriptor + 8, &[32], "disagrees with the descriptor scale.kd about the size of the kernarg segment: 24 in the note, 32 there"),
        (descriptor + 17, &[0], "about where the code begins"),
        (descriptor + 23, &[0x7f], "about where the code begins"),
        (descriptor + 57, &[4], "about the size of a wavefront: 64 in the note, 32 there"),
        (descriptor + 57, &[8], "about the dynamic stack: false in the note, true there"),
        // Header: another processor, none, one that is unknown; a feature; a generic version.
        (48, &[0x3f], "disagrees with the ELF header about the processor: gfx942 in the note, gfx90a there"),
        (48, &[0xfe], "about the processor: gfx942 in the note, number 0xfe there"),
        (49, &[0x07], "about xnack: unreported in the note, on there"),
        (49, &[0x09], "about sramecc: unreported in the note, off there"),
        (51, &[1], "about the generic version: gfx942 in the note, version 1 there"),
        // Note.
        (place(&good, b"--gfx942") + 7, b"0", "about the processor: gfx940 in the note, gfx942 there"),
        (place(&good, b"--gfx942") + 2, b"c", "is not a processor name"),
        (place(&good, b".symbol\xa8scale.kd") + 7, b"\xa8other.kd", "names kernel descriptor \"other.kd\", and no symbol is called so"),
        (place(&good, b".symbol\xa8scale.kd") + 7, b"\xa8scale.kx", "expected a name that ends in .kd"),
        (place(&good, b".symbol"), b".symbox", "kernel 0 has no .symbol"),
        (place(&good, b".size\x18"), b".sizX", "argument 0 of kernel 0 has no .size"),
        (place(&good, b".wavefront_size") + 15, &[33], ".wavefront_size of kernel 0 is 33, expected 32 or 64"),
        (place(&good, b".kernarg_segment_align") + 22, &[3], ".kernarg_segment_align of kernel 0 is 3"),
        (place(&good, b".kernarg_segment_size") + 21, &[16], ".offset of argument"),
    ] {
        let found = change(at, bytes);
        let message = message.replace(".offset of argument", "expected an argument of 24 bytes within the 16 bytes of the kernarg segment");
        assert!(found.contains(&message), "{at}: {found}");
    }
}

/// Every byte changed in four ways, and every length: refused or accepted, never a panic; and what decides how a kernel is launched
/// cannot change unseen.
#[test]
fn mutations() {
    let good = object("gfx1030-v5");
    let whole = CodeObject::read(&good).expect("a code object");
    for len in 0..good.len() {
        if let Ok(found) = CodeObject::read(&good[..len]) {
            panic!("cut at {len}: {found:?}");
        }
    }
    let mut accepted = 0;
    for at in 0..good.len() {
        for change in [0x01, 0x10, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= change;
            if let Ok(found) = CodeObject::read(&bad) {
                accepted += 1;
                let launch = |o: &CodeObject<'_>| {
                    o.kernels.iter().map(|k| (k.kernarg_size, k.lds_size, k.private_size, k.wavefront_size)).collect::<Vec<_>>()
                };
                assert_eq!(launch(&found), launch(&whole), "byte {at}");
                assert_eq!(found.target, whole.target, "byte {at}");
            }
        }
    }
    // Machine code, padding and the like may be anything.
    assert!(accepted > good.len(), "{accepted}");
}

#[test]
fn the_corpus_is_small_and_complete() {
    let mut files: Vec<_> = std::fs::read_dir(folder()).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "co"));
    assert_eq!(files.len(), REAL.len());
    assert!(files.iter().all(|f| f.metadata().expect("a file").len() < 8192));
}
