//! Plans for GPUs through the real binary: compiled with nothing but clang at hand, shown, and extracted.

mod common;

use common::{Scratch, corpus, only_clang, scalar_graph, tree};
use hipplan::plan::{CodeObjectV1, PayloadWriter, PlanMetaV1, PlanWriter};
use hipplan::{CodeObject, Digest, PlanView, aligned};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A scratch folder with a store of these graphs for two targets.
struct Gpu {
    scratch: Scratch,
    bin: PathBuf,
}

const WITH_DEFAULT: &str = r#", "is_runtime_pass_by_value": true, "value_type": "Float32Value", "value": 2.5"#;

impl Gpu {
    fn new() -> Option<Self> {
        let scratch = Scratch::new();
        let bin = only_clang(&scratch)?;
        scratch.write("scale.json", scalar_graph(WITH_DEFAULT));
        std::fs::copy(corpus().join("sample_conv_fwd.json"), scratch.path("conv.json")).expect("copied");
        Some(Self { scratch, bin })
    }

    fn run(&self, args: &[&str]) -> common::Ran {
        let mut command = self.scratch.hipplan(args);
        common::Ran::of(&command.env("PATH", &self.bin).env("TMPDIR", std::env::temp_dir()).output().expect("started"))
    }

    fn compile(&self) -> Value {
        let ran = self.run(&["compile", "scale.json", "conv.json", "--store", "s", "--target", "gfx942,gfx1100", "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        serde_json::from_str(&ran.out).expect("JSON")
    }

    /// Graph key of a graph file.
    fn key(&self, file: &str) -> String {
        self.scratch.json(&["show", file]).1["graph_key"].as_str().expect("a key").to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path(name)
    }
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))).expect("small")
}

/// Reads an extract as a stranger would, who knows the format's description only.
fn check_extract(folder: &Path, target: &str) -> Value {
    let read = |name: &Value| std::fs::read(folder.join(name.as_str().expect("a name"))).expect("a file of the list");
    let list: Value = serde_json::from_slice(&read(&"launches.json".into())).expect("JSON");
    assert_eq!((&list["format"], &list["version"], &list["target"]), (&"hipplan-launches".into(), &1.into(), &target.into()));
    let (tensors, objects) = (list["tensors"].as_array().expect("tensors"), list["code_objects"].as_array().expect("objects"));
    for tensor in tensors {
        let bytes = number(&tensor["bytes"]);
        match tensor["place"].as_str() {
            Some("workspace") => assert!(number(&tensor["offset"]) + bytes <= number(&list["workspace_size"])),
            Some("external" | "scalar") => {
                assert!(tensor["ordinal"].is_u64() && tensor["dtype"].is_string() && tensor["kind"].is_string(), "{tensor}");
                assert_eq!(tensor["dims"].as_array().map(Vec::len), tensor["strides"].as_array().map(Vec::len), "{tensor}");
            }
            other => panic!("{other:?}"),
        }
    }
    let images: Vec<Vec<u8>> = objects.iter().map(|object| read(&object["file"])).collect();
    for (object, image) in objects.iter().zip(&images) {
        let digest = Digest::of(image);
        assert_eq!((object["digest"].as_str(), number(&object["size"])), (Some(&*digest.hash.to_string()), image.len()));
        assert_eq!(object["file"].as_str(), Some(&*format!("{}.co", &digest.hash.to_string()[..16])));
        assert_eq!(CodeObject::read(image).expect("a code object").target.to_string(), target);
    }
    let launches = list["launches"].as_array().expect("launches");
    assert!(!launches.is_empty());
    let mut written = vec![false; tensors.len()];
    for launch in launches {
        let object = CodeObject::read(&images[number(&launch["code_object"])]).expect("a code object");
        let kernel = object.kernel(launch["kernel"].as_str().expect("a name")).expect("in its code object");
        let (kernarg, size) = (read(&launch["kernarg"]), number(&launch["kernarg_size"]));
        assert_eq!(kernarg.len(), size);
        assert_eq!(kernel.args[0].size as usize, size);
        assert!(kernel.max_workgroup_size as usize >= number(&launch["block"]));
        assert!(launch["grid"].as_array().is_some_and(|g| g.len() == 3 && g.iter().all(|n| number(n) > 0)), "{launch}");
        for patch in launch["patches"].as_array().expect("patches") {
            let tensor = number(&patch["tensor"]);
            let is_scalar = tensors[tensor]["place"] == "scalar";
            let width = match patch["write"].as_str() {
                Some("address") if !is_scalar => 8,
                Some("f32") if is_scalar => 4,
                Some("f64") if is_scalar => 8,
                other => panic!("{other:?} of {}", tensors[tensor]),
            };
            assert!(number(&patch["offset"]) + width <= size, "{patch}");
            written[tensor] = true;
        }
    }
    assert!(written.iter().all(|w| *w), "every tensor is patched into some launch: {list:#}");
    list
}

