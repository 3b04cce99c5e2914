//! Digests and the keys of graphs, plans and selections.
//!
//! | input                   | GraphKey | PlanKey | SelectionKey | plan root hash |
//! |-------------------------|----------|---------|--------------|----------------|
//! | canonical graph         | yes      | through GraphKey | through GraphKey | through the canonical section |
//! | tensor and node names, caller's uids, graph id | no | no | no | no |
//! | preferred engine of a graph | no   | no      | through the policy | no       |
//! | target                  | no       | yes     | yes          | yes            |
//! | provider, engine, revision | no    | yes     | no           | yes            |
//! | knobs                   | no       | yes     | no           | yes            |
//! | selection policy: engine, provider, preference, knobs | no | no | yes | no |
//! | payload bytes           | no       | no      | no           | yes            |
//! | time, host, user, path  | no       | no      | no           | no             |

use crate::engine_id::engine_id_of_text;
use crate::hex::{self, Hex};
use std::fmt;
use std::str::FromStr;

/// The contexts of `docs/format.md`: bytes hashed for one purpose never stand for another.
pub(crate) mod context {
    pub(crate) const GRAPH_ARTIFACT: &str = "hipplan graph artifact 1";
    pub(crate) const GRAPH_KEY: &str = "hipplan graph key 1";
    pub(crate) const PLAN_KEY: &str = "hipplan plan key 1";
    pub(crate) const SELECTION_KEY: &str = "hipplan selection key 1";
    pub(crate) const PLAN_ROOT: &str = "hipplan plan root 1";
}

/// A text that is not the 64 hexadecimal digits of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} is not 64 hexadecimal digits")]
pub struct ParseKeyError {
    /// What was expected.
    pub kind: &'static str,
    /// What was found.
    pub text: String,
}

macro_rules! key_type {
    ($(#[$meta:meta])* $name:ident, $kind:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 32]);

        impl $name {
            /// The raw bytes.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// The first twelve hexadecimal digits, for tables.
            pub fn short(&self) -> String {
                let mut text = self.to_string();
                text.truncate(12);
                text
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Hex(&self.0).fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = ParseKeyError;

            fn from_str(text: &str) -> Result<Self, ParseKeyError> {
                hex::decode(text.bytes()).map(Self).ok_or_else(|| ParseKeyError { kind: $kind, text: text.to_owned() })
            }
        }
    };
}

key_type! {
    /// Identity of a graph: hash of its canonical encoding (G7).
    GraphKey, "graph key"
}
key_type! {
    /// Identity of a plan: graph, target, engine, engine revision, knobs.
    PlanKey, "plan key"
}
key_type! {
    /// Identity of a request for plans: graph, target, policy.
    SelectionKey, "selection key"
}
key_type! {
    /// Content address of a plan file: the root hash in its header.
    RootHash, "plan root hash"
}
key_type! {
    /// Plain BLAKE3 of some bytes.
    ContentHash, "content hash"
}

impl GraphKey {
    /// The key of a canonical encoding.
    pub fn of_encoding(encoding: &[u8]) -> Self {
        Self(blake3::derive_key(context::GRAPH_KEY, encoding))
    }
}

/// Content address of a blob: hash and size, inseparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Digest {
    /// BLAKE3 of the bytes.
    pub hash: ContentHash,
    /// Number of bytes.
    pub size: u64,
}

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self { hash: ContentHash(*blake3::hash(bytes).as_bytes()), size: bytes.len() as u64 }
    }
}

/// Content address of a plan file: root hash and length, inseparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PlanRef {
    /// Which plan this is.
    pub key: PlanKey,
    /// Root hash of its file.
    pub root: RootHash,
    /// Length of its file in bytes.
    pub size: u64,
}

/// One engine setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Knob {
    /// Name of the setting.
    pub id: String,
    /// Its value as text.
    pub value: String,
}

/// All that a [`PlanKey`] is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanIdentity {
    /// The graph.
    pub graph: GraphKey,
    /// Normalised target text, such as `cpu` or `gfx942:sramecc+:xnack-`.
    pub target: String,
    /// Name of the provider.
    pub provider: String,
    /// Name of the engine; its id is [`engine_id_of_text`] of it.
    pub engine: String,
    /// Changes whenever the engine might compile the same graph into something else.
    pub engine_revision: String,
    /// Settings, in any order.
    pub knobs: Vec<Knob>,
}

