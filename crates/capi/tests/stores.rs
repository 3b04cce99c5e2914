//! What a store can hold that is of no use, and which plan is taken of several.

mod common;

use common::{ALPHA, Altered, X, Y, compile, scale_and_shift};
use hipplan_capi::*;
use hipplan_exec::cpu::CpuProgram;
use hipplan_planner::{Compiled, Providers};
use hipplan_serialize::{GraphBuf, Target};
use hipplan_store::{Mode, Store};
use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

/// A library handle over one store.
struct Library(*mut hipplan_t);

impl Library {
    fn open(store: &Path) -> Self {
        Self::open_with(store, HIPPLAN_OPEN_READ_ONLY)
    }

    fn open_with(store: &Path, flags: u32) -> Self {
        let store = CString::new(store.to_str().expect("text")).expect("text");
        let stores = [store.as_ptr()];
        let options = hipplan_open_options_t {
            struct_size: size_of::<hipplan_open_options_t>(),
            stores: stores.as_ptr(),
            store_count: 1,
            device: c"cpu".as_ptr(),
            flags,
            reserved: 0,
        };
        let mut library = ptr::null_mut();
        // SAFETY: as the header says.
        assert_eq!(unsafe { hipplan_open(&raw const options, &raw mut library) }, HIPPLAN_OK, "{}", last_error());
        Self(library)
    }

    fn find(&self, graph: &GraphBuf) -> hipplan_status_t {
        let key = hipplan_key_t { bytes: graph.view().canonical().expect("a key").key.0 };
        // SAFETY: as the header says.
        unsafe { hipplan_find(self.0, &raw const key) }
    }

    fn bind(&self, graph: &GraphBuf, max_workspace: u64) -> Result<Plan, hipplan_status_t> {
        let bytes = graph.view().to_artifact();
        let options = hipplan_bind_options_t { struct_size: size_of::<hipplan_bind_options_t>(), max_workspace };
        let mut plan = ptr::null_mut();
        // SAFETY: as the header says.
        match unsafe { hipplan_bind_by_graph(self.0, bytes.as_ptr().cast(), bytes.len(), &raw const options, &raw mut plan) } {
            HIPPLAN_OK => Ok(Plan(plan)),
            status => Err(status),
        }
    }

    fn counters(&self) -> hipplan_counters_t {
        let mut counters = hipplan_counters_t { struct_size: size_of::<hipplan_counters_t>(), ..Default::default() };
        // SAFETY: as the header says.
        assert_eq!(unsafe { hipplan_counters(self.0, &raw mut counters) }, HIPPLAN_OK);
        counters
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: as the header says.
        unsafe { hipplan_close(self.0) }
    }
}

#[derive(Debug)]
struct Plan(*mut hipplan_plan_t);

impl Plan {
    fn workspace_size(&self) -> u64 {
        // SAFETY: as the header says.
        unsafe { hipplan_plan_workspace_size(self.0) }
    }

    fn execute(&self, workspace: *mut u8, size: usize) -> hipplan_status_t {
        let (mut x, mut y, mut alpha) = ([1.0_f32; 4], [0.0_f32; 4], 2.0_f32);
        let entry = |uid, pointer: *mut f32| hipplan_binding_t { uid, pointer: pointer.cast() };
        let bindings = [entry(X, x.as_mut_ptr()), entry(Y, y.as_mut_ptr()), entry(ALPHA, &raw mut alpha)];
        let (workspace, none): (*mut c_void, _) = (workspace.cast(), ptr::null_mut());
        // SAFETY: as the header says.
        let status = unsafe { hipplan_execute(self.0, bindings.as_ptr(), 3, workspace, size, none, ptr::null()) };
        assert_eq!(y, [if status == HIPPLAN_OK { 2.25 } else { 0.0 }; 4]);
        status
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: as the header says.
        unsafe { hipplan_release(self.0) }
    }
}

fn last_error() -> String {
    // SAFETY: a text that ends in zero.
    unsafe { CStr::from_ptr(hipplan_last_error()) }.to_string_lossy().into_owned()
}

