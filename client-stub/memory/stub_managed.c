/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: whether host or device may change it at present, and what is moved
 * when that changes.
 *
 * After a wait the host may write, so before the next work of a device its changes are
 * searched and sent.  Further work needs no search, because the host must not touch
 * managed memory while a device works.  Mapped memory, and all memory once the program
 * has attached some to streams, is searched every time.
 *
 * Each server of the session has its own state and its own copy of the memory, made
 * when its devices first work.  The host's copy is in the middle: changes of one
 * server's device are received at a wait for it, and sent before the next work at
 * another server.  Page-locked memory (stub_managed_pages.h) may be changed by all at
 * any time: its changes are moved at the same points, and every few milliseconds while
 * there is work.
 *
 * The moves use a stream of their own per context, so that they neither wait for the
 * program's streams nor become part of a capture.  One lock covers everything.  A move
 * makes calls itself; a thread-local flag keeps these from coming back here.
 */
#include "stub_managed.h"

#include "cuda_api.h"
#include "gp_base.h"
#include "gp_lock.h"
#include "gp_log.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_ctx.h"
#include "stub_link.h"
#include "stub_managed_live.h"
#include "stub_managed_mirror.h"
#include "stub_managed_pages.h"
#include "stub_managed_range.h"
#include "stub_managed_runs.h"
#include "stub_managed_stream.h"
#include "stub_managed_told.h"
#include "stub_managed_turn.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_pinned.h"
#include "stub_replica.h"
#include "stub_stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

GP_HOT_DATA _Atomic bool stub_managed_on;

static struct {
    struct gp_lock lock;
    struct managed_range *ranges;
    CUresult failed; /* of a move, which no wait has returned yet */
    struct managed_turn turn[STUB_LINKS_MAX];
    _Atomic bool eager; /* some range, or all */
    _Atomic bool attached;
} managed = {.turn = {[0 ... STUB_LINKS_MAX - 1] = {.work = MANAGED_TURN_IDLE}}};

static __thread bool managed_busy;
static __thread uint32_t managed_mode; /* of captures, before that */
/* The calling thread moves in a context that is not the program's choice: for a host
 * function.  And: that context has been destroyed meanwhile. */
static __thread bool managed_in_any, managed_lost;

/* ---- where moves run -------------------------------------------------------- */

static struct managed_turn *
managed_turn(void)
{
    return &managed.turn[stub_link_here()->number];
}

/* Calls made until managed_quiesce() are not the program's. */
static void
managed_stir(void)
{
    managed_busy = true;
    managed_mode = stub_tls_relax();
    stub_tls.stay++;
}

static void
managed_quiesce(void)
{
    stub_tls.stay--;
    stub_tls_restore(managed_mode);
    managed_busy = false;
}

/* A wait for an event needs no context, the moves behind it do. */
static bool
managed_enter(bool *pushed)
{
    bool alive;

    *pushed = false;
    if (managed_busy || stub_enter() != CUDA_SUCCESS)
        return false;
    gp_lock_take(&managed.lock);
    if (!stub_tls.ctx_index &&
        stub_ctx_push_on(stub_link_here()->number, 0, &alive) == 0) {
        *pushed = alive;
        if (!alive)
            stub_ctx_pop();
    }
    managed_stir();
    return true;
}

static void
managed_leave(bool pushed)
{
    managed_quiesce();
    if (pushed)
        stub_ctx_pop();
    gp_lock_release(&managed.lock);
}

/* ---- moves, under the lock -------------------------------------------------- */

/* The host or the card goes on with old bytes; the next wait returns the error.  But
 * not where another context will do: nobody else may see that error either. */
static void
managed_failed(const char *what, CUresult r)
{
    managed_lost = managed_in_any && !atomic_load(&stub_tls.ctx->alive);
    if (managed_lost)
        return;
    gp_log_warn("stub", "shared memory could not be %s the server: error %d", what,
                (int)r);
    if (managed.failed == CUDA_SUCCESS)
        managed.failed = r;
}

