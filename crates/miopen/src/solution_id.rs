//! Ids of the solutions that are ours, which callers keep and bring back.

use hipplan_miopen_abi::types::{Enum, algorithm};

/// The upper half of all of ours, for a person to recognise: the top bit and `HP`. MIOpen's ids are small numbers.
pub const OURS: u64 = 0x8000_4850 << 32;

/// The algorithm that ours are told to be, a member of all of MIOpen's algorithm enumerations.
pub const ALGORITHM: Enum = algorithm::IMPLICIT_GEMM;

/// If the solution is not MIOpen's.
pub const fn is_ours(solution_id: u64) -> bool {
    solution_id >> 32 == OURS >> 32
}

/// The id of the plan with this key: the first 32 bits of the key below [`OURS`].
pub const fn of_plan(key: &[u8; 32]) -> u64 {
    let [a, b, c, d, ..] = *key;
    OURS | u32::from_be_bytes([a, b, c, d]) as u64
}
