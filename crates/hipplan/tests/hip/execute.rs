//! Executing plans.

use crate::support::{
    Buffers, Count, Fake, N, SCALAR, Stored, X, Y, graph, kernarg, opaque_object, program, program_with_workspace, runtime_graph,
};
use hipplan::hip::{DeviceMemory, HipError, HipEvent, HipStream, PatchSource, ScalarType};
use hipplan::{
    BoundPlan, Device, ExecError, InvalidValue, MemorySpace, RawHipStream, ScalarType as State, Stream, TensorAttributes, VariantPack,
    Workspace, WorkspaceRef,
};

#[test]
fn the_three_states_of_a_scalar() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let run = |plan: &mut BoundPlan, fill: &dyn Fn(&mut VariantPack<'_>)| {
        let mut buffers = Buffers::new(&device, plan);
        buffers.execute(plan, Stream::Default, fill).map(|y| {
            assert_eq!(y, [1.0, 2.0, 3.0, 4.0].map(|x| x * y[0]));
            y[0]
        })
    };
    let bind = |graph| Stored::new(&device, graph, program()).bind().unwrap_or_else(|e| panic!("{e}"));

    let mut constant = bind(graph(|t| {
        t.set_value(0.5_f32);
    }));
    assert_eq!(run(&mut constant, &|_| ()).ok(), Some(0.5));
    assert_eq!(run(&mut constant, &|p| _ = p.override_scalar(SCALAR, 9.0_f32)).ok(), Some(0.5));

    let mut defaulted = bind(graph(|t| *t = TensorAttributes::scalar_of(0.25_f32, State::RuntimeParam)));
    assert_eq!(run(&mut defaulted, &|_| ()).ok(), Some(0.25));
    assert_eq!(run(&mut defaulted, &|p| _ = p.scalar(SCALAR, 9.0_f32)).ok(), Some(0.25));
    assert_eq!(run(&mut defaulted, &|p| _ = p.override_scalar(SCALAR, 9.0_f32)).ok(), Some(9.0));
    assert_eq!(run(&mut defaulted, &|_| ()).ok(), Some(0.25));

    let mut supplied = bind(runtime_graph());
    for value in [2.0_f32, -3.0] {
        assert_eq!(run(&mut supplied, &|p| _ = p.scalar(SCALAR, value)).ok(), Some(value));
    }
    let launches = fake.count(Count::Launches);
    let error = run(&mut supplied, &|_| ()).expect_err("the scalar is missing");
    assert!(matches!(error, ExecError::InvalidValue { uid: SCALAR, reason: InvalidValue::Missing { uid: SCALAR }, .. }), "{error}");
    assert_eq!(fake.count(Count::Launches), launches, "nothing was launched");
}

#[test]
fn a_scalar_may_be_overwritten_as_soon_as_execute_returns() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let stored = Stored::new(&device, runtime_graph(), program_with_workspace());
    let mut plan = stored.bind().expect("bound");
    let mut buffers = Buffers::new(&device, &plan);
    let mut others = Buffers::new(&device, &plan);
    let mut scalar = 3.0_f32;
    for (buffers, next) in [(&mut buffers, -5.0), (&mut others, f32::NAN)] {
        let mut pack = VariantPack::new();
        pack.device_input(X, &buffers.x).device_output(Y, &mut buffers.y);
        // SAFETY: the scalar is readable until `execute` returns, which is what is under test.
        unsafe { pack.raw(SCALAR, (&raw mut scalar).cast()) };
        plan.execute(&pack, &mut buffers.workspace, Stream::Default).expect("executed");
        scalar = next;
    }
    let mut y = [0.0_f32; N];
    buffers.y.copy_to_host(0, &mut y).expect("copied");
    assert_eq!(y, [9.0, 18.0, 27.0, 36.0], "two launches through the workspace, both with the scalar of their call");
    others.y.copy_to_host(0, &mut y).expect("copied");
    assert_eq!(y, [25.0, 50.0, 75.0, 100.0]);
}

