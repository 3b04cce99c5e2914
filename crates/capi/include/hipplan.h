/*
 hipplan: neural-network graphs, compiled once, kept in a store, and executed in any later process.

 Generated from the sources of crates/capi; do not edit. Link with -lhipplan, or open libhipplan.so.0 with dlopen and
 look at hipplan_version() first.

 Statuses and errors
   Functions answer a hipplan_status_t. When it is not HIPPLAN_OK, hipplan_last_error() has the reason for a person to read, each
   thread its own. Nothing is thrown or unwound through these functions, and nothing is printed but warnings that belong to no call
   (hipplan_set_log).

 Ownership and lifetimes
   hipplan_open and the functions that bind give a handle, which the caller gives back with hipplan_close and hipplan_release. A plan
   outlives the hipplan_t that it was bound by. All else that is passed in, bytes of graphs, strings, structures, keys, is read during
   the call only and stays the caller's. Handles must be ones that were given and not given back; NULL is an error that is noticed.

 Structures
   Those with a struct_size grow in later minor versions, at their end. Set all fields to zero, then struct_size to sizeof, then what is
   needed: zero means what the version without the field did. A smaller or larger structure than the library's own is taken; in a larger
   one, what the library does not know must be zero. Input may be misaligned.

 Threads
   Every function may be called by any thread at any time, on the same handles too; except that hipplan_close and hipplan_release are
   called once, when no other call with that handle is under way. Several threads may execute one plan at once. After fork, a child must
   not use handles of a HIP device that were opened before; nor others, unless no other thread was in a call of this library then.

 Executing
   Bindings name tensors by uid: those of the graph that was given to hipplan_bind_by_graph, or canonical ordinals after
   hipplan_bind_by_key. Their order is free. A tensor of the plan's that is in memory must be there, once; uids that the plan does not
   know are ignored. For a scalar that is passed by value, it depends on what the graph says of it:

     scalar                        no entry                entry                      entry, HIPPLAN_EXECUTE_OVERRIDE
     constant of the graph         the constant            ignored, not read          ignored, not read
     runtime, with a default       the default             ignored, not read          host memory of one element, read during the call
     runtime, without a default    invalid argument        host memory, as there      host memory, as there

   Of a graph that has opted in to it (is_override_shape_enabled), tensors may have smaller dims and other strides in an execution: the
   override_ fields of hipplan_execute_options_t.

   On the device cpu an execution has finished when the call returns. On a HIP device it has been put on the stream: scalars have been
   read, and bindings and workspace are in use until the stream has come so far. Executions that may overlap, on several streams or
   threads, need a workspace each. Without kernel_ms and new shapes, hipplan_execute allocates nothing, waits for nothing and compiles
   nothing, and may be captured into a HIP graph; only when more than four threads prepare an execution of one plan at the same moment do
   the others wait for one of them, for about a microsecond. The device of the calling thread is left as it was.
*/

#ifndef HIPPLAN_H
#define HIPPLAN_H

#include <stddef.h>
#include <stdint.h>

/*
 Major version of the interface that this header describes. Libraries of another major version are not compatible.
 */
#define HIPPLAN_VERSION_MAJOR 0

/*
 Minor version of the interface that this header describes. A library of a higher one has all that this one has.
 */
#define HIPPLAN_VERSION_MINOR 1

/*
 `hipplan_open_options_t::flags`: nothing is written, the first store included.
 */
#define HIPPLAN_OPEN_READ_ONLY 1

/*
 `hipplan_open_options_t::flags`: a store that cannot be used is one warning and counts as empty; one that cannot be written is found out
 by the first `hipplan_compile`, which then keeps its plan for this process only.
 */
#define HIPPLAN_OPEN_DEGRADE 2

/*
 `hipplan_open_options_t::flags`: plans must have been compiled before. `hipplan_compile` compiles nothing: it answers `HIPPLAN_OK` if a usable
 plan is stored, every byte of which it reads; if not, `HIPPLAN_MISS`, `HIPPLAN_WRONG_TARGET`, `HIPPLAN_STALE` or `HIPPLAN_UNREADABLE`. Nothing
 is written, as with `HIPPLAN_OPEN_READ_ONLY`.
 */
#define HIPPLAN_OPEN_REQUIRE_PRECOMPILED 4

/*
 `hipplan_execute_options_t::flags`: an entry for a scalar with a default replaces the default.
 */
#define HIPPLAN_EXECUTE_OVERRIDE 1

/*
 `level` of a log line: something failed.
 */
#define HIPPLAN_LOG_ERROR 1

