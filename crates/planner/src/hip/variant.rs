//! Which kernel does a piece of work, and how it is cut into blocks: a table of tiles and a small cost model.
//!
//! The model knows the multiply-adds that a variant makes, those that it wastes at the edges of tiles and of the last wave of blocks,
//! and a rate for each variant relative to the largest tile. It sees nothing but shapes and the target's number of compute units, so that the
//! choice is the same on every machine (P6).

use super::nest::{Nest, Role};
use super::work::{Number, Sum, Work};
use hipplan_serialize::Target;

/// A tile of the tiled product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    /// Rows and columns of a block, and the depth of one pass.
    pub(super) rows: i64,
    pub(super) columns: i64,
    pub(super) depth: i64,
    /// Rows and columns of a thread.
    pub(super) thread_rows: i64,
    pub(super) thread_columns: i64,
    /// Multiply-adds per unit of time, in percent of the largest tile's.
    rate: i64,
}

impl Tile {
    const fn new(block: [i64; 3], thread: [i64; 2], rate: i64) -> Self {
        Self { rows: block[0], columns: block[1], depth: block[2], thread_rows: thread[0], thread_columns: thread[1], rate }
    }

    /// Threads of a block.
    pub(super) const fn threads(&self) -> i64 {
        self.rows / self.thread_rows * (self.columns / self.thread_columns)
    }
}

/// The tiles, with rates as measured on an NVIDIA H200 over the layers of ResNet-50 and MobileNet. Matrix-core variants join this table
/// with a kernel body of their own.
pub(super) const TILES: [Tile; 6] = [
    Tile::new([128, 128, 8], [8, 8], 100),
    Tile::new([128, 64, 8], [8, 8], 118),
    Tile::new([64, 128, 8], [8, 8], 116),
    Tile::new([64, 64, 16], [4, 4], 94),
    Tile::new([128, 32, 8], [8, 4], 98),
    Tile::new([32, 32, 8], [4, 4], 70),
];

/// How a piece of work is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Tiled product; each result's depth is shared by so many blocks.
    Tiled { tile: Tile, splits: i64 },
    /// One thread for one result.
    Direct,
    /// One block for one result.
    Block,
    /// No depth.
    Elementwise,
}

/// Blocks of a grid in its second and third dimension.
const MOST_SLICES: i64 = 65_535;
/// Threads of a grid in its first dimension, which HIP counts in 32 bits.
const MOST_THREADS: i64 = u32::MAX as i64;
/// Multiply-adds per unit of time of a thread that reads both operands from memory, in percent of the largest tile's.
const DIRECT_RATE: i64 = 8;
/// Depth whose time the start and end of a block take.
const BLOCK_OVERHEAD: i64 = 48;
/// Multiply-adds of a device whose time it takes to write and read a part of a split sum.
const PART_COST: i64 = 28;
/// Multiply-adds of a compute unit whose time a further launch takes.
const LAUNCH_COST: i64 = 500_000;

/// The variant of the least cost.
pub(super) fn choose(work: &Work, target: &Target) -> Variant {
    let units = compute_units(target);
    let depth = work.nest.extent(Role::K);
    if depth == 0 {
        // Pixels of a strided data gradient that no tap reaches.
        return Variant::Direct;
    }
    let results = results(&work.nest);
    match work.sum {
        Sum::Nothing => Variant::Elementwise,
        Sum::Elements { .. } => {
            if block_cost(results, depth, units) < direct_cost(results, depth, units) {
                Variant::Block
            } else {
                Variant::Direct
            }
        }
        Sum::Products { .. } => {
            let mut best = (direct_cost(results, depth, units), Variant::Direct);
            let block = block_cost(results, depth, units);
            if block < best.0 {
                best = (block, Variant::Block);
            }
            for tile in TILES {
                if work.number == Number::F64 && tile.rows * tile.columns > 64 * 64 {
                    continue;
                }
                for splits in splits_of(depth).filter(|s| results.saturating_mul(*s) <= i64::from(i32::MAX)) {
                    let cost = tiled_cost(&work.nest, &tile, splits, units);
                    if cost < best.0 {
                        best = (cost, Variant::Tiled { tile, splits });
                    }
                }
            }
            best.1
        }
    }
}

