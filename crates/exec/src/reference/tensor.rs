//! Tensors in host memory.

use super::dtype;
use super::error::ReferenceError;
use crate::host_memory::HostMemory;
use hipplan_serialize::{DataType, TensorView};

/// Memory and elements that a tensor of the harness may have: it is for checks, and each element is visited one by one.
const MAX_BYTES: u64 = 1 << 34;

/// A tensor in host memory: exactly the bytes from its first element to its last, as a device buffer holds them.
///
/// The memory is aligned to 64 bytes, so that it may be cast to any element type.
#[derive(Clone, Debug)]
pub struct HostTensor {
    dtype: DataType,
    dims: Vec<i64>,
    strides: Vec<i64>,
    bytes: HostMemory,
}

impl HostTensor {
    /// A tensor of zero bytes.
    ///
    /// # Errors
    /// A type of less than 8 bits, dims below 1, strides below 0, other numbers of strides than of dims, or too much memory.
    pub fn new(dtype: DataType, dims: &[i64], strides: &[i64]) -> Result<Self, ReferenceError> {
        if !dtype::is_supported(dtype) {
            return Err(ReferenceError::Type { dtype });
        }
        let shape = || ReferenceError::Shape { dims: dims.to_vec(), strides: strides.to_vec() };
        if dims.len() != strides.len() || dims.iter().any(|&d| d < 1) || strides.iter().any(|&s| s < 0) {
            return Err(shape());
        }
        let elements = dims.iter().fold(1_u64, |n, &d| n.saturating_mul(d.unsigned_abs()));
        let extents = dims.iter().zip(strides).map(|(&d, &s)| (d - 1).unsigned_abs().saturating_mul(s.unsigned_abs()));
        let span = extents.fold(1_u64, u64::saturating_add);
        let size = span.saturating_mul(u64::from(dtype.bits() / 8));
        if size.max(elements) > MAX_BYTES {
            return Err(ReferenceError::TooLarge { bytes: size.max(elements), limit: MAX_BYTES });
        }
        let bytes = HostMemory::zeroed(size).ok_or(ReferenceError::TooLarge { bytes: size, limit: MAX_BYTES })?;
        Ok(Self { dtype, dims: dims.to_vec(), strides: strides.to_vec(), bytes })
    }

    /// A tensor of zeros in row-major order.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn packed(dtype: DataType, dims: &[i64]) -> Result<Self, ReferenceError> {
        let mut strides = vec![1_i64; dims.len()];
        for i in (1..dims.len()).rev() {
            strides[i - 1] = strides[i].saturating_mul(dims[i].max(1));
        }
        Self::new(dtype, dims, &strides)
    }

    /// A tensor of zeros with the type and the layout of a graph's tensor.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_view(view: &TensorView<'_>) -> Result<Self, ReferenceError> {
        Self::new(view.dtype, view.dims, view.strides)
    }

    /// A packed tensor that holds `values` in row-major order, rounded to its type.
    ///
    /// # Errors
    /// As [`new`](Self::new), or another number of values than of elements.
    pub fn from_values(dtype: DataType, dims: &[i64], values: &[f64]) -> Result<Self, ReferenceError> {
        let mut tensor = Self::packed(dtype, dims)?;
        tensor.fill(values)?;
        Ok(tensor)
    }

    /// Element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Dimensions.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Strides, in elements.
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().product::<i64>() as usize
    }

    /// The memory, from the first element to the last.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The memory, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The element at an index. The byte itself for booleans; integers beyond 2^53 are rounded.
    ///
    /// # Panics
    /// If the index is outside the tensor.
    pub fn get(&self, index: &[i64]) -> f64 {
        self.at(self.offset(index))
    }

    /// Stores `value`, rounded to nearest even; integers saturate.
    ///
    /// # Panics
    /// If the index is outside the tensor.
    pub fn set(&mut self, index: &[i64], value: f64) {
        let offset = self.offset(index);
        self.put(offset, value);
    }

    /// All elements, the last dimension fastest.
    pub fn values(&self) -> Vec<f64> {
        self.offsets().map(|offset| self.at(offset)).collect()
    }

    /// Stores all elements, the last dimension fastest.
    ///
    /// # Errors
    /// Another number of values than of elements.
    pub fn fill(&mut self, values: &[f64]) -> Result<(), ReferenceError> {
        if values.len() != self.elements() {
            return Err(ReferenceError::Count { found: values.len(), expected: self.elements() });
        }
        for (offset, &value) in self.offsets().zip(values) {
            self.put(offset, value);
        }
        Ok(())
    }

    /// Offsets of all elements from the start, in elements, the last dimension fastest.
    pub fn offsets(&self) -> impl Iterator<Item = usize> + use<> {
        let (dims, strides) = (self.dims.clone(), self.strides.clone());
        let mut index = vec![0; dims.len()];
        let mut offset = 0_i64;
        (0..self.elements()).map(move |_| {
            let here = offset as usize;
            for axis in (0..dims.len()).rev() {
                index[axis] += 1;
                offset += strides[axis];
                if index[axis] < dims[axis] {
                    break;
                }
                offset -= dims[axis] * strides[axis];
                index[axis] = 0;
            }
            here
        })
    }

    /// The index of the `n`th element, the last dimension fastest.
    pub(super) fn index_of(&self, mut n: usize) -> Vec<i64> {
        let mut index = vec![0; self.dims.len()];
        for axis in (0..self.dims.len()).rev() {
            let dim = self.dims[axis] as usize;
            index[axis] = (n % dim) as i64;
            n /= dim;
        }
        index
    }

    /// Bytes of one element.
    pub(super) fn element_size(&self) -> usize {
        self.dtype.bits() as usize / 8
    }

    /// Bytes of the element at an offset.
    pub(super) fn element(&self, offset: usize) -> &[u8] {
        &self.bytes[offset * self.element_size()..][..self.element_size()]
    }

    /// Bytes of the element at an offset, to be written.
    pub(super) fn element_mut(&mut self, offset: usize) -> &mut [u8] {
        let size = self.element_size();
        &mut self.bytes[offset * size..][..size]
    }

    fn at(&self, offset: usize) -> f64 {
        dtype::load(self.dtype, self.element(offset))
    }

    pub(super) fn put(&mut self, offset: usize, value: f64) {
        let dtype = self.dtype;
        dtype::store(dtype, value, self.element_mut(offset));
    }

    fn offset(&self, index: &[i64]) -> usize {
        assert_eq!(index.len(), self.dims.len(), "an index has one number per dimension");
        let mut offset = 0;
        for ((&i, &dim), &stride) in index.iter().zip(&self.dims).zip(&self.strides) {
            assert!((0..dim).contains(&i), "index {index:?} is outside {:?}", self.dims);
            offset += i * stride;
        }
        offset as usize
    }
}
