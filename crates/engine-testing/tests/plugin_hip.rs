//! A plugin on a HIP device: that of the host runtime, whose memory is this machine's, so that the C plugin can compute in it.

#[path = "r16/graphs.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod graphs;
#[path = "host/support.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod support;

use graphs::{ALPHA, State, X, Y, scale_in};
use hipplan::hip::{DeviceMemory, HipDevice, HipRuntime, HipStream};
use hipplan::plugin::{PluginError, PluginSource};
use hipplan::{Device, ExecError, InvalidValue, Plan, Stream, VariantPack, engine_id};
use hipplan_engine_testing::{Counters, Entry, HostScalar};
use hipplan_hip_testing::{HostCompiler, build};
use std::path::Path;
use std::thread;
use support::{ENGINE, canonical, config, loaders, search};

/// Nothing where there is no C++ compiler, which is an error where everything must be checked.
fn device() -> Option<HipDevice> {
    if let Err(error) = HostCompiler::new(false) {
        assert!(std::env::var_os("HIPPLAN_CI").is_none_or(|v| v != "1"), "{error}");
        println!("skipped: {error}");
        return None;
    }
    let library = build::host_runtime(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("runtimes"), false).expect("built");
    Some(HipRuntime::open(library).expect("a runtime").device(0).expect("a device"))
}

const IN: [f32; 4] = [1.0, -2.0, 3.0, 0.5];

#[test]
fn a_plan_is_compiled_stored_and_restored_and_handles_follow_streams() {
    let Some(hip) = device() else { return };
    let device = Device::Hip(hip);
    let path = support::build("hip", &["WORKSPACE_BYTES=256"]);
    let plugins = search(&[PluginSource::new(&path)]);
    let plugin = plugins.iter().next().expect("a plugin");
    let graph = scale_in(State::Supplied, 0.0);
    assert!(plugin.serves(&device));
    assert_eq!(plugin.applicable_engines(&device, &canonical(&graph).view()).expect("engines"), [engine_id(ENGINE)]);
    let context = plugin.create_context(&device, &config(ENGINE, &[]), &canonical(&graph).view()).expect("a context");
    let program = context.program().expect("bytes");
    let identity = (plugin.name(), plugin.version(), ENGINE);
    let file = support::plan_for(device.target(), &graph, Some(&program), identity, context.workspace_size());
    drop(context);

    let restore_and_execute = || {
        let plan = Plan::open(&file).expect("a plan");
        let mut bound = plan.bind_by_graph(&device, &loaders(&plugins), &graph.view()).expect("restored");
        let x = DeviceMemory::from_slice(&hip, &IN).expect("memory");
        let mut y = DeviceMemory::new(&hip, 16).expect("memory");
        let mut workspace = DeviceMemory::new(&hip, bound.workspace_size()).expect("memory");
        let streams = [HipStream::new(&hip).expect("a stream"), HipStream::new(&hip).expect("a stream")];
        for round in 0..3 {
            for (number, stream) in streams.iter().enumerate() {
                let alpha = HostScalar::new((1 + 2 * round + number) as f32).expect("a page");
                let mut pack = VariantPack::new();
                pack.device_input(X, &x).device_output(Y, &mut y);
                // SAFETY: an element of the scalar's type.
                unsafe { pack.raw(ALPHA, alpha.pointer()) };
                bound.execute(&pack, &mut workspace, stream.into()).expect("executed");
                if round == 0 {
                    assert_eq!(Counters::read(&path).expect("counters").last_stream, stream.as_ptr().addr() as u64);
                }
                stream.synchronize().expect("done");
                let mut found = [0.0_f32; 4];
                y.copy_to_host(0, &mut found).expect("copied");
                assert_eq!(found, IN.map(|v| v * (1 + 2 * round + number) as f32));
            }
        }
        let counters = Counters::read(&path).expect("counters");
        assert_eq!(counters.last_workspace, workspace.as_ptr().addr() as u64);

        // Memory of the host is refused before the plugin sees it.
        let executed = counters.calls(Entry::Execute);
        let error = bound.execute(VariantPack::new().input(X, &IN), &mut workspace, Stream::Default).expect_err("host memory");
        assert!(matches!(error, ExecError::InvalidValue { reason: InvalidValue::Memory { .. }, .. }), "{error}");
        assert_eq!(Counters::read(&path).expect("counters").calls(Entry::Execute), executed);
    };
    // The default stream's handle, for restoring, and one for each stream. Another thread takes over the first of them, and needs others for its
    // streams, also if they have the addresses of those that are gone.
    for made in [3, 2] {
        let before = Counters::read(&path).expect("counters");
        thread::scope(|scope| scope.spawn(restore_and_execute).join().expect("no panic"));
        let after = Counters::read(&path).expect("counters");
        assert_eq!(after.calls(Entry::Create) - before.calls(Entry::Create), made);
        assert_eq!((after.calls(Entry::Destroy), after.live_contexts), (0, 0));
    }
}

