//! The tensors of a program, checked: everything that later steps rely on to stay within memory.

use super::CpuError;
use super::element::Elem;
use super::program::{CpuProgram, Place};
use hipplan_serialize::DataType;

/// Most elements of a tensor.
const MAX_ELEMENTS: u64 = 1 << 40;
/// Most elements from a tensor's first to its last.
const MAX_SPAN: u64 = 1 << 48;
/// Most tensors or steps of a program.
const MAX_COUNT: usize = 1 << 20;
/// Highest rank.
pub(crate) const MAX_RANK: usize = 8;

/// A checked tensor.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) ordinal: u32,
    dtype: DataType,
    pub(crate) dims: Vec<usize>,
    /// Element strides; zero along extents of 1.
    pub(crate) strides: Vec<i64>,
    /// Bytes from the base to the end of the last addressed element.
    pub(crate) bytes: u64,
    pub(crate) place: Place,
}

impl Tensor {
    /// Whether two tensors have one type, dims and strides.
    pub(crate) fn same_layout(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.dims == other.dims && self.strides == other.strides
    }

    /// Checks everything about a tensor that its use does not matter for.
    fn check(program: &CpuProgram, index: usize) -> Result<Self, CpuError> {
        let ordinal = index as u32;
        let slot = &program.tensors[index];
        let dtype = DataType::from_wire(slot.dtype)
            .filter(|d| *d != DataType::Unset)
            .ok_or(CpuError::UnknownDtype { ordinal, found: slot.dtype })?;
        let rank = slot.dims.len();
        if rank == 0 || rank > MAX_RANK {
            return Err(CpuError::Rank { ordinal, found: rank, expected: "1 to 8" });
        }
        if slot.strides.len() != rank {
            return Err(CpuError::Rank { ordinal, found: slot.strides.len(), expected: "as many strides as dims" });
        }
        let (mut elements, mut span) = (1u64, 1u64);
        let (mut dims, mut strides) = (Vec::with_capacity(rank), Vec::with_capacity(rank));
        for (axis, (&dim, &stride)) in slot.dims.iter().zip(&slot.strides).enumerate() {
            if dim < 1 {
                return Err(CpuError::Dim { ordinal, axis, found: dim, expected: 1 });
            }
            if stride < 0 {
                return Err(CpuError::Stride { ordinal, axis, found: stride });
            }
            let too_many = |limit, what| CpuError::TooLarge { ordinal, what, limit };
            elements = elements
                .checked_mul(dim as u64)
                .filter(|&n| n <= MAX_ELEMENTS)
                .ok_or_else(|| too_many(MAX_ELEMENTS, "the number of elements"))?;
            span = (dim as u64 - 1)
                .checked_mul(stride as u64)
                .and_then(|reach| span.checked_add(reach))
                .filter(|&n| n <= MAX_SPAN)
                .ok_or_else(|| too_many(MAX_SPAN, "the span of elements"))?;
            dims.push(dim as usize);
            strides.push(if dim == 1 { 0 } else { stride });
        }
        let bytes = (span * u64::from(dtype.bits())).div_ceil(8);
        match slot.place {
            Place::Scalar if span != 1 => {
                return Err(CpuError::TooLarge { ordinal, what: "the span of a host scalar", limit: 1 });
            }
            Place::Workspace { offset } => {
                if offset % 64 != 0 {
                    return Err(CpuError::WorkspaceAlignment { ordinal, offset });
                }
                let end = offset.saturating_add(bytes);
                if end > program.workspace_size {
                    return Err(CpuError::WorkspaceRange { ordinal, offset, end, size: program.workspace_size });
                }
            }
            _ => {}
        }
        Ok(Self { ordinal, dtype, dims, strides, bytes, place: slot.place })
    }

    /// The element type, if the kernels know it.
    pub(crate) fn elem(&self, op: &'static str) -> Result<Elem, CpuError> {
        Elem::of(self.dtype).ok_or(CpuError::UnsupportedDtype {
            op,
            ordinal: self.ordinal,
            found: self.dtype,
            expected: "float, half, bfloat16, double, int32, int8, uint8 or boolean",
        })
    }

