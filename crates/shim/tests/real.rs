//! The MIOpen that a distribution ships, if there is one to be had.

mod common;

use common::{Workshop, assert_good, run};
use hipplan_shim::check::Verdict;
use hipplan_shim::install::Place;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with a real MIOpen and everything that it needs, its own dynamic linker included: `HIPPLAN_MIOPEN_SYSROOT`, else what
/// `scripts/miopen-sysroot` makes.
fn sysroot() -> Option<PathBuf> {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/miopen-sysroot");
    let root = std::env::var_os("HIPPLAN_MIOPEN_SYSROOT").map_or(made, PathBuf::from);
    let library = root.join("lib/libMIOpen.so.1");
    if !library.is_file() {
        println!("SKIPPED: no real MIOpen at {}; scripts/miopen-sysroot makes one", library.display());
        return None;
    }
    Some(root)
}

/// Runs a program of the sysroot with libraries in front.
fn program(root: &Path, name: &str, front: &Path, home: &Path) -> Command {
    let mut command = Command::new(root.join("lib/ld-linux-x86-64.so.2"));
    let path = [front, &root.join("hip"), &root.join("lib")].map(|p| p.display().to_string()).join(":");
    command
        .args(["--library-path", &path])
        .arg(root.join("bin").join(name))
        .env_clear()
        .env("HOME", home)
        .env("HIPPLAN_HOST_HIP_DEVICES", "0");
    command
}

#[test]
fn a_real_library_is_split_checked_and_restored() {
    let (Some(workshop), Some(root)) = (Workshop::new(), sysroot()) else { return };
    let vendor = workshop.path("vendor");
    std::fs::create_dir(&vendor).expect("a folder");
    run(Command::new("cp").arg("-a").args(["libMIOpen.so", "libMIOpen.so.1"].map(|n| root.join("lib").join(n))).arg(&vendor));
    let real = root.join("lib/libMIOpen.so.1").canonicalize().expect("a library");
    let name = real.file_name().expect("a name").to_owned();
    std::fs::copy(&real, vendor.join(&name)).expect("copied");
    let original = std::fs::read(&real).expect("readable");

    let report = workshop.split(&vendor.join("libMIOpen.so"), Place::InPlace);
    let names = report.manifest.names.len();
    println!("{names} names, versions {:?}", report.manifest.nodes);
    assert!(names > 200 && report.manifest.names.iter().any(|n| n.starts_with("miopenCreate@@")), "{names}");
    assert_good(&vendor, &["files", "headers", "links"]);

    // Every symbol that programs could bind to is still there: the public ones in the wrapper, all others in the private library.
    let symbols = |path: &Path| -> BTreeSet<String> {
        let text = run(Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(path));
        text.lines().filter_map(|l| l.split_whitespace().nth(2).map(str::to_owned)).collect()
    };
    let before = symbols(&real);
    let wrapper = symbols(&vendor.join(&name));
    let private = symbols(&vendor.join(&report.manifest.private.file.name));
    let lost: Vec<_> = before.iter().filter(|s| !wrapper.contains(*s) && !private.contains(*s)).collect();
    assert_eq!(lost, Vec::<&String>::new());
    let leaked: Vec<_> = wrapper.iter().filter(|s| s.split('@').next().is_some_and(|n| n.ends_with("_impl"))).collect();
    assert_eq!(leaked, Vec::<&String>::new());
    let renamed: BTreeSet<_> = wrapper.iter().filter(|s| !private.contains(*s) && before.contains(*s)).collect();
    assert_eq!(renamed.len(), names);

    // Programs that were linked with it run, and say what they said. MIOpen's own tests use hundreds of its C++ names.
    let outputs = |front: &Path, run_name: &str| -> Vec<String> {
        let home = workshop.path(run_name);
        std::fs::create_dir(&home).expect("a folder");
        let filter = "--gtest_filter=*CPU_ApiTestSetTensorDescriptor*:*CPU_ConvApi*:*CPU_tensor_nxd*";
        let version = program(&root, "MIOpenDriver", front, &home).arg("--version").output().expect("started");
        let tests = program(&root, "miopen_gtest", front, &home).arg(filter).output().expect("started");
        let text = String::from_utf8_lossy(&tests.stdout).into_owned();
        let verdicts = text
            .lines()
            .filter(|l| l.starts_with("[       OK ]") || l.starts_with("[  FAILED  ]"))
            .map(|l| l.split(" (").next().unwrap_or(l).to_owned());
        std::iter::once(String::from_utf8_lossy(&version.stdout).into_owned()).chain(verdicts).collect()
    };
    let stock = outputs(Path::new("/nonexistent"), "stock-home");
    assert!(stock.len() > 100, "{stock:?}");
    assert_eq!(outputs(&vendor, "split-home"), stock);

    hipplan_shim::unsplit(&vendor).expect("undone");
    assert!(std::fs::read(vendor.join(&name)).expect("readable") == original, "not what it was");
    assert_eq!(std::fs::read_dir(&vendor).expect("a folder").count(), 3);
}

