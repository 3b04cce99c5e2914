// A small library in the shape of MIOpen: a C API over C++ internals, which it exports too.
//
// PATCH is the version it answers; NEWER has one function more.
#define MIOPEN_BETA_API
#include <miopen/miopen.h>

#ifndef PATCH
#define PATCH 1
#endif

namespace miopen {

struct MIOPEN_EXPORT Solver {
    virtual ~Solver();
    virtual int id() const;
};
Solver::~Solver() {}
int Solver::id() const { return 40; }
MIOPEN_EXPORT int registered(const Solver& solver) { return solver.id(); }

}  // namespace miopen

static miopenHandle handle;

extern "C" {
miopenStatus_t miopenCreate(miopenHandle_t* out) {
    *out = &handle;
    return miopenStatusSuccess;
}
miopenStatus_t miopenDestroy(miopenHandle_t) { return miopenStatusSuccess; }
miopenStatus_t miopenGetVersion(size_t* major, size_t* minor, size_t* patch) {
    *major = 3, *minor = 4, *patch = PATCH;
    return miopenStatusSuccess;
}
int miopenRunSolution(const miopenTensorArgument_t* tensors, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += tensors[i].id;
    return sum;
}
int miopenKthvalueForward(int k, int dim, bool) { return k + dim; }
#ifdef NEWER
MIOPEN_EXPORT int miopenAddedLater(void);
int miopenAddedLater(void) { return 1; }
#endif
}
