//! HIP's error codes.

use std::fmt;

/// A `hipError_t`. Any number is a value: runtimes are newer than tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct HipCode(pub i32);

/// What a code means for a caller.
struct Row {
    code: i32,
    name: &'static str,
    /// The device does nothing any more in this process.
    is_sticky: bool,
    /// What to do, where there is something to be said.
    advice: &'static str,
}

const fn row(code: i32, name: &'static str, advice: &'static str) -> Row {
    Row { code, name, is_sticky: false, advice }
}

const fn sticky(code: i32, name: &'static str) -> Row {
    Row { code, name, is_sticky: true, advice: "the device is lost for this process; start a new one" }
}

const NO_DEVICE: &str = "no AMD GPU is visible: check the amdgpu driver, permission to open /dev/kfd, and HIP_VISIBLE_DEVICES";
const OTHER_TARGET: &str = "the code object is for another GPU: compile the graph for the target of this device";
const DAMAGED: &str = "the code object is none that this HIP runtime takes: compile the graph again, or use a newer ROCm";

/// Ascending by code. Names are those of HIP's headers; the numbers have been the same since HIP 5.2.
const ROWS: &[Row] = &[
    row(0, "hipSuccess", ""),
    row(1, "hipErrorInvalidValue", ""),
    row(2, "hipErrorOutOfMemory", "free device memory, or give the device less to do at once"),
    row(3, "hipErrorNotInitialized", NO_DEVICE),
    row(4, "hipErrorDeinitialized", "the HIP runtime has shut down: execute before the process exits"),
    row(9, "hipErrorInvalidConfiguration", "the device does not take grids or blocks of this size: compile the graph again"),
    row(13, "hipErrorInvalidSymbol", DAMAGED),
    row(17, "hipErrorInvalidDevicePointer", "a pointer is none of this device's memory"),
    row(35, "hipErrorInsufficientDriver", "the amdgpu driver is older than this HIP runtime needs: update it"),
    row(52, "hipErrorMissingConfiguration", ""),
    row(53, "hipErrorPriorLaunchFailure", "an earlier launch failed"),
    row(98, "hipErrorInvalidDeviceFunction", OTHER_TARGET),
    row(100, "hipErrorNoDevice", NO_DEVICE),
    row(101, "hipErrorInvalidDevice", NO_DEVICE),
    row(200, "hipErrorInvalidImage", DAMAGED),
    row(201, "hipErrorInvalidContext", ""),
    row(205, "hipErrorMapFailed", ""),
    row(206, "hipErrorUnmapFailed", ""),
    row(208, "hipErrorAlreadyMapped", ""),
    row(209, "hipErrorNoBinaryForGpu", OTHER_TARGET),
    sticky(214, "hipErrorECCNotCorrectable"),
    row(217, "hipErrorPeerAccessUnsupported", ""),
    row(218, "hipErrorInvalidKernelFile", DAMAGED),
    row(300, "hipErrorInvalidSource", DAMAGED),
    row(301, "hipErrorFileNotFound", ""),
    row(302, "hipErrorSharedObjectSymbolNotFound", DAMAGED),
    row(303, "hipErrorSharedObjectInitFailed", DAMAGED),
    row(304, "hipErrorOperatingSystem", ""),
    row(400, "hipErrorInvalidHandle", ""),
    row(401, "hipErrorIllegalState", ""),
    row(500, "hipErrorNotFound", "the code object has no such kernel: compile the graph again"),
    row(600, "hipErrorNotReady", ""),
    sticky(700, "hipErrorIllegalAddress"),
    row(
        701,
        "hipErrorLaunchOutOfResources",
        "the kernel needs more registers or LDS than this device has: compile the graph for its target",
    ),
    sticky(702, "hipErrorLaunchTimeOut"),
    sticky(709, "hipErrorContextIsDestroyed"),
    sticky(710, "hipErrorAssert"),
    sticky(719, "hipErrorLaunchFailure"),
    row(801, "hipErrorNotSupported", ""),
    row(900, "hipErrorStreamCaptureUnsupported", "the stream is being captured into a graph, and this call cannot be"),
    row(901, "hipErrorStreamCaptureInvalidated", ""),
    row(906, "hipErrorStreamCaptureImplicit", "another stream is being captured into a graph, and this call waits for it"),
    row(999, "hipErrorUnknown", "the kernel log (dmesg) may say more"),
    row(1052, "hipErrorRuntimeMemory", ""),
    row(1053, "hipErrorRuntimeOther", ""),
];

impl HipCode {
    /// `hipSuccess`.
    pub const SUCCESS: Self = Self(0);
    /// `hipErrorOutOfMemory`.
    pub const OUT_OF_MEMORY: Self = Self(2);

    fn row(self) -> Option<&'static Row> {
        ROWS.binary_search_by_key(&self.0, |row| row.code).ok().and_then(|at| ROWS.get(at))
    }

    /// HIP's name of the code; none for one that this table does not list.
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|row| row.name)
    }

    /// After this code the device does nothing any more in this process.
    pub fn is_sticky(self) -> bool {
        self.row().is_some_and(|row| row.is_sticky)
    }

    /// The call found no device: hipErrorNotInitialized, hipErrorNoDevice, hipErrorInvalidDevice.
    pub(super) fn is_no_device(self) -> bool {
        matches!(self.0, 3 | 100 | 101)
    }

    /// What to do, as the end of a message; empty where there is nothing to be said.
    pub(super) fn advice(self) -> &'static str {
        self.row().map_or("", |row| row.advice)
    }
}

impl fmt::Display for HipCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} (code {})", self.0),
            None => write!(f, "code {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_unknown_codes_have_no_name() {
        assert!(ROWS.is_sorted_by(|a, b| a.code < b.code));
        assert_eq!(HipCode(209).to_string(), "hipErrorNoBinaryForGpu (code 209)");
        assert_eq!(HipCode(-7).to_string(), "code -7");
        assert_eq!(HipCode(i32::MAX).name(), None);
        assert!(HipCode(719).is_sticky() && !HipCode(2).is_sticky() && !HipCode(5000).is_sticky());
        for row in ROWS {
            assert_eq!(HipCode(row.code).is_no_device(), row.advice == NO_DEVICE, "{}", row.name);
        }
        assert!(HipCode(100).is_no_device() && !HipCode(5000).is_no_device());
    }
}
