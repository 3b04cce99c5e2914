//! The host runtime itself: what a HIP runtime does, and what this one reports besides.

mod common;

use common::{Handle, Hip, Host, image, kernel, reverse};
use std::ffi::c_int;
use std::ptr;

const NULL: Handle = ptr::null_mut();

/// Loads a kernel of a new module, uploads data, launches, downloads.
fn run_reverse(hip: &Hip, rounds: u64, grid: [u32; 3]) -> Result<Vec<i32>, c_int> {
    let source = reverse();
    let blocks = grid.iter().product::<u32>() as usize;
    let module = hip.load(&image(&source, false))?;
    let function = hip.function(module, &source.name)?;
    let data: Vec<i32> = (0..blocks * 256).map(|i| i as i32).collect();
    let memory = hip.malloc(data.len() * 4)?;
    hip.upload(memory, &data);
    hip.launch(function, grid, source.block, &[memory as u64, rounds], NULL)?;
    let out = hip.download(memory, data.len());
    hip.free(memory)?;
    hip.unload(module)?;
    Ok(out)
}

fn reversed(rounds: u64, grid: [u32; 3]) -> Vec<i32> {
    let mut out = Vec::new();
    for z in 0..grid[2] as i32 {
        for y in 0..grid[1] as i32 {
            for x in 0..grid[0] as i32 {
                let first = ((z * 3 + y) * 5 + x) * 256;
                let place = |t: i32| if rounds % 2 == 1 { 255 - t } else { t };
                out.extend((0..256).map(|t| first + place(t) + 1000 * x + 10_000 * y + 100_000 * z));
            }
        }
    }
    out
}

#[test]
fn barriers_order_the_threads_of_a_block() {
    let (_folder, host) = Host::open();
    for (order, threads) in [("forward", "1"), ("reverse", "1"), ("forward", "3"), ("reverse", "64")] {
        host.set("ORDER", order);
        host.set("THREADS", threads);
        for rounds in [0, 1, 3, 8] {
            assert!(run_reverse(&host.hip, rounds, [5, 3, 2]) == Ok(reversed(rounds, [5, 3, 2])), "{order} {threads} {rounds}");
        }
    }
    assert_eq!(host.live(), [0; 6]);
    assert_eq!(host.calls("hipModuleLaunchKernel"), 16);
}

/// The largest and smallest blocks, and a kernel without barriers.
#[test]
fn blocks_of_any_size() {
    let (_folder, host) = Host::open();
    for block in [1, 2, 64, 1000, 1024] {
        let text = format!(
            "struct Args {{ int* data; }};
             KERNEL(sizes, {block}, Args) {{
                 SHARED int sum;
                 a.data[BX * {block} + TX] = TX;
                 if (TX == 0) sum = 0;
                 SYNC();
                 for (int turn = 0; turn < {block}; ++turn) {{
                     if (turn == TX) sum += TX;
                     SYNC();
                 }}
                 a.data[BX * {block} + TX] += sum;
             }}"
        );
        let source = kernel("sizes", block, 8, &text);
        let module = host.hip.load(&image(&source, false)).expect("loaded");
        let function = host.hip.function(module, "sizes").expect("found");
        let memory = host.hip.malloc(block as usize * 8).expect("memory");
        host.hip.launch(function, [2, 1, 1], block, &[memory as u64], NULL).expect("launched");
        let n = block as i32;
        let one: Vec<i32> = (0..n).map(|t| t + n * (n - 1) / 2).collect();
        assert!(host.hip.download::<i32>(memory, block as usize * 2) == [one.clone(), one].concat(), "{block}");
        host.hip.free(memory).expect("freed");
        host.hip.unload(module).expect("unloaded");
    }
}

/// A barrier that is missing goes unnoticed in one order of the threads, and never in both.
#[test]
fn the_order_of_threads_shows_missing_barriers() {
    let (_folder, host) = Host::open();
    let source = kernel(
        "race",
        64,
        8,
        "struct Args { int* data; };
         KERNEL(race, 64, Args) {
             SHARED int tile[64];
             tile[TX] = TX;
             a.data[TX] = TX ? tile[TX - 1] : 0;
         }",
    );
    let module = host.hip.load(&image(&source, false)).expect("loaded");
    let function = host.hip.function(module, "race").expect("found");
    let memory = host.hip.malloc(256).expect("memory");
    let run = |order: &str| {
        host.set("ORDER", order);
        host.hip.launch(function, [1, 1, 1], 64, &[memory as u64], NULL).expect("launched");
        host.hip.download::<i32>(memory, 64)
    };
    let forward = run("forward");
    assert_eq!(forward, (0..64).map(|t| (t - 1).max(0)).collect::<Vec<_>>());
    // Shared memory is poison before a block.
    assert_eq!(run("reverse"), (0..64).map(|t| if t == 0 { 0 } else { -1 }).collect::<Vec<_>>());
}

