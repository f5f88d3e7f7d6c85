/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's objects as rows of protobuf messages, for replies that show the pool.
 *
 * A row points into the object that it shows, so the reply is packed at once and the
 * rows are dropped.  The caller counts what it is going to show, makes room for exactly
 * that, and adds it.  Event loop thread only.
 */
#ifndef SCHED_ROWS_H
#define SCHED_ROWS_H

#include "control.pb-c.h"
#include "sched_session.h"

struct sched_tenant;
struct sched_tenants;

/* How many rows of each kind there is room for. */
struct sched_rows_room {
    size_t servers, cards, sessions, slices;
};

struct sched_rows {
    Gpupool__Ctl__CtlServerStatus *servers, **server_list;
    Gpupool__Ctl__CtlCardStatus *cards, **card_list;
    Gpupool__Ctl__CtlCard *facts;
    Gpupool__Ctl__CtlSessionStatus *sessions, **session_list;
    Gpupool__Ctl__CtlSlice *slices, **slice_list;
    Gpupool__Ctl__CtlSliceUse *uses, **use_list;
    char **links; /* per session */
    size_t n_servers, n_cards, n_sessions, n_slices;
};

/* False: out of memory; sched_rows_fini() is due in any case. */
bool sched_rows_init(struct sched_rows *rows, const struct sched_rows_room *room);
void sched_rows_fini(struct sched_rows *rows);

/* A server with those of its cards that are shown, from @first on and @most of them.
 * Returns the number of its cards from the beginning up to the last one added. */
unsigned sched_rows_server(struct sched_rows *rows, const struct sched_server *server,
                           unsigned first, unsigned most, uint64_t now);
void sched_rows_session(struct sched_rows *rows, const struct sched_session *session,
                        uint64_t now);

/* Is the card shown?  One that has gone is, while sessions hold slices of it. */
static inline bool
sched_rows_shows(const struct sched_card *card)
{
    return card->present || card->slices;
}

/* Fill @msg, whose strings point into the session or tenant: to be packed before those
 * change. */
void sched_rows_slice(const struct sched_session *session, uint32_t i,
                      Gpupool__Ctl__CtlSlice *msg);
void sched_rows_tenant(const struct sched_tenants *set,
                       const struct sched_tenant *tenant,
                       Gpupool__Ctl__CtlTenantUse *msg);

#endif
