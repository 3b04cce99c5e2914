//! A whole check: inputs, the caller's execution, the reference, the comparison.

use super::compare::Report;
use super::dtype;
use super::error::{CheckError, ReferenceError};
use super::evaluate::{Values, evaluate, host_tensor};
use super::inputs::Inputs;
use super::tensor::HostTensor;
use hipplan_serialize::{DataType, FieldRole, TensorIx, Uid, VerifiedGraph};
use std::fmt;

/// An output to be filled.
#[derive(Clone, Debug)]
pub struct OutputTensor {
    /// Its position in the graph.
    pub ix: TensorIx,
    /// Its uid.
    pub uid: Uid,
    /// Its memory, full of poison: every element must be written, and nothing between the elements.
    pub tensor: HostTensor,
}

/// The outputs of a graph, to be filled by an execution.
#[derive(Clone, Debug)]
pub struct Outputs {
    tensors: Vec<OutputTensor>,
}

impl Outputs {
    /// The tensors, in the order of the graph.
    pub fn tensors(&self) -> &[OutputTensor] {
        &self.tensors
    }

    /// The tensors, to be filled.
    pub fn tensors_mut(&mut self) -> &mut [OutputTensor] {
        &mut self.tensors
    }

    /// The tensor with this uid, to be filled.
    pub fn tensor_mut(&mut self, uid: Uid) -> Option<&mut HostTensor> {
        self.tensors.iter_mut().find(|t| t.uid == uid).map(|t| &mut t.tensor)
    }
}

/// The outcome for one output.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorReport {
    /// Its position in the graph.
    pub ix: TensorIx,
    /// Its uid.
    pub uid: Uid,
    /// Its name, which may be empty.
    pub name: String,
    /// Its type.
    pub dtype: DataType,
    /// Its dimensions.
    pub dims: Vec<i64>,
    /// The comparison. Elements that were not written are failures in it, too.
    pub report: Report,
    /// Elements that still hold the poison.
    pub unwritten: u64,
    /// Index of the first of them.
    pub first_unwritten: Option<Vec<i64>>,
    /// Bytes between the elements that were written.
    pub gap_bytes_written: u64,
    /// The first of them, counted from the tensor's first byte.
    pub first_gap_byte: Option<usize>,
}

impl TensorReport {
    /// Every element is written and right, and nothing else is written.
    pub fn passed(&self) -> bool {
        self.report.passed() && self.unwritten == 0 && self.gap_bytes_written == 0
    }
}

impl fmt::Display for TensorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, name, dtype, dims, report: r, .. } = self;
        let verdict = if self.passed() { "ok" } else { "FAILED" };
        write!(f, "{verdict}: {name:?} (uid {uid}) {dtype} {dims:?}: worst error {:.3e}", r.worst_error)?;
        write!(f, ", {:.3} of the tolerance, at {:?}: expected {:e}, found {:e}", r.worst_bound_ratio, r.index, r.expected, r.found)?;
        if r.failures > 0 {
            write!(f, "; {} of {} elements are wrong", r.failures, r.elements)?;
        }
        if let Some(first) = &self.first_unwritten {
            write!(f, "; {} elements were not written, the first at {first:?}", self.unwritten)?;
        }
        if let Some(first) = self.first_gap_byte {
            write!(f, "; {} bytes between the elements were written, the first at byte {first}", self.gap_bytes_written)?;
        }
        if r.unconstrained > 0 {
            write!(f, "; {} elements may have any value", r.unconstrained)?;
        }
        Ok(())
    }
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckReport {
    /// One report per output, in the order of the graph.
    pub outputs: Vec<TensorReport>,
}

impl CheckReport {
    /// All outputs are right.
    pub fn passed(&self) -> bool {
        self.outputs.iter().all(TensorReport::passed)
    }

    /// The largest error by its tolerance of all outputs.
    pub fn worst_bound_ratio(&self) -> f64 {
        self.outputs.iter().fold(0.0, |worst, o| worst.max(o.report.worst_bound_ratio))
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, output) in self.outputs.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            output.fmt(f)?;
        }
        Ok(())
    }
}

/// What a caller does to execute a graph: reads the inputs, fills the outputs.
pub type Execute<'e, E> = dyn FnMut(&Inputs, &mut Outputs) -> Result<(), E> + 'e;

/// Checks an execution of `graph` with inputs made from `seed`.
///
/// # Errors
/// The reference cannot evaluate the graph, or the execution fails. Wrong results are not an error: see [`CheckReport::passed`].
pub fn check<E>(graph: &VerifiedGraph<'_>, seed: u64, execute: &mut Execute<'_, E>) -> Result<CheckReport, CheckError<E>> {
    check_with(graph, &Inputs::generate(graph, seed)?, execute)
}

