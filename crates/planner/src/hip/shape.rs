//! From operations to loop nests.

use super::nest::{Loop, Nest, Role, Window};
use super::work::{OUT, X, Y};
use hipplan_serialize::TensorView;

/// A loop before the strides of result and epilogue are known.
struct Spec {
    role: Role,
    extent: i64,
    x: i64,
    y: i64,
    /// The dimension of the result that it moves along, and by how much.
    out: Option<(usize, i64)>,
    window: Option<(usize, i64)>,
}

/// A nest before the strides of result and epilogue are known: those follow from where the loops stand in the result's dimensions.
pub(super) struct Shape {
    loops: Vec<Spec>,
    windows: Vec<Window>,
    x_base: i64,
    y_base: i64,
    /// First index in each dimension of the result.
    out_base: Vec<i64>,
}

impl Shape {
    fn new(rank: usize) -> Self {
        Self { loops: Vec::new(), windows: Vec::new(), x_base: 0, y_base: 0, out_base: vec![0; rank] }
    }

    fn add(&mut self, role: Role, extent: i64, x: i64, y: i64, out: Option<(usize, i64)>) {
        self.loops.push(Spec { role, extent, x, y, out, window: None });
    }

    /// The nest over x, y, and the tensors whose strides along the result's dimensions are given, the result first.
    pub(super) fn nest(&self, outs: &[Vec<i64>]) -> Nest {
        let stride = |spec: &Spec, strides: &[i64]| spec.out.map_or(0, |(dim, step)| strides[dim] * step);
        let loops = self.loops.iter().map(|spec| Loop {
            role: spec.role,
            extent: spec.extent,
            strides: [spec.x, spec.y].into_iter().chain(outs.iter().map(|strides| stride(spec, strides))).collect(),
            window: spec.window,
        });
        let base = |strides: &Vec<i64>| self.out_base.iter().zip(strides).map(|(b, s)| b * s).sum();
        let mut nest = Nest {
            loops: loops.collect(),
            windows: self.windows.clone(),
            bases: [self.x_base, self.y_base].into_iter().chain(outs.iter().map(base)).collect(),
        };
        // Lanes run along what is contiguous: rows and columns by the result, the depth by the second operand where there is one.
        let has_y = nest.loops.iter().any(|l| l.strides[Y] != 0);
        nest.simplify(|role| match role {
            Role::K if has_y => Y,
            Role::K => X,
            _ => OUT,
        });
        nest
    }
}

/// A convolution's attributes, one entry per spatial dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvAttributes<'g> {
    pub(super) padding: &'g [i64],
    pub(super) stride: &'g [i64],
    pub(super) dilation: &'g [i64],
    /// The filter is flipped in every spatial dimension.
    pub(super) flip: bool,
}

impl ConvAttributes<'_> {
    /// Index of the first tap in one dimension, and the step to the next.
    const fn taps(&self, count: i64) -> (i64, i64) {
        if self.flip { (count - 1, -1) } else { (0, 1) }
    }
}

/// Groups of a convolution over `x` with filters `w`.
fn groups(x: &TensorView<'_>, w: &TensorView<'_>) -> i64 {
    x.dims[1] / w.dims[1].max(1)
}

/// `y[n, k, p] = sum over c, r of x[n, c, p * stride - padding + r * dilation] * w[k, c, r]`: rows are positions, columns filters.
pub(super) fn forward(x: &TensorView<'_>, w: &TensorView<'_>, y: &TensorView<'_>, conv: ConvAttributes<'_>) -> Shape {
    let (groups, channels, filters) = (groups(x, w), w.dims[1], w.dims[0] / groups(x, w).max(1));
    let mut shape = Shape::new(y.dims.len());
    shape.add(Role::M, y.dims[0], x.strides[0], 0, Some((0, 1)));
    shape.add(Role::N, filters, 0, w.strides[0], Some((1, 1)));
    shape.add(Role::Batch, groups, channels * x.strides[1], filters * w.strides[0], Some((1, filters)));
    shape.add(Role::K, channels, x.strides[1], w.strides[1], None);
    for i in 0..x.dims.len() - 2 {
        let (d, xs, ws) = (i + 2, x.strides[i + 2], w.strides[i + 2]);
        let (tap, step) = conv.taps(w.dims[d]);
        let (stride, dilation, start) = (conv.stride[i], conv.dilation[i], -conv.padding[i]);
        let window = |step| Some((i, step));
        shape.windows.push(Window { start, size: x.dims[d] });
        shape.x_base += start * xs;
        shape.y_base += tap * ws;
        let out = Some((d, 1));
        shape.loops.push(Spec { role: Role::M, extent: y.dims[d], x: stride * xs, y: 0, out, window: window(stride) });
        shape.loops.push(Spec { role: Role::K, extent: w.dims[d], x: dilation * xs, y: step * ws, out: None, window: window(dilation) });
    }
    shape
}

