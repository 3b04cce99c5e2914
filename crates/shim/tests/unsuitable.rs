//! What cannot be split is refused with the reason, and nothing is left behind.

mod common;

use common::{Workshop, run};
use hipplan_shim::install::Place;
use hipplan_shim::{ShimError, Unsuitable};
use std::path::Path;
use std::process::Command;

fn refusal(workshop: &Workshop, from: &Path) -> ShimError {
    let prefix = workshop.path("refused");
    let error = hipplan_shim::split(&workshop.options(from, Place::Prefix(prefix.clone()))).expect_err("refused");
    assert!(!prefix.exists(), "{error}: something is left");
    error
}

fn reason(workshop: &Workshop, bytes: &[u8]) -> Unsuitable {
    let file = workshop.path("libMIOpen.so.1");
    std::fs::write(&file, bytes).expect("written");
    match refusal(workshop, &file) {
        ShimError::Unsuitable { reason, .. } => reason,
        error => panic!("{error}"),
    }
}

#[test]
fn each_reason_is_told() {
    let Some(workshop) = Workshop::new() else { return };
    let library = workshop.usual(&workshop.path("lib"));
    let good = std::fs::read(&library).expect("readable");
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        reason(&workshop, &bytes)
    };
    assert_eq!(reason(&workshop, b""), Unsuitable::NotElf);
    assert_eq!(reason(&workshop, b"#!/bin/sh\n"), Unsuitable::NotElf);
    assert_eq!(reason(&workshop, &good[..40]), Unsuitable::NotElf);
    assert!(matches!(with(&|b| b[18] = 183), Unsuitable::Machine { machine: 183, .. }));
    assert!(matches!(with(&|b| b[4] = 1), Unsuitable::Machine { class: 1, .. }));
    assert_eq!(with(&|b| b[16] = 2), Unsuitable::NotShared(2));
    assert_eq!(with(&|b| b[40..48].fill(0)), Unsuitable::NoSections);
    assert!(matches!(with(&|b| b.truncate(8192)), Unsuitable::Layout(_)));
    // DT_NULL in the place of the first entry: nothing is known of the library.
    let compile = |name: &str, code: &str, options: &[&str]| {
        let (source, output) = (workshop.path("x.c"), workshop.path(name));
        std::fs::write(&source, code).expect("written");
        run(Command::new("cc").arg("-o").arg(&output).arg(&source).args(options));
        output
    };
    let why = |file: &Path| match refusal(&workshop, file) {
        ShimError::Unsuitable { reason, .. } => reason,
        error => panic!("{error}"),
    };
    let shared = ["-shared", "-fPIC"];
    assert_eq!(why(&compile("a.so", "int miopenAdd(void) { return 1; }", &shared)), Unsuitable::NoSoname);
    let named = ["-shared", "-fPIC", "-Wl,-soname,libMIOpen.so.1"];
    assert_eq!(
        why(&compile("b.so", "int other(void) { return 1; } int miopen_x(void) { return 1; } int miopenData;", &named)),
        Unsuitable::NoNames
    );
    let both = "int miopenAdd(void) { return 1; } int miopenAdd_impl(void) { return 1; }";
    assert_eq!(why(&compile("c.so", both, &named)), Unsuitable::Collision("miopenAdd".to_owned()));
    let private = "int miopenAdd_impl(void) { return 1; }";
    assert_eq!(why(&compile("d.so", private, &named)), Unsuitable::IsPrivate("miopenAdd_impl".to_owned()));
    let odd = ["-shared", "-fPIC", "-Wl,-soname,miopen"];
    assert_eq!(why(&compile("e.so", "int miopenAdd(void) { return 1; }", &odd)), Unsuitable::Soname("miopen".to_owned()));
    let text = ["-shared", "-fPIC", "-Wl,-soname,libMIOpen.so.1", "-Wl,-z,notext"];
    let relocated = "int miopenAdd(void) { return 1; }\n__asm__(\".text\\n.quad miopenAdd\\n\");";
    assert_eq!(why(&compile("f.so", relocated, &text)), Unsuitable::TextRelocations);
    let program = compile("program", "int main(void) { return 0; }", &["-no-pie", "-static"]);
    assert_eq!(why(&program), Unsuitable::NotShared(2));
    let object = compile("object.o", "int miopenAdd(void) { return 1; }", &["-c"]);
    assert_eq!(why(&object), Unsuitable::NotShared(1));
}

