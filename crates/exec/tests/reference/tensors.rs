//! Host tensors, and the inputs that they are filled with.

use super::X;
use super::convolutions::conv_graph;
use super::pointwise::pointwise_graph;
use hipplan_exec::reference::{Domain, HostTensor, Inputs, Random, ReferenceError};
use hipplan_serialize::{ConvMode, DataType, PointwiseMode};

#[test]
fn host_tensors_are_memory_images() {
    let mut t = HostTensor::new(DataType::Half, &[2, 3], &[8, 2]).unwrap();
    assert_eq!(t.bytes().len(), 2 * (8 + 4 + 1));
    t.set(&[1, 2], 1.5);
    assert_eq!(t.bytes()[24..], [0x00, 0x3e]);
    assert_eq!((t.get(&[1, 2]), t.get(&[0, 0])), (1.5, 0.0));
    assert_eq!(t.offsets().collect::<Vec<_>>(), [0, 2, 4, 8, 10, 12]);
    t.fill(&[1., 2., 3., 4., 5., 6.]).unwrap();
    assert_eq!(t.values(), [1., 2., 3., 4., 5., 6.]);
    assert_eq!(HostTensor::packed(DataType::Int4, &[2]).unwrap_err(), ReferenceError::Type { dtype: DataType::Int4 });
    assert!(matches!(HostTensor::packed(DataType::Float, &[1 << 20, 1 << 20]), Err(ReferenceError::TooLarge { .. })));
    assert!(matches!(HostTensor::new(DataType::Float, &[0], &[1]), Err(ReferenceError::Shape { .. })));
    for dtype in [DataType::Float, DataType::BFloat16, DataType::Double, DataType::Int8, DataType::UInt8, DataType::Int32, DataType::Int64]
    {
        assert_eq!(HostTensor::from_values(dtype, &[3], &[0., 1., 100.]).unwrap().values(), [0., 1., 100.], "{dtype}");
    }
}

#[test]
fn inputs_are_the_same_everywhere() {
    let mut random = Random::new(0);
    assert_eq!([random.bits(), random.bits()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    let graph = conv_graph(DataType::Float, ConvMode::CrossCorrelation);
    let graph = graph.view();
    let [a, b, c] = [7, 7, 8].map(|seed| Inputs::generate(&graph, seed).unwrap());
    assert_eq!(a.tensor(X).unwrap().bytes(), b.tensor(X).unwrap().bytes());
    assert_ne!(a.tensor(X).unwrap().bytes(), c.tensor(X).unwrap().bytes());
    assert!(a.tensor(X).unwrap().values().iter().all(|v| v.abs() <= 1.0));
}

#[test]
fn inputs_fit_what_reads_them() {
    for mode in [PointwiseMode::Log, PointwiseMode::Sqrt, PointwiseMode::Div, PointwiseMode::LogicalAnd] {
        for dtype in [DataType::Float, DataType::Half, DataType::Int8, DataType::Boolean] {
            let graph = pointwise_graph(mode, dtype, dtype);
            let graph = graph.view();
            let inputs = Inputs::generate(&graph, 3).unwrap();
            let last = inputs.tensors().last().unwrap();
            let values = last.tensor.values();
            let good = match Domain::of(&graph, last.ix) {
                Domain::Positive => values.iter().all(|&v| v > 0.0),
                Domain::Divisor => values.iter().all(|&v| v != 0.0),
                Domain::Truth => values.iter().all(|&v| v == 0.0 || v == 1.0),
                other => panic!("{mode}: {other:?}"),
            };
            assert!(good, "{mode} {dtype}: {values:?}");
        }
    }
}
