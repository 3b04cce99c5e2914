//! hipDNN's own containers of plans: the [`envelope`] around a plugin's bytes, and the [`container`] of a graph and a plan; and what host and
//! plugin say to each other of an [`engine`] and its [`knob`]s.
//!
//! An envelope names neither the target nor the graph that it was made for. It can be shown and converted, but there is no key
//! for it: it never enters the index of a store.

pub mod container;
pub mod engine;
pub mod envelope;
pub mod knob;

pub use container::Container;
pub use envelope::PlanEnvelope;

/// How the FlatBuffers of plugins are verified.
fn verifier_options(limits: &crate::Limits) -> flatbuffers::VerifierOptions {
    flatbuffers::VerifierOptions {
        max_depth: limits.max_depth,
        max_tables: limits.max_tables,
        max_apparent_size: usize::try_from(limits.bytes()).unwrap_or(usize::MAX),
        ..flatbuffers::VerifierOptions::default()
    }
}
