//! Row programs: pointwise chains and batch normalisation over runs of output elements, straight from and to strided tensors.
//!
//! An output element is addressed by a batch index, a column and a row position. A [`Loops`] says which output
//! coordinates those stand for; every tensor that takes part becomes a [`View`], which is linear in them.

use super::element::{Elem, IntMode, Real};
use super::pointwise::{self, Params};
use hipplan_serialize::PointwiseMode;
use std::ops::Range;

/// Elements handled at once; rows are cut to this length.
pub(crate) const CHUNK: usize = 128;
/// Most loop dimensions of one kind.
pub(crate) const MAX_LOOPS: usize = 8;
/// Most inputs of one row operation.
const MAX_INPUTS: usize = 6;

/// One loop: `size` steps of `step` along the output's axis `axis`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopDim {
    pub(crate) size: usize,
    pub(crate) axis: usize,
    pub(crate) step: i64,
}

/// The loops that visit an output.
#[derive(Clone, Debug)]
pub(crate) struct Loops {
    pub(crate) batch: Vec<LoopDim>,
    pub(crate) n: Option<LoopDim>,
    pub(crate) m: Vec<LoopDim>,
    /// The coordinate, per output axis, where the loops start.
    pub(crate) origin: Vec<i64>,
}

/// A tensor as the loops see it: element offset = base + what each loop index adds.
#[derive(Clone, Debug)]
pub(crate) struct View {
    ordinal: usize,
    elem: Elem,
    base: isize,
    batch: Vec<isize>,
    n: isize,
    m: Vec<isize>,
}

impl View {
    /// The view of a tensor with these strides per output axis (zero where it broadcasts).
    pub(crate) fn new(ordinal: usize, elem: Elem, axis_strides: &[i64], loops: &Loops) -> Self {
        let along = |d: &LoopDim| (axis_strides[d.axis] * d.step) as isize;
        Self {
            ordinal,
            elem,
            base: loops.origin.iter().zip(axis_strides).map(|(&o, &s)| o * s).sum::<i64>() as isize,
            batch: loops.batch.iter().map(along).collect(),
            n: loops.n.as_ref().map_or(0, along),
            m: loops.m.iter().map(along).collect(),
        }
    }

    fn offset(&self, batch: &[usize], n: usize, m: &[usize]) -> isize {
        let dot = |strides: &[isize], index: &[usize]| -> isize { strides.iter().zip(index).map(|(&s, &i)| s * i as isize).sum() };
        self.base + dot(&self.batch, batch) + self.n * n as isize + dot(&self.m, m)
    }

    fn inner(&self) -> isize {
        self.m.last().copied().unwrap_or(0)
    }
}

/// Where an operand's row comes from.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// The value carried from the operation before.
    Carried,
    /// A tensor.
    Tensor(View),
    /// An output coordinate; the view's "offset" is its value.
    Index(View),
}

/// What one operation computes.
#[derive(Clone, Debug)]
pub(crate) enum Function {
    /// A pointwise mode.
    Pointwise(PointwiseMode, Params),
    /// `(in0 - in1) * in2 * in3 + in4`.
    Batchnorm,
    /// `(in0 - in1) / sqrt(in2 + in5) * in3 + in4`.
    BatchnormVariance,
}

/// One operation of a row program.
#[derive(Clone, Debug)]
pub(crate) struct RowOp {
    pub(crate) function: Function,
    pub(crate) inputs: Vec<Input>,
    /// Computed in `f64`.
    pub(crate) wide: bool,
    /// The type of the value it yields.
    pub(crate) round: Elem,
}

/// A chain of operations that ends in a store.
#[derive(Clone, Debug)]
pub(crate) struct RowProgram {
    batch: Vec<usize>,
    m: Vec<usize>,
    ops: Vec<RowOp>,
    /// The type that the value of a tile is rounded to before the first operation.
    first: Option<Elem>,
    out: View,
    /// How the store treats integers out of range.
    ints: IntMode,
    /// Some value needs `f64`.
    wide: bool,
}

/// Rows of operands and of the result.
struct Buffers<C> {
    inputs: [[C; CHUNK]; MAX_INPUTS],
    out: [C; CHUNK],
}

impl<C: Real> Buffers<C> {
    fn new() -> Self {
        Self { inputs: [[C::ZERO; CHUNK]; MAX_INPUTS], out: [C::ZERO; CHUNK] }
    }
}

/// The position of a row.
struct At<'a> {
    batch: &'a [usize],
    n: usize,
    m: &'a [usize],
}

/// Splits a flat position into indices of `sizes`; the first size is not needed.
pub(crate) fn split(mut position: usize, sizes: &[usize], index: &mut [usize; MAX_LOOPS]) {
    for d in (1..sizes.len()).rev() {
        index[d] = position % sizes[d];
        position /= sizes[d];
    }
    index[0] = position;
}

