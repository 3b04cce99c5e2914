//! Files of every format as they were once written (P7): a decoder that knows nothing but `docs/format.md` reads them, and so does
//! hipplan, and both find the same facts.
//!
//! `corpus/golden/manifest.tsv` lists the files. The facts of `x` stand in `x.facts`. A format that changes on purpose gets a new
//! version and new files beside the old ones; `HIPPLAN_WRITE_GOLDEN=1` writes those of this version.

mod decoder;
mod pack;

use decoder::Facts;
use hipplan::plan::{BakedScalar, BindingV1, CodeObjectV1, PayloadHead, PayloadWriter, PlanMetaV1, PlanView, PlanWriter};
use hipplan::plugin::{ArchivedPluginProgram, HookForm, PLUGIN_PAYLOAD_KIND, PLUGIN_PAYLOAD_VERSION, PluginProgram};
use hipplan::{
    Canonical, DataType, Device, GraphBuf, GraphBuilder, Knob, Limits, Loaders, Plan, PlanIdentity, PlanKey, PlanRef, PointwiseMode,
    RootHash, Runtime, Scalar, ScalarType, Stream, TensorAttributes, TensorValue, VariantPack, Workspace, aligned, canon, ops,
};
use hipplan_store::EntryKind;
use hipplan_store::record::{RecordKind, decode, encode};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/golden")
}

/// `y = (x * 2) + s`: a constant, a runtime scalar with a default, one without, a virtual tensor.
fn graph() -> GraphBuf {
    let mut g = GraphBuilder::new();
    g.set_name("golden").set_types(DataType::Float, DataType::Float, DataType::Float);
    let x = g.tensor(TensorAttributes::packed(DataType::Float, &[2, 3]));
    let two = g.scalar(2.0_f32, ScalarType::CompileTimeConst);
    let default = g.scalar(0.5_f32, ScalarType::RuntimeParam);
    let mut supplied = TensorAttributes::packed(DataType::Float, &[1]);
    supplied.set_as_runtime_parameter();
    let supplied = g.tensor(supplied);
    let mut between = TensorAttributes::packed(DataType::Unset, &[2, 3]);
    between.set_virtual(true);
    let [a, b] = [g.tensor(between.clone()), g.tensor(between)];
    let y = g.tensor(TensorAttributes::packed(DataType::Float, &[2, 3]));
    g.node("scale", DataType::Unset, ops::Pointwise::binary(PointwiseMode::Mul, x, two, a));
    g.node("shift", DataType::Unset, ops::Pointwise::binary(PointwiseMode::Add, a, default, b));
    g.node("shift again", DataType::Unset, ops::Pointwise::binary(PointwiseMode::Add, b, supplied, y));
    g.build().expect("valid")
}

fn canonical() -> Canonical {
    graph().view().canonical().expect("known fields only")
}

fn payload() -> Vec<u8> {
    let baked = |uid, is_default, value: f32| BakedScalar { uid, is_default, value: value.to_value() };
    let writer = PayloadWriter {
        kind: "golden-provider",
        version: 7,
        runtime_uids: vec![3, 5],
        baked: vec![baked(1, false, 2.0), baked(3, true, 0.5)],
        body: b"bytes of the provider",
    };
    writer.finish().expect("a payload")
}

/// The payload of a hosted plugin. No plugin has written its bytes.
fn plugin_payload() -> Vec<u8> {
    let program = PluginProgram {
        plugin: "golden plugin".into(),
        plugin_version: "2.1".into(),
        hooks: HookForm::WithConfig,
        engine_id: hipplan::engine_id("GOLDEN_ENGINE"),
        config: b"configuration".to_vec(),
        bytes: b"bytes of the plugin".to_vec(),
    };
    let body = program.to_body().expect("small");
    let baked = vec![BakedScalar { uid: 3, is_default: true, value: 0.5_f32.to_value() }];
    let writer = PayloadWriter { kind: PLUGIN_PAYLOAD_KIND, version: PLUGIN_PAYLOAD_VERSION, runtime_uids: vec![3, 5], baked, body: &body };
    writer.finish().expect("a payload")
}

