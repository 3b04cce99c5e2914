// Kernels of the code objects beside this file. README.md says how they were made.
#define KERNEL(n) extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(n, n))) void
#define GLOBAL __attribute__((address_space(1)))

struct Scale {
    const GLOBAL float* x;
    GLOBAL float* y;
    float factor;
    int count;
};

KERNEL(256) scale(Scale a) {
    int i = (int)__builtin_amdgcn_workgroup_id_x() * 256 + (int)__builtin_amdgcn_workitem_id_x();
    if (i < a.count) a.y[i] = a.x[i] * a.factor;
}

#ifndef ONE
// Hidden arguments, LDS and scratch memory.
KERNEL(64) odd(Scale a) {
    __attribute__((shared)) static float lds[64];
    float own[64];
    int t = (int)__builtin_amdgcn_workitem_id_x();
    for (int i = 0; i < 64; ++i) own[(i * a.count) & 63] = a.x[i];
    lds[t] = own[(t * a.count + 1) & 63];
    __builtin_amdgcn_s_barrier();
    a.y[t] = lds[63 - t] * (float)__builtin_amdgcn_workgroup_size_x();
}
#endif
