//! The hip provider on an NVIDIA GPU, through the shipped executor and the cuda stand-in runtime. See `scripts/nvidia/README.md`.
//!
//! * `nvidia build FOLDER`: builds the stand-in runtime, on any machine with g++.
//! * `nvidia sweep RUNTIME COUNT [KIND]`: so many problems of each kind, checked against the reference.
//! * `nvidia layers RUNTIME FILE`: convolutions of a file of MIOpenDriver lines: sampled results are checked, times go to standard
//!   output as JSON, a line each.

use anyhow::{Context, bail, ensure};
use hipplan_exec::hip::{DeviceMemory, HipDevice, HipEvent, HipRuntime};
use hipplan_exec::reference::Random;
use hipplan_exec::{Device, Plan, Stream, VariantPack};
use hipplan_hip_testing::problems::{Kind, problem};
use hipplan_hip_testing::sweep::{Sweep, count};
use hipplan_hip_testing::{NvrtcCompiler, build};
use hipplan_planner::hip::HipCompiler;
use hipplan_planner::{Providers, Request, Site, compile_graph, ensure_plan};
use hipplan_serialize::conv_problem::{ConvDirection, ConvProblem};
use hipplan_serialize::import::{Imported, import_any};
use hipplan_serialize::{Limits, Policy, TensorView, VerifiedGraph};
use hipplan_store::{Mode, Store};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["build", folder] => {
            println!("{}", build::cuda_runtime(Path::new(folder))?.display());
            Ok(())
        }
        ["sweep", runtime, count] => sweep(Path::new(runtime), count.parse()?, None),
        ["sweep", runtime, count, kind] => sweep(Path::new(runtime), count.parse()?, Some(kind)),
        ["layers", runtime, file] => layers(Path::new(runtime), Path::new(file)),
        _ => bail!("usage: nvidia build FOLDER | sweep RUNTIME COUNT [KIND] | layers RUNTIME FILE"),
    }
}

fn device(runtime: &Path) -> anyhow::Result<HipDevice> {
    Ok(HipRuntime::open(runtime)?.device(0)?)
}

fn providers() -> anyhow::Result<Providers> {
    let mut providers = Providers::none();
    let compiler = NvrtcCompiler::open().map_err(|e| anyhow::anyhow!("{e}"))?;
    providers.add(Box::new(HipCompiler::new(vec![Box::new(compiler)])));
    Ok(providers)
}

fn sweep(runtime: &Path, of_a_kind: usize, only: Option<&str>) -> anyhow::Result<()> {
    let (device, providers) = (Device::Hip(device(runtime)?), providers()?);
    let folder = tempfile::tempdir()?;
    let store = Store::open(folder.path(), Mode::ReadWrite)?;
    let sweep = Sweep { device: &device, providers: &providers, store: &store };
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| only.is_none_or(|only| kind.name() == only)).collect();
    let problems: Vec<_> = kinds.iter().flat_map(|&kind| (0..of_a_kind).map(move |i| problem(kind, i as u64))).collect();
    // Compiling takes all processors, executing one after the other.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(problem) = problems.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // What fails here fails again below, and is told there.
                    let _ = sweep.compile(problem);
                }
            });
        }
    });
    let rows: Vec<_> = problems.iter().map(|problem| sweep.run(problem)).collect();
    for row in rows.iter().filter(|row| !row.passed()) {
        println!("{row}");
    }
    for &kind in &kinds {
        println!("{:14} {:?}", kind.name(), count(&rows, kind));
    }
    let right = rows.iter().filter(|row| row.passed()).count();
    println!("{right} of {} problems are right", rows.len());
    ensure!(right == rows.len(), "some problems are not right");
    Ok(())
}

