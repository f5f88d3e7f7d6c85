/* SPDX-License-Identifier: Apache-2.0 */
/* Copies to pinned host memory that nobody waits for; see stub_d2h_async.h. */
#include "stub_d2h_async.h"

#include "gp_base.h"
#include "gp_lock.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_memory.h"
#include "stub_thread.h"
#include "stub_wait.h"
#include "wire_format.h"
#include "xport.h"

#include <stdlib.h>
#include <string.h>

struct stub_land {
    struct stub_land *next; /* under way, oldest first; or free */
    struct stub_link *link;
    struct stub_land_place place;
    uint32_t seq;
    bool large;
};

/* Somebody who waits: for a range, or for room. */
struct land_wait {
    struct stub_call call;
    struct land_wait *next;
    const uint8_t *addr;
    uint64_t len;
    int room;         /* 0 small, 1 large, -1: it is for the range */
    _Atomic bool met; /* what it waits for; whoever waits reads it without a lock */
};

/* Of one link; made at its first such copy and never freed. */
struct lands {
    struct gp_lock lock;
    struct stub_land *first, **last;
    struct stub_land *free[2];
    struct land_wait *waits;
    struct stub_call reader; /* the thread's, while nobody else reads */
    _Atomic uint32_t called; /* futex word: the thread shall read */
    uint8_t *scratch;        /* rows that are scattered; whoever reads */
    struct stub_land pool[WIRE_LAND_SMALLS + WIRE_LAND_LARGES];
};

_Atomic uint32_t stub_lands_under_way;

static struct gp_lock make_lock;
static _Atomic(struct lands *) all[STUB_LINKS_MAX];

static struct lands *
lands_of(const struct stub_link *link)
{
    return atomic_load_explicit(&all[link->number], memory_order_acquire);
}

/* ---- the thread that reads when nobody else does ----------------------------------
 */

static bool
lands_none(const struct stub_call *c)
{
    return atomic_load_explicit(&c->link->landing, memory_order_acquire) == 0;
}

static void
lands_thread(void *arg)
{
    struct lands *lands = arg;

    for (;;) {
        while (atomic_load(&lands->called) == 0)
            gp_futex_wait(&lands->called, 0, NULL);
        if (!stub_wait_events(&lands->reader, lands_none, true))
            return;
        atomic_store(&lands->called, 0);
    }
}

static void
land_wake_reader(struct stub_link *link)
{
    struct lands *lands = lands_of(link);

    if (lands && atomic_exchange(&lands->called, 1) == 0)
        gp_futex_wake(&lands->called, 1);
}

/* Under make_lock. */
static struct lands *
lands_new(struct stub_link *link)
{
    struct lands *lands = calloc(1, sizeof(*lands));

    if (!lands)
        return NULL;
    lands->scratch = malloc(WIRE_LAND_LARGE);
    lands->last = &lands->first;
    lands->reader.link = link;
    for (size_t i = 0; i < ARRAY_SIZE(lands->pool); i++) {
        struct stub_land *land = &lands->pool[i];

        land->link = link;
        land->large = i < WIRE_LAND_LARGES;
        land->next = lands->free[land->large];
        lands->free[land->large] = land;
    }
    if (!lands->scratch || stub_thread_start("gpupool-land", lands_thread, lands) < 0) {
        free(lands->scratch);
        free(lands);
        return NULL;
    }
    atomic_store_explicit(&all[link->number], lands, memory_order_release);
    return lands;
}

static bool
lands_exist(struct stub_link *link)
{
    struct lands *lands = lands_of(link);

    if (likely(lands != NULL))
        return true;
    gp_lock_take(&make_lock);
    lands = lands_of(link);
    if (!lands)
        lands = lands_new(link);
    gp_lock_release(&make_lock);
    return lands != NULL;
}

/* Memory that host and card share moves at waits of its own making: copies there keep
 * to the way that waits. */
