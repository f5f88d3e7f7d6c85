/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving bytes.
 *
 * Pageable host memory follows the documented rules: an asynchronous copy from
 * it has read it when the call returns (staged when small, waited for when
 * large), one to it has written it.  Only memory that was allocated or
 * registered through the interface is read and written later.
 */
#include "sg_copy.h"

#include "gp_copy.h"
#include "sg_array.h"
#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_graph_mem.h"
#include "sg_handle.h"
#include "sg_mem.h"
#include "sg_node.h"
#include "sg_stream.h"
#include "sg_work.h"

#include "sg_shadow.h"
#include "sg_written.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Larger pageable sources are waited for instead of being staged. */
    MAX_STAGED = 1 << 20,
    /* Smaller copies on an idle stream are done by the caller: waking a copy
     * thread costs more. */
    MAX_INLINE = 64 << 10,
    /* No pointer of any kind lies past the user's half of the address space. */
    USER_BITS = 47,
    MAX_PITCH = 0x7fffffff, /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */
};

struct copy_work {
    struct sg_work work; /* first */
    struct sg_box box;
    void *staged;
};

struct fill_work {
    struct sg_work work; /* first */
    CUDA_MEMSET_NODE_PARAMS set;
};

/* ------------------------------------------------------------------- resolving */

struct side {
    CUmemorytype type;
    uint64_t addr;
    CUarray array;
    size_t x, y, z, lod, pitch, height;
};

/* All bytes of @box rows from @addr on lie in live allocations, or in memory that a
 * graph will have when it runs. */
static bool
side_is_mapped(uint64_t addr, size_t pitch, size_t slice, bool planned,
               const struct sg_box *box)
{
    uint64_t rows, slices, span;

    if (!gp_mul_ok(pitch, box->height - 1, &rows) ||
        !gp_mul_ok(slice, box->depth - 1, &slices) || !gp_add_ok(rows, slices, &span) ||
        !gp_add_ok(span, box->width, &span))
        return false;
    return sg_mem_holds(addr, span) || (planned && sg_graph_mem_plans(addr, span));
}

static CUresult
resolve_array(const struct side *s, const struct sg_box *box, char **ret_p,
              size_t *ret_pitch, size_t *ret_slice)
{
    const struct sg_array *a = SG_OBJ(sg_array, SG_KIND_ARRAY, s->array);

    if (!a)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->x > a->width || box->width > a->width - s->x || s->y > a->height ||
        box->height > a->height - s->y || s->z > a->depth ||
        box->depth > a->depth - s->z || s->x % a->element || box->width % a->element)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_p = (char *)(uintptr_t)a->base + s->z * a->slice + s->y * a->pitch + s->x;
    *ret_pitch = a->pitch;
    *ret_slice = a->slice;
    return CUDA_SUCCESS;
}

/* A pitch or height that is given has room for the offset and the copy; a height has no
 * effect where there is one slice. */
static bool
side_has_room(const struct side *s, const struct sg_box *box)
{
    uint64_t end;

    if (s->pitch > MAX_PITCH ||
        (s->pitch && (!gp_add_ok(s->x, box->width, &end) || end > s->pitch)))
        return false;
    return box->depth == 1 || !s->height ||
           (gp_add_ok(s->y, box->height, &end) && end <= s->height);
}

