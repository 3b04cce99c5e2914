//! Memory of a HIP device.

use super::device::HipDevice;
use super::error::HipError;
use super::{HipCode, process};
use crate::MemorySpace;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;

/// Owned memory of a HIP device.
///
/// Copies and fills are put on the device's default stream, and a [`HipStream`](super::HipStream) and that stream wait for each other. So
/// a copy sees what was executed before it on either. A stream that somebody else made without that must be waited for first.
/// Dropping the memory waits for the device.
///
/// As buffer or workspace of an execution it is in use until the execution's stream has come so far, which is after `execute` has returned
/// and its borrow has ended. What is put on the same stream comes after it. Another stream that uses the memory, as workspace above all, must
/// wait for an event, or both give wrong results.
#[derive(Debug)]
pub struct DeviceMemory {
    device: HipDevice,
    ptr: *mut u8,
    bytes: u64,
}

// SAFETY: the memory belongs to the device; HIP takes its address from any thread.
unsafe impl Send for DeviceMemory {}
// SAFETY: shared methods read device memory through HIP.
unsafe impl Sync for DeviceMemory {}

impl DeviceMemory {
    /// So many bytes, whatever they hold. They start at a multiple of 256.
    ///
    /// # Errors
    /// [`HipError::OutOfMemory`]; the device is lost.
    pub fn new(device: &HipDevice, bytes: u64) -> Result<Self, HipError> {
        let mut memory = Self { device: *device, ptr: std::ptr::null_mut(), bytes };
        if bytes == 0 {
            return Ok(memory);
        }
        let _current = device.make_current()?;
        let out_of_memory = |failure| {
            let (ordinal, memory) = (device.ordinal(), device.free_and_total());
            HipError::OutOfMemory { ordinal, bytes, memory, failure }
        };
        let call = "hipMalloc";
        let Ok(size) = usize::try_from(bytes) else {
            let runtime = device.0.runtime;
            return Err(out_of_memory(runtime.failure(call, HipCode::OUT_OF_MEMORY)));
        };
        let mut ptr: *mut c_void = std::ptr::null_mut();
        // SAFETY: the pointer is to a pointer.
        let code = unsafe { (device.0.runtime.symbols.hipMalloc)(&raw mut ptr, size) };
        if code == HipCode::OUT_OF_MEMORY || (code == HipCode::SUCCESS && ptr.is_null()) {
            return Err(out_of_memory(device.0.runtime.failure(call, HipCode::OUT_OF_MEMORY)));
        }
        device.check(call, code, || format!("allocating {bytes} bytes"))?;
        memory.ptr = ptr.cast();
        Ok(memory)
    }

    /// Memory that holds a copy of these values.
    ///
    /// # Errors
    /// As [`new`](Self::new) and [`copy_from_host`](Self::copy_from_host).
    pub fn from_slice<T: bytemuck::NoUninit>(device: &HipDevice, data: &[T]) -> Result<Self, HipError> {
        let mut memory = Self::new(device, size_of_val(data) as u64)?;
        memory.copy_from_host(0, data)?;
        Ok(memory)
    }

    /// The device.
    pub fn device(&self) -> &HipDevice {
        &self.device
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Address on the device; null where there are no bytes.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Copies values to the bytes from `offset`; they may be dropped or overwritten then.
    ///
    /// # Errors
    /// [`HipError::Range`]; what the device reports, also of what was executed before.
    pub fn copy_from_host<T: bytemuck::NoUninit>(&mut self, offset: u64, data: &[T]) -> Result<(), HipError> {
        let to = self.at(offset, size_of_val(data))?;
        self.copy(to.cast(), data.as_ptr().cast(), size_of_val(data), HOST_TO_DEVICE, "copying to the device")
    }

    /// Copies the bytes from `offset` to values, when all is done that was put before on the default stream and on
    /// [`HipStream`](super::HipStream)s.
    ///
    /// # Errors
    /// As [`copy_from_host`](Self::copy_from_host).
    pub fn copy_to_host<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(&self, offset: u64, data: &mut [T]) -> Result<(), HipError> {
        let from = self.at(offset, size_of_val(data))?;
        self.copy(data.as_mut_ptr().cast(), from.cast(), size_of_val(data), DEVICE_TO_HOST, "copying from the device")
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// What the device reports.
    pub fn fill(&mut self, byte: u8) -> Result<(), HipError> {
        // It was allocated, so its size is one of this machine's.
        let bytes = self.bytes as usize;
        if bytes == 0 {
            return Ok(());
        }
        let _current = self.device.make_current()?;
        let symbols = &self.device.0.runtime.symbols;
        // SAFETY: these are the bytes of the allocation, borrowed exclusively; null is the default stream.
        let code = unsafe { (symbols.hipMemsetAsync)(self.ptr.cast(), byte.into(), bytes, std::ptr::null_mut()) };
        self.device.check("hipMemsetAsync", code, || format!("filling {bytes} bytes"))
    }

    /// A part of the memory, in bytes.
    ///
    /// # Errors
    /// [`HipError::Range`].
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<DeviceSlice<'_>, HipError> {
        let (ptr, bytes) = self.part(range)?;
        Ok(DeviceSlice { ptr, bytes, space: self.device.memory_space(), memory: PhantomData })
    }

    /// A part of the memory to be written, in bytes.
    ///
    /// # Errors
    /// [`HipError::Range`].
    pub fn slice_mut(&mut self, range: impl RangeBounds<u64>) -> Result<DeviceSliceMut<'_>, HipError> {
        let (ptr, bytes) = self.part(range)?;
        Ok(DeviceSliceMut { ptr, bytes, space: self.device.memory_space(), memory: PhantomData })
    }

