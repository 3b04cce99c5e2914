//! What needs a process of its own: fork, exit, the environment, counted instructions.

use crate::support::{Buffers, Fake, SCALAR, Stored, X, Y, program, runtime_graph};
use hipplan::hip::{DeviceMemory, HipError, HipRuntime, HipStream};
use hipplan::{Device, ExecError, Stream, VariantPack};
use std::process::Command;

const ROLE: &str = "HIPPLAN_TEST_HIP_ROLE";
/// Most instructions of an execution of a plan with three tensors and one launch. A build with debug assertions checks more: what it
/// is held to keeps the other from growing unseen.
const MOST_INSTRUCTIONS: u64 = if cfg!(debug_assertions) { 440 } else { 400 };

/// This test executable again, to play a role.
fn child(launcher: &[&str], role: &str) -> Command {
    let this = std::env::current_exe().expect("this executable");
    let mut command = match launcher {
        [] => Command::new(this),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(this);
            command
        }
    };
    command.args(["child::body", "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command
}

/// Not a test of its own: what a child runs.
#[test]
fn body() {
    match std::env::var(ROLE).as_deref() {
        Ok("library") => library_of_the_environment(),
        Ok("exit") => exit_with_everything_alive(),
        Ok("fork") => fork_after_nothing_was_loaded(),
        Ok(role) => launches(role.parse().expect("a number of executions")),
        Err(_) => {}
    }
}

fn output(mut command: Command) -> String {
    let output = command.output().expect("it ran");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}: {text}", output.status);
    text
}

#[test]
fn the_environment_names_the_library() {
    let fake = Fake::new(&[]);
    let mut command = child(&[], "library");
    command.env("HIPPLAN_HIP_LIBRARY", &fake.path);
    assert!(output(command).contains("found gfx942:sramecc+:xnack-"));
    let mut command = child(&[], "library");
    command.env("HIPPLAN_HIP_LIBRARY", "/nowhere/hip.so");
    let text = output(command);
    assert!(text.contains("/nowhere/hip.so: ") && !text.contains("libamdhip64.so.6"), "only what was asked for is tried: {text}");
}

/// With no variable and no HIP installed, every candidate is in the message; with HIP and no device, that is.
#[test]
fn without_a_gpu_the_error_says_what_is_missing() {
    let mut command = child(&[], "library");
    command.env_remove("HIPPLAN_HIP_LIBRARY");
    let text = output(command);
    let all = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"].iter().all(|name| text.contains(name));
    assert!(all || text.contains("finds no device") || text.contains("found gfx"), "{text}");
}

fn library_of_the_environment() {
    match Device::parse("hip:0") {
        Ok(device) => println!("found {}", device.targets()[0]),
        Err(error) => println!("{error}"),
    }
}

#[test]
fn a_process_exits_with_everything_alive() {
    assert!(output(child(&[], "exit")).contains("on the way out"));
}

fn exit_with_everything_alive() {
    /// Kept to the end, dropped as late as can be.
    static KEPT: std::sync::Mutex<Option<Box<dyn std::any::Any + Send>>> = std::sync::Mutex::new(None);
    extern "C" fn late() {
        // After the handler that the executor has registered: nothing of it may go to HIP.
        drop(KEPT.lock().map(|mut kept| kept.take()));
    }
    // SAFETY: the handler unwinds nothing. Registered before HIP is loaded, it runs after the runtime's own handlers.
    unsafe { libc::atexit(late) };
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let stored = Stored::new(&device, runtime_graph(), program());
    let mut plan = stored.bind().expect("bound");
    let mut buffers = Buffers::new(&device, &plan);
    buffers.execute(&mut plan, Stream::Default, |p| _ = p.scalar(SCALAR, 2.0_f32)).expect("executed");
    let stream = HipStream::new(&device).expect("a stream");
    // Any call of `hipFree` would fail the assertion that the runtime makes of it: it is gone from the process's point of view.
    let alive = (plan, DeviceMemory::new(&device, 64).expect("memory"), stream);
    *KEPT.lock().expect("not poisoned") = Some(Box::new(alive));
    std::mem::forget((buffers, stored, fake));
    println!("on the way out");
    std::process::exit(0);
}