/// A plan with every kind of field filled.
fn plan() -> Vec<u8> {
    let canonical = canonical();
    let identity = PlanIdentity {
        graph: canonical.key,
        target: "gfx942:sramecc+:xnack-".into(),
        provider: "golden".into(),
        engine: "GOLDEN_ENGINE".into(),
        engine_revision: "3".into(),
        knobs: vec![
            Knob { id: "a".into(), value: "1".into() },
            Knob {
                id: "split.of.the.reduction".into(),
                value: "a value of more than eight bytes, and of more than sixty-four too, in all".into(),
            },
        ],
    };
    let binding = |ordinal, role, kind, dims: &[i64], strides: &[i64], first_use: &str| BindingV1 {
        ordinal,
        role,
        kind,
        dtype: 1,
        dims: dims.to_vec(),
        strides: strides.to_vec(),
        first_use: first_use.into(),
    };
    let meta = PlanMetaV1 {
        api_floor: [1, 2, 0],
        workspace_size: 4096,
        bindings: vec![
            binding(0, 0, 0, &[2, 3], &[3, 1], "node 0 pointwise.in_0"),
            binding(1, 0, 3, &[1], &[1], "node 0 pointwise.in_1"),
            binding(3, 0, 2, &[1], &[1], "node 1 pointwise.in_1"),
            binding(5, 0, 1, &[1], &[1], "node 2 pointwise.in_1"),
            binding(6, 1, 0, &[2, 3], &[3, 1], "out"),
        ],
        code_objects: vec![CodeObjectV1 { hash: [0xc0; 32], size: 123_456 }],
        ..PlanMetaV1::of(&identity)
    };
    PlanWriter { meta: &meta, canonical: &canonical.encoding, payload: &payload() }.finish().expect("a plan").to_vec()
}

fn rows() -> [PlanRef; 2] {
    [1, 2].map(|n| PlanRef { key: PlanKey([n; 32]), root: RootHash([n | 0x80; 32]), size: 1 << (30 + n) })
}

/// Name, kind, and the bytes that this version writes.
fn written() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    vec![
        ("v1.hpgraph", "graph artifact", graph().view().to_artifact().to_vec()),
        ("v1.canonical", "canonical encoding", canonical().encoding),
        ("v1.payload", "provider payload", payload()),
        ("v1.hipdnn-plugin.payload", "payload of a plugin", plugin_payload()),
        ("v1.plan", "plan file", plan()),
        ("v1.plan.rec", "plan record", encode(RecordKind::Plan, &[1; 32], &rows()[..1])),
        ("v1.selection.rec", "selection record", encode(RecordKind::Selection, &[9; 32], &rows())),
        ("v1.pack", "pack", pack::written(&plan())),
    ]
}

/// What hipplan itself finds in a file, in the words of the decoder.
fn read(kind: &str, file: &[u8]) -> Facts {
    let aligned = aligned::aligned_copy(file);
    match kind {
        "graph artifact" => {
            let view = hipplan::VerifiedGraph::verify_any(&aligned, &Limits::DEFAULT).expect("valid");
            format!("min_reader_version {}\nbuffer {} bytes\n", view.min_reader_version(), view.buffer().len())
        }
        "canonical encoding" => encoding_facts(file),
        "provider payload" => payload_facts(file),
        "payload of a plugin" => plugin_facts(file),
        "plan file" => plan_facts(&PlanView::open(&aligned).expect("valid")),
        "plan record" => record_facts(RecordKind::Plan, file),
        "selection record" => record_facts(RecordKind::Selection, file),
        "pack" => pack::facts(file),
        other => panic!("no reader for {other}"),
    }
}

fn encoding_facts(file: &[u8]) -> Facts {
    let graph = canon::decode(file, &Limits::DEFAULT).expect("valid");
    let view = graph.view();
    let mut out = format!("graph key {}\n", view.canonical().expect("a key").key);
    _ = writeln!(out, "override shapes {}", view.is_override_shape_enabled());
    for ix in view.tensor_ixs() {
        let t = view.tensor(ix);
        let states = [("virtual", t.is_virtual), ("runtime", t.is_runtime)];
        let states = states.iter().filter(|s| s.1).map(|s| s.0).collect::<Vec<_>>().join(" ");
        _ = writeln!(
            out,
            "tensor {}: type {} dims {:?} strides {:?} alignment {} multiplier {} value {} {:x?} ragged {:?} [{states}]",
            t.uid,
            t.dtype.to_wire(),
            t.dims,
            t.strides,
            t.alignment,
            t.ragged_multiplier,
            t.value.map_or(0, |v| v.tag()),
            t.value.map(TensorValue::bits),
            t.ragged_offset.map(|ix| view.tensor(ix).uid.0),
        );
    }
    out
}

