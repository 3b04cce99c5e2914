//! The development files of a split: programs, providers and consumers of C++ internals are built with the CMake package and run, and what
//! must not work does not.

use hipplan_shim::headers::{self, HeadersError, objects};
use hipplan_shim::install::{Options, Place};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/headers").join(name)
}

/// Runs a command that must succeed; gives what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Whether a tool is there; where everything must be checked, it must be.
fn has(tool: &str) -> bool {
    let is_there = Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success());
    assert!(is_there || std::env::var_os("HIPPLAN_CI").is_none_or(|v| v != "1"), "{tool} is needed and not installed");
    if !is_there {
        eprintln!("skipped: {tool} is not installed");
    }
    is_there
}

/// A library in the shape of MIOpen, its headers, and a shim library.
struct Workshop(tempfile::TempDir);

impl Workshop {
    fn new() -> Self {
        let workshop = Self(tempfile::tempdir().expect("a folder"));
        let shim = workshop.path("shim.c");
        std::fs::write(&shim, "void miopen_forwarding_attach(const void *table) { (void)table; }\n").expect("written");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wl,-soname,libhipplan_miopen.so.0", "-o"]).arg(workshop.path("libhipplan_miopen.so.0")).arg(shim);
        run(&mut cc);
        workshop
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Builds the library with this SONAME version, and splits it into the prefix.
    fn split(&self, version: &str, defines: &[&str], prefix: &Path) {
        let folder = self.path(&format!("stock{version}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let library = folder.join(format!("libMIOpen.so.{version}"));
        let mut cxx = Command::new("c++");
        cxx.args(["-std=c++17", "-shared", "-fPIC", "-O1", "-fvisibility=hidden"]).arg(format!("-Wl,-soname,libMIOpen.so.{version}"));
        run(cxx.args(defines).arg("-I").arg(source("include")).arg("-o").arg(&library).arg(source("miopen.cpp")));
        let shim_library = Some(self.path("libhipplan_miopen.so.0"));
        let options = Options { from: library, place: Place::Prefix(prefix.to_owned()), shim_library, library_folders: Vec::new() };
        hipplan_shim::split(&options).unwrap_or_else(|e| panic!("{e}"));
    }

    /// A split with its development files.
    fn developed(&self) -> PathBuf {
        let prefix = self.path("a prefix");
        self.split("1", &[], &prefix);
        headers::generate(&source("include/miopen/miopen.h"), &prefix).unwrap_or_else(|e| panic!("{e}"));
        prefix
    }
}

/// Builds the project of `tests/headers` with the package in a prefix.
fn build(prefix: &Path, folder: &Path, options: &[&str]) -> Result<(), String> {
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source("")).arg("-B").arg(folder).arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())).args(options);
    for command in [&mut configure, Command::new("cmake").arg("--build").arg(folder)] {
        let output = command.env_remove("CXXFLAGS").output().expect("cmake");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned());
        }
    }
    Ok(())
}

/// What the host prints for a plugin.
fn load(folder: &Path, plugin: &str) -> String {
    run(Command::new(folder.join("host")).arg(folder.join(plugin))).trim_end().to_owned()
}

