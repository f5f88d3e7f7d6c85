/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of graphs that touch memory of this process; see stub_graph_hostmem.h. */
#include "stub_graph_hostmem.h"

#include "gp_lock.h"
#include "stub_call.h"
#include "stub_control.h"
#include "stub_gen.h"
#include "stub_graph.h"
#include "stub_host_memory.h"
#include "stub_hostfn.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_registered.h"
#include "wire_api.h"

#include <errno.h>
#include <string.h>

#define CHUNK 32768u /* what a frame of gp_stage_* takes */

/* One node's bytes on this side. */
struct box {
    char *base;
    size_t pitch, slice;
};

struct hostmem {
    CUDA_MEMCPY3D copy;
    struct box src, dst; /* base NULL: on the server */
    struct stub_link *link;
    uint64_t token;
    struct hostmem *next; /* of those that write here */
};

_Atomic uint32_t stub_graph_hostmem_writers;

static struct {
    struct gp_lock lock;
    struct hostmem *first;
} writers;

/* ---- moving bytes: on the thread that runs host functions ------------------- */

static char *
row_of(const struct hostmem *s, const struct box *b, size_t row)
{
    return b->base + row / s->copy.Height * b->slice + row % s->copy.Height * b->pitch;
}

static bool
send_chunk(const struct hostmem *s, uint64_t offset, const char *from, uint32_t n)
{
    struct wire_gp_stage_write_req head = {.token = s->token, .offset = offset, .n = n};
    struct wire_gp_stage_write_req_room room;
    struct stub_call c;

    if (stub_call_begin_on(&c, s->link, WIRE_CALL_gp_stage_write,
                           wire_gp_stage_write_req_size(&head)) != CUDA_SUCCESS)
        return false;
    memcpy(c.body, &head, sizeof(head));
    wire_gp_stage_write_req_place(&room, c.body);
    memcpy(room.data, from, n);
    return stub_call_post(&c) == CUDA_SUCCESS;
}

static bool
fetch_chunk(const struct hostmem *s, uint64_t offset, char *to, uint32_t n)
{
    struct wire_gp_stage_read_rep_view rep;
    struct wire_gp_stage_read_req *req;
    struct stub_call c;
    bool ok;

    if (stub_call_begin_on(&c, s->link, WIRE_CALL_gp_stage_read, sizeof(*req)) !=
        CUDA_SUCCESS)
        return false;
    req = c.body;
    *req = (struct wire_gp_stage_read_req){.token = s->token, .offset = offset, .n = n};
    ok = stub_call_wait(&c) == CUDA_SUCCESS &&
         wire_gp_stage_read_rep_open(&rep, c.reply, c.reply_size, 0) && rep.f->len == n;
    if (ok)
        memcpy(to, rep.data, n);
    stub_call_end(&c);
    return ok;
}

/* Where the program has unmapped its registered memory meanwhile, the server gets bytes
 * of no meaning, and what it sends goes nowhere. */
static char *
there_or_blank(char *at, uint32_t n)
{
    static char blank[CHUNK];

    return stub_registered_is_gone(at, n) ? blank : at;
}

/* Over the control connection of that @number (stub_control.h); 0: over the main one.
 * -ECONNRESET and -EBADMSG as there; -EIO: the link is dead, or the worker refuses. */
static int
move_chunk(const struct hostmem *s, uint32_t number, size_t row, size_t at, uint32_t n)
{
    uint64_t offset = (uint64_t)row * s->copy.WidthInBytes + at;
    bool last =
        row + 1 == s->copy.Height * s->copy.Depth && at + n == s->copy.WidthInBytes;
    char *from = s->src.base ? there_or_blank(row_of(s, &s->src, row) + at, n) : NULL;
    char *to = s->dst.base ? there_or_blank(row_of(s, &s->dst, row) + at, n) : NULL;

    if (number && from)
        return stub_control_fill(s->link, number, stub_hostfn_ticket(), s->token,
                                 offset, from, n, last);
    if (number)
        return stub_control_fetch(s->link, number, s->token, offset, to, n);
    return (from ? send_chunk(s, offset, from, n) : fetch_chunk(s, offset, to, n))
               ? 0
               : -EIO;
}

static int
move_row(const struct hostmem *s, uint32_t number, size_t row)
{
    size_t width = s->copy.WidthInBytes;
    int r = 0;

    if (s->src.base && s->dst.base) {
        char *to = row_of(s, &s->dst, row), *from = row_of(s, &s->src, row);

        if (!stub_registered_is_gone(to, width) &&
            !stub_registered_is_gone(from, width))
            memmove(to, from, width);
        return 0;
    }
    for (size_t at = 0; at < width && r == 0; at += CHUNK)
        r = move_chunk(s, number, row, at, (uint32_t)gp_min(width - at, (size_t)CHUNK));
    return r;
}

static int
move_all(const struct hostmem *s, uint32_t number)
{
    int r = 0;

    for (size_t row = 0; row < s->copy.Height * s->copy.Depth && r == 0; row++)
        r = move_row(s, number, row);
    return r;
}

