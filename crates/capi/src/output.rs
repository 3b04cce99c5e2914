//! Writing what C asks for. Unsafe: pointers are followed that callers promised to be what the header says.

use crate::failure::Failure;
use crate::input::{self, SizePrefixed};

/// A pointer that something is to be written to, looked at before any work is done.
pub(crate) fn check<T>(pointer: *mut T, what: &str) -> Result<(), Failure> {
    if pointer.is_null() { Err(Failure::argument(format!("{what} is null, and the result goes there"))) } else { Ok(()) }
}

/// Writes a value.
///
/// # Safety
/// The pointer is to memory for one, of any alignment.
pub(crate) unsafe fn write<T>(pointer: *mut T, value: T) {
    // SAFETY: by the caller's promise.
    unsafe { pointer.write_unaligned(value) }
}

/// Writes as much of a structure as the caller's has, but for its size; what the caller's has and is not known here becomes zero.
///
/// # Safety
/// As of [`input::structure`], and the bytes can be written.
pub(crate) unsafe fn structure<T: SizePrefixed>(pointer: *mut T, value: &T) -> Result<(), Failure> {
    check(pointer, T::NAME)?;
    let bytes = pointer.cast::<u8>();
    // SAFETY: by the caller's promise.
    let size = unsafe { input::size::<T>(pointer) }?;
    let head = size_of::<usize>();
    let known = size_of::<T>().min(size);
    // SAFETY: so many bytes are there, by the caller's promise; `value` is another object.
    unsafe {
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>().add(head), bytes.add(head), known - head);
        std::ptr::write_bytes(bytes.add(known), 0, size - known);
    }
    Ok(())
}
