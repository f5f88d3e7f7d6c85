/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that end something do so although an earlier call has failed: who learns of
 * that failure only later must not have lost the call that ends a capture, takes a
 * mapping back, or gives up a reference.
 */
#include "parts.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

#define BYTES ((size_t)4 << 20)

static CUcontext ctx;
static CUstream stream;
static CUdeviceptr memory;

/* A call that fails: at once, or with a later one, which is not to be cuCtxSynchronize
 * alone. */
static void
fail(CUstream where)
{
    (void)cuMemsetD8Async(memory + 4000, 0, 4096, where);
}

static int
a_capture(void)
{
    CUstreamCaptureStatus status;
    CUgraph graph = NULL;

    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuMemsetD8Async(memory, 1, 4096, stream));
    fail(stream);
    (void)cuStreamEndCapture(stream, &graph);
    (void)cuCtxSynchronize();
    TRY(cuStreamIsCapturing(stream, &status));
    SAME(status, CU_STREAM_CAPTURE_STATUS_NONE);
    TRY(cuMemsetD8Async(memory, 2, 4096, stream));
    TRY(cuStreamSynchronize(stream));
    if (graph)
        TRY(cuGraphDestroy(graph));
    return 0;
}

static int
a_mapping(void)
{
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
    };
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;

    TRY(cuMemAddressReserve(&at, BYTES, 0, 0, 0));
    TRY(cuMemCreate(&handle, BYTES, &prop, 0));
    TRY(cuMemMap(at, BYTES, 0, handle, 0));
    fail(NULL);
    (void)cuMemUnmap(at, BYTES);
    (void)cuCtxSynchronize();
    TRY(cuMemMap(at, BYTES, 0, handle, 0)); /* there is room for it again */
    TRY(cuMemUnmap(at, BYTES));
    TRY(cuMemRelease(handle));
    TRY(cuMemAddressFree(at, BYTES));
    return 0;
}

static int
a_reservation(void)
{
    CUdeviceptr at;

    TRY(cuMemAddressReserve(&at, BYTES, 0, 0, 0));
    fail(NULL);
    (void)cuMemAddressFree(at, BYTES);
    (void)cuCtxSynchronize();
    CODE(cuMemAddressFree(at, BYTES), CUDA_ERROR_INVALID_VALUE);
    return 0;
}

static int others[2]; /* a pair of sockets with a process that exports its memory */

static int
memory_of_another(void)
{
    CUipcMemHandle handle;
    CUdeviceptr at;

    if (read(others[0], &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
        return 1;
    TRY(cuIpcOpenMemHandle_v2(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    fail(NULL);
    (void)cuIpcCloseMemHandle(at);
    (void)cuCtxSynchronize();
    CODE(cuIpcCloseMemHandle(at), CUDA_ERROR_INVALID_VALUE);
    return 0;
}

/* The other process, until this one closes its socket. */
static void
export_memory(void)
{
    CUipcMemHandle handle;
    char end;

    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS ||
        cuMemAlloc_v2(&memory, BYTES) != CUDA_SUCCESS ||
        cuIpcGetMemHandle(&handle, memory) != CUDA_SUCCESS ||
        write(others[1], &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
        exit(2);
    exit(read(others[1], &end, 1) != 0);
}

static _Atomic int ended;

static void
on_end(void *data)
{
    (void)data;
    atomic_fetch_add(&ended, 1);
}

static int
a_reference(void)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    CUuserObject object;
    CUgraph graph;

    TRY(cuGraphCreate(&graph, 0));
    TRY(cuUserObjectCreate(&object, NULL, on_end, 1,
                           CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    TRY(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    CODE(cuUserObjectRelease(object, 0), CUDA_ERROR_INVALID_VALUE);
    CODE(cuUserObjectRetain(object, 0), CUDA_ERROR_INVALID_VALUE);
    fail(NULL);
    (void)cuGraphReleaseUserObject(graph, object, 1);
    (void)cuCtxSynchronize();
    for (int i = 0; i < 2000 && !atomic_load(&ended); i++)
        nanosleep(&ms, NULL);
    SAME(atomic_load(&ended), 1);
    TRY(cuGraphDestroy(graph));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"a capture", a_capture},
        {"a mapping", a_mapping},
        {"a reservation", a_reservation},
        {"memory of another process", memory_of_another},
        {"a reference", a_reference},
    };

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, others) < 0)
        return 2;
    if (fork() == 0) {
        close(others[0]);
        export_memory();
    }
    close(others[1]);
    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS ||
        cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuMemAlloc_v2(&memory, 4096) != CUDA_SUCCESS)
        return 2;
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
