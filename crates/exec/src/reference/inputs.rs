//! Inputs that make a check mean something: numbers in the domain of whatever reads them, the same on every machine.

use super::dtype;
use super::error::ReferenceError;
use super::evaluate::{Values, host_tensor};
use super::tensor::HostTensor;
use hipplan_serialize::graph::OperandRef;
use hipplan_serialize::{DataType, FieldRole, NodeIx, Op, PointwiseMode, ReductionMode, TensorIx, TensorValue, Uid, VerifiedGraph};

/// Pseudo-random numbers: SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` up to, and without, `high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        let unit = (self.bits() >> 11) as f64 * (0.5 / (1_u64 << 52) as f64);
        low + unit * (high - low)
    }

    /// An integer from `low` to `high`, both included.
    pub fn integer(&mut self, low: i64, high: i64) -> i64 {
        low + (self.bits() % (high - low + 1).unsigned_abs()) as i64
    }

    /// One of two.
    pub fn coin(&mut self) -> bool {
        self.bits() >> 63 == 1
    }
}

/// What the numbers of an input are for, from the least to the most particular: an input that has several uses gets the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Domain {
    /// Factors of a sum: between -1 and 1.
    Factor,
    /// Arguments of functions with kinks: between -4 and 4, some of them integers.
    Argument,
    /// Exponents: between -2 and 2.
    Exponent,
    /// Angles on one branch of the tangent: between -1.25 and 1.25.
    Angle,
    /// Few values, so that many are equal: multiples of 1/2 between -2 and 2.
    Few,
    /// 0 and 1.
    Truth,
    /// Divisors: of either sign, between 1/2 and 2.
    Divisor,
    /// Arguments of logarithms and roots, variances: between 1/2 and 2.
    Positive,
    /// Small and positive, such as the epsilon of a normalisation: about 1e-3.
    Small,
}

impl Domain {
    /// What the readers of a tensor want of it.
    pub fn of(graph: &VerifiedGraph<'_>, ix: TensorIx) -> Self {
        let uses = graph.nodes().flat_map(|node| graph.operands(node).iter().map(move |operand| (node, operand)));
        let reads = uses.filter(|(_, operand)| operand.tensor == ix && operand.role == FieldRole::Input);
        reads.map(|(node, operand)| Self::of_use(graph, node, operand)).max().unwrap_or(Self::Factor)
    }

    fn of_use(graph: &VerifiedGraph<'_>, node: NodeIx, operand: &OperandRef) -> Self {
        use PointwiseMode as M;
        let slot = graph.slot_name(node, operand);
        let op = match graph.op(node) {
            Op::Pointwise(op) => op,
            // Products of numbers below 1 are soon 0.
            Op::Reduction(op) if op.mode == ReductionMode::Mul => return Self::Divisor,
            Op::Reduction(op) if op.mode == ReductionMode::MulNoZeros => return Self::Few,
            _ => {
                return match slot {
                    "variance" | "inv_variance" | "prev_running_variance" => Self::Positive,
                    "epsilon" => Self::Small,
                    _ => Self::Factor,
                };
            }
        };
        match (op.mode, slot) {
            (M::Log | M::Sqrt | M::Rsqrt, _) => Self::Positive,
            (M::Reciprocal, _) | (M::Div, "in_1") => Self::Divisor,
            (M::LogicalAnd | M::LogicalOr | M::LogicalNot, _) | (M::BinarySelect, "in_2") => Self::Truth,
            (M::CmpEq | M::CmpNeq | M::CmpGt | M::CmpGe | M::CmpLt | M::CmpLe, _) => Self::Few,
            (M::Tan, _) => Self::Angle,
            (M::Exp, _) => Self::Exponent,
            // Of the functions of two inputs, the backward functions take the gradient first.
            (mode, "in_0") if mode.arity() == 2 && is_backward(mode) => Self::Factor,
            (M::Add | M::Sub | M::Mul | M::AddSquare, _) => Self::Factor,
            _ => Self::Argument,
        }
    }

    /// A number of the domain that an element of `dtype` represents.
    pub fn draw(self, dtype: DataType, random: &mut Random) -> f64 {
        if dtype == DataType::Boolean {
            return if matches!(self, Self::Divisor | Self::Positive | Self::Small) { 1.0 } else { f64::from(u8::from(random.coin())) };
        }
        if dtype == DataType::Fp8E8M0 {
            return [0.25, 0.5, 1.0, 2.0][(random.bits() >> 62) as usize];
        }
        let x = if dtype::is_integral(dtype) { self.draw_integer(random) as f64 } else { self.draw_float(random) };
        dtype::round(dtype, if dtype == DataType::UInt8 { x.abs() } else { x })
    }

    fn draw_integer(self, random: &mut Random) -> i64 {
        match self {
            Self::Factor | Self::Argument => random.integer(-4, 4),
            Self::Exponent | Self::Few => random.integer(-2, 2),
            Self::Angle => random.integer(-1, 1),
            Self::Truth => random.integer(0, 1),
            Self::Divisor => random.integer(1, 4) * if random.coin() { 1 } else { -1 },
            Self::Positive => random.integer(1, 4),
            Self::Small => 1,
        }
    }

    fn draw_float(self, random: &mut Random) -> f64 {
        match self {
            Self::Factor => random.uniform(-1.0, 1.0),
            Self::Argument if random.integer(0, 7) == 0 => random.integer(-4, 4) as f64,
            Self::Argument => random.uniform(-4.0, 4.0),
            Self::Exponent => random.uniform(-2.0, 2.0),
            Self::Angle => random.uniform(-1.25, 1.25),
            Self::Few => random.integer(-4, 4) as f64 / 2.0,
            Self::Truth => random.integer(0, 1) as f64,
            Self::Divisor => random.uniform(0.5, 2.0) * if random.coin() { 1.0 } else { -1.0 },
            Self::Positive => random.uniform(0.5, 2.0),
            Self::Small => random.uniform(0.5e-3, 1.5e-3),
        }
    }
}

