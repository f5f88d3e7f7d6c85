/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of kernel parameters: from the driver, or with a driver before 12.4, which
 * does not report it, from the image that the kernel came from.
 *
 * The kernels of an image are kept with the module or library that was made from it,
 * from wrk_kernels_loaded() until wrk_kernels_unloaded(); with a newer driver nothing
 * is kept.  Owners and functions are the driver's handles.  Receive thread only.
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

/* The parameters of @func, the kernel @name of @owner.  CUDA_ERROR_NOT_SUPPORTED: they
 * are unknown, and a message to the program says why. */
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