#[test]
fn a_scalar_is_widened_for_a_kernel_that_takes_a_double() {
    let fake = Fake::new(&["ARCH=\"host\""]);
    let device = fake.device(0);
    let mut program = program();
    program.kernels[0].name = "scale64".into();
    program.kernels[0].block = N as u32;
    program.patches[2].source = PatchSource::Value(ScalarType::F64);
    let mut plan = Stored::with_objects(&device, runtime_graph(), program, vec![opaque_object()]).bind().expect("bound");
    let y = Buffers::new(&device, &plan).execute(&mut plan, Stream::Default, |p| _ = p.scalar(SCALAR, 0.1_f32));
    assert_eq!(y.ok(), Some([1.0, 2.0, 3.0, 4.0].map(|x| (x * f64::from(0.1_f32)) as f32)));
}

#[test]
fn buffers_may_be_parts_and_in_any_order() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let mut plan = Stored::new(&device, runtime_graph(), program()).bind().expect("bound");
    let mut memory = DeviceMemory::from_slice(&device, &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 7.0]).expect("memory");
    let mut y = DeviceMemory::new(&device, 64).expect("memory");
    y.fill(0).expect("filled");
    for order in 0..3 {
        let mut pack = VariantPack::new();
        let mut output = Some(y.slice_mut(16..).expect("within"));
        for entry in [order, order + 1, order + 2].map(|at| at % 3) {
            match entry {
                0 => _ = pack.device_input(X, memory.slice(4..20).expect("within")),
                1 => _ = pack.scalar(SCALAR, 2.0_f32 + order as f32),
                _ => _ = pack.device_output(Y, output.take().expect("once")),
            }
        }
        plan.execute(&pack, &mut [], Stream::Default).expect("executed");
        drop(pack);
        let mut all = [0.0_f32; 16];
        y.copy_to_host(0, &mut all).expect("copied");
        assert_eq!(all[..4], [0.0; 4], "nothing before the part is written");
        assert_eq!(all[4..8], [1.0, 2.0, 3.0, 4.0].map(|x| x * (2.0 + order as f32)));
        assert_eq!(all[8..], [0.0; 8]);
    }
    for (start, end) in [(0, 25), (24, 26), (u64::MAX, u64::MAX), (25, 3)] {
        assert!(matches!(memory.slice(start..end), Err(HipError::Range { .. })), "{start}..{end}");
        assert!(matches!(memory.slice_mut(start..end), Err(HipError::Range { .. })), "{start}..{end}");
    }
    assert!(matches!(memory.slice(..=u64::MAX), Err(HipError::Range { .. })));
    assert!(matches!(memory.copy_to_host(8, &mut [0.0_f32; 5]), Err(HipError::Range { offset: 8, bytes: 20, size: 24 })));
    assert!(matches!(memory.copy_from_host(u64::MAX - 1, &[0_u8; 4]), Err(HipError::Range { .. })));
    let short = memory.slice(0..12).expect("within");
    let mut pack = VariantPack::new();
    pack.device_input(X, short).scalar(SCALAR, 1.0_f32);
    let error = plan.execute(&pack, &mut [], Stream::Default).expect_err("too short");
    assert!(matches!(error, ExecError::InvalidValue { reason: InvalidValue::BufferSize { found: 12, expected: 16 }, .. }), "{error}");
}

