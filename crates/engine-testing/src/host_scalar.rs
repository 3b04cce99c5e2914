//! A scalar at the end of a page, before a page that cannot be read.

use std::ffi::c_void;
use std::io;
use std::ptr;

mod sealed {
    pub trait Sealed {}
}

/// An element that can be a host scalar: its bytes are as a plugin reads them.
pub trait HostElement: Copy + sealed::Sealed {}

macro_rules! elements {
    ($($type:ty),*) => { $(impl sealed::Sealed for $type {} impl HostElement for $type {})* };
}
elements!(f32, f64, i32, i64, u8, u16, i8, bool);

/// One element in host memory, the last before a page that faults: whoever reads more than the element, as a device buffer is read, is
/// stopped there.
#[derive(Debug)]
pub struct HostScalar<T> {
    pages: *mut c_void,
    page: usize,
    element: *mut T,
}

impl<T: HostElement> HostScalar<T> {
    /// A scalar with this value.
    ///
    /// # Errors
    /// The system has no memory for two pages.
    pub fn new(value: T) -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
        let (flags, access) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping at a place of the system's choice touches no other memory.
        let pages = unsafe { libc::mmap(ptr::null_mut(), 2 * page, access, flags, -1, 0) };
        if pages == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // The mapping is freed by this, if what follows fails.
        let scalar = Self { pages, page, element: pages.wrapping_byte_add(page - size_of::<T>()).cast() };
        // SAFETY: the second of the two pages mapped above.
        if unsafe { libc::mprotect(pages.byte_add(page), page, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: inside the first page, which is writable; aligned, because sizes of elements are powers of two that divide a page.
        unsafe { scalar.element.write(value) };
        Ok(scalar)
    }

    /// The address, as it goes into a pack.
    pub fn pointer(&self) -> *mut c_void {
        self.element.cast()
    }

    /// Puts another value at the same address.
    pub fn set(&mut self, value: T) {
        // SAFETY: as in `new`; `&mut self` keeps other readers of this process's Rust away.
        unsafe { self.element.write(value) };
    }
}

impl<T> Drop for HostScalar<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of this size; nothing refers to it any more.
        unsafe { libc::munmap(self.pages, 2 * self.page) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_element_is_there_and_the_next_is_not() {
        let mut scalar = HostScalar::new(1.5_f32).expect("two pages");
        // SAFETY: an element of the type is there.
        let read = |s: &HostScalar<f32>| unsafe { s.pointer().cast::<f32>().read() };
        assert_eq!(read(&scalar), 1.5);
        scalar.set(-2.0);
        assert_eq!(read(&scalar), -2.0);
        // The system refuses to read where the guard is, and reads where the element is.
        let mut pipe = [0; 2];
        // SAFETY: the pipe's two descriptors are written to an array of two; `write` reports an address that cannot be read as EFAULT.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            assert_eq!(libc::write(pipe[1], scalar.pointer(), 4), 4);
            assert_eq!(libc::write(pipe[1], scalar.pointer().byte_add(4), 1), -1);
            assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
            libc::close(pipe[0]);
            libc::close(pipe[1]);
        }
    }
}