/// `FILE -> FILE: SYMBOL` for every symbol of MIOpen's that is bound while a plugin is loaded and run.
fn bindings(folder: &Path, plugin: &str) -> BTreeSet<String> {
    let mut host = Command::new(folder.join("host"));
    let output = host.arg(folder.join(plugin)).env("LD_DEBUG", "bindings").output().expect("started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let file = |path: &str| path.trim_end_matches(" [0]").rsplit('/').next().unwrap_or_default().to_owned();
    let binding = |line: &str| {
        let (from, rest) = line.split_once("binding file ")?.1.split_once(" to ")?;
        let (to, symbol) = rest.split_once(": normal symbol `")?;
        let symbol = symbol.split('\'').next()?;
        (symbol.starts_with("miopen") || symbol.contains("6miopen")).then(|| format!("{} -> {}: {symbol}", file(from), file(to)))
    };
    text.lines().filter_map(binding).collect()
}

#[test]
fn consumers_and_providers_are_built_and_bound_as_they_should() {
    if !has("cmake") {
        return;
    }
    let workshop = Workshop::new();
    let prefix = workshop.developed();
    let folder = workshop.path("build");
    build(&prefix, &folder, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run(&mut Command::new(folder.join("program"))), "3.4.1\n");
    assert_eq!(load(&folder, "consumer.so"), "335");
    assert_eq!(load(&folder, "provider.so"), "335");
    assert_eq!(load(&folder, "provider_cpp.so"), "335", "1 and the default -1 add nothing");
    assert_eq!(load(&folder, "internals.so"), "42");
    // One that was built against the stock library finds its internals behind the wrapper.
    let built_before = workshop.path("built_before.so");
    let mut cxx = Command::new("c++");
    cxx.args(["-std=c++17", "-shared", "-fPIC", "-o"]).arg(&built_before).arg(source("internals.cpp"));
    run(cxx.arg(workshop.path("stock1/libMIOpen.so.1")));
    let mut host = Command::new(folder.join("host"));
    assert_eq!(run(host.arg(&built_before).env("LD_LIBRARY_PATH", prefix.join("lib"))), "42\n");

    // A consumer goes through the wrapper, a provider does not.
    let of = |all: &BTreeSet<String>, start: &str| all.iter().filter(|b| b.starts_with(start)).cloned().collect::<Vec<_>>();
    let functions = ["miopenCreate", "miopenDestroy", "miopenGetLastForwardedError", "miopenGetVersion", "miopenRunSolution"];
    let all = bindings(&folder, "consumer.so");
    assert_eq!(of(&all, "consumer.so"), functions.map(|f| format!("consumer.so -> libMIOpen.so.1: {f}")));
    let private = |from: &str| {
        let own = functions.iter().filter(|f| **f != "miopenGetLastForwardedError");
        own.map(|f| format!("{from} -> libMIOpen_private.so.1: {f}_impl")).collect::<Vec<_>>()
    };
    let wrapper = of(&all, "libMIOpen.so.1");
    assert!(private("libMIOpen.so.1").iter().all(|binding| wrapper.contains(binding)), "{wrapper:?}");
    let attach = "libMIOpen.so.1 -> libhipplan_miopen.so.0: miopen_forwarding_attach";
    assert!(wrapper.iter().all(|binding| binding == attach || binding.contains("-> libMIOpen_private.so.1")), "{wrapper:?}");
    let all = bindings(&folder, "provider.so");
    assert_eq!(of(&all, "provider.so"), private("provider.so"));
    assert!(!all.iter().any(|binding| binding.contains("libMIOpen.so.1")), "the wrapper is not even loaded: {all:?}");
    let all = bindings(&folder, "internals.so");
    let internals = of(&all, "internals.so");
    assert!(internals.iter().any(|b| b.ends_with("libMIOpen_private.so.1: _ZN6miopen10registeredERKNS_6SolverE")), "{internals:?}");

    // The split is as good as before, private names in no public header.
    let report = hipplan_shim::check(&prefix).expect("a split");
    assert!(report.is_good(), "{:?}", report.checks);
    let headers = report.checks.iter().find(|check| check.id == "headers").expect("the check");
    assert_eq!(headers.verdict, hipplan_shim::check::Verdict::Good);

    // The prefix may stand elsewhere.
    let moved = workshop.path("moved");
    std::fs::rename(&prefix, &moved).expect("moved");
    build(&moved, &workshop.path("build2"), &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(load(&workshop.path("build2"), "provider.so"), "335");
}

#[test]
fn what_must_not_work_does_not() {
    if !has("cmake") {
        return;
    }
    let workshop = Workshop::new();
    let prefix = workshop.developed();
    let folder = workshop.path("build");
    build(&prefix, &folder, &[]).unwrap_or_else(|e| panic!("{e}"));

    // The private header is not on the public include path.
    let error = build(&prefix, &workshop.path("leak"), &["-DLEAK=ON"]).expect_err("no such header");
    assert!(error.contains("miopen/miopen_impl.h"), "{error}");
    // A version that is not there.
    let found = |version: &str| {
        let project = workshop.path(&format!("find{version}"));
        std::fs::create_dir_all(&project).expect("a folder");
        let text = format!(
            "cmake_minimum_required(VERSION 3.13)\nproject(x NONE)\nset(MIOPEN_WITHOUT_HIP ON)\nfind_package(miopen {version} CONFIG)\nmessage(\"found ${{miopen_FOUND}}\")\n"
        );
        std::fs::write(project.join("CMakeLists.txt"), text).expect("written");
        let output = Command::new("cmake")
            .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()))
            .arg("-B")
            .arg(project.join("b"))
            .arg("-S")
            .arg(&project)
            .output();
        String::from_utf8_lossy(&output.expect("cmake").stderr).contains("found 1")
    };
    assert!(found("3") && found("3.4.1") && !found("3.5") && !found("2") && !found("4"));

    // A provider with public names links, and cannot be loaded.
    let error = load(&folder, "confused.so");
    assert!(error.contains("undefined symbol: miopen") && !error.contains("_impl"), "{error}");

    // Without the private library neither loads, and both say so; then they do again.
    let private = prefix.join("lib/libMIOpen_private.so.1");
    let hidden = prefix.join("lib/hidden");
    std::fs::rename(&private, &hidden).expect("hidden");
    for plugin in ["consumer.so", "provider.so"] {
        assert_eq!(load(&folder, plugin), "libMIOpen_private.so.1: cannot open shared object file: No such file or directory");
    }
    let program = Command::new(folder.join("program")).output().expect("started");
    let said = String::from_utf8_lossy(&program.stderr);
    assert!(program.status.code() == Some(127) && said.contains("libMIOpen_private.so.1: cannot open shared object file"), "{said}");
    // The package says it too.
    let error = build(&prefix, &workshop.path("half"), &[]).expect_err("half a split");
    assert!(error.contains("libMIOpen_private.so.1 is not there"), "{error}");
    std::fs::rename(&hidden, &private).expect("back");
    assert_eq!((load(&folder, "consumer.so"), load(&folder, "provider.so")), ("335".to_owned(), "335".to_owned()));
}

