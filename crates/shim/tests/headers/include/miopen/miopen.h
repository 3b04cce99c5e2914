/* A small header in the shape of MIOpen's, with what is odd about that. */
#ifndef MIOPEN_GUARD_MIOPEN_H_
#define MIOPEN_GUARD_MIOPEN_H_

#include <stdbool.h>
#include <stddef.h>
#include <miopen/export.h>

#define MIOPEN_DECLARE_OBJECT(name) \
    struct name                     \
    {                               \
    };                              \
    typedef struct name* name##_t;

#ifdef __cplusplus
extern "C" {
#endif

/* MIOPEN_EXPORT int miopenCommented(void); */
MIOPEN_DECLARE_OBJECT(miopenHandle);

typedef enum
{
    miopenStatusSuccess = 0,
#ifdef MIOPEN_BETA_API
    miopenStatusBeta = 1,
#endif
} miopenStatus_t;

MIOPEN_EXPORT miopenStatus_t miopenCreate(miopenHandle_t* handle);
MIOPEN_EXPORT miopenStatus_t miopenDestroy(miopenHandle_t handle);
MIOPEN_EXPORT miopenStatus_t
miopenGetVersion(size_t* major, size_t* minor, size_t* patch); /*!< miopenCreate(0); */

struct miopenTensorArgument_t
{
    int id;
};

MIOPEN_EXPORT int miopenRunSolution(const miopenTensorArgument_t* tensors, int count);

#ifdef MIOPEN_BETA_API
MIOPEN_EXPORT int miopenKthvalueForward(int k, int dim = -1, bool keep = false);
#endif

#ifdef __cplusplus
}
#endif

#endif