    fn part(&self, range: impl RangeBounds<u64>) -> Result<(*mut u8, usize), HipError> {
        let start = match range.start_bound() {
            Bound::Included(&at) => at,
            Bound::Excluded(&at) => at.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&at) => at.saturating_add(1),
            Bound::Excluded(&at) => at,
            Bound::Unbounded => self.bytes,
        };
        let bytes = end.saturating_sub(start);
        let size = usize::try_from(bytes).map_err(|_| self.outside(start, bytes))?;
        Ok((self.at(start, size)?, size))
    }

    /// Address of so many bytes from an offset.
    fn at(&self, offset: u64, bytes: usize) -> Result<*mut u8, HipError> {
        match offset.checked_add(bytes as u64) {
            Some(end) if end <= self.bytes => Ok(self.ptr.wrapping_add(offset as usize)),
            _ => Err(self.outside(offset, bytes as u64)),
        }
    }

    #[cold]
    fn outside(&self, offset: u64, bytes: u64) -> HipError {
        HipError::Range { offset, bytes, size: self.bytes }
    }

    /// Both addresses are those of `bytes` bytes: one of this memory, the other of a borrowed slice.
    fn copy(&self, to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int, doing: &str) -> Result<(), HipError> {
        if bytes == 0 {
            return Ok(());
        }
        let _current = self.device.make_current()?;
        // SAFETY: the callers have shown that these are so many bytes on both sides, and hold what is written exclusively; the call
        // returns when the host's side is done with.
        let code = unsafe { (self.device.0.runtime.symbols.hipMemcpy)(to, from, bytes, kind) };
        self.device.check("hipMemcpy", code, || format!("{doing} ({bytes} bytes)"))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.ptr.is_null() || !process::may_release() {
            return;
        }
        // A lost device has lost its memory.
        if let Ok(_current) = self.device.make_current() {
            // SAFETY: the memory was allocated here and is freed once. HIP waits for what the device still does.
            let _ = unsafe { (self.device.0.runtime.symbols.hipFree)(self.ptr.cast()) };
        }
    }
}

/// Borrowed memory of a HIP device, to be read.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSlice<'m> {
    ptr: *mut u8,
    bytes: usize,
    space: MemorySpace,
    memory: PhantomData<&'m [u8]>,
}

/// Borrowed memory of a HIP device, to be written.
#[derive(Debug)]
pub struct DeviceSliceMut<'m> {
    ptr: *mut u8,
    bytes: usize,
    space: MemorySpace,
    memory: PhantomData<&'m mut [u8]>,
}

impl DeviceSlice<'_> {
    pub(crate) fn parts(&self) -> (*mut u8, usize, MemorySpace) {
        (self.ptr, self.bytes, self.space)
    }
}

impl DeviceSliceMut<'_> {
    pub(crate) fn parts(&self) -> (*mut u8, usize, MemorySpace) {
        (self.ptr, self.bytes, self.space)
    }
}

impl<'m> From<&'m DeviceMemory> for DeviceSlice<'m> {
    fn from(memory: &'m DeviceMemory) -> Self {
        // It was allocated, so its size is one of this machine's.
        Self { ptr: memory.ptr, bytes: memory.bytes as usize, space: memory.device.memory_space(), memory: PhantomData }
    }
}

impl<'m> From<&'m mut DeviceMemory> for DeviceSliceMut<'m> {
    fn from(memory: &'m mut DeviceMemory) -> Self {
        Self { ptr: memory.ptr, bytes: memory.bytes as usize, space: memory.device.memory_space(), memory: PhantomData }
    }
}
