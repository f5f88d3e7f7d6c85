/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches: many copies or hints in one call.
 *
 * A batch has no order inside, may not go to the legacy default stream, and cannot be
 * captured.  What is checked is checked before the first element has an effect, as far
 * as that can be.
 */
#include "sg_array.h"
#include "sg_capture.h"
#include "sg_copy.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_handle.h"
#include "sg_managed.h"
#include "sg_stream.h"

#include <string.h>

enum {
    /* Elements of one call; beyond it somebody passed garbage. */
    MAX_BATCH = 1 << 20,
};

static bool
is_legacy(CUstream hstream)
{
    return !hstream || hstream == CU_STREAM_LEGACY;
}

/* ----------------------------------------------------------------------- copies */

/* Enters the library for @n copies.  A capture refuses them and goes on without. */
static CUresult
enter_copies(size_t n, CUstream hstream, struct sg_ctx **ret_ctx)
{
    struct sg_stream *stream;
    CUresult rc = sg_enter(ret_ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = !n || n > MAX_BATCH || is_legacy(hstream)
             ? CUDA_ERROR_INVALID_VALUE
             : sg_stream_get(*ret_ctx, hstream, &stream);
    if (rc == CUDA_SUCCESS && stream->capture)
        rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return rc == CUDA_SUCCESS ? rc : sg_leave(rc);
}

static bool
is_ordered(CUmemcpySrcAccessOrder order, unsigned flags)
{
    return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
           order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
           !(flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
}

/* One copy; the lock may have been dropped when it returns. */
static CUresult
copy_one(struct sg_ctx *ctx, CUstream hstream, const CUDA_MEMCPY3D *d,
         CUmemcpySrcAccessOrder order)
{
    struct sg_stream *stream;
    CUresult rc = sg_stream_get(ctx, hstream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    return order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
               ? sg_copy_enqueue_read(ctx, hstream, d)
               : sg_copy_enqueue(stream, d, false);
}

/* Which copies have which attributes. */
struct attrs {
    const CUmemcpyAttributes *list;
    const size_t *idxs;
    size_t n;
};

/* Every copy of @count has valid ones. */
static bool
attrs_are_valid(const struct attrs *a, size_t count)
{
    if (!a->list || !a->idxs || !a->n || a->n > count || a->idxs[0])
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->idxs[i] >= count || (i && a->idxs[i] <= a->idxs[i - 1]) ||
            !is_ordered(a->list[i].srcAccessOrder, a->list[i].flags))
            return false;
    return true;
}

/* *ret_failed: the copy that an error is of, SIZE_MAX: of none. */
static CUresult
batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
      size_t count, const struct attrs *attrs, size_t *ret_failed, CUstream hstream)
{
    struct sg_ctx *ctx;
    CUresult rc;
    size_t at = 0;

    *ret_failed = SIZE_MAX;
    rc = enter_copies(count, hstream, &ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!dsts || !srcs || !sizes || !attrs_are_valid(attrs, count))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count && rc == CUDA_SUCCESS; i++) {
        CUDA_MEMCPY3D d = sg_copy_linear(
            CU_MEMORYTYPE_UNIFIED, (void *)(uintptr_t)dsts[i], CU_MEMORYTYPE_UNIFIED,
            (const void *)(uintptr_t)srcs[i], sizes[i]);

        if (at + 1 < attrs->n && attrs->idxs[at + 1] == i)
            at++;
        rc = sizes[i] ? copy_one(ctx, hstream, &d, attrs->list[at].srcAccessOrder)
                      : CUDA_ERROR_INVALID_VALUE;
        if (rc != CUDA_SUCCESS)
            *ret_failed = i;
    }
    return sg_leave(rc);
}

SG_CALL(cuMemcpyBatchAsync_v2, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
        size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
        CUstream hStream)
{
    const struct attrs a = {attrs, attrsIdxs, numAttrs};
    size_t failed;

    return batch(dsts, srcs, sizes, count, &a, &failed, hStream);
}

