//! A wrapper attaches: what is redirected when, what is told, and what the watching functions do. Settings are read once for each process,
//! so each case is a process of its own.

mod fake;
mod library;
mod watching;

use fake::{Fake, call, names};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::Command;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
struct Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

const ROLE: &str = "HIPPLAN_TEST_ATTACH_ROLE";
/// A name that is forwarded.
const FORWARDED: &str = "miopenConvolutionForward";

/// What a child did.
struct Ran {
    out: String,
    err: String,
}

/// This test executable again, to play a role in this environment and no other.
fn child(launcher: &[&str], role: &str, environment: &[(&str, &str)]) -> Ran {
    let this = std::env::current_exe().expect("this executable");
    let mut command = Command::new(launcher.first().map_or(this.as_os_str(), std::ffi::OsStr::new));
    if let [_, arguments @ ..] = launcher {
        command.args(arguments).arg(this);
    }
    command.args(["body", "--exact", "--nocapture", "--test-threads=1"]);
    let kept = std::env::vars().filter(|(name, _)| !name.starts_with("MIOPEN") && !name.starts_with("HIPPLAN"));
    let output = command.env_clear().envs(kept).env(ROLE, role).envs(environment.iter().copied()).output().expect("it ran");
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{role}: {:?}: {out}{err}", output.status);
    Ran { out, err }
}

fn enabled(role: &str, more: &[(&str, &str)]) -> Ran {
    child(&[], role, &[&[("MIOPEN_HIPDNN_FORWARDING", "1")], more].concat())
}

/// Not a test of its own: what a child runs.
#[test]
fn body() {
    match std::env::var(ROLE).as_deref() {
        Ok("off") => off(),
        Ok("attach") => attach(),
        Ok("twice") => twice(),
        Ok("damaged") => damaged(),
        Ok("calls") => calls(),
        Ok("ids") => ids(),
        Ok(role) => assert!(watching::body(role) || library::body(role), "an unknown role: {role}"),
        Err(_) => {}
    }
}

/// Attaches, and tells what is redirected.
fn attach() {
    let fake = Fake::new();
    fake.attach();
    println!("redirected={:?} writable={}", fake.redirected(), fake.writable());
}

fn off() {
    let fake = Fake::new();
    let before = allocations();
    // SAFETY: writes to nowhere; they mark the place in a trace.
    unsafe { libc::write(-1, c"attaching".as_ptr().cast(), 9) };
    fake.attach();
    // SAFETY: as above.
    unsafe { libc::write(-1, c"attached".as_ptr().cast(), 8) };
    assert_eq!(allocations(), before, "it allocates");
    assert!(fake.redirected().is_empty() && fake.writable());
}

#[test]
fn with_forwarding_off_nothing_happens() {
    for value in ["", "0", "off", "NO", "False", "disable", "Disabled"] {
        let ran = child(&[], "off", &[("MIOPEN_HIPDNN_FORWARDING", value), ("HIPPLAN_MIOPEN_TRACE", "1"), ("HIPPLAN_MIOPEN_REPORT", "1")]);
        assert_eq!(ran.err, "", "{value}");
    }
    assert_eq!(child(&[], "off", &[]).err, "");
}

