/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_move.h"
#include "stub_capture.h"

#include "attach.pb-c.h"
#include "cuda_api.h"
#include "gp_base.h"
#include "gp_log.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_internal_stream.h"
#include "stub_link.h"
#include "stub_memory.h"
#include "wire_api.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What passes through this process at a time: enough to keep a fast link busy. */
#define BOUNCE_SIZE (UINT64_C(4) << 20)

/* One copy under way through a buffer of ours. */
struct bounce {
    const struct stub_move *move;
    CUstream down, up; /* streams of ours in the two contexts */
    char *buffer;
};

/* ---- through this process --------------------------------------------------- */

/* The two halves of a step are ordered by the host: the copy from the device blocks,
 * and the copy to the device has read the buffer when it returns. */
static CUresult
bounce_linear(const struct bounce *b, CUdeviceptr dst, CUdeviceptr src, uint64_t len)
{
    CUresult r = CUDA_SUCCESS;

    for (uint64_t at = 0; at < len && r == CUDA_SUCCESS; at += BOUNCE_SIZE) {
        uint64_t n = gp_min(len - at, BOUNCE_SIZE);

        if (!stub_internal_ctx_push(b->move->src_ctx))
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        r = cuMemcpyDtoHAsync_v2(b->buffer, src + at, n, b->down);
        if (r == CUDA_SUCCESS)
            r = stub_capture_wait_stream(b->down);
        stub_internal_ctx_pop();
        if (r != CUDA_SUCCESS)
            return r;
        if (!stub_internal_ctx_push(b->move->dst_ctx))
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        r = cuMemcpyHtoDAsync_v2(dst + at, b->buffer, n, b->up);
        stub_internal_ctx_pop();
    }
    return r;
}

