//! The MIOpen that a distribution ships, if there is one to be had.

mod common;

use common::{Workshop, assert_good, run};
use hipplan_miopen_testing::{Device, Sysroot};
use hipplan_shim::check::Verdict;
use hipplan_shim::install::Place;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

#[test]
fn a_real_library_is_split_checked_and_restored() {
    let (Some(workshop), Some(sysroot)) = (Workshop::new(), Sysroot::for_test()) else { return };
    let vendor = workshop.path("vendor");
    std::fs::create_dir(&vendor).expect("a folder");
    run(Command::new("cp").arg("-a").args(["libMIOpen.so", "libMIOpen.so.1"].map(|n| sysroot.lib().join(n))).arg(&vendor));
    let real = sysroot.miopen().canonicalize().expect("a library");
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
    let filter = "--gtest_filter=*CPU_ApiTestSetTensorDescriptor*:*CPU_ConvApi*:*CPU_tensor_nxd*";
    let outputs = |front: Option<&Path>| -> Vec<String> {
        let run = |program, argument: &str| {
            let program = sysroot.command(program).args([argument]).device(Device::None);
            front.into_iter().fold(program, |p, f| p.libraries(f)).run().expect("run")
        };
        let version = run(sysroot.driver_path(), "--version").stdout;
        let tests = run(sysroot.gtest_path(), filter).stdout;
        let verdicts = tests.lines().filter(|l| l.starts_with("[       OK ]") || l.starts_with("[  FAILED  ]"));
        std::iter::once(version).chain(verdicts.map(|l| l.split(" (").next().unwrap_or(l).to_owned())).collect()
    };
    let stock = outputs(None);
    assert!(stock.len() > 100, "{stock:?}");
    assert_eq!(outputs(Some(&vendor)), stock);

    hipplan_shim::unsplit(&vendor).expect("undone");
    assert!(std::fs::read(vendor.join(&name)).expect("readable") == original, "not what it was");
    assert_eq!(std::fs::read_dir(&vendor).expect("a folder").count(), 3);
}

/// What the dynamic linker says: the program's public names lead to the wrapper, the wrapper's to the private library, MIOpen's own calls
/// of its public functions stay in it.
#[test]
fn a_real_library_binds_as_it_must() {
    let (Some(workshop), Some(sysroot)) = (Workshop::new(), Sysroot::for_test()) else { return };
    let report = workshop.split(&sysroot.lib().join("libMIOpen.so"), Place::Prefix(workshop.path("prefix")));
    let checked = hipplan_shim::check(&workshop.path("prefix")).expect("a split");
    let failed: Vec<_> = checked.checks.iter().filter(|c| c.verdict == Verdict::Failed).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let log = workshop.path("log");
    let driver = sysroot.command(sysroot.driver_path()).args(["--version"]).libraries(workshop.path("prefix/lib"));
    let output = driver.env("LD_DEBUG", "bindings").env("LD_DEBUG_OUTPUT", &log).env("LD_BIND_NOW", "1").run().expect("run");
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
