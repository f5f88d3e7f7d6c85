/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a library that is linked with NVRTC, as Python does its extensions. */
#include <dlfcn.h>
#include <stdio.h>

int
main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void (*compile)(void) = library ? dlsym(library, "compile") : NULL;

    if (!compile) {
        fprintf(stderr, "loads: %s\n", argc == 2 ? dlerror() : "which library?");
        return 1;
    }
    compile();
    return 0;
}