/* A copy of it at this server: true when there is one. */
static bool
managed_join(struct managed_range *m, CUstream stream)
{
    struct managed_copy *copy = &m->copy[stub_link_here()->number];
    CUresult r = CUDA_SUCCESS;
    CUdeviceptr dev = m->copy[m->home].dev;
    size_t size;

    if (copy->dev)
        return true;
    if (m->library)
        r = stub_gen_cuLibraryGetManaged(
            &dev, &size,
            (CUlibrary)(uintptr_t)stub_replica_library((uintptr_t)m->library), m->name);
    else
        r = managed_mirror_open(dev, m->size);
    if (r == CUDA_SUCCESS)
        r = managed_range_join(m, dev, stream);
    if (r != CUDA_SUCCESS && !copy->refused)
        gp_log_warn("stub",
                    "server %u has no place for %" PRIu64 " bytes of shared memory at "
                    "%" PRIx64 ", its cards cannot reach them: error %d",
                    stub_link_here()->number, m->size, (uint64_t)dev, (int)r);
    copy->refused = r != CUDA_SUCCESS;
    return r == CUDA_SUCCESS;
}

/* The same for pages of page-locked memory. */
static bool
managed_join_pages(struct managed_range *m)
{
    struct managed_copy *copy = &m->copy[stub_link_here()->number];

    if (unlikely(copy->lapsed) && managed_pages_renew(m) != CUDA_SUCCESS)
        gp_log_warn("stub",
                    "server %u does not register %" PRIu64 " bytes of page-locked "
                    "memory at %" PRIx64 " again, its cards cannot reach them",
                    stub_link_here()->number, m->size, m->pages);
    if (copy->number || copy->refused)
        return copy->number != 0;
    if (managed_pages_join(m) == CUDA_SUCCESS) {
        managed_live_start();
        return true;
    }
    gp_log_warn("stub",
                "server %u has no place for %" PRIu64 " bytes of page-locked memory at "
                "%" PRIx64 ", its cards cannot reach them",
                stub_link_here()->number, m->size, m->pages);
    copy->refused = true;
    return false;
}

static bool
managed_has(uint64_t dev)
{
    return stub_managed_touches(dev, 1);
}

/* For good: every call is looked at from now on. */
static void
managed_turn_on(void)
{
    if (atomic_exchange(&stub_managed_on, true))
        return;
    atomic_store(&stub_memory_shared, managed_has);
    stub_link_attend_all(STUB_ATTEND_CALL, true);
}

/* What the program has put where a card finds it names more memory. */
static void
managed_take_wanted(void)
{
    struct managed_range *range;
    struct stub_memory m;

    while (stub_memory_take_wanted(&m)) {
        range = managed_range_new_pages(
            m.range.start, (uint8_t *)(uintptr_t)m.range.start, m.range.size);
        if (!range) {
            gp_log_warn("stub", "no memory to share page-locked memory");
            continue;
        }
        range->fresh = m.kind == STUB_MEMORY_HOST && !m.pinned;
        range->ctx = m.ctx;
        range->next = managed.ranges;
        managed.ranges = range;
        for (uint32_t i = 0; i < stub_links_n; i++)
            managed.turn[i].changed = true;
        managed.eager = true;
        managed_turn_on();
    }
}

static CUresult
managed_up_pages(void)
{
    CUresult r = CUDA_SUCCESS;

    for (struct managed_range *m = managed.ranges; m && r == CUDA_SUCCESS; m = m->next)
        if (m->pages && !managed_range_is_gone(m) && managed_join_pages(m))
            r = managed_pages_send(m, stub_link_here());
    return r;
}

static bool
managed_is_memory(const struct managed_range *m)
{
    return !m->pages && !managed_range_is_gone(m);
}

static struct managed_up
managed_up_begin(bool fine)
{
    return (struct managed_up){.fine = fine,
                               .quiet = !fine && managed_turn_is_idle(managed_turn()),
                               .runs = managed_runs_usable()};
}

/* What was sent is there for all work behind it. */
static CUresult
managed_up_end(const struct managed_up *up)
{
    CUresult r = up->sent ? stub_capture_wait_stream(up->stream) : CUDA_SUCCESS;

    return r == CUDA_SUCCESS ? managed_runs_close() : r;
}