fn layers(runtime: &Path, file: &Path) -> anyhow::Result<()> {
    let (device, providers) = (device(runtime)?, providers()?);
    let text = std::fs::read(file).with_context(|| file.display().to_string())?;
    let Imported::Log(log) = import_any(&text, &Limits::DEFAULT)? else { bail!("{}: no MIOpenDriver lines", file.display()) };
    for logged in &log.problems {
        let problem = &logged.problem;
        let graph = problem.to_graph(&Limits::DEFAULT)?;
        layer(&device, &providers, problem, &graph.view()).with_context(|| format!("{}:{}", file.display(), logged.line))?;
    }
    Ok(())
}

/// Executes a convolution, checks some of its results and prints its time.
fn layer(device: &HipDevice, providers: &Providers, problem: &ConvProblem, graph: &VerifiedGraph<'_>) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(folder.path(), Mode::ReadWrite)?;
    let on = Device::Hip(*device);
    let request = Request { site: &Site::present(&on), policy: &Policy::DEFAULT };
    ensure_plan(&store, &graph.canonical()?, &request, providers)?;
    let compiled = compile_graph(graph, &request, providers)?;
    let plan = Plan::open(&compiled.bytes)?.with_code_objects(&store);
    let mut bound = plan.bind_by_graph(&on, providers.loaders(), graph)?;

    let roles = match problem.direction {
        ConvDirection::Forward => [&problem.x, &problem.w, &problem.y],
        ConvDirection::BackwardData => [&problem.y, &problem.w, &problem.x],
        ConvDirection::BackwardWeights => [&problem.x, &problem.y, &problem.w],
    };
    let [a, b, out] = operands(graph).context("a convolution has three tensors")?;
    ensure!(roles.iter().zip([a, b, out]).all(|(role, t)| role.dims[..t.dims.len()] == *t.dims), "operands are in another order");
    let mut random = Random::new(1);
    let mut numbers = |t: &TensorView<'_>| -> Vec<f32> { (0..t.elements()).map(|_| random.uniform(-1.0, 1.0) as f32).collect() };
    let (host_a, host_b) = (numbers(a), numbers(b));
    let (on_a, on_b) = (DeviceMemory::from_slice(device, &host_a)?, DeviceMemory::from_slice(device, &host_b)?);
    let mut on_out = DeviceMemory::new(device, out.span_bytes())?;
    on_out.fill(0xff)?;
    let mut workspace = DeviceMemory::new(device, bound.workspace_size())?;
    let mut pack = VariantPack::new();
    pack.device_input(a.uid.0, &on_a).device_input(b.uid.0, &on_b).device_output(out.uid.0, &mut on_out);

    let (start, end) = (HipEvent::new(device)?, HipEvent::new(device)?);
    let mut times = Vec::new();
    for _ in 0..7 {
        start.record(Stream::Default)?;
        for _ in 0..REPEAT {
            bound.execute(&pack, &mut workspace, Stream::Default)?;
        }
        end.record(Stream::Default)?;
        end.synchronize()?;
        times.push(start.elapsed_ms(&end)? * 1e3 / REPEAT as f32);
    }
    // The first round warms up.
    times.remove(0);
    times.sort_by(f32::total_cmp);
    drop(pack);

    let mut found = vec![0_f32; out.elements() as usize];
    on_out.copy_to_host(0, &mut found)?;
    ensure!(found.iter().all(|v| v.is_finite()), "elements were not written");
    let mut worst = 0_f64;
    for _ in 0..SAMPLES {
        let at: Vec<i64> = out.dims.iter().map(|&d| random.integer(0, d - 1)).collect();
        let (expected, scale) = by_definition(problem, &at, &host_a, &host_b);
        worst = worst.max((f64::from(found[offset(out.dims, &at)]) - expected).abs() / scale.max(1e-30));
    }
    // A sum of n products in float is right to about sqrt(n) roundings of the sum of absolute products.
    ensure!(worst < 2e-5, "a result is off by {worst:e} of the sum of absolute products");
    let (x, w) = (&problem.x.dims, &problem.w.dims);
    println!(
        "{{\"direction\":\"{}\",\"n\":{},\"c\":{},\"h\":{},\"k\":{},\"r\":{},\"stride\":{},\"pad\":{},\"groups\":{},\"us\":{},\"error\":{worst:e}}}",
        problem.direction.name(),
        x[0],
        x[1],
        x[2],
        w[0],
        w[2],
        problem.strides[0],
        problem.pads[0],
        problem.groups,
        times[times.len() / 2]
    );
    Ok(())
}