/*
 `level` of a log line: something is not as it should be, and work goes on.
 */
#define HIPPLAN_LOG_WARNING 2

/*
 A plan on a device, ready to execute: by several threads at once, too. Released by one thread, when no other uses it any more.
 */
typedef struct hipplan_plan_t hipplan_plan_t;

/*
 Stores and a device. May be used by any number of threads at once; closed by one, when no other uses it any more.
 */
typedef struct hipplan_t hipplan_t;

/*
 What a function answers: one of the `HIPPLAN_` codes below. A later minor version may answer codes that are not listed here.
 */
typedef int32_t hipplan_status_t;

/*
 Takes log lines: `level` is a `HIPPLAN_LOG_` number, `text` is valid during the call and ends without a line break.
 */
typedef void (*hipplan_log_t)(int32_t level,
                              const char *text,
                              void *user);

/*
 What is opened. All strings are read during the call only.
 */
typedef struct {
    /*
     `sizeof(hipplan_open_options_t)`.
     */
    size_t struct_size;
    /*
     Folders of stores, and bundles. A lookup walks them in this order. The first, if it is no bundle, is written by `hipplan_compile` and made
     if it is not there; the others are only read, and so is a bundle in the first place, also with `HIPPLAN_OPEN_DEGRADE`. None (NULL and 0): those that the `hipplan` command uses, as `hipplan store where` tells:
     the store that `HIPPLAN_STORE` names, or the user's own, and the layers that `HIPPLAN_LAYERS` names.
     */
    const char *const *stores;
    /*
     How many.
     */
    size_t store_count;
    /*
     `cpu`, or `hip:N` for the HIP device with that number, or `hip` or NULL for the calling thread's current HIP device.
     */
    const char *device;
    /*
     `HIPPLAN_OPEN_` flags.
     */
    uint32_t flags;
    /*
     Must be 0.
     */
    uint32_t reserved;
} hipplan_open_options_t;

/*
 Key of a graph or a plan: 32 bytes that depend on its content alone.
 */
typedef struct {
    /*
     As `hipplan show` prints them, two digits a byte.
     */
    uint8_t bytes[32];
} hipplan_key_t;

/*
 Which plan is bound.
 */
typedef struct {
    /*
     `sizeof(hipplan_bind_options_t)`.
     */
    size_t struct_size;
    /*
     Bytes of workspace that there will be; UINT64_MAX for any number. The first stored plan that needs at most this is bound.
     */
    uint64_t max_workspace;
} hipplan_bind_options_t;

/*
 A tensor of an execution.
 */
typedef struct {
    /*
     Uid of the tensor: as the graph numbers it that the plan was bound by, or its canonical ordinal if the plan was bound by key.
     */
    int64_t uid;
    /*
     Memory of the plan's device, for the tensor's whole span, aligned for an element; host memory of one element of the tensor's type for a
     scalar that is supplied when executing.
     */
    void *pointer;
} hipplan_binding_t;

/*
 How a plan is executed.
 */
typedef struct {
    /*
     `sizeof(hipplan_execute_options_t)`.
     */
    size_t struct_size;
    /*
     `HIPPLAN_EXECUTE_` flags.
     */
    uint32_t flags;
    /*
     Not NULL: the call waits until the execution has finished and writes the milliseconds that it took on the device. Such a call allocates,
     and it fails while the stream is being captured.
     */
    float *kernel_ms;
    /*
     How many tensors have another shape in this execution than the graph states. The graph must have opted in to that
     (`is_override_shape_enabled`), and the rest of the fields are read only if this is not 0. The first execution with a set of shapes
     checks them and allocates, and where threads execute at once, the first of each may; repeating the shapes of the execution before does not.
     */
    size_t override_count;
    /*
     Their uids, each of which is bound too: tensors that are neither passed by value nor virtual, each once.
     */
    const int64_t *override_uids;
    /*
     The number of dims of each, which is the number that the graph states.
     */
    const uint32_t *override_ranks;
    /*
     The dims of each, in an array that is aligned: from 1 to what the graph states, which is the largest.
     */
    const int64_t *const *override_dims;
    /*
     The strides of each, in an array that is aligned: in elements, each at least 1. What is bound holds the span of this shape.
     */
    const int64_t *const *override_strides;
} hipplan_execute_options_t;

/*
 What has been done with a `hipplan_t` and its plans.
 */
