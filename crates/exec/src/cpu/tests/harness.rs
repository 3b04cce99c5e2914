//! Tensors in ordinary memory, programs over them, and their execution on pools of any size.

use super::super::kernel::Isa;
use super::super::{CpuProgram, Executable, Place, Pointwise, Step, StepOp, TensorSlot, ThreadPool};
use half::{bf16, f16};
use hipplan_serialize::DataType;
use std::sync::{Arc, OnceLock};

/// What fills memory before a run.
const FILL: u64 = 0xA5A5_A5A5_A5A5_A5A5;

/// A small generator of numbers.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let x = self.0 ^ (self.0 >> 33);
        x.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 16
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A tensor and its memory.
#[derive(Clone, Debug)]
pub(crate) struct Mem {
    pub(crate) dtype: DataType,
    pub(crate) dims: Vec<usize>,
    pub(crate) strides: Vec<i64>,
    pub(crate) place: Place,
    pub(crate) data: Vec<u64>,
}

impl Mem {
    /// Packed, the last axis innermost.
    pub(crate) fn packed(dtype: DataType, dims: &[usize]) -> Self {
        let order: Vec<usize> = (0..dims.len()).collect();
        Self::ordered(dtype, dims, &order, &vec![0; dims.len()])
    }

    /// The axes in `order`, outermost first, each followed by a gap of elements.
    pub(crate) fn ordered(dtype: DataType, dims: &[usize], order: &[usize], gaps: &[i64]) -> Self {
        let mut strides = vec![0; dims.len()];
        let mut step = 1;
        for &axis in order.iter().rev() {
            strides[axis] = step;
            step = step * dims[axis] as i64 + gaps[axis];
        }
        let mut mem = Self { dtype, dims: dims.to_vec(), strides, place: Place::External, data: Vec::new() };
        mem.data = vec![FILL; (mem.span() * mem.size()).div_ceil(8) + 2];
        mem
    }

    /// Any layout: packed, channels last, or permuted with gaps.
    pub(crate) fn any(dtype: DataType, dims: &[usize], rng: &mut Rng) -> Self {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        let mut gaps = vec![0; dims.len()];
        match rng.below(4) {
            0 => {}
            1 if dims.len() > 2 => {
                let channel = order.remove(1);
                order.push(channel);
            }
            _ => {
                for i in (1..order.len()).rev() {
                    order.swap(i, rng.below(i + 1));
                }
                gaps.iter_mut().for_each(|g| *g = rng.below(3) as i64);
            }
        }
        Self::ordered(dtype, dims, &order, &gaps)
    }

    /// Small halves: sums of their products are exact in every floating-point type's accumulator.
    pub(crate) fn fill(mut self, rng: &mut Rng) -> Self {
        let integer = !matches!(self.dtype, DataType::Float | DataType::Half | DataType::BFloat16 | DataType::Double);
        for index in indices(&self.dims) {
            let value = rng.below(9) as f64 - 4.0;
            let value = match self.dtype {
                DataType::Boolean => f64::from(value > 0.0),
                DataType::UInt8 => value.abs(),
                _ if integer => value,
                _ => value / 2.0,
            };
            self.set(&index, value);
        }
        self
    }

    pub(crate) fn with(mut self, f: impl Fn(&[usize]) -> f64) -> Self {
        indices(&self.dims).iter().for_each(|index| self.set(index, f(index)));
        self
    }

    pub(crate) fn fused(dtype: DataType, dims: &[usize]) -> Self {
        Self { place: Place::Fused, ..Self::packed(dtype, dims) }
    }

    /// The same elements seen as `dims`, zero strides where the extents differ.
    pub(crate) fn expanded(mut self, dims: &[usize]) -> Self {
        for (axis, &dim) in dims.iter().enumerate() {
            if self.dims[axis] != dim {
                self.strides[axis] = 0;
            }
        }
        self.dims = dims.to_vec();
        self
    }

    fn size(&self) -> usize {
        self.dtype.bits() as usize / 8
    }

    fn span(&self) -> usize {
        1 + self.dims.iter().zip(&self.strides).map(|(&d, &s)| (d - 1) * s as usize).sum::<usize>()
    }

    fn at(&self, index: &[usize]) -> std::ops::Range<usize> {
        let offset: usize = index.iter().zip(&self.strides).map(|(&i, &s)| i * s as usize).sum();
        offset * self.size()..(offset + 1) * self.size()
    }

    pub(crate) fn get(&self, index: &[usize]) -> f64 {
        let bytes = &bytemuck::cast_slice::<u64, u8>(&self.data)[self.at(index)];
        match self.dtype {
            DataType::Float => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
            DataType::Half => f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
            DataType::BFloat16 => bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
            DataType::Double => f64::from_le_bytes(bytes.try_into().unwrap()),
            DataType::Int32 => f64::from(i32::from_le_bytes(bytes.try_into().unwrap())),
            DataType::Int8 => f64::from(bytes[0] as i8),
            _ => f64::from(bytes[0]),
        }
    }

