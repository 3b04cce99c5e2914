//! How far a correct reduction may be from [`ops::reduction`].

use super::ops::{self, Num};
use hipplan_serialize::ReductionMode as Mode;

/// What the arithmetic of a node cannot do exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arithmetic {
    /// Unit roundoff.
    pub(super) unit: f64,
    /// Integers up to this are exact.
    pub(super) exact_integers: f64,
    /// The largest finite number.
    pub(super) greatest: f64,
    /// What underflow to zero costs at most.
    pub(super) tiny: f64,
    /// Roundings that one operation beyond the sum may make.
    pub(super) roundings: f64,
}

impl Arithmetic {
    /// Bound of a reduction of `terms`, whatever the order in which an implementation takes them. `integral`: they are of an
    /// integer type.
    pub(super) fn bound(&self, mode: Mode, terms: &[Num], integral: bool) -> f64 {
        let value = ops::reduction(mode, terms.iter().map(|n| n.value));
        if value.is_nan() {
            return 0.0;
        }
        let is_sum = matches!(mode, Mode::Add | Mode::Avg | Mode::Norm1 | Mode::Norm2);
        if is_sum && terms.iter().any(|n| n.value.is_infinite()) {
            // Nothing finite is added to it that could become an infinity of its own.
            let rest: f64 = terms.iter().map(|n| n.value.abs()).filter(|v| v.is_finite()).sum();
            return if rest > self.greatest { f64::INFINITY } else { 0.0 };
        }
        match mode {
            Mode::NotSet => 0.0,
            Mode::Add | Mode::Norm1 => self.sum_bound(terms, integral),
            Mode::Avg => self.average_bound(terms, integral, value),
            Mode::Norm2 => self.norm_bound(terms, integral, value),
            Mode::Min => extreme_bound(terms, |n| [-n.value - n.bound, -n.value, -n.value + n.bound]),
            Mode::Max => extreme_bound(terms, |n| [n.value - n.bound, n.value, n.value + n.bound]),
            Mode::Amax => extreme_bound(terms, |n| [(n.value.abs() - n.bound).max(0.0), n.value.abs(), n.value.abs() + n.bound]),
            Mode::Mul => self.product_bound(terms, integral, value),
            Mode::MulNoZeros => self.product_without_zeros_bound(terms, integral, value),
        }
    }

    /// Errors of roundings are of either sign, so that they grow with the square root of their number and not with it.
    fn growth(&self, terms: &[Num]) -> f64 {
        let terms = terms.len() as f64;
        self.unit * (terms + 1.0).min(4.0 * terms.sqrt())
    }

    fn sum_bound(&self, terms: &[Num], integral: bool) -> f64 {
        let (mut scale, mut carried) = (0.0, 0.0);
        for n in terms {
            scale += n.value.abs();
            carried += n.bound;
        }
        let is_exact = terms.len() == 1 || scale == 0.0 || integral && scale <= self.exact_integers;
        if scale > self.greatest && !is_exact {
            // A part of the sum may overflow that the whole does not.
            return f64::INFINITY;
        }
        carried + if is_exact { 0.0 } else { self.growth(terms) * scale }
    }

    fn average_bound(&self, terms: &[Num], integral: bool, value: f64) -> f64 {
        let count = terms.len() as f64;
        let of_sum = self.sum_bound(terms, integral) / count;
        // A power of two divides without rounding, short of underflow.
        let is_exact = of_sum == 0.0 && terms.len().is_power_of_two() && integral;
        of_sum + if terms.len() == 1 || is_exact || value == 0.0 { 0.0 } else { self.roundings * self.unit * value.abs() + self.tiny }
    }

    fn norm_bound(&self, terms: &[Num], integral: bool, value: f64) -> f64 {
        let (mut sum, mut carried) = (0.0, 0.0);
        for n in terms {
            sum += n.value * n.value;
            carried += (2.0 * n.value.abs() + n.bound) * n.bound;
        }
        if sum > self.greatest {
            // The usual way to the norm overflows.
            return f64::INFINITY;
        }
        let is_exact = sum == 0.0 || integral && sum <= self.exact_integers;
        let of_sum = carried + if is_exact { 0.0 } else { self.growth(terms) * sum + self.tiny * terms.len() as f64 };
        let of_root = ((sum + of_sum).sqrt() - value).max(value - (sum - of_sum).max(0.0).sqrt());
        of_root.max(0.0) + if value == 0.0 { 0.0 } else { self.roundings * self.unit * value }
    }

    fn product_bound(&self, factors: &[Num], integral: bool, value: f64) -> f64 {
        let product_of = |f: fn(&Num) -> f64| factors.iter().map(f).product::<f64>();
        let size = value.abs();
        let carried = product_of(|n| n.value.abs() + n.bound) - product_of(|n| n.value.abs());
        // Extremes of what the factors may give in some order on the way.
        let largest = product_of(|n| (n.value.abs() + n.bound).max(1.0));
        let smallest = product_of(|n| if n.value == 0.0 { 1.0 } else { n.value.abs().min(1.0) });
        if carried.is_nan() || factors.len() > 1 && largest > self.greatest {
            return f64::INFINITY;
        }
        let is_exact =
            factors.len() == 1 || size == 0.0 && factors.iter().any(|n| n.value == 0.0) || integral && largest <= self.exact_integers;
        if is_exact {
            return carried;
        }
        let lost = if smallest < self.tiny { self.tiny * largest * factors.len() as f64 } else { 0.0 };
        carried + self.growth(factors) * size + lost
    }

    fn product_without_zeros_bound(&self, terms: &[Num], integral: bool, value: f64) -> f64 {
        // What may be zero or not may be left out or not.
        let is_doubtful = |n: &Num| n.bound > 0.0 && n.value.abs() <= n.bound;
        if terms.iter().any(is_doubtful) {
            let factor = |n: &Num| (n.value.abs() + n.bound).max(if is_doubtful(n) { 1.0 } else { 0.0 });
            let largest: f64 = terms.iter().map(factor).product();
            return (value.abs() + largest) * (1.0 + self.growth(terms)) + self.tiny;
        }
        let factors: Vec<Num> = terms.iter().copied().filter(|n| n.value != 0.0).collect();
        if factors.is_empty() { 0.0 } else { self.product_bound(&factors, integral, value) }
    }
}

/// How far the largest may move, `ends` being the least, the value and the most of each.
fn extreme_bound(terms: &[Num], ends: impl Fn(&Num) -> [f64; 3]) -> f64 {
    let start = [f64::NEG_INFINITY; 3];
    let [low, value, high] = terms.iter().map(ends).fold(start, |[a, b, c], [x, y, z]| [a.max(x), b.max(y), c.max(z)]);
    let distance = |a: f64, b: f64| if a == b { 0.0 } else { a - b };
    distance(high, value).max(distance(value, low))
}