/// The rows of MW §4.7: what happens when wrapper, private library and provider are not of one version.
#[test]
fn versions_that_do_not_belong_together() {
    if !has("cmake") {
        return;
    }
    let workshop = Workshop::new();
    let prefix = workshop.developed();
    let folder = workshop.path("build");
    build(&prefix, &folder, &[]).unwrap_or_else(|e| panic!("{e}"));

    // A provider of before, on a private library with more functions.
    let older = workshop.path("older.so.1");
    std::fs::copy(prefix.join("lib/libMIOpen_private.so.1"), &older).expect("copied");
    workshop.split("1", &["-DNEWER", "-DPATCH=2"], &prefix);
    assert_eq!((load(&folder, "provider.so"), load(&folder, "consumer.so")), ("336".to_owned(), "336".to_owned()));

    // A wrapper of now, on a private library of before: refused when it is loaded, naming what is missing.
    std::fs::copy(&older, prefix.join("lib/libMIOpen_private.so.1")).expect("copied");
    let error = load(&folder, "consumer.so");
    assert!(error.contains("undefined symbol: miopenAddedLater_impl"), "{error}");
    assert!(!hipplan_shim::check(&prefix).expect("a split").is_good());

    // A private library of another SOVERSION is none for this provider.
    let other = workshop.path("other");
    workshop.split("2", &[], &other);
    let elsewhere = workshop.path("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-I"]).arg(prefix.join("lib").join(headers::PRIVATE_INCLUDE)).arg("-I").arg(prefix.join("include"));
    cc.arg("-I").arg(source("")).arg("-o").arg(elsewhere.join("provider.so")).arg(source("provider.c"));
    run(cc.arg(prefix.join("lib/libMIOpen_private.so.1")));
    let mut host = Command::new(folder.join("host"));
    let said = run(host.arg(elsewhere.join("provider.so")).env("LD_LIBRARY_PATH", other.join("lib")));
    assert_eq!(said.trim_end(), "libMIOpen_private.so.1: cannot open shared object file: No such file or directory");
}

