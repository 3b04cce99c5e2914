//! What a warm forwarded call costs: no allocation, and a bounded number of instructions outside of MIOpen's getters and the launch.
#![expect(clippy::undocumented_unsafe_blocks, reason = "the descriptors are this test's own and outlive the calls")]

mod common;
#[path = "../../hipplan/tests/common/counting.rs"]
mod counting;

use common::case::{Case, W, X, Y, at, float};
use common::{executed, native_calls};
use counting::allocations;
use hipplan_miopen::hipplan::{self, Binding, Plan};
use hipplan_miopen::private;
use hipplan_serialize::{ConvDirection, ConvEpilogue};
use std::process::Command;
use std::ptr;

/// What hipplan's own code may take for a warm call.
const MOST_INSTRUCTIONS: u64 = 2_000;
/// Runs so often, of problems that are decided.
const CALLS: &str = "HIPPLAN_CALLS";
/// Instead of the runs, the calls that they make of MIOpen's getters and of libhipplan.
const STAND_INS: &str = "HIPPLAN_STAND_INS";

fn ready() -> (Vec<Case>, u64) {
    let cases: Vec<Case> = (1..=20).map(Case::new).collect();
    let mut id = 0;
    for case in &cases {
        for direction in ConvDirection::ALL {
            case.store(direction, &[64]);
            let strides = case.read(direction).expect("a key").result().strides;
            for epilogue in [ConvEpilogue::SCALE, ConvEpilogue::bilinear(strides)] {
                let key = case.graph_with(direction, &epilogue);
                common::store().graphs.insert(key, common::Stored::Plans(vec![0]));
            }
            assert_eq!(case.workspace_size(direction), (0, 64));
            id = case.solution(direction, 1).1.expect("a solution").solution_id;
        }
    }
    (cases, id)
}

/// What a run asks of others.
fn stand_ins(case: &Case) -> i32 {
    let private = private::get();
    let bindings = [Binding { uid: 1, pointer: at(X) }, Binding { uid: 2, pointer: at(W) }, Binding { uid: 3, pointer: at(Y) }];
    let [mut a, mut b, mut c, mut d, mut e] = [[0_i32; 5]; 5];
    let mut stream = ptr::null_mut();
    let conv = case.conv.descriptor();
    let api = hipplan::api().expect("set up");
    unsafe {
        let mut sum = private.miopenGetConvolutionSpatialDim.expect("a getter")(conv, a.as_mut_ptr());
        for tensor in [&case.x, &case.w, &case.y] {
            let tensor = tensor.descriptor();
            sum += private.miopenGetTensorDescriptorSize.expect("a getter")(tensor, a.as_mut_ptr());
            sum += private.miopenGetTensorDescriptor.expect("a getter")(tensor, a.as_mut_ptr(), b.as_mut_ptr(), c.as_mut_ptr());
        }
        let numbers = [&mut b, &mut c, &mut d].map(|list| list.as_mut_ptr());
        sum += private.miopenGetConvolutionNdDescriptor.expect("a getter")(
            conv,
            2,
            a.as_mut_ptr(),
            numbers[0],
            numbers[1],
            numbers[2],
            e.as_mut_ptr(),
        );
        sum += private.miopenGetConvolutionGroupCount.expect("a getter")(conv, a.as_mut_ptr());
        sum += private.miopenGetStream.expect("a getter")(case.handle(), &raw mut stream);
        sum + (api.execute)(ptr::null_mut::<Plan>(), bindings.as_ptr(), 3, at(0x9000), 64, stream, ptr::null())
    }
}

/// One test, so that no other thread of the test program allocates meanwhile.
#[test]
fn a_warm_call_allocates_nothing_and_costs_few_instructions() {
    if let Some(calls) = std::env::var_os(CALLS) {
        let calls: usize = calls.to_str().and_then(|n| n.parse().ok()).expect("a number");
        let (cases, _) = ready();
        let only_stand_ins = std::env::var_os(STAND_INS).is_some();
        for at in 0..calls {
            let case = &cases[at % cases.len()];
            let status = if only_stand_ins { stand_ins(case) } else { case.run(ConvDirection::Forward, (0x9000, 64)) };
            assert_eq!(status, 0);
        }
        return;
    }
    let (cases, id) = ready();
    let mut answers = 0;
    let before = allocations();
    for _ in 0..3 {
        for case in &cases {
            for direction in ConvDirection::ALL {
                answers += case.run(direction, (0x9000, 64));
                answers += case.run_with(direction, float(&0.5), float(&0.0), [X, W, Y], (0x9000, 64));
                answers += case.run_with(direction, float(&0.5), float(&2.0), [X, W, Y], (0x9000, 64));
                answers += case.immediate(direction, (0x9000, 64), id);
                answers += case.workspace_size(direction).0;
                answers += case.solution_count(direction).0;
                answers += case.solution(direction, 1).0;
                answers += case.find(direction, (0x9000, 64)).0;
            }
        }
    }
    let allocated = allocations() - before;
    assert_eq!((answers, allocated), (0, 0));
    assert!(executed().is_some() && native_calls().is_empty());

    if !Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("HIPPLAN_CI").is_none(), "valgrind is needed and not installed");
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let instructions = |calls: usize, only_stand_ins: bool| -> u64 {
        let out = folder.path().join(calls.to_string());
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", &format!("--callgrind-out-file={}", out.display())]);
        command.arg(std::env::current_exe().expect("this test"));
        command.args(["a_warm_call_allocates_nothing_and_costs_few_instructions", "--exact"]).env(CALLS, calls.to_string());
        if only_stand_ins {
            command.env(STAND_INS, "1");
        }
        let output = command.output().expect("started");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        let line = text.lines().find_map(|line| line.split_once("Collected : ")).expect("a sum of instructions").1;
        line.trim().parse().expect("a number")
    };
    // Two processes differ only in how often they call.
    let (few, many) = (1_000, 21_000);
    let each = |only_stand_ins| (instructions(many, only_stand_ins) - instructions(few, only_stand_ins)) / (many - few) as u64;
    let (all, stand_ins) = (each(false), each(true));
    let each = all.saturating_sub(stand_ins);
    println!("{each} instructions, beside {stand_ins} of the test's stand-ins for MIOpen's getters and the launch");
    assert!((100..=MOST_INSTRUCTIONS).contains(&each), "{each} instructions, at most {MOST_INSTRUCTIONS} are allowed");
}
