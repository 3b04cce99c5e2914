//! The arguments of one execution, by binding: a template that is filled in place.

use crate::error::InvalidValue;
use crate::variant_pack::{Binding, DeviceBuffer, VariantPack};
use crate::{ExecError, MemorySpace};
use hipplan_serialize::plan::{ArchivedBindingV1, ArchivedPlanMetaV1, BindingKind, BindingRole, PayloadView};
use hipplan_serialize::{DataType, TensorValue};

/// Position of a tensor among the bindings in the plan's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingIx(pub(crate) u32);

impl BindingIx {
    /// The binding at this position of `PlanMetaV1::bindings`.
    pub const fn new(position: u32) -> Self {
        Self(position)
    }
}

/// What is known of a binding before any execution.
#[derive(Debug)]
struct Slot {
    /// The uid under which the caller knows the tensor.
    uid: i64,
    kind: BindingKind,
    role: BindingRole,
    dtype: DataType,
    span_bytes: u64,
    /// Bytes, a power of two.
    align: usize,
    /// For messages: where the graph uses it, and its name where that is known.
    label: String,
}

/// One element of a tensor's type in its first bytes, aligned for any type.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
struct Element([u8; 8]);

/// What an execution has for a binding.
#[derive(Clone, Copy, Debug)]
enum Argument {
    /// Nothing so far.
    Absent,
    Device(*mut u8),
    /// One element of the tensor's type, in host memory.
    Scalar(Element),
}

/// The bindings of a bound plan and the arguments of its current execution.
#[derive(Debug)]
pub(crate) struct ArgumentTable {
    slots: Vec<Slot>,
    /// Positions in `slots`, ascending by uid.
    by_uid: Vec<(i64, BindingIx)>,
    /// Constants and defaults in place, everything else absent.
    template: Vec<Argument>,
    current: Vec<Argument>,
    filled: Vec<bool>,
    /// Where each entry of the pack before stood in `slots`: packs seldom change their order.
    seen: Vec<u32>,
    /// Whose memory device tensors must be.
    space: MemorySpace,
}

// SAFETY: the pointers in `current` are put there by an `execute` call, which also removes them; no other thread can be in one,
// because it takes the plan by `&mut`.
unsafe impl Send for ArgumentTable {}

impl ArgumentTable {
    /// `name` gives the caller's uid and name of a tensor by its canonical ordinal.
    pub(crate) fn new(
        meta: &ArchivedPlanMetaV1,
        payload: &PayloadView<'_>,
        space: MemorySpace,
        mut name: impl FnMut(u32) -> Option<(i64, String)>,
    ) -> Result<Self, ExecError> {
        let mut slots = Vec::with_capacity(meta.bindings.len());
        let mut template = Vec::with_capacity(meta.bindings.len());
        for b in meta.bindings.iter() {
            let ordinal = b.ordinal.to_native();
            let (uid, name) = name(ordinal).unwrap_or((i64::from(ordinal), String::new()));
            let (kind, dtype) = (b.kind(), b.dtype());
            let first_use = b.first_use.as_str();
            let label = match name.as_str() {
                "" => format!("tensor uid {uid} ({first_use})"),
                name => format!("tensor {name:?} uid {uid} ({first_use})"),
            };
            let Some(span_bytes) = span_bytes(b) else {
                return Err(hipplan_serialize::plan::PlanError::MetadataField {
                    field: format!("span of {label}"),
                    found: format!("dims {:?}, strides {:?}", b.dims, b.strides),
                    expected: "a span that 64 bits can count".into(),
                }
                .into());
            };
            template.push(match kind {
                BindingKind::Constant | BindingKind::DefaultedScalar => Argument::Scalar(baked(payload, ordinal, dtype, &label)?),
                BindingKind::Device | BindingKind::RuntimeScalar => Argument::Absent,
            });
            let align = (dtype.bits() as usize).div_ceil(8).next_power_of_two();
            slots.push(Slot { uid, kind, role: b.role(), dtype, span_bytes, align, label });
        }
        let mut by_uid: Vec<_> = slots.iter().zip(0..).map(|(s, i)| (s.uid, BindingIx(i))).collect();
        by_uid.sort_unstable_by_key(|&(uid, _)| uid);
        let (current, filled, seen) = (template.clone(), vec![false; slots.len()], vec![0; slots.len()]);
        Ok(Self { slots, by_uid, template, current, filled, seen, space })
    }

