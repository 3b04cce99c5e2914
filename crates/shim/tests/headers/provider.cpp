// The same in C++, with what only the beta has.
#define MIOPEN_BETA_API
#include <miopen/miopen_impl.h>

#define CALL(name) name##_impl
#include "plugin.h"

extern "C" int plugin_run(void);
int plugin_run(void) { return version() + miopenKthvalueForward_impl(1); }
