// Device properties in HIP's two layouts, and the names of its errors.
#include "hip_abi.h"

#include <cstring>

namespace {

// Byte offsets of the fields of a layout.
struct Layout {
    size_t size, total_memory, shared_per_block, registers, warp, threads, thread_dims, grid_dims, clock, major, minor, processors, l2,
        memory_clock, bus, threads_per_processor, arch;
};

constexpr size_t NONE = 0;
constexpr Layout R0600 = {1472, 288, 296, 304, 308, 320, 324, 336, 348, 360, 364, 388, NONE, NONE, NONE, 624, 1160};
constexpr Layout R0000 = {792, 256, 264, 272, 276, 280, 284, 296, 308, 328, 332, 336, 340, 312, 316, NONE, 396};

template <class T>
void put(void* out, size_t at, T value) {
    if (at != NONE)
        memcpy(static_cast<char*>(out) + at, &value, sizeof value);
}

void write(const Layout& at, const DeviceFacts& f, void* out) {
    memset(out, 0, at.size);
    memcpy(out, f.name, sizeof f.name);
    put<uint64_t>(out, at.total_memory, f.memory);
    put<uint64_t>(out, at.shared_per_block, f.shared_per_block);
    put<int>(out, at.registers, f.registers_per_block);
    put<int>(out, at.warp, f.warp);
    put<int>(out, at.threads, f.threads_per_block);
    for (size_t i = 0; i < 3; ++i) {
        put<int>(out, at.thread_dims + 4 * i, f.threads_per_block);
        put<int>(out, at.grid_dims + 4 * i, i == 0 ? 0x7fffffff : 65535);
    }
    put<int>(out, at.clock, f.clock_khz);
    put<int>(out, at.major, f.major);
    put<int>(out, at.minor, f.minor);
    put<int>(out, at.processors, f.processors);
    put<int>(out, at.l2, f.l2_bytes);
    put<int>(out, at.memory_clock, f.memory_clock_khz);
    put<int>(out, at.bus, f.bus_bits);
    put<int>(out, at.threads_per_processor, f.threads_per_processor);
    memcpy(static_cast<char*>(out) + at.arch, f.arch, sizeof f.arch);
}

struct Named {
    int code;
    const char *name, *text;
};

constexpr Named ERRORS[] = {
    {SUCCESS, "hipSuccess", "no error"},
    {INVALID_VALUE, "hipErrorInvalidValue", "invalid argument"},
    {OUT_OF_MEMORY, "hipErrorOutOfMemory", "out of memory"},
    {NOT_INITIALIZED, "hipErrorNotInitialized", "initialization error"},
    {DEINITIALIZED, "hipErrorDeinitialized", "driver shutting down"},
    {INVALID_MEMCPY_DIRECTION, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {INVALID_DEVICE_FUNCTION, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {NO_DEVICE, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {INVALID_DEVICE, "hipErrorInvalidDevice", "invalid device ordinal"},
    {INVALID_IMAGE, "hipErrorInvalidImage", "device kernel image is invalid"},
    {INVALID_CONTEXT, "hipErrorInvalidContext", "invalid device context"},
    {NO_BINARY_FOR_GPU, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {FILE_NOT_FOUND, "hipErrorFileNotFound", "file not found"},
    {SHARED_OBJECT_INIT_FAILED, "hipErrorSharedObjectInitFailed", "shared object initialization failed"},
    {INVALID_HANDLE, "hipErrorInvalidHandle", "invalid resource handle"},
    {ILLEGAL_STATE, "hipErrorIllegalState", "the operation cannot be performed in the present state"},
    {NOT_FOUND, "hipErrorNotFound", "named symbol not found"},
    {NOT_READY, "hipErrorNotReady", "device not ready"},
    {ILLEGAL_ADDRESS, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {LAUNCH_OUT_OF_RESOURCES, "hipErrorLaunchOutOfResources", "out of resources"},
    {LAUNCH_FAILURE, "hipErrorLaunchFailure", "unspecified launch failure"},
    {NOT_SUPPORTED, "hipErrorNotSupported", "operation not supported"},
    {STREAM_CAPTURE_UNSUPPORTED, "hipErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {STREAM_CAPTURE_INVALIDATED, "hipErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {STREAM_CAPTURE_MERGE, "hipErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"},
    {STREAM_CAPTURE_UNMATCHED, "hipErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"},
    {STREAM_CAPTURE_ISOLATION, "hipErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"},
    {STREAM_CAPTURE_IMPLICIT, "hipErrorStreamCaptureImplicit", "operation would make the legacy stream depend on a capturing blocking stream"},
    {CAPTURED_EVENT, "hipErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"},
    {STREAM_CAPTURE_WRONG_THREAD, "hipErrorStreamCaptureWrongThread", "attempt to terminate a thread-local capture sequence from another thread"},
    {UNKNOWN, "hipErrorUnknown", "unknown error"},
};

const Named& find(int code) {
    for (const Named& e : ERRORS)
        if (e.code == code)
            return e;
    return ERRORS[sizeof ERRORS / sizeof *ERRORS - 1];
}

}  // namespace

void write_properties_r0600(const DeviceFacts& facts, void* out) { write(R0600, facts, out); }
void write_properties_r0000(const DeviceFacts& facts, void* out) { write(R0000, facts, out); }

bool attribute_of(const DeviceFacts& f, int attribute, int* out) {
    switch (attribute) {
    case CLOCK_RATE: *out = f.clock_khz; return true;
    case L2_CACHE_SIZE: *out = f.l2_bytes; return true;
    case MAX_THREADS_PER_BLOCK: *out = f.threads_per_block; return true;
    case MEMORY_BUS_WIDTH: *out = f.bus_bits; return true;
    case MEMORY_CLOCK_RATE: *out = f.memory_clock_khz; return true;
    case COMPUTE_CAPABILITY_MAJOR: *out = f.major; return true;
    case COMPUTE_CAPABILITY_MINOR: *out = f.minor; return true;
    case MULTIPROCESSOR_COUNT: *out = f.processors; return true;
    case MAX_REGISTERS_PER_BLOCK: *out = f.registers_per_block; return true;
    case MAX_THREADS_PER_MULTIPROCESSOR: *out = f.threads_per_processor; return true;
    case MAX_SHARED_MEMORY_PER_BLOCK: *out = static_cast<int>(f.shared_per_block); return true;
    case WARP_SIZE: *out = f.warp; return true;
    default: return false;
    }
}

const char* error_name(int code) { return find(code).name; }
const char* error_text(int code) { return find(code).text; }
