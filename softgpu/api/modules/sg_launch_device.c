/* SPDX-License-Identifier: Apache-2.0 */
/* See sg_launch_device.h. */
#include "sg_launch_device.h"

#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_devrt.h"
#include "sg_launch.h"
#include "sg_module.h"
#include "sg_output.h"
#include "sg_sm.h"

#include "gp_log.h"

#include <stdlib.h>
#include <string.h>

/* cudaError_t where it is not the number of the driver's error. */
enum {
    CUDART_INVALID_CONFIGURATION = 9,
    CUDART_LAUNCH_PENDING_COUNT_EXCEEDED = 69,
    CUDART_INVALID_DEVICE_FUNCTION = 98,
};

/* Streams that there are without being made: the block's own, what comes when the
 * kernel and all else that it launches has ended, and one launch apart. */
#define STREAM_OF_BLOCK 0u
#define STREAM_TAIL 3u
#define STREAM_FIRE_AND_FORGET 4u

struct pending {
    struct pending *next;
    struct sg_func *func; /* of the run's module, which outlives it */
    struct sg_launch_req req;
    void *params; /* the kernel's param_bytes */
};

struct queue {
    struct pending *first, **end;
};

/* A kernel has ended when all that it launches has, so those are put in front of what
 * waits when its last block has ended. */
struct sg_launches {
    struct queue now, tail; /* of the kernel that runs */
    struct pending *rest;
    size_t n;
};

static void
pending_free(struct pending *p)
{
    if (!p)
        return;
    free(p->params);
    free(p);
}

static void
queue_clear(struct queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

static void
queue_add(struct queue *queue, struct pending *p)
{
    *queue->end = p;
    queue->end = &p->next;
}

static void
kernel_ended(struct sg_launches *list)
{
    *list->tail.end = list->rest;
    *list->now.end = list->tail.first;
    list->rest = list->now.first;
    queue_clear(&list->now);
    queue_clear(&list->tail);
}

static void
run_forget(struct sg_run *run)
{
    struct sg_launches *list = run->pending;

    kernel_ended(list);
    while (list->rest) {
        struct pending *p = list->rest;

        list->rest = p->next;
        pending_free(p);
    }
    free(TAKE_PTR(run->pending));
}

/* The next launch takes the place of the one that has ended. */
static CUresult
run_next(struct sg_run *run)
{
    struct sg_launches *list = run->pending;
    struct pending *p;
    CUresult rc;

    kernel_ended(list);
    p = list->rest;
    if (!p)
        return CUDA_SUCCESS;
    list->rest = p->next;
    list->n--;
    free(run->params);
    run->params = TAKE_PTR(p->params);
    run->next_cta = 0;
    rc = sg_launch_fill(run, p->func, &p->req);
    pending_free(p);
    return rc == CUDA_SUCCESS ? CUDA_ERROR_NOT_READY : rc;
}

static struct sg_launches *
launches_of(struct sg_run *run)
{
    struct sg_launches *list = run->pending;

    if (list)
        return list;
    list = calloc(1, sizeof(*list));
    if (!list)
        return NULL;
    queue_clear(&list->now);
    queue_clear(&list->tail);
    run->pending = list;
    run->then = run_next;
    run->forget = run_forget;
    return list;
}

static uint32_t
cudart_error(CUresult rc)
{
    return rc == CUDA_ERROR_INVALID_VALUE ? CUDART_INVALID_CONFIGURATION : (uint32_t)rc;
}

/* Lock held, and dropped while a kernel is lowered. */
static uint32_t
check(const struct sg_run *run, struct pending *p, uint64_t address)
{
    const struct sg_kernel *kernel = sg_inst_kernel_at(run->launch.inst, address);
    CUresult rc;

    if (!kernel)
        return CUDART_INVALID_DEVICE_FUNCTION;
    if (kernel->param_bytes > SG_DEVRT_RECORD - SG_DEVRT_HEAD)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sg_kernel_ready(kernel);
    if (rc == CUDA_SUCCESS)
        rc = sg_module_func(run->module, kernel, &p->func);
    if (rc != CUDA_SUCCESS)
        return (uint32_t)rc;
    return cudart_error(sg_launch_check_func(p->func, &p->req, run->sms.n));
}

static uint32_t
enter(struct sg_run *run, struct pending *p, bool tail, const void *params)
{
    struct sg_launches *list = launches_of(run);
    uint32_t size = p->func->kernel->param_bytes;

    p->params = malloc(size + 1u);
    if (!list || !p->params)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (list->n >= run->work.ctx->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT])
        return CUDART_LAUNCH_PENDING_COUNT_EXCEEDED;
    memcpy(p->params, params, size);
    queue_add(tail ? &list->tail : &list->now, p);
    list->n++;
    return CUDA_SUCCESS;
}

/* Lock held.  The record is read once: the kernel's other threads may change it. */
static uint32_t
launch_locked(struct sg_run *run, uint64_t record)
{
    struct sg_devrt_record r;
    struct pending *p;
    uint32_t error;

    if (sg_output_heap_size(run->work.ctx, record) < SG_DEVRT_RECORD)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&r, (const void *)(uintptr_t)record, sizeof(r));
    if (r.stream != STREAM_OF_BLOCK && r.stream != STREAM_TAIL &&
        r.stream != STREAM_FIRE_AND_FORGET)
        return SG_LAUNCH_NOT_SUPPORTED;
    p = calloc(1, sizeof(*p));
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->req = (struct sg_launch_req){
        .grid = {r.grid[0], r.grid[1], r.grid[2]},
        .block = {r.block[0], r.block[1], r.block[2]},
        .shared = r.shared,
    };
    error = check(run, p, r.func);
    if (error == CUDA_SUCCESS && /* the lock was dropped */
        sg_output_heap_size(run->work.ctx, record) < SG_DEVRT_RECORD)
        error = CUDA_ERROR_INVALID_VALUE;
    if (error == CUDA_SUCCESS)
        error = enter(run, p, r.stream == STREAM_TAIL,
                      (const char *)(uintptr_t)record + SG_DEVRT_HEAD);
    if (error != CUDA_SUCCESS)
        pending_free(p);
    sg_output_heap_free(run->work.ctx, record);
    return error;
}

/* sg_hooks.launch.  @record: a struct sg_devrt_record; a cudaError_t. */
static uint32_t
launch_by_kernel(void *user, struct sg_launch *parent, uint64_t record)
{
    struct sg_run *run = container_of(parent, struct sg_run, launch);
    uint32_t error;

    (void)user;
    sg_lock();
    error = launch_locked(run, record);
    if (error != CUDA_SUCCESS)
        gp_log_debug("softgpu", "kernel %s: a launch of it fails with cudaError_t %u",
                     parent->kernel->name, error);
    sg_unlock();
    return error;
}

void
sg_launch_device_init(void)
{
    sg_launch_on_device(launch_by_kernel);
}
