//! Calls that no query goes before: the fused one and the two of biases.
#![expect(clippy::undocumented_unsafe_blocks, reason = "the descriptors are this test's own and outlive the calls")]

mod common;

use common::case::{Case, W, X, Y, at, float};
use common::*;
use hipplan_miopen::entry::bias::{miopenConvolutionBackwardBias, miopenConvolutionForwardBias};
use hipplan_miopen::entry::fused::miopenConvolutionBiasActivationForward;
use hipplan_miopen::{hipplan, last_error};
use hipplan_miopen_abi::status;
use hipplan_miopen_abi::types::{activation_mode, data_type};
use hipplan_serialize::ConvDirection::Forward;
use hipplan_serialize::conv_problem::bias;
use hipplan_serialize::{ConvEpilogue, GraphKey, Limits, ProblemTensor};
use std::ffi::{c_int, c_void};
use std::ptr;

const Z: usize = 0x5000;
const BIAS: usize = 0x6000;

/// A fused call. Scalars are none for null.
struct Fused {
    case: Case,
    z: Tensor,
    bias: Tensor,
    mode: i32,
    memory: [usize; 5],
}

impl Fused {
    fn new(batch: i32) -> Self {
        let case = Case::new(batch);
        let z = case.y.clone();
        Self { case, z, bias: Tensor::new(data_type::FLOAT, &[1, 8, 1, 1]), mode: activation_mode::RELU, memory: [X, W, Y, Z, BIAS] }
    }

    fn graph(&self, scale: bool, added: bool, scale_after: bool) -> GraphKey {
        let mut strides = [0; 5];
        for (place, &stride) in strides.iter_mut().zip(&self.z.strides) {
            *place = i64::from(stride);
        }
        let epilogue = ConvEpilogue { scale, added: added.then_some(strides), scale_after, bias: true, relu: true };
        self.case.graph_with(Forward, &epilogue)
    }

    fn call(&self, alpha1: Option<f32>, alpha2: Option<f32>) -> c_int {
        let pointer = |value: &Option<f32>| value.as_ref().map_or(ptr::null::<c_void>(), float);
        let objects = self.case.objects();
        let [x, w, y, z, bias] = self.memory.map(at);
        let activation = Activation(self.mode);
        unsafe {
            miopenConvolutionBiasActivationForward(
                objects.handle,
                pointer(&alpha1),
                objects.x,
                x,
                objects.w,
                w,
                objects.conv,
                1,
                ptr::null_mut(),
                0,
                pointer(&alpha2),
                self.z.descriptor(),
                z,
                self.bias.descriptor(),
                bias,
                activation.descriptor(),
                objects.y,
                y,
            )
        }
    }
}

fn store_graph(key: GraphKey, workspaces: &[u64]) {
    store().graphs.insert(key, Stored::Plans(workspaces.to_vec()));
}

/// The graph has only the factors that are needed, and what is said is `relu(alpha1 * sums + alpha2 * z + bias)`.
#[test]
fn a_fused_call_takes_the_graph_of_its_scalars() {
    let fused = Fused::new(1);
    let (z, bias) = ((4, Z), (7, BIAS));
    for (alpha1, alpha2, [scale, added, scale_after], scalars, rest) in [
        (None, None, [false, true, false], [0.0, 0.0], &[z][..]),
        (Some(1.0), Some(1.0), [false, true, false], [0.0, 0.0], &[z]),
        (Some(1.0), Some(0.0), [false, false, false], [0.0, 0.0], &[]),
        (Some(0.5), Some(0.0), [true, false, false], [0.5, 0.0], &[]),
        (Some(0.5), None, [true, true, false], [0.5, 0.0], &[z]),
        (Some(0.5), Some(-2.0), [true, true, true], [-0.25, -2.0], &[z]),
        (Some(3.0), Some(3.0), [false, true, true], [0.0, 3.0], &[z]),
        (Some(0.0), Some(2.0), [true, true, true], [0.0, 2.0], &[z]),
    ] {
        let name = format!("{alpha1:?} {alpha2:?}");
        let graph = fused.graph(scale, added, scale_after);
        store_graph(graph, &[0]);
        for _ in 0..2 {
            assert_eq!(fused.call(alpha1, alpha2), 0, "{name}");
            let run = executed().expect("executed");
            assert_eq!((run.graph(), run.scalars), (graph, scalars), "{name}");
            assert_eq!(run.bound()[..4], [(1, X), (2, W), (3, Y), bias], "{name}");
            let more: Vec<_> = run.bound()[4..].iter().filter(|(uid, _)| *uid == 4).copied().collect();
            assert_eq!(more, rest, "{name}");
        }
        assert_eq!(store().bound.iter().filter(|(key, _)| *key == graph).count(), 1, "{name}");
    }
    assert!(native_calls().is_empty());
}

