/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading code, and what it needs: errors come with the call that is wrong, and the
 * logs of images that are refused can be read.
 */
#include "parts.h"

#include <stdint.h>

#define ROOM 100

/* read(out): *out = mv.  need(out) calls what another input has to define. */
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .attribute(.managed) .align 4 .u32 mv = 5;\n"
    ".visible .entry read(.param .u64 out)\n{\n"
    " .reg .b64 %d1; .reg .b32 %r1;\n"
    " ld.param.u64 %d1, [out]; ld.global.u32 %r1, [mv];\n"
    " st.global.u32 [%d1], %r1; ret;\n}\n";
static const char broken[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                             ".visible .entry twice() { ret; }\n"
                             ".visible .entry twice() { ret; }\n";
static const char needs[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".extern .func nobody_defines_this;\n"
    ".visible .entry need() { call nobody_defines_this; ret; }\n";

static CUlibrary library;
static CUkernel kernel;

static int
before_all(void)
{
    CUmoduleLoadingMode mode;
    CUmodule module;

    CODE(cuModuleLoad(&module, "/nonexistent"), CUDA_ERROR_NOT_INITIALIZED);
    CODE(cuModuleGetLoadingMode(&mode), CUDA_ERROR_NOT_INITIALIZED);
    TRY(cuInit(0));
    TRY(cuModuleGetLoadingMode(&mode));
    return 0;
}

/* Managed variables have an address before there is a context; functions have not. */
static int
without_a_context(void)
{
    CUfunction f;
    CUdeviceptr at;
    size_t size;

    TRY(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cuLibraryGetKernel(&kernel, library, "read"));
    CODE(cuKernelGetFunction(&f, kernel), CUDA_ERROR_INVALID_CONTEXT);
    CODE(cuLibraryGetManaged(&at, &size, library, "nothing"), CUDA_ERROR_NOT_FOUND);
    TRY(cuLibraryGetManaged(&at, &size, library, "mv"));
    SAME(size, 4);
    SAME(*(const uint32_t *)(uintptr_t)at, 5);
    *(uint32_t *)(uintptr_t)at = 6;
    return 0;
}

static int
with_a_context(void)
{
    CUdeviceptr out;
    CUfunction f;
    CUcontext ctx;
    uint32_t got;
    void *args[] = {&out};

    TRY(cuDevicePrimaryCtxRetain(&ctx, 0));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuKernelGetFunction(&f, kernel));
    TRY(cuMemAlloc_v2(&out, 4));
    TRY(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    TRY(cuMemcpyDtoH_v2(&got, out, 4));
    SAME(got, 6);
    CODE(cuFuncSetSharedMemConfig(f, 9), CUDA_ERROR_INVALID_VALUE);
    TRY(cuCtxSynchronize()); /* no error comes later */
    return 0;
}

/* ---- logs -------------------------------------------------------------------- */

struct logs {
    char info[ROOM + 1], error[ROOM + 1];
    CUjit_option option[4];
    void *value[4];
};

static void
logs_init(struct logs *l)
{
    memset(l, '#', sizeof(*l));
    l->option[0] = CU_JIT_INFO_LOG_BUFFER;
    l->value[0] = l->info;
    l->option[1] = CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES;
    l->value[1] = (void *)(uintptr_t)ROOM;
    l->option[2] = CU_JIT_ERROR_LOG_BUFFER;
    l->value[2] = l->error;
    l->option[3] = CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
    l->value[3] = (void *)(uintptr_t)ROOM;
}

/* Both logs are text that ends within its room. */
static int
logs_are_text(const struct logs *l)
{
    for (int i = 0; i < 2; i++) {
        const char *log = l->value[2 * i];
        uintptr_t size = (uintptr_t)l->value[2 * i + 1];

        SAME(memchr(log, '\0', ROOM) != NULL, 1);
        SAME(log[ROOM], '#');
        SAME(size == strlen(log) || size == strlen(log) + 1, 1);
    }
    return 0;
}

static int
logs_of_what_is_no_image(void)
{
    CUmodule module;
    CUlibrary lib;
    struct logs l;

    logs_init(&l);
    CODE(cuModuleLoadDataEx(&module, "no image", 4, l.option, l.value),
         CUDA_ERROR_INVALID_IMAGE);
    if (logs_are_text(&l))
        return 1;
    logs_init(&l);
    CODE(cuLibraryLoadData(&lib, "no image", l.option, l.value, 4, NULL, NULL, 0),
         CUDA_ERROR_INVALID_IMAGE);
    if (logs_are_text(&l))
        return 1;
    logs_init(&l);
    CODE(cuModuleLoadDataEx(&module, broken, 4, l.option, l.value),
         CUDA_ERROR_INVALID_PTX);
    SAME(strlen(l.error) > 0, 1);
    return logs_are_text(&l);
}

/* Each log has all of its room, whatever the one before left there. */
static int
logs_of_a_linker(void)
{
    CUlinkState state;
    struct logs l;
    void *image;
    size_t size;

    logs_init(&l);
    TRY(cuLinkCreate_v2(4, l.option, l.value, &state));
    CODE(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)needs,
                          sizeof(needs), "needs", 1, NULL, NULL),
         CUDA_ERROR_INVALID_VALUE); /* an option without its arrays */
    CODE(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)broken,
                          sizeof(broken), "broken", 0, NULL, NULL),
         CUDA_ERROR_INVALID_PTX);
    SAME(strlen(l.error) > 0, 1);
    l.value[1] = l.value[3] = (void *)(uintptr_t)2; /* lengths, to the caller */
    TRY(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)needs,
                         sizeof(needs), "needs", 0, NULL, NULL));
    SAME(cuLinkComplete(state, &image, &size) != CUDA_SUCCESS, 1);
    SAME(strstr(l.error, "nobody_defines_this") != NULL, 1);
    if (logs_are_text(&l))
        return 1;
    TRY(cuLinkDestroy(state));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"before all", before_all},
        {"without a context", without_a_context},
        {"with a context", with_a_context},
        {"logs of what is no image", logs_of_what_is_no_image},
        {"logs of a linker", logs_of_a_linker},
    };

    return parts_run(parts, sizeof(parts) / sizeof(*parts));
}