    /// Forgets the arguments: pointers of a pack are not kept behind its call (R16 §4.6).
    pub(crate) fn clear(&mut self) {
        self.current.copy_from_slice(&self.template);
    }

    /// Fills the table from a pack. Nothing is dereferenced but the host scalars of the runtime set.
    pub(crate) fn fill(&mut self, pack: &VariantPack<'_>) -> Result<(), ExecError> {
        self.clear();
        self.filled.fill(false);
        for (position, &(uid, binding)) in pack.entries().iter().enumerate() {
            let Some(at) = self.find(position, uid) else { continue };
            let slot = &self.slots[at];
            // An inert entry changes nothing, however often it stands there.
            if let Some(argument) = slot.take(binding, self.space)? {
                if std::mem::replace(&mut self.filled[at], true) {
                    return Err(slot.invalid(InvalidValue::Twice { uid }));
                }
                self.current[at] = argument;
            }
        }
        Ok(())
    }

    /// Position in `slots` of a uid that stands at this position of the pack.
    fn find(&mut self, position: usize, uid: i64) -> Option<usize> {
        if let Some(&at) = self.seen.get(position)
            && self.slots[at as usize].uid == uid
        {
            return Some(at as usize);
        }
        let at = self.by_uid.binary_search_by_key(&uid, |&(uid, _)| uid).ok()?;
        let at = self.by_uid[at].1.0;
        if let Some(seen) = self.seen.get_mut(position) {
            *seen = at;
        }
        Some(at as usize)
    }

    pub(crate) fn arguments(&self) -> Arguments<'_> {
        Arguments(self)
    }

    /// Bytes between the first element and the last of the binding with this uid.
    pub(crate) fn span_bytes(&self, uid: i64) -> Option<u64> {
        let at = self.by_uid.binary_search_by_key(&uid, |&(uid, _)| uid).ok()?;
        Some(self.slots[self.by_uid[at].1.0 as usize].span_bytes)
    }
}

/// Bytes from the first element of a binding's tensor to its last, if that can be counted.
pub(crate) fn span_bytes(b: &ArchivedBindingV1) -> Option<u64> {
    let strides = b.strides.iter().map(|s| s.to_native());
    let span = b.dims.iter().zip(strides).try_fold(1_u64, |span, (dim, stride)| {
        let steps = u64::try_from(dim.to_native().checked_sub(1)?).ok()?;
        span.checked_add(steps.checked_mul(u64::try_from(stride).ok()?)?)
    });
    Some(span?.checked_mul(u64::from(b.dtype().bits()))?.div_ceil(8))
}

/// The baked scalar of a tensor, as one element of its type.
fn baked(payload: &PayloadView<'_>, ordinal: u32, dtype: DataType, label: &str) -> Result<Element, ExecError> {
    let fail = |found: &str| {
        ExecError::Plan(hipplan_serialize::plan::PlanError::MetadataField {
            field: format!("baked value of {label}"),
            found: found.to_owned(),
            expected: format!("a scalar of type {dtype} in the payload"),
        })
    };
    let scalar = payload.baked().find(|b| b.uid == i64::from(ordinal)).ok_or_else(|| fail("absent"))?;
    scalar.value.to_element(dtype).map(Element).ok_or_else(|| fail(scalar.value.data_type().name()))
}

impl Slot {
    #[cold]
    fn invalid(&self, reason: InvalidValue) -> ExecError {
        ExecError::InvalidValue { uid: self.uid, tensor: self.label.clone(), reason }
    }

    /// What a pack entry means for this binding; nothing where the entry is inert. The by-value table of the requirements, row by row.
    fn take(&self, binding: Binding, space: MemorySpace) -> Result<Option<Argument>, ExecError> {
        match (self.kind, binding) {
            (BindingKind::Constant, _) => Ok(None),
            (BindingKind::DefaultedScalar, Binding::Override(value)) => self.scalar(value).map(Some),
            (BindingKind::DefaultedScalar, _) => Ok(None),
            (BindingKind::RuntimeScalar, Binding::Scalar(value) | Binding::Override(value)) => self.scalar(value).map(Some),
            (BindingKind::RuntimeScalar, Binding::Raw(pointer)) => self.read_host_scalar(pointer.cast_const().cast()).map(Some),
            (BindingKind::RuntimeScalar, Binding::Device(_)) => Err(self.invalid(InvalidValue::TensorForScalar)),
            (BindingKind::Device, Binding::Device(buffer)) => self.device(buffer, space).map(Some),
            (BindingKind::Device, Binding::Raw(pointer)) => {
                self.device(DeviceBuffer { ptr: pointer.cast(), len: None, writable: true, space }, space).map(Some)
            }
            (BindingKind::Device, Binding::Scalar(_) | Binding::Override(_)) => Err(self.invalid(InvalidValue::ScalarForTensor)),
        }
    }

