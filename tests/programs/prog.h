/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver-API test programs share: start on device 0, load the PTX, end
 * with one line.
 *
 * A program knows CUDA and nothing of gpupool; it is linked with -lcuda and runs
 * on whatever libcuda.so.1 the loader finds.  One thread.  A failing CUDA call
 * ends the process with status 2, a wrong result with 1.
 */
#ifndef PROGRAMS_PROG_H
#define PROGRAMS_PROG_H

#include "cuda_names.h"
#include "util.h"

struct prog {
    const char *name;
    int rounds; /* how often to do the work */
    CUdevice device;
    CUcontext context;
    CUmodule module;
};

/* Embed the file @path (found by the assembler's -I) as the NUL-ended @symbol. */
#define PROG_EMBED(symbol, path)                                                       \
    __asm__(".pushsection .rodata\n"                                                   \
            ".balign 16\n" #symbol ":\n"                                               \
            ".incbin \"" path "\"\n"                                                   \
            ".byte 0\n"                                                                \
            ".popsection\n");                                                          \
    extern const char symbol[]

#define CU(call) prog_check(call, #call, __FILE__, __LINE__)

void prog_check(CUresult result, const char *call, const char *file, int line);

/* Initialise CUDA, make a context on device 0 and load @ptx. */
void prog_begin(struct prog *prog, int argc, char **argv, const char *name,
                const char *ptx);
CUfunction prog_kernel(const struct prog *prog, const char *name);

/* Unload the module and destroy the context. */
void prog_end(struct prog *prog);

#endif
