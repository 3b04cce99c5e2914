//! MIOpen's naive convolutions on the host runtime: modules of the stand-in compiler, arguments, launches.

mod common;

use common::{Handle, Host, build_dir};
use hipplan_hip_testing::build;
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

unsafe extern "C" {
    fn pclose(stream: *mut c_void) -> c_int;
}

type Popen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut c_void;

/// Runs a command as MIOpen does.
fn popen(compiler: &Library, command: &str) -> c_int {
    let command = CString::new(command).expect("text");
    // SAFETY: popen has these types, and what it returns goes to pclose once.
    unsafe {
        let popen = *compiler.get::<Popen>("popen").expect("popen");
        let stream = popen(command.as_ptr(), c"r".as_ptr());
        assert!(!stream.is_null());
        pclose(stream)
    }
}

fn compiler() -> Library {
    let path = build::compiler_stand_in(&build_dir()).expect("built");
    // SAFETY: it has no initialisers of its own.
    unsafe { Library::new(path) }.expect("loaded")
}

fn load(host: &Host, path: &Path) -> Result<Handle, c_int> {
    let mut module = ptr::null_mut();
    let path = CString::new(path.to_str().expect("text")).expect("text");
    // SAFETY: a place for the handle and a text.
    common::result(unsafe { (host.hip.hipModuleLoad)(&raw mut module, path.as_ptr()) }).map(|()| module)
}

/// A forward convolution, 2-D: (hi, wi, n, k, c, ho, wo, sy, sx, dy, dx, py, px, fy, fx, groups), k and c of a group.
const EXTENTS: [i32; 16] = [5, 6, 2, 3, 2, 3, 3, 2, 2, 1, 2, 1, 1, 3, 2, 2];
/// Elements of x, w and y.
const SIZES: [usize; 3] = [2 * 4 * 5 * 6, 6 * 2 * 3 * 2, 2 * 6 * 3 * 3];
/// Groups, images, and channels of a group, or rows.
const BLOCKS: u32 = 2 * 2 * 3;

/// Strides from the innermost dimension out.
struct Layout {
    name: &'static str,
    x: [u64; 5],
    w: [u64; 5],
    y: [u64; 5],
    /// From strides to (group, outer, channel, row, column).
    place: [usize; 5],
    place_w: [usize; 5],
}

const LAYOUTS: [Layout; 2] = [
    Layout {
        name: "nchw",
        x: [1, 6, 30, 60, 120],
        w: [1, 2, 6, 12, 36],
        y: [1, 3, 9, 27, 54],
        place: [3, 4, 2, 1, 0],
        place_w: [4, 3, 2, 1, 0],
    },
    Layout {
        name: "nhwc",
        x: [1, 2, 4, 24, 120],
        w: [1, 2, 4, 12, 36],
        y: [1, 3, 6, 18, 54],
        place: [1, 4, 0, 3, 2],
        place_w: [4, 3, 0, 2, 1],
    },
];

fn at(strides: &[u64; 5], place: &[usize; 5], index: [i32; 5]) -> usize {
    place.iter().zip(index).map(|(&p, i)| strides[p] as usize * i as usize).sum()
}

fn reference(layout: &Layout, x: &[f32], w: &[f32], y: &mut [f32], alpha: f64, beta: f64) {
    let [hi, wi, n, k, c, ho, wo, sy, sx, dy, dx, py, px, fy, fx, groups] = EXTENTS;
    for index in 0..groups * n * k * ho * wo {
        let [g, b, o, r, s] = [index / (n * k * ho * wo), index / (k * ho * wo) % n, index / (ho * wo) % k, index / wo % ho, index % wo];
        let mut sum = 0.0;
        for tap in 0..c * fy * fx {
            let [i, p, q] = [tap / (fy * fx), tap / fx % fy, tap % fx];
            let [u, v] = [r * sy - py + p * dy, s * sx - px + q * dx];
            if (0..hi).contains(&u) && (0..wi).contains(&v) {
                let input = x[at(&layout.x, &layout.place, [g, b, i, u, v])];
                sum += f64::from(input) * f64::from(w[at(&layout.w, &layout.place_w, [g, o, i, p, q])]);
            }
        }
        let out = &mut y[at(&layout.y, &layout.place, [g, b, o, r, s])];
        *out = (alpha * sum + beta * f64::from(*out)) as f32;
    }
}