/// `dw[k, c, r] = sum over n, p of x[n, c, p * stride - padding + r * dilation] * dy[n, k, p]`: rows are channels and taps, columns filters.
pub(super) fn weight_gradient(x: &TensorView<'_>, dy: &TensorView<'_>, dw: &TensorView<'_>, conv: ConvAttributes<'_>) -> Shape {
    let (groups, channels, filters) = (groups(x, dw), dw.dims[1], dw.dims[0] / groups(x, dw).max(1));
    let mut shape = Shape::new(dw.dims.len());
    shape.add(Role::M, channels, x.strides[1], 0, Some((1, 1)));
    shape.add(Role::N, filters, 0, dy.strides[1], Some((0, 1)));
    shape.add(Role::Batch, groups, channels * x.strides[1], filters * dy.strides[1], Some((0, filters)));
    shape.add(Role::K, x.dims[0], x.strides[0], dy.strides[0], None);
    for i in 0..x.dims.len() - 2 {
        let (d, xs, ys) = (i + 2, x.strides[i + 2], dy.strides[i + 2]);
        let (tap, step) = conv.taps(dw.dims[d]);
        let (stride, dilation, start) = (conv.stride[i], conv.dilation[i], -conv.padding[i]);
        shape.windows.push(Window { start, size: x.dims[d] });
        shape.x_base += start * xs;
        shape.out_base[d] = tap;
        let (out, window) = (Some((d, step)), Some((i, dilation)));
        shape.loops.push(Spec { role: Role::M, extent: dw.dims[d], x: dilation * xs, y: 0, out, window });
        let window = Some((i, stride));
        shape.loops.push(Spec { role: Role::K, extent: dy.dims[d], x: stride * xs, y: ys, out: None, window });
    }
    shape
}

/// One residue class of a data gradient in one dimension: pixels `phase + stride * q` are reached by the taps `first + t * step` from
/// the positions `q + start - t * back`.
struct Phase {
    phase: i64,
    pixels: i64,
    taps: i64,
    first: i64,
    step: i64,
    start: i64,
    back: i64,
}

impl Phase {
    /// The classes of a dimension that have pixels.
    fn all(pixels: i64, taps: i64, padding: i64, stride: i64, dilation: i64) -> Vec<Self> {
        let common = gcd(stride, dilation);
        let (step, back) = (stride / common, dilation / common);
        let of = |phase: i64| {
            let reaches = |r: &i64| (phase + padding - r * dilation).rem_euclid(stride) == 0;
            let first = (0..taps.min(step)).find(reaches);
            let count = first.map_or(0, |first| (taps - first + step - 1) / step);
            let first = first.unwrap_or(0);
            let start = if count > 0 { (phase + padding - first * dilation) / stride } else { 0 };
            Self { phase, pixels: (pixels - phase + stride - 1) / stride, taps: count, first, step, start, back }
        };
        (0..stride.min(pixels)).map(of).collect()
    }
}

const fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Number of nests that a data gradient takes.
pub(super) fn data_gradient_parts(dx: &TensorView<'_>, conv: ConvAttributes<'_>) -> i64 {
    dx.dims.iter().skip(2).zip(conv.stride).fold(1, |n, (&pixels, &stride)| n.saturating_mul(pixels.min(stride)))
}

/// `dx[n, c, i] = sum over k, r, p with p * stride - padding + r * dilation = i of dy[n, k, p] * w[k, c, r]`: rows are pixels, columns
/// channels.
///
/// Which taps reach a pixel depends on its index modulo the stride, so there is a nest for each residue class, and within each the gradient
/// is a forward convolution of stride 1 over `dy`.
pub(super) fn data_gradient(dy: &TensorView<'_>, w: &TensorView<'_>, dx: &TensorView<'_>, conv: ConvAttributes<'_>) -> Vec<Shape> {
    let (groups, channels, filters) = (groups(dx, w), w.dims[1], w.dims[0] / groups(dx, w).max(1));
    let spatial = dx.dims.len() - 2;
    let phases: Vec<Vec<Phase>> =
        (0..spatial).map(|i| Phase::all(dx.dims[i + 2], w.dims[i + 2], conv.padding[i], conv.stride[i], conv.dilation[i])).collect();
    let count = phases.iter().map(Vec::len).product();
    let part = |number: usize| {
        let mut shape = Shape::new(dx.dims.len());
        shape.add(Role::M, dx.dims[0], dy.strides[0], 0, Some((0, 1)));
        shape.add(Role::N, channels, 0, w.strides[1], Some((1, 1)));
        shape.add(Role::Batch, groups, filters * dy.strides[1], filters * w.strides[0], Some((1, channels)));
        shape.add(Role::K, filters, dy.strides[1], w.strides[0], None);
        let mut rest = number;
        for i in 0..spatial {
            let (d, ys, ws) = (i + 2, dy.strides[i + 2], w.strides[i + 2]);
            let phase = &phases[i][rest % phases[i].len()];
            rest /= phases[i].len();
            let (tap, direction) = conv.taps(w.dims[d]);
            shape.windows.push(Window { start: phase.start, size: dy.dims[d] });
            shape.x_base += phase.start * ys;
            shape.y_base += (tap + direction * phase.first) * ws;
            shape.out_base[d] = phase.phase;
            let out = Some((d, conv.stride[i]));
            shape.loops.push(Spec { role: Role::M, extent: phase.pixels, x: ys, y: 0, out, window: Some((i, 1)) });
            let (x, y, window) = (-phase.back * ys, direction * phase.step * ws, Some((i, -phase.back)));
            shape.loops.push(Spec { role: Role::K, extent: phase.taps, x, y, out: None, window });
        }
        shape
    };
    (0..count).map(part).collect()
}