/// A store with plans of these compilers, the last one first in the selection.
fn store(compilers: Vec<Altered>) -> (tempfile::TempDir, PathBuf, GraphBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, graph) = (folder.path().join("store"), scale_and_shift());
    for (i, compiler) in compilers.into_iter().enumerate() {
        let mut providers = Providers::none();
        // Only what is not accepted is compiled over: each is put into a store of its own, and their selections are joined.
        providers.add(Box::new(compiler));
        compile(&folder.path().join(format!("single{i}")), &graph.view(), &Target::Cpu, &providers);
    }
    common::join(&folder, &path, &graph);
    (folder, path, graph)
}

/// Makes a program need so much workspace.
fn needs(compiled: &mut Compiled, bytes: u64) {
    let mut program = rkyv::from_bytes::<CpuProgram, rkyv::rancor::Error>(&compiled.body).expect("a program");
    program.workspace_size = bytes;
    compiled.body = rkyv::to_bytes::<rkyv::rancor::Error>(&program).expect("bytes").to_vec();
    compiled.workspace_size = bytes;
}

#[test]
fn the_first_plan_that_needs_little_enough_is_taken() {
    let small = Altered { engine: "SMALL", alter: |compiled| needs(compiled, 256) };
    let large = Altered { engine: "LARGE", alter: |compiled| needs(compiled, 4096) };
    let (_folder, path, graph) = store(vec![large, small]);
    let library = Library::open(&path);
    let size = |max| library.bind(&graph, max).map(|plan| plan.workspace_size());
    assert_eq!(size(u64::MAX), Ok(4096));
    assert_eq!(size(4096), Ok(4096));
    assert_eq!(size(4095), Ok(256));
    assert_eq!(size(256), Ok(256));
    assert_eq!(size(255), Err(HIPPLAN_WORKSPACE));
    assert!(last_error().contains("needs more than 255 bytes of workspace; the smallest needs 256"), "{}", last_error());
    let counters = library.counters();
    assert_eq!((counters.lookups, counters.hits, counters.misses, counters.binds, counters.failures), (5, 4, 1, 4, 1));

    let plan = library.bind(&graph, 256).expect("bound");
    let mut memory = vec![0_u8; 1024];
    let aligned = memory.as_mut_ptr().wrapping_add(memory.as_ptr().align_offset(256));
    assert_eq!(plan.execute(aligned, 256), HIPPLAN_OK);
    assert_eq!(plan.execute(aligned, 255), HIPPLAN_WORKSPACE);
    assert!(last_error().contains("the workspace has 255 bytes, the plan needs 256"), "{}", last_error());
    assert_eq!(plan.execute(aligned.wrapping_add(8), 256), HIPPLAN_WORKSPACE);
    assert!(last_error().contains("not a multiple of"), "{}", last_error());
    assert_eq!(plan.execute(ptr::null_mut(), 0), HIPPLAN_WORKSPACE);
}

/// A plan that is whole and that the device's loader refuses is a failure of its own, unless there is another plan.
#[test]
fn a_plan_that_cannot_be_loaded_is_passed_over() {
    let spoilt = || Altered { engine: "SPOILT", alter: |compiled| compiled.body.truncate(8) };
    let (_folder, path, graph) = store(vec![spoilt()]);
    let library = Library::open(&path);
    assert_eq!(library.find(&graph), HIPPLAN_OK, "nothing is loaded to find it");
    assert_eq!(library.bind(&graph, u64::MAX).map(|_| ()), Err(HIPPLAN_PLAN));
    assert!(last_error().contains("payload"), "{}", last_error());
    assert_eq!(library.counters().failures, 1);

    let good = Altered { engine: "GOOD", alter: |_| () };
    let (_folder, path, graph) = store(vec![spoilt(), good]);
    let plan = Library::open(&path).bind(&graph, u64::MAX).expect("bound");
    assert_eq!(plan.execute(ptr::null_mut(), 0), HIPPLAN_OK);
}

