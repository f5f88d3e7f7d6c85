/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles that a client process can pass to another one of its session: memory and
 * memory pools.  The client's descriptor holds a token; the driver's stays on this
 * machine (wrk_export.h).
 */
#include "drv.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_export.h"
#include "wrk_physmem_quota.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* A pool's descriptor is all that holds what is shared of it. */
struct pool_share {
    struct pool_share *next;
    struct wrk_export share;
};

static struct pool_share *pools; /* the reader's */

static CUresult
share_result(int r)
{
    return r == -EDQUOT || r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY
                                        : CUDA_ERROR_OPERATING_SYSTEM;
}

/* Room for the largest handle that a driver may write, a fabric's. */
union shareable {
    int fd;
    char room[64];
};

CUresult
h_cuMemExportToShareableHandle(struct wrk *w,
                               const struct wire_args_cuMemExportToShareableHandle *a,
                               struct wrk_reply *rep)
{
    struct wire_cuMemExportToShareableHandle_rep *body = rep->body;
    union shareable out = {.fd = -1};
    struct wrk_export share;
    CUresult result;
    int r;

    if (a->handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    result = WRK_CALL(w, cuMemExportToShareableHandle, &out, a->handle, a->handleType,
                      a->flags);
    if (result != CUDA_SUCCESS)
        return result;
    r = wrk_physmem_export(w, a->handle, out.fd, &share);
    close(out.fd);
    if (r < 0)
        return share_result(r);
    body->token0 = share.token[0];
    body->token1 = share.token[1];
    return CUDA_SUCCESS;
}

CUresult
h_cuMemImportFromShareableHandle(
    struct wrk *w, const struct wire_args_cuMemImportFromShareableHandle *a,
    struct wrk_reply *rep)
{
    struct wrk_export share = {.kind = WRK_SHARE_MEMORY,
                               .token = {a->token0, a->token1}};
    CUmemGenericAllocationHandle handle = 0;
    CLEANUP_FD int fd = -1;
    CUresult r;

    (void)rep;
    if (a->shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        wrk_export_fetch(w, &share, &fd) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    r = WRK_CALL(w, cuMemImportFromShareableHandle, &handle, (void *)(intptr_t)fd,
                 a->shHandleType);
    if (r == CUDA_SUCCESS && !wrk_physmem_import(handle, &share)) {
        WRK_CALL(w, cuMemRelease, handle);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r != CUDA_SUCCESS) {
        wrk_export_drop(&share);
        return r;
    }
    wrk_handle_put(w, WIRE_KIND_MEMHANDLE, a->handle_id, (void *)(uintptr_t)handle);
    return CUDA_SUCCESS;
}

CUresult
h_cuMemPoolExportToShareableHandle(
    struct wrk *w, const struct wire_args_cuMemPoolExportToShareableHandle *a,
    struct wrk_reply *rep)
{
    struct wire_cuMemPoolExportToShareableHandle_rep *body = rep->body;
    struct pool_share *p;
    union shareable out = {.fd = -1};
    CUresult result;
    int r;

    if (a->handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    p = calloc(1, sizeof(*p));
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = WRK_CALL(w, cuMemPoolExportToShareableHandle, &out, a->pool, a->handleType,
                      a->flags);
    if (result != CUDA_SUCCESS) {
        free(p);
        return result;
    }
    p->share.kind = WRK_SHARE_POOL;
    r = wrk_export_offer(w, &p->share, out.fd);
    close(out.fd);
    if (r < 0) {
        free(p);
        return share_result(r);
    }
    p->next = pools;
    pools = p;
    body->token0 = p->share.token[0];
    body->token1 = p->share.token[1];
    return CUDA_SUCCESS;
}

CUresult
h_cuMemPoolImportFromShareableHandle(
    struct wrk *w, const struct wire_args_cuMemPoolImportFromShareableHandle *a,
    struct wrk_reply *rep)
{
    struct wrk_export share = {.kind = WRK_SHARE_POOL, .token = {a->token0, a->token1}};
    CUmemoryPool pool = NULL;
    CLEANUP_FD int fd = -1;
    CUresult r;

    (void)rep;
    if (a->handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        wrk_export_fetch(w, &share, &fd) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    r = WRK_CALL(w, cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)fd,
                 a->handleType, a->flags);
    wrk_export_drop(&share);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_MEMPOOL, a->pool_out_id, pool);
    return r;
}

CUresult
h_gp_share_closed(struct wrk *w, const struct wire_args_gp_share_closed *a,
                  struct wrk_reply *rep)
{
    const struct wrk_export share = {.token = {a->token0, a->token1}};
    struct pool_share **at = &pools, *p;

    (void)rep;
    if (wrk_physmem_closed(w, &share))
        return CUDA_SUCCESS;
    while (*at && !wrk_export_same(&(*at)->share, &share))
        at = &(*at)->next;
    p = *at;
    if (!p)
        return CUDA_SUCCESS;
    *at = p->next;
    wrk_export_drop(&p->share);
    free(p);
    return CUDA_SUCCESS;
}
