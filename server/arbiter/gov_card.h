/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may run on one card now: the books of the card's arbiter.
 *
 * The card is given to one session (a tenant) at a time, in turns of about a quantum.
 * While its turn lasts the workers of the tenant submit work as they like; when another
 * tenant is due they stop, let the card drain, and the turn passes.  So the time
 * charged is time in which nobody else ran, and shares hold whatever the hardware does
 * between processes.  A lone tenant never drains.
 *
 * Tenants with multiprocessors of their own (in_space) have their turns at the same
 * time as long as they share none; a part of the card is charged as that part.  Where
 * parts were rounded up and overlap, turns are taken, and ceilings do the rest.
 *
 *   floor    start-time fair queueing: among those who want the card, the one whose
 *            service divided by its weight is least goes next
 *   ceiling  a token bucket of card time; what a kernel overran is debt, repaid in full
 *   class    an offline tenant runs only while no online tenant wants to
 *
 * Memory of the supervisor's own: workers say what they want and see what they may in
 * files of their own (gov_desk.h), srv_arbiter.c stands between.  Every function gets
 * the time as an argument and is called under the arbiter's lock: nothing here reads a
 * clock or sleeps, so tests run it against a clock of their own.  A seat is a number
 * that gov_card_join() returned and that has not left; no other is ever passed.  Debt
 * outlives the last worker of a session, so that starting again does not pay it.
 *
 * What a worker measured is a claim.  While another session waits, holding the turn
 * costs at least GOV_HELD_LEAST percent of the time that it is held, whatever is
 * reported: a session that reports nothing gets a third more than its share and no
 * more.
 *
 * Not here: measuring (wrk_gov_charge.c), memory (wrk_quota.c).
 */
#ifndef GOV_CARD_H
#define GOV_CARD_H

#include "gp_base.h"

/* A mask's bits; the cards of today have at most half as many. */
#define GOV_UNITS_MAX 64
/* The scheduler places at most 16 sessions on a card by default, 32 when told to. */
#define GOV_TENANTS_MAX 64
#define GOV_SEATS_MAX 1024 /* workers: as many as attachments on one server */

/* How long a turn lasts once somebody else waits.  A switch costs a drain and a
 * wake-up, some tens of microseconds: one percent of this. */
#define GOV_QUANTUM_NS 4000000
/* A tenant that comes back from doing nothing need not wait for the quantum of another
 * to end, only for this: a service that uses less than its part answers soon. */
#define GOV_WAKE_QUANTUM_NS 500000
/* It has done nothing for at least so long. */
#define GOV_SLEPT_NS 2000000
/* Who paused for less than this catches up on what it did not get meanwhile, which is
 * no more than as much service; its queue ran dry, it did not go. */
#define GOV_NAP_NS 10000000
/* Who has had so much more card time than another does not get the card as soon as
 * that one pauses, but after an eighth of the debt, and not later than this: it may not
 * give the card back for long. */
#define GOV_AHEAD_NS UINT64_C(80000000)
#define GOV_HELD_MAX_NS UINT64_C(250000000)
/* A bucket holds what this much time fills.  Long enough that a tenant that waited for
 * the kernels of others loses nothing... */
#define GOV_BUCKET_NS 250000000
/* ...but who wants nothing saves up no more than this. */
#define GOV_IDLE_BUCKET_NS 10000000

/* Percent of the time in which a tenant had the turn and another waited that it is
 * charged at least.  An honest worker has the card busy for more than nine tenths of
 * it; a report may be late, never missing. */
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
    /* What every launch looks at lies together. */
    uint32_t ceiling;
    uint32_t rivals;    /* other tenants that cannot run beside it */
    uint32_t contended; /* one of them wants to */
    uint32_t offline;
    uint32_t seats;     /* workers that joined; 0: gone, and what it owes is kept */
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
    uint64_t
        held_ns; /* others wait since then, and since then it ran; 0: they do not */
    uint64_t held_charged; /* of that time */
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

struct gov_seat {
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
    struct gov_seat seats[GOV_SEATS_MAX];
};

/* Take a seat for worker @pid of @session.  -ENOSPC: no seat or no tenant is free. */
int gov_card_join(struct gov_card *card, uint64_t session, int32_t pid,
                  const struct gov_share *share, uint64_t now_ns);

static inline const struct gov_tenant *
gov_card_tenant(const struct gov_card *card, int seat)
{
    return &card->tenants[card->seats[seat].tenant];
}

/* Change the share of a session that is here; its part of the card stays. */
void gov_card_reshare(struct gov_card *card, uint64_t session,
                      const struct gov_share *share, uint64_t now_ns);

/* Give everything back, whatever the worker was doing. */
void gov_card_leave(struct gov_card *card, int seat, uint64_t now_ns);

/* The worker has work to submit.  True: submit, its tenant has the turn (and the seat
 * counts as running).  False: ask again when another tenant's turn has ended, at
 * *ret_until_ns at the latest. */
bool gov_card_ask(struct gov_card *card, int seat, uint64_t now_ns,
                  uint64_t *ret_until_ns);

/* The worker has given up waiting. */
void gov_card_unask(struct gov_card *card, int seat, uint64_t now_ns);

/* What the worker submitted in an earlier turn, and what could not begin then, has been
 * on the card since @since_ns, whoever has the turn: the seat counts as running, is
 * charged, and keeps no turn with it. */
void gov_card_overrun(struct gov_card *card, int seat, uint64_t since_ns,
                      uint64_t now_ns);

/* The tenant had the turn for itself and its workers came and went without asking: its
 * books are brought up to date, as if it had been asked at every quantum. */
void gov_card_rested(struct gov_card *card, int seat, uint64_t now_ns);

/* The worker has begun in its tenant's turn without asking. */
void gov_card_adopt(struct gov_card *card, int seat, uint64_t now_ns);

/* A running worker wants to submit more: true while its tenant may go on.  False:
 * submit nothing, let the card drain, call gov_card_drained(), ask again. */
bool gov_card_keep(struct gov_card *card, int seat, uint64_t now_ns);

/* @busy_ns of card time of this worker were measured since the last report.  The charge
 * is never more than the time in which the tenant had work on the card. */
void gov_card_report(struct gov_card *card, int seat, uint64_t busy_ns,
                     uint64_t now_ns);

/* The worker has nothing on the card any more. */
void gov_card_drained(struct gov_card *card, int seat, uint64_t now_ns);

#endif
