/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_open.h"

#include "gp_time.h"
#include "sched_gang.h"
#include "sched_pool.h"
#include "sched_reserve.h"
#include "sched_store.h"
#include "sched_types.h"
#include "sched_wait.h"

#include <errno.h>
#include <stdio.h>

struct sched_amount
sched_open_amount(const struct sched_open *open)
{
    return (struct sched_amount){
        .core = (uint64_t)open->req.core * open->req.cards,
        .memory = open->req.memory * open->req.cards,
        .cards = open->req.cards,
    };
}

/* The cards that the owner's sessions are on. */
static void
find_avoid(const struct sched *sched, const struct sched_open *open,
           struct sched_avoid *avoid)
{
    const struct sched_owner *owner =
        sched_sessions_owner(&sched->sessions, open->spec.owner);

    avoid->n = 0;
    avoid->servers = open->apart_server;
    for (const struct sched_session *s = owner ? owner->sessions : NULL; s;
         s = s->owner_next)
        for (uint32_t i = 0; i < s->n_slices && avoid->n < SCHED_AVOID_MAX; i++)
            avoid->cards[avoid->n++] = s->slices[i].card;
    for (unsigned k = 0; k < open->n_beside; k++)
        for (uint32_t i = 0; i < open->beside[k].n_slices && avoid->n < SCHED_AVOID_MAX;
             i++)
            avoid->cards[avoid->n++] = open->beside[k].slices[i].card;
}

void
sched_open_avoid(const struct sched *sched, const struct sched_open *open,
                 struct sched_request *req, struct sched_avoid *avoid)
{
    if (!open->apart_card)
        return;
    find_avoid(sched, open, avoid);
    req->avoid = avoid;
}

int
sched_open_place(struct sched *sched, const struct sched_open *open,
                 const struct sched_tenant *tenant, struct sched_decision *ret,
                 char *words, size_t size)
{
    struct sched_amount amount = sched_open_amount(open);
    struct sched_request req = open->req;
    struct sched_avoid avoid;
    int r = sched_tenant_check(tenant, &amount, words, size);

    if (r < 0)
        return r;
    sched_open_avoid(sched, open, &req, &avoid);
    r = -ENOSPC;
    if (sched->waits->n_reserves) /* theirs first, so that others have the rest */
        r = sched_reserve_place(sched, open, &req, gp_wall_ns() / GP_NS_PER_S, ret);
    if (r < 0)
        r = sched_place(sched->pool, &req, ret);
    if (r < 0)
        r = sched_wait_backfill(sched, &req, open->run_ms, ret);
    if (r < 0)
        r = sched_gang_spares(sched, &req, ret);
    if (r < 0)
        return r;
    amount = sched_decision_amount(ret); /* whole cards, and core by speed */
    return sched_tenant_check(tenant, &amount, words, size);
}

/* Memory first, then the store; what it refuses is given back. */
int
sched_open_take(struct sched *sched, struct sched_open *open,
                const struct sched_decision *decision,
                struct sched_session **ret_session, struct gp_err *err)
{
    struct sched_session *session;
    int r;

    open->spec.opened_unix = gp_wall_ns() / GP_NS_PER_S;
    open->spec.ends_unix =
        open->run_ms ? open->spec.opened_unix + (open->run_ms + 999) / 1000 : 0;
    r = sched_sessions_add(&sched->sessions, &open->spec, decision, gp_now_ns(),
                           &session);
    if (r < 0)
        return r;
    r = sched_store_put_session(sched->store, session, err);
    if (r < 0) {
        sched_session_free(&sched->sessions, session);
        return r;
    }
    *ret_session = session;
    return 0;
}

bool
sched_open_is_full(const struct sched *sched, const char *owner, unsigned more,
                   char *words, size_t size)
{
    unsigned n = sched_sessions_of_owner(&sched->sessions, owner);

    if (n + more <= sched->config.owner_sessions)
        return false;
    if (words && more > sched->config.owner_sessions)
        snprintf(words, size, "an owner has %u sessions at most, %u wanted",
                 sched->config.owner_sessions, more);
    else if (words)
        snprintf(words, size, "owner %s has %u sessions, the most allowed", owner, n);
    return true;
}