static CUresult
resolve_side(const struct side *s, bool planned, const struct sg_box *box, char **ret_p,
             size_t *ret_pitch, size_t *ret_slice, bool *ret_pageable)
{
    size_t pitch = s->pitch, rows = s->height, slice, offset, part;
    uint64_t addr;

    *ret_pageable = false;
    if (s->lod)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->type == CU_MEMORYTYPE_ARRAY)
        return resolve_array(s, box, ret_p, ret_pitch, ret_slice);
    if (s->type != CU_MEMORYTYPE_HOST && s->type != CU_MEMORYTYPE_DEVICE &&
        s->type != CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    if (!side_has_room(s, box))
        return CUDA_ERROR_INVALID_VALUE;
    if (!pitch)
        pitch = s->x + box->width;
    if (!rows)
        rows = s->y + box->height;
    if (!gp_mul_ok(pitch, rows, &slice) || !s->addr || s->addr >> USER_BITS ||
        !gp_mul_ok(s->z, slice, &offset) || !gp_mul_ok(s->y, pitch, &part) ||
        !gp_add_ok(offset, part, &offset) || !gp_add_ok(offset, s->x, &offset) ||
        !gp_add_ok(s->addr, offset, &addr))
        return CUDA_ERROR_INVALID_VALUE;
    if (!side_is_mapped(addr, pitch, slice, planned, box)) {
        if (s->type == CU_MEMORYTYPE_DEVICE || sg_mem_find(s->addr) ||
            sg_mem_is_arena(s->addr))
            return CUDA_ERROR_INVALID_VALUE;
        *ret_pageable = true;
    }
    *ret_p = (char *)(uintptr_t)addr;
    *ret_pitch = pitch;
    *ret_slice = slice;
    return CUDA_SUCCESS;
}

CUresult
sg_copy_resolve(const CUDA_MEMCPY3D *d, bool planned, struct sg_box *box)
{
    bool src_host = d->srcMemoryType == CU_MEMORYTYPE_HOST;
    bool dst_host = d->dstMemoryType == CU_MEMORYTYPE_HOST;
    struct side src = {
        d->srcMemoryType, src_host ? (uintptr_t)d->srcHost : d->srcDevice,
        d->srcArray,      d->srcXInBytes,
        d->srcY,          d->srcZ,
        d->srcLOD,        d->srcPitch,
        d->srcHeight,
    };
    struct side dst = {
        d->dstMemoryType, dst_host ? (uintptr_t)d->dstHost : d->dstDevice,
        d->dstArray,      d->dstXInBytes,
        d->dstY,          d->dstZ,
        d->dstLOD,        d->dstPitch,
        d->dstHeight,
    };
    char *from;
    CUresult rc;

    memset(box, 0, sizeof(*box));
    box->width = d->WidthInBytes;
    box->height = d->Height;
    box->depth = d->Depth;
    if (!box->width || !box->height || !box->depth)
        return CUDA_SUCCESS; /* nothing to do, whatever the pointers are */
    rc = resolve_side(&src, planned, box, &from, &box->src_pitch, &box->src_slice,
                      &box->src_pageable);
    if (rc != CUDA_SUCCESS)
        return rc;
    box->src = from;
    return resolve_side(&dst, planned, box, &box->dst, &box->dst_pitch, &box->dst_slice,
                        &box->dst_pageable);
}

CUDA_MEMCPY3D
sg_copy_linear(CUmemorytype dst_type, const void *dst, CUmemorytype src_type,
               const void *src, size_t len)
{
    CUDA_MEMCPY3D d = {
        .srcMemoryType = src_type,
        .dstMemoryType = dst_type,
        .WidthInBytes = len,
        .Height = 1,
        .Depth = 1,
    };

    if (src_type == CU_MEMORYTYPE_HOST)
        d.srcHost = src;
    else
        d.srcDevice = (uintptr_t)src;
    if (dst_type == CU_MEMORYTYPE_HOST)
        d.dstHost = (void *)(uintptr_t)dst;
    else
        d.dstDevice = (uintptr_t)dst;
    return d;
}

/* ---------------------------------------------------------------------- moving */

/* What lies in device memory is the program's, and a kernel that spins on a word of it
 * puts what comes behind the kernel after the copy or fill that wrote the word: an
 * order that no sanitizer sees.  The kernel may go on while the word is being written,
 * so that these writes do not count. */
#if defined(__SANITIZE_THREAD__)
#include "sg_dev.h"

#include <sanitizer/tsan_interface.h>
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
static char device_memory;

static bool
in_arenas(const void *dst)
{
    return (uintptr_t)dst - SG_ARENA(0) < SG_ARENAS * SG_ARENA_SIZE;
}