impl RowProgram {
    /// A program whose value starts in a tile (with `first` the type it is rounded to when operations follow) or in its
    /// first operation.
    pub(crate) fn new(loops: &Loops, ops: Vec<RowOp>, first: Option<Elem>, out: View, from_tile: bool) -> Self {
        let ints = if from_tile && ops.is_empty() { out.elem.sum_mode() } else { IntMode::Saturate };
        let wide = ops.iter().any(|op| op.wide || op.round.wide()) || first.is_some_and(Elem::wide);
        let mut program = Self {
            batch: loops.batch.iter().map(|d| d.size).collect(),
            m: loops.m.iter().map(|d| d.size).collect(),
            ops,
            first,
            out,
            ints,
            wide,
        };
        program.collapse();
        program
    }

    fn views(&mut self) -> impl Iterator<Item = &mut View> {
        let inputs = self.ops.iter_mut().flat_map(|op| op.inputs.iter_mut());
        std::iter::once(&mut self.out).chain(inputs.filter_map(|input| match input {
            Input::Carried => None,
            Input::Tensor(view) | Input::Index(view) => Some(view),
        }))
    }

    /// Merges neighbouring row dimensions that every view walks as one.
    fn collapse(&mut self) {
        if self.m.is_empty() {
            self.m.push(1);
            self.views().for_each(|view| view.m.push(0));
        }
        let mut d = self.m.len() - 1;
        while d > 0 {
            let inner = self.m[d];
            let (outer_one, inner_one) = (self.m[d - 1] == 1, inner == 1);
            let merges = outer_one || inner_one || self.views().all(|view| view.m[d] as i128 * inner as i128 == view.m[d - 1] as i128);
            if merges {
                self.m[d - 1] *= inner;
                self.m.remove(d);
                self.views().for_each(|view| {
                    // Of an extent of 1 only the other stride counts.
                    let kept = if inner_one { view.m[d - 1] } else { view.m[d] };
                    view.m[d - 1] = kept;
                    view.m.remove(d);
                });
            }
            d -= 1;
        }
    }

    /// Number of row positions.
    pub(crate) fn positions(&self) -> usize {
        self.m.iter().product()
    }

    /// The rows that a product may write by itself at a time, from a multiple of that number on: if there is nothing to do
    /// but to store, in the product's own type, rows that are neighbours.
    pub(crate) fn run_length<T: Real>(&self) -> Option<usize> {
        let size = self.m.last().copied().unwrap_or(1);
        let neighbours = self.out.inner() == 1 || size == 1;
        (self.ops.is_empty() && self.out.elem == T::ELEM && neighbours).then_some(size)
    }

    /// Where a product may write rows from position `m` on, at column `n` of batch `g`, and the distance of columns there.
    ///
    /// # Safety
    /// As [`RowProgram::run`] for those elements.
    pub(crate) unsafe fn destination<T: Real>(&self, bases: &[*mut u8], g: usize, m: Range<usize>, n: usize) -> Option<(*mut T, usize)> {
        let length = self.run_length::<T>()?;
        if m.start % length + m.len() > length {
            return None;
        }
        let mut batch = [0; MAX_LOOPS];
        if !self.batch.is_empty() {
            split(g, &self.batch, &mut batch);
        }
        let mut index = [0; MAX_LOOPS];
        if !self.m.is_empty() {
            split(m.start, &self.m, &mut index);
        }
        let offset = self.out.offset(&batch, n, &index);
        // SAFETY: the element lies within the loops, so within the output's span.
        Some((unsafe { bases[self.out.ordinal].cast::<T>().offset(offset) }, self.out.n as usize))
    }

    /// Runs the program for the row positions `m` and the columns `n` of batch `g`. With a tile, the value of position
    /// `i` and column `j` starts as `tile[(j - n.start) * ld + (i - m.start)]`.
    ///
    /// # Safety
    /// `bases` holds, for every tensor of the views, a pointer to memory that covers the tensor's span; inputs are
    /// initialised and not written meanwhile, except that an output may be an input with the same element offsets; no
    /// other thread writes the output elements addressed here. Positions, columns and batch lie within the loops. A tile
    /// covers the addressed elements.
    pub(crate) unsafe fn run<T: Real>(
        &self,
        bases: &[*mut u8],
        g: usize,
        m: Range<usize>,
        n: Range<usize>,
        tile: Option<(*const T, usize)>,
    ) {
        // SAFETY: the caller's promise is the same.
        unsafe {
            if self.wide || T::ELEM == Elem::F64 {
                self.run_in::<T, f64>(bases, g, m, n, tile);
            } else {
                self.run_in::<T, f32>(bases, g, m, n, tile);
            }
        }
    }