#[test]
fn memory_and_streams_of_another_device_are_refused() {
    let fake = Fake::new(&["COUNT=2"]);
    let (first, second) = (fake.device(0), fake.device(1));
    let stored = Stored::new(&first, runtime_graph(), program_with_workspace());
    let mut plan = stored.bind().expect("bound");
    assert_eq!(plan.memory_space(), first.memory_space());
    let mut own = Buffers::new(&first, &plan);
    let mut foreign = Buffers::new(&second, &plan);
    let host = [1.0_f32; N];
    let memory = |error: ExecError| match error {
        ExecError::InvalidValue { uid, reason: InvalidValue::Memory { found, .. }, .. } => (uid, found),
        other => panic!("{other}"),
    };

    let mut pack = VariantPack::new();
    pack.input(X, &host).scalar(SCALAR, 1.0_f32);
    let error = plan.execute(&pack, &mut own.workspace, Stream::Default).expect_err("a slice of this process");
    let text = error.to_string();
    assert!(text.contains("host memory") && text.contains("HIP device 0") && text.contains("device_input"), "{text}");
    assert_eq!(memory(error), (X, MemorySpace::Host));
    let mut pack = VariantPack::new();
    pack.device_output(Y, &mut foreign.y);
    let error = plan.execute(&pack, &mut own.workspace, Stream::Default).expect_err("memory of the other device");
    assert_eq!(memory(error), (Y, second.memory_space()));

    let mut pack = VariantPack::new();
    pack.device_input(X, &own.x).device_output(Y, &mut own.y).scalar(SCALAR, 1.0_f32);
    let mut slice = Workspace::new(plan.workspace_size()).expect("memory");
    for workspace in [WorkspaceRef::from(&mut foreign.workspace), WorkspaceRef::from(slice.as_mut_slice())] {
        let error = plan.execute(&pack, workspace, Stream::Default).expect_err("not this device's");
        assert!(matches!(error, ExecError::WorkspaceMemory { .. }), "{error}");
    }
    let error = plan.execute(&pack, &mut [], Stream::Default).expect_err("none");
    assert!(matches!(error, ExecError::WorkspaceSize { found: 0, expected: 512 }), "{error}");
    // SAFETY: the memory is the workspace's, less its first bytes.
    let crooked = unsafe { WorkspaceRef::from_raw(own.workspace.as_ptr().wrapping_add(64), 512, first.memory_space()) };
    let error = plan.execute(&pack, crooked, Stream::Default).expect_err("not aligned");
    assert!(matches!(error, ExecError::WorkspaceAlignment { expected: 256 }), "{error}");

    let (stream, other) = (HipStream::new(&first).expect("a stream"), HipStream::new(&second).expect("a stream"));
    let error = plan.execute(&pack, &mut own.workspace, (&other).into()).expect_err("the other device's");
    assert!(matches!(error, ExecError::StreamDevice { .. }), "{error}");
    plan.execute(&pack, &mut own.workspace, (&stream).into()).expect("its own");
    // SAFETY: the stream is alive, and the device's.
    let raw = Stream::RawHip(unsafe { RawHipStream::new(stream.as_ptr()) });
    plan.execute(&pack, &mut own.workspace, raw).expect("as a C caller has it");
    stream.synchronize().expect("done");
    let mut null = VariantPack::new();
    // SAFETY: a null pointer is refused.
    unsafe { null.raw(X, std::ptr::null_mut()) };
    let error = plan.execute(&null, &mut own.workspace, Stream::Default).expect_err("a null pointer");
    assert!(matches!(error, ExecError::InvalidValue { uid: X, reason: InvalidValue::Null, .. }), "{error}");
    // A raw pointer is believed to be the device's.
    let mut pack = VariantPack::new();
    // SAFETY: the memory is the device's, and as large as the tensors.
    unsafe { pack.raw(X, own.x.as_ptr().cast()).raw(Y, own.y.as_ptr().cast()) };
    plan.execute(pack.scalar(SCALAR, 2.0_f32), &mut own.workspace, Stream::Default).expect("executed");
    let mut y = [0.0_f32; N];
    own.y.copy_to_host(0, &mut y).expect("copied");
    assert_eq!(y, [4.0, 8.0, 12.0, 16.0]);

    // And the other way round: a plan on the CPU takes none of it.
    let (_folder, cpu) = cpu_runtime();
    let graph = runtime_graph();
    cpu.compile(&graph.view()).expect("compiled");
    let mut plan = cpu.restore(&graph.view()).expect("restored");
    let mut pack = VariantPack::new();
    pack.device_input(X, &own.x).scalar(SCALAR, 1.0_f32);
    assert_eq!(memory(plan.execute(&pack, &mut [], Stream::Default).expect_err("device memory")), (X, first.memory_space()));
    let error = plan.execute(&VariantPack::new(), &mut [], raw).expect_err("a HIP stream");
    assert!(matches!(error, ExecError::StreamDevice { expected: MemorySpace::Host, .. }), "{error}");
}