fn payload_facts(file: &[u8]) -> Facts {
    let view = PayloadHead::parse(file).and_then(PayloadHead::read_tables).expect("valid");
    let mut out = format!("payload {} version {}, body ", view.kind(), view.version());
    for b in view.body().iter() {
        _ = write!(out, "{b:02x}");
    }
    out.push('\n');
    for uid in view.runtime_uids() {
        _ = writeln!(out, "runtime uid {uid}");
    }
    for b in view.baked() {
        _ = writeln!(out, "baked uid {} default {} value {} {:x}", b.uid, u8::from(b.is_default), b.value.tag(), b.value.bits());
    }
    out
}

fn plugin_facts(file: &[u8]) -> Facts {
    let view = PayloadHead::parse(file).and_then(PayloadHead::read_tables).expect("valid");
    let body = aligned::aligned_copy(view.body());
    let program = rkyv::access::<ArchivedPluginProgram, rkyv::rancor::Error>(&body).expect("valid");
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, b| text + &format!("{b:02x}"));
    let hooks = match HookForm::from(&program.hooks) {
        HookForm::WithEngineId => 0,
        HookForm::Plain => 1,
        HookForm::WithConfig => 2,
        HookForm::Ext => 3,
        other => panic!("{other:?}"),
    };
    let mut out = payload_facts(file);
    _ = writeln!(out, "plugin {} version {}", program.plugin, program.plugin_version);
    _ = writeln!(out, "hooks {hooks}\nengine id {}", program.engine_id);
    _ = writeln!(out, "configuration {}\nbytes {}", hex(&program.config), hex(&program.bytes));
    out
}

fn plan_facts(plan: &PlanView<'_>) -> Facts {
    plan.verify().expect("valid");
    let (meta, id) = (plan.meta(), plan.meta().identity());
    let mut out = format!("root hash {}\nplan key {}\ngraph key {}\n", plan.root(), meta.plan_key(), meta.graph_key());
    let [target, provider, engine, revision] = [&id.target, &id.provider, &id.engine, &id.engine_revision];
    _ = writeln!(out, "target {target}\nprovider {provider}\nengine {engine}\nengine revision {revision}");
    _ = writeln!(out, "engine id {}\nAPI floor {}\nworkspace {}", meta.engine_id, meta.api_floor(), meta.workspace_size);
    for k in id.knobs.iter() {
        _ = writeln!(out, "knob {} {}", k.id, k.value);
    }
    for b in meta.bindings.iter() {
        let list = |list: &[_]| list.iter().map(|n: &rkyv::rend::i64_le| n.to_native()).collect::<Vec<_>>();
        _ = writeln!(
            out,
            "binding {}: role {} kind {} type {} dims {:?} strides {:?} first use {}",
            b.ordinal,
            b.role,
            b.kind,
            b.dtype,
            list(&b.dims),
            list(&b.strides),
            b.first_use
        );
    }
    for c in meta.code_objects.iter() {
        _ = writeln!(out, "code object {} {} bytes", hipplan::ContentHash(c.hash), c.size);
    }
    out + &encoding_facts(plan.canonical().expect("valid"))
}

fn record_facts(kind: RecordKind, file: &[u8]) -> Facts {
    let key = file[64..96].try_into().expect("a key");
    let mut out = format!("record of kind {} for {}\n", kind as u16, PlanKey(key));
    let entries = if kind == RecordKind::Plan { EntryKind::PlanRecord } else { EntryKind::Selection };
    for row in decode(entries, &key, file).expect("valid").rows {
        _ = writeln!(out, "plan {} root {} {} bytes", row.key, row.root, row.size);
    }
    out
}

fn decoded(kind: &str, file: &[u8]) -> Facts {
    match kind {
        "graph artifact" => decoder::artifact(file),
        "canonical encoding" => decoder::encoding(file),
        "provider payload" => decoder::payload(file),
        "payload of a plugin" => decoder::plugin_payload(file),
        "plan file" | "plan file of the cpu provider" => decoder::plan(file),
        "plan record" | "selection record" => decoder::record(file),
        "pack" => decoder::pack(file),
        other => panic!("no decoder for {other}"),
    }
}

