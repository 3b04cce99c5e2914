//! The bindings of a bound plan: a template of the arguments of an execution, which is filled in place.

use crate::arguments::BindingIx;
use crate::error::InvalidValue;
use crate::memory_space::SpaceKey;
use crate::shapes::{NO_SHAPES, Overridable, ShapeOverrides};
use crate::variant_pack::{Element, Entry, VariantPack, What};
use crate::{ExecError, MemorySpace};
use hipplan_serialize::DataType;
use hipplan_serialize::plan::{ArchivedBindingV1, ArchivedPlanMetaV1, BindingKind, BindingRole, PayloadView};
use std::ffi::c_void;

/// What is known of a binding before any execution, for messages.
#[derive(Debug)]
struct Label {
    /// Where the graph uses it, and its name where that is known.
    text: String,
    span_bytes: u64,
}

/// A binding and its argument in the current execution: all that filling touches, in one place.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The uid under which the caller knows the tensor.
    pub(crate) uid: i64,
    /// The execution whose pack gave `pointer` or `element`, which mean nothing in another.
    pub(crate) given: u64,
    /// A device tensor's memory.
    pub(crate) pointer: *mut u8,
    /// A scalar's value: one element of the tensor's type, in host memory.
    pub(crate) element: Element,
    /// The value of a constant, or of a scalar that no pack overrides.
    pub(crate) baked: Element,
    span_bytes: u64,
    pub(crate) kind: BindingKind,
    is_written: bool,
    dtype: DataType,
    /// Alignment of an element in bytes, a power of two, less 1.
    align_mask: u8,
}

/// The bindings of a bound plan and the arguments of its current execution.
#[derive(Debug)]
pub(crate) struct ArgumentTable {
    pub(crate) slots: Vec<Slot>,
    labels: Vec<Label>,
    /// Canonical ordinals, by position in `slots`.
    ordinals: Vec<u32>,
    /// Positions in `slots`, ascending by uid.
    by_uid: Vec<(i64, BindingIx)>,
    /// Where each entry of the pack before stood in `slots`: packs seldom change their order.
    seen: Vec<u32>,
    /// Whose memory device tensors must be.
    space: SpaceKey,
    /// Number of the current execution, or of the last. What packs of others gave is forgotten by counting on, which costs nothing.
    pub(crate) execution: u64,
    /// What overrides of shapes are checked by.
    shapes: Overridable,
    /// Slots have the spans of overridden shapes, not those of the bindings.
    is_reshaped: bool,
}

