//! What property tests and fuzz targets share: generators of random graphs, and oracles over the readers.
//!
//! A [`Model`] is a graph as an author might think of it: operands are positions, not uids. It is written as hipDNN JSON in one
//! of many equal ways ([`Model::json`]), which the importer turns into a buffer. [`Generator`] makes models that are valid.
//!
//! A [`Target`] is a reader and what must hold of whatever it accepts. The fuzz engine in `fuzz/` only calls it; the tests of this crate
//! replay `corpus/fuzz`.
#![expect(clippy::missing_panics_doc, reason = "a generator that makes an invalid graph must stop the test that uses it")]

pub mod generate;
pub mod model;
pub mod rng;
pub mod shell;
pub mod target;

pub use generate::Generator;
pub use model::{FieldValue, Model, Node, Style, Tensor};
pub use rng::Rng;
pub use target::{Stage, TARGETS, Target};
