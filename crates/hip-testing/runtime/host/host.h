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

// What becomes of MIOpen's simulated kernels: they run, their launches do nothing, or they are not found.
enum class Naive { RUN, SKIP, MISSING };

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
    bool idle = false;
    Naive naive = Naive::RUN;
    std::string counts;
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
    friend void write_counts(const char* path);
    friend void reset_calls();
    const char* name_;
    uint64_t calls_ = 0;
    EntryPoint* next_;
};
uint64_t calls_of(const char* name);
void reset_calls();
void write_counts(const char* path);
// Counts an event that is no call: `calls_of` tells it too.
void count(const std::string& what);

// Begins every function: counted, perhaps failed on request, under the mutex.
#define ENTER(name)                                         \
    static host::EntryPoint entry_point(#name);             \
    std::lock_guard<std::recursive_mutex> lock(host::mutex); \
    if (int refused = entry_point.enter())                  \
    return host::keep(refused)

// ENTER of a function that gives the mutex away while it works.
#define ENTER_UNIQUE(name)                                    \
    static host::EntryPoint entry_point(#name);               \
    std::unique_lock<std::recursive_mutex> lock(host::mutex);  \
    if (int refused = entry_point.enter())                    \
    return host::keep(refused)

// In a function that must not be called while a stream of this thread is captured, behind ENTER.
#define NOT_IN_CAPTURE                    \
    if (int refused = refuse_in_capture()) \
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
// Whether a stream takes operations in one of its states. Of a valid stream.
bool stream_is_blocking(void* stream);
// Does an operation of a stream now, or on the next wait where operations are deferred; or records it where the stream is captured.
int submit(void* stream, int device, std::function<int()> operation);
// Records an event as hipEventRecord does.
int record_event(void* event, void* stream);
// Does what was deferred: 0, or the first error.
int drain();

// capture.cpp
class Capture;
// Of a call that no capture can hold: 0, or the error, and the captures that it breaks are invalid from then on.
int refuse_in_capture();
// Of work on a stream, or on the null stream: whether the operation was recorded, to be done when the graph is launched. `*code` is an
// error where it could neither be recorded nor may be done.
bool captured(void* stream, int device, std::function<int()>& operation, int* code);
// The capture that a stream is part of, or null.
Capture* capture_of(void* stream);
// Makes a stream part of the capture that an event was recorded in.
int join_capture(void* stream, Capture* capture);
// A capture's number, never used again; 0: of none.
uint64_t number_of(Capture* capture);
// The capture of a number, or null if it has ended.
Capture* capture_numbered(uint64_t number);
int invalidate(Capture* capture, int code);
void stream_ended(void* stream);

// naive.cpp
class NaiveKernel;
// MIOpen's naive convolution kernel of this name, or null.
const NaiveKernel* find_naive(const char* name);
// Bytes of its arguments, without the hidden ones.
unsigned naive_kernarg(const NaiveKernel* kernel);
// Whether the launch covers the tensors and they lie in memory.
int check_naive(const NaiveKernel* kernel, const unsigned grid[3], const char* kernarg);
void run_naive(const NaiveKernel* kernel, const char* kernarg);

struct Live {
    uint64_t allocations, bytes, host_allocations, modules, streams, events, peak_bytes;
};
extern Live live;

}  // namespace host

#endif
