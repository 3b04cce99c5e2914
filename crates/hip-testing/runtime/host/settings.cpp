// Settings, call counts and injected faults.
//
// Each is a variable of the environment, read once, and a key of `hipplan_host_configure`, without the prefix, for tests that change it
// while they run:
//
//   HIPPLAN_HOST_HIP_DEVICES     number of devices, 0 to 8; 1
//   HIPPLAN_HOST_HIP_ARCH        the arch name they answer; `host`. With an AMD name, modules are AMD code objects and kernels their twins
//   HIPPLAN_HOST_HIP_TWINS       folder of the twins, NAME.so each
//   HIPPLAN_HOST_HIP_MEMORY      bytes of a device; 16 GiB
//   HIPPLAN_HOST_HIP_POISON      the byte that fresh, freed and shared memory is filled with, or `none`; 0xff: a NaN in every type
//   HIPPLAN_HOST_HIP_THREADS     threads that share the blocks of a launch; 1
//   HIPPLAN_HOST_HIP_ORDER       turns of a block's threads: `forward`, or `reverse`, which shows missing barriers
//   HIPPLAN_HOST_HIP_DEFERRED    1: work on streams happens at the next wait, not at once
//   HIPPLAN_HOST_HIP_LOST        N or N:CODE: after N launches on a device every call there fails with the code; 719
//   HIPPLAN_HOST_HIP_FAIL        NAME:N:CODE, by commas: the N-th call of a function from now fails with the code; N+: and all later ones
//   HIPPLAN_HOST_HIP_LAUNCH      `run`; `skip`: launches are checked and do nothing, and are not counted as kernels
//   HIPPLAN_HOST_HIP_NAIVE       MIOpen's naive convolutions: `run`; `skip`: launches do nothing; `missing`: they are not found
//   HIPPLAN_HOST_HIP_COUNTS      file that is written at exit: a line "COUNT NAME" for each function called, and for events of other kinds
//   HIPPLAN_HOST_HIP_LEAKS       1: what is left at exit is reported on stderr; `fail`: and the process ends with code 66
#include "host.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <unistd.h>
#include <vector>

