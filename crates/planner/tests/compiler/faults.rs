//! Compilers that are missing, too old, or do not behave: small shell scripts that stand in for clang.

use crate::common::{fake, good, scratch, script, target};
use hipplan_planner::hip::compiler::{Clang, KernelCompileError, KernelCompiler};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Compiles with a compiler that does this instead.
fn compiled(what: &str) -> KernelCompileError {
    let folder = scratch();
    let clang = Clang::at(&fake(folder.path(), what)).unwrap_or_else(|e| panic!("{e}"));
    clang.with_limit(Duration::from_secs(60)).compile(&good(), &target("gfx90a")).expect_err("a failure")
}

#[test]
fn a_compiler_that_is_missing_or_will_not_do() {
    let error = Clang::at(Path::new("/nowhere/clang")).expect_err("a refusal").to_string();
    assert!(error.contains("/nowhere/clang cannot be used: there is no such program; install clang-19 and lld-19"), "{error}");
    for (version, reason) in [
        ("Debian clang version 16.0.6 (15~deb12u1)", "version 16.0.6 is too old: 19 is the oldest whose code for gfx11 is right"),
        ("Apple clang version 17.0.0 (clang-1700.0.13.5)", "numbers its versions in its own way"),
        ("gcc (Debian 12.2.0) 12.2.0", "its version cannot be told from \"gcc (Debian 12.2.0) 12.2.0\""),
        ("", "its version cannot be told"),
    ] {
        let folder = scratch();
        let program = script(folder.path(), "clang", &format!("echo '{version}'"));
        let error = Clang::at(&program).expect_err("a refusal");
        assert!(matches!(error, KernelCompileError::Unusable { .. }) && error.to_string().contains(reason), "{error}");
    }
    let folder = scratch();
    let error = |text: &str| {
        let program = script(folder.path(), "clang", &format!("case \"$*\" in *--version*) echo 'clang version 20.1.0';; {text} esac"));
        Clang::at(&program).expect_err("a refusal").to_string()
    };
    let none = error("*cpus*) echo 'no targets' >&2; exit 1;;");
    assert!(none.contains("it does not compile for AMD GPUs") && none.contains("ended with 1: no targets"), "{none}");
    assert!(error("").contains("it lists no gfx processor"));
    let linker = error("*cpus*) printf '\\tgfx90a\\n';; *name*) echo lld;;");
    assert!(linker.contains("it finds no lld to link with: install lld-20 beside it"), "{linker}");
    let linker = error("*cpus*) printf '\\tgfx90a\\n';; *name*) echo /nowhere/lld;;");
    assert!(linker.contains("its linker /nowhere/lld fails"), "{linker}");
    // A text file, and a folder.
    let file = folder.path().join("file");
    std::fs::write(&file, "text").expect("written");
    assert!(Clang::at(&file).is_err_and(|e| e.to_string().contains("did not start")));
    assert!(Clang::at(folder.path()).is_err_and(|e| e.to_string().contains("it is a folder, not a program")));
}

/// What `Clang::find` says in a process with another environment.
fn found(path: &Path, variable: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "faults::inner_find", "--nocapture"]).env_clear().env("PATH", path).env("HIPPLAN_TEST_FIND", "1");
    if let Some(value) = variable {
        command.env("HIPPLAN_CLANG", value);
    }
    let ran = command.output().expect("the test runs");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn inner_find() {
    if std::env::var_os("HIPPLAN_TEST_FIND").is_some() {
        match Clang::find() {
            Ok(clang) => println!("found {} at {}", clang.identity(), clang.program().display()),
            Err(e) => println!("error: {e}"),
        }
    }
}

#[test]
fn how_a_compiler_is_found() {
    let folder = scratch();
    let nothing = found(folder.path(), None);
    assert!(nothing.contains("error: no clang 19 or later with lld was found (clang-23: not there; "), "{nothing}");
    assert!(nothing.contains("install clang-19 and lld-19, or name another clang in HIPPLAN_CLANG"), "{nothing}");

    // By version, not by name; one that will not do is passed over, and told of if there is no better.
    script(folder.path(), "clang-19", "echo 'clang version 14.0.6'");
    let old = found(folder.path(), None);
    assert!(old.contains("clang-19: version 14.0.6 is too old"), "{old}");
    let program = fake(folder.path(), "exit 1");
    let newer = found(folder.path(), None);
    assert!(newer.contains(&format!("found clang 19.1.7 at {}", program.display())), "{newer}");

    // The variable: a name, a path, and no way around one that will not do.
    assert!(found(folder.path(), Some("clang")).contains("found clang 19.1.7"));
    assert!(found(Path::new("/nowhere"), Some(&program.display().to_string())).contains("found clang 19.1.7"));
    let named = found(folder.path(), Some("clang-19"));
    assert!(named.contains("clang-19 cannot be used: version 14.0.6 is too old"), "{named}");
}