// SAFETY: the pointers in slots are used by the `execute` call that put them there, and by no other; that takes the plan by `&mut`.
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
        let mut labels = Vec::with_capacity(meta.bindings.len());
        for b in meta.bindings.iter() {
            let ordinal = b.ordinal.to_native();
            let (uid, name) = name(ordinal).unwrap_or((i64::from(ordinal), String::new()));
            let (kind, dtype) = (b.kind(), b.dtype());
            let first_use = b.first_use.as_str();
            let text = match name.as_str() {
                "" => format!("tensor uid {uid} ({first_use})"),
                name => format!("tensor {name:?} uid {uid} ({first_use})"),
            };
            let Some(span_bytes) = span_bytes(b) else {
                return Err(hipplan_serialize::plan::PlanError::MetadataField {
                    field: format!("span of {text}"),
                    found: format!("dims {:?}, strides {:?}", b.dims, b.strides),
                    expected: "a span that 64 bits can count".into(),
                }
                .into());
            };
            let baked = match kind {
                BindingKind::Constant | BindingKind::DefaultedScalar => baked(payload, ordinal, dtype, &text)?,
                BindingKind::Device | BindingKind::RuntimeScalar => Element([0; 8]),
            };
            // No element has more than 16 bytes.
            let align_mask = (dtype.bits().div_ceil(8).next_power_of_two() - 1) as u8;
            let (pointer, is_written) = (std::ptr::null_mut(), b.role() == BindingRole::Output);
            let slot = Slot { uid, given: 0, pointer, element: baked, baked, span_bytes, kind, is_written, dtype, align_mask };
            slots.push(slot);
            labels.push(Label { text, span_bytes });
        }
        let mut by_uid: Vec<_> = slots.iter().zip(0..).map(|(s, i)| (s.uid, BindingIx(i))).collect();
        by_uid.sort_unstable_by_key(|&(uid, _)| uid);
        let seen = vec![0; slots.len()];
        let ordinals = meta.bindings.iter().map(|b| b.ordinal.to_native()).collect();
        let shapes = Overridable::Fixed;
        Ok(Self { slots, labels, ordinals, by_uid, seen, space: SpaceKey::of(space), execution: 0, shapes, is_reshaped: false })
    }

    /// What overrides of shapes are checked by; before this is called, shapes are fixed.
    pub(crate) fn set_shapes(&mut self, shapes: Overridable) {
        self.shapes = shapes;
    }

    /// Begins an execution: takes the pack's entries, and forgets those of the pack before (R16 §4.6). Nothing is dereferenced but the host
    /// scalars of the runtime set.
    #[inline]
    pub(crate) fn fill(&mut self, pack: &VariantPack<'_>) -> Result<(), ExecError> {
        if self.is_reshaped | !pack.shapes().is_empty() {
            return self.fill_reshaped(pack);
        }
        self.fill_entries(pack.entries())
    }

    #[inline(always)]
    fn fill_entries(&mut self, entries: &[Entry]) -> Result<(), ExecError> {
        // One a nanosecond lasts for five centuries.
        self.execution = self.execution.wrapping_add(1);
        let Self { slots, seen, space, execution, .. } = self;
        let (slots, space, execution) = (slots.as_mut_slice(), *space, *execution);
        if entries.len() > seen.len() {
            return self.fill_searching(entries);
        }
        // Entries mostly stand where those of the last pack stood.
        for (entry, at) in entries.iter().zip(&*seen) {
            let slot = slots.get_mut(*at as usize).filter(|slot| slot.uid == entry.uid);
            if !slot.is_some_and(|slot| slot.accept(entry, space, execution)) {
                return self.fill_searching(entries);
            }
        }
        Ok(())
    }

    /// [`fill`](Self::fill) where this execution or the one before has shapes of its own. An overridden tensor must be in the pack, and
    /// its buffer is held against the span of its shape in this execution.
    #[inline(never)]
    fn fill_reshaped(&mut self, pack: &VariantPack<'_>) -> Result<(), ExecError> {
        if std::mem::take(&mut self.is_reshaped) {
            for (slot, label) in self.slots.iter_mut().zip(&self.labels) {
                slot.span_bytes = label.span_bytes;
            }
        }
        if pack.shapes().is_empty() {
            return self.fill_entries(pack.entries());
        }
        let shapes = self.shapes.accept(pack.shapes())?;
        self.is_reshaped = true;
        for &(uid, span_bytes) in shapes.spans() {
            if let Ok(at) = self.by_uid.binary_search_by_key(&uid, |&(uid, _)| uid) {
                self.slots[self.by_uid[at].1.0 as usize].span_bytes = span_bytes;
            }
        }
        self.fill_entries(pack.entries())?;
        let absent = pack.shapes().iter().find_map(|(uid, ..)| {
            let at = self.by_uid.binary_search_by_key(&uid, |&(uid, _)| uid).ok()?;
            let at = self.by_uid[at].1.0 as usize;
            (self.slots[at].given != self.execution).then_some((at, uid))
        });
        absent.map_or(Ok(()), |(at, uid)| Err(self.invalid(at, InvalidValue::Missing { uid })))
    }

    /// [`fill`](Self::fill), looking for each uid, and saying what is wrong.
    #[inline(never)]
    fn fill_searching(&mut self, entries: &[Entry]) -> Result<(), ExecError> {
        // What has been taken already is taken again.
        self.execution = self.execution.wrapping_add(1);
        for (position, entry) in entries.iter().enumerate() {
            let Ok(at) = self.by_uid.binary_search_by_key(&entry.uid, |&(uid, _)| uid) else { continue };
            let at = self.by_uid[at].1.0;
            if let Some(seen) = self.seen.get_mut(position) {
                *seen = at;
            }
            let at = at as usize;
            if !self.slots[at].accept(entry, self.space, self.execution) {
                return Err(self.refusal(at, entry));
            }
        }
        Ok(())
    }

    /// The shapes that the current execution overrides.
    pub(crate) fn shapes(&self) -> &ShapeOverrides {
        match &self.shapes {
            Overridable::Checked(shapes) if self.is_reshaped => shapes.overrides(),
            _ => &NO_SHAPES,
        }
    }

    /// Bytes between the first element and the last of the binding with this uid.
    pub(crate) fn span_bytes(&self, uid: i64) -> Option<u64> {
        let at = self.by_uid.binary_search_by_key(&uid, |&(uid, _)| uid).ok()?;
        Some(self.labels[self.by_uid[at].1.0 as usize].span_bytes)
    }

    /// Position in `slots` of the tensor that the pack's entry at `position` names.
    pub(crate) fn position_of(&self, position: usize, uid: i64) -> Option<usize> {
        let seen = self.seen.get(position).map(|&at| at as usize);
        seen.filter(|&at| self.slots.get(at).is_some_and(|slot| slot.uid == uid)).or_else(|| {
            let at = self.by_uid.binary_search_by_key(&uid, |&(uid, _)| uid).ok()?;
            Some(self.by_uid[at].1.0 as usize)
        })
    }

    /// The ordinal of the tensor at this position of `slots`, and what an entry for it points to; `earlier` are the entries of the pack before
    /// it.
    pub(crate) fn forward(&self, at: usize, entry: &Entry, earlier: &[Entry]) -> Result<(u32, *mut c_void), ExecError> {
        let slot = &self.slots[at];
        let pointer = match entry.what {
            What::Device | What::Raw | What::RawOverride => entry.pointer,
            What::Scalar | What::Override => entry.element.0.as_ptr().cast_mut(),
        };
        // Of the other kinds, `fill` has seen to what would be read as something else; what a constant is given is not read at all. A default is
        // inert for `fill`, and overridden for a provider that reads the pack: it gets nothing that it cannot read, and one of two.
        if slot.kind == BindingKind::DefaultedScalar {
            match entry.what {
                What::Device => return Err(self.invalid(at, InvalidValue::TensorForScalar)),
                What::Scalar | What::Override if entry.dtype != slot.dtype => {
                    return Err(self.invalid(at, InvalidValue::ScalarType { found: entry.dtype, expected: slot.dtype }));
                }
                What::Raw | What::RawOverride if pointer.is_null() => return Err(self.invalid(at, InvalidValue::Null)),
                _ => {}
            }
            if earlier.iter().any(|earlier| earlier.uid == entry.uid) {
                return Err(self.invalid(at, InvalidValue::Twice { uid: slot.uid }));
            }
        }
        Ok((self.ordinals[at], pointer.cast()))
    }

    #[cold]
    pub(crate) fn invalid(&self, at: usize, reason: InvalidValue) -> ExecError {
        ExecError::InvalidValue { uid: self.slots[at].uid, tensor: self.labels[at].text.clone(), reason }
    }

    /// Why an entry is not taken.
    #[cold]
    fn refusal(&self, at: usize, entry: &Entry) -> ExecError {
        let slot = &self.slots[at];
        let (found, expected) = (entry.space.space(), self.space.space());
        let reason = match (slot.kind, entry.what) {
            // The first of two was taken.
            (_, _) if slot.given == self.execution => InvalidValue::Twice { uid: slot.uid },
            (BindingKind::Device, What::Scalar | What::Override) => InvalidValue::ScalarForTensor,
            (BindingKind::Device, What::Device) if found != expected => InvalidValue::Memory { found, expected },
            (_, What::Device | What::Raw | What::RawOverride) if entry.pointer.is_null() => InvalidValue::Null,
            (BindingKind::Device, _) if slot.is_written && !entry.writable => InvalidValue::ReadOnly,
            (BindingKind::Device, _) if entry.len < slot.span_bytes => {
                InvalidValue::BufferSize { found: entry.len, expected: slot.span_bytes }
            }
            (BindingKind::Device, _) => InvalidValue::Alignment { expected: u64::from(slot.align_mask) + 1 },
            (_, What::Device) => InvalidValue::TensorForScalar,
            (_, _) => InvalidValue::ScalarType { found: entry.dtype, expected: slot.dtype },
        };
        self.invalid(at, reason)
    }
}