    /// The error of a dtype that the operation does not take here.
    pub(crate) fn refuse(&self, op: &'static str, expected: &'static str) -> CpuError {
        CpuError::UnsupportedDtype { op, ordinal: self.ordinal, found: self.dtype, expected }
    }

    /// Checks the extent of one axis.
    pub(crate) fn expect(&self, op: &'static str, axis: usize, expected: usize) -> Result<(), CpuError> {
        let found = self.dims[axis];
        if found == expected {
            return Ok(());
        }
        Err(CpuError::Shape { op, ordinal: self.ordinal, axis, found: found as i64, expected: expected as i64 })
    }

    /// Strides per axis of an output of these extents, to which this tensor broadcasts right-aligned.
    pub(crate) fn broadcast(&self, op: &'static str, out: &[usize]) -> Result<Vec<i64>, CpuError> {
        let mut strides = vec![0; out.len()];
        for (axis, &dim) in self.dims.iter().enumerate() {
            let target = (axis + out.len()).checked_sub(self.dims.len());
            match target {
                Some(at) if dim == out[at] => strides[at] = self.strides[axis],
                _ if dim == 1 => {}
                _ => {
                    let expected = target.map_or(1, |at| out[at] as i64);
                    return Err(CpuError::Shape { op, ordinal: self.ordinal, axis, found: dim as i64, expected });
                }
            }
        }
        Ok(strides)
    }

    /// That no two elements share memory: each stride is beyond what the smaller ones span.
    fn distinct(&self) -> Result<(), CpuError> {
        let mut axes: Vec<usize> = (0..self.dims.len()).filter(|&a| self.dims[a] > 1).collect();
        axes.sort_by_key(|&a| self.strides[a]);
        let mut span = 1;
        for axis in axes {
            if self.strides[axis] < span {
                return Err(CpuError::OverlappingOutput { ordinal: self.ordinal, axis });
            }
            span += self.strides[axis] * (self.dims[axis] as i64 - 1);
        }
        Ok(())
    }
}

/// All tensors of a program.
#[derive(Debug)]
pub(crate) struct Tensors {
    pub(crate) list: Vec<Tensor>,
}

impl Tensors {
    /// Checks every tensor.
    pub(crate) fn check(program: &CpuProgram) -> Result<Self, CpuError> {
        for (what, found) in [("tensors", program.tensors.len()), ("steps", program.steps.len())] {
            if found > MAX_COUNT {
                return Err(CpuError::Count { what, found: found as u64, expected: "at most 1048576" });
            }
        }
        if program.workspace_size > isize::MAX as u64 / 2 {
            let found = program.workspace_size;
            return Err(CpuError::Count { what: "bytes of workspace", found, expected: "less than 2^62" });
        }
        let list: Result<Vec<Tensor>, CpuError> = (0..program.tensors.len()).map(|index| Tensor::check(program, index)).collect();
        Ok(Self { list: list? })
    }

    /// A tensor by ordinal.
    pub(crate) fn get(&self, step: usize, ordinal: u32) -> Result<&Tensor, CpuError> {
        self.list.get(ordinal as usize).ok_or(CpuError::Ordinal { step, ordinal, tensors: self.list.len() })
    }

    /// A tensor that is read.
    pub(crate) fn input(&self, step: usize, op: &'static str, ordinal: u32) -> Result<&Tensor, CpuError> {
        let tensor = self.get(step, ordinal)?;
        if tensor.place == Place::Fused {
            let expected = "a tensor in memory";
            return Err(CpuError::Place { op, ordinal, found: "fused", expected });
        }
        Ok(tensor)
    }

    /// A tensor that is written.
    pub(crate) fn output(&self, step: usize, op: &'static str, ordinal: u32) -> Result<&Tensor, CpuError> {
        let tensor = self.input(step, op, ordinal)?;
        if tensor.place == Place::Scalar {
            let expected = "external or workspace memory";
            return Err(CpuError::Place { op, ordinal, found: "a host scalar", expected });
        }
        tensor.distinct()?;
        Ok(tensor)
    }
}
