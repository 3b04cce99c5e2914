//! From a program's pointwise chains and batch normalisations to row programs.

use super::CpuError;
use super::element::Elem;
use super::layout::{Tensor, Tensors};
use super::pointwise::Params;
use super::program::{Operand, Place, Pointwise, Step};
use super::rows::{Function, Input, LoopDim, Loops, RowOp, RowProgram, View};
use hipplan_serialize::{DataType, PointwiseMode};

const OP: &str = "pointwise";

/// Whether a compute type asks for `f64`; an error for numbers that are not in the wire enum.
pub(crate) fn wide_compute(op: &'static str, compute: i8) -> Result<bool, CpuError> {
    match DataType::from_wire(compute) {
        Some(DataType::Double | DataType::Int32 | DataType::Int64) => Ok(true),
        Some(_) => Ok(false),
        None => Err(CpuError::UnsupportedCompute { op, found: compute, expected: "a dtype of the wire format" }),
    }
}

/// What builds the row programs of one step.
pub(crate) struct Builder<'a> {
    pub(crate) tensors: &'a Tensors,
    pub(crate) index: usize,
    pub(crate) step: &'a Step,
    pub(crate) out: &'a Tensor,
}

impl<'a> Builder<'a> {
    /// Checks a step's output and its carried tensor: equal shapes, and equal tensors when there is no chain.
    pub(crate) fn new(tensors: &'a Tensors, index: usize, step: &'a Step, op: &'static str) -> Result<Self, CpuError> {
        let out = tensors.output(index, op, step.out)?;
        let builder = Self { tensors, index, step, out };
        builder.virtual_tensor(op, step.carried)?;
        if step.chain.is_empty() && step.carried != step.out {
            return Err(builder.chain(0, "without a chain the operation's own output must be the step's output"));
        }
        if let Some(last) = step.chain.last()
            && last.out != step.out
        {
            return Err(builder.chain(step.chain.len() - 1, "the last result must be the step's output"));
        }
        Ok(builder)
    }

    fn chain(&self, position: usize, reason: &'static str) -> CpuError {
        CpuError::Chain { step: self.index, position, reason }
    }

    /// A tensor of the output's shape whose type a value is rounded to; gives that type.
    fn virtual_tensor(&self, op: &'static str, ordinal: u32) -> Result<Elem, CpuError> {
        let tensor = self.tensors.get(self.index, ordinal)?;
        if tensor.dims.len() != self.out.dims.len() {
            let (found, expected) = (tensor.dims.len(), "the rank of the step's output");
            return Err(CpuError::Rank { ordinal, found, expected });
        }
        for (axis, &dim) in self.out.dims.iter().enumerate() {
            tensor.expect(op, axis, dim)?;
        }
        if ordinal != self.step.out && tensor.place != Place::Fused {
            let expected = "fused: a step writes only its last result";
            return Err(CpuError::Place { op, ordinal, found: "in memory", expected });
        }
        tensor.elem(op)
    }

    /// The type of the operation's own output.
    pub(crate) fn carried(&self, op: &'static str) -> Result<Elem, CpuError> {
        self.virtual_tensor(op, self.step.carried)
    }

    fn view(&self, tensor: &Tensor, op: &'static str, loops: &Loops) -> Result<View, CpuError> {
        let strides = tensor.broadcast(op, &self.out.dims)?;
        Ok(View::new(tensor.ordinal as usize, tensor.elem(op)?, &strides, loops))
    }

