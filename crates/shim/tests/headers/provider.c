/* A provider: it calls the private library. */
#include <miopen/miopen_impl.h>

#define CALL(name) name##_impl
#include "plugin.h"

int plugin_run(void);
int plugin_run(void) { return version(); }
