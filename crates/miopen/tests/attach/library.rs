//! `libhipplan.so.0`: which file, which versions, what if it is missing. The library is made up, in C.

use crate::fake::{Fake, NEXT_HANDLE, call};
use crate::{child, enabled};
use hipplan_miopen::{handles, hipplan, last_error};
use hipplan_miopen_abi::types::Handle;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

pub(crate) fn body(role: &str) -> bool {
    match role {
        "open" => open(),
        "devices" => devices(),
        "hip device" => hip_device(),
        _ => return false,
    }
    true
}

/// Tells what comes of opening it.
fn open() {
    let fake = Fake::new();
    fake.attach();
    let mut handle = std::ptr::null_mut();
    assert_eq!(call!(fake, miopenCreate: fn(*mut Handle) -> i32, &raw mut handle), 0, "it succeeds whatever else is wrong");
    for _ in 0..2 {
        match hipplan::api() {
            Ok(_) => println!("opened"),
            Err(why) => println!("{why}"),
        }
        match hipplan::context(0) {
            Ok(context) => println!("context {}", !context.is_null()),
            Err(failure) => println!("no context: {}: {}", failure.code, failure.text),
        }
    }
    println!("device {}", handles::device(handle));
}

/// What HIP says is the current device; it fails while there is none.
static DEVICE: AtomicI32 = AtomicI32::new(-1);

/// The process's HIP, looked up in the program as a whole.
#[unsafe(no_mangle)]
extern "C" fn hipGetDevice(ordinal: *mut std::ffi::c_int) -> std::ffi::c_int {
    let device = DEVICE.load(Relaxed);
    // SAFETY: the caller's place for it.
    unsafe { *ordinal = device };
    i32::from(device < 0)
}

fn hip_device() {
    let fake = Fake::new();
    fake.attach();
    DEVICE.store(2, Relaxed);
    let mut handle = std::ptr::null_mut();
    assert_eq!(call!(fake, miopenCreate: fn(*mut Handle) -> i32, &raw mut handle), 0);
    DEVICE.store(3, Relaxed);
    assert_eq!(handles::device(handle), 2);
}

#[test]
fn making_a_handle_asks_hip_and_opens_nothing() {
    let ran = enabled("hip device", &[("HIPPLAN_LIBRARY", "/nowhere/libhipplan.so.0")]);
    assert_eq!(ran.err.lines().count(), 1, "only the banner: {}", ran.err);
}

fn devices() {
    let fake = Fake::new();
    fake.attach();
    let create = |address: u32| {
        NEXT_HANDLE.store(address, Relaxed);
        let mut handle = std::ptr::null_mut();
        assert_eq!(call!(fake, miopenCreate: fn(*mut Handle) -> i32, &raw mut handle), 0);
        handle
    };
    let set_device = |device: i32| {
        // SAFETY: the stand-in exports it, and has been opened by the first create.
        unsafe {
            let library = libc::dlopen(
                std::env::var("HIPPLAN_LIBRARY").map(|path| std::ffi::CString::new(path).expect("a path")).expect("set").as_ptr(),
                libc::RTLD_NOW,
            );
            let set = libc::dlsym(library, c"fake_set_device".as_ptr());
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn(i32)>(set)(device);
        }
    };
    let first = create(0x1000);
    set_device(3);
    let second = create(0x2000);
    set_device(5);
    assert_eq!((handles::device(first), handles::device(second)), (0, 3));
    // Never seen: on the current device, from now on.
    let unknown: Handle = std::ptr::without_provenance_mut(0x3000);
    assert_eq!(handles::device(unknown), 5);
    set_device(1);
    assert_eq!(handles::device(unknown), 5);
    // Destroyed, and its address is back.
    assert_eq!(call!(fake, miopenDestroy: fn(Handle) -> i32, second), 0);
    assert_eq!(call!(fake, miopenEnableProfiling: fn(Handle, u8) -> i32, first, 1), 0);
    assert!(handles::is_profiling(first));
    assert_eq!(handles::device(create(0x2000)), 1);
    assert_eq!(handles::device(create(0x1000)), 1);
    assert!(!handles::is_profiling(first));
    // More than a chunk of them, from several threads.
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            scope.spawn(move || {
                set_device(7);
                for at in 0..400_usize {
                    let handle: Handle = std::ptr::without_provenance_mut(0x10_0000 + 64 * (at + 100 * thread));
                    assert_eq!(handles::device(handle), 7);
                }
            });
        }
    });
    set_device(2);
    for at in 0..700_usize {
        assert_eq!(handles::device(std::ptr::without_provenance_mut(0x10_0000 + 64 * at)), 7);
    }
    assert_eq!(handles::device(first), 1);
    // One context for each device.
    let context = hipplan::context(3).expect("a context");
    assert_eq!(hipplan::context(3).expect("a context"), context);
    assert_ne!(hipplan::context(4).expect("a context"), context);
    assert_eq!(hipplan::context(-1).expect_err("no such device").code, hipplan::status::DEVICE);
    let refused = hipplan::context(13).expect_err("the stand-in refuses it");
    assert_eq!((refused.code, refused.text.as_str()), (hipplan::status::STORE, "hip:13 cannot be opened: fake: no"));
}

