//! Matmul as a gathered product.

use super::CpuError;
use super::chain::{Builder, wide_compute};
use super::element::Elem;
use super::gemm::{GatherGemm, Left, Machine, Right, Source};
use super::layout::Tensor;
use super::pack::Pack;
use super::rows::{LoopDim, Loops};
use super::scratch::bytes_of;
use super::stage::{Stage, TableStage};
use super::steps::{GemmStep, Images, table_length};

const OP: &str = "matmul";
const FLOATS: &str = "float, half, bfloat16 or double; or int8 or uint8 for both operands";

/// Whether a product of these types is summed in `f64`, and an error for types that it does not take.
pub(crate) fn wide_product(op: &'static str, a: &Tensor, b: &Tensor, out: (Elem, &Tensor), compute: i8) -> Result<bool, CpuError> {
    let (left, right) = (a.elem(op)?, b.elem(op)?);
    let bytes = left.byte();
    for (tensor, elem) in [(a, left), (b, right)] {
        if !(if bytes { elem.byte() } else { elem.float() }) {
            return Err(tensor.refuse(op, FLOATS));
        }
    }
    let (result, tensor) = out;
    if !(result.float() || bytes && (result == Elem::I32 || result.byte())) {
        return Err(tensor.refuse(op, "float, half, bfloat16 or double; or int32, int8 or uint8 for a product of 8-bit integers"));
    }
    let wide = wide_compute(op, compute)?;
    Ok(wide || bytes || left.wide() || right.wide())
}

/// One operand as a matrix: its stride along its own dimension, along the depth, and along each batch axis of the output.
struct Side<'a> {
    tensor: &'a Tensor,
    elem: Elem,
    size: usize,
    stride: i64,
    depth_stride: i64,
    batch: Vec<i64>,
}

impl Side<'_> {
    /// Batch extents of the operand itself that are not 1, per batch axis of the output.
    fn own_batch(&self, out: &[usize]) -> Vec<(usize, i64)> {
        let rank = self.tensor.dims.len();
        (0..out.len() - 2)
            .map(|axis| match (axis + rank).checked_sub(out.len()) {
                Some(own) if self.tensor.dims[own] > 1 => (self.tensor.dims[own], self.batch[axis]),
                _ => (1, 0),
            })
            .collect()
    }
}

