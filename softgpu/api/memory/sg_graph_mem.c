/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of graphs: see sg_graph_mem.h; and the calls that ask about all of it.
 */
#include "sg_graph_mem.h"

#include "sg_core.h"
#include "sg_dev.h"
#include "sg_mem.h"
#include "sg_work.h"

#include "gp_tree.h"

#include <stdlib.h>
#include <string.h>

struct sg_graph_mem {
    struct gp_tree_node node; /* of all of them, by address */
    unsigned refs;
    struct sg_dev *dev;
    uint64_t base, size;
    unsigned uses;    /* by launches, not given back */
    unsigned n_gives; /* operations on their way that will */
    bool live;        /* the bytes are there; they hold a reference */
};

struct give_work {
    struct sg_work work; /* first */
    struct sg_graph_mem *mem;
    bool ran;
};

static struct gp_tree mems; /* lock held */

CUresult
sg_graph_mem_new(struct sg_dev *dev, uint64_t size, struct sg_graph_mem **ret_mem)
{
    struct sg_graph_mem *mem = calloc(1, sizeof(*mem));

    if (!mem)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mem->base = sg_mem_reserve(dev, size);
    if (!mem->base) {
        free(mem);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    mem->refs = 1;
    mem->dev = dev;
    mem->size = size;
    gp_tree_insert(&mems, &mem->node, mem->base, 0);
    *ret_mem = mem;
    return CUDA_SUCCESS;
}

struct sg_graph_mem *
sg_graph_mem_ref(struct sg_graph_mem *mem)
{
    if (mem)
        mem->refs++;
    return mem;
}

void
sg_graph_mem_unref(struct sg_graph_mem *mem)
{
    if (!mem || --mem->refs)
        return;
    gp_tree_remove(&mems, &mem->node);
    sg_mem_unreserve(mem->dev, mem->base, mem->size);
    free(mem);
}

uint64_t
sg_graph_mem_base(const struct sg_graph_mem *mem)
{
    return mem ? mem->base : 0;
}

struct sg_graph_mem *
sg_graph_mem_find(uint64_t base)
{
    struct gp_tree_node *at = gp_tree_find(&mems, base, 0);

    return at ? container_of(at, struct sg_graph_mem, node) : NULL;
}

bool
sg_graph_mem_plans(uint64_t addr, uint64_t len)
{
    struct gp_tree_node *at = gp_tree_at_most(&mems, addr, 0);
    const struct sg_graph_mem *m =
        at ? container_of(at, struct sg_graph_mem, node) : NULL;

    return m && addr - m->base <= m->size && len <= m->size - (addr - m->base);
}

/* ------------------------------------------------------------------ take and give */

static void
count_use(struct sg_dev *dev, uint64_t size)
{
    dev->graph_used += size;
    dev->graph_used_high = gp_max(dev->graph_used_high, dev->graph_used);
}

/* The bytes went away, perhaps by a call of the application. */
static void
bytes_gone(struct sg_graph_mem *mem)
{
    mem->live = false;
    mem->uses = 0;
    mem->dev->graph_used -= mem->size;
    sg_wake_all(); /* launches that waited for it */
    sg_graph_mem_unref(mem);
}

bool
sg_graph_mem_is_leaving(const struct sg_graph_mem *mem)
{
    return mem->live && !sg_mem_find(mem->base);
}

CUresult
sg_graph_mem_take(struct sg_graph_mem *mem, bool again, bool *ret_taken)
{
    struct sg_alloc *alloc;
    CUresult rc;

    *ret_taken = false;
    if (mem->live && mem->uses > mem->n_gives)
        return again ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!mem->live) {
        mem->live = true;
        count_use(mem->dev, mem->size);
        rc = sg_mem_new_reserved(mem->dev, mem->base, mem->size, sg_graph_mem_ref(mem),
                                 bytes_gone, &alloc);
        if (rc != CUDA_SUCCESS)
            return rc;
        sg_mem_undefine(alloc);
    }
    mem->uses++;
    *ret_taken = true;
    return CUDA_SUCCESS;
}

void
sg_graph_mem_give(struct sg_graph_mem *mem)
{
    if (mem->uses && --mem->uses == 0)
        sg_mem_free(sg_mem_find(mem->base)); /* tells us that it is gone */
}

static CUresult
give_run(struct sg_work *work)
{
    struct give_work *g = container_of(work, struct give_work, work);

    sg_lock();
    g->ran = true;
    g->mem->n_gives--;
    sg_graph_mem_give(g->mem);
    sg_unlock();
    return CUDA_SUCCESS;
}

static void
give_fini(struct sg_work *work)
{
    struct give_work *g = container_of(work, struct give_work, work);

    if (!g->ran)
        g->mem->n_gives--;
    sg_graph_mem_unref(g->mem);
}

static const struct sg_work_class give_class = {
    .name = "graph-free",
    .queue = SG_QUEUE_COPY, /* hiding a range may wait for running blocks */
    .always = true,
    .run = give_run,
    .fini = give_fini,
};

CUresult
sg_graph_mem_give_work(struct sg_ctx *ctx, struct sg_graph_mem *mem,
                       struct sg_work **ret_work)
{
    struct give_work *g;

    if (!mem->live || mem->uses <= mem->n_gives)
        return CUDA_ERROR_INVALID_VALUE;
    g = calloc(1, sizeof(*g));
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(&g->work, &give_class, ctx);
    g->mem = sg_graph_mem_ref(mem);
    mem->n_gives++;
    *ret_work = &g->work;
    return CUDA_SUCCESS;
}

/* -------------------------------------------------------------------- the calls */

SG_CALL(cuDeviceGraphMemTrim, CUdevice device)
{
    struct sg_dev *dev;
    CUresult rc = sg_dev_enter(device, &dev);

    return rc == CUDA_SUCCESS ? sg_leave(rc) : rc; /* nothing unused is kept */
}

SG_CALL(cuDeviceGetGraphMemAttribute, CUdevice device, CUgraphMem_attribute attr,
        void *value)
{
    struct sg_dev *dev;
    cuuint64_t v = 0;
    CUresult rc = sg_dev_enter(device, &dev);

    if (rc != CUDA_SUCCESS)
        return rc;
    switch ((int)attr) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        v = dev->graph_used;
        break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        v = dev->graph_used_high;
        break;
    default:
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (!value)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy(value, &v, sizeof(v));
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDeviceSetGraphMemAttribute, CUdevice device, CUgraphMem_attribute attr,
        void *value)
{
    struct sg_dev *dev;
    cuuint64_t v;
    CUresult rc = sg_dev_enter(device, &dev);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!value || (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
                   attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy(&v, value, sizeof(v)); /* high-water marks can only be reset */
    if (v)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    dev->graph_used_high = dev->graph_used;
    return sg_leave(CUDA_SUCCESS);
}
