/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous copies to the host; see stub_d2h_async.h. */
#include "stub_d2h_async.h"

#include "gp_base.h"
#include "gp_copy.h"
#include "gp_lock.h"
#include "gp_log.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_memory.h"
#include "stub_registered.h"
#include "stub_thread.h"
#include "stub_wait.h"
#include "wire_format.h"
#include "xport.h"

#include <stdlib.h>
#include <string.h>

struct stub_d2h_async {
    struct stub_d2h_async *next; /* under way, oldest first; or free */
    struct stub_link *link;
    struct stub_d2h_place place;
    uint32_t seq;
    bool large;
};

/* What a thread waits for: an entry of either size, a range, or a count of arrivals. */
enum d2h_wait_for { WAIT_SMALL, WAIT_LARGE, WAIT_RANGE, WAIT_ARRIVED };

struct d2h_wait {
    struct stub_call call;
    struct d2h_wait *next;
    const uint8_t *addr;
    uint64_t len;
    uint32_t arrived;
    enum d2h_wait_for what;
    _Atomic bool met; /* what it waits for; whoever waits reads it without a lock */
};

/* The copies of one link; made at its first one and never freed. */
struct d2h_queue {
    struct gp_lock lock;
    struct stub_d2h_async *first, **last;
    struct stub_d2h_async *free[2];
    struct d2h_wait *waits;
    uint32_t arrived;        /* that have arrived, since the attachment */
    struct stub_call reader; /* the thread's, while nobody else reads */
    _Atomic uint32_t called; /* futex word: the thread shall read */
    uint8_t *scratch;        /* rows that are scattered; whoever reads */
    struct stub_d2h_async pool[WIRE_D2H_SMALLS + WIRE_D2H_LARGES];
};

_Atomic uint32_t stub_d2h_async_in_flight;

static struct gp_lock make_lock;
static _Atomic(struct d2h_queue *) all[STUB_LINKS_MAX];

static struct d2h_queue *
queue_of(const struct stub_link *link)
{
    return atomic_load_explicit(&all[link->number], memory_order_acquire);
}

/* ---- the thread that reads when nobody else does ---------------------------- */

static bool
queue_none(const struct stub_call *c)
{
    return atomic_load_explicit(&c->link->d2h_in_flight, memory_order_acquire) == 0;
}

static void
queue_thread(void *arg)
{
    struct d2h_queue *queue = arg;

    for (;;) {
        while (atomic_load(&queue->called) == 0)
            gp_futex_wait(&queue->called, 0, NULL);
        if (!stub_wait_events(&queue->reader, queue_none, true))
            return;
        atomic_store(&queue->called, 0);
    }
}

static void
d2h_wake_reader(struct stub_link *link)
{
    struct d2h_queue *queue = queue_of(link);

    if (queue && atomic_exchange(&queue->called, 1) == 0)
        gp_futex_wake(&queue->called, 1);
}

/* Under make_lock. */
static struct d2h_queue *
queue_new(struct stub_link *link)
{
    struct d2h_queue *queue = calloc(1, sizeof(*queue));

    if (!queue)
        return NULL;
    queue->scratch = malloc(WIRE_D2H_LARGE);
    queue->last = &queue->first;
    queue->reader.link = link;
    for (size_t i = 0; i < ARRAY_SIZE(queue->pool); i++) {
        struct stub_d2h_async *copy = &queue->pool[i];

        copy->link = link;
        copy->large = i < WIRE_D2H_LARGES;
        copy->next = queue->free[copy->large];
        queue->free[copy->large] = copy;
    }
    if (!queue->scratch || stub_thread_start("gpupool-d2h", queue_thread, queue) < 0) {
        free(queue->scratch);
        free(queue);
        return NULL;
    }
    atomic_store_explicit(&all[link->number], queue, memory_order_release);
    return queue;
}

static bool
queue_exists(struct stub_link *link)
{
    struct d2h_queue *queue = queue_of(link);

    if (likely(queue != NULL))
        return true;
    gp_lock_take(&make_lock);
    queue = queue_of(link);
    if (!queue)
        queue = queue_new(link);
    gp_lock_release(&make_lock);
    return queue != NULL;
}

/* Memory that host and device share is brought up to date at waits, so copies there
 * take the path that waits. */
bool
stub_d2h_async_possible(struct stub_link *link, const void *dst, uint64_t span)
{
    struct stub_memory m;

    return !stub_managed_device((uintptr_t)dst) && !stub_capture_any() &&
           !stub_link_wants_replies(link) && stub_memory_find((uintptr_t)dst, &m) &&
           (m.kind == STUB_MEMORY_HOST || m.kind == STUB_MEMORY_REGISTERED) &&
           span <= m.range.size &&
           (uintptr_t)dst - m.range.start <= m.range.size - span &&
           stub_link_can(link, "land") && queue_exists(link);
}