/// A payload of another version is a miss that says so; a damaged file too.
#[test]
fn a_plan_that_cannot_be_used_is_a_miss() {
    let newer = Altered { engine: "NEWER", alter: |compiled| compiled.version = 99 };
    let (_folder, path, graph) = store(vec![newer]);
    let library = Library::open(&path);
    assert_eq!(library.find(&graph), HIPPLAN_MISS);
    assert!(last_error().contains("no loader accepts it") && last_error().contains("99"), "{}", last_error());
    assert_eq!(library.bind(&graph, u64::MAX).map(|_| ()), Err(HIPPLAN_MISS));
    assert_eq!(library.counters().failures, 0, "a miss is none");

    let (_folder, path, graph) = store(vec![Altered { engine: "GOOD", alter: |_| () }]);
    let library = Library::open(&path);
    assert_eq!(library.find(&graph), HIPPLAN_OK);
    for file in common::files(&path.join("plans")) {
        let mut bytes = std::fs::read(&file).expect("read");
        let last = bytes.len() - 100;
        bytes[last] ^= 1;
        let mut permissions = file.metadata().expect("there").permissions();
        #[expect(clippy::permissions_set_readonly_false, reason = "the file goes with the test")]
        permissions.set_readonly(false);
        std::fs::set_permissions(&file, permissions).expect("set");
        std::fs::write(&file, bytes).expect("written");
    }
    // A damaged plan is none.
    assert_eq!(library.bind(&graph, u64::MAX).map(|_| ()), Err(HIPPLAN_MISS));
    assert!(last_error().contains("the file is damaged"), "{}", last_error());
    for file in common::files(&path.join("plans")) {
        std::fs::write(&file, b"").expect("written");
    }
    assert_eq!(library.find(&graph), HIPPLAN_MISS);
    assert!(last_error().contains("plans"), "{}", last_error());
}

const CHILD: &str = "HIPPLAN_TEST_CHILD";

/// Opens without naming a store.
fn open_default(flags: u32) -> (hipplan_status_t, *mut hipplan_t) {
    let options = hipplan_open_options_t {
        struct_size: size_of::<hipplan_open_options_t>(),
        stores: ptr::null(),
        store_count: 0,
        device: c"cpu".as_ptr(),
        flags,
        reserved: 0,
    };
    let mut library = ptr::null_mut();
    // SAFETY: as the header says.
    (unsafe { hipplan_open(&raw const options, &raw mut library) }, library)
}

