//! Stored elements against expected values.

use super::dtype;
use super::tensor::HostTensor;
use hipplan_serialize::DataType;

/// How many times the derived bound an error may be.
const SAFETY: f64 = 2.0;

/// The outcome of comparing one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Elements compared.
    pub elements: u64,
    /// Elements that differ by more than their tolerance.
    pub failures: u64,
    /// Elements of which the error analysis says nothing, because their bound is infinite. They pass with any value.
    pub unconstrained: u64,
    /// Largest absolute error.
    pub worst_error: f64,
    /// Largest error divided by its tolerance. Above 1 is a failure; infinite where no error is tolerated.
    pub worst_bound_ratio: f64,
    /// Index of the element with the largest ratio.
    pub index: Vec<i64>,
    /// What was expected there, not yet rounded to the type of the tensor.
    pub expected: f64,
    /// What was found there.
    pub found: f64,
}

impl Report {
    /// No element differs by more than its tolerance.
    pub fn passed(&self) -> bool {
        self.failures == 0
    }
}

/// What was found for one element.
enum Verdict {
    Unconstrained,
    /// Error, and error by tolerance.
    Error(f64, f64),
}

/// Compares the elements of `found`, in row-major order, with `expected`, the values before they are rounded to the tensor's type,
/// each of which a correct implementation may miss by its `bound`.
///
/// NaN equals NaN, and infinities equal themselves. A number that is too large for the type may be found as it rounds, or
/// infinite. The tolerance of integers is 0 unless the bound reaches a number that rounds to another integer.
///
/// # Panics
/// If the three have different numbers of elements.
pub fn compare(expected: &[f64], bound: &[f64], found: &HostTensor) -> Report {
    assert_eq!(expected.len(), found.elements(), "one expected value per element");
    assert_eq!(expected.len(), bound.len(), "one bound per expected value");
    let mut report = Report {
        elements: expected.len() as u64,
        failures: 0,
        unconstrained: 0,
        worst_error: 0.0,
        worst_bound_ratio: 0.0,
        index: vec![0; found.dims().len()],
        expected: expected.first().copied().unwrap_or(0.0),
        found: 0.0,
    };
    for (i, ((&e, &b), offset)) in expected.iter().zip(bound).zip(found.offsets()).enumerate() {
        let f = dtype::load(found.dtype(), found.element(offset));
        if i == 0 {
            report.found = f;
        }
        let (error, ratio) = match judge(found.dtype(), e, b, f) {
            Verdict::Unconstrained => {
                report.unconstrained += 1;
                continue;
            }
            Verdict::Error(error, ratio) => (error, ratio),
        };
        report.failures += u64::from(ratio > 1.0);
        report.worst_error = report.worst_error.max(error);
        if ratio > report.worst_bound_ratio {
            report.worst_bound_ratio = ratio;
            report.index = found.index_of(i);
            (report.expected, report.found) = (e, f);
        }
    }
    report
}

fn judge(dtype: DataType, expected: f64, bound: f64, found: f64) -> Verdict {
    let is_integral = dtype::is_integral(dtype);
    if expected.is_nan() {
        return match (is_integral, found.is_nan()) {
            (true, _) => Verdict::Unconstrained,
            (false, true) => Verdict::Error(0.0, 0.0),
            (false, false) => WRONG,
        };
    }
    if !bound.is_finite() {
        return Verdict::Unconstrained;
    }
    let rounded = dtype::round(dtype, expected);
    if dtype == DataType::Boolean {
        let uncertain = bound > 0.0 && expected.abs() <= SAFETY * bound;
        let good = found == rounded || uncertain && (found == 0.0 || found == 1.0);
        return if good { Verdict::Error(0.0, 0.0) } else { WRONG };
    }
    if is_integral {
        let [low, high] = [-SAFETY, SAFETY].map(|s| dtype::round(dtype, expected + s * bound));
        let error = (found - rounded).abs();
        return Verdict::Error(error, ratio(error, (rounded - low).max(high - rounded)));
    }
    if found == expected {
        return Verdict::Error(0.0, 0.0);
    }
    if !expected.is_finite() {
        return WRONG;
    }
    let unit = dtype::unit_roundoff(dtype).unwrap_or(0.0);
    let is_exact = bound == 0.0 && rounded == expected;
    let rounding = unit * expected.abs().max(dtype::least_normal(dtype));
    let tolerance = if is_exact { 0.0 } else { SAFETY * (bound + rounding) };
    if !found.is_finite() {
        let reach = expected.abs() + tolerance;
        let overflows = reach >= dtype::greatest(dtype) * (1.0 + unit / 2.0);
        // 8-bit floats have no agreement on what becomes of a number that is too large: it saturates, or is NaN or infinite.
        let has_sign = !found.is_nan() && found.is_sign_positive() == expected.is_sign_positive();
        let good = overflows && (has_sign || dtype.bits() == 8);
        return if good { Verdict::Error(0.0, 1.0) } else { WRONG };
    }
    if found == rounded {
        // Saturated.
        return Verdict::Error(0.0, 0.0_f64.max(ratio((found - expected).abs(), tolerance)).min(1.0));
    }
    let error = (found - expected).abs();
    Verdict::Error(error, ratio(error, tolerance))
}

const WRONG: Verdict = Verdict::Error(f64::INFINITY, f64::INFINITY);

fn ratio(error: f64, tolerance: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / tolerance }
}