/// Name to kind and hash, as the manifest has them.
fn read_manifest() -> BTreeMap<String, (String, String)> {
    let text = std::fs::read_to_string(folder().join("manifest.tsv")).expect("a manifest");
    let rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let [name, kind, hash] = line.split('\t').collect::<Vec<_>>().try_into().expect("three columns");
        (name.to_owned(), (kind.to_owned(), hash.to_owned()))
    });
    rows.collect()
}

const CPU_PLAN: &str = "v1.cpu.plan";

/// The folder's manifest; with `HIPPLAN_WRITE_GOLDEN`, the files of this version are written first.
fn manifest() -> BTreeMap<String, (String, String)> {
    static WRITE: Once = Once::new();
    if std::env::var_os("HIPPLAN_WRITE_GOLDEN").is_some() {
        WRITE.call_once(write);
    }
    read_manifest()
}

fn write() {
    let mut text = "# file\tkind\tBLAKE3\n".to_owned();
    let store = tempfile::tempdir().expect("a folder");
    let runtime = Runtime::open(store.path().join("store")).expect("a store");
    runtime.compile(&graph().view()).expect("compiled");
    let cpu = runtime.find(&canonical().key).expect("found").bytes().to_vec();
    for (name, kind, bytes) in written().into_iter().chain([(CPU_PLAN, "plan file of the cpu provider", cpu)]) {
        std::fs::write(folder().join(name), &bytes).expect("written");
        std::fs::write(folder().join(format!("{name}.facts")), decoded(kind, &bytes)).expect("written");
        _ = writeln!(text, "{name}\t{kind}\t{}", blake3::hash(&bytes));
    }
    std::fs::write(folder().join("manifest.tsv"), text).expect("written");
}

#[test]
fn what_is_written_today_is_what_was_written() {
    let manifest = manifest();
    for (name, kind, bytes) in written() {
        let (known_kind, hash) = manifest.get(name).unwrap_or_else(|| panic!("{name} is not in the manifest"));
        assert_eq!((known_kind.as_str(), hash), (kind, &blake3::hash(&bytes).to_string()), "{name}: the format has changed");
    }
}

#[test]
fn every_golden_file_is_read_by_both() {
    let manifest = manifest();
    assert!(manifest.len() >= 9);
    for (name, (kind, hash)) in &manifest {
        let file = std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(blake3::hash(&file).to_string(), *hash, "{name}");
        let facts = decoded(kind, &file);
        let golden = std::fs::read_to_string(folder().join(format!("{name}.facts"))).expect("facts");
        assert_eq!(facts, golden, "{name}: the decoder");
        if name == CPU_PLAN {
            continue;
        }
        // hipplan does not print the raw fields of operations, nor a payload twice.
        let ours = read(kind, &file);
        let comparable = |facts: &str| {
            let lines = facts.lines().filter(|l| !l.starts_with("node "));
            let lines = lines.filter(|l| kind != "plan file" || !["payload", "runtime uid", "baked"].iter().any(|w| l.starts_with(w)));
            lines.map(|l| format!("{l}\n")).collect::<String>()
        };
        assert_eq!(comparable(&ours), comparable(&facts), "{name}: hipplan");
    }
}

/// A plan that an earlier hipplan compiled still runs, as long as its loader accepts the payload.
#[test]
fn the_golden_plan_of_the_cpu_provider_runs() {
    assert!(manifest().contains_key(CPU_PLAN));
    let file = aligned::aligned_copy(&std::fs::read(folder().join(CPU_PLAN)).expect("readable"));
    let plan = Plan::open(&file).expect("valid");
    let mut bound = plan.bind_by_key(&Device::Cpu, &Loaders::default()).expect("a loader");
    let x = [0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0];
    let mut y = [0.0_f32; 6];
    let mut workspace = Workspace::new(bound.workspace_size()).expect("memory");
    let mut pack = VariantPack::new();
    pack.input(0, &x).scalar_value(5, TensorValue::Float32(10.0)).output(6, &mut y);
    bound.execute(&pack, workspace.as_mut_slice(), Stream::Default).expect("executed");
    assert_eq!(y, [10.5, 12.5, 14.5, 16.5, 18.5, 20.5]);
}
