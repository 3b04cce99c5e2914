// What the host runtime hands to a kernel library, and gets back. Both sides compile this text; it includes nothing.
#ifndef HIPPLAN_HOST_RUN_H
#define HIPPLAN_HOST_RUN_H

// Raised whenever the struct or a meaning changes. A library exports `hp_host_version`.
#define HP_HOST_VERSION 1
#define HP_HOST_MAX_BLOCK 1024

// The part of a launch that one thread of the operating system does: blocks from a shared counter until it is at its end.
struct HpHostRun {
    void (*entry)(const void*);      // runs one thread of a block
    const void* kernarg;
    unsigned grid[3];
    unsigned block;                  // threads of a block
    unsigned reverse;                // threads take their turns from last to first
    unsigned poison;                 // 256: leave shared memory as it is, else the byte that it is filled with before each block
    unsigned long long blocks;       // grid[0] * grid[1] * grid[2]
    unsigned long long* next;        // first block that nobody has taken
    char* stacks;                    // `block` stacks, each above an inaccessible page
    unsigned long long stack_size;   // distance of two stacks
    unsigned long long guard;        // size of the inaccessible page
    char* shared;                    // thread-local data of the library in this thread, or null
    unsigned long long shared_size;
    // Out: a block whose threads did not all reach a barrier.
    unsigned failed;
    unsigned bad[3];
    unsigned waiting;                // threads at the barrier
    unsigned returned;               // threads that ended without it
};
#endif