#[test]
fn a_divergent_barrier_is_a_launch_failure() {
    let (_folder, host) = Host::open();
    for (name, text) in [
        ("half_waits", "KERNEL(half_waits, 64, Args) { if (TX < 32) SYNC(); a.data[TX] = 1; }"),
        ("one_leaves", "KERNEL(one_leaves, 64, Args) { SYNC(); if (TX == 63) return; SYNC(); }"),
        ("first_leaves", "KERNEL(first_leaves, 64, Args) { if (TX == 0) return; SYNC(); }"),
        ("counts_differ", "KERNEL(counts_differ, 64, Args) { for (int i = 0; i < 2 + (TX == 7); ++i) SYNC(); }"),
    ] {
        let source = kernel(name, 64, 8, &format!("struct Args {{ int* data; }};\n{text}"));
        let module = host.hip.load(&image(&source, false)).expect("loaded");
        let function = host.hip.function(module, name).expect("found");
        let memory = host.hip.malloc(256).expect("memory");
        for threads in ["1", "4"] {
            host.set("THREADS", threads);
            assert_eq!(host.hip.launch(function, [8, 1, 1], 64, &[memory as u64], NULL), Err(719), "{name}");
        }
        // The runtime goes on.
        assert!(run_reverse(&host.hip, 1, [1, 1, 1]) == Ok(reversed(1, [1, 1, 1])), "{name}");
    }
}

#[test]
fn what_does_not_fit_a_kernel_is_refused() {
    let (_folder, host) = Host::open();
    let hip = &host.hip;
    let source = reverse();
    let module = hip.load(&image(&source, false)).expect("loaded");
    assert_eq!(hip.function(module, "revers"), Err(500));
    assert_eq!(hip.function(module, "reverse_block"), Err(500));
    assert_eq!(hip.function(ptr::without_provenance_mut(64), "reverse"), Err(400));
    let function = hip.function(module, "reverse").expect("found");
    let memory = hip.malloc(1024).expect("memory");
    let kernarg = [memory as u64, 1, 0];
    let launch = |grid, block, size| hip.launch_bytes(function, grid, block, &kernarg, size, NULL);
    assert_eq!(launch([1, 1, 1], 256, 16), Ok(()));
    assert_eq!(launch([1, 1, 1], 256, 8), Err(1));
    assert_eq!(launch([1, 1, 1], 256, 24), Err(1));
    assert_eq!(launch([1, 1, 1], 128, 16), Err(701));
    assert_eq!(launch([1, 0, 1], 256, 16), Err(1));
    assert_eq!(launch([1, 1, 65536], 256, 16), Err(1));
    assert_eq!(hip.launch(module, [1, 1, 1], 256, &kernarg[..2], NULL), Err(400));
    assert_eq!(hip.launch(function, [1, 1, 1], 256, &kernarg[..2], memory), Err(400));
    // Copies stay inside an allocation.
    let bytes = [0_u8; 2048];
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    let copy = |to: Handle, size, kind| unsafe { (hip.hipMemcpy)(to, bytes.as_ptr().cast(), size, kind) };
    assert_eq!(copy(memory, 1024, 1), 0);
    assert_eq!(copy(memory, 1025, 1), 1);
    assert_eq!(copy(memory.wrapping_byte_add(1000), 25, 1), 1);
    assert_eq!(copy(memory, 8, 2), 21);
    assert_eq!(copy(bytes.as_ptr() as Handle, 8, 1), 1);
    // Modules.
    assert_eq!(hip.load(&[0; 128]), Err(200));
    let mut foreign = image(&source, false);
    foreign[18] = 224;
    assert_eq!(hip.load(&foreign), Err(209));
    hip.unload(module).expect("unloaded");
    assert_eq!(hip.launch(function, [1, 1, 1], 256, &kernarg[..2], NULL), Err(400));
    assert_eq!(hip.unload(module), Err(400));
    hip.free(memory).expect("freed");
    assert_eq!(hip.free(memory), Err(1));
    assert_eq!(host.live(), [0; 6]);
}

