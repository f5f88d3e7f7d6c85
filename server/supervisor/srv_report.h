/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server reports to the scheduler of its cards and sessions.
 *
 * A session that has ended is in one more report, with all that it has used: the report
 * before it was made while its program still ran, and a short program had begun and
 * ended between two.  Event loop thread.
 */
#ifndef SRV_REPORT_H
#define SRV_REPORT_H

#include "control.pb-c.h"
#include "gp_base.h"
#include "srv_session.h"
#include "ticket.h"

struct srv;

/* What a session has used on a card; sums since it began. */
struct srv_slice_use {
    uint8_t card[TICKET_UUID_SIZE];
    uint64_t used_bytes, high_bytes, moved_bytes;
    uint64_t gpu_ns, wait_ns, launches;
};

struct srv_use {
    uint64_t session;
    uint32_t attachments, n_slices;
    char links[SRV_LINKS_MAX];
    struct srv_slice_use slices[TICKET_SLICES_MAX];
};

/* Sessions that have ended since the last report, in order.  Zeros: none. */
struct srv_ended {
    struct srv_use *uses;
    size_t n, room;
};

/* While no scheduler takes reports no more than so many are remembered. */
#define SRV_ENDED_MAX 1024u

/* @s ends, and its use is to be reported.  Without memory, or with SRV_ENDED_MAX of
 * them, it is not. */
void srv_ended_add(struct srv_ended *ended, const struct srv_session *s);
void srv_ended_free(struct srv_ended *ended);

/* The arrays of a report, freed together. */
struct srv_report {
    Gpupool__Ctl__CtlCard *cards;
    Gpupool__Ctl__CtlCard **card_ptrs;
    struct srv_use *uses;
    Gpupool__Ctl__CtlSessionUse *sessions;
    Gpupool__Ctl__CtlSessionUse **session_ptrs;
    Gpupool__Ctl__CtlSliceUse *slices;
    Gpupool__Ctl__CtlSliceUse **slice_ptrs;
    size_t n_cards, n_sessions, n_ended;
};

/* As things are now; with @ended (may be NULL), whose sessions come last.  On failure
 * as after srv_report_fini(). */
int srv_report_init(struct srv_report *rep, const struct srv *srv,
                    const struct srv_ended *ended);
void srv_report_fini(struct srv_report *rep);

/* @rep was sent: forget those that it had. */
void srv_ended_reported(struct srv_ended *ended, const struct srv_report *rep);

#endif
