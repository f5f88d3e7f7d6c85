/* SPDX-License-Identifier: Apache-2.0 */
/* The shared start and end of the driver-API test programs; see prog.h. */
#include "prog.h"

void
prog_check(CUresult result, const char *call, const char *file, int line)
{
    const char *name = NULL;

    if (result == CUDA_SUCCESS)
        return;
    if (cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = "unknown error";
    fprintf(stderr, "%s:%d: %s: %s (%d)\n", file, line, call, name, (int)result);
    exit(2);
}

void
prog_begin(struct prog *prog, int argc, char **argv, const char *name, const char *ptx)
{
    prog->name = name;
    prog->rounds = util_rounds(argc, argv);
    CU(cuInit(0));
    CU(cuDeviceGet(&prog->device, 0));
    CU(cuCtxCreate(&prog->context, 0, prog->device));
    CU(cuModuleLoadData(&prog->module, ptx));
}

CUfunction
prog_kernel(const struct prog *prog, const char *name)
{
    CUfunction kernel;

    CU(cuModuleGetFunction(&kernel, prog->module, name));
    return kernel;
}

void
prog_end(struct prog *prog)
{
    CU(cuModuleUnload(prog->module));
    CU(cuCtxDestroy(prog->context));
}
