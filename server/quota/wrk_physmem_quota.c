/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_physmem_quota.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_export.h"
#include "wrk_quota.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct piece {
    uint64_t bytes; /* taken from the quota: 0 of what another process made */
    uint32_t slice;
    bool charged;
    bool shared;
    uint32_t refs; /* names */
    uint32_t maps;
    uint32_t fds; /* exports whose descriptors the client still has */
    struct wrk_export share;
    uint32_t next_free; /* index + 1, of a slot without references and mappings */
};

/* A reference.  A driver may return the same handle for all references to an
 * allocation, or another one when the first is gone: which allocation a handle means is
 * only known from the call that returned it. */
struct name {
    uint64_t handle;
    uint32_t piece;
};

struct mapping {
    uint64_t at;
    uint64_t len;
    uint64_t ending; /* which unmap takes it away now; 0: none */
    uint32_t piece;
};

static pthread_mutex_t ledger = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct piece *pieces;
static uint32_t n_pieces, cap_pieces, first_free;
static struct name *names;
static uint32_t n_names, cap_names;
static struct mapping *mappings;
static uint32_t n_mappings, cap_mappings;
static uint64_t unmaps; /* that have begun */

/* Room for one more of @size bytes behind the @n that are there. */
static bool
room(void *array, uint32_t n, uint32_t *cap, size_t size)
{
    uint32_t want = gp_max(*cap * 2, 64u);
    void *grown;

    if (n < *cap)
        return true;
    if (want > WRK_PIECES_MAX)
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

/* Add a reference to an allocation; false, and nothing entered, when there are too
 * many. */
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
piece_commit(struct wrk *w, uint32_t piece)
{
    struct piece *p = &pieces[piece];

    if (p->refs || p->maps || p->fds)
        return;
    if (p->charged)
        wrk_quota_give(w->priv->quota, p->slice, p->bytes);
    if (p->shared)
        wrk_export_drop(&p->share);
    *p = (struct piece){.next_free = first_free};
    first_free = piece + 1;
}

static void
name_del(struct wrk *w, struct name *name)
{
    uint32_t piece = name->piece;

    *name = names[--n_names];
    pieces[piece].refs--;
    piece_commit(w, piece);
}

/* A piece with its first name; NULL, and nothing entered, when there are too many. */
static struct piece *
piece_new(uint64_t handle)
{
    uint32_t at;

    if ((!first_free && !room(&pieces, n_pieces, &cap_pieces, sizeof(*pieces))) ||
        !room(&names, n_names, &cap_names, sizeof(*names)))
        return NULL;
    at = first_free ? first_free - 1 : n_pieces++;
    if (first_free)
        first_free = pieces[at].next_free;
    pieces[at] = (struct piece){0};
    name_add(handle, at);
    return &pieces[at];
}

bool
wrk_physmem_add(uint64_t handle, uint64_t bytes, uint32_t slice)
{
    struct piece *p;

    pthread_mutex_lock(&ledger);
    p = piece_new(handle);
    if (p) {
        p->bytes = bytes;
        p->slice = slice;
        p->charged = true;
    }
    pthread_mutex_unlock(&ledger);
    return p != NULL;
}

/* What is mapped at @addr.  One that is being taken away may still be there, but not
 * beside another one. */
static const struct mapping *
mapping_at(uint64_t addr)
{
    const struct mapping *ending = NULL;

    for (uint32_t i = 0; i < n_mappings; i++) {
        const struct mapping *m = &mappings[i];

        if (addr < m->at || addr - m->at >= m->len)
            continue;
        if (!m->ending)
            return m;
        ending = m;
    }
    return ending;
}

/* The driver is asked under the lock: the mapping, which may be all that is left of the
 * memory, could otherwise end before the reference is entered.  What another process
 * made is counted there. */
CUresult
wrk_physmem_retain(struct wrk *w, void *addr, CUmemGenericAllocationHandle *ret)
{
    CUmemGenericAllocationHandle handle = 0;
    const struct mapping *m;
    CUresult r;

    pthread_mutex_lock(&ledger);
    r = WRK_CALL(w, cuMemRetainAllocationHandle, &handle, addr);
    m = r == CUDA_SUCCESS ? mapping_at((uintptr_t)addr) : NULL;
    if (m && !name_add(handle, m->piece)) {
        WRK_CALL(w, cuMemRelease, handle);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&ledger);
    if (r == CUDA_SUCCESS)
        *ret = handle;
    return r;
}

void
wrk_physmem_release(struct wrk *w, uint64_t handle)
{
    struct name *name;

    pthread_mutex_lock(&ledger);
    name = name_find(handle);
    if (name)
        name_del(w, name);
    pthread_mutex_unlock(&ledger);
}

bool
wrk_physmem_map(uint64_t at, uint64_t len, uint64_t handle)
{
    const struct name *name;
    bool ok;

    pthread_mutex_lock(&ledger);
    name = name_find(handle);
    ok = room(&mappings, n_mappings, &cap_mappings, sizeof(*mappings));
    if (ok && name) {
        pieces[name->piece].maps++;
        mappings[n_mappings++] =
            (struct mapping){.at = at, .len = len, .piece = name->piece};
    }
    pthread_mutex_unlock(&ledger);
    return ok;
}

/* One call may take away several mappings, but only whole ones. */
uint64_t
wrk_physmem_unmap_begin(uint64_t at, uint64_t len)
{
    uint64_t begun;

    pthread_mutex_lock(&ledger);
    begun = ++unmaps;
    for (uint32_t i = 0; i < n_mappings; i++) {
        struct mapping *m = &mappings[i];

        if (!m->ending && m->at >= at && m->at - at < len)
            m->ending = begun;
    }
    pthread_mutex_unlock(&ledger);
    return begun;
}

void
wrk_physmem_unmap_end(struct wrk *w, uint64_t begun, bool done)
{
    pthread_mutex_lock(&ledger);
    for (uint32_t i = 0; i < n_mappings;) {
        const struct mapping m = mappings[i];

        if (m.ending != begun) {
            i++;
        } else if (!done) {
            mappings[i++].ending = 0;
        } else {
            mappings[i] = mappings[--n_mappings];
            pieces[m.piece].maps--;
            piece_commit(w, m.piece);
        }
    }
    pthread_mutex_unlock(&ledger);
}

/* ---- what other processes may have as well ---- */

/* The allocation of that handle.  An object that the driver made without allocating
 * memory, such as a multicast object, is entered now and costs nothing. */
static struct piece *
piece_of(uint64_t handle)
{
    const struct name *name = name_find(handle);

    return name ? &pieces[name->piece] : piece_new(handle);
}

int
wrk_physmem_export(struct wrk *w, uint64_t handle, int fd, struct wrk_export *ret)
{
    struct piece *p;
    int r = -ENOMEM;

    pthread_mutex_lock(&ledger);
    p = piece_of(handle);
    if (p && p->shared) {
        r = 0;
    } else if (p) {
        p->share = (struct wrk_export){
            .kind = WRK_SHARE_MEMORY, .slice = p->slice, .bytes = p->bytes};
        r = wrk_export_offer(w, &p->share, fd);
        p->shared = r == 0;
    }
    if (r == 0) {
        p->fds++;
        *ret = p->share;
    }
    pthread_mutex_unlock(&ledger);
    return r;
}

/* The piece that has that token; n_pieces: none. */
static uint32_t
piece_shared(const struct wrk_export *share)
{
    uint32_t i = 0;

    while (i < n_pieces &&
           !(pieces[i].shared && wrk_export_same(&pieces[i].share, share)))
        i++;
    return i;
}

bool
wrk_physmem_closed(struct wrk *w, const struct wrk_export *share)
{
    uint32_t at;
    bool known;

    pthread_mutex_lock(&ledger);
    at = piece_shared(share);
    known = at < n_pieces && pieces[at].fds;
    if (known) {
        pieces[at].fds--;
        piece_commit(w, at);
    }
    pthread_mutex_unlock(&ledger);
    return known;
}

bool
wrk_physmem_import(uint64_t handle, const struct wrk_export *share)
{
    struct piece *p;
    uint32_t at;
    bool ok;

    pthread_mutex_lock(&ledger);
    at = piece_shared(share);
    if (at < n_pieces) {
        ok = name_add(handle, at);
        if (ok)
            wrk_export_drop(share); /* held already */
    } else {
        p = piece_new(handle);
        ok = p != NULL;
        if (ok) {
            p->slice = share->slice;
            p->shared = true;
            p->share = *share;
        }
    }
    pthread_mutex_unlock(&ledger);
    return ok;
}
