// Memory: the host's, one malloc block an allocation, so that a sanitizer sees what is beyond it.
#include "host.h"

#include <cstdlib>
#include <cstring>
#include <map>

namespace host {

namespace {

std::map<char*, Range> ranges;
uint64_t used[MAX_DEVICES];

void fill(char* begin, size_t size) {
    if (settings.poison < 256)
        memset(begin, static_cast<int>(settings.poison), size);
}

int allocate(void** out, size_t size, int device) {
    if (!out)
        return INVALID_VALUE;
    *out = nullptr;
    if (size == 0)
        return SUCCESS;
    if (device >= 0 && (size > settings.memory || used[device] > settings.memory - size))
        return OUT_OF_MEMORY;
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, size))
        return OUT_OF_MEMORY;
    char* begin = static_cast<char*>(memory);
    fill(begin, size);
    ranges[begin] = {device, begin, size};
    if (device >= 0) {
        used[device] += size;
        ++live.allocations;
        live.bytes += size;
        if (live.bytes > live.peak_bytes)
            live.peak_bytes = live.bytes;
    } else {
        ++live.host_allocations;
    }
    *out = memory;
    return SUCCESS;
}

int release(void* memory, bool on_device) {
    if (!memory)
        return SUCCESS;
    auto at = ranges.find(static_cast<char*>(memory));
    if (at == ranges.end() || (at->second.device >= 0) != on_device)
        return INVALID_VALUE;
    Range range = at->second;
    ranges.erase(at);
    if (on_device) {
        used[range.device] -= range.size;
        --live.allocations;
        live.bytes -= range.size;
    } else {
        --live.host_allocations;
    }
    fill(range.begin, range.size);
    free(memory);
    return SUCCESS;
}

// Whether `size` bytes at an address are what one end of a copy must be: of one device allocation, or of none.
int check_end(const void* address, size_t size, bool must_be_device, bool must_be_host) {
    if (!address)
        return INVALID_VALUE;
    Range range;
    if (!find_range(address, &range))
        return must_be_device ? INVALID_VALUE : SUCCESS;
    if (must_be_device && range.device < 0)
        return INVALID_VALUE;
    if (must_be_host && range.device >= 0)
        return INVALID_MEMCPY_DIRECTION;
    size_t offset = static_cast<const char*>(address) - range.begin;
    return size > range.size - offset ? INVALID_VALUE : SUCCESS;
}

int check_copy(const void* to, const void* from, size_t size, int kind) {
    if (kind < HOST_TO_HOST || kind > INFER)
        return INVALID_MEMCPY_DIRECTION;
    if (size == 0)
        return SUCCESS;
    bool infer = kind == INFER;
    bool to_device = kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE;
    bool from_device = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE;
    if (int e = check_end(to, size, to_device, !infer && !to_device))
        return e;
    return check_end(from, size, from_device, !infer && !from_device);
}

int check_set(void* to, size_t size) { return size == 0 ? static_cast<int>(SUCCESS) : check_end(to, size, true, false); }

}  // namespace

bool find_range(const void* address, Range* out) {
    char* p = static_cast<char*>(const_cast<void*>(address));
    auto after = ranges.upper_bound(p);
    if (after == ranges.begin())
        return false;
    const Range& range = std::prev(after)->second;
    if (static_cast<size_t>(p - range.begin) >= range.size)
        return false;
    *out = range;
    return true;
}

}  // namespace host

using namespace host;

API int hipMalloc(void** out, size_t size) {
    ENTER(hipMalloc);
    NOT_IN_CAPTURE;
    int device = 0;
    if (int e = current_device(&device))
        return keep(e);
    return keep(allocate(out, size, device));
}

API int hipFree(void* memory) {
    ENTER(hipFree);
    NOT_IN_CAPTURE;
    int device = 0;
    if (int e = current_device(&device))
        return keep(e);
    drain();
    return keep(release(memory, true));
}

API int hipMallocAsync(void** out, size_t size, void* stream) {
    ENTER(hipMallocAsync);
    int device = 0;
    if (int e = stream_device(stream, &device))
        return keep(e);
    // Real graphs have nodes that allocate; here there are none.
    if (Capture* capture = capture_of(stream))
        return keep(invalidate(capture, NOT_SUPPORTED));
    return keep(allocate(out, size, device));
}

