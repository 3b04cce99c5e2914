// Devices and what they say of themselves.
#include "host.h"

#include <cstdio>
#include <cstring>

namespace host {

namespace {

thread_local int chosen = 0;

// What a real device of an arch answers, roughly: what a plan's choices could depend on.
struct ArchFacts {
    const char* arch;
    int warp, processors;
};
constexpr ArchFacts ARCHS[] = {
    {"host", 64, 8}, {"gfx906", 64, 60}, {"gfx908", 64, 120}, {"gfx90a", 64, 104}, {"gfx942", 64, 304}, {"gfx950", 64, 256},
};

DeviceFacts facts(int device) {
    DeviceFacts f = {};
    snprintf(f.name, sizeof f.name, "hipplan host device %d", device);
    snprintf(f.arch, sizeof f.arch, "%s", settings.arch.c_str());
    std::string base = settings.arch.substr(0, settings.arch.find(':'));
    f.warp = 32;
    f.processors = 60;
    for (const ArchFacts& a : ARCHS)
        if (base == a.arch) {
            f.warp = a.warp;
            f.processors = a.processors;
        }
    f.memory = settings.memory;
    f.shared_per_block = 65536;
    f.registers_per_block = 65536;
    f.threads_per_block = 1024;
    f.threads_per_processor = 2048;
    f.clock_khz = 2100000;
    f.memory_clock_khz = 1300000;
    f.bus_bits = 8192;
    f.l2_bytes = 4 << 20;
    if (base.size() > 5 && base.compare(0, 3, "gfx") == 0) {
        f.minor = base[base.size() - 2] - '0';
        f.major = 0;
        for (size_t i = 3; i + 2 < base.size() && base[i] >= '0' && base[i] <= '9'; ++i)
            f.major = f.major * 10 + (base[i] - '0');
    }
    return f;
}

int check(int device) {
    if (settings.devices == 0)
        return NO_DEVICE;
    return device < 0 || device >= settings.devices ? INVALID_DEVICE : SUCCESS;
}

}  // namespace

int current_device(int* out) {
    *out = chosen;
    if (int e = check(chosen))
        return e;
    return lost(chosen);
}

}  // namespace host

using namespace host;

API int hipInit(unsigned flags) {
    ENTER(hipInit);
    if (flags)
        return keep(INVALID_VALUE);
    return keep(settings.devices ? SUCCESS : NO_DEVICE);
}

API int hipDriverGetVersion(int* version) {
    ENTER(hipDriverGetVersion);
    if (!version)
        return keep(INVALID_VALUE);
    *version = 60443483;
    return keep(SUCCESS);
}

API int hipRuntimeGetVersion(int* version) {
    ENTER(hipRuntimeGetVersion);
    if (!version)
        return keep(INVALID_VALUE);
    *version = 60443483;
    return keep(SUCCESS);
}

API int hipGetDeviceCount(int* count) {
    ENTER(hipGetDeviceCount);
    if (!count)
        return keep(INVALID_VALUE);
    *count = settings.devices;
    return keep(settings.devices ? SUCCESS : NO_DEVICE);
}

API int hipSetDevice(int device) {
    ENTER(hipSetDevice);
    if (int e = check(device))
        return keep(e);
    chosen = device;
    return keep(SUCCESS);
}

API int hipGetDevice(int* device) {
    ENTER(hipGetDevice);
    if (!device)
        return keep(INVALID_VALUE);
    if (int e = check(chosen))
        return keep(e);
    *device = chosen;
    return keep(SUCCESS);
}

API int hipDeviceTotalMem(size_t* bytes, int device) {
    ENTER(hipDeviceTotalMem);
    if (int e = check(device))
        return keep(e);
    if (!bytes)
        return keep(INVALID_VALUE);
    *bytes = settings.memory;
    return keep(SUCCESS);
}

API int hipDeviceGetAttribute(int* value, int attribute, int device) {
    ENTER(hipDeviceGetAttribute);
    if (int e = check(device))
        return keep(e);
    return keep(value && attribute_of(facts(device), attribute, value) ? SUCCESS : INVALID_VALUE);
}

#ifndef HIPPLAN_HOST_ROCM5
API int hipGetDevicePropertiesR0600(void* properties, int device) {
    ENTER(hipGetDevicePropertiesR0600);
    if (int e = check(device))
        return keep(e);
    if (!properties)
        return keep(INVALID_VALUE);
    write_properties_r0600(facts(device), properties);
    return keep(SUCCESS);
}
#endif

API int hipGetDeviceProperties(void* properties, int device) {
    ENTER(hipGetDeviceProperties);
    if (int e = check(device))
        return keep(e);
    if (!properties)
        return keep(INVALID_VALUE);
    write_properties_r0000(facts(device), properties);
    return keep(SUCCESS);
}

API int hipDeviceSynchronize() {
    ENTER(hipDeviceSynchronize);
    NOT_IN_CAPTURE;
    int device = 0;
    if (int e = current_device(&device))
        return keep(e);
    int e = drain();
    return keep(e ? e : lost(device));
}
