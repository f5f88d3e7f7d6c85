/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: the arguments are copied from the application's memory straight into the
 * frame, by the layout that is known since the kernel was looked up.
 *
 * Everything that can be refused here is checked before the frame is claimed; errors
 * that only the driver can find are returned by the next call that waits.
 */
#include "stub_args.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_event.h"
#include "stub_flush.h"
#include "stub_func.h"
#include "stub_launch_shape.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_post.h"
#include "wire_api.h"

#include <string.h>

/* What every card has of dimensions; who asks for more is checked by the device's own
 * limits. */
#define GRID_X_USUAL INT32_MAX
#define GRID_YZ_USUAL UINT16_MAX
#define BLOCK_Z_USUAL 64u

struct limit {
    uint32_t is;
    int attribute;
};

/* A device whose limits are not known refuses by itself, later. */
static GP_COLD CUresult
launch_check_device(const uint32_t *grid, const uint32_t *block)
{
    const struct limit limits[] = {{grid[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
                                   {grid[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y},
                                   {grid[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z},
                                   {block[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z}};
    const struct stub_device *dev;
    struct stub_ctx *ctx;
    CUresult r = stub_ctx_resolve(NULL, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    dev = stub_device_get(ctx->dev);
    for (size_t i = 0; dev && i < ARRAY_SIZE(limits); i++) {
        int most = stub_device_attr(dev, limits[i].attribute);

        if (most > 0 && limits[i].is > (uint32_t)most)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* Shapes that a driver refuses at once: an empty grid or block, more threads than the
 * kernel can have by its registers or its launch bounds, more shared memory than it may
 * have, and more of a dimension than the device has. */
static GP_INLINE CUresult
launch_check(const struct stub_func *func, const uint32_t *grid, const uint32_t *block,
             uint32_t shared)
{
    uint64_t threads = (uint64_t)block[0] * block[1];

    if (unlikely(!grid[0] || !grid[1] || !grid[2] || !threads || !block[2] ||
                 (func->max_threads && (threads > func->max_threads ||
                                        threads * block[2] > func->max_threads))))
        return CUDA_ERROR_INVALID_VALUE;
    if (unlikely(shared > func->max_shared &&
                 shared >
                     atomic_load_explicit(&stub_func_shared_set, memory_order_relaxed)))
        return CUDA_ERROR_INVALID_VALUE;
    if (unlikely(grid[0] > GRID_X_USUAL || (grid[1] | grid[2]) > GRID_YZ_USUAL ||
                 block[2] > BLOCK_Z_USUAL))
        return launch_check_device(grid, block);
    return CUDA_SUCCESS;
}

bool stub_launch_blocking;

/* With CUDA_LAUNCH_BLOCKING the launch is complete when the call returns, and its
 * errors are returned by the call.  In a capture there is nothing to wait for. */
static CUresult
launch_end(CUresult r, uint64_t stream)
{
    if (likely(!stub_launch_blocking) || r != CUDA_SUCCESS || stub_capture_any())
        return r;
    return stub_impl_cuStreamSynchronize((CUstream)(uintptr_t)stream, false);
}

/* cuLaunchKernel and cuLaunchCooperativeKernel have the same frame.  Functions that
 * take this are inlined, so that it stays in registers. */
struct launch {
    uint16_t number;
    bool per_thread;
    uint64_t f, stream; /* as in a frame */
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared;
};

#define WHOLE_SIZE (uint32_t)sizeof(struct wire_cuLaunchKernel_req)
#define WHOLE_HEAD ((uint32_t)sizeof(struct wire_req) + WHOLE_SIZE)
#define RUN_SIZE (uint32_t)sizeof(struct wire_gp_launch_run_req)
#define RUN_HEAD ((uint32_t)sizeof(struct wire_req) + RUN_SIZE)

/* All of a frame but the parameters, and the place for those. */
static GP_INLINE uint8_t *
launch_put_whole(struct wire_cuLaunchKernel_req *req, const struct launch *launch,
                 uint32_t params_len)
{
    req->f = launch->f;
    req->hStream = launch->stream;
    req->gridDimX = launch->grid[0];
    req->gridDimY = launch->grid[1];
    req->gridDimZ = launch->grid[2];
    req->blockDimX = launch->block[0];
    req->blockDimY = launch->block[1];
    req->blockDimZ = launch->block[2];
    req->sharedMemBytes = launch->shared;
    req->params_len = params_len;
    return (uint8_t *)(req + 1);
}

/* How a plain launch goes. */
enum launch_form {
    LAUNCH_WHOLE,
    LAUNCH_TOLD, /* whole, and the worker is to be told of its shape behind it */
    LAUNCH_RUN,  /* as the first of a run */
};

/* By what the launch before was, and whether the worker knows the shape.  Under send.
 */
static GP_INLINE enum launch_form
launch_form(struct stub_link *link, const struct launch *launch, uint32_t params_len)
{
    struct stub_launch_shapes *shapes = stub_launch_shapes_of(link);

    if (!stub_launch_shape_is(&shapes->last, launch->f, launch->stream, launch->grid,
                              launch->block, launch->shared, params_len)) {
        stub_launch_shape_set(&shapes->last, launch->f, launch->stream, launch->grid,
                              launch->block, launch->shared, params_len);
        stub_post_close(link); /* a run of what was the last shape */
        return LAUNCH_WHOLE;
    }
    if (stub_launch_shape_told(shapes))
        return LAUNCH_RUN;
    return shapes->never ? LAUNCH_WHOLE : LAUNCH_TOLD;
}

/* The beginning of a run of launches of the last shape, of which the first one's
 * parameters take @stride bytes. */
static inline void
run_begin(struct stub_link *link, struct wire_gp_launch_run_req *run, uint32_t stride)
{
    run->number = stub_launch_shape_number(&stub_launch_shapes_of(link)->last);
    run->n = stride;
}

/* It can grow until it is sent; its own number in the link is @seq.  Not in the
 * overflow buffer, behind which somebody sends. */
static inline void
run_open(struct stub_link *link, struct wire_gp_launch_run_req *run, uint32_t stride,
         uint32_t seq)
{
    static_assert(STUB_LAUNCH_RUN_MAX < STUB_SEND_HIGH, "a run fits a write");
    stub_post_open(link, (struct wire_req *)run - 1, RUN_HEAD + stride,
                   STUB_LAUNCH_RUN_MAX,
                   atomic_load_explicit(&link->queued, memory_order_relaxed), seq);
}

/* The frame of a plain launch, in its best form.  Features look at whole frames. */
static GP_INLINE enum launch_form
launch_put_plain(struct stub_call *c, const struct launch *launch,
                 const struct stub_args *args)
{
    enum launch_form form = LAUNCH_WHOLE;
    uint32_t stride = wire_launch_stride(args->len);
    struct wire_gp_launch_run_req *run = c->body;

    if (!(stub_link_attention(c->link) & ~STUB_POST_CHECKS))
        form = launch_form(c->link, launch, args->len);
    if (form == LAUNCH_RUN) {
        stub_args_put(args, (uint8_t *)(run + 1));
        if (likely(!stub_post_names_spare(c->link, run + 1, args->len))) {
            stub_call_become(c, WIRE_CALL_gp_launch_run, RUN_SIZE + stride);
            run_begin(c->link, run, stride);
            if (likely(!c->overflow))
                run_open(c->link, run, stride,
                         atomic_load_explicit(&c->link->seq, memory_order_relaxed));
            return form;
        }
    }
    stub_args_put(args, launch_put_whole(c->body, launch, args->len));
    return form;
}

static GP_INLINE CUresult
launch_plain(struct launch launch, CUfunction f, CUstream hStream, void **params,
             void **extra)
{
    enum launch_form form = LAUNCH_WHOLE;
    struct stub_args args;
    struct stub_call c;
    CUresult r = stub_enter();

    static_assert(sizeof(struct wire_cuLaunchCooperativeKernel_req) == WHOLE_SIZE,
                  "one writer for both");
    if (likely(r == CUDA_SUCCESS))
        r = stub_args_open(&args, f, params, extra);
    if (likely(r == CUDA_SUCCESS))
        r = stub_stream_get(hStream, launch.per_thread, &launch.stream);
    if (likely(r == CUDA_SUCCESS))
        r = launch_check(args.func, launch.grid, launch.block, launch.shared);
    if (unlikely(r != CUDA_SUCCESS))
        return r;
    launch.f = (uintptr_t)f;
    if (stub_managed_is_on())
        stub_managed_work(launch.stream);
    r = stub_call_begin(&c, launch.number, WHOLE_SIZE + wire_align(args.len));
    if (unlikely(r != CUDA_SUCCESS))
        return r;
    if (launch.number == WIRE_CALL_cuLaunchKernel)
        form = launch_put_plain(&c, &launch, &args);
    else
        stub_args_put(&args, launch_put_whole(c.body, &launch, args.len));
    r = stub_call_post(&c);
    if (unlikely(form == LAUNCH_TOLD))
        stub_launch_shape_tell(c.link);
    return launch_end(r, launch.stream);
}

CUresult
stub_impl_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                         unsigned int gridDimZ, unsigned int blockDimX,
                         unsigned int blockDimY, unsigned int blockDimZ,
                         unsigned int sharedMemBytes, CUstream hStream,
                         void **kernelParams, void **extra, bool per_thread)
{
    const struct launch launch = {.number = WIRE_CALL_cuLaunchKernel,
                                  .per_thread = per_thread,
                                  .grid = {gridDimX, gridDimY, gridDimZ},
                                  .block = {blockDimX, blockDimY, blockDimZ},
                                  .shared = sharedMemBytes};

    return launch_plain(launch, f, hStream, kernelParams, extra);
}

/* Has it pointers to its parameters, and a stream that exists? */
static GP_INLINE bool
launch_is_plain(CUstream hStream, void **params, void **extra)
{
    return likely(params && !extra && !stub_launch_blocking) &&
           (likely(!hStream) || ((uintptr_t)hStream > 2 &&
                                 stub_handle_ok(WIRE_KIND_STREAM, (uintptr_t)hStream)));
}

/* A launch that is not one more of a run: the frame fits into the buffer, and no bit of
 * the attention word is set.  False: nothing has happened. */
static GP_INLINE bool
launch_post(struct stub_link *link, const struct stub_func *func,
            const struct launch *launch, void **from)
{
    uint32_t size = WHOLE_HEAD + wire_align(func->param_bytes), stride;
    struct wire_req *req = stub_post_begin(link, size);
    struct wire_gp_launch_run_req *run;
    enum launch_form form;
    uint8_t *params;

    if (unlikely(!req))
        return false;
    form = launch_form(link, launch, func->param_bytes);
    params = (uint8_t *)(req + 1) + (form == LAUNCH_RUN ? RUN_SIZE : WHOLE_SIZE);
    stub_args_gather(func, from, params);
    if (unlikely(stub_post_names_spare(link, params, func->param_bytes))) {
        stub_post_cancel(link);
        return false;
    }
    if (form == LAUNCH_RUN) {
        static_assert(RUN_HEAD + 8 <= WHOLE_HEAD, "a run fits the room of a frame");
        stride = wire_launch_stride(func->param_bytes);
        size = RUN_HEAD + stride;
        run = stub_post_head(link, req, WIRE_CALL_gp_launch_run, size);
        run_begin(link, run, stride);
        run_open(link, run, stride, req->seq);
    } else {
        launch_put_whole(stub_post_head(link, req, WIRE_CALL_cuLaunchKernel, size),
                         launch, func->param_bytes);
    }
    stub_post_end(link, size);
    if (unlikely(form == LAUNCH_TOLD))
        stub_launch_shape_tell(link);
    return true;
}

/* The first launch of its shape, or of a run, and by the general path what that is
 * for. */
GP_HOT __attribute__((noinline)) static CUresult
launch_first(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
             unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
             unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
             void **kernelParams)
{
    const struct launch launch = {.f = (uintptr_t)f,
                                  .stream = (uintptr_t)hStream,
                                  .grid = {gridDimX, gridDimY, gridDimZ},
                                  .block = {blockDimX, blockDimY, blockDimZ},
                                  .shared = sharedMemBytes};
    const struct stub_func *func = stub_tls.func;

    if (likely(launch_check(func, launch.grid, launch.block, sharedMemBytes) ==
                   CUDA_SUCCESS &&
               launch_post(stub_link_here(), func, &launch, kernelParams)))
        return CUDA_SUCCESS;
    return stub_impl_cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX,
                                    blockDimY, blockDimZ, sharedMemBytes, hStream,
                                    kernelParams, NULL, false);
}

/* Most launches: one more in the frame of the launch before it, whose kernel, shape and
 * context it has; what was checked for that holds for it. */
GP_HOT CUresult
stub_fast_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                         unsigned int gridDimZ, unsigned int blockDimX,
                         unsigned int blockDimY, unsigned int blockDimZ,
                         unsigned int sharedMemBytes, CUstream hStream,
                         void **kernelParams, void **extra)
{
    const uint32_t grid[] = {gridDimX, gridDimY, gridDimZ};
    const uint32_t block[] = {blockDimX, blockDimY, blockDimZ};
    const struct stub_func *func = stub_func_known(f);
    struct stub_link *link = stub_link_here();
    struct wire_gp_launch_run_req *run;
    uint32_t stride;
    uint8_t *at;

    if (!func || unlikely(!launch_is_plain(hStream, kernelParams, extra)))
        return stub_impl_cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX,
                                        blockDimY, blockDimZ, sharedMemBytes, hStream,
                                        kernelParams, extra, false);
    if (unlikely(func->odd || !stub_post_take(link)))
        goto first;
    stride = wire_launch_stride(func->param_bytes);
    at = stub_post_more(link, stride);
    if (likely(at &&
               stub_launch_shape_is(&stub_launch_shapes_of(link)->last, (uintptr_t)f,
                                    (uintptr_t)hStream, grid, block, sharedMemBytes,
                                    func->param_bytes) &&
               link->open.req->ctx == stub_tls.ctx_frame)) {
        stub_args_gather_as(func, kernelParams, at, false);
        if (likely(!stub_post_names_spare(link, at, func->param_bytes))) {
            run = (struct wire_gp_launch_run_req *)(link->open.req + 1);
            run->n += stride;
            stub_post_grow(link, stride);
            stub_post_end(link, stride);
            return CUDA_SUCCESS;
        }
    }
    stub_post_cancel(link);
first:
    return launch_first(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                        blockDimZ, sharedMemBytes, hStream, kernelParams);
}

CUresult
stub_impl_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX,
                                    unsigned int gridDimY, unsigned int gridDimZ,
                                    unsigned int blockDimX, unsigned int blockDimY,
                                    unsigned int blockDimZ, unsigned int sharedMemBytes,
                                    CUstream hStream, void **kernelParams,
                                    bool per_thread)
{
    const struct launch launch = {.number = WIRE_CALL_cuLaunchCooperativeKernel,
                                  .per_thread = per_thread,
                                  .grid = {gridDimX, gridDimY, gridDimZ},
                                  .block = {blockDimX, blockDimY, blockDimZ},
                                  .shared = sharedMemBytes};

    return launch_plain(launch, f, hStream, kernelParams, NULL);
}

/* Events that the launch will record; in a capture, each launch of the graph. */
static void
launch_records(const CUlaunchConfig *config)
{
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attr = &config->attrs[i];

        if (attr->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
            attr->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            stub_event_in_graphs();
        if (attr->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            stub_event_unknown(attr->value.programmaticEvent.event);
        else if (attr->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            stub_event_unknown(attr->value.launchCompletionEvent.event);
    }
}

/* The same as a launch of the older kind, which has a shorter frame. */
static CUresult
launch_unattributed(const CUlaunchConfig *c, CUfunction f, void **params, void **extra,
                    bool per_thread)
{
    if (unlikely(per_thread))
        return stub_impl_cuLaunchKernel(
            f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY,
            c->blockDimZ, c->sharedMemBytes, c->hStream, params, extra, true);
    return stub_fast_cuLaunchKernel(f, c->gridDimX, c->gridDimY, c->gridDimZ,
                                    c->blockDimX, c->blockDimY, c->blockDimZ,
                                    c->sharedMemBytes, c->hStream, params, extra);
}

/* The configuration is sent as it is, but for its stream and its attribute list,
 * which follows the fixed part. */
CUresult
stub_impl_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f,
                           void **kernelParams, void **extra, bool per_thread)
{
    struct wire_cuLaunchKernelEx_req_room room;
    struct wire_cuLaunchKernelEx_req head = {.f = (uintptr_t)f};
    struct stub_args args;
    struct stub_call c;
    CUlaunchConfig copy;
    uint64_t stream;
    uint32_t size;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    if (!config->numAttrs)
        return launch_unattributed(config, f, kernelParams, extra, per_thread);
    r = stub_args_open(&args, f, kernelParams, extra);
    if (r == CUDA_SUCCESS)
        r = launch_check(
            args.func,
            (uint32_t[]){config->gridDimX, config->gridDimY, config->gridDimZ},
            (uint32_t[]){config->blockDimX, config->blockDimY, config->blockDimZ},
            0); /* an attribute may allow more of it */
    if (r == CUDA_SUCCESS)
        r = stub_stream_get(config->hStream, per_thread, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    copy = *config;
    copy.hStream = (CUstream)(uintptr_t)stream;
    copy.attrs = NULL;
    memcpy(head.config, &copy, sizeof(copy));
    head.params_len = args.len;
    size = wire_cuLaunchKernelEx_req_size(&head);
    if (!size)
        return CUDA_ERROR_INVALID_VALUE;
    launch_records(config);
    if (stub_managed_is_on())
        stub_managed_work(stream);
    r = stub_call_begin(&c, WIRE_CALL_cuLaunchKernelEx, size);
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &head, sizeof(head));
    wire_cuLaunchKernelEx_req_place(&room, c.body);
    if (config->numAttrs)
        memcpy(room.config_attrs, config->attrs,
               config->numAttrs * sizeof(config->attrs[0]));
    if (room.params)
        stub_args_put(&args, room.params);
    return launch_end(stub_call_post(&c), stream);
}

static bool
same_shape(const CUDA_LAUNCH_PARAMS *a, const CUDA_LAUNCH_PARAMS *b)
{
    return a->gridDimX == b->gridDimX && a->gridDimY == b->gridDimY &&
           a->gridDimZ == b->gridDimZ && a->blockDimX == b->blockDimX &&
           a->blockDimY == b->blockDimY && a->blockDimZ == b->blockDimZ &&
           a->sharedMemBytes == b->sharedMemBytes;
}

/* The interface was deprecated with one launch per device as its meaning. */
CUresult
stub_impl_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list,
                                               unsigned int numDevices,
                                               unsigned int flags)
{
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS &&
        (!list || !numDevices ||
         flags & ~(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |
                   CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)))
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 1; r == CUDA_SUCCESS && i < numDevices; i++)
        if (!same_shape(&list[0], &list[i]))
            r = CUDA_ERROR_INVALID_VALUE;
    /* CUDA allows no default streams here. */
    for (unsigned int i = 0; r == CUDA_SUCCESS && i < numDevices; i++)
        if ((uintptr_t)list[i].hStream <= (uintptr_t)CU_STREAM_PER_THREAD)
            r = CUDA_ERROR_INVALID_HANDLE;
    for (unsigned int i = 0; r == CUDA_SUCCESS && i < numDevices; i++)
        r = stub_impl_cuLaunchCooperativeKernel(
            list[i].function, list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ,
            list[i].blockDimX, list[i].blockDimY, list[i].blockDimZ,
            list[i].sharedMemBytes, list[i].hStream, list[i].kernelParams, false);
    return r;
}
