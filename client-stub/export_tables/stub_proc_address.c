/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: which exported function a name, a version and the stream flag mean.
 *
 * The map is generated (stub_proc_address_map.h): every variant of every name, with the
 * version that introduced it.  The newest variant that is not newer than the requested
 * version is the result; a program built for per-thread default streams gets the
 * _ptsz/_ptds form where there is one, and nothing by a version older than that form.
 * A version is taken as unsigned.  Both are as NVIDIA's libraries of drivers 535 and
 * 550 do it.  Calls that are always refused are found, too: a driver of this version
 * has every name, libraries give up when one is absent that they would never call, and
 * the refusal says more than "needs a newer driver". Functions that the server's driver
 * lacks are not found: so the first lookup attaches, as cuDriverGetVersion does, where
 * there is a session.
 */
#include "attach.pb-c.h"
#include "gp_base.h"
#include "gp_log.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_open.h"
#include "stub_proc_address_map.h"
#include "stub_session.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* The first entry of @name in the sorted map, or NULL. */
static const struct stub_proc_address *
proc_first(const char *name)
{
    size_t low = 0, high = stub_proc_address_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(stub_proc_address_table[mid].name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == stub_proc_address_count ||
        strcmp(stub_proc_address_table[low].name, name) != 0)
        return NULL;
    return &stub_proc_address_table[low];
}

/* True if a function of this name has a form for per-thread default streams. */
static bool
proc_has_twin(const struct stub_proc_address *first)
{
    const struct stub_proc_address *end =
        stub_proc_address_table + stub_proc_address_count;

    for (const struct stub_proc_address *e = first;
         e < end && strcmp(e->name, first->name) == 0; e++)
        if (e->flags)
            return true;
    return false;
}

/* True if some server of the session lacks @e.  The server's version decides;
 * functions that the stub implements alone are as old as the drivers there. */
static bool
proc_is_missing(const struct stub_proc_address *e)
{
    for (uint32_t i = 0; i < stub_links_n; i++) {
        const Gpupool__AttachReply *reply = stub_links[i].attach;

        if (reply && e->version > (int)reply->driver_version)
            return true;
        for (size_t k = 0; e->call && reply && k < reply->n_missing_calls; k++)
            if (reply->missing_calls[k] == e->call)
                return true;
    }
    return false;
}

/* Runtimes give up with few words when the driver is older than they are. */
static void
proc_note_version(int wanted)
{
    static atomic_bool said;
    int has = stub_links[0].attach ? (int)stub_link_driver_version() : CUDA_VERSION;

    if (wanted <= has || wanted / 1000 == has / 1000 || atomic_exchange(&said, true))
        return;
    gp_log_error("stub",
                 "the program asks for CUDA %d.%d, the server's driver speaks %d.%d: "
                 "a newer driver is needed there, or an older CUDA here",
                 wanted / 1000, wanted % 1000 / 10, has / 1000, has % 1000 / 10);
}

static CUdriverProcAddressQueryResult
proc_find(const char *name, uint32_t version, uint64_t flags, void **ret)
{
    const struct stub_proc_address *first = proc_first(name), *best = NULL;
    const struct stub_proc_address *end =
        stub_proc_address_table + stub_proc_address_count;
    bool missing = false, twin;

    if (!first)
        return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    twin =
        flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && proc_has_twin(first);
    for (const struct stub_proc_address *e = first;
         e < end && strcmp(e->name, name) == 0; e++) {
        if ((uint32_t)e->version > version || !!e->flags != twin ||
            (best && e->version <= best->version))
            continue;
        if (proc_is_missing(e))
            missing = true;
        else
            best = e;
    }
    if (!best && missing)
        return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (!best)
        return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    *ret = best->fn;
    return CU_GET_PROC_ADDRESS_SUCCESS;
}

CUresult
stub_impl_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                              cuuint64_t flags,
                              CUdriverProcAddressQueryResult *symbolStatus)
{
    CUdriverProcAddressQueryResult status;

    if (!symbol || !pfn ||
        flags & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |
                              CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
        return CUDA_ERROR_INVALID_VALUE;
    *pfn = NULL;
    if (atomic_load(&stub_links[0].phase) == STUB_COLD && stub_session_named())
        stub_open();
    proc_note_version(cudaVersion);
    status = proc_find(symbol, (uint32_t)cudaVersion, flags, pfn);
    if (symbolStatus)
        *symbolStatus = status;
    return CUDA_SUCCESS; /* with NULL, as a driver has it: the status says why */
}

/* The first version has no status, so that a name without a function is an error. */

CUresult
stub_impl_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
                           cuuint64_t flags)
{
    void *fn = NULL;
    CUresult r =
        pfn ? stub_impl_cuGetProcAddress_v2(symbol, &fn, cudaVersion, flags, NULL)
            : CUDA_ERROR_INVALID_VALUE;

    if (r != CUDA_SUCCESS)
        return r;
    if (!fn)
        return CUDA_ERROR_NOT_FOUND;
    *pfn = fn;
    return CUDA_SUCCESS;
}
