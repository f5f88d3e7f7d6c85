/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is not linked with the driver's library, as languages that bind to C
 * have it: it opens the library, computes, closes it, and does so again.
 */
#include "parts.h"

#include <dlfcn.h>
#include <stdint.h>

#define TIMES 5

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry put(.param .u64 p, .param .u32 v)\n{\n"
                          " .reg .b32 %r1; .reg .b64 %d1;\n"
                          " ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];\n"
                          " st.global.u32 [%d1], %r1; ret;\n}\n";

#define FIND(name)                                                                     \
    __typeof__(name) *name##_ = (__typeof__(name) *)dlsym(library, #name);             \
    SAME(name##_ != NULL, 1)

static int
computes(void *library, uint32_t value)
{
    CUcontext ctx;
    CUmodule module;
    CUfunction put;
    CUdeviceptr p;
    uint32_t got;
    void *args[] = {&p, &value};

    FIND(cuInit);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxSetCurrent);
    FIND(cuModuleLoadData);
    FIND(cuModuleGetFunction);
    FIND(cuModuleUnload);
    FIND(cuMemAlloc_v2);
    FIND(cuMemFree_v2);
    FIND(cuMemcpyDtoH_v2);
    FIND(cuLaunchKernel);
    FIND(cuDevicePrimaryCtxRelease_v2);
    TRY(cuInit_(0));
    TRY(cuDevicePrimaryCtxRetain_(&ctx, 0));
    TRY(cuCtxSetCurrent_(ctx));
    TRY(cuModuleLoadData_(&module, ptx));
    TRY(cuModuleGetFunction_(&put, module, "put"));
    TRY(cuMemAlloc_v2_(&p, 4));
    TRY(cuLaunchKernel_(put, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    TRY(cuMemcpyDtoH_v2_(&got, p, 4));
    SAME(got, value);
    TRY(cuMemFree_v2_(p));
    TRY(cuModuleUnload_(module));
    TRY(cuCtxSetCurrent_(NULL));
    TRY(cuDevicePrimaryCtxRelease_v2_(0));
    return 0;
}

static int
again_and_again(void)
{
    for (uint32_t i = 0; i < TIMES; i++) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

        SAME(library != NULL, 1);
        if (computes(library, 40 + i))
            return 1;
        SAME(dlclose(library), 0);
    }
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {{"again and again", again_and_again}};

    return parts_run(parts, 1);
}
