/* Stands between a process and the C library: fails the n-th call that touches a folder, or lets it move one byte only.
 *
 * HIPPLAN_SHIM_ROOT names the folder. A process arms this by readlink("/hipplan-shim/arm/<n>/<errno>"), where errno 0 means a short read
 * or write, and asks by readlink("/hipplan-shim/calls") how many calls were made since, and which. HIPPLAN_SHIM_ALWAYS=<call>:<errno>
 * fails every call of that name, wherever. For one thread at a time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static long made, fail_at, fail_with;
static char names[4096];

static int is_below(const char *path) {
    const char *root = getenv("HIPPLAN_SHIM_ROOT");
    return root && path && strncmp(path, root, strlen(root)) == 0;
}

static int is_fd_below(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

enum verdict { GO, FAIL, SHORT };

static enum verdict judge(const char *call, int below) {
    const char *always = getenv("HIPPLAN_SHIM_ALWAYS");
    size_t length = strlen(call);
    if (always && strncmp(always, call, length) == 0 && always[length] == ':') {
        errno = atoi(always + length + 1);
        return FAIL;
    }
    if (!below) return GO;
    made++;
    char entry[64];
    snprintf(entry, sizeof entry, " %s ", call);
    if (!strstr(names, entry) && strlen(names) + strlen(entry) < sizeof names) strcat(names, entry);
    if (made != fail_at) return GO;
    if (fail_with == 0) return SHORT;
    errno = (int)fail_with;
    return FAIL;
}

#define REAL(type, name, ...)                                                   \
    static type (*real)(__VA_ARGS__);                                           \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t readlink(const char *path, char *buffer, size_t size) {
    REAL(ssize_t, "readlink", const char *, char *, size_t);
    if (sscanf(path, "/hipplan-shim/arm/%ld/%ld", &fail_at, &fail_with) == 2) {
        made = 0;
        names[0] = 0;
        errno = ENOENT;
        return -1;
    }
    if (strcmp(path, "/hipplan-shim/calls") == 0) {
        char text[sizeof names + 32];
        size_t length = (size_t)snprintf(text, sizeof text, "%ld%s", made, names);
        if (length > size) length = size;
        memcpy(buffer, text, length);
        return (ssize_t)length;
    }
    return real(path, buffer, size);
}

#define OPEN(symbol)                                                            \
    int symbol(const char *path, int flags, ...) {                              \
        REAL(int, #symbol, const char *, int, ...);                             \
        mode_t mode = 0;                                                        \
        if (flags & (O_CREAT | O_TMPFILE)) {                                    \
            va_list rest;                                                       \
            va_start(rest, flags);                                              \
            mode = va_arg(rest, mode_t);                                        \
            va_end(rest);                                                       \
        }                                                                       \
        return judge("open", is_below(path)) == FAIL ? -1 : real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define ON_FD(type, symbol, call, parameters, arguments, failed, ...)           \
    type symbol parameters {                                                    \
        REAL(type, #symbol, __VA_ARGS__);                                       \
        return judge(call, is_fd_below(fd)) == FAIL ? (failed) : real arguments; \
    }
ON_FD(int, fsync, "fsync", (int fd), (fd), -1, int)
ON_FD(int, fdatasync, "fsync", (int fd), (fd), -1, int)
ON_FD(int, flock, "flock", (int fd, int how), (fd, how), -1, int, int)
ON_FD(int, futimens, "futimens", (int fd, const struct timespec times[2]), (fd, times), -1, int, const struct timespec *)
ON_FD(int, ftruncate, "ftruncate", (int fd, off_t size), (fd, size), -1, int, off_t)
ON_FD(int, ftruncate64, "ftruncate", (int fd, off64_t size), (fd, size), -1, int, off64_t)
ON_FD(int, fstat, "fstat", (int fd, struct stat *to), (fd, to), -1, int, struct stat *)
ON_FD(int, fstat64, "fstat", (int fd, struct stat64 *to), (fd, to), -1, int, struct stat64 *)

#define MOVING(symbol, call, pointer)                                           \
    ssize_t symbol(int fd, pointer buffer, size_t size, off64_t at) {           \
        REAL(ssize_t, #symbol, int, pointer, size_t, off64_t);                  \
        enum verdict verdict = judge(call, is_fd_below(fd));                    \
        if (verdict == FAIL) return -1;                                         \
        return real(fd, buffer, verdict == SHORT && size > 1 ? 1 : size, at);   \
    }
MOVING(pread, "pread", void *)
MOVING(pread64, "pread", void *)
MOVING(pwrite, "pwrite", const void *)
MOVING(pwrite64, "pwrite", const void *)

#define MAPPING(symbol)                                                         \
    void *symbol(void *at, size_t size, int protection, int flags, int fd, off64_t offset) { \
        REAL(void *, #symbol, void *, size_t, int, int, int, off64_t);          \
        if (fd >= 0 && judge("mmap", is_fd_below(fd)) == FAIL) return MAP_FAILED; \
        return real(at, size, protection, flags, fd, offset);                   \
    }
MAPPING(mmap)
MAPPING(mmap64)

#define ON_PATH(type, symbol, call, parameters, arguments, path, failed, ...)   \
    type symbol parameters {                                                    \
        REAL(type, #symbol, __VA_ARGS__);                                       \
        return judge(call, is_below(path)) == FAIL ? (failed) : real arguments; \
    }
ON_PATH(int, rename, "rename", (const char *from, const char *to), (from, to), from, -1, const char *, const char *)
ON_PATH(int, link, "link", (const char *from, const char *to), (from, to), from, -1, const char *, const char *)
ON_PATH(int, linkat, "link", (int old, const char *from, int new, const char *to, int flags), (old, from, new, to, flags), from, -1,
        int, const char *, int, const char *, int)
ON_PATH(int, renameat2, "rename", (int old, const char *from, int new, const char *to, unsigned flags), (old, from, new, to, flags), from,
        -1, int, const char *, int, const char *, unsigned)
ON_PATH(int, unlink, "unlink", (const char *path), (path), path, -1, const char *)
ON_PATH(int, mkdir, "mkdir", (const char *path, mode_t mode), (path, mode), path, -1, const char *, mode_t)
ON_PATH(int, lstat, "stat", (const char *path, struct stat *to), (path, to), path, -1, const char *, struct stat *)
ON_PATH(int, stat64, "stat", (const char *path, struct stat64 *to), (path, to), path, -1, const char *, struct stat64 *)
ON_PATH(int, lstat64, "stat", (const char *path, struct stat64 *to), (path, to), path, -1, const char *, struct stat64 *)

int statx(int fd, const char *path, int flags, unsigned mask, struct statx *to) {
    REAL(int, "statx", int, const char *, int, unsigned, struct statx *);
    /* Whether there is such a call is asked with no path at all, which the compiler takes to be impossible. */
    const char *volatile name = path;
    int has_name = name && *name;
    int below = has_name ? is_below(name) : is_fd_below(fd);
    return judge(has_name ? "stat" : "fstat", below) == FAIL ? -1 : real(fd, path, flags, mask, to);
}