SG_CALL(cuMemcpyBatchAsync, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
        size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
        size_t *failIdx, CUstream hStream)
{
    const struct attrs a = {attrs, attrsIdxs, numAttrs};
    size_t failed;
    CUresult rc = batch(dsts, srcs, sizes, count, &a, &failed, hStream);

    if (failIdx && rc != CUDA_SUCCESS)
        *failIdx = failed;
    return rc;
}

/* ------------------------------------------------------------------- 3D copies */

/* One side as the fields of a 3D copy. */
struct side {
    CUmemorytype *type;
    CUdeviceptr *device;
    CUarray *array;
    size_t *x, *y, *z, *pitch, *height;
};

/* Bytes of an array's element; 1 for a pointer, 0 for neither. */
static size_t
element_of(const CUmemcpy3DOperand *o)
{
    const struct sg_array *a;

    if (o->type == CU_MEMCPY_OPERAND_TYPE_POINTER)
        return 1;
    if (o->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return 0;
    a = SG_OBJ(sg_array, SG_KIND_ARRAY, o->op.array.array);
    return a ? a->element : 0;
}

/* Lengths count elements of the array that takes part; without one, bytes.  Elements of
 * two arrays are of one size. */
static CUresult
take_operand(const CUmemcpy3DOperand *o, size_t element, const struct side *to)
{
    if (o->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
        *to->type = CU_MEMORYTYPE_UNIFIED;
        *to->device = o->op.ptr.ptr;
        *to->height = o->op.ptr.layerHeight;
        return gp_mul_ok(o->op.ptr.rowLength, element, to->pitch)
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    }
    *to->type = CU_MEMORYTYPE_ARRAY;
    *to->array = o->op.array.array;
    *to->y = o->op.array.offset.y;
    *to->z = o->op.array.offset.z;
    return gp_mul_ok(o->op.array.offset.x, element, to->x) ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
describe(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *d)
{
    struct side src = {&d->srcMemoryType, &d->srcDevice, &d->srcArray, &d->srcXInBytes,
                       &d->srcY,          &d->srcZ,      &d->srcPitch, &d->srcHeight};
    struct side dst = {&d->dstMemoryType, &d->dstDevice, &d->dstArray, &d->dstXInBytes,
                       &d->dstY,          &d->dstZ,      &d->dstPitch, &d->dstHeight};
    size_t from = element_of(&op->src), to = element_of(&op->dst);
    size_t element = gp_max(from, to);
    CUresult rc;

    memset(d, 0, sizeof(*d));
    d->Height = op->extent.height;
    d->Depth = op->extent.depth;
    if (!from || !to || !op->extent.width || !d->Height || !d->Depth ||
        (from != to && op->src.type == op->dst.type) ||
        !is_ordered(op->srcAccessOrder, op->flags) ||
        !gp_mul_ok(op->extent.width, element, &d->WidthInBytes))
        return CUDA_ERROR_INVALID_VALUE;
    rc = take_operand(&op->src, element, &src);
    return rc == CUDA_SUCCESS ? take_operand(&op->dst, element, &dst) : rc;
}

static CUresult
batch_3d(size_t n, const CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags,
         CUstream hstream, size_t *ret_failed)
{
    CUDA_MEMCPY3D d;
    struct sg_ctx *ctx;
    CUresult rc;

    *ret_failed = SIZE_MAX;
    rc = enter_copies(n, hstream, &ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!ops || flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n && rc == CUDA_SUCCESS; i++) {
        rc = describe(&ops[i], &d);
        if (rc == CUDA_SUCCESS)
            rc = copy_one(ctx, hstream, &d, ops[i].srcAccessOrder);
        if (rc != CUDA_SUCCESS)
            *ret_failed = i;
    }
    return sg_leave(rc);
}

SG_CALL(cuMemcpy3DBatchAsync_v2, size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
        unsigned long long flags, CUstream hStream)
{
    size_t failed;

    return batch_3d(numOps, opList, flags, hStream, &failed);
}

SG_CALL(cuMemcpy3DBatchAsync, size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
        size_t *failIdx, unsigned long long flags, CUstream hStream)
{
    size_t failed;
    CUresult rc = batch_3d(numOps, opList, flags, hStream, &failed);

    if (failIdx && rc != CUDA_SUCCESS)
        *failIdx = failed;
    return rc;
}

/* ------------------------------------------------------------------------ hints */

struct ranges {
    const CUdeviceptr *ptrs;
    const size_t *sizes;
    size_t n;
    const CUmemLocation *locs; /* NULL: nothing is prefetched */
    const size_t *idxs;        /* from which range on each location holds */
    size_t n_locs;
};

/* The location of range @i, at or behind location *at. */
static const CUmemLocation *
location_of(const struct ranges *r, size_t i, size_t *at)
{
    while (*at + 1 < r->n_locs && r->idxs[*at + 1] <= i)
        ++*at;
    return r->locs ? &r->locs[*at] : NULL;
}

static CUresult
check_ranges(const struct ranges *r)
{
    CUresult rc = CUDA_SUCCESS;
    size_t at = 0;

    if (!r->n || r->n > MAX_BATCH || !r->ptrs || !r->sizes)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < r->n_locs; k++)
        if (r->idxs[k] >= r->n || (k ? r->idxs[k] <= r->idxs[k - 1] : r->idxs[0] != 0))
            return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < r->n && rc == CUDA_SUCCESS; i++)
        rc = sg_managed_check(r->ptrs[i], r->sizes[i], location_of(r, i, &at));
    return rc;
}

