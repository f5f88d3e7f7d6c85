/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked for lately, and how much of a server's free core is of no use for it:
 * fragmentation as Weng et al. define it ("Beware of Fragmentation", USENIX ATC 2023).
 *
 * A shape is a request by core, memory and number of cards.  For one shape, a free part
 * of a card is a fragment when the card has not enough for it, and everything free on a
 * server is when the server has too few cards for it.  Fragmentation is the mean over
 * the shapes, by how often they are asked for.
 *
 * A plain value.  The shapes seen most often are kept (space-saving counts), older
 * requests count less.  No allocation, no thread.
 */
#ifndef SCHED_MIX_H
#define SCHED_MIX_H

#include "gp_base.h"

#include <stdint.h>

struct sched_card;
struct sched_request;
struct sched_server;
struct sched_slice;

#define SCHED_SHAPES_MAX 24
/* All counts are halved at this sum: the last few thousand requests decide. */
#define SCHED_MIX_SUM 8192

struct sched_mix {
    struct sched_shape {
        uint32_t core, cards;
        uint64_t memory; /* MiB, rounded up to quarters of a GiB */
        uint32_t count;
    } shapes[SCHED_SHAPES_MAX];
    unsigned n;
    uint32_t sum;
};

void sched_mix_note(struct sched_mix *mix, const struct sched_request *req);
/* Percent of cards on @server that are fragments, without what @slices (of any servers)
 * would take. */
double sched_mix_fragments(const struct sched_mix *mix,
                           const struct sched_server *server,
                           const struct sched_slice *slices, unsigned n);

#endif
