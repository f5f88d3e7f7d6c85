/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory without an address: created, referenced, mapped, released.
 *
 * The driver keeps such memory for as long as it has a reference or a mapping, in
 * whatever order the client lets go of them; the session pays for exactly that long.
 * So the references and mappings of each piece are counted here, beside the driver.
 * A piece belongs to no context.  The reader's, but for taking mappings away, which
 * a waiter thread does while the card is busy.
 */
#include "drv.h"
#include "gp_base.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_quota.h"
#include "wrk_wait.h"

#include <pthread.h>
#include <string.h>

/* Pieces, references, and mappings, that a client may have.  An allocator that grows in
 * steps of 2 MiB fills an 80 GiB card with 40,960. */
#define PIECES_MAX 65536u

struct piece {
    uint64_t bytes;
    uint32_t slice;
    uint32_t refs; /* names */
    uint32_t maps;
    uint32_t next_free; /* index + 1, of a slot without references and mappings */
};

/* A reference.  A driver may give the same handle for all references to a piece, or
 * another one when the first is gone: what a handle stands for is only known from the
 * call that gave it. */
struct name {
    uint64_t handle;
    uint32_t piece;
};

struct mapping {
    uint64_t at;
    uint64_t len;
    uint32_t piece;
};

static pthread_mutex_t book = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct piece *pieces;
static uint32_t n_pieces, cap_pieces, first_free;
static struct name *names;
static uint32_t n_names, cap_names;
static struct mapping *mappings;
static uint32_t n_mappings, cap_mappings;

/* Room for one more of @size bytes behind the @n that are there. */
static bool
room(void *array, uint32_t n, uint32_t *cap, size_t size)
{
    uint32_t want = gp_max(*cap * 2, 64u);
    void *grown;

    if (n < *cap)
        return true;
    if (want > PIECES_MAX)
        return false;
    grown = realloc(*(void **)array, want * size);
    if (!grown)
        return false;
    *(void **)array = grown;
    *cap = want;
    return true;
}

/* The last name of that handle, NULL when nobody gave it. */
static struct name *
name_find(uint64_t handle)
{
    for (uint32_t i = n_names; i--;) {
        if (names[i].handle == handle)
            return &names[i];
    }
    return NULL;
}

/* One reference more to a piece; false, and nothing entered, when there are too many.
 */
static bool
name_add(uint64_t handle, uint32_t piece)
{
    if (!room(&names, n_names, &cap_names, sizeof(*names)))
        return false;
    names[n_names++] = (struct name){.handle = handle, .piece = piece};
    pieces[piece].refs++;
    return true;
}

/* One reference or mapping fewer: the last one gives the bytes back. */
static void
piece_settle(struct wrk *w, uint32_t piece)
{
    struct piece *p = &pieces[piece];

    if (p->refs || p->maps)
        return;
    wrk_quota_give(w->priv->quota, p->slice, p->bytes);
    *p = (struct piece){.next_free = first_free};
    first_free = piece + 1;
}

static void
name_del(struct wrk *w, struct name *name)
{
    uint32_t piece = name->piece;

    *name = names[--n_names];
    pieces[piece].refs--;
    piece_settle(w, piece);
}

static bool
piece_add(uint64_t handle, uint64_t bytes, uint32_t slice)
{
    struct piece p = {.bytes = bytes, .slice = slice};
    uint32_t at;
    bool ok;

    pthread_mutex_lock(&book);
    ok = (first_free || room(&pieces, n_pieces, &cap_pieces, sizeof(*pieces))) &&
         room(&names, n_names, &cap_names, sizeof(*names));
    if (ok) {
        at = first_free ? first_free - 1 : n_pieces++;
        if (first_free)
            first_free = pieces[at].next_free;
        pieces[at] = p;
        name_add(handle, at);
    }
    pthread_mutex_unlock(&book);
    return ok;
}

CUresult
h_cuMemCreate(struct wrk *w, const struct wire_args_cuMemCreate *a,
              struct wrk_reply *rep)
{
    CUmemGenericAllocationHandle handle = 0;
    uint32_t slice = (uint32_t)a->prop->location.id;
    CUresult r;