API int hipFreeAsync(void* memory, void* stream) {
    ENTER(hipFreeAsync);
    int device = 0;
    if (int e = stream_device(stream, &device))
        return keep(e);
    Range range;
    if (memory && (!find_range(memory, &range) || range.begin != memory || range.device < 0))
        return keep(INVALID_VALUE);
    if (Capture* capture = capture_of(stream))
        return keep(invalidate(capture, NOT_SUPPORTED));
    return keep(submit(stream, device, [=] { return release(memory, true); }));
}

API int hipHostMalloc(void** out, size_t size, unsigned) {
    ENTER(hipHostMalloc);
    NOT_IN_CAPTURE;
    int device = 0;
    if (int e = current_device(&device))
        return keep(e);
    return keep(allocate(out, size, -1));
}

API int hipHostFree(void* memory) {
    ENTER(hipHostFree);
    NOT_IN_CAPTURE;
    drain();
    return keep(release(memory, false));
}

API int hipMemGetInfo(size_t* free_bytes, size_t* total) {
    ENTER(hipMemGetInfo);
    int device = 0;
    if (int e = current_device(&device))
        return keep(e);
    if (!free_bytes || !total)
        return keep(INVALID_VALUE);
    *total = settings.memory;
    *free_bytes = settings.memory - (used[device] < settings.memory ? used[device] : settings.memory);
    return keep(SUCCESS);
}

API int hipMemcpy(void* to, const void* from, size_t size, int kind) {
    ENTER(hipMemcpy);
    NOT_IN_CAPTURE;
    int device = 0;
    if (int e = current_device(&device))
        return keep(e);
    if (int e = check_copy(to, from, size, kind))
        return keep(e);
    int e = drain();
    if (size)
        memmove(to, from, size);
    return keep(e);
}

API int hipMemcpyWithStream(void* to, const void* from, size_t size, int kind, void* stream) {
    ENTER(hipMemcpyWithStream);
    NOT_IN_CAPTURE;
    int device = 0;
    if (int e = stream_device(stream, &device))
        return keep(e);
    if (int e = check_copy(to, from, size, kind))
        return keep(e);
    int e = drain();
    if (size)
        memmove(to, from, size);
    return keep(e);
}

// The size of the allocation that begins at an address.
API int hipMemPtrGetInfo(void* address, size_t* size) {
    ENTER(hipMemPtrGetInfo);
    Range range;
    if (!size || !address)
        return keep(INVALID_VALUE);
    if (!find_range(address, &range) || range.begin != address)
        return keep(INVALID_VALUE);
    *size = range.size;
    return keep(SUCCESS);
}

API int hipMemset(void* to, int value, size_t size) {
    ENTER(hipMemset);
    NOT_IN_CAPTURE;
    int device = 0;
    if (int e = current_device(&device))
        return keep(e);
    if (int e = check_set(to, size))
        return keep(e);
    int e = drain();
    if (size)
        memset(to, value, size);
    return keep(e);
}

API int hipMemcpyAsync(void* to, const void* from, size_t size, int kind, void* stream) {
    ENTER(hipMemcpyAsync);
    int device = 0;
    if (int e = stream_device(stream, &device))
        return keep(e);
    if (int e = check_copy(to, from, size, kind))
        return keep(e);
    return keep(submit(stream, device, [=] {
        if (size)
            memmove(to, from, size);
        return static_cast<int>(SUCCESS);
    }));
}

API int hipMemsetAsync(void* to, int value, size_t size, void* stream) {
    ENTER(hipMemsetAsync);
    int device = 0;
    if (int e = stream_device(stream, &device))
        return keep(e);
    if (int e = check_set(to, size))
        return keep(e);
    return keep(submit(stream, device, [=] {
        if (size)
            memset(to, value, size);
        return static_cast<int>(SUCCESS);
    }));
}

API int hipMemsetD32Async(void* to, int value, size_t count, void* stream) {
    ENTER(hipMemsetD32Async);
    int device = 0;
    if (int e = stream_device(stream, &device))
        return keep(e);
    if (count > SIZE_MAX / 4 || reinterpret_cast<uintptr_t>(to) % 4)
        return keep(INVALID_VALUE);
    if (int e = check_set(to, count * 4))
        return keep(e);
    return keep(submit(stream, device, [=] {
        for (size_t i = 0; i < count; ++i)
            memcpy(static_cast<char*>(to) + 4 * i, &value, 4);
        return static_cast<int>(SUCCESS);
    }));
}
