//! What a reader is willing to take from a file.

/// Limits on what is read. Each names itself in the error of the input that exceeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one graph, in any form.
    pub max_bytes: u64,
    /// Bytes of JSON text, which take many times their size in memory while they are read.
    pub max_json_bytes: u64,
    /// FlatBuffers tables in one buffer.
    pub max_tables: usize,
    /// Nesting of FlatBuffers tables.
    pub max_depth: usize,
    /// Tensors in a graph.
    pub max_tensors: usize,
    /// Nodes in a graph.
    pub max_nodes: usize,
    /// Dimensions of a tensor.
    pub max_rank: usize,
    /// Elements from a tensor's first to its last, in memory: strides included.
    pub max_elements: u64,
}

impl Limits {
    /// The limits that hold unless others are given.
    pub const DEFAULT: Self = Self {
        max_bytes: 64 << 20,
        max_json_bytes: 16 << 20,
        max_tables: 1_000_000,
        max_depth: 64,
        max_tensors: 100_000,
        max_nodes: 100_000,
        max_rank: 8,
        max_elements: 1 << 40,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
