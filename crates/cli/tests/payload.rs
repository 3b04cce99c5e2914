//! The `hip` payload read from its description in `docs/format.md` alone, without the library's types, against what `show` extracts.

mod common;

use common::{Ran, Scratch, corpus, only_clang, scalar_graph};
use hipplan::{PlanView, aligned};
use serde_json::{Value, json};

/// Bytes of a payload's body, with the readers that the description asks for.
struct Body<'b>(&'b [u8]);

impl Body<'_> {
    fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("4 bytes"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("8 bytes"))
    }

    /// Where an offset that stands at `at` leads to, counted from `from`.
    fn follow(&self, from: usize, at: usize) -> usize {
        from.checked_add_signed(self.u32(at).cast_signed() as isize).expect("within the body")
    }

    /// Where the rows of a list begin.
    fn rows(&self, list: usize, size: usize) -> Vec<usize> {
        let first = self.follow(list, list);
        (0..self.u32(list + 4) as usize).map(|i| first + i * size).collect()
    }

    fn text(&self, at: usize) -> String {
        let inline = &self.0[at..at + 8];
        let bytes = if inline[0] & 0b1100_0000 == 0b1000_0000 {
            let word = self.u32(at);
            let length = ((word & 0x3f) | (word >> 2 & !0x3f)) as usize;
            let start = self.follow(at, at + 4);
            &self.0[start..start + length]
        } else {
            inline.split(|&b| b == 0xff).next().expect("a part")
        };
        String::from_utf8(bytes.to_vec()).expect("UTF-8")
    }
}

/// The parts of the list that stand in the payload, and the kernarg templates.
fn decode(body: &[u8]) -> (Value, Vec<Vec<u8>>) {
    let b = Body(body);
    let root = body.len() - 48;
    let tensors: Vec<Value> = b
        .rows(root, 32)
        .into_iter()
        .map(|at| {
            let mut value = json!({ "bytes": b.u64(at + 16), "written": b.u8(at + 24) == 1 });
            value["place"] = ["external", "scalar", "workspace"][usize::from(b.u8(at))].into();
            match b.u8(at) {
                2 => value["offset"] = b.u64(at + 8).into(),
                _ => value["ordinal"] = b.u32(at + 4).into(),
            }
            value
        })
        .collect();
    let kernels = b.rows(root + 8, 20);
    let patches = b.rows(root + 24, 12);
    let kernargs = b.follow(root + 32, root + 32);
    let mut templates = Vec::new();
    let launches: Vec<Value> = b
        .rows(root + 16, 28)
        .into_iter()
        .enumerate()
        .map(|(number, at)| {
            let kernel = kernels[b.u32(at) as usize];
            let (size, start) = (b.u32(kernel + 12) as usize, kernargs + b.u32(at + 16) as usize);
            templates.push(body[start..start + size].to_vec());
            let own = &patches[b.u32(at + 20) as usize..][..b.u32(at + 24) as usize];
            let patch = |&at: &usize| {
                let write = match (b.u8(at + 8), b.u8(at + 9)) {
                    (0, _) => "address",
                    (1, 0) => "f32",
                    (1, 1) => "f64",
                    other => panic!("{other:?}"),
                };
                json!({ "offset": b.u32(at), "tensor": b.u32(at + 4), "write": write })
            };
            json!({
                "kernel": b.text(kernel + 4), "code_object": b.u32(kernel), "grid": [b.u32(at + 4), b.u32(at + 8), b.u32(at + 12)],
                "block": b.u32(kernel + 16), "kernarg": format!("launch-{number}.kernarg"), "kernarg_size": size,
                "patches": own.iter().map(patch).collect::<Vec<_>>(),
            })
        })
        .collect();
    (json!({ "tensors": tensors, "launches": launches, "workspace_size": b.u64(root + 40) }), templates)
}

#[test]
fn the_description_is_enough_to_read_a_payload() {
    let scratch = Scratch::new();
    let Some(bin) = only_clang(&scratch) else { return };
    scratch.write("scale.json", scalar_graph(r#", "is_runtime_pass_by_value": true"#));
    for name in ["sample_conv_fwd.json", "sample_matmul.json", "conv_wrw_bf16_nchw_3x3.json"] {
        std::fs::copy(corpus().join(name), scratch.path(name)).expect("copied");
    }
    for graph in ["scale.json", "sample_conv_fwd.json", "sample_matmul.json", "conv_wrw_bf16_nchw_3x3.json"] {
        let run = |args: &[&str]| Ran::of(&scratch.hipplan(args).env("PATH", &bin).output().expect("started"));
        assert_eq!(run(&["compile", graph, "--store", graph.trim_end_matches("json"), "--target", "gfx90a"]).code, 0, "{graph}");
        let store = graph.trim_end_matches("json");
        assert_eq!(run(&["show", graph, "--store", store, "--launch", "--extract", "out"]).code, 0, "{graph}");
        let list: Value = serde_json::from_slice(&std::fs::read(scratch.path("out/launches.json")).expect("read")).expect("JSON");

        let files = common::tree(&scratch.path(store));
        let file = files.iter().find(|(name, bytes)| name.starts_with("plans") && !bytes.is_empty()).expect("a plan").1;
        let file = aligned::aligned_copy(file);
        let plan = PlanView::open(&file).expect("a plan");
        let payload = plan.payload().expect("a payload").accept("hip", 1, 1).expect("of the provider");
        let (decoded, templates) = decode(payload.body());
        assert_eq!((&decoded["launches"], &decoded["workspace_size"]), (&list["launches"], &list["workspace_size"]), "{graph}");
        let (tensors, told) = (decoded["tensors"].as_array().expect("tensors"), list["tensors"].as_array().expect("tensors"));
        assert_eq!(tensors.len(), told.len());
        for (tensor, told) in tensors.iter().zip(told) {
            for (key, value) in tensor.as_object().expect("an object") {
                assert_eq!(*value, told[key], "{graph}: {told}");
            }
        }
        // None of these has a default: what is written is the template.
        for (number, template) in templates.iter().enumerate() {
            assert_eq!(std::fs::read(scratch.path(&format!("out/launch-{number}.kernarg"))).expect("read"), *template, "{graph}");
        }
    }
}