#[test]
fn plans_for_two_targets_are_compiled_with_nothing_but_clang() {
    let Some(gpu) = Gpu::new() else { return };
    assert_eq!(gpu.compile()["summary"]["compiled"], 4);
    let before = tree(&gpu.path("s"));
    assert_eq!(gpu.compile()["summary"]["present"], 4, "again is a no-op");
    assert_eq!(tree(&gpu.path("s")), before);
    assert_eq!(gpu.run(&["verify", "--store", "s"]).code, 0);

    // One key, two targets.
    let key = gpu.key("scale.json");
    for text in [&key[..12], &key] {
        let ran = gpu.run(&["show", text, "--store", "s"]);
        assert!(ran.code == 2 && ["(gfx942)", "(gfx1100)", "--target"].iter().all(|t| ran.err.contains(t)), "{ran:?}");
        for target in ["gfx942", "gfx1100"] {
            let ran = gpu.run(&["show", text, "--store", "s", "--target", target]);
            assert!(ran.code == 0 && ran.out.contains(&format!("target      {target}\n")), "{ran:?}");
            for part in ["compiler    ", "flags       ", "kernels     texts", "code object"] {
                assert!(ran.out.contains(part), "{part} is not in {ran:?}");
            }
        }
        let ran = gpu.run(&["show", text, "--store", "s", "--target", "gfx90a"]);
        assert!(ran.code == 2 && ran.err.contains("other targets than gfx90a") && ran.err.contains("(gfx942)"), "{ran:?}");
        assert_eq!(gpu.run(&["explain", text, "--store", "s"]).code, 0, "the graph is the same in both");
    }
    let (code, shown) = gpu.scratch.json(&["show", &key, "--store", "s", "--target", "gfx1100"]);
    assert_eq!(code, 0);
    assert_eq!(shown["code_objects"][0]["target"], "gfx1100");
    assert!(shown["code_objects"][0]["kernels"][0]["vgprs"].is_u64(), "{shown:#}");
    assert!(shown["engine_revision_parts"]["tools"][0].as_str().is_some_and(|t| t.contains("clang version 19")), "{shown:#}");
}

