//! What a caller gives to one execution: tensors by uid (R16 §4.5).

use crate::MemorySpace;
use crate::hip::{DeviceSlice, DeviceSliceMut};
use crate::memory_space::SpaceKey;
use crate::shapes::ShapeList;
use hipplan_serialize::{DataType, Scalar, TensorValue};
use std::ffi::c_void;
use std::marker::PhantomData;

/// What kind of thing stands under a uid. A device buffer and a host scalar are different things, so that the confusion of R16 §7.3
/// cannot be written down in Rust; only the raw ones, for C callers, leave it to the plan to tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A buffer for a device tensor.
    Device,
    /// `uid -> void*`: a device pointer, or a host pointer if the plan's runtime set holds the uid.
    Raw,
    /// The same, and a host pointer of a scalar with a default is read too.
    RawOverride,
    /// A runtime scalar's value; inert for constants and for scalars with a default.
    Scalar,
    /// A value that replaces a default too.
    Override,
}

/// One element of a tensor's type in its first bytes, aligned for any type.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(8))]
pub(crate) struct Element(pub(crate) [u8; 8]);

/// One entry: flat, because executing walks all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) uid: i64,
    /// Memory of a buffer.
    pub(crate) pointer: *mut u8,
    /// Bytes of a buffer, 0 at a null pointer; all that can be where the caller did not say.
    pub(crate) len: u64,
    /// Value of a scalar.
    pub(crate) element: Element,
    /// Whose memory a buffer is. Of a raw entry it is any: its caller promised that it is the plan's device's.
    pub(crate) space: SpaceKey,
    pub(crate) what: What,
    /// Type of a scalar.
    pub(crate) dtype: DataType,
    pub(crate) writable: bool,
}

impl Entry {
    fn new(uid: i64, what: What) -> Self {
        let pointer = std::ptr::null_mut();
        Self { uid, pointer, len: 0, element: Element::default(), space: SpaceKey::ANY, what, dtype: DataType::Unset, writable: false }
    }
}

/// Tensors by uid, for one execution. [`clear`](Self::clear) keeps the memory, so that a pack can be filled again without allocating.
///
/// Entries of uids that the plan does not know, or that are baked into it, are inert, as in hipDNN (R16 §4.9).
#[derive(Debug, Default)]
pub struct VariantPack<'b> {
    entries: Vec<Entry>,
    shapes: ShapeList,
    buffers: PhantomData<&'b mut [u8]>,
}

impl<'b> VariantPack<'b> {
    /// An empty pack.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty pack with room for `n` entries.
    pub fn with_capacity(n: usize) -> Self {
        Self { entries: Vec::with_capacity(n), ..Self::default() }
    }

    /// Removes all entries and all shapes.
    pub fn clear(&mut self) -> &mut Self {
        self.entries.clear();
        self.shapes.clear();
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
        self.buffer(uid, (data.as_ptr().cast_mut().cast(), size_of_val(data), MemorySpace::Host), false)
    }

    /// A tensor that is written, for a plan on the CPU: its memory from the first element to the last.
    pub fn output<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(&mut self, uid: i64, data: &'b mut [T]) -> &mut Self {
        self.buffer(uid, (data.as_mut_ptr().cast(), size_of_val(data), MemorySpace::Host), true)
    }

    /// A tensor that is only read, for a plan on a HIP device: a [`DeviceMemory`](crate::hip::DeviceMemory) or a part of one, from the
    /// first element to the last.
    pub fn device_input(&mut self, uid: i64, memory: impl Into<DeviceSlice<'b>>) -> &mut Self {
        self.buffer(uid, memory.into().parts(), false)
    }

    /// A tensor that is written, for a plan on a HIP device: a [`DeviceMemory`](crate::hip::DeviceMemory) or a part of one, from the
    /// first element to the last.
    pub fn device_output(&mut self, uid: i64, memory: impl Into<DeviceSliceMut<'b>>) -> &mut Self {
        self.buffer(uid, memory.into().parts(), true)
    }

