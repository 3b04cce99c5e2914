//! Convolutions as gathered products: forward, data gradient and weight gradient differ only in their tables.
//!
//! * Forward: rows are output positions, depth is channel and tap.
//! * Data gradient: the input positions of one remainder modulo the stride meet the same taps, so each remainder is a
//!   product over those taps only; no accumulation into the result, nothing to scatter.
//! * Weight gradient: rows are channel and tap, depth is image and output position.

use super::CpuError;
use super::chain::Builder;
use super::element::Elem;
use super::gemm::{GatherGemm, Left, Machine, Right, Source};
use super::layout::Tensor;
use super::pack::Pack;
use super::program::Conv;
use super::rows::{LoopDim, Loops};
use super::scratch::{MAX_SCRATCH, bytes_of};
use super::stage::{Extent, ImageStage, Stage, TableStage};
use super::steps::{GemmStep, Images, table_length};
use std::ops::Range;

/// Bytes of images staged at once, if more than one and they are depth: the cut shows in the bits of the sums, so it is
/// the same on every machine. This and the other limits are small in tests, so that small problems come in chunks.
const CHUNK_BYTES: usize = if cfg!(test) { 4096 } else { 32 << 20 };
/// Bytes of images staged at once for each thread, if more than one and they are rows: about a second-level cache.
const CHUNK_BYTES_THREAD: usize = if cfg!(test) { 4096 } else { 2 << 20 };
/// Bytes of one staged image above which a forward convolution is cut into slabs of output positions.
const SLAB_BYTES: u64 = if cfg!(test) { 2048 } else { 1 << 30 };
/// Most entries of a depth table that walks images.
const CHUNK_DEPTH: usize = if cfg!(test) { 64 } else { 1 << 20 };
/// Most slabs of a forward convolution.
const MAX_SLABS: usize = 4096;
/// Most remainder classes of a data gradient.
const MAX_CLASSES: usize = 4096;
/// Largest padding, stride or dilation.
const MAX_ATTRIBUTE: i64 = 1 << 31;

/// One spatial dimension of a convolution.
#[derive(Clone, Copy, Debug)]
struct Spatial {
    x: usize,
    w: usize,
    y: usize,
    pre: i64,
    stride: i64,
    dilation: i64,
    flip: bool,
}

impl Spatial {
    /// Where tap `r` of the filter reads, relative to a window's start.
    fn reach(&self, r: usize) -> i64 {
        let r = if self.flip { self.w - 1 - r } else { r };
        r as i64 * self.dilation
    }
}

/// A convolution with checked shapes.
pub(crate) struct Shape<'a> {
    op: &'static str,
    x: &'a Tensor,
    w: &'a Tensor,
    y: &'a Tensor,
    groups: usize,
    /// Channels of x and of y in one group.
    cg: usize,
    kg: usize,
    space: Vec<Spatial>,
}

/// Output positions along one spatial dimension, and all along the others.
#[derive(Clone, Debug)]
pub(crate) struct Slab {
    axis: usize,
    positions: Range<usize>,
}

/// One remainder of a data gradient: its positions, and its taps with the shift of the gradient that they read.
type Class = (usize, Vec<(usize, i64)>);

/// The sums of a table of dimensions: every combination of their offsets, the last varying fastest.
fn offsets(dims: &[Vec<isize>]) -> Vec<isize> {
    dims.iter().fold(vec![0], |outer, inner| outer.iter().flat_map(|&o| inner.iter().map(move |&i| o + i)).collect())
}

/// See [`CHUNK_BYTES_THREAD`].
fn row_chunk(machine: Machine) -> usize {
    CHUNK_BYTES_THREAD.saturating_mul(machine.threads)
}

/// `size` multiples of a stride.
fn multiples(size: usize, stride: i64) -> Vec<isize> {
    (0..size as i64).map(|i| (i * stride) as isize).collect()
}