/// `c[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]`, batch dimensions broadcast right-aligned.
///
/// A batch dimension that only one operand has is rows or columns of one larger product.
pub(super) fn product(a: &TensorView<'_>, b: &TensorView<'_>, c: &TensorView<'_>) -> Shape {
    let rank = c.dims.len();
    let mut shape = Shape::new(rank);
    let (ra, rb) = (a.dims.len(), b.dims.len());
    shape.add(Role::M, c.dims[rank - 2], a.strides[ra - 2], 0, Some((rank - 2, 1)));
    shape.add(Role::N, c.dims[rank - 1], 0, b.strides[rb - 1], Some((rank - 1, 1)));
    shape.add(Role::K, a.dims[ra - 1], a.strides[ra - 1], b.strides[rb - 2], None);
    for d in 0..rank - 2 {
        let stride = |t: &TensorView<'_>| match (t.dims.len() + d).checked_sub(rank) {
            Some(at) if t.dims[at] != 1 => t.strides[at],
            _ => 0,
        };
        let (x, y) = (stride(a), stride(b));
        let role = match (x, y) {
            (_, 0) => Role::M,
            (0, _) => Role::N,
            _ => Role::Batch,
        };
        shape.add(role, c.dims[d], x, y, Some((d, 1)));
    }
    shape
}

/// `out[p] = sum over the dimensions where out has size 1 of x[p, ..]`.
pub(super) fn reduction(x: &TensorView<'_>, out: &TensorView<'_>) -> Shape {
    let mut shape = Shape::new(out.dims.len());
    for (d, (&extent, &stride)) in x.dims.iter().zip(x.strides).enumerate() {
        if out.dims[d] == 1 {
            shape.add(Role::K, extent, stride, 0, None);
        } else {
            shape.add(Role::M, extent, stride, 0, Some((d, 1)));
        }
    }
    shape
}

/// Every element of a tensor.
pub(super) fn elements(out: &TensorView<'_>) -> Shape {
    let mut shape = Shape::new(out.dims.len());
    for (d, &extent) in out.dims.iter().enumerate() {
        shape.add(Role::M, extent, 0, 0, Some((d, 1)));
    }
    shape
}

/// Strides of a tensor along the dimensions of a result that it is broadcast to, right-aligned.
pub(super) fn broadcast(tensor: &TensorView<'_>, rank: usize) -> Vec<i64> {
    (0..rank)
        .map(|d| match (tensor.dims.len() + d).checked_sub(rank) {
            Some(at) if tensor.dims[at] != 1 => tensor.strides[at],
            _ => 0,
        })
        .collect()
}

/// Whether an operand of a product has each batch dimension of the result, or 1 in its place.
pub(super) fn broadcasts(side: &TensorView<'_>, out: &TensorView<'_>) -> bool {
    let batch = |t: &TensorView<'_>| t.dims.iter().rev().skip(2).copied().collect::<Vec<_>>();
    let (side, out) = (batch(side), batch(out));
    side.iter().zip(out.iter().chain(std::iter::repeat(&1))).all(|(&s, &o)| s == 1 || s == o)
}

/// Strides of one value per channel, which is `[C]` or `[1, C, 1...]` of any rank, along the second dimension of a result, or its only one.
pub(super) fn channels(tensor: &TensorView<'_>, rank: usize) -> Vec<i64> {
    let mut strides = vec![0; rank];
    let (axis, own) = (rank.min(2) - 1, tensor.dims.len().min(2) - 1);
    if tensor.dims[own] != 1 {
        strides[axis] = tensor.strides[own];
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::Phase;

    #[test]
    fn phases_reach_what_a_forward_convolution_reads() {
        for stride in 1..5 {
            for dilation in 1..5 {
                for padding in 0..4 {
                    for (pixels, taps) in [(1, 1), (2, 3), (7, 3), (11, 4)] {
                        let mut found = Vec::new();
                        for p in Phase::all(pixels, taps, padding, stride, dilation) {
                            for q in 0..p.pixels {
                                for t in 0..p.taps {
                                    found.push((p.phase + stride * q, p.first + t * p.step, q + p.start - t * p.back));
                                }
                            }
                        }
                        let mut expected = Vec::new();
                        for position in -40..40 {
                            for tap in 0..taps {
                                let pixel = position * stride - padding + tap * dilation;
                                if (0..pixels).contains(&pixel) {
                                    expected.push((pixel, tap, position));
                                }
                            }
                        }
                        found.sort_unstable();
                        expected.sort_unstable();
                        assert_eq!(found, expected, "{stride} {dilation} {padding} {pixels} {taps}");
                    }
                }
            }
        }
    }
}