#[test]
fn object_files_are_judged_by_what_they_ask_for() {
    let workshop = Workshop::new();
    let prefix = workshop.developed();
    let object = |name: &str, out: &str, options: &[&str]| {
        let to = workshop.path(out);
        let mut cc = Command::new(if name.ends_with(".cpp") { "c++" } else { "cc" });
        cc.args(["-fPIC", "-c", "-I"]).arg(prefix.join("lib").join(headers::PRIVATE_INCLUDE)).arg("-I").arg(prefix.join("include"));
        run(cc.args(options).arg("-o").arg(&to).arg(source(name)));
        to
    };
    let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
    let private = "miopenCreate_impl miopenDestroy_impl miopenGetVersion_impl miopenRunSolution_impl";
    let provider = object("provider.c", "provider.o", &[]);
    let read = |path: &Path| objects::read(path).unwrap_or_else(|e| panic!("{e}"));
    let found = read(&provider);
    assert!(found.len() == 1 && found[0].is_good());
    assert_eq!((names(&found[0].private), names(&found[0].public)), (private.to_owned(), String::new()));

    let found = read(&object("consumer.c", "consumer.o", &[]));
    assert!(!found[0].is_good());
    assert_eq!(names(&found[0].public), "miopenCreate miopenDestroy miopenGetLastForwardedError miopenGetVersion miopenRunSolution");
    let found = read(&object("internals.cpp", "internals.o", &[]));
    assert!(!found[0].is_good() && names(&found[0].internal).contains("_ZN6miopen10registeredERKNS_6SolverE"), "{found:?}");

    // An archive, and a stripped library.
    let archive = workshop.path("libprovider.a");
    run(Command::new("ar").arg("qc").arg(&archive).arg(&provider).arg(workshop.path("internals.o")));
    let found = read(&archive);
    assert_eq!(found.iter().map(objects::References::is_good).collect::<Vec<_>>(), [true, false]);
    assert!(found[1].name.ends_with("libprovider.a(internals.o)"), "{}", found[1].name);
    let library = workshop.path("libprovider.so");
    run(Command::new("cc").args(["-shared", "-s", "-o"]).arg(&library).arg(&provider));
    assert_eq!(names(&read(&library)[0].private), private);

    // What cannot be judged is no success.
    let refused = |path: &Path| objects::read(path).expect_err("refused").to_string();
    assert!(refused(&source("provider.c")).contains("neither an ELF object file"), "{}", refused(&source("provider.c")));
    assert!(refused(&workshop.path("nothing.o")).contains("nothing.o"));
    let slim = object("provider.c", "slim.o", &["-flto", "-fno-fat-lto-objects"]);
    assert!(refused(&slim).contains("link-time optimisation"), "{}", refused(&slim));
}

#[test]
fn a_header_that_will_not_do_is_refused() {
    let workshop = Workshop::new();
    let header = source("include/miopen/miopen.h");
    let refused = |header: &Path, prefix: &Path| headers::generate(header, prefix).expect_err("refused").to_string();
    assert!(refused(&header, &workshop.path("")).contains("no split here"));
    let prefix = workshop.developed();
    assert!(refused(&workshop.path("none.h"), &prefix).contains("none.h"));
    assert!(refused(&source("include/miopen/export.h"), &prefix).contains("declares no function of MIOpen's"));
    assert!(refused(&source("plugin.h"), &prefix).contains("a folder named miopen"));
    let generated = prefix.join("lib").join(headers::PRIVATE_INCLUDE).join(headers::PRIVATE_HEADER);
    assert!(refused(&generated, &prefix).contains("declares no function") || refused(&generated, &prefix).contains("_impl"));
    assert!(matches!(headers::generate(&generated, &prefix), Err(HeadersError::NoFunctions { .. } | HeadersError::Generated { .. })));

    // Again, from the prefix's own copy: nothing changes.
    let before = std::fs::read(&generated).expect("there");
    let report = headers::generate(&prefix.join("include/miopen/miopen.h"), &prefix).expect("generated");
    assert_eq!((report.declared, report.version.as_deref()), (5, Some("3.4.1")));
    assert_eq!((report.not_declared.len(), report.not_exported.len()), (0, 0));
    assert_eq!(std::fs::read(&generated).expect("there"), before);
}

