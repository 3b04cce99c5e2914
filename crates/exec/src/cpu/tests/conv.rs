//! Convolutions against loops.

use super::super::{Conv, Operand, Pointwise, StepOp};
use super::harness::{Case, Mem, Rng, assert_exact, indices, rounded};
use hipplan_serialize::{DataType, PointwiseMode};
use proptest::prelude::*;

const FLOATS: [DataType; 4] = [DataType::Float, DataType::Half, DataType::BFloat16, DataType::Double];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Forward,
    Data,
    Weight,
}

/// A convolution problem.
#[derive(Clone, Debug)]
struct Problem {
    n: usize,
    groups: usize,
    cg: usize,
    kg: usize,
    /// Per dimension: input, taps, padding before and after, stride, dilation.
    space: Vec<[usize; 6]>,
    flip: bool,
}

impl Problem {
    fn x(&self) -> Vec<usize> {
        [self.n, self.groups * self.cg].into_iter().chain(self.space.iter().map(|s| s[0])).collect()
    }

    fn w(&self) -> Vec<usize> {
        [self.groups * self.kg, self.cg].into_iter().chain(self.space.iter().map(|s| s[1])).collect()
    }

    fn y(&self) -> Vec<usize> {
        let out = |s: &[usize; 6]| (s[0] + s[2] + s[3] - s[5] * (s[1] - 1) - 1) / s[4] + 1;
        [self.n, self.groups * self.kg].into_iter().chain(self.space.iter().map(out)).collect()
    }

    fn conv(&self, a: u32, b: u32) -> Conv {
        let list = |i: usize| self.space.iter().map(|s| s[i] as i64).collect();
        Conv {
            a,
            b,
            pre_padding: list(2),
            post_padding: list(3),
            stride: list(4),
            dilation: list(5),
            flip: self.flip,
            compute: DataType::Float.to_wire(),
        }
    }

    /// Calls back for every product: indices of x, w and y that belong together.
    fn products(&self, mut f: impl FnMut(&[usize], &[usize], &[usize])) {
        let taps: Vec<usize> = self.space.iter().map(|s| s[1]).collect();
        for y in indices(&self.y()) {
            for tap in indices(&taps) {
                let mut x = vec![y[0], 0];
                let mut inside = true;
                for (d, s) in self.space.iter().enumerate() {
                    let at = (y[2 + d] * s[4] + tap[d] * s[5]) as i64 - s[2] as i64;
                    inside &= (0..s[0] as i64).contains(&at);
                    x.push(at as usize);
                }
                if !inside {
                    continue;
                }
                let position = tap.iter().zip(&taps).map(|(&r, &size)| if self.flip { size - 1 - r } else { r });
                let mut w = vec![y[1], 0];
                w.extend(position);
                for c in 0..self.cg {
                    x[1] = y[1] / self.kg * self.cg + c;
                    w[1] = c;
                    f(&x, &w, &y);
                }
            }
        }
    }

    /// Runs the problem and compares; `dtypes` of first operand, second operand and result.
    fn check(&self, kind: Kind, dtypes: [DataType; 3], rng: &mut Rng) {
        let (a, b, out) = match kind {
            Kind::Forward => (self.x(), self.w(), self.y()),
            Kind::Data => (self.y(), self.w(), self.x()),
            Kind::Weight => (self.x(), self.y(), self.w()),
        };
        let mut case = Case::default();
        let a = case.add(Mem::any(dtypes[0], &a, rng).fill(rng));
        let b = case.add(Mem::any(dtypes[1], &b, rng).fill(rng));
        let out = case.add(Mem::any(dtypes[2], &out, rng));
        let conv = self.conv(a, b);
        let op = match kind {
            Kind::Forward => StepOp::ConvFwd(conv),
            Kind::Data => StepOp::ConvDgrad(conv),
            Kind::Weight => StepOp::ConvWgrad(conv),
        };
        case.step(op, out);
        let mut want = Mem::packed(DataType::Double, &case.mems[out as usize].dims).with(|_| 0.0);
        let (left, right) = (&case.mems[a as usize], &case.mems[b as usize]);
        self.products(|x, w, y| {
            let (a, b, out) = match kind {
                Kind::Forward => (x, w, y),
                Kind::Data => (y, w, x),
                Kind::Weight => (x, y, w),
            };
            let sum = want.get(out) + left.get(a) * right.get(b);
            want.set(out, sum);
        });
        let results = case.run();
        assert_exact(&results[out as usize], |index| want.get(index));
    }
}