typedef struct {
    /*
     `sizeof(hipplan_counters_t)`, set by the caller.
     */
    size_t struct_size;
    /*
     Calls of `hipplan_find` and the functions that bind.
     */
    uint64_t lookups;
    /*
     Lookups that found a plan.
     */
    uint64_t hits;
    /*
     Lookups that found none, or none that needs so little workspace.
     */
    uint64_t misses;
    /*
     Graphs that were compiled.
     */
    uint64_t compiles;
    /*
     Plans that were bound.
     */
    uint64_t binds;
    /*
     Code objects that were loaded onto the device. Plans share them.
     */
    uint64_t module_loads;
    /*
     Executions that were put on a stream, or finished on the CPU.
     */
    uint64_t executions;
    /*
     Calls that answered something other than `HIPPLAN_OK`, `HIPPLAN_MISS` and its like.
     */
    uint64_t failures;
} hipplan_counters_t;

/*
 Done.
 */
#define HIPPLAN_OK 0

/*
 An argument cannot be used: a null pointer, a graph that is none, a tensor that is missing among the bindings.
 */
#define HIPPLAN_INVALID_ARGUMENT 1

/*
 No usable plan is stored: none, or only damaged ones, or ones of another version. The text says why for every store and target. Not counted
 as a failure.
 */
#define HIPPLAN_MISS 2

/*
 No engine takes the graph, or it has no key, or this library has no compiler.
 */
#define HIPPLAN_UNSUPPORTED 3

/*
 A store cannot be opened or written.
 */
#define HIPPLAN_STORE 4

/*
 A plan was found, whole, and cannot be loaded on the device.
 */
#define HIPPLAN_PLAN 5

/*
 HIP is absent, or failed.
 */
#define HIPPLAN_DEVICE 6

/*
 Memory of the host or the device is exhausted.
 */
#define HIPPLAN_OUT_OF_MEMORY 7

/*
 The workspace is too small or badly aligned; or plans are stored, and every one needs more than was allowed.
 */
#define HIPPLAN_WORKSPACE 8

/*
 A compiler failed.
 */
#define HIPPLAN_COMPILE 9

/*
 A defect of hipplan. Please report the text.
 */
#define HIPPLAN_INTERNAL 10

/*
 `HIPPLAN_OPEN_REQUIRE_PRECOMPILED`: no plan is stored for the device's targets, and there is one for another. As `HIPPLAN_MISS`, not counted
 as a failure.
 */
#define HIPPLAN_WRONG_TARGET 11

/*
 `HIPPLAN_OPEN_REQUIRE_PRECOMPILED`: a plan is stored, and nothing here loads it: another hipplan or another plugin wrote it. Not counted as a
 failure.
 */
#define HIPPLAN_STALE 12

/*
 `HIPPLAN_OPEN_REQUIRE_PRECOMPILED`: a plan is stored, or a record that names one, and it is damaged, lacks a code object, or cannot be read; or
 no store could be opened at all. Not counted as a failure.
 */
#define HIPPLAN_UNREADABLE 13

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The version of the interface that the loaded library has: major in the upper 16 bits, minor in the lower 16. Usable if the major version is
 that of the header and the minor version at least that of what is called.
 */
uint32_t hipplan_version(void);

/*
 The name of a status, such as `HIPPLAN_MISS`; a constant, also for a number that is none.
 */
const char *hipplan_status_name(hipplan_status_t status);

/*
 What the calling thread's last call that failed has to say, in English, without a line break at its end: what was found, what was expected,
 what to do. "" if none has failed. A call that succeeds leaves it as it is. Valid until the thread's next call of a function of this library.
 */
const char *hipplan_last_error(void);

/*
 Has log lines given to a function, in place of standard error; NULL: to standard error again. For the whole process, and from any of its
 threads, also from within other functions of this library. Only warnings and errors are logged, and nothing that is also answered by a call.
 The function must not unwind. A call of the earlier function may still be under way in another thread when this returns.
 */
void hipplan_set_log(hipplan_log_t log,
                     void *user);

/*
 Opens stores for a device. `options` may be NULL for the default store and the current HIP device.

 HIP is the library that the process has loaded, otherwise the one that the system has; `HIPPLAN_HIP_LIBRARY` names another. The hipDNN
 engine plugins that `HIPPLAN_PLUGINS` names are loaded; one that cannot be used is warned of, and its plans count as missing.
 `HIPPLAN_STORE`: a store is unusable, or none is named and there is no place for the default one. `HIPPLAN_DEVICE`: there is no HIP, or no such device. On failure, `*library` is NULL.
 */
hipplan_status_t hipplan_open(const hipplan_open_options_t *options,
                              hipplan_t **library);

/*
 Closes stores. NULL is no error. Plans that were bound stay usable.
 */