/// What the dynamic linker says: the program's public names lead to the wrapper, the wrapper's to the private library, MIOpen's own calls
/// of its public functions stay in it.
#[test]
fn a_real_library_binds_as_it_must() {
    let (Some(workshop), Some(root)) = (Workshop::new(), sysroot()) else { return };
    let report = workshop.split(&root.join("lib/libMIOpen.so"), Place::Prefix(workshop.path("prefix")));
    let checked = hipplan_shim::check(&workshop.path("prefix")).expect("a split");
    let failed: Vec<_> = checked.checks.iter().filter(|c| c.verdict == Verdict::Failed).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let log = workshop.path("log");
    let home = workshop.path("home");
    std::fs::create_dir(&home).expect("a folder");
    let mut command = program(&root, "MIOpenDriver", &workshop.path("prefix/lib"), &home);
    let output = command
        .arg("--version")
        .env("LD_DEBUG", "bindings")
        .env("LD_DEBUG_OUTPUT", &log)
        .env("LD_BIND_NOW", "1")
        .output()
        .expect("started");
    let logs =
        std::fs::read_dir(workshop.path("")).expect("a folder").flatten().filter(|e| e.file_name().to_string_lossy().starts_with("log."));
    let text: String = logs.map(|e| std::fs::read_to_string(e.path()).expect("readable")).collect();
    assert!(!text.is_empty(), "{output:?}");
    let (wrapper, private) = (report.manifest.wrapper.name.as_str(), report.manifest.private.file.name.as_str());
    let file = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let mut ways = std::collections::BTreeMap::<(String, String, bool), BTreeSet<String>>::new();
    for line in text.lines() {
        let Some((from, rest)) = line.split_once("binding file ").and_then(|(_, r)| r.split_once(" [")) else { continue };
        let Some((to, rest)) = rest.split_once(" to ").and_then(|(_, r)| r.split_once(" [")) else { continue };
        let Some(symbol) = rest.split_once('`').and_then(|(_, r)| r.split_once('\'')).map(|(s, _)| s) else { continue };
        let (is_public, is_private) =
            (hipplan_shim::names::is_public(symbol.as_bytes()), hipplan_shim::names::public_of(symbol.as_bytes()).is_some());
        if is_public || is_private {
            ways.entry((file(from), file(to), is_private)).or_default().insert(symbol.to_owned());
        }
    }
    let counts: Vec<_> =
        ways.iter().map(|((from, to, is_private), names)| (from.as_str(), to.as_str(), *is_private, names.len())).collect();
    println!("{counts:?}");
    let way = |from: &str, to: &str, is_private| ways.get(&(from.to_owned(), to.to_owned(), is_private)).map_or(0, BTreeSet::len);
    assert!(way("MIOpenDriver", wrapper, false) > 100, "{counts:?}");
    assert_eq!(way(wrapper, private, true), report.manifest.names.len(), "{counts:?}");
    assert!(way(private, private, true) > 0, "{counts:?}");
    assert_eq!(counts.len(), 3, "no other way: {counts:?}");
}