    fn device(&self, buffer: DeviceBuffer, expected: MemorySpace) -> Result<Argument, ExecError> {
        if buffer.space != expected {
            return Err(self.invalid(InvalidValue::Memory { found: buffer.space, expected }));
        }
        if buffer.ptr.is_null() {
            return Err(self.invalid(InvalidValue::Null));
        }
        if self.role == BindingRole::Output && !buffer.writable {
            return Err(self.invalid(InvalidValue::ReadOnly));
        }
        if let Some(len) = buffer.len.filter(|&len| (len as u64) < self.span_bytes) {
            return Err(self.invalid(InvalidValue::BufferSize { found: len as u64, expected: self.span_bytes }));
        }
        // `align` is a power of two.
        if (buffer.ptr as usize) & (self.align - 1) != 0 {
            return Err(self.invalid(InvalidValue::Alignment { expected: self.align as u64 }));
        }
        Ok(Argument::Device(buffer.ptr))
    }

    fn scalar(&self, value: TensorValue) -> Result<Argument, ExecError> {
        let mismatch = || self.invalid(InvalidValue::ScalarType { found: value.data_type(), expected: self.dtype });
        if value.data_type() != self.dtype {
            return Err(mismatch());
        }
        value.to_element(self.dtype).map(|bytes| Argument::Scalar(Element(bytes))).ok_or_else(mismatch)
    }

    /// Reads a user-supplied scalar as the tensor's type (R16 §4.6); the pointer is not kept.
    fn read_host_scalar(&self, pointer: *const u8) -> Result<Argument, ExecError> {
        if pointer.is_null() {
            return Err(self.invalid(InvalidValue::Null));
        }
        let mut element = [0; 8];
        let size = (self.dtype.bits() as usize).div_ceil(8).min(8);
        // SAFETY: `VariantPack::raw` was promised that an entry of a uid in the runtime set points to a readable element of the
        // tensor's type. This binding is in the runtime set: `bind` refused the plan otherwise.
        unsafe { std::ptr::copy_nonoverlapping(pointer, element.as_mut_ptr(), size) };
        Ok(Argument::Scalar(Element(element)))
    }
}

/// The arguments of one execution, as an [`Executable`](crate::Executable) sees them.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'t>(&'t ArgumentTable);

impl Arguments<'_> {
    /// The memory of a tensor: a device buffer, or for a by-value tensor one element in host memory.
    ///
    /// This is the one place where a missing argument is noticed (X1), before any slot is dereferenced.
    ///
    /// # Errors
    /// [`ExecError::InvalidValue`] naming the caller's uid and the tensor.
    pub fn find_device_buffer(&self, binding: BindingIx) -> Result<*mut u8, ExecError> {
        match self.0.current.get(binding.0 as usize) {
            Some(Argument::Device(pointer)) => Ok(*pointer),
            Some(Argument::Scalar(element)) => Ok(element.0.as_ptr().cast_mut()),
            Some(Argument::Absent) | None => Err(self.missing(binding)),
        }
    }

    /// The value of a by-value tensor: one element of its type, in the first bytes of the array.
    ///
    /// # Errors
    /// As [`find_device_buffer`](Self::find_device_buffer); also for a tensor that is not by value.
    pub fn find_scalar(&self, binding: BindingIx) -> Result<[u8; 8], ExecError> {
        match self.0.current.get(binding.0 as usize) {
            Some(Argument::Scalar(element)) => Ok(element.0),
            Some(Argument::Device(_)) => Err(self.0.slots[binding.0 as usize].invalid(InvalidValue::TensorForScalar)),
            Some(Argument::Absent) | None => Err(self.missing(binding)),
        }
    }

    #[cold]
    fn missing(&self, binding: BindingIx) -> ExecError {
        match self.0.slots.get(binding.0 as usize) {
            Some(slot) => slot.invalid(InvalidValue::Missing { uid: slot.uid }),
            None => ExecError::NoBinding { position: binding.0, bindings: self.0.slots.len() },
        }
    }
}
