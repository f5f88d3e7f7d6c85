/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_replica.h"

#include "cuda_api.h"
#include "gp_lock.h"
#include "gp_log.h"
#include "stub_call.h"
#include "stub_link.h"
#include "stub_manual.h"

#include <string.h>

struct replica {
    struct replica *next;
    uint64_t home;                   /* the handle that the program has */
    uint64_t handle[STUB_LINKS_MAX]; /* on each link, 0 = not loaded there */
    const void *code;                /* the program's, or @copy */
    void *copy;
};

static struct gp_lock lock; /* held while a library is loaded again */
static struct replica *replicas;
static __thread bool loading;

static void
replica_free(struct replica *rep)
{
    if (!rep)
        return;
    free(rep->copy);
    free(rep);
}

DEFINE_CLEANUP(struct replica, replica_free)

static void *
replica_dup(const void *from, uint64_t len)
{
    char *to = malloc(len + 1);

    if (to)
        memcpy(to, from, len);
    if (to)
        to[len] = '\0'; /* ends PTX */
    return to;
}

void
stub_replica_keep(uint64_t library, const void *code, const void *copy, uint64_t len)
{
    CLEANUP(replica_freep) struct replica *rep = NULL;

    if (stub_links_n == 1 || loading)
        return;
    rep = calloc(1, sizeof(*rep));
    if (!rep)
        return; /* the kernels stay with their server, which says so */
    rep->home = rep->handle[wire_handle_link(library)] = library;
    rep->copy = copy ? replica_dup(copy, len) : NULL;
    rep->code = copy ? rep->copy : code;
    if (!rep->code)
        return;
    gp_lock_take(&lock);
    rep->next = replicas;
    replicas = TAKE_PTR(rep);
    gp_lock_release(&lock);
}

/* Under the lock.  Options of the compiler are left out: they point to buffers for
 * logs, which the program may have freed, and the image has compiled once already. */
static uint64_t
replica_load(struct replica *rep, uint32_t link)
{
    CUlibrary library;
    CUresult r;

    if (rep->handle[link])
        return rep->handle[link];
    loading = true;
    r = stub_impl_cuLibraryLoadData(&library, rep->code, NULL, NULL, 0, NULL, NULL, 0);
    loading = false;
    if (r != CUDA_SUCCESS) {
        gp_log_warn("stub", "a library cannot be loaded at server %u: error %d", link,
                    (int)r);
        return rep->home;
    }
    rep->handle[link] = (uintptr_t)library;
    return rep->handle[link];
}

uint64_t
stub_replica_library(uint64_t library)
{
    uint32_t link = stub_link_here()->number;
    uint64_t handle = library;

    if (wire_handle_link(library) == link)
        return library;
    gp_lock_take(&lock);
    for (struct replica *rep = replicas; rep; rep = rep->next)
        if (rep->home == library)
            handle = replica_load(rep, link);
    gp_lock_release(&lock);
    return handle;
}

/* First its copies elsewhere; then, where it was loaded, like any other. */
bool
stub_multi_cuLibraryUnload(CUresult *ret, CUlibrary library)
{
    CLEANUP(replica_freep) struct replica *rep = NULL;
    struct replica **at = &replicas;

    (void)ret;
    gp_lock_take(&lock);
    while (*at && (*at)->home != (uintptr_t)library)
        at = &(*at)->next;
    rep = *at;
    if (rep)
        *at = rep->next;
    gp_lock_release(&lock);
    for (uint32_t i = 0; rep && i < stub_links_n; i++)
        if (rep->handle[i] && rep->handle[i] != rep->home)
            cuLibraryUnload((CUlibrary)(uintptr_t)rep->handle[i]);
    return false;
}
