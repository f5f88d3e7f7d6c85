/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path host_copy: both sides are memory of this process.
 *
 * The bytes are moved here, when the work before the copy in its stream is done; then
 * the program sees the same order as if a device had copied.
 */
#include "stub_box.h"
#include "stub_d2h_async.h"
#include "stub_manual.h"
#include "stub_path.h"

#include <string.h>

CUresult
stub_path_host_copy(struct stub_copy *copy)
{
    void *to = (void *)(uintptr_t)copy->dst, *from = (void *)(uintptr_t)copy->src;
    CUresult r = stub_impl_cuStreamSynchronize(copy->stream, copy->per_thread);

    if (r != CUDA_SUCCESS)
        return r;
    stub_d2h_async_wait(from, copy->n);
    stub_d2h_async_wait(to, copy->n);
    memmove(to, from, copy->n);
    return CUDA_SUCCESS;
}

CUresult
stub_path_host_copy_box(struct stub_copy *copy)
{
    const struct stub_box *box = copy->box;
    CUresult r = stub_impl_cuStreamSynchronize(copy->stream, copy->per_thread);

    if (r != CUDA_SUCCESS)
        return r;
    stub_d2h_async_wait(box->src.base, stub_box_extent(box, &box->src));
    stub_d2h_async_wait(box->dst.base, stub_box_extent(box, &box->dst));
    for (uint64_t i = 0; i < box->rows; i++)
        memmove(stub_box_row(box, &box->dst, i), stub_box_row(box, &box->src, i),
                box->width);
    return CUDA_SUCCESS;
}
