//! What the shim costs, against the stock library in the same run: `cargo run --release -p hipplan-miopen-testing --example shim_costs`.
//!
//! A simulated device, whose launches do nothing, so this is the host's side alone. Ratios are of medians of alternating runs.

use hipplan_miopen_testing::callgrind::count;
use hipplan_miopen_testing::filled::Filled;
use hipplan_miopen_testing::split::Split;
use hipplan_miopen_testing::{NaiveKernels, Program, Sysroot};
use std::error::Error;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Instant;

const SHAPES: [&str; 6] = [
    "conv -n 16 -c 16 -H 16 -W 16 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1",
    "conv -n 16 -c 16 -H 16 -W 16 -k 16 -y 3 -x 3 -p 1 -q 1 -F 2",
    "conv -n 16 -c 16 -H 16 -W 16 -k 16 -y 3 -x 3 -p 1 -q 1 -F 4",
    "conv -n 4 -c 64 -H 28 -W 28 -k 64 -y 1 -x 1 -F 1",
    "conv -n 2 -c 32 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1 -g 32 -F 1",
    "convfp16 -n 4 -c 32 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 1",
];
const ROUNDS: usize = 20;

/// One process.
struct Sample {
    ms: f64,
    faults: i64,
    max_rss_kb: i64,
    stdout: String,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn sample(program: &Program<'_>) -> Result<Sample> {
    let scratch = tempfile::tempdir()?;
    let mut command = program.command(scratch.path());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn()?;
    let stdout = std::io::read_to_string(child.stdout.take().ok_or("no standard output")?)?;
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    let pid = i32::try_from(child.id())?;
    // SAFETY: the child has not been waited for, and both places live as long as the call.
    if unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) } != pid {
        return Err(std::io::Error::last_os_error().into());
    }
    let ms = start.elapsed().as_secs_f64() * 1e3;
    // SAFETY: zeroed, then filled in by the call.
    let usage = unsafe { usage.assume_init() };
    if !ExitStatus::from_raw(status).success() {
        return Err(format!("{status:#x}: {stdout}").into());
    }
    Ok(Sample { ms, faults: usage.ru_minflt, max_rss_kb: usage.ru_maxrss, stdout })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Medians of milliseconds, and all of them; programs take turns.
fn alternate(programs: &[&dyn Fn() -> Result<Sample>]) -> Result<Vec<Vec<Sample>>> {
    let mut samples: Vec<Vec<Sample>> = programs.iter().map(|_| Vec::new()).collect();
    for round in 0..=ROUNDS {
        for (program, samples) in programs.iter().zip(&mut samples) {
            let sample = program()?;
            // The first round warms the page cache.
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    Ok(samples)
}

/// Instructions of one more call, in the libraries of MIOpen.
fn instructions<'p>(program: impl Fn(u32) -> Program<'p>) -> Result<f64> {
    let total = |calls| -> Result<u64> {
        Ok(count(&program(calls))?.libraries().filter(|(name, _)| name.starts_with("libMIOpen")).map(|(_, n)| n).sum())
    };
    Ok((total(1_100)? as f64 - total(100)? as f64) / 1e3)
}

fn ms(samples: &[Sample]) -> f64 {
    median(samples.iter().map(|s| s.ms).collect())
}

struct Bench<'a> {
    sysroot: &'a Sysroot,
    split: &'a Split,
    filled: Filled,
    programs: tempfile::TempDir,
}

