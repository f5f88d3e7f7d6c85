/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels as the client knows them: handle, name, and the place of each parameter.
 *
 * CUfunction and CUkernel are one kind of handle.  A struct stub_func belongs to its
 * handle and is freed with it.  The handles of a module's functions are in a list that
 * the handle of the module (or library) owns, so looking a name up twice queries the
 * server once, and unloading deletes them all.  Layouts are constant once published:
 * launching takes no lock.
 */
#ifndef STUB_FUNC_H
#define STUB_FUNC_H

#include "cuda_abi.h"
#include "gp_lock.h"
#include "stub_tls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STUB_PARAMS_MAX 4096       /* the wire's cap */
#define STUB_PARAM_BYTES_MAX 32768 /* the largest a launch can carry */

/* The attributes that every driver has, from 0 on, which are kept. */
#define STUB_FUNC_ATTRS 10u

struct stub_param {
    uint32_t offset;
    uint32_t size;
};

/* Parameters collected by the first launch interface (cuParamSet*). */
struct stub_func_old {
    uint32_t block[3];
    uint32_t shared;
    uint32_t size;
    uint8_t bytes[4096];
};

struct stub_func {
    uint64_t handle;
    uint64_t owner; /* module or library handle */
    uint32_t param_bytes;
    uint32_t n_params;
    uint32_t max_threads; /* of a block; 0: the server did not say */
    uint32_t max_shared;  /* dynamic, when it was looked up; UINT32_MAX: not known */
    _Atomic bool set;     /* an attribute or preference; attrs may be old */
    bool odd;             /* some parameter has neither 4 nor 8 bytes */
    int32_t attrs[STUB_FUNC_ATTRS];
    struct stub_func_old *old; /* NULL until used */
    struct stub_func *next;    /* in the owner's list */
    char *name;
    struct stub_param params[];
};

/* How many kernels have been forgotten. */
extern _Atomic uint32_t stub_func_gone;

/* The most bytes of dynamic shared memory that any kernel was allowed since it was
 * looked up: one kernel may have several handles. */
extern _Atomic uint32_t stub_func_shared_set;

CUresult stub_func_find(CUfunction handle, struct stub_func **ret);

/* The kernel of a handle if it is the one that this thread used last, or NULL. */
static inline struct stub_func *
stub_func_known(CUfunction handle)
{
    if (likely(stub_tls.func_handle == (uintptr_t)handle &&
               stub_tls.func_gone ==
                   atomic_load_explicit(&stub_func_gone, memory_order_acquire)))
        return stub_tls.func;
    return NULL;
}

/* The kernel of a handle.  The server is queried for its layout if the handle came
 * without one (from an enumeration or a graph node). CUDA_ERROR_INVALID_HANDLE. */
static inline CUresult
stub_func_get(CUfunction handle, struct stub_func **ret)
{
    *ret = stub_func_known(handle);
    return likely(*ret != NULL) ? CUDA_SUCCESS : stub_func_find(handle, ret);
}

/* Is it a kernel of a library, which the program may use with every card? */
bool stub_func_is_everywhere(uint64_t handle);

/* Have the tables free what belongs to handles.  Once, at cuInit. */
void stub_func_init(void);

#endif
