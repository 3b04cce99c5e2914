//! Staging: copies of operands into scratch, converted to the type of the product and laid out as its tables want them.

use super::element::{Elem, Real};
use super::gemm::Context;
use super::kernel::Isa;
use super::pack::deinterleave;
use super::rows::{MAX_LOOPS, split};

/// One spatial dimension of a staged image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Positions staged.
    pub(crate) size: usize,
    /// Source index of position 0; below 0 it is padding.
    pub(crate) origin: i64,
    /// Extent of the source.
    pub(crate) source: usize,
    /// Element stride of the source.
    pub(crate) stride: isize,
    /// Source indices between neighbouring positions.
    pub(crate) step: usize,
}

/// Copies images into zero-padded planes. Along the last dimension, positions are sorted by their remainder modulo
/// `phases`, so that a strided convolution reads neighbours.
#[derive(Clone, Debug)]
pub(crate) struct ImageStage {
    pub(crate) ordinal: usize,
    pub(crate) elem: Elem,
    /// Element strides of image and channel in the source.
    pub(crate) image_stride: isize,
    pub(crate) channel_stride: isize,
    pub(crate) channels: usize,
    /// Spatial dimensions, outermost first.
    pub(crate) extents: Vec<Extent>,
    pub(crate) phases: usize,
    /// Byte offset in the shared scratch.
    pub(crate) to: u64,
}

/// Channels of one task.
const CHANNELS: usize = 64;

impl ImageStage {
    /// Positions of one phase of the last dimension.
    pub(crate) fn phase_size(&self) -> usize {
        self.extents.last().map_or(1, |e| e.size.div_ceil(self.phases))
    }

    /// Element distance of neighbours along spatial dimension `d` (along the last: within a phase).
    pub(crate) fn pitch(&self, d: usize) -> usize {
        let last = self.extents.len() - 1;
        if d == last {
            return 1;
        }
        let row = self.phase_size().saturating_mul(self.phases);
        self.extents[d + 1..last].iter().fold(row, |pitch, e| pitch.saturating_mul(e.size))
    }

    /// Elements of one channel of one image.
    pub(crate) fn plane(&self) -> usize {
        if self.extents.len() == 1 {
            return self.phase_size().saturating_mul(self.phases);
        }
        self.pitch(0).saturating_mul(self.extents[0].size)
    }

    /// Elements of one image.
    pub(crate) fn image(&self) -> usize {
        self.plane().saturating_mul(self.channels)
    }

    /// Stages `count` images from image `first` on.
    ///
    /// # Safety
    /// The context's bases cover the tensor's span; the shared scratch has `count` images of room at `to`; nobody else
    /// touches that room meanwhile.
    pub(crate) unsafe fn run<T: Real>(&self, context: &Context<'_>, first: usize, count: usize) {
        let last = self.extents.len() - 1;
        let rows: usize = self.extents[..last].iter().map(|e| e.size).product();
        let blocks = self.channels.div_ceil(CHANNELS);
        let (plane, image) = (self.plane(), self.image());
        let row_elements = self.phase_size() * self.phases;
        let size = self.elem.size() as isize;
        context.pool.parallel_for(count * rows * blocks, &|_, task| {
            let (block, rest) = (task % blocks, task / blocks);
            let (row, img) = (rest % rows, rest / rows);
            // The source row, unless it is padding.
            let mut source = Some((first + img) as isize * self.image_stride);
            let mut remaining = row;
            for e in self.extents[..last].iter().rev() {
                let index = (remaining % e.size * e.step) as i64 + e.origin;
                remaining /= e.size;
                source = source.filter(|_| (0..e.source as i64).contains(&index)).map(|s| s + index as isize * e.stride);
            }
            for channel in block * CHANNELS..self.channels.min((block + 1) * CHANNELS) {
                // SAFETY: the row lies within image `img` of the room at `to`, and each task has rows of its own; the
                // scratch is initialised.
                let dst = unsafe {
                    let start = context.shared.add(self.to as usize).cast::<T>();
                    let start = start.add(img * image + channel * plane + row * row_elements);
                    std::slice::from_raw_parts_mut(start, row_elements)
                };
                let Some(source) = source else {
                    dst.fill(T::ZERO);
                    continue;
                };
                // SAFETY: `row` reads only indices within the last extent's source.
                unsafe {
                    let src = context.bases()[self.ordinal].offset((source + channel as isize * self.channel_stride) * size);
                    self.row(context.isa, src, dst);
                }
            }
        });
    }

