//! Finding and opening runtimes and devices.

use crate::support::{Count, Fake};
use hipplan::hip::{HipCode, HipError, HipRuntime, LoadFailure};
use hipplan::{Device, MemorySpace};

#[test]
fn a_library_that_is_missing_or_is_no_hip_runtime_is_named_with_the_reason() {
    let error = HipRuntime::open("/nowhere/libamdhip64.so").expect_err("there is none");
    let HipError::Library { tried } = &error else { panic!("{error}") };
    assert_eq!(tried.len(), 1);
    assert!(matches!(tried[0].reason, LoadFailure::Open(_)));
    let text = error.to_string();
    assert_eq!(text.matches("/nowhere/libamdhip64.so").count(), 1, "{text}");
    assert!(text.contains("HIPPLAN_HIP_LIBRARY"), "{text}");

    // What stands there may be no library: a folder, or some text.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("libtext.so");
    std::fs::write(&file, "text").expect("written");
    for path in [folder.path(), &file] {
        let error = HipRuntime::open(path).expect_err("no library").to_string();
        assert!(error.contains(&format!("{}: ", path.display())) && !error.contains("dlopen failed"), "{error}");
        assert!(["directory", "too short"].iter().any(|reason| error.contains(reason)), "{error}");
    }

    let fake = Fake::new(&["NO_MALLOC", "NO_FREE"]);
    let error = fake.open().expect_err("it lacks functions");
    let HipError::Library { tried } = &error else { panic!("{error}") };
    assert_eq!(tried[0].reason, LoadFailure::Symbols(vec!["hipMalloc", "hipFree"]), "all that are missing");
    assert!(error.to_string().contains("it lacks hipMalloc, hipFree"), "{error}");
}

#[test]
fn a_runtime_without_a_device_says_so() {
    for (definition, call, code) in [
        ("INIT=100", "hipInit", "hipErrorNoDevice (code 100)"),
        ("INIT=101", "hipInit", "hipErrorInvalidDevice (code 101)"),
        ("COUNT=0", "hipGetDeviceCount", "hipErrorNoDevice (code 100)"),
    ] {
        let error = Fake::new(&[definition]).open().expect_err("no device");
        let HipError::NoDevice { failure, .. } = &error else { panic!("{error}") };
        assert_eq!(failure.call, call);
        let text = error.to_string();
        assert!(text.contains(code) && text.contains("/dev/kfd") && text.contains("libfake_hip.so"), "{text}");
    }
    let error = Fake::new(&["INIT=4242"]).open().expect_err("it does not start");
    assert!(matches!(error, HipError::Call { failure, .. } if failure.code == HipCode(4242)));
    assert!(error.to_string().contains("hipInit failed with hipErrorOfTomorrow (code 4242)"), "the runtime's own name: {error}");
}

#[test]
fn a_runtime_that_did_not_start_is_not_started_again() {
    for definition in ["INIT=100", "INIT=4242", "COUNT=0"] {
        let fake = Fake::new(&[definition]);
        let first = fake.open().expect_err("it does not start").to_string();
        let link = fake.path.with_file_name("other_name.so");
        std::fs::hard_link(&fake.path, &link).expect("a link");
        for path in [&fake.path, &link, &fake.path] {
            assert_eq!(HipRuntime::open(path).expect_err("nor now").to_string(), first);
        }
        assert_eq!(fake.count(Count::Inits), 1, "{definition}");
    }
    // One that does start has a number of its own, whatever came before it.
    let (one, other) = (Fake::new(&[]), Fake::new(&[]));
    assert_ne!(one.device(0).memory_space(), other.device(0).memory_space());
}

#[test]
fn a_library_that_comes_later_is_found() {
    let fake = Fake::new(&[]);
    let path = fake.path.with_file_name("later.so");
    assert!(matches!(HipRuntime::open(&path), Err(HipError::Library { .. })));
    std::fs::hard_link(&fake.path, &path).expect("a link");
    assert_eq!(HipRuntime::open(&path).expect("there now").device_count(), 1);
}

