//! `hipplan run`

use crate::execute::{DeviceOption, POISON, Session, Shape};
use crate::plugins::{EngineOptions, PluginOptions};
use crate::ready::{PlanFacts, Ready, Wanted};
use crate::{Exit, Global, counts, npy, output};
use anyhow::{Context, bail, ensure};
use hipplan::reference::{CheckReport, HostTensor, Inputs, check_with};
use hipplan::{Counts, DataType, Device, FieldRole, ShapeOverride, TensorIx, TensorValue, VerifiedGraph};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Execute a stored plan, found by graph or by key
///
/// Tensors are named by uid or by name; found by key, a plan knows its tensors by ordinal only (`hipplan show KEY` lists them).
/// Inputs that are not given are random numbers in a range that suits whatever reads them. Nothing is compiled, unless --in-process asks
/// for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan run graph.json --check                      random inputs, results checked
  hipplan run graph.json --input x=x.npy --input w=w.npy --output out/
  hipplan run 5d0c1f22a9b3 --scalar 3=0.5             by key; tensors by ordinal
  hipplan run graph.json --device hip --check         on the first AMD GPU
  hipplan run graph.json --override epsilon=0.01      in place of a default
  hipplan run graph.json --shape x=1,3,8,8 --shape y=1,4,8,8 --check
  hipplan run graph.json --in-process --plugin host:./libmine.so --engine MINE

Exit codes:
  0  executed, and what --check compared is right
  1  executed, and a result is wrong
  2  not done: there is no plan, no such device or input, or something cannot be read
  3  with --in-process: no engine takes the graph
  4  to 7, with --require-precompiled: missing, wrong target, stale, unreadable")]
pub(crate) struct Run {
    /// A graph in any form, or the first digits of a graph key or plan key
    what: String,
    #[command(flatten)]
    device: DeviceOption,
    /// Input tensor from a NumPy file
    #[arg(long, value_name = "TENSOR=FILE.npy")]
    input: Vec<String>,
    /// Value of a runtime scalar
    #[arg(long, value_name = "TENSOR=VALUE")]
    scalar: Vec<String>,
    /// Value of a runtime scalar, also in place of its default
    #[arg(long = "override", value_name = "TENSOR=VALUE")]
    overrides: Vec<String>,
    /// Dims of a tensor in place of the graph's, which are the largest, for a graph with execute-time shapes; may be given several times
    #[arg(long, value_name = "TENSOR=DIMS")]
    shape: Vec<String>,
    /// Seed of random inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the outputs, one NumPy file each
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Compare the outputs with a naive implementation in double precision
    #[arg(long)]
    check: bool,
    /// Execute so many times; the shortest time is shown, on a GPU that between events around the kernels
    #[arg(long, value_name = "N", default_value = "3")]
    repeat: std::num::NonZeroU32,
    /// Compile the graph for this process alone, past the store: also with an engine that cannot persist
    #[arg(long)]
    in_process: bool,
    /// Read every byte of the plan before it is used, and tell by the exit code (4 to 7) why there is none; nothing is ever compiled
    #[arg(long, conflicts_with = "in_process")]
    require_precompiled: bool,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    plugins: PluginOptions,
}

impl Run {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let (device, targets) = self.device.open()?;
        let (policy, mut providers) = (self.engine.policy()?, self.plugins.providers()?);
        providers.require_precompiled(self.require_precompiled);
        let advice = self.plugins.arguments() + &self.engine.arguments();
        let wanted =
            Wanted { what: &self.what, device: &device, targets: &targets, policy: &policy, providers: &providers, advice: &advice };
        let Ready { plan, bound, graph, ready_in } = if self.in_process { wanted.compile()? } else { wanted.find(global)? };
        let shapes = self.shapes(&graph.view())?;
        // What is executed is the graph with these shapes: inputs, outputs and checks are its own.
        let overrides: Vec<ShapeOverride<'_>> =
            shapes.iter().map(|shape| ShapeOverride { uid: shape.uid, dims: &shape.dims, strides: &shape.strides }).collect();
        let graph = if shapes.is_empty() { graph } else { graph.view().reshape(&overrides).context("--shape")? };
        let graph = graph.view();

        self.check_memory(&graph, if device == Device::Cpu { bound.workspace_size() } else { 0 })?;
        let mut inputs = Inputs::generate(&graph, self.seed)?;
        self.read_inputs(&graph, &mut inputs)?;
        let overridden = self.set_scalars(&graph, &mut inputs)?;
        let mut outputs = output_tensors(&graph)?;
        let mut session = Session::new(&device, bound, &inputs)?.with_shapes(shapes);

