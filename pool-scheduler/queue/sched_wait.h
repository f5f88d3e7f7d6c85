/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open requests that wait for room: who is told what, and what serves them.
 *
 * Joins the queue (sched_queue.h, which decides about order only) to connections,
 * sessions, and the clock.  A waiting request belongs to its connection: it leaves the
 * queue when the connection ends.  Event loop thread only.
 *
 * The queue itself is not on disk.  Each CtlQueued has the place in it, signed by the
 * scheduler's key, and clients that come back with it after a restart have their old
 * place; so nothing has to be written while thousands wait.
 *
 * Served at the end of each turn of the event loop in which cards or quotas came free
 * (sched_wait_serve()); sched_wait_tick() does what takes time: reservations,
 * preemption, news for those who wait.
 */
#ifndef SCHED_WAIT_H
#define SCHED_WAIT_H

#include "control.pb-c.h"
#include "gp_loop.h"
#include "gp_tree.h"
#include "sched_gang.h"
#include "sched_hold.h"
#include "sched_open.h"
#include "sched_queue.h"
#include "ticket_key.h"

struct gp_err;
struct sched;
struct sched_conn;
struct sched_reasons;
struct sched_session;

/* Requests for which cards are kept: each keeps room from others. */
#define SCHED_HOLDS_MAX 16
/* Places that are used up and could be shown again for two minutes: as many as are
 * served from the queue in that time; 136 a second. */
#define SCHED_SPENT_MAX 16384
/* Served lately, to tell how fast the queue moves. */
#define SCHED_SERVED_MAX 32

/* One request that waits; owned by its connection. */
struct sched_wait {
    struct sched_waiter waiter;
    struct sched *sched;
    struct sched_conn *conn;
    uint32_t request;
    struct sched_open open; /* its strings are those below */
    char owner[CTL_OWNER_MAX], program[CTL_WORD_MAX], class_name[SCHED_CLASS_NAME_MAX];
    char server[CTL_NAME_MAX];
    uint64_t since_ns, told_ns; /* on the clock of leases */
    uint64_t before_ns;         /* it waited before since_ns: its place proves that */
    uint32_t told_position;
    struct gp_tree_node by_deadline; /* key 0: no deadline */
    struct sched_target target;      /* cards kept for it; n 0: none */
    uint64_t victims[TICKET_SLICES_MAX * CTL_SLICES_PER_CARD_MAX]; /* session ids */
    unsigned n_victims;
    struct sched_gang *gang; /* sched_gang.h; NULL: it is alone */
    char gang_name[SCHED_GANG_NAME_MAX];
};

struct sched_waits {
    struct sched_queue queue;
    struct gp_loop_timer timer; /* armed: something came free this turn */
    struct sched_tenant *freed; /* whose quotas leave more than before, a list */
    struct sched_wait *holds[SCHED_HOLDS_MAX];
    unsigned n_holds;
    struct gp_tree by_deadline;
    uint64_t last_arrival; /* of the youngest waiter; the wall clock may jump back */
    uint64_t served_ns[SCHED_SERVED_MAX];
    uint64_t spent[SCHED_SPENT_MAX]; /* arrivals of places that are used up, a ring */
    uint64_t n_spent;
    uint64_t n_served, told[2], aged[2]; /* where the rounds go on */
    bool serving;
    struct sched_reserve **reserves; /* sched_reserve.h */
    unsigned n_reserves;
    struct sched_gang *gangs;
    struct sched_gang *gang_holds[SCHED_GANG_HOLDS_MAX]; /* that cards are kept for */
    unsigned n_gang_holds;
    uint64_t gang_search_ns; /* no search (sched_pack.h) is made for a gang, or for many
                                sessions at once, before */
    struct sched_decision gang_decisions[SCHED_GANG_MAX]; /* of one turn; and of */
    const struct sched_gang *gang_placed;                 /* this one, or of none */
};

int sched_waits_init(struct sched *sched);
void sched_waits_fini(struct sched *sched);

/* The request @id of @conn waits from now on.  -errno: it does not, with words. */
int sched_wait_add(struct sched_conn *conn, uint32_t id, const struct sched_open *open,
                   const Gpupool__Ctl__CtlOpen *msg, struct gp_err *err);
/* @conn goes. */
void sched_wait_end(struct sched_conn *conn);
/* Whoever waits and fits now is served. */
void sched_wait_serve(struct sched *sched);
/* Where @req, which runs for @run_ms at most, could go on cards that are kept for
 * others and that it leaves before they can be used (backfill).  -ENOSPC. */
int sched_wait_backfill(const struct sched *sched, const struct sched_request *req,
                        uint64_t run_ms, struct sched_decision *ret);
/* May @decision be taken before those who wait?  Not if that takes what is kept for one
 * of its tenant's quota. */
bool sched_wait_blocked(const struct sched_tenant *tenant,
                        const struct sched_decision *decision);
void sched_wait_tick(struct sched *sched, uint64_t now);
/* A part of it, for a scheduler that follows: the pool that shares are parts of. */
void sched_wait_renew_total(struct sched *sched);
/* What would have to end, in words; "": nothing would help. */
void sched_wait_explain(const struct sched *sched, const struct sched_open *open,
                        char *words, size_t size);