/* A control connection that breaks may have carried a part, or all; the next one
 * carries all again.  Over the main one only where there is none, or the worker refuses
 * and has to say why: a driver may hold up the thread that reads the main one until
 * this copy is made.  A failure there has ended the link, and every later call returns
 * that.
 */
static void
hostmem_run(void *user)
{
    const struct hostmem *s = user;
    int r = s->src.base && s->dst.base ? -EIO : -ECONNRESET; /* or nothing to send */
    uint32_t number;

    while (r == -ECONNRESET && (number = stub_control_number(s->link)) != 0)
        r = move_all(s, number);
    if (r != 0)
        move_all(s, 0);
}

/* ---- those that write here --------------------------------------------------- */

static void
writer_enter(struct hostmem *s)
{
    if (!s->dst.base)
        return;
    gp_lock_take(&writers.lock);
    s->next = writers.first;
    writers.first = s;
    atomic_fetch_add(&stub_graph_hostmem_writers, 1);
    gp_lock_release(&writers.lock);
}

static void
writer_leave(struct hostmem *s)
{
    struct hostmem **at;

    if (!s->dst.base)
        return;
    gp_lock_take(&writers.lock);
    for (at = &writers.first; *at != s; at = &(*at)->next)
        ;
    *at = s->next;
    atomic_fetch_sub(&stub_graph_hostmem_writers, 1);
    gp_lock_release(&writers.lock);
}

bool
stub_graph_hostmem_writes_slow(uint64_t addr, uint64_t n)
{
    bool writes = false;

    gp_lock_take(&writers.lock);
    for (const struct hostmem *s = writers.first; s && !writes; s = s->next) {
        uint64_t start = (uintptr_t)s->dst.base;
        uint64_t size = (s->copy.Depth - 1) * s->dst.slice +
                        (s->copy.Height - 1) * s->dst.pitch + s->copy.WidthInBytes;

        writes = addr - start < size || start - addr < n;
    }
    gp_lock_release(&writers.lock);
    return writes;
}

/* Called when nothing that could run the copy exists any more. */
static void
hostmem_end(void *user)
{
    struct hostmem *s = user;

    writer_leave(s);
    atomic_fetch_sub(&stub_host_memory_in_graphs, 1);
    stub_hostfn_forget(s->token);
    free(s);
}

/* ---- making one ------------------------------------------------------------- */

static bool
box_open(struct box *b, const void *host, size_t x, size_t y, size_t z, size_t pitch,
         size_t height, const CUDA_MEMCPY3D *c)
{
    size_t at, down, deep;

    b->pitch = pitch ? pitch : x + c->WidthInBytes;
    if (!gp_mul_ok(b->pitch, height ? height : y + c->Height, &b->slice) ||
        !gp_mul_ok(b->slice, z, &deep) || !gp_mul_ok(b->pitch, y, &down) ||
        !gp_add_ok(deep, down, &at) || !gp_add_ok(at, x, &at))
        return false;
    b->base = (char *)(uintptr_t)host + at;
    return b->pitch >= x + c->WidthInBytes &&
           (c->Depth <= 1 || !height || height >= y + c->Height);
}

/* A unified address is the host's or a device's by its value. */
static void
resolve_type(CUmemorytype *type, const void **host, CUdeviceptr device)
{
    if (*type != CU_MEMORYTYPE_UNIFIED)
        return;
    *type = stub_memory_is_device(device) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    if (*type == CU_MEMORYTYPE_HOST)
        *host = (const void *)(uintptr_t)device;
}

