//! What an executable was made for.

use crate::{ExecError, MemorySpace};
use hipplan_serialize::GraphKey;

/// What an executable was made for. It computes in memory of that place and size, whatever the plan says that it is bound to: binding compares
/// the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The graph, and with it how large each buffer is and which are scalars.
    pub graph: GraphKey,
    /// Whose memory its buffers are.
    pub memory: MemorySpace,
    /// Bytes of workspace that it uses.
    pub workspace_size: u64,
}

impl Requirement {
    /// Whether a plan of this graph and workspace, bound to a device of this memory, gives it what it needs.
    pub(crate) fn check(&self, graph: GraphKey, memory: MemorySpace, workspace_size: u64) -> Result<(), ExecError> {
        let fail = |what, found: String, expected: String| Err(ExecError::MadeForAnother { what, found, expected });
        if self.graph != graph {
            return fail("graph", self.graph.to_string(), graph.to_string());
        }
        if self.memory != memory {
            return fail("buffers in", self.memory.to_string(), memory.to_string());
        }
        if self.workspace_size > workspace_size {
            return fail("bytes of workspace:", self.workspace_size.to_string(), workspace_size.to_string());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_gives_what_is_needed_or_is_refused() {
        let (graph, other) = (GraphKey::of_encoding(b"a graph"), GraphKey::of_encoding(b"another"));
        let gpu = |ordinal| MemorySpace::Hip { ordinal, runtime: 0 };
        let needs = Requirement { graph, memory: gpu(0), workspace_size: 32 };
        assert!(needs.check(graph, gpu(0), 32).is_ok() && needs.check(graph, gpu(0), 64).is_ok());
        for (graph, memory, workspace, what) in [
            (other, gpu(0), 32, "graph"),
            (graph, gpu(1), 32, "memory of HIP device 0"),
            (graph, MemorySpace::Host, 32, "host memory"),
            (graph, gpu(0), 31, "workspace: 32"),
        ] {
            let error = needs.check(graph, memory, workspace).expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
