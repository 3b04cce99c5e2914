//! The queue that an execution is put on.

use crate::hip::HipStream;
use crate::memory_space::SpaceKey;
use crate::{ExecError, MemorySpace};
use std::ffi::c_void;
use std::marker::PhantomData;

/// The queue that an execution is put on.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Stream<'s> {
    /// The device's own: the calling thread on the CPU device, HIP's null stream on a HIP device.
    #[default]
    Default,
    /// A stream of a HIP device.
    Hip(&'s HipStream),
    /// A stream that somebody else made with HIP.
    RawHip(RawHipStream<'s>),
}

/// A `hipStream_t` that somebody else made.
#[derive(Clone, Copy, Debug)]
pub struct RawHipStream<'s> {
    raw: *mut c_void,
    owner: PhantomData<&'s ()>,
}

// SAFETY: a stream handle may be used from any thread; who made the value promised that it is one.
unsafe impl Send for RawHipStream<'_> {}
// SAFETY: as above.
unsafe impl Sync for RawHipStream<'_> {}

impl RawHipStream<'_> {
    /// Takes a `hipStream_t`.
    ///
    /// # Safety
    /// Safe code may copy the value, and use every copy for the whole lifetime. Until that has ended, the handle is null, or all of this
    /// holds of it:
    /// * It is a stream that has been made and not destroyed, nor is it being captured into a graph that outlives the memory it is used with.
    /// * The library that made it is the one that hipplan calls for what it is used with: the
    ///   [`HipRuntime`](crate::hip::HipRuntime) of the device of a plan that is executed on it, or of an event that is
    ///   [recorded](crate::hip::HipEvent::record) on it. Another library takes the handle for an address of its own.
    /// * It is a stream of that same device.
    ///
    /// None of that can be checked for a handle: HIP follows it.
    pub unsafe fn new(raw: *mut c_void) -> Self {
        Self { raw, owner: PhantomData }
    }

    /// The handle.
    pub fn as_ptr(self) -> *mut c_void {
        self.raw
    }
}

impl<'s> From<&'s HipStream> for Stream<'s> {
    fn from(stream: &'s HipStream) -> Self {
        Self::Hip(stream)
    }
}

impl Stream<'_> {
    /// Whether plans that are bound to this device may be executed on the stream.
    #[inline]
    pub(crate) fn check(&self, expected: SpaceKey) -> Result<(), ExecError> {
        match self {
            Self::Default => Ok(()),
            Self::Hip(stream) if stream.device().space_key() == expected => Ok(()),
            Self::RawHip(_) if expected.space() != MemorySpace::Host => Ok(()),
            Self::Hip(stream) => Err(refusal(stream.device().memory_space().to_string(), expected)),
            Self::RawHip(_) => Err(refusal("memory of a HIP device".to_owned(), expected)),
        }
    }
}

#[cold]
fn refusal(found: String, expected: SpaceKey) -> ExecError {
    ExecError::StreamDevice { found, expected: expected.space() }
}
