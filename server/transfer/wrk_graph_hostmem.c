/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graph host memory; see wrk_graph_hostmem.h.
 */
#include "wrk_graph_hostmem.h"

#include "drv.h"
#include "gp_base.h"
#include "gp_log.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_box.h"
#include "wrk_ctx.h"
#include "wrk_hostfn.h"
#include "wrk_waiters.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096u

struct piece;

struct stage {
    struct stage *next;
    uint64_t token;
    uint64_t size;
    struct piece *piece;
    uint8_t *mem;            /* the piece's */
    CUDA_MEMCPY3D copy;      /* as the client has it */
    struct wrk_hostfn *run;  /* moves the bytes; the host node's argument */
    struct wrk_hostfn *gone; /* sends WIRE_EVENT_HOST_GONE to the client */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct stage *stages;
static uint64_t total;

/* ---- their memory -------------------------------------------------------------------
 *
 * Page-locked: a copy of pageable memory takes its bytes when the graph is launched,
 * which is before the host function in front of it has brought them, and hands out
 * those of a copy down whenever it likes (seen on an H200; a software card copies when
 * it gets there).  A stage ends where the driver may not be called, so its memory is
 * not taken back there but kept for the next one.
 */

struct piece {
    struct wrk_job job; /* to be given back by a waiter thread */
    struct piece *next;
    uint8_t *mem;
    uint64_t size;
    unsigned epoch; /* of contexts: one that died since may have been the one that... */
    bool locked;    /* ...it was registered with */
};

static struct piece *pieces; /* that no stage has */
static uint64_t pieces_total;

static void
piece_run(struct wrk *w, struct wrk_job *job)
{
    struct piece *p = container_of(job, struct piece, job);

    if (p->locked)
        WRK_CALL(w, cuMemHostUnregister, p->mem);
    free(p->mem);
    free(p);
}

/* A driver may wait for all work of the card before it takes a registration back.  One
 * that finds no thread is lost with the process. */
static void
piece_give_back(struct wrk *w, struct piece *p)
{
    p->job = (struct wrk_job){
        .run = piece_run, .ctx = wrk_ctx_current(w), .ctx_index = w->ctx_index};
    if (!wrk_waiters_background(w, &p->job))
        gp_log_debug("bulk", "a stage's memory is not given back");
}

/* Whether nothing but to give it back can be done with it: too much is kept, or its
 * registration may have ended.  The lock is held. */
static bool
piece_is_over(const struct piece *p)
{
    return pieces_total > WRK_STAGES_MAX || p->epoch != wrk_ctx_epoch();
}

static void
pieces_trim(struct wrk *w)
{
    struct piece **at = &pieces, *over = NULL, *p;

    pthread_mutex_lock(&lock);
    while ((p = *at)) {
        if (!piece_is_over(p)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        pieces_total -= p->size;
        p->next = over;
        over = p;
    }
    pthread_mutex_unlock(&lock);
    while ((p = over)) {
        over = p->next;
        piece_give_back(w, p);
    }
}

/* One that is kept, of @size bytes and not many more. */
static struct piece *
piece_kept(uint64_t size)
{
    struct piece **at, *p;

    pthread_mutex_lock(&lock);
    for (at = &pieces; *at && ((*at)->size < size || (*at)->size > 2 * size);)
        at = &(*at)->next;
    p = *at;
    if (p) {
        *at = p->next;
        pieces_total -= p->size;
    }
    pthread_mutex_unlock(&lock);
    return p;
}

static struct piece *
piece_made(struct wrk *w, uint64_t size)
{
    struct piece *p = calloc(1, sizeof(*p));

    if (p)
        p->mem = aligned_alloc(PAGE_BYTES, size);
    if (!p || !p->mem) {
        free(p);
        return NULL;
    }
    p->size = size;
    p->epoch = wrk_ctx_epoch();
    p->locked = WRK_CALL(w, cuMemHostRegister_v2, p->mem, size,
                         CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS;
    if (!p->locked)
        gp_log_debug("bulk", "a stage of %llu bytes stays pageable",
                     (unsigned long long)size);
    return p;
}

static struct piece *
piece_new(struct wrk *w, uint64_t bytes)
{
    uint64_t size = GP_ALIGN_UP(gp_max(bytes, (uint64_t)1), (uint64_t)PAGE_BYTES);
    struct piece *p;

    pieces_trim(w);
    p = piece_kept(size);
    if (!p)
        p = piece_made(w, size);
    if (p)
        memset(p->mem, 0, p->size);
    return p;
}

static void
piece_keep(struct piece *p)
{
    pthread_mutex_lock(&lock);
    p->next = pieces;
    pieces = p;
    pieces_total += p->size;
    pthread_mutex_unlock(&lock);
}

/* ---- stages -------------------------------------------------------------------------
 */

static void
stage_free(struct stage *s)
{
    if (!s)
        return;
    if (s->piece)
        piece_keep(s->piece);
    if (s->run)
        wrk_hostfn_drop(s->run);
    if (s->gone)
        wrk_hostfn_drop(s->gone);
    free(s);
}
DEFINE_CLEANUP(struct stage, stage_free)

static bool
copy_size(const CUDA_MEMCPY3D *c, uint64_t *ret)
{
    return gp_mul_ok((uint64_t)c->WidthInBytes, (uint64_t)c->Height, ret) &&
           gp_mul_ok(*ret, (uint64_t)c->Depth, ret) && *ret <= WRK_STAGES_MAX;
}

static CUresult
stage_new(struct wrk *w, const CUDA_MEMCPY3D *copy, uint64_t token, uint64_t end,
          struct stage **ret)
{
    CLEANUP(stage_freep) struct stage *s = calloc(1, sizeof(*s));
    bool fits;

    if (!s || !copy_size(copy, &s->size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    s->token = token;
    s->copy = *copy;
    s->piece = piece_new(w, s->size);
    s->mem = s->piece ? s->piece->mem : NULL;
    s->run = wrk_hostfn_new(w, WRK_HOST_GRAPH, token, 0);
    s->gone = wrk_hostfn_new(w, WRK_HOST_NOTIFY, end, 0);
    if (!s->mem || !s->run || !s->gone)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    fits = s->size <= WRK_STAGES_MAX - total;
    if (fits) {
        total += s->size;
        s->next = stages;
        stages = s;
        *ret = TAKE_PTR(s);
    }
    pthread_mutex_unlock(&lock);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void
stage_remove(struct stage *s)
{
    struct stage **at = &stages;

    pthread_mutex_lock(&lock);
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at) {
        *at = s->next;
        total -= s->size;
    }
    pthread_mutex_unlock(&lock);
}

/* Called by the driver, where it may not be called back. */
static void
stage_gone(void *arg)
{
    struct stage *s = arg;

    struct wrk_hostfn *gone = TAKE_PTR(s->gone);

    stage_remove(s);
    stage_free(s); /* before the message to the client: wire_format.h */
    if (gone)
        wrk_hostfn_run(gone);
}

void
wrk_graph_hostmem_refused(uint64_t token)
{
    struct wrk_hostfn *gone = NULL;
    struct stage *s;

    pthread_mutex_lock(&lock);
    for (s = stages; s && s->token != token; s = s->next)
        ;
    if (s)
        gone = TAKE_PTR(s->gone);
    pthread_mutex_unlock(&lock);
    if (gone)
        wrk_hostfn_drop(gone);
}

static void
stage_undo(struct stage *s)
{
    stage_remove(s);
    stage_free(s);
}

/* The copy with the stage, packed, where the client's memory was. */
static CUDA_MEMCPY3D
stage_copy(const struct stage *s)
{
    CUDA_MEMCPY3D c = s->copy;

    wrk_box_clear(&c);
    if (c.srcMemoryType == CU_MEMORYTYPE_HOST) {
        c.srcHost = s->mem;
        c.srcXInBytes = c.srcY = c.srcZ = 0;
        c.srcPitch = c.WidthInBytes;
        c.srcHeight = c.Height;
    } else {
        c.dstHost = s->mem;
        c.dstXInBytes = c.dstY = c.dstZ = 0;
        c.dstPitch = c.WidthInBytes;
        c.dstHeight = c.Height;
    }
    return c;
}

/* Between two places of the client: nothing for the card to do. */
static bool
is_all_client(const CUDA_MEMCPY3D *c)
{
    return c->srcMemoryType == CU_MEMORYTYPE_HOST &&
           c->dstMemoryType == CU_MEMORYTYPE_HOST;
}

static CUresult
add_nodes(struct wrk *w, CUgraph graph, const struct stage *s, CUcontext ctx)
{
    CUDA_HOST_NODE_PARAMS host = {wrk_hostfn_run, s->run};
    CUDA_MEMCPY3D copy = stage_copy(s);
    bool up = s->copy.srcMemoryType == CU_MEMORYTYPE_HOST;
    CUgraphNode first, second;
    CUresult r;

    if (is_all_client(&s->copy))
        return WRK_CALL(w, cuGraphAddHostNode, &first, graph, NULL, 0, &host);
    r = up ? WRK_CALL(w, cuGraphAddHostNode, &first, graph, NULL, 0, &host)
           : WRK_CALL(w, cuGraphAddMemcpyNode, &first, graph, NULL, 0, &copy, ctx);
    if (r != CUDA_SUCCESS)
        return r;
    return up ? WRK_CALL(w, cuGraphAddMemcpyNode, &second, graph, &first, 1, &copy, ctx)
              : WRK_CALL(w, cuGraphAddHostNode, &second, graph, &first, 1, &host);
}

/* From here on the driver decides when the memory is freed. */
static CUresult
tie(struct wrk *w, CUgraph graph, struct stage *s)
{
    CUuserObject object;
    CUresult r = WRK_CALL(w, cuUserObjectCreate, &object, s, stage_gone, 1,
                          CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);

    if (r != CUDA_SUCCESS) {
        stage_undo(s);
        return r;
    }
    r = WRK_CALL(w, cuGraphRetainUserObject, graph, object, 1,
                 CU_GRAPH_USER_OBJECT_MOVE);
    if (r != CUDA_SUCCESS)
        WRK_CALL(w, cuUserObjectRelease, object, 1);
    return r;
}

/* The client has resolved unified addresses, for it knows its own. */
static bool
is_resolved(const CUDA_MEMCPY3D *c)
{
    return c->srcMemoryType != CU_MEMORYTYPE_UNIFIED &&
           c->dstMemoryType != CU_MEMORYTYPE_UNIFIED &&
           (c->srcMemoryType == CU_MEMORYTYPE_HOST ||
            c->dstMemoryType == CU_MEMORYTYPE_HOST);
}

CUresult
wrk_graph_hostmem_graph(struct wrk *w, const CUDA_MEMCPY3D *copy, CUcontext ctx,
                        uint64_t token, uint64_t end, CUgraph *ret_graph)
{
    struct stage *s;
    CUgraph graph;
    CUresult r;

    if (!is_resolved(copy))
        return CUDA_ERROR_INVALID_VALUE;
    r = stage_new(w, copy, token, end, &s);
    if (r != CUDA_SUCCESS)
        return r;
    r = WRK_CALL(w, cuGraphCreate, &graph, 0);
    if (r != CUDA_SUCCESS) {
        stage_undo(s);
        return r;
    }
    r = add_nodes(w, graph, s, ctx);
    if (r == CUDA_SUCCESS)
        r = tie(w, graph, s);
    else
        stage_undo(s);
    if (r == CUDA_SUCCESS)
        *ret_graph = graph;
    else
        WRK_CALL(w, cuGraphDestroy, graph);
    return r;
}

/* The nodes of the graph that stands for a copy, and what its host function is given.
 */
static void *
look_inside(struct wrk *w, CUgraphNode node, CUgraph *ret_graph, CUgraphNode *ret_host,
            CUgraphNode *ret_copy)
{
    CUDA_HOST_NODE_PARAMS host = {0};
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUgraphNode nodes[3] = {NULL};
    size_t n = 3;

    *ret_copy = *ret_host = NULL;
    if (WRK_CALL(w, cuGraphNodeGetType, node, &type) != CUDA_SUCCESS ||
        type != CU_GRAPH_NODE_TYPE_GRAPH ||
        WRK_CALL(w, cuGraphChildGraphNodeGetGraph, node, ret_graph) != CUDA_SUCCESS ||
        WRK_CALL(w, cuGraphGetNodes, *ret_graph, nodes, &n) != CUDA_SUCCESS || n > 2)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (WRK_CALL(w, cuGraphNodeGetType, nodes[i], &type) != CUDA_SUCCESS)
            return NULL;
        *(type == CU_GRAPH_NODE_TYPE_HOST ? ret_host : ret_copy) = nodes[i];
    }
    if (!*ret_host ||
        WRK_CALL(w, cuGraphHostNodeGetParams, *ret_host, &host) != CUDA_SUCCESS)
        return NULL;
    return host.fn == wrk_hostfn_run ? host.userData : NULL;
}

static bool
copy_of(const void *run, CUDA_MEMCPY3D *ret_copy)
{
    struct stage *s;

    pthread_mutex_lock(&lock);
    for (s = stages; s && s->run != run;)
        s = s->next;
    if (s)
        *ret_copy = s->copy;
    pthread_mutex_unlock(&lock);
    return s != NULL;
}

bool
wrk_graph_hostmem_of(struct wrk *w, CUgraphNode node, CUDA_MEMCPY3D *ret_copy)
{
    CUgraphNode host, copy;
    CUgraph graph;
    void *run = look_inside(w, node, &graph, &host, &copy);

    return run && copy_of(run, ret_copy);
}

CUresult
wrk_graph_hostmem_replace(struct wrk *w, CUgraphNode node, const CUDA_MEMCPY3D *copy,
                          uint64_t token, uint64_t end)
{
    CUDA_HOST_NODE_PARAMS params = {.fn = wrk_hostfn_run};
    CUgraphNode host, inner;
    CUDA_MEMCPY3D moved, old;
    struct stage *s;
    CUgraph graph;
    void *run = look_inside(w, node, &graph, &host, &inner);
    CUresult r;

    if (!run || !copy_of(run, &old) || !is_resolved(copy) || !inner ||
        is_all_client(copy) || copy->srcMemoryType != old.srcMemoryType)
        return CUDA_ERROR_INVALID_VALUE;
    r = stage_new(w, copy, token, end, &s);
    if (r != CUDA_SUCCESS)
        return r;
    moved = stage_copy(s);
    params.userData = s->run;
    r = WRK_CALL(w, cuGraphMemcpyNodeSetParams, inner, &moved);
    if (r != CUDA_SUCCESS) {
        stage_undo(s);
        return r;
    }
    r = tie(w, graph, s);
    return r == CUDA_SUCCESS ? WRK_CALL(w, cuGraphHostNodeSetParams, host, &params) : r;
}

/* ---- the client's side ---- */

static struct stage *
stage_find(uint64_t token, uint64_t offset, uint64_t n)
{
    struct stage *s = stages;

    while (s && s->token != token)
        s = s->next;
    return s && offset <= s->size && n <= s->size - offset ? s : NULL;
}

bool
wrk_graph_hostmem_write(uint64_t token, uint64_t offset, const void *from, uint64_t n)
{
    struct stage *s;

    pthread_mutex_lock(&lock);
    s = stage_find(token, offset, n);
    if (s && n)
        memcpy(s->mem + offset, from, n);
    pthread_mutex_unlock(&lock);
    return s != NULL;
}

bool
wrk_graph_hostmem_read(uint64_t token, uint64_t offset, void *to, uint64_t n)
{
    struct stage *s;

    pthread_mutex_lock(&lock);
    s = stage_find(token, offset, n);
    if (s && n)
        memcpy(to, s->mem + offset, n);
    pthread_mutex_unlock(&lock);
    return s != NULL;
}

struct fill {
    uint64_t token, offset, n;
    const void *from;
    bool ok;
};

static void
fill_run(void *arg)
{
    struct fill *fill = arg;

    fill->ok = wrk_graph_hostmem_write(fill->token, fill->offset, fill->from, fill->n);
}

bool
wrk_graph_hostmem_fill(struct wrk *w, uint64_t ticket, uint64_t token, uint64_t offset,
                       const void *from, uint64_t n)
{
    struct fill fill = {.token = token, .offset = offset, .n = n, .from = from};

    return !wrk_hostfn_while_running(w, ticket, token, fill_run, &fill) || fill.ok;
}
