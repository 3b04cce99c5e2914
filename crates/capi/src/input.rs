//! Reading what C gives. Unsafe: pointers are followed that callers promised to be what the header says.

use crate::failure::Failure;
use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

/// The largest structure that is looked at: what claims to be larger was not set.
const LARGEST: usize = 4096;

/// A structure that begins with its size, is made of integers and pointers only, and may be all zeros.
///
/// # Safety
/// All of that holds, and the first field is `struct_size: usize`.
pub(crate) unsafe trait SizePrefixed {
    /// As callers name it.
    const NAME: &'static str;
    /// Bytes in version 0.1: no caller has a smaller one.
    const LEAST: usize;
}

/// Bytes of the caller's structure.
///
/// # Safety
/// The pointer is to a structure whose first field can be read.
pub(crate) unsafe fn size<T: SizePrefixed>(pointer: *const T) -> Result<usize, Failure> {
    // SAFETY: the first field is there, by the caller's promise; nothing is said of its alignment.
    let size = unsafe { pointer.cast::<usize>().read_unaligned() };
    if size < T::LEAST || size > LARGEST {
        let (name, least) = (T::NAME, T::LEAST);
        return Err(Failure::argument(format!("{name}: struct_size is {size}; set it to sizeof({name}), which is at least {least}")));
    }
    Ok(size)
}

/// Reads a structure that begins with its size. A smaller one is filled up with zeros; of a larger one, what is not known here must be zero.
///
/// # Safety
/// The pointer is null, or to as many readable bytes as its first field says.
pub(crate) unsafe fn structure<T: SizePrefixed>(pointer: *const T) -> Result<Option<T>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    let bytes = pointer.cast::<u8>();
    // SAFETY: by the caller's promise.
    let size = unsafe { size(pointer) }?;
    let known = size_of::<T>().min(size);
    // SAFETY: so many bytes are there, by the caller's promise.
    let rest = unsafe { std::slice::from_raw_parts(bytes.add(known), size - known) };
    if rest.iter().any(|&b| b != 0) {
        return Err(Failure::argument(format!(
            "{}: it has {size} bytes, and this library knows {known} of them; what comes after must be zero",
            T::NAME
        )));
    }
    let mut read = MaybeUninit::<T>::zeroed();
    // SAFETY: both are there for so many bytes, and do not overlap. All zeros and all bytes are values, as the trait promises.
    Ok(Some(unsafe {
        std::ptr::copy_nonoverlapping(bytes, read.as_mut_ptr().cast::<u8>(), known);
        read.assume_init()
    }))
}

/// Bytes of a graph, of any alignment.
///
/// # Safety
/// `size` bytes can be read at the pointer, and do not change during the call.
pub(crate) unsafe fn bytes<'a>(pointer: *const std::ffi::c_void, size: usize, what: &str) -> Result<&'a [u8], Failure> {
    if pointer.is_null() || size > isize::MAX as usize {
        return Err(Failure::argument(format!("{what}: {size} bytes at {pointer:p}: there are none")));
    }
    // SAFETY: by the caller's promise, and the size is not above that of an object.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), size) })
}

/// A text; nothing for null.
///
/// # Safety
/// The pointer is null, or to bytes that end in zero and do not change during the call.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: by the caller's promise.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}

/// A list of texts.
///
/// # Safety
/// `count` pointers can be read, each of them as of [`text`].
pub(crate) unsafe fn texts<'a>(list: *const *const c_char, count: usize, what: &str) -> Result<Vec<&'a CStr>, Failure> {
    if list.is_null() && count > 0 || count > isize::MAX as usize / size_of::<*const c_char>() {
        return Err(Failure::argument(format!("{what}: {count} texts at {list:p}: there are none")));
    }
    let one = |i| {
        // SAFETY: `i` is below the count. Nothing is said of the alignment.
        let pointer = unsafe { list.add(i).read_unaligned() };
        // SAFETY: by the caller's promise.
        unsafe { text(pointer) }.ok_or_else(|| Failure::argument(format!("{what}: text {i} is null")))
    };
    (0..count).map(one).collect()
}

/// What a handle points to.
///
/// # Safety
/// The pointer is null, or one that this library gave and that is not given back during the call.
pub(crate) unsafe fn handle<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: by the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::argument(format!("{what} is null")))
}
