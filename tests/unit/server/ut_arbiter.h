/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session on a real arbiter without processes: what the supervisor makes, and what
 * its workers make of it.
 */
#ifndef UT_ARBITER_H
#define UT_ARBITER_H

#include "ut.h"

#include "gov_card.h"
#include "srv_arbiter.h"
#include "srv_desk.h"
#include "srv_ledger.h"
#include "ticket.h"
#include "wrk_desk.h"

#include <stdlib.h>
#include <sys/mman.h>

#define UT_SLOTS 8

struct ut_session {
    struct srv_arbiter *arb;
    struct srv_ledger *ledger;
    struct ticket_claims claims;
    struct srv_desk *slots[UT_SLOTS]; /* the supervisor's */
    struct wrk_desks desks[UT_SLOTS]; /* the workers' */
};

static inline void
ut_session_new(struct ut_session *s, struct srv_arbiter *arb, uint64_t id,
               uint64_t memory0, uint64_t memory1)
{
    *s = (struct ut_session){.arb = arb};
    s->claims.session_id = id;
    s->claims.n_slices = 2;
    s->claims.slices[0].memory = memory0;
    s->claims.slices[1].memory = memory1;
    assert_int_equal(srv_ledger_new(&s->claims, &s->ledger, NULL), 0);
}

/* The next slot, with a worker on cards 0 and 1 that can be asked for. */
static inline struct wrk_desks *
ut_session_sit(struct ut_session *s, struct gov_share share)
{
    struct srv_desk *d = NULL;
    struct wrk_desks *w;
    uint32_t slot = 0;

    assert_int_equal(srv_ledger_slot_take(s->ledger, &slot), 0);
    assert_true(slot < UT_SLOTS);
    assert_int_equal(srv_desk_new(&d, NULL), 0);
    d->session = s->claims.session_id;
    d->ledger = s->ledger;
    d->slot = slot;
    d->n_slices = 2;
    for (uint32_t i = 0; i < 2; i++) {
        d->slices[i].card = i;
        d->slices[i].share = share;
    }
    srv_ledger_desk(s->ledger, slot, d, 1000 + slot);
    assert_int_equal(srv_arbiter_add(s->arb, d, NULL), 0);
    w = &s->desks[slot];
    *w = (struct wrk_desks){.desk = d->desk, .notice = d->notice, .slot = slot};
    w->wake_fd = d->wake_fd;
    w->segment = mmap(NULL, sizeof(*w->segment), PROT_READ, MAP_SHARED,
                      srv_ledger_segment_fd(s->ledger), 0);
    assert_ptr_not_equal(w->segment, MAP_FAILED);
    pthread_mutex_init(&w->lock, NULL);
    s->slots[slot] = d;
    return w;
}

static inline void
ut_session_leave(struct ut_session *s, uint32_t slot)
{
    munmap((void *)(uintptr_t)s->desks[slot].segment, sizeof(struct wrk_segment));
    srv_arbiter_remove(s->arb, s->slots[slot]);
    srv_ledger_leave(s->ledger, slot);
    srv_desk_free(s->slots[slot]);
    s->slots[slot] = NULL;
}

static inline void
ut_session_free(struct ut_session *s)
{
    for (uint32_t i = 0; i < UT_SLOTS; i++)
        if (s->slots[i])
            ut_session_leave(s, i);
    srv_ledger_free(s->ledger);
}

#endif
