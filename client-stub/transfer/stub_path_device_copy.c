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
#include "wire_api.h"

/* Both addresses are in memory that is known. */
static CUresult
post_known(const struct stub_copy *copy, CUdeviceptr dst)
{
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuMemcpyDtoDAsync_v2,
                                 sizeof(struct wire_cuMemcpyDtoDAsync_v2_req));

    if (r != CUDA_SUCCESS)
        return r;
    *(struct wire_cuMemcpyDtoDAsync_v2_req *)c.body =
        (struct wire_cuMemcpyDtoDAsync_v2_req){.dstDevice = dst,
                                               .srcDevice = copy->src,
                                               .ByteCount = copy->n,
                                               .hStream = copy->stream_id};
    return stub_call_post(&c);
}

/* An address outside of all memory that we know is the driver's to judge. */
static CUresult
copy_by_device(const struct stub_copy *copy, CUdeviceptr dst)
{
    bool known = copy->facts & STUB_COPY_KNOWN &&
                 copy->facts & (STUB_COPY_SAME_ADDRESS | STUB_COPY_ALIAS);
    CUresult r;

    stub_d2h_async_wait((void *)(uintptr_t)copy->src, copy->n);
    stub_d2h_async_wait((void *)(uintptr_t)copy->dst, copy->n);
    r = known ? post_known(copy, dst)
              : stub_gen_cuMemcpyDtoDAsync_v2(dst, copy->src, copy->n, copy->stream,
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

/* The program may write to the source again when the call has returned, and so may work
 * of other streams; copies on the device alone are not waited for. */
static CUresult
alias_blocking(const struct stub_copy *copy)
{
    CUresult r = copy->per_thread
                     ? cuMemcpyDtoD_v2_ptds(copy->dst, copy->alias, copy->n)
                     : cuMemcpyDtoD_v2(copy->dst, copy->alias, copy->n);

    return r == CUDA_SUCCESS
               ? stub_impl_cuStreamSynchronize(copy->stream, copy->per_thread)
               : r;
}

CUresult
stub_path_device_alias(struct stub_copy *copy)
{
    if (copy->direction == STUB_D2H)
        return copy_by_device(copy, copy->alias);
    if (copy->blocking)
        return alias_blocking(copy);
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
