/* A plugin as every other program is built: it calls the wrapper. */
#ifndef __cplusplus
typedef struct miopenTensorArgument_t miopenTensorArgument_t;
#endif
#include <miopen/miopen.h>
#include <miopen/miopen_forwarding.h>

#define CALL(name) name
#include "plugin.h"

int plugin_run(void);
int plugin_run(void) { return version() + miopenGetLastForwardedError(); }
