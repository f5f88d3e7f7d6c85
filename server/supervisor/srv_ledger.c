/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_ledger.h"

#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"
#include "srv_desk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct ledger_slot {
    uint32_t taken; /* 1: it is */
    uint32_t client_pid;
    uint64_t born_ns;
    /* Ever, of what the worker asked for; now, of what srv_export.c moved here. */
    uint64_t granted[TICKET_SLICES_MAX], granted_n[TICKET_SLICES_MAX];
    uint64_t moved[TICKET_SLICES_MAX], moved_n[TICKET_SLICES_MAX];
};

/* What outlives the supervisor. */
struct ledger_kept {
    struct srv_kept_head head;
    uint32_t n_slices;
    uint32_t slots_high;
    uint64_t n_names; /* ever noted */
    uint64_t limits[TICKET_SLICES_MAX];
    uint64_t most[TICKET_SLICES_MAX]; /* the largest limit it ever had */
    uint64_t high[TICKET_SLICES_MAX];
    uint64_t past[WRK_SPENT_KINDS][TICKET_SLICES_MAX];
    struct ledger_slot slots[WRK_SLOTS_MAX];
};
SRV_KEPT_SIZE(struct ledger_kept, 136352);

struct srv_ledger {
    pthread_mutex_t lock;
    struct wrk_segment *segment;
    struct ledger_kept *kept;
    int segment_fd, kept_fd;
    struct srv_desk *desks[WRK_SLOTS_MAX]; /* NULL: its worker has not been started */
};

static void
set_limits(struct srv_ledger *b, const struct ticket_claims *claims)
{
    for (uint32_t i = 0; i < b->kept->n_slices; i++) {
        b->kept->limits[i] = claims->slices[i].memory;
        b->kept->most[i] = gp_max(b->kept->most[i], b->kept->limits[i]);
        atomic_store(&b->segment->limits[i], b->kept->limits[i]);
    }
}

/* A segment that only this process can write to. */
static int
make_segment(struct srv_ledger *b, struct gp_err *err)
{
    void *map = NULL;
    int r = srv_desk_file("gpupool-session", sizeof(*b->segment), true, &b->segment_fd,
                          &map);

    if (r < 0)
        return gp_err_set(err, r, "memory file of the session: %s", strerror(-r));
    b->segment = map;
    return 0;
}

static void
fill_segment(struct srv_ledger *b, const struct ticket_claims *claims)
{
    b->segment->magic = WRK_SEGMENT_MAGIC;
    b->segment->size = sizeof(*b->segment);
    b->segment->n_slices = claims->n_slices;
    atomic_store(&b->segment->slots_high, b->kept->slots_high);
    set_limits(b, claims);
}

static struct srv_ledger *
ledger_alloc(void)
{
    struct srv_ledger *b = calloc(1, sizeof(*b));

    if (!b)
        return NULL;
    b->segment_fd = b->kept_fd = -1;
    pthread_mutex_init(&b->lock, NULL);
    return b;
}

int
srv_ledger_new(const struct ticket_claims *claims, struct srv_ledger **ret,
               struct gp_err *err)
{
    CLEANUP(srv_ledger_freep) struct srv_ledger *b = ledger_alloc();
    void *map = NULL;
    int r;

    if (!b)
        return gp_err_set(err, -ENOMEM, "no memory for the session's ledger");
    r = srv_kept_new(SRV_KEPT_LEDGER, sizeof(*b->kept), &b->kept_fd, &map, err);
    b->kept = map;
    if (r == 0)
        r = make_segment(b, err);
    if (r < 0)
        return r;
    b->kept->n_slices = claims->n_slices;
    fill_segment(b, claims);
    *ret = TAKE_PTR(b);
    return 0;
}

int
srv_ledger_adopt(const struct ticket_claims *claims, int kept, int segment,
                 struct srv_ledger **ret, struct gp_err *err)
{
    CLEANUP(srv_ledger_freep) struct srv_ledger *b = ledger_alloc();
    void *map = NULL;
    int r;

    if (!b)
        return gp_err_set(err, -ENOMEM, "no memory for the session's ledger");
    r = srv_kept_map(kept, SRV_KEPT_LEDGER, sizeof(*b->kept), &map);
    b->kept = map;
    if (r == 0 &&
        (b->kept->n_slices != claims->n_slices || b->kept->slots_high > WRK_SLOTS_MAX))
        r = -EPROTO;
    if (r == 0)
        r = make_segment(b, err);
    if (r == 0)
        r = srv_desk_copy(segment, sizeof(*b->segment), b->segment);
    if (r < 0)
        return gp_err_set(err, r, "ledger of session %s: %s", claims->session,
                          strerror(-r));
    b->kept_fd = kept;
    fill_segment(b, claims);
    *ret = TAKE_PTR(b);
    return 0;
}