/// Every file and folder below, with a file's bytes.
fn all(folder: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut stack = vec![folder.to_owned()];
    while let Some(at) = stack.pop() {
        for entry in std::fs::read_dir(&at).expect("a folder").flatten() {
            if entry.file_type().expect("a kind").is_dir() {
                stack.push(entry.path());
            }
            found.insert(entry.path(), std::fs::read(entry.path()).unwrap_or_default());
        }
    }
    found
}

/// A vendor's headers and package are not written over; what was made goes with the split, and nothing else does.
#[test]
fn development_files_come_and_go() {
    let workshop = Workshop::new();
    let header = source("include/miopen/miopen.h");
    for vendor in ["lib/cmake/miopen/miopen-config.cmake", "include/miopen/miopen.h", "include/miopen/miopen_forwarding.h"] {
        let prefix = workshop.path(&vendor.replace('/', "-"));
        let file = prefix.join(vendor);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(&file, "the vendor's").expect("written");
        let before = all(&prefix);
        workshop.split("1", &[], &prefix);
        let split = all(&prefix);
        let error = headers::generate(&header, &prefix).expect_err("refused");
        assert!(matches!(&error, HeadersError::Shim(hipplan_shim::ShimError::InTheWay { path }) if *path == file), "{error}");
        assert_eq!(all(&prefix), split, "{vendor}: nothing was written");
        hipplan_shim::unsplit(&prefix).expect("undone");
        assert_eq!(all(&prefix), before, "{vendor}");
    }
    let prefix = workshop.path("prefix");
    std::fs::create_dir_all(prefix.join("include")).expect("a folder");
    std::fs::write(prefix.join("include/mine.h"), "mine").expect("written");
    std::fs::create_dir_all(prefix.join("lib/cmake")).expect("a folder");
    let before = all(&prefix);
    workshop.split("1", &[], &prefix);
    headers::generate(&header, &prefix).expect("made");
    let made = all(&prefix);
    assert!(made.len() > before.len() + 12, "{:?}", made.keys());
    // From its own copy, and after the split was made again.
    headers::generate(&prefix.join("include/miopen/miopen.h"), &prefix).expect("made");
    workshop.split("1", &[], &prefix);
    headers::generate(&header, &prefix).expect("made");
    assert_eq!(all(&prefix), made);
    let lock = hipplan_shim::file::Lock::take(&prefix.join("lib")).expect("free");
    assert!(headers::generate(&header, &prefix).is_err(), "one command at a time");
    drop(lock);
    // A new version of the header: what was made before is ours to replace.
    let newer = workshop.path("newer/miopen");
    std::fs::create_dir_all(&newer).expect("a folder");
    let text = std::fs::read_to_string(&header).expect("readable");
    std::fs::write(newer.join("miopen.h"), format!("{text}/* newer */\n")).expect("written");
    headers::generate(&newer.join("miopen.h"), &prefix).expect("made");
    assert!(std::fs::read_to_string(prefix.join("include/miopen/miopen.h")).expect("readable").ends_with("/* newer */\n"));
    let undone = hipplan_shim::unsplit(&prefix).expect("undone");
    assert!(undone.remarks.is_empty(), "{undone:?}");
    assert_eq!(all(&prefix), before);
    // A file that was changed since stays.
    workshop.split("1", &[], &prefix);
    headers::generate(&header, &prefix).expect("made");
    let changed = prefix.join("lib/cmake/miopen/miopen-config.cmake");
    std::fs::write(&changed, "changed").expect("written");
    let undone = hipplan_shim::unsplit(&prefix).expect("undone");
    assert!(changed.exists() && undone.remarks.len() == 1, "{undone:?}");
}