    /// The value of a user-supplied runtime scalar. Inert for constants and for scalars with a default.
    pub fn scalar(&mut self, uid: i64, value: impl Scalar) -> &mut Self {
        self.scalar_value(uid, value.to_value())
    }

    /// The value of a runtime scalar, also in place of its default. Inert for constants.
    pub fn override_scalar(&mut self, uid: i64, value: impl Scalar) -> &mut Self {
        self.override_value(uid, value.to_value())
    }

    /// [`scalar`](Self::scalar) with a value whose type is known only at run time.
    pub fn scalar_value(&mut self, uid: i64, value: TensorValue) -> &mut Self {
        self.value(uid, What::Scalar, value)
    }

    /// [`override_scalar`](Self::override_scalar) with a value whose type is known only at run time.
    pub fn override_value(&mut self, uid: i64, value: TensorValue) -> &mut Self {
        self.value(uid, What::Override, value)
    }

    /// An entry as C callers give it: a pointer to memory of the plan's device, or, for the uids in the plan's runtime set, a host pointer to one element.
    ///
    /// # Safety
    /// Until the end of the execution: a pointer of a uid in the plan's runtime set points to a readable element of the tensor's
    /// type, and that of any other tensor of the plan to device memory of the tensor's whole span (with the shape that
    /// [`override_shape`](Self::override_shape) gives it, if it does), which nothing else accesses where the plan writes it.
    pub unsafe fn raw(&mut self, uid: i64, pointer: *mut c_void) -> &mut Self {
        let pointer: *mut u8 = pointer.cast();
        let len = if pointer.is_null() { 0 } else { u64::MAX };
        self.push(Entry { pointer, len, writable: true, ..Entry::new(uid, What::Raw) })
    }

    /// [`raw`](Self::raw), and a value that the pointer of a scalar with a default points to replaces the default.
    ///
    /// # Safety
    /// As of [`raw`](Self::raw).
    pub unsafe fn raw_override(&mut self, uid: i64, pointer: *mut c_void) -> &mut Self {
        let pointer: *mut u8 = pointer.cast();
        let len = if pointer.is_null() { 0 } else { u64::MAX };
        self.push(Entry { pointer, len, writable: true, ..Entry::new(uid, What::RawOverride) })
    }

    /// Gives a tensor in memory another shape in this execution, for plans whose graph has opted in
    /// ([`set_override_shape_enabled`](hipplan_serialize::GraphBuilder::set_override_shape_enabled)). `dims` are as many as the graph
    /// states, each from 1 to what the graph states; `strides` are in elements, one per dim, each at least 1. The tensor's buffer is in the
    /// pack too, and holds the span of this shape.
    ///
    /// What is wrong with a shape is an error of the execution. Executing with the shapes of the execution before costs no second check.
    pub fn override_shape(&mut self, uid: i64, dims: &[i64], strides: &[i64]) -> &mut Self {
        self.shapes.push(uid, dims, strides);
        self
    }

    fn buffer(&mut self, uid: i64, (pointer, len, space): (*mut u8, usize, MemorySpace), writable: bool) -> &mut Self {
        let space = SpaceKey::of(space);
        let len = if pointer.is_null() { 0 } else { len as u64 };
        self.push(Entry { pointer, len, space, writable, ..Entry::new(uid, What::Device) })
    }

    fn value(&mut self, uid: i64, what: What, value: TensorValue) -> &mut Self {
        let dtype = value.data_type();
        // Every value is an element of its own type.
        let element = Element(value.to_element(dtype).unwrap_or_default());
        self.push(Entry { element, dtype, ..Entry::new(uid, what) })
    }

    fn push(&mut self, entry: Entry) -> &mut Self {
        self.entries.push(entry);
        self
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn shapes(&self) -> &ShapeList {
        &self.shapes
    }
}
