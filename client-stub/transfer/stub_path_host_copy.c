/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path host_copy: both sides are memory of this process.
 *
 * The bytes are moved here, when the work before the copy in its stream is done; then
 * the program sees the same order as if a device had copied.
 */
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
