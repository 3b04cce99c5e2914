/* Loads plugins, and prints what each returns or why it cannot be loaded. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
    int i;
    for (i = 1; i < argc; i++) {
        int (*run)(void) = 0;
        void* plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (plugin)
            *(void**)&run = dlsym(plugin, "plugin_run");
        if (!run) {
            printf("%s\n", dlerror());
            continue;
        }
        printf("%d\n", run());
    }
    return 0;
}
