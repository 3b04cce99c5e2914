//! The shim in front of a real MIOpen, split by the project's own tool: what happens with forwarding off, without a usable `libhipplan.so.0`,
//! and with every entry point traced.

use hipplan_miopen_testing::{Language, Program, Sysroot};
use hipplan_shim::install::{Options, Place, split};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const LINE: &str = "conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1 -i 1 -V 1 -t 1";

/// A split MIOpen with this build's shim library.
struct Split {
    sysroot: &'static Sysroot,
    folder: TempDir,
}

impl Split {
    fn new() -> Option<Self> {
        let sysroot = Sysroot::for_test()?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tests = std::env::current_exe().expect("this executable");
        let built = tests.parent().expect("its folder").join("libhipplan_miopen.so");
        let shim_library = folder.path().join("libhipplan_miopen.so.0");
        std::fs::copy(&built, &shim_library).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
        let place = Place::Prefix(folder.path().to_owned());
        split(&Options { from: sysroot.miopen(), place, shim_library: Some(shim_library), library_folders: Vec::new() }).expect("split");
        Some(Self { sysroot, folder })
    }

    fn libraries(&self) -> PathBuf {
        self.folder.path().join("lib")
    }

    /// The driver, on the split library.
    fn driver(&self, more: &str) -> Program<'_> {
        self.sysroot.driver(&format!("{LINE} {more}")).libraries(self.libraries())
    }

    /// Compiles a program from C, linked with the split library.
    fn compile(&self, name: &str, text: &str) -> PathBuf {
        self.sysroot.compile(self.folder.path(), name, Language::C, text, &[&self.libraries()], &["-Werror"]).expect("compiled")
    }

    /// A program, on the split library.
    fn program(&self, path: &Path) -> Program<'_> {
        self.sysroot.command(path).libraries(self.libraries())
    }

    /// A made-up `libhipplan.so.0`.
    fn runtime(&self, name: &str, definitions: &[&str]) -> PathBuf {
        let path = self.folder.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attach/fake_hipplan.c");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&path).arg(source).args(definitions.iter().map(|d| format!("-D{d}")));
        assert!(cc.status().expect("a C compiler").success());
        path
    }
}

/// What a process opens and starts, the temporary folders of its run aside.
fn traced(program: Program<'_>) -> Option<(BTreeSet<String>, usize)> {
    if Command::new("strace").arg("-V").output().is_err() {
        assert!(std::env::var_os("HIPPLAN_CI").is_none(), "strace is needed and not installed");
        eprintln!("skipped: strace is not installed");
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("trace");
    let words = ["strace", "-f", "-qq", "-e", "trace=open,openat,clone,clone3", "-o"].map(std::ffi::OsString::from);
    let output = program.wrapped_in(words.iter().map(std::ffi::OsString::as_os_str).chain([log.as_os_str()])).run().expect("run");
    assert!(output.status.success(), "{}", output.stderr);
    let text = std::fs::read_to_string(log).expect("a trace");
    let opened = text.lines().filter(|line| !line.contains(" = -1 ")).filter_map(|line| line.split('"').nth(1));
    let names = opened.filter_map(|path| Path::new(path).file_name()).map(|name| name.to_string_lossy().into_owned());
    Some((names.filter(|name| name.starts_with("lib")).collect(), text.matches("clone(").count() + text.matches("clone3(").count()))
}

#[test]
fn disabled_it_is_miopen_and_a_jump() {
    let Some(split) = Split::new() else { return };
    let stock = || split.sysroot.driver(LINE);
    let off =
        || split.driver("").env("HIPPLAN_MIOPEN_TRACE", "1").env("HIPPLAN_LIBRARY", "/nowhere").env("MIOPEN_HIPDNN_FORWARDING", "off");
    let [stock_run, off_run] = [stock(), off()].map(|program| program.verdicts().expect("run"));
    assert!(stock_run.verified(3) && off_run.verified(3), "{}", off_run.output.stderr);
    assert_eq!(stock_run.solutions, off_run.solutions);
    assert!(!off_run.output.stderr.contains("hipplan]"), "{}", off_run.output.stderr);
    let (Some((stock_opens, stock_clones)), Some((off_opens, off_clones))) = (traced(stock()), traced(off())) else { return };
    let more: Vec<_> = off_opens.difference(&stock_opens).map(String::as_str).collect();
    assert_eq!(more, ["libMIOpen_private.so.1", "libhipplan_miopen.so.0"]);
    assert_eq!(off_clones, stock_clones, "threads");
}

/// Fails on the affected calls and on no others, and tells why.
const UNAVAILABLE: &str = r#"
#include <miopen/miopen.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define SUCCEED(call) do { int status_ = (call); if (status_) { printf("%s: %d\n", #call, status_); return 1; } } while (0)

int main(void) {
    int (*last)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "miopenGetLastForwardedError");
    if (!last) return printf("no miopenGetLastForwardedError\n");
    miopenHandle_t handle;
    SUCCEED(miopenCreate(&handle));
    miopenTensorDescriptor_t x, w, y;
    miopenConvolutionDescriptor_t conv;
    SUCCEED(miopenCreateTensorDescriptor(&x));
    SUCCEED(miopenCreateTensorDescriptor(&w));
    SUCCEED(miopenCreateTensorDescriptor(&y));
    SUCCEED(miopenCreateConvolutionDescriptor(&conv));
    SUCCEED(miopenSet4dTensorDescriptor(x, miopenFloat, 1, 4, 8, 8));
    SUCCEED(miopenSet4dTensorDescriptor(w, miopenFloat, 4, 4, 3, 3));
    SUCCEED(miopenSet4dTensorDescriptor(y, miopenFloat, 1, 4, 6, 6));
    SUCCEED(miopenInitConvolutionDescriptor(conv, miopenConvolution, 0, 0, 1, 1, 1, 1));
    for (int i = 0; i < 2; i++) {
        size_t size = 77;
        miopenStatus_t status = miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, conv, y, &size);
        printf("forward %d last %d text %s\n", status, last(), miopenGetErrorString(status));
    }
    // Nothing of this is forwarded.
    miopenActivationDescriptor_t activation;
    SUCCEED(miopenCreateActivationDescriptor(&activation));
    SUCCEED(miopenSetActivationDescriptor(activation, miopenActivationRELU, 0, 0, 0));
    SUCCEED(miopenDestroyActivationDescriptor(activation));
    SUCCEED(miopenDestroyConvolutionDescriptor(conv));
    SUCCEED(miopenDestroyTensorDescriptor(x));
    SUCCEED(miopenDestroyTensorDescriptor(w));
    SUCCEED(miopenDestroyTensorDescriptor(y));
    SUCCEED(miopenDestroy(handle));
    printf("%s\n", miopenGetErrorString(miopenStatusBadParm));
    return 0;
}
"#;

