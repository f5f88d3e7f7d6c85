/* SPDX-License-Identifier: Apache-2.0 */
/* See stub_spare.h. */
#include "stub_spare.h"

#include "attach.pb-c.h"
#include "cuda_api.h"
#include "gp_base.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_event.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_spare_table.h"
#include "wire_api.h"

#include <stdlib.h>
#include <string.h>

enum spare_state { SPARE_UNKNOWN, SPARE_ON, SPARE_OFF };

/* A stream of ours for the frees of blocks whose stream has been waited for: they must
 * not wait for what the program has launched there since. */
struct spare_stream {
    struct stub_ctx *ctx; /* NULL: an empty place */
    uint64_t ctx_unique;
    uint64_t stream;
    bool busy; /* frees were sent that nobody waited for */
};

/* Contexts that have one; blocks of others are freed in their own stream. */
#define SPARE_STREAMS 16u

static struct spare_link {
    struct stub_spare_table table;
    _Atomic uint32_t state;
    struct spare_stream streams[SPARE_STREAMS];
} spare_links[STUB_LINKS_MAX];

/* This thread frees spare blocks, and holds the lock. */
static __thread bool freeing;

static struct spare_link *
spare_of(const struct stub_link *link)
{
    return &spare_links[link->number];
}

/* ---- whether ---------------------------------------------------------------- */

static uint64_t
spare_limit(const struct stub_link *link)
{
    uint64_t limit = STUB_SPARE_BYTES_MAX;

    for (uint32_t i = 0; i < stub_device_count; i++)
        if (stub_devices[i].link == link)
            limit = gp_min(limit, stub_devices[i].info->total_mem / STUB_SPARE_PART);
    return limit;
}

/* A driver that checks the program must see each free and each allocation. */
static bool
spare_is_wanted(const struct stub_link *link)
{
    const char *env = getenv("GPUPOOL_SPARE_BLOCKS");

    return !(env && strcmp(env, "0") == 0) && !stub_link_can(link, "checks");
}

static bool
spare_open(struct stub_link *link)
{
    struct spare_link *s = spare_of(link);

    gp_lock_take(&s->table.lock);
    if (atomic_load(&s->state) == SPARE_UNKNOWN) {
        s->table.limit = spare_limit(link);
        s->table.ranges = &link->spares;
        stub_link_attend(link, STUB_ATTEND_SPARE, spare_is_wanted(link));
        atomic_store(&s->state, spare_is_wanted(link) ? SPARE_ON : SPARE_OFF);
    }
    gp_lock_release(&s->table.lock);
    return atomic_load(&s->state) == SPARE_ON;
}

static bool
spare_is_on(struct stub_link *link)
{
    uint32_t state = atomic_load_explicit(&spare_of(link)->state, memory_order_relaxed);

    return state == SPARE_UNKNOWN ? spare_open(link) : state == SPARE_ON;
}

/* May blocks be kept and handed out here, in this stream?  Not while streams are
 * captured, because the driver decides then what an allocation and a free mean, nor
 * where it returns an error from each call. */
static bool
spare_is_possible(struct stub_link *link, uint64_t stream)
{
    const struct stub_ctx *ctx = stub_tls.ctx;

    return spare_is_on(link) && ctx && atomic_load(&ctx->alive) &&
           (!stream || stub_handle_ctx(WIRE_KIND_STREAM, stream) == ctx->index) &&
           !(stub_link_attention(link) &
             (STUB_ATTEND_NOT_READY | STUB_ATTEND_FLAGS | STUB_ATTEND_REPLY)) &&
           !stub_capture_any() && !atomic_load(&stub_memory_exported);
}