namespace host {

std::recursive_mutex mutex;
Settings settings;
Live live;

namespace {

struct Fault {
    std::string name;
    uint64_t left;  // calls until the one that fails
    bool stays;
    int code;
};

std::vector<Fault> faults;
EntryPoint* entry_points = nullptr;
std::map<std::string, uint64_t>& events() {
    static auto* events = new std::map<std::string, uint64_t>;
    return *events;
}
uint64_t launches[MAX_DEVICES];
pid_t owner = 0;
int report_leaks = 0;
thread_local int last_error = 0;

bool number(const std::string& text, uint64_t* out) {
    char* end = nullptr;
    *out = strtoull(text.c_str(), &end, 0);
    return !text.empty() && text[0] != '-' && *end == 0;
}

std::vector<std::string> split(const std::string& text, char by) {
    std::vector<std::string> parts(1);
    for (char c : text)
        if (c == by)
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

bool configure(const std::string& key, const std::string& value) {
    uint64_t n = 0;
    bool is_number = number(value, &n);
    Settings& s = settings;
    if (key == "DEVICES" && is_number && n <= MAX_DEVICES)
        s.devices = static_cast<int>(n);
    else if (key == "ARCH" && !value.empty() && value.size() < 256)
        s.arch = value;
    else if (key == "TWINS")
        s.twins = value;
    else if (key == "MEMORY" && is_number)
        s.memory = n;
    else if (key == "POISON" && value == "none")
        s.poison = 256;
    else if (key == "POISON" && is_number && n < 256)
        s.poison = static_cast<unsigned>(n);
    else if (key == "THREADS" && is_number && n >= 1 && n <= 64)
        s.threads = static_cast<unsigned>(n);
    else if (key == "ORDER" && (value == "forward" || value == "reverse"))
        s.reverse = value == "reverse";
    else if (key == "DEFERRED" && is_number)
        s.deferred = n != 0;
    else if (key == "LOST") {
        auto parts = split(value, ':');
        uint64_t code = LAUNCH_FAILURE;
        if (parts.size() > 2 || !number(parts[0], &n) || (parts.size() == 2 && !number(parts[1], &code)))
            return value.empty() && (s.lost_after = UINT64_MAX, true);
        s.lost_after = n;
        s.lost_code = static_cast<int>(code);
        memset(launches, 0, sizeof launches);
    } else if (key == "FAIL") {
        std::vector<Fault> next;
        for (auto& one : split(value, ',')) {
            auto parts = split(one, ':');
            if (value.empty())
                break;
            if (parts.size() != 3)
                return false;
            bool stays = !parts[1].empty() && parts[1].back() == '+';
            if (stays)
                parts[1].pop_back();
            uint64_t nth = 0, code = 0;
            if (!number(parts[1], &nth) || nth == 0 || !number(parts[2], &code) || code == 0)
                return false;
            next.push_back({parts[0], nth, stays, static_cast<int>(code)});
        }
        faults = std::move(next);
    } else if (key == "LAUNCH" && (value == "run" || value == "skip"))
        s.idle = value == "skip";
    else if (key == "NAIVE" && (value == "run" || value == "skip" || value == "missing"))
        s.naive = value == "run" ? Naive::RUN : value == "skip" ? Naive::SKIP : Naive::MISSING;
    else if (key == "COUNTS")
        s.counts = value;
    else if (key == "LEAKS" && (value == "fail" || is_number))
        report_leaks = value == "fail" ? 2 : n != 0;
    else
        return false;
    return true;
}

struct AtLoad {
    AtLoad() {
        owner = getpid();
        for (const char* key : {"DEVICES", "ARCH", "TWINS", "MEMORY", "POISON", "THREADS", "ORDER", "DEFERRED", "LOST", "FAIL", "LAUNCH", "NAIVE",
                                "COUNTS", "LEAKS"}) {
            std::string name = std::string("HIPPLAN_HOST_HIP_") + key;
            const char* value = getenv(name.c_str());
            if (value && *value && !configure(key, value)) {
                fprintf(stderr, "host HIP: %s=%s is not understood\n", name.c_str(), value);
                _exit(65);
            }
        }
    }
    ~AtLoad() {
        if (getpid() == owner && !settings.counts.empty())
            write_counts(settings.counts.c_str());
        Live l = live;
        bool leaked = l.allocations || l.host_allocations || l.modules || l.streams || l.events;
        if (!report_leaks || getpid() != owner || !leaked)
            return;
        fprintf(stderr, "host HIP: left at exit: %llu allocations of %llu bytes, %llu of host memory, %llu modules, %llu streams, %llu events\n",
                (unsigned long long)l.allocations, (unsigned long long)l.bytes, (unsigned long long)l.host_allocations,
                (unsigned long long)l.modules, (unsigned long long)l.streams, (unsigned long long)l.events);
        fflush(stderr);
        if (report_leaks == 2)
            _exit(66);
    }
} at_load;

}  // namespace

EntryPoint::EntryPoint(const char* name) : name_(name) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    next_ = entry_points;
    entry_points = this;
}

int EntryPoint::enter() {
    ++calls_;
    // A forked child has none of the parent's device state.
    if (getpid() != owner)
        return NOT_INITIALIZED;
    for (Fault& fault : faults) {
        if (fault.name != name_ || fault.left == 0)
            continue;
        if (--fault.left == 0) {
            if (fault.stays)
                fault.left = 1;
            return fault.code;
        }
    }
    return 0;
}

void count(const std::string& what) { ++events()[what]; }

uint64_t calls_of(const char* name) {
    auto event = events().find(name);
    if (event != events().end())
        return event->second;
    for (EntryPoint* e = entry_points; e; e = e->next_)
        if (!strcmp(e->name_, name))
            return e->calls_;
    return 0;
}

void write_counts(const char* path) {
    FILE* file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "host HIP: %s cannot be written\n", path);
        return;
    }
    for (EntryPoint* e = entry_points; e; e = e->next_)
        if (e->calls_)
            fprintf(file, "%llu %s\n", (unsigned long long)e->calls_, e->name_);
    for (auto& [name, n] : events())
        fprintf(file, "%llu %s\n", (unsigned long long)n, name.c_str());
    fclose(file);
}

void reset_calls() {
    for (EntryPoint* e = entry_points; e; e = e->next_)
        e->calls_ = 0;
    events().clear();
}

int keep(int code) {
    last_error = code;
    return code;
}

int lost(int device) { return launches[device] > settings.lost_after ? settings.lost_code : 0; }

void count_launch(int device) { ++launches[device]; }

}  // namespace host

using namespace host;

// Sets one of the settings above. 0, or -1 for one that is not understood.
API int hipplan_host_configure(const char* key, const char* value) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    return key && value && configure(key, value) ? 0 : -1;
}

// Seven 64-bit counts: live allocations, their bytes, live host allocations, modules, streams, events; and the most bytes there were.
API void hipplan_host_live(uint64_t* counts) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    memcpy(counts, &live, sizeof live);
}

// Counts an event of another library of the test, such as `compiler`.
API void hipplan_host_count(const char* what) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    count(what);
}

// Calls of a function since the library was loaded or they were reset. Of other events: `module`, one loaded; `kernel NAME`, one run;
// `compiler`, a run of the stand-in compiler.
API uint64_t hipplan_host_calls(const char* name) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    return calls_of(name);
}

API void hipplan_host_reset_calls() {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    reset_calls();
    live.peak_bytes = live.bytes;
}

API int hipGetLastError() {
    ENTER(hipGetLastError);
    int code = last_error;
    last_error = 0;
    return code;
}

API int hipPeekAtLastError() {
    ENTER(hipPeekAtLastError);
    return last_error;
}

API const char* hipGetErrorName(int code) { return error_name(code); }
API const char* hipGetErrorString(int code) { return error_text(code); }
