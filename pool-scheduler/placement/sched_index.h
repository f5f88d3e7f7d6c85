/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a pool (sched_pool.h says what is in it), and what cards and servers are
 * filed under: groups of cards that are alike, islands, fabrics.
 *
 * For sched_pool.c, which owns the cards and calls this at each change of one.
 */
#ifndef SCHED_INDEX_H
#define SCHED_INDEX_H

#include "sched_pool.h"

void sched_index_lists(struct sched_lists *lists);
/* The card is in no tree; it may be put there again after a change. */
void sched_index_drop(struct sched_pool *pool, struct sched_card *card);
void sched_index_card(struct sched_pool *pool, struct sched_card *card);
/* Cards of @server have changed: of all its islands, or (not NULL) of one. */
void sched_index_server(struct sched_pool *pool, struct sched_server *server,
                        struct sched_island *only);
/* What was given of @card has changed, nothing else has. */
void sched_index_changed(struct sched_pool *pool, struct sched_card *card);
uint32_t sched_index_free_core(const struct sched_server *server);

/* The group of a card that is not in the index.  -ENOSPC: too many. */
int sched_index_group(struct sched_pool *pool, struct sched_card *card);
/* After cards of @server were put into groups: the lists that the server is in. */
void sched_index_regroup(struct sched_pool *pool, struct sched_server *server);
/* The island of a card that is not in the index; 0: none.  Its server is indexed
 * afterwards.  -ENOMEM. */
int sched_index_island(struct sched_pool *pool, struct sched_card *card,
                       uint32_t number);
void sched_index_leave_island(struct sched_pool *pool, struct sched_card *card);
/* In no fabric, with none of its cards in the index. */
void sched_index_leave_fabric(struct sched_pool *pool, struct sched_server *server);

#endif
