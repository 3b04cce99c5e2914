//! `run`, `check` and `compile` on a HIP device, through the real binary in processes with no compiler on PATH. The device is that of the
//! host runtime: a library with HIP's names whose kernels are C++ and whose memory is this machine's.

mod common;

use common::{Ran, Scratch, corpus, only_clang, scalar_graph};
use hipplan::{BatchItem, BatchOptions, GraphBuf, Limits, Mode, Policy, Providers, Site, Store, compile_batch};
use hipplan_hip_testing::{HostCompiler, build};
use hipplan_planner::hip::HipCompiler;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A store of plans for `host` and `cpu`, and the runtime that executes the former.
struct Host {
    scratch: Scratch,
    library: PathBuf,
}

const GRAPHS: [&str; 4] = ["scale.json", "default.json", "conv.json", "matmul.json"];

impl Host {
    /// Nothing where there is no C++ compiler, which is an error where everything must be checked.
    fn new() -> Option<Self> {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let compiler = match HostCompiler::new(false) {
            Ok(compiler) => compiler.with_cache(&tmp.join("kernels")),
            Err(e) => {
                assert!(std::env::var_os("HIPPLAN_CI").is_none_or(|v| v != "1"), "{e}");
                println!("skipped: {e}");
                return None;
            }
        };
        let library = build::host_runtime(&tmp.join("runtimes"), false).expect("built");
        let scratch = Scratch::new();
        scratch.write("scale.json", scalar_graph(r#", "is_runtime_pass_by_value": true"#));
        scratch.write("default.json", scalar_graph(WITH_DEFAULT));
        for (name, of) in [("conv.json", "sample_conv_fwd.json"), ("matmul.json", "sample_matmul.json")] {
            std::fs::copy(corpus().join(of), scratch.path(name)).expect("copied");
        }
        let graphs: Vec<GraphBuf> = GRAPHS
            .iter()
            .map(|name| hipplan::import(&std::fs::read(scratch.path(name)).expect("read"), &Limits::DEFAULT).expect("a graph").graph)
            .collect();
        let items: Vec<BatchItem> =
            GRAPHS.iter().zip(&graphs).map(|(name, graph)| BatchItem::of_graph((*name).to_owned(), &graph.view())).collect();
        let mut providers = Providers::default();
        providers.add(Box::new(HipCompiler::new(vec![Box::new(compiler)])));
        let targets = ["cpu", "host"].map(|t| t.parse().expect("a target")).to_vec();
        let store = Store::open(scratch.path("s"), Mode::ReadWrite).expect("a store");
        let report = compile_batch(
            &store,
            &items,
            &BatchOptions { sites: targets.iter().map(Site::of).collect(), policy: Policy::DEFAULT, jobs: 2, shard: None },
            &providers,
            &(),
        );
        assert_eq!(report.count("compiled"), 2 * GRAPHS.len(), "{report:#?}");
        Some(Self { scratch, library })
    }

    /// Runs the command with the runtime, these variables, and nothing else in its environment.
    fn run_with(&self, env: &[(&str, &str)], args: &[&str]) -> Ran {
        let mut command = self.scratch.hipplan(args);
        command.env("HIPPLAN_HIP_LIBRARY", &self.library).env("HIPPLAN_STORE", self.scratch.path("s")).envs(env.iter().copied());
        Ran::of(&command.output().expect("started"))
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_with(&[], args)
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{args:?} {ran:?}");
        serde_json::from_str(&ran.out).expect("JSON")
    }
}

const WITH_DEFAULT: &str = r#", "is_runtime_pass_by_value": true, "value_type": "Float32Value", "value": 2.5"#;

#[test]
fn plans_run_on_a_device_by_graph_and_by_key() {
    let Some(host) = Host::new() else { return };
    for graph in GRAPHS {
        let told = host.json(&["run", graph, "--device", "hip", "--check"]);
        assert_eq!((&told["device"], &told["target"], &told["timed_by"]), (&"hip:0".into(), &"host".into(), &"events".into()));
        assert_eq!((&told["check"]["passed"], &told["provider"]), (&true.into(), &"hip".into()), "{told:#}");
        assert!(told["run_us"].as_f64().is_some_and(|t| t >= 0.0));
        // The device chooses among the plans of a key.
        let key = told["graph_key"].as_str().expect("a key");
        for (device, provider) in [("hip:0", "hip"), ("cpu", "cpu")] {
            for text in [key, &key[..12]] {
                let by_key = host.json(&["run", text, "--device", device, "--repeat", "1"]);
                assert_eq!((&by_key["provider"], &by_key["graph_key"]), (&provider.into(), &key.into()), "{by_key:#}");
            }
        }
        let ran = host.run_with(&[("HIPPLAN_DEVICE", "hip")], &["run", key, "--json"]);
        assert!(ran.code == 0 && ran.out.contains("\"hip:0\""), "{ran:?}");
    }
    let ran = host.run(&["run", "conv.json", "--device", "hip", "--target", "host"]);
    assert!(ran.code == 0 && ran.out.contains("on hip:0"), "{ran:?}");
}

#[test]
fn scalars_and_files_are_those_that_were_given() {
    let Some(host) = Host::new() else { return };
    let outputs = |device: &str, graph: &str, args: &[&str]| {
        let folder = format!("out-{device}");
        let all = [&["run", graph, "--device", device, "--output", &folder, "--seed", "7", "--check"], args].concat();
        let ran = host.run(&all);
        assert_eq!(ran.code, 0, "{ran:?}");
        std::fs::read(host.scratch.path(&format!("{folder}/7_y.npy"))).expect("written")
    };
    // One product an element: the same bits everywhere.
    let mut seen = Vec::new();
    for (graph, args) in
        [("default.json", &[][..]), ("default.json", &["--override", "alpha=-3"]), ("scale.json", &["--scalar", "alpha=0.5"])]
    {
        let on_device = outputs("hip", graph, args);
        assert_eq!(on_device, outputs("cpu", graph, args), "{graph} {args:?}");
        assert!(!seen.contains(&on_device), "another scalar, another result");
        seen.push(on_device);
    }
}

#[test]
fn check_executes_what_the_device_has_plans_for() {
    let Some(host) = Host::new() else { return };
    let told = host.json(&[&["check"], &GRAPHS[..], &["--device", "hip"]].concat());
    assert_eq!((&told["device"], &told["summary"]["ok"]), (&"hip:0".into(), &GRAPHS.len().into()), "{told:#}");
    let told = host.json(&[&["check"], &GRAPHS[..]].concat());
    assert_eq!((&told["device"], &told["summary"]["ok"]), (&"cpu".into(), &GRAPHS.len().into()), "{told:#}");
}

#[test]
fn a_show_of_a_test_plan_tells_what_it_can() {
    let Some(host) = Host::new() else { return };
    let ran = host.run(&["show", "conv.json", "--target", "host", "--launch", "--extract", "out"]);
    assert!(ran.code == 0 && ran.out.contains("target      host"), "{ran:?}");
    let list: Value = serde_json::from_slice(&std::fs::read(host.scratch.path("out/launches.json")).expect("written")).expect("JSON");
    assert_eq!(list["target"], "host");
    let key = host.json(&["show", "conv.json"])["graph_key"].as_str().expect("a key").to_owned();
    let ran = host.run(&["show", &key[..10]]);
    assert!(ran.code == 2 && ran.err.contains("(cpu)") && ran.err.contains("(host)"), "{ran:?}");
    let ran = host.run(&["show", &key, "--target", "host"]);
    assert!(ran.code == 0 && ran.out.contains("code object"), "{ran:?}");
}

#[test]
fn no_device_no_plan_and_failures_of_a_device_are_clean_errors() {
    let Some(host) = Host::new() else { return };
    let run = ["run", "conv.json", "--device"];
    let missing = host.scratch.path("no-such-library.so");
    let none = missing.to_str().expect("UTF-8");
    let host_hip = |key: &'static str, value: &'static str| vec![(key, value)];
    for (env, args, why) in [
        (vec![("HIPPLAN_HIP_LIBRARY", none)], [&run[..], &["hip"]].concat(), "no-such-library.so"),
        (vec![], [&run[..], &["hip:1"]].concat(), "hip:1"),
        (vec![], [&run[..], &["gpu"]].concat(), "--device gpu"),
        (vec![], [&run[..], &["hip", "--target", "gfx942"]].concat(), "device hip:0 runs plans for host"),
        (vec![], [&run[..], &["cpu", "--target", "host"]].concat(), "device cpu runs plans for cpu"),
        (vec![("HIPPLAN_DEVICE", "hop")], vec!["run", "conv.json"], "HIPPLAN_DEVICE=hop"),
        (host_hip("HIPPLAN_HOST_HIP_DEVICES", "0"), [&run[..], &["hip"]].concat(), "no AMD GPU is visible"),
        (host_hip("HIPPLAN_HOST_HIP_ARCH", "gfx942:sramecc+:xnack-"), [&run[..], &["hip"]].concat(), "--target gfx942:sramecc+:xnack-"),
        (
            host_hip("HIPPLAN_HOST_HIP_ARCH", "gfx942:sramecc+:xnack-"),
            [&run[..], &["hip", "--target", "gfx942:xnack-"]].concat(),
            "compile conv.json --target gfx942:xnack-",
        ),
        (
            host_hip("HIPPLAN_HOST_HIP_ARCH", "gfx942:sramecc+:xnack-"),
            [&run[..], &["hip", "--target", "gfx942:xnack+"]].concat(),
            "built for xnack on",
        ),
        (host_hip("HIPPLAN_HOST_HIP_MEMORY", "64"), [&run[..], &["hip"]].concat(), "bytes"),
        (host_hip("HIPPLAN_HOST_HIP_FAIL", "hipModuleLaunchKernel:1:701"), [&run[..], &["hip"]].concat(), "hipErrorLaunchOutOfResources"),
        (host_hip("HIPPLAN_HOST_HIP_FAIL", "hipEventCreateWithFlags:1:999"), [&run[..], &["hip"]].concat(), "hipErrorUnknown"),
        (host_hip("HIPPLAN_HOST_HIP_FAIL", "hipMemcpy:1+:700"), [&run[..], &["hip"]].concat(), "hipErrorIllegalAddress"),
        (host_hip("HIPPLAN_HOST_HIP_LOST", "0"), [&run[..], &["hip"]].concat(), "hipErrorLaunchFailure"),
    ] {
        let ran = host.run_with(&env, &args);
        assert!(ran.code == 2 && ran.err.contains(why) && ran.out.is_empty(), "{env:?} {args:?} {ran:?}");
    }
    // A list goes on: each graph has its own error.
    let ran = host
        .run_with(&[("HIPPLAN_HOST_HIP_FAIL", "hipModuleLaunchKernel:1+:701")], &["check", "conv.json", "matmul.json", "--device", "hip"]);
    assert!(ran.code == 1 && ran.out.matches("hipErrorLaunchOutOfResources").count() == 2, "{ran:?}");
}

#[test]
fn native_is_what_the_devices_report() {
    let Some(host) = Host::new() else { return };
    let compile = ["compile", "conv.json", "--target", "native", "--json"];
    let ran = host.run_with(&[("HIPPLAN_HIP_LIBRARY", "/no/such/library.so")], &compile);
    assert!(ran.code == 2 && ran.err.contains("--target native") && ran.err.contains("/no/such/library.so"), "{ran:?}");
    let Some(bin) = only_clang(&host.scratch) else { return };
    let bin = bin.to_str().expect("UTF-8");
    let arch = "gfx942:sramecc+:xnack-";
    let env = [("HIPPLAN_HOST_HIP_ARCH", arch), ("HIPPLAN_HOST_HIP_DEVICES", "2"), ("PATH", bin)];
    let ran = host.run_with(&env, &compile);
    let told: Value = serde_json::from_str(&ran.out).expect("JSON");
    let rows = told["rows"].as_array().expect("rows");
    assert_eq!((ran.code, rows.len(), &rows[0]["target"]), (0, 1, &arch.into()), "{told:#}");
}

#[test]
fn a_missing_compiler_is_told_once_for_each_target() {
    let Some(host) = Host::new() else { return };
    let args = [&["compile"], &GRAPHS[..], &["--target", "gfx942,gfx1100,host"]].concat();
    let ran = host.run_with(&[("PATH", "/no/such/folder")], &args);
    assert!(ran.code == 3 && ran.out.matches("no clang 19 or later").count() == 2, "{ran:?}");
    assert_eq!(ran.out.matches("nothing compiles for the target").count(), 2 * GRAPHS.len(), "{ran:?}");
}

#[test]
fn doctor_tells_the_runtime_and_its_devices() {
    let Some(host) = Host::new() else { return };
    let report = host.json(&["doctor"]);
    let said = |check: &str, text: &str| {
        let checks = report["checks"].as_array().expect("a list");
        checks
            .iter()
            .any(|row| row["check"] == check && row["outcome"] == "ok" && row["text"].as_str().is_some_and(|said| said.contains(text)))
    };
    assert!(said("hip", &host.library.display().to_string()) && said("device", "hip:0 is "), "{report:#}");
    assert!(said("device", "cpu, unless --device says otherwise"), "{report:#}");
    let ran = host.run_with(&[("HIPPLAN_DEVICE", "hip:7")], &["doctor", "--quiet"]);
    assert!(ran.code == 1 && ran.out.contains("problem device      HIPPLAN_DEVICE: "), "{ran:?}");
}
