//! Splits libraries of every linker and form, and runs a program that was linked with the original.

mod common;

use common::{FORWARDED, PRINTED, Workshop, assert_good, linkers, run, run_with};
use hipplan_shim::install::Place;
use std::process::Command;

const HASHES: [&str; 3] = ["gnu", "sysv", "both"];
/// Not checked here: no runtime library, no headers.
const WITHOUT: [&str; 2] = ["files", "headers"];

#[test]
fn every_linker_and_form() {
    let Some(workshop) = Workshop::new() else { return };
    let map = format!("-Wl,--version-script={}", workshop.path("versions.map").display());
    let mut made = std::collections::BTreeMap::<String, usize>::new();
    let mut consumers = [None, None];
    for linker in linkers(&workshop.path("")) {
        for (number, (hash, form)) in HASHES.iter().flat_map(|h| (0..8).map(move |form| (h, form))).enumerate() {
            let (relr, stripped, versioned) = (form & 1 != 0, form & 2 != 0, form & 4 != 0);
            let mut options = vec![format!("-Wl,--hash-style={hash}")];
            options.extend(relr.then(|| "-Wl,-z,pack-relative-relocs".to_owned()));
            options.extend(stripped.then(|| "-s".to_owned()));
            options.extend(versioned.then(|| map.clone()));
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let place = workshop.path(&format!("{}-{number}", linker.name));
            let what = format!("{} {options:?}", linker.name);
            let Some(library) = workshop.library(&place.join("lib"), "libMIOpen.so.1", Some(&linker), &options) else {
                assert!(relr, "{what}: not linked");
                continue;
            };
            let consumer =
                consumers[usize::from(versioned)].get_or_insert_with(|| workshop.consumer(&library, &format!("consumer-{versioned}")));
            assert_eq!(run_with(consumer, &place.join("lib"), false), PRINTED, "{what}: the original");
            let split = place.join("split");
            workshop.split(&library, Place::Prefix(split.clone()));
            assert_good(&split, &WITHOUT);
            assert_eq!(run_with(consumer, &split.join("lib"), false), PRINTED, "{what}: split");
            assert_eq!(run_with(consumer, &split.join("lib"), true), FORWARDED, "{what}: forwarded");
            let warnings = Command::new("readelf")
                .args(["-aW"])
                .args([split.join("lib/libMIOpen.so.1"), split.join("lib/libMIOpen_private.so.1")])
                .output();
            if let Ok(output) = warnings {
                let text = String::from_utf8_lossy(&output.stderr);
                assert!(!text.contains("Warning") && !text.contains("Error"), "{what}: {text}");
            }
            *made.entry(linker.name.clone()).or_default() += 1;
            std::fs::remove_dir_all(place).expect("removed");
        }
    }
    println!("{made:?}");
    // Without RELR, which not every linker has, there are twelve forms.
    assert!(!made.is_empty() && made.values().all(|&n| n >= 12), "{made:?}");
    assert!(made.iter().any(|(_, &n)| n == 24), "no linker made RELR: {made:?}");
}

/// Layouts in which other things lie behind the program headers, or segments are placed in another way.
#[test]
fn unusual_layouts() {
    let Some(workshop) = Workshop::new() else { return };
    let interpreter = workshop.path("interpreter.c");
    std::fs::write(&interpreter, "const char path[] __attribute__((section(\".interp\"))) = \"/lib64/ld-linux-x86-64.so.2\";\n")
        .expect("written");
    let interpreter = interpreter.display().to_string();
    let map = format!("-Wl,--version-script={}", workshop.path("versions.map").display());
    let layouts: [&[&str]; 8] = [
        &["-Wl,-z,noseparate-code"],
        &["-Wl,-z,separate-code", "-Wl,-z,max-page-size=2097152"],
        &["-Wl,-z,norelro", "-Wl,-z,lazy"],
        &["-Wl,-z,now", "-Wl,--no-eh-frame-hdr"],
        &["-Wl,--build-id=none"],
        // The path of the program interpreter cannot move: the program headers must.
        &[&interpreter],
        &["-Wl,--image-base=0x10000000", "-Wl,-rpath,$ORIGIN/../lib:/opt/other"],
        &["-Wl,-Bsymbolic", "-Wl,--disable-new-dtags", "-Wl,-rpath,/opt/other"],
    ];
    let mut made = 0;
    let linkers = linkers(&workshop.path(""));
    for linker in &linkers {
        for (number, layout) in layouts.iter().enumerate() {
            let place = workshop.path(&format!("{}-{number}", linker.name));
            let options: Vec<&str> = layout.iter().copied().chain([map.as_str()]).collect();
            let Some(library) = workshop.library(&place, "libMIOpen.so.1", Some(linker), &options) else { continue };
            let consumer = workshop.consumer(&library, "consumer");
            let what = format!("{} {options:?}", linker.name);
            assert_eq!(run_with(&consumer, &place, false), PRINTED, "{what}: the original");
            for in_place in [false, true] {
                let (folder, to) =
                    if in_place { (place.clone(), Place::InPlace) } else { (place.join("split/lib"), Place::Prefix(place.join("split"))) };
                workshop.split(&library, to);
                assert_good(&folder, &["files", "headers", "links", "build-id"]);
                assert_eq!(run_with(&consumer, &folder, false), PRINTED, "{what}: split");
            }
            made += 1;
        }
    }
    // No linker knows fewer than five of them.
    assert!(!linkers.is_empty() && made >= 5 * linkers.len(), "{made} layouts of {linkers:?}");
}