#[test]
fn the_architecture_is_read_in_every_layout() {
    for layout in ["LAYOUT=5", "LAYOUT=6"] {
        let fake = Fake::new(&[layout]);
        let device = fake.device(0);
        assert_eq!(device.arch(), "gfx942:sramecc+:xnack-");
        let targets: Vec<String> = Device::Hip(device).targets().iter().map(ToString::to_string).collect();
        assert_eq!(targets[..2], ["gfx942:sramecc+:xnack-", "gfx942"], "{layout}");
    }
    let fake = Fake::new(&[r#"ARCH="gfx1100""#]);
    assert_eq!(fake.device(0).target().to_string(), "gfx1100");
    assert_eq!(fake.open().expect("open").version(), Some(60_443_484));
}

#[test]
fn an_architecture_that_is_no_target_is_refused_with_what_was_found() {
    for (arch, shown) in
        [("", "\"\""), ("cpu", "\"cpu\""), ("Fiji", "\"Fiji\""), ("gfx942:", "\"gfx942:\""), ("gfx942:x+", "\"gfx942:x+\"")]
    {
        let fake = Fake::new(&[&format!("ARCH=\"{arch}\"")]);
        let error = fake.open().expect("the runtime").device(0).expect_err("no target");
        assert!(matches!(error, HipError::Arch { ordinal: 0, .. }), "{error}");
        assert!(error.to_string().contains(shown), "{error}");
    }
    // A name that fills its place is cut where the place ends; what stands behind is none of it.
    let long = Fake::new(&[&format!("ARCH=\"gfx{}\"", "9".repeat(300))]);
    let HipError::Arch { found, .. } = long.open().expect("the runtime").device(0).expect_err("no target") else { panic!("another") };
    assert_eq!(found.len(), 255);
    // A runtime without properties.
    let error = Fake::new(&["NO_PROPERTIES"]).open().expect("the runtime").device(0).expect_err("nothing to ask");
    assert!(error.to_string().contains("hipGetDeviceProperties"), "{error}");
}

#[test]
fn one_library_is_one_runtime_and_a_device_is_one_device() {
    let fake = Fake::new(&["COUNT=2"]);
    let runtime = fake.open().expect("open");
    let link = fake.path.with_file_name("other_name.so");
    std::fs::hard_link(&fake.path, &link).expect("a link");
    assert_eq!(HipRuntime::open(&link).expect("open"), runtime, "by another name");
    assert_eq!(runtime.device_count(), 2);
    assert_eq!(fake.device(1), fake.device(1));
    assert_ne!(fake.device(0), fake.device(1));
    assert_ne!(fake.device(0).memory_space(), fake.device(1).memory_space());
    assert!(matches!(fake.device(1).memory_space(), MemorySpace::Hip { ordinal: 1, .. }));
    let error = runtime.device(2).expect_err("there are two");
    assert!(matches!(error, HipError::Ordinal { ordinal: 2, count: 2, .. }), "{error}");
    let other = Fake::new(&[]);
    assert_ne!(other.device(0), fake.device(0));
    assert_ne!(other.device(0).memory_space(), fake.device(0).memory_space(), "another runtime's memory");
}

#[test]
fn a_failing_call_while_a_device_is_opened_is_reported_and_tried_again() {
    let fake = Fake::new(&[]);
    let runtime = fake.open().expect("open");
    fake.fail("hipGetDevicePropertiesR0600", 999, 0);
    let error = runtime.device(0).expect_err("it failed");
    assert!(error.to_string().contains("hipGetDevicePropertiesR0600 failed with hipErrorUnknown (code 999)"), "{error}");
    assert_eq!(runtime.device(0).expect("now").arch(), "gfx942:sramecc+:xnack-");
}