bool
stub_land_possible(struct stub_link *link, const void *dst, uint64_t span)
{
    struct stub_memory m;

    return !stub_managed_is_on() && !stub_capture_any() && !stub_link_asks(link) &&
           stub_memory_find((uintptr_t)dst, &m) &&
           (m.kind == STUB_MEMORY_HOST || m.kind == STUB_MEMORY_REGISTERED) &&
           span <= m.range.size &&
           (uintptr_t)dst - m.range.start <= m.range.size - span &&
           stub_link_can(link, "land") && lands_exist(link);
}

/* ---- waiting ------------------------------------------------------------------------
 */

static uint64_t
place_span(const struct stub_land_place *place)
{
    return (place->rows - 1) * place->pitch + place->width;
}

/* Under the lock. */
static bool
wait_over(struct lands *lands, const struct land_wait *wait)
{
    if (wait->room >= 0)
        return lands->free[wait->room] != NULL;
    for (struct stub_land *l = lands->first; l; l = l->next) {
        if ((uintptr_t)l->place.base - (uintptr_t)wait->addr < wait->len ||
            (uintptr_t)wait->addr - (uintptr_t)l->place.base < place_span(&l->place))
            return false;
    }
    return true;
}

static bool
wait_ready(const struct stub_call *c)
{
    const struct land_wait *wait = container_of(c, const struct land_wait, call);

    return atomic_load_explicit(&wait->met, memory_order_acquire);
}

/* False: the link is dead. */
static bool
wait_run(struct lands *lands, struct land_wait *wait)
{
    struct land_wait **at;
    bool alive;

    gp_lock_take(&lands->lock);
    wait->met = wait_over(lands, wait);
    wait->next = lands->waits;
    lands->waits = wait;
    gp_lock_release(&lands->lock);
    alive = wait->met || stub_wait_events(&wait->call, wait_ready, false);
    gp_lock_take(&lands->lock);
    for (at = &lands->waits; *at != wait; at = &(*at)->next)
        ;
    *at = wait->next;
    gp_lock_release(&lands->lock);
    return alive;
}

void
stub_land_wait_slow(const void *addr, uint64_t len)
{
    for (uint32_t i = 0; i < stub_links_n; i++) {
        struct stub_link *link = &stub_links[i];
        struct land_wait wait = {
            .call.link = link, .addr = addr, .len = len, .room = -1};

        if (stub_link_ready(link) &&
            atomic_load_explicit(&link->landing, memory_order_acquire) != 0)
            wait_run(lands_of(link), &wait);
    }
}

/* ---- sending ------------------------------------------------------------------------
 */

static struct stub_land *
land_take_free(struct lands *lands, bool large)
{
    struct stub_land *land;

    gp_lock_take(&lands->lock);
    land = lands->free[large];
    if (land)
        lands->free[large] = land->next;
    gp_lock_release(&lands->lock);
    return land;
}

struct stub_land *
stub_land_claim(struct stub_link *link, const struct stub_land_place *place)
{
    struct lands *lands = lands_of(link);
    bool large = place->width * place->rows > WIRE_LAND_SMALL;
    struct stub_land *land = land_take_free(lands, large);

    while (!land) {
        struct land_wait wait = {.call.link = link, .room = large};

        if (!stub_link_ready(link) || !wait_run(lands, &wait))
            return NULL;
        land = land_take_free(lands, large);
    }
    land->place = *place;
    return land;
}

void
stub_land_drop(struct stub_land *land)
{
    struct lands *lands = lands_of(land->link);

    gp_lock_take(&lands->lock);
    land->next = lands->free[land->large];
    lands->free[land->large] = land;
    gp_lock_release(&lands->lock);
}