/* Tell who holds a session, if he is connected, that it ends in @ms; 0: that it does
 * not, after all. */
void sched_wait_notify(const struct sched_session *session, const char *words,
                       uint32_t ms);
/* sched_session_limit(), and its client is told when it ends from now on. */
void sched_wait_limit(struct sched *sched, struct sched_session *session,
                      enum sched_limit_kind kind, const struct sched_limit *limit);
/* sched_session_unlimit(), and its client is told that it goes on for @words, or what
 * ends it still.  The rest of a cut lease is given back. */
void sched_wait_unlimit(struct sched *sched, struct sched_session *session,
                        enum sched_limit_kind kind, const char *words);
/* Look at the rules again: tenants, classes, labels. */
void sched_wait_rules_changed(struct sched *sched);

/* Between the files of this module. */
/* How long it has waited in nanoseconds, with the time before it came back. */
uint64_t sched_wait_waited(const struct sched_wait *wait, uint64_t now);
/* Keep no cards for it any more, and end nothing for it. */
void sched_wait_release(struct sched_wait *wait);
/* Tell its client its position, the reason, an estimate. */
void sched_wait_tell(struct sched_wait *wait, uint64_t now);
void sched_wait_news(struct sched *sched, uint64_t now);
void sched_wait_holds(struct sched *sched, uint64_t now);
/* It was placed or is gone: what holds it goes too; the object is freed. */
void sched_wait_drop(struct sched_wait *wait);
/* Why it waits. */
void sched_wait_reason(const struct sched_wait *wait, char *words, size_t size);
/* How long the cards that are kept for it will be in use.  False: unknown. */
bool sched_wait_kept_until(const struct sched_wait *wait, uint64_t now,
                           uint64_t *ret_ms);
/* The place in the queue as bytes for the client. */
#define SCHED_PLACE_SIZE (16 + TICKET_SIG_SIZE)
int sched_place_sign(const struct sched_wait *wait, uint64_t now_unix,
                     uint8_t ret[SCHED_PLACE_SIZE]);
/* It is served: its place is good for no other request. */
void sched_place_spend(const struct sched_wait *wait);
/* The arrival (nanoseconds on the wall clock of the scheduler that it first came to)
 * that
 * @place proves for this request at @now_unix; 0: none. */
uint64_t sched_place_check(const struct sched_wait *wait, uint64_t now_unix,
                           const void *place, size_t size);
/* The cards that are kept for @wait as a decision, now or -ENOSPC. */
int sched_wait_place_kept(struct sched_wait *wait, const struct sched_open *open,
                          struct sched_decision *ret);
/* @session ends after its notice, to make room for @wait. */
void sched_wait_preempt(struct sched_wait *wait, struct sched_session *session);
/* What was to end for @wait, and has not, goes on. */
void sched_wait_spare(struct sched_wait *wait);
/* What is free on @card, and what may end there for a request of @class (NULL: whatever
 * it is). */
void sched_wait_room(const struct sched *sched, const struct sched_class *class,
                     const struct sched_card *card, uint32_t *core, uint64_t *memory);
/* What has to end on @card before it has @room: more of the @n of @list.  -ENOSPC: even
 * then it has not. */
struct sched_room {
    uint32_t core;
    uint64_t memory;
    bool in_space;
};
int sched_wait_victims_on(const struct sched *sched, const struct sched_class *class,
                          const struct sched_card *card, const struct sched_room *room,
                          struct sched_session **list, unsigned *n, unsigned most);
/* Which cards somebody who waits may choose to keep. */
struct sched_wait_claim {
    /* Those that are kept for others who are behind this one in the queue as well;
     * NULL: none that are kept. */
    const struct sched_waiter *before;
    bool (*taken)(void *arg, const struct sched_card *card); /* not these; or NULL */
    void *arg;
};
/* Cards on which @open could be placed if others ended.  @claim NULL: none that are
 * kept. */
int sched_wait_target(const struct sched *sched, const struct sched_open *open,
                      bool preempt, const struct sched_wait_claim *claim,
                      struct sched_target *ret);
/* What the quotas would have to leave for @open on all of @target. */
struct sched_amount sched_wait_target_amount(const struct sched_open *open,
                                             const struct sched_target *target);
/* Is @card kept for somebody who does not make way? */
bool sched_wait_kept_from(const struct sched *sched,
                          const struct sched_wait_claim *claim,
                          const struct sched_card *card);
/* Whoever waits, alone or as a gang, and has @card kept for it has no cards kept any
 * more. */
void sched_wait_take_over(struct sched *sched, const struct sched_card *card);

/* The waiters that @want asks for and what tenants hold, as a reply that @take gets
 * once and that is gone when it returns.  -ENOMEM. */
int sched_queue_list(const struct sched *sched, const Gpupool__Ctl__CtlQueueQuery *want,
                     void (*take)(void *arg, Gpupool__Ctl__CtlReply *reply), void *arg);

/* A CtlQueueQuery. */
void sched_handle_queue(struct sched_conn *conn, uint32_t id,
                        const Gpupool__Ctl__CtlQueueQuery *msg);

#endif