        let mut report = None;
        let mut best = Duration::MAX;
        let uid = |ix: TensorIx| graph.tensor(ix).uid.0;
        for _ in 0..self.repeat.get() {
            outputs.iter_mut().for_each(|(_, tensor)| tensor.bytes_mut().fill(POISON));
            let tensors = outputs.iter_mut().map(|(ix, tensor)| (uid(*ix), tensor));
            best = best.min(session.execute(&inputs, &overridden, tensors)?);
        }
        if self.check {
            let checked = check_with(&graph, &inputs, &mut |_, poisoned| {
                let tensors = poisoned.tensors_mut().iter_mut().map(|t| (t.uid.0, &mut t.tensor));
                best = best.min(session.execute(&inputs, &overridden, tensors)?);
                anyhow::Ok(())
            });
            report = Some(checked.map_err(|e| anyhow::anyhow!("{e}"))?);
        }
        let written = self.write_outputs(&graph, &outputs)?;
        let facts = Facts {
            plan: &plan.facts()?,
            verb: plan.verb(),
            graph: &graph,
            report: report.as_ref(),
            written: &written,
            ready_in,
            best,
            device: &device,
            timed_by: session.timed_by(),
            counts: providers.counters().get(),
        };
        if global.json {
            output::json(&facts.json(&outputs))?
        } else {
            facts.print(global, &outputs)?
        }
        Ok(if report.is_none_or(|r| r.passed()) { Exit::Good } else { Exit::Findings })
    }

    /// Refuses what the machine cannot hold, before anything is allocated.
    fn check_memory(&self, graph: &VerifiedGraph<'_>, workspace: u64) -> anyhow::Result<()> {
        let mut needed = workspace;
        for tensor in graph.tensors() {
            let stored = if tensor.is_virtual { 0 } else { tensor.span_bytes() };
            // A check keeps copies, and for each element a value and a bound in double precision.
            let checked = if self.check { stored.saturating_mul(2).saturating_add(tensor.elements().saturating_mul(16)) } else { 0 };
            needed = needed.saturating_add(stored).saturating_add(checked);
        }
        let available = memory_available();
        ensure!(
            needed <= available,
            "tensors, workspace{} need about {}, and {} of memory are available",
            if self.check { " and check" } else { "" },
            output::bytes(needed),
            output::bytes(available)
        );
        Ok(())
    }

    fn read_inputs(&self, graph: &VerifiedGraph<'_>, inputs: &mut Inputs) -> anyhow::Result<()> {
        let mut given = HashSet::new();
        for argument in &self.input {
            let (name, file) = split(argument, "--input", "TENSOR=FILE.npy")?;
            let ix = find_tensor(graph, name)?;
            ensure!(given.insert(ix), "--input {argument}: {} is given twice", graph.tensor_label(ix));
            match inputs.tensors_mut().iter_mut().find(|t| t.ix == ix) {
                Some(input) => npy::read(Path::new(file), &mut input.tensor)?,
                None => bail!("--input {argument}: {} is not an input in device memory", graph.tensor_label(ix)),
            }
        }
        Ok(())
    }

    /// Sets the values given; returns the tensors whose default is to be replaced.
    fn set_scalars(&self, graph: &VerifiedGraph<'_>, inputs: &mut Inputs) -> anyhow::Result<Vec<TensorIx>> {
        let mut overridden = Vec::new();
        let mut seen = HashSet::new();
        let given = self.scalar.iter().map(|a| ("--scalar", a)).chain(self.overrides.iter().map(|a| ("--override", a)));
        for (option, argument) in given {
            let (name, text) = split(argument, option, "TENSOR=VALUE")?;
            let ix = find_tensor(graph, name)?;
            ensure!(seen.insert(ix), "{option} {argument}: {} is given twice", graph.tensor_label(ix));
            let value = parse_scalar(text, graph.tensor(ix).dtype).with_context(|| format!("{option} {argument}"))?;
            match inputs.scalars_mut().iter_mut().find(|s| s.ix == ix) {
                None => bail!("{option} {argument}: {} is not a runtime scalar", graph.tensor_label(ix)),
                Some(scalar) if scalar.is_default && option == "--scalar" => {
                    bail!("{option} {argument}: {} has a default, which only --override replaces", graph.tensor_label(ix))
                }
                Some(scalar) => scalar.value = value,
            }
            if option == "--override" {
                overridden.push(ix);
            }
        }
        Ok(overridden)
    }

    /// The shapes given, with strides packed in the order of the graph's.
    fn shapes(&self, graph: &VerifiedGraph<'_>) -> anyhow::Result<Vec<Shape>> {
        let mut shapes = Vec::with_capacity(self.shape.len());
        for argument in &self.shape {
            let (name, text) = split(argument, "--shape", "TENSOR=DIMS")?;
            let ix = find_tensor(graph, name)?;
            let dims = text.split(',').map(str::parse).collect::<Result<Vec<i64>, _>>();
            let dims = dims.with_context(|| format!("--shape {argument}: expected dims such as 1,3,8,8"))?;
            let tensor = graph.tensor(ix);
            ensure!(
                dims.len() == tensor.dims.len(),
                "--shape {argument}: {} dims, and {} has {}",
                dims.len(),
                graph.tensor_label(ix),
                tensor.dims.len()
            );
            shapes.push(Shape { uid: tensor.uid, strides: packed_like(&dims, tensor.strides), dims });
        }
        Ok(shapes)
    }

    fn write_outputs(&self, graph: &VerifiedGraph<'_>, outputs: &[(TensorIx, HostTensor)]) -> anyhow::Result<Vec<String>> {
        let Some(folder) = &self.output else { return Ok(Vec::new()) };
        std::fs::create_dir_all(folder).with_context(|| output::path(folder))?;
        let mut written = Vec::new();
        for (ix, tensor) in outputs {
            let path = folder.join(file_name(graph, *ix));
            npy::write(&path, tensor)?;
            written.push(path.display().to_string());
        }
        Ok(written)
    }
}