#[test]
fn with_forwarding_off_attaching_makes_no_system_call() {
    if Command::new("strace").arg("-V").output().is_err() {
        assert!(std::env::var_os("HIPPLAN_CI").is_none(), "strace is needed and not installed");
        eprintln!("skipped: strace is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("trace");
    let log = log.to_str().expect("UTF-8");
    child(&["strace", "-f", "-qq", "-o", log], "off", &[("MIOPEN_HIPDNN_FORWARDING", "0")]);
    let trace = std::fs::read_to_string(log).expect("a trace");
    let marker = |text| trace.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text}: {trace}"));
    let thread = |line: &str| line.split(' ').next().map(str::to_owned);
    let (from, to) = (marker("\"attaching\""), marker("\"attached\""));
    let lines: Vec<_> = trace.lines().collect();
    // The end of a call whose beginning stands further up: that of the marker, where another thread's call came between.
    let is_call = |line: &&&str| thread(line) == thread(lines[from]) && !line.contains(" resumed>");
    let between: Vec<_> = lines[from + 1..to].iter().filter(is_call).collect();
    assert!(between.is_empty(), "{between:#?}");
}

#[test]
fn an_unknown_word_is_one_warning_and_off() {
    let ran = child(&[], "attach", &[("MIOPEN_HIPDNN_FORWARDING", "maybe")]);
    assert!(ran.out.contains("redirected=[] writable=true"), "{}", ran.out);
    assert_eq!(ran.err, "[hipplan] warning: MIOPEN_HIPDNN_FORWARDING=maybe: expected enabled or disabled; taken as disabled\n");
}

#[test]
fn what_is_forwarded_and_watched_is_redirected_and_locked() {
    for value in ["1", "ON", "yes", "TRUE", "enable", "Enabled"] {
        let ran = child(&[], "attach", &[("MIOPEN_HIPDNN_FORWARDING", value), ("HIPPLAN_MIOPEN_STORE", "/a:/b")]);
        let expected: Vec<_> = names().into_iter().filter(|name| hipplan_miopen::routing::find(name.as_bytes()).is_some()).collect();
        assert!(ran.out.contains(&format!("redirected={expected:?} writable=false")), "{}", ran.out);
        assert_eq!(ran.err.lines().count(), 1, "one banner: {}", ran.err);
        assert!(ran.err.contains("/a, /b") && ran.err.contains("libMIOpen_private.so.1"), "{}", ran.err);
        assert!(expected.contains(&FORWARDED) && expected.contains(&"miopenCreate"));
    }
}

fn twice() {
    let fake = Fake::new();
    fake.attach();
    let first = fake.redirected();
    fake.attach();
    assert_eq!(fake.redirected(), first);
    // Another wrapper in front of the same library.
    let same = Fake::new();
    same.attach();
    assert_eq!(same.redirected(), first);
    // In front of another one.
    let other = Fake::new();
    let at = names().iter().position(|name| *name == FORWARDED).expect("there");
    other.entries[at].implementation = fake::many as *const std::ffi::c_void;
    other.table.private_soname = c"libMIOpen_other.so.1".as_ptr();
    other.attach();
    assert!(other.redirected().is_empty() && other.writable());
}

#[test]
fn wrappers_of_one_library_attach_and_another_one_is_left_alone() {
    let ran = enabled("twice", &[]);
    assert_eq!(ran.err.lines().count(), 2, "{}", ran.err);
    assert!(ran.err.contains("a second MIOpen (libMIOpen_other.so.1) is in the process"), "{}", ran.err);
}

fn damaged() {
    let changes: [fn(&mut Fake); 12] = [
        |fake| fake.table.magic = 0,
        |fake| fake.table.version += 1,
        |fake| fake.table.entry_size = 32,
        |fake| fake.table.count = u32::MAX,
        |fake| fake.table.entries = std::ptr::null(),
        |fake| fake.table.slots = std::ptr::null_mut(),
        |fake| fake.table.slots = fake.table.slots.wrapping_byte_add(8),
        |fake| fake.table.slots_size = 0,
        |fake| fake.table.slots_size = u64::MAX,
        |fake| fake.entries[1].name = std::ptr::null(),
        |fake| fake.entries[1].implementation = std::ptr::null(),
        |fake| fake.entries[1].slot = fake.table.slots.wrapping_byte_add(fake::PAGES).cast(),
    ];
    for change in changes {
        let mut fake = Fake::new();
        let slots: Vec<_> = fake.entries.iter().map(|entry| entry.slot).collect();
        change(&mut fake);
        fake.attach();
        for (entry, slot) in fake.entries.iter_mut().zip(slots) {
            entry.slot = slot;
        }
        assert!(fake.redirected().is_empty());
    }
    // SAFETY: null is allowed.
    unsafe { hipplan_miopen::miopen_forwarding_attach(std::ptr::null()) };
}

#[test]
fn tables_of_other_versions_and_damaged_ones_are_left_alone() {
    let ran = enabled("damaged", &[]);
    assert_eq!(ran.err.lines().count(), 13, "{}", ran.err);
    assert_eq!(ran.err.matches("is of another version").count(), 3, "{}", ran.err);
    assert_eq!(ran.err.matches("is damaged").count(), 10, "{}", ran.err);
    assert!(ran.err.lines().all(|line| line.starts_with("[hipplan] warning: ") && line.contains("split MIOpen again")), "{}", ran.err);
}

#[test]
fn what_is_denied_is_not_redirected() {
    let ran = enabled("attach", &[("MIOPEN_DISABLE_HIPDNN_FOR", "*")]);
    // But for what takes ids of solutions, which may be ours, from another process.
    let ids: Vec<_> = hipplan_miopen::routing::ENTRIES.iter().filter(|entry| entry.takes_solution_id()).map(|entry| entry.name).collect();
    let redirected: Vec<_> = names().into_iter().filter(|name| ids.contains(name)).collect();
    assert!(ran.out.contains(&format!("redirected={redirected:?} writable=false")), "{}", ran.out);
    assert!(ran.err.contains("everything is excluded from it: libMIOpen_private.so.1 answers all calls"), "{}", ran.err);
    // A name takes its family with it: what one call finds, another one runs.
    for word in [FORWARDED, "convolution-forward", "fwd , key:00", "FWD"] {
        let ran = enabled("attach", &[("MIOPEN_DISABLE_HIPDNN_FOR", word)]);
        assert!(
            !ran.out.contains("\"miopenConvolutionForward\"") && !ran.out.contains("\"miopenFindConvolutionForwardAlgorithm\""),
            "{}",
            ran.out
        );
        assert!(ran.out.contains("\"miopenConvolutionBackwardData\"") && ran.out.contains("\"miopenCreate\""), "{}", ran.out);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
    let ran = enabled("attach", &[("MIOPEN_DISABLE_HIPDNN_FOR", "convolutions,miopenOpTensor,f16,miopenConvolutionforward")]);
    assert!(ran.out.contains("\"miopenConvolutionForward\""), "{}", ran.out);
    assert_eq!(ran.err.matches("names nothing that is forwarded; ignored").count(), 3, "{}", ran.err);
}

/// An id of ours and one of MIOpen's, where convolutions are MIOpen's.
fn ids() {
    use hipplan_miopen_abi::types::{ConvolutionDescriptor, Handle, TensorDescriptor};
    let fake = Fake::new();
    fake.attach();
    fake::STATUS.store(77, std::sync::atomic::Ordering::Relaxed);
    let (none, null) = (std::ptr::null_mut, std::ptr::null_mut);
    let compile = |id: u64| {
        call!(
            fake, miopenConvolutionBackwardDataCompileSolution:
            fn(Handle, TensorDescriptor, TensorDescriptor, ConvolutionDescriptor, TensorDescriptor, u64) -> i32,
            none(), null(), null(), std::ptr::null_mut(), null(), id
        )
    };
    assert_eq!((compile(85), compile(hipplan_miopen::solution_id::OURS | 7)), (77, 3));
}

#[test]
fn ids_of_plans_are_refused_where_convolutions_are_miopens() {
    for variable in [("MIOPEN_DISABLE_HIPDNN_FOR", "*"), ("MIOPEN_DISABLE_HIPDNN_FOR", "bwd"), ("MIOPEN_FIND_ENFORCE", "3")] {
        let ran = enabled("ids", &[variable]);
        assert_eq!(ran.err.matches("the environment leaves all of these calls to MIOpen").count(), 1, "{}", ran.err);
    }
}

#[test]
fn variables_that_steer_miopen_keep_convolutions_there() {
    let steering = [
        ("MIOPEN_FIND_ENFORCE", "3"),
        ("MIOPEN_FIND_ENFORCE", "SEARCH"),
        ("MIOPEN_CHECK_NUMERICS", "0x1"),
        ("MIOPEN_DEBUG_CONV_GEMM", "0"),
        ("MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC", "1"),
        ("MIOPEN_DEBUG_FIND_ONLY_SOLVER", "85"),
        ("MIOPEN_DEBUG_COMPILE_ONLY", "1"),
        ("MIOPEN_DEVICE_ARCH", "gfx90a"),
    ];
    for (name, value) in steering {
        let ran = enabled("attach", &[(name, value)]);
        assert!(!ran.out.contains("ConvolutionForward\"") && !ran.out.contains("\"miopenFind"), "{name}: {}", ran.out);
        assert!(!ran.out.contains("ActivationForward") && ran.out.contains("\"miopenConvolutionForwardBias\""), "{name}: {}", ran.out);
        assert_eq!(ran.err.matches(&format!("{name} is set")).count(), 1, "{}", ran.err);
    }
    let harmless = [
        ("MIOPEN_FIND_ENFORCE", "1"),
        ("MIOPEN_FIND_ENFORCE", "none"),
        ("MIOPEN_CHECK_NUMERICS", "0"),
        ("MIOPEN_DEBUG_COMPILE_ONLY", "off"),
    ];
    for (name, value) in harmless.into_iter().chain([("MIOPEN_FIND_MODE", "2"), ("MIOPEN_DEBUG_CONV_GEMM", "")]) {
        let ran = enabled("attach", &[(name, value)]);
        assert!(ran.out.contains("\"miopenConvolutionForward\""), "{name}: {}", ran.out);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
}

#[test]
fn settings_that_are_not_understood_are_warnings() {
    let ran = enabled("attach", &[("HIPPLAN_MIOPEN_MISS", "perhaps"), ("HIPPLAN_MIOPEN_TRACE", "2")]);
    assert_eq!(ran.err.matches("warning: HIPPLAN_MIOPEN_").count(), 2, "{}", ran.err);
    assert!(ran.out.contains("\"miopenConvolutionForward\""), "{}", ran.out);
    let ran = enabled("attach", &[("HIPPLAN_MIOPEN_MISS", "perhaps"), ("MIOPEN_LOG_LEVEL", "1")]);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
}

#[test]
fn routes_are_told_at_log_level_6() {
    for level in ["6", "7", "0x6"] {
        let ran = enabled("attach", &[("MIOPEN_LOG_LEVEL", level), ("MIOPEN_DISABLE_HIPDNN_FOR", "wrw")]);
        for name in names() {
            assert_eq!(ran.err.matches(&format!("[MIOpen] hipDNN routing: {name} mode=enabled route=")).count(), 1, "{name}: {}", ran.err);
        }
        for line in [
            "miopenConvolutionForward mode=enabled route=hipdnn reason=in-forwarding-set\n",
            "miopenConvolutionBackwardWeights mode=enabled route=miopen reason=disabled-by-env\n",
            "miopenOpTensor mode=enabled route=miopen reason=not-in-forwarding-set\n",
            "miopenCreate mode=enabled route=miopen reason=observed\n",
        ] {
            assert!(ran.err.contains(line), "{line}: {}", ran.err);
        }
    }
    assert!(!enabled("attach", &[("MIOPEN_LOG_LEVEL", "5")]).err.contains("routing"));
}

/// Calls with arguments wherever arguments can be.
fn calls() {
    let fake = Fake::new();
    fake.attach();
    type Many = [f64; 10];
    let doubles: Many = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5];
    let [x0, x1, x2, x3, x4, x5, x6, x7, x8, x9] = doubles;
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = 77 };
    let sum = call!(
        fake, miopenOpTensor: fn(i64, f64, i64, f64, i64, f64, i64, f64, i64, f64, i64, f64, i64, f64, i64, f64, i64, f64, u8, f32) -> f64,
        1, x0, -2, x1, 3, x2, 4, x3, i64::MAX >> 20, x4, 6, x5, 7, x6, 8, x7, 9, x8, 200, x9 as f32,
    );
    // SAFETY: errno of this thread.
    assert_eq!(unsafe { *libc::__errno_location() }, 77);
    // SAFETY: the function takes these.
    let direct = unsafe { fake::many(1, x0, -2, x1, 3, x2, 4, x3, i64::MAX >> 20, x4, 6, x5, 7, x6, 8, x7, 9, x8, 200, x9 as f32) };
    assert_eq!(sum.to_bits(), direct.to_bits());
    let mut text = [0_u8; 128];
    let target = fake.target("miopenSnprintf");
    // SAFETY: the function behind it is snprintf.
    let length = unsafe {
        let snprintf: unsafe extern "C" fn(*mut libc::c_char, usize, *const libc::c_char, ...) -> libc::c_int = std::mem::transmute(target);
        snprintf(
            text.as_mut_ptr().cast(),
            text.len(),
            c"%d %g %d %g %d %g %s %g %d %g".as_ptr(),
            1,
            1.5,
            2,
            2.5,
            3,
            3.5,
            c"four".as_ptr(),
            4.5,
            5,
            5.5,
        )
    };
    assert_eq!(&text[..usize::try_from(length).expect("a length")], b"1 1.5 2 2.5 3 3.5 four 4.5 5 5.5");
    let mut handle = std::ptr::null_mut();
    assert_eq!(call!(fake, miopenCreate: fn(*mut hipplan_miopen_abi::types::Handle) -> i32, &raw mut handle), 0);
    assert_eq!(call!(fake, miopenGetVersion: fn() -> i32,), 0);
    println!("redirected={} of {}", fake.redirected().len(), names().len());
}

#[test]
fn traced_calls_keep_their_arguments_and_get_a_line_each() {
    let ran = enabled("calls", &[("HIPPLAN_MIOPEN_TRACE", "1"), ("HIPPLAN_LIBRARY", "/nowhere")]);
    let all = names().len();
    assert!(ran.out.contains(&format!("redirected={all} of {all}")), "{}", ran.out);
    let lines: Vec<_> = ran.err.lines().filter(|line| line.starts_with("[hipplan] call ")).collect();
    assert_eq!(
        lines,
        [
            "[hipplan] call miopenOpTensor mode=enabled route=miopen reason=not-in-forwarding-set",
            "[hipplan] call miopenSnprintf mode=enabled route=miopen reason=not-in-forwarding-set",
            "[hipplan] call miopenCreate mode=enabled route=miopen reason=observed",
            "[hipplan] call miopenGetVersion mode=enabled route=miopen reason=not-in-forwarding-set",
        ]
    );
    // Untraced, the same works and tells nothing.
    let ran = enabled("calls", &[("HIPPLAN_LIBRARY", "/nowhere")]);
    assert!(!ran.err.contains("[hipplan] call "), "{}", ran.err);
}

#[test]
fn everything_denied_can_still_be_traced() {
    let ran = enabled("calls", &[("HIPPLAN_MIOPEN_TRACE", "1"), ("MIOPEN_DISABLE_HIPDNN_FOR", "*")]);
    assert!(ran.err.contains("call miopenGetVersion mode=enabled route=miopen reason=not-in-forwarding-set"), "{}", ran.err);
    assert!(ran.err.contains("call miopenCreate mode=enabled route=miopen reason=observed"), "{}", ran.err);
}
