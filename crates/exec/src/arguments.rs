//! The arguments of one execution.

use crate::argument_table::{ArgumentTable, Slot};
use crate::error::InvalidValue;
use crate::{ExecError, ShapeOverrides, VariantPack};
use hipplan_serialize::plan::BindingKind;
use std::ffi::c_void;

/// Position of a tensor among the bindings in the plan's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingIx(pub(crate) u32);

impl BindingIx {
    /// The binding at this position of `PlanMetaV1::bindings`.
    pub const fn new(position: u32) -> Self {
        Self(position)
    }
}

/// The arguments of one execution, as an [`Executable`](crate::Executable) sees them.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'t> {
    slots: &'t [Slot],
    execution: u64,
    /// For messages.
    table: &'t ArgumentTable,
    /// What the caller gave.
    pack: &'t VariantPack<'t>,
}

impl<'t> Arguments<'t> {
    /// `pack` is the one that the table has been filled with.
    pub(crate) fn new(table: &'t ArgumentTable, pack: &'t VariantPack<'_>) -> Self {
        Self { slots: &table.slots, execution: table.execution, table, pack }
    }

    /// The shapes that this execution overrides: checked against the plan's graph, and each tensor has a buffer.
    pub fn shapes(&self) -> &'t ShapeOverrides {
        self.table.shapes()
    }

    /// The memory of a tensor: a device buffer, or for a by-value tensor one element in host memory.
    ///
    /// This is the one place where a missing argument is noticed (X1), before any slot is dereferenced.
    ///
    /// # Errors
    /// [`ExecError::InvalidValue`] naming the caller's uid and the tensor.
    pub fn find_device_buffer(&self, binding: BindingIx) -> Result<*mut u8, ExecError> {
        let Some(slot) = self.slots.get(binding.0 as usize) else { return Err(self.missing(binding)) };
        match (slot.kind, slot.given == self.execution) {
            (BindingKind::Device, true) => Ok(slot.pointer),
            (BindingKind::RuntimeScalar | BindingKind::DefaultedScalar, true) => Ok(slot.element.0.as_ptr().cast_mut()),
            (BindingKind::Constant | BindingKind::DefaultedScalar, _) => Ok(slot.baked.0.as_ptr().cast_mut()),
            (BindingKind::Device | BindingKind::RuntimeScalar, false) => Err(self.missing(binding)),
        }
    }

    /// Address of a device tensor; the binding is known to be one.
    #[inline]
    pub(crate) fn find_address(&self, binding: BindingIx) -> Result<u64, ExecError> {
        match self.slots.get(binding.0 as usize) {
            Some(slot) if slot.given == self.execution => Ok(slot.pointer.addr() as u64),
            _ => Err(self.missing(binding)),
        }
    }

    /// The value of a by-value tensor: one element of its type, in the first bytes of the array.
    ///
    /// # Errors
    /// As [`find_device_buffer`](Self::find_device_buffer); also for a tensor that is not by value.
    #[inline]
    pub fn find_scalar(&self, binding: BindingIx) -> Result<[u8; 8], ExecError> {
        match self.slots.get(binding.0 as usize) {
            Some(slot) if slot.kind != BindingKind::Device && slot.given == self.execution => Ok(slot.element.0),
            Some(slot) if matches!(slot.kind, BindingKind::Constant | BindingKind::DefaultedScalar) => Ok(slot.baked.0),
            _ => Err(self.missing(binding)),
        }
    }

    /// The pack as the caller gave it, for a provider that reads it itself (R16 §4.9): canonical ordinal and pointer of every entry that names a
    /// tensor of the plan, in the pack's order, entries of constants and of scalars with a default among them, whatever they hold. For a raw
    /// entry it is the caller's own pointer, for a typed scalar one to its element, which lies in the pack; both are good until the execution
    /// returns.
    ///
    /// # Errors
    /// [`ExecError::InvalidValue`] in place of an entry for a scalar with a default that is a typed buffer, a scalar of another type, or null,
    /// which the provider would read as an element in host memory; or that is the second one, of which nobody can say which counts.
    pub fn forwarded(&self) -> impl Iterator<Item = Result<(u32, *mut c_void), ExecError>> {
        let Self { table, pack, .. } = *self;
        pack.entries().iter().enumerate().filter_map(move |(position, entry)| {
            let at = table.position_of(position, entry.uid)?;
            Some(table.forward(at, entry, &pack.entries()[..position]))
        })
    }

    #[cold]
    fn missing(&self, binding: BindingIx) -> ExecError {
        let at = binding.0 as usize;
        match self.slots.get(at) {
            Some(slot) if slot.given == self.execution => self.table.invalid(at, InvalidValue::TensorForScalar),
            Some(slot) => self.table.invalid(at, InvalidValue::Missing { uid: slot.uid }),
            None => ExecError::NoBinding { position: binding.0, bindings: self.slots.len() },
        }
    }
}