impl Slot {
    /// Takes what a pack entry means for this binding, if it can be used; [`ArgumentTable::refusal`] says why not. The by-value table of
    /// the requirements, row by row.
    #[inline(always)]
    fn accept(&mut self, entry: &Entry, space: SpaceKey, execution: u64) -> bool {
        let is_usable = match (self.kind, entry.what) {
            (BindingKind::Device, What::Device | What::Raw | What::RawOverride) => self.device(entry, space),
            _ => match self.scalar(entry) {
                Some(is_usable) => is_usable,
                // An inert entry changes nothing, however often it stands there.
                None => return true,
            },
        };
        let is_first = self.given != execution;
        if is_usable {
            self.given = execution;
        }
        is_usable & is_first
    }

    /// Whether an entry that is no buffer for a device tensor can be used; nothing where it is inert.
    #[inline(always)]
    fn scalar(&mut self, entry: &Entry) -> Option<bool> {
        match (self.kind, entry.what) {
            (BindingKind::DefaultedScalar, What::Override) | (BindingKind::RuntimeScalar, What::Scalar | What::Override) => {
                self.element = entry.element;
                Some(entry.dtype == self.dtype)
            }
            (BindingKind::RuntimeScalar, What::Raw | What::RawOverride) | (BindingKind::DefaultedScalar, What::RawOverride) => {
                Some(self.read_host_scalar(entry.pointer))
            }
            (BindingKind::Constant, _) | (BindingKind::DefaultedScalar, What::Scalar | What::Device | What::Raw) => None,
            (BindingKind::RuntimeScalar, What::Device) | (BindingKind::Device, _) => Some(false),
        }
    }

