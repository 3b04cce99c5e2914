//! The one product under convolution and matmul: a matrix product whose left operand is gathered through offset tables.
//!
//! `out[g, i, j] = sum over d of L[lbase(g) + lrow(i) + depth[d]] * R[rbase(g) + j * ld + d]`
//!
//! The left operand is packed panel by panel straight from its tensor (an implicit im2col when the tables are those of a
//! convolution); the right one is read in place, so its depth must be contiguous: [`super::stage`] sees to that. A task
//! computes a tile over the whole depth and then runs the row program on it while it is in cache. Each element is
//! summed in the order of the depth table, cut at multiples of `KC` only: neither the tile shape nor the number of
//! threads changes a bit of the result.

use super::kernel::{Isa, Microkernels, Panel};
use super::pack::{Pack, Segment};
use super::pool::ThreadPool;
use super::rows::{MAX_LOOPS, RowProgram, split};
use super::scratch::bytes_of;

/// Columns taken through all panels of a block before the next ones: a depth block of them (24 KiB) stays in the
/// first-level cache, the panels in the second-level one. A multiple of the columns of every microkernel.
const NB: usize = 12;
/// Most columns of a tile.
const NC: usize = 2064;
/// Most rows of a tile.
const MC: usize = 512;
/// Most elements of a packed block: a quarter of a second-level cache.
const PACKED: usize = 128 * 1024;
/// A run of rows is long if it has at least so many panels: at three, the short panel at its end cost more than it saved.
const LONG: usize = 8;
/// Least rows of a panel of any instruction set.
const MR_LEAST: usize = 2;
/// Most elements of a tile kept in scratch: half of a second-level cache.
const TILE: usize = 256 * 1024;

/// Where an operand's elements lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// In a tensor, from an element offset on.
    Tensor { ordinal: usize, base: isize },
    /// In the shared scratch, from a byte offset on.
    Scratch { offset: u64 },
}

/// What every step runs with.
pub(crate) struct Context<'a> {
    /// Base pointers by tensor ordinal.
    pub(crate) bases: &'a [*mut u8],
    /// Scratch shared by the workers.
    pub(crate) shared: *mut u8,
    /// Scratch of worker `w` at `w * private_stride`.
    pub(crate) private: *mut u8,
    /// See `private`.
    pub(crate) private_stride: usize,
    /// The threads.
    pub(crate) pool: &'a ThreadPool,
    /// The kernels.
    pub(crate) isa: Isa,
}

// SAFETY: the pointers are only followed inside `unsafe` blocks that argue which thread touches which elements.
unsafe impl Sync for Context<'_> {}

impl Context<'_> {
    /// Base pointers by tensor ordinal.
    pub(crate) fn bases(&self) -> &[*mut u8] {
        self.bases
    }

    /// The address of a source's first element.
    ///
    /// # Safety
    /// The source lies within its tensor or the shared scratch.
    pub(crate) unsafe fn address<T>(&self, source: Source) -> *const T {
        // SAFETY: the caller vouches for the offset.
        unsafe {
            match source {
                Source::Tensor { ordinal, base } => self.bases[ordinal].cast::<T>().offset(base),
                Source::Scratch { offset } => self.shared.add(offset as usize).cast(),
            }
        }
    }

    /// The private scratch of a worker.
    ///
    /// # Safety
    /// The worker's number is below the number that the scratch was made for.
    pub(crate) unsafe fn private(&self, worker: usize) -> *mut u8 {
        // SAFETY: the caller vouches for the worker.
        unsafe { self.private.add(worker * self.private_stride) }
    }
}

/// The left operand.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    pub(crate) source: Source,
    pub(crate) batch: Vec<isize>,
    /// Row dimensions and their element strides, outermost first.
    pub(crate) rows: Vec<(usize, isize)>,
    /// Element offset by depth.
    pub(crate) depth: Vec<isize>,
}

/// The right operand.
#[derive(Clone, Debug)]
pub(crate) struct Right {
    pub(crate) source: Source,
    pub(crate) batch: Vec<isize>,
    /// Distance of columns.
    pub(crate) ld: isize,
}

/// The part of a product that one call computes, when the images come in chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Row positions computed.
    pub(crate) rows: usize,
    /// What the row program adds to a row position.
    pub(crate) shift: usize,
    /// Depth used.
    pub(crate) depth: usize,
    /// Elements added to the left operand's address.
    pub(crate) left: isize,
    /// Adds to the tiles of the part before.
    pub(crate) resume: bool,
    /// Runs the row program.
    pub(crate) finish: bool,
}

