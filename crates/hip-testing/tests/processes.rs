//! What needs a process of its own: sanitizers, the report at exit, `fork`.

mod common;

use common::{Host, build_dir, image, kernel};
use hipplan_hip_testing::build;
use std::process::{Command, Output};
use std::{env, ptr};

/// Runs one test of this file again, in a process that finds the variables.
fn again(test: &str, variables: &[(&str, &str)]) -> Output {
    let exe = env::current_exe().expect("this test");
    let mut command = Command::new(exe);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env("HIPPLAN_CHILD", "1").envs(variables.iter().copied());
    command.output().expect("started")
}

fn is_child() -> bool {
    env::var_os("HIPPLAN_CHILD").is_some()
}

/// A kernel that writes `count` numbers, and is told to begin `first` before the memory that it is given.
fn fill(sanitize: bool) -> Vec<u8> {
    let body = "struct Args { int* data; int first, count; };
                KERNEL(fill, 64, Args) {
                    SHARED int tile[64];
                    tile[TX] = TX;
                    SYNC();
                    for (int i = TX; i < a.count; i += 64) a.data[a.first + i] = tile[63 - TX];
                    SYNC();
                }";
    image(&kernel("fill", 64, 16, body), sanitize)
}

#[test]
fn address_sanitizer_sees_what_kernels_do() {
    if is_child() {
        let host = Host::open_at(&build::host_runtime(&build_dir(), true).expect("built"));
        let module = host.hip.load(&fill(true)).expect("loaded");
        let function = host.hip.function(module, "fill").expect("found");
        let memory = host.hip.malloc(400).expect("memory");
        let number = |name: &str| env::var(name).expect(name).parse::<i32>().expect("a number");
        let packed = (number("FIRST") as u32 as u64) | (number("COUNT") as u64) << 32;
        for threads in ["1", "3"] {
            host.set("THREADS", threads);
            host.hip.launch(function, [4, 1, 1], 64, &[memory as u64, packed], ptr::null_mut()).expect("launched");
        }
        if env::var_os("TWICE_FREED").is_some() {
            host.hip.free(memory).expect("freed");
            host.hip.launch(function, [1, 1, 1], 64, &[memory as u64, packed], ptr::null_mut()).expect("launched");
        }
        println!("all was well");
        // Libraries of the test harness leak; the sanitizer's end is not this test's.
        std::process::exit(0);
    }
    let Some(asan) = build::asan_library() else {
        assert!(env::var_os("HIPPLAN_CI").is_none(), "the compiler has no AddressSanitizer");
        eprintln!("skipped: the compiler has no AddressSanitizer");
        return;
    };
    build::host_runtime(&build_dir(), true).expect("built");
    let run = |first: &str, count: &str, more: &[(&str, &str)]| {
        let preload = asan.to_str().expect("a path");
        let fixed = [("LD_PRELOAD", preload), ("ASAN_OPTIONS", "detect_leaks=0"), ("FIRST", first), ("COUNT", count)];
        let output = again("address_sanitizer_sees_what_kernels_do", &[&fixed[..], more].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        (output.status.success(), text)
    };
    let (ok, text) = run("0", "100", &[]);
    assert!(ok && text.contains("all was well"), "{text}");
    for (first, count) in [("0", "101"), ("-1", "1")] {
        let (ok, text) = run(first, count, &[]);
        assert!(!ok && text.contains("heap-buffer-overflow"), "{text}");
    }
    let (ok, text) = run("0", "100", &[("TWICE_FREED", "1")]);
    assert!(!ok && text.contains("heap-use-after-free"), "{text}");
    // The report names the kernel's line.
    assert!(text.contains("fill"), "{text}");
    // Undefined behaviour: the sum of the indices overflows in the last threads, which here come first.
    let (ok, text) = run("2147483600", "100", &[("HIPPLAN_HOST_HIP_ORDER", "reverse")]);
    assert!(!ok && text.contains("runtime error: signed integer overflow"), "{text}");
}

#[test]
fn what_is_left_is_reported_at_exit() {
    if is_child() {
        let host = Host::open_at(&build::host_runtime(&build_dir(), false).expect("built"));
        let kept = host.hip.malloc(400).expect("memory");
        if env::var_os("FREED").is_some() {
            host.hip.free(kept).expect("freed");
        }
        // The library stays until the process ends.
        std::mem::forget(host);
        return;
    }
    build::host_runtime(&build_dir(), false).expect("built");
    let output = again("what_is_left_is_reported_at_exit", &[("HIPPLAN_HOST_HIP_LEAKS", "fail")]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(66), "{text}");
    assert!(text.contains("left at exit: 1 allocations of 400 bytes"), "{text}");
    let output = again("what_is_left_is_reported_at_exit", &[("HIPPLAN_HOST_HIP_LEAKS", "fail"), ("FREED", "1")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn settings_that_are_not_understood_end_the_process() {
    if is_child() {
        Host::open_at(&build::host_runtime(&build_dir(), false).expect("built"));
        return;
    }
    build::host_runtime(&build_dir(), false).expect("built");
    for (name, value) in [
        ("HIPPLAN_HOST_HIP_DEVICES", "9"),
        ("HIPPLAN_HOST_HIP_ORDER", "sideways"),
        ("HIPPLAN_HOST_HIP_FAIL", "hipMalloc:2"),
        ("HIPPLAN_HOST_HIP_FAIL", "hipMalloc:0:2"),
        ("HIPPLAN_HOST_HIP_MEMORY", "-1"),
        ("HIPPLAN_HOST_HIP_POISON", "256"),
    ] {
        let output = again("settings_that_are_not_understood_end_the_process", &[(name, value)]);
        assert_eq!(output.status.code(), Some(65), "{name}={value}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("{name}={value} is not understood")));
    }
}
