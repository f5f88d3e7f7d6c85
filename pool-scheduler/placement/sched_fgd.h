/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement by fragmentation (fgd): the cards after whose choice least of what is free
 * is of no use for the requests that come (sched_mix.h), which is fragmentation
 * gradient descent over the pool's index.
 *
 * The heuristic as published looks at every card.  Here the index gives the candidates:
 * for each number of free core percent (and kind of card) the one with the least free
 * memory that suffices and the one with most, for several cards the islands and servers
 * at the head of each list.  docs/results/week.md compares the two.
 *
 * Part of sched_place(), and pure as it is: what comes lately is in the pool.
 */
#ifndef SCHED_FGD_H
#define SCHED_FGD_H

#include "sched_place.h"

/* -ENOSPC: nothing fits. */
int sched_fgd(const struct sched_pool *pool, const struct sched_request *req,
              struct sched_decision *ret);

#endif