void hipplan_close(hipplan_t *library);

/*
 The ordinal of the calling thread's current HIP device.
 */
hipplan_status_t hipplan_hip_current_device(int32_t *ordinal);

/*
 The key of a graph: the same for graphs that differ in numbering, names and order only.

 `graph` is a graph artifact, a bare hipDNN buffer or a hipDNN container, of any alignment; hipDNN JSON is taken as well. It is checked in full
 and not kept. `HIPPLAN_INVALID_ARGUMENT`: it is no graph. `HIPPLAN_UNSUPPORTED`: it has no key.
 */
hipplan_status_t hipplan_graph_key(const void *graph,
                                   size_t size,
                                   hipplan_key_t *key);

/*
 Whether a usable plan is stored for the graph with this key and the device: `HIPPLAN_OK`, or `HIPPLAN_MISS`. Loads nothing onto the device.
 */
hipplan_status_t hipplan_find(const hipplan_t *library,
                              const hipplan_key_t *key);

/*
 Loads the plan of a graph. Bindings then name tensors by the graph's own uids. `options` may be NULL. Nothing is compiled.

 Stores are walked in order; in each, the first stored plan is taken that is whole, that can be loaded and that needs no more workspace than
 allowed. `HIPPLAN_MISS`: there is none. `HIPPLAN_WORKSPACE`: there are some, and all need more. `HIPPLAN_PLAN`, `HIPPLAN_DEVICE`: one was found
 and cannot be loaded. On failure, `*plan` is NULL.
 */
hipplan_status_t hipplan_bind_by_graph(const hipplan_t *library,
                                       const void *graph,
                                       size_t size,
                                       const hipplan_bind_options_t *options,
                                       hipplan_plan_t **plan);

/*
 Loads the plan of the graph with this key. Bindings then name tensors by canonical ordinal, as `hipplan show KEY` lists them. For the rest
 as `hipplan_bind_by_graph`.
 */
hipplan_status_t hipplan_bind_by_key(const hipplan_t *library,
                                     const hipplan_key_t *key,
                                     const hipplan_bind_options_t *options,
                                     hipplan_plan_t **plan);

/*
 Makes sure that the stores hold a plan of the graph for the device, the first one if none does, as `hipplan compile` does: compiles it if need be, which takes from
 milliseconds to minutes, and starts compilers as child processes, never the calling program itself.

 `HIPPLAN_UNSUPPORTED`: no engine takes the graph, there is no compiler for the device, or this library was built without one. `HIPPLAN_COMPILE`: a
 compiler failed. `HIPPLAN_STORE`: the store cannot be written. Opened with `HIPPLAN_OPEN_REQUIRE_PRECOMPILED`, nothing is compiled: see there.
 */
hipplan_status_t hipplan_compile(const hipplan_t *library,
                                 const void *graph,
                                 size_t size);

/*
 Bytes of workspace that an execution needs; 0 for NULL.
 */
uint64_t hipplan_plan_workspace_size(const hipplan_plan_t *plan);

/*
 The plan's own key, which tells apart plans of one graph.
 */
hipplan_status_t hipplan_plan_key(const hipplan_plan_t *plan,
                                  hipplan_key_t *key);

/*
 Executes a plan once. See "Executing" at the top of this file.

 `workspace` is memory of the device with at least `hipplan_plan_workspace_size` bytes, at a multiple of 256; NULL and 0 where none is needed.
 `stream` is a `hipStream_t` of the plan's device, NULL for the default stream; always NULL on the device `cpu`. `options` may be NULL.

 `HIPPLAN_INVALID_ARGUMENT`: a binding is missing, twice there, null or badly aligned, or a shape is not one that the graph allows; the text
 names its uid and tensor, and nothing was executed. `HIPPLAN_WORKSPACE`: too small or badly aligned, nothing was executed. `HIPPLAN_DEVICE`: HIP failed.
 */
hipplan_status_t hipplan_execute(hipplan_plan_t *plan,
                                 const hipplan_binding_t *bindings,
                                 size_t count,
                                 void *workspace,
                                 size_t workspace_size,
                                 void *stream,
                                 const hipplan_execute_options_t *options);

/*
 Gives a plan back. NULL is no error. No execution of it may be prepared in another thread meanwhile; those on a stream must have finished.
 */
void hipplan_release(hipplan_plan_t *plan);

/*
 What has been done with a handle and its plans so far. `counters->struct_size` is set by the caller.
 */
hipplan_status_t hipplan_counters(const hipplan_t *library,
                                  hipplan_counters_t *counters);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HIPPLAN_H */
