//! NVRTC, where its library is found, and the cuda runtime, where NVIDIA's driver is.

mod common;

use common::{Hip, reverse};
use hipplan_hip_testing::problems::{Kind, problem};
use hipplan_hip_testing::{NvrtcCompiler, build};
use hipplan_planner::hip::compiler::KernelCompiler;
use hipplan_planner::hip::kernels;
use hipplan_serialize::Target;
use libloading::Library;
use std::ptr;

/// NVRTC and the target, or `None` with a message where there is no NVRTC.
fn nvrtc() -> Option<(NvrtcCompiler, Target)> {
    match NvrtcCompiler::open() {
        Ok(compiler) => Some((compiler, "sm_90".parse().expect("a target"))),
        Err(e) => {
            eprintln!("skipped: {e}");
            None
        }
    }
}

#[test]
fn kernels_become_cubins_without_a_gpu() {
    let Some((compiler, target)) = nvrtc() else { return };
    let cubin = compiler.compile(&reverse(), &target).expect("compiled");
    assert!(cubin.starts_with(b"\x7fELF"));
    assert_eq!(compiler.compile(&reverse(), &target).expect("compiled"), cubin);

    let mut unnamed = reverse();
    unnamed.name = "other".to_owned();
    let error = compiler.compile(&unnamed, &target).expect_err("no such kernel").to_string();
    assert!(error.contains("no kernel of the name other"), "{error}");

    let mut wrong = reverse();
    wrong.text.push_str("\nint x = undefined_name;");
    let error = compiler.compile(&wrong, &target).expect_err("wrong").to_string();
    assert!(error.contains("undefined_name"), "{error}");
    assert!(compiler.compile(&reverse(), &"gfx942".parse().expect("a target")).is_err());
}

/// The hip provider's kernels.
#[test]
fn every_kind_compiles_for_an_nvidia_gpu() {
    let Some((compiler, target)) = nvrtc() else { return };
    for kind in Kind::ALL {
        for index in 0..6 {
            let problem = problem(kind, index);
            let (_, sources) = kernels(&problem.graph.view(), &target).unwrap_or_else(|e| panic!("{}: {e}", problem.name));
            for source in sources {
                compiler.compile(&source, &target).unwrap_or_else(|e| panic!("{}: {e}", problem.name));
            }
        }
    }
}

#[test]
fn kernels_run_on_an_nvidia_gpu() {
    let Some((compiler, target)) = nvrtc() else { return };
    let path = build::cuda_runtime(&common::build_dir()).expect("built");
    // SAFETY: the runtime has no initialisers.
    let hip = Hip::of(unsafe { Library::new(path) }.expect("opened"));
    let mut count = 0;
    // SAFETY: a place for the count.
    let code = unsafe { (hip.hipGetDeviceCount)(&raw mut count) };
    if code != 0 {
        assert_eq!((code, count), (100, 0));
        eprintln!("skipped: no NVIDIA device");
        return;
    }
    let mut properties = vec![0_u8; 4096];
    // SAFETY: more than the 1472 bytes of the properties.
    assert_eq!(unsafe { (hip.hipGetDevicePropertiesR0600)(properties.as_mut_ptr(), 0) }, 0);
    let arch = properties[1160..].split(|&b| b == 0).next().unwrap_or_default();
    assert_eq!(String::from_utf8_lossy(arch), target.to_string(), "this test's target");
    assert_eq!(properties[308..312], 32_i32.to_ne_bytes());

    let source = reverse();
    let module = hip.load(&compiler.compile(&source, &target).expect("compiled")).expect("loaded");
    assert_eq!(hip.function(module, "absent"), Err(500));
    let function = hip.function(module, "reverse").expect("found");
    let memory = hip.malloc(1024).expect("memory");
    hip.upload(memory, &(0..256).collect::<Vec<i32>>());
    let mut events = [ptr::null_mut(); 2];
    let mut time = -1.0;
    // SAFETY: places for handles and the time.
    unsafe {
        for event in &mut events {
            assert_eq!((hip.hipEventCreateWithFlags)(event, 0), 0);
        }
        assert_eq!((hip.hipEventRecord)(events[0], ptr::null_mut()), 0);
        hip.launch(function, [1, 1, 1], 256, &[memory as u64, 3], ptr::null_mut()).expect("launched");
        assert_eq!((hip.hipEventRecord)(events[1], ptr::null_mut()), 0);
        assert_eq!((hip.hipEventSynchronize)(events[1]), 0);
        assert_eq!((hip.hipEventElapsedTime)(&raw mut time, events[0], events[1]), 0);
    }
    assert!(time >= 0.0);
    assert_eq!(hip.download::<i32>(memory, 256), (0..256).rev().collect::<Vec<_>>());
    hip.free(memory).expect("freed");
    hip.unload(module).expect("unloaded");
}