impl<'a> Shape<'a> {
    /// Checks that x, w, y and the attributes belong together.
    pub(crate) fn check(op: &'static str, conv: &Conv, x: &'a Tensor, w: &'a Tensor, y: &'a Tensor) -> Result<Self, CpuError> {
        let rank = x.dims.len();
        for tensor in [x, w, y] {
            let found = tensor.dims.len();
            if !(3..=5).contains(&found) || found != rank {
                return Err(CpuError::Rank { ordinal: tensor.ordinal, found, expected: "3 to 5, equal for x, w and y" });
            }
        }
        let spatial = rank - 2;
        let lists = [
            ("pre_padding", &conv.pre_padding, 0),
            ("post_padding", &conv.post_padding, 0),
            ("stride", &conv.stride, 1),
            ("dilation", &conv.dilation, 1),
        ];
        for (what, list, least) in lists {
            if list.len() != spatial {
                let found = list.len() as i64;
                return Err(CpuError::Attribute { op, what, found, expected: "one entry per spatial dimension" });
            }
            if let Some(&found) = list.iter().find(|&&v| v < least || v > MAX_ATTRIBUTE) {
                let expected = if least == 0 { "0 to 2^31" } else { "1 to 2^31" };
                return Err(CpuError::Attribute { op, what, found, expected });
            }
        }
        let (cg, groups) = (w.dims[1], x.dims[1] / w.dims[1]);
        x.expect(op, 1, (groups * cg).max(cg))?;
        let kg = w.dims[0] / groups;
        w.expect(op, 0, (kg * groups).max(groups))?;
        y.expect(op, 0, x.dims[0])?;
        y.expect(op, 1, w.dims[0])?;
        let mut space = Vec::new();
        for d in 0..spatial {
            let (stride, dilation, pre) = (conv.stride[d], conv.dilation[d], conv.pre_padding[d]);
            let (size, taps) = (x.dims[2 + d], w.dims[2 + d]);
            let room = size as i128 + i128::from(pre) + i128::from(conv.post_padding[d]);
            let window = i128::from(dilation) * (taps as i128 - 1) + 1;
            let expected = if room < window { 0 } else { ((room - window) / i128::from(stride) + 1) as usize };
            y.expect(op, 2 + d, expected)?;
            space.push(Spatial { x: size, w: taps, y: expected, pre, stride, dilation, flip: conv.flip });
        }
        Ok(Self { op, x, w, y, groups, cg, kg, space })
    }

    fn taps(&self) -> usize {
        self.space.iter().map(|s| s.w).product()
    }

    fn loops(&self, batch_step: usize, axis: usize, n: usize, m: Vec<LoopDim>, origin: Vec<i64>) -> Loops {
        let batch = vec![LoopDim { size: self.groups, axis, step: batch_step as i64 }];
        Loops { batch, n: Some(LoopDim { size: n, axis, step: 1 }), m, origin }
    }

    /// The extents of x that the windows reach.
    fn window_extents(&self) -> Vec<Extent> {
        let extent = |(d, s): (usize, &Spatial)| Extent {
            size: ((s.y as i64 - 1) * s.stride + (s.w as i64 - 1) * s.dilation + 1) as usize,
            origin: -s.pre,
            source: s.x,
            stride: self.x.strides[2 + d] as isize,
            step: 1,
        };
        self.space.iter().enumerate().map(extent).collect()
    }

    /// The slabs that a forward convolution is made in: one, unless an image would take very much scratch. The cut shows in no
    /// bit, as every output is one sum of one slab.
    pub(crate) fn slabs<T: Pack>(&self) -> Result<Vec<Slab>, CpuError> {
        let (axis, positions) = self.space.iter().map(|s| s.y).enumerate().rev().max_by_key(|&(_, y)| y).unwrap_or((0, 1));
        let plane = self.window_extents().iter().fold(1_u64, |n, e| n.saturating_mul(e.size as u64));
        let bytes = plane.saturating_mul(self.x.dims[1] as u64).saturating_mul(size_of::<T>() as u64);
        let parts = usize::try_from(bytes.div_ceil(SLAB_BYTES)).unwrap_or(usize::MAX).clamp(1, positions.clamp(1, MAX_SLABS));
        let each = positions.div_ceil(parts).max(1);
        let count = positions.div_ceil(each);
        // Every slab has tables of its own, for the image and for the filter.
        table_length(2 * count as u128 * self.cg as u128 * self.taps() as u128)?;
        Ok((0..count).map(|i| Slab { axis, positions: i * each..((i + 1) * each).min(positions) }).collect())
    }