#[test]
fn stores_are_equal_whatever_the_folder_home_and_order() {
    let (Some(one), Some(other)) = (Gpu::new(), Gpu::new()) else { return };
    one.compile();
    for (graph, target) in [("conv.json", "gfx1100"), ("scale.json", "gfx1100,gfx942"), ("conv.json", "gfx942")] {
        let ran = other.run(&["compile", graph, "--store", "s", "--target", target, "--jobs", "1"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    assert_eq!(tree(&one.path("s")), tree(&other.path("s")));
}

#[test]
fn a_kernel_of_several_plans_is_compiled_once_for_a_target() {
    let Some(gpu) = Gpu::new() else { return };
    // Values of scalars are arguments: where they come from makes no other kernel.
    gpu.scratch.write("given.json", scalar_graph(r#", "is_runtime_pass_by_value": true"#));
    let args = ["compile", "scale.json", "given.json", "--store", "s", "--target", "gfx942,gfx1100", "--jobs", "4"];
    let ran = gpu.run(&[&args[..], &["--json"]].concat());
    let told: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((ran.code, &told["summary"]["compiled"]), (0, &4.into()), "{ran:?}");
    let compiler = &told["compilers"][0];
    assert!(compiler["name"].as_str().is_some_and(|name| name.starts_with("clang 19")), "{told:#}");
    assert_eq!((&compiler["runs"], &compiler["reused"], told["compilers"].as_array().map(Vec::len)), (&2.into(), &2.into(), Some(1)));
    let ran = gpu.run(&args);
    assert!(ran.code == 0 && !ran.out.contains("clang"), "nothing was compiled again: {ran:?}");
}

#[test]
fn what_is_extracted_can_be_launched_by_others() {
    let Some(gpu) = Gpu::new() else { return };
    gpu.compile();
    for (graph, target) in [("scale.json", "gfx942"), ("conv.json", "gfx942"), ("conv.json", "gfx1100")] {
        let folder = format!("out/{graph}-{target}");
        let args = ["show", graph, "--store", "s", "--target", target, "--launch", "--extract", &folder];
        let ran = gpu.run(&args);
        assert!(ran.code == 0 && ran.out.contains("extracted to"), "{ran:?}");
        let list = check_extract(&gpu.path(&folder), target);
        assert_eq!(list["graph_key"], gpu.key(graph));
        assert_eq!(list["graph_key"], gpu.key(&format!("{folder}/graph.bin")), "the graph is the plan's");
        // Again gives the same, and tells the same as JSON.
        let before = tree(&gpu.path(&folder));
        let ran = gpu.run(&[&args[..], &["--json"]].concat());
        let told: Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!(tree(&gpu.path(&folder)), before);
        assert_eq!((ran.code, &told["tensors"], told["problems"].as_array().map(Vec::len)), (0, &list["tensors"], Some(0)));
        assert!(told["launches"][0]["code"]["sgprs"].is_u64(), "{told:#}");
    }
    // The default is in the kernarg that was written.
    let folder = gpu.path("out/scale.json-gfx942");
    let list = check_extract(&folder, "gfx942");
    let scalar = list["tensors"].as_array().expect("tensors").iter().position(|t| t["kind"] == "runtime scalar with default").expect("one");
    let launch = &list["launches"][0];
    let patch = launch["patches"].as_array().expect("patches").iter().find(|p| p["tensor"] == scalar).expect("one");
    let kernarg = std::fs::read(folder.join(launch["kernarg"].as_str().expect("a name"))).expect("read");
    let at = number(&patch["offset"]);
    match patch["write"].as_str() {
        Some("f32") => assert_eq!(kernarg[at..at + 4], 2.5_f32.to_le_bytes()),
        _ => assert_eq!(kernarg[at..at + 8], 2.5_f64.to_le_bytes()),
    }
}

#[test]
fn a_folder_of_something_else_is_left_alone_and_an_old_extract_is_replaced() {
    let Some(gpu) = Gpu::new() else { return };
    gpu.compile();
    let extract =
        |graph: &str, folder: &str| gpu.run(&["inspect", graph, "--store", "s", "--target", "gfx942", "--launch", "--extract", folder]);
    for (folder, content) in [("other", "{}"), ("broken", "{"), ("foreign", r#"{"format": "else"}"#)] {
        gpu.scratch.write(&format!("{folder}/launches.json"), content);
        let before = tree(&gpu.path(folder));
        let ran = extract("conv.json", folder);
        assert!(ran.code == 2 && ran.err.contains("something else than an earlier extract"), "{ran:?}");
        assert_eq!(tree(&gpu.path(folder)), before);
    }
    assert_eq!(extract("conv.json", "out").code, 0);
    // As a larger plan would have left, and what is not an extract's.
    for name in ["launch-7.kernarg", "0123456789abcdef.co", "notes.txt"] {
        gpu.scratch.write(&format!("out/{name}"), "x");
    }
    assert_eq!(extract("scale.json", "out").code, 0);
    check_extract(&gpu.path("out"), "gfx942");
    let left = tree(&gpu.path("out"));
    assert!(left.contains_key(Path::new("notes.txt")) && !left.contains_key(Path::new("launch-7.kernarg")), "{:?}", left.keys());
    assert_eq!(left.keys().filter(|name| name.extension().is_some_and(|e| e == "co")).count(), 1);
    gpu.scratch.write("file", "x");
    let ran = extract("conv.json", "file");
    assert!(ran.code == 2 && ran.err.contains("file"), "{ran:?}");
}

#[test]
fn missing_and_damaged_code_objects_are_told() {
    let Some(gpu) = Gpu::new() else { return };
    gpu.compile();
    let (_, shown) = gpu.scratch.json(&["show", &gpu.key("conv.json"), "--store", "s", "--target", "gfx942"]);
    let hash = shown["code_objects"][0]["hash"].as_str().expect("a hash");
    let file = tree(&gpu.path("s")).into_keys().find(|name| name.to_string_lossy().replace('/', "").contains(&hash[2..])).expect("a blob");
    let file = gpu.path("s").join(file);
    let image = std::fs::read(&file).expect("read");
    let launch = ["show", "conv.json", "--store", "s", "--target", "gfx942", "--launch"];
    let mut damaged = image.clone();
    damaged[200] ^= 1;
    for bytes in [None, Some(&damaged[..]), Some(&image[..100])] {
        std::fs::remove_file(&file).expect("removed");
        if let Some(bytes) = bytes {
            std::fs::write(&file, bytes).expect("written");
        }
        let ran = gpu.run(&launch);
        assert!(ran.code == 1 && ran.out.contains(&format!("code object {hash}")) && ran.out.contains("warning:"), "{ran:?}");
        let ran = gpu.run(&[&launch[..], &["--extract", "out"]].concat());
        assert!(ran.code == 2 && ran.err.contains(hash) && !gpu.path("out").exists(), "{ran:?}");
        let ran = gpu.run(&launch[..6]);
        assert!(ran.code == 0 && !ran.out.contains("warning:"), "the graph itself is whole: {ran:?}");
        std::fs::write(&file, &image).expect("written");
    }
    // Of a plan file alone, all is told but what the code objects say.
    let plan = tree(&gpu.path("s")).into_iter().find(|(name, bytes)| name.starts_with("plans") && !bytes.is_empty()).expect("a plan").1;
    gpu.scratch.write("alone.plan", plan);
    let ran = gpu.run(&["show", "alone.plan", "--launch"]);
    assert!(ran.code == 1 && ran.out.contains("warning:") && ran.out.contains("code object"), "{ran:?}");
    assert_eq!(gpu.run(&["show", "alone.plan"]).code, 0);
}

/// A plan file with another payload in it, and no bindings; all its hashes are right.
fn rewritten(plan: &PlanView<'_>, version: u32, body: &[u8]) -> Vec<u8> {
    let code_objects = plan.meta().code_objects.iter().map(|c| CodeObjectV1 { hash: c.hash, size: c.size.to_native() });
    let meta = PlanMetaV1 {
        workspace_size: plan.meta().workspace_size.to_native(),
        code_objects: code_objects.collect(),
        ..PlanMetaV1::of(&plan.meta().identity())
    };
    let payload = PayloadWriter { kind: "hip", version, runtime_uids: Vec::new(), baked: Vec::new(), body }.finish().expect("a payload");
    let canonical = plan.canonical().expect("an encoding");
    PlanWriter { meta: &meta, canonical, payload: &payload }.finish().expect("a plan").to_vec()
}

#[test]
fn a_damaged_program_is_an_error() {
    let Some(gpu) = Gpu::new() else { return };
    gpu.compile();
    let (_, shown) = gpu.scratch.json(&["show", &gpu.key("conv.json"), "--store", "s", "--target", "gfx942"]);
    let root = shown["root_hash"].as_str().expect("a hash");
    let plan = std::fs::read(gpu.path(&format!("s/plans/{}/{}.plan", &root[..2], &root[2..]))).expect("a plan");
    let plan = aligned::aligned_copy(&plan);
    let plan = PlanView::open(&plan).expect("a plan");
    let body = plan.payload().expect("a payload").read_tables().expect("tables").body().to_vec();
    let mut far = body.clone();
    let launches = far.len() - 48 + 16;
    far[launches + 4..launches + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    for (version, body, why) in [
        (1, &body[..], "the plan's binding says nothing"),
        (1, &[][..], "its archive is damaged"),
        (1, &body[..body.len() - 8], "the program of the plan is damaged"),
        (1, &far, "its archive is damaged"),
        (2, &body, "version"),
    ] {
        gpu.scratch.write("damaged.plan", rewritten(&plan, version, body));
        for extract in [&[][..], &["--extract", "out"]] {
            let ran = gpu.run(&[&["show", "damaged.plan", "--store", "s", "--launch"][..], extract].concat());
            assert!(ran.code == 2 && ran.err.contains(why) && ran.out.is_empty(), "{why}: {ran:?}");
        }
        assert!(!gpu.path("out").exists());
        assert_eq!(gpu.run(&["show", "damaged.plan", "--store", "s"]).code, 0, "the rest of it can be looked at");
    }
}

#[test]
fn what_has_no_launches_says_so() {
    let scratch = Scratch::new();
    scratch.write("g.json", scalar_graph(WITH_DEFAULT));
    assert_eq!(scratch.run(&["compile", "g.json", "--store", "s"]).code, 0);
    for (args, why) in [
        (&["show", "g.json", "--store", "s", "--launch"][..], "only plans of the hip provider have launches"),
        (&["show", "g.json", "--store", "s", "--launch", "--target", "gfx942"], "other targets than gfx942"),
        (&["show", "g.json", "--store", "s", "--extract", "out"], "--launch"),
        (&["show", "g.json", "--store", "s", "--launch", "--svg"], "cannot be used with"),
        (&["show", "g.json", "--store", "none", "--launch"], "none"),
        (&["show", "g.json", "--store", "s", "--launch", "--target", "gfx942:sramecc"], "ends in neither"),
    ] {
        let ran = scratch.run(args);
        assert!(ran.code == 2 && ran.err.contains(why), "{args:?} {ran:?}");
    }
    assert!(!scratch.path("out").exists());
}
