//! The library as it is loaded: it exports exactly what the ABI requires and the optional functions that it implements, and needs nothing that a
//! process may lack.

use object::elf::FileHeader64;
use object::read::elf::{Dyn, FileHeader, Sym};
use object::{Endianness, elf};
use std::path::PathBuf;

/// Typed from the document of the ABI: sections 3 and 4.1, and what is implemented of 3, 4.2, 4.3 (the newest family) and 4.4.
const EXPORTED: [&str; 24] = [
    "hipdnnEnginePluginCreate",
    "hipdnnEnginePluginCreateExecutionContext",
    "hipdnnEnginePluginCreateExecutionContextFromSerialized",
    "hipdnnEnginePluginDestroy",
    "hipdnnEnginePluginDestroyEngineDetails",
    "hipdnnEnginePluginDestroyExecutionContext",
    "hipdnnEnginePluginDestroySerializedExecutionContext",
    "hipdnnEnginePluginExecuteOpGraph",
    "hipdnnEnginePluginExecuteOpGraphWithOverrides",
    "hipdnnEnginePluginGetAllEngineIds",
    "hipdnnEnginePluginGetApplicableEngineIds",
    "hipdnnEnginePluginGetEngineDetails",
    "hipdnnEnginePluginGetEngineName",
    "hipdnnEnginePluginGetWorkspaceSize",
    "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext",
    "hipdnnEnginePluginSerializeExecutionContextWithEngineId",
    "hipdnnEnginePluginSetStream",
    "hipdnnPluginGetApiVersion",
    "hipdnnPluginGetLastErrorString",
    "hipdnnPluginGetName",
    "hipdnnPluginGetType",
    "hipdnnPluginGetVersion",
    "hipdnnPluginSetLogLevel",
    "hipdnnPluginSetLoggingCallback",
];

/// Cargo builds it beside the tests.
fn library() -> PathBuf {
    let tests = std::env::current_exe().expect("this executable");
    tests.parent().expect("its folder").join("libhipplan_engine.so")
}

/// Defined and undefined dynamic symbols, needed libraries, DT_FLAGS_1.
struct Dynamic {
    exported: Vec<String>,
    undefined: Vec<String>,
    needed: Vec<String>,
    flags: u64,
}

fn read() -> Dynamic {
    let bytes = std::fs::read(library()).expect("the library");
    let header = FileHeader64::<Endianness>::parse(&*bytes).expect("ELF");
    let endian = header.endian().expect("an endianness");
    let sections = header.sections(endian, &*bytes).expect("sections");
    let (entries, link) = sections.dynamic(endian, &*bytes).expect("readable").expect("a dynamic section");
    let strings = sections.strings(endian, &*bytes, link).expect("strings");
    let mut found = Dynamic { exported: Vec::new(), undefined: Vec::new(), needed: Vec::new(), flags: 0 };
    for entry in entries {
        match entry.tag(endian) {
            elf::DT_NEEDED => found.needed.push(String::from_utf8_lossy(entry.string(endian, strings).expect("text")).into_owned()),
            elf::DT_FLAGS_1 => found.flags = entry.d_val(endian),
            _ => {}
        }
    }
    let symbols = sections.symbols(endian, &*bytes, elf::SHT_DYNSYM).expect("symbols");
    for (index, symbol) in symbols.enumerate() {
        if index.0 == 0 || symbol.st_type() == elf::STT_SECTION {
            continue;
        }
        let name = String::from_utf8_lossy(symbol.name(endian, symbols.strings()).expect("a name")).into_owned();
        if symbol.is_undefined(endian) { found.undefined.push(name) } else { found.exported.push(name) }
    }
    found.exported.sort();
    found
}

#[test]
fn exactly_the_functions_of_the_abi_are_exported() {
    assert_eq!(read().exported, EXPORTED);
}

#[test]
fn nothing_of_hip_or_hipplan_is_needed() {
    let library = read();
    for needed in &library.needed {
        let known = ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libm.so.6", "libdl.so.2", "libpthread.so.0"];
        assert!(known.contains(&needed.as_str()), "{needed}");
    }
    let linked: Vec<_> = library.undefined.iter().filter(|name| name.starts_with("hip")).collect();
    assert!(linked.is_empty(), "{linked:?}");
    // Its threads would run on in a library that was unloaded.
    assert!(library.flags & elf::DF_1_NODELETE.0 != 0 && library.flags & elf::DF_1_NOW.0 != 0, "{:#x}", library.flags);
}