impl PlanIdentity {
    /// The key of this identity; the order of knobs does not matter.
    pub fn key(&self) -> PlanKey {
        let Self { graph, target, provider, engine, engine_revision, knobs } = self;
        let mut record = KeyRecord::new(context::PLAN_KEY, graph);
        record.text(target).text(provider).text(engine).text(engine_revision);
        record.knobs(knobs);
        PlanKey(record.finish())
    }
}

/// How plans of a graph are chosen and ordered. Part of a [`SelectionKey`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Policy {
    /// Only this engine, by its name or by the text of its id ([`engine_id_of_text`]).
    pub engine: Option<String>,
    /// Only engines of the provider of this name.
    pub provider: Option<String>,
    /// The engine with this id before all others, if it takes the graph: what a graph states as its preferred engine.
    pub preferred: Option<i64>,
    /// Settings that the engine must know, in any order.
    pub knobs: Vec<Knob>,
}

impl Policy {
    /// The first engine of the first provider that takes the graph, with its own settings.
    pub const DEFAULT: Self = Self { engine: None, provider: None, preferred: None, knobs: Vec::new() };

    /// Only this engine, by name or by the text of its id.
    pub fn engine(engine: impl Into<String>) -> Self {
        Self { engine: Some(engine.into()), ..Self::DEFAULT }
    }

    /// This policy for a graph: with the engine that the graph prefers, unless the policy has a preference of its own, or names an engine
    /// and leaves nothing to prefer.
    #[must_use]
    pub fn preferring(&self, engine_id: Option<i64>) -> Self {
        let engine_id = engine_id.filter(|_| self.engine.is_none());
        Self { preferred: self.preferred.or(engine_id), ..self.clone() }
    }

    /// The policy without a preference. A preference that no engine meets counts as none.
    #[must_use]
    pub fn without_preference(&self) -> Self {
        Self { preferred: None, ..self.clone() }
    }
}

impl SelectionKey {
    /// The key of a request; the order of knobs does not matter.
    pub fn new(graph: &GraphKey, target: &str, policy: &Policy) -> Self {
        let mut record = KeyRecord::new(context::SELECTION_KEY, graph);
        record.text(target);
        let Policy { engine, provider, preferred, knobs } = policy;
        match (engine, provider, preferred, knobs.as_slice()) {
            (None, None, None, []) => record.text("default"),
            _ => {
                record.text("policy");
                // An engine is one, by name and by id.
                let engine = engine.as_deref().map(|text| engine_id_of_text(text).to_string());
                for choice in [engine.as_deref(), provider.as_deref(), preferred.map(|id| id.to_string()).as_deref()] {
                    record.count(usize::from(choice.is_some()));
                    record.text(choice.unwrap_or_default());
                }
                record.knobs(knobs)
            }
        };
        Self(record.finish())
    }

    /// The key under which all plans of a graph and target are listed, whatever the request that they were compiled for: where a lookup goes
    /// on that found nothing under its own key.
    pub fn of_all(graph: &GraphKey, target: &str) -> Self {
        let mut record = KeyRecord::new(context::SELECTION_KEY, graph);
        record.text(target).text("all");
        Self(record.finish())
    }
}

/// A hasher of length-prefixed fields.
struct KeyRecord(blake3::Hasher);

