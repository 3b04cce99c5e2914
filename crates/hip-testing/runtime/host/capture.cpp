// Stream capture and graphs. A capture is a list of operations in the order of the calls, which is an order that every graph permits; a
// launch of the graph does them in that order. Nodes, and edges between them, cannot be seen.
//
// As on real devices, a call that cannot be captured fails and spoils the capture: hipStreamEndCapture then says so.
#include "host.h"

#include <memory>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace host {

enum Mode : int { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };

struct Operation {
    int device;
    std::function<int()> run;
};

using Operations = std::vector<Operation>;

class Capture {
public:
    uint64_t number;
    void* origin;
    int mode;
    std::thread::id thread;
    bool invalid = false;
    Operations operations;
};

namespace {

struct Graph {
    std::shared_ptr<const Operations> operations;
};

std::vector<std::unique_ptr<Capture>> captures;
std::unordered_map<void*, Capture*> capturing;  // by stream
std::unordered_set<Graph*> graphs, executables;
thread_local int thread_mode = GLOBAL;

void end(Capture* capture) {
    for (auto at = capturing.begin(); at != capturing.end();)
        at = at->second == capture ? capturing.erase(at) : std::next(at);
    for (size_t i = 0; i < captures.size(); ++i)
        if (captures[i].get() == capture) {
            captures.erase(captures.begin() + i);
            return;
        }
}

int instantiate(void** out, void* handle) {
    Graph* graph = static_cast<Graph*>(handle);
    if (!out || !graphs.count(graph))
        return INVALID_VALUE;
    Graph* executable = new Graph(*graph);
    executables.insert(executable);
    *out = executable;
    return SUCCESS;
}

int destroy(std::unordered_set<Graph*>& of, void* handle) {
    Graph* graph = static_cast<Graph*>(handle);
    if (!of.erase(graph))
        return INVALID_VALUE;
    // A launch that is deferred has its operations.
    delete graph;
    return SUCCESS;
}

}  // namespace

Capture* capture_of(void* stream) {
    auto at = capturing.find(stream);
    return at == capturing.end() ? nullptr : at->second;
}

uint64_t number_of(Capture* capture) { return capture ? capture->number : 0; }

Capture* capture_numbered(uint64_t number) {
    for (auto& capture : captures)
        if (capture->number == number)
            return capture.get();
    return nullptr;
}

int invalidate(Capture* capture, int code) {
    capture->invalid = true;
    return code;
}

int refuse_in_capture() {
    int code = SUCCESS;
    for (auto& capture : captures) {
        bool own = capture->thread == std::this_thread::get_id();
        if (capture->mode == RELAXED || thread_mode == RELAXED || (!own && (capture->mode == THREAD_LOCAL || thread_mode == THREAD_LOCAL)))
            continue;
        code = invalidate(capture.get(), STREAM_CAPTURE_UNSUPPORTED);
    }
    return code;
}

bool captured(void* stream, int device, std::function<int()>& operation, int* code) {
    *code = SUCCESS;
    if (!stream) {
        // The null stream waits for all streams that are not declared to be independent of it.
        for (auto& [other, capture] : capturing)
            if (stream_is_blocking(other))
                *code = invalidate(capture, STREAM_CAPTURE_IMPLICIT);
        return *code != SUCCESS;
    }
    Capture* capture = capture_of(stream);
    if (!capture)
        return false;
    if (capture->invalid)
        *code = STREAM_CAPTURE_INVALIDATED;
    else
        capture->operations.push_back({device, std::move(operation)});
    return true;
}

int join_capture(void* stream, Capture* capture) {
    Capture* present = capture_of(stream);
    if (present && present != capture) {
        invalidate(present, STREAM_CAPTURE_MERGE);
        return invalidate(capture, STREAM_CAPTURE_MERGE);
    }
    capturing[stream] = capture;
    return SUCCESS;
}

void stream_ended(void* stream) {
    Capture* capture = capture_of(stream);
    if (!capture)
        return;
    if (capture->origin == stream)
        end(capture);
    else {
        capture->invalid = true;
        capturing.erase(stream);
    }
}

}  // namespace host

using namespace host;

