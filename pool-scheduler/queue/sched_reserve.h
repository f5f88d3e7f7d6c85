/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations: cards that belong to some owners from a time until another, as the
 * rules say ([reservation NAME]).
 *
 * Some time before it begins (`lead`) cards are chosen, those with least in use, and
 * kept from everybody else, but for sessions with a time limit that end before it
 * begins.  With `end = yes` what others still have there gets a notice then and ends
 * when it begins; without, it goes on, and the reservation has what is left.  When the
 * rules withdraw the reservation, move it or take `end` from it, the sessions that were
 * to end hear that they go on, or of the new time.  A card that fails is replaced.
 * Cards are chosen anew after a restart.
 *
 * Owned by sched->waits.  Event loop thread only.
 */
#ifndef SCHED_RESERVE_H
#define SCHED_RESERVE_H

#include "sched_open.h"
#include "sched_rules.h"

#include <stddef.h>
#include <stdint.h>

struct sched;
struct sched_decision;
struct sched_waits;

struct sched_reserve {
    char name[SCHED_RULES_NAME];
    char words[SCHED_RULES_NAME + 96]; /* for explain */
    struct sched_card *cards[SCHED_RESERVED_MAX];
    unsigned n;
    unsigned checked;  /* how many checks were made of single cards, in turn */
    bool short_logged; /* that there are too few cards */
};

/* Time has passed, or the rules have changed.  @unix_s: now. */
void sched_reserve_tick(struct sched *sched, uint64_t unix_s);
/* Where @open could go on cards that are reserved for its owner, or that it leaves
 * before the others come.  -ENOSPC. */
int sched_reserve_place(const struct sched *sched, const struct sched_open *open,
                        const struct sched_request *req, uint64_t unix_s,
                        struct sched_decision *ret);
/* How long a request of @owner may run on the cards of the @i-th of waits->reserves:
 * UINT64_MAX, they are reserved for him; 0, not at all. */
uint64_t sched_reserve_lends(const struct sched *sched, unsigned i, const char *owner,
                             uint64_t unix_s);
/* A reservation of the rules as it is now; strings are the rules'. */
void sched_reserve_row(const struct sched *sched,
                       const struct sched_reservation_rule *rule,
                       Gpupool__Ctl__CtlReservation *ret);
/* Cards that are kept for reservations now. */
unsigned sched_reserve_cards(const struct sched_waits *waits);
void sched_reserve_fini(struct sched_waits *waits);

#endif
