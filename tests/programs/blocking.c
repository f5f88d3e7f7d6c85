/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A good launch, a bad one, and a wait, on the card that the first argument names:
 * whose the error is, CUDA_LAUNCH_BLOCKING decides.  One thread.
 */
#include "prog.h"

#include <stdio.h>
#include <stdlib.h>

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry put(.param .u64 p)\n{\n .reg .b64 %d;\n"
                          " ld.param.u64 %d, [p]; st.global.u32 [%d], 1; ret;\n}\n";

static CUresult
put(CUfunction f, CUdeviceptr p)
{
    void *params[] = {&p};

    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

int
main(int argc, char **argv)
{
    int card = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    CUfunction f;
    CUmodule module;
    CUcontext ctx;
    CUdeviceptr p;

    CU(cuInit(0));
    CU(cuDevicePrimaryCtxRetain(&ctx, card));
    CU(cuCtxSetCurrent(ctx));
    CU(cuMemAlloc(&p, 64));
    CU(cuModuleLoadData(&module, ptx));
    CU(cuModuleGetFunction(&f, module, "put"));
    printf("launch %d\n", (int)put(f, p));
    CU(cuCtxSynchronize());
    printf("fault %d\n", (int)put(f, 16));
    printf("synchronize %d\n", (int)cuCtxSynchronize());
    return 0;
}