/* @all: the host may have written anywhere.  @fine: the cards are at work. */
static CUresult
managed_up_memory(bool all, bool fine)
{
    struct managed_up up = managed_up_begin(fine);
    CUresult r = CUDA_SUCCESS;
    bool open = false;

    for (struct managed_range *m = managed.ranges; m && r == CUDA_SUCCESS;
         m = m->next) {
        if (!managed_is_memory(m) || !(all || m->eager || managed.attached))
            continue;
        if (!open)
            r = managed_stream(&up.stream);
        if (!open)
            managed_runs_open(up.stream, up.quiet);
        open = true;
        if (r == CUDA_SUCCESS && managed_join(m, up.stream))
            r = managed_range_send(m, 0, m->size, &up);
    }
    return open && r == CUDA_SUCCESS ? managed_up_end(&up) : r;
}

/* What goes up may name memory that has to go up as well. */
static void
managed_send(bool all, bool fine)
{
    const struct managed_range *first;
    uint32_t gone;
    CUresult r;

    do {
        first = managed.ranges;
        gone = managed_range_count_gone(managed.ranges);
        r = managed_up_memory(all, fine);
        if (r == CUDA_SUCCESS)
            r = managed_up_pages();
        managed_take_wanted();
    } while (r == CUDA_SUCCESS ? managed.ranges != first
                               : managed_range_count_gone(managed.ranges) != gone);
    if (r != CUDA_SUCCESS)
        managed_failed("brought to", r);
}

static bool
managed_is_here(const struct managed_range *m)
{
    return managed_is_memory(m) && m->copy[stub_link_here()->number].dev;
}

/* The server can say what the devices have changed. */
static bool
managed_is_told(const struct managed_range *m)
{
    const struct managed_copy *copy = &m->copy[stub_link_here()->number];

    return managed_is_here(m) && !copy->untold && !copy->lost;
}

static bool
managed_is_lost(const struct managed_range *m)
{
    return managed_is_here(m) && m->copy[stub_link_here()->number].lost;
}

/* What the server says is said once: after a failure, everything is fetched. */
static void
managed_set_lost(bool lost)
{
    for (struct managed_range *m = managed.ranges; m; m = m->next)
        m->copy[stub_link_here()->number].lost = lost;
}

/* @idle: the cards of this server have no work. */
static CUresult
managed_receive_memory(bool idle)
{
    const bool runs = managed_runs_usable();
    CUstream stream = NULL;
    CUresult r;

    for (const struct managed_range *m = managed.ranges; m && !stream; m = m->next)
        if (managed_is_here(m)) {
            r = managed_stream(&stream);
            if (r != CUDA_SUCCESS)
                return r;
        }
    if (!stream)
        return CUDA_SUCCESS;
    r = CUDA_SUCCESS;
    for (struct managed_range *m = managed.ranges; m && r == CUDA_SUCCESS; m = m->next)
        if (managed_is_here(m) && !(runs && managed_is_told(m)))
            r = managed_range_fetch(m, 0, m->size, stream);
    if (r == CUDA_SUCCESS && managed_runs_digests())
        r = managed_told_stale(managed.ranges, managed_is_lost, stream);
    if (r == CUDA_SUCCESS && runs)
        r = managed_told_receive(managed.ranges, managed_is_told, stream, idle);
    managed_set_lost(r != CUDA_SUCCESS);
    return r;
}

static void
managed_receive(bool idle)
{
    bool some = false;
    uint32_t gone;
    CUresult r;

    do {
        gone = managed_range_count_gone(managed.ranges);
        r = managed_pages_receive(managed.ranges, stub_link_here(), &some);
        if (r == CUDA_SUCCESS)
            r = managed_receive_memory(idle);
    } while (r != CUDA_SUCCESS && managed_range_count_gone(managed.ranges) != gone);
    if (r != CUDA_SUCCESS)
        managed_failed("brought from", r);
}

/* ---- turns ------------------------------------------------------------------ */

void
stub_managed_work(uint64_t stream)
{
    struct managed_turn *t = managed_turn();
    bool pushed;

    if (!managed_enter(&pushed))
        return;
    if (t->changed || managed.eager)
        managed_send(t->changed, false);
    t->changed = false;
    if (managed_turn_work(t, stream, stub_tls.ctx_index) && managed.eager)
        managed_live_wake();
    managed_leave(pushed);
}

void
stub_managed_placed(struct stub_link *link, uint32_t seq)
{
    if (!managed_busy)
        managed_turn_placed(&managed.turn[link->number], link, seq, stub_tls.ctx_index);
}

void
stub_managed_carry(void)
{
    bool pushed;

    if (!managed_enter(&pushed))
        return;
    managed_send(true, true);
    managed_leave(pushed);
}