    fn pointwise(&self, position: usize, op: &Pointwise, before: Option<Elem>, loops: &Loops) -> Result<RowOp, CpuError> {
        let mode = PointwiseMode::from_wire(op.mode).filter(|m| *m != PointwiseMode::Unset).ok_or(CpuError::Attribute {
            op: OP,
            what: "mode number",
            found: i64::from(op.mode),
            expected: "a mode of the wire format",
        })?;
        let given = [Some(op.in0), op.in1, op.in2];
        let found = given.iter().take_while(|o| o.is_some()).count();
        if found != mode.arity() || given.iter().flatten().count() != found {
            let found = given.iter().flatten().count();
            return Err(CpuError::Operands { step: self.index, mode: mode.name(), found, expected: mode.arity() });
        }
        let mut wide = wide_compute(OP, op.compute)?;
        let mut inputs = Vec::new();
        let mut carries = false;
        for operand in given.into_iter().flatten() {
            inputs.push(match (operand, before) {
                (Operand::Carried, None) => return Err(self.chain(position, "there is no value to carry yet")),
                (Operand::Carried, Some(elem)) => {
                    carries = true;
                    wide |= elem.wide();
                    Input::Carried
                }
                (Operand::Tensor(ordinal), _) => {
                    let tensor = self.tensors.input(self.index, OP, ordinal)?;
                    wide |= tensor.elem(OP)?.wide();
                    Input::Tensor(self.view(tensor, OP, loops)?)
                }
            });
        }
        if before.is_some() && !carries {
            return Err(self.chain(position, "no operand takes the carried value"));
        }
        if mode == PointwiseMode::GenIndex {
            let rank = self.out.dims.len();
            let axis = op.axis.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank);
            let axis = axis.ok_or(CpuError::Attribute {
                op: OP,
                what: "axis of gen_index",
                found: op.axis.unwrap_or(-1),
                expected: "an axis of the output",
            })?;
            let mut along = vec![0; rank];
            along[axis] = 1;
            inputs = vec![Input::Index(View::new(usize::MAX, Elem::I32, &along, loops))];
            // Indices beyond 2^24 are not all f32 numbers.
            wide = true;
        }
        let round = self.virtual_tensor(OP, op.out)?;
        Ok(RowOp { function: Function::Pointwise(mode, Params::of(op)), inputs, wide, round })
    }

    /// The row program of a step. `own` are the operations before the chain; without any, the value comes from a tile.
    fn finish(&self, mut ops: Vec<RowOp>, loops: &Loops, op: &'static str) -> Result<RowProgram, CpuError> {
        let from_tile = ops.is_empty();
        let carried = self.carried(op)?;
        let mut before = Some(carried);
        for (position, link) in self.step.chain.iter().enumerate() {
            let next = self.pointwise(position, link, before, loops)?;
            before = Some(next.round);
            ops.push(next);
        }
        let first = (from_tile && !ops.is_empty()).then_some(carried);
        let out = self.view(self.out, op, loops)?;
        Ok(RowProgram::new(loops, ops, first, out, from_tile))
    }

    /// The epilogue of a product.
    pub(crate) fn epilogue(&self, loops: &Loops, op: &'static str) -> Result<RowProgram, CpuError> {
        self.finish(Vec::new(), loops, op)
    }

    /// Loops over all axes, the output's nearest neighbours innermost.
    fn loops(&self) -> Loops {
        let mut axes: Vec<usize> = (0..self.out.dims.len()).filter(|&axis| self.out.dims[axis] > 1).collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse(self.out.strides[axis]));
        let m = axes.into_iter().map(|axis| LoopDim { size: self.out.dims[axis], axis, step: 1 }).collect();
        Loops { batch: Vec::new(), n: None, m, origin: vec![0; self.out.dims.len()] }
    }

    /// The row program of a pointwise step.
    pub(crate) fn pointwise_step(&self, op: &Pointwise) -> Result<RowProgram, CpuError> {
        if op.out != self.step.carried {
            return Err(self.chain(0, "the operation's result must be the step's carried tensor"));
        }
        let loops = self.loops();
        let first = self.pointwise(0, op, None, &loops)?;
        self.finish(vec![first], &loops, OP)
    }

    /// The row program of a batch normalisation: x, mean, variance or its inverse root, scale, bias, and epsilon when
    /// the fourth is a variance.
    pub(crate) fn batchnorm(&self, inputs: [u32; 5], epsilon: Option<u32>) -> Result<RowProgram, CpuError> {
        let op = "batchnorm inference";
        let loops = self.loops();
        let x = self.tensors.input(self.index, op, inputs[0])?;
        if x.dims.len() < 2 {
            return Err(CpuError::Rank { ordinal: x.ordinal, found: x.dims.len(), expected: "2 to 8" });
        }
        if x.dims.len() != self.out.dims.len() {
            let (found, expected) = (self.out.dims.len(), "the rank of x");
            return Err(CpuError::Rank { ordinal: self.out.ordinal, found, expected });
        }
        for (axis, &dim) in x.dims.iter().enumerate() {
            self.out.expect(op, axis, dim)?;
        }
        let mut wide = false;
        let mut views = Vec::new();
        for (slot, &ordinal) in inputs.iter().chain(&epsilon).enumerate() {
            let tensor = self.tensors.input(self.index, op, ordinal)?;
            wide |= tensor.elem(op)?.wide();
            let strides = match slot {
                0 => tensor.broadcast(op, &self.out.dims)?,
                5 => tensor.broadcast(op, &vec![1; self.out.dims.len()])?,
                _ => self.per_channel(tensor, op)?,
            };
            views.push(Input::Tensor(View::new(ordinal as usize, tensor.elem(op)?, &strides, &loops)));
        }
        let function = if epsilon.is_some() { Function::BatchnormVariance } else { Function::Batchnorm };
        let round = self.carried(op)?;
        self.finish(vec![RowOp { function, inputs: views, wide, round }], &loops, op)
    }

    /// Strides of a parameter per channel: dims `[C]`, or as x's with every extent but the channel's 1.
    fn per_channel(&self, tensor: &Tensor, op: &'static str) -> Result<Vec<i64>, CpuError> {
        let (rank, channels) = (self.out.dims.len(), self.out.dims[1]);
        let mut strides = vec![0; rank];
        let channel = if tensor.dims.len() == 1 { 0 } else { 1 };
        if tensor.dims.len() != 1 && tensor.dims.len() != rank {
            let (ordinal, found) = (tensor.ordinal, tensor.dims.len());
            return Err(CpuError::Rank { ordinal, found, expected: "1, or the rank of x" });
        }
        for axis in 0..tensor.dims.len() {
            let single = axis != channel || tensor.dims[axis] == 1;
            tensor.expect(op, axis, if single { 1 } else { channels })?;
        }
        strides[1] = tensor.strides[channel];
        Ok(strides)
    }
}
