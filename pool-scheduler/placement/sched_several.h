/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several cards for one session: as close to each other as the pool has them.
 *
 * An island of one server first (cards that are linked to each other), then one server
 * on as few islands as it takes, then, when the request may span, as few servers of one
 * fabric as it takes, then any servers.  `near` of the request says where that ends.
 *
 * Part of sched_place(), and pure as it is.
 */
#ifndef SCHED_SEVERAL_H
#define SCHED_SEVERAL_H

#include "sched_place.h"

/* What @card can be given for @req now: sched_place.c */
bool sched_card_fits(const struct sched_card *card, const struct sched_request *req);
bool sched_group_accepts(const struct sched_group *group,
                         const struct sched_request *req);
/* Is @a the better choice?  The order of the index, within one server. */
bool sched_card_before(const struct sched_card *a, const struct sched_card *b,
                       const struct sched_request *req);
/* One more slice of the decision. */
void sched_decide(struct sched_decision *d, const struct sched_request *req,
                  struct sched_card *card);

/* In one tree, by_fit of the pool or of a group, whose nodes are @at in their cards:
 * the card with the least free memory that suffices, and the one with most; or NULL. */
struct gp_tree_node *sched_card_least_in(const struct gp_tree *tree, size_t at,
                                         const struct sched_request *req);
struct gp_tree_node *sched_card_most_in(const struct gp_tree *tree, size_t at,
                                        const struct sched_request *req);
/* Of the server's unused cards that are alike, of which the index has one: that which
 * leaves most cards linked. */
struct sched_card *sched_card_best_twin(struct sched_card *card,
                                        const struct sched_request *req);

/* -ENOSPC: not there; *ret is untouched. */
int sched_several_on(const struct sched_server *server, const struct sched_request *req,
                     struct sched_decision *ret);
int sched_several(const struct sched_pool *pool, const struct sched_request *req,
                  struct sched_decision *ret);
/* In the first unit of one list that has them; links are @at in the units. */
int sched_several_in_list(const struct sched_link *head, size_t at,
                          enum sched_level level, const struct sched_request *req,
                          struct sched_decision *ret);
/* On several servers, if the request may. */
int sched_several_across(const struct sched_pool *pool, const struct sched_request *req,
                         struct sched_decision *ret);

/* How close the cards of @d are: "linked to each other (island 1)"... */
void sched_several_words(const struct sched_decision *d, char *words, size_t size);

#endif