/// What a product is planned for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The kernels.
    pub(crate) isa: Isa,
    /// The number of threads: it decides how work is cut, and no result.
    pub(crate) threads: usize,
}

/// A prepared product.
#[derive(Debug)]
pub(crate) struct GatherGemm {
    batch: Vec<usize>,
    left: Left,
    right: Right,
    n: usize,
    program: RowProgram,
    isa: Isa,
    /// Tiles do not cross multiples of this number of rows.
    run: Option<usize>,
    /// Rows and columns of a tile.
    mc: usize,
    nc: usize,
    /// Tiles live in the shared scratch from this byte on (products whose depth comes in parts), else in private scratch.
    tiles: Option<u64>,
}

/// The layout of a worker's private scratch, in bytes.
struct Private {
    pack: u64,
    tile: u64,
    offsets: u64,
    segments: u64,
    end: u64,
}

impl GatherGemm {
    /// Plans the tiles. `rows` is the largest number of row positions of a part, the machine's threads only serve to balance.
    pub(crate) fn new<T: Pack>(
        batch: Vec<usize>,
        mut left: Left,
        right: Right,
        n: usize,
        program: RowProgram,
        rows: usize,
        machine: Machine,
    ) -> Self {
        collapse(&mut left.rows);
        let groups: usize = batch.iter().product();
        let kernels = T::microkernels(machine.isa);
        // Tiles that end where the result's runs of neighbours end are written in place; worth it where runs are long.
        let run = program.run_length::<T>().filter(|&run| run >= LONG * kernels.mr() && run < rows && rows.is_multiple_of(run));
        let (cut, cuts) = run.map_or((rows, 1), |run| (run, rows / run));
        let (mc, nc) =
            tile_shape((kernels.mr(), kernels.nr(), T::KC), cut, n, left.depth.len(), groups.saturating_mul(cuts), machine.threads);
        Self { batch, left, right, n, program, isa: machine.isa, run, mc, nc, tiles: None }
    }

    /// Number of row positions of the whole product.
    pub(crate) fn rows(&self) -> usize {
        self.program.positions()
    }

    /// Depth of the whole product.
    pub(crate) fn depth(&self) -> usize {
        self.left.depth.len()
    }

    /// Keeps the tiles in shared scratch at `offset`, so that the depth can come in parts; gives the bytes that takes.
    pub(crate) fn keep_tiles<T: Pack>(&mut self, offset: u64) -> u64 {
        self.tiles = Some(offset);
        self.run = None;
        let tasks = self.batch.iter().product::<usize>() * self.rows().div_ceil(self.mc) * self.n.div_ceil(self.nc);
        bytes_of::<T>((tasks as u64).saturating_mul(self.tile_elements::<T>() as u64))
    }

    fn tile_elements<T: Pack>(&self) -> usize {
        self.mc * self.nc + T::LANES
    }

    fn private<T: Pack>(&self) -> Private {
        let kc = T::KC.min(self.left.depth.len());
        let pack = 0;
        let tile = pack + bytes_of::<T>((self.mc * kc + T::LANES) as u64);
        let offsets = tile + bytes_of::<T>(self.tile_elements::<T>() as u64);
        let segments = offsets + bytes_of::<isize>(self.mc as u64);
        let end = segments + bytes_of::<Segment>(self.mc as u64);
        Private { pack, tile, offsets, segments, end }
    }

    /// Bytes of private scratch per worker.
    pub(crate) fn private_bytes<T: Pack>(&self) -> u64 {
        self.private::<T>().end
    }

    /// Computes one part.
    ///
    /// # Safety
    /// The context's bases cover the spans of the tensors; its scratch has the bytes that preparing asked for; the
    /// sources hold what the stages put there; nobody else touches outputs and scratch meanwhile.
    pub(crate) unsafe fn run<T: Pack>(&self, context: &Context<'_>, part: &Part) {
        let groups: usize = self.batch.iter().product();
        let run = self.run.filter(|&run| part.rows.is_multiple_of(run)).unwrap_or(part.rows);
        let run_blocks = run.div_ceil(self.mc);
        let row_blocks = part.rows / run * run_blocks;
        let column_blocks = self.n.div_ceil(self.nc);
        context.pool.parallel_for(groups * row_blocks * column_blocks, &|worker, task| {
            let (m, rest) = (task % row_blocks, task / row_blocks);
            let (n, g) = (rest % column_blocks, rest / column_blocks);
            let (from, within) = (m / run_blocks * run, m % run_blocks * self.mc);
            let at = Tile {
                task,
                g,
                m0: from + within,
                rows: self.mc.min(run - within),
                n0: n * self.nc,
                columns: self.nc.min(self.n - n * self.nc),
            };
            // SAFETY: each task has its own tile, so its own output elements; the worker's private scratch is used by
            // one task at a time; the rest is the caller's promise.
            unsafe { self.tile::<T>(context, part, &at, worker) };
        });
    }