/* An allocation in a captured stream is a node of a graph. */
static bool
is_captured(uint64_t stream)
{
    CUstreamCaptureStatus status;

    return stub_capture_any() &&
           (cuStreamIsCapturing((CUstream)(uintptr_t)stream, &status) != CUDA_SUCCESS ||
            status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* Does an allocation for which no block may be handed out count for a pool all the
 * same? The largest use of the pool is not known otherwise.  In a stream of another
 * context the current pool is that of another device, perhaps. */
static bool
spare_is_counted(struct stub_link *link, uint64_t pool, uint64_t stream)
{
    const struct stub_ctx *ctx = stub_tls.ctx;
    uint32_t attention = stub_link_attention(link);

    return attention & STUB_ATTEND_SPARE &&
           !(attention & (STUB_ATTEND_NOT_READY | STUB_ATTEND_REPLY)) && ctx &&
           atomic_load(&ctx->alive) &&
           (pool || !stream ||
            stub_handle_ctx(WIRE_KIND_STREAM, stream) == ctx->index) &&
           !is_captured(stream);
}

/* ---- freeing ---------------------------------------------------------------- */

static CUresult
send_stream_create(uint64_t *ret)
{
    struct wire_cuStreamCreate_req *req;
    uint64_t stream = stub_handle_new(WIRE_KIND_STREAM);
    struct stub_call c;
    CUresult r;

    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = stub_call_begin(&c, WIRE_CALL_cuStreamCreate, sizeof(*req));
    if (r == CUDA_SUCCESS) {
        req = c.body;
        *req = (struct wire_cuStreamCreate_req){.phStream = stream,
                                                .Flags = CU_STREAM_NON_BLOCKING};
        r = stub_call_post(&c);
    }
    if (r == CUDA_SUCCESS)
        *ret = stream;
    else
        stub_handle_del(WIRE_KIND_STREAM, stream);
    return r;
}

/* Of the current context; @make: it may be made.  NULL: there is none.  A program
 * without streams is not given one without need: copies are faster then.  One with
 * green contexts is given none, because not every context of theirs may have it. */
static struct spare_stream *
stream_here(struct spare_link *s, bool make)
{
    uint64_t unique = atomic_load(&stub_tls.ctx->unique);
    struct spare_stream *empty = NULL;

    for (uint32_t i = 0; i < SPARE_STREAMS; i++) {
        struct spare_stream *at = &s->streams[i];

        if (at->ctx && at->ctx_unique == unique)
            return at;
        if (!at->ctx)
            empty = at;
    }
    if (!empty || !(make || stub_handle_any(WIRE_KIND_STREAM)) || stub_capture_any() ||
        stub_handle_any(WIRE_KIND_GREENCTX) ||
        send_stream_create(&empty->stream) != CUDA_SUCCESS)
        return NULL;
    empty->ctx = stub_tls.ctx;
    empty->ctx_unique = unique;
    empty->busy = false;
    stub_ctx_ref(empty->ctx);
    return empty;
}

static void
stream_forget(struct spare_stream *stream)
{
    stub_ctx_unref(stream->ctx);
    *stream = (struct spare_stream){0};
}

/* The free's number; false: the link is lost. */
static bool
send_free(uint64_t addr, uint64_t stream, uint32_t *ret_seq)
{
    uint32_t mode = stub_tls_relax(); /* the program freed it before */
    struct wire_cuMemFreeAsync_req *req;
    struct stub_call c;
    bool begun =
        stub_call_begin(&c, WIRE_CALL_cuMemFreeAsync, sizeof(*req)) == CUDA_SUCCESS;

    if (begun) {
        req = c.body;
        *req = (struct wire_cuMemFreeAsync_req){.dptr = addr, .hStream = stream};
        *ret_seq = stub_call_seq(&c);
        stub_call_post(&c);
    }
    stub_tls_restore(mode);
    return begun;
}

/* Under the lock, by a thread that is `freeing`.  The block's place is empty only when
 * the free is sent. */
static void
spare_free(struct spare_link *s, int i, bool make)
{
    struct stub_spare spare = s->table.at[i];
    struct spare_stream *own = NULL;
    bool sent = false;
    uint32_t seq;

    if (atomic_load(&spare.ctx->alive) &&
        atomic_load(&spare.ctx->unique) == spare.ctx_unique &&
        stub_ctx_push(spare.ctx) == 0) {
        if (stub_event_is_waited(spare.ctx, spare.stream, spare.position))
            own = stream_here(s, make);
        sent = send_free(spare.addr, own ? own->stream : spare.stream, &seq);
        if (own)
            own->busy = true;
        stub_ctx_pop();
    }
    if (sent)
        stub_spare_table_sent(&s->table, spare.pool, spare.size, seq);
    else
        stub_spare_table_count(&s->table, spare.pool, 0, -(int64_t)spare.size);
    stub_spare_table_remove(&s->table, i);
    stub_ctx_unref(spare.ctx);
}

/* The frees that are sent are done when this returns.  An error is one of an earlier
 * call, which the next call that waits has to return. */
static CUresult
stream_wait(struct spare_stream *stream)
{
    struct wire_cuStreamSynchronize_req *req;
    struct stub_call c;
    uint32_t mode;
    CUresult r;

    stream->busy = false;
    if (!atomic_load(&stream->ctx->alive) || stub_ctx_push(stream->ctx) < 0)
        return CUDA_SUCCESS;
    mode = stub_tls_relax();
    r = stub_call_begin(&c, WIRE_CALL_cuStreamSynchronize, sizeof(*req));
    if (r == CUDA_SUCCESS) {
        req = c.body;
        req->hStream = stream->stream;
        r = stub_call_wait(&c);
        stub_call_end(&c);
    }
    stub_tls_restore(mode);
    stub_ctx_pop();
    return r;
}

/* All of them.  @wait: until the server has the memory of those whose stream has been
 * waited for; without spare blocks it would have it. */
static CUresult
spare_free_all(struct stub_link *link, bool wait, bool *ret_some)
{
    struct spare_link *s = spare_of(link);
    CUresult r = CUDA_SUCCESS;
    int i;

    *ret_some = false;
    if (freeing)
        return CUDA_SUCCESS;
    gp_lock_take(&s->table.lock);
    freeing = true;
    while ((i = stub_spare_table_oldest(&s->table)) >= 0) {
        *ret_some = true;
        spare_free(s, i, wait);
    }
    for (uint32_t k = 0; wait && k < SPARE_STREAMS; k++)
        if (s->streams[k].ctx && s->streams[k].busy && r == CUDA_SUCCESS)
            r = stream_wait(&s->streams[k]);
    freeing = false;
    gp_lock_release(&s->table.lock);
    return r;
}

/* Those that were not used for a while. */
static void
spare_free_old(struct stub_link *link)
{
    struct spare_link *s = spare_of(link);
    uint64_t now;
    int i;

    if (freeing || atomic_load_explicit(&link->spares.n, memory_order_relaxed) == 0)
        return;
    now = gp_now_ns();
    gp_lock_take(&s->table.lock);
    freeing = true;
    while ((i = stub_spare_table_oldest(&s->table)) >= 0 &&
           now - s->table.at[i].ns > STUB_SPARE_OLD_NS && now > s->table.at[i].ns)
        spare_free(s, i, false);
    freeing = false;
    gp_lock_release(&s->table.lock);
}

CUresult
stub_spare_make_room(CUresult result, bool *ret_again)
{
    struct stub_link *link = stub_link_here();
    CUresult r;

    *ret_again = false;
    if (likely(result != CUDA_ERROR_OUT_OF_MEMORY) ||
        !(stub_link_attention(link) & STUB_ATTEND_SPARE))
        return result;
    r = spare_free_all(link, true, ret_again);
    if (r == CUDA_SUCCESS)
        return result;
    *ret_again = false;
    return r;
}

static void
spare_stop(struct stub_link *link)
{
    bool some;

    atomic_store(&spare_of(link)->state, SPARE_OFF);
    spare_free_all(link, false, &some);
}

void
stub_spare_end(void)
{
    for (uint32_t i = 0; i < stub_links_n; i++)
        spare_stop(&stub_links[i]);
}

/* ---- pools ------------------------------------------------------------------ */

static CUresult
ask_current_pool(CUdevice dev, uint64_t *ret)
{
    struct wire_cuDeviceGetMemPool_req *req;
    struct wire_cuDeviceGetMemPool_rep_view view;
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuDeviceGetMemPool, sizeof(*req));

    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    *req = (struct wire_cuDeviceGetMemPool_req){.dev = stub_device_wire(dev)};
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        wire_cuDeviceGetMemPool_rep_open(&view, c.reply, c.reply_size, 0) &&
        view.f->pool)
        *ret = view.f->pool;
    stub_call_end(&c);
    return r;
}

