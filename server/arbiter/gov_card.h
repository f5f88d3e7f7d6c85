/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tenant may run on one GPU now: the accounting of that GPU's arbiter.
 *
 * The GPU is given to one session (a tenant) at a time, in turns of about a quantum.
 * While its turn lasts the workers of the tenant submit work as they like; when another
 * tenant is due they stop submitting, let the GPU drain, and the turn passes.  The time
 * charged is therefore time in which no other tenant ran, and shares hold whatever the
 * hardware does between processes.  A tenant that is alone never drains.
 *
 * Tenants with multiprocessors of their own (in_space) have their turns at the same
 * time as long as their partitions are disjoint; a part of the GPU is charged as that
 * part.  Where partitions were rounded up and overlap, the tenants take turns, and
 * their ceilings limit them.
 *
 *   floor    start-time fair queueing: of the tenants that want the GPU, the one whose
 *            service divided by its weight is least goes next
 *   ceiling  a token bucket of GPU time; what a kernel overran is debt, repaid in full
 *   class    an offline tenant runs only while no online tenant wants to
 *
 * This memory belongs to the supervisor.  Workers write their requests to, and read
 * their turns from, files of their own (gov_desk.h); srv_arbiter.c copies between the
 * two.  Every function takes the time as an argument and is called under the arbiter's
 * lock: nothing here reads a clock or sleeps, so tests use a clock of their own.  A
 * slot is the number of a worker's slot that gov_card_join() returned and that has not
 * left; no other number is ever passed.  Debt outlives the last worker of a session, so
 * that starting again does not cancel it.
 *
 * What a worker reports as measured is a claim.  While another session waits, holding
 * the turn costs at least GOV_HELD_LEAST percent of the time that it is held, whatever
 * is reported: a session that reports nothing gets at most a third more than its share.
 *
 * Measuring is done in wrk_gov_charge.c; memory limits are in wrk_quota.c.
 */
#ifndef GOV_CARD_H
#define GOV_CARD_H

#include "gp_base.h"

#include <stdbool.h>

/* A mask's bits; the cards of today have at most half as many. */
#define GOV_UNITS_MAX 64
/* The scheduler places at most 16 sessions on a card by default, 32 where configured.
 */
#define GOV_TENANTS_MAX 64
#define GOV_SLOTS_MAX 1024 /* workers: as many as attachments on one server */

/* How long a turn lasts while another tenant waits.  A switch costs a drain and a
 * wake-up, some tens of microseconds: one percent of this. */
#define GOV_QUANTUM_NS 4000000
/* A tenant that was idle waits at most this long for another tenant's turn to end, not
 * for a whole quantum: a service that uses less than its share gets short response
 * times. */
#define GOV_WAKE_QUANTUM_NS 500000
/* It has done nothing for at least so long. */
#define GOV_SLEPT_NS 2000000
/* A tenant that paused for less than this may catch up on the service that it did not
 * get in the pause, because its queue was only empty for a moment. */
#define GOV_PAUSE_NS 10000000
/* A tenant that has had this much more GPU time than another does not get the GPU as
 * soon as the other pauses, but after an eighth of the difference and at most after
 * this time: once it has the GPU it may keep it for long. */
#define GOV_AHEAD_NS UINT64_C(80000000)
#define GOV_HELD_MAX_NS UINT64_C(250000000)
/* A token bucket holds what this much time fills.  Long enough that a tenant that
 * waited for the kernels of others loses nothing... */
#define GOV_BUCKET_NS 250000000
/* ...but who wants nothing saves up no more than this. */
#define GOV_IDLE_BUCKET_NS 10000000

/* A tenant is charged at least this percentage of the time in which it had the turn
 * while another waited.  An honest worker keeps the GPU busy for more than nine tenths
 * of it; a report may be late but is never missing. */
#define GOV_HELD_LEAST 75

/* A tenant that was given the turn and does not begin loses it after this. */
#define GOV_GRANT_NS 100000000

enum gov_policy { GOV_FIXED_SHARE, GOV_BURST_SHARE, GOV_BEST_EFFORT };

struct gov_share {
    enum gov_policy policy;
    uint32_t core;       /* percent, 1..100 */
    uint32_t core_limit; /* burst-share: ceiling when above @core, else none */
    bool offline;
    bool in_space;  /* on a part of the card's multiprocessors */
    uint32_t units; /* pieces that the card can be cut into, at most GOV_UNITS_MAX; 0:
                       not known which ones it gets, somebody else sees to that */
};

