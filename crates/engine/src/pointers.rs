//! Reading and writing what the host points to. Unsafe: every pointer is what the ABI says of it.

use crate::failure::Failure;
use hipplan_engine_abi::types::ConstData;

/// A place for a result that is there.
pub(crate) fn check_out<T>(place: *mut T, what: &str) -> Result<(), Failure> {
    if place.is_null() { Err(Failure::bad_param(format!("{what} is null, and a result is to be written there"))) } else { Ok(()) }
}

/// Writes a result.
///
/// # Safety
/// The pointer is null, or to memory for one.
pub(crate) unsafe fn give<T>(place: *mut T, value: T, what: &str) -> Result<(), Failure> {
    check_out(place, what)?;
    // SAFETY: by the caller's promise; nothing is said of the alignment.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// The bytes of a structure of pointer and size; at least one.
///
/// # Safety
/// `data` is null or to such a structure, whose pointer is null or to so many bytes, which do not change during `'a`.
pub(crate) unsafe fn bytes<'a>(data: *const ConstData, what: &str) -> Result<&'a [u8], Failure> {
    if data.is_null() {
        return Err(Failure::bad_param(format!("{what} is null")));
    }
    // SAFETY: by the caller's promise; nothing is said of the alignment.
    let ConstData { ptr, size } = unsafe { data.read_unaligned() };
    if ptr.is_null() || size == 0 {
        return Err(Failure::bad_param(format!("{what} has {size} bytes at {ptr:p}: there are none")));
    }
    // SAFETY: by the caller's promise.
    unsafe { array(ptr.cast(), size, what) }
}

/// An array of the host's; none where there are no elements.
///
/// # Safety
/// `first` is null or to so many elements, which do not change during `'a`.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Failure::bad_param(format!("{what} is null, and {count} elements are said to be there")));
    }
    if !first.is_aligned() || count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(Failure::bad_param(format!("{what}: {count} elements cannot lie at {first:p}")));
    }
    // SAFETY: by the caller's promise, and as was just checked.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_a_failure() {
        let number = 5_u32;
        // SAFETY: null, or to one number; what is longer or crooked is refused before it is looked at.
        unsafe {
            assert!(bytes(std::ptr::null(), "graph").is_err_and(|e| e.text == "graph is null"));
            assert!(bytes(&ConstData { ptr: std::ptr::null(), size: 4 }, "graph").is_err());
            assert!(bytes(&ConstData { ptr: (&raw const number).cast(), size: 0 }, "graph").is_err());
            assert!(bytes(&ConstData { ptr: (&raw const number).cast(), size: usize::MAX }, "graph").is_err());
            assert_eq!(bytes(&ConstData { ptr: (&raw const number).cast(), size: 4 }, "graph").expect("there"), 5_u32.to_le_bytes());
            assert!(array::<u32>(std::ptr::null(), 0, "list").is_ok_and(<[u32]>::is_empty));
            assert!(array::<u32>(std::ptr::null(), 1, "list").is_err());
            assert!(array::<u32>((&raw const number).wrapping_byte_add(1), 1, "list").is_err());
            assert!(give(std::ptr::null_mut::<u32>(), 1, "count").is_err_and(|e| e.text.starts_with("count is null")));
        }
    }
}
