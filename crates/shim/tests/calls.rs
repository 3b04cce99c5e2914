//! Where calls go after a split, and what the way costs.

mod common;

use common::{Workshop, run, run_with};
use hipplan_shim::install::Place;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A binding that the dynamic linker reports: from which file to which, and the symbol.
fn bindings(program: &Path, arguments: &[&str], libraries: &Path, output: &Path) -> BTreeSet<(String, String, String)> {
    let mut command = Command::new(program);
    run(command.args(arguments).env_clear().env("LD_LIBRARY_PATH", libraries).env("LD_DEBUG", "bindings").env("LD_DEBUG_OUTPUT", output));
    let folder = output.parent().expect("a folder");
    let stem = output.file_name().expect("a name").to_string_lossy().into_owned();
    let logs = std::fs::read_dir(folder).expect("a folder").flatten().filter(|e| e.file_name().to_string_lossy().starts_with(&stem));
    let text: String = logs.map(|e| std::fs::read_to_string(e.path()).expect("readable")).collect();
    let name = |path: &str| Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let parse = |line: &str| {
        // binding file /x/a [0] to /x/b [0]: normal symbol `f' [VERSION]
        let rest = line.split_once("binding file ")?.1;
        let (from, rest) = rest.split_once(" [")?;
        let (to, rest) = rest.split_once(" to ")?.1.split_once(" [")?;
        let symbol = rest.split_once('`')?.1.split_once('\'')?.0;
        Some((name(from), name(to), symbol.to_owned()))
    };
    let found: BTreeSet<_> = text.lines().filter_map(parse).collect();
    assert!(!found.is_empty(), "{text}");
    found
}

const HOST: &str = "#include <dlfcn.h>\n#include <stdio.h>\nint main(int n, char **a) {\n\
    for (int i = 1; i < n; ++i) { void *p = dlopen(a[i], RTLD_NOW | RTLD_LOCAL); if (!p) { fprintf(stderr, \"%s\\n\", dlerror()); return 1; }\n\
    int (*f)(void) = (int (*)(void))dlsym(p, \"entry\"); printf(\"%d\\n\", f()); } return 0; }\n";

