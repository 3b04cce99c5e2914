//! Programs that are not what they should be: each is refused when its plan is bound, with the reason, and nothing is loaded.

use crate::support::{Count, Fake, Stored, external, patch, program, program_with_workspace, runtime_graph};
use hipplan::ExecError;
use hipplan::hip::{HipProgram, HipTensor, PatchSource, ScalarType, TensorPlace};

type Change = fn(&mut HipProgram);

/// Changes of the program with two launches, and what the error says.
const CHANGES: &[(&str, Change)] = &[
    ("ordinal 7: it is a tensor, the plan's binding says nothing", |p| p.tensors[0] = external(7, false)),
    ("it is a device tensor, the plan's binding says a tensor of kind runtime scalar", |p| p.tensors[0] = external(1, false)),
    ("it is a host scalar, the plan's binding says a tensor of kind device", |p| {
        p.tensors[1].place = TensorPlace::Scalar { ordinal: 0 };
    }),
    ("its role is written, the plan's binding says an input", |p| p.tensors[0].written = true),
    ("its role is written", |p| p.tensors[1].written = true),
    ("output at ordinal 2 is written by no launch", |p| p.tensors[2].written = false),
    ("output at ordinal 2 is written by no launch", |p| p.tensors.truncate(2)),
    ("output at ordinal 2 is written by no launch", |p| p.launches.clear()),
    ("output at ordinal 2 is written by no launch", |p| p.launches.truncate(1)),
    ("output at ordinal 2 is written by no launch", |p| p.patches[3].tensor = 3),
    ("its size is 20 bytes, the plan's binding says 16 bytes", |p| p.tensors[0].bytes = 20),
    ("its size is 12 bytes", |p| p.tensors[2].bytes = 12),
    ("its size is 8 bytes", |p| p.tensors[1].bytes = 8),
    ("its workspace offset is 64", |p| p.tensors[3].place = TensorPlace::Workspace { offset: 64 }),
    ("16 bytes of workspace from 512 are not within 512", |p| p.tensors[3].place = TensorPlace::Workspace { offset: 512 }),
    ("bytes of workspace from 256 are not within 512", |p| p.tensors[3].bytes = 257),
    ("are not within 512", |p| p.tensors[3].bytes = u64::MAX),
    ("are not within 512", |p| p.tensors[3].place = TensorPlace::Workspace { offset: u64::MAX - 255 }),
    ("kernel 0: code object is 1, there are 1", |p| p.kernels[0].code_object = 1),
    ("kernel 0: name is \"\"", |p| p.kernels[0].name.clear()),
    ("kernel 0: name is \"sca\\0le\"", |p| p.kernels[0].name = "sca\0le".into()),
    ("kernel 0: block is 0", |p| p.kernels[0].block = 0),
    ("kernel 0: block is 1025", |p| p.kernels[0].block = 1025),
    ("kernel 0: kernarg_size is 0", |p| p.kernels[0].kernarg_size = 0),
    ("25 kernarg bytes from 24 are not within 48", |p| {
        p.kernels[0].kernarg_size = 25;
        p.launches.remove(0);
    }),
    ("launch 0: 4294967295 kernarg bytes from 0 are not within 48", |p| p.kernels[0].kernarg_size = u32::MAX),
    ("launch 1: kernel is 3, there are 1", |p| p.launches[1].kernel = 3),
    ("launch 0: grid is 0 x 1 x 1 blocks", |p| p.launches[0].grid[0] = 0),
    ("launch 0: grid is 1 x 0 x 1 blocks", |p| p.launches[0].grid[1] = 0),
    ("launch 1: grid is 1 x 1 x 0 blocks", |p| p.launches[1].grid[2] = 0),
    ("launch 1: grid is 67108864 x 1 x 1 blocks", |p| p.launches[1].grid[0] = 1 << 26),
    ("24 kernarg bytes from 4294967288 are not within 48", |p| p.launches[1].kernarg_at = u32::MAX - 7),
    ("kernarg_at is 12, expected a multiple of 8", |p| p.launches[0].kernarg_at = 12),
    ("launch 1: its kernarg starts at 16, which is not behind", |p| p.launches[1].kernarg_at = 16),
    ("launch 1: 4 patches from 3 are not within 6", |p| p.launches[1].patches = 4),
    ("launch 1: its first patch starts at 2", |p| p.launches[1].patches_at = 2),
    ("4294967295 patches from 3", |p| p.launches[1].patches = u32::MAX),
    ("patch 1: tensor is 4, there are 4", |p| p.patches[1].tensor = 4),
    ("patch 4: offset is 12, expected a multiple of 8", |p| p.patches[4].offset = 12),
    ("patch 2: offset is 18, expected a multiple of 4", |p| p.patches[2].offset = 18),
    ("patch 0: 8 kernarg bytes from 24 are not within 24", |p| p.patches[0].offset = 24),
    ("patch 0: 8 kernarg bytes from 4294967288", |p| p.patches[0].offset = u32::MAX - 7),
    ("patch 5: 4 kernarg bytes from 24 are not within 24", |p| p.patches[5].offset = 24),
    ("patches from 0: one of them starts at 8", |p| p.patches[0].offset = 8),
    ("patches from 3: one of them starts at 12", |p| p.patches[5].offset = 12),
    ("patch 2: source is an address, expected a value", |p| p.patches[2] = patch(16, 1, PatchSource::Address)),
    ("patch 0: source is a value, expected an address", |p| p.patches[0] = patch(0, 2, PatchSource::Value(ScalarType::F64))),
    ("patch 0: source is a value, expected an address", |p| p.patches[0] = patch(0, 3, PatchSource::Value(ScalarType::F32))),
];

