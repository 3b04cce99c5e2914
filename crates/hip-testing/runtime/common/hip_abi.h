// The part of HIP's C interface that the stand-in runtimes have, in our own declarations: the same in ROCm 5, 6 and 7.
#ifndef HIPPLAN_HIP_ABI_H
#define HIPPLAN_HIP_ABI_H

#include <cstddef>
#include <cstdint>

enum Error : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    DEINITIALIZED = 4,
    INVALID_MEMCPY_DIRECTION = 21,
    INVALID_DEVICE_FUNCTION = 98,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    FILE_NOT_FOUND = 301,
    SHARED_OBJECT_INIT_FAILED = 303,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_FAILURE = 719,
    NOT_SUPPORTED = 801,
    STREAM_CAPTURE_UNSUPPORTED = 900,
    STREAM_CAPTURE_INVALIDATED = 901,
    STREAM_CAPTURE_MERGE = 902,
    STREAM_CAPTURE_UNMATCHED = 903,
    STREAM_CAPTURE_ISOLATION = 905,
    STREAM_CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    STREAM_CAPTURE_WRONG_THREAD = 908,
    UNKNOWN = 999,
};

enum CopyKind : int { HOST_TO_HOST = 0, HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, DEVICE_TO_DEVICE = 3, INFER = 4 };

// Entries of `extra`: 1, the kernarg bytes, 2, a pointer to their size, 3.
constexpr uintptr_t LAUNCH_BUFFER_POINTER = 1, LAUNCH_BUFFER_SIZE = 2, LAUNCH_END = 3;

constexpr unsigned EVENT_DISABLE_TIMING = 2;

// Device attributes that the executor may ask for.
enum Attribute : int {
    CLOCK_RATE = 5,
    L2_CACHE_SIZE = 19,
    MAX_THREADS_PER_BLOCK = 56,
    MEMORY_BUS_WIDTH = 59,
    MEMORY_CLOCK_RATE = 60,
    COMPUTE_CAPABILITY_MAJOR = 23,
    COMPUTE_CAPABILITY_MINOR = 61,
    MULTIPROCESSOR_COUNT = 63,
    MAX_REGISTERS_PER_BLOCK = 71,
    MAX_THREADS_PER_MULTIPROCESSOR = 73,
    MAX_SHARED_MEMORY_PER_BLOCK = 74,
    WARP_SIZE = 87,
};

// What the runtimes say of a device.
struct DeviceFacts {
    char name[256];
    char arch[256];
    uint64_t memory, shared_per_block;
    int registers_per_block, warp, threads_per_block, threads_per_processor, clock_khz, memory_clock_khz, bus_bits, processors, l2_bytes, major, minor;
};

// Fills the 1472 bytes of `hipDeviceProp_tR0600` (ROCm 6 and 7).
void write_properties_r0600(const DeviceFacts& facts, void* out);
// Fills the 792 bytes that ROCm 5 has, and later ones keep under the bare name.
void write_properties_r0000(const DeviceFacts& facts, void* out);
// One device attribute, or false for one that is not known.
bool attribute_of(const DeviceFacts& facts, int attribute, int* out);

const char* error_name(int code);
const char* error_text(int code);

#endif
