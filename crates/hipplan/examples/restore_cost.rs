//! What restoring a plan costs in a fresh process: open, check and bind, against the least that anybody could do by hand.
//!
//! `cargo run --release -p hipplan --example restore_cost [rounds]`
//!
//! Each round starts new processes, one for each row, in turn. A process does its one thing once, times it inside, and prints the time;
//! process start is not in it. By hand: open, fstat, read into an aligned buffer, BLAKE3 of all of it, rkyv access of the metadata
//! (which is bytecheck). The page cache is warm.

use hipplan::plan::ArchivedPlanMetaV1;
use hipplan::{
    AlignedBytes, ConvMode, DataType, Device, GraphBuf, GraphBuilder, GraphKey, Loaders, Mode, Plan, PointwiseMode, Policy, Restore,
    Runtime, Store, TensorAttributes, find_by_graph_key, ops,
};
use std::io::Read;
use std::path::Path;
use std::time::Instant;

const ROWS: [(&str, &str); 6] = [
    ("hand", "by hand: open + read + BLAKE3 + rkyv access"),
    ("open", "ours: open + read + check"),
    ("bind", "ours: open + read + check + bind"),
    ("restore", "ours: open store + selection + plan + check + bind"),
    ("hand2", "by hand, the second time in the process"),
    ("bind2", "ours: open + read + check + bind, the second time in the process"),
];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("--child") => child(&args[2], Path::new(&args[3]), Path::new(&args[4]), &args[5]),
        rounds => parent(rounds.and_then(|r| r.parse().ok()).unwrap_or(101)),
    }
}

/// A graph whose plan is about 4 KB: three small convolutions with bias and activation.
fn graph() -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let tensor = |dims: &[i64], is_virtual: bool| {
        let mut t = TensorAttributes::packed(DataType::Float, dims);
        t.set_virtual(is_virtual);
        t
    };
    let mut x = builder.tensor(tensor(&[1, 4, 6, 6], false));
    for i in 0..3 {
        let w = builder.tensor(tensor(&[4, 4, 3, 3], false));
        let bias = builder.tensor(tensor(&[1, 4, 1, 1], false));
        let conv = builder.tensor(tensor(&[1, 4, 6, 6], true));
        let sum = builder.tensor(tensor(&[1, 4, 6, 6], true));
        let y = builder.tensor(tensor(&[1, 4, 6, 6], i < 2));
        let ones = &[1, 1][..];
        builder.node(
            "conv",
            DataType::Float,
            ops::ConvolutionFwd {
                x,
                w,
                y: conv,
                pre_padding: ones,
                post_padding: ones,
                stride: ones,
                dilation: ones,
                conv_mode: ConvMode::CrossCorrelation,
            },
        );
        builder.node("bias", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, conv, bias, sum));
        builder.node("relu", DataType::Float, ops::Pointwise::unary(PointwiseMode::ReluFwd, sum, y));
        x = y;
    }
    builder.build().expect("a graph")
}

fn parent(rounds: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let runtime = Runtime::open(&store).expect("a store");
    let graph = graph();
    runtime.compile(&graph.view()).expect("compiled");
    let key = graph.view().canonical().expect("a key").key;
    let plan = runtime.find(&key).expect("found");
    let file = folder.path().join("one.plan");
    std::fs::write(&file, plan.bytes()).expect("written");

    let mut times: Vec<Vec<f64>> = vec![Vec::new(); ROWS.len()];
    for _ in 0..rounds {
        for (i, (row, _)) in ROWS.iter().enumerate() {
            let output = std::process::Command::new(std::env::current_exe().expect("this program"))
                .args(["--child", row])
                .arg(&store)
                .arg(&file)
                .arg(key.to_string())
                .output()
                .expect("started");
            assert!(output.status.success(), "{output:?}");
            times[i].push(String::from_utf8_lossy(&output.stdout).trim().parse().expect("a time"));
        }
    }
    println!("plan of {} bytes, {rounds} fresh processes a row, medians (least)", plan.bytes().len());
    let median = |v: &mut Vec<f64>| {
        v.sort_by(f64::total_cmp);
        (v[v.len() / 2], v[0])
    };
    let medians: Vec<(f64, f64)> = times.iter_mut().map(median).collect();
    for (i, (_, what)) in ROWS.iter().enumerate() {
        let floor = if i < 4 { medians[0].0 } else { medians[4].0 };
        println!("{:>8.1} us ({:>6.1})  {:>5.2} x  {what}", medians[i].0, medians[i].1, medians[i].0 / floor);
    }
}

fn child(what: &str, store: &Path, file: &Path, key: &str) {
    let key: GraphKey = key.parse().expect("a key");
    let once: &dyn Fn() = match what {
        "hand" | "hand2" => &|| by_hand(file),
        "open" => &|| {
            let bytes = read(file);
            std::hint::black_box(Plan::open(&bytes).expect("a plan").key());
        },
        "bind" | "bind2" => &|| {
            let bytes = read(file);
            let plan = Plan::open(&bytes).expect("a plan");
            std::hint::black_box(plan.bind_by_key(&Device::Cpu, &Loaders::default()).expect("bound"));
        },
        "restore" => &|| {
            let store = Store::open(store, Mode::ReadOnly).expect("a store");
            let loaders = Loaders::default();
            let Restore::Found(plan) = find_by_graph_key(&store, &key, &Device::Cpu, &loaders, &Policy::DEFAULT) else {
                panic!("not found")
            };
            std::hint::black_box(Plan::new(plan.view()).bind_by_key(&Device::Cpu, &loaders).expect("bound"));
        },
        other => panic!("{other}"),
    };
    if what.ends_with('2') {
        once();
    }
    let start = Instant::now();
    once();
    println!("{}", start.elapsed().as_secs_f64() * 1e6);
}

fn read(file: &Path) -> AlignedBytes {
    let mut file = std::fs::File::open(file).expect("open");
    let len = file.metadata().expect("fstat").len() as usize;
    let mut bytes = AlignedBytes::with_capacity(len);
    bytes.resize(len, 0);
    file.read_exact(&mut bytes).expect("read");
    bytes
}

fn by_hand(file: &Path) {
    let bytes = read(file);
    std::hint::black_box(hipplan::Digest::of(&bytes));
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let start = 64 + 64 * word(24);
    let meta = rkyv::access::<ArchivedPlanMetaV1, rkyv::rancor::Error>(&bytes[start..start + word(28)]).expect("valid");
    std::hint::black_box(meta.workspace_size.to_native());
}
