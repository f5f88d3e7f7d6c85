/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of memory that are kept for graph nodes; see stub_graph.h.
 */
#include "stub_graph.h"

#include "gp_lock.h"
#include "gp_table.h"
#include "stub_call.h"
#include "stub_func.h"
#include "stub_handle.h"
#include "stub_hooks.h"
#include "stub_hostfn.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "wire_format.h"

#include <stdlib.h>
#include <string.h>

/* One block; several may belong to a node that has parameters and a host function. */
struct kept {
    uint64_t id;
    size_t size;
    size_t skip; /* bytes in front of the content */
    bool host;
    uint64_t token; /* of a host function */
    _Alignas(16) uint8_t bytes[];
};

struct kept_key {
    uint64_t id;
    bool host;
};

GP_TABLE_TYPE(kept_table, struct kept *);

static inline bool
kept_table_used(struct kept *const *e)
{
    return *e != NULL;
}

static inline uint32_t
kept_table_hash(struct kept_key key)
{
    return (uint32_t)(key.id >> 4) * 2 + key.host;
}

static inline uint32_t
kept_table_hash_of(struct kept *const *e)
{
    return kept_table_hash((struct kept_key){(*e)->id, (*e)->host});
}

static inline bool
kept_table_is(struct kept *const *e, struct kept_key key)
{
    return (*e)->id == key.id && (*e)->host == key.host;
}

GP_TABLE(kept_table, struct kept *, struct kept_key)

static struct gp_lock lock;
static struct kept_table table; /* under the lock */

static struct kept *
kept_find(uint64_t id, bool host)
{
    struct kept **at = kept_table_find(&table, (struct kept_key){id, host});

    return at ? *at : NULL;
}

/* In the place of @before, which may be NULL; NULL without memory. */
static struct kept *
kept_new(struct kept *before, struct kept_key key, const void *bytes, size_t size,
         size_t skip)
{
    struct kept *fresh;

    if (kept_table_room(&table) < 0)
        return NULL;
    fresh = malloc(sizeof(*fresh) + skip + size);
    if (!fresh)
        return NULL;
    *fresh = (struct kept){.id = key.id, .size = size, .skip = skip, .host = key.host};
    if (size)
        memcpy(fresh->bytes + skip, bytes, size);
    *kept_table_enter(&table, key) = fresh;
    free(before);
    return fresh;
}

/* The node's block with this content: the old one if nothing has changed, because the
 * application may hold pointers into it. */
static struct kept *
kept_get(uint64_t id, bool host, const void *bytes, size_t size, size_t skip)
{
    struct kept *k;

    gp_lock_take(&lock);
    k = kept_find(id, host);
    if (!k || k->size != size || k->skip != skip ||
        (size && memcmp(k->bytes + skip, bytes, size) != 0))
        k = kept_new(k, (struct kept_key){id, host}, bytes, size, skip);
    gp_lock_release(&lock);
    return k;
}

void *
stub_graph_keep(uint64_t id, const void *bytes, size_t size)
{
    struct kept *k = kept_get(id, false, bytes, size, 0);

    return k ? k->bytes : NULL;
}

void **
stub_graph_keep_params(uint64_t id, CUfunction func, const uint8_t *bytes, uint32_t len)
{
    struct stub_func *f;
    struct kept *k;
    void **pointers;
    size_t skip;

    if (stub_func_get(func, &f) != CUDA_SUCCESS)
        return NULL;
    skip = (f->n_params * sizeof(void *) + 15) & ~(size_t)15;
    k = kept_get(id, false, bytes, len, skip);
    if (!k)
        return NULL;
    pointers = (void **)(void *)k->bytes;
    for (uint32_t i = 0; i < f->n_params; i++)
        pointers[i] = k->bytes + skip + f->params[i].offset;
    return pointers;
}