static CUresult
hostmem_new(const CUDA_MEMCPY3D *copy, struct hostmem **ret, uint64_t *ret_end)
{
    struct hostmem *s = calloc(1, sizeof(*s));
    CUDA_MEMCPY3D *c;
    const void *dst;
    bool ok = true;

    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c = &s->copy;
    *c = *copy;
    dst = c->dstHost;
    resolve_type(&c->srcMemoryType, &c->srcHost, c->srcDevice);
    resolve_type(&c->dstMemoryType, &dst, c->dstDevice);
    c->dstHost = (void *)(uintptr_t)dst;
    if (c->srcMemoryType == CU_MEMORYTYPE_HOST)
        ok = c->srcHost && box_open(&s->src, c->srcHost, c->srcXInBytes, c->srcY,
                                    c->srcZ, c->srcPitch, c->srcHeight, c);
    if (ok && c->dstMemoryType == CU_MEMORYTYPE_HOST)
        ok = c->dstHost && box_open(&s->dst, c->dstHost, c->dstXInBytes, c->dstY,
                                    c->dstZ, c->dstPitch, c->dstHeight, c);
    if (!ok || !c->WidthInBytes || !c->Height || !c->Depth) {
        free(s);
        return CUDA_ERROR_INVALID_VALUE;
    }
    s->link = stub_link_here();
    s->token = stub_hostfn_add_own(hostmem_run, s, true);
    *ret_end = s->token ? stub_hostfn_add_own(hostmem_end, s, false) : 0;
    if (!*ret_end) {
        if (s->token)
            stub_hostfn_forget(s->token);
        free(s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    writer_enter(s);
    atomic_fetch_add(&stub_host_memory_in_graphs, 1);
    *ret = s;
    return CUDA_SUCCESS;
}

/* The server has not made the node. */
static void
hostmem_undo(struct hostmem *s, uint64_t end)
{
    stub_hostfn_forget(end);
    hostmem_end(s);
}

/* ---- the calls -------------------------------------------------------------- */

CUresult
stub_graph_hostmem_add(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                       size_t n_deps, const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
    struct wire_gp_stage_node_req head = {
        .hGraph = (uintptr_t)graph, .numDependencies = n_deps, .ctx = (uintptr_t)ctx};
    struct wire_gp_stage_node_req_room room;
    struct stub_call c;
    struct hostmem *s;
    uint32_t size;
    CUresult r = hostmem_new(copy, &s, &head.end);

    if (r != CUDA_SUCCESS)
        return r;
    head.token = s->token;
    memcpy(head.copyParams, &s->copy, sizeof(s->copy));
    size = wire_gp_stage_node_req_size(&head);
    head.phGraphNode = size ? stub_handle_new(WIRE_KIND_GRAPHNODE) : 0;
    r = !size               ? stub_unsupported(WIRE_CALL_cuGraphAddMemcpyNode)
        : !head.phGraphNode ? CUDA_ERROR_OUT_OF_MEMORY
                            : stub_call_begin(&c, WIRE_CALL_gp_stage_node, size);
    if (r == CUDA_SUCCESS) {
        memcpy(c.body, &head, sizeof(head));
        wire_gp_stage_node_req_place(&room, c.body);
        if (room.dependencies)
            memcpy(room.dependencies, deps, n_deps * sizeof(uint64_t));
        r = stub_call_wait(&c);
        stub_call_end(&c);
    }
    if (r == CUDA_SUCCESS) {
        *node = (CUgraphNode)(uintptr_t)head.phGraphNode;
        return r;
    }
    if (head.phGraphNode)
        stub_handle_del(WIRE_KIND_GRAPHNODE, head.phGraphNode);
    hostmem_undo(s, head.end);
    return r;
}

CUresult
stub_graph_hostmem_set(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy,
                       CUcontext ctx)
{
    struct wire_gp_stage_set_req head = {
        .hGraphExec = (uintptr_t)exec, .hNode = (uintptr_t)node, .ctx = (uintptr_t)ctx};
    struct stub_call c;
    struct hostmem *s;
    CUresult r;

    if (exec && (copy->Height != 1 || copy->Depth != 1))
        return CUDA_ERROR_INVALID_VALUE; /* an instance's copies have one dimension */
    r = hostmem_new(copy, &s, &head.end);
    if (r != CUDA_SUCCESS)
        return r;
    head.token = s->token;
    memcpy(head.copyParams, &s->copy, sizeof(s->copy));
    r = stub_call_begin(&c, WIRE_CALL_gp_stage_set, sizeof(head));
    if (r == CUDA_SUCCESS) {
        memcpy(c.body, &head, sizeof(head));
        r = stub_call_wait(&c);
        stub_call_end(&c);
    }
    if (r != CUDA_SUCCESS)
        hostmem_undo(s, head.end);
    return r;
}

bool
stub_graph_hostmem_captures(CUstream stream, bool per_thread, const CUDA_MEMCPY3D *copy,
                            CUresult *r)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    *r = CUDA_SUCCESS;
    if (!stub_graph_copy_is_local(copy))
        return false;
    *r = stub_impl_cuStreamIsCapturing(stream, &status, per_thread);
    return *r != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult
stub_graph_hostmem_capture(CUstream stream, bool per_thread, const CUDA_MEMCPY3D *copy)
{
    struct wire_gp_stage_capture_req head = {0};
    struct stub_call c;
    struct hostmem *s;
    CUresult r;

    if (stub_gen_stream(stream, per_thread, &head.hStream))
        return CUDA_ERROR_INVALID_HANDLE;
    r = hostmem_new(copy, &s, &head.end);
    if (r != CUDA_SUCCESS)
        return r;
    head.token = s->token;
    memcpy(head.copyParams, &s->copy, sizeof(s->copy));
    r = stub_call_begin(&c, WIRE_CALL_gp_stage_capture, sizeof(head));
    if (r == CUDA_SUCCESS) {
        memcpy(c.body, &head, sizeof(head));
        r = stub_call_wait(&c);
        stub_call_end(&c);
    }
    if (r != CUDA_SUCCESS)
        hostmem_undo(s, head.end);
    return r;
}

CUDA_MEMCPY3D
stub_graph_hostmem_linear(CUdeviceptr dst, bool dst_host, CUdeviceptr src,
                          bool src_host, size_t n)
{
    CUDA_MEMCPY3D c = {.WidthInBytes = n, .Height = 1, .Depth = 1};

    c.srcMemoryType = src_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.srcHost = src_host ? (const void *)(uintptr_t)src : NULL;
    c.srcDevice = src_host ? 0 : src;
    c.dstMemoryType = dst_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.dstHost = dst_host ? (void *)(uintptr_t)dst : NULL;
    c.dstDevice = dst_host ? 0 : dst;
    return c;
}