void
srv_ledger_mend(struct srv_ledger *b)
{
    pthread_mutex_lock(&b->lock);
    for (uint32_t i = 0; i < WRK_SLOTS_MAX; i++)
        if (b->kept->slots[i].taken && !b->desks[i])
            b->kept->slots[i] = (struct ledger_slot){0};
    pthread_mutex_unlock(&b->lock);
}

void
srv_ledger_free(struct srv_ledger *b)
{
    if (!b)
        return;
    if (b->segment)
        munmap(b->segment, sizeof(*b->segment));
    if (b->segment_fd >= 0)
        close(b->segment_fd);
    srv_kept_unmap(b->kept, sizeof(*b->kept));
    if (b->kept_fd >= 0)
        close(b->kept_fd);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

int
srv_ledger_segment_fd(const struct srv_ledger *b)
{
    return b->segment_fd;
}

int
srv_ledger_kept_fd(const struct srv_ledger *b)
{
    return b->kept_fd;
}

void
srv_ledger_limit(struct srv_ledger *b, const struct ticket_claims *claims)
{
    pthread_mutex_lock(&b->lock);
    set_limits(b, claims);
    pthread_mutex_unlock(&b->lock);
}

/* ---- what a slot uses ---- */

/* Claims of a worker: what it took and gave back.  A give comes after its take, so it
 * is read first; a difference that cannot be is counted as all that the session may
 * have. */
static uint64_t
difference(_Atomic uint64_t *took, _Atomic uint64_t *gave, uint64_t granted,
           uint64_t most)
{
    uint64_t back = atomic_load(gave);
    uint64_t held = atomic_load(took) + granted - back;

    return gp_min(held, most);
}

static uint64_t
slot_used(const struct srv_ledger *b, uint32_t slot, uint32_t i)
{
    const struct ledger_slot *s = &b->kept->slots[slot];
    struct wrk_usage *claims = b->desks[slot] ? &b->desks[slot]->desk->usage : NULL;

    if (!claims)
        return s->moved[i];
    return s->moved[i] + difference(&claims->took[i], &claims->gave[i], s->granted[i],
                                    b->kept->most[i]);
}

static uint64_t
slot_pieces(const struct srv_ledger *b, uint32_t slot, uint32_t i)
{
    const struct ledger_slot *s = &b->kept->slots[slot];
    struct wrk_usage *claims = b->desks[slot] ? &b->desks[slot]->desk->usage : NULL;

    if (!claims)
        return s->moved_n[i];
    return s->moved_n[i] + difference(&claims->took_n[i], &claims->gave_n[i],
                                      s->granted_n[i],
                                      wrk_physmem_max(b->kept->most[i]));
}

static uint64_t
slot_spent(const struct srv_ledger *b, uint32_t slot, enum wrk_spent kind, uint32_t i)
{
    const struct ledger_slot *s = &b->kept->slots[slot];
    uint64_t claim;

    if (!b->desks[slot])
        return 0;
    claim = atomic_load(&b->desks[slot]->desk->usage.spent[kind][i]);
    if (kind == WRK_SPENT_GPU_NS)
        claim = gp_min(claim, gp_now_ns() - s->born_ns);
    return claim;
}

static uint64_t
used(const struct srv_ledger *b, uint32_t slice)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < b->kept->slots_high; s++)
        sum += slot_used(b, s, slice);
    return sum;
}

static uint64_t
pieces(const struct srv_ledger *b, uint32_t slice)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < b->kept->slots_high; s++)
        sum += slot_pieces(b, s, slice);
    return sum;
}

static uint64_t
spent(const struct srv_ledger *b, enum wrk_spent kind, uint32_t slice)
{
    uint64_t sum = b->kept->past[kind][slice];

    for (uint32_t s = 0; s < b->kept->slots_high; s++)
        sum += slot_spent(b, s, kind, slice);
    return sum;
}

/* ---- slots ---- */