    /// [`RowProgram::run`] with values carried in `V`.
    ///
    /// # Safety
    /// As there.
    unsafe fn run_in<T: Real, V: Real>(
        &self,
        bases: &[*mut u8],
        g: usize,
        m: Range<usize>,
        n: Range<usize>,
        tile: Option<(*const T, usize)>,
    ) {
        let mut batch_index = [0; MAX_LOOPS];
        if !self.batch.is_empty() {
            split(g, &self.batch, &mut batch_index);
        }
        let mut index = [0; MAX_LOOPS];
        let last = self.m.len() - 1;
        let plain = self.ops.is_empty();
        let mut wide = self.ops.iter().any(|op| op.wide).then(Buffers::<f64>::new);
        let mut narrow = self.ops.iter().any(|op| !op.wide).then(Buffers::<f32>::new);
        let mut value = [V::ZERO; CHUNK];
        let mut position = m.start;
        while position < m.end {
            split(position, &self.m, &mut index);
            let mut length = (m.end - position).min(self.m[last] - index[last]);
            if !plain {
                length = length.min(CHUNK);
            }
            for j in n.clone() {
                let at = At { batch: &batch_index, n: j, m: &index };
                let out_offset = self.out.offset(at.batch, j, at.m) * self.out.elem.size() as isize;
                // SAFETY: the position lies within the loops, so the offset lies within the output's span.
                let out = unsafe { bases[self.out.ordinal].offset(out_offset) };
                let row = tile.map(|(tile, ld)| {
                    // SAFETY: the caller's tile covers these elements and nobody writes it meanwhile.
                    unsafe { std::slice::from_raw_parts(tile.add((j - n.start) * ld + position - m.start), length) }
                });
                if let (true, Some(row)) = (plain, row) {
                    // SAFETY: the row's elements lie within the output's span and are written by this thread only.
                    unsafe { T::store_row(self.out.elem, out, self.out.inner(), row, self.ints) };
                    continue;
                }
                let value = &mut value[..length];
                if let Some(row) = row {
                    value.iter_mut().zip(row).for_each(|(v, r)| *v = V::of(r.f64()));
                    if let Some(elem) = self.first {
                        V::round_row(elem, value, elem.sum_mode());
                    }
                }
                for (step, op) in self.ops.iter().enumerate() {
                    // SAFETY: the caller vouches for the tensors of every view at every position.
                    unsafe {
                        match (&mut wide, &mut narrow) {
                            (Some(buffers), _) if op.wide => op.apply(buffers, bases, &at, value),
                            (_, Some(buffers)) => op.apply(buffers, bases, &at, value),
                            _ => {}
                        }
                    }
                    if step + 1 < self.ops.len() {
                        V::round_row(op.round, value, IntMode::Saturate);
                    }
                }
                // SAFETY: the row's elements lie within the output's span and are written by this thread only.
                unsafe { V::store_row(self.out.elem, out, self.out.inner(), value, self.ints) };
            }
            position += length;
        }
    }
}

impl RowOp {
    /// Applies the operation to a row in the type `C`; `value` is the carried row and becomes the result.
    ///
    /// # Safety
    /// As [`RowProgram::run`], for the row at `at`.
    unsafe fn apply<C: Real, T: Real>(&self, buffers: &mut Buffers<C>, bases: &[*mut u8], at: &At<'_>, value: &mut [T]) {
        let length = value.len();
        for (input, row) in self.inputs.iter().zip(&mut buffers.inputs) {
            let row = &mut row[..length];
            match input {
                Input::Carried => row.iter_mut().zip(&*value).for_each(|(r, v)| *r = C::of(v.f64())),
                Input::Tensor(view) => {
                    let offset = view.offset(at.batch, at.n, at.m) * view.elem.size() as isize;
                    // SAFETY: the row lies within the loops, so its offsets lie within the tensor's span, which the
                    // caller vouches for.
                    unsafe { C::load_row(view.elem, bases[view.ordinal].offset(offset), view.inner(), row) };
                }
                Input::Index(view) => {
                    let first = view.offset(at.batch, at.n, at.m);
                    let step = view.inner();
                    for (i, r) in row.iter_mut().enumerate() {
                        *r = C::of((first + step * i as isize) as f64);
                    }
                }
            }
        }
        let [a, b, c, d, e, f] = &buffers.inputs;
        let out = &mut buffers.out[..length];
        match &self.function {
            Function::Pointwise(mode, params) => {
                pointwise::eval(*mode, params, out, &a[..length], &b[..length], &c[..length]);
            }
            Function::Batchnorm => {
                for i in 0..length {
                    out[i] = (a[i] - b[i]) * c[i] * d[i] + e[i];
                }
            }
            Function::BatchnormVariance => {
                for i in 0..length {
                    let inverse = C::ONE / (c[i] + f[i]).sqrt();
                    out[i] = (a[i] - b[i]) * inverse * d[i] + e[i];
                }
            }
        }
        value.iter_mut().zip(&*out).for_each(|(v, o)| *v = T::of(o.f64()));
    }
}