/* Find out which pools the devices' current ones are, before that changes or somebody
 * asks.  An error is one of an earlier call, which the call that waits next returns
 * instead of being made; a driver that has no answer has none the second time either.
 */
static CUresult
spare_know_pools(struct stub_link *link)
{
    struct spare_link *s = spare_of(link);
    CUresult r = CUDA_SUCCESS, again;
    uint32_t pool;

    if (freeing)
        return CUDA_SUCCESS;
    gp_lock_take(&s->table.lock);
    freeing = true;
    while ((pool = stub_spare_table_unknown(&s->table)) && r == CUDA_SUCCESS) {
        CUdevice dev = s->table.pools[pool - 1].dev;
        uint64_t handle = UINT64_MAX;

        r = ask_current_pool(dev, &handle);
        again = r == CUDA_SUCCESS ? r : ask_current_pool(dev, &handle);
        if (r == again)
            r = CUDA_SUCCESS;
        stub_spare_table_known(&s->table, pool, handle);
    }
    freeing = false;
    gp_lock_release(&s->table.lock);
    return r;
}

/* ---- allocations and frees -------------------------------------------------- */

/* Under the lock: of the current context. */
static void
take(struct spare_link *s, uint64_t stream, uint64_t size, struct stub_spare_taken *ret)
{
    const struct stub_spare want = {.size = size,
                                    .stream = stream,
                                    .pool = ret->pool,
                                    .ctx_unique = atomic_load(&stub_tls.ctx->unique)};
    int i = stub_spare_table_find(&s->table, &want);

    if (i < 0)
        return;
    ret->addr = s->table.at[i].addr;
    ret->block = s->table.at[i].size;
    stub_ctx_unref(s->table.at[i].ctx);
    stub_spare_table_remove(&s->table, i);
    s->table.slack += ret->block - size;
    stub_spare_table_count(&s->table, ret->pool, (int64_t)size, 0);
}

