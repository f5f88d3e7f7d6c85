/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"

#include "wrk_shared_pinned.h"
#include "wrk_unified.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (1u << 20)

/* A fuzzer puts numbers that it sees compared into what it makes next.  Here addresses
 * of ours are compared: it must not see those, or the client would name them. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((no_sanitize("coverage"))),                 \
                             apply_to = function)
#endif

/* Numbers, by open addressing; a number of an older epoch is no longer there.  What the
 * driver gave is kept for the life of the process; with more than a set holds nobody is
 * judged by it any more. */
struct set {
    uint64_t value[WORDS];
    uint32_t epoch[WORDS];
    uint32_t now;
    uint32_t count;
};

static struct set named = {.now = 1}, given = {.now = 1};
static _Thread_local const char *call = "";

static uint32_t
place(const struct set *s, uint64_t v)
{
    uint32_t i = (uint32_t)(v * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (WORDS - 1);

    while (s->epoch[i] == s->now && s->value[i] != v)
        i = (i + 1) & (WORDS - 1);
    return i;
}

static bool
has(const struct set *s, uint64_t v)
{
    return s->epoch[place(s, v)] == s->now;
}

static void
add(struct set *s, uint64_t v)
{
    uint32_t i = place(s, v);

    if (s->epoch[i] == s->now || s->count > WORDS / 2)
        return;
    s->value[i] = v;
    s->epoch[i] = s->now;
    s->count++;
}

static void
clear(struct set *s)
{
    s->now++;
    s->count = 0;
}

void
guard_begin(const void *frames, size_t size)
{
    const uint8_t *at = frames;

    clear(&named);
    for (; size >= sizeof(uint64_t); at += 4, size -= 4) {
        uint64_t v;

        memcpy(&v, at, sizeof(v));
        add(&named, v);
    }
}

static void __attribute__((noreturn)) refuse(const char *what, uint64_t v)
{
    fprintf(stderr, "guard: %s: %s = %#llx is a number of the client's\n", call, what,
            (unsigned long long)v);
    abort();
}

void
guard_call(const char *name)
{
    call = name;
}

/* Memory that the worker maps where the client wants it, in the range agreed on: the
 * only addresses of a client that a driver may be given. */
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER; /* of the two below */
static struct {
    uint64_t addr, size;
} places[WRK_PINNED_MAX];
static unsigned n_places;
static uint64_t range; /* that they are in; the reader's */

int __real_wrk_unified_reserve(uint64_t base, uint64_t size, struct gp_err *err);
int __real_wrk_unified_map(uint64_t addr, uint64_t size, int fd, struct gp_err *err);
void __real_wrk_unified_unmap(uint64_t addr, uint64_t size);

int
__wrap_wrk_unified_reserve(uint64_t base, uint64_t size, struct gp_err *err)
{
    int r = __real_wrk_unified_reserve(base, size, err);

    if (r >= 0)
        range = base;
    return r;
}

int
__wrap_wrk_unified_map(uint64_t addr, uint64_t size, int fd, struct gp_err *err)
{
    int r = __real_wrk_unified_map(addr, size, fd, err);

    pthread_mutex_lock(&places_lock);
    if (r >= 0 && n_places == WRK_PINNED_MAX)
        abort(); /* more than the worker has numbers for */
    if (r >= 0) {
        places[n_places].addr = addr;
        places[n_places++].size = size;
    }
    pthread_mutex_unlock(&places_lock);
    return r;
}

void
__wrap_wrk_unified_unmap(uint64_t addr, uint64_t size)
{
    unsigned i = 0;

    pthread_mutex_lock(&places_lock);
    while (i < n_places && places[i].addr != addr)
        i++;
    if (i < n_places)
        places[i] = places[--n_places];
    pthread_mutex_unlock(&places_lock);
    __real_wrk_unified_unmap(addr, size);
}

void
guard_end(struct wrk *w)
{
    for (uint32_t id = 0; id < WRK_PINNED_MAX; id++)
        wrk_pinned_drop(w, id);
    if (range)
        wrk_unified_give_back(range, NULL);
}

static bool
is_mapped(uint64_t v)
{
    bool is = false;

    pthread_mutex_lock(&places_lock);
    for (unsigned i = 0; i < n_places && !is; i++)
        is = v - places[i].addr < places[i].size;
    pthread_mutex_unlock(&places_lock);
    return is;
}

void
guard_pointer(const char *what, uint64_t v)
{
    if (v && has(&named, v) && !is_mapped(v))
        refuse(what, v);
}

/* The default streams have numbers for handles, and so has a driver's first object. */
void
guard_handle(const char *what, uint64_t v)
{
    if (v > 2 && has(&named, v) && given.count <= WORDS / 2 && !has(&given, v))
        refuse(what, v);
}

/* Objects and resources that the driver has made. */
static struct set made = {.now = 1};

static bool
was_made(uint64_t v)
{
    return made.count > WORDS / 2 || has(&made, v);
}

void
guard_made(uint64_t object)
{
    add(&made, object);
}

void
guard_object(const char *what, uint64_t object)
{
    if (object && !was_made(object))
        refuse(what, object);
}

static uint64_t
hash_of(const CUdevResource *resource)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < sizeof(*resource); i++)
        h = (h ^ ((const unsigned char *)resource)[i]) * UINT64_C(0x100000001b3);
    return h;
}