/// Checks an execution of `graph` with the inputs given.
///
/// # Errors
/// As [`check`].
pub fn check_with<E>(graph: &VerifiedGraph<'_>, inputs: &Inputs, execute: &mut Execute<'_, E>) -> Result<CheckReport, CheckError<E>> {
    let mut values = inputs.to_values(graph)?;
    evaluate(graph, &mut values)?;
    let mut outputs = poisoned_outputs(graph, &values)?;
    let poison = outputs.clone();
    execute(inputs, &mut outputs).map_err(CheckError::Execute)?;
    let mut reports = Vec::with_capacity(outputs.tensors.len());
    for (output, poison) in outputs.tensors.iter().zip(&poison.tensors) {
        reports.push(report(graph, &values, output, &poison.tensor)?);
    }
    Ok(CheckReport { outputs: reports })
}

/// The outputs of `graph`, every element with a value that cannot be right, and a pattern in between.
fn poisoned_outputs(graph: &VerifiedGraph<'_>, values: &Values) -> Result<Outputs, ReferenceError> {
    let written = graph.all_operands().iter().filter(|o| o.role == FieldRole::Output).map(|o| o.tensor);
    let mut written: Vec<TensorIx> = written.filter(|&ix| !graph.tensor(ix).is_virtual).collect();
    written.sort_unstable();
    let mut tensors = Vec::with_capacity(written.len());
    for ix in written {
        let view = graph.tensor(ix);
        let mut tensor = host_tensor(graph, ix)?;
        for (byte, i) in tensor.bytes_mut().iter_mut().zip(0_u32..) {
            *byte = (i.wrapping_mul(0x9e37_79b1) >> 24) as u8;
        }
        let Some(expected) = values.get(ix) else {
            return Err(ReferenceError::Missing { tensor: graph.tensor_label(ix) });
        };
        for (offset, expected) in tensor.offsets().zip(expected.values()) {
            let element = tensor.element_mut(offset);
            match dtype::poison_nan(view.dtype) {
                Some(bits) if !expected.is_nan() => element.copy_from_slice(&bits.to_le_bytes()[..element.len()]),
                Some(_) => dtype::store(view.dtype, 1.0, element),
                // Neither true nor false.
                None if view.dtype == DataType::Boolean => element[0] = 0xa5,
                // The far end of the range.
                None => dtype::store(view.dtype, if expected >= 64.0 { f64::NEG_INFINITY } else { f64::INFINITY }, element),
            }
        }
        tensors.push(OutputTensor { ix, uid: view.uid, tensor });
    }
    Ok(Outputs { tensors })
}

fn report(graph: &VerifiedGraph<'_>, values: &Values, output: &OutputTensor, poison: &HostTensor) -> Result<TensorReport, ReferenceError> {
    let OutputTensor { ix, uid, tensor } = output;
    let view = graph.tensor(*ix);
    let same_layout = tensor.dtype() == poison.dtype() && tensor.dims() == poison.dims() && tensor.strides() == poison.strides();
    if !same_layout {
        return Err(ReferenceError::Mismatch {
            tensor: graph.tensor_label(*ix),
            found: format!("{} {:?} with strides {:?}", tensor.dtype(), tensor.dims(), tensor.strides()),
            expected: format!("{} {:?} with strides {:?}", poison.dtype(), poison.dims(), poison.strides()),
        });
    }
    let Some(mut report) = values.compare(*ix, tensor) else {
        return Err(ReferenceError::Missing { tensor: graph.tensor_label(*ix) });
    };
    let size = tensor.element_size();
    let mut is_element = vec![false; tensor.bytes().len() / size];
    let (mut unwritten, mut first_unwritten) = (0, None);
    for (i, offset) in tensor.offsets().enumerate() {
        is_element[offset] = true;
        if tensor.element(offset) == poison.element(offset) {
            unwritten += 1;
            first_unwritten.get_or_insert_with(|| tensor.index_of(i));
        }
    }
    // An unconstrained element passes with any value, but it must have been written.
    report.failures = report.failures.max(unwritten);
    let gaps = tensor.bytes().iter().zip(poison.bytes()).enumerate().filter(|&(i, _)| !is_element[i / size]);
    let mut touched = gaps.filter(|(_, (found, poison))| found != poison).map(|(i, _)| i);
    let first_gap_byte = touched.next();
    let gap_bytes_written = first_gap_byte.map_or(0, |_| 1 + touched.count() as u64);
    Ok(TensorReport {
        ix: *ix,
        uid: *uid,
        name: view.name.to_owned(),
        dtype: view.dtype,
        dims: view.dims.to_vec(),
        report,
        unwritten,
        first_unwritten,
        gap_bytes_written,
        first_gap_byte,
    })
}
