//! The library as it is loaded: it exports one function, and needs nothing that a process with MIOpen may lack.

use std::path::PathBuf;
use std::process::Command;

/// Cargo builds it beside the tests.
fn library() -> PathBuf {
    let tests = std::env::current_exe().expect("this executable");
    tests.parent().expect("its folder").join("libhipplan_miopen.so")
}

/// What a tool of binutils prints about it; none if it is not installed.
fn told(tool: &str, arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(tool).args(arguments).arg(library()).output() else {
        assert!(std::env::var_os("HIPPLAN_CI").is_none(), "{tool} is needed and not installed");
        eprintln!("skipped: {tool} is not installed");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn one_function_is_exported() {
    let Some(symbols) = told("nm", &["-D", "--defined-only", "--format=posix"]) else { return };
    let names: Vec<_> = symbols.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, [hipplan_miopen_abi::table::ATTACH_SYMBOL]);
}

#[test]
fn neither_hipplan_nor_miopen_is_linked() {
    let Some(symbols) = told("nm", &["-D", "--undefined-only", "--format=posix"]) else { return };
    let names: Vec<_> = symbols.lines().filter_map(|line| line.split(['@', ' ']).next()).collect();
    assert!(names.contains(&"dlopen"), "{names:?}");
    let linked: Vec<_> = names.iter().filter(|name| ["hipplan", "miopen", "hip"].iter().any(|prefix| name.starts_with(prefix))).collect();
    assert!(linked.is_empty(), "{linked:?}");
}

#[test]
fn the_loader_is_told_what_wrappers_rely_on() {
    let Some(dynamic) = told("readelf", &["-d", "-W"]) else { return };
    let values = |tag: &str| -> Vec<String> {
        let of_tag = dynamic.lines().filter(|line| line.contains(&format!("({tag})")));
        of_tag.map(|line| line.rsplit(')').next().unwrap_or("").trim().to_owned()).collect()
    };
    assert_eq!(values("SONAME"), [format!("Library soname: [{}]", hipplan_miopen_abi::table::SHIM_SONAME)]);
    let flags = values("FLAGS_1");
    assert!(flags.len() == 1 && flags[0].contains("NOW") && flags[0].contains("NODELETE"), "{dynamic}");
    for needed in values("NEEDED") {
        let known = ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libm.so.6", "libdl.so.2", "libpthread.so.0"];
        assert!(known.iter().any(|known| needed.ends_with(&format!("[{known}]"))), "{needed}");
    }
}
