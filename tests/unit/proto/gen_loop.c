/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtimes of stub and worker, as small as generated code allows.
 */
#include "gen_loop.h"

#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_event.h"
#include "stub_gen.h"
#include "stub_handle.h"
#include "stub_link_switch.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_relay.h"
#include "stub_replica.h"
#include "stub_report.h"
#include "stub_trace.h"
#include "wire_result.h"
#include "wrk_call.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDLES 4096
#define THREAD_STREAM ((void *)0x7777)

struct gen_loop loop;
bool stub_tracing, stub_reporting, stub_slow;

static struct wrk worker;
static uint64_t frame[(sizeof(struct wire_req) + WIRE_FRAME_MAX) / 8];
static uint64_t answer[WIRE_FRAME_MAX / 8];
static uint32_t answer_size;
static CUresult answer_result;

static struct {
    uint64_t id;
    void *obj;
    bool client; /* the client still knows it */
} handles[HANDLES];
static uint32_t allocated, named;

void
gen_loop_reset(void)
{
    memset(&loop, 0, sizeof(loop));
    memset(&worker, 0, sizeof(worker));
    memset(handles, 0, sizeof(handles));
    allocated = named = 0;
    stub_tracing = stub_slow = false;
    worker.drv = &loop.drv;
}

/* ---- handles --------------------------------------------------------------------- */

static int
handle_at(uint64_t id)
{
    for (int i = 0; i < HANDLES; i++)
        if (id && handles[i].id == id)
            return i;
    return -1;
}

static void
handle_add(uint64_t id, void *obj, bool client)
{
    for (int i = 0; i < HANDLES; i++) {
        if (handles[i].id)
            continue;
        handles[i].id = id;
        handles[i].obj = obj;
        handles[i].client = client;
        return;
    }
    abort();
}

uint64_t
gen_loop_handle(enum wire_kind kind, void *obj)
{
    uint64_t id = wire_handle_make(kind, 0, ++allocated);

    handle_add(id, obj, true);
    return id;
}

uint64_t
stub_handle_new(uint32_t kind)
{
    return gen_loop_handle((enum wire_kind)kind, NULL);
}

bool
stub_handle_ok(uint32_t kind, uint64_t handle)
{
    int i = handle_at(handle);

    return i >= 0 && handles[i].client && wire_handle_is(handle, (enum wire_kind)kind);
}

void
stub_handle_del(uint32_t kind, uint64_t handle)
{
    int i = handle_at(handle);

    if (i >= 0)
        handles[i].client = false;
}

CUresult
wrk_handle_get(struct wrk *w, unsigned kind, uint64_t id, void **ret)
{
    int i = handle_at(id);

    *ret = NULL;
    if (id == 0 || (kind == WIRE_KIND_STREAM && id <= 2)) {
        *ret = (void *)(uintptr_t)id;
        return CUDA_SUCCESS;
    }
    if (i < 0 || !handles[i].obj || !wire_handle_is(id, (enum wire_kind)kind))
        return wire_handle_error((enum wire_kind)kind);
    *ret = handles[i].obj;
    return CUDA_SUCCESS;
}

CUresult
wrk_func_get(struct wrk *w, uint64_t id, void **ret)
{
    return wrk_handle_get(w, WIRE_KIND_FUNC, id, ret);
}

void
wrk_handle_put(struct wrk *w, unsigned kind, uint64_t id, void *obj)
{
    int i = handle_at(id);

    if (i >= 0)
        handles[i].obj = obj;
    else
        handle_add(id, obj, false);
}

uint64_t
wrk_handle_name(struct wrk *w, unsigned kind, void *obj)
{
    uint64_t id;

    for (int i = 0; obj && i < HANDLES; i++)
        if (handles[i].obj == obj && wire_handle_kind(handles[i].id) == kind)
            return handles[i].id;
    if (!obj)
        return 0;
    id = wire_handle_make((enum wire_kind)kind, 0, WIRE_INDEX_SERVER + ++named);
    handle_add(id, obj, false);
    return id;
}