CUresult
stub_spare_take(uint64_t pool, uint64_t stream, uint64_t size,
                struct stub_spare_taken *ret)
{
    struct stub_link *link = stub_link_here();
    struct spare_link *s = spare_of(link);
    CUresult r = CUDA_SUCCESS;
    bool possible, unclear;

    *ret = (struct stub_spare_taken){0};
    if (!size || size >= INT64_MAX)
        return CUDA_SUCCESS;
    possible = spare_is_possible(link, stream);
    if (unlikely(!possible) && !spare_is_counted(link, pool, stream))
        return CUDA_SUCCESS;
    gp_lock_take(&s->table.lock);
    unclear = stub_spare_table_is_unclear(&s->table, pool, stub_tls.ctx->dev);
    if (!pool || !unclear)
        ret->pool = stub_spare_table_pool(&s->table, pool, stub_tls.ctx->dev);
    if (unlikely(unclear)) {
        gp_lock_release(&s->table.lock);
        r = spare_know_pools(link);
        gp_lock_take(&s->table.lock);
        ret->pool = r == CUDA_SUCCESS
                        ? stub_spare_table_pool(&s->table, pool, stub_tls.ctx->dev)
                        : 0;
    }
    if (likely(possible) && !unclear && ret->pool)
        take(s, stream, size, ret);
    if (ret->pool && !ret->addr)
        stub_spare_table_ask(&s->table);
    gp_lock_release(&s->table.lock);
    return r;
}

void
stub_spare_answered(uint32_t pool, uint64_t size, uint32_t seq)
{
    struct spare_link *s = spare_of(stub_link_here());

    if (!pool)
        return;
    gp_lock_take(&s->table.lock);
    stub_spare_table_answered(&s->table, pool, size, seq);
    gp_lock_release(&s->table.lock);
}

void
stub_spare_freed(const struct stub_memory_end *end)
{
    struct spare_link *s = spare_of(stub_link_here());

    if (!end->pool)
        return;
    gp_lock_take(&s->table.lock);
    s->table.slack -= end->block - end->size;
    stub_spare_table_count(&s->table, end->pool, -(int64_t)end->size,
                           -(int64_t)end->block);
    gp_lock_release(&s->table.lock);
}

void
stub_spare_lost(const struct stub_memory *m)
{
    struct spare_link *s = &spare_links[wire_handle_link(m->ctx)];

    if (!m->pool)
        return;
    gp_lock_take(&s->table.lock);
    stub_spare_table_lose(&s->table, m->pool, m->range.size,
                          gp_max(m->mapped, m->range.size));
    gp_lock_release(&s->table.lock);
}

/* Under the lock: those that were freed first make room.  The program had @size bytes
 * of the block. */
