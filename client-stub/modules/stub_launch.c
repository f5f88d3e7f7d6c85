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
#include "stub_event.h"
#include "stub_flush.h"
#include "stub_func.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_post.h"
#include "wire_api.h"

#include <string.h>

/* Shapes that a driver refuses at once: an empty grid or block, and more threads
 * than the kernel can have by its registers or its launch bounds. */
static inline CUresult
launch_check(const struct stub_func *func, const uint32_t *grid, const uint32_t *block)
{
    uint64_t threads = (uint64_t)block[0] * block[1];

    if (unlikely(!grid[0] || !grid[1] || !grid[2] || !threads || !block[2] ||
                 (func->max_threads && (threads > func->max_threads ||
                                        threads * block[2] > func->max_threads))))
        return CUDA_ERROR_INVALID_VALUE;
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

/* cuLaunchKernel and cuLaunchCooperativeKernel have the same frame.  Inlined so that
 * this stays in registers. */
struct launch {
    uint16_t number;
    bool per_thread;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared;
};

__attribute__((always_inline)) static inline CUresult
launch_plain(const struct launch *launch, CUfunction f, CUstream hStream, void **params,
             void **extra)
{
    struct wire_cuLaunchKernel_req *req;
    struct stub_args args;
    struct stub_call c;
    uint64_t stream;
    CUresult r = stub_enter();

    static_assert(sizeof(struct wire_cuLaunchCooperativeKernel_req) == sizeof(*req),
                  "one writer for both");
    if (likely(r == CUDA_SUCCESS))
        r = stub_args_open(&args, f, params, extra);
    if (likely(r == CUDA_SUCCESS))
        r = stub_stream_get(hStream, launch->per_thread, &stream);
    if (likely(r == CUDA_SUCCESS))
        r = launch_check(args.func, launch->grid, launch->block);
    if (unlikely(r != CUDA_SUCCESS))
        return r;
    if (stub_managed_is_on())
        stub_managed_work(stream);
    r = stub_call_begin(&c, launch->number,
                        (uint32_t)sizeof(*req) + wire_align(args.len));
    if (unlikely(r != CUDA_SUCCESS))
        return r;
    req = c.body;
    req->f = (uintptr_t)f;
    req->hStream = stream;
    req->gridDimX = launch->grid[0];
    req->gridDimY = launch->grid[1];
    req->gridDimZ = launch->grid[2];
    req->blockDimX = launch->block[0];
    req->blockDimY = launch->block[1];
    req->blockDimZ = launch->block[2];
    req->sharedMemBytes = launch->shared;
    req->params_len = args.len;
    stub_args_put(&args, (uint8_t *)(req + 1));
    return launch_end(stub_call_post(&c), stream);
}

CUresult
stub_impl_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                         unsigned int gridDimZ, unsigned int blockDimX,
                         unsigned int blockDimY, unsigned int blockDimZ,
                         unsigned int sharedMemBytes, CUstream hStream,
                         void **kernelParams, void **extra, bool per_thread)
{
    const struct launch launch = {WIRE_CALL_cuLaunchKernel,
                                  per_thread,
                                  {gridDimX, gridDimY, gridDimZ},
                                  {blockDimX, blockDimY, blockDimZ},
                                  sharedMemBytes};

    return launch_plain(&launch, f, hStream, kernelParams, extra);
}

/* The fast path, for most launches: the kernel is the one that this thread launched
 * last and has pointers to its parameters, the frame fits into the buffer, and no
 * bit of the attention word is set.  All other cases, and errors, take the general
 * path above. */
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
    struct wire_cuLaunchKernel_req *req = NULL;
    uint32_t size = 0;

    if (likely(func && kernelParams && !extra && !stub_launch_blocking) &&
        (likely(!hStream) || ((uintptr_t)hStream > 2 &&
                              stub_handle_ok(WIRE_KIND_STREAM, (uintptr_t)hStream))) &&
        likely(launch_check(func, grid, block) == CUDA_SUCCESS)) {
        size = (uint32_t)(sizeof(struct wire_req) + sizeof(*req)) +
               wire_align(func->param_bytes);
        req = stub_post_begin(link, WIRE_CALL_cuLaunchKernel, size);
    }
    if (unlikely(!req))
        return stub_impl_cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX,
                                        blockDimY, blockDimZ, sharedMemBytes, hStream,
                                        kernelParams, extra, false);
    req->f = (uintptr_t)f;
    req->hStream = (uintptr_t)hStream;
    req->gridDimX = gridDimX;
    req->gridDimY = gridDimY;
    req->gridDimZ = gridDimZ;
    req->blockDimX = blockDimX;
    req->blockDimY = blockDimY;
    req->blockDimZ = blockDimZ;
    req->sharedMemBytes = sharedMemBytes;
    req->params_len = func->param_bytes;
    stub_args_gather(func, kernelParams, (uint8_t *)(req + 1));
    if (unlikely(stub_post_names_spare(link, req + 1, func->param_bytes))) {
        stub_post_cancel(link);
        return stub_impl_cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX,
                                        blockDimY, blockDimZ, sharedMemBytes, hStream,
                                        kernelParams, extra, false);
    }
    stub_post_end(link, size);
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX,
                                    unsigned int gridDimY, unsigned int gridDimZ,
                                    unsigned int blockDimX, unsigned int blockDimY,
                                    unsigned int blockDimZ, unsigned int sharedMemBytes,
                                    CUstream hStream, void **kernelParams,
                                    bool per_thread)
{
    const struct launch launch = {WIRE_CALL_cuLaunchCooperativeKernel,
                                  per_thread,
                                  {gridDimX, gridDimY, gridDimZ},
                                  {blockDimX, blockDimY, blockDimZ},
                                  sharedMemBytes};

    return launch_plain(&launch, f, hStream, kernelParams, NULL);
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
    r = stub_args_open(&args, f, kernelParams, extra);
    if (r == CUDA_SUCCESS)
        r = launch_check(
            args.func,
            (uint32_t[]){config->gridDimX, config->gridDimY, config->gridDimZ},
            (uint32_t[]){config->blockDimX, config->blockDimY, config->blockDimZ});
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

/* The interface was deprecated with one launch per device as its meaning. */
CUresult
stub_impl_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list,
                                               unsigned int numDevices,
                                               unsigned int flags)
{
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS && (!list || !numDevices))
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; r == CUDA_SUCCESS && i < numDevices; i++)
        r = stub_impl_cuLaunchCooperativeKernel(
            list[i].function, list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ,
            list[i].blockDimX, list[i].blockDimY, list[i].blockDimZ,
            list[i].sharedMemBytes, list[i].hStream, list[i].kernelParams, false);
    return r;
}