void
wrk_handle_del(struct wrk *w, unsigned kind, uint64_t id)
{
    int i = handle_at(id);

    if (i >= 0)
        handles[i].obj = NULL;
}

/* ---- the worker --------------------------------------------------------------------
 */

CUresult
wrk_call_enter(struct wrk *w, const struct wire_req *req, unsigned flags)
{
    return CUDA_SUCCESS;
}

void
wrk_call_leave(struct wrk *w, const struct wire_req *req, CUresult result)
{
    answer_result = result;
    if (!(req->flags & WIRE_F_REPLY) && loop.deferred == CUDA_SUCCESS)
        loop.deferred = result;
}

bool
wrk_frame_bad(struct wrk *w, const struct wire_req *req, const char *why)
{
    loop.bad = why;
    return false;
}

void
wrk_handle_of(struct wrk *w, uint64_t func_id, uint64_t owner_id)
{
}

void *
wrk_reply_reserve(struct wrk *w, const struct wire_req *req, uint32_t size)
{
    memset(answer, 0, size);
    answer_size = size;
    return answer;
}

void
wrk_reply_send(struct wrk *w, const struct wire_req *req, CUresult result)
{
    answer_result = result;
}

void
wrk_reply_finish(struct wrk *w, struct wrk_reply *rep, CUresult result)
{
    answer_result = result;
    if (rep->taken || (result != CUDA_SUCCESS && !rep->on_error))
        return;
    if (rep->size)
        memcpy(answer, rep->body, rep->size);
    answer_size = rep->size;
}

/* A frame in a block of its own size, so that a sanitizer sees a byte too far. */
static bool
frame_run(uint16_t call, uint16_t flags, const void *body, uint32_t size)
{
    struct wire_req *req = malloc(sizeof(*req) + size);
    bool ok;

    if (!req)
        abort();
    *req = (struct wire_req){
        .size = (uint32_t)sizeof(*req) + size, .call = call, .flags = flags};
    if (size)
        memcpy(req + 1, body, size);
    answer_size = 0;
    answer_result = CUDA_SUCCESS;
    loop.frames++;
    loop.flags = flags;
    loop.body_size = size;
    ok = wrk_dispatch(&worker, req, sizeof(*req) + size);
    free(req);
    return ok;
}

bool
gen_loop_frame(uint16_t call, const void *body, uint32_t size)
{
    return frame_run(call, WIRE_F_REPLY, body, size);
}

/* ---- the stub
 * ------------------------------------------------------------------------ */

CUresult
stub_enter(void)
{
    return CUDA_SUCCESS;
}

CUresult
stub_ctx_enter(void)
{
    return stub_enter();
}

/* Filled with rubbish, so that a field which nobody writes is noticed. */
CUresult
stub_call_begin(struct stub_call *c, uint16_t call, uint32_t body_size)
{
    memset(frame, 0xa5, body_size);
    c->body = frame;
    c->call = call;
    c->frame_size = body_size;
    return CUDA_SUCCESS;
}

CUresult
stub_call_post(struct stub_call *c)
{
    return frame_run(c->call, 0, frame, c->frame_size) ? CUDA_SUCCESS
                                                       : CUDA_ERROR_UNKNOWN;
}

CUresult
stub_call_post_release(struct stub_call *c)
{
    return stub_call_post(c);
}

CUresult
stub_call_wait(struct stub_call *c)
{
    bool ok = frame_run(c->call, WIRE_F_REPLY, frame, c->frame_size);

    c->reply = answer;
    c->reply_size = ok ? answer_size : 0;
    c->result = ok ? answer_result : CUDA_ERROR_UNKNOWN;
    return c->result;
}

CUresult
stub_call_post_checked(struct stub_call *c)
{
    return stub_call_wait(c);
}

void
stub_call_end(struct stub_call *c)
{
    c->reply = NULL;
}