    /// Prepares one slab of the forward convolution; `machine` is what it will run on.
    pub(crate) fn forward<T: Pack>(&self, slab: &Slab, builder: &Builder<'_>, machine: Machine) -> Result<GemmStep, CpuError> {
        let taps = self.taps();
        table_length(self.cg as u128 * taps as u128)?;
        let last = self.space.len() - 1;
        let mut extents = self.window_extents();
        let length = |d: usize, s: &Spatial| if d == slab.axis { slab.positions.len() } else { s.y };
        let cut = &self.space[slab.axis];
        extents[slab.axis].size = (slab.positions.len() - 1) * cut.stride as usize + (cut.w - 1) * cut.dilation as usize + 1;
        extents[slab.axis].origin += slab.positions.start as i64 * cut.stride;
        let mut phases = self.space[last].stride as usize;
        // Of a filter of one tap only every `stride`-th position is of use.
        let single = taps == 1;
        if single {
            phases = 1;
            for (d, (extent, s)) in extents.iter_mut().zip(&self.space).enumerate() {
                extent.size = length(d, s);
                extent.step = s.stride as usize;
            }
        }
        let mut image = Image::plan::<T>(self.op, self.x, extents, phases)?;
        // In place, windows that are not neighbours would be gathered for each tap anew: stage those.
        let dense = self.space[last].stride == 1;
        let neighbours = dense && (self.x.strides[2 + last] == 1 || self.space[last].y == 1);
        image.settle::<T>(neighbours || single, self.x.dims[0], row_chunk(machine))?;
        let mut m = vec![LoopDim { size: self.x.dims[0], axis: 0, step: 1 }];
        let mut rows = vec![(self.x.dims[0], image.image)];
        let mut depth_dims = Vec::new();
        for (d, s) in self.space.iter().enumerate() {
            m.push(LoopDim { size: length(d, s), axis: 2 + d, step: 1 });
            rows.push((length(d, s), image.step(d, if single { 1 } else { s.stride })));
            depth_dims.push((0..s.w).map(|r| image.position(d, s.reach(r))).collect());
        }
        // The depth runs over channel and taps in the order in which the filter's memory does.
        let w_dims: Vec<usize> = self.w.dims[1..].to_vec();
        let taps_first: Vec<usize> = (1..w_dims.len()).chain([0]).collect();
        let order = |axes: &[usize]| {
            let mut expected = 1;
            axes.iter().rev().all(|&axis| {
                let fits = w_dims[axis] == 1 || self.w.strides[1 + axis] == expected;
                expected *= w_dims[axis] as i64;
                fits
            })
        };
        let in_order: Vec<usize> = (0..w_dims.len()).collect();
        let elem = self.w.elem(self.op)?;
        let permuted = !order(&in_order) && order(&taps_first);
        depth_dims.insert(0, multiples(self.cg, image.channel as i64));
        if permuted {
            depth_dims.rotate_left(1);
        }
        let depth: Vec<isize> = offsets(&depth_dims).iter().map(|&o| o + image.base).collect();
        let mut shared = image.bytes::<T>();
        let mut once = Vec::new();
        let right = if elem == T::ELEM && (permuted || order(&in_order)) {
            let ld = self.w.strides[0] as isize;
            let source = Source::Tensor { ordinal: self.w.ordinal as usize, base: 0 };
            Right { source, batch: vec![self.kg as isize * ld], ld }
        } else {
            let mut dims: Vec<Vec<isize>> = (0..w_dims.len()).map(|a| multiples(w_dims[a], self.w.strides[1 + a])).collect();
            if permuted {
                dims.rotate_left(1);
            }
            let rows = vec![(self.w.dims[0], self.w.strides[0] as isize)];
            self.stage_right::<T>(self.w, elem, rows, offsets(&dims), &mut shared, &mut once)
        };
        let mut origin = vec![0; self.x.dims.len()];
        origin[2 + slab.axis] = slab.positions.start as i64;
        let loops = self.loops(self.kg, 1, self.kg, m, origin);
        let program = builder.epilogue(&loops, self.op)?;
        let left = Left { source: image.source(), batch: vec![self.cg as isize * image.channel], rows, depth };
        let rows = image.chunk * program.positions() / self.x.dims[0];
        let gemm = GatherGemm::new::<T>(vec![self.groups], left, right, self.kg, program, rows, machine);
        let images = Images::Rows { count: self.x.dims[0], chunk: image.chunk };
        Ok(GemmStep { images, once, per_chunk: image.stages(), gemms: vec![gemm], shared })
    }

