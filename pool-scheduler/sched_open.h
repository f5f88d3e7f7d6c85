/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open request after it was read and checked: what it wants and what its session
 * will be.
 *
 * sched_handle_session.c makes one of a message and decides about it; the queue keeps
 * those that wait and tries them again (sched_wait.c).  Both by the functions below.
 *
 * A plain value.  Strings are those of the message that it was read from, or of the
 * object that holds it.
 */
#ifndef SCHED_OPEN_H
#define SCHED_OPEN_H

#include "control.pb-c.h"
#include "sched_request.h"
#include "sched_session.h"
#include "sched_where.h"

struct gp_err;
struct sched;
struct sched_avoid;
struct sched_class;
struct sched_conn;
struct sched_decision;
struct sched_said;
struct sched_tenant;

struct sched_open {
    struct sched_request req;
    struct sched_session_spec spec;
    struct sched_where where;
    const struct sched_class *class; /* of sched->rules */
    uint64_t run_ms;                 /* 0: no limit */
    bool apart_card, apart_server, hold, once;
    const struct sched_said *said; /* other pools, to this request; NULL: not asked */
    char owner[CTL_OWNER_MAX];     /* of spec: printable */
    char node[CTL_NAME_MAX];       /* where its programs run; "": unknown */
    const char *gang;              /* NULL: alone; sched_gang.h */
    uint32_t gang_size;
    /* Of others of its gang, that it is to be kept apart from as well. */
    const struct sched_decision *beside;
    unsigned n_beside;
};

/* Where @open could go now, all things considered: the pool, the quotas of @tenant,
 * what it is kept apart from.  -ENOSPC: no room.  -EDQUOT, -EFBIG: a quota, as
 * sched_tenant_check(); @words (may be NULL) name it. */
int sched_open_place(struct sched *sched, const struct sched_open *open,
                     const struct sched_tenant *tenant, struct sched_decision *ret,
                     char *words, size_t size);
/* @req, that of @open, avoids what it is to be kept apart from; @avoid is the caller's.
 */
void sched_open_avoid(const struct sched *sched, const struct sched_open *open,
                      struct sched_request *req, struct sched_avoid *avoid);
/* The session of @open, on @decision's cards, is in memory and on the way to disk. */
int sched_open_take(struct sched *sched, struct sched_open *open,
                    const struct sched_decision *decision,
                    struct sched_session **ret_session, struct gp_err *err);
/* Would @owner have more sessions than one may with @more?  @words (may be NULL) say
 * how many there are. */
bool sched_open_is_full(const struct sched *sched, const char *owner, unsigned more,
                        char *words, size_t size);
/* What its quotas would have to leave, as far as that is known before it is placed. */
struct sched_amount sched_open_amount(const struct sched_open *open);

#endif