impl KeyRecord {
    fn new(context: &str, graph: &GraphKey) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&graph.0);
        Self(hasher)
    }

    fn count(&mut self, n: usize) -> &mut Self {
        self.0.update(&(n as u64).to_le_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.count(text.len());
        self.0.update(text.as_bytes());
        self
    }

    /// In the order of their ids.
    fn knobs(&mut self, knobs: &[Knob]) -> &mut Self {
        let mut sorted: Vec<&Knob> = knobs.iter().collect();
        sorted.sort();
        self.count(sorted.len());
        for Knob { id, value } in sorted {
            self.text(id).text(value);
        }
        self
    }

    fn finish(&self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine_id::{engine_id, engine_id_text};

    #[test]
    fn keys_print_and_parse() {
        let key = GraphKey::of_encoding(b"x");
        assert_eq!(key.to_string().parse::<GraphKey>(), Ok(key));
        assert!("abc".parse::<GraphKey>().is_err());
        assert!("g".repeat(64).parse::<GraphKey>().is_err());
        assert!("é".repeat(32).parse::<GraphKey>().is_err());
    }

    #[test]
    fn every_part_of_a_plan_identity_is_in_its_key() {
        let base = PlanIdentity {
            graph: GraphKey::of_encoding(b"g"),
            target: "cpu".into(),
            provider: "cpu".into(),
            engine: "E".into(),
            engine_revision: "1".into(),
            knobs: vec![Knob { id: "a".into(), value: "1".into() }, Knob { id: "b".into(), value: "2".into() }],
        };
        let key = base.key();
        let mut swapped = base.clone();
        swapped.knobs.reverse();
        assert_eq!(swapped.key(), key);
        let changes: [fn(&mut PlanIdentity); 7] = [
            |p| p.graph = GraphKey::of_encoding(b"h"),
            |p| p.target = "gfx942".into(),
            |p| p.provider = "hip".into(),
            |p| p.engine = "F".into(),
            |p| p.engine_revision = "2".into(),
            |p| p.knobs[0].value = "3".into(),
            // The border between two texts is part of the key.
            |p| {
                p.target = "cpuc".into();
                p.provider = "pu".into();
            },
        ];
        for change in changes {
            let mut other = base.clone();
            change(&mut other);
            assert_ne!(other.key(), key, "{other:?}");
        }
    }

    #[test]
    fn every_part_of_a_policy_is_in_the_selection_key() {
        let graph = GraphKey::of_encoding(b"g");
        let knob = |id: &str, value: &str| Knob { id: id.into(), value: value.into() };
        let base = Policy { knobs: vec![knob("a", "1"), knob("b", "2")], ..Policy::DEFAULT };
        let policies = [
            Policy::DEFAULT,
            Policy::engine("default"),
            Policy::engine("all"),
            Policy { provider: Some("default".into()), ..Policy::DEFAULT },
            Policy { preferred: Some(7), ..Policy::DEFAULT },
            Policy { preferred: Some(-7), ..Policy::DEFAULT },
            Policy { engine: Some("7".into()), provider: Some(String::new()), ..Policy::DEFAULT },
            Policy { engine: Some("7".into()), preferred: Some(7), ..Policy::DEFAULT },
            Policy { knobs: vec![knob("a", "1")], ..Policy::DEFAULT },
            Policy { knobs: vec![knob("a", "2")], ..Policy::DEFAULT },
            base.clone(),
        ];
        for (i, one) in policies.iter().enumerate() {
            for (j, other) in policies.iter().enumerate() {
                let same = SelectionKey::new(&graph, "cpu", one) == SelectionKey::new(&graph, "cpu", other);
                assert_eq!(same, i == j, "{one:?} and {other:?}");
            }
        }
        let mut swapped = base.clone();
        swapped.knobs.reverse();
        assert_eq!(SelectionKey::new(&graph, "cpu", &swapped), SelectionKey::new(&graph, "cpu", &base));
        let by_id = Policy::engine(engine_id_text(engine_id("default")));
        assert_eq!(SelectionKey::new(&graph, "cpu", &by_id), SelectionKey::new(&graph, "cpu", &Policy::engine("default")));
        assert!(policies.iter().all(|policy| SelectionKey::new(&graph, "cpu", policy) != SelectionKey::of_all(&graph, "cpu")));
        assert_ne!(SelectionKey::new(&graph, "cpu", &base), SelectionKey::new(&graph, "gfx942", &base));
    }

    #[test]
    fn a_preference_of_the_policy_comes_before_that_of_the_graph() {
        let own = Policy { preferred: Some(1), ..Policy::DEFAULT };
        assert_eq!(own.preferring(Some(2)).preferred, Some(1));
        assert_eq!(Policy::DEFAULT.preferring(Some(2)).preferred, Some(2));
        assert_eq!(Policy::DEFAULT.preferring(None), Policy::DEFAULT);
        assert_eq!(Policy::engine("E").preferring(Some(2)), Policy::engine("E"));
        assert_eq!(own.without_preference(), Policy::DEFAULT);
    }
}