    /// A right operand staged as packed rows of its table; the batch is the group, with `kg` or `cg` columns each.
    fn stage_right<T: Pack>(
        &self,
        tensor: &Tensor,
        elem: Elem,
        rows: Vec<(usize, isize)>,
        table: Vec<isize>,
        shared: &mut u64,
        stages: &mut Vec<Stage>,
    ) -> Right {
        let ld = table.len() as isize;
        let columns = rows.iter().map(|&(size, _)| size).product::<usize>() / self.groups;
        let staged = TableStage { ordinal: tensor.ordinal as usize, elem, rows, table, images: None, to: *shared };
        let source = Source::Scratch { offset: *shared };
        *shared = shared.saturating_add(bytes_of::<T>(staged.elements()));
        if ld > 0 {
            stages.push(Stage::Table(staged));
        }
        Right { source, batch: vec![columns as isize * ld], ld }
    }

    /// Prepares the data gradient; `machine` is what it will run on.
    pub(crate) fn data_gradient<T: Pack>(&self, builder: &Builder<'_>, machine: Machine) -> Result<GemmStep, CpuError> {
        table_length(self.kg as u128 * self.taps() as u128)?;
        // Per dimension and remainder: its positions, and its taps with the shift of the gradient they read.
        let mut classes: Vec<Vec<Class>> = Vec::new();
        let mut extents = Vec::new();
        let mut count = 1usize;
        for (d, s) in self.space.iter().enumerate() {
            let remainders = (s.stride as usize).min(s.x);
            count = count.saturating_mul(remainders);
            if count > MAX_CLASSES {
                let found = count as i64;
                let expected = "at most 4096 remainders in all";
                return Err(CpuError::Attribute { op: self.op, what: "stride", found, expected });
            }
            let size = |a: usize| (s.x - a).div_ceil(s.stride as usize);
            let mut list: Vec<Class> = (0..remainders).map(|a| (size(a), Vec::new())).collect();
            for r in 0..s.w {
                let a = (s.reach(r) - s.pre).rem_euclid(s.stride);
                if let Some((_, taps)) = list.get_mut(a as usize) {
                    taps.push((r, (a + s.pre - s.reach(r)) / s.stride));
                }
            }
            let shifts = || list.iter().flat_map(|(size, taps)| taps.iter().map(move |&(_, t)| (t, t + *size as i64 - 1)));
            let low = shifts().map(|(low, _)| low).min().unwrap_or(0);
            let high = shifts().map(|(_, high)| high).max().unwrap_or(0);
            let size = (high - low + 1) as usize;
            let stride = self.y.strides[2 + d] as isize;
            extents.push(Extent { size, origin: low, source: s.y, stride, step: 1 });
            classes.push(list);
        }
        let last = self.space.len() - 1;
        let mut image = Image::plan::<T>(self.op, self.y, extents.clone(), 1)?;
        image.settle::<T>(self.taps() == 1 || self.y.strides[2 + last] == 1, self.y.dims[0], row_chunk(machine))?;
        let mut shared = image.bytes::<T>();
        let mut once = Vec::new();
        let mut gemms = Vec::new();
        let elem = self.w.elem(self.op)?;
        for class in 0..count {
            let mut rest = class;
            let mut origin = vec![0; self.x.dims.len()];
            let mut m = vec![LoopDim { size: self.x.dims[0], axis: 0, step: 1 }];
            let mut rows = vec![(self.x.dims[0], image.image)];
            let mut left_dims = vec![multiples(self.kg, image.channel as i64)];
            let mut right_dims = vec![multiples(self.kg, self.w.strides[0])];
            for (d, s) in self.space.iter().enumerate() {
                let a = rest % classes[d].len();
                rest /= classes[d].len();
                let (size, taps) = &classes[d][a];
                origin[2 + d] = a as i64;
                m.push(LoopDim { size: *size, axis: 2 + d, step: s.stride });
                rows.push((*size, image.step(d, 1)));
                left_dims.push(taps.iter().map(|&(_, t)| image.position(d, t - extents[d].origin)).collect());
                right_dims.push(taps.iter().map(|&(r, _)| (r as i64 * self.w.strides[2 + d]) as isize).collect());
            }
            let depth: Vec<isize> = offsets(&left_dims).iter().map(|&o| o + image.base).collect();
            let w_rows = vec![(self.groups, (self.kg as i64 * self.w.strides[0]) as isize), (self.cg, self.w.strides[1] as isize)];
            let right = self.stage_right::<T>(self.w, elem, w_rows, offsets(&right_dims), &mut shared, &mut once);
            let loops = self.loops(self.cg, 1, self.cg, m, origin);
            let program = builder.epilogue(&loops, self.op)?;
            let left = Left { source: image.source(), batch: vec![self.kg as isize * image.channel], rows, depth };
            let rows = image.chunk * program.positions() / self.x.dims[0];
            gemms.push(GatherGemm::new::<T>(vec![self.groups], left, right, self.cg, program, rows, machine));
        }
        let images = Images::Rows { count: self.x.dims[0], chunk: image.chunk };
        Ok(GemmStep { images, once, per_chunk: image.stages(), gemms, shared })
    }

