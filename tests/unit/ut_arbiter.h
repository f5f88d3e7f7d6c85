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

#define UT_SEATS 8

struct ut_session {
    struct srv_arbiter *arb;
    struct srv_ledger *books;
    struct ticket_claims claims;
    struct srv_desk *seats[UT_SEATS]; /* the supervisor's */
    struct wrk_desks desks[UT_SEATS]; /* the workers' */
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
    assert_int_equal(srv_ledger_new(&s->claims, &s->books, NULL), 0);
}

/* The next seat, with a worker on cards 0 and 1 that can be asked for. */
static inline struct wrk_desks *
ut_session_sit(struct ut_session *s, struct gov_share share)
{
    struct srv_desk *d = NULL;
    struct wrk_desks *w;
    uint32_t seat = 0;

    assert_int_equal(srv_ledger_sit(s->books, &seat), 0);
    assert_true(seat < UT_SEATS);
    assert_int_equal(srv_desk_new(&d, NULL), 0);
    d->session = s->claims.session_id;
    d->books = s->books;
    d->seat = seat;
    d->n_slices = 2;
    for (uint32_t i = 0; i < 2; i++) {
        d->slices[i].card = i;
        d->slices[i].share = share;
    }
    srv_ledger_desk(s->books, seat, d, 1000 + seat);
    assert_int_equal(srv_arbiter_add(s->arb, d, NULL), 0);
    w = &s->desks[seat];
    *w = (struct wrk_desks){.desk = d->desk, .notice = d->notice, .seat = seat};
    w->bell_fd = d->bell_fd;
    w->segment = mmap(NULL, sizeof(*w->segment), PROT_READ, MAP_SHARED,
                      srv_ledger_segment_fd(s->books), 0);
    assert_ptr_not_equal(w->segment, MAP_FAILED);
    pthread_mutex_init(&w->lock, NULL);
    s->seats[seat] = d;
    return w;
}

static inline void
ut_session_leave(struct ut_session *s, uint32_t seat)
{
    munmap((void *)(uintptr_t)s->desks[seat].segment, sizeof(struct wrk_segment));
    srv_arbiter_remove(s->arb, s->seats[seat]);
    srv_ledger_leave(s->books, seat);
    srv_desk_free(s->seats[seat]);
    s->seats[seat] = NULL;
}

static inline void
ut_session_free(struct ut_session *s)
{
    for (uint32_t i = 0; i < UT_SEATS; i++)
        if (s->seats[i])
            ut_session_leave(s, i);
    srv_ledger_free(s->books);
}

#endif
