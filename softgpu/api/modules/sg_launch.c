/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking and submitting launches.
 */
#include "sg_launch.h"

#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_event.h"
#include "sg_green.h"
#include "sg_handle.h"
#include "sg_module.h"
#include "sg_node.h"
#include "sg_output.h"
#include "sg_sm.h"
#include "sg_stream.h"
#include "sg_work.h"

#include "gp_err.h"
#include "gp_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Launch attributes of one call; the interface knows fewer than 20. */
    MAX_ATTRS = 64,
    /* Local memory of the blocks that one multiprocessor holds; it is the
     * host's, and a kernel may ask for 512 KiB in each of 1,024 threads. */
    MAX_LOCAL = 64 << 20,
};

int
sg_occupancy(const struct sg_dev *dev, const struct sg_kernel *kernel, unsigned threads,
             uint64_t dyn_shared)
{
    const struct sg_profile *prof = dev->profile;
    unsigned warps = (threads + 31) / 32;
    uint64_t shared = kernel->static_shared + dyn_shared;
    unsigned regs = gp_max(16u, gp_min(kernel->regs, 255u));
    int blocks = prof->blocks_per_sm;

    if (!threads || threads > 1024 || shared > (uint64_t)prof->shared_optin)
        return 0;
    blocks = gp_min(blocks, prof->threads_per_sm / (int)(warps * 32));
    /* Registers are given to warps in units of 256; each block also has 1 KiB of
     * shared memory that the system keeps.  The number of registers is an estimate
     * that no launch is refused for, so one block always fits. */
    regs = (regs * 32 + 255) & ~255u;
    blocks = gp_min(blocks, gp_max((int)(65536 / (regs * warps)), 1));
    if (kernel->local_bytes)
        blocks = gp_min(
            blocks,
            gp_max(1, (int)(MAX_LOCAL / ((uint64_t)kernel->local_bytes * threads))));
    shared = (shared + 127) & ~(uint64_t)127;
    return gp_min(blocks, (int)((uint64_t)prof->shared_per_sm / (shared + 1024)));
}

/* The size of a kernel's parameter buffer, without what only alignment adds. */
static size_t
params_size(const struct sg_kernel *kernel)
{
    const struct sg_param *last;

    if (!kernel->n_params)
        return 0;
    last = &kernel->params[kernel->n_params - 1];
    return last->offset + last->size;
}