fn cpu_runtime() -> (tempfile::TempDir, hipplan::Runtime) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = hipplan::Runtime::open(folder.path().join("store")).expect("a store");
    (folder, runtime)
}

#[test]
fn the_callers_current_device_is_left_as_it_was() {
    let fake = Fake::new(&["COUNT=3"]);
    let device = fake.device(2);
    let stored = Stored::new(&device, runtime_graph(), program());
    let mut plan = stored.bind().expect("bound");
    let mut buffers = Buffers::new(&device, &plan);
    for own in [0, 1, 2] {
        fake.set_current(own);
        let before = fake.current().1;
        let y = buffers.execute(&mut plan, Stream::Default, |p| _ = p.scalar(SCALAR, 2.0_f32));
        assert_eq!(y.ok(), Some([2.0, 4.0, 6.0, 8.0]));
        assert_eq!(fake.count(Count::LastDevice), 2, "launched on its device");
        assert_eq!(fake.current().0, own);
        assert!(own != 2 || fake.current().1 == before, "nothing is switched where it is current");
        // Also when the call fails.
        fake.fail("hipModuleLaunchKernel", 1, 0);
        buffers.execute(&mut plan, Stream::Default, |p| _ = p.scalar(SCALAR, 2.0_f32)).expect_err("failed");
        assert_eq!(fake.current().0, own);
    }
    // A runtime with one device is never asked.
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let mut plan = Stored::new(&device, runtime_graph(), program()).bind().expect("bound");
    Buffers::new(&device, &plan).execute(&mut plan, Stream::Default, |p| _ = p.scalar(SCALAR, 2.0_f32)).expect("executed");
    assert_eq!(fake.current().1, 0);
    // One that cannot say which is current is told each time.
    let fake = Fake::new(&["COUNT=2", "NO_GET_DEVICE"]);
    let device = fake.device(1);
    let mut plan = Stored::new(&device, runtime_graph(), program()).bind().expect("bound");
    Buffers::new(&device, &plan).execute(&mut plan, Stream::Default, |p| _ = p.scalar(SCALAR, 2.0_f32)).expect("executed");
    assert_eq!(fake.count(Count::LastDevice), 1);
}

#[test]
fn a_module_is_loaded_once_and_lives_as_long_as_plans_that_use_it() {
    let fake = Fake::new(&["COUNT=2"]);
    let (first, second) = (fake.device(0), fake.device(1));
    let stored = Stored::new(&first, runtime_graph(), program());
    let counts = || (fake.count(Count::Loads), fake.count(Count::Modules));
    let a = stored.bind().expect("bound");
    let b = stored.bind().expect("bound");
    assert_eq!(counts(), (1, 1));
    let c = stored.bind_to(&Device::Hip(second)).expect("bound");
    assert_eq!(counts(), (2, 2), "each device has its own");
    drop(a);
    assert_eq!(counts(), (2, 2));
    // Another plan with the same code object.
    let other = Stored::new(&first, runtime_graph(), program_with_workspace());
    let d = other.bind().expect("bound");
    assert_eq!(counts(), (2, 2));
    drop((b, c, d));
    assert_eq!(counts(), (2, 0));
    let mut again = stored.bind().expect("bound");
    assert_eq!(counts(), (3, 1));
    Buffers::new(&first, &again).execute(&mut again, Stream::Default, |p| _ = p.scalar(SCALAR, 2.0_f32)).expect("executed");
    drop(again);
    fake.assert_empty();
}