struct gov_tenant {
    uint64_t session; /* 0: free */
    uint32_t policy;
    uint32_t core;
    /* The fields that every launch reads share a cache line. */
    uint32_t ceiling;
    uint32_t rivals;    /* other tenants that cannot run beside it */
    uint32_t contended; /* one of them wants to */
    uint32_t offline;
    uint32_t slots;     /* workers that joined; 0: gone, and what it owes is kept */
    uint32_t wanting;   /* of them, those that ask for the card */
    uint32_t running;   /* of them, those that have work on it */
    uint32_t weight;    /* thousandths of a percent */
    int64_t tokens_ns;  /* card time it may use; negative: debt */
    uint64_t filled_ns; /* time up to which the bucket was filled */
    uint64_t vtime;     /* service over weight, ns */
    uint64_t since_ns;  /* running: up to when the time that passed is charged */
    uint64_t wanted_ns; /* wanting and not running: since when */
    uint64_t idle_ns;   /* neither: since when */
    uint64_t turn_ns;   /* when its turn, or the current quantum of it, began */
    uint64_t busy_ns;   /* measured by its workers, not charged yet */
    /* others wait since then, and since then it ran; 0: they do not */
    uint64_t held_ns;
    uint64_t held_charged; /* of that time */
    uint64_t advance_ns;   /* charged since it runs, before its workers reported it */
    uint64_t units;        /* in_space: the pieces of the card that are its own */
    uint32_t in_space;
    uint32_t part;    /* thousandths of the card that it can fill */
    uint32_t woke;    /* came back from idleness and has not run since */
    uint32_t holding; /* it has the turn */
    /* Copies (gov_copy.h): */
    uint64_t copy_bytes;     /* so far */
    uint64_t copy_vtime;     /* the same over weight, never far behind others */
    uint64_t copy_ns;        /* when it copied last */
    uint64_t copy_from_ns;   /* the pause, or the time without one, began */
    uint64_t copy_until_ns;  /* pausing until then; 0: not */
    uint64_t copy_off_ns;    /* no pause before then: the last were of no use */
    uint64_t copy_for_bytes; /* of the tenant it pauses for, at copy_from_ns */
    uint64_t copy_for_rate;  /* of it, bytes per ms, before the pause */
    uint32_t copy_for;       /* its index */
    uint32_t copy_useless;   /* pauses in a row that were of no use */
    /* For people: */
    uint64_t charged_ns, waited_ns, turns;
};

struct gov_slot {
    int32_t pid;     /* 0: free */
    uint32_t tenant; /* index */
    uint32_t wanting, running;
};

struct gov_card {
    uint32_t holders; /* tenants that have the turn */
    uint32_t n_tenants;
    uint32_t tenants_end; /* no tenant from here on */
    uint32_t seq;         /* changes whenever somebody who waits should ask again */
    uint64_t vclock;      /* start tag of the last turn: where late comers begin */
    struct gov_tenant tenants[GOV_TENANTS_MAX];
    struct gov_slot slots[GOV_SLOTS_MAX];
};

/* Take a slot for worker @pid of @session.  -ENOSPC: no slot or no tenant is free. */
int gov_card_join(struct gov_card *card, uint64_t session, int32_t pid,
                  const struct gov_share *share, uint64_t now_ns);

/* Whether the slot, any number, is one of @session's workers. */
bool gov_card_is_of(const struct gov_card *card, int slot, uint64_t session);

/* The accounting of an arbiter that died, perhaps in the middle of a change: slots that
 * are not @here leave, and what follows from other fields is computed anew.  Service,
 * debts and turns stay, so nobody gains by the death. */
void gov_card_mend(struct gov_card *card, const bool here[GOV_SLOTS_MAX],
                   uint64_t now_ns);

/* Change the share of a session that is here; its part of the card stays. */
void gov_card_reshare(struct gov_card *card, uint64_t session,
                      const struct gov_share *share, uint64_t now_ns);

/* Give everything back, whatever the worker was doing. */
void gov_card_leave(struct gov_card *card, int slot, uint64_t now_ns);

/* The worker has work to submit.  True: submit; its tenant has the turn, and the slot
 * counts as running.  False: call again when another tenant's turn has ended, at
 * *ret_until_ns at the latest. */
bool gov_card_ask(struct gov_card *card, int slot, uint64_t now_ns,
                  uint64_t *ret_until_ns);

/* The worker has given up waiting. */
void gov_card_unask(struct gov_card *card, int slot, uint64_t now_ns);

/* Work that the worker submitted in an earlier turn and that could not begin then has
 * been on the GPU since @since_ns, in another tenant's turn: the slot counts as running
 * and is charged for it, but it keeps no turn. */
void gov_card_overrun(struct gov_card *card, int slot, uint64_t since_ns,
                      uint64_t now_ns);

/* The tenant was alone, and its workers began and ended without asking: its accounting
 * is brought up to date, as if it had asked at every quantum. */
void gov_card_rested(struct gov_card *card, int slot, uint64_t now_ns);

/* The worker has begun in its tenant's turn without asking. */
void gov_card_adopt(struct gov_card *card, int slot, uint64_t now_ns);

/* A running worker wants to submit more: true while its tenant may go on.  False:
 * submit nothing, let the card drain, call gov_card_drained(), ask again. */
bool gov_card_keep(struct gov_card *card, int slot, uint64_t now_ns);

/* @busy_ns of card time of this worker were measured since the last report.  The charge
 * is never more than the time in which the tenant had work on the card. */
void gov_card_report(struct gov_card *card, int slot, uint64_t busy_ns,
                     uint64_t now_ns);

/* The worker has nothing on the card any more. */
void gov_card_drained(struct gov_card *card, int slot, uint64_t now_ns);

#endif