    pub(crate) fn set(&mut self, index: &[usize], value: f64) {
        let at = self.at(index);
        let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.data)[at];
        match self.dtype {
            DataType::Float => bytes.copy_from_slice(&(value as f32).to_le_bytes()),
            DataType::Half => bytes.copy_from_slice(&f16::from_f64(value).to_le_bytes()),
            DataType::BFloat16 => bytes.copy_from_slice(&bf16::from_f64(value).to_le_bytes()),
            DataType::Double => bytes.copy_from_slice(&value.to_le_bytes()),
            DataType::Int32 => bytes.copy_from_slice(&(value.round_ties_even() as i32).to_le_bytes()),
            DataType::Int8 => bytes[0] = value.round_ties_even() as i8 as u8,
            DataType::Boolean => bytes[0] = u8::from(value != 0.0),
            _ => bytes[0] = value.round_ties_even() as u8,
        }
    }

    pub(crate) fn slot(&self) -> TensorSlot {
        let dims = self.dims.iter().map(|&d| d as i64).collect();
        TensorSlot { dtype: self.dtype.to_wire(), dims, strides: self.strides.clone(), place: self.place }
    }

    /// Whether every byte that is no element's still has its fill.
    fn gaps_untouched(&self) -> bool {
        let mut element = vec![false; self.data.len() * 8];
        indices(&self.dims).iter().for_each(|index| element[self.at(index)].fill(true));
        bytemuck::cast_slice::<u64, u8>(&self.data).iter().zip(&element).all(|(&b, &e)| e || b == 0xA5)
    }
}

/// All indices of a shape.
pub(crate) fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    dims.iter().fold(vec![Vec::new()], |all, &dim| {
        all.into_iter()
            .flat_map(|index| {
                (0..dim).map(move |i| {
                    let mut index = index.clone();
                    index.push(i);
                    index
                })
            })
            .collect()
    })
}

/// What storing a number as a dtype makes of it.
pub(crate) fn rounded(dtype: DataType, value: f64) -> f64 {
    let mut cell = Mem::packed(dtype, &[1]);
    cell.set(&[0], value);
    cell.get(&[0])
}

/// Tensors and steps.
#[derive(Default, Clone)]
pub(crate) struct Case {
    pub(crate) mems: Vec<Mem>,
    pub(crate) steps: Vec<Step>,
    pub(crate) workspace: u64,
}

impl Case {
    pub(crate) fn add(&mut self, mem: Mem) -> u32 {
        self.mems.push(mem);
        self.mems.len() as u32 - 1
    }

    /// Adds a tensor that lies in the workspace.
    pub(crate) fn add_workspace(&mut self, mut mem: Mem) -> u32 {
        mem.place = Place::Workspace { offset: self.workspace };
        self.workspace += (mem.data.len() as u64 * 8).next_multiple_of(64);
        self.add(mem)
    }

    pub(crate) fn step(&mut self, op: StepOp, out: u32) {
        self.steps.push(Step { op, chain: Vec::new(), out, carried: out });
    }

    pub(crate) fn chained(&mut self, op: StepOp, carried: u32, chain: Vec<Pointwise>, out: u32) {
        self.steps.push(Step { op, chain, out, carried });
    }

    pub(crate) fn program(&self) -> CpuProgram {
        CpuProgram { tensors: self.mems.iter().map(Mem::slot).collect(), steps: self.steps.clone(), workspace_size: self.workspace }
    }

    /// The instruction sets of this machine take turns, by the extents of the first tensor.
    fn isa(&self) -> Isa {
        let all = Isa::all();
        all[self.mems.first().map_or(0, |mem| mem.dims.iter().sum()) % all.len()]
    }

    /// Runs the case on `threads` threads, twice, and checks that both runs agree and that no gap was touched.
    pub(crate) fn run_on(&self, threads: usize) -> Vec<Mem> {
        let mut executable = Executable::prepare_for(&self.program(), pool(threads), self.isa()).unwrap();
        let mut results = Vec::new();
        for _ in 0..2 {
            let mut mems = self.mems.clone();
            let mut workspace = vec![[FILL; 8]; self.workspace as usize / 64 + 2];
            let start = workspace.as_mut_ptr().cast::<u8>();
            let start = start.wrapping_add(start.align_offset(64));
            let bases: Vec<*mut u8> = mems
                .iter_mut()
                .enumerate()
                .map(|(i, m)| {
                    assert!(executable.span_bytes(i) <= m.data.len() as u64 * 8);
                    if matches!(m.place, Place::External | Place::Scalar) { m.data.as_mut_ptr().cast() } else { std::ptr::null_mut() }
                })
                .collect();
            // SAFETY: each base covers its tensor's span, and so does the workspace; nobody else uses the memory.
            unsafe { executable.run(&bases, start) };
            assert!(mems.iter().all(|m| m.place != Place::External || m.gaps_untouched()));
            results.push(mems);
        }
        let second = results.pop().unwrap();
        let first = results.pop().unwrap();
        assert!(first.iter().zip(&second).all(|(a, b)| a.data == b.data), "two runs differ");
        first
    }

    /// Runs the case on one and on three threads, which must agree in every bit.
    pub(crate) fn run(&self) -> Vec<Mem> {
        let one = self.run_on(1);
        let three = self.run_on(3);
        assert!(one.iter().zip(&three).all(|(a, b)| a.data == b.data), "thread counts differ");
        one
    }
}

pub(crate) fn pool(threads: usize) -> Arc<ThreadPool> {
    static POOLS: OnceLock<[Arc<ThreadPool>; 2]> = OnceLock::new();
    let pools = POOLS.get_or_init(|| [Arc::new(ThreadPool::new(1)), Arc::new(ThreadPool::new(3))]);
    Arc::clone(&pools[usize::from(threads > 1)])
}

/// Asserts that a tensor holds what a function of its index says, after rounding to its dtype.
pub(crate) fn assert_exact(mem: &Mem, want: impl Fn(&[usize]) -> f64) {
    for index in indices(&mem.dims) {
        let (found, expected) = (mem.get(&index), rounded(mem.dtype, want(&index)));
        assert!(found == expected, "at {index:?}: found {found}, expected {expected}, in {:?} {:?}", mem.dims, mem.strides);
    }
}