/// Prepares a matmul; `machine` is what it will run on.
pub(crate) fn prepare<T: Pack>(builder: &Builder<'_>, a: &Tensor, b: &Tensor, machine: Machine) -> Result<GemmStep, CpuError> {
    let out = builder.out;
    let rank = out.dims.len();
    let (m, n, k) = (out.dims[rank - 2], out.dims[rank - 1], a.dims[a.dims.len() - 1]);
    table_length(k as u128)?;
    let strides = |t: &Tensor, own: usize, deep: usize| -> Result<(i64, i64, Vec<i64>), CpuError> {
        let mut extents = out.dims.clone();
        let base = t.dims.len() - 2;
        extents[rank - 2] = t.dims[base];
        extents[rank - 1] = t.dims[base + 1];
        let batch = t.broadcast(OP, &extents)?[..rank - 2].to_vec();
        Ok((t.strides[base + own], t.strides[base + deep], batch))
    };
    let (a_stride, a_depth, a_batch) = strides(a, 0, 1)?;
    let (b_stride, b_depth, b_batch) = strides(b, 1, 0)?;
    let left = Side { tensor: a, elem: a.elem(OP)?, size: m, stride: a_stride, depth_stride: a_depth, batch: a_batch };
    let right = Side { tensor: b, elem: b.elem(OP)?, size: n, stride: b_stride, depth_stride: b_depth, batch: b_batch };
    let direct = |s: &Side<'_>| s.elem == T::ELEM && (s.depth_stride == 1 || k == 1);
    // Which operand gives the rows: the right operand should need no staging, the rows should be neighbours, the
    // output's rows too.
    let cost = |rows: &Side<'_>, columns: &Side<'_>, out_stride: i64| {
        let gathers = rows.elem == T::ELEM && rows.stride != 1 && rows.size > 1;
        4 * u32::from(!direct(columns)) + 2 * u32::from(gathers) + u32::from(out_stride != 1)
    };
    let swap = cost(&right, &left, out.strides[rank - 1]) < cost(&left, &right, out.strides[rank - 2]);
    let (rows, columns, row_axis) = if swap { (right, left, rank - 1) } else { (left, right, rank - 2) };
    let column_axis = 2 * rank - 3 - row_axis;

    let batch_axes: Vec<usize> = (0..rank - 2).filter(|&axis| out.dims[axis] > 1).collect();
    let loops = Loops {
        batch: batch_axes.iter().map(|&axis| LoopDim { size: out.dims[axis], axis, step: 1 }).collect(),
        n: Some(LoopDim { size: columns.size, axis: column_axis, step: 1 }),
        m: vec![LoopDim { size: rows.size, axis: row_axis, step: 1 }],
        origin: vec![0; rank],
    };
    let program = builder.epilogue(&loops, OP)?;

    let mut once = Vec::new();
    let mut shared = 0;
    let along = |strides: &[i64]| batch_axes.iter().map(|&axis| strides[axis] as isize).collect::<Vec<isize>>();
    // Stages one operand as [own batch][outer][inner]; gives its place and its batch strides.
    let mut stage = |s: &Side<'_>, outer: (usize, i64), inner: (usize, i64)| -> Result<(Source, Vec<isize>), CpuError> {
        let own = s.own_batch(&out.dims);
        let mut rows: Vec<(usize, isize)> = own.iter().map(|&(size, stride)| (size, stride as isize)).collect();
        rows.push((outer.0, outer.1 as isize));
        rows.retain(|&(size, _)| size > 1);
        table_length(inner.0 as u128)?;
        let table = (0..inner.0).map(|i| i as isize * inner.1 as isize).collect();
        let to = shared;
        let staged = TableStage { ordinal: s.tensor.ordinal as usize, elem: s.elem, rows, table, images: None, to };
        shared += bytes_of::<T>(staged.elements());
        once.push(Stage::Table(staged));
        let mut strides = vec![0i64; rank - 2];
        let mut step = (outer.0 as i64).saturating_mul(inner.0 as i64);
        for (axis, &(size, _)) in own.iter().enumerate().rev() {
            if size > 1 {
                strides[axis] = step;
                step = step.saturating_mul(size as i64);
            }
        }
        Ok((Source::Scratch { offset: to }, along(&strides)))
    };
    let whole = |s: &Side<'_>| Source::Tensor { ordinal: s.tensor.ordinal as usize, base: 0 };
    let (source, batch, stride, depth_stride) = if rows.elem == T::ELEM {
        (whole(&rows), along(&rows.batch), rows.stride as isize, rows.depth_stride as isize)
    } else {
        let (source, batch) = stage(&rows, (k, rows.depth_stride), (rows.size, rows.stride))?;
        (source, batch, 1, rows.size as isize)
    };
    let depth = (0..k).map(|d| d as isize * depth_stride).collect();
    let left = Left { source, batch, rows: vec![(rows.size, stride)], depth };
    let right = if direct(&columns) {
        Right { source: whole(&columns), batch: along(&columns.batch), ld: columns.stride as isize }
    } else {
        let (source, batch) = stage(&columns, (columns.size, columns.stride), (k, columns.depth_stride))?;
        Right { source, batch, ld: k as isize }
    };
    let sizes = batch_axes.iter().map(|&axis| out.dims[axis]).collect();
    let gemm = GatherGemm::new::<T>(sizes, left, right, columns.size, program, rows.size, machine);
    Ok(GemmStep { images: Images::None, once, per_chunk: Vec::new(), gemms: vec![gemm], shared })
}

/// Checks the shapes of a matmul: ranks of at least 2, and `[.., m, k] x [.., k, n] = [.., m, n]`.
pub(crate) fn check(out: &Tensor, a: &Tensor, b: &Tensor) -> Result<(), CpuError> {
    for tensor in [a, b, out] {
        if tensor.dims.len() < 2 {
            return Err(CpuError::Rank { ordinal: tensor.ordinal, found: tensor.dims.len(), expected: "2 to 8" });
        }
    }
    let last = |t: &Tensor| (t.dims.len() - 2, t.dims.len() - 1);
    let ((am, ak), (bk, bn), (om, on)) = (last(a), last(b), last(out));
    b.expect(OP, bk, a.dims[ak])?;
    out.expect(OP, om, a.dims[am])?;
    out.expect(OP, on, b.dims[bn])
}