const REPEAT: usize = 20;
const SAMPLES: usize = 64;

fn operands<'g>(graph: &'g VerifiedGraph<'_>) -> Option<[&'g TensorView<'g>; 3]> {
    let node = graph.nodes().next()?;
    let mut tensors = graph.operands(node).iter().map(|o| graph.tensor(o.tensor));
    Some([tensors.next()?, tensors.next()?, tensors.next()?])
}

fn offset(dims: &[i64], at: &[i64]) -> usize {
    dims.iter().zip(at).fold(0, |offset, (&d, &i)| offset * d as usize + i as usize)
}

/// One element of a packed two-dimensional convolution's result, and the sum of the absolute products.
fn by_definition(problem: &ConvProblem, at: &[i64], a: &[f32], b: &[f32]) -> (f64, f64) {
    let dims = |t: &hipplan_serialize::conv_problem::ProblemTensor| [t.dims[0], t.dims[1], t.dims[2], t.dims[3]];
    let (x, w, y) = (dims(&problem.x), dims(&problem.w), dims(&problem.y));
    let group = |k: i64| k / (w[0] / problem.groups);
    let pixel = |p: i64, r: i64, i: usize| p * problem.strides[i] - problem.pads[i] + r * problem.dilations[i];
    let inside = |i: i64, j: i64| (0..x[2]).contains(&i) && (0..x[3]).contains(&j);
    let (mut sum, mut scale) = (0.0, 0.0);
    let mut add = |u: f32, v: f32| {
        let term = f64::from(u) * f64::from(v);
        sum += term;
        scale += term.abs();
    };
    match problem.direction {
        ConvDirection::Forward => {
            for c in 0..w[1] {
                for (r, s) in (0..w[2]).flat_map(|r| (0..w[3]).map(move |s| (r, s))) {
                    let (i, j) = (pixel(at[2], r, 0), pixel(at[3], s, 1));
                    if inside(i, j) {
                        add(a[offset(&x, &[at[0], group(at[1]) * w[1] + c, i, j])], b[offset(&w, &[at[1], c, r, s])]);
                    }
                }
            }
        }
        ConvDirection::BackwardData => {
            let (first, filters) = (at[1] / w[1] * (w[0] / problem.groups), w[0] / problem.groups);
            for (r, s) in (0..w[2]).flat_map(|r| (0..w[3]).map(move |s| (r, s))) {
                for (p, q) in (0..y[2]).flat_map(|p| (0..y[3]).map(move |q| (p, q))) {
                    if (pixel(p, r, 0), pixel(q, s, 1)) == (at[2], at[3]) {
                        for k in first..first + filters {
                            add(a[offset(&y, &[at[0], k, p, q])], b[offset(&w, &[k, at[1] % w[1], r, s])]);
                        }
                    }
                }
            }
        }
        ConvDirection::BackwardWeights => {
            let channel = group(at[0]) * w[1] + at[1];
            for n in 0..x[0] {
                for (p, q) in (0..y[2]).flat_map(|p| (0..y[3]).map(move |q| (p, q))) {
                    let (i, j) = (pixel(p, at[2], 0), pixel(q, at[3], 1));
                    if inside(i, j) {
                        add(a[offset(&x, &[n, channel, i, j])], b[offset(&y, &[n, at[0], p, q])]);
                    }
                }
            }
        }
    }
    (sum, scale)
}