impl Bench<'_> {
    fn program(&self, name: &str) -> Result<PathBuf> {
        Ok(self.sysroot.program(self.programs.path(), name)?)
    }

    /// Launches of either side do nothing.
    fn idle<'p>(&self, program: Program<'p>) -> Program<'p> {
        program.naive(NaiveKernels::Skip).env("HIPPLAN_HOST_HIP_LAUNCH", "skip").env("UNCHECKED", "1")
    }

    fn hop(&self) -> Result<()> {
        println!("\n## The hop\n");
        let program = self.program("loop")?;
        let version = |calls: u32| self.sysroot.command(&program).args(["version", &calls.to_string()]);
        let stock = instructions(version)?;
        let disabled = instructions(|n| self.split.disabled(version(n)))?;
        println!("instructions a call of miopenGetVersion: stock {stock:.1}, split {disabled:.1}: {:+.1}", disabled - stock);
        let timed = |split: bool| {
            let program = if split { self.split.disabled(version(20_000_000)) } else { version(20_000_000) };
            sample(&program)
        };
        let samples = alternate(&[&|| timed(false), &|| timed(true)])?;
        let ns = |samples: &[Sample]| median(samples.iter().filter_map(|s| s.stdout.strip_prefix("ns ")?.trim().parse().ok()).collect());
        let (stock, split) = (ns(&samples[0]), ns(&samples[1]));
        println!("nanoseconds a call: stock {stock:.2}, split {split:.2}, ratio {:.2}, {:+.2} ns", split / stock, split - stock);
        Ok(())
    }

    fn load(&self) -> Result<()> {
        println!("\n## Loading\n");
        println!("| | wall, ms | ratio | minor faults | max RSS, KiB |\n|---|---:|---:|---:|---:|");
        let program = self.program("loop")?;
        let idle = || self.sysroot.command(&program).args(["version", "1"]);
        let samples = alternate(&[&|| sample(&idle()), &|| sample(&self.split.disabled(idle())), &|| {
            sample(&self.split.enabled(idle(), &self.filled))
        }])?;
        let base = ms(&samples[0]);
        for (name, samples) in ["stock", "split, off", "split, on"].iter().zip(&samples) {
            let of = |f: fn(&Sample) -> i64| median(samples.iter().map(|s| f(s) as f64).collect());
            println!("| {name} | {:.2} | {:.2} | {:.0} | {:.0} |", ms(samples), ms(samples) / base, of(|s| s.faults), of(|s| s.max_rss_kb));
        }
        Ok(())
    }

    fn end_to_end(&self) -> Result<()> {
        println!("\n## Driver, 100 iterations, a fresh process with a warm home folder\n");
        println!("| shape | stock, ms | off / stock | on / off |\n|---|---:|---:|---:|");
        for shape in SHAPES {
            let home = tempfile::tempdir()?;
            let driver = || self.idle(self.sysroot.driver(&format!("{shape} -V 0 -i 100")).home(home.path()));
            for _ in 0..3 {
                sample(&driver())?;
            }
            let samples = alternate(&[&|| sample(&driver()), &|| sample(&self.split.disabled(driver())), &|| {
                sample(&self.split.enabled(driver(), &self.filled))
            }])?;
            let (stock, off, on) = (ms(&samples[0]), ms(&samples[1]), ms(&samples[2]));
            println!("| `{shape}` | {stock:.1} | {:.3} | {:.3} |", off / stock, on / off);
        }
        Ok(())
    }

    fn parts(&self) -> Result<()> {
        println!("\n## A forwarded call, warm: instructions by library\n");
        let program = self.program("loop")?;
        let run = |calls: u32| {
            let program = self.sysroot.command(&program).args(["conv", &calls.to_string(), "16", "16", "16", "16", "16", "3", "1"]);
            self.idle(self.split.enabled(program, &self.filled))
        };
        let (few, many) = (count(&run(100))?, count(&run(1_100))?);
        let mut rows: Vec<_> = many.libraries().map(|(name, n)| (name, (n as f64 - few.of(name) as f64) / 1e3)).collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        println!("| library | instructions |\n|---|---:|");
        for (name, n) in rows.into_iter().filter(|(_, n)| *n >= 0.5) {
            println!("| {name} | {n:.0} |");
        }
        let samples = alternate(&[&|| sample(&run(200_000))])?;
        let ns = median(samples[0].iter().filter_map(|s| s.stdout.strip_prefix("ns ")?.trim().parse().ok()).collect());
        println!("\nall of it, launches that do nothing: {ns:.0} ns a call");
        Ok(())
    }

    fn fresh(&self) -> Result<()> {
        println!("\n## A fresh process, first call\n");
        let program = self.program("loop")?;
        let once = || self.idle(self.sysroot.command(&program).args(["once", "16", "16", "16", "16", "16", "3", "1"]));
        let empty = tempfile::tempdir()?;
        let empty = Filled::new(empty.path(), self.programs.path())?;
        let warm = tempfile::tempdir()?;
        for _ in 0..3 {
            sample(&self.split.disabled(once()).home(warm.path()))?;
        }
        let samples = alternate(&[
            &|| sample(&self.split.disabled(once())),
            &|| sample(&self.split.enabled(once(), &empty)),
            &|| sample(&self.split.disabled(once()).home(warm.path())),
            &|| sample(&self.split.enabled(once(), &self.filled)),
        ])?;
        let counts = |program: Program<'_>| -> Result<(u64, u64)> {
            let output = program.run()?;
            Ok((output.counts.compiler_runs(), output.counts.module_loads()))
        };
        let counted = [
            counts(self.split.disabled(once()))?,
            counts(self.split.enabled(once(), &empty))?,
            counts(self.split.disabled(once()).home(warm.path()))?,
            counts(self.split.enabled(once(), &self.filled))?,
        ];
        let names = ["cold, off", "cold, on, empty store", "warm home, off", "filled store, on, cold home"];
        println!("| | wall, ms | least to most | create, find, run, ms | compiler runs | module loads |\n|---|---:|---:|---|---:|---:|");
        for ((name, samples), (compilers, modules)) in names.iter().zip(&samples).zip(counted) {
            let (least, most) = samples.iter().fold((f64::MAX, 0.0_f64), |(l, m), s| (l.min(s.ms), m.max(s.ms)));
            let part = |at: usize| median(samples.iter().filter_map(|s| s.stdout.split_whitespace().nth(at)?.parse().ok()).collect());
            println!(
                "| {name} | {:.2} | {least:.2} to {most:.2} | {:.2}, {:.2}, {:.2} | {compilers} | {modules} |",
                ms(samples),
                part(1),
                part(3),
                part(5)
            );
        }
        let [cold, cold_on, warm, filled] = samples.as_slice() else { return Err("four rows".into()) };
        println!("\ncold on / cold off: {:.3}; filled / warm: {:.3}", ms(cold_on) / ms(cold), ms(filled) / ms(warm));
        let find = |s: &[Sample]| median(s.iter().filter_map(|s| s.stdout.split_whitespace().nth(3)?.parse().ok()).collect());
        println!("of Find alone: {:.3}; {:.3}", find(cold_on) / find(cold), find(filled) / find(warm));
        self.first_call()
    }

    /// Through the C API, in a process with HIP.
    fn first_call(&self) -> Result<()> {
        let program = self.program("parts")?;
        let library = self.split.lib().join("libhipplan.so.0");
        let [shape, ..] = SHAPES;
        let fill = self.filled.lines(&format!("MIOpenDriver {shape}\n"))?;
        let key = fill.compiled.first().ok_or("nothing compiled")?.to_string();
        let run = || {
            let program = self.sysroot.command(&program).args([library.as_os_str(), self.filled.store().as_os_str(), key.as_ref()]);
            self.idle(program.twins(self.filled.twins()))
        };
        let samples = alternate(&[&|| sample(&run())])?;
        let part = |at: usize| median(samples[0].iter().filter_map(|s| s.stdout.split_whitespace().nth(at)?.parse().ok()).collect());
        println!("\n| part of a first call | us |\n|---|---:|");
        let names = [
            "dlopen of libhipplan.so.0",
            "store and device opened",
            "plan read, checked, its module loaded",
            "first launch",
            "second launch",
        ];
        for (name, at) in names.iter().zip([1, 3, 5, 7, 9]) {
            println!("| {name} | {:.1} |", part(at));
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let Some(sysroot) = Sysroot::find_or_build()? else { return Err("there is no MIOpen to measure with".into()) };
    let split = Split::make(&sysroot)?;
    let folder = tempfile::tempdir()?;
    let filled = Filled::new(folder.path(), &folder.path().join("cache"))?;
    let lines: String = SHAPES.iter().map(|shape| format!("MIOpenDriver {shape}\n")).collect();
    filled.lines(&lines)?;
    println!("{}", sysroot.packages()?.lines().find(|line| line.contains("libmiopen1")).unwrap_or_default());
    let bench = Bench { sysroot: &sysroot, split: &split, filled, programs: tempfile::tempdir()? };
    bench.hop()?;
    bench.load()?;
    bench.end_to_end()?;
    bench.parts()?;
    bench.fresh()
}