void
guard_made_resource(const CUdevResource *resource)
{
    add(&made, hash_of(resource));
}

void
guard_resource(const CUdevResource *resource)
{
    uint64_t h = hash_of(resource);

    if (!was_made(h))
        refuse("a resource that the driver did not make", h);
}

void
guard_given(uint64_t handle)
{
    add(&given, handle);
}

uintptr_t
guard_new(void)
{
    static uintptr_t last = UINT64_C(0x6a0000000000);

    return last += 16;
}

void
guard_memory_type(int type)
{
    if (type == CU_MEMORYTYPE_UNIFIED)
        refuse("a memory type that may mean the host", (uint64_t)type);
}

void
guard_attribute(int id, const CUlaunchAttributeValue *value)
{
    if (!value)
        return;
    if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
        guard_handle("event", (uint64_t)(uintptr_t)value->programmaticEvent.event);
    else if (id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
        guard_handle("event", (uint64_t)(uintptr_t)value->launchCompletionEvent.event);
    else if (id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
        guard_pointer("node",
                      (uint64_t)(uintptr_t)value->deviceUpdatableKernelNode.devNode);
    else if (id > CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING)
        refuse("an attribute that nobody knows", (uint64_t)id);
}

static void
node_copy(const CUDA_MEMCPY3D *c)
{
    guard_memory_type((int)c->srcMemoryType);
    guard_memory_type((int)c->dstMemoryType);
    guard_pointer("srcHost", (uint64_t)(uintptr_t)c->srcHost);
    guard_pointer("dstHost", (uint64_t)(uintptr_t)c->dstHost);
    guard_handle("srcArray", (uint64_t)(uintptr_t)c->srcArray);
    guard_handle("dstArray", (uint64_t)(uintptr_t)c->dstArray);
}

void
guard_node(const CUgraphNodeParams *n)
{
    switch ((int)n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        guard_handle("func", (uint64_t)(uintptr_t)n->kernel.func);
        guard_handle("kern", (uint64_t)(uintptr_t)n->kernel.kern);
        guard_handle("ctx", (uint64_t)(uintptr_t)n->kernel.ctx);
        guard_pointer("kernelParams", (uint64_t)(uintptr_t)n->kernel.kernelParams);
        guard_pointer("extra", (uint64_t)(uintptr_t)n->kernel.extra);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        guard_handle("copyCtx", (uint64_t)(uintptr_t)n->memcpy.copyCtx);
        node_copy(&n->memcpy.copyParams);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        guard_handle("ctx", (uint64_t)(uintptr_t)n->memset.ctx);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        guard_pointer("fn", (uint64_t)(uintptr_t)n->host.fn);
        guard_pointer("userData", (uint64_t)(uintptr_t)n->host.userData);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        guard_handle("graph", (uint64_t)(uintptr_t)n->graph.graph);
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        guard_handle("event", (uint64_t)(uintptr_t)n->eventWait.event);
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        guard_handle("event", (uint64_t)(uintptr_t)n->eventRecord.event);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        guard_pointer("accessDescs", (uint64_t)(uintptr_t)n->alloc.accessDescs);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        guard_handle("ctx", (uint64_t)(uintptr_t)n->memOp.ctx);
        guard_pointer("paramArray", (uint64_t)(uintptr_t)n->memOp.paramArray);
        break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        guard_handle("ctx", (uint64_t)(uintptr_t)n->conditional.ctx);
        guard_pointer("phGraph_out", (uint64_t)(uintptr_t)n->conditional.phGraph_out);
        break;
    default:
        break;
    }
}

#if defined(__clang__)
#pragma clang attribute pop
#endif