#[test]
fn without_a_usable_library_affected_calls_fail_and_others_work() {
    let Some(split) = Split::new() else { return };
    let program = split.compile("unavailable", UNAVAILABLE);
    let off = split.program(&program).run().expect("run");
    assert!(off.status.success() && off.stdout.contains("forward 0 last 0 text miopenStatusSuccess"), "{}{}", off.stdout, off.stderr);

    let major = split.runtime("major.so", &["VERSION=0x00010000"]);
    let older = split.runtime("older.so", &["VERSION=0"]);
    let lacking = split.runtime("lacking.so", &["VERSION=1", "WITHOUT_PLAN_KEY"]);
    for (library, reason) in [
        (Path::new("/nowhere/libhipplan.so.0"), "libhipplan.so.0 cannot be opened: /nowhere/libhipplan.so.0: "),
        (&major, "major.so is of version 1.0, and 0.1 or a newer 0.x is needed"),
        (&older, "older.so is of version 0.0, and 0.1 or a newer 0.x is needed"),
        (&lacking, "lacking.so has no hipplan_plan_key"),
    ] {
        let enabled = || split.program(&program).env("MIOPEN_HIPDNN_FORWARDING", "1").env("HIPPLAN_LIBRARY", library);
        let on = enabled().run().expect("run");
        assert!(on.status.success(), "{}{}", on.stdout, on.stderr);
        let lines: Vec<_> = on.stdout.lines().collect();
        let failed = "forward 5 last -1 text [hipDNN-forwarded] miopenStatusInternalError: miopenConvolutionForwardGetWorkSpaceSize: ";
        assert!(lines.len() == 3 && lines[..2].iter().all(|line| line.starts_with(failed) && line.contains(reason)), "{}", on.stdout);
        assert_eq!(lines[2], "miopenStatusBadParm");
        assert_eq!(on.stderr.matches("forwarding is requested, but ").count(), 1, "{}", on.stderr);
        // Denied, nobody needs the library.
        let denied = enabled().env("MIOPEN_DISABLE_HIPDNN_FOR", "*").run().expect("run");
        assert!(denied.stdout.contains("forward 0 last 0") && !denied.stderr.contains("error"), "{}{}", denied.stdout, denied.stderr);
    }
}

#[test]
fn a_newer_minor_version_is_used() {
    let Some(split) = Split::new() else { return };
    // It has no plan for anything, which it says.
    let library = split.runtime("newer.so", &["VERSION=0x00000063", "RESULT=2"]);
    let on = |miss| split.driver("").env("MIOPEN_HIPDNN_FORWARDING", "1").env("HIPPLAN_LIBRARY", &library).env("HIPPLAN_MIOPEN_MISS", miss);
    let run = on("private").verdicts().expect("run");
    assert!(run.verified(3), "{}", run.output.stderr);
    assert!(!run.output.stderr.contains("hipplan] error"), "{}", run.output.stderr);
    let run = on("error").verdicts().expect("run");
    assert!(run.verdicts.is_empty() && run.output.stderr.contains("miopenStatusUnsupportedOp (8)"), "{}", run.output.stderr);
}