    #[inline(always)]
    fn device(&mut self, entry: &Entry, space: SpaceKey) -> bool {
        // `refusal` asks the same, one by one.
        let is_writable = entry.writable >= self.is_written;
        let is_aligned = entry.pointer.addr() & usize::from(self.align_mask) == 0;
        let is_large = entry.len >= self.span_bytes;
        // A null pointer has no bytes, and a tensor has some.
        let is_usable = is_writable & is_aligned & is_large & entry.space.is_within(space);
        if is_usable {
            self.pointer = entry.pointer;
        }
        is_usable
    }

    /// Reads a user-supplied scalar as the tensor's type (R16 §4.6); the pointer is not kept.
    #[inline(never)]
    fn read_host_scalar(&mut self, pointer: *const u8) -> bool {
        if pointer.is_null() {
            return false;
        }
        let mut element = [0; 8];
        let size = (self.dtype.bits() as usize).div_ceil(8).min(8);
        // SAFETY: `VariantPack::raw` was promised that an entry of a uid in the runtime set points to a readable element of the
        // tensor's type. This binding is in the runtime set: `bind` refused the plan otherwise.
        unsafe { std::ptr::copy_nonoverlapping(pointer, element.as_mut_ptr(), size) };
        self.element = Element(element);
        true
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