/// What packagers do to libraries afterwards.
#[test]
fn stripped_after_the_split() {
    let Some(workshop) = Workshop::new() else { return };
    for linker in linkers(&workshop.path("")) {
        let place = workshop.path(&linker.name);
        let map = format!("-Wl,--version-script={}", workshop.path("versions.map").display());
        let library = workshop.library(&place, "libMIOpen.so.1", Some(&linker), &[&map]).expect("a library");
        let consumer = workshop.consumer(&library, "consumer");
        workshop.split(&library, Place::Prefix(place.join("split")));
        let folder = place.join("split/lib");
        run(Command::new("strip").args(["--strip-all"]).args([folder.join("libMIOpen.so.1"), folder.join("libMIOpen_private.so.1")]));
        assert_eq!(run_with(&consumer, &folder, true), FORWARDED, "{}", linker.name);
    }
}

/// One name in two versions: each keeps its own code, and only the default one can be forwarded.
#[test]
fn names_in_two_versions() {
    let Some(workshop) = Workshop::new() else { return };
    let place = workshop.path("two");
    std::fs::create_dir_all(&place).expect("a folder");
    let library = "int old(int a, int b) { return a - b; }\nint new(int a, int b) { return a + b; }\n\
                   __asm__(\".symver old, miopenAdd@MIOPEN_0\\n.symver new, miopenAdd@@MIOPEN_1\");\nint miopenOther(void) { return 1; }\n";
    let consumer = "#include <stdio.h>\nint was(int, int), miopenAdd(int, int);\n__asm__(\".symver was, miopenAdd@MIOPEN_0\");\n\
                    int main(void) { printf(\"%d %d\\n\", was(7, 2), miopenAdd(7, 2)); return 0; }\n";
    std::fs::write(place.join("library.c"), library).expect("written");
    std::fs::write(place.join("consumer.c"), consumer).expect("written");
    std::fs::write(
        place.join("map"),
        "MIOPEN_0 { global: miopenAdd; local: *; };\nMIOPEN_1 { global: miopenAdd; miopenOther; } MIOPEN_0;\n",
    )
    .expect("written");
    let at = |name: &str| place.join(name);
    run(Command::new("cc")
        .args(["-shared", "-fPIC", "-fno-lto", "-Wl,-soname,libMIOpen.so.1", "-o"])
        .arg(at("libMIOpen.so.1"))
        .arg(at("library.c"))
        .arg(format!("-Wl,--version-script={}", at("map").display())));
    run(Command::new("cc").arg("-o").arg(at("consumer")).arg(at("consumer.c")).arg(at("libMIOpen.so.1")));
    assert_eq!(run_with(&at("consumer"), &place, false), "5 9\n");
    let report = workshop.split(&at("libMIOpen.so.1"), Place::Prefix(at("split")));
    assert_eq!(report.manifest.names, ["miopenAdd@MIOPEN_0", "miopenAdd@@MIOPEN_1", "miopenOther@@MIOPEN_1"]);
    assert_eq!(report.manifest.nodes, [vec!["MIOPEN_0".to_owned()], vec!["MIOPEN_1".to_owned(), "MIOPEN_0".to_owned()]]);
    assert_good(&at("split"), &WITHOUT);
    assert_eq!(run_with(&at("consumer"), &at("split/lib"), false), "5 9\n");
    assert_eq!(run_with(&at("consumer"), &at("split/lib"), true), "5 1009\n");
}