static void
before_move(const void *dst)
{
    __tsan_acquire(&device_memory);
    if (in_arenas(dst))
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

static void
after_move(const void *dst)
{
    if (in_arenas(dst))
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    __tsan_release(&device_memory);
}
#else
static void
before_move(const void *dst)
{
    (void)dst;
}

static void
after_move(const void *dst)
{
    (void)dst;
}
#endif

static bool
is_linear(const struct sg_box *b)
{
    return (b->height == 1 || (b->src_pitch == b->width && b->dst_pitch == b->width)) &&
           (b->depth == 1 || (b->src_slice == b->width * b->height &&
                              b->dst_slice == b->width * b->height));
}

static void
move_bytes(char *dst, const char *src, size_t n)
{
    if (dst + n <= src || src + n <= dst)
        gp_copy(dst, src, n);
    else
        memmove(dst, src, n);
}

static void
move_rows(const struct sg_box *b)
{
    for (size_t z = 0; z < b->depth; z++) {
        for (size_t y = 0; y < b->height; y++) {
            char *dst = b->dst + z * b->dst_slice + y * b->dst_pitch;
            const char *src = b->src + z * b->src_slice + y * b->src_pitch;

            move_bytes(dst, src, b->width);
            sg_shadow_copy((uintptr_t)dst, (uintptr_t)src, b->width);
            sg_written_mark((uintptr_t)dst, b->width);
        }
    }
}

static void
move_run(const struct sg_box *b)
{
    const size_t len = b->width * b->height * b->depth;

    move_bytes(b->dst, b->src, len);
    sg_shadow_copy((uintptr_t)b->dst, (uintptr_t)b->src, len);
    sg_written_mark((uintptr_t)b->dst, len);
}

static void
move_box(const struct sg_box *b)
{
    if (!b->width || !b->height || !b->depth)
        return;
    before_move(b->dst);
    if (is_linear(b))
        move_run(b);
    else
        move_rows(b);
    after_move(b->dst);
}

static CUresult
copy_run(struct sg_work *work)
{
    move_box(&container_of(work, struct copy_work, work)->box);
    return CUDA_SUCCESS;
}

static void
copy_fini(struct sg_work *work)
{
    free(container_of(work, struct copy_work, work)->staged);
}

static const struct sg_work_class copy_class = {
    .name = "copy",
    .queue = SG_QUEUE_COPY,
    .run = copy_run,
    .fini = copy_fini,
};

CUresult
sg_copy_work(struct sg_ctx *ctx, const struct sg_box *box, struct sg_work **ret_work)
{
    struct copy_work *c = calloc(1, sizeof(*c));

    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(&c->work, &copy_class, ctx);
    c->box = *box;
    *ret_work = &c->work;
    return CUDA_SUCCESS;
}

/* Lets the operation read a private copy of the source instead. */
static CUresult
copy_stage(struct sg_work *work)
{
    struct copy_work *c = container_of(work, struct copy_work, work);
    struct sg_box to = c->box;

    c->staged = malloc(to.width * to.height * to.depth);
    if (!c->staged)
        return CUDA_ERROR_OUT_OF_MEMORY;
    to.dst = c->staged;
    to.dst_pitch = to.width;
    to.dst_slice = to.width * to.height;
    move_box(&to);
    c->box.src = c->staged;
    c->box.src_pitch = to.dst_pitch;
    c->box.src_slice = to.dst_slice;
    return CUDA_SUCCESS;
}

static size_t
box_bytes(const struct sg_box *box)
{
    size_t n;

    if (!gp_mul_ok(box->width, box->height, &n) || !gp_mul_ok(n, box->depth, &n))
        return SIZE_MAX;
    return n;
}

static CUresult
copy_inline(const struct sg_box *box)
{
    sg_unlock();
    move_box(box);
    sg_lock();
    return CUDA_SUCCESS;
}

static CUresult
capture_copy(struct sg_stream *stream, const CUDA_MEMCPY3D *desc)
{
    struct sg_node_data data = {
        .type = CU_GRAPH_NODE_TYPE_MEMCPY,
        .ctx = stream->ctx->handle,
        .copy = *desc,
    };

    return sg_capture_add(stream, &data, NULL);
}

CUresult
sg_copy_enqueue(struct sg_stream *stream, const CUDA_MEMCPY3D *desc, bool sync)
{
    struct sg_box box;
    struct sg_work *work;
    CUresult rc = sg_copy_resolve(desc, stream->capture != NULL, &box);
    size_t bytes;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (stream->capture && !sync)
        return capture_copy(stream, desc);
    rc = sg_capture_check_legacy_stream(stream);
    if (rc != CUDA_SUCCESS)
        return rc;
    bytes = box_bytes(&box);
    if (sg_stream_is_idle(stream) &&
        (sync || bytes <= MAX_INLINE || box.src_pageable || box.dst_pageable))
        return copy_inline(&box);
    rc = sg_copy_work(stream->ctx, &box, &work);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!sync && box.src_pageable && bytes <= MAX_STAGED && !box.dst_pageable) {
        rc = copy_stage(work);
        if (rc != CUDA_SUCCESS) {
            sg_work_unref(work);
            return rc;
        }
        return sg_stream_enqueue(stream, work, NULL);
    }
    if (sync || box.src_pageable || box.dst_pageable)
        return sg_stream_enqueue_wait(stream, work);
    return sg_stream_enqueue(stream, work, NULL);
}

