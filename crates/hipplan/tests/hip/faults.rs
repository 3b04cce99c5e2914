//! What goes wrong on a device: each fault is an error that names call and code, and nothing leaks.

use crate::support::{
    Buffers, Count, Fake, SCALAR, Stored, code_object, opaque_object, program, program_with_workspace, real_object, runtime_graph,
};
use hipplan::hip::{DeviceMemory, HipCode, HipDevice, HipError, HipEvent, HipStream};
use hipplan::{
    BoundPlan, Device, Digest, ExecError, Loaders, Plan, Policy, Restore, Stream, Target, VariantPack, find_by_graph_key, find_for_targets,
};

fn bound(device: &HipDevice) -> BoundPlan {
    Stored::new(device, runtime_graph(), program_with_workspace()).bind().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn out_of_device_memory() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    for bytes in [1 << 41, u64::MAX] {
        let error = DeviceMemory::new(&device, bytes).expect_err("there is not so much");
        assert!(matches!(error, HipError::OutOfMemory { memory: Some((1000, 4000)), .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&bytes.to_string()) && text.contains("hipMalloc failed with hipErrorOutOfMemory (code 2)"), "{text}");
        assert!(text.contains("1000 of its 4000"), "{text}");
    }
    fake.fail("hipMemcpy", 1, 0);
    let error = DeviceMemory::from_slice(&device, &[1_u8; 10]).expect_err("the copy failed");
    assert!(error.to_string().contains("copying to the device (10 bytes): hipMemcpy failed"), "{error}");
    fake.assert_empty();
    let none = DeviceMemory::new(&device, 0).expect("nothing is always to be had");
    none.copy_to_host::<u8>(0, &mut []).expect("nothing is copied");
}

#[test]
fn every_call_that_fails_is_named_and_the_device_goes_on() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let mut plan = bound(&device);
    let mut buffers = Buffers::new(&device, &plan);
    let stream = HipStream::new(&device).expect("a stream");
    let event = HipEvent::new(&device).expect("an event");
    type Act<'a> = Box<dyn FnMut() -> Result<(), ExecError> + 'a>;
    let acts: Vec<(&str, Act<'_>)> = vec![
        ("hipModuleLaunchKernel", {
            let (plan, buffers) = (&mut plan, &mut buffers);
            Box::new(|| buffers.execute(plan, Stream::Default, |p| _ = p.scalar(SCALAR, 1.0_f32)).map(|_| ()))
        }),
        ("hipDeviceSynchronize", Box::new(|| Ok(device.synchronize()?))),
        ("hipStreamSynchronize", Box::new(|| Ok(stream.synchronize()?))),
        ("hipStreamWaitEvent", Box::new(|| Ok(stream.wait(&event)?))),
        ("hipEventRecord", Box::new(|| Ok(event.record(Stream::Default)?))),
        ("hipEventSynchronize", Box::new(|| Ok(event.synchronize()?))),
        ("hipEventElapsedTime", Box::new(|| Ok(event.elapsed_ms(&event).map(|_| ())?))),
        ("hipStreamCreateWithFlags", Box::new(|| Ok(HipStream::new(&device).map(|_| ())?))),
        ("hipEventCreateWithFlags", Box::new(|| Ok(HipEvent::new(&device).map(|_| ())?))),
        ("hipMalloc", Box::new(|| Ok(DeviceMemory::new(&device, 8).map(|_| ())?))),
        ("hipMemsetAsync", Box::new(|| Ok(DeviceMemory::new(&device, 8)?.fill(1)?))),
    ];
    for (call, mut act) in acts {
        for code in [1, 4242] {
            fake.fail(call, code, 0);
            let Err(error) = act() else { panic!("{call} failed") };
            assert!(
                matches!(&error, ExecError::Hip(HipError::Call { failure, .. })
                if failure.call == call && failure.code == HipCode(code)),
                "{error}"
            );
            let name = if code == 1 { "hipErrorInvalidValue (code 1)" } else { "hipErrorOfTomorrow (code 4242)" };
            assert!(error.to_string().contains(&format!("{call} failed with {name}")), "{error}");
        }
        if call != "hipEventElapsedTime" {
            act().unwrap_or_else(|e| panic!("{call} works again: {e}"));
        }
    }
    drop((plan, buffers, stream, event));
    fake.assert_empty();
}