/// Where the environment names a place that cannot be used, there is no store, and none elsewhere: an error, or degraded a warning and nothing found. That nobody reads
/// standard error changes nothing.
#[test]
fn a_program_without_a_place_for_a_store_finds_nothing() {
    if std::env::var_os(CHILD).is_none() {
        let mut again = std::process::Command::new(std::env::current_exe().expect("this test"));
        again
            .args(["a_program_without_a_place_for_a_store_finds_nothing", "--exact"])
            .env_clear()
            .env(CHILD, "1")
            .env("HIPPLAN_STORE", "/dev/null");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = again.stderr(writer).output().expect("started");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    assert_eq!(open_default(0), (HIPPLAN_STORE, ptr::null_mut()));
    assert!(last_error().contains("/dev/null"), "{}", last_error());
    let (status, library) = open_default(HIPPLAN_OPEN_DEGRADE);
    assert_eq!(status, HIPPLAN_OK, "{}", last_error());
    let library = Library(library);
    let graph = scale_and_shift();
    assert_eq!(library.find(&graph), HIPPLAN_MISS);
    assert!(last_error().contains("no store could be opened"), "{}", last_error());
    let bytes = graph.view().to_artifact();
    // What is compiled is not stored, and kept for this library.
    // SAFETY: as the header says.
    assert_eq!(unsafe { hipplan_compile(library.0, bytes.as_ptr().cast(), bytes.len()) }, HIPPLAN_OK, "{}", last_error());
    assert!(library.bind(&graph, u64::MAX).is_ok(), "{}", last_error());
}

/// A program runs with plans that came in one file, which the environment or the first name of the list says.
#[test]
fn a_bundle_is_served_as_a_layer_of_the_environment_and_as_the_first_store() {
    let graph = scale_and_shift();
    if std::env::var_os(CHILD).is_some() {
        let (status, library) = open_default(0);
        assert_eq!(status, HIPPLAN_OK, "{}", last_error());
        assert_eq!(Library(library).find(&graph), HIPPLAN_OK, "{}", last_error());
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [store, bundle, new] = ["store", "plans.hpbundle", "new"].map(|name| folder.path().join(name));
    compile(&store, &graph.view(), &Target::Cpu, &Providers::default());
    let store = Store::open(&store, Mode::ReadOnly).expect("a store");
    store.export(&bundle, &[], &mut |_| true).expect("exported");

    for flags in [0, HIPPLAN_OPEN_DEGRADE, HIPPLAN_OPEN_READ_ONLY] {
        let library = Library::open_with(&bundle, flags);
        assert_eq!(library.find(&graph), HIPPLAN_OK, "{flags}: {}", last_error());
        let bytes = graph.view().to_artifact();
        // SAFETY: as the header says.
        assert_eq!(unsafe { hipplan_compile(library.0, bytes.as_ptr().cast(), bytes.len()) }, HIPPLAN_STORE);
        assert!(last_error().contains("can be compiled into"), "{}", last_error());
    }
    // Signatures are required of all, and nobody has signed it: the environment may name it as one that need not be.
    let keys = folder.path().join("keys");
    std::fs::write(&keys, hipplan_store::SecretKey::from_seed([3; 32]).public().to_string()).expect("written");
    for (prefix, good) in [("off=", true), ("", false), ("require=", false)] {
        let mut layers = std::ffi::OsString::from(prefix);
        layers.push(&bundle);
        let mut again = std::process::Command::new(std::env::current_exe().expect("this test"));
        again.args(["a_bundle_is_served_as_a_layer_of_the_environment_and_as_the_first_store", "--exact"]);
        again.env_clear().env(CHILD, "1").env("HIPPLAN_LAYERS", &layers).env("TMPDIR", folder.path());
        again.env("HIPPLAN_STORE", &new).env("HIPPLAN_SIGNATURES", "require").env("HIPPLAN_TRUSTED_KEYS", &keys);
        let output = again.output().expect("started");
        assert_eq!(output.status.success(), good, "{prefix} {output:?}");
    }
    for place in [Some(&new), None] {
        let mut again = std::process::Command::new(std::env::current_exe().expect("this test"));
        again.args(["a_bundle_is_served_as_a_layer_of_the_environment_and_as_the_first_store", "--exact"]);
        again.env_clear().env(CHILD, "1").env("HIPPLAN_LAYERS", &bundle).env("TMPDIR", folder.path());
        again.envs(place.map(|place| ("HIPPLAN_STORE", place)));
        let output = again.output().expect("started");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}

/// Where plans must have been compiled before, what is the matter is a status, and every byte of a plan has been read before it is said to be there.
#[test]
fn what_is_the_matter_with_a_plan_that_is_required_is_a_status() {
    let require = |path: &Path, graph: &GraphBuf| {
        let library = Library::open_with(path, HIPPLAN_OPEN_REQUIRE_PRECOMPILED);
        let bytes = graph.view().to_artifact();
        // SAFETY: as the header says.
        let status = unsafe { hipplan_compile(library.0, bytes.as_ptr().cast(), bytes.len()) };
        (status, last_error(), library.counters())
    };
    let (_folder, path, graph) = store(vec![Altered { engine: "GOOD", alter: |_| () }]);
    let (status, _, counters) = require(&path, &graph);
    assert_eq!((status, counters.hits, counters.misses, counters.failures), (HIPPLAN_OK, 1, 0, 0));
    for file in common::files(&path.join("plans")) {
        let mut bytes = std::fs::read(&file).expect("read");
        // In the payload, which opening a plan does not look at.
        let last = bytes.len() - 100;
        bytes[last] ^= 1;
        std::fs::remove_file(&file).expect("removed");
        std::fs::write(&file, bytes).expect("written");
    }
    let (status, text, counters) = require(&path, &graph);
    assert!(status == HIPPLAN_UNREADABLE && text.starts_with("unreadable: "), "{status}: {text}");
    assert_eq!((counters.hits, counters.misses, counters.failures, counters.compiles), (0, 1, 0, 0));

    let (_folder, path, graph) = store(vec![Altered { engine: "NEWER", alter: |compiled| compiled.version = 99 }]);
    let (status, text, _) = require(&path, &graph);
    assert!(status == HIPPLAN_STALE && text.starts_with("stale: "), "{status}: {text}");
    let folder = tempfile::tempdir().expect("a folder");
    drop(Store::open(folder.path(), Mode::ReadWrite).expect("an empty store"));
    let (status, text, _) = require(folder.path(), &graph);
    assert!(status == HIPPLAN_MISS && text.starts_with("missing: "), "{status}: {text}");
}