/// A program calls the wrapper, the wrapper the private library, a provider the private library only.
#[test]
fn who_binds_to_whom() {
    let Some(workshop) = Workshop::new() else { return };
    let library = workshop.usual(&workshop.path("vendor"));
    let consumer = workshop.consumer(&library, "consumer");
    workshop.split(&library, Place::Prefix(workshop.path("prefix")));
    let lib = workshop.path("prefix/lib");
    let (wrapper, private) = ("libMIOpen.so.1", "libMIOpen_private.so.1");

    let found = bindings(&consumer, &[], &lib, &workshop.path("program.log"));
    let public = |symbol: &str| hipplan_shim::names::is_public(symbol.as_bytes());
    let implementation = |symbol: &str| hipplan_shim::names::public_of(symbol.as_bytes()).is_some();
    let ways = |wanted: &dyn Fn(&str) -> bool| -> BTreeSet<(&str, &str)> {
        found.iter().filter(|(.., symbol)| wanted(symbol)).map(|(from, to, _)| (from.as_str(), to.as_str())).collect()
    };
    // Data is no function: it stays in the private library.
    assert_eq!(ways(&|s| public(s) && s != "miopenData"), [("consumer", wrapper)].into());
    assert_eq!(ways(&implementation), [(wrapper, private), (private, private)].into());
    assert_eq!(ways(&|s| s == "miopen_forwarding_attach"), [(wrapper, "libhipplan_miopen.so.0")].into());
    let through = found.iter().filter(|(from, to, s)| from == wrapper && to == private && implementation(s)).count();
    assert_eq!(through, 10, "every name of the library");

    // A plugin for MIOpen's users, and a provider that MIOpen is one of.
    let compile = |name: &str, code: &str, with: &[PathBuf]| {
        let (source, output) = (workshop.path(&format!("{name}.c")), workshop.path(name));
        std::fs::write(&source, code).expect("written");
        let mut cc = Command::new("cc");
        cc.arg("-o").arg(&output).arg(&source).args(with);
        if name.ends_with(".so") {
            cc.args(["-shared", "-fPIC", "-Wl,-z,defs"]);
        }
        run(&mut cc);
        output
    };
    let host = compile("host", HOST, &[]);
    let plugin = compile(
        "plugin.so",
        "int miopenAdd(int, int); int entry(void) { return miopenAdd(1, 2); }",
        &[lib.join(wrapper), lib.join(private), "-Wl,--allow-shlib-undefined".into()],
    );
    let provider =
        compile("provider.so", "int miopenAdd_impl(int, int); int entry(void) { return miopenAdd_impl(1, 2); }", &[lib.join(private)]);
    let host_run = |library: &Path, log: &str| bindings(&host, &[library.to_str().expect("UTF-8")], &lib, &workshop.path(log));
    let names = |found: BTreeSet<(String, String, String)>, from: &str| -> BTreeSet<(String, String)> {
        found.into_iter().filter(|(f, _, s)| f == from && s.starts_with("miopen")).map(|(_, to, symbol)| (to, symbol)).collect()
    };
    let of = |to: &str, symbol: &str| BTreeSet::from([(to.to_owned(), symbol.to_owned())]);
    assert_eq!(names(host_run(&plugin, "plugin.log"), "plugin.so"), of(wrapper, "miopenAdd"));
    assert_eq!(names(host_run(&provider, "provider.log"), "provider.so"), of(private, "miopenAdd_impl"));

    // Plain names against the private library: a load error that names the symbol, as with any library that lacks it.
    let wrong = compile("wrong.so", "int miopenAdd(int, int); int entry(void) { return miopenAdd(1, 2); }", std::slice::from_ref(&library));
    let moved = workshop.path("only-private");
    std::fs::create_dir(&moved).expect("a folder");
    std::fs::copy(lib.join(private), moved.join("libMIOpen.so.1")).expect("copied");
    let output = Command::new(&host).arg(&wrong).env_clear().env("LD_LIBRARY_PATH", &moved).output().expect("started");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("undefined symbol: miopenAdd"), "{error}");

    // Without its private library or its shim library the wrapper does not load, and says what is missing.
    for name in [private, "libhipplan_miopen.so.0"] {
        let hidden = lib.join("hidden");
        std::fs::rename(lib.join(name), &hidden).expect("hidden");
        let output = Command::new(&consumer).env_clear().env("LD_LIBRARY_PATH", &lib).output().expect("started");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(name), "{name}: {error}");
        std::fs::rename(&hidden, lib.join(name)).expect("back");
    }
    assert_eq!(run_with(&consumer, &lib, false), common::PRINTED);
}

const CALLER: &str = "#include <stdlib.h>\nint miopenAdd(int, int);\nint main(int n, char **a) { int sum = 0; (void)n;\n\
    for (int i = atoi(a[1]); i; --i) sum += miopenAdd(i, 1); return sum == 1; }\n";

/// A call through the wrapper costs two instructions more than without it.
#[test]
fn the_way_through_the_wrapper_is_two_instructions() {
    let Some(workshop) = Workshop::new() else { return };
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success()) {
        assert!(!common::is_ci(), "valgrind is needed and not installed");
        println!("skipped: valgrind is not installed");
        return;
    }
    let library = workshop.usual(&workshop.path("vendor"));
    let (source, caller) = (workshop.path("caller.c"), workshop.path("caller"));
    std::fs::write(&source, CALLER).expect("written");
    run(Command::new("cc").args(["-O1", "-Wl,-z,now", "-o"]).arg(&caller).arg(&source).arg(&library));
    workshop.split(&library, Place::Prefix(workshop.path("prefix")));
    let instructions = |libraries: &str, calls: u32| -> u64 {
        let mut command = Command::new("valgrind");
        command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", workshop.path("out").display()));
        command.arg(&caller).arg(calls.to_string()).env("LD_LIBRARY_PATH", workshop.path(libraries));
        let output = command.output().expect("valgrind");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = text.lines().find_map(|l| l.split_once("Collected : ")).unwrap_or_else(|| panic!("{text}")).1;
        line.trim().parse().expect("a number")
    };
    let calls = 100_000;
    let each = |libraries| instructions(libraries, calls + 1_000) - instructions(libraries, 1_000);
    let (stock, split) = (each("vendor"), each("prefix/lib"));
    println!("{stock} instructions for {calls} calls, {split} through the wrapper");
    assert_eq!(split - stock, 2 * u64::from(calls));
}