/// The loader knows libraries by path: two modules must not be one because a file number came again.
#[test]
fn modules_are_told_apart() {
    let (_folder, host) = Host::open();
    let images: Vec<_> = (0..4)
        .map(|i| image(&kernel("same", 1, 8, &format!("struct Args {{ int* data; }}; KERNEL(same, 1, Args) {{ *a.data = {i}; }}")), false))
        .collect();
    let memory = host.hip.malloc(4).expect("memory");
    let modules: Vec<_> = images.iter().map(|image| host.hip.load(image).expect("loaded")).collect();
    for (i, &module) in modules.iter().enumerate() {
        let function = host.hip.function(module, "same").expect("found");
        host.hip.launch(function, [1, 1, 1], 1, &[memory as u64], NULL).expect("launched");
        assert_eq!(host.hip.download::<i32>(memory, 1), [i as i32]);
    }
    assert_eq!(host.live(), [1, 4, 0, 4, 0, 0]);
    for module in modules {
        host.hip.unload(module).expect("unloaded");
    }
    host.hip.free(memory).expect("freed");
}

#[test]
fn fresh_memory_is_poison_and_has_an_end() {
    let (_folder, host) = Host::open();
    host.set("MEMORY", "1000");
    let memory = host.hip.malloc(600).expect("memory");
    assert!(host.hip.download::<f32>(memory, 150).iter().all(|v| v.is_nan()));
    assert_eq!(host.hip.malloc(401), Err(2));
    assert_eq!(host.hip.malloc(usize::MAX), Err(2));
    let (mut free, mut total) = (0, 0);
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    assert_eq!(unsafe { (host.hip.hipMemGetInfo)(&raw mut free, &raw mut total) }, 0);
    assert_eq!((free, total), (400, 1000));
    let rest = host.hip.malloc(400).expect("memory");
    assert_eq!(host.live(), [2, 1000, 0, 0, 0, 0]);
    host.hip.free(memory).expect("freed");
    host.hip.free(rest).expect("freed");
    assert_eq!(host.hip.malloc(0), Ok(NULL));
    assert_eq!(host.live(), [0; 6]);
}

#[test]
fn calls_fail_on_request() {
    let (_folder, host) = Host::open();
    let hip = &host.hip;
    host.set("FAIL", "hipMalloc:2:2,hipFree:1+:700");
    let first = hip.malloc(8).expect("the first");
    assert_eq!(hip.malloc(8), Err(2));
    let third = hip.malloc(8).expect("the third");
    assert_eq!(hip.free(first), Err(700));
    assert_eq!(hip.free(third), Err(700));
    assert_eq!(host.live()[0], 2);
    host.set("FAIL", "");
    hip.free(first).expect("freed");
    hip.free(third).expect("freed");

    host.set("LOST", "2:719");
    assert!(run_reverse(hip, 1, [1, 1, 1]).is_ok());
    assert!(run_reverse(hip, 1, [1, 1, 1]).is_ok());
    assert_eq!(run_reverse(hip, 1, [1, 1, 1]), Err(719));
    assert_eq!(hip.malloc(8), Err(719));
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    assert_eq!(unsafe { (hip.hipDeviceSynchronize)() }, 719);

    host.set("DEVICES", "0");
    let mut count = 7;
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    assert_eq!(unsafe { (hip.hipInit)(0) }, 100);
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    assert_eq!(unsafe { (hip.hipGetDeviceCount)(&raw mut count) }, 100);
    assert_eq!(count, 0);
    assert_eq!(hip.malloc(8), Err(100));
}

#[test]
fn devices_keep_their_memory_apart() {
    let (_folder, host) = Host::open();
    let hip = &host.hip;
    host.set("DEVICES", "2");
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    assert_eq!(unsafe { (hip.hipSetDevice)(2) }, 101);
    let source = reverse();
    let bytes = image(&source, false);
    let of_0 = (hip.malloc(1024).expect("memory"), hip.load(&bytes).expect("loaded"));
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    assert_eq!(unsafe { (hip.hipSetDevice)(1) }, 0);
    let of_1 = (hip.malloc(1024).expect("memory"), hip.load(&bytes).expect("loaded"));
    let mut stream_1 = NULL;
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    assert_eq!(unsafe { (hip.hipStreamCreateWithFlags)(&raw mut stream_1, 1) }, 0);
    hip.upload(of_0.0, &[0_i32; 256]);
    hip.upload(of_1.0, &[0_i32; 256]);
    let (f_0, f_1) = (hip.function(of_0.1, "reverse").expect("found"), hip.function(of_1.1, "reverse").expect("found"));
    let launch = |function, memory: Handle, stream| hip.launch(function, [1, 1, 1], 256, &[memory as u64, 1], stream);
    // The calling thread's device is 1.
    assert_eq!(launch(f_1, of_1.0, NULL), Ok(()));
    assert_eq!(launch(f_1, of_1.0, stream_1), Ok(()));
    assert_eq!(launch(f_1, of_0.0, stream_1), Err(700));
    assert_eq!(launch(f_0, of_0.0, NULL), Err(400));
    // Another thread begins at device 0.
    std::thread::scope(|scope| {
        let (f_0, f_1, memory, stream) = (f_0 as usize, f_1 as usize, of_0.0 as usize, stream_1 as usize);
        scope.spawn(move || {
            let launch =
                |function: usize, stream: usize| hip.launch(function as Handle, [1, 1, 1], 256, &[memory as u64, 1], stream as Handle);
            assert_eq!(launch(f_0, 0), Ok(()));
            assert_eq!(launch(f_1, 0), Err(400));
            assert_eq!(launch(f_0, stream), Err(400));
        });
    });
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    assert_eq!(unsafe { (hip.hipStreamDestroy)(stream_1) }, 0);
}

