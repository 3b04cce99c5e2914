// HIP's functions over NVIDIA's driver, which is opened on first use: what is launched by the executor under test runs on real SIMT
// hardware. A device answers with `sm_NN` as its arch name; modules are cubins. No CUDA header is needed: the few types and numbers of
// the driver's interface stand here.
#include "../common/hip_abi.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace {

typedef unsigned long long Address;
typedef void* Opaque;

// The driver's functions: name in this file, symbol, parameters.
#define DRIVER(X)                                                                                                       \
    X(init, "cuInit", (unsigned))                                                                                       \
    X(driver_version, "cuDriverGetVersion", (int*))                                                                     \
    X(device_count, "cuDeviceGetCount", (int*))                                                                         \
    X(device_get, "cuDeviceGet", (int*, int))                                                                           \
    X(device_name, "cuDeviceGetName", (char*, int, int))                                                                \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t*, int))                                                             \
    X(device_attribute, "cuDeviceGetAttribute", (int*, int, int))                                                       \
    X(context_retain, "cuDevicePrimaryCtxRetain", (Opaque*, int))                                                       \
    X(context_set, "cuCtxSetCurrent", (Opaque))                                                                         \
    X(context_synchronize, "cuCtxSynchronize", ())                                                                      \
    X(memory_info, "cuMemGetInfo_v2", (size_t*, size_t*))                                                               \
    X(memory_alloc, "cuMemAlloc_v2", (Address*, size_t))                                                                \
    X(memory_free, "cuMemFree_v2", (Address))                                                                           \
    X(memory_alloc_async, "cuMemAllocAsync", (Address*, size_t, Opaque))                                                \
    X(memory_free_async, "cuMemFreeAsync", (Address, Opaque))                                                           \
    X(host_alloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                                         \
    X(host_free, "cuMemFreeHost", (void*))                                                                              \
    X(copy, "cuMemcpy", (Address, Address, size_t))                                                                     \
    X(copy_async, "cuMemcpyAsync", (Address, Address, size_t, Opaque))                                                  \
    X(set_8_async, "cuMemsetD8Async", (Address, unsigned char, size_t, Opaque))                                         \
    X(set_32_async, "cuMemsetD32Async", (Address, unsigned, size_t, Opaque))                                            \
    X(stream_create, "cuStreamCreate", (Opaque*, unsigned))                                                             \
    X(stream_destroy, "cuStreamDestroy_v2", (Opaque))                                                                   \
    X(stream_synchronize, "cuStreamSynchronize", (Opaque))                                                              \
    X(stream_wait_event, "cuStreamWaitEvent", (Opaque, Opaque, unsigned))                                               \
    X(event_create, "cuEventCreate", (Opaque*, unsigned))                                                               \
    X(event_destroy, "cuEventDestroy_v2", (Opaque))                                                                     \
    X(event_record, "cuEventRecord", (Opaque, Opaque))                                                                  \
    X(event_query, "cuEventQuery", (Opaque))                                                                            \
    X(event_synchronize, "cuEventSynchronize", (Opaque))                                                                \
    X(event_elapsed, "cuEventElapsedTime", (float*, Opaque, Opaque))                                                    \
    X(module_load, "cuModuleLoadData", (Opaque*, const void*))                                                          \
    X(module_unload, "cuModuleUnload", (Opaque))                                                                        \
    X(module_function, "cuModuleGetFunction", (Opaque*, Opaque, const char*))                                           \
    X(function_attribute, "cuFuncGetAttribute", (int*, int, Opaque))                                                    \
    X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int*, Opaque, int, size_t))                            \
    X(launch, "cuLaunchKernel",                                                                                         \
      (Opaque, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Opaque, void**, void**))

struct Driver {
#define FIELD(name, symbol, parameters) int(*name) parameters = nullptr;
    DRIVER(FIELD)
#undef FIELD
    int count = 0;
    std::vector<Opaque> contexts;  // of the devices, once used
    int state = NO_DEVICE;         // 0, or why nothing works
};

Driver driver;
std::once_flag opened;
std::mutex contexts_mutex;
thread_local int chosen = 0;
thread_local bool bound = false;
thread_local int last_error = 0;

// The driver's codes are HIP's where the meaning is the same; the rest are told by their nearest kin.
int translate(int code) {
    switch (code) {
    case 0: case 1: case 2: case 3: case 4: case 100: case 101: case 200: case 201: case 209: case 400: case 500: case 600: case 700:
    case 701: case 719: case 801:
        return code;
    case 218: case 300: return INVALID_IMAGE;                       // PTX, source
    case 302: case 303: return SHARED_OBJECT_INIT_FAILED;
    case 709: return INVALID_CONTEXT;                               // destroyed
    case 716: case 717: case 718: return ILLEGAL_ADDRESS;           // misaligned, address space, program counter
    case 46: case 214: case 710: case 714: case 715: case 720: return LAUNCH_FAILURE;
    default: return UNKNOWN;
    }
}

int keep(int code) { return last_error = code; }
int answer(int cuda) { return keep(translate(cuda)); }