/* ---- waiting ---------------------------------------------------------------- */

static uint64_t
place_span(const struct stub_d2h_place *place)
{
    return (place->rows - 1) * place->pitch + place->width;
}

/* Under the lock. */
static bool
wait_over(struct d2h_queue *queue, const struct d2h_wait *wait)
{
    if (wait->what == WAIT_ARRIVED)
        return (int32_t)(queue->arrived - wait->arrived) >= 0;
    if (wait->what != WAIT_RANGE)
        return queue->free[wait->what == WAIT_LARGE] != NULL;
    for (struct stub_d2h_async *l = queue->first; l; l = l->next) {
        if ((uintptr_t)l->place.base - (uintptr_t)wait->addr < wait->len ||
            (uintptr_t)wait->addr - (uintptr_t)l->place.base < place_span(&l->place))
            return false;
    }
    return true;
}

static bool
wait_ready(const struct stub_call *c)
{
    const struct d2h_wait *wait = container_of(c, const struct d2h_wait, call);

    return atomic_load_explicit(&wait->met, memory_order_acquire);
}

/* False: the link is dead. */
static bool
wait_run(struct d2h_queue *queue, struct d2h_wait *wait)
{
    struct d2h_wait **at;
    bool alive;

    gp_lock_take(&queue->lock);
    wait->met = wait_over(queue, wait);
    wait->next = queue->waits;
    queue->waits = wait;
    gp_lock_release(&queue->lock);
    alive = wait->met || stub_wait_events(&wait->call, wait_ready, false);
    gp_lock_take(&queue->lock);
    for (at = &queue->waits; *at != wait; at = &(*at)->next)
        ;
    *at = wait->next;
    gp_lock_release(&queue->lock);
    return alive;
}

void
stub_d2h_async_wait_slow(const void *addr, uint64_t len)
{
    for (uint32_t i = 0; i < stub_links_n; i++) {
        struct stub_link *link = &stub_links[i];
        struct d2h_wait wait = {
            .call.link = link, .addr = addr, .len = len, .what = WAIT_RANGE};

        if (stub_link_ready(link) &&
            atomic_load_explicit(&link->d2h_in_flight, memory_order_acquire) != 0)
            wait_run(queue_of(link), &wait);
    }
}

/* Without a queue there was no such copy. */
static void
await_arrived(struct stub_link *link, uint32_t arrived)
{
    struct d2h_wait wait = {
        .call.link = link, .what = WAIT_ARRIVED, .arrived = arrived};
    struct d2h_queue *queue = queue_of(link);

    if (queue && stub_link_ready(link))
        wait_run(queue, &wait);
}

/* ---- sending ---------------------------------------------------------------- */

static struct stub_d2h_async *
d2h_take_free(struct d2h_queue *queue, bool large)
{
    struct stub_d2h_async *copy;

    gp_lock_take(&queue->lock);
    copy = queue->free[large];
    if (copy)
        queue->free[large] = copy->next;
    gp_lock_release(&queue->lock);
    return copy;
}

bool
stub_d2h_async_has_room(uint64_t n)
{
    struct d2h_queue *queue = queue_of(stub_link_here());
    uint64_t parts = (n + WIRE_D2H_LARGE - 1) / WIRE_D2H_LARGE;

    if (!queue)
        return false;
    gp_lock_take(&queue->lock);
    for (const struct stub_d2h_async *copy = queue->free[n > WIRE_D2H_SMALL];
         copy && parts; copy = copy->next)
        parts--;
    gp_lock_release(&queue->lock);
    return parts == 0;
}

struct stub_d2h_async *
stub_d2h_async_claim(struct stub_link *link, const struct stub_d2h_place *place)
{
    struct d2h_queue *queue = queue_of(link);
    bool large = place->width * place->rows > WIRE_D2H_SMALL;
    struct stub_d2h_async *copy = d2h_take_free(queue, large);

    while (!copy) {
        struct d2h_wait wait = {.call.link = link,
                                .what = large ? WAIT_LARGE : WAIT_SMALL};

        if (!stub_link_ready(link) || !wait_run(queue, &wait))
            return NULL;
        copy = d2h_take_free(queue, large);
    }
    copy->place = *place;
    return copy;
}

void
stub_d2h_async_drop(struct stub_d2h_async *copy)
{
    struct d2h_queue *queue = queue_of(copy->link);

    gp_lock_take(&queue->lock);
    copy->next = queue->free[copy->large];
    queue->free[copy->large] = copy;
    gp_lock_release(&queue->lock);
}

/* The copy is entered in the list before its frame can be sent: the bytes may come
 * at once. */
