/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libgpupool-nvrtc.so.1: NVRTC makes PTX where a program asks it for machine code,
 * which a software card could not run.  `gpupool run --keep-ptx` preloads it.
 *
 * It stands in front of three of NVRTC's functions, in programs and libraries that are
 * linked with NVRTC; who looks its functions up by dlsym(3) gets NVRTC's own. Compiling
 * for sm_XX becomes compiling for compute_XX, and the machine code is the PTX, with the
 * NUL behind it, which every call that loads machine code takes as well.
 *
 * Types and numbers: NVRTC's documentation, CUDA 11.1 (nvrtcGetCUBIN) to 13.
 */
#include "gp_base.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVRTC_ERROR_OUT_OF_MEMORY 1
#define NVRTC_ERROR_INTERNAL_ERROR 11

/* nvrtcProgram; opaque. */
typedef void *nvrtc_program;

#define NVRTC_EXPORT __attribute__((visibility("default"))) int

NVRTC_EXPORT nvrtcCompileProgram(nvrtc_program program, int n,
                                 const char *const *options);
NVRTC_EXPORT nvrtcGetCUBINSize(nvrtc_program program, size_t *size);
NVRTC_EXPORT nvrtcGetCUBIN(nvrtc_program program, char *code);

/* NVRTC's own function of this name, or NULL: what @caller is linked with, for a
 * program may have several, and what a library brings is seen by it alone. */
static void *
nvrtc_function(const char *name, void *caller, void *ours)
{
    void *function = NULL, *handle;
    Dl_info info;

    if (dladdr(caller, &info) && info.dli_fname &&
        (handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD))) {
        function = dlsym(handle, name);
        dlclose(handle);
    }
    if (!function || function == ours) /* the program itself sees us first */
        function = dlsym(RTLD_NEXT, name);
    if (function && function != ours)
        return function;
    fprintf(
        stderr,
        "gpupool: --keep-ptx: the program calls NVRTC, but is not linked with it: no "
        "%s\n",
        name);
    return NULL;
}

/* What to say instead of @option, which may be "-arch" and its value in one, or the
 * value alone; NULL: out of memory. */
static char *
for_ptx(const char *option)
{
    static const char *const names[] = {"", "-arch=", "--gpu-architecture="};
    char *changed;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        size_t n = strlen(names[i]);

        if (!strncmp(option, names[i], n) && !strncmp(option + n, "sm_", 3))
            return asprintf(&changed, "%scompute_%s", names[i], option + n + 3) < 0
                       ? NULL
                       : changed;
    }
    return strdup(option);
}

static void
free_options(char **options, int n)
{
    for (int i = 0; i < n; i++)
        free(options[i]);
    free(options);
}

NVRTC_EXPORT
nvrtcCompileProgram(nvrtc_program program, int n, const char *const *options)
{
    int (*compile)(nvrtc_program, int, const char *const *) = nvrtc_function(
        "nvrtcCompileProgram", __builtin_return_address(0), nvrtcCompileProgram);
    char **changed;
    int r;

    if (!compile)
        return NVRTC_ERROR_INTERNAL_ERROR;
    if (n <= 0 || !options)
        return compile(program, n, options);
    changed = calloc((size_t)n, sizeof(*changed));
    r = changed ? 0 : NVRTC_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < n && !r; i++) {
        changed[i] = options[i] ? for_ptx(options[i]) : NULL;
        r = options[i] && !changed[i] ? NVRTC_ERROR_OUT_OF_MEMORY : 0;
    }
    if (!r)
        r = compile(program, n, (const char *const *)changed);
    if (changed)
        free_options(changed, n);
    return r;
}

NVRTC_EXPORT
nvrtcGetCUBINSize(nvrtc_program program, size_t *size)
{
    int (*get)(nvrtc_program, size_t *) =
        nvrtc_function("nvrtcGetPTXSize", __builtin_return_address(0), NULL);

    return get ? get(program, size) : NVRTC_ERROR_INTERNAL_ERROR;
}

NVRTC_EXPORT
nvrtcGetCUBIN(nvrtc_program program, char *code)
{
    int (*get)(nvrtc_program, char *) =
        nvrtc_function("nvrtcGetPTX", __builtin_return_address(0), NULL);

    return get ? get(program, code) : NVRTC_ERROR_INTERNAL_ERROR;
}