/* The host may go on writing, so the next work looks again. */
static CUresult
managed_prefetch(struct managed_range *m, uint64_t from, uint64_t end)
{
    struct managed_up up = managed_up_begin(!managed_turn_is_idle(managed_turn()));
    CUresult r = managed_stream(&up.stream);

    if (r != CUDA_SUCCESS)
        return r;
    managed_runs_open(up.stream, up.quiet);
    if (managed_join(m, up.stream))
        r = managed_range_send(m, from, end, &up);
    return r == CUDA_SUCCESS ? managed_up_end(&up) : r;
}

void
stub_managed_prefetch(uint64_t dev, uint64_t size)
{
    CUresult r = CUDA_SUCCESS;
    bool pushed;

    if (!stub_managed_is_on() || stub_capture_any() || !managed_enter(&pushed))
        return;
    for (struct managed_range *m = managed.ranges; m && r == CUDA_SUCCESS;
         m = m->next) {
        uint64_t from = dev - m->copy[m->home].dev;

        if (managed_is_memory(m) && from < m->size)
            r = managed_prefetch(m, from, gp_min(m->size, from + size));
    }
    if (r != CUDA_SUCCESS)
        managed_failed("brought to", r);
    managed_leave(pushed);
}

/* Before every server's next work, changes are searched, by the host or another card.
 */
static void
managed_host_turn(void)
{
    for (uint32_t i = 0; i < stub_links_n; i++)
        managed.turn[i].changed = true;
}

/* Another thread has begun work while it was taken for done. */
static void
managed_was_not_over(void)
{
    CUstream stream;
    CUresult r = managed_stream(&stream);

    if (r == CUDA_SUCCESS)
        r = managed_told_stale(managed.ranges, managed_is_told, stream);
    if (r != CUDA_SUCCESS)
        managed_failed("brought from", r);
}

/* Unless all of the work is known to be done, the next wait looks again. */
static void
managed_waited(uint64_t stream)
{
    struct managed_turn *t = managed_turn();
    bool idle = managed_turn_is_idle(t);
    bool over = !idle && managed_turn_is_over(t, stream, stub_tls.ctx_index);

    if (!idle)
        managed_receive(over);
    managed_turn_waited(t, stream, stub_tls.ctx_index,
                        !idle && managed.failed == CUDA_SUCCESS);
    if (over && !managed_turn_is_idle(t) && managed_runs_digests())
        managed_was_not_over();
    managed_host_turn();
}

CUresult
stub_managed_waited(uint64_t stream)
{
    CUresult r;
    bool pushed;

    if (!managed_enter(&pushed))
        return CUDA_SUCCESS;
    managed_waited(stream);
    r = managed.failed;
    managed.failed = CUDA_SUCCESS;
    managed_leave(pushed);
    return r;
}

static void
managed_host_waited(void)
{
    bool pushed;

    if (!managed_enter(&pushed))
        return;
    managed_waited(STUB_MANAGED_SOME);
    managed_leave(pushed);
}

/* Calls @move in a living context of @link, if there is one; in another one if a thread
 * of the program has destroyed that meanwhile. */
static void
managed_in_some_ctx(struct stub_link *link, void (*move)(void))
{
    bool alive;

    do {
        if (stub_ctx_push_on(link->number, 0, &alive) < 0)
            return;
        managed_in_any = alive;
        managed_lost = false;
        move();
        managed_in_any = false;
        stub_ctx_pop();
    } while (managed_lost);
}

/* A failure is returned by the next wait of the program. */
void
stub_managed_host_begin(struct stub_link *link)
{
    managed_in_some_ctx(link, managed_host_waited);
}

void
stub_managed_host_end(struct stub_link *link)
{
    managed_in_some_ctx(link, stub_managed_carry);
}

bool
stub_managed_has_work(void)
{
    return !managed_busy && !managed_turn_is_idle(managed_turn());
}

void
stub_managed_attached(void)
{
    if (managed_busy)
        return;
    managed.attached = true;
    managed.eager = true;
}

