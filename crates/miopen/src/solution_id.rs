//! Ids of the solutions that are ours, which callers keep and bring back.

use hipplan_miopen_abi::types::{Enum, algorithm};

/// The bit that all of ours have. MIOpen's ids are small numbers.
pub const OURS: u64 = 1 << 63;

/// The algorithm that ours are told to be, a member of all of MIOpen's algorithm enumerations.
pub const ALGORITHM: Enum = algorithm::IMPLICIT_GEMM;

/// If the solution is not MIOpen's.
pub const fn is_ours(solution_id: u64) -> bool {
    solution_id & OURS != 0
}