static bool
keep(struct spare_link *s, const struct stub_spare *spare, uint64_t size)
{
    uint64_t slack = spare->size - size;

    s->table.slack -= slack;
    if (!stub_spare_table_could_hold(&s->table, spare->size)) {
        s->table.slack += slack; /* stub_spare_freed() follows */
        return false;
    }
    freeing = true;
    while (!stub_spare_table_has_room(&s->table, spare->size))
        spare_free(s, stub_spare_table_oldest(&s->table), false);
    freeing = false;
    stub_ctx_ref(spare->ctx);
    stub_spare_table_enter(&s->table, spare);
    stub_spare_table_count(&s->table, spare->pool, -(int64_t)size, 0);
    return true;
}

bool
stub_spare_keep(uint64_t addr, const struct stub_memory_end *end, uint64_t stream)
{
    struct stub_link *link = stub_link_here();
    struct spare_link *s = spare_of(link);
    struct stub_spare spare;
    bool kept, some;

    if (!end->pool || !spare_is_possible(link, stream))
        return false;
    spare = (struct stub_spare){.addr = addr,
                                .size = end->block,
                                .stream = stream,
                                .ctx = stub_tls.ctx,
                                .ctx_unique = atomic_load(&stub_tls.ctx->unique),
                                .pool = end->pool,
                                .position = stub_event_position_on(link),
                                .ns = gp_now_ns()};
    gp_lock_take(&s->table.lock);
    kept = keep(s, &spare, end->size);
    gp_lock_release(&s->table.lock);
    /* Whoever begins a capture has counted it before it looks for spare blocks. */
    atomic_thread_fence(memory_order_seq_cst);
    if (kept && (stub_capture_any() || atomic_load(&stub_memory_exported)))
        spare_free_all(link, false, &some);
    return kept;
}

/* ---- other calls ------------------------------------------------------------ */

/* What calls need to know of spare blocks before they are made. */
enum spare_view {
    VIEW_ALL,   /* everything that was freed must have been */
    VIEW_BYTES, /* and the server must have its memory back */
    VIEW_NONE,  /* nothing, unless a frame names a block */
    VIEW_WAIT,  /* nothing; the program waits, so a look at the clock costs little */
    VIEW_OUT,   /* memory is shown to others, or marked: no block is kept any more */
    VIEW_POOLS, /* as VIEW_ALL, and devices get other current pools */
};

static enum spare_view
view_of_questions(uint16_t call)
{
    switch (call) {
    case WIRE_CALL_cuPointerGetAttribute:
    case WIRE_CALL_cuMemGetAddressRange_v2:
    case WIRE_CALL_cuStreamQuery:
    case WIRE_CALL_cuStreamIsCapturing:
    case WIRE_CALL_cuStreamGetCaptureInfo_v3:
    case WIRE_CALL_cuEventQuery:
    case WIRE_CALL_cuEventElapsedTime_v2:
    case WIRE_CALL_cuModuleGetFunction:
    case WIRE_CALL_cuKernelGetFunction:
    case WIRE_CALL_cuLibraryGetKernel:
    case WIRE_CALL_cuFuncGetAttribute:
    case WIRE_CALL_cuOccupancyMaxActiveBlocksPerMultiprocessor:
    case WIRE_CALL_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags:
    case WIRE_CALL_gp_func_info:
    case WIRE_CALL_gp_ping:
    case WIRE_CALL_gp_received:
    case WIRE_CALL_gp_pieces:
    case WIRE_CALL_gp_lanes:
    case WIRE_CALL_gp_stripes:
    case WIRE_CALL_gp_link_notes:
        return VIEW_NONE;
    default:
        return VIEW_ALL;
    }
}