/* Pages of memory whose own context is another one. */
void
stub_managed_ctx_end(struct stub_ctx *ctx)
{
    const uint64_t unique = atomic_load(&ctx->unique);

    if (!stub_managed_is_on())
        return;
    gp_lock_take(&managed.lock);
    for (struct managed_range *m = managed.ranges; m; m = m->next)
        for (uint32_t i = 0; m->pages && i < stub_links_n; i++)
            if (m->copy[i].number && m->copy[i].ctx_unique == unique)
                m->copy[i].lapsed = true;
    gp_lock_release(&managed.lock);
}

/* A failure to move is returned by the next wait, and no device does anything while
 * it has no work. */
bool
managed_refresh(bool *ret_some)
{
    bool pending = false;

    gp_lock_take(&managed.lock);
    managed_busy = true;
    for (uint32_t i = 0; i < stub_links_n; i++) {
        struct stub_link *link = &stub_links[i];

        if (managed_turn_is_idle(&managed.turn[i]) || !stub_link_ready(link))
            continue;
        pending = true;
        for (struct managed_range *m = managed.ranges; m; m = m->next)
            if (m->copy[i].number)
                managed_pages_send(m, link);
        if (managed_pages_receive(managed.ranges, link, ret_some) == CUDA_SUCCESS)
            continue;
        gp_log_debug("stub", "page-locked memory is not kept up to date any more");
        pending = false;
    }
    managed_busy = false;
    gp_lock_release(&managed.lock);
    return pending;
}

CUresult
stub_managed_adopt(void)
{
    CUresult r;
    bool pushed;

    if (!managed_enter(&pushed))
        return CUDA_SUCCESS;
    managed_take_wanted();
    managed_send(false, true);
    r = managed.failed;
    managed_leave(pushed);
    return r;
}

/* A context with a stream that captures cannot be waited for, and the attempt would
 * make the capture invalid. */
CUresult
stub_managed_sync(void)
{
    bool captured = false;
    CUresult r;

    if (!stub_managed_pending())
        return CUDA_SUCCESS;
    r = stub_ctx_synchronize_uncaptured(&captured);
    return captured ? stub_capture_wait_stream(NULL) : r;
}

/* ---- ranges ----------------------------------------------------------------- */

