//! Every check fails on a split that was doctored so that it must.

mod common;

use common::{Workshop, assert_good, run};
use hipplan_shim::check::Verdict;
use hipplan_shim::elf::Elf;
use hipplan_shim::install::Place;
use hipplan_shim::manifest::{self, Manifest};
use hipplan_shim::wrapper::{Export, Wrapper};
use object::elf;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A split in place, with what makes it: the wrapper can be made again with a fault.
struct Unit {
    folder: PathBuf,
    workshop: Workshop,
}

const WRAPPER: &str = "libMIOpen.so.1.0";
const PRIVATE: &str = "libMIOpen_private.so.1";
const SHIM: &str = "libhipplan_miopen.so.0";

impl Unit {
    /// Edits a file of the split, and the manifest so that size and digest are right again.
    fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.folder.join(name);
        let mut bytes = std::fs::read(&path).expect("readable");
        let before = bytes.clone();
        change(&mut bytes);
        assert_ne!(bytes, before, "nothing was changed");
        self.replace(name, &bytes);
    }

    fn replace(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.join(name), bytes).expect("written");
        self.edit_manifest(|manifest| {
            let files = [&mut manifest.wrapper, &mut manifest.private.file, &mut manifest.shim];
            let record = files.into_iter().find(|f| f.name == name).expect("a file of the split");
            record.size = bytes.len() as u64;
            record.blake3 = blake3::hash(bytes).to_hex().to_string();
        });
    }

    fn edit_manifest(&self, change: impl FnOnce(&mut Manifest)) {
        let mut manifest = Manifest::read(&self.folder).expect("a manifest");
        change(&mut manifest);
        std::fs::write(self.folder.join(manifest::NAME), manifest.to_text()).expect("written");
    }

    /// Puts another wrapper in place.
    fn rewrap(&self, change: impl FnOnce(&mut Wrapper)) {
        let manifest = Manifest::read(&self.folder).expect("a manifest");
        let (soname, private_soname) = (manifest.soname.clone(), manifest.private.file.name.clone());
        let mut wrapper = Wrapper { soname, private_soname, nodes: manifest.nodes.clone(), exports: manifest.exports() };
        change(&mut wrapper);
        self.replace(WRAPPER, &wrapper.build().expect("a wrapper"));
    }

    /// Compiles another shim library from the usual source and a line.
    fn reshim(&self, line: &str, options: &[&str]) {
        let code = std::fs::read_to_string(common::source("shim.c")).expect("readable");
        let file = self.workshop.path("other.c");
        std::fs::write(&file, format!("{code}\n{line}\n")).expect("written");
        let to = self.workshop.path("other.so");
        run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&to).arg(&file).args(options));
        self.replace(SHIM, &std::fs::read(&to).expect("readable"));
    }
}

fn offset(bytes: &[u8], section: &str) -> usize {
    let elf = Elf::read(bytes).expect("a library");
    elf.sections.iter().find(|s| s.name == section.as_bytes()).expect("a section").offset as usize
}

fn dynamic(bytes: &[u8], tag: elf::DynamicTag, nth: usize) -> usize {
    let elf = Elf::read(bytes).expect("a library");
    let found = elf.dynamic.iter().enumerate().filter(|(_, d)| d.tag == tag.0).nth(nth).expect("an entry").0;
    elf.dynamic_offset as usize + 16 * found + 8
}

fn symbol(bytes: &[u8], name: &str) -> (usize, u32) {
    let elf = Elf::read(bytes).expect("a library");
    let (i, _) = elf.symbols().find(|(_, s)| s.name == name.as_bytes()).expect("a symbol");
    (elf.symbol_table().start as usize + 24 * i as usize, i)
}

