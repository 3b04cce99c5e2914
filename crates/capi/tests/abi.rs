//! The library's binary interface is the one that is written down in `abi/`: what it exports, what it needs, how structures are laid out.

mod common;

use common::{WRITE, home, prefix, program, succeed};
use object::elf::FileHeader64;
use object::read::elf::{Dyn, FileHeader, Sym};
use object::{Endianness, elf};
use std::path::Path;
use std::process::Command;

/// The oldest glibc that may be asked for when the library is linked on this machine. `--glibc 2.28` of `scripts/build-libraries` makes
/// libraries for older systems.
const NATIVE_FLOOR: (u32, u32) = (2, 35);

/// Compares with a file of `abi/`, or writes it.
fn compare(name: &str, found: &str) {
    let path = home().join("abi").join(name);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, found).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == found,
        "{} is not what the library has, which is\n{found}\nWithin a major version, only what adds to it may be written anew, with {WRITE}=1",
        path.display()
    );
}

#[test]
fn structures_are_laid_out_as_written_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = succeed(&mut Command::new(program("tests/c/layout.c", folder.path())));
    compare("layout.txt", &String::from_utf8_lossy(&run.stdout));
}

/// What the dynamic linker is told.
#[derive(Debug, Default)]
struct Dynamic {
    soname: String,
    needed: Vec<String>,
    /// `NAME@VERSION`.
    exported: Vec<String>,
    /// `NAME@VERSION`, or a bare name.
    undefined: Vec<String>,
    flags: (u64, u64),
}

fn read(path: &Path) -> Dynamic {
    let bytes = std::fs::read(path).expect("the library");
    let header = FileHeader64::<Endianness>::parse(&*bytes).expect("ELF");
    let endian = header.endian().expect("an endianness");
    let sections = header.sections(endian, &*bytes).expect("sections");
    let mut found = Dynamic::default();
    let (entries, link) = sections.dynamic(endian, &*bytes).expect("readable").expect("a dynamic section");
    let strings = sections.strings(endian, &*bytes, link).expect("strings");
    for entry in entries {
        let text = || String::from_utf8_lossy(entry.string(endian, strings).expect("text")).into_owned();
        match entry.tag(endian) {
            elf::DT_SONAME => found.soname = text(),
            elf::DT_NEEDED => found.needed.push(text()),
            elf::DT_FLAGS => found.flags.0 = entry.d_val(endian),
            elf::DT_FLAGS_1 => found.flags.1 = entry.d_val(endian),
            _ => {}
        }
    }
    let symbols = sections.symbols(endian, &*bytes, elf::SHT_DYNSYM).expect("symbols");
    let versions = sections.versions(endian, &*bytes).expect("readable").expect("versions");
    for (index, symbol) in symbols.enumerate() {
        if index.0 == 0 || symbol.st_type() == elf::STT_SECTION {
            continue;
        }
        let name = String::from_utf8_lossy(symbol.name(endian, symbols.strings()).expect("a name")).into_owned();
        let version = versions.version(versions.version_index(endian, index).index()).expect("a version");
        let version = version.map(|v| String::from_utf8_lossy(v.name()).into_owned());
        let full = version.map_or(name.clone(), |version| format!("{name}@{version}"));
        match symbol.is_undefined(endian) {
            true => found.undefined.push(full),
            // The node itself is a symbol too.
            false if symbol.st_shndx(endian) == elf::SHN_ABS => {}
            false => found.exported.push(full),
        }
    }
    found.exported.sort();
    found
}

#[test]
fn it_exports_what_is_written_down_and_needs_libc_alone() {
    let library = read(&prefix().join("lib/libhipplan.so.0"));
    assert_eq!(library.soname, "libhipplan.so.0");
    compare("symbols.txt", &(library.exported.join("\n") + "\n"));
    let header = std::fs::read_to_string(prefix().join("include/hipplan.h")).expect("the header");
    for symbol in &library.exported {
        let name = symbol.strip_suffix("@HIPPLAN_0").unwrap_or_else(|| panic!("{symbol}: another version"));
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
    }
    let libc = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
    assert!(library.needed.iter().all(|needed| libc.contains(&needed.as_str())), "{:?}", library.needed);
    // Immediate binding, and never unloaded.
    assert!(library.flags.0 & elf::DF_BIND_NOW.0 != 0 && library.flags.1 & elf::DF_1_NODELETE.0 != 0, "{:?}", library.flags);
}

#[test]
fn it_asks_for_no_newer_glibc_than_written_down() {
    let library = read(&prefix().join("lib/libhipplan.so.0"));
    let version = |symbol: &str| {
        let (major, minor) = symbol.split_once("@GLIBC_")?.1.split_once('.')?;
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    };
    let newest: (u32, u32) = library.undefined.iter().filter_map(|s| version(s)).max().expect("libc is needed");
    let named: Vec<_> = library.undefined.iter().filter(|s| version(s) > Some(NATIVE_FLOOR)).collect();
    eprintln!("libhipplan.so.0 needs glibc {}.{}", newest.0, newest.1);
    assert!(newest <= NATIVE_FLOOR, "glibc {}.{} is needed, by {named:?}", newest.0, newest.1);
}

/// Programs are built through pkg-config, from wherever the prefix stands.
#[test]
fn the_prefix_may_be_moved() {
    let folder = tempfile::tempdir().expect("a folder");
    let moved = folder.path().join("moved");
    succeed(Command::new("cp").arg("-a").arg(prefix()).arg(&moved));
    let text = std::fs::read_to_string(moved.join("lib/pkgconfig/hipplan.pc")).expect("the file");
    assert!(text.contains("prefix=${pcfiledir}/../..") && !text.contains(prefix().to_str().expect("text")), "{text}");
    let mut cc = Command::new("cc");
    cc.arg("-o").arg(folder.path().join("layout")).arg(home().join("tests/c/layout.c")).arg("-I").arg(moved.join("include"));
    succeed(cc.arg("-L").arg(moved.join("lib")).arg("-lhipplan"));
    let run = succeed(Command::new(folder.path().join("layout")).env("LD_LIBRARY_PATH", moved.join("lib")));
    assert!(String::from_utf8_lossy(&run.stdout).contains("sizeof hipplan_key_t 32"));
}
