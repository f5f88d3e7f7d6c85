/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths device_copy and device_alias: a frame, and the device's own copy.
 *
 * device_copy: the device reaches the host side at the address that the program uses,
 * and copies in stream order, behind kernels that may have changed that memory and in
 * front of kernels that read it.  device_alias: the device has pages of its own for
 * managed or registered memory, at another address, which it may have changed since the
 * host last saw them, or is going to.
 */
#include "cuda_api.h"
#include "stub_box.h"
#include "stub_call.h"
#include "stub_d2h_async.h"
#include "stub_manual.h"
#include "stub_path.h"

static CUresult
copy_by_device(const struct stub_copy *copy, CUdeviceptr dst)
{
    CUresult r;

    stub_d2h_async_wait((void *)(uintptr_t)copy->src, copy->n);
    stub_d2h_async_wait((void *)(uintptr_t)copy->dst, copy->n);
    r = stub_gen_cuMemcpyDtoDAsync_v2(dst, copy->src, copy->n, copy->stream,
                                      copy->per_thread);
    return r == CUDA_SUCCESS && copy->blocking
               ? stub_impl_cuStreamSynchronize(copy->stream, copy->per_thread)
               : r;
}

CUresult
stub_path_device_copy(struct stub_copy *copy)
{
    return copy_by_device(copy, copy->dst);
}

CUresult
stub_path_device_alias(struct stub_copy *copy)
{
    if (copy->direction == STUB_D2H)
        return copy_by_device(copy, copy->alias);
    if (copy->blocking)
        return copy->per_thread ? cuMemcpyDtoD_v2_ptds(copy->dst, copy->alias, copy->n)
                                : cuMemcpyDtoD_v2(copy->dst, copy->alias, copy->n);
    return copy->per_thread
               ? cuMemcpyDtoDAsync_v2_ptsz(copy->dst, copy->alias, copy->n,
                                           copy->stream)
               : cuMemcpyDtoDAsync_v2(copy->dst, copy->alias, copy->n, copy->stream);
}

CUresult
stub_path_device_copy_box(struct stub_copy *copy)
{
    struct stub_call c;
    CUresult r = stub_box_begin(&c, copy->box, copy->stream_id, 0, 0);

    return r == CUDA_SUCCESS ? stub_call_post(&c) : r;
}