void open_driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "cuda HIP: %s\n", dlerror());
        return;
    }
    const char* missing = nullptr;
#define RESOLVE(name, symbol, parameters)                                              \
    driver.name = reinterpret_cast<int(*) parameters>(dlsym(library, symbol));         \
    if (!driver.name)                                                                  \
        missing = symbol;
    DRIVER(RESOLVE)
#undef RESOLVE
    if (missing) {
        fprintf(stderr, "cuda HIP: libcuda.so.1 has no %s\n", missing);
        return;
    }
    int code = driver.init(0);
    if (!code)
        code = driver.device_count(&driver.count);
    driver.state = code ? translate(code) : driver.count ? SUCCESS : NO_DEVICE;
    driver.contexts.resize(driver.count);
}

int ready() {
    std::call_once(opened, open_driver);
    return driver.state;
}

// Makes a device's context the calling thread's.
int bind(int device) {
    std::lock_guard<std::mutex> lock(contexts_mutex);
    Opaque& context = driver.contexts[device];
    if (!context) {
        int id = 0, code = driver.device_get(&id, device);
        if (!code)
            code = driver.context_retain(&context, id);
        if (code)
            return translate(code);
    }
    return translate(driver.context_set(context));
}

int check(int device) {
    if (int e = ready())
        return e;
    return device < 0 || device >= driver.count ? INVALID_DEVICE : SUCCESS;
}

// Begins every function that needs a device.
int enter() {
    if (bound)
        return SUCCESS;
    if (int e = ready())
        return e;
    if (int e = bind(chosen))
        return e;
    bound = true;
    return SUCCESS;
}

#define ENTER              \
    if (int e = enter())   \
    return keep(e)

int facts_of(int device, DeviceFacts* facts) {
    int id = 0;
    if (int code = driver.device_get(&id, device))
        return translate(code);
    auto ask = [&](int attribute) {
        int value = 0;
        driver.device_attribute(&value, attribute, id);
        return value;
    };
    DeviceFacts f = {};
    driver.device_name(f.name, sizeof f.name - 1, id);
    size_t memory = 0;
    driver.device_memory(&memory, id);
    f.memory = memory;
    f.threads_per_block = ask(1);
    f.shared_per_block = ask(8);
    f.warp = ask(10);
    f.registers_per_block = ask(12);
    f.clock_khz = ask(13);
    f.processors = ask(16);
    f.memory_clock_khz = ask(36);
    f.bus_bits = ask(37);
    f.l2_bytes = ask(38);
    f.major = ask(75);
    f.minor = ask(76);
    snprintf(f.arch, sizeof f.arch, "sm_%d%d", f.major, f.minor);
    *facts = f;
    return SUCCESS;
}

int properties(int device, void* out, void (*write)(const DeviceFacts&, void*)) {
    if (int e = check(device))
        return keep(e);
    if (!out)
        return keep(INVALID_VALUE);
    DeviceFacts facts;
    if (int e = facts_of(device, &facts))
        return keep(e);
    write(facts, out);
    return keep(SUCCESS);
}

Address address(const void* p) { return reinterpret_cast<Address>(p); }

}  // namespace

API int hipInit(unsigned) { return keep(ready()); }

API int hipDriverGetVersion(int* version) {
    if (int e = ready())
        return keep(e);
    return answer(driver.driver_version(version));
}

API int hipRuntimeGetVersion(int* version) {
    if (!version)
        return keep(INVALID_VALUE);
    *version = 60443483;
    return keep(SUCCESS);
}

API int hipGetDeviceCount(int* count) {
    if (!count)
        return keep(INVALID_VALUE);
    *count = 0;
    if (int e = ready())
        return keep(e);
    *count = driver.count;
    return keep(SUCCESS);
}

API int hipSetDevice(int device) {
    if (int e = check(device))
        return keep(e);
    if (bound && chosen == device)
        return keep(SUCCESS);
    if (int e = bind(device))
        return keep(e);
    chosen = device;
    bound = true;
    return keep(SUCCESS);
}

API int hipGetDevice(int* device) {
    if (int e = ready())
        return keep(e);
    if (!device)
        return keep(INVALID_VALUE);
    *device = chosen;
    return keep(SUCCESS);
}

API int hipDeviceGetAttribute(int* value, int attribute, int device) {
    if (int e = check(device))
        return keep(e);
    DeviceFacts facts;
    if (int e = facts_of(device, &facts))
        return keep(e);
    return keep(value && attribute_of(facts, attribute, value) ? SUCCESS : INVALID_VALUE);
}

API int hipGetDevicePropertiesR0600(void* out, int device) { return properties(device, out, write_properties_r0600); }
API int hipGetDeviceProperties(void* out, int device) { return properties(device, out, write_properties_r0000); }

API int hipDeviceSynchronize() {
    ENTER;
    return answer(driver.context_synchronize());
}

API int hipMemGetInfo(size_t* free_bytes, size_t* total) {
    ENTER;
    return answer(driver.memory_info(free_bytes, total));
}

