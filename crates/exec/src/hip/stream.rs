//! Streams of a HIP device.

use super::device::HipDevice;
use super::error::HipError;
use super::event::HipEvent;
use super::process;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream waits for the default stream, and that for it, as HIP's streams do unless asked otherwise.
const HIP_STREAM_DEFAULT: u32 = 0;

/// A queue of a HIP device. It and the device's default stream wait for each other.
#[derive(Debug)]
pub struct HipStream {
    device: HipDevice,
    raw: *mut c_void,
    number: u64,
}

/// Number of the next stream.
static NEXT: AtomicU64 = AtomicU64::new(1);

// SAFETY: HIP takes a stream from any thread.
unsafe impl Send for HipStream {}
// SAFETY: as above, and from several at once.
unsafe impl Sync for HipStream {}

impl HipStream {
    /// A new stream.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(device: &HipDevice) -> Result<Self, HipError> {
        let _current = device.make_current()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is to a handle.
        let code = unsafe { (device.0.runtime.symbols.hipStreamCreateWithFlags)(&raw mut raw, HIP_STREAM_DEFAULT) };
        device.check("hipStreamCreateWithFlags", code, || "making a stream".to_owned())?;
        Ok(Self { device: *device, raw, number: NEXT.fetch_add(1, Ordering::Relaxed) })
    }

    /// The device.
    pub fn device(&self) -> &HipDevice {
        &self.device
    }

    /// The `hipStream_t`.
    pub fn as_ptr(&self) -> *mut c_void {
        self.raw
    }

    /// A number of its own in this process, from 1 on. That another stream has had its address says nothing of this.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Waits until all is done that was put on the stream.
    ///
    /// # Errors
    /// What of it failed, or that the device is lost.
    pub fn synchronize(&self) -> Result<(), HipError> {
        let _current = self.device.make_current()?;
        // SAFETY: the stream is there until `self` is dropped.
        let code = unsafe { (self.device.0.runtime.symbols.hipStreamSynchronize)(self.raw) };
        self.device.check("hipStreamSynchronize", code, || "waiting for a stream".to_owned())
    }

    /// What is put on the stream from now on waits for the event, also one of another device. The call itself does not wait.
    ///
    /// # Errors
    /// [`HipError::OtherDevice`] for an event of another runtime; what the device reports.
    pub fn wait(&self, event: &HipEvent) -> Result<(), HipError> {
        if event.device().runtime() != self.device.runtime() {
            let (found, expected) = (event.device().ordinal(), self.device.ordinal());
            return Err(HipError::OtherDevice { what: "the event (of another runtime)", found, expected });
        }
        let _current = self.device.make_current()?;
        // SAFETY: stream and event are borrowed; HIP keeps of the event what it needs.
        let code = unsafe { (self.device.0.runtime.symbols.hipStreamWaitEvent)(self.raw, event.as_ptr(), 0) };
        self.device.check("hipStreamWaitEvent", code, || "making a stream wait".to_owned())
    }
}

impl Drop for HipStream {
    fn drop(&mut self) {
        if !process::may_release() {
            return;
        }
        if let Ok(_current) = self.device.make_current() {
            // SAFETY: the stream was made here and is destroyed once. HIP lets it finish what was put on it.
            let _ = unsafe { (self.device.0.runtime.symbols.hipStreamDestroy)(self.raw) };
        }
    }
}