/* The {POINTER, p, SIZE, &n, END} list of cuLaunchKernel. */
static CUresult
parse_extra(void **extra, const void **ret_buf, size_t *ret_len)
{
    *ret_buf = NULL;
    *ret_len = 0;
    for (unsigned i = 0; i < 8 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *ret_buf = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1])
            *ret_len = *(const size_t *)extra[i + 1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    return *ret_len && !*ret_buf ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult
sg_params_copy(const struct sg_kernel *kernel, void **params, void **extra,
               void **ret_buf)
{
    CLEANUP_FREE char *buf = calloc(1, kernel->param_bytes + 1);
    const void *from;
    size_t len;
    CUresult rc;

    if (!buf)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (extra) {
        rc = parse_extra(extra, &from, &len);
        if (rc != CUDA_SUCCESS)
            return rc;
        if (len < params_size(kernel))
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(buf, from, gp_min(len, (size_t)kernel->param_bytes));
    } else if (kernel->n_params && !params) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (uint32_t i = 0; params && i < kernel->n_params; i++) {
        if (!params[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(buf + kernel->params[i].offset, params[i], kernel->params[i].size);
    }
    *ret_buf = TAKE_PTR(buf);
    return CUDA_SUCCESS;
}

static CUresult
check_shape(const struct sg_dev *dev, const struct sg_launch_req *req)
{
    static const struct {
        int grid, block;
    } attrs[3] = {
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z},
    };
    int limit = 0;

    for (int i = 0; i < 3; i++) {
        sg_dev_attr(dev, attrs[i].grid, &limit);
        if (!req->grid[i] || req->grid[i] > (unsigned)limit)
            return CUDA_ERROR_INVALID_VALUE;
        sg_dev_attr(dev, attrs[i].block, &limit);
        if (!req->block[i] || req->block[i] > (unsigned)limit)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return (uint64_t)req->block[0] * req->block[1] * req->block[2] > 1024
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

unsigned
sg_launch_max_cluster(const struct sg_dev *dev, const struct sg_func *func)
{
    unsigned most = func->attrs.non_portable_cluster ? SG_MAX_CLUSTER : 8;

    if (dev->profile->major < 9)
        return 1;
    if (func->kernel->max_cluster_rank)
        most = gp_min(most, func->kernel->max_cluster_rank);
    return most;
}

CUresult
sg_launch_cluster(const struct sg_dev *dev, const struct sg_func *func,
                  const struct sg_launch_req *req, unsigned ret[3])
{
    const unsigned *fixed = func->kernel->reqcluster;
    uint64_t blocks = 1;

    if (!fixed[0])
        fixed = func->attrs.cluster;
    for (int i = 0; i < 3; i++) {
        unsigned asked = req->cluster[0] ? gp_max(req->cluster[i], 1u) : 0;

        ret[i] = fixed[0] ? gp_max(fixed[i], 1u) : gp_max(asked, 1u);
        if (asked && asked != ret[i])
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        if (req->grid[i] % ret[i] || !gp_mul_ok(blocks, ret[i], &blocks))
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    if (func->kernel->explicit_cluster && !req->cluster[0] && !fixed[0])
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    return blocks > sg_launch_max_cluster(dev, func) ? CUDA_ERROR_INVALID_CLUSTER_SIZE
                                                     : CUDA_SUCCESS;
}

/* The launch, the kernel or one of its attributes names a shape, be it of one block. */
static bool
asks_for_cluster(const struct sg_func *func, const struct sg_launch_req *req)
{
    return req->cluster[0] || func->kernel->reqcluster[0] || func->attrs.cluster[0];
}

static CUresult
check_limits(const struct sg_func *func, const struct sg_launch_req *req,
             unsigned n_sms)
{
    const struct sg_dev *dev = func->module->ctx->dev;
    const struct sg_kernel *k = func->kernel;
    unsigned threads = req->block[0] * req->block[1] * req->block[2];
    unsigned cluster[3];
    int limit = 0, blocks;
    CUresult rc;

    sg_func_attribute(dev, k, func->module->code, &func->attrs,
                      CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &limit);
    if (threads > (unsigned)limit)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; k->reqntid[0] && i < 3; i++)
        if (req->block[i] != gp_max(k->reqntid[i], 1u))
            return CUDA_ERROR_INVALID_VALUE;
    sg_func_attribute(dev, k, func->module->code, &func->attrs,
                      CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &limit);
    if (req->shared > (unsigned)limit)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sg_launch_cluster(dev, func, req, cluster);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!req->cooperative)
        return CUDA_SUCCESS;
    blocks = gp_max(1, sg_occupancy(dev, k, threads, req->shared));
    if ((uint64_t)req->grid[0] * req->grid[1] * req->grid[2] > (uint64_t)blocks * n_sms)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return CUDA_SUCCESS;
}

CUresult
sg_launch_check_func(const struct sg_func *func, const struct sg_launch_req *req,
                     unsigned n_sms)
{
    CUresult rc = check_shape(func->module->ctx->dev, req);

    return rc == CUDA_SUCCESS ? check_limits(func, req, n_sms) : rc;
}

CUresult
sg_launch_check(struct sg_ctx *ctx, const struct sg_launch_req *req, unsigned n_sms,
                struct sg_func **ret_func)
{
    struct sg_func *func;
    CUresult rc = sg_func_get(ctx, req->func, &func);

    if (rc == CUDA_SUCCESS)
        rc = check_shape(ctx->dev, req);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!func->ready) {
        rc = sg_kernel_ready(func->kernel);
        if (rc == CUDA_SUCCESS) /* the lock was dropped */
            rc = sg_func_get(ctx, req->func, &func);
        if (rc != CUDA_SUCCESS)
            return rc;
        func->ready = true;
    }
    if (func->module->ctx != ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    rc = check_limits(func, req, n_sms);
    if (rc == CUDA_SUCCESS)
        *ret_func = func;
    return rc;
}

static void
run_fini(struct sg_work *work)
{
    struct sg_run *run = container_of(work, struct sg_run, work);

    sg_launch_end(&run->launch);
    sg_output_workspace_give(work->ctx, run->workspace);
    if (run->forget)
        run->forget(run);
    free(run->params);
}

static const struct sg_work_class launch_class = {
    .name = "launch",
    .queue = SG_QUEUE_OTHER,
    .submit = sg_sm_submit,
    .fini = run_fini,
};

static uint32_t (*launch_of_kernel)(void *user, struct sg_launch *parent,
                                    uint64_t record);

void
sg_launch_on_device(uint32_t (*fn)(void *user, struct sg_launch *parent,
                                   uint64_t record))
{
    launch_of_kernel = fn;
}

CUresult
sg_launch_fill(struct sg_run *run, const struct sg_func *func,
               const struct sg_launch_req *req)
{
    static uint64_t last_grid;
    struct sg_ctx *ctx = run->work.ctx;
    struct gp_err err = {0};
    unsigned shape[3];
    CUresult rc = sg_launch_cluster(ctx->dev, func, req, shape);
    int r;

    if (rc != CUDA_SUCCESS)
        return rc;
    run->cluster = shape[0] * shape[1] * shape[2];
    if (run->cluster == 1) /* what every kernel runs in that does not ask */
        memset(shape, 0, sizeof(shape));
    sg_output_hooks(ctx, &run->hooks);
    run->hooks.launch = launch_of_kernel;
    run->module = func->module;
    sg_launch_end(&run->launch); /* of the kernel before, which launched this one */
    run->launch = (struct sg_launch){
        .inst = func->module->inst,
        .kernel = func->kernel,
        .grid = {req->grid[0], req->grid[1], req->grid[2]},
        .block = {req->block[0], req->block[1], req->block[2]},
        .cluster = {shape[0], shape[1], shape[2]},
        .explicit_cluster = asks_for_cluster(func, req),
        .dyn_shared = req->shared,
        .stack_bytes = (uint32_t)ctx->limits[CU_LIMIT_STACK_SIZE],
        .cooperative = req->cooperative,
        .params = run->params,
        .view = ctx->view,
        .hooks = &run->hooks,
        .cancel = &run->cancel,
        .grid_id = ++last_grid,
        .n_sms = ctx->dev->sms,
        .grid_workspace = run->workspace,
    };
    run->max_resident = (unsigned)gp_max(
        1, sg_occupancy(ctx->dev, func->kernel,
                        req->block[0] * req->block[1] * req->block[2], req->shared));
    r = sg_launch_init(&run->launch, &err);
    if (r < 0)
        gp_log_error("softgpu", "launching %s: %s", func->kernel->name,
                     gp_err_msg(&err, r));
    return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY
           : r < 0      ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
                        : CUDA_SUCCESS;
}

CUresult
sg_launch_work(struct sg_ctx *ctx, const struct sg_launch_req *req, const void *params,
               const struct sg_sm_set *sms, struct sg_work **ret_work)
{
    struct sg_func *func;
    struct sg_run *run;
    CUresult rc;

    rc = sg_func_get(ctx, req->func, &func);
    if (rc != CUDA_SUCCESS)
        return rc;
    run = calloc(1, sizeof(*run));
    if (!run)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(&run->work, &launch_class, ctx);
    run->dev = ctx->dev;
    run->sms = *sms;
    run->params = malloc(func->kernel->param_bytes + 1);
    if (req->cooperative)
        run->workspace = sg_output_workspace_take(ctx);
    if (!run->params || (req->cooperative && !run->workspace)) {
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        memcpy(run->params, params, func->kernel->param_bytes);
        rc = sg_launch_fill(run, func, req);
    }
    if (rc != CUDA_SUCCESS) {
        sg_work_unref(&run->work);
        return rc;
    }
    run->work.priority = req->priority;
    run->work.has_priority = req->has_priority;
    *ret_work = &run->work;
    return CUDA_SUCCESS;
}

bool
sg_launch_has_domain(const struct sg_dev *dev, int attr,
                     const CUlaunchAttributeValue *value)
{
    const CUlaunchMemSyncDomainMap *map = &value->memSyncDomainMap;

    switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        return map->default_ < sg_dev_domains(dev) && map->remote < sg_dev_domains(dev);
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: /* logical, which each device maps */
        return (unsigned)value->memSyncDomain <= CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    default:
        return true;
    }
}

bool
sg_launch_hint(struct sg_kernel_hints *hints, int attr,
               const CUlaunchAttributeValue *value, CUresult *ret)
{
    *ret = CUDA_SUCCESS;
    switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        if (value->accessPolicyWindow.missProp == CU_ACCESS_PROPERTY_PERSISTING)
            *ret = CUDA_ERROR_INVALID_VALUE;
        else
            hints->window = value->accessPolicyWindow;
        return true;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        hints->domain_map = value->memSyncDomainMap;
        return true;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        hints->domain = value->memSyncDomain;
        return true;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        hints->scheduling = value->clusterSchedulingPolicyPreference;
        return true;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION: /* the least will do */
        hints->preferred[0] = value->preferredClusterDim.x;
        hints->preferred[1] = value->preferredClusterDim.y;
        hints->preferred[2] = value->preferredClusterDim.z;
        return true;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        hints->carveout = value->sharedMemCarveout;
        return true;
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        hints->nvlink = value->nvlinkUtilCentricScheduling;
        return true;
    default:
        return false;
    }
}

/* A launch into a capturing stream becomes a node, with the attributes of the stream
 * where the launch has none of its own. */
static CUresult
capture_launch(struct sg_stream *stream, const struct sg_launch_req *req,
               const CUlaunchConfig *config, void *params)
{
    struct sg_node_data data = {
        .type = CU_GRAPH_NODE_TYPE_KERNEL,
        .ctx = stream->ctx->handle,
        .kernel = {.req = *req,
                   .hints = {.window = stream->window,
                             .domain_map = stream->domain_map,
                             .domain = stream->domain},
                   .params = params},
    };
    CUresult rc;

    if (!req->has_priority)
        data.kernel.req.priority = stream->priority;
    for (unsigned i = 0; config && i < config->numAttrs; i++)
        sg_launch_hint(&data.kernel.hints, (int)config->attrs[i].id,
                       &config->attrs[i].value, &rc);
    return sg_capture_add(stream, &data, NULL);
}

/* The event that a launch records for an attribute, and the flags it names; or false.
 */
static bool
event_asked(const CUlaunchAttribute *attr, CUevent *ret_event, int *ret_flags)
{
    if (attr->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
        *ret_event = attr->value.programmaticEvent.event;
        *ret_flags = attr->value.programmaticEvent.flags;
    } else if (attr->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
        *ret_event = attr->value.launchCompletionEvent.event;
        *ret_flags = attr->value.launchCompletionEvent.flags;
    } else {
        return false;
    }
    return true;
}

static CUresult
check_domains(const CUlaunchConfig *config, const struct sg_dev *dev)
{
    for (unsigned i = 0; config && i < config->numAttrs; i++)
        if (!sg_launch_has_domain(dev, (int)config->attrs[i].id,
                                  &config->attrs[i].value))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult
check_events(const CUlaunchConfig *config, const struct sg_stream *stream)
{
    const unsigned wrong = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    const struct sg_event *event;
    CUevent handle;
    int flags;

    for (unsigned i = 0; config && i < config->numAttrs; i++) {
        if (!event_asked(&config->attrs[i], &handle, &flags))
            continue;
        event = SG_OBJ(sg_event, SG_KIND_EVENT, handle);
        if (!event || event->ctx != stream->ctx)
            return CUDA_ERROR_INVALID_HANDLE;
        if (flags || (event->flags & wrong) != CU_EVENT_DISABLE_TIMING)
            return CUDA_ERROR_INVALID_VALUE;
        if (stream->capture) /* an edge of its own kind */
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

/* They stand for the end of the launch.  A card may let them go earlier, which no
 * program may rely on. */
static CUresult
record_events(const CUlaunchConfig *config, struct sg_stream *stream)
{
    CUresult rc = CUDA_SUCCESS;
    CUevent handle;
    int flags;

    for (unsigned i = 0; config && i < config->numAttrs && rc == CUDA_SUCCESS; i++)
        if (event_asked(&config->attrs[i], &handle, &flags))
            rc = sg_event_record(SG_OBJ(sg_event, SG_KIND_EVENT, handle), stream);
    return rc;
}

static CUresult
launch(struct sg_launch_req *req, const CUlaunchConfig *config, CUstream hstream,
       void **params, void **extra)
{
    CLEANUP_FREE void *buf = NULL;
    struct sg_stream *stream;
    struct sg_func *func;
    struct sg_ctx *ctx;
    struct sg_work *work;
    struct sg_sm_set sms;
    CUresult rc = sg_enter_work(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_stream_get(ctx, hstream, &stream);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    sms = sg_green_part(stream);
    rc = sg_launch_check(stream->ctx, req, sms.n, &func);
    if (rc == CUDA_SUCCESS)
        rc = sg_params_copy(func->kernel, params, extra, &buf);
    if (rc == CUDA_SUCCESS) /* the lock was dropped meanwhile */
        rc = sg_stream_get(ctx, hstream, &stream);
    if (rc == CUDA_SUCCESS)
        rc = check_domains(config, stream->ctx->dev);
    if (rc == CUDA_SUCCESS)
        rc = check_events(config, stream);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (stream->capture)
        return sg_leave(capture_launch(stream, req, config, TAKE_PTR(buf)));
    rc = sg_capture_check_legacy_stream(stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_launch_work(stream->ctx, req, buf, &sms, &work);
    if (rc == CUDA_SUCCESS)
        rc = sg_stream_enqueue(stream, work, NULL);
    if (rc == CUDA_SUCCESS)
        rc = record_events(config, stream);
    return sg_leave(rc);
}

SG_CALL(cuLaunchKernel, CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
        void **kernelParams, void **extra)
{
    struct sg_launch_req req = {
        .func = f,
        .grid = {gridDimX, gridDimY, gridDimZ},
        .block = {blockDimX, blockDimY, blockDimZ},
        .shared = sharedMemBytes,
    };

    return launch(&req, NULL, hStream, kernelParams, extra);
}

SG_CALL(cuLaunchCooperativeKernel, CUfunction f, unsigned int gridDimX,
        unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
        unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
        CUstream hStream, void **kernelParams)
{
    struct sg_launch_req req = {
        .func = f,
        .grid = {gridDimX, gridDimY, gridDimZ},
        .block = {blockDimX, blockDimY, blockDimZ},
        .shared = sharedMemBytes,
        .cooperative = true,
    };

    return launch(&req, NULL, hStream, kernelParams, NULL);
}

/* One launch per device is all that the interface came to mean. */
static bool
same_shape(const CUDA_LAUNCH_PARAMS *a, const CUDA_LAUNCH_PARAMS *b)
{
    return a->gridDimX == b->gridDimX && a->gridDimY == b->gridDimY &&
           a->gridDimZ == b->gridDimZ && a->blockDimX == b->blockDimX &&
           a->blockDimY == b->blockDimY && a->blockDimZ == b->blockDimZ &&
           a->sharedMemBytes == b->sharedMemBytes;
}

SG_CALL(cuLaunchCooperativeKernelMultiDevice, CUDA_LAUNCH_PARAMS *launchParamsList,
        unsigned int numDevices, unsigned int flags)
{
    CUresult rc = CUDA_SUCCESS;

    if (!launchParamsList || !numDevices ||
        flags & ~(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |
                  CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 1; i < numDevices; i++)
        if (!same_shape(&launchParamsList[0], &launchParamsList[i]))
            return CUDA_ERROR_INVALID_VALUE;
    /* CUDA allows no default streams here. */
    for (unsigned i = 0; i < numDevices; i++)
        if ((uintptr_t)launchParamsList[i].hStream <= (uintptr_t)CU_STREAM_PER_THREAD)
            return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < numDevices && rc == CUDA_SUCCESS; i++) {
        const CUDA_LAUNCH_PARAMS *p = &launchParamsList[i];

        rc = cuLaunchCooperativeKernel(
            p->function, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
            p->blockDimY, p->blockDimZ, p->sharedMemBytes, p->hStream, p->kernelParams);
    }
    return rc;
}

/* Attributes that only hint at placement or timing are accepted; one that would
 * change what the kernel sees and is not carried is refused. */
static CUresult
take_attribute(struct sg_launch_req *req, const CUlaunchAttribute *attr)
{
    struct sg_kernel_hints hints;
    CUresult rc;

    if (sg_launch_hint(&hints, (int)attr->id, &attr->value, &rc))
        return rc;
    switch ((int)attr->id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        req->cooperative = attr->value.cooperative != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        req->priority = gp_max(-5, gp_min(attr->value.priority, 0));
        req->has_priority = true;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        req->cluster[0] = attr->value.clusterDim.x;
        req->cluster[1] = attr->value.clusterDim.y;
        req->cluster[2] = attr->value.clusterDim.z;
        return req->cluster[0] && req->cluster[1] && req->cluster[2]
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return CUDA_ERROR_NOT_SUPPORTED;
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: /* record_events() */
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SG_CALL(cuLaunchKernelEx, const CUlaunchConfig *config, CUfunction f,
        void **kernelParams, void **extra)
{
    struct sg_launch_req req;
    CUresult rc = CUDA_SUCCESS;

    if (!config || config->numAttrs > MAX_ATTRS || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    req = (struct sg_launch_req){
        .func = f,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .shared = config->sharedMemBytes,
    };
    for (unsigned i = 0; i < config->numAttrs && rc == CUDA_SUCCESS; i++)
        rc = take_attribute(&req, &config->attrs[i]);
    return rc == CUDA_SUCCESS
               ? launch(&req, config, config->hStream, kernelParams, extra)
               : rc;
}
