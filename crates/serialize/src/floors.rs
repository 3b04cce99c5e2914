//! Which engine API a graph needs, derived from what stands in it (G9, R16 §4.4 and §4.7).

use crate::ApiVersion;
use crate::graph::VerifiedGraph;

/// The features of a graph that older engines do not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Execute-time shapes are enabled.
    pub override_shapes: bool,
    /// Some tensor is a runtime pass-by-value scalar, with or without a default.
    pub runtime_pass_by_value: bool,
    /// Some tensor has an alignment other than 16.
    pub alignment: bool,
    /// Some tensor is ragged.
    pub ragged: bool,
    /// Some ragged offset has a multiplier other than 1.
    pub ragged_multiplier: bool,
}

/// The alignment that a tensor has unless it says otherwise.
pub const DEFAULT_ALIGNMENT: i64 = 16;

impl Features {
    /// The features of a graph: one pass over its tensors.
    pub fn of_graph(graph: &VerifiedGraph<'_>) -> Self {
        let mut features = Self { override_shapes: graph.is_override_shape_enabled(), ..Self::default() };
        for t in graph.tensors() {
            features.add_tensor(t.is_runtime, t.alignment, t.ragged_offset.is_some(), t.ragged_multiplier);
        }
        features
    }

    /// Adds what one tensor needs.
    pub(crate) fn add_tensor(&mut self, is_runtime: bool, alignment: i64, is_ragged: bool, multiplier: i64) {
        self.runtime_pass_by_value |= is_runtime;
        self.alignment |= alignment != DEFAULT_ALIGNMENT;
        self.ragged |= is_ragged;
        self.ragged_multiplier |= multiplier != 1;
    }

    /// The lowest engine API version that knows all of them; the highest floor wins.
    pub fn floor(self) -> ApiVersion {
        let Self { override_shapes, runtime_pass_by_value, alignment, ragged, ragged_multiplier } = self;
        [
            (override_shapes, ApiVersion::OVERRIDE_SHAPES),
            (runtime_pass_by_value, ApiVersion::RUNTIME_PASS_BY_VALUE),
            (alignment || ragged, ApiVersion::RAGGED_OR_ALIGNMENT),
            (ragged_multiplier, ApiVersion::RAGGED_MULTIPLIER),
        ]
        .into_iter()
        .filter_map(|(used, floor)| used.then_some(floor))
        .max()
        .unwrap_or(ApiVersion::BASELINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_floor_wins() {
        let none = Features::default();
        assert_eq!(none.floor(), ApiVersion::BASELINE);
        assert_eq!(Features { override_shapes: true, ..none }.floor(), ApiVersion::new(1, 1, 0));
        assert_eq!(Features { override_shapes: true, runtime_pass_by_value: true, ..none }.floor(), ApiVersion::new(1, 2, 0));
        assert_eq!(Features { alignment: true, runtime_pass_by_value: true, ..none }.floor(), ApiVersion::new(1, 3, 0));
        assert_eq!(Features { ragged: true, ..none }.floor(), ApiVersion::new(1, 3, 0));
        assert_eq!(Features { ragged: true, ragged_multiplier: true, ..none }.floor(), ApiVersion::new(1, 4, 0));
    }
}
