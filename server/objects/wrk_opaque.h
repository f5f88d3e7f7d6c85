/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a driver's that a client keeps and hands back.
 *
 * What is in them only the driver knows, and whether it checks them nobody does: they
 * may be, or lead to, addresses of this process.  So the client is shown no bytes of
 * the driver's own in them, and the driver is given nothing that it did not make
 * itself.
 *
 *   resources   CUdevResource: in the place of the driver's bytes stands a number, with
 *               a keyed hash that tells a number of another worker's from ours
 *   objects     textures and surfaces (CUtexObject, CUsurfObject), which kernels must
 *               see as they are: those that live are known
 *
 * Receive thread only.
 */
#ifndef WRK_OPAQUE_H
#define WRK_OPAQUE_H

#include "cuda_abi.h"

#include <stdint.h>

struct wrk;

/* Resources that the worker remembers; of more the oldest cannot be used any more.  The
 * same one, asked for again, is the same number. */
#define WRK_OPAQUE_RESOURCES 4096u

/* The driver has written @resources.  CUDA_ERROR_OUT_OF_MEMORY: they must not be shown,
 * and are cleared. */
CUresult wrk_opaque_hide(CUdevResource *resources, unsigned n);

/* Turn what a client calls @resources into the driver's own.
 * CUDA_ERROR_INVALID_RESOURCE_TYPE: it is of no type.
 * CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION: it is none of ours, or was changed. */
CUresult wrk_opaque_show(const CUdevResource *resources, unsigned n,
                         CUdevResource *ret);

enum wrk_opaque_kind {
    WRK_OPAQUE_TEXTURE = 1,
    WRK_OPAQUE_SURFACE,
};

/* The driver has made @value in the context.  CUDA_ERROR_OUT_OF_MEMORY: it is not known
 * and has to be destroyed. */
CUresult wrk_opaque_enter(enum wrk_opaque_kind kind, uint64_t value,
                          uint32_t ctx_index);

/* CUDA_ERROR_INVALID_VALUE: there is no such object.  0 names none and is known. */
CUresult wrk_opaque_find(enum wrk_opaque_kind kind, uint64_t value);

/* The same; from now on it is not known. */
CUresult wrk_opaque_leave(enum wrk_opaque_kind kind, uint64_t value);

/* A hook (wrk_hooks.h): the context died with its objects. */
void wrk_opaque_forget(struct wrk *w, uint32_t ctx_index);

#endif
