//! Which engine API a graph needs, derived from what stands in it (G9, R16 §4.4 and §4.7).

use crate::ApiVersion;
use crate::graph::{TensorIx, VerifiedGraph};

/// One feature that older engines do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Execute-time shapes are enabled.
    OverrideShapes,
    /// A tensor is a runtime pass-by-value scalar, with or without a default.
    RuntimePassByValue,
    /// A tensor has an alignment other than 16.
    Alignment,
    /// A tensor is ragged.
    Ragged,
    /// A tensor's ragged offsets have a multiplier other than 1.
    RaggedMultiplier,
}

impl Feature {
    /// All of them, ascending by floor.
    pub const ALL: &'static [Self] =
        &[Self::OverrideShapes, Self::RuntimePassByValue, Self::Alignment, Self::Ragged, Self::RaggedMultiplier];

    /// The lowest engine API version that knows it.
    pub const fn floor(self) -> ApiVersion {
        match self {
            Self::OverrideShapes => ApiVersion::OVERRIDE_SHAPES,
            Self::RuntimePassByValue => ApiVersion::RUNTIME_PASS_BY_VALUE,
            Self::Alignment | Self::Ragged => ApiVersion::RAGGED_OR_ALIGNMENT,
            Self::RaggedMultiplier => ApiVersion::RAGGED_MULTIPLIER,
        }
    }

    /// Words for a person.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OverrideShapes => "execute-time shapes",
            Self::RuntimePassByValue => "runtime pass-by-value",
            Self::Alignment => "alignment other than 16",
            Self::Ragged => "ragged tensor",
            Self::RaggedMultiplier => "ragged offset multiplier",
        }
    }
}

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

    /// Whether this one is among them.
    pub const fn has(self, feature: Feature) -> bool {
        let Self { override_shapes, runtime_pass_by_value, alignment, ragged, ragged_multiplier } = self;
        match feature {
            Feature::OverrideShapes => override_shapes,
            Feature::RuntimePassByValue => runtime_pass_by_value,
            Feature::Alignment => alignment,
            Feature::Ragged => ragged,
            Feature::RaggedMultiplier => ragged_multiplier,
        }
    }

    /// The lowest engine API version that knows all of them; the highest floor wins.
    pub fn floor(self) -> ApiVersion {
        let floors = Feature::ALL.iter().filter(|&&feature| self.has(feature)).map(|feature| feature.floor());
        floors.max().unwrap_or(ApiVersion::BASELINE)
    }
}

/// One reason for a graph's floor: a feature, and the tensor that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The feature.
    pub feature: Feature,
    /// The tensor; none when the graph as a whole asks for the feature.
    pub tensor: Option<TensorIx>,
}

/// Every reason for the floor of a graph, ascending by floor, then in the order of the tensors. Tensors that no node names count:
/// readers count them too.
pub fn causes(graph: &VerifiedGraph<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for &feature in Feature::ALL {
        if feature == Feature::OverrideShapes && graph.is_override_shape_enabled() {
            causes.push(Cause { feature, tensor: None });
        }
        for (t, ix) in graph.tensors().iter().zip(graph.tensor_ixs()) {
            let mut own = Features::default();
            own.add_tensor(t.is_runtime, t.alignment, t.ragged_offset.is_some(), t.ragged_multiplier);
            if own.has(feature) {
                causes.push(Cause { feature, tensor: Some(ix) });
            }
        }
    }
    causes
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

    #[test]
    fn the_list_ascends() {
        assert!(Feature::ALL.windows(2).all(|pair| pair[0].floor() <= pair[1].floor()));
    }
}