fn output_tensors(graph: &VerifiedGraph<'_>) -> anyhow::Result<Vec<(TensorIx, HostTensor)>> {
    let written = graph.all_operands().iter().filter(|o| o.role == FieldRole::Output && !graph.tensor(o.tensor).is_virtual);
    let mut outputs = Vec::new();
    for operand in written {
        outputs.push((operand.tensor, HostTensor::of_view(graph.tensor(operand.tensor))?));
    }
    Ok(outputs)
}

/// Strides of these dims without gaps, ordered as others are.
fn packed_like(dims: &[i64], order: &[i64]) -> Vec<i64> {
    let mut axes: Vec<usize> = (0..dims.len()).collect();
    // Of equal strides, the outer dim comes first in both.
    axes.sort_by_key(|&axis| (order.get(axis).copied().unwrap_or_default(), std::cmp::Reverse(axis)));
    let mut strides = vec![1; dims.len()];
    let mut stride = 1_i64;
    for axis in axes {
        strides[axis] = stride.max(1);
        // What is too large is refused with the shape.
        stride = stride.saturating_mul(dims[axis]);
    }
    strides
}

fn split<'t>(argument: &'t str, option: &str, form: &str) -> anyhow::Result<(&'t str, &'t str)> {
    match argument.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name, value)),
        _ => bail!("{option} {argument}: expected {form}"),
    }
}

/// A tensor by name, else by uid.
fn find_tensor(graph: &VerifiedGraph<'_>, name: &str) -> anyhow::Result<TensorIx> {
    let named: Vec<TensorIx> = graph.tensor_ixs().filter(|&ix| graph.tensor(ix).name == name).collect();
    match (named.as_slice(), name.parse::<i64>()) {
        ([ix], _) => Ok(*ix),
        ([], Ok(uid)) => graph.find(hipplan::Uid(uid)).with_context(|| format!("no tensor has the name or the uid {name}")),
        ([], Err(_)) => {
            let known: Vec<String> = graph.tensors().iter().filter(|t| !t.is_virtual).map(|t| format!("{} {:?}", t.uid, t.name)).collect();
            bail!("no tensor is called {name:?}; there are {}", known.join(", "))
        }
        _ => bail!("{} tensors are called {name:?}; name one by its uid", named.len()),
    }
}

fn parse_scalar(text: &str, dtype: DataType) -> anyhow::Result<TensorValue> {
    let float = || text.parse::<f64>().with_context(|| format!("{text:?} is not a number"));
    // Only who writes "inf" means infinity.
    let fits = |value: f64| {
        let asked_for = text.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_alphabetic());
        if value.is_infinite() && !asked_for { Err(anyhow::anyhow!("{text} is beyond the range of {dtype}")) } else { Ok(value) }
    };
    let integer = || text.parse::<i64>().with_context(|| format!("{text:?} is not an integer"));
    Ok(match dtype {
        DataType::Float => TensorValue::Float32(fits((float()? as f32).into())? as f32),
        DataType::Half => TensorValue::Float16(fits(half::f16::from_f64(float()?).into())? as f32),
        DataType::BFloat16 => TensorValue::BFloat16(fits(half::bf16::from_f64(float()?).into())? as f32),
        DataType::Double => TensorValue::Float64(fits(float()?)?),
        DataType::Int32 => TensorValue::Int32(i32::try_from(integer()?).with_context(|| format!("{text} does not fit an int32"))?),
        DataType::Int64 => TensorValue::Int64(integer()?),
        DataType::UInt8 => TensorValue::Float8(u8::try_from(integer()?).with_context(|| format!("{text} does not fit a uint8"))?),
        DataType::Boolean => TensorValue::Bool(text.parse().with_context(|| format!("{text:?} is neither true nor false"))?),
        other => bail!("host scalars of type {other} cannot be given as text"),
    })
}