#[test]
fn after_fork_every_call_is_refused_in_the_child() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let stored = Stored::new(&device, runtime_graph(), program());
    let mut plan = stored.bind().expect("bound");
    let mut buffers = Buffers::new(&device, &plan);
    let stream = HipStream::new(&device).expect("a stream");
    let mut memory = DeviceMemory::new(&device, 8).expect("memory");
    let mut pack = VariantPack::new();
    pack.device_input(X, &buffers.x).device_output(Y, &mut buffers.y).scalar(SCALAR, 1.0_f32);
    let bytes = stored.runtime.find(&stored.graph.view().canonical().expect("a key").key).expect("found");
    // SAFETY: the child makes calls that are refused before they take a lock, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "the system forks");
    if child == 0 {
        let forked = |result: Result<(), HipError>| matches!(result, Err(HipError::Forked));
        let refused = [
            matches!(plan.execute(&pack, &mut [], Stream::Default), Err(ExecError::Hip(HipError::Forked))),
            forked(stream.synchronize()),
            forked(memory.fill(1)),
            forked(memory.copy_from_host(0, &[1_u8])),
            forked(DeviceMemory::new(&device, 8).map(|_| ())),
            forked(HipRuntime::find().map(|_| ())),
            forked(HipRuntime::open("/nowhere").map(|_| ())),
            forked(device.runtime().device(0).map(|_| ())),
            forked(device.synchronize()),
            matches!(
                hipplan::Plan::new(bytes.view())
                    .with_code_objects(stored.runtime.store())
                    .bind_by_key(&Device::Hip(device), &hipplan::Loaders::default()),
                Err(ExecError::Hip(HipError::Forked))
            ),
        ];
        // What is dropped here is the parent's.
        drop((plan, stream, memory));
        let first = refused.iter().position(|refused| !refused).map_or(0, |at| at as i32 + 1);
        // SAFETY: nothing else is to be done in the child.
        unsafe { libc::_exit(first) };
    }
    let mut status = -1;
    // SAFETY: the status is a local.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(libc::WIFEXITED(status), "status {status}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "number of the first call that was not refused");
    plan.execute(&pack, &mut [], Stream::Default).expect("the parent goes on");
    drop(pack);
    drop((plan, stream, memory, buffers));
    fake.assert_empty();
}

/// Who found no HIP may fork, and a child may find it.
#[test]
fn a_child_of_a_process_that_found_no_hip_may_load_it() {
    output(child(&[], "fork"));
}

fn fork_after_nothing_was_loaded() {
    let fake = Fake::new(&[]);
    assert!(matches!(HipRuntime::open("/nowhere"), Err(HipError::Library { .. })));
    // SAFETY: the child of this process, whose other threads wait, opens a library and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "the system forks");
    if child == 0 {
        let opened = fake.open().and_then(|runtime| runtime.device(0)).is_ok();
        // SAFETY: nothing else is to be done in the child.
        unsafe { libc::_exit(i32::from(!opened)) };
    }
    let mut status = -1;
    // SAFETY: the status is a local.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child opened the runtime");
}

/// Executes so often, on a runtime whose launch does nothing.
fn launches(executions: u32) {
    let fake = Fake::new(&["LAUNCH_NOTHING"]);
    let device = fake.device(0);
    let mut plan = Stored::new(&device, runtime_graph(), program()).bind().expect("bound");
    let mut buffers = Buffers::new(&device, &plan);
    let stream = HipStream::new(&device).expect("a stream");
    let mut pack = VariantPack::new();
    pack.device_input(X, &buffers.x).device_output(Y, &mut buffers.y).scalar(SCALAR, 1.0_f32);
    for _ in 0..executions {
        plan.execute(&pack, &mut [], Stream::Hip(&stream)).expect("executed");
    }
}

/// The launch path costs few instructions. Two runs differ only in how often they execute; their difference has all of an execution in
/// it, the loop and the empty launch too.
#[test]
fn an_execution_costs_few_instructions() {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("HIPPLAN_CI").is_none(), "valgrind is needed and not installed");
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instructions = |executions: u32| -> u64 {
        let out = format!("--callgrind-out-file={}", folder.path().join(executions.to_string()).display());
        let text = output(child(&["valgrind", "--tool=callgrind", &out], &executions.to_string()));
        let line = text.lines().find_map(|line| line.split_once("Collected : ")).expect("a sum of instructions").1;
        line.trim().parse().expect("a number")
    };
    let (few, many) = (1_000, 21_000);
    let each = (instructions(many) - instructions(few)) / u64::from(many - few);
    println!("{each} instructions");
    assert!((50..=MOST_INSTRUCTIONS).contains(&each), "{each} instructions, at most {MOST_INSTRUCTIONS} are allowed");
}