#[test]
fn fused_calls_that_are_miopens() {
    let expect_native = |fused: &Fused, alpha1, alpha2| {
        assert_eq!(fused.call(alpha1, alpha2), NATIVE);
        assert_eq!(native_calls(), ["miopenConvolutionBiasActivationForward"]);
    };
    store().accept_all = false;
    // Nothing stored, and pinned.
    let fused = Fused::new(10);
    expect_native(&fused, None, None);
    store_graph(fused.graph(false, true, false), &[0]);
    expect_native(&fused, None, None);
    // Nobody can ask how much workspace it needs.
    let fused = Fused::new(11);
    store_graph(fused.graph(false, true, false), &[16]);
    expect_native(&fused, None, None);
    // Another activation, another bias, another addend, scalars too far apart.
    let changes: [fn(&mut Fused); 5] = [
        |f| f.mode = activation_mode::TANH,
        |f| f.bias = Tensor::new(data_type::FLOAT, &[1, 8, 5, 6]),
        |f| f.bias.dtype = data_type::HALF,
        |f| f.z = Tensor::new(data_type::FLOAT, &[1, 8, 5, 6]),
        |f| f.z.dtype = data_type::HALF,
    ];
    for change in changes {
        let mut fused = Fused::new(12);
        store_graph(fused.graph(false, true, false), &[0]);
        change(&mut fused);
        expect_native(&fused, None, None);
    }
    let fused = Fused::new(12);
    expect_native(&fused, Some(1e30), Some(1e-30));
    assert_eq!(fused.call(None, None), 0, "the problem itself is ours");
    assert_eq!(executed().map(|run| run.count), Some(5));
}

#[test]
fn nulls_of_a_fused_call_are_statuses() {
    let mut fused = Fused::new(20);
    store_graph(fused.graph(false, true, false), &[0]);
    for null in 0..5 {
        fused.memory = [X, W, Y, Z, BIAS];
        fused.memory[null] = 0;
        assert_eq!(fused.call(None, None), status::BAD_PARM, "{null}");
    }
    assert_eq!(last_error::code(), hipplan::status::INVALID_ARGUMENT);
    assert_eq!(executed(), None);
    assert!(native_calls().is_empty());
}

/// `hipStreamIsCapturing`, which the library looks up in the program as a whole.
#[unsafe(no_mangle)]
extern "C" fn hipStreamIsCapturing(stream: *mut c_void, found: *mut c_int) -> c_int {
    unsafe { *found = c_int::from(stream.addr() == CAPTURED) };
    0
}

const CAPTURED: usize = 0x7000;

/// Exported only where the linker is told to; without it the test above would say nothing.
fn capture_can_be_seen() -> bool {
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"hipStreamIsCapturing".as_ptr()) }.is_null()
}

#[test]
fn nothing_is_decided_while_a_stream_is_captured() {
    assert!(capture_can_be_seen(), "build.rs exports the symbol");
    let mut fused = Fused::new(30);
    store_graph(fused.graph(false, true, false), &[0]);
    let free = fused.case.stream;
    fused.case.stream = Box::leak(Box::new(Stream(at(CAPTURED))));
    assert_eq!(fused.call(None, None), NATIVE);
    native_calls();
    fused.case.stream = free;
    assert_eq!(fused.call(None, None), 0);
    fused.case.stream = Box::leak(Box::new(Stream(at(CAPTURED))));
    assert_eq!(fused.call(None, None), 0, "what is loaded may be captured");
}