int
srv_ledger_slot_take(struct srv_ledger *b, uint32_t *ret_slot)
{
    uint32_t i = 0;

    pthread_mutex_lock(&b->lock);
    while (i < WRK_SLOTS_MAX && b->kept->slots[i].taken)
        i++;
    if (i < WRK_SLOTS_MAX) {
        b->kept->slots[i] = (struct ledger_slot){.taken = 1, .born_ns = gp_now_ns()};
        b->kept->slots_high = gp_max(b->kept->slots_high, i + 1);
        /* Before its worker begins: a worker that was alone now knows that it is not
         * (wrk_quota.c). */
        atomic_store(&b->segment->slots_high, b->kept->slots_high);
    }
    pthread_mutex_unlock(&b->lock);
    if (i == WRK_SLOTS_MAX)
        return -EDQUOT;
    *ret_slot = i;
    return 0;
}

void
srv_ledger_desk(struct srv_ledger *b, uint32_t slot, struct srv_desk *desk,
                uint32_t client_pid)
{
    pthread_mutex_lock(&b->lock);
    b->desks[slot] = desk;
    b->kept->slots[slot].client_pid = client_pid;
    pthread_mutex_unlock(&b->lock);
}

static void
keep_high(struct srv_ledger *b, const struct srv_desk *desk, uint32_t i)
{
    uint64_t claim = desk ? atomic_load(&desk->desk->usage.high[i]) : 0;

    b->kept->high[i] = gp_max(b->kept->high[i], gp_min(claim, b->kept->most[i]));
}

void
srv_ledger_leave(struct srv_ledger *b, uint32_t slot)
{
    struct ledger_slot *s = &b->kept->slots[slot];

    pthread_mutex_lock(&b->lock);
    for (uint32_t i = 0; i < b->kept->n_slices; i++) {
        for (unsigned k = 0; k < WRK_SPENT_KINDS; k++)
            b->kept->past[k][i] += slot_spent(b, slot, (enum wrk_spent)k, i);
        keep_high(b, b->desks[slot], i);
    }
    b->desks[slot] = NULL;
    *s = (struct ledger_slot){0};
    pthread_mutex_unlock(&b->lock);
}

bool
srv_ledger_take(struct srv_ledger *b, uint32_t slot, uint32_t slice, uint64_t bytes)
{
    uint64_t limit, now;
    bool ok = false;

    if (slice >= b->kept->n_slices)
        return false;
    pthread_mutex_lock(&b->lock);
    limit = b->kept->limits[slice];
    now = used(b, slice);
    if (now <= limit && bytes <= limit - now &&
        pieces(b, slice) < wrk_physmem_max(limit)) {
        b->kept->slots[slot].granted[slice] += bytes;
        b->kept->slots[slot].granted_n[slice]++;
        b->kept->high[slice] = gp_max(b->kept->high[slice], now + bytes);
        ok = true;
    }
    pthread_mutex_unlock(&b->lock);
    return ok;
}

/* One of the others. */
static enum wrk_take
slot_state(struct srv_desk *desk)
{
    if (atomic_load(&desk->leaving) || atomic_load(&desk->desk->releases))
        return WRK_TAKE_FREEING;
    return atomic_load(&desk->desk->busy) ? WRK_TAKE_BUSY : WRK_TAKE_QUIET;
}

enum wrk_take
srv_ledger_room(struct srv_ledger *b, uint32_t slot, uint32_t slice, uint64_t bytes)
{
    enum wrk_take state = WRK_TAKE_QUIET;
    uint64_t limit, own;

    if (slice >= b->kept->n_slices)
        return WRK_TAKE_REFUSED;
    pthread_mutex_lock(&b->lock);
    limit = b->kept->limits[slice];
    own = slot_used(b, slot, slice);
    for (uint32_t s = 0; s < b->kept->slots_high; s++)
        if (s != slot && b->desks[s] && slot_used(b, s, slice))
            state = gp_max(state, slot_state(b->desks[s]));
    pthread_mutex_unlock(&b->lock);
    return own <= limit && bytes <= limit - own ? state : WRK_TAKE_REFUSED;
}

void
srv_ledger_granted(struct srv_ledger *b, uint32_t slot, uint32_t slice,
                   uint64_t *ret_bytes, uint64_t *ret_n)
{
    pthread_mutex_lock(&b->lock);
    *ret_bytes = b->kept->slots[slot].granted[slice];
    *ret_n = b->kept->slots[slot].granted_n[slice];
    pthread_mutex_unlock(&b->lock);
}

void
srv_ledger_regrant(struct srv_ledger *b, uint32_t slot, uint32_t slice, uint64_t bytes,
                   uint64_t n)
{
    pthread_mutex_lock(&b->lock);
    b->kept->slots[slot].granted[slice] = bytes;
    b->kept->slots[slot].granted_n[slice] = n;
    pthread_mutex_unlock(&b->lock);
}

