//! The host runtime as an AMD device: code objects are AMD's, kernels are their twins.

mod common;

use common::{Host, reverse};
use hipplan_hip_testing::HostCompiler;
use std::ptr;

/// An AMD code object without code: a header, and dynamic symbols.
fn code_object(flags: u32, symbols: &[&str]) -> Vec<u8> {
    let mut strings = vec![0];
    let mut table = vec![0; 24];
    for symbol in symbols {
        let name = u32::try_from(strings.len()).expect("short");
        table.extend([&name.to_le_bytes()[..], &[0x11, 0, 1, 0], &[0; 16]].concat());
        strings.extend(symbol.bytes().chain([0]));
    }
    let mut out = b"\x7fELF\x02\x01\x01\x40\x03".to_vec();
    out.resize(16, 0);
    let headers = 64 + table.len() + strings.len();
    out.extend([3_u16, 224].iter().flat_map(|v| v.to_le_bytes()));
    out.extend(1_u32.to_le_bytes());
    out.extend([0_u64, 0, headers as u64].iter().flat_map(|v| v.to_le_bytes()));
    out.extend(flags.to_le_bytes());
    out.extend([64_u16, 56, 0, 64, 3, 0].iter().flat_map(|v| v.to_le_bytes()));
    out.extend(&table);
    out.extend(&strings);
    let mut section = |kind: u32, at: usize, size: usize, link: u32| {
        out.extend([0, kind].iter().flat_map(|v: &u32| v.to_le_bytes()));
        out.extend([0, 0, at as u64, size as u64].iter().flat_map(|v: &u64| v.to_le_bytes()));
        out.extend([link, 0].iter().flat_map(|v: &u32| v.to_le_bytes()));
        out.extend([8_u64, 24].iter().flat_map(|v| v.to_le_bytes()));
    };
    section(0, 0, 0, 0);
    section(11, 64, table.len(), 2);
    section(3, 64 + table.len(), strings.len(), 0);
    out
}

const GFX942: u32 = 0x4c;

#[test]
fn code_objects_run_as_their_twins() {
    let (folder, host) = Host::open();
    let hip = &host.hip;
    host.set("ARCH", "gfx942:sramecc+:xnack-");
    host.set("TWINS", folder.path().to_str().expect("a path"));
    let source = reverse();
    HostCompiler::new(false).expect("g++").compile_twin(&source, folder.path()).expect("compiled");

    let module = hip.load(&code_object(GFX942, &["reverse", "reverse.kd", "alone.kd"])).expect("loaded");
    // A kernel without a twin; a symbol that is no kernel of the object; a twin that the object has no kernel for.
    assert_eq!(hip.function(module, "alone"), Err(500));
    assert_eq!(hip.function(module, "reverse.kd"), Err(500));
    let other = hip.load(&code_object(GFX942, &["other.kd"])).expect("loaded");
    assert_eq!(hip.function(other, "reverse"), Err(500));

    let function = hip.function(module, "reverse").expect("found");
    let memory = hip.malloc(1024).expect("memory");
    hip.upload(memory, &(0..256).collect::<Vec<i32>>());
    hip.launch(function, [1, 1, 1], 256, &[memory as u64, 1], ptr::null_mut()).expect("launched");
    assert_eq!(hip.download::<i32>(memory, 256), (0..256).rev().collect::<Vec<_>>());
    hip.free(memory).expect("freed");
    hip.unload(module).expect("unloaded");
    hip.unload(other).expect("unloaded");
    assert_eq!(host.live(), [0; 6]);
}

#[test]
fn code_objects_of_other_devices_are_refused() {
    let (_folder, host) = Host::open();
    // Features are two bits each, xnack at 8 and sramecc at 10: 1 is either, 2 is off, 3 is on.
    let cases = [
        ("gfx942:sramecc+:xnack-", GFX942, Ok(())),
        ("gfx942:sramecc+:xnack-", GFX942 | 0x100 | 0x400, Ok(())),
        ("gfx942:sramecc+:xnack-", GFX942 | 0x200 | 0xc00, Ok(())),
        ("gfx942:sramecc+:xnack-", GFX942 | 0x300, Err(209)),
        ("gfx942:sramecc+:xnack-", GFX942 | 0x800, Err(209)),
        ("gfx942", GFX942 | 0x200, Err(209)),
        ("gfx942", 0x3f, Err(209)),
        ("gfx90a:sramecc+:xnack-", 0x3f, Ok(())),
        ("gfx1100", 0x41, Ok(())),
        ("gfx1100", 0xff, Err(209)),
        ("host", GFX942, Err(209)),
    ];
    for (arch, flags, expected) in cases {
        host.set("ARCH", arch);
        assert_eq!(host.hip.load(&code_object(flags, &["k.kd"])).map(drop), expected, "{arch} {flags:#x}");
    }
    host.set("ARCH", "gfx942");
    assert_eq!(host.hip.load(&common::image(&reverse(), false)), Err(209));
}