/// Bytes that the system says may be used; some gigabytes where it says nothing.
fn memory_available() -> u64 {
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    available.unwrap_or(4 << 30)
}

/// A file name from a tensor's name, which anybody may have chosen.
fn file_name(graph: &VerifiedGraph<'_>, ix: TensorIx) -> String {
    let tensor = graph.tensor(ix);
    let safe: String = tensor.name.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).take(40).collect();
    match safe.trim_matches('.') {
        "" => format!("{}.npy", tensor.uid),
        name => format!("{}_{name}.npy", tensor.uid),
    }
}

/// What there is to tell of a run.
struct Facts<'f> {
    plan: &'f PlanFacts,
    verb: &'static str,
    graph: &'f VerifiedGraph<'f>,
    report: Option<&'f CheckReport>,
    written: &'f [String],
    ready_in: Duration,
    best: Duration,
    device: &'f Device,
    timed_by: &'static str,
    counts: Counts,
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl Facts<'_> {
    fn json(&self, outputs: &[(TensorIx, HostTensor)]) -> Value {
        let plan = self.plan;
        let rows: Vec<Value> = outputs
            .iter()
            .map(|(ix, tensor)| {
                let view = self.graph.tensor(*ix);
                json!({
                    "uid": view.uid.0, "name": view.name, "data_type": view.dtype.name(), "dims": view.dims,
                    "mean": mean(tensor),
                })
            })
            .collect();
        let check = self.report.map(|r| {
            json!({
                "passed": r.passed(),
                "worst_bound_ratio": r.worst_bound_ratio(),
                "outputs": r.outputs.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })
        });
        json!({
            "plan_key": plan.plan_key.to_string(),
            "graph_key": plan.graph_key.to_string(),
            "provider": plan.provider,
            "engine": plan.engine,
            "workspace_size": plan.workspace_size,
            "ready_by": self.verb,
            self.time_name(): micros(self.ready_in),
            "device": self.device.to_string(),
            "target": plan.target,
            "run_us": micros(self.best),
            "timed_by": self.timed_by,
            "outputs": rows,
            "check": check,
            "written": self.written,
            "counters": counts::to_json(&self.counts),
        })
    }

    /// Name of the time until the plan was ready, in JSON.
    fn time_name(&self) -> &'static str {
        if self.verb == "compiled" { "compile_us" } else { "restore_us" }
    }

    fn print(&self, global: &Global, outputs: &[(TensorIx, HostTensor)]) -> anyhow::Result<()> {
        output::line(format_args!(
            "{}{}{}  plan {}, engine {}, on {}",
            output::STRONG,
            super::ls::operations(self.graph),
            output::RESET,
            self.plan.plan_key.short(),
            output::name(&self.plan.engine),
            self.device
        ))?;
        let (ready, best) = (micros(self.ready_in), micros(self.best));
        output::line(format_args!("{} in {ready:.0} us, executed in {best:.0} us", self.verb))?;
        if let Some(text) = counts::text(&self.counts) {
            global.remark(text)?;
        }
        output::line("")?;
        let mut table = output::table(&[">uid", "output", "type", "dims", ">mean", "check"]);
        let mut failed = Vec::new();
        for (ix, tensor) in outputs {
            let view = self.graph.tensor(*ix);
            let report = self.report.and_then(|r| r.outputs.iter().find(|o| o.ix == *ix));
            failed.push(report.is_some_and(|r| !r.passed()));
            table.add_row([
                view.uid.to_string(),
                output::name(view.name),
                view.dtype.to_string(),
                output::dims(view.dims),
                format!("{:.6}", mean(tensor)),
                report.map_or_else(
                    || "not asked for".to_owned(),
                    |r| match r.passed() {
                        true => format!("ok, {:.2} of the tolerance", r.report.worst_bound_ratio),
                        false => "FAILED".to_owned(),
                    },
                ),
            ]);
        }
        output::print_table(&table, |i| failed.get(i).filter(|f| **f).map(|_| output::BAD))?;
        for report in self.report.iter().flat_map(|r| &r.outputs).filter(|r| !r.passed()) {
            output::line(format_args!("{}{report}{}", output::BAD, output::RESET))?;
        }
        for path in self.written {
            output::line(format_args!("wrote {}", output::name(path)))?;
        }
        Ok(())
    }
}

fn mean(tensor: &HostTensor) -> f64 {
    let values = tensor.values();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
