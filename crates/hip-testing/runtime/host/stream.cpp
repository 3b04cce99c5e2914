// Streams and events. Work happens in the order of the calls: at once, or where operations are deferred, at the next wait.
#include "host.h"

#include <chrono>
#include <deque>
#include <unordered_set>

namespace host {

namespace {

struct Stream {
    int device;
};

struct Event {
    int device;
    unsigned flags;
    bool recorded = false, pending = false;
    std::chrono::steady_clock::time_point at;
};

struct Deferred {
    int device;
    std::function<int()> operation;
};

std::unordered_set<Stream*> streams;
std::unordered_set<Event*> events;
std::deque<Deferred> queue;

Event* event_of(void* handle) {
    Event* event = static_cast<Event*>(handle);
    return events.count(event) ? event : nullptr;
}

}  // namespace

int stream_device(void* stream, int* out) {
    if (!stream)
        return current_device(out);
    if (!streams.count(static_cast<Stream*>(stream)))
        return INVALID_HANDLE;
    *out = static_cast<Stream*>(stream)->device;
    return lost(*out);
}

int submit(int device, std::function<int()> operation) {
    if (!settings.deferred && queue.empty())
        return operation();
    queue.push_back({device, std::move(operation)});
    return settings.deferred ? static_cast<int>(SUCCESS) : drain();
}

int drain() {
    int first = SUCCESS;
    while (!queue.empty()) {
        Deferred next = std::move(queue.front());
        queue.pop_front();
        int e = lost(next.device);
        if (!e)
            e = next.operation();
        if (!first)
            first = e;
    }
    return first;
}

}  // namespace host

using namespace host;

API int hipStreamCreateWithFlags(void** out, unsigned flags) {
    ENTER(hipStreamCreateWithFlags);
    int device = 0;
    if (int e = current_device(&device))
        return keep(e);
    if (!out || flags > 1)
        return keep(INVALID_VALUE);
    Stream* stream = new Stream{device};
    streams.insert(stream);
    ++live.streams;
    *out = stream;
    return keep(SUCCESS);
}

API int hipStreamDestroy(void* stream) {
    ENTER(hipStreamDestroy);
    if (!streams.count(static_cast<Stream*>(stream)))
        return keep(INVALID_HANDLE);
    int e = drain();
    streams.erase(static_cast<Stream*>(stream));
    delete static_cast<Stream*>(stream);
    --live.streams;
    return keep(e);
}

API int hipStreamSynchronize(void* stream) {
    ENTER(hipStreamSynchronize);
    int device = 0;
    if (int e = stream_device(stream, &device))
        return keep(e);
    int e = drain();
    return keep(e ? e : lost(device));
}

API int hipStreamWaitEvent(void* stream, void* event, unsigned flags) {
    ENTER(hipStreamWaitEvent);
    int device = 0;
    if (int e = stream_device(stream, &device))
        return keep(e);
    // The order of the calls is an order that every wait permits.
    return keep(!event_of(event) ? INVALID_HANDLE : flags ? INVALID_VALUE : SUCCESS);
}

API int hipEventCreateWithFlags(void** out, unsigned flags) {
    ENTER(hipEventCreateWithFlags);
    int device = 0;
    if (int e = current_device(&device))
        return keep(e);
    if (!out)
        return keep(INVALID_VALUE);
    Event* event = new Event{};
    event->device = device;
    event->flags = flags;
    events.insert(event);
    ++live.events;
    *out = event;
    return keep(SUCCESS);
}

API int hipEventDestroy(void* handle) {
    ENTER(hipEventDestroy);
    Event* event = event_of(handle);
    if (!event)
        return keep(INVALID_HANDLE);
    int e = drain();
    events.erase(event);
    delete event;
    --live.events;
    return keep(e);
}

API int hipEventRecord(void* handle, void* stream) {
    ENTER(hipEventRecord);
    int device = 0;
    if (int e = stream_device(stream, &device))
        return keep(e);
    Event* event = event_of(handle);
    if (!event || event->device != device)
        return keep(INVALID_HANDLE);
    event->recorded = event->pending = true;
    return keep(submit(device, [=] {
        event->pending = false;
        event->at = std::chrono::steady_clock::now();
        return static_cast<int>(SUCCESS);
    }));
}

API int hipEventSynchronize(void* handle) {
    ENTER(hipEventSynchronize);
    Event* event = event_of(handle);
    if (!event)
        return keep(INVALID_HANDLE);
    if (int e = lost(event->device))
        return keep(e);
    return keep(event->pending ? drain() : SUCCESS);
}

API int hipEventQuery(void* handle) {
    ENTER(hipEventQuery);
    Event* event = event_of(handle);
    if (!event)
        return keep(INVALID_HANDLE);
    if (int e = lost(event->device))
        return keep(e);
    return keep(event->pending ? NOT_READY : SUCCESS);
}

API int hipEventElapsedTime(float* milliseconds, void* from, void* to) {
    ENTER(hipEventElapsedTime);
    Event *first = event_of(from), *second = event_of(to);
    if (!milliseconds)
        return keep(INVALID_VALUE);
    if (!first || !second || !first->recorded || !second->recorded || (first->flags | second->flags) & EVENT_DISABLE_TIMING)
        return keep(INVALID_HANDLE);
    if (first->pending || second->pending)
        return keep(NOT_READY);
    *milliseconds = std::chrono::duration<float, std::milli>(second->at - first->at).count();
    return keep(SUCCESS);
}