#[test]
fn an_immediate_run_decides_nothing_while_a_stream_is_captured() {
    let mut case = Case::new(31);
    case.store(Forward, &[0]);
    let (free, id) = (case.stream, hipplan_miopen::solution_id::OURS | 1);
    case.stream = Box::leak(Box::new(Stream(at(CAPTURED))));
    assert_eq!(case.immediate(Forward, (0, 0), id), status::BAD_PARM);
    assert_eq!(executed(), None);
    case.stream = free;
    assert_eq!(case.immediate(Forward, (0, 0), id), 0);
    assert!(native_calls().is_empty());
}

/// A bias with its tensor.
struct Bias {
    case: Case,
    bias: Tensor,
}

impl Bias {
    fn new(batch: i32, dtype: i32) -> Self {
        Self { case: Case::of_type(batch, dtype), bias: Tensor::new(dtype, &[1, 8, 1, 1]) }
    }

    fn graphs(&self) -> [GraphKey; 2] {
        let y = &self.case.y;
        let longs = |list: &[i32]| list.iter().map(|&n| i64::from(n)).collect::<Vec<_>>();
        let dtype = hipplan_miopen::problem::dtype(y.dtype).expect("a type");
        let y = ProblemTensor::new(dtype, &longs(&y.dims), &longs(&y.strides)).expect("a tensor");
        [bias::forward_graph(&y, 2, &Limits::DEFAULT), bias::backward_graph(&y, 2, &Limits::DEFAULT)]
            .map(|graph| graph.expect("a graph").view().canonical().expect("a key").key)
    }

    fn forward(&self, alpha: f32, beta: f32, memory: [usize; 2]) -> c_int {
        let [b, y] = memory.map(at);
        let (handle, b_desc, y_desc) = (self.case.handle(), self.bias.descriptor(), self.case.y.descriptor());
        unsafe { miopenConvolutionForwardBias(handle, float(&alpha), b_desc, b, float(&beta), y_desc, y) }
    }

    fn backward(&self, alpha: f32, beta: f32, memory: [usize; 2]) -> c_int {
        let [b, y] = memory.map(at);
        let (handle, b_desc, y_desc) = (self.case.handle(), self.bias.descriptor(), self.case.y.descriptor());
        unsafe { miopenConvolutionBackwardBias(handle, float(&alpha), y_desc, y, float(&beta), b_desc, b) }
    }
}

#[test]
fn biases_are_graphs_of_their_own() {
    let bias = Bias::new(40, data_type::HALF);
    let [forward, backward] = bias.graphs();
    store_graph(forward, &[0]);
    store_graph(backward, &[0]);
    assert_eq!(bias.forward(1.0, 0.0, [BIAS, Y]), 0);
    let run = executed().expect("executed");
    assert_eq!((run.graph(), run.bound()), (forward, &[(3, Y), (4, Y), (7, BIAS)][..]));
    assert_eq!(bias.backward(1.0, 0.0, [BIAS, Y]), 0);
    let run = executed().expect("executed");
    assert_eq!((run.graph(), run.bound()), (backward, &[(3, Y), (7, BIAS)][..]));
    for memory in [[0, Y], [BIAS, 0]] {
        assert_eq!(bias.forward(1.0, 0.0, memory), status::BAD_PARM);
        assert_eq!(bias.backward(1.0, 0.0, memory), status::BAD_PARM);
    }
    assert!(native_calls().is_empty());
    // Other scalars are MIOpen's, and so are bfloat16, other biases, and what is not stored.
    for (alpha, beta) in [(2.0, 0.0), (1.0, 1.0)] {
        assert_eq!((bias.forward(alpha, beta, [BIAS, Y]), bias.backward(alpha, beta, [BIAS, Y])), (NATIVE, NATIVE));
    }
    let bfloat = Bias::new(41, data_type::BFLOAT16);
    for key in bfloat.graphs() {
        store_graph(key, &[0]);
    }
    let mut other = Bias::new(42, data_type::FLOAT);
    other.bias = Tensor::new(data_type::FLOAT, &[1, 4, 1, 1]);
    for bias in [bfloat, other, Bias::new(43, data_type::FLOAT)] {
        assert_eq!((bias.forward(1.0, 0.0, [BIAS, Y]), bias.backward(1.0, 0.0, [BIAS, Y])), (NATIVE, NATIVE));
    }
    assert_eq!(executed(), None);
    native_calls();
}
