/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that put a wait for a value into a stream; see stub_turn.h. */
#include "stub_turn.h"

#include "cuda_api.h"
#include "stub_manual.h"

#define BATCH_MAX 256u /* proto/api/stream.api */

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

/* A batch that only writes, as signals to other streams are, keeps nothing waiting.  Of
 * more operations than a batch may have the call is refused. */
static bool
batch_waits(const CUstreamBatchMemOpParams *ops, unsigned int n)
{
    for (unsigned int i = 0; ops && i < gp_min(n, BATCH_MAX); i++)
        if (ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
            ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
            return true;
    return false;
}

CUresult
stub_impl_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                CUstreamBatchMemOpParams *paramArray,
                                unsigned int flags, bool per_thread)
{
    if (batch_waits(paramArray, count))
        atomic_store(&stub_turn_gates, true);
    return stub_gen_cuStreamBatchMemOp_v2(stream, count, paramArray, flags, per_thread);
}