/* It is under way before the frame can leave: the bytes may come at once. */
CUresult
stub_land_post(struct stub_call *c, struct stub_land *land)
{
    struct stub_link *link = land->link;
    struct lands *lands = lands_of(link);
    CUresult r;

    land->seq = stub_call_land(c);
    land->next = NULL;
    gp_lock_take(&lands->lock);
    *lands->last = land;
    lands->last = &land->next;
    gp_lock_release(&lands->lock);
    atomic_fetch_add(&stub_lands_under_way, 1);
    atomic_fetch_add(&link->landing, 1);
    r = stub_call_post(c);
    if (unlikely(stub_link_attention(link) & STUB_ATTEND_FLUSH))
        land_wake_reader(link);
    return r;
}

/* ---- landing, on the thread that reads
 * ----------------------------------------------- */

static struct stub_land *
land_find(struct lands *lands, uint32_t seq)
{
    struct stub_land *land;

    gp_lock_take(&lands->lock);
    land = lands->first;
    while (land && land->seq != seq)
        land = land->next;
    gp_lock_release(&lands->lock);
    return land;
}

static void
land_scatter(const struct stub_land_place *place, const uint8_t *from)
{
    for (uint64_t i = 0; i < place->rows; i++)
        memcpy(place->base + i * place->pitch, from + i * place->width, place->width);
}

/* Until the land leaves the list, who frees the memory waits. */
static bool
land_receive(struct stub_link *link, const struct stub_land_place *place)
{
    uint8_t *scratch = lands_of(link)->scratch;
    uint64_t len = place->width * place->rows;

    if (place->rows == 1 || place->pitch == place->width)
        return xport_recv_bulk(link->conn, place->base, len) == 0;
    if (xport_recv_bulk(link->conn, scratch, len) < 0)
        return false;
    land_scatter(place, scratch);
    return true;
}

static void
land_over(struct lands *lands, struct stub_land *land)
{
    struct stub_land **at;

    gp_lock_take(&lands->lock);
    for (at = &lands->first; *at != land; at = &(*at)->next)
        ;
    *at = land->next;
    if (!*at)
        lands->last = at;
    land->next = lands->free[land->large];
    lands->free[land->large] = land;
    for (struct land_wait *w = lands->waits; w; w = w->next) {
        if (!w->met && wait_over(lands, w)) {
            atomic_store_explicit(&w->met, true, memory_order_release);
            stub_wait_poke(&w->call);
        }
    }
    gp_lock_release(&lands->lock);
}

static const char *
land_take(struct stub_link *link, const struct wire_rep *event)
{
    struct lands *lands = lands_of(link);
    uint32_t size = event->size - (uint32_t)sizeof(*event);
    const uint8_t *bytes =
        (const uint8_t *)(event + 1) + sizeof(struct wire_event_landed);
    bool bulk = event->flags & WIRE_F_BULK;
    struct wire_event_landed ev;
    struct stub_land *land;

    if (size < sizeof(ev) || !lands)
        return "bad landing";
    memcpy(&ev, event + 1, sizeof(ev));
    land = land_find(lands, ev.seq);
    if (!land)
        return "a copy has landed that was not made";
    if (ev.result == CUDA_SUCCESS) {
        if (ev.len != land->place.width * land->place.rows ||
            (!bulk && ev.len > size - sizeof(ev)))
            return "a copy of another length has landed";
        if (!bulk)
            land_scatter(&land->place, bytes);
        else if (!land_receive(link, &land->place))
            return "a copy broke off";
    } else if (bulk || ev.len) {
        return "bad landing";
    }
    land_over(lands, land);
    atomic_fetch_sub_explicit(&link->landing, 1, memory_order_release);
    atomic_fetch_sub_explicit(&stub_lands_under_way, 1, memory_order_release);
    return NULL;
}

static const struct stub_unsolicited land_messages[] = {
    {WIRE_EVENT_LANDED, land_take},
    {0},
};

const struct stub_feature stub_land_feature = {
    .name = "asynchronous copies to the host",
    .unread = land_wake_reader,
    .drain = stub_land_wait,
    .unsolicited = land_messages,
};
