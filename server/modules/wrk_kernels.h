/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the parameters of a kernel lie: as the driver tells, and with a driver before
 * 12.4, which does not, as the image told that the kernel came from.
 *
 * The images' kernels are kept with the module or library that was made of them, from
 * wrk_kernels_loaded() until wrk_kernels_unloaded(); with a driver that tells itself
 * nothing is kept.  Owners and functions are the driver's handles.  Reader only.
 */
#ifndef WRK_KERNELS_H
#define WRK_KERNELS_H

#include "cuda_abi.h"
#include "kernel_params.h"

#include <stddef.h>

struct iovec;
struct wrk;
struct wrk_kernels;

/* What is known of a kernel's parameters. */
struct wrk_kernel_params {
    uint32_t n;
    uint32_t bytes;
    struct kernel_param params[KERNEL_PARAMS_PARAMS_MAX];
};

/* @owner (a CUmodule, or a CUlibrary with @library) was made of @pieces. */
void wrk_kernels_loaded(struct wrk *w, void *owner, bool library,
                        const struct iovec *pieces, size_t n);
void wrk_kernels_unloaded(struct wrk *w, const void *owner);

/* A context is gone, and its modules with it. */
void wrk_kernels_forget_ctx(struct wrk *w, uint32_t ctx_index);

/* @func is the kernel @name of @owner: its parameters.  CUDA_ERROR_NOT_SUPPORTED:
 * nobody can tell them, and the program has been told why, in words. */
CUresult wrk_kernels_named(struct wrk *w, void *owner, const char *name,
                           CUfunction func, bool kernel, struct wrk_kernel_params *ret);

/* The same for a function (or with @kernel a CUkernel) that came without a name. */
CUresult wrk_kernels_params(struct wrk *w, CUfunction func, bool kernel,
                            struct wrk_kernel_params *ret);

/* The functions of @module: as many as the driver knows of those that its image tells
 * of, the first @cap of them in @ret.  CUDA_ERROR_INVALID_HANDLE: nothing was kept. */
CUresult wrk_kernels_functions(struct wrk *w, CUmodule module, CUfunction *ret,
                               unsigned cap, unsigned *ret_n);

#endif