    /// Computes one tile.
    ///
    /// # Safety
    /// As [`GatherGemm::run`]; nobody else computes this tile or uses the worker's private scratch.
    unsafe fn tile<T: Pack>(&self, context: &Context<'_>, part: &Part, at: &Tile, worker: usize) {
        let layout = self.private::<T>();
        let kernels = T::microkernels(self.isa);
        let mr = kernels.mr();
        let mut batch = [0; MAX_LOOPS];
        if !self.batch.is_empty() {
            split(at.g, &self.batch, &mut batch);
        }
        let dot = |strides: &[isize]| strides.iter().zip(&batch).map(|(&s, &i)| s * i as isize).sum::<isize>();
        // SAFETY: the layout lies within the worker's private scratch, kept tiles within the shared scratch; operand
        // addresses lie within their tensors by construction of the tables. The offset and segment slices are disjoint
        // regions of the private scratch, aligned to 64, zeroed at first and only ever written as these types.
        unsafe {
            let private = context.private(worker);
            let pack = private.add(layout.pack as usize).cast::<T>();
            let rows = part.shift + at.m0..part.shift + at.m0 + at.rows;
            let (tile, ldc) = match (self.tiles, self.program.destination::<T>(context.bases(), at.g, rows, at.n0)) {
                (Some(offset), _) => {
                    let kept = context.shared.add(offset as usize).cast::<T>();
                    (kept.add(at.task * self.tile_elements::<T>()), self.mc)
                }
                (None, Some(place)) if part.depth > 0 => place,
                _ => (private.add(layout.tile as usize).cast::<T>(), self.mc),
            };
            let in_place = tile != private.add(layout.tile as usize).cast::<T>() && self.tiles.is_none();
            let offsets = std::slice::from_raw_parts_mut(private.add(layout.offsets as usize).cast::<isize>(), self.mc);
            let segments = std::slice::from_raw_parts_mut(private.add(layout.segments as usize).cast::<Segment>(), self.mc);
            let base = context.address::<T>(self.left.source).offset(part.left + dot(&self.left.batch));
            let right = context.address::<T>(self.right.source);
            let right = right.offset(dot(&self.right.batch) + at.n0 as isize * self.right.ld);
            let depth = &self.left.depth[..part.depth];
            // Rows that are neighbours, or every other element: these the packing takes by the vector.
            let step = match self.left.rows.last() {
                Some(&(size, step)) if size > 1 => step,
                _ => 1,
            };
            if depth.is_empty() {
                std::slice::from_raw_parts_mut(tile, self.mc * at.columns).fill(T::ZERO);
            } else if step == 1 || step == 2 {
                let mut ends = [0; MC / MR_LEAST];
                segment_rows(&self.left.rows, at.m0, at.rows, (mr, T::LANES), segments, &mut ends);
                let of_panel = |panel: usize| &segments[if panel == 0 { 0 } else { ends[panel - 1] }..ends[panel]];
                self.blocks(kernels, (tile, ldc), pack, depth, right, at, part.resume, |panel, dst, deep| {
                    T::pack(self.isa, mr, step, dst, of_panel(panel), base, deep);
                });
            } else {
                row_offsets(&self.left.rows, at.m0, &mut offsets[..at.rows]);
                self.blocks(kernels, (tile, ldc), pack, depth, right, at, part.resume, |panel, dst, deep| {
                    let rows = &offsets[panel * mr..at.rows.min((panel + 1) * mr)];
                    for (d, &deep) in deep.iter().enumerate() {
                        for (i, &row) in rows.iter().enumerate() {
                            dst.add(d * mr + i).write(base.offset(row + deep).read());
                        }
                    }
                });
            }
            if part.finish && !in_place {
                let m = part.shift + at.m0;
                let n = at.n0..at.n0 + at.columns;
                self.program.run::<T>(context.bases(), at.g, m..m + at.rows, n, Some((tile, self.mc)));
            }
        }
    }

