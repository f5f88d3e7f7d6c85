/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: the arguments go straight from where the application keeps them into the
 * frame, by the layout known since the kernel was looked up.
 *
 * Everything that can be refused here is checked before the frame is claimed; what only
 * the driver can judge comes back with the next call that waits.
 */
#include "stub_call.h"
#include "stub_func.h"
#include "stub_manual.h"
#include "wire_api.h"

#include <string.h>

/* Where the arguments are. */
struct launch_args {
    const struct stub_func *func;
    void **pointers;    /* one per parameter, or */
    const void *packed; /* a ready-made block */
    uint32_t len;
};

/* The `extra` list: pairs of key and value up to a zero key. */
static CUresult
launch_take_extra(struct launch_args *args, void **extra)
{
    const size_t *size = NULL;

    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            args->packed = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!size || *size > STUB_PARAM_BYTES_MAX || (*size && !args->packed))
        return CUDA_ERROR_INVALID_VALUE;
    args->len = (uint32_t)*size;
    return CUDA_SUCCESS;
}

static CUresult
launch_take_args(struct launch_args *args, CUfunction f, void **pointers, void **extra)
{
    struct stub_func *func;
    CUresult r = stub_func_get(f, &func);

    if (unlikely(r != CUDA_SUCCESS))
        return r;
    args->func = func;
    args->pointers = pointers;
    args->packed = NULL;
    args->len = func->param_bytes;
    if (likely(!extra)) {
        if (unlikely(func->n_params && !pointers))
            return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
    }
    return pointers ? CUDA_ERROR_INVALID_VALUE : launch_take_extra(args, extra);
}

static inline void
launch_copy(uint8_t *to, const void *from, uint32_t size)
{
    switch (size) {
    case 8:
        memcpy(to, from, 8);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, size);
    }
}

static void
launch_put_args(const struct launch_args *args, uint8_t *to)
{
    const struct stub_func *func = args->func;

    if (args->packed || !args->pointers) {
        if (args->packed)
            memcpy(to, args->packed, args->len);
        return;
    }
    for (uint32_t i = 0; i < func->n_params; i++)
        launch_copy(to + func->params[i].offset, args->pointers[i],
                    func->params[i].size);
}

/* cuLaunchKernel and cuLaunchCooperativeKernel have the same frame. */
static CUresult
launch_plain(uint16_t number, const struct wire_cuLaunchKernel_req *head,
             const struct launch_args *args)
{
    struct wire_cuLaunchKernel_req *req;
    struct stub_call c;
    CUresult r;

    static_assert(sizeof(struct wire_cuLaunchCooperativeKernel_req) == sizeof(*req),
                  "one writer for both");
    r = stub_call_begin(&c, number, (uint32_t)sizeof(*req) + wire_align(args->len));
    if (unlikely(r != CUDA_SUCCESS))
        return r;
    req = c.body;
    *req = *head;
    launch_put_args(args, (uint8_t *)(req + 1));
    return stub_call_post(&c);
}

CUresult
stub_m_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                      unsigned int gridDimZ, unsigned int blockDimX,
                      unsigned int blockDimY, unsigned int blockDimZ,
                      unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
                      void **extra, bool per_thread)
{
    struct launch_args args;
    CUresult r = stub_enter();

    if (likely(r == CUDA_SUCCESS))
        r = launch_take_args(&args, f, kernelParams, extra);
    if (unlikely(r != CUDA_SUCCESS))
        return r;
    return launch_plain(WIRE_CALL_cuLaunchKernel,
                        &(struct wire_cuLaunchKernel_req){
                            .f = (uintptr_t)f,
                            .hStream = stub_stream_id(hStream, per_thread),
                            .gridDimX = gridDimX,
                            .gridDimY = gridDimY,
                            .gridDimZ = gridDimZ,
                            .blockDimX = blockDimX,
                            .blockDimY = blockDimY,
                            .blockDimZ = blockDimZ,
                            .sharedMemBytes = sharedMemBytes,
                            .params_len = args.len,
                        },
                        &args);
}

CUresult
stub_m_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX,
                                 unsigned int gridDimY, unsigned int gridDimZ,
                                 unsigned int blockDimX, unsigned int blockDimY,
                                 unsigned int blockDimZ, unsigned int sharedMemBytes,
                                 CUstream hStream, void **kernelParams, bool per_thread)
{
    struct launch_args args;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = launch_take_args(&args, f, kernelParams, NULL);
    if (r != CUDA_SUCCESS)
        return r;
    return launch_plain(WIRE_CALL_cuLaunchCooperativeKernel,
                        &(struct wire_cuLaunchKernel_req){
                            .f = (uintptr_t)f,
                            .hStream = stub_stream_id(hStream, per_thread),
                            .gridDimX = gridDimX,
                            .gridDimY = gridDimY,
                            .gridDimZ = gridDimZ,
                            .blockDimX = blockDimX,
                            .blockDimY = blockDimY,
                            .blockDimZ = blockDimZ,
                            .sharedMemBytes = sharedMemBytes,
                            .params_len = args.len,
                        },
                        &args);
}

/* The configuration crosses as it is, but for its stream and its attribute list, which
 * follows the fixed part. */
CUresult
stub_m_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                        void **extra, bool per_thread)
{
    struct wire_cuLaunchKernelEx_req_room room;
    struct wire_cuLaunchKernelEx_req head = {.f = (uintptr_t)f};
    struct launch_args args;
    struct stub_call c;
    CUlaunchConfig copy;
    uint32_t size;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    r = launch_take_args(&args, f, kernelParams, extra);
    if (r != CUDA_SUCCESS)
        return r;
    copy = *config;
    copy.hStream = (CUstream)(uintptr_t)stub_stream_id(config->hStream, per_thread);
    copy.attrs = NULL;
    memcpy(head.config, &copy, sizeof(copy));
    head.params_len = args.len;
    size = wire_cuLaunchKernelEx_req_size(&head);
    if (!size)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_call_begin(&c, WIRE_CALL_cuLaunchKernelEx, size);
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &head, sizeof(head));
    wire_cuLaunchKernelEx_req_place(&room, c.body);
    if (config->numAttrs)
        memcpy(room.config_attrs, config->attrs,
               config->numAttrs * sizeof(config->attrs[0]));
    if (room.params)
        launch_put_args(&args, room.params);
    return stub_call_post(&c);
}

/* The interface was deprecated with one launch per device as its meaning. */
CUresult
stub_m_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list,
                                            unsigned int numDevices, unsigned int flags)
{
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS && (!list || !numDevices))
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; r == CUDA_SUCCESS && i < numDevices; i++)
        r = stub_m_cuLaunchCooperativeKernel(
            list[i].function, list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ,
            list[i].blockDimX, list[i].blockDimY, list[i].blockDimZ,
            list[i].sharedMemBytes, list[i].hStream, list[i].kernelParams, false);
    return r;
}