#[test]
fn what_was_compiled_for_one_graph_or_device_is_bound_to_no_other() {
    let Some(hip) = device() else { return };
    let device = Device::Hip(hip);
    let path = support::build("hip-bound", &["WORKSPACE_BYTES=256"]);
    let plugins = search(&[PluginSource::new(&path)]);
    let plugin = plugins.iter().next().expect("a plugin");
    let (graph, other) = (scale_in(State::Constant, 2.0), scale_in(State::Constant, 3.0));
    let executable = |graph| {
        let context = plugin.create_context(&device, &config(ENGINE, &[]), &canonical(graph).view()).expect("a context");
        context.into_executable(2)
    };
    let bind = |file: &hipplan::AlignedBytes, device, executable| {
        let plan = Plan::open(file).expect("a plan");
        plan.bind_prepared(device, &graph.view(), executable).map(|_| ())
    };
    let identity = (plugin.name(), plugin.version(), ENGINE);
    let of_hip = |workspace| support::plan_for(device.target(), &graph, None, identity, workspace);
    assert!(bind(&of_hip(256), &device, executable(&graph)).is_ok());
    let of_cpu = support::plan_of(&graph, None, identity, 256);
    for (found, what) in [
        (bind(&of_hip(256), &device, executable(&other)), "compiled for graph "),
        (bind(&of_hip(255), &device, executable(&graph)), "compiled for bytes of workspace: 256, and the plan gives it 255"),
        (
            bind(&of_cpu, &Device::Cpu, executable(&graph)),
            "compiled for buffers in memory of HIP device 0, and the plan gives it host memory",
        ),
    ] {
        let error = found.expect_err(what);
        assert!(matches!(error, ExecError::MadeForAnother { .. }) && error.to_string().contains(what), "{error}");
    }
    assert_eq!(Counters::read(&path).expect("counters").live_contexts, 0);
}

#[test]
fn a_plugin_of_host_memory_does_not_serve_a_gpu() {
    let Some(hip) = device() else { return };
    let plugin = support::load(&support::build("hip-host", &[]));
    let device = Device::Hip(hip);
    assert!(!plugin.serves(&device));
    let graph = canonical(&scale_in(State::Supplied, 0.0));
    let error = plugin.create_context(&device, &config(ENGINE, &[]), &graph.view()).expect_err("another memory");
    assert!(matches!(error, PluginError::Device { .. }), "{error}");
}

#[test]
fn a_thread_keeps_a_bounded_number_of_handles() {
    let Some(hip) = device() else { return };
    let path = support::build("hip-many", &[]);
    let plugins = search(&[PluginSource::new(&path)]);
    let plugin = plugins.iter().next().expect("a plugin");
    let device = Device::Hip(hip);
    let graph = scale_in(State::Constant, 2.0);
    let canonical = canonical(&graph);
    let context = plugin.create_context(&device, &config(ENGINE, &[]), &canonical.view()).expect("a context");
    let file = support::plan_for(device.target(), &graph, None, (plugin.name(), plugin.version(), ENGINE), 0);
    let plan = Plan::open(&file).expect("a plan");
    let mut bound = plan.bind_prepared(&device, &graph.view(), context.into_executable(2)).expect("bound");
    let x = DeviceMemory::from_slice(&hip, &IN).expect("memory");
    let mut y = DeviceMemory::new(&hip, 16).expect("memory");
    // All at once, so that no two have one address.
    let streams: Vec<HipStream> = (0..100).map(|_| HipStream::new(&hip).expect("a stream")).collect();
    for stream in &streams {
        bound.execute(VariantPack::new().device_input(X, &x).device_output(Y, &mut y), &mut [], stream.into()).expect("executed");
    }
    let counters = Counters::read(&path).expect("counters");
    // 64 are the thread's and 16 idle; after that, idle ones are put on other streams.
    assert_eq!((counters.calls(Entry::Create), counters.calls(Entry::SetStream), counters.live_handles), (80, 101, 80));
}
