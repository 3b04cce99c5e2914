//! hipDNN's own containers of plans: the [`envelope`] around a plugin's bytes, and the [`container`] of a graph and a plan.
//!
//! An envelope names neither the target nor the graph that it was made for. It can be shown and converted, but there is no key
//! for it: it never enters the index of a store.

pub mod container;
pub mod envelope;

pub use container::Container;
pub use envelope::PlanEnvelope;
