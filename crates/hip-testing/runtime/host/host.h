// State of the host runtime that its files share. One mutex guards all of it but what says otherwise.
#ifndef HIPPLAN_HOST_H
#define HIPPLAN_HOST_H

#include "../common/hip_abi.h"

#include <functional>
#include <mutex>
#include <string>

#define API extern "C" __attribute__((visibility("default")))

namespace host {

constexpr int MAX_DEVICES = 8;

// What the environment, or `hipplan_host_configure`, says. settings.cpp lists the names.
struct Settings {
    int devices = 1;
    std::string arch = "host";
    std::string twins;
    uint64_t memory = 16ull << 30;
    unsigned poison = 0xff;
    unsigned threads = 1;
    bool reverse = false;
    bool deferred = false;
    uint64_t lost_after = UINT64_MAX;
    int lost_code = LAUNCH_FAILURE;
};

extern std::recursive_mutex mutex;
extern Settings settings;

// One per entry point: counts its calls, and decides whether a call fails before it does anything.
class EntryPoint {
public:
    explicit EntryPoint(const char* name);
    int enter();

private:
    friend uint64_t calls_of(const char* name);
    friend void reset_calls();
    const char* name_;
    uint64_t calls_ = 0;
    EntryPoint* next_;
};
uint64_t calls_of(const char* name);
void reset_calls();

// Begins every function: counted, perhaps failed on request, under the mutex.
#define ENTER(name)                                         \
    static host::EntryPoint entry_point(#name);             \
    std::lock_guard<std::recursive_mutex> lock(host::mutex); \
    if (int refused = entry_point.enter())                  \
    return host::keep(refused)

// Remembers the result for hipGetLastError, and returns it.
int keep(int code);

// The calling thread's device, or the error of a process without one.
int current_device(int* out);
// 0, or the error of a device that is lost.
int lost(int device);
void count_launch(int device);

// memory.cpp
struct Range {
    int device;  // -1: page-locked host memory
    char* begin;
    size_t size;
};
// The live allocation that an address lies in.
bool find_range(const void* address, Range* out);

// stream.cpp
// The device of a stream; of the null stream, the current one.
int stream_device(void* stream, int* out);
// Does an operation now, or on the next wait where operations are deferred.
int submit(int device, std::function<int()> operation);
// Does what was deferred: 0, or the first error.
int drain();

struct Live {
    uint64_t allocations, bytes, host_allocations, modules, streams, events, peak_bytes;
};
extern Live live;

}  // namespace host

#endif
