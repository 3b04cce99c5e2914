//! Comparison of elements.

use hipplan_exec::reference::{HostTensor, compare};
use hipplan_serialize::DataType;

#[test]
fn elements_are_judged_by_their_type() {
    let judge = |dtype, expected: f64, bound: f64, found: f64| {
        compare(&[expected], &[bound], &HostTensor::from_values(dtype, &[1], &[found]).unwrap()).passed()
    };
    let (f, h, inf, nan) = (DataType::Float, DataType::Half, f64::INFINITY, f64::NAN);
    assert!(judge(f, nan, 0.0, nan) && !judge(f, nan, 0.0, 1.0) && !judge(f, 1.0, 0.0, nan));
    assert!(judge(f, inf, 0.0, inf) && !judge(f, inf, 0.0, -inf) && !judge(f, inf, 0.0, f64::from(f32::MAX)));
    // What needs no rounding is exact; what does may be an ulp off.
    assert!(judge(f, 1.0, 0.0, 1.0) && !judge(f, 1.0, 0.0, 1.0 + 1.2e-7));
    assert!(judge(h, 1.0 + 1e-6, 0.0, 1.0) && judge(h, 1.0 - 1e-6, 1e-7, 0.99951171875) && !judge(h, 1.0 + 1e-6, 0.0, 1.002));
    // Beyond the largest half.
    assert!(
        judge(h, 70000.0, 0.0, inf) && !judge(h, 70000.0, 0.0, 65504.0) && !judge(h, 60000.0, 1.0, inf) && !judge(h, 70000.0, 0.0, -inf)
    );
    assert!(judge(h, 65519.0, 10.0, inf) && judge(h, 65521.0, 10.0, 65504.0));
    let (i, b) = (DataType::Int32, DataType::Boolean);
    assert!(judge(i, 7.0, 0.0, 7.0) && !judge(i, 7.0, 0.1, 8.0) && judge(i, 7.45, 0.1, 8.0) && !judge(i, 7.45, 0.01, 8.0));
    assert!(judge(b, 1.0, 0.0, 1.0) && !judge(b, 1.0, 0.0, 0.0) && judge(b, 1.0, 1.0, 0.0));
    let report = compare(&[1.0, 2.0, 3.0, 4.0], &[0.1; 4], &HostTensor::from_values(f, &[2, 2], &[1.0, 2.1, 3.5, 4.0]).unwrap());
    assert_eq!((report.elements, report.failures, report.index.as_slice(), report.found), (4, 1, &[1, 0][..], 3.5));
    assert!((report.worst_error - 0.5).abs() < 1e-6 && (report.worst_bound_ratio - 2.5).abs() < 1e-3);
    let report = compare(&[1.0], &[inf], &HostTensor::from_values(f, &[1], &[9.0]).unwrap());
    assert!(report.passed() && report.unconstrained == 1);
}
