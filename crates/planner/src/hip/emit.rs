//! From a piece of work and a variant to kernels and launches.

use super::epilogue::Epilogue;
use super::nest::{Loop, Nest, Role};
use super::text::{Body, DEPTH_OVERSHOOT, Kernel, Writer};
use super::variant::{self, Tile, Variant};
use super::work::{Element, Number, OUT, Operand, Sum, Work, X, Y};
use hipplan_serialize::{ReductionMode, Target};

/// A kernel, its arguments and its grid.
#[derive(Clone, Debug)]
pub(super) struct KernelLaunch {
    pub(super) kernel: Kernel,
    pub(super) grid: [u32; 3],
}

/// Memory for the parts of split sums: asked for in bytes, answered with the tensor's position.
pub(super) type Scratch<'s> = dyn FnMut(u64) -> u32 + 's;

/// Why work cannot be launched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooLarge {
    /// Positions are counted in 32 bits.
    #[error("{what} is {found}, and kernels count to {}", i32::MAX)]
    Count { what: &'static str, found: i64 },
}

/// The launches of a piece of work, in order.
pub(super) fn launches(work: &Work, target: &Target, scratch: &mut Scratch<'_>) -> Result<Vec<KernelLaunch>, TooLarge> {
    check(work)?;
    Ok(match variant::choose(work, target) {
        Variant::Elementwise => vec![one_for_each(work, "elementwise", include_str!("../../kernels/elementwise.h"), 1024)],
        Variant::Direct => vec![one_for_each(work, "direct", DIRECT, 256)],
        Variant::Block => vec![block(work)],
        Variant::Tiled { tile, splits: 1 } => vec![tiled(work, &tile, None)],
        Variant::Tiled { tile, splits } => split(work, &tile, splits, target, scratch),
    })
}

fn check(work: &Work) -> Result<(), TooLarge> {
    let nest = &work.nest;
    let depth = nest.extent(Role::K);
    let reach = (0..nest.windows.len()).map(|w| nest.window_reach(w, DEPTH_OVERSHOOT));
    let counts = [("the number of results", variant::results(nest)), ("the depth of a sum", depth)];
    for (what, found) in counts.into_iter().chain(reach.map(|r| ("a coordinate of a window", r))) {
        // Some room, so that positions can be rounded up to whole tiles.
        if found > i64::from(i32::MAX) - 65_536 {
            return Err(TooLarge::Count { what, found });
        }
    }
    Ok(())
}

/// A thread for each result.
fn one_for_each(work: &Work, kind: &'static str, text: &'static str, per_block: i64) -> KernelLaunch {
    let results = variant::results(&work.nest);
    let mut writer = Writer::new(work);
    writer.int("results", results);
    writer.position();
    if !matches!(work.sum, Sum::Nothing) {
        writer.loops(DIRECT_UNROLLED);
    }
    let kernel = writer.finish(&Body { kind, text, defines: Vec::new(), block: 256 });
    KernelLaunch { kernel, grid: [blocks(results, per_block), 1, 1] }
}

const DIRECT: &str = include_str!("../../kernels/direct.h");
/// Depth up to which loops of a direct kernel are unrolled.
const DIRECT_UNROLLED: i64 = 32;

fn block(work: &Work) -> KernelLaunch {
    let mut writer = Writer::new(work);
    writer.int("depth", work.nest.extent(Role::K));
    writer.position();
    writer.depth();
    let text = include_str!("../../kernels/block.h");
    let kernel = writer.finish(&Body { kind: "block", text, defines: Vec::new(), block: 256 });
    KernelLaunch { kernel, grid: [blocks(variant::results(&work.nest), 1), 1, 1] }
}

/// How the depth is shared: blocks of a result, depth of each, and elements between their parts.
struct Split {
    splits: i64,
    depth: i64,
    stride: i64,
}