#[test]
fn many_threads_each_with_its_own_plan() {
    let fake = Fake::new(&["COUNT=2"]);
    let stored = [0, 1].map(|ordinal| Stored::new(&fake.device(ordinal), runtime_graph(), program_with_workspace()));
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            let (stored, device) = (&stored[thread % 2], fake.device(thread as u32 % 2));
            scope.spawn(move || {
                let stream = HipStream::new(&device).expect("a stream");
                for round in 0..20 {
                    let mut plan = stored.bind().expect("bound");
                    let mut buffers = Buffers::new(&device, &plan);
                    let factor = (thread * 20 + round) as f32;
                    let y = buffers.execute(&mut plan, Stream::Hip(&stream), |p| _ = p.scalar(SCALAR, factor)).expect("executed");
                    assert_eq!(y, [1.0, 2.0, 3.0, 4.0].map(|x| x * factor * factor));
                }
            });
        }
    });
    fake.assert_empty();
}

#[test]
fn a_bound_plan_can_be_sent_to_another_thread() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let mut plan = Stored::new(&device, runtime_graph(), program()).bind().expect("bound");
    let mut buffers = Buffers::new(&device, &plan);
    let run = std::thread::spawn(move || buffers.execute(&mut plan, Stream::Default, |p| _ = p.scalar(SCALAR, 2.0_f32)));
    assert_eq!(run.join().expect("joined").ok(), Some([2.0, 4.0, 6.0, 8.0]));
}

/// The time that kernels took, for the caller's profiler.
#[test]
fn events_tell_the_time_between_points_of_a_stream() {
    let fake = Fake::new(&["COUNT=2"]);
    let device = fake.device(0);
    let mut plan = Stored::new(&device, runtime_graph(), program_with_workspace()).bind().expect("bound");
    let mut buffers = Buffers::new(&device, &plan);
    let stream = HipStream::new(&device).expect("a stream");
    let (start, stop) = (HipEvent::new(&device).expect("an event"), HipEvent::new(&device).expect("an event"));
    let error = start.elapsed_ms(&stop).expect_err("not recorded");
    assert!(error.to_string().contains("hipEventElapsedTime"), "{error}");
    start.record(Stream::Hip(&stream)).expect("recorded");
    buffers.execute(&mut plan, Stream::Hip(&stream), |p| _ = p.scalar(SCALAR, 1.0_f32)).expect("executed");
    stop.record(Stream::Hip(&stream)).expect("recorded");
    stop.synchronize().expect("reached");
    assert_eq!(start.elapsed_ms(&stop).ok(), Some(2.0), "the fake runtime counts launches for milliseconds");

    let other = fake.device(1);
    let (elsewhere, there) = (HipStream::new(&other).expect("a stream"), HipEvent::new(&other).expect("an event"));
    assert!(matches!(start.record(Stream::Hip(&elsewhere)), Err(HipError::OtherDevice { .. })));
    assert!(matches!(start.elapsed_ms(&there), Err(HipError::OtherDevice { .. })));
    there.record(Stream::Hip(&elsewhere)).expect("recorded");
    stream.wait(&there).expect("devices of one runtime may wait for each other");
    let unrelated = Fake::new(&[]);
    assert!(matches!(stream.wait(&HipEvent::new(&unrelated.device(0)).expect("an event")), Err(HipError::OtherDevice { .. })));
}

#[test]
fn unused_kernarg_bytes_between_launches_are_allowed() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let mut program = program();
    let mut kernargs = vec![0; 16];
    kernarg(&mut kernargs);
    program.kernargs = kernargs;
    program.launches[0].kernarg_at = 16;
    let mut plan = Stored::new(&device, runtime_graph(), program).bind().expect("bound");
    let y = Buffers::new(&device, &plan).execute(&mut plan, Stream::Default, |p| _ = p.scalar(SCALAR, 2.0_f32));
    assert_eq!(y.ok(), Some([2.0, 4.0, 6.0, 8.0]));
}