static enum spare_view
view_of_copies(uint16_t call)
{
    switch (call) {
    case WIRE_CALL_cuMemcpyHtoD_v2:
    case WIRE_CALL_cuMemcpyHtoDAsync_v2:
    case WIRE_CALL_cuMemcpyDtoH_v2:
    case WIRE_CALL_cuMemcpyDtoHAsync_v2:
    case WIRE_CALL_cuMemcpyDtoD_v2:
    case WIRE_CALL_cuMemcpyDtoDAsync_v2:
    case WIRE_CALL_cuMemcpy2D_v2:
    case WIRE_CALL_cuMemcpy2DAsync_v2:
    case WIRE_CALL_cuMemcpy2DUnaligned_v2:
    case WIRE_CALL_cuMemcpy3D_v2:
    case WIRE_CALL_cuMemcpy3DAsync_v2:
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
    case WIRE_CALL_gp_peer_send:
    case WIRE_CALL_gp_peer_recv:
    case WIRE_CALL_gp_pin:
    case WIRE_CALL_gp_unpin:
    case WIRE_CALL_gp_pin_at:
    case WIRE_CALL_gp_pin_up:
    case WIRE_CALL_gp_pin_copy:
    case WIRE_CALL_gp_stage_write:
    case WIRE_CALL_gp_stage_read:
    case WIRE_CALL_gp_window:
    case WIRE_CALL_gp_lines_up:
    case WIRE_CALL_gp_lines_down:
    case WIRE_CALL_gp_runs_up:
    case WIRE_CALL_gp_runs_down:
        return VIEW_NONE;
    default:
        return view_of_questions(call);
    }
}

static enum spare_view
view_of(uint16_t call)
{
    switch (call) {
    case WIRE_CALL_cuStreamSynchronize:
    case WIRE_CALL_cuCtxSynchronize:
    case WIRE_CALL_cuCtxSynchronize_v2:
    case WIRE_CALL_cuEventSynchronize:
    case WIRE_CALL_gp_wait_elapsed:
    case WIRE_CALL_cuMemAllocAsync:
    case WIRE_CALL_cuMemAllocFromPoolAsync:
    case WIRE_CALL_cuMemAlloc_v2: /* makes room if there is none */
        return VIEW_WAIT;
    case WIRE_CALL_cuMemFreeAsync:
    case WIRE_CALL_cuMemFree_v2:
    case WIRE_CALL_cuLaunchKernel:
    case WIRE_CALL_cuLaunchKernelEx:
    case WIRE_CALL_cuLaunchCooperativeKernel:
    case WIRE_CALL_cuLaunchHostFunc:
    case WIRE_CALL_cuStreamWaitEvent:
    case WIRE_CALL_cuEventCreate:
    case WIRE_CALL_cuEventDestroy_v2:
    case WIRE_CALL_cuEventRecord:
    case WIRE_CALL_cuEventRecordWithFlags:
    case WIRE_CALL_gp_host_done:
    case WIRE_CALL_gp_launch_shape:
    case WIRE_CALL_gp_launch_run:
        return VIEW_NONE;
    case WIRE_CALL_cuMemGetInfo_v2:
    case WIRE_CALL_cuMemPoolGetAttribute:
    case WIRE_CALL_cuMemPoolSetAttribute:
    case WIRE_CALL_cuMemPoolTrimTo:
    case WIRE_CALL_cuMemAllocPitch_v2:
    case WIRE_CALL_cuMemAllocManaged:
    case WIRE_CALL_cuMemCreate:
    case WIRE_CALL_cuArrayCreate_v2:
    case WIRE_CALL_cuArray3DCreate_v2:
    case WIRE_CALL_cuMipmappedArrayCreate:
        return VIEW_BYTES;
    case WIRE_CALL_cuPointerSetAttribute:
    case WIRE_CALL_cuMemPoolExportPointer:
    case WIRE_CALL_cuMemPoolExportToShareableHandle:
        return VIEW_OUT;
    case WIRE_CALL_cuDeviceSetMemPool:
    case WIRE_CALL_cuMemSetMemPool:
    case WIRE_CALL_cuMemPoolDestroy:
        return VIEW_POOLS;
    default:
        return view_of_copies(call);
    }
}

/* ---- what pools say --------------------------------------------------------- */

static void
forget_current_pools(struct stub_link *link)
{
    struct spare_link *s = spare_of(link);

    gp_lock_take(&s->table.lock);
    stub_spare_table_forget_current(&s->table);
    gp_lock_release(&s->table.lock);
}

