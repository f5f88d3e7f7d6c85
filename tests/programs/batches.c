/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of copies: what CUDA states of their attributes, streams and elements, a
 * source that is read during the call, and captures, which batches cannot be part of.
 */
#include "parts.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { PIECE = 256, LARGE = 3 << 20 };

static CUstream stream;
static CUdeviceptr memory, other; /* LARGE bytes each */
static unsigned char *locked;     /* as many, page-locked */
static unsigned char back[PIECE];

static int
start(void)
{
    CUcontext ctx;
    CUdevice dev;

    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc_v2(&memory, LARGE));
    TRY(cuMemAlloc_v2(&other, LARGE));
    TRY(cuMemHostAlloc((void **)&locked, LARGE, 0));
    return 0;
}

/* ---- linear copies ------------------------------------------------------------ */

struct batch {
    CUdeviceptr dsts[3], srcs[3];
    size_t sizes[3], idxs[3];
    CUmemcpyAttributes attrs[3];
    size_t count, n_attrs;
};

static struct batch
three_pieces(void)
{
    struct batch b = {.count = 3, .n_attrs = 1};

    for (size_t i = 0; i < 3; i++) {
        b.dsts[i] = other + i * PIECE;
        b.srcs[i] = memory + i * PIECE;
        b.sizes[i] = PIECE;
        b.idxs[i] = i;
        b.attrs[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    }
    return b;
}

static CUresult
copied_in(struct batch *b, CUstream where)
{
    return cuMemcpyBatchAsync_v2(b->dsts, b->srcs, b->sizes, b->count, b->attrs,
                                 b->idxs, b->n_attrs, where);
}

static CUresult
copied(struct batch b)
{
    return copied_in(&b, stream);
}

static int
attributes_of_copies(void)
{
    struct batch b = three_pieces();

    TRY(copied(b));
    b.n_attrs = 3;
    TRY(copied(b));
    b.idxs[2] = 1; /* not behind the one before it */
    CODE(copied(b), CUDA_ERROR_INVALID_VALUE);
    b.idxs[2] = 3; /* behind the last copy */
    CODE(copied(b), CUDA_ERROR_INVALID_VALUE);
    b = three_pieces();
    b.idxs[0] = 1;
    CODE(copied(b), CUDA_ERROR_INVALID_VALUE);
    b = three_pieces();
    b.n_attrs = 0;
    CODE(copied(b), CUDA_ERROR_INVALID_VALUE);
    b.n_attrs = 3;
    b.count = 2;
    CODE(copied(b), CUDA_ERROR_INVALID_VALUE);
    b = three_pieces();
    for (int order = 0; order <= 4; order++) {
        b.attrs[0].srcAccessOrder = (CUmemcpySrcAccessOrder)order;
        CODE(copied(b),
             order >= 1 && order <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    }
    b = three_pieces();
    b.attrs[0].flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
    TRY(copied(b));
    b.attrs[0].flags = 2;
    CODE(copied(b), CUDA_ERROR_INVALID_VALUE);
    TRY(cuStreamSynchronize(stream));
    return 0;
}

static int
copies_that_fail(void)
{
    struct batch b = three_pieces();
    size_t failed = 77;

    TRY(cuMemcpyBatchAsync(b.dsts, b.srcs, b.sizes, 3, b.attrs, b.idxs, 1, &failed,
                           stream));
    SAME(failed, 77);
    b.dsts[2] = 0;
    CODE(cuMemcpyBatchAsync(b.dsts, b.srcs, b.sizes, 3, b.attrs, b.idxs, 1, &failed,
                            stream),
         CUDA_ERROR_INVALID_VALUE);
    SAME(failed, 2);
    b.idxs[0] = 1; /* of no copy in particular */
    CODE(cuMemcpyBatchAsync(b.dsts, b.srcs, b.sizes, 3, b.attrs, b.idxs, 1, &failed,
                            stream),
         CUDA_ERROR_INVALID_VALUE);
    SAME(failed, (size_t)-1);
    TRY(cuStreamSynchronize(stream));
    return 0;
}

/* ---- boxes -------------------------------------------------------------------- */

static CUDA_MEMCPY3D_BATCH_OP
small_box(CUdeviceptr dst, CUdeviceptr src)
{
    CUDA_MEMCPY3D_BATCH_OP op;

    memset(&op, 0, sizeof(op));
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = src;
    op.dst.op.ptr.ptr = dst;
    op.extent = (CUextent3D){16, 4, 2};
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    return op;
}

static int
attributes_of_boxes(void)
{
    CUDA_MEMCPY3D_BATCH_OP op = small_box(other, memory);

    for (int order = 0; order <= 4; order++) {
        op.srcAccessOrder = (CUmemcpySrcAccessOrder)order;
        CODE(cuMemcpy3DBatchAsync_v2(1, &op, 0, stream),
             order >= 1 && order <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    }
    op = small_box(other, memory);
    op.flags = 2;
    CODE(cuMemcpy3DBatchAsync_v2(1, &op, 0, stream), CUDA_ERROR_INVALID_VALUE);
    TRY(cuStreamSynchronize(stream));
    return 0;
}

static int
elements_of_two_arrays(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 32,
                                 .Height = 8,
                                 .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                 .NumChannels = 1};
    CUDA_MEMCPY3D_BATCH_OP op;
    CUarray narrow, wide;

    memset(&op, 0, sizeof(op));
    TRY(cuArray3DCreate_v2(&narrow, &d));
    d.NumChannels = 2;
    TRY(cuArray3DCreate_v2(&wide, &d));
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    op.src.op.array.array = narrow;
    op.dst.op.array.array = wide;
    op.extent = (CUextent3D){8, 4, 1};
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    CODE(cuMemcpy3DBatchAsync_v2(1, &op, 0, stream), CUDA_ERROR_INVALID_VALUE);
    op.dst.op.array.array = narrow;
    op.dst.op.array.offset.x = 16;
    TRY(cuMemcpy3DBatchAsync_v2(1, &op, 0, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuArrayDestroy(narrow));
    TRY(cuArrayDestroy(wide));
    return 0;
}

/* ---- streams ------------------------------------------------------------------ */

/* The legacy default stream takes no batch; that of a thread does, by either name. */
static int
default_streams(void)
{
    struct batch b = three_pieces();
    CUDA_MEMCPY3D_BATCH_OP op = small_box(other, memory);
    const CUstream legacy[] = {NULL, CU_STREAM_LEGACY};

    for (int i = 0; i < 2; i++) {
        CODE(copied_in(&b, legacy[i]), CUDA_ERROR_INVALID_VALUE);
        CODE(cuMemcpy3DBatchAsync_v2(1, &op, 0, legacy[i]), CUDA_ERROR_INVALID_VALUE);
    }
    TRY(copied_in(&b, CU_STREAM_PER_THREAD));
    TRY(cuMemcpy3DBatchAsync_v2(1, &op, 0, CU_STREAM_PER_THREAD));
    TRY(cuMemcpyBatchAsync_v2_ptsz(b.dsts, b.srcs, b.sizes, 3, b.attrs, b.idxs, 1,
                                   NULL));
    TRY(cuMemcpy3DBatchAsync_v2_ptsz(1, &op, 0, NULL));
    TRY(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return 0;
}

static int
hints_in_the_stream_of_a_thread(void)
{
    CUmemLocation where = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    size_t size = 1 << 16, from = 0;
    CUdeviceptr p;

    TRY(cuMemAllocManaged(&p, size, CU_MEM_ATTACH_GLOBAL));
    CODE(settled(cuMemPrefetchBatchAsync(&p, &size, 1, &where, &from, 1, 0, NULL)),
         CUDA_ERROR_INVALID_VALUE);
    TRY(settled(cuMemPrefetchBatchAsync(&p, &size, 1, &where, &from, 1, 0,
                                        CU_STREAM_PER_THREAD)));
    TRY(settled(cuMemPrefetchBatchAsync_ptsz(&p, &size, 1, &where, &from, 1, 0, NULL)));
    TRY(settled(cuMemDiscardBatchAsync_ptsz(&p, &size, 1, 0, NULL)));
    TRY(cuMemFree_v2(p));
    return 0;
}

/* A capture goes on without what it refuses. */
static int
captures(void)
{
    struct batch b = three_pieces();
    CUDA_MEMCPY3D_BATCH_OP op = small_box(other, memory);
    CUgraph graph;
    size_t n = 77;

    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CODE(copied(b), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CODE(cuMemcpy3DBatchAsync_v2(1, &op, 0, stream),
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    TRY(cuMemsetD8Async(memory, 0, PIECE, stream));
    TRY(cuStreamEndCapture(stream, &graph));
    TRY(cuGraphGetNodes(graph, NULL, &n));
    SAME(n, 1);
    TRY(cuGraphDestroy(graph));
    return 0;
}

/* ---- sources that are read during the call ------------------------------------ */

static atomic_bool open_now;

static void
gate(void *arg)
{
    (void)arg;
    while (!atomic_load(&open_now))
        usleep(100);
}

/* The program writes its memory behind the call, while the stream has to wait. */
static int
overwritten(CUresult (*copy)(size_t size), size_t size, size_t last)
{
    memset(locked, 1, LARGE);
    TRY(cuMemsetD8_v2(memory, 0, LARGE));
    atomic_store(&open_now, false);
    TRY(cuLaunchHostFunc(stream, gate, NULL));
    TRY(copy(size));
    memset(locked, 2, LARGE);
    atomic_store(&open_now, true);
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoH_v2(back, memory, 1));
    SAME(back[0], 1);
    TRY(cuMemcpyDtoH_v2(back, memory + last, 2));
    SAME(back[0], 1);
    SAME(back[1], 0);
    return 0;
}

static CUresult
up_during_the_call(size_t size)
{
    struct batch b = three_pieces();

    b.dsts[0] = memory;
    b.srcs[0] = (uintptr_t)locked;
    b.sizes[0] = size;
    b.count = 1;
    b.attrs[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    return copied(b);
}

static CUresult
box_up_during_the_call(size_t size)
{
    CUDA_MEMCPY3D_BATCH_OP op = small_box(memory, (uintptr_t)locked);

    op.src.op.ptr.rowLength = 100;
    op.src.op.ptr.layerHeight = 5;
    op.extent.depth = size;
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    return cuMemcpy3DBatchAsync_v2(1, &op, 0, stream);
}

static int
sources_that_are_read_during_the_call(void)
{
    if (overwritten(up_during_the_call, 100, 99) ||
        overwritten(up_during_the_call, LARGE - 5000, LARGE - 5001))
        return 1;
    return overwritten(box_up_during_the_call, 3, 3 * 64 - 1);
}

int
main(void)
{
    static const struct part parts[] = {
        {"attributes of copies", attributes_of_copies},
        {"copies that fail", copies_that_fail},
        {"attributes of boxes", attributes_of_boxes},
        {"elements of two arrays", elements_of_two_arrays},
        {"default streams", default_streams},
        {"hints in the stream of a thread", hints_in_the_stream_of_a_thread},
        {"captures", captures},
        {"sources that are read during the call",
         sources_that_are_read_during_the_call},
    };

    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