/// Positions that are not summed over; saturating.
pub(super) fn results(nest: &Nest) -> i64 {
    [Role::M, Role::N, Role::Batch].into_iter().fold(1, |n, role| n.saturating_mul(nest.extent(role)))
}

/// Ways to share the depth that leave each block at least 256 of it.
fn splits_of(depth: i64) -> impl Iterator<Item = i64> {
    [1, 2, 4, 8, 16, 32, 64, 128].into_iter().filter(move |&s| s == 1 || depth / s >= 256)
}

fn direct_cost(results: i64, depth: i64, units: i64) -> i64 {
    waves(results, 256 * 8, units).saturating_mul(256 * 8).saturating_mul(depth + 8).saturating_mul(100 / DIRECT_RATE)
}

fn block_cost(results: i64, depth: i64, units: i64) -> i64 {
    if results.saturating_mul(256) > MOST_THREADS {
        return i64::MAX;
    }
    let passes = (depth + 255) / 256;
    // Taking the depth apart costs as much as several multiply-adds.
    waves(results, 8, units).saturating_mul(8 * 256).saturating_mul(passes.saturating_mul(2) + 16).saturating_mul(100 / DIRECT_RATE)
}

fn tiled_cost(nest: &Nest, tile: &Tile, splits: i64, units: i64) -> i64 {
    let batch = nest.extent(Role::Batch);
    if batch > MOST_SLICES {
        return i64::MAX;
    }
    let (rows, columns, depth) = (nest.extent(Role::M), nest.extent(Role::N), nest.extent(Role::K));
    let tiles = ceil(rows, tile.rows).saturating_mul(ceil(columns, tile.columns));
    if tiles.saturating_mul(tile.threads()) > MOST_THREADS {
        return i64::MAX;
    }
    let tiles = tiles.saturating_mul(batch).saturating_mul(splits);
    // Three blocks of 128 threads are at work on a compute unit at once, or as many threads in other blocks.
    let together = (384 / tile.threads()).max(1);
    let of_a_block = (tile.rows * tile.columns).saturating_mul(ceil(depth, splits) + BLOCK_OVERHEAD).saturating_mul(100) / tile.rate;
    let product = waves(tiles, together, units).saturating_mul(together).saturating_mul(of_a_block);
    if splits == 1 {
        return product;
    }
    let parts = rows.saturating_mul(columns).saturating_mul(batch).saturating_mul(splits);
    product.saturating_add(parts.saturating_mul(PART_COST) / units).saturating_add(LAUNCH_COST)
}

/// Rounds that the units need for so many pieces, of which each takes `together` at once.
fn waves(pieces: i64, together: i64, units: i64) -> i64 {
    ceil(pieces, together.saturating_mul(units)).max(1)
}

const fn ceil(n: i64, d: i64) -> i64 {
    n / d + (n % d != 0) as i64
}

/// Compute units of a device of the target; of a generic target or one that is not known, those of a middling device.
fn compute_units(target: &Target) -> i64 {
    let processor = match target {
        Target::Amd(amd) => amd.processor(),
        // The tests' own: an H200 has 132.
        Target::Cpu | Target::Test(_) => return 132,
    };
    match processor {
        "gfx908" => 120,
        "gfx90a" => 104,
        "gfx942" => 304,
        "gfx950" => 256,
        "gfx1030" => 80,
        "gfx1100" => 96,
        "gfx1101" => 60,
        "gfx1102" => 32,
        "gfx1151" => 40,
        "gfx1200" => 32,
        "gfx1201" => 64,
        _ => 64,
    }
}
