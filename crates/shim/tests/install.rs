//! What a split leaves on disk: in a prefix, in place, in a wheel; again, undone, and over what others have put there.

mod common;

use common::{PRINTED, Workshop, assert_good, run_with};
use hipplan_shim::ShimError;
use hipplan_shim::install::{BACKUP, Place};
use hipplan_shim::manifest;
use hipplan_shim::status::{self, State};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Every entry of a folder: a file's inode, mode, time and bytes, or where a link leads.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (u64, u32, i64, Vec<u8>)> {
    let mut entries = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry")) {
        let metadata = entry.path().symlink_metadata().expect("there");
        let bytes = match metadata.is_symlink() {
            true => std::fs::read_link(entry.path()).expect("a link").into_os_string().into_encoded_bytes(),
            false => std::fs::read(entry.path()).unwrap_or_default(),
        };
        entries.insert(entry.path(), (metadata.ino(), metadata.permissions().mode(), metadata.mtime_nsec() + metadata.mtime(), bytes));
    }
    entries
}

const USUALLY: [&str; 3] = ["files", "headers", "links"];

#[test]
fn in_place_and_back_leaves_no_trace() {
    let Some(workshop) = Workshop::new() else { return };
    let folder = workshop.path("lib");
    let library = workshop.usual(&folder);
    std::fs::set_permissions(&library, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let consumer = workshop.consumer(&library, "consumer");
    let before = tree(&folder);

    let report = workshop.split(&folder.join("libMIOpen.so"), Place::InPlace);
    assert_eq!(report.folder, folder);
    assert!(!report.is_unchanged);
    assert_good(&folder, &USUALLY);
    assert_eq!(run_with(&consumer, &folder, false), PRINTED);
    assert_eq!(library.metadata().expect("there").permissions().mode() & 0o777, 0o755);
    // Nothing that ldconfig would take for another libMIOpen.so.1.
    let names: Vec<String> = tree(&folder).into_keys().map(|p| p.file_name().expect("a name").to_string_lossy().into_owned()).collect();
    let libraries: Vec<_> = names.iter().filter(|n| n.starts_with("lib") && !n.contains("hipplan")).collect();
    assert_eq!(libraries, ["libMIOpen.so", "libMIOpen.so.1", "libMIOpen.so.1.0", "libMIOpen_private.so", "libMIOpen_private.so.1"]);

    // Again: nothing changes, down to the inodes.
    let split = tree(&folder);
    assert!(workshop.split(&library, Place::InPlace).is_unchanged);
    assert_eq!(tree(&folder), split);

    let undone = hipplan_shim::unsplit(&folder).expect("undone");
    assert_eq!(undone.restored, Some(library.clone()));
    assert_eq!(tree(&folder), before);
    assert_eq!(run_with(&consumer, &folder, false), PRINTED);
    assert!(matches!(hipplan_shim::unsplit(&folder), Err(ShimError::NoManifest { .. })));
}

#[test]
fn a_prefix_comes_and_goes() {
    let Some(workshop) = Workshop::new() else { return };
    let vendor = workshop.path("opt/rocm/lib");
    let library = workshop.usual(&vendor);
    let database = workshop.path("opt/rocm/share/miopen/db");
    std::fs::create_dir_all(&database).expect("a folder");
    std::fs::write(database.join("gfx942.db"), "tuned").expect("written");
    let before = tree(&vendor);
    let prefix = workshop.path("new/prefix");

    let report = workshop.split(&library, Place::Prefix(prefix.clone()));
    assert_good(&prefix, &["files", "headers"]);
    assert_eq!(tree(&vendor), before);
    let lib = prefix.join("lib");
    for name in ["libMIOpen.so", "libMIOpen.so.1.0"] {
        assert_eq!(std::fs::read_link(lib.join(name)).expect("a link"), Path::new("libMIOpen.so.1"), "{name}");
    }
    // MIOpen finds its databases from where the private library is.
    assert_eq!(std::fs::read(prefix.join("share/miopen/db/gfx942.db")).expect("readable"), b"tuned");
    assert!(report.remarks.iter().any(|r| r.contains("libhipplan.so.0")), "{:?}", report.remarks);
    assert!(workshop.split(&library, Place::Prefix(prefix.clone())).is_unchanged);

    // The runtime library appears: it is taken along.
    std::fs::copy(common::run_library(&workshop), workshop.libs().join("libhipplan.so.0")).expect("copied");
    let report = workshop.split(&library, Place::Prefix(prefix.clone()));
    assert!(!report.is_unchanged && report.manifest.runtime.is_some() && report.remarks.is_empty());
    assert_good(&prefix, &["headers"]);

    // Foreign files stay, and with them the folders.
    std::fs::write(lib.join("other.txt"), "mine").expect("written");
    hipplan_shim::unsplit(&prefix).expect("undone");
    assert_eq!(tree(&lib).into_keys().collect::<Vec<_>>(), [lib.join("other.txt")]);
    assert!(!prefix.join("share").exists());
    assert_eq!(std::fs::read(database.join("gfx942.db")).expect("readable"), b"tuned");

    std::fs::remove_file(lib.join("other.txt")).expect("removed");
    std::fs::remove_dir_all(workshop.path("new")).expect("removed");
    workshop.split(&library, Place::Prefix(prefix.clone()));
    hipplan_shim::unsplit(&lib).expect("undone");
    assert!(!workshop.path("new").exists(), "folders made for the split go with it");
}

/// `torch/lib/libMIOpen.so`: the file has not the SONAME as its name, or a name with a hash; many other libraries lie beside it.
#[test]
fn in_a_wheel() {
    let Some(workshop) = Workshop::new() else { return };
    let map = format!("-Wl,--version-script={}", workshop.path("versions.map").display());
    for (number, (file, soname, private)) in [
        ("libMIOpen.so", "libMIOpen.so.1", "libMIOpen_private.so.1"),
        ("libMIOpen.so", "libMIOpen.so", "libMIOpen_private.so"),
        ("libMIOpen-1a2b3c4d.so.1.0", "libMIOpen-1a2b3c4d.so.1.0", "libMIOpen-1a2b3c4d_private.so.1.0"),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = workshop.path(&format!("wheel-{number}/torch/lib"));
        let library = workshop.library(&folder, file, None, &[&map, &format!("-Wl,-soname,{soname}")]).expect("a library");
        std::fs::write(folder.join("libtorch.so"), "other").expect("written");
        let consumer = workshop.consumer(&library, "consumer");
        if file != soname {
            // What needs it was changed to need it by its file name.
            symlink(file, folder.join(soname)).expect("a link");
        }
        let before = tree(&folder);
        let report = workshop.split(&library, Place::InPlace);
        assert_eq!((report.manifest.soname.as_str(), report.manifest.private.file.name.as_str()), (soname, private));
        assert_good(&folder, &USUALLY);
        assert_eq!(run_with(&consumer, &folder, false), PRINTED, "{file}");
        hipplan_shim::unsplit(&library).expect("undone");
        assert_eq!(tree(&folder), before, "{file}");
    }
}

/// A package manager replaces the wrapper by a newer MIOpen.
#[test]
fn an_update_over_a_split() {
    let Some(workshop) = Workshop::new() else { return };
    let folder = workshop.path("lib");
    let library = workshop.usual(&folder);
    workshop.split(&library, Place::InPlace);
    let update = || {
        std::fs::remove_file(&library).expect("removed");
        let map = format!("-Wl,--version-script={}", workshop.path("versions.map").display());
        workshop.library(&folder, "libMIOpen.so.1.0", None, &[&map, "-Wl,--build-id=0x12345678"]).expect("a library");
        std::fs::read(&library).expect("readable")
    };
    let newer = update();
    assert!(matches!(status::installed(&folder).expect("a split").state, State::Replaced(_)));
    // Undone, the update stays.
    let undone = hipplan_shim::unsplit(&folder).expect("undone");
    assert!(undone.restored.is_none() && !undone.remarks.is_empty());
    assert_eq!(std::fs::read(&library).expect("readable"), newer);
    assert_eq!(tree(&folder).len(), 3);
    // Split again, it is followed.
    workshop.split(&library, Place::InPlace);
    let newer = update();
    workshop.split(&library, Place::InPlace);
    assert_good(&folder, &USUALLY);
    assert_eq!(std::fs::read(folder.join(format!("{BACKUP}libMIOpen.so.1.0"))).expect("readable"), newer);
    hipplan_shim::unsplit(&folder).expect("undone");
    assert_eq!(std::fs::read(&library).expect("readable"), newer);
}

/// What another tool split: only the wrapper is replaced.
#[test]
fn a_pair_gets_a_new_wrapper() {
    let Some(workshop) = Workshop::new() else { return };
    // The pair is made as upstream makes it: a wrapper of plain calls, a private library that was compiled with private names.
    let folder = workshop.path("pair");
    let vendor = workshop.path("vendor");
    workshop.usual(&vendor);
    workshop.split(&vendor.join("libMIOpen.so"), Place::Prefix(workshop.path("made")));
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::copy(workshop.path("made/lib/libMIOpen_private.so.1"), folder.join("libMIOpen_private.so.1.0")).expect("copied");
    symlink("libMIOpen_private.so.1.0", folder.join("libMIOpen_private.so.1")).expect("a link");
    let names = ["Add", "Tls", "Plt", "Table", "Self", "Many_V2", "Big", "Sum", "Chosen", "Constructed"];
    let stubs = |more: &str| {
        let code: String = names
            .iter()
            .map(|n| format!("__asm__(\".globl miopen{n}\\n.type miopen{n},@function\\nmiopen{n}: jmp miopen{n}_impl@PLT\");\n"))
            .collect();
        let source = workshop.path("stubs.c");
        std::fs::write(&source, format!("{code}int miopenGetLastForwardedError(void) {{ return 0; }}\n{more}\n")).expect("written");
        let map = workshop.path("public.map");
        let nodes = "MIOPEN_HIP_1 { global: miopen*; local: *; };\n";
        std::fs::write(&map, nodes).expect("written");
        let mut cc = std::process::Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wl,-soname,libMIOpen.so.1", "-Wl,-rpath,$ORIGIN", "-o"])
            .arg(folder.join("libMIOpen.so.1.0"))
            .arg(source);
        common::run(cc.arg(format!("-Wl,--version-script={}", map.display())).arg(folder.join("libMIOpen_private.so.1")));
        folder.join("libMIOpen.so.1.0")
    };
    let wrapper = stubs("");
    symlink("libMIOpen.so.1.0", folder.join("libMIOpen.so.1")).expect("a link");
    let consumer = workshop.consumer(&vendor.join("libMIOpen.so.1.0"), "consumer");
    assert_eq!(run_with(&consumer, &folder, false), PRINTED, "as it came");
    let before = tree(&folder);

    let report = workshop.split(&wrapper, Place::InPlace);
    assert_eq!(report.manifest.private.origin, manifest::Origin::Kept);
    assert_good(&folder, &USUALLY);
    assert_eq!(run_with(&consumer, &folder, true), common::FORWARDED);
    assert!(workshop.split(&wrapper, Place::InPlace).is_unchanged);
    hipplan_shim::unsplit(&folder).expect("undone");
    assert_eq!(tree(&folder), before);

    // Into a prefix, with a private library that finds what it found.
    let prefix = workshop.path("prefix");
    workshop.split(&wrapper, Place::Prefix(prefix.clone()));
    assert_good(&prefix, &["files", "headers"]);
    assert_eq!(run_with(&consumer, &prefix.join("lib"), true), common::FORWARDED);
    assert_eq!(tree(&folder), before);

    // A wrapper with something of its own would lose it.
    let wrapper = stubs("int miopenOnlyHere(void) { return 1; }");
    let error = hipplan_shim::split(&workshop.options(&wrapper, Place::InPlace)).expect_err("refused");
    assert!(error.to_string().contains("miopenOnlyHere"), "{error}");
    // And one without its private library is nothing.
    std::fs::remove_file(folder.join("libMIOpen_private.so.1")).expect("removed");
    let error = hipplan_shim::split(&workshop.options(&wrapper, Place::InPlace)).expect_err("refused");
    assert!(error.to_string().contains("libMIOpen_private.so.1 is not there"), "{error}");
}

/// Our own wrapper is known as such, wherever it is named.
#[test]
fn our_own_split_as_input() {
    let Some(workshop) = Workshop::new() else { return };
    let library = workshop.usual(&workshop.path("vendor"));
    let (first, second) = (workshop.path("first"), workshop.path("second"));
    workshop.split(&library, Place::Prefix(first.clone()));
    // The original is still there, so it is what is split.
    let report = workshop.split(&first.join("lib/libMIOpen.so.1"), Place::Prefix(second.clone()));
    assert_eq!(report.manifest.private.origin, manifest::Origin::Renamed);
    assert_good(&second, &["files", "headers"]);
    // It is gone: what is left is a pair.
    std::fs::remove_file(&library).expect("removed");
    let third = workshop.path("third");
    let report = workshop.split(&first.join("lib/libMIOpen.so.1"), Place::Prefix(third.clone()));
    assert_eq!(report.manifest.private.origin, manifest::Origin::Kept);
    assert_good(&third, &["files", "headers"]);
}

#[test]
fn nothing_of_others_is_overwritten() {
    let Some(workshop) = Workshop::new() else { return };
    let library = workshop.usual(&workshop.path("vendor"));
    for name in ["libMIOpen.so.1", "libMIOpen_private.so.1", "libhipplan_miopen.so.0", "libMIOpen.so"] {
        let prefix = workshop.path(&format!("prefix-{name}"));
        std::fs::create_dir_all(prefix.join("lib")).expect("a folder");
        std::fs::write(prefix.join("lib").join(name), "mine").expect("written");
        let error = hipplan_shim::split(&workshop.options(&library, Place::Prefix(prefix.clone()))).expect_err("refused");
        assert!(matches!(&error, ShimError::InTheWay { path } if path.ends_with(name)), "{name}: {error}");
        assert_eq!(tree(&prefix.join("lib")).into_values().map(|v| v.3).collect::<Vec<_>>(), [b"mine"], "{name}");
    }
    let error = hipplan_shim::split(&workshop.options(&library, Place::Prefix(workshop.path("vendor")))).map(|_| ());
    assert!(error.is_ok(), "a prefix beside the library is another folder: {error:?}");
    let into_itself = workshop.options(&library, Place::Prefix(workshop.path("p")));
    std::fs::create_dir_all(workshop.path("p")).expect("a folder");
    symlink(workshop.path("vendor"), workshop.path("p/lib")).expect("a link");
    assert!(matches!(hipplan_shim::split(&into_itself), Err(ShimError::SameFolder { .. })));
}

#[test]
fn a_backup_that_was_touched_is_not_restored() {
    let Some(workshop) = Workshop::new() else { return };
    let folder = workshop.path("lib");
    let library = workshop.usual(&folder);
    workshop.split(&library, Place::InPlace);
    let backup = folder.join(format!("{BACKUP}libMIOpen.so.1.0"));
    std::fs::write(&backup, "broken").expect("written");
    let before = tree(&folder);
    assert!(matches!(hipplan_shim::unsplit(&folder), Err(ShimError::Backup { .. })));
    assert_eq!(tree(&folder), before);
}

#[test]
fn one_command_at_a_time() {
    let Some(workshop) = Workshop::new() else { return };
    let folder = workshop.path("lib");
    let library = workshop.usual(&folder);
    let lock = hipplan_shim::file::Lock::take(&folder).expect("free");
    assert!(matches!(hipplan_shim::split(&workshop.options(&library, Place::InPlace)), Err(ShimError::Busy { .. })));
    drop(lock);
    workshop.split(&library, Place::InPlace);
}

/// The way back is never lost: a split over a split whose original is missing, damaged or unknown is refused, and changes nothing.
#[test]
fn a_split_without_its_backup_is_not_split_again() {
    let Some(workshop) = Workshop::new() else { return };
    type Spoil = fn(&Path);
    let spoils: [(&str, Spoil); 4] = [
        ("the backup is missing", |f| std::fs::remove_file(f.join(format!("{BACKUP}libMIOpen.so.1.0"))).expect("removed")),
        ("the backup is damaged", |f| std::fs::write(f.join(format!("{BACKUP}libMIOpen.so.1.0")), "broken").expect("written")),
        ("the manifest is gone", |f| std::fs::remove_file(f.join(manifest::NAME)).expect("removed")),
        ("the manifest is damaged", |f| std::fs::write(f.join(manifest::NAME), "{").expect("written")),
    ];
    for (number, (what, spoil)) in spoils.into_iter().enumerate() {
        let folder = workshop.path(&format!("lib-{number}"));
        let library = workshop.usual(&folder);
        workshop.split(&library, Place::InPlace);
        spoil(&folder);
        let before = tree(&folder);
        let error = hipplan_shim::split(&workshop.options(&library, Place::InPlace)).expect_err(what);
        assert!(matches!(error, ShimError::Backup { .. }), "{what}: {error}");
        assert_eq!(tree(&folder), before, "{what}");
    }
    // A file that has the backup's name and that nobody knows.
    let folder = workshop.path("lib");
    let library = workshop.usual(&folder);
    std::fs::write(folder.join(format!("{BACKUP}libMIOpen.so.1.0")), "somebody's").expect("written");
    let before = tree(&folder);
    let error = hipplan_shim::split(&workshop.options(&library, Place::InPlace)).expect_err("refused");
    assert!(matches!(error, ShimError::InTheWay { .. }), "{error}");
    assert_eq!(tree(&folder), before);
}

/// A link from another folder, such as a virtual environment's into a cache, does not say that the cache may be changed.
#[test]
fn in_place_is_where_the_file_is() {
    let Some(workshop) = Workshop::new() else { return };
    let library = workshop.usual(&workshop.path("cache"));
    let venv = workshop.path("venv");
    std::fs::create_dir(&venv).expect("a folder");
    symlink(&library, venv.join("libMIOpen.so")).expect("a link");
    symlink(workshop.path("cache"), workshop.path("alias")).expect("a link");
    let before = (tree(&venv), tree(&workshop.path("cache")));
    let error = hipplan_shim::split(&workshop.options(&venv.join("libMIOpen.so"), Place::InPlace)).expect_err("refused");
    assert!(matches!(&error, ShimError::Elsewhere { real, .. } if *real == library), "{error}");
    assert_eq!((tree(&venv), tree(&workshop.path("cache"))), before);
    // Nor does the wrapper in a prefix.
    workshop.split(&library, Place::Prefix(workshop.path("prefix")));
    let error = hipplan_shim::split(&workshop.options(&workshop.path("prefix/lib/libMIOpen.so.1"), Place::InPlace)).expect_err("refused");
    assert!(matches!(&error, ShimError::Elsewhere { .. }), "{error}");
    assert_eq!(tree(&workshop.path("cache")), before.1);
    // The same folder by another name is the same folder.
    workshop.split(&workshop.path("alias/libMIOpen.so"), Place::InPlace);
}

/// The prefix is that of an installed hipplan: its libraries are used where they are, and stay.
#[test]
fn an_installed_hipplan_outlives_a_split() {
    let Some(workshop) = Workshop::new() else { return };
    let library = workshop.usual(&workshop.path("vendor"));
    let (prefix, lib) = (workshop.path("local"), workshop.path("local/lib"));
    std::fs::create_dir_all(&lib).expect("a folder");
    std::fs::copy(workshop.libs().join("libhipplan_miopen.so.0"), lib.join("libhipplan_miopen.so.0")).expect("copied");
    std::fs::copy(common::run_library(&workshop), lib.join("libhipplan.so.0.1")).expect("copied");
    symlink("libhipplan.so.0.1", lib.join("libhipplan.so.0")).expect("a link");
    let before = tree(&lib);
    let mut options = workshop.options(&library, Place::Prefix(prefix.clone()));
    options.library_folders = vec![lib.clone()];
    let report = hipplan_shim::split(&options).expect("split");
    assert_eq!(report.manifest.preexisting, ["libhipplan_miopen.so.0", "libhipplan.so.0"]);
    assert!(hipplan_shim::split(&options).expect("split").is_unchanged);
    assert_good(&prefix, &["headers"]);
    hipplan_shim::unsplit(&prefix).expect("undone");
    assert_eq!(tree(&lib), before);

    // Another hipplan's library is not replaced.
    std::fs::write(workshop.path("other.c"), "int hipplan_version(void) { return 2; }\n").expect("written");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-shared", "-fPIC", "-Wl,-soname,libhipplan.so.0", "-o"]).arg(workshop.libs().join("libhipplan.so.0"));
    common::run(cc.arg(workshop.path("other.c")));
    let error = hipplan_shim::split(&workshop.options(&library, Place::Prefix(prefix.clone()))).expect_err("refused");
    assert!(matches!(&error, ShimError::InTheWay { path } if path.ends_with("libhipplan.so.0")), "{error}");
    assert_eq!(tree(&lib), before);

    // What a split put there, and hipplan's installation replaced since, stays too.
    let prefix = workshop.path("second");
    workshop.split(&library, Place::Prefix(prefix.clone()));
    std::fs::copy(common::run_library(&workshop), prefix.join("lib/libhipplan.so.0")).expect("copied");
    let report = hipplan_shim::unsplit(&prefix).expect("undone");
    assert!(report.remarks.iter().any(|r| r.contains("libhipplan.so.0: is not what the split put there")), "{report:?}");
    assert_eq!(tree(&prefix.join("lib")).into_keys().collect::<Vec<_>>(), [prefix.join("lib/libhipplan.so.0")]);
}

/// What is called libhipplan.so.0 is looked at.
#[test]
fn a_runtime_library_is_one() {
    let Some(workshop) = Workshop::new() else { return };
    let library = workshop.usual(&workshop.path("vendor"));
    let runtime = workshop.libs().join("libhipplan.so.0");
    let options = workshop.options(&library, Place::Prefix(workshop.path("prefix")));
    let refused = |what: &str| {
        let error = hipplan_shim::split(&options).expect_err(what);
        assert!(matches!(&error, ShimError::NotRuntimeLibrary { path, .. } if *path == runtime), "{what}: {error}");
        assert!(error.to_string().contains(what), "{error}");
        assert!(!workshop.path("prefix").exists());
    };
    std::fs::write(&runtime, "INPUT(libother.so)").expect("written");
    refused("not an ELF file");
    std::fs::copy(workshop.libs().join("libhipplan_miopen.so.0"), &runtime).expect("copied");
    refused("its SONAME is libhipplan_miopen.so.0");
    std::fs::write(workshop.path("other.c"), "int other(void) { return 2; }\n").expect("written");
    let mut cc = std::process::Command::new("cc");
    common::run(cc.args(["-shared", "-fPIC", "-Wl,-soname,libhipplan.so.0", "-o"]).arg(&runtime).arg(workshop.path("other.c")));
    refused("it does not export hipplan_version");
}

/// An update brings a file of another name and takes the one that was split.
#[test]
fn an_update_with_another_file_name() {
    let Some(workshop) = Workshop::new() else { return };
    for is_followed in [true, false] {
        let folder = workshop.path(&format!("lib-{is_followed}"));
        let library = workshop.usual(&folder);
        workshop.split(&library, Place::InPlace);
        std::fs::remove_file(&library).expect("removed");
        let map = format!("-Wl,--version-script={}", workshop.path("versions.map").display());
        let newer = workshop.library(&folder, "libMIOpen.so.1.1", None, &[&map, "-Wl,--build-id=0x12345678"]).expect("a library");
        std::fs::remove_file(folder.join("libMIOpen.so.1")).expect("removed");
        symlink("libMIOpen.so.1.1", folder.join("libMIOpen.so.1")).expect("a link");
        let bytes = std::fs::read(&newer).expect("readable");
        if is_followed {
            let report = workshop.split(&folder.join("libMIOpen.so"), Place::InPlace);
            assert!(report.remarks.iter().any(|r| r.contains("libMIOpen.so.1.0 is gone")), "{:?}", report.remarks);
            assert_good(&folder, &USUALLY);
            let undone = hipplan_shim::unsplit(&folder).expect("undone");
            assert_eq!(undone.restored, Some(newer.clone()));
        } else {
            let undone = hipplan_shim::unsplit(&folder).expect("undone");
            assert!(undone.restored.is_none() && undone.remarks.len() == 1, "{undone:?}");
        }
        assert_eq!(std::fs::read(&newer).expect("readable"), bytes);
        let left = ["libMIOpen.so", "libMIOpen.so.1", "libMIOpen.so.1.1"].map(|n| folder.join(n));
        assert_eq!(tree(&folder).into_keys().collect::<Vec<_>>(), left);
    }
}

#[test]
fn links_of_others_stay() {
    let Some(workshop) = Workshop::new() else { return };
    let library = workshop.usual(&workshop.path("vendor"));
    for name in ["libMIOpen.so", "libMIOpen_private.so"] {
        let prefix = workshop.path(&format!("prefix-{name}"));
        std::fs::create_dir_all(prefix.join("lib")).expect("a folder");
        symlink("/somewhere/else.so", prefix.join("lib").join(name)).expect("a link");
        let before = tree(&prefix.join("lib"));
        let error = hipplan_shim::split(&workshop.options(&library, Place::Prefix(prefix.clone()))).expect_err("refused");
        assert!(matches!(&error, ShimError::InTheWay { path } if path.ends_with(name)), "{name}: {error}");
        assert_eq!(tree(&prefix.join("lib")), before);
    }
}

#[test]
fn folders_that_a_search_path_cannot_name() {
    let Some(workshop) = Workshop::new() else { return };
    for name in ["a:b", "a$b"] {
        let library = workshop.usual(&workshop.path(name));
        let error = hipplan_shim::split(&workshop.options(&library, Place::Prefix(workshop.path("prefix")))).expect_err("refused");
        assert!(matches!(error, ShimError::SearchPath { .. }), "{error}");
        assert!(!workshop.path("prefix").exists());
        // In place nothing is searched.
        workshop.split(&library, Place::InPlace);
    }
}

/// The shim library takes tables of 4,096 entries, of which one is the wrapper's own.
#[test]
fn too_many_names() {
    let Some(workshop) = Workshop::new() else { return };
    let source = workshop.path("many.c");
    for (count, is_taken) in [(4095, true), (4096, false)] {
        let code: String = (0..count).map(|i| format!("int miopenN{i}(void) {{ return {i}; }}\n")).collect();
        std::fs::write(&source, code).expect("written");
        let library = workshop.path(&format!("libMIOpen-{count}.so.1"));
        let mut cc = std::process::Command::new("cc");
        common::run(cc.args(["-shared", "-fPIC", "-Wl,-soname,libMIOpen.so.1", "-o"]).arg(&library).arg(&source));
        let split = hipplan_shim::split(&workshop.options(&library, Place::Prefix(workshop.path(&format!("prefix-{count}")))));
        match split {
            Ok(report) => assert!(is_taken && report.manifest.names.len() == count),
            Err(error) => assert!(!is_taken && error.to_string().contains("4096 names"), "{error}"),
        }
    }
}