#[test]
fn a_failing_launch_names_its_kernel() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let mut plan = bound(&device);
    let mut buffers = Buffers::new(&device, &plan);
    let launches = fake.count(Count::Launches);
    fake.fail("hipModuleLaunchKernel", 9, 1);
    let error = buffers.execute(&mut plan, Stream::Default, |p| _ = p.scalar(SCALAR, 1.0_f32)).expect_err("the second launch failed");
    let text = error.to_string();
    assert!(text.contains("kernel \"scale\" on 1x1x1 blocks of 64") && text.contains("hipErrorInvalidConfiguration (code 9)"), "{text}");
    assert_eq!(fake.count(Count::Launches) - launches, 2);
}

#[test]
fn a_lost_device_stays_lost() {
    for code in [700, 719] {
        let fake = Fake::new(&["COUNT=2"]);
        let device = fake.device(0);
        let mut plan = bound(&device);
        let mut buffers = Buffers::new(&device, &plan);
        let stream = HipStream::new(&device).expect("a stream");
        fake.fail("hipStreamSynchronize", code, 0);
        let error = stream.synchronize().expect_err("the device failed");
        assert!(matches!(error, HipError::DeviceLost { ordinal: 0, failure } if failure.code == HipCode(code)), "{error}");
        let launches = fake.count(Count::Launches);
        let later = buffers.execute(&mut plan, Stream::Default, |p| _ = p.scalar(SCALAR, 1.0_f32)).expect_err("it is lost");
        let text = later.to_string();
        assert!(
            text.contains("hipStreamSynchronize") && text.contains(&format!("(code {code})")) && text.contains("new process"),
            "{text}"
        );
        assert_eq!(fake.count(Count::Launches), launches, "HIP is not asked again");
        assert!(matches!(DeviceMemory::new(&device, 8), Err(HipError::DeviceLost { .. })));
        // The other device works.
        DeviceMemory::from_slice(&fake.device(1), &[1_u8]).expect("memory");
    }
}

#[test]
fn a_code_object_that_cannot_be_loaded() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let stored = Stored::new(&device, runtime_graph(), program());
    for (call, code, expected) in [
        ("hipModuleLoadData", 209, "hipErrorNoBinaryForGpu (code 209); the code object is for another GPU"),
        ("hipModuleLoadData", 200, "hipErrorInvalidImage (code 200)"),
        ("hipModuleGetFunction", 500, "hipErrorNotFound (code 500)"),
    ] {
        fake.fail(call, code, 0);
        let error = stored.bind().expect_err("it failed");
        let text = error.to_string();
        assert!(text.contains(call) && text.contains(expected), "{text}");
        fake.assert_empty();
    }
    // Where nobody can read the code object, HIP is asked for the kernel.
    let host = Fake::new(&["ARCH=\"host\""]);
    let mut missing = program();
    missing.kernels[0].name = "missing".into();
    let error = Stored::with_objects(&host.device(0), runtime_graph(), missing, vec![opaque_object()]).bind().expect_err("no such kernel");
    assert!(error.to_string().contains("looking for kernel \"missing\": hipModuleGetFunction failed with hipErrorNotFound"), "{error}");
    host.assert_empty();
    stored.bind().expect("nothing of that lasts");
    fake.assert_empty();
}