/* @rows rows that fit in the buffer. */
static CUresult
bounce_rows(const struct bounce *b, CUdeviceptr dst, CUdeviceptr src, uint64_t rows)
{
    const struct stub_move *m = b->move;
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = src,
                          .srcPitch = m->src_pitch,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = b->buffer,
                          .dstPitch = m->width,
                          .WidthInBytes = m->width,
                          .Height = rows};
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = b->buffer,
                        .srcPitch = m->width,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = dst,
                        .dstPitch = m->dst_pitch,
                        .WidthInBytes = m->width,
                        .Height = rows};
    CUresult r;

    if (!stub_internal_ctx_push(m->src_ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    r = cuMemcpy2DAsync_v2(&down, b->down);
    if (r == CUDA_SUCCESS)
        r = stub_capture_wait_stream(b->down);
    stub_internal_ctx_pop();
    if (r != CUDA_SUCCESS || !stub_internal_ctx_push(m->dst_ctx))
        return r == CUDA_SUCCESS ? CUDA_ERROR_CONTEXT_IS_DESTROYED : r;
    r = cuMemcpy2DAsync_v2(&up, b->up);
    stub_internal_ctx_pop();
    return r;
}

static CUresult
bounce_slice(const struct bounce *b, CUdeviceptr dst, CUdeviceptr src)
{
    const struct stub_move *m = b->move;
    uint64_t some = BOUNCE_SIZE / m->width;
    CUresult r = CUDA_SUCCESS;

    if (m->rows == 1 || (m->dst_pitch == m->width && m->src_pitch == m->width))
        return bounce_linear(b, dst, src, m->rows * m->width);
    for (uint64_t i = 0; i < m->rows && r == CUDA_SUCCESS; i += gp_max(some, 1u)) {
        CUdeviceptr to = dst + i * m->dst_pitch, from = src + i * m->src_pitch;

        r = some ? bounce_rows(b, to, from, gp_min(some, m->rows - i))
                 : bounce_linear(b, to, from, m->width);
    }
    return r;
}

static CUresult
bounce_run(struct bounce *b)
{
    const struct stub_move *m = b->move;
    CUresult r = CUDA_SUCCESS;

    for (uint64_t z = 0; z < m->slices && r == CUDA_SUCCESS; z++)
        r = bounce_slice(b, m->dst + z * m->dst_slice, m->src + z * m->src_slice);
    if (!stub_internal_ctx_push(m->dst_ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (r == CUDA_SUCCESS)
        r = stub_capture_wait_stream(b->up);
    stub_internal_stream_put(b->up);
    stub_internal_ctx_pop();
    return r;
}

static CUstream
bounce_stream(struct stub_ctx *ctx)
{
    CUstream stream = NULL;

    if (stub_internal_ctx_push(ctx)) {
        stream = stub_internal_stream();
        stub_internal_ctx_pop();
    }
    return stream;
}

static CUresult
move_through_here(const struct stub_move *move)
{
    CLEANUP_FREE char *buffer = malloc(BOUNCE_SIZE);
    struct bounce b = {.move = move, .buffer = buffer};
    CUresult r;

    b.down = bounce_stream(move->src_ctx);
    b.up = bounce_stream(move->dst_ctx);
    if (!buffer || !b.down || !b.up)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = bounce_run(&b);
    if (stub_internal_ctx_push(move->src_ctx)) {
        stub_internal_stream_put(b.down);
        stub_internal_ctx_pop();
    }
    return r;
}

/* ---- from server to server -------------------------------------------------- */

enum move_way { WAY_UNKNOWN, WAY_DIRECT, WAY_HERE };

/* By number of the source's link, of the destination's. */
static _Atomic uint8_t ways[STUB_LINKS_MAX][STUB_LINKS_MAX];
static struct gp_lock ways_lock;
static _Atomic uint64_t next_xfer = 1;

/* Have the source's server connect to the destination's. */
static CUresult
way_open(struct stub_link *from, const struct stub_link *to)
{
    ProtobufCBinaryData cookie = to->attach->peer_cookie;
    uint8_t made[ATTACH_COOKIE_SIZE];
    struct wire_gp_peer_open_req *req;
    struct stub_call c;
    CUresult r;

    if (to->proven) {
        attach_cookie_make(to->key, ATTACH_COOKIE_PEER, from->number, made);
        cookie = (ProtobufCBinaryData){WIRE_PEER_COOKIE, made};
    }
    if (cookie.len != WIRE_PEER_COOKIE)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = stub_call_begin_on(&c, from, WIRE_CALL_gp_peer_open, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    memset(req, 0, sizeof(*req));
    req->link = to->number;
    memcpy(&req->cookie0, cookie.data, sizeof(uint64_t));
    memcpy(&req->cookie1, cookie.data + sizeof(uint64_t), sizeof(uint64_t));
    return stub_call_post_checked(&c);
}

/* For finding out whether a fault is the connection's. */
static bool
way_is_forbidden(void)
{
    const char *env = getenv("GPUPOOL_PEER_COPIES");

    return env && strcmp(env, "client") == 0;
}

static void
way_lost(const struct stub_link *from, const struct stub_link *to)
{
    if (atomic_exchange(&ways[from->number][to->number], WAY_HERE) != WAY_HERE)
        gp_log_warn("stub",
                    "copies from server %u to server %u pass through this program: %s",
                    from->number, to->number,
                    way_is_forbidden() ? "GPUPOOL_PEER_COPIES=client"
                                       : "the one cannot reach the other");
}

static bool
way_is_direct(struct stub_link *from, const struct stub_link *to)
{
    _Atomic uint8_t *way = &ways[from->number][to->number];

    if (atomic_load(way) == WAY_UNKNOWN) {
        gp_lock_take(&ways_lock);
        if (atomic_load(way) == WAY_UNKNOWN) {
            if (!way_is_forbidden() && way_open(from, to) == CUDA_SUCCESS) {
                gp_log_info("stub", "copies from server %u to server %u go directly",
                            from->number, to->number);
                atomic_store(way, WAY_DIRECT);
            } else {
                way_lost(from, to);
            }
        }
        gp_lock_release(&ways_lock);
    }
    return atomic_load(way) == WAY_DIRECT;
}

/* Both halves say the same, but for what is theirs. */
static void
direct_fill(struct wire_gp_peer_send_req *req, const struct stub_move *m,
            const struct stub_link *other, uint64_t xfer, bool send)
{
    static_assert(sizeof(struct wire_gp_peer_send_req) ==
                          sizeof(struct wire_gp_peer_recv_req) &&
                      offsetof(struct wire_gp_peer_send_req, src) ==
                          offsetof(struct wire_gp_peer_recv_req, dst),
                  "one writer for both");
    memset(req, 0, sizeof(*req));
    req->link = other->number;
    req->xfer = xfer;
    req->src = send ? m->src : m->dst;
    req->width = m->width;
    req->rows = m->rows;
    req->slices = m->slices;
    req->pitch = send ? m->src_pitch : m->dst_pitch;
    req->slice = send ? m->src_slice : m->dst_slice;
}

/* One half, of which direct_send() or direct_receive() is the rest.  In a context that
 * is there, or was: where it has ended meanwhile the server carries the half out with
 * an error, for the other one is under way. */
static CUresult
direct_begin(struct stub_call *c, const struct stub_move *m,
             const struct stub_link *other, uint64_t xfer, bool send)
{
    CUresult r;

    if (stub_ctx_push(send ? m->src_ctx : m->dst_ctx) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = stub_call_begin(c, send ? WIRE_CALL_gp_peer_send : WIRE_CALL_gp_peer_recv,
                        sizeof(struct wire_gp_peer_send_req));
    if (r == CUDA_SUCCESS)
        direct_fill(c->body, m, other, xfer, send);
    else
        stub_ctx_pop();
    return r;
}

static CUresult
direct_send(const struct stub_move *m, const struct stub_link *to, uint64_t xfer)
{
    struct stub_call c;
    CUresult r = direct_begin(&c, m, to, xfer, true);

    if (r != CUDA_SUCCESS)
        return r;
    r = stub_call_post_now(&c);
    stub_ctx_pop();
    return r;
}

/* @ret_done: the server has answered, so nobody's bytes lie there. */
static CUresult
direct_receive(const struct stub_move *m, const struct stub_link *from, uint64_t xfer,
               bool *ret_done)
{
    struct stub_call c;
    CUresult r = direct_begin(&c, m, from, xfer, false);

    *ret_done = false;
    if (r != CUDA_SUCCESS)
        return r;
    r = stub_call_wait(&c);
    *ret_done = c.reply != NULL;
    stub_call_end(&c);
    stub_ctx_pop();
    return r;
}

/* False: it has to be done another way.  What the cards say is final. */
static bool
move_direct(const struct stub_move *move, CUresult *ret)
{
    struct stub_link *from = &stub_links[wire_handle_link(move->src_ctx->handle)];
    struct stub_link *to = &stub_links[wire_handle_link(move->dst_ctx->handle)];
    uint64_t xfer = atomic_fetch_add(&next_xfer, 1);
    bool done;

    if (!way_is_direct(from, to))
        return false;
    *ret = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!atomic_load(&move->src_ctx->alive) || !atomic_load(&move->dst_ctx->alive))
        return true;
    *ret = direct_send(move, to, xfer);
    if (*ret != CUDA_SUCCESS)
        return true;
    *ret = direct_receive(move, from, xfer, &done);
    if (done && *ret != CUDA_ERROR_SYSTEM_NOT_READY)
        return true;
    way_lost(from, to);
    return false;
}

/* ---- contexts that end ------------------------------------------------------ */

/* Mapped memory belongs to a card, not to a context: a copy that was begun with any
 * context of that server goes on with another one where the program has destroyed it.
 * @held: the reference that a replacement has.  False: it is alive, or the memory went
 * with it. */
static bool
ctx_renew(struct stub_ctx **ctx, struct stub_ctx **held, CUdeviceptr addr)
{
    uint32_t link, index;
    struct stub_ctx *other;
    bool alive;

    if (atomic_load(&(*ctx)->alive) || !stub_memory_where(addr, &link, &index) ||
        index || link != wire_handle_link((*ctx)->handle))
        return false;
    other = stub_ctx_ref_on(link, index, &alive);
    if (!alive) {
        stub_ctx_unref(other);
        return false;
    }
    if (*held)
        stub_ctx_unref(*held);
    *ctx = *held = other;
    return true;
}

/* Bytes that a copy wrote before its context ended are written again. */
static CUresult
move_while_contexts_end(struct stub_move *m)
{
    struct stub_ctx *to = NULL, *from = NULL;
    bool again;
    CUresult r;

    do {
        if (!move_direct(m, &r))
            r = move_through_here(m);
        again = r != CUDA_SUCCESS && (ctx_renew(&m->dst_ctx, &to, m->dst) |
                                      ctx_renew(&m->src_ctx, &from, m->src));
    } while (again);
    if (to)
        stub_ctx_unref(to);
    if (from)
        stub_ctx_unref(from);
    return r;
}

CUresult
stub_move_now(const struct stub_move *move)
{
    struct stub_move m = *move;

    if (!m.width || !m.rows || !m.slices)
        return CUDA_SUCCESS;
    if (m.rows == 1)
        m.src_pitch = m.dst_pitch = m.width;
    return move_while_contexts_end(&m);
}