#[test]
fn deferred_work_happens_at_the_next_wait() {
    let (_folder, host) = Host::open();
    let hip = &host.hip;
    let source = reverse();
    let module = hip.load(&image(&source, false)).expect("loaded");
    let function = hip.function(module, "reverse").expect("found");
    let memory = hip.malloc(1024).expect("memory");
    let mut stream = NULL;
    let mut events = [NULL; 2];
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    unsafe {
        assert_eq!((hip.hipStreamCreateWithFlags)(&raw mut stream, 1), 0);
        for event in &mut events {
            assert_eq!((hip.hipEventCreateWithFlags)(&raw mut *event, 0), 0);
        }
    }
    host.set("DEFERRED", "1");
    let mut data: Vec<i32> = vec![1; 256];
    let mut out = vec![0_i32; 256];
    let mut time = -1.0_f32;
    // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
    unsafe {
        assert_eq!((hip.hipEventRecord)(events[0], stream), 0);
        assert_eq!((hip.hipMemcpyAsync)(memory, data.as_ptr().cast(), 1024, 1, stream), 0);
        hip.launch(function, [1, 1, 1], 256, &[memory as u64, 1], stream).expect("launched");
        assert_eq!((hip.hipMemcpyAsync)(out.as_mut_ptr().cast(), memory, 1024, 2, stream), 0);
        assert_eq!((hip.hipEventRecord)(events[1], stream), 0);
        assert_eq!((hip.hipEventElapsedTime)(&raw mut time, events[0], events[1]), 600);
        // A caller that changes its data too early finds it changed.
        data.copy_from_slice(&(0..256).collect::<Vec<_>>());
        assert_eq!(out, [0; 256]);
        assert_eq!((hip.hipEventSynchronize)(events[1]), 0);
        assert_eq!(out, (0..256).rev().collect::<Vec<_>>());
        assert_eq!((hip.hipEventElapsedTime)(&raw mut time, events[0], events[1]), 0);
        assert!(time >= 0.0);
        for event in events {
            assert_eq!((hip.hipEventDestroy)(event), 0);
        }
        assert_eq!((hip.hipStreamDestroy)(stream), 0);
    }
    hip.free(memory).expect("freed");
    hip.unload(module).expect("unloaded");
    assert_eq!(host.live(), [0; 6]);
}

#[test]
fn threads_launch_side_by_side() {
    let (_folder, host) = Host::open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for rounds in [1, 2] {
                    assert!(run_reverse(&host.hip, rounds, [5, 2, 1]) == Ok(reversed(rounds, [5, 2, 1])), "{rounds}");
                }
            });
        }
    });
    assert_eq!(host.live(), [0; 6]);
}

#[test]
fn properties_lie_where_hip_has_them() {
    let (_folder, host) = Host::open();
    let read = |at: usize, buffer: &[u8]| i32::from_ne_bytes(buffer[at..at + 4].try_into().expect("four"));
    for (arch, warp) in [("host", 64), ("gfx1100", 32), ("gfx942:sramecc+:xnack-", 64)] {
        host.set("ARCH", arch);
        let mut buffer = vec![0_u8; 4096];
        // SAFETY: the types are HIP's, the runtime checks handles and addresses, and what pointers lead to outlives the call.
        assert_eq!(unsafe { (host.hip.hipGetDevicePropertiesR0600)(buffer.as_mut_ptr(), 0) }, 0);
        assert_eq!(read(308, &buffer), warp);
        assert!(read(388, &buffer) > 0);
        assert!(buffer[1160..].starts_with(format!("{arch}\0").as_bytes()));
        assert!(buffer[1472..].iter().all(|&b| b == 0));
    }
}
