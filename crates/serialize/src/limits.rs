//! What a reader is willing to take from a file.

/// Most bytes that a FlatBuffers buffer can address: its offsets back to a vtable are signed. No limit lifts this.
pub(crate) const FORMAT_MAX_BYTES: u64 = i32::MAX as u64;
/// Most dimensions that the canonical encoding can count. No limit lifts this.
pub(crate) const FORMAT_MAX_RANK: usize = u8::MAX as usize;

/// Limits on what is read. Each names itself in the error of the input that exceeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one graph, in any form; never more than 2^31 - 1, which is what a buffer can address.
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
    /// Operands of all nodes together.
    pub max_operands: usize,
    /// Dimensions of a tensor; never more than 255, which is what the canonical encoding can count.
    pub max_rank: usize,
    /// Elements from a tensor's first to its last, in memory: strides included.
    pub max_elements: u64,
    /// Bytes of one line of a log, continuations joined.
    pub max_line_bytes: usize,
    /// Different problems that are kept of a log.
    pub max_problems: usize,
    /// Skipped records of a log that are listed; more are counted.
    pub max_skipped: usize,
}

impl Limits {
    /// The limits that hold unless others are given. A table costs about 0.15 us to verify, an operand less to look up: the worst
    /// graph that they let through is read in tens of milliseconds.
    pub const DEFAULT: Self = Self {
        max_bytes: 64 << 20,
        max_json_bytes: 16 << 20,
        max_tables: 100_000,
        max_depth: 64,
        max_tensors: 50_000,
        max_nodes: 32_768,
        max_operands: 250_000,
        max_rank: 8,
        max_elements: 1 << 40,
        max_line_bytes: 64 << 10,
        max_problems: 100_000,
        max_skipped: 10_000,
    };
}

impl Limits {
    /// `max_bytes`, or what the format can address.
    pub(crate) fn bytes(&self) -> u64 {
        self.max_bytes.min(FORMAT_MAX_BYTES)
    }

    /// `max_rank`, or what the format can count.
    pub(crate) fn rank(&self) -> usize {
        self.max_rank.min(FORMAT_MAX_RANK)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