/* The function of @token is gone; @node may have another one by now. */
static void
host_forget(uint64_t node, uint64_t token)
{
    const struct kept_key key = {node, true};
    struct kept *k;

    gp_lock_take(&lock);
    k = kept_find(node, true);
    if (k && k->token == token)
        kept_table_remove(&table, kept_table_find(&table, key));
    else
        k = NULL;
    gp_lock_release(&lock);
    free(k);
}

void
stub_graph_set_host(uint64_t node, uint64_t token, const CUDA_HOST_NODE_PARAMS *params)
{
    struct kept *k;

    kept_get(node, true, params, sizeof(*params), 0);
    gp_lock_take(&lock);
    k = kept_find(node, true);
    if (k)
        k->token = token;
    gp_lock_release(&lock);
    stub_hostfn_tie(token, node, host_forget);
}

static struct kept *
kept_take(struct kept_key key)
{
    struct kept **at = kept_table_find(&table, key), *k = at ? *at : NULL;

    if (at)
        kept_table_remove(&table, at);
    return k;
}

void
stub_graph_forget(uint64_t id)
{
    struct kept *params, *host;

    gp_lock_take(&lock);
    params = kept_take((struct kept_key){id, false});
    host = kept_take((struct kept_key){id, true});
    gp_lock_release(&lock);
    free(params);
    free(host);
}

static void
handle_ended(uint64_t id)
{
    uint32_t kind = wire_handle_kind(id);

    if (kind == WIRE_KIND_GRAPHNODE)
        stub_graph_forget(id);
    if (kind == WIRE_KIND_GRAPHNODE || kind == WIRE_KIND_GRAPH)
        stub_handle_del(kind, id); /* one of the worker's is not found */
}

static const char *
graph_take_ended(struct stub_link *link, const struct wire_rep *message)
{
    uint64_t size = message->size - (uint32_t)sizeof(*message), id;
    struct wire_event_graph_ended ev;
    const uint8_t *ids;

    (void)link;
    if (size < sizeof(ev))
        return "short event of a graph that has ended";
    memcpy(&ev, message + 1, sizeof(ev));
    if (ev.n_ids > (size - sizeof(ev)) / sizeof(id))
        return "event of a graph that has ended is longer than its frame";
    ids = (const uint8_t *)(message + 1) + sizeof(ev);
    for (uint32_t i = 0; i < ev.n_ids; i++) {
        memcpy(&id, ids + i * sizeof(id), sizeof(id));
        handle_ended(id);
    }
    return NULL;
}

static const struct stub_unsolicited graph_messages[] = {
    {WIRE_EVENT_GRAPH_ENDED, graph_take_ended},
    {0},
};

const struct stub_feature stub_graph_feature = {
    .name = "graphs",
    .unsolicited = graph_messages,
};

/* The function never leaves the client, so neither does the question. */
CUresult
stub_impl_cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    CUresult r = stub_enter();
    struct kept *k;

    if (r != CUDA_SUCCESS)
        return r;
    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    gp_lock_take(&lock);
    k = kept_find((uintptr_t)hNode, true);
    if (k)
        memcpy(nodeParams, k->bytes, sizeof(*nodeParams));
    else
        r = CUDA_ERROR_INVALID_VALUE;
    gp_lock_release(&lock);
    return r;
}

/* A unified address is the host's or a device's by its value. */
static bool
side_is_local(CUmemorytype type, uint64_t addr)
{
    return type == CU_MEMORYTYPE_HOST ||
           (type == CU_MEMORYTYPE_UNIFIED && !stub_memory_is_device(addr));
}

bool
stub_graph_copy_is_local(const CUDA_MEMCPY3D *p)
{
    return side_is_local(p->srcMemoryType, p->srcDevice) ||
           side_is_local(p->dstMemoryType, p->dstDevice);
}

/* Known from now until the context ends: the graph keeps the address for its life.  An
 * address that cannot be entered is only not told apart from host memory. */
void
stub_graph_enter_memory(CUdeviceptr dptr, size_t size)
{
    stub_memory_reserve(dptr, size);
    (void)stub_memory_add(STUB_MEMORY_DEVICE, dptr, size, 0, 0);
}
