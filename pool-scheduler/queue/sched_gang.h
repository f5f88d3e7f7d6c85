/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gangs: open requests that are served all at once or not at all.
 *
 * They are of one owner; or, of whoever may open the only session of any owner
 * (CtlOpen.once), of as many owners, and then perhaps of several tenants, each with a
 * quota of its own.  Members name their gang and its size, and wait in the queue like
 * others, each on a connection of its own.  None is placed before all have come and
 * there is room for all of them together, so a gang never holds a part while it waits
 * for the rest, and two of them cannot wait for each other.  A gang that has waited
 * long gets cards kept for all of its members, or none.  So no two gangs wait for cards
 * that are kept for the other; and if there are not enough cards that are kept for
 * nobody, whoever is behind it in the queue makes way.  A gang whose class preempts
 * gets them at once, if the sessions of lower classes that it may end leave room for
 * all of its members, and ends no other than those.  Cards are looked for one member
 * after the other, the largest first, which finds cards that are near each other; where
 * that finds none, by a bounded search (sched_gang_search.h).
 *
 * Owned by sched->waits, from its first member's arrival until its last member is gone.
 * Event loop thread only.
 */
#ifndef SCHED_GANG_H
#define SCHED_GANG_H

#include "sched_hold.h"
#include "sched_open.h"

struct gp_err;
struct sched;
struct sched_tenant;
struct sched_wait;
struct sched_waiter;
struct sched_waits;

#define SCHED_GANG_MAX 64 /* members */
#define SCHED_GANG_NAME_MAX 64
/* The next search (sched_pack.h) is made after so many times what the last one took. */
#define SCHED_SEARCH_PAUSE 20
/* That cards are kept for at a time: each keeps room from others. */
#define SCHED_GANG_HOLDS_MAX 16

struct sched_gang {
    char name[SCHED_GANG_NAME_MAX];
    bool of_owners; /* each of its members has an owner of its own */
    struct sched_waits *waits;
    uint32_t size, n;
    struct sched_wait *members[SCHED_GANG_MAX]; /* the largest first */
    bool kept;                                  /* cards are kept for all of them */
    uint64_t try_ns;                            /* no plan is made for it before */
    uint64_t due_ns; /* since when a search for it is due; 0: it is not */
    struct sched_gang *next;
};

/* @wait becomes a member of the gang that its request names.  -EINVAL, -EBUSY with
 * words: the gang is of another size or full. */
int sched_gang_join(struct sched *sched, struct sched_wait *wait, struct gp_err *err);
/* It is served or gone; does nothing for one that is in no gang. */
void sched_gang_leave(struct sched_wait *wait);

/* May each tenant have all of its members' besides what it holds, and each owner so
 * many sessions more?  As sched_tenant_check(). */
int sched_gang_check(const struct sched_gang *gang, char *words, size_t size);
/* A tenant whose quota is kept for somebody else, so far as the gang would take that;
 * NULL: there is none. */
const struct sched_tenant *sched_gang_kept_from(const struct sched_gang *gang);
/* Where all members could go now, at once: a decision for each.  -ENOSPC: not all of
 * them, or some have not come.  Takes nothing. */
int sched_gang_place(struct sched *sched, struct sched_gang *gang,
                     struct sched_decision *ret);
/* The same on the cards that are kept for it. */
int sched_gang_place_kept(struct sched *sched, const struct sched_gang *gang,
                          struct sched_decision *ret);

/* It waits: keep cards for all of its members if it has waited long (@aged), or if
 * enough may end for all of them.  Whether cards were looked at. */
bool sched_gang_help(struct sched *sched, struct sched_gang *gang, bool aged);
/* Are all cards that are kept for it still there? */
bool sched_gang_cards_open(const struct sched_gang *gang);
/* Where @req could go on a card that is kept for a gang and leave that what it is to
 * have there.  Else who waits for a card that never comes free could keep whole cards
 * from others of which he wants, and his quota has, a small part.  -ENOSPC. */
int sched_gang_spares(const struct sched *sched, const struct sched_request *req,
                      struct sched_decision *ret);
/* Keep no cards and no quota for it any more, and end nothing for it. */
void sched_gang_release(struct sched *sched, struct sched_gang *gang);
/* Which of its members is the first of @tenant; the number of members if none is. */
unsigned sched_gang_first_of(const struct sched_gang *gang,
                             const struct sched_tenant *tenant);
/* The next member behind @i, from -1 on, that is the first of its tenant; -1: no more.
 */
int sched_gang_next_tenant(const struct sched_gang *gang, int i);
/* What those of its members that are of @tenant will hold, as far as it is known before
 * cards are chosen. */
struct sched_amount sched_gang_amount(const struct sched_gang *gang,
                                      const struct sched_tenant *tenant);
/* Have the owners of its members as many sessions as they may? */
bool sched_gang_is_full(const struct sched_gang *gang, char *words, size_t size);
/* Its member that is before the others in the queue, which is its own place there. */
const struct sched_waiter *sched_gang_first(const struct sched_gang *gang);
/* The gang for which @hold of a card is, or NULL. */
struct sched_gang *sched_gang_of_hold(const struct sched_waits *waits,
                                      const void *hold);

/* Why it waits. */
void sched_gang_words(const struct sched_gang *gang, char *words, size_t size);

#endif