/* Fresh memory of the server begins as what the host sees: zeros. */
static CUresult
managed_begin(struct managed_range *range)
{
    uint64_t dev = range->copy[range->home].dev;
    CUstream stream;
    CUresult r = managed_stream(&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (range->library) {
        r = managed_runs_agree(dev, range->size, stream);
        return r == CUDA_SUCCESS ? managed_range_fetch(range, 0, range->size, stream)
                                 : r;
    }
    r = cuMemsetD8Async(dev, 0, range->size, stream);
    if (r == CUDA_SUCCESS)
        r = stub_capture_wait_stream(stream);
    return r == CUDA_SUCCESS ? managed_runs_agree(dev, range->size, stream) : r;
}

static CUresult
managed_add(struct managed_range *range)
{
    CUresult r;

    range->ctx = stub_tls.ctx ? stub_tls.ctx->handle : 0;
    r = managed_begin(range);
    if (r != CUDA_SUCCESS) {
        managed_range_free(range);
        return r;
    }
    range->next = managed.ranges;
    managed.ranges = range;
    managed_host_turn();
    if (range->eager)
        managed.eager = true;
    managed_turn_on();
    return CUDA_SUCCESS;
}

CUresult
stub_managed_add(uint64_t dev, uint64_t host, uint64_t size)
{
    struct managed_range *range;
    CUresult r;
    bool pushed;

    if (!managed_enter(&pushed))
        return CUDA_ERROR_NOT_INITIALIZED;
    range = managed_range_new(dev, (uint8_t *)(uintptr_t)host, size);
    r = range ? managed_add(range) : CUDA_ERROR_OUT_OF_MEMORY;
    managed_leave(pushed);
    return r;
}

CUresult
stub_managed_add_variable(uint64_t dev, uint64_t size, CUlibrary library,
                          const char *name)
{
    struct managed_range *range;
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    bool pushed;

    if (!managed_enter(&pushed))
        return CUDA_ERROR_NOT_INITIALIZED;
    range = managed_range_new(dev, NULL, size);
    if (range) {
        range->library = library;
        range->name = strdup(name);
        if (range->name)
            r = managed_add(range);
        else
            managed_range_free(range);
    }
    managed_leave(pushed);
    return r;
}

CUresult
stub_managed_add_pages(uint64_t dev, uint64_t host, uint64_t size)
{
    struct managed_range *range;
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    bool pushed;

    if (!managed_enter(&pushed))
        return CUDA_ERROR_NOT_INITIALIZED;
    range = managed_range_new_pages(dev, (uint8_t *)(uintptr_t)host, size);
    if (range && managed_join_pages(range)) {
        range->ctx = stub_tls.ctx ? stub_tls.ctx->handle : 0;
        range->next = managed.ranges;
        managed.ranges = range;
        managed.eager = true;
        managed_turn_on();
        managed_send(false, true);
        r = CUDA_SUCCESS;
    } else if (range) {
        managed_range_free(range);
    }
    managed_leave(pushed);
    return r;
}

/* What the card knows it by. */
static uint64_t
managed_address(const struct managed_range *m)
{
    return m->pages ? m->pages : m->copy[m->home].dev;
}

static struct managed_range *
managed_take(uint64_t addr)
{
    struct managed_range **at = &managed.ranges, *range;

    while (*at && (uintptr_t)(*at)->host != addr && managed_address(*at) != addr)
        at = &(*at)->next;
    range = *at;
    if (range)
        *at = range->next;
    return range;
}

/* Freeing its memory at the other servers waits for the devices' work, which may
 * wait for a host function, which may wait for the lock. */
bool
stub_managed_drop(uint64_t addr)
{
    struct managed_physmem *unused = NULL;
    struct managed_range *range;

    if (!stub_managed_is_on())
        return false;
    gp_lock_take(&managed.lock);
    range = managed_take(addr);
    for (uint32_t i = 0; range && range->pages && i < stub_links_n; i++)
        if (range->copy[i].number)
            stub_pinned_leave(i, range->copy[i].number);
    for (uint32_t i = 0; range && !range->library && !range->pages && i < stub_links_n;
         i++)
        if (i != range->home && range->copy[i].dev)
            managed_mirror_leave(i, range->copy[i].dev, range->size, &unused);
    gp_lock_release(&managed.lock);
    if (!range)
        return false;
    managed_stir();
    managed_mirror_close(unused);
    managed_quiesce();
    managed_range_free(range);
    return true;
}

uint64_t
stub_managed_variable(CUlibrary library)
{
    uint64_t at = 0;

    if (!stub_managed_is_on() || managed_busy)
        return 0;
    gp_lock_take(&managed.lock);
    for (struct managed_range *m = managed.ranges; m && !at; m = m->next)
        if (m->library == library)
            at = m->copy[m->home].dev;
    gp_lock_release(&managed.lock);
    return at;
}

static uint64_t
managed_find(uint64_t host, bool here_only)
{
    uint32_t here = stub_link_here()->number;
    const struct managed_range *m;
    uint64_t dev = 0;

    if (!stub_managed_is_on() || managed_busy)
        return 0;
    gp_lock_take(&managed.lock);
    m = managed.ranges;
    while (m && host - (uintptr_t)m->host >= m->size)
        m = m->next;
    if (m)
        dev = m->copy[here].dev || here_only ? m->copy[here].dev : managed_address(m);
    if (dev)
        dev += host - (uintptr_t)m->host;
    gp_lock_release(&managed.lock);
    return dev;
}

uint64_t
stub_managed_device(uint64_t host)
{
    return managed_find(host, false);
}

uint64_t
stub_managed_alias(uint64_t host)
{
    return managed_find(host, true);
}

bool
stub_managed_is_pages(uint64_t addr, uint64_t size)
{
    uint32_t here = stub_link_here()->number;
    bool is = false;

    if (!stub_managed_is_on() || managed_busy)
        return false;
    gp_lock_take(&managed.lock);
    for (struct managed_range *m = managed.ranges; m && !is; m = m->next)
        is = m->copy[here].number && m->pages == (uintptr_t)m->host &&
             addr - m->pages < m->size && size <= m->size - (addr - m->pages);
    gp_lock_release(&managed.lock);
    return is;
}

bool
stub_managed_overlaps(uint64_t dev, uint64_t size)
{
    bool some = false;

    if (managed_busy)
        return false;
    gp_lock_take(&managed.lock);
    for (struct managed_range *m = managed.ranges; m && !some; m = m->next) {
        uint64_t start = managed_address(m);

        some = dev - start < m->size || start - dev < size;
    }
    gp_lock_release(&managed.lock);
    return some;
}