#[test]
fn foreign_and_damaged_code_objects_never_reach_hip() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut object = code_object(1);
        change(&mut object);
        object
    };
    for (object, expected) in [
        (Vec::new(), "not an ELF file"),
        (changed(|o| o.truncate(63)), "63"),
        (changed(|o| o.truncate(o.len() / 2)), "beyond"),
        (changed(|o| o[0] = b'!'), "not an ELF file"),
        (changed(|o| o[18] = 62), "62"),
        (b"__CLANG_OFFLOAD_BUNDLE__".repeat(8), "bundle"),
        (real_object("gfx1100-v5"), "gfx1100"),
        (real_object("gfx90a-v5"), "gfx90a"),
    ] {
        let stored = Stored::with_objects(&device, runtime_graph(), program(), vec![object]);
        let error = stored.bind().expect_err("it is no code object for the device");
        assert!(matches!(error, ExecError::Hip(HipError::CodeObject { .. })), "{error}");
        assert!(error.to_string().contains(expected), "expected {expected} in: {error}");
    }
    assert_eq!(fake.count(Count::Loads), 0);
}

#[test]
fn a_kernel_that_is_not_what_the_program_says() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let mut missing = program();
    missing.kernels[0].name = "missing".into();
    let mut wide = program();
    wide.kernels[0].block = 512;
    let mut long = program();
    long.kernels[0].kernarg_size = 32;
    long.kernargs.extend([0; 8]);
    for (program, expected) in [
        (missing, "it has no kernel \"missing\", it has [\"scale\"]"),
        (wide, "blocks of at most 256 threads, the plan launches 512"),
        (long, "takes 24 bytes of kernarg, the plan passes 32"),
    ] {
        let error = Stored::new(&device, runtime_graph(), program).bind().expect_err(expected);
        assert!(error.to_string().contains(expected), "expected {expected} in: {error}");
        fake.assert_empty();
    }
    // `odd` has hidden arguments behind its own, which nobody passes.
    let other = Fake::new(&["ARCH=\"gfx1100\""]);
    let mut hidden = program();
    hidden.kernels[0].name = "odd".into();
    let stored = Stored::with_objects(&other.device(0), runtime_graph(), hidden, vec![real_object("gfx1100-v5")]);
    let error = stored.bind().expect_err("hidden arguments");
    assert!(error.to_string().contains("bytes of kernarg, the plan passes 24"), "{error}");
}

#[test]
fn a_code_object_that_is_missing_or_another() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let stored = Stored::new(&device, runtime_graph(), program());
    let bytes = stored.runtime.find(&stored.graph.view().canonical().expect("a key").key).expect("found");
    let bind = |plan: Plan<'_>| plan.bind_by_key(&Device::Hip(device), &Loaders::default());
    let error = bind(Plan::new(bytes.view())).expect_err("nobody said where");
    assert!(error.to_string().contains("with_code_objects"), "{error}");
    let objects = vec![code_object(2), code_object(1)];
    bind(Plan::new(bytes.view()).with_code_objects(&objects)).expect("one of those at hand");
    let others = vec![code_object(2)];
    let error = bind(Plan::new(bytes.view()).with_code_objects(&others)).expect_err("none of those at hand");
    assert!(matches!(error, ExecError::CodeObject { .. }), "{error}");

    /// Gives other bytes than it was asked for.
    struct Liar;
    impl hipplan::CodeObjects for Liar {
        fn code_object(&self, _: &Digest) -> Result<hipplan::AlignedBytes, String> {
            Ok(hipplan::aligned::aligned_copy(&code_object(2)))
        }
    }
    let loads = fake.count(Count::Loads);
    let error = bind(Plan::new(bytes.view()).with_code_objects(&Liar)).expect_err("other bytes");
    assert!(matches!(error, ExecError::Hip(HipError::CodeObject { .. })), "{error}");
    assert_eq!(fake.count(Count::Loads), loads);

    // Damaged in the store.
    let objects = stored.folder.path().join("store/objects");
    let file = walk(&objects).into_iter().next().expect("the code object");
    std::fs::write(&file, [0; 100]).expect("written");
    let error = stored.bind().expect_err("damaged");
    assert!(matches!(error, ExecError::CodeObject { .. }), "{error}");
    assert!(!file.exists(), "it was set aside");
    assert!(matches!(stored.bind(), Err(ExecError::CodeObject { .. })));
    fake.assert_empty();
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}