void
srv_ledger_move(struct srv_ledger *b, uint32_t slot, uint32_t slice, uint64_t bytes)
{
    pthread_mutex_lock(&b->lock);
    b->kept->slots[slot].moved[slice] += bytes;
    b->kept->slots[slot].moved_n[slice]++;
    pthread_mutex_unlock(&b->lock);
}

void
srv_ledger_unmove(struct srv_ledger *b, uint32_t slot, uint32_t slice, uint64_t bytes)
{
    pthread_mutex_lock(&b->lock);
    b->kept->slots[slot].moved[slice] -= bytes;
    b->kept->slots[slot].moved_n[slice]--;
    pthread_mutex_unlock(&b->lock);
}

void
srv_ledger_name(struct srv_ledger *b, uint64_t name)
{
    pthread_mutex_lock(&b->lock);
    atomic_store(&b->segment->exports[b->kept->n_names % WRK_EXPORTS_MAX], name);
    atomic_store(&b->segment->n_exports, ++b->kept->n_names);
    pthread_mutex_unlock(&b->lock);
}

void
srv_ledger_ending(struct srv_ledger *b, const char *words, bool anew)
{
    pthread_mutex_lock(&b->lock);
    if (anew || !b->segment->ending[0])
        gp_str_copy(b->segment->ending, sizeof(b->segment->ending), words);
    pthread_mutex_unlock(&b->lock);
}

void
srv_ledger_ended(struct srv_ledger *b, char words[WRK_ENDING_MAX])
{
    pthread_mutex_lock(&b->lock);
    gp_str_copy(words, WRK_ENDING_MAX, b->segment->ending);
    pthread_mutex_unlock(&b->lock);
}

void
srv_ledger_look(struct srv_ledger *b)
{
    pthread_mutex_lock(&b->lock);
    for (uint32_t i = 0; i < b->kept->n_slices; i++) {
        atomic_store(&b->segment->used[i], used(b, i));
        atomic_store(&b->segment->gpu_ns[i], spent(b, WRK_SPENT_GPU_NS, i));
        for (uint32_t s = 0; s < b->kept->slots_high; s++)
            atomic_store(&b->segment->members[s].used[i], slot_used(b, s, i));
    }
    for (uint32_t s = 0; s < b->kept->slots_high; s++)
        atomic_store(&b->segment->members[s].client_pid, b->kept->slots[s].client_pid);
    pthread_mutex_unlock(&b->lock);
}

/* ---- sums ---- */

uint64_t
srv_ledger_used(struct srv_ledger *b, uint32_t slice)
{
    uint64_t sum;

    pthread_mutex_lock(&b->lock);
    sum = gp_min(used(b, slice), b->kept->most[slice]);
    pthread_mutex_unlock(&b->lock);
    return sum;
}

uint64_t
srv_ledger_pieces(struct srv_ledger *b, uint32_t slice)
{
    uint64_t sum;

    pthread_mutex_lock(&b->lock);
    sum = pieces(b, slice);
    pthread_mutex_unlock(&b->lock);
    return sum;
}

uint64_t
srv_ledger_high(struct srv_ledger *b, uint32_t slice)
{
    uint64_t high;

    pthread_mutex_lock(&b->lock);
    for (uint32_t s = 0; s < b->kept->slots_high; s++)
        keep_high(b, b->desks[s], slice);
    high = b->kept->high[slice];
    pthread_mutex_unlock(&b->lock);
    return high;
}

uint64_t
srv_ledger_spent(struct srv_ledger *b, enum wrk_spent kind, uint32_t slice)
{
    uint64_t sum;

    pthread_mutex_lock(&b->lock);
    sum = spent(b, kind, slice);
    pthread_mutex_unlock(&b->lock);
    return sum;
}

unsigned
srv_ledger_links(struct srv_ledger *b, uint32_t transport, uint32_t gdr_mode)
{
    unsigned n = 0;

    pthread_mutex_lock(&b->lock);
    for (uint32_t s = 0; s < b->kept->slots_high; s++) {
        struct wrk_usage *claims = b->desks[s] ? &b->desks[s]->desk->usage : NULL;

        n += claims && atomic_load(&claims->transport) == transport &&
             atomic_load(&claims->gdr_mode) == gdr_mode;
    }
    pthread_mutex_unlock(&b->lock);
    return n;
}
