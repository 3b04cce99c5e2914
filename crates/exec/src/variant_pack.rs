//! What a caller gives to one execution: tensors by uid (R16 §4.5).

use crate::MemorySpace;
use crate::hip::{DeviceSlice, DeviceSliceMut};
use hipplan_serialize::{Scalar, TensorValue};
use std::ffi::c_void;
use std::marker::PhantomData;

/// A buffer for a device tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceBuffer {
    pub(crate) ptr: *mut u8,
    /// Bytes; `None` where the caller did not say.
    pub(crate) len: Option<usize>,
    pub(crate) writable: bool,
    /// Whose memory it is. For what C callers give, taken to be the plan's device's.
    pub(crate) space: MemorySpace,
}

/// What stands under a uid. A device buffer and a host scalar are different things, so that the confusion of R16 §7.3
/// cannot be written down in Rust; only [`Raw`](Self::Raw), for C callers, leaves it to the plan to tell them apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding {
    Device(DeviceBuffer),
    /// A runtime scalar's value; inert for constants and for scalars with a default.
    Scalar(TensorValue),
    /// A value that replaces a default too.
    Override(TensorValue),
    /// `uid -> void*`: a device pointer, or a host pointer if the plan's runtime set holds the uid.
    Raw(*mut c_void),
}

/// Tensors by uid, for one execution. [`clear`](Self::clear) keeps the memory, so that a pack can be filled again without allocating.
///
/// Entries of uids that the plan does not know, or that are baked into it, are inert, as in hipDNN (R16 §4.9).
#[derive(Debug, Default)]
pub struct VariantPack<'b> {
    entries: Vec<(i64, Binding)>,
    buffers: PhantomData<&'b mut [u8]>,
}

impl<'b> VariantPack<'b> {
    /// An empty pack.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty pack with room for `n` entries.
    pub fn with_capacity(n: usize) -> Self {
        Self { entries: Vec::with_capacity(n), buffers: PhantomData }
    }

    /// Removes all entries.
    pub fn clear(&mut self) -> &mut Self {
        self.entries.clear();
        self
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// No entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A tensor that is only read, for a plan on the CPU: its memory from the first element to the last.
    pub fn input<T: bytemuck::NoUninit>(&mut self, uid: i64, data: &'b [T]) -> &mut Self {
        let (ptr, len) = (data.as_ptr().cast_mut().cast(), Some(size_of_val(data)));
        self.push(uid, Binding::Device(DeviceBuffer { ptr, len, writable: false, space: MemorySpace::Host }))
    }

    /// A tensor that is written, for a plan on the CPU: its memory from the first element to the last.
    pub fn output<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(&mut self, uid: i64, data: &'b mut [T]) -> &mut Self {
        let (ptr, len) = (data.as_mut_ptr().cast(), Some(size_of_val(data)));
        self.push(uid, Binding::Device(DeviceBuffer { ptr, len, writable: true, space: MemorySpace::Host }))
    }

    /// A tensor that is only read, for a plan on a HIP device: a [`DeviceMemory`](crate::hip::DeviceMemory) or a part of one, from the
    /// first element to the last.
    pub fn device_input(&mut self, uid: i64, memory: impl Into<DeviceSlice<'b>>) -> &mut Self {
        let (ptr, len, space) = memory.into().parts();
        self.push(uid, Binding::Device(DeviceBuffer { ptr, len: Some(len), writable: false, space }))
    }

    /// A tensor that is written, for a plan on a HIP device: a [`DeviceMemory`](crate::hip::DeviceMemory) or a part of one, from the
    /// first element to the last.
    pub fn device_output(&mut self, uid: i64, memory: impl Into<DeviceSliceMut<'b>>) -> &mut Self {
        let (ptr, len, space) = memory.into().parts();
        self.push(uid, Binding::Device(DeviceBuffer { ptr, len: Some(len), writable: true, space }))
    }

    /// The value of a user-supplied runtime scalar. Inert for constants and for scalars with a default.
    pub fn scalar(&mut self, uid: i64, value: impl Scalar) -> &mut Self {
        self.push(uid, Binding::Scalar(value.to_value()))
    }

    /// The value of a runtime scalar, also in place of its default. Inert for constants.
    pub fn override_scalar(&mut self, uid: i64, value: impl Scalar) -> &mut Self {
        self.push(uid, Binding::Override(value.to_value()))
    }

    /// [`scalar`](Self::scalar) with a value whose type is known only at run time.
    pub fn scalar_value(&mut self, uid: i64, value: TensorValue) -> &mut Self {
        self.push(uid, Binding::Scalar(value))
    }

    /// [`override_scalar`](Self::override_scalar) with a value whose type is known only at run time.
    pub fn override_value(&mut self, uid: i64, value: TensorValue) -> &mut Self {
        self.push(uid, Binding::Override(value))
    }

    /// An entry as C callers give it: a pointer to memory of the plan's device, or, for the uids in the plan's runtime set, a host pointer to one element.
    ///
    /// # Safety
    /// Until the end of the execution: a pointer of a uid in the plan's runtime set points to a readable element of the tensor's
    /// type, and that of any other tensor of the plan to device memory of the tensor's whole span, which nothing else accesses
    /// where the plan writes it.
    pub unsafe fn raw(&mut self, uid: i64, pointer: *mut c_void) -> &mut Self {
        self.push(uid, Binding::Raw(pointer))
    }

    fn push(&mut self, uid: i64, binding: Binding) -> &mut Self {
        self.entries.push((uid, binding));
        self
    }

    pub(crate) fn entries(&self) -> &[(i64, Binding)] {
        &self.entries
    }
}