/// Where in the file the relocation stands that fills this address.
fn relocation(bytes: &[u8], wanted: impl Fn(&hipplan_shim::elf::Relocation) -> bool) -> usize {
    let elf = Elf::read(bytes).expect("a library");
    let at = elf.relocations().position(|r| wanted(&r)).expect("a relocation");
    elf.relocation_tables[0].start as usize + 24 * at
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

type Doctor = fn(&Unit);

/// Name of the check that must fail, what was done, and the doing.
const DOCTORS: [(&str, &str, Doctor); 47] = [
    ("manifest", "garbage", |u| std::fs::write(u.folder.join(manifest::NAME), "{").expect("written")),
    ("manifest", "another format", |u| u.edit_manifest(|m| m.format = 99)),
    ("manifest", "a path for a name", |u| u.edit_manifest(|m| m.shim.name = "../shim.so".to_owned())),
    ("files", "a byte more", |u| {
        let path = u.folder.join(SHIM);
        let mut bytes = std::fs::read(&path).expect("readable");
        bytes.push(0);
        std::fs::write(path, bytes).expect("written");
    }),
    ("files", "another byte", |u| {
        let path = u.folder.join(SHIM);
        let mut bytes = std::fs::read(&path).expect("readable");
        *bytes.last_mut().expect("a byte") ^= 1;
        std::fs::write(path, bytes).expect("written");
    }),
    ("files", "a file less", |u| std::fs::remove_file(u.folder.join(PRIVATE)).expect("removed")),
    ("links", "a link that is not there", |u| {
        u.edit_manifest(|m| m.links.push(manifest::Link { path: "libOther.so".into(), target: "libMIOpen.so.1".into() }));
    }),
    ("links", "a link that leads elsewhere", |u| {
        u.edit_manifest(|m| m.links.push(manifest::Link { path: "libMIOpen.so".into(), target: "libOther.so".into() }));
    }),
    ("build-id", "another build", |u| {
        u.edit(PRIVATE, |b| {
            let at = offset(b, ".note.gnu.build-id") + 16;
            b[at] ^= 1;
        });
    }),
    ("superset", "a name less", |u| u.rewrap(|w| w.exports.retain(|e| e.name != "miopenAdd"))),
    ("superset", "a private name less", |u| u.edit_manifest(|m| m.names.push("miopenOfThePast@@MIOPEN_HIP_1".to_owned()))),
    ("impl-export", "a wrapper with a private name", |u| {
        u.edit(WRAPPER, |b| {
            // The wrapper's own function takes the name of an undefined symbol.
            let (from, _) = symbol(b, "miopenAdd_impl");
            let (to, _) = symbol(b, "miopenAdd");
            let name: [u8; 4] = b[from..from + 4].try_into().expect("four bytes");
            put(b, to, &name);
        });
    }),
    ("impl-export", "a private library with a public name", |u| {
        u.edit(PRIVATE, |b| {
            let (at, _) = symbol(b, "miopenAdd_impl");
            let elf = Elf::read(b).expect("a library");
            let strings = elf.strings().expect("strings");
            let public = strings.windows(11).position(|w| w == b"\0miopenAdd\0").expect("the old name") as u32 + 1;
            put(b, at, &public.to_le_bytes());
        });
    }),
    ("soname", "another wrapper", |u| u.rewrap(|w| w.soname = "libMIOpen.so.2".to_owned())),
    ("soname", "another shim library", |u| u.reshim("", &["-Wl,-soname,libother.so.0"])),
    ("soname", "another private library", |u| {
        u.edit(PRIVATE, |b| {
            let at = dynamic(b, elf::DT_SONAME, 0);
            let other = dynamic(b, elf::DT_NEEDED, 0);
            let name: [u8; 8] = b[other..other + 8].try_into().expect("eight bytes");
            put(b, at, &name);
        });
    }),
    ("needed", "a wrapper of another library", |u| u.rewrap(|w| w.private_soname = "libMIOpen_private.so.2".to_owned())),
    ("needed", "a wrapper without shim library", |u| {
        u.edit(WRAPPER, |b| {
            let (from, to) = (dynamic(b, elf::DT_NEEDED, 0), dynamic(b, elf::DT_NEEDED, 1));
            let name: [u8; 8] = b[from..from + 8].try_into().expect("eight bytes");
            put(b, to, &name);
        });
    }),
    ("needed", "a shim library that needs the private one", |u| {
        let private = u.folder.join(PRIVATE).display().to_string();
        u.reshim("", &["-Wl,-soname,libhipplan_miopen.so.0", "-Wl,--no-as-needed", &private]);
    }),
    ("search-path", "a wrapper that looks elsewhere", |u| {
        u.edit(WRAPPER, |b| {
            let at = b.windows(8).position(|w| w == b"$ORIGIN\0").expect("the path");
            put(b, at, b"/ORIGIN");
        });
    }),
    ("versions", "another version node", |u| {
        u.rewrap(|w| {
            w.nodes = vec![vec!["MIOPEN_HIP_2".to_owned()]];
            w.exports.iter_mut().for_each(|e| e.version = Some("MIOPEN_HIP_2".to_owned()));
        });
    }),
    ("versions", "no version", |u| u.rewrap(|w| w.exports.iter_mut().for_each(|e| e.version = None))),
    ("undefined", "a name too many", |u| {
        u.rewrap(|w| w.exports.push(Export { name: "miopenNothing".to_owned(), version: Some("MIOPEN_HIP_1".to_owned()), hidden: false }));
    }),
    ("undefined", "a shim library that refers to the runtime", |u| {
        u.reshim("int hipplan_open(void); int (*keep)(void) = hipplan_open;", &["-Wl,-soname,libhipplan_miopen.so.0"]);
    }),
    ("undefined", "a shim library that refers to a private name", |u| {
        u.reshim("int miopenAdd_impl(void); int (*keep)(void) = miopenAdd_impl;", &["-Wl,-soname,libhipplan_miopen.so.0"]);
    }),
    ("undefined", "a shim library that cannot be attached", |u| {
        u.reshim("", &["-Wl,-soname,libhipplan_miopen.so.0", "-Dmiopen_forwarding_attach=other_attach"]);
    }),
    ("hash", "an empty filter", |u| {
        u.edit(WRAPPER, |b| {
            let at = offset(b, ".gnu.hash");
            b[at + 16..at + 24].fill(0);
        })
    }),
    ("hash", "an empty bucket table", |u| {
        u.edit(PRIVATE, |b| {
            let at = offset(b, ".gnu.hash");
            let word = |i: usize| u32::from_le_bytes(b[at + i..at + i + 4].try_into().expect("four bytes")) as usize;
            let (buckets, bloom) = (word(0), word(8));
            b[at + 16 + 8 * bloom..at + 16 + 8 * bloom + 4 * buckets].fill(0);
        });
    }),
    ("stubs", "other code", |u| {
        u.edit(WRAPPER, |b| {
            let at = offset(b, ".text");
            b[at + 4] = 0xe9;
        })
    }),
    ("stubs", "two names with one slot", |u| {
        u.edit(WRAPPER, |b| {
            let at = offset(b, ".text");
            // The second stub is sixteen bytes on, its slot eight.
            let distance = i32::from_le_bytes(b[at + 6..at + 10].try_into().expect("four bytes")) - 16;
            put(b, at + 16 + 6, &distance.to_le_bytes());
        });
    }),
    ("stubs", "a slot that leads to another name", |u| {
        u.edit(WRAPPER, |b| {
            let (_, add) = symbol(b, "miopenAdd_impl");
            let (_, other) = symbol(b, "miopenTls_impl");
            let at = relocation(b, |r| r.symbol == add);
            put(b, at + 12, &other.to_le_bytes());
        });
    }),
    ("slots", "fewer pages", |u| {
        u.edit(WRAPPER, |b| {
            let elf = Elf::read(b).expect("a library");
            let at = elf.segments.iter().position(|s| s.align == 65_536).expect("the slots");
            let at = elf.segments_offset as usize + 56 * at + 40;
            put(b, at, &4096_u64.to_le_bytes());
        });
    }),
    ("slots", "something else on their pages", |u| {
        u.edit(WRAPPER, |b| {
            let slots = offset(b, ".data") as u64;
            let at = relocation(b, |r| r.kind == elf::R_X86_64_RELATIVE.0);
            put(b, at, &(slots + 4096).to_le_bytes());
        });
    }),
    ("table", "another magic", |u| {
        u.edit(WRAPPER, |b| {
            let at = offset(b, ".data.rel.ro");
            b[at] ^= 1;
        })
    }),
    ("table", "an entry less", |u| {
        u.edit(WRAPPER, |b| {
            let at = offset(b, ".data.rel.ro");
            b[at + 8] -= 1;
        })
    }),
    ("table", "two names exchanged", |u| {
        u.edit(WRAPPER, |b| {
            let entries = offset(b, ".data.rel.ro") as u64 + 48;
            let (first, second) = (relocation(b, |r| r.address == entries), relocation(b, |r| r.address == entries + 24));
            put(b, first, &(entries + 24).to_le_bytes());
            put(b, second, &entries.to_le_bytes());
        });
    }),
    ("attach", "no initialiser", |u| {
        u.edit(WRAPPER, |b| {
            let at = dynamic(b, elf::DT_INIT_ARRAYSZ, 0);
            put(b, at, &[0]);
        })
    }),
    ("wrapper", "a function that is called when it is unloaded", |u| {
        u.edit(WRAPPER, |b| {
            // In the place of an entry that loaders do not read.
            let at = dynamic(b, elf::DT_SYMENT, 0);
            let function = Elf::read(b).expect("a library").symbols().find(|(_, s)| s.is_defined()).expect("a symbol").1.value;
            put(b, at - 8, &elf::DT_FINI.0.to_le_bytes());
            put(b, at, &function.to_le_bytes());
        });
    }),
    ("search-path", "a private library that looks in one more folder", |u| {
        u.edit(PRIVATE, |b| {
            let elf = Elf::read(b).expect("a library");
            let free = elf.dynamic_offset as usize + 16 * elf.dynamic.len();
            let path = elf.strings().expect("strings").windows(7).position(|w| w == b"libMIOp").expect("a string") as u64;
            put(b, free, &elf::DT_RUNPATH.0.to_le_bytes());
            put(b, free + 8, &path.to_le_bytes());
        });
    }),
    ("tables", "a segment that is executed", |u| {
        u.edit(PRIVATE, |b| {
            let elf = Elf::read(b).expect("a library");
            let at = elf.segments_offset as usize + 56 * (elf.segments.len() - 1);
            b[at + 4] |= 1;
        });
    }),
    ("tables", "a segment more", |u| {
        u.edit(PRIVATE, |b| {
            let elf = Elf::read(b).expect("a library");
            let (at, count) = (elf.segments_offset as usize, elf.segments.len());
            let table = b[at..at + 56 * count].to_vec();
            let new = b.len().next_multiple_of(8);
            b.resize(new, 0);
            b.extend(table);
            // One of no kind that anything uses.
            b.extend([0x11, 0x22, 0x33, 0x04]);
            b.extend([0; 52]);
            put(b, 32, &(new as u64).to_le_bytes());
            put(b, 56, &(count as u16 + 1).to_le_bytes());
        });
    }),
    ("sections", "other code than the section headers say", |u| {
        u.edit(PRIVATE, |b| {
            let elf = Elf::read(b).expect("a library");
            let (i, text) = elf.segments.iter().enumerate().find(|(_, s)| s.kind == 1 && s.flags & 1 != 0).expect("code");
            let (at, code) = (elf.segments_offset as usize + 56 * i, b[text.offset as usize..][..text.file_size as usize].to_vec());
            let new = b.len().next_multiple_of(4096);
            b.resize(new, 0);
            b.extend(code);
            let last = b.last_mut().expect("code");
            *last ^= 1;
            put(b, at + 8, &(new as u64).to_le_bytes());
        });
    }),
    ("headers", "a private name behind a link", |u| {
        let include = u.folder.join("../include");
        std::fs::create_dir_all(include.join("other")).expect("a folder");
        std::fs::write(include.join("other/h.h"), "int miopenAdd_impl(int, int);").expect("written");
        std::os::unix::fs::symlink("other", include.join("miopen")).expect("a link");
        std::os::unix::fs::symlink(".", include.join("other/circle")).expect("a link");
    }),
    ("original", "a backup that was touched", |u| {
        let path = u.folder.join(format!("{}{WRAPPER}", hipplan_shim::install::BACKUP));
        let mut bytes = std::fs::read(&path).expect("readable");
        bytes.push(0);
        std::fs::write(path, bytes).expect("written");
    }),
    ("relocations", "another addend", |u| {
        u.edit(PRIVATE, |b| {
            let at = relocation(b, |r| r.kind == elf::R_X86_64_RELATIVE.0);
            b[at + 16] ^= 8;
        });
    }),
    ("tables", "a symbol of another size", |u| {
        u.edit(PRIVATE, |b| {
            let (at, _) = symbol(b, "miopenAdd_impl");
            b[at + 16] ^= 1;
        })
    }),
    ("sections", "another instruction", |u| {
        u.edit(PRIVATE, |b| {
            let at = offset(b, ".text");
            b[at + 40] ^= 1;
        })
    }),
];

fn copy_folder(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-a").arg(from).arg(to));
}

#[test]
fn each_check_fails_when_it_must() {
    let Some(workshop) = Workshop::new() else { return };
    let good = workshop.path("good/lib");
    let library = workshop.usual(&good);
    workshop.split(&library, Place::InPlace);
    assert_good(&good, &["files", "headers", "links"]);
    let mut unit = Unit { folder: PathBuf::new(), workshop };
    let mut failed = std::collections::BTreeSet::new();
    for (number, (id, what, doctor)) in DOCTORS.iter().enumerate() {
        let at = unit.workshop.path(&format!("doctored-{number}"));
        copy_folder(good.parent().expect("a folder"), &at);
        unit.folder = at.join("lib");
        doctor(&unit);
        let report = hipplan_shim::check(&unit.folder).unwrap_or_else(|e| panic!("{id}: {what}: {e}"));
        let check = report.checks.iter().find(|c| c.id == *id).expect("a check");
        assert_eq!(check.verdict, Verdict::Failed, "{id}: {what}: {:#?}", report.checks);
        assert!(!check.findings.is_empty() && !report.is_good(), "{id}: {what}");
        failed.insert(*id);
    }
    // Headers are no part of the split, so they come last.
    let at = unit.workshop.path("headers");
    copy_folder(good.parent().expect("a folder"), &at);
    let headers = at.join("include/miopen");
    std::fs::create_dir_all(&headers).expect("a folder");
    let verdict = |text: &str| {
        std::fs::write(headers.join("miopen.h"), text).expect("written");
        let report = hipplan_shim::check(&at.join("lib")).expect("a split");
        report.checks.into_iter().find(|c| c.id == "headers").expect("a check").verdict
    };
    assert_eq!(verdict("int miopenAdd(int, int); /* miopen_impl, handle_impl */\n"), Verdict::Good);
    assert_eq!(verdict("int miopenAdd_impl(int, int);\n"), Verdict::Failed);
    failed.insert("headers");
    // No check is left that was never seen to fail.
    let all = hipplan_shim::check(&good).expect("a split");
    let never: Vec<_> = all.checks.iter().map(|c| c.id).filter(|id| !failed.contains(id)).collect();
    assert_eq!(never, Vec::<&str>::new());
}

/// Where the original cannot be reached, the digests in the manifest tell.
#[test]
fn without_the_original_the_manifest_is_compared() {
    let Some(workshop) = Workshop::new() else { return };
    let library = workshop.usual(&workshop.path("vendor"));
    let prefix = workshop.path("prefix");
    workshop.split(&library, Place::Prefix(prefix.clone()));
    let others = ["files", "headers", "original"];
    std::fs::remove_file(&library).expect("removed");
    assert_good(&prefix, &others);
    let unit = Unit { folder: prefix.join("lib"), workshop };
    unit.edit(PRIVATE, |b| {
        let at = offset(b, ".text");
        b[at + 40] ^= 1;
    });
    let report = hipplan_shim::check(&prefix).expect("a split");
    let failed: Vec<_> = report.checks.iter().filter(|c| c.verdict == Verdict::Failed).map(|c| c.id).collect();
    assert_eq!(failed, ["sections"]);
}

/// A private library of another prefix does not find what the original found.
#[test]
fn a_prefix_without_the_original_folder_is_found() {
    let Some(workshop) = Workshop::new() else { return };
    let library = workshop.usual(&workshop.path("vendor"));
    let prefix = workshop.path("prefix");
    workshop.split(&library, Place::Prefix(prefix.clone()));
    let unit = Unit { folder: prefix.join("lib"), workshop };
    unit.edit(PRIVATE, |b| {
        let at = b.windows(7).rposition(|w| w == b"/vendor").expect("the path");
        put(b, at, b"/wender");
    });
    let report = hipplan_shim::check(&prefix).expect("a split");
    assert!(report.checks.iter().any(|c| c.id == "search-path" && c.verdict == Verdict::Failed));
}
