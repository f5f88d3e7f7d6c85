/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that put a wait for a value into a stream; see stub_turn.h. */
#include "stub_turn.h"

#include "cuda_api.h"
#include "stub_manual.h"

atomic_bool stub_turn_gates;

CUresult
stub_impl_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                 unsigned int flags, bool per_thread)
{
    atomic_store(&stub_turn_gates, true);
    return stub_gen_cuStreamWaitValue32_v2(stream, addr, value, flags, per_thread);
}

CUresult
stub_impl_cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                 unsigned int flags, bool per_thread)
{
    atomic_store(&stub_turn_gates, true);
    return stub_gen_cuStreamWaitValue64_v2(stream, addr, value, flags, per_thread);
}

CUresult
stub_impl_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                CUstreamBatchMemOpParams *paramArray,
                                unsigned int flags, bool per_thread)
{
    atomic_store(&stub_turn_gates, true);
    return stub_gen_cuStreamBatchMemOp_v2(stream, count, paramArray, flags, per_thread);
}