    /// The blocked product of one tile; `pack(panel, dst, depth)` packs a panel of it.
    ///
    /// # Safety
    /// The tile and `dst` have room for whole panels, the right operand covers the columns and the depth.
    #[expect(clippy::too_many_arguments, reason = "one call site per kind of packing, all of them addresses of one tile")]
    #[inline(always)]
    unsafe fn blocks<T: Pack>(
        &self,
        kernels: &Microkernels<T>,
        (tile, ldc): (*mut T, usize),
        pack: *mut T,
        depth: &[isize],
        right: *const T,
        at: &Tile,
        resume: bool,
        pack_panel: impl Fn(usize, *mut T, &[isize]),
    ) {
        let (mr, nr) = (kernels.mr(), kernels.nr());
        let panels = at.rows.div_ceil(mr);
        for (block, deep) in depth.chunks(T::KC).enumerate() {
            let panel_at = |panel: usize| pack.wrapping_add(panel * mr * deep.len());
            (0..panels).for_each(|panel| pack_panel(panel, panel_at(panel), deep));
            for first in (0..at.columns).step_by(NB) {
                for panel in 0..panels {
                    for j in (first..at.columns.min(first + NB)).step_by(nr) {
                        // SAFETY: the panel was packed above; columns and depth lie within the right operand, whose
                        // depth is contiguous; the panel's rows and the columns lie within the tile, which an earlier
                        // block or part has written unless this is the first; whoever chose `isa` found the machine
                        // to have its features.
                        unsafe {
                            kernels.product(&Panel {
                                a: panel_at(panel),
                                b: right.offset(j as isize * self.right.ld).add(block * T::KC),
                                ldb: self.right.ld,
                                c: tile.add(j * ldc + panel * mr),
                                ldc,
                                rows: (at.rows - panel * mr).min(mr),
                                columns: nr.min(at.columns - j),
                                k: deep.len(),
                                first: block == 0 && !resume,
                            });
                        }
                    }
                }
            }
        }
    }
}

/// One task's share of a product.
struct Tile {
    task: usize,
    g: usize,
    m0: usize,
    rows: usize,
    n0: usize,
    columns: usize,
}

/// Merges neighbouring dimensions that are walked as one, and drops those of one step.
fn collapse(rows: &mut Vec<(usize, isize)>) {
    rows.retain(|&(size, _)| size != 1);
    for d in (1..rows.len()).rev() {
        let ((outer, outer_stride), (inner, inner_stride)) = (rows[d - 1], rows[d]);
        if inner_stride as i128 * inner as i128 == outer_stride as i128 {
            rows[d - 1] = (outer * inner, inner_stride);
            rows.remove(d);
        }
    }
}

/// Element offset of the row at `position`, its remaining run along the innermost dimension, and that dimension's stride.
fn locate(dims: &[(usize, isize)], mut position: usize) -> (isize, usize, isize) {
    let Some((&(size, stride), outer)) = dims.split_last() else { return (0, 1, 0) };
    if outer.is_empty() {
        return (position as isize * stride, usize::MAX, stride);
    }
    let inner = position % size;
    position /= size;
    let mut offset = inner as isize * stride;
    for (d, &(size, stride)) in outer.iter().enumerate().rev() {
        // The outermost size is not needed: parts may use fewer of its steps.
        let index = if d == 0 { position } else { position % size };
        position /= size;
        offset += index as isize * stride;
    }
    (offset, size - inner, stride)
}

/// Cuts rows into segments of neighbours, for panels of `mr` rows and segments of at most `lanes`; `ends[p]` is the number of segments up to and including panel `p`.
fn segment_rows(dims: &[(usize, isize)], first: usize, rows: usize, (mr, lanes): (usize, usize), out: &mut [Segment], ends: &mut [usize]) {
    let (mut row, mut count) = (0, 0);
    while row < rows {
        let (mut offset, run, step) = locate(dims, first + row);
        let end = rows.min(row.saturating_add(run));
        while row < end {
            let within = row % mr;
            let len = (end - row).min(lanes).min(mr - within);
            out[count] = Segment { row: within as u32, len: len as u32, offset };
            count += 1;
            ends[row / mr] = count;
            row += len;
            offset += len as isize * step;
        }
    }
}