fn problems() -> impl Strategy<Value = Problem> {
    let dim = (1usize..8, 1usize..4, 0usize..3, 0usize..3, 1usize..4, 1usize..3).prop_map(|(size, taps, pre, post, stride, dilation)| {
        let taps = taps.min((size + pre + post - 1) / dilation + 1);
        [size, taps, pre, post, stride, dilation]
    });
    let space = proptest::collection::vec(dim, 1..=3);
    (1usize..4, 1usize..4, 1usize..4, 1usize..5, space, any::<bool>()).prop_map(|(n, groups, cg, kg, mut space, flip)| {
        if space.len() == 3 {
            space.iter_mut().for_each(|s| s[0] = s[0].min(4).max((s[1] - 1) * s[5] + 1));
        }
        Problem { n, groups, cg, kg, space, flip }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn small_problems_are_exact(problem in problems(), seed in any::<u64>()) {
        let mut rng = Rng(seed);
        for kind in [Kind::Forward, Kind::Data, Kind::Weight] {
            let dtypes = [rng.pick(&FLOATS), rng.pick(&FLOATS), rng.pick(&FLOATS)];
            problem.check(kind, [DataType::Float; 3], &mut rng);
            problem.check(kind, dtypes, &mut rng);
        }
    }

    #[test]
    fn bytes_sum_exactly(problem in problems(), seed in any::<u64>()) {
        let mut rng = Rng(seed);
        let bytes = [DataType::Int8, DataType::UInt8];
        for kind in [Kind::Forward, Kind::Data, Kind::Weight] {
            let out = rng.pick(&[DataType::Int32, DataType::Float, DataType::Int8, DataType::UInt8]);
            let dtypes = [rng.pick(&bytes), rng.pick(&bytes), out];
            problem.check(kind, dtypes, &mut rng);
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "a table of problems reads best as rows of numbers")]
fn problem(n: usize, groups: usize, cg: usize, kg: usize, size: usize, taps: usize, pad: usize, stride: usize) -> Problem {
    Problem { n, groups, cg, kg, space: vec![[size, taps, pad, pad, stride, 1]; 2], flip: false }
}

#[test]
fn shapes_that_cross_every_block_are_exact() {
    let mut rng = Rng(5);
    // More than one depth block, several panels and column blocks, images that share a panel.
    for p in [
        problem(1, 1, 40, 110, 9, 3, 1, 1),
        problem(3, 1, 300, 13, 5, 1, 0, 1),
        problem(2, 1, 20, 30, 14, 3, 1, 2),
        problem(1, 1, 3, 16, 30, 7, 3, 2),
        problem(2, 12, 1, 1, 17, 3, 1, 1),
        problem(2, 5, 1, 2, 18, 5, 2, 2),
        problem(1, 1, 4, 530, 6, 1, 0, 1),
        problem(1, 1, 8, 8, 13, 1, 0, 2),
    ] {
        for kind in [Kind::Forward, Kind::Data, Kind::Weight] {
            p.check(kind, [DataType::Float; 3], &mut rng);
        }
    }
    for kind in [Kind::Forward, Kind::Data, Kind::Weight] {
        for out in [DataType::Int32, DataType::Int8] {
            problem(2, 1, 8, 9, 9, 3, 1, 1).check(kind, [DataType::Int8, DataType::Int8, out], &mut rng);
        }
    }
}

#[test]
fn an_image_that_is_too_large_comes_in_slabs() {
    let mut rng = Rng(11);
    // Slabs along the longest dimension: each of them, with windows that cross the cut, stride, dilation, padding and single taps.
    for space in [
        vec![[3, 2, 1, 1, 1, 1], [70, 5, 2, 1, 3, 2], [4, 3, 1, 0, 2, 1]],
        vec![[70, 3, 1, 1, 1, 1], [5, 1, 0, 0, 1, 1]],
        vec![[5, 3, 1, 1, 1, 1], [90, 4, 2, 2, 3, 2]],
        vec![[40, 1, 0, 0, 1, 1], [40, 1, 3, 0, 2, 1]],
        vec![[300, 7, 9, 9, 1, 3]],
    ] {
        let p = Problem { n: 2, groups: 2, cg: 3, kg: 5, space, flip: rng.below(2) == 1 };
        p.check(Kind::Forward, [DataType::Float; 3], &mut rng);
        p.check(Kind::Forward, [DataType::Int8, DataType::Int8, DataType::Int8], &mut rng);
        p.check(Kind::Forward, [DataType::Half, DataType::Float, DataType::BFloat16], &mut rng);
    }
}

#[test]
fn positions_that_no_product_reaches_are_zero() {
    let mut rng = Rng(1);
    // Stride 3, one tap: two of three input positions get no gradient. The filter's second tap reads only padding.
    let p = problem(1, 1, 2, 2, 7, 1, 0, 3);
    p.check(Kind::Data, [DataType::Float; 3], &mut rng);
    let p = Problem { space: vec![[1, 2, 0, 1, 1, 1]], ..p };
    p.check(Kind::Weight, [DataType::Half; 3], &mut rng);
    let p = Problem { space: vec![[2, 1, 3, 3, 1, 1]], ..p };
    p.check(Kind::Forward, [DataType::BFloat16; 3], &mut rng);
}

#[test]
fn integer_sums_out_of_range_wrap_to_int32_and_saturate_to_bytes() {
    for (dtype, bounds) in [(DataType::Int32, None), (DataType::Int8, Some([-128, 127])), (DataType::UInt8, Some([0, 255]))] {
        // 255 * 255 * 40000 is beyond 2^31.
        for (factor, value) in [(DataType::UInt8, 255), (DataType::Int8, -127)] {
            let sum = 255 * value * 40000;
            let wanted = bounds.map_or(i64::from(sum as i32), |[low, high]| sum.clamp(low, high));
            let mut case = Case::default();
            let x = case.add(Mem::packed(DataType::UInt8, &[1, 40000, 1]).with(|_| 255.0));
            let w = case.add(Mem::packed(factor, &[1, 40000, 1]).with(|_| value as f64));
            let y = case.add(Mem::packed(dtype, &[1, 1, 1]));
            let p = Problem { n: 1, groups: 1, cg: 40000, kg: 1, space: vec![[1, 1, 0, 0, 1, 1]], flip: false };
            case.step(StepOp::ConvFwd(p.conv(x, w)), y);
            assert_eq!(case.run()[y as usize].get(&[0, 0, 0]), wanted as f64, "{dtype} from {factor}");
        }
    }
}

#[test]
fn a_fused_chain_equals_its_parts_in_every_bit() {
    let mut rng = Rng(9);
    for dtype in FLOATS {
        for layout in 0..3 {
            let p = problem(2, 1, 10, 7, 8, 3, 1, 1);
            let mut fused = Case::default();
            let third = |rng: &mut Rng, mem: Mem| {
                let values: Vec<f64> = (0..5000).map(|_| rng.below(1000) as f64 / 333.0 - 1.5).collect();
                let dims = mem.dims.clone();
                mem.with(|index| {
                    let flat = index.iter().zip(&dims).fold(0, |f, (&i, &d)| f * d + i);
                    values[flat % values.len()]
                })
            };
            let make = |dims: &[usize]| match layout {
                0 => Mem::packed(dtype, dims),
                _ => Mem::any(dtype, dims, &mut Rng(layout)),
            };
            let x = fused.add(third(&mut rng, make(&p.x())));
            let w = fused.add(third(&mut rng, make(&p.w())));
            let bias = fused.add(third(&mut rng, Mem::packed(dtype, &[1, 7, 1, 1])));
            let skip = fused.add(third(&mut rng, make(&p.y())));
            let virtuals: Vec<u32> = (0..3).map(|_| fused.add(Mem::fused(dtype, &p.y()))).collect();
            let out = fused.add(make(&p.y()));
            let pointwise = |mode, in0, in1, out| Pointwise { in1, ..Pointwise::unary(mode, DataType::Float, in0, out) };
            let chain = |carried: [Operand; 3], outs: [u32; 3]| {
                vec![
                    pointwise(PointwiseMode::Add, carried[0], Some(Operand::Tensor(bias)), outs[0]),
                    pointwise(PointwiseMode::Sub, Operand::Tensor(skip), Some(carried[1]), outs[1]),
                    pointwise(PointwiseMode::GeluFwd, carried[2], None, outs[2]),
                ]
            };
            let mut parts = fused.clone();
            let conv = StepOp::ConvFwd(p.conv(x, w));
            fused.chained(conv.clone(), virtuals[0], chain([Operand::Carried; 3], [virtuals[1], virtuals[2], out]), out);
            // The same as separate steps: the virtual tensors go to the workspace.
            let real: Vec<u32> = (0..3).map(|_| parts.add_workspace(Mem::packed(dtype, &p.y()))).collect();
            parts.step(conv, real[0]);
            let operands = [real[0], real[1], real[2]].map(Operand::Tensor);
            for (link, out) in chain(operands, [real[1], real[2], out]).into_iter().zip([real[1], real[2], out]) {
                parts.step(StepOp::Pointwise(link), out);
            }
            let (fused, parts) = (fused.run(), parts.run());
            for index in indices(&p.y()) {
                assert_eq!(fused[out as usize].get(&index), parts[out as usize].get(&index));
            }
        }
    }
}

#[test]
fn rounding_of_random_sums_is_within_bounds() {
    // Real numbers instead of halves: the error of an f32 sum of 27 products.
    let p = problem(1, 1, 3, 5, 9, 3, 1, 1);
    let mut case = Case::default();
    let mut rng = Rng(3);
    let real = |rng: &mut Rng, mem: Mem| {
        let shift = rng.below(100);
        mem.with(move |i| ((i.iter().fold(shift, |a, &b| a * 31 + b) % 1000) as f64 / 500.0 - 1.0) * 1.1)
    };
    let x = case.add(real(&mut rng, Mem::packed(DataType::Float, &p.x())));
    let w = case.add(real(&mut rng, Mem::packed(DataType::Float, &p.w())));
    let y = case.add(Mem::packed(DataType::Float, &p.y()));
    case.step(StepOp::ConvFwd(p.conv(x, w)), y);
    let mut want = Mem::packed(DataType::Double, &p.y()).with(|_| 0.0);
    let mut size = want.clone();
    p.products(|xi, wi, yi| {
        let product = case.mems[0].get(xi) * case.mems[1].get(wi);
        want.set(yi, want.get(yi) + product);
        size.set(yi, size.get(yi) + product.abs());
    });
    let results = case.run();
    for index in indices(&p.y()) {
        let error = (results[2].get(&index) - want.get(&index)).abs();
        assert!(error <= 28.0 * f64::from(f32::EPSILON) * size.get(&index));
    }
    assert_eq!(rounded(DataType::Float, 0.1), f64::from(0.1f32));
}

#[test]
fn threads_change_no_bit_of_a_rounded_sum() {
    let mut rng = Rng(11);
    let real = |rng: &mut Rng, mem: Mem| {
        let shift = rng.below(1000);
        mem.with(move |i| ((i.iter().fold(shift, |a, &b| a * 31 + b) % 1009) as f64 - 504.0) / 77.0)
    };
    // Deep sums, few and many columns, positions of many images, strides; chunks of images depend on the threads here.
    for p in [
        problem(5, 1, 130, 25, 12, 3, 1, 1),
        problem(3, 1, 600, 2, 11, 1, 0, 1),
        problem(2, 1, 70, 1, 13, 3, 1, 2),
        problem(2, 1, 1100, 40, 9, 1, 0, 2),
        problem(4, 1, 2, 13, 40, 3, 0, 1),
    ] {
        for kind in [Kind::Forward, Kind::Data, Kind::Weight] {
            let mut case = Case::default();
            let [x, w, y] = [p.x(), p.w(), p.y()].map(|dims| case.add(real(&mut rng, Mem::packed(DataType::Float, &dims))));
            match kind {
                Kind::Forward => case.step(StepOp::ConvFwd(p.conv(x, w)), y),
                Kind::Data => case.step(StepOp::ConvDgrad(p.conv(y, w)), x),
                Kind::Weight => case.step(StepOp::ConvWgrad(p.conv(x, y)), w),
            }
            case.run();
        }
    }
}
