/* What the test programs share. */
#ifndef CHECK_H
#define CHECK_H

#include <hipplan.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, hipplan_last_error()); \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)

/* The call answers this status, and says all of this about it. */
#define FAILS(call, status, text)                                                                              \
    do {                                                                                                       \
        hipplan_status_t found_ = (call);                                                                      \
        if (found_ != (status) || !strstr(hipplan_last_error(), (text))) {                                     \
            fprintf(stderr, "%s:%d: %s gives %s, not %s with \"%s\"; last error: %s\n", __FILE__, __LINE__, #call, \
                    hipplan_status_name(found_), #status, (text), hipplan_last_error());                       \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)

#define GOOD(call) FAILS(call, HIPPLAN_OK, "")

/* The graph of the tests: y = x * alpha + beta, alpha supplied when executing, beta with the default 0.25. */
enum { X = 10, ALPHA = 20, BETA = 25, Y = 30, N = 4 };

static void* read_file(const char* path, size_t* size) {
    FILE* file = fopen(path, "rb");
    char* bytes;
    long length;
    CHECK(file);
    CHECK(fseek(file, 0, SEEK_END) == 0);
    length = ftell(file);
    CHECK(length > 0);
    rewind(file);
    bytes = (char*)malloc((size_t)length);
    CHECK(bytes && fread(bytes, 1, (size_t)length, file) == (size_t)length);
    fclose(file);
    *size = (size_t)length;
    return bytes;
}

static hipplan_t* open_stores(const char* const* stores, size_t count, const char* device, uint32_t flags) {
    hipplan_open_options_t options;
    hipplan_t* library = NULL;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.stores = stores;
    options.store_count = count;
    options.device = device;
    options.flags = flags;
    GOOD(hipplan_open(&options, &library));
    CHECK(library);
    return library;
}

#endif