/* Pages never move and their content may as well stay: both hints only say where
 * the memory is to be found next. */
static CUresult
hint(const struct ranges *r, unsigned long long flags, CUstream hstream)
{
    struct sg_stream *stream;
    struct sg_ctx *ctx;
    size_t at = 0;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = is_legacy(hstream) ? CUDA_ERROR_INVALID_VALUE
                            : sg_stream_get(ctx, hstream, &stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_capture_check_none(stream);
    if (rc == CUDA_SUCCESS)
        rc = flags ? CUDA_ERROR_INVALID_VALUE : check_ranges(r);
    for (size_t i = 0; r->locs && rc == CUDA_SUCCESS && i < r->n; i++)
        rc = sg_managed_prefetched(r->ptrs[i], r->sizes[i], location_of(r, i, &at));
    return sg_leave(rc);
}

static CUresult
hint_with_locations(const CUdeviceptr *ptrs, const size_t *sizes, size_t n,
                    const CUmemLocation *locs, const size_t *idxs, size_t n_locs,
                    unsigned long long flags, CUstream hstream)
{
    struct ranges r = {ptrs, sizes, n, locs, idxs, n_locs};

    if (!locs || !idxs || !n_locs || n_locs > n)
        r = (struct ranges){0}; /* refused once the stream is known to be good */
    return hint(&r, flags, hstream);
}

#define HINT(name)                                                                     \
    SG_CALL(name, CUdeviceptr *dptrs, size_t *sizes, size_t count,                     \
            CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,                      \
            size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)        \
    {                                                                                  \
        return hint_with_locations(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, \
                                   numPrefetchLocs, flags, hStream);                   \
    }

HINT(cuMemPrefetchBatchAsync)
HINT(cuMemDiscardAndPrefetchBatchAsync)

SG_CALL(cuMemDiscardBatchAsync, CUdeviceptr *dptrs, size_t *sizes, size_t count,
        unsigned long long flags, CUstream hStream)
{
    struct ranges r = {.ptrs = dptrs, .sizes = sizes, .n = count};

    return hint(&r, flags, hStream);
}