API int hipMalloc(void** out, size_t size) {
    ENTER;
    if (!out)
        return keep(INVALID_VALUE);
    *out = nullptr;
    return size ? answer(driver.memory_alloc(reinterpret_cast<Address*>(out), size)) : keep(SUCCESS);
}

API int hipFree(void* memory) {
    ENTER;
    return memory ? answer(driver.memory_free(address(memory))) : keep(SUCCESS);
}

API int hipMallocAsync(void** out, size_t size, void* stream) {
    ENTER;
    if (!out)
        return keep(INVALID_VALUE);
    *out = nullptr;
    return size ? answer(driver.memory_alloc_async(reinterpret_cast<Address*>(out), size, stream)) : keep(SUCCESS);
}

API int hipFreeAsync(void* memory, void* stream) {
    ENTER;
    return memory ? answer(driver.memory_free_async(address(memory), stream)) : keep(SUCCESS);
}

API int hipHostMalloc(void** out, size_t size, unsigned) {
    ENTER;
    if (!out)
        return keep(INVALID_VALUE);
    *out = nullptr;
    return size ? answer(driver.host_alloc(out, size, 0)) : keep(SUCCESS);
}

API int hipHostFree(void* memory) {
    ENTER;
    return memory ? answer(driver.host_free(memory)) : keep(SUCCESS);
}

// The driver tells host from device memory by the address.
API int hipMemcpy(void* to, const void* from, size_t size, int) {
    ENTER;
    return size ? answer(driver.copy(address(to), address(from), size)) : keep(SUCCESS);
}

API int hipMemcpyAsync(void* to, const void* from, size_t size, int, void* stream) {
    ENTER;
    return size ? answer(driver.copy_async(address(to), address(from), size, stream)) : keep(SUCCESS);
}

API int hipMemsetAsync(void* to, int value, size_t size, void* stream) {
    ENTER;
    return size ? answer(driver.set_8_async(address(to), static_cast<unsigned char>(value), size, stream)) : keep(SUCCESS);
}

API int hipMemsetD32Async(void* to, int value, size_t count, void* stream) {
    ENTER;
    return count ? answer(driver.set_32_async(address(to), static_cast<unsigned>(value), count, stream)) : keep(SUCCESS);
}

API int hipStreamCreateWithFlags(void** out, unsigned flags) {
    ENTER;
    return answer(driver.stream_create(out, flags));
}

API int hipStreamDestroy(void* stream) {
    ENTER;
    return answer(driver.stream_destroy(stream));
}

API int hipStreamSynchronize(void* stream) {
    ENTER;
    return answer(driver.stream_synchronize(stream));
}

API int hipStreamWaitEvent(void* stream, void* event, unsigned flags) {
    ENTER;
    return answer(driver.stream_wait_event(stream, event, flags));
}

API int hipEventCreateWithFlags(void** out, unsigned flags) {
    ENTER;
    return answer(driver.event_create(out, flags));
}

API int hipEventDestroy(void* event) {
    ENTER;
    return answer(driver.event_destroy(event));
}

API int hipEventRecord(void* event, void* stream) {
    ENTER;
    return answer(driver.event_record(event, stream));
}

API int hipEventQuery(void* event) {
    ENTER;
    return answer(driver.event_query(event));
}

API int hipEventSynchronize(void* event) {
    ENTER;
    return answer(driver.event_synchronize(event));
}

API int hipEventElapsedTime(float* milliseconds, void* from, void* to) {
    ENTER;
    return answer(driver.event_elapsed(milliseconds, from, to));
}

API int hipModuleLoadData(void** out, const void* image) {
    ENTER;
    if (!out || !image)
        return keep(INVALID_VALUE);
    return answer(driver.module_load(out, image));
}

API int hipModuleUnload(void* module) {
    ENTER;
    return answer(driver.module_unload(module));
}

API int hipModuleGetFunction(void** out, void* module, const char* name) {
    ENTER;
    return answer(driver.module_function(out, module, name));
}

API int hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                              unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra) {
    ENTER;
    // The same list, but that the driver ends it with 0.
    void* list[7] = {};
    int n = 0;
    while (extra && n < 6 && reinterpret_cast<uintptr_t>(extra[n]) != LAUNCH_END) {
        list[n] = extra[n];
        list[n + 1] = extra[n + 1];
        n += 2;
    }
    return answer(driver.launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters,
                                extra ? list : nullptr));
}

// The numbers of function attributes are the driver's.
API int hipFuncGetAttribute(int* value, int attribute, const void* function) {
    ENTER;
    return answer(driver.function_attribute(value, attribute, const_cast<void*>(function)));
}

API int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int block, size_t shared_bytes) {
    ENTER;
    return answer(driver.occupancy(blocks, function, block, shared_bytes));
}

API int hipGetLastError() {
    int code = last_error;
    last_error = 0;
    return code;
}

API int hipPeekAtLastError() { return last_error; }
API const char* hipGetErrorName(int code) { return error_name(code); }
API const char* hipGetErrorString(int code) { return error_text(code); }