    /// Prepares the weight gradient; `machine` is what it will run on.
    pub(crate) fn weight_gradient<T: Pack>(&self, builder: &Builder<'_>, machine: Machine) -> Result<GemmStep, CpuError> {
        let n = self.x.dims[0];
        let positions: usize = self.y.dims[2..].iter().product();
        table_length(positions as u128)?;
        let mut image = Image::plan::<T>(self.op, self.x, self.window_extents(), 1)?;
        image.settle::<T>(true, n, CHUNK_BYTES)?;
        let mut chunk = (CHUNK_DEPTH / positions).clamp(1, n);
        if image.stage.is_some() {
            chunk = chunk.min(image.chunk);
        }
        image.chunk = chunk;
        let mut m = vec![LoopDim { size: self.cg, axis: 1, step: 1 }];
        let mut rows = vec![(self.cg, image.channel)];
        let mut base = image.base;
        let mut depth_dims = vec![multiples(chunk, image.image as i64)];
        let mut dy_dims = vec![multiples(chunk, self.y.strides[0])];
        for (d, s) in self.space.iter().enumerate() {
            m.push(LoopDim { size: s.w, axis: 2 + d, step: 1 });
            let step = image.step(d, s.dilation);
            rows.push((s.w, if s.flip { -step } else { step }));
            base += image.position(d, s.reach(0));
            depth_dims.push(multiples(s.y, image.step(d, s.stride) as i64));
            dy_dims.push(multiples(s.y, self.y.strides[2 + d]));
        }
        let depth: Vec<isize> = offsets(&depth_dims).iter().map(|&o| o + base).collect();
        let table = offsets(&dy_dims);
        let mut shared = image.bytes::<T>();
        let mut per_chunk = image.stages();
        let elem = self.y.elem(self.op)?;
        let packed = table.iter().enumerate().all(|(i, &o)| o == i as isize);
        let ld = self.y.strides[1] as isize;
        let right = if elem == T::ELEM && packed && n == 1 {
            let source = Source::Tensor { ordinal: self.y.ordinal as usize, base: 0 };
            Right { source, batch: vec![self.kg as isize * ld], ld }
        } else {
            let mut right = self.stage_right::<T>(self.y, elem, vec![(self.y.dims[1], ld)], table, &mut shared, &mut per_chunk);
            if let Some(Stage::Table(stage)) = per_chunk.last_mut() {
                stage.images = Some((self.y.strides[0] as isize, positions));
            }
            right.ld = (positions * chunk) as isize;
            right
        };
        let loops = self.loops(self.kg, 0, self.kg, m, vec![0; self.x.dims.len()]);
        let program = builder.epilogue(&loops, self.op)?;
        let left = Left { source: image.source(), batch: vec![self.cg as isize * image.channel], rows, depth };
        let rows = program.positions();
        let mut gemm = GatherGemm::new::<T>(vec![self.groups], left, right, self.kg, program, rows, machine);
        if chunk < n {
            shared = shared.saturating_add(gemm.keep_tiles::<T>(shared));
        }
        let left = if image.stage.is_some() { 0 } else { image.image };
        let images = Images::Depth { count: n, chunk, left };
        Ok(GemmStep { images, once: Vec::new(), per_chunk, gemms: vec![gemm], shared })
    }
}

