// The fiber runner, compiled into every kernel library before the kernel's text. It includes nothing.
//
// A block's threads are fibers of one thread of the operating system. A kernel without barriers costs no switch: a fiber whose thread
// returns takes the next thread that has not begun. At a barrier a fiber hands over to the next one directly. The runner lives in the
// kernel's library and not in the runtime, so that the thread and block numbers are plain reads of thread-local data, and so that
// nothing has to be found by symbol lookup between two libraries.

#ifdef __SANITIZE_ADDRESS__
extern "C" void __sanitizer_start_switch_fiber(void** fake, const void* bottom, unsigned long size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake, const void** bottom, unsigned long* size);
extern "C" void __asan_unpoison_memory_region(const volatile void* address, unsigned long size);
#define HP_RUNNER __attribute__((no_sanitize("address", "undefined")))
#else
#define HP_RUNNER
#endif

namespace hp_host {

struct Fiber {
    void* stack_pointer;
    int tx;
};

struct Runner {
    HpHostRun* run;
    unsigned started;   // threads of the block that have begun
    unsigned used;      // fibers of the block
    unsigned current;   // the fiber that runs
    unsigned waiting;   // threads at the present barrier
    unsigned returned;  // threads that ended
    Fiber main;
    Fiber fibers[HP_HOST_MAX_BLOCK];
    const void* main_bottom;
    unsigned long main_size;
};

struct State {
    int tx, bx, by, bz;
    Runner* runner;
};

static thread_local State state;

// Saves the callee-saved registers and the stack pointer, and goes on at another stack.
extern "C" __attribute__((visibility("hidden"))) void hp_host_switch(void** save, void* to);
#if defined(__x86_64__)
enum { SAVED = 6 };
asm(R"(
    .text
    .hidden hp_host_switch
    .globl hp_host_switch
    .type hp_host_switch, @function
hp_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size hp_host_switch, .-hp_host_switch
)");
#elif defined(__aarch64__)
enum { SAVED = 19 };
asm(R"(
    .text
    .hidden hp_host_switch
    .globl hp_host_switch
    .type hp_host_switch, %function
hp_host_switch:
    sub sp, sp, #160
    stp d8, d9, [sp]
    stp d10, d11, [sp, #16]
    stp d12, d13, [sp, #32]
    stp d14, d15, [sp, #48]
    stp x19, x20, [sp, #64]
    stp x21, x22, [sp, #80]
    stp x23, x24, [sp, #96]
    stp x25, x26, [sp, #112]
    stp x27, x28, [sp, #128]
    stp x29, x30, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp d8, d9, [sp]
    ldp d10, d11, [sp, #16]
    ldp d12, d13, [sp, #32]
    ldp d14, d15, [sp, #48]
    ldp x19, x20, [sp, #64]
    ldp x21, x22, [sp, #80]
    ldp x23, x24, [sp, #96]
    ldp x25, x26, [sp, #112]
    ldp x27, x28, [sp, #128]
    ldp x29, x30, [sp, #144]
    add sp, sp, #160
    ret
    .size hp_host_switch, .-hp_host_switch
)");
#else
#error "the fiber runner knows x86-64 and aarch64"
#endif

HP_RUNNER static inline char* stack_bottom(const HpHostRun* run, unsigned fiber) {
    return run->stacks + run->stack_size * fiber + run->guard;
}

// Goes from the running fiber to fiber `to`, or to the runner's own stack.
HP_RUNNER static void go(Runner* r, Fiber* from, Fiber* to) {
#ifdef __SANITIZE_ADDRESS__
    void* fake = 0;
    if (to == &r->main)
        __sanitizer_start_switch_fiber(&fake, r->main_bottom, r->main_size);
    else
        __sanitizer_start_switch_fiber(&fake, stack_bottom(r->run, to - r->fibers), r->run->stack_size - r->run->guard);
#endif
    hp_host_switch(&from->stack_pointer, to->stack_pointer);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, 0, 0);
#endif
}

HP_RUNNER static void fiber_main();

// Lays out a fiber that begins at `fiber_main`.
HP_RUNNER static void prepare(Runner* r, unsigned index) {
    // Stacks that all end at the same offset of a page would share few sets of the first-level cache.
    unsigned long long colour = (index % 24) * 128;
    void** top = (void**)(r->run->stacks + r->run->stack_size * (index + 1) - 64 - colour);
#if defined(__x86_64__)
    *--top = 0;
    *--top = (void*)fiber_main;
    for (int i = 0; i < SAVED; ++i)
        *--top = 0;
#else
    *--top = (void*)fiber_main;
    for (int i = 0; i < SAVED; ++i)
        *--top = 0;
#endif
    r->fibers[index].stack_pointer = top;
}

HP_RUNNER static inline int next_thread(Runner* r) {
    unsigned begun = r->started++;
    return (int)(r->run->reverse ? r->run->block - 1 - begun : begun);
}

// The present fiber waits or ended: the next one that has not had its turn, else all again, else the runner.
HP_RUNNER static void pass_on(Runner* r) {
    Fiber* from = &r->fibers[r->current];
    from->tx = state.tx;
    if (r->started < r->run->block) {
        unsigned index = r->used++;
        prepare(r, index);
        r->current = index;
        go(r, from, &r->fibers[index]);
    } else if (r->current + 1 < r->used) {
        ++r->current;
        go(r, from, &r->fibers[r->current]);
    } else if (r->returned || !r->waiting) {
        go(r, from, &r->main);
    } else {
        r->waiting = 0;
        r->current = 0;
        if (r->used > 1)
            go(r, from, &r->fibers[0]);
    }
    // Here again: this fiber's turn.
    state.tx = r->fibers[r->current].tx;
}

HP_RUNNER static void fiber_main() {
    Runner* r = state.runner;
#ifdef __SANITIZE_ADDRESS__
    const void* bottom = 0;
    unsigned long size = 0;
    __sanitizer_finish_switch_fiber(0, &bottom, &size);
    if (!r->main_bottom) {
        r->main_bottom = bottom;
        r->main_size = size;
    }
#endif
    for (;;) {
        if (r->started < r->run->block) {
            state.tx = next_thread(r);
            r->run->entry(r->run->kernarg);
            ++r->returned;
        } else {
            pass_on(r);
        }
    }
}

}  // namespace hp_host

extern "C" inline int hp_host_tx(void) { return hp_host::state.tx; }
extern "C" inline int hp_host_bx(void) { return hp_host::state.bx; }
extern "C" inline int hp_host_by(void) { return hp_host::state.by; }
extern "C" inline int hp_host_bz(void) { return hp_host::state.bz; }

// `noipa`: the compiler must assume that every thread's shared memory changes here.
extern "C" HP_RUNNER __attribute__((noipa)) void hp_host_sync(void) {
    hp_host::Runner* r = hp_host::state.runner;
    ++r->waiting;
    hp_host::pass_on(r);
}

extern "C" const unsigned hp_host_version;
extern "C" const unsigned hp_host_version = HP_HOST_VERSION;

// An address in this library's thread-local data of the calling thread, which exists from then on.
extern "C" HP_RUNNER const void* hp_host_thread_data(void) { return &hp_host::state; }

extern "C" HP_RUNNER void hp_host_run(HpHostRun* run) {
    using namespace hp_host;
    Runner runner;
    runner.run = run;
    runner.main_bottom = 0;
    State before = state;
    for (;;) {
        unsigned long long block = __atomic_fetch_add(run->next, 1ULL, __ATOMIC_RELAXED);
        if (block >= run->blocks)
            break;
        if (run->poison < 256 && run->shared)
            __builtin_memset(run->shared, (int)run->poison, run->shared_size);
        state.bx = (int)(block % run->grid[0]);
        state.by = (int)(block / run->grid[0] % run->grid[1]);
        state.bz = (int)(block / run->grid[0] / run->grid[1]);
        state.runner = &runner;
        runner.started = runner.waiting = runner.returned = runner.current = 0;
        runner.used = 1;
        prepare(&runner, 0);
        go(&runner, &runner.main, &runner.fibers[0]);
        if (runner.returned != run->block) {
            run->failed = 1;
            run->bad[0] = (unsigned)state.bx;
            run->bad[1] = (unsigned)state.by;
            run->bad[2] = (unsigned)state.bz;
            run->waiting = runner.waiting;
            run->returned = runner.returned;
            __atomic_store_n(run->next, run->blocks, __ATOMIC_RELAXED);
#ifdef __SANITIZE_ADDRESS__
            for (unsigned i = 0; i < runner.used; ++i)
                __asan_unpoison_memory_region(stack_bottom(run, i), run->stack_size - run->guard);
#endif
            break;
        }
    }
    state = before;
}