#[test]
fn every_field_is_checked() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    for (expected, change) in CHANGES {
        let mut program = program_with_workspace();
        change(&mut program);
        let error = Stored::new(&device, runtime_graph(), program).bind().expect_err(expected);
        assert!(matches!(error, ExecError::HipProgram(_)), "{expected}: {error}");
        assert!(error.to_string().contains(expected), "expected {expected:?} in {error}");
    }
    assert_eq!(fake.count(Count::Loads), 0);
    Stored::new(&device, runtime_graph(), program_with_workspace()).bind().expect("unchanged, it is good");
}

#[test]
fn the_workspace_of_program_and_metadata_agree() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    // The provider states one size in the metadata, and another in the program: by way of a body that was changed behind its back.
    let stored = Stored::new(&device, runtime_graph(), program());
    let bytes = stored.runtime.find(&stored.graph.view().canonical().expect("a key").key).expect("found");
    let view = bytes.view();
    let mut meta = rkyv::deserialize::<hipplan::plan::PlanMetaV1, rkyv::rancor::Error>(view.meta()).expect("metadata");
    meta.workspace_size = 4096;
    let head = view.payload().expect("a payload");
    let payload = head.accept("hip", 1, 1).expect("accepted");
    let payload = hipplan::plan::PayloadWriter {
        kind: "hip",
        version: 1,
        runtime_uids: payload.runtime_uids().collect(),
        baked: payload.baked().collect(),
        body: payload.body(),
    };
    let payload = payload.finish().expect("a payload");
    let file = hipplan::plan::PlanWriter { meta: &meta, canonical: view.canonical().expect("the graph"), payload: &payload };
    let file = file.finish().expect("a plan");
    let plan = hipplan::Plan::open(&file).expect("a plan").with_code_objects(stored.runtime.store());
    let error = plan.bind_by_key(stored.runtime.device(), &hipplan::Loaders::default()).expect_err("they disagree");
    assert!(error.to_string().contains("0 bytes of workspace, the plan's metadata says 4096"), "{error}");
}

#[test]
fn a_damaged_archive_is_refused() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let good = rkyv::to_bytes::<rkyv::rancor::Error>(&program_with_workspace()).expect("an archive").to_vec();
    let stored = Stored::new(&device, runtime_graph(), program_with_workspace());
    let bytes = stored.runtime.find(&stored.graph.view().canonical().expect("a key").key).expect("found");
    let view = bytes.view();
    let meta = rkyv::deserialize::<hipplan::plan::PlanMetaV1, rkyv::rancor::Error>(view.meta()).expect("metadata");
    let bind = |body: &[u8]| {
        let payload = hipplan::plan::PayloadWriter { kind: "hip", version: 1, runtime_uids: vec![1], baked: Vec::new(), body };
        let payload = payload.finish().expect("a payload");
        let file = hipplan::plan::PlanWriter { meta: &meta, canonical: view.canonical().expect("the graph"), payload: &payload };
        let file = file.finish().expect("a plan");
        let plan = hipplan::Plan::open(&file).expect("a plan").with_code_objects(stored.runtime.store());
        plan.bind_by_key(stored.runtime.device(), &hipplan::Loaders::default()).map(|_| ())
    };
    bind(&good).expect("the archive itself is good");
    for len in [0, 1, 8, good.len() / 2, good.len() - 1] {
        assert!(matches!(bind(&good[..len]), Err(ExecError::HipProgram(_))), "{len} bytes");
    }
    // Whatever a byte is changed to, binding ends with an answer.
    let mut refused = 0;
    for at in 0..good.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut body = good.clone();
            body[at] ^= flip;
            refused += usize::from(bind(&body).is_err());
        }
    }
    assert!(refused > good.len(), "{refused} of {} were refused", 3 * good.len());
}

#[test]
fn a_tensor_may_be_named_twice() {
    let fake = Fake::new(&[]);
    let device = fake.device(0);
    let mut twice = program();
    twice.tensors.push(HipTensor { ..external(0, false) });
    twice.patches[1].tensor = 3;
    Stored::new(&device, runtime_graph(), twice).bind().expect("two names for one buffer");
}