/// The stand-in, built with these definitions.
fn build(folder: &Path, name: &str, definitions: &[&str]) -> PathBuf {
    let path = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attach/fake_hipplan.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&path).arg(source);
    cc.args(definitions.iter().map(|d| format!("-D{d}")));
    assert!(cc.status().expect("a C compiler").success());
    path
}

#[test]
fn the_library_is_missing() {
    let ran = enabled("open", &[("HIPPLAN_LIBRARY", "/nowhere/libhipplan.so.0")]);
    let code = last_error::UNAVAILABLE;
    assert_eq!(ran.out.matches("libhipplan.so.0 cannot be opened: /nowhere/libhipplan.so.0: ").count(), 4, "{}", ran.out);
    assert_eq!(ran.out.matches(&format!("no context: {code}: libhipplan.so.0 cannot")).count(), 2, "{}", ran.out);
    assert!(ran.out.contains("device -1"), "{}", ran.out);
    assert_eq!(ran.err.matches("forwarding is requested, but libhipplan.so.0 cannot be opened").count(), 1, "once: {}", ran.err);
    // Asked for nowhere, and nowhere to be found.
    let ran = enabled("open", &[]);
    assert!(ran.out.contains("libhipplan.so.0 cannot be opened: libhipplan.so.0: "), "{}", ran.out);
    // With forwarding off nobody looks for it. The role asks, which is not the wrapper's doing.
    let ran = child(&[], "off", &[("HIPPLAN_LIBRARY", "/nowhere/libhipplan.so.0")]);
    assert_eq!(ran.err, "");
}

#[test]
fn only_the_same_major_version_with_all_functions_is_taken() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let opened = |name: &str, definitions: &[&str]| {
        let library = build(folder.path(), name, definitions);
        let ran = enabled("open", &[("HIPPLAN_LIBRARY", library.to_str().expect("UTF-8"))]);
        (ran.out, ran.err)
    };
    for (name, definitions) in [("this.so", ["VERSION=0x00000001"]), ("newer.so", ["VERSION=0x0000fff0"])] {
        let (out, err) = opened(name, &definitions);
        assert_eq!(out.matches("opened\ncontext true\n").count(), 2, "{out}");
        assert!(out.contains("device 0"), "{out}");
        assert_eq!(err.lines().count(), 1, "only the banner: {err}");
    }
    for (name, version, found) in [("older.so", "VERSION=0x00000000", "0.0"), ("major.so", "VERSION=0x00010001", "1.1")] {
        let (out, err) = opened(name, &[version]);
        let reason = format!("{name} is of version {found}, and 0.1 or a newer 0.x is needed");
        assert_eq!(out.matches(&reason).count(), 4, "{out}");
        assert_eq!(err.matches(&reason).count(), 1, "{err}");
    }
    let (out, _) = opened("without.so", &["VERSION=1", "WITHOUT_PLAN_KEY"]);
    assert!(out.contains("without.so has no hipplan_plan_key"), "{out}");
    let (out, _) = opened("unversioned.so", &["VERSION=1", "WITHOUT_VERSION"]);
    assert!(out.contains("unversioned.so has no hipplan_version"), "{out}");
}

#[test]
fn handles_have_devices_and_devices_have_contexts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = build(folder.path(), "devices.so", &["VERSION=1"]);
    enabled("devices", &[("HIPPLAN_LIBRARY", library.to_str().expect("UTF-8")), ("HIPPLAN_MIOPEN_STORE", "/a::/b")]);
}
