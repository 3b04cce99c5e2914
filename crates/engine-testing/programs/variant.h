/* The switches that make the variants of the test plugin, with what they are when a build does not set them (`-DSWITCH=VALUE`).
 *
 * A required or optional function is left out by renaming it: `-DhipdnnEnginePluginSetStream=omitted`. */
#ifndef VARIANT_H
#define VARIANT_H

#include "hipdnn_engine_plugin.h"

/* Identity. Texts may be NULL. */
#ifndef PLUGIN_NAME
#define PLUGIN_NAME "hipplan test plugin"
#endif
#ifndef PLUGIN_VERSION
#define PLUGIN_VERSION "1.0.0"
#endif
#ifndef PLUGIN_TYPE
#define PLUGIN_TYPE HIPDNN_PLUGIN_TYPE_ENGINE
#endif
#ifndef API_VERSION
#define API_VERSION "1.2.0"
#endif
/* Names of the engines, an initialiser. Their ids are the names' hashes, unless ENGINE_IDS gives others, in the same order. */
#ifndef ENGINE_NAMES
#define ENGINE_NAMES {"HIPPLAN_TEST_ENGINE"}
#endif
/* Status with which names are answered; the name is given with SUCCESS alone. */
#ifndef ENGINE_NAME_STATUS
#define ENGINE_NAME_STATUS HIPDNN_PLUGIN_STATUS_SUCCESS
#endif

/* By-value scalars. */
/* Compiles scalars into its kernels, and declines a graph with a runtime scalar (RFC 0016, section 4.6). */
#ifndef FOLDS
#define FOLDS 0
#endif
/* As hipDNN's own providers: the default of a runtime scalar is taken whatever the pack has. */
#ifndef IGNORES_OVERRIDES
#define IGNORES_OVERRIDES 0
#endif
/* Does not know the flag of runtime scalars, like a plugin from before it: such a tensor is a device buffer for it. */
#ifndef KNOWS_NO_RUNTIME
#define KNOWS_NO_RUNTIME 0
#endif
/* Fetches a device tensor of one element as a device would: 64 bytes. A host scalar that is taken for a device buffer then faults, if
 * no memory follows it. */
#ifndef FETCHES_LINES
#define FETCHES_LINES 0
#endif

/* Serialised contexts. */
#define HOOKS_NONE 0
#define HOOKS_WITH_ENGINE_ID 1
#define HOOKS_EXT 2
#define HOOKS_PLAIN 4
#define HOOKS_PLAIN_WITH_CONFIG 8
/* Families that are exported, added together; the two plain ones exclude each other, and WITH_ENGINE_ID has two functions of PLAIN. */
#ifndef HOOKS
#define HOOKS HOOKS_WITH_ENGINE_ID
#endif
/* Version written into payloads, and the only one that is read, unless ANY_PAYLOAD_VERSION. */
#ifndef PAYLOAD_VERSION
#define PAYLOAD_VERSION 1
#endif
#ifndef ANY_PAYLOAD_VERSION
#define ANY_PAYLOAD_VERSION 0
#endif
/* Payloads are written without the defaults of runtime scalars, which then are user-supplied in a restored context. */
#ifndef FORGETS_DEFAULTS
#define FORGETS_DEFAULTS 0
#endif
/* Payloads are written without the set of runtime scalars, which then are device buffers in a restored context. */
#ifndef FORGETS_RUNTIME_SET
#define FORGETS_RUNTIME_SET 0
#endif

/* Details, and workspace. */
#ifndef KNOBS
#define KNOBS 1
#endif
/* Bytes of workspace at the knob's smallest setting, all of which are written by an execution, up to a mebibyte. */
#ifndef WORKSPACE_BYTES
#define WORKSPACE_BYTES 0
#endif

/* Misbehaviour. */
/* Number of engines told in the first call and in the second, if not the true one. */
#ifndef FIRST_COUNT
#define FIRST_COUNT ENGINE_COUNT
#endif
#ifndef SECOND_COUNT
#define SECOND_COUNT ENGINE_COUNT
#endif
/* Ids said to be applicable (APPLICABLE_IDS, an initialiser), if not those of ENGINE_NAMES, and how many there are said to be. */
#ifndef APPLICABLE_COUNT
#define APPLICABLE_COUNT -1
#endif
/* Of the ids, how many are stored, if not all. */
#ifndef APPLICABLE_STORES
#define APPLICABLE_STORES -1
#endif
/* Every handle is the first one. */
#ifndef SAME_HANDLE
#define SAME_HANDLE 0
#endif
#ifndef NULL_HANDLE
#define NULL_HANDLE 0
#endif
#ifndef NULL_CONTEXT
#define NULL_CONTEXT 0
#endif
#define DETAILS_RIGHT 0
#define DETAILS_NULL 1
#define DETAILS_EMPTY 2
#define DETAILS_GARBAGE 3
#define DETAILS_OF_ANOTHER_ENGINE 4
#ifndef DETAILS
#define DETAILS DETAILS_RIGHT
#endif
#define SERIALIZED_RIGHT 0
#define SERIALIZED_NULL 1
#define SERIALIZED_EMPTY 2
#ifndef SERIALIZED
#define SERIALIZED SERIALIZED_RIGHT
#endif
/* An entry (see record.h) that always fails, with what status, and whether it does its work before it says so. */
#ifndef FAILS_IN
#define FAILS_IN ENTRY_NONE
#endif
#ifndef FAILS_WITH
#define FAILS_WITH HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR
#endif
#ifndef FAILS_LATE
#define FAILS_LATE 0
#endif
/* What is told of the last error: the text, a very long one without an end in sight, an empty one, or a null pointer. */
#define ERROR_TEXT_RIGHT 0
#define ERROR_TEXT_LONG 1
#define ERROR_TEXT_EMPTY 2
#define ERROR_TEXT_NULL 3
/* What a failure on purpose says, if not which entry it is. */
#ifndef FAILURE_TEXT
#define FAILURE_TEXT NULL
#endif
#ifndef ERROR_TEXT
#define ERROR_TEXT ERROR_TEXT_RIGHT
#endif

#endif
