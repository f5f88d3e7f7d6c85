/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library is loaded, asked for its module and unloaded, again and again, as
 * compilers at run time do: what the client library knows of it goes with it.
 */
#include "parts.h"

#include <malloc.h>

#define TIMES 2000

static const char ptx[] = ".version 7.0\n"
                          ".target sm_70\n"
                          ".address_size 64\n"
                          ".visible .entry none()\n"
                          "{\n"
                          "    ret;\n"
                          "}\n";

static int
load_and_unload(void)
{
    CUfunction f;
    CUlibrary library;
    CUkernel kernel;
    CUmodule module;

    TRY(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cuLibraryGetModule(&module, library));
    TRY(cuLibraryGetKernel(&kernel, library, "none"));
    TRY(cuModuleGetFunction(&f, module, "none"));
    TRY(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    TRY(cuCtxSynchronize());
    TRY(cuLibraryUnload(library));
    return 0;
}

static int
memory_does_not_grow(void)
{
    size_t before; /* bytes of this process's heap */

    for (int i = 0; i < TIMES / 4; i++)
        if (load_and_unload())
            return 1;
    before = mallinfo2().uordblks;
    for (int i = 0; i < TIMES; i++)
        if (load_and_unload())
            return 1;
    SAME(mallinfo2().uordblks < before + 16 * TIMES, 1);
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {{"memory does not grow", memory_does_not_grow}};
    CUcontext ctx;

    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