/* Would the server's answer have to be corrected? */
static bool
spare_corrects(struct spare_link *s, CUmemPool_attribute attr)
{
    bool corrects;

    if (attr != CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
        return attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH && atomic_load(&s->state);
    gp_lock_take(&s->table.lock);
    corrects = s->table.slack != 0;
    gp_lock_release(&s->table.lock);
    return corrects;
}

CUresult
stub_impl_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
                                void *value)
{
    struct stub_link *link = stub_link_here();
    struct spare_link *s = spare_of(link);
    bool corrects = spare_corrects(s, attr);
    CUresult r = CUDA_SUCCESS;
    uint64_t used, excess;

    if (corrects)
        r = spare_know_pools(link);
    if (r == CUDA_SUCCESS)
        r = stub_gen_cuMemPoolGetAttribute(pool, attr, value);
    if (r != CUDA_SUCCESS || !corrects)
        return r;
    gp_lock_take(&s->table.lock);
    excess = attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH
                 ? stub_spare_table_excess(&s->table, (uintptr_t)pool)
                 : stub_spare_table_excess_now(&s->table, (uintptr_t)pool);
    gp_lock_release(&s->table.lock);
    memcpy(&used, value, sizeof(used));
    used -= gp_min(used, excess);
    memcpy(value, &used, sizeof(used));
    return r;
}

CUresult
stub_impl_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
                                void *value)
{
    struct stub_link *link = stub_link_here();
    struct spare_link *s = spare_of(link);
    CUresult r = CUDA_SUCCESS;

    if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH && atomic_load(&s->state))
        r = spare_know_pools(link);
    if (r == CUDA_SUCCESS)
        r = stub_gen_cuMemPoolSetAttribute(pool, attr, value);
    if (r == CUDA_SUCCESS && attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
        gp_lock_take(&s->table.lock);
        stub_spare_table_reset(&s->table, (uintptr_t)pool);
        gp_lock_release(&s->table.lock);
    }
    return r;
}

CUresult
stub_impl_cuMemPoolDestroy(CUmemoryPool pool)
{
    struct spare_link *s = spare_of(stub_link_here());
    CUresult r = stub_gen_cuMemPoolDestroy(pool);

    if (r != CUDA_SUCCESS)
        return r;
    gp_lock_take(&s->table.lock);
    stub_spare_table_destroyed(&s->table, (uintptr_t)pool);
    gp_lock_release(&s->table.lock);
    return r;
}

/* ---- hooks ------------------------------------------------------------------ */

static CUresult
spare_before(struct stub_link *link, uint16_t call)
{
    CUresult r;
    bool some;

    if (freeing)
        return CUDA_SUCCESS;
    switch (view_of(call)) {
    case VIEW_NONE:
        return CUDA_SUCCESS;
    case VIEW_WAIT:
        spare_free_old(link);
        return CUDA_SUCCESS;
    case VIEW_OUT:
        spare_stop(link);
        return CUDA_SUCCESS;
    case VIEW_BYTES:
        return spare_free_all(link, true, &some);
    case VIEW_POOLS:
        r = spare_know_pools(link);
        if (r != CUDA_SUCCESS)
            return r;
        forget_current_pools(link);
        break;
    case VIEW_ALL:
        break;
    }
    return spare_free_all(link, false, &some);
}

static bool
spare_is_freed(void)
{
    return freeing;
}

/* A driver judges by itself whether memory was freed when it is freed again; for all
 * other uses the server must have it back. */
static CUresult
spare_named(struct stub_link *link, uint16_t call)
{
    bool some;

    return spare_free_all(
        link, call != WIRE_CALL_cuMemFreeAsync && call != WIRE_CALL_cuMemFree_v2,
        &some);
}

/* Its blocks, and the stream, went with it. */
static void
spare_ctx_end(struct stub_ctx *ctx)
{
    struct spare_link *s = &spare_links[wire_handle_link(ctx->handle)];

    if (atomic_load(&s->state) == SPARE_UNKNOWN)
        return;
    gp_lock_take(&s->table.lock);
    for (int i = 0; i < (int)STUB_SPARES_MAX; i++)
        if (s->table.at[i].size && s->table.at[i].ctx == ctx)
            spare_free(s, i, false);
    for (uint32_t k = 0; k < SPARE_STREAMS; k++)
        if (s->streams[k].ctx == ctx)
            stream_forget(&s->streams[k]);
    gp_lock_release(&s->table.lock);
}

const struct stub_feature stub_spare_feature = {
    .name = "spare blocks",
    .spare_before = spare_before,
    .spare_is_freed = spare_is_freed,
    .spare_named = spare_named,
    .ctx_end = spare_ctx_end,
};
