/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that change turns with shared memory; see stub_managed.h. */
#include "cuda_api.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_memory.h"
#include "wire_api.h"

/* Launches and linear copies report their work themselves.  These are all other
 * calls that read or write device memory. */
static bool
managed_is_work(uint16_t number)
{
    switch (number) {
    case WIRE_CALL_cuGraphLaunch:
    case WIRE_CALL_cuMemcpyDtoD_v2:
    case WIRE_CALL_cuMemcpyDtoDAsync_v2:
    case WIRE_CALL_cuMemcpyPeer:
    case WIRE_CALL_cuMemcpyPeerAsync:
    case WIRE_CALL_cuMemcpyAtoD_v2:
    case WIRE_CALL_cuMemcpyDtoA_v2:
    case WIRE_CALL_cuMemcpy2D_v2:
    case WIRE_CALL_cuMemcpy2DAsync_v2:
    case WIRE_CALL_cuMemcpy2DUnaligned_v2:
    case WIRE_CALL_cuMemcpy3D_v2:
    case WIRE_CALL_cuMemcpy3DAsync_v2:
    case WIRE_CALL_cuMemcpy3DPeer:
    case WIRE_CALL_cuMemcpy3DPeerAsync:
    case WIRE_CALL_cuMemsetD8_v2:
    case WIRE_CALL_cuMemsetD8Async:
    case WIRE_CALL_cuMemsetD16_v2:
    case WIRE_CALL_cuMemsetD16Async:
    case WIRE_CALL_cuMemsetD32_v2:
    case WIRE_CALL_cuMemsetD32Async:
    case WIRE_CALL_cuMemsetD2D8_v2:
    case WIRE_CALL_cuMemsetD2D8Async:
    case WIRE_CALL_cuMemsetD2D16_v2:
    case WIRE_CALL_cuMemsetD2D16Async:
    case WIRE_CALL_cuMemsetD2D32_v2:
    case WIRE_CALL_cuMemsetD2D32Async:
    case WIRE_CALL_cuStreamWriteValue32_v2:
    case WIRE_CALL_cuStreamWriteValue64_v2:
    case WIRE_CALL_cuStreamWaitValue32_v2:
    case WIRE_CALL_cuStreamWaitValue64_v2:
    case WIRE_CALL_cuStreamBatchMemOp_v2:
        return true;
    default:
        return false;
    }
}

/* Graphs check addresses when nodes are added: they must be there. */
static bool
managed_is_named(uint16_t number)
{
    switch (number) {
    case WIRE_CALL_cuGraphAddMemcpyNode:
    case WIRE_CALL_cuGraphAddMemsetNode:
    case WIRE_CALL_cuGraphAddBatchMemOpNode:
    case WIRE_CALL_cuGraphAddNode_v2:
        return true;
    default:
        return false;
    }
}

static void
managed_before(uint16_t number)
{
    if (managed_is_work(number)) {
        stub_managed_work(STUB_MANAGED_SOME);
    } else if (number == WIRE_CALL_cuStreamAttachMemAsync) {
        stub_managed_attached();
    } else if (stub_links_n > 1 && managed_is_named(number)) {
        stub_managed_carry();
    }
}

static CUresult
managed_after(uint16_t number, CUresult result)
{
    if (result != CUDA_SUCCESS)
        return result;
    switch (number) {
    case WIRE_CALL_cuCtxSynchronize:
    case WIRE_CALL_cuCtxSynchronize_v2:
        return stub_managed_waited(STUB_MANAGED_ALL);
    case WIRE_CALL_cuEventSynchronize:
    case WIRE_CALL_cuEventQuery:
    case WIRE_CALL_cuStreamQuery:
        return stub_managed_waited(STUB_MANAGED_SOME);
    case WIRE_CALL_cuMemsetD8_v2: /* CUDA waits where the target is the host's too */
    case WIRE_CALL_cuMemsetD16_v2:
    case WIRE_CALL_cuMemsetD32_v2:
    case WIRE_CALL_cuMemsetD2D8_v2:
    case WIRE_CALL_cuMemsetD2D16_v2:
    case WIRE_CALL_cuMemsetD2D32_v2:
        return stub_managed_sync();
    default:
        return result;
    }
}

/* Memory that a frame names becomes a range, and its content is sent.  Copies to it
 * that are under way arrive here alone, so they are waited for: work behind them would
 * not find their bytes otherwise. */
static void
managed_provide(void)
{
    struct stub_memory m;

    for (uint64_t from = 0; stub_memory_find_wanted(from, &m);
         from = m.range.start + m.range.size)
        stub_hooks_drain((const void *)(uintptr_t)m.range.start, m.range.size);
    stub_managed_adopt();
    stub_managed_work(STUB_MANAGED_SOME);
}

const struct stub_feature stub_managed_feature = {
    .name = "managed memory",
    .before_call = managed_before,
    .after_wait = managed_after,
    .ctx_end = stub_managed_ctx_end,
    .placed = stub_managed_placed,
    .stream_waited = stub_managed_waited,
    .hostfn_begin = stub_managed_host_begin,
    .hostfn_end = stub_managed_host_end,
    .provide = managed_provide,
};