#[test]
fn every_entry_point_can_be_traced() {
    let Some(split) = Split::new() else { return };
    let library = split.runtime("nothing.so", &["VERSION=1", "RESULT=2"]);
    let on = |more| {
        let driver = split.driver(more).env("MIOPEN_HIPDNN_FORWARDING", "1").env("HIPPLAN_LIBRARY", &library);
        driver.env("HIPPLAN_MIOPEN_TRACE", "1").env("MIOPEN_LOG_LEVEL", "6")
    };
    for more in ["", "-m trans", "-S 85 -F 1"] {
        let run = on(more).verdicts().expect("run");
        assert!(run.verified(if more.contains("-F") { 1 } else { 3 }), "{more}: {}", run.output.stderr);
        let told = &run.output.stderr;
        let public = told.lines().filter(|line| line.starts_with("[MIOpen] hipDNN routing: ")).count();
        assert!(public > 250, "{public} routes");
        let calls: Vec<_> = told.lines().filter_map(|line| line.strip_prefix("[hipplan] call ")).collect();
        for (name, route) in [
            ("miopenCreateWithStream", "route=miopen reason=observed"),
            ("miopenCreateTensorDescriptor", "route=miopen reason=not-in-forwarding-set"),
            ("miopenInitConvolutionNdDescriptor", "route=miopen reason=observed"),
            ("miopenGetConvolutionNdForwardOutputDim", "route=miopen reason=not-in-forwarding-set"),
            ("miopenConvolutionForwardGet", "route=miopen reason=no-plan"),
            ("miopenDestroy", "route=miopen reason=observed"),
        ] {
            assert!(calls.iter().any(|call| call.starts_with(name) && call.ends_with(route)), "{more}: {name}: {calls:#?}");
        }
        // As many are made as are unmade.
        let count = |name: &str| calls.iter().filter(|call| call.starts_with(name)).count();
        assert_eq!(count("miopenCreateTensorDescriptor "), count("miopenDestroyTensorDescriptor "));
    }
}

/// Opens a library so often, uses it, and closes it again; then a second one beside it.
const RELOAD: &str = r#"
#include <miopen/miopen.h>
#include <dlfcn.h>
#include <stdio.h>

typedef miopenStatus_t create_t(miopenTensorDescriptor_t *);
typedef miopenStatus_t set_t(miopenTensorDescriptor_t, miopenDataType_t, int, int, int, int);
typedef miopenStatus_t destroy_t(miopenTensorDescriptor_t);

static int use(void *library) {
    create_t *create = (create_t *)dlsym(library, "miopenCreateTensorDescriptor");
    set_t *set = (set_t *)dlsym(library, "miopenSet4dTensorDescriptor");
    destroy_t *destroy = (destroy_t *)dlsym(library, "miopenDestroyTensorDescriptor");
    miopenTensorDescriptor_t tensor;
    return !create || !set || !destroy || create(&tensor) || set(tensor, miopenFloat, 1, 2, 3, 4) || destroy(tensor);
}

int main(int argc, char **argv) {
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) return printf("%s\n", dlerror());
        if (use(library)) return 1;
        if (dlclose(library)) return 2;
    }
    void *both[2] = {dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), dlopen(argv[2], RTLD_NOW | RTLD_LOCAL)};
    if (!both[0] || !both[1] || both[0] == both[1]) return 3;
    if (use(both[0]) || use(both[1])) return 4;
    printf("used\n");
    return 0;
}
"#;

#[test]
fn wrappers_are_opened_closed_and_doubled() {
    let Some(split) = Split::new() else { return };
    let built = split.sysroot.compile(split.folder.path(), "reload", Language::C, RELOAD, &[], &["-Werror", "-Wl,--as-needed"]);
    let program = built.expect("compiled");
    let first = split.libraries().join("libMIOpen.so.1");
    let copy = split.folder.path().join("copy.so.1");
    std::fs::copy(&first, &copy).expect("a copy of the wrapper");
    // A copy elsewhere finds the libraries by the paths of the run.
    let run = |variables: &[(&str, &str)]| {
        let program = split.program(&program).args([&first, &copy]);
        let output = variables.iter().fold(program, |program, (name, value)| program.env(name, value)).run().expect("run");
        assert!(
            output.status.success() && output.stdout == "used\n",
            "{variables:?}: {:?}: {}{}",
            output.status,
            output.stdout,
            output.stderr
        );
        output.stderr
    };
    assert_eq!(run(&[]), "");
    let on = ("MIOPEN_HIPDNN_FORWARDING", "1");
    let told = run(&[on]);
    assert_eq!(told.lines().count(), 1, "one banner: {told}");
    let told = run(&[on, ("HIPPLAN_MIOPEN_TRACE", "1")]);
    assert_eq!(told.matches("call miopenSet4dTensorDescriptor ").count(), 5, "{told}");
}