CUresult
stub_call_bad(uint16_t call)
{
    loop.bad = "answer";
    return CUDA_ERROR_UNKNOWN;
}

CUresult
stub_unsupported(uint16_t call)
{
    loop.unsupported++;
    return CUDA_ERROR_NOT_SUPPORTED;
}

uint64_t
stub_stream_slow(CUstream stream, bool per_thread)
{
    loop.per_thread = per_thread || stream == CU_STREAM_PER_THREAD;
    return loop.per_thread ? wrk_handle_name(&worker, WIRE_KIND_STREAM, THREAD_STREAM)
                           : 0;
}

void
stub_trace(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(loop.line, sizeof(loop.line), fmt, args);
    va_end(args);
}

const char *
stub_intern(const char *name)
{
    static char kept[256];

    snprintf(kept, sizeof(kept), "%s", name);
    return kept;
}

/* ---- one server --------------------------------------------------------------------
 */

struct stub_link stub_links[STUB_LINKS_MAX];
uint32_t stub_links_n = 1;
__thread struct stub_tls stub_tls = {.link = stub_links};

/* Nothing goes ahead of a call. */
bool
stub_link_can(const struct stub_link *link, const char *capability)
{
    (void)link, (void)capability;
    return false;
}

void
stub_route_handle(struct stub_route *route, uint32_t kind, uint64_t handle)
{
    (void)route, (void)kind, (void)handle;
}

void
stub_route_device(struct stub_route *route, CUdevice dev)
{
    (void)route, (void)dev;
}

void
stub_route_address(struct stub_route *route, uint64_t addr)
{
    (void)route, (void)addr;
}

void
stub_route_owner(struct stub_route *route, uint64_t addr)
{
    (void)route, (void)addr;
}

void
stub_route_func(struct stub_route *route, uint64_t func)
{
    (void)route, (void)func;
}

void
stub_link_switch_begin(struct stub_link_switch *change, const struct stub_route *route)
{
    change->away = route->link > 0;
}

void
stub_link_switch_end(struct stub_link_switch *change)
{
    assert(!change->away);
}

uint64_t
stub_replica_library(uint64_t library)
{
    return library;
}

uint64_t
stub_replica_func(uint64_t func)
{
    return func;
}

struct stub_link *
stub_route_link(const struct stub_route *route)
{
    (void)route;
    return &stub_links[0];
}

CUresult
stub_relay_result(struct stub_link *link, CUresult r)
{
    (void)link;
    return r;
}

/* Devices are numbered from the other end on the wire. */
int
stub_device_wire(CUdevice dev)
{
    return 7 - dev;
}

CUdevice
stub_device_from_wire(int wire)
{
    return 7 - wire;
}

const struct stub_device *
stub_device_get(CUdevice dev)
{
    static const struct stub_device device;

    return dev >= 0 && dev < 8 ? &device : NULL;
}

CUresult
stub_device_refusal(void)
{
    return CUDA_ERROR_INVALID_DEVICE;
}

/* Every address but NULL is as good as another. */
_Atomic uint32_t stub_captures; /* none */

bool
stub_memory_is_plausible(uint64_t addr)
{
    return addr != 0;
}

bool
stub_memory_takes_batch(const CUstreamBatchMemOpParams *ops, uint64_t n)
{
    (void)ops;
    return n != 0;
}

bool
stub_memory_takes_values(uint64_t addr, unsigned size)
{
    return stub_memory_is_plausible(addr) && size != 0;
}

bool
stub_memory_reserve(uint64_t start, uint64_t size)
{
    return size != 0;
}

bool
stub_event_asks(CUevent event, uint32_t kind, uint64_t of)
{
    (void)event;
    (void)kind;
    (void)of;
    return false;
}

void *
stub_handle_data(uint32_t kind, uint64_t handle)
{
    (void)kind;
    (void)handle;
    return NULL;
}

void
stub_report_enter(void)
{
}

void
stub_report_leave(uint16_t call, CUresult result)
{
}
