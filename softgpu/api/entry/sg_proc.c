/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: from a plain name, an interface version and the default
 * stream wanted, to the newest function that existed then.
 */
#include "sg_conf.h"
#include "sg_core.h"

#include <stddef.h>
#include <string.h>

/* base name, version it appeared in, per-thread variant?, exported symbol */
struct proc {
    const char *name;
    int version;
    bool per_thread;
    void (*fn)(void);
};

#define PROC(name, version, per_thread, symbol) void symbol(void);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"
#include "driver_procs.def"
#pragma GCC diagnostic pop
#undef PROC

static const struct proc procs[] = {
#define PROC(name, version, per_thread, symbol) {#name, version, per_thread, symbol},
#include "driver_procs.def"
#undef PROC
};

/* The newest variant not newer than @version; *ret_known: some variant exists.  What is
 * newer than this driver says to be does not exist. */
static const struct proc *
find(const char *name, uint32_t version, bool per_thread, bool *ret_known)
{
    const struct proc *best = NULL;
    int own = sg_conf_cuda_version();

    for (size_t i = 0; i < ARRAY_SIZE(procs); i++) {
        if (procs[i].version > own || procs[i].per_thread != per_thread ||
            strcmp(procs[i].name, name))
            continue;
        *ret_known = true;
        if ((uint32_t)procs[i].version <= version &&
            (!best || procs[i].version >= best->version))
            best = &procs[i];
    }
    return best;
}

/* Declared here: its own entry in the table has no parameters. */
CUresult sg_get_proc_address(const char *symbol, void **pfn, int version,
                             cuuint64_t flags, CUdriverProcAddressQueryResult *status);

CUresult
sg_get_proc_address(const char *symbol, void **pfn, int version, cuuint64_t flags,
                    CUdriverProcAddressQueryResult *status)
{
    const struct proc *p = NULL;
    bool known = false;

    if (!symbol || !pfn ||
        flags & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |
                              CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        p = find(symbol, (uint32_t)version, true, &known);
    if (!p && !known) /* a name with such a form is asked for by that form's version */
        p = find(symbol, (uint32_t)version, false, &known);
    *pfn = p ? (void *)p->fn : NULL;
    *status = p       ? CU_GET_PROC_ADDRESS_SUCCESS
              : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}