#[test]
fn without_the_shim_library_nothing_is_done() {
    let Some(workshop) = Workshop::new() else { return };
    // A build puts the shim library beside the tests: then this one runs elsewhere.
    let program = std::env::current_exe().expect("a program");
    if program.parent().is_some_and(|folder| folder.join("libhipplan_miopen.so").exists()) {
        let copy = workshop.path("alone-test");
        std::fs::create_dir(&copy).expect("a folder");
        // By another process: a child that another test starts would keep a file open that this one writes, and the program would be busy.
        run(Command::new("cp").arg(&program).arg(copy.join("test")));
        let mut alone = Command::new(copy.join("test"));
        common::run(alone.args(["--exact", "without_the_shim_library_nothing_is_done"]));
        return;
    }
    let library = workshop.usual(&workshop.path("lib"));
    let with = |name: &str, file: &Path| {
        let folder = workshop.path(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::copy(file, folder.join("libhipplan_miopen.so.0")).expect("copied");
        let mut options = workshop.options(&library, Place::Prefix(workshop.path("refused")));
        options.library_folders = vec![folder];
        let error = hipplan_shim::split(&options).expect_err("refused");
        assert!(!workshop.path("refused").exists());
        error
    };
    let mut options = workshop.options(&library, Place::Prefix(workshop.path("refused")));
    options.library_folders.clear();
    let error = hipplan_shim::split(&options).expect_err("refused");
    assert!(matches!(&error, ShimError::NoShimLibrary { looked, .. } if looked.contains("../lib")), "{error}");
    assert!(matches!(with("wrong", &library), ShimError::NotShimLibrary { .. }));
    let compile = |name: &str, code: &str| {
        let (source, output) = (workshop.path("x.c"), workshop.path(name));
        std::fs::write(&source, code).expect("written");
        run(Command::new("cc").args(["-shared", "-fPIC", "-Wl,-soname,libhipplan_miopen.so.0", "-o"]).arg(&output).arg(&source));
        output
    };
    let error = with("none", &compile("none.so", "int x;"));
    assert!(error.to_string().contains("does not export miopen_forwarding_attach"), "{error}");
    let leaky = "void hipplan_open(void); void miopen_forwarding_attach(void *t) { (void)t; hipplan_open(); }";
    let error = with("leaky", &compile("leaky.so", leaky));
    assert!(error.to_string().contains("refers to hipplan_open"), "{error}");
}

/// A byte changed anywhere in the tables: refused or split, never a panic, and what is split passes its own checks.
#[test]
fn damaged_tables_do_no_harm() {
    let Some(workshop) = Workshop::new() else { return };
    let library = workshop.usual(&workshop.path("lib"));
    let good = std::fs::read(&library).expect("readable");
    let tables = hipplan_shim::elf::Elf::read(&good).expect("a library");
    let code = tables.sections.iter().find(|s| s.name == b".text").expect("code").range();
    let (mut refused, mut split) = (0, 0);
    for at in (0..good.len()).step_by(3).filter(|&at| !code.contains(&(at as u64))) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        let Ok(elf) = hipplan_shim::elf::Elf::read(&bytes) else {
            refused += 1;
            continue;
        };
        let request = hipplan_shim::private::Request { rename: true, soname: Some("libMIOpen_private.so.1"), runpath: None };
        match hipplan_shim::private::plan(&elf, &request) {
            Err(_) => refused += 1,
            Ok(patch) => split += usize::from(patch.applied(&bytes, bytes.len() * 4).is_some()),
        }
    }
    println!("{refused} refused, {split} split");
    assert!(refused > 100 && split > 100);
}