API int hipStreamBeginCapture(void* stream, int mode) {
    ENTER(hipStreamBeginCapture);
    int device = 0;
    if (!stream)
        return keep(STREAM_CAPTURE_UNSUPPORTED);
    if (int e = stream_device(stream, &device))
        return keep(e);
    if (mode < GLOBAL || mode > RELAXED)
        return keep(INVALID_VALUE);
    if (capture_of(stream))
        return keep(ILLEGAL_STATE);
    static uint64_t count = 0;
    auto capture = std::make_unique<Capture>();
    capture->number = ++count;
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capturing[stream] = capture.get();
    captures.push_back(std::move(capture));
    return keep(SUCCESS);
}

API int hipStreamEndCapture(void* stream, void** out) {
    ENTER(hipStreamEndCapture);
    int device = 0;
    if (!out)
        return keep(INVALID_VALUE);
    *out = nullptr;
    if (int e = stream_device(stream, &device))
        return keep(e);
    Capture* capture = capture_of(stream);
    if (!capture)
        return keep(ILLEGAL_STATE);
    if (capture->origin != stream)
        return keep(invalidate(capture, STREAM_CAPTURE_UNMATCHED));
    if (capture->mode != RELAXED && capture->thread != std::this_thread::get_id())
        return keep(STREAM_CAPTURE_WRONG_THREAD);
    bool invalid = capture->invalid;
    auto operations = std::make_shared<const Operations>(std::move(capture->operations));
    end(capture);
    if (invalid)
        return keep(STREAM_CAPTURE_INVALIDATED);
    Graph* graph = new Graph{std::move(operations)};
    graphs.insert(graph);
    *out = graph;
    return keep(SUCCESS);
}

// 0: not captured, 1: captured, 2: captured and spoilt.
API int hipStreamIsCapturing(void* stream, int* status) {
    ENTER(hipStreamIsCapturing);
    int device = 0;
    if (!status)
        return keep(INVALID_VALUE);
    if (int e = stream_device(stream, &device))
        return keep(e);
    Capture* capture = capture_of(stream);
    *status = !capture ? 0 : capture->invalid ? 2 : 1;
    return keep(SUCCESS);
}

API int hipThreadExchangeStreamCaptureMode(int* mode) {
    ENTER(hipThreadExchangeStreamCaptureMode);
    if (!mode || *mode < GLOBAL || *mode > RELAXED)
        return keep(INVALID_VALUE);
    std::swap(*mode, thread_mode);
    return keep(SUCCESS);
}

// The number of operations. There are no nodes to be had.
API int hipGraphGetNodes(void* handle, void** nodes, size_t* number) {
    ENTER(hipGraphGetNodes);
    Graph* graph = static_cast<Graph*>(handle);
    if (!number || !graphs.count(graph))
        return keep(INVALID_VALUE);
    if (nodes)
        return keep(NOT_SUPPORTED);
    *number = graph->operations->size();
    return keep(SUCCESS);
}

API int hipGraphInstantiate(void** out, void* graph, void**, char*, size_t) {
    ENTER(hipGraphInstantiate);
    NOT_IN_CAPTURE;
    return keep(instantiate(out, graph));
}

API int hipGraphInstantiateWithFlags(void** out, void* graph, unsigned long long) {
    ENTER(hipGraphInstantiateWithFlags);
    NOT_IN_CAPTURE;
    return keep(instantiate(out, graph));
}

API int hipGraphLaunch(void* handle, void* stream) {
    ENTER(hipGraphLaunch);
    Graph* executable = static_cast<Graph*>(handle);
    int device = 0;
    if (!executables.count(executable))
        return keep(INVALID_VALUE);
    if (int e = stream_device(stream, &device))
        return keep(e);
    // A graph in a graph is not simulated.
    if (Capture* capture = capture_of(stream))
        return keep(invalidate(capture, NOT_SUPPORTED));
    auto operations = executable->operations;
    return keep(submit(stream, device, [operations] {
        for (const Operation& operation : *operations)
            if (int e = operation.run())
                return e;
        return static_cast<int>(SUCCESS);
    }));
}

API int hipGraphDestroy(void* graph) {
    ENTER(hipGraphDestroy);
    return keep(destroy(graphs, graph));
}

API int hipGraphExecDestroy(void* executable) {
    ENTER(hipGraphExecDestroy);
    return keep(destroy(executables, executable));
}