#[test]
fn a_compiler_that_hangs() {
    let folder = scratch();
    // It waits for a child of its own, which must end too.
    let pids = folder.path().join("pids");
    let what = format!("sleep 1000 & echo $! $$ >{}; wait", pids.display());
    let clang = Clang::at(&fake(folder.path(), &what)).unwrap_or_else(|e| panic!("{e}"));
    // A machine may be so busy that it has not begun by then.
    let begun = [3, 30, 300].into_iter().find_map(|limit| {
        let clang = clang.clone().with_limit(Duration::from_secs(limit));
        let error = clang.compile(&good(), &target("gfx90a")).expect_err("a time-out");
        assert!(matches!(error, KernelCompileError::TimedOut { .. }), "{error}");
        let expected = format!("clang 19.1.7 compiling good_0123456789abcdef for gfx90a was stopped after {limit} s");
        assert!(error.to_string().contains(&expected), "{error}");
        std::fs::read_to_string(&pids).ok().filter(|pids| pids.ends_with('\n'))
    });
    begun.expect("it had begun").split_whitespace().for_each(ends);
}

/// A killed process may be waited for by nobody: it is then a zombie, but runs no more. On a busy machine it takes a while to die.
fn ends(pid: &str) {
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let dead = |state: &str| state.is_empty() || state.contains(") Z ") || state.contains(") X ");
    let tries = (0..6000).take_while(|_| !dead(&state())).inspect(|_| std::thread::sleep(Duration::from_millis(10))).count();
    assert!(tries < 6000, "{}", state());
}

#[test]
fn what_a_compiler_leaves_running_ends_with_it() {
    let folder = scratch();
    for (ending, expected) in [("exit 1", "ended with 1"), ("exit 0", "left nothing"), ("kill -SEGV $$", "crashed (SIGSEGV)")] {
        let pid = folder.path().join("pid");
        let error = compiled(&format!("sleep 1000 & echo $! >{}; {ending}", pid.display())).to_string();
        assert!(error.contains(expected), "{error}");
        ends(std::fs::read_to_string(pid).expect("it had begun").trim());
    }
}

#[test]
fn a_compiler_that_crashes() {
    let error = compiled("echo first >&2; echo second >&2; kill -SEGV $$");
    assert!(matches!(&error, KernelCompileError::Crashed { how, .. } if how == "SIGSEGV"), "{error}");
    assert!(error.to_string().ends_with("crashed (SIGSEGV): first\nsecond"), "{error}");
    let error = compiled("kill -ABRT $$").to_string();
    assert!(error.ends_with("crashed (SIGABRT): it said nothing"), "{error}");
    assert!(compiled("exit 139").to_string().contains("crashed (exit code 139, SIGSEGV)"));
    assert!(compiled("echo 'fatal error: error in backend' >&2; exit 70").to_string().contains("crashed (exit code 70"));
    assert!(compiled("echo 'command failed due to signal' >&2; exit 1").to_string().contains("after a crash of what it ran"));
}

#[test]
fn a_compiler_that_makes_something_else() {
    for (what, message) in [
        ("exit 0", "succeeded, but left nothing where its code should be"),
        (": >$OUT", "made what is not a code object: not an ELF file: begins with []"),
        // Opening it would wait for somebody to write.
        ("mkfifo $OUT", "left something that is no file where"),
        ("ln -s /dev/zero $OUT", "left a link where"),
        ("rm stderr; mkfifo stderr; exit 3", "ended with 3: it said nothing"),
        ("rm -r \"$PWD\"; exit 0", "left nothing where"),
        ("echo garbage >$OUT", "made what is not a code object: not an ELF file"),
        ("printf __CLANG_OFFLOAD_BUNDLE__ >$OUT", "an offload bundle, not a code object"),
        ("printf 'no \\033[31mcolour' >&2; exit 3", "ended with 3: no \u{fffd}[31mcolour"),
        ("mkdir $OUT", "left something that is no file where"),
    ] {
        let error = compiled(what).to_string();
        assert!(error.contains(message), "{what}: {error}");
    }
    // A good object for another processor, and one that lacks its end.
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/code-objects");
    let other = compiled(&format!("cat {}/gfx1100-v5.co >$OUT", corpus.display())).to_string();
    assert!(other.contains("broke a promise of the source: the code is for gfx1100, expected gfx90a"), "{other}");
    let cut = compiled(&format!("head -c 3000 {}/gfx90a-v5.co >$OUT", corpus.display())).to_string();
    assert!(cut.contains("reaches beyond the 3000 bytes of the file"), "{cut}");
}

#[test]
fn a_compiler_that_says_or_writes_without_end() {
    // Files with a hole are as long, and cost neither time nor space. Then it goes on, or has ended, well or not, before it is looked at.
    for file in ["$OUT", "stdout", "stderr"] {
        for ending in ["exec sleep 1000", "exit 0", "exit 1"] {
            let error = compiled(&format!("truncate -s 300M {file}; {ending}"));
            assert!(matches!(error, KernelCompileError::TooMuchOutput { .. }), "{file}, {ending}: {error}");
        }
    }
    // What becomes part of an error is little.
    let error = compiled("i=0; while [ $i -lt 2000 ]; do echo line $i of many many lines >&2; i=$((i+1)); done; exit 1").to_string();
    assert!(error.len() < 1000 && error.contains("line 7 of") && !error.contains("line 8 of"), "{error}");
}

#[test]
fn what_a_compiler_sees_of_the_environment() {
    let error = compiled("env | cut -d= -f1 | sort >&2; pwd >&2; ls >&2; exit 1").to_string();
    for name in ["HOME", "USER", "CARGO"] {
        assert!(!error.contains(name), "{error}");
    }
    assert!(error.contains("LC_ALL") && error.contains("TMPDIR"), "{error}");
}
