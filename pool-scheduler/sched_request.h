/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session asks for, after the rules that hold for any pool.
 *
 *   core    1..100 percent of each card, or N*100 = N whole cards; 101..199 and
 *           the like are refused, because a slice cannot span cards
 *   memory  per card; a fraction of a card must say how much, a whole card comes
 *           with all of its memory (then it is only a lower bound)
 *
 * A plain value; no thread, no allocation.
 */
#ifndef SCHED_REQUEST_H
#define SCHED_REQUEST_H

#include "gp_base.h"
#include "ticket.h"

#include <stdint.h>

struct gp_err;
struct sched_avoid;
struct sched_where;

enum sched_placement {
    SCHED_BINPACK = 1, /* fill cards and servers that are in use already */
    SCHED_SPREAD = 2,  /* the card, then the server, with most left */
    SCHED_FGD = 3,     /* where least of what is free becomes useless: sched_fgd.h */
};

/* How close the cards of a session must be to each other. */
enum sched_near {
    SCHED_NEAR_ANY,    /* as close as it goes, within one server unless it may span */
    SCHED_NEAR_ISLAND, /* linked to each other: NVLink, or a switch of their own */
    SCHED_NEAR_SERVER, /* of one server, whatever else is allowed */
    SCHED_NEAR_FABRIC, /* of servers of one fabric */
};

struct sched_request {
    uint32_t core; /* of each card, 1..100 */
    uint32_t cards;
    bool whole;      /* the card is not shared */
    uint64_t memory; /* of each card; whole: at least */
    uint32_t core_limit;
    bool in_space; /* multiprocessors of its own: beside sessions of that kind only */
    enum ticket_policy policy;
    enum sched_placement placement;
    bool has_uuid; /* only this card */
    uint8_t uuid[TICKET_UUID_SIZE];
    const char *server; /* only this server, or NULL; the caller's string */
    const struct sched_where *where; /* only such cards, or NULL; the caller's */
    const struct sched_avoid *avoid; /* not these cards or servers, or NULL */
    bool span; /* several servers, when no single one has all cards */
    enum sched_near near;
};

/* Apply the rules: @core, @memory, @cards, @core_limit as a user gives them (0 = not
 * given).  Sets those fields and `whole`, leaves the others.  -EINVAL names the rule.
 */
int sched_request_shape(struct sched_request *req, uint32_t core, uint64_t memory,
                        uint32_t cards, uint32_t core_limit, struct gp_err *err);

/* Of several to be placed together, the one that needs more comes first. */
bool sched_request_needs_more(const struct sched_request *a,
                              const struct sched_request *b);

#endif
