// Streams and events. Work happens in the order of the calls: at once, or where operations are deferred, at the next wait.
#include "host.h"

#include <chrono>
#include <deque>
#include <unordered_set>

namespace host {

namespace {

struct Stream {
    int device;
    unsigned flags;
};

struct Event {
    int device;
    unsigned flags;
    bool recorded = false, pending = false;
    uint64_t capture = 0;  // number of the capture that it was last recorded in
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

int create_stream(void** out, unsigned flags) {
    int device = 0;
    if (int e = current_device(&device))
        return e;
    if (!out || flags > 1)
        return INVALID_VALUE;
    Stream* stream = new Stream{device, flags};
    streams.insert(stream);
    ++live.streams;
    *out = stream;
    return SUCCESS;
}

int create_event(void** out, unsigned flags) {
    int device = 0;
    if (int e = current_device(&device))
        return e;
    if (!out)
        return INVALID_VALUE;
    Event* event = new Event{};
    event->device = device;
    event->flags = flags;
    events.insert(event);
    ++live.events;
    *out = event;
    return SUCCESS;
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

bool stream_is_blocking(void* stream) { return static_cast<Stream*>(stream)->flags == 0; }

int submit(void* stream, int device, std::function<int()> operation) {
    int code = 0;
    if (captured(stream, device, operation, &code))
        return code;
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

int record_event(void* handle, void* stream) {
    int device = 0;
    if (int e = stream_device(stream, &device))
        return e;
    Event* event = event_of(handle);
    if (!event || event->device != device)
        return INVALID_HANDLE;
    event->capture = number_of(capture_of(stream));
    // Of a captured event there is no time to be told.
    event->recorded = event->pending = event->capture == 0;
    if (event->capture)
        return SUCCESS;
    return submit(stream, device, [=] {
        event->pending = false;
        event->at = std::chrono::steady_clock::now();
        return static_cast<int>(SUCCESS);
    });
}

}  // namespace host

using namespace host;

API int hipStreamCreateWithFlags(void** out, unsigned flags) {
    ENTER(hipStreamCreateWithFlags);
    return keep(create_stream(out, flags));
}

API int hipStreamCreate(void** out) {
    ENTER(hipStreamCreate);
    return keep(create_stream(out, 0));
}

API int hipStreamDestroy(void* stream) {
    ENTER(hipStreamDestroy);
    if (!streams.count(static_cast<Stream*>(stream)))
        return keep(INVALID_HANDLE);
    stream_ended(stream);
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
    if (Capture* capture = capture_of(stream))
        return keep(invalidate(capture, STREAM_CAPTURE_UNSUPPORTED));
    if (!stream)
        NOT_IN_CAPTURE;
    int e = drain();
    return keep(e ? e : lost(device));
}

API int hipStreamWaitEvent(void* stream, void* event, unsigned flags) {
    ENTER(hipStreamWaitEvent);
    int device = 0;
    if (int e = stream_device(stream, &device))
        return keep(e);
    Event* awaited = event_of(event);
    if (!awaited)
        return keep(INVALID_HANDLE);
    if (flags)
        return keep(INVALID_VALUE);
    if (Capture* capture = capture_numbered(awaited->capture))
        return keep(stream ? join_capture(stream, capture) : invalidate(capture, STREAM_CAPTURE_IMPLICIT));
    if (Capture* capture = capture_of(stream))
        return keep(awaited->recorded ? invalidate(capture, STREAM_CAPTURE_ISOLATION) : SUCCESS);
    // The order of the calls is an order that every wait permits.
    return keep(SUCCESS);
}

API int hipEventCreateWithFlags(void** out, unsigned flags) {
    ENTER(hipEventCreateWithFlags);
    return keep(create_event(out, flags));
}

API int hipEventCreate(void** out) {
    ENTER(hipEventCreate);
    return keep(create_event(out, 0));
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
    return keep(record_event(handle, stream));
}

API int hipEventSynchronize(void* handle) {
    ENTER(hipEventSynchronize);
    Event* event = event_of(handle);
    if (!event)
        return keep(INVALID_HANDLE);
    if (Capture* capture = capture_numbered(event->capture))
        return keep(invalidate(capture, CAPTURED_EVENT));
    if (int e = lost(event->device))
        return keep(e);
    return keep(event->pending ? drain() : SUCCESS);
}

API int hipEventQuery(void* handle) {
    ENTER(hipEventQuery);
    Event* event = event_of(handle);
    if (!event)
        return keep(INVALID_HANDLE);
    if (Capture* capture = capture_numbered(event->capture))
        return keep(invalidate(capture, CAPTURED_EVENT));
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
    // A clock that stood still between them would tell a kernel of no time.
    if (first != second && *milliseconds == 0)
        *milliseconds = 1e-6f;
    return keep(SUCCESS);
}
