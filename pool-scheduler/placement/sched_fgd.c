/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_fgd.h"

#include "sched_mix.h"
#include "sched_several.h"

#include <errno.h>

struct search {
    const struct sched_pool *pool;
    const struct sched_request *req;
    struct sched_decision *best;
    double least; /* growth of fragmentation by the best one */
    bool found;
};

/* How much less is of use after @d, all of which is on one server. */
static double
growth(const struct search *search, const struct sched_decision *d)
{
    const struct sched_server *server = d->slices[0].card->server;
    const struct sched_mix *mix = &search->pool->mix;

    return sched_mix_fragments(mix, server, d->slices, d->n_slices) -
           sched_mix_fragments(mix, server, NULL, 0);
}

/* Candidates come in order of the core that is free on them: of equal ones the fullest
 * wins. */
static void
consider(struct search *search, const struct sched_decision *d)
{
    double grows = growth(search, d);

    if (search->found && grows >= search->least)
        return;
    search->least = grows;
    *search->best = *d;
    search->found = true;
}

/* ---------------------------------------------------------------- one card -- */

static void
consider_card(struct search *search, struct gp_tree_node *node, size_t at)
{
    struct sched_decision d = {.n_slices = 0};
    struct sched_card *card;

    card = (struct sched_card *)(void *)((char *)node - at);
    sched_decide(&d, search->req, sched_card_best_twin(card, search->req));
    consider(search, &d);
}

/* The cards of one index: by_fit of the pool or of a group. */
static void
consider_index(struct search *search, const struct gp_tree *by_fit, size_t at)
{
    const struct sched_request *req = search->req;

    for (unsigned core = req->core; core <= 100; core++) {
        const struct gp_tree *tree = &by_fit[SCHED_FIT(req->in_space, core)];
        struct gp_tree_node *least, *most;

        if (!tree->root)
            continue;
        least = sched_card_least_in(tree, at, req);
        if (!least)
            continue;
        consider_card(search, least, at);
        most = sched_card_most_in(tree, at, req);
        if (most && most != least)
            consider_card(search, most, at);
    }
}

/* ------------------------------------------------------------ several cards -- */

static void
consider_lists(struct search *search, const struct sched_lists *lists,
               enum sched_level level, size_t link_at)
{
    const struct sched_request *req = search->req;
    size_t at = offsetof(struct sched_unit, nth[req->cards - 1]) + link_at;

    for (unsigned core = req->core; core <= 100; core++) {
        struct sched_decision d;

        if (!sched_several_in_list(&lists->of[req->cards - 1][core], at, level, req,
                                   &d))
            consider(search, &d);
    }
}

static void
consider_level(struct search *search, enum sched_level level)
{
    const struct sched_pool *pool = search->pool;

    if (!search->req->where || pool->n_groups < 2) {
        consider_lists(search, &pool->lists[level], level,
                       offsetof(struct sched_nth, link));
        return;
    }
    for (unsigned i = 0; i < pool->n_groups; i++)
        if (sched_group_accepts(pool->groups[i], search->req))
            consider_lists(search, &pool->groups[i]->lists[level], level,
                           offsetof(struct sched_nth, group_link));
    consider_lists(search, &pool->mixed[level], level,
                   offsetof(struct sched_nth, group_link));
}

int
sched_fgd(const struct sched_pool *pool, const struct sched_request *req,
          struct sched_decision *ret)
{
    struct search search = {.pool = pool, .req = req, .best = ret};

    if (req->cards > 1) {
        if (pool->n_islands)
            consider_level(&search, SCHED_ISLANDS);
        if (!search.found && req->near != SCHED_NEAR_ISLAND)
            consider_level(&search, SCHED_SERVERS);
        return search.found ? 0 : sched_several_across(pool, req, ret);
    }
    if (!req->where || pool->n_groups < 2)
        consider_index(&search, pool->by_fit, offsetof(struct sched_card, by_fit));
    for (unsigned i = 0; req->where && pool->n_groups > 1 && i < pool->n_groups; i++)
        if (sched_group_accepts(pool->groups[i], req))
            consider_index(&search, pool->groups[i]->by_fit,
                           offsetof(struct sched_card, by_group));
    return search.found ? 0 : -ENOSPC;
}
