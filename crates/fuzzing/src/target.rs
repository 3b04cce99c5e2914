//! The fuzz targets: one reader each, and what must hold of whatever it accepts.
//!
//! The first byte of an input says how the rest becomes what the reader is given ([`Shell`](crate::shell::Shell)): as it stands, or
//! inside a shell whose lengths and digests are right, or as changes to something valid. Without shells nearly every input would end at
//! the first digest.

mod bundle;
mod code_object;
mod container;
mod driver;
mod elf_split;
mod engine;
mod graph;
mod json;
mod pack;
mod plan;
mod record;

use std::sync::atomic::{AtomicU64, Ordering};

/// How far an input came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Refused for its form: magic, lengths, digests, structure, syntax.
    Form,
    /// Refused for its meaning.
    Meaning,
    /// Accepted, and everything held that must hold of what is accepted.
    Accepted,
}

/// A reader to be fuzzed.
#[derive(Debug)]
pub struct Target {
    /// Name of the target and of its folder of inputs.
    pub name: &'static str,
    /// What is read.
    pub about: &'static str,
    read: fn(&[u8]) -> Stage,
    counts: [AtomicU64; 3],
}

impl Target {
    const fn new(name: &'static str, about: &'static str, read: fn(&[u8]) -> Stage) -> Self {
        Self { name, about, read, counts: [const { AtomicU64::new(0) }; 3] }
    }

    /// The target of this name.
    pub fn find(name: &str) -> &'static Self {
        TARGETS.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no fuzz target is named {name:?}"))
    }

    /// Reads one input.
    ///
    /// # Panics
    /// If something that the reader accepts is not what it must be.
    pub fn read(&self, input: &[u8]) -> Stage {
        (self.read)(input)
    }

    /// Reads one input and counts how far it came; tells the share on standard error after 2^12, 2^13, ... inputs.
    pub fn fuzz(&self, input: &[u8]) {
        let stage = self.read(input);
        self.counts[stage as usize].fetch_add(1, Ordering::Relaxed);
        let [form, meaning, accepted] = self.counts.each_ref().map(|n| n.load(Ordering::Relaxed));
        let all = form + meaning + accepted;
        if all >= 1 << 12 && all.is_power_of_two() {
            let share = |n: u64| 100.0 * n as f64 / all as f64;
            eprintln!(
                "{}: {all} inputs, {:.1} % reached the semantic stage, {:.1} % were accepted",
                self.name,
                share(meaning + accepted),
                share(accepted)
            );
        }
    }
}

/// All targets.
pub static TARGETS: [Target; 15] = [
    Target::new("graph_buffer", "a bare hipDNN graph buffer", graph::buffer),
    Target::new("graph_artifact", "a native graph artifact", graph::artifact),
    Target::new("canonical_encoding", "a canonical encoding", graph::encoding),
    Target::new("plan_file", "a plan file", plan::file),
    Target::new("plan_payload", "a provider payload container", plan::payload),
    Target::new("store_record", "an index record of the store", record::record),
    Target::new("pack", "a pack of the store", pack::pack),
    Target::new("bundle", "a wrapped bundle", bundle::bundle),
    Target::new("hipdnn_container", "hipDNN's plan envelope and HDGP container", container::container),
    Target::new("engine_tables", "engine details and engine configs", engine::tables),
    Target::new("code_object", "an AMD code object and its metadata note", code_object::read),
    Target::new("elf_split", "a shared library to be split, and the manifest of a split", elf_split::read),
    Target::new("json_graph", "hipDNN JSON", json::graph),
    Target::new("driver_line", "a MIOpenDriver command", driver::line),
    Target::new("driver_log", "a log with MIOpenDriver commands", driver::log),
];