CUresult
sg_copy_enqueue_read(struct sg_ctx *ctx, CUstream hstream, const CUDA_MEMCPY3D *desc)
{
    struct sg_stream *stream;
    struct sg_work *work;
    struct sg_box box;
    CUresult rc = sg_copy_resolve(desc, false, &box);

    if (rc == CUDA_SUCCESS)
        rc = sg_copy_work(ctx, &box, &work);
    if (rc != CUDA_SUCCESS)
        return rc;
    sg_unlock();
    rc = copy_stage(work);
    sg_lock();
    if (rc == CUDA_SUCCESS)
        rc = sg_stream_get(ctx, hstream, &stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_capture_check_legacy_stream(stream);
    if (rc != CUDA_SUCCESS) {
        sg_work_unref(work);
        return rc;
    }
    return box.dst_pageable ? sg_stream_enqueue_wait(stream, work)
                            : sg_stream_enqueue(stream, work, NULL);
}

static CUresult
copy_check_between(struct sg_stream *stream, const CUDA_MEMCPY3D *desc,
                   struct sg_box *ret_box)
{
    CUresult rc = sg_copy_resolve(desc, stream->capture != NULL, ret_box);

    return rc == CUDA_SUCCESS ? sg_capture_check_legacy_stream(stream) : rc;
}

static CUresult
copy_barrier(struct sg_stream *stream, const struct sg_box *box,
             struct sg_ctx *const *ctxs, size_t n, bool wait)
{
    struct sg_work *work;
    CUresult rc = sg_copy_work(stream->ctx, box, &work);

    if (rc != CUDA_SUCCESS)
        return rc;
    sg_work_ref(work);
    rc = sg_stream_enqueue_barrier(stream, work, ctxs, n);
    if (rc == CUDA_SUCCESS && wait) {
        sg_work_wait(work);
        rc = work->result;
    }
    sg_work_unref(work);
    return rc;
}

CUresult
sg_copy_enqueue_between(struct sg_stream *stream, const CUDA_MEMCPY3D *desc,
                        struct sg_ctx *dst, struct sg_ctx *src)
{
    struct sg_ctx *const ctxs[] = {stream->ctx, dst, src};
    bool host = desc->srcMemoryType == CU_MEMORYTYPE_HOST ||
                desc->dstMemoryType == CU_MEMORYTYPE_HOST,
         idle = true;
    struct sg_box box;
    CUresult rc = copy_check_between(stream, desc, &box);

    if (rc != CUDA_SUCCESS)
        return rc;
    for (size_t i = 0; i < ARRAY_SIZE(ctxs); i++)
        idle = idle && sg_streams_are_idle(ctxs[i]);
    return idle ? copy_inline(&box)
                : copy_barrier(stream, &box, ctxs, ARRAY_SIZE(ctxs), host);
}

/* ----------------------------------------------------------------------- fills */

CUresult
sg_fill_check(const CUDA_MEMSET_NODE_PARAMS *set, bool planned)
{
    uint64_t row, span;

    if (set->elementSize != 1 && set->elementSize != 2 && set->elementSize != 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (!set->width || !set->height)
        return CUDA_SUCCESS;
    if (set->dst % set->elementSize || !gp_mul_ok(set->width, set->elementSize, &row) ||
        (set->height > 1 && (set->pitch < row || set->pitch % set->elementSize)) ||
        !gp_mul_ok(set->height > 1 ? set->pitch : 0, set->height - 1, &span) ||
        !gp_add_ok(span, row, &span))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_mem_holds(set->dst, span) ||
                   (planned && sg_graph_mem_plans(set->dst, span))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static void
fill_row(char *p, const CUDA_MEMSET_NODE_PARAMS *set)
{
    uint16_t v16 = (uint16_t)set->value;

    switch (set->elementSize) {
    case 1:
        memset(p, (int)(set->value & 0xff), set->width);
        break;
    case 2:
        for (size_t i = 0; i < set->width; i++)
            memcpy(p + i * 2, &v16, 2);
        break;
    default:
        for (size_t i = 0; i < set->width; i++)
            memcpy(p + i * 4, &set->value, 4);
        break;
    }
}

static void
fill_box(const CUDA_MEMSET_NODE_PARAMS *set)
{
    if (!set->width)
        return;
    before_move((const void *)(uintptr_t)set->dst);
    for (size_t y = 0; y < set->height; y++) {
        fill_row((char *)(uintptr_t)set->dst + y * set->pitch, set);
        sg_shadow_define(set->dst + y * set->pitch, set->width * set->elementSize);
        sg_written_mark(set->dst + y * set->pitch, set->width * set->elementSize);
    }
    after_move((const void *)(uintptr_t)set->dst);
}

static CUresult
fill_run(struct sg_work *work)
{
    fill_box(&container_of(work, struct fill_work, work)->set);
    return CUDA_SUCCESS;
}

static const struct sg_work_class fill_class = {
    .name = "fill",
    .queue = SG_QUEUE_COPY,
    .run = fill_run,
};

CUresult
sg_fill_work(struct sg_ctx *ctx, const CUDA_MEMSET_NODE_PARAMS *set,
             struct sg_work **ret_work)
{
    struct fill_work *f = calloc(1, sizeof(*f));

    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(&f->work, &fill_class, ctx);
    f->set = *set;
    *ret_work = &f->work;
    return CUDA_SUCCESS;
}

static CUresult
capture_fill(struct sg_stream *stream, const CUDA_MEMSET_NODE_PARAMS *set)
{
    struct sg_node_data data = {
        .type = CU_GRAPH_NODE_TYPE_MEMSET,
        .ctx = stream->ctx->handle,
        .set = *set,
    };

    return sg_capture_add(stream, &data, NULL);
}

CUresult
sg_fill_enqueue(struct sg_stream *stream, const CUDA_MEMSET_NODE_PARAMS *set, bool sync)
{
    struct sg_work *work;
    CUresult rc = sg_fill_check(set, stream->capture != NULL);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (stream->capture)
        return capture_fill(stream, set);
    rc = sg_capture_check_legacy_stream(stream);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (sg_stream_is_idle(stream) && (sync || set->width * set->height <= MAX_INLINE)) {
        sg_unlock();
        fill_box(set);
        sg_lock();
        return CUDA_SUCCESS;
    }
    rc = sg_fill_work(stream->ctx, set, &work);
    if (rc != CUDA_SUCCESS)
        return rc;
    return sync ? sg_stream_enqueue_wait(stream, work)
                : sg_stream_enqueue(stream, work, NULL);
}