    (void)rep;
    /* Memory of the host would be the server's. */
    if (a->prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return a->prop->location.type == CU_MEM_LOCATION_TYPE_INVALID
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_ERROR_NOT_SUPPORTED;
    if (slice >= w->priv->cards.n)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!wrk_quota_take(w->priv->quota, slice, a->size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuMemCreate, &handle, a->size, a->prop, a->flags);
    if (r == CUDA_SUCCESS && !piece_add(handle, a->size, slice)) {
        WRK_CALL(w, cuMemRelease, handle);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r != CUDA_SUCCESS) {
        wrk_quota_give(w->priv->quota, slice, a->size);
        return r;
    }
    wrk_handle_put(w, WIRE_KIND_MEMHANDLE, a->handle_id, (void *)(uintptr_t)handle);
    return CUDA_SUCCESS;
}

/* The piece that is mapped at @addr becomes known by one more name; false: there are
 * too many.  What another process made is counted there. */
static bool
mapping_retain(uint64_t addr, uint64_t handle)
{
    bool ok = true;

    pthread_mutex_lock(&book);
    for (uint32_t i = 0; i < n_mappings; i++) {
        if (addr < mappings[i].at || addr - mappings[i].at >= mappings[i].len)
            continue;
        ok = name_add(handle, mappings[i].piece);
        break;
    }
    pthread_mutex_unlock(&book);
    return ok;
}

CUresult
h_cuMemRetainAllocationHandle(struct wrk *w,
                              const struct wire_args_cuMemRetainAllocationHandle *a,
                              struct wrk_reply *rep)
{
    CUmemGenericAllocationHandle handle = 0;
    CUresult r = WRK_CALL(w, cuMemRetainAllocationHandle, &handle, a->addr);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    if (!mapping_retain((uintptr_t)a->addr, handle)) {
        WRK_CALL(w, cuMemRelease, handle);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    wrk_handle_put(w, WIRE_KIND_MEMHANDLE, a->handle_id, (void *)(uintptr_t)handle);
    return CUDA_SUCCESS;
}

CUresult
h_cuMemRelease(struct wrk *w, const struct wire_args_cuMemRelease *a,
               struct wrk_reply *rep)
{
    CUresult r = WRK_CALL(w, cuMemRelease, a->handle);
    struct name *name;

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    wrk_handle_del(w, WIRE_KIND_MEMHANDLE, a->handle_id);
    pthread_mutex_lock(&book);
    name = name_find(a->handle);
    if (name)
        name_del(w, name);
    pthread_mutex_unlock(&book);
    return CUDA_SUCCESS;
}

/* Enter a mapping; false, and nothing entered, when there are too many. */
static bool
mapping_add(uint64_t at, uint64_t len, uint64_t handle)
{
    const struct name *name;
    bool ok;

    pthread_mutex_lock(&book);
    name = name_find(handle);
    ok = room(&mappings, n_mappings, &cap_mappings, sizeof(*mappings));
    if (ok && name) {
        pieces[name->piece].maps++;
        mappings[n_mappings++] =
            (struct mapping){.at = at, .len = len, .piece = name->piece};
    }
    pthread_mutex_unlock(&book);
    return ok;
}

CUresult
h_cuMemMap(struct wrk *w, const struct wire_args_cuMemMap *a, struct wrk_reply *rep)
{
    CUresult r = WRK_CALL(w, cuMemMap, a->ptr, a->size, a->offset, a->handle, a->flags);

    (void)rep;
    if (r == CUDA_SUCCESS && !mapping_add(a->ptr, a->size, a->handle)) {
        WRK_CALL(w, cuMemUnmap, a->ptr, a->size);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return r;
}

/* One call may take away several mappings, but only whole ones. */
static CUresult
unmap(struct wrk *w, CUdeviceptr ptr, size_t size)
{
    CUresult r = WRK_CALL(w, cuMemUnmap, ptr, size);

    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&book);
    for (uint32_t i = 0; i < n_mappings;) {
        const struct mapping m = mappings[i];

        if (m.at < ptr || m.at - ptr >= size) {
            i++;
            continue;
        }
        mappings[i] = mappings[--n_mappings];
        pieces[m.piece].maps--;
        piece_settle(w, m.piece);
    }
    pthread_mutex_unlock(&book);
    return CUDA_SUCCESS;
}

struct unmap_job {
    struct wrk_job job;
    CUdeviceptr ptr;
    size_t size;
};

static void
unmap_job_run(struct wrk *w, struct wrk_job *job)
{
    struct unmap_job *u = container_of(job, struct unmap_job, job);

    wrk_answer(w, &job->req, unmap(w, u->ptr, u->size), NULL, 0);
    free(u);
}

/* A driver may wait for what still uses the addresses. */
CUresult
h_cuMemUnmap(struct wrk *w, const struct wire_args_cuMemUnmap *a, struct wrk_reply *rep)
{
    struct unmap_job *u;

    if (!(rep->req->flags & WIRE_F_REPLY) ||
        wrk_wait_idle(w, NULL) != CUDA_ERROR_NOT_READY)
        return unmap(w, a->ptr, a->size);
    u = malloc(sizeof(*u));
    if (!u)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *u = (struct unmap_job){.job.run = unmap_job_run, .ptr = a->ptr, .size = a->size};
    if (!wrk_wait_job(w, rep, &u->job))
        free(u);
    return CUDA_SUCCESS;
}