CUresult
stub_d2h_async_post(struct stub_call *c, struct stub_d2h_async *copy)
{
    struct stub_link *link = copy->link;
    struct d2h_queue *queue = queue_of(link);
    CUresult r;

    copy->seq = stub_call_mark_d2h_async(c);
    copy->next = NULL;
    gp_lock_take(&queue->lock);
    *queue->last = copy;
    queue->last = &copy->next;
    gp_lock_release(&queue->lock);
    atomic_fetch_add(&stub_d2h_async_in_flight, 1);
    atomic_fetch_add(&link->d2h_in_flight, 1);
    r = stub_call_post(c);
    if (unlikely(stub_link_attention(link) & STUB_ATTEND_FLUSH))
        d2h_wake_reader(link);
    return r;
}

/* ---- receiving, on the thread that reads ------------------------------------ */

static struct stub_d2h_async *
d2h_find(struct d2h_queue *queue, uint32_t seq)
{
    struct stub_d2h_async *copy;

    gp_lock_take(&queue->lock);
    copy = queue->first;
    while (copy && copy->seq != seq)
        copy = copy->next;
    gp_lock_release(&queue->lock);
    return copy;
}

static void
d2h_scatter(const struct stub_d2h_place *place, const uint8_t *from)
{
    for (uint64_t i = 0; i < place->rows; i++)
        gp_copy(place->base + i * place->pitch, from + i * place->width, place->width);
}

/* Whoever frees the memory waits until the copy has left the list. */
static bool
d2h_receive(struct stub_link *link, const struct stub_d2h_place *place)
{
    uint8_t *scratch = queue_of(link)->scratch;
    uint64_t len = place->width * place->rows;
    bool gone = stub_registered_is_gone(place->base, place_span(place));
    bool whole = (place->rows == 1 || place->pitch == place->width) && !gone;

    if (xport_recv_bulk(link->conn, whole ? place->base : scratch, len) < 0)
        return false;
    xport_acknowledge(link->conn);
    if (!whole && !gone)
        d2h_scatter(place, scratch);
    return true;
}

static void
d2h_complete(struct d2h_queue *queue, struct stub_d2h_async *copy)
{
    struct stub_d2h_async **at;

    gp_lock_take(&queue->lock);
    for (at = &queue->first; *at != copy; at = &(*at)->next)
        ;
    *at = copy->next;
    if (!*at)
        queue->last = at;
    copy->next = queue->free[copy->large];
    queue->free[copy->large] = copy;
    queue->arrived++;
    for (struct d2h_wait *w = queue->waits; w; w = w->next) {
        if (!w->met && wait_over(queue, w)) {
            atomic_store_explicit(&w->met, true, memory_order_release);
            stub_wait_wake(&w->call);
        }
    }
    gp_lock_release(&queue->lock);
}

static const char *
d2h_take(struct stub_link *link, const struct wire_rep *event)
{
    struct d2h_queue *queue = queue_of(link);
    uint32_t size = event->size - (uint32_t)sizeof(*event);
    const uint8_t *bytes =
        (const uint8_t *)(event + 1) + sizeof(struct wire_event_d2h_done);
    bool bulk = event->flags & WIRE_F_BULK;
    struct wire_event_d2h_done ev;
    struct stub_d2h_async *copy;

    if (size < sizeof(ev) || !queue)
        return "bad message of a copy";
    memcpy(&ev, event + 1, sizeof(ev));
    copy = d2h_find(queue, ev.seq);
    if (!copy)
        return "a copy has completed that was not made";
    if (ev.result == CUDA_SUCCESS) {
        if (ev.len != copy->place.width * copy->place.rows ||
            (!bulk && ev.len > size - sizeof(ev)))
            return "a copy of another length has completed";
        if (!bulk &&
            stub_registered_is_gone(copy->place.base, place_span(&copy->place)))
            gp_log_debug("stub", "what copy %u was to write is unmapped", ev.seq);
        else if (!bulk)
            d2h_scatter(&copy->place, bytes);
        else if (!d2h_receive(link, &copy->place))
            return "a copy broke off";
    } else if (bulk || ev.len) {
        return "bad message of a copy";
    }
    d2h_complete(queue, copy);
    atomic_fetch_sub_explicit(&link->d2h_in_flight, 1, memory_order_release);
    atomic_fetch_sub_explicit(&stub_d2h_async_in_flight, 1, memory_order_release);
    return NULL;
}

static const struct stub_unsolicited d2h_messages[] = {
    {WIRE_EVENT_D2H_DONE, d2h_take},
    {0},
};

const struct stub_feature stub_d2h_async_feature = {
    .name = "asynchronous copies to the host",
    .unread = d2h_wake_reader,
    .drain = stub_d2h_async_wait,
    .await_arrived = await_arrived,
    .unsolicited = d2h_messages,
};