/// Element offset of every row from `first` on.
fn row_offsets(dims: &[(usize, isize)], first: usize, out: &mut [isize]) {
    let mut row = 0;
    while row < out.len() {
        let (offset, run, stride) = locate(dims, first + row);
        let end = out.len().min(row.saturating_add(run));
        for (i, o) in out[row..end].iter_mut().enumerate() {
            *o = offset + i as isize * stride;
        }
        row = end;
    }
}

/// Rows and columns of a tile: the pair whose slowest thread is estimated to be done first.
fn tile_shape((mr, nr, kc): (usize, usize, usize), rows: usize, n: usize, k: usize, groups: usize, threads: usize) -> (usize, usize) {
    let mut best = (f64::INFINITY, mr, n.min(NC));
    for column_blocks in n.div_ceil(NC)..=n.div_ceil(NC) + 7 {
        let nc = n.div_ceil(column_blocks).next_multiple_of(nr).min(NC).min(n);
        let most = (TILE / nc).min(PACKED / k.clamp(1, kc)).min(MC) / mr;
        let row_limit = (most.max(1) * mr).min(rows.next_multiple_of(mr));
        let mut mc = row_limit;
        while mc >= mr {
            let tasks = (rows.div_ceil(mc) * n.div_ceil(nc)).saturating_mul(groups) as f64;
            // In multiply-adds per lane: the product, packing (about 6 lanes' worth an element) and a fixed share.
            let padded = mc.min(rows.next_multiple_of(mr)) as f64;
            let cost = padded * k as f64 * (nc as f64 + 6.0) + padded * nc as f64 * 8.0 + 60_000.0;
            // Right operand blocks are re-read by every row block.
            let reread = k as f64 * nc as f64 * 4.0;
            let rounds = (tasks / threads as f64).ceil();
            let total = rounds * (cost + reread);
            if total < best.0 {
                best = (total, mc, nc);
            }
            mc -= mr;
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::super::kernel::Kernel;
    use super::*;

    #[test]
    fn rows_are_found_across_dimensions() {
        let dims = [(3, 100), (4, 10), (5, 1)];
        for first in [0, 3, 17] {
            let mut offsets = vec![0; 60 - first];
            row_offsets(&dims, first, &mut offsets);
            let want = |p: usize| ((p / 20) * 100 + (p / 5 % 4) * 10 + p % 5) as isize;
            assert!(offsets.iter().enumerate().all(|(i, &o)| o == want(first + i)));
            let mut segments = [Segment::default(); 64];
            let mut ends = [0; 17];
            segment_rows(&dims, first, 60 - first, (32, 16), &mut segments, &mut ends);
            let (mut row, mut panel) = (0, 0);
            for (i, s) in segments[..ends[(59 - first) / 32]].iter().enumerate() {
                if i == ends[panel] {
                    panel += 1;
                }
                assert_eq!(row, panel * 32 + s.row as usize);
                assert_eq!(s.offset, want(first + row));
                row += s.len as usize;
            }
            assert_eq!(row, 60 - first);
        }
    }

    #[test]
    fn dimensions_walked_as_one_merge() {
        let mut dims = vec![(2, 60), (1, 7), (3, 20), (4, 5), (5, 1)];
        collapse(&mut dims);
        assert_eq!(dims, [(120, 1)]);
        let mut dims = vec![(2, 60), (3, 22), (4, 5)];
        collapse(&mut dims);
        assert_eq!(dims, [(2, 60), (3, 22), (4, 5)]);
    }

    #[test]
    fn the_limits_suit_every_isa() {
        for &isa in Isa::all() {
            let (narrow, wide) = (f32::microkernels(isa), f64::microkernels(isa));
            assert!(narrow.mr().min(wide.mr()) >= MR_LEAST && narrow.mr().max(wide.mr()) <= MC);
            assert!(NB.is_multiple_of(narrow.nr()) && NB.is_multiple_of(wide.nr()));
        }
    }

    #[test]
    fn tiles_stay_within_their_limits() {
        for rows in [1, 33, 49, 784, 100_000] {
            for n in [1, 2, 3, 64, 100, 505, 2048] {
                for threads in [1, 2, 64] {
                    for (mr, nr, kc) in [(64, 6, 512), (16, 6, 256), (2, 4, 512)] {
                        let (mc, nc) = tile_shape((mr, nr, kc), rows, n, 576, 1, threads);
                        assert!(mc % mr == 0 && (mr..=MC).contains(&mc) && nc >= 1 && nc <= NC.min(n));
                    }
                }
            }
        }
    }
}