fn is_backward(mode: PointwiseMode) -> bool {
    use PointwiseMode as M;
    matches!(mode, M::ReluBwd | M::SigmoidBwd | M::TanhBwd | M::EluBwd | M::SoftplusBwd | M::SwishBwd | M::GeluBwd | M::GeluApproxTanhBwd)
}

/// An input in device memory.
#[derive(Clone, Debug)]
pub struct InputTensor {
    /// Its position in the graph.
    pub ix: TensorIx,
    /// Its uid.
    pub uid: Uid,
    /// Its memory.
    pub tensor: HostTensor,
}

/// A runtime scalar.
#[derive(Clone, Copy, Debug)]
pub struct InputScalar {
    /// Its position in the graph.
    pub ix: TensorIx,
    /// Its uid.
    pub uid: Uid,
    /// Its value.
    pub value: TensorValue,
    /// The value is the graph's default. Such a scalar need not be passed.
    pub is_default: bool,
}

/// What one execution is given: everything that is not constant, virtual or an output.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    tensors: Vec<InputTensor>,
    scalars: Vec<InputScalar>,
}

impl Inputs {
    /// Inputs for `graph`, which depend on nothing but the graph and the seed.
    ///
    /// # Errors
    /// A tensor that the reference does not support.
    pub fn generate(graph: &VerifiedGraph<'_>, seed: u64) -> Result<Self, ReferenceError> {
        let mut is_written = vec![false; graph.tensors().len()];
        for operand in graph.all_operands().iter().filter(|o| o.role == FieldRole::Output) {
            is_written[operand.tensor.index()] = true;
        }
        let mut inputs = Self::default();
        for ix in graph.tensor_ixs().filter(|ix| !is_written[ix.index()]) {
            let view = graph.tensor(ix);
            let (uid, domain) = (view.uid, Domain::of(graph, ix));
            // One sequence per tensor: another tensor's size does not move this one's numbers.
            let mut random = Random::new(Random::new(seed).bits() ^ Random::new(ix.index() as u64).bits());
            if view.is_runtime {
                let value = match view.value {
                    Some(value) => value,
                    None => scalar_of(view.dtype, domain.draw(view.dtype, &mut random))
                        .ok_or_else(|| ReferenceError::TensorType { tensor: graph.tensor_label(ix), dtype: view.dtype })?,
                };
                inputs.scalars.push(InputScalar { ix, uid, value, is_default: view.value.is_some() });
            } else if view.value.is_none() {
                let mut tensor = host_tensor(graph, ix)?;
                for offset in tensor.offsets() {
                    tensor.put(offset, domain.draw(view.dtype, &mut random));
                }
                inputs.tensors.push(InputTensor { ix, uid, tensor });
            }
        }
        Ok(inputs)
    }

    /// Tensors in device memory, in the order of the graph.
    pub fn tensors(&self) -> &[InputTensor] {
        &self.tensors
    }

    /// Tensors in device memory, to be changed before a check.
    pub fn tensors_mut(&mut self) -> &mut [InputTensor] {
        &mut self.tensors
    }

    /// Runtime scalars, in the order of the graph.
    pub fn scalars(&self) -> &[InputScalar] {
        &self.scalars
    }

    /// Runtime scalars, to be changed before a check.
    pub fn scalars_mut(&mut self) -> &mut [InputScalar] {
        &mut self.scalars
    }

    /// The tensor with this uid.
    pub fn tensor(&self, uid: Uid) -> Option<&HostTensor> {
        self.tensors.iter().find(|t| t.uid == uid).map(|t| &t.tensor)
    }

    /// The value of the runtime scalar with this uid.
    pub fn scalar(&self, uid: Uid) -> Option<TensorValue> {
        self.scalars.iter().find(|s| s.uid == uid).map(|s| s.value)
    }

    /// As [`evaluate`](super::evaluate()) takes them.
    ///
    /// # Errors
    /// A scalar that cannot be an element of its tensor.
    pub fn to_values(&self, graph: &VerifiedGraph<'_>) -> Result<Values, ReferenceError> {
        let mut values = Values::new(graph);
        for input in &self.tensors {
            values.insert(input.ix, input.tensor.clone());
        }
        for scalar in &self.scalars {
            values.insert_scalar(graph, scalar.ix, scalar.value)?;
        }
        Ok(values)
    }
}

/// The host scalar that is `x` as an element of `dtype`.
fn scalar_of(dtype: DataType, x: f64) -> Option<TensorValue> {
    match dtype {
        DataType::Float => Some(TensorValue::Float32(x as f32)),
        DataType::Half => Some(TensorValue::Float16(x as f32)),
        DataType::BFloat16 => Some(TensorValue::BFloat16(x as f32)),
        DataType::Double => Some(TensorValue::Float64(x)),
        DataType::Int32 | DataType::Int8 => Some(TensorValue::Int32(x as i32)),
        DataType::Int64 => Some(TensorValue::Int64(x as i64)),
        DataType::Boolean => Some(TensorValue::Bool(x != 0.0)),
        DataType::UInt8 => Some(TensorValue::Float8(x as u8)),
        other if dtype::is_supported(other) => {
            let mut bits = [0];
            dtype::store(other, x, &mut bits);
            Some(TensorValue::Float8(bits[0]))
        }
        _ => None,
    }
}
