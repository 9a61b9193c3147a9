/*
 * A server that loads a module with weft in it, uses its threads, and unloads it; and again. The
 * module's path is the argument.
 */
#include <dlfcn.h>

#include "check.h"

typedef int (*plugin_run)(int rounds);

int main(int argc, char **argv)
{
    CHECK_EQ(argc, 2);
    for (int round = 0; round < (small() ? 2 : 5); round++) {
        void *module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (module == NULL)
            fprintf(stderr, "%s\n", dlerror());
        CHECK(module != NULL);
        plugin_run run;
        *(void **)&run = dlsym(module, "plugin_run");
        CHECK(run != NULL);
        CHECK_EQ(run(3), 0);
        CHECK_EQ(dlclose(module), 0);
        /* A thread on its last instructions would now run into unmapped code. */
        nap(2000);
    }
    return 0;
}