#[test]
fn naive_convolutions_compute() {
    let (folder, host) = Host::open();
    let hip = &host.hip;
    let [x_size, w_size, y_size] = SIZES;
    host.set("ARCH", "gfx942:sramecc+:xnack-");
    let compiler = compiler();
    let command = format!("cd {}; /usr/bin/clang++-21 -O3 naive_conv.cpp -o naive_conv.cpp.o", folder.path().display());
    assert_eq!(popen(&compiler, &command), 0);
    let module = load(&host, &folder.path().join("naive_conv.cpp.o")).expect("loaded");
    let numbers = |count: usize, factor: usize| -> Vec<f32> { (0..count).map(|i| (i * factor % 17) as f32 - 8.0).collect() };
    let (x, w, y) = (numbers(x_size, 5), numbers(w_size, 7), numbers(y_size, 3));
    let [dx, dw, dy] = SIZES.map(|n| hip.malloc(n * 4).expect("memory"));
    hip.upload(dx, &x);
    hip.upload(dw, &w);
    for layout in &LAYOUTS {
        for (packed, alpha, beta) in [("nonpacked", 1.0, 0.0), ("packed", 1.0, 0.0), ("nonpacked", 0.5, -2.0)] {
            let name = format!("naive_conv_ab_{packed}_fwd_{}_float_double_float", layout.name);
            let function = hip.function(module, &name).expect("found");
            let mut expected = if beta == 0.0 { vec![0.0; y_size] } else { y.clone() };
            reference(layout, &x, &w, &mut expected, alpha, beta);
            hip.upload(dy, &y);
            let mut kernarg = vec![dx as u64, dw as u64, alpha.to_bits(), beta.to_bits(), dy as u64];
            // Strides that are not told truly make no difference where tensors are said to be packed.
            let told = |strides: &[u64; 5]| if packed == "packed" { [0; 5] } else { *strides };
            kernarg.extend([told(&layout.x), told(&layout.w), told(&layout.y)].concat());
            kernarg.extend(EXTENTS.chunks(2).map(|p| u64::from(p[0] as u32) | u64::from(p[1] as u32) << 32));
            // Room for hidden arguments.
            kernarg.extend([0; 6]);
            let mut size = size_of_val(&kernarg[..]);
            assert_eq!(size, 272);
            let mut extra = [1 as Handle, kernarg.as_ptr() as Handle, 2 as Handle, (&raw mut size).cast(), 3 as Handle];
            let events = [hip.event(), hip.event()];
            let mut launch = |grid: u32| {
                let (none, [start, stop]) = (ptr::null_mut(), events);
                // SAFETY: the runtime checks handles and sizes, and the arguments outlive the call.
                unsafe {
                    (hip.hipExtModuleLaunchKernel)(
                        function,
                        grid * 256,
                        1,
                        1,
                        256,
                        1,
                        1,
                        0,
                        none,
                        ptr::null_mut(),
                        extra.as_mut_ptr(),
                        start,
                        stop,
                        0,
                    )
                }
            };
            assert_eq!(launch(BLOCKS + 1), 1);
            assert_eq!(hip.download::<f32>(dy, y_size), y);
            assert_eq!(launch(BLOCKS), 0);
            assert_eq!(hip.download::<f32>(dy, y_size), expected, "{name} {alpha} {beta}");
            let mut time = 0.0;
            // SAFETY: a place for the time; the runtime checks handles.
            assert_eq!(unsafe { (hip.hipEventElapsedTime)(&raw mut time, events[0], events[1]) }, 0);
            assert!(time > 0.0);
            // Launches that do nothing, for tests that must see a difference.
            host.set("NAIVE", "skip");
            hip.upload(dy, &y);
            assert_eq!(launch(BLOCKS), 0);
            assert_eq!(hip.download::<f32>(dy, y_size), y);
            host.set("NAIVE", "run");
            // A tensor that ends too early.
            kernarg[4] += 4;
            assert_eq!(launch(BLOCKS), 700);
            let what = format!("kernel {name}");
            assert!(host.calls(&what) >= 2);
        }
    }
}

#[test]
fn only_simulated_kernels_are_found() {
    let (folder, host) = Host::open();
    let hip = &host.hip;
    let compiler = compiler();
    let object = |source: &str| {
        let path = folder.path().join(format!("{source}.o"));
        assert_eq!(popen(&compiler, &format!("cd /; \"/opt/clang++\" -c {source} -o {}", path.display())), 0);
        load(&host, &path).expect("loaded")
    };
    let (naive, other) = (object("naive_conv.cpp"), object("other.cpp"));
    let good = "naive_conv_ab_nonpacked_wrw_ndhwc_half_double_half";
    assert!(hip.function(naive, good).is_ok());
    assert_eq!(hip.function(other, good), Err(500));
    for name in ["naive_conv_ab_nonpacked_wrw_ndhwc_int8_t_int32_t_float", "naive_conv_fwd_nchw", "Im2d2Col_v2", ""] {
        assert_eq!(hip.function(naive, name), Err(500), "{name}");
    }
    host.set("NAIVE", "missing");
    assert_eq!(hip.function(object("naive_conv.cpp"), good), Err(500));
    assert_eq!(host.calls("module"), 3);
    assert_eq!(load(&host, &folder.path().join("none")), Err(301));
    let (memory, mut size) = (hip.malloc(40).expect("memory"), 0);
    // SAFETY: a place for the size; the runtime checks the address.
    assert_eq!(unsafe { (hip.hipMemPtrGetInfo)(memory, &raw mut size) }, 0);
    assert_eq!(size, 40);
    // Other commands are run.
    let marker = folder.path().join("marker");
    assert_eq!(popen(&compiler, &format!("echo hello > {}", marker.display())), 0);
    assert_eq!(std::fs::read_to_string(marker).expect("written"), "hello\n");
    assert_eq!(popen(&compiler, "exit 3"), 3 << 8);
}
