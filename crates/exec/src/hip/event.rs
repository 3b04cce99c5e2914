//! Events: points in a stream, and the time between two of them.

use super::device::HipDevice;
use super::error::HipError;
use super::process;
use crate::Stream;
use std::ffi::c_void;

/// An event with a time.
const HIP_EVENT_DEFAULT: u32 = 0;

/// A point in a stream. Recorded before and after an execution, two of them give the time that its kernels took.
#[derive(Debug)]
pub struct HipEvent {
    device: HipDevice,
    raw: *mut c_void,
}

// SAFETY: HIP takes an event from any thread.
unsafe impl Send for HipEvent {}
// SAFETY: as above, and from several at once.
unsafe impl Sync for HipEvent {}

impl HipEvent {
    /// A new event, not yet recorded.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(device: &HipDevice) -> Result<Self, HipError> {
        let _current = device.make_current()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is to a handle.
        let code = unsafe { (device.0.runtime.symbols.hipEventCreateWithFlags)(&raw mut raw, HIP_EVENT_DEFAULT) };
        device.check("hipEventCreateWithFlags", code, || "making an event".to_owned())?;
        Ok(Self { device: *device, raw })
    }

    /// The device.
    pub fn device(&self) -> &HipDevice {
        &self.device
    }

    /// The `hipEvent_t`.
    pub fn as_ptr(&self) -> *mut c_void {
        self.raw
    }

    /// Records the event when all is done that was put on the stream so far. A [raw](crate::RawHipStream) stream is taken for one of the
    /// event's device and runtime, as its maker promised.
    ///
    /// # Errors
    /// [`HipError::OtherDevice`] for a stream of another device; what the device reports.
    pub fn record(&self, stream: Stream<'_>) -> Result<(), HipError> {
        let raw = match stream {
            Stream::Default => std::ptr::null_mut(),
            Stream::RawHip(stream) => stream.as_ptr(),
            Stream::Hip(stream) if stream.device() == &self.device => stream.as_ptr(),
            Stream::Hip(stream) => {
                let (found, expected) = (stream.device().ordinal(), self.device.ordinal());
                return Err(HipError::OtherDevice { what: "the stream", found, expected });
            }
        };
        let _current = self.device.make_current()?;
        // SAFETY: the event is there until `self` is dropped; the stream is one of this device and is borrowed, or whoever made the raw one
        // promised both.
        let code = unsafe { (self.device.0.runtime.symbols.hipEventRecord)(self.raw, raw) };
        self.device.check("hipEventRecord", code, || "recording an event".to_owned())
    }

    /// Waits until the event has been recorded.
    ///
    /// # Errors
    /// What failed of that which came before it.
    pub fn synchronize(&self) -> Result<(), HipError> {
        let _current = self.device.make_current()?;
        // SAFETY: the event is there until `self` is dropped.
        let code = unsafe { (self.device.0.runtime.symbols.hipEventSynchronize)(self.raw) };
        self.device.check("hipEventSynchronize", code, || "waiting for an event".to_owned())
    }

    /// Milliseconds from this event to a later one. Both have been recorded, and waited for.
    ///
    /// # Errors
    /// [`HipError::OtherDevice`]; one of them has not been recorded or not been reached.
    pub fn elapsed_ms(&self, later: &Self) -> Result<f32, HipError> {
        if later.device != self.device {
            let (found, expected) = (later.device.ordinal(), self.device.ordinal());
            return Err(HipError::OtherDevice { what: "the later event", found, expected });
        }
        let _current = self.device.make_current()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events are borrowed, and the pointer is to a number.
        let code = unsafe { (self.device.0.runtime.symbols.hipEventElapsedTime)(&raw mut milliseconds, self.raw, later.raw) };
        self.device.check("hipEventElapsedTime", code, || "asking for the time between events".to_owned())?;
        Ok(milliseconds)
    }
}

impl Drop for HipEvent {
    fn drop(&mut self) {
        if !process::may_release() {
            return;
        }
        if let Ok(_current) = self.device.make_current() {
            // SAFETY: the event was made here and is destroyed once. HIP keeps what it still needs.
            let _ = unsafe { (self.device.0.runtime.symbols.hipEventDestroy)(self.raw) };
        }
    }
}