/// The left operand's images: read in place, or staged.
struct Image {
    ordinal: usize,
    /// The stage, or nothing if the tensor is read in place.
    stage: Option<ImageStage>,
    /// Element strides of image and channel.
    image: isize,
    channel: isize,
    /// Element offset of position 0.
    base: isize,
    /// Element strides of positions along space, for reading in place.
    space: Vec<i64>,
    /// Whether every position lies within the tensor and has the product's type.
    in_place: bool,
    /// Images at a time.
    chunk: usize,
}

impl Image {
    fn plan<T: Pack>(op: &'static str, tensor: &Tensor, extents: Vec<Extent>, phases: usize) -> Result<Self, CpuError> {
        let elem = tensor.elem(op)?;
        let inside = extents.iter().all(|e| e.origin >= 0 && (e.size - 1) * e.step + (e.origin as usize) < e.source);
        let base = extents.iter().map(|e| if inside { e.origin as isize * e.stride } else { 0 }).sum();
        // Phases beyond the positions would only add padding.
        let phases = phases.min(extents.last().map_or(1, |e| e.size));
        let space = tensor.strides[2..].iter().zip(&extents).map(|(&stride, e)| stride * e.step as i64).collect();
        let stage = ImageStage {
            ordinal: tensor.ordinal as usize,
            elem,
            image_stride: tensor.strides[0] as isize,
            channel_stride: tensor.strides[1] as isize,
            channels: tensor.dims[1],
            extents,
            phases,
            to: 0,
        };
        Ok(Self {
            ordinal: tensor.ordinal as usize,
            stage: Some(stage),
            image: tensor.strides[0] as isize,
            channel: tensor.strides[1] as isize,
            base,
            space,
            in_place: inside && elem == T::ELEM,
            chunk: tensor.dims[0],
        })
    }

    /// Decides whether the images are read in place: if they can be and that is `wanted`. If not, about `chunk_bytes` of
    /// them are staged at once.
    fn settle<T: Pack>(&mut self, wanted: bool, images: usize, chunk_bytes: usize) -> Result<(), CpuError> {
        if self.in_place && wanted {
            self.stage = None;
            return Ok(());
        }
        if let Some(stage) = &self.stage {
            let elements = stage.image();
            let needed = bytes_of::<T>(elements as u64);
            if needed > MAX_SCRATCH {
                return Err(CpuError::ScratchTooLarge { needed, limit: MAX_SCRATCH });
            }
            self.base = 0;
            self.image = elements as isize;
            self.channel = stage.plane() as isize;
            self.chunk = (chunk_bytes / size_of::<T>() / elements.max(1)).clamp(1, images);
        }
        Ok(())
    }

    /// Element offset of a position along spatial dimension `d`.
    fn position(&self, d: usize, position: i64) -> isize {
        match &self.stage {
            None => (position * self.space[d]) as isize,
            Some(stage) if d + 1 == stage.extents.len() => {
                let (phases, phase) = (stage.phases as i64, stage.phase_size() as i64);
                (position % phases * phase + position / phases) as isize
            }
            Some(stage) => position as isize * stage.pitch(d) as isize,
        }
    }

    /// Element offset of a step of `by` positions along dimension `d`; along the last, a multiple of the phases.
    fn step(&self, d: usize, by: i64) -> isize {
        match &self.stage {
            None => (by * self.space[d]) as isize,
            Some(stage) if d + 1 == stage.extents.len() => (by / stage.phases as i64).max(1) as isize,
            Some(stage) => by as isize * stage.pitch(d) as isize,
        }
    }

    fn source(&self) -> Source {
        match &self.stage {
            None => Source::Tensor { ordinal: self.ordinal, base: 0 },
            Some(stage) => Source::Scratch { offset: stage.to },
        }
    }

    /// Bytes of scratch, which start at offset 0.
    fn bytes<T: Pack>(&self) -> u64 {
        self.stage.as_ref().map_or(0, |stage| bytes_of::<T>((stage.image() as u64).saturating_mul(self.chunk as u64)))
    }

    fn stages(&self) -> Vec<Stage> {
        self.stage.clone().map(Stage::Image).into_iter().collect()
    }
}