    /// Stages one row.
    ///
    /// # Safety
    /// `src` addresses the first of the last extent's source elements, all of which are readable and initialised.
    #[inline]
    unsafe fn row<T: Real>(&self, isa: Isa, src: *const u8, dst: &mut [T]) {
        let extent = self.extents[self.extents.len() - 1];
        let (size, step) = (self.phase_size(), (self.phases * extent.step) as i64);
        // Positions low..high of a phase are source indices first + i * step; the others are padding.
        let range = |phase: usize, len: usize| {
            let first = extent.origin + (phase * extent.step) as i64;
            let up = |distance: i64| (distance.max(0) as u64).div_ceil(step as u64).min(len as u64) as usize;
            let low = up(-first);
            (first, low, up(extent.source as i64 - first).max(low))
        };
        if self.phases == 2 && extent.step == 1 && extent.stride == 1 && self.elem == T::ELEM {
            let (even, odd) = dst.split_at_mut(size);
            let ((first, low, high), (odd_first, odd_low, odd_high)) = (range(0, size), range(1, size));
            let (both, end) = (low.max(odd_low), high.min(odd_high));
            if both < end {
                even[..both].fill(T::ZERO);
                even[end..].fill(T::ZERO);
                odd[..both].fill(T::ZERO);
                odd[end..].fill(T::ZERO);
                // SAFETY: both phases hold source indices at these positions, the even one's first: all lie in 0..source.
                unsafe {
                    let pairs = src.cast::<T>().offset(first as isize + 2 * both as isize);
                    let pairs = std::slice::from_raw_parts(pairs, 2 * (end - both));
                    deinterleave(isa, pairs, &mut even[both..end], &mut odd[both..end]);
                    // One phase may reach a position further at either end.
                    let at = |first: i64, i: usize| src.cast::<T>().offset(first as isize + 2 * i as isize).read();
                    (low..both).chain(end..high).for_each(|i| even[i] = at(first, i));
                    (odd_low..both).chain(end..odd_high).for_each(|i| odd[i] = at(odd_first, i));
                }
                return;
            }
        }
        for (phase, dst) in dst.chunks_mut(size).enumerate() {
            let (first, low, high) = range(phase, dst.len());
            dst[..low].fill(T::ZERO);
            dst[high..].fill(T::ZERO);
            if low < high {
                let start = (first + low as i64 * step) as isize * extent.stride * self.elem.size() as isize;
                // SAFETY: indices first + low * step to first + (high - 1) * step lie in 0..source.
                unsafe { T::load_row(self.elem, src.offset(start), step as isize * extent.stride, &mut dst[low..high]) };
            }
        }
    }
}

/// Copies rows through an offset table: `dst[row][d] = src[row offset + table[d]]`; rows lie a table's length apart.
#[derive(Clone, Debug)]
pub(crate) struct TableStage {
    pub(crate) ordinal: usize,
    pub(crate) elem: Elem,
    /// Row dimensions and their element strides, outermost first.
    pub(crate) rows: Vec<(usize, isize)>,
    pub(crate) table: Vec<isize>,
    /// Element stride of images, and table entries per image, when the table walks images.
    pub(crate) images: Option<(isize, usize)>,
    /// Byte offset in the shared scratch.
    pub(crate) to: u64,
}

/// Elements of one task, roughly.
const TASK: usize = 16 * 1024;

impl TableStage {
    /// Elements staged.
    pub(crate) fn elements(&self) -> u64 {
        self.rows.iter().fold(self.table.len() as u64, |n, &(size, _)| n.saturating_mul(size as u64))
    }

    /// Stages all rows; a table that walks images is used for `count` images from `first` on.
    ///
    /// # Safety
    /// As [`ImageStage::run`].
    pub(crate) unsafe fn run<T: Real>(&self, context: &Context<'_>, first: usize, count: usize) {
        let (base, used) = self.images.map_or((0, self.table.len()), |(stride, per)| (first as isize * stride, count * per));
        let rows: usize = self.rows.iter().map(|&(size, _)| size).product();
        let per_task = (TASK / used).max(1);
        let mut sizes = [1; MAX_LOOPS];
        sizes.iter_mut().zip(&self.rows).for_each(|(s, &(size, _))| *s = size);
        let size = self.elem.size() as isize;
        context.pool.parallel_for(rows.div_ceil(per_task), &|_, task| {
            for row in task * per_task..rows.min((task + 1) * per_task) {
                let mut index = [0; MAX_LOOPS];
                split(row, &sizes[..self.rows.len().max(1)], &mut index);
                let offset = base + self.rows.iter().zip(&index).map(|(&(_, stride), &i)| stride * i as isize).sum::<isize>();
                // SAFETY: the room at `to` holds `rows` rows of a table's length, each task has rows of its own, and the
                // scratch is initialised; the offsets lie within the tensor's span by construction of the table.
                unsafe {
                    let dst = context.shared.add(self.to as usize).cast::<T>().add(row * self.table.len());
                    let dst = std::slice::from_raw_parts_mut(dst, used);
                    let src = context.bases()[self.ordinal].offset(offset * size);
                    T::load_table(self.elem, src, &self.table[..used], dst);
                }
            }
        });
    }
}

/// A copy made before a product.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    Image(ImageStage),
    Table(TableStage),
}

impl Stage {
    /// Runs the stage for `count` images from `first` on.
    ///
    /// # Safety
    /// As [`ImageStage::run`].
    pub(crate) unsafe fn run<T: Real>(&self, context: &Context<'_>, first: usize, count: usize) {
        // SAFETY: the caller's promise is the same.
        unsafe {
            match self {
                Self::Image(stage) => stage.run::<T>(context, first, count),
                Self::Table(stage) => stage.run::<T>(context, first, count),
            }
        }
    }
}