fn tiled(work: &Work, tile: &Tile, split: Option<&Split>) -> KernelLaunch {
    let nest = &work.nest;
    let (rows, columns, depth) = (nest.extent(Role::M), nest.extent(Role::N), nest.extent(Role::K));
    let mut writer = Writer::new(work);
    writer.int("rows", rows);
    writer.int("columns", columns);
    writer.int("depth", depth);
    let tiles_n = i64::from(blocks(columns, tile.columns));
    writer.divisor("tiles_n", tiles_n);
    let mut defines = vec![
        ("HP_BM", tile.rows),
        ("HP_BN", tile.columns),
        ("HP_BK", tile.depth),
        ("HP_TM", tile.thread_rows),
        ("HP_TN", tile.thread_columns),
    ];
    if nest.fastest_stride(Role::K, X) == 1 && nest.fastest_stride(Role::M, X) != 1 {
        defines.push(("HP_X_ALONG_K", 1));
    }
    if nest.fastest_stride(Role::K, Y) == 1 && nest.fastest_stride(Role::N, Y) != 1 {
        defines.push(("HP_Y_ALONG_K", 1));
    }
    if let Some(split) = split {
        writer.int("split_depth", split.depth);
        writer.index("split_stride", split.stride);
        defines.push(("HP_SPLIT", 1));
    }
    writer.rows_and_columns();
    writer.depth();
    let text = include_str!("../../kernels/gemm.h");
    let kernel = writer.finish(&Body { kind: "gemm", text, defines, block: tile.threads() as u32 });
    let grid = [blocks(rows, tile.rows) * tiles_n as u32, nest.extent(Role::Batch) as u32, split.map_or(1, |s| s.splits as u32)];
    KernelLaunch { kernel, grid }
}

/// Parts of the sums into scratch memory, then their sums in a fixed order, so that results do not depend on timing.
fn split(work: &Work, tile: &Tile, splits: i64, target: &Target, scratch: &mut Scratch<'_>) -> Vec<KernelLaunch> {
    let depth = work.nest.extent(Role::K);
    let share = depth.div_euclid(splits) + i64::from(depth % splits != 0);
    let share = share.div_euclid(tile.depth) * tile.depth + if share % tile.depth == 0 { 0 } else { tile.depth };
    let splits = i64::from(blocks(depth, share));
    let results = variant::results(&work.nest);
    let number = work.number;
    let tensor = scratch((results * splits) as u64 * number.size());
    let part = Operand { tensor, element: number.element() };

    // Parts lie in the order of the loops, one set behind the other.
    let mut parts = work.clone();
    parts.epilogue = Epilogue::default();
    parts.out = part;
    parts.nest.bases.truncate(OUT);
    parts.nest.bases.push(0);
    let mut sums = work.clone();
    let mut stride = 1;
    for (l, s) in parts.nest.loops.iter_mut().zip(&mut sums.nest.loops).filter(|(l, _)| l.role != Role::K) {
        l.strides.truncate(OUT);
        l.strides.push(stride);
        s.strides[X] = stride;
        s.strides[Y] = 0;
        s.window = None;
        stride *= l.extent;
    }
    for l in parts.nest.loops.iter_mut().filter(|l| l.role == Role::K) {
        l.strides.truncate(OUT);
        l.strides.push(0);
    }
    sums.nest.loops.retain(|l| l.role != Role::K);
    let mut strides = vec![0; sums.nest.bases.len()];
    strides[X] = results;
    sums.nest.loops.push(Loop { role: Role::K, extent: splits, strides, window: None });
    sums.nest = Nest { loops: sums.nest.loops, windows: Vec::new(), bases: sums.nest.bases };
    sums.nest.bases[X] = 0;
    sums.nest.bases[Y] = 0;
    for l in sums.nest.loops.iter_mut().filter(|l| l.role != Role::K) {
        l.role = Role::M;
    }
    sums.nest.simplify(|_| X);
    sums.sum = Sum::Elements { x: part, mode: ReductionMode::Add, count: splits };
    let mut launches = vec![tiled(&parts, tile, Some(&Split { splits, depth: share, stride: results }))];
    launches.push(match variant::choose(&sums, target) {
        Variant::Block => block(&sums),
        _ => one_for_each(&sums, "direct", DIRECT, 256),
    });
    launches
}

/// Blocks for so many pieces. What is counted was checked to fit 31 bits.
fn blocks(pieces: i64, per_block: i64) -> u32 {
    (pieces / per_block + i64::from(pieces % per_block != 0)).max(1) as u32
}

/// The type that sums of products are computed in: the widest of what is read and asked for. Sums of 8-bit products are exact, and run in
/// 32-bit integers where that is enough for `depth` of them, or where the result wraps as they do: in int32.
pub(super) fn number_of_product(x: Element, y: Element, result: Element, depth: i64, is_wide: bool) -> Number {
    let fits = depth <= i64::from(i32::MAX) / (255 * 255);
    match (x.is_byte() && y.is_byte(), x.is_byte() || y.is_byte()) {
        (true, _) if fits || result == Element::I32 => Number::I32,
        (_, true) => Number::F64,
        _ if is_wide || x.is_wide() || y.is_wide() => Number::F64,
        _ => Number::F32,
    }
}