/// Its plans are bound wherever their code loads; a lookup by graph tries the device's own target and those of no feature.
#[test]
fn a_plan_for_one_feature_alone_is_bound_where_it_loads() {
    let fake = Fake::new(&["ARCH=\"gfx942:xnack-\""]);
    let stored = Stored::new(&fake.device(0), runtime_graph(), program());
    let key = stored.graph.view().canonical().expect("a key").key;
    let full = Fake::new(&[]);
    let device = Device::Hip(full.device(0));
    let (store, loaders) = (stored.runtime.store(), Loaders::default());
    assert!(matches!(find_by_graph_key(store, &key, &device, &loaders, &Policy::DEFAULT), Restore::Missed(tried) if tried.len() == 4));
    let targets = ["gfx942:xnack-".parse::<Target>().expect("a target")];
    let Restore::Found(bytes) = find_for_targets(store, &key, None, &targets, &loaders, &Policy::DEFAULT) else { panic!("its own target") };
    let plan = Plan::new(bytes.view()).with_code_objects(store);
    let mut bound = plan.bind_by_key(&device, &loaders).expect("bound");
    let mut buffers = Buffers::new(&full.device(0), &bound);
    let mut pack = VariantPack::new();
    pack.device_input(0, &buffers.x).device_output(2, &mut buffers.y).scalar(1, 2.0_f32);
    bound.execute(&pack, &mut [], Stream::Default).expect("executed");
    drop(pack);
    let mut y = [0.0_f32; 4];
    buffers.y.copy_to_host(0, &mut y).expect("copied");
    assert_eq!(y, [2.0, 4.0, 6.0, 8.0]);
    for (arch, reason) in [
        ("gfx942:sramecc+:xnack+", "built for xnack off, and xnack of the device is on"),
        ("gfx942", "does not report its xnack"),
        ("gfx950:xnack-", "code for gfx942 does not run on gfx950"),
    ] {
        let other = Fake::new(&[&format!("ARCH=\"{arch}\"")]);
        let error = plan.bind_by_key(&Device::Hip(other.device(0)), &loaders).expect_err("it does not load there");
        assert!(matches!(error, ExecError::Target { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("gfx942:xnack-") && text.contains(arch) && text.contains(reason), "{text}");
    }
}

#[test]
fn a_plan_of_another_target_is_refused() {
    let fake = Fake::new(&[]);
    let stored = Stored::new(&fake.device(0), runtime_graph(), program());
    let bytes = stored.runtime.find(&stored.graph.view().canonical().expect("a key").key).expect("found");
    let plan = Plan::new(bytes.view()).with_code_objects(stored.runtime.store());
    for arch in ["gfx90a", "gfx942:sramecc-:xnack-", "gfx942:sramecc+:xnack+"] {
        let other = Fake::new(&[&format!("ARCH=\"{arch}\"")]);
        let error = plan.bind_by_key(&Device::Hip(other.device(0)), &Loaders::default()).expect_err("another target");
        assert!(matches!(error, ExecError::Target { .. }), "{error}");
        assert!(error.to_string().contains(arch), "{error}");
    }
    let error = plan.bind_by_key(&Device::Cpu, &Loaders::default()).expect_err("no GPU");
    assert!(matches!(error, ExecError::Target { .. }), "{error}");
    // A device that answers with the same name and no more fits.
    let same = Fake::new(&[]);
    let mut bound = plan.bind_by_key(&Device::Hip(same.device(0)), &Loaders::default()).expect("bound");
    let error = bound.execute(&VariantPack::new(), &mut [], Stream::Default).expect_err("nothing in the pack");
    assert!(matches!(error, ExecError::InvalidValue { .. }), "{error}");
}
