/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_gang.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_time.h"
#include "gp_utf8.h"
#include "sched_conn.h"
#include "sched_gang_search.h"
#include "sched_pack.h"
#include "sched_rules.h"
#include "sched_wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------- members -- */

static struct sched_gang *
gang_find(const struct sched_waits *waits, const struct sched_wait *wait)
{
    struct sched_gang *gang = waits->gangs;

    while (gang &&
           (strcmp(gang->name, wait->open.gang) != 0 ||
            gang->of_owners != wait->open.once ||
            (!gang->of_owners && strcmp(gang->members[0]->owner, wait->owner) != 0)))
        gang = gang->next;
    return gang;
}

static bool
has_owner(const struct sched_gang *gang, const char *owner)
{
    for (unsigned i = 0; i < gang->n; i++)
        if (!strcmp(gang->members[i]->owner, owner))
            return true;
    return false;
}

static void
insert(struct sched_gang *gang, struct sched_wait *wait)
{
    unsigned at = gang->n++;

    for (; at &&
           sched_request_needs_more(&wait->open.req, &gang->members[at - 1]->open.req);
         at--)
        gang->members[at] = gang->members[at - 1];
    gang->members[at] = wait;
}

int
sched_gang_join(struct sched *sched, struct sched_wait *wait, struct gp_err *err)
{
    struct sched_waits *waits = sched->waits;
    struct sched_gang *gang = gang_find(waits, wait);

    if (gang && gang->size != wait->open.gang_size)
        return gp_err_set(err, -EINVAL, "gang %s has %u members, not %u", gang->name,
                          gang->size, wait->open.gang_size);
    if (gang && gang->n == gang->size)
        return gp_err_set(err, -EBUSY,
                          "gang %s has its %u members already, and waits for room",
                          gang->name, gang->size);
    if (gang && gang->of_owners && has_owner(gang, wait->owner))
        return gp_err_set(err, -EBUSY, "gang %s has a member of owner %s already",
                          gang->name, wait->owner);
    if (!gang) {
        gang = calloc(1, sizeof(*gang));
        if (!gang)
            return -ENOMEM;
        gp_utf8_copy(gang->name, sizeof(gang->name), wait->open.gang);
        gang->of_owners = wait->open.once;
        gang->waits = waits;
        gang->size = wait->open.gang_size;
        gang->next = waits->gangs;
        waits->gangs = gang;
    }
    insert(gang, wait);
    wait->gang = gang;
    return 0;
}

static void
gang_free(struct sched_gang *gang)
{
    struct sched_gang **at = &gang->waits->gangs;

    while (*at != gang)
        at = &(*at)->next;
    *at = gang->next;
    free(gang);
}

void
sched_gang_leave(struct sched_wait *wait)
{
    struct sched_gang *gang = wait->gang;
    unsigned i = 0;

    if (!gang)
        return;
    sched_gang_release(wait->sched, gang);
    wait->gang = NULL;
    while (gang->members[i] != wait)
        i++;
    gang->n--;
    memmove(&gang->members[i], &gang->members[i + 1],
            (gang->n - i) * sizeof(gang->members[0]));
    if (!gang->n)
        gang_free(gang);
}

/* ------------------------------------------------------------------- place -- */

bool
sched_gang_is_full(const struct sched_gang *gang, char *words, size_t size)
{
    const struct sched *sched = gang->members[0]->sched;

    if (!gang->of_owners)
        return sched_open_is_full(sched, gang->members[0]->owner, gang->size, words,
                                  size);
    for (unsigned i = 0; i < gang->n; i++)
        if (sched_open_is_full(sched, gang->members[i]->owner, 1, words, size))
            return true;
    return false;
}

unsigned
sched_gang_first_of(const struct sched_gang *gang, const struct sched_tenant *tenant)
{
    unsigned i = 0;

    while (i < gang->n && gang->members[i]->waiter.tenant != tenant)
        i++;
    return i;
}

int
sched_gang_next_tenant(const struct sched_gang *gang, int i)
{
    for (i++; i < (int)gang->n; i++)
        if ((int)sched_gang_first_of(gang, gang->members[i]->waiter.tenant) == i)
            return i;
    return -1;
}

/* May their tenants have all of it at once? */
static bool
in_quota(const struct sched_gang *gang, const struct sched_decision *d)
{
    for (int i = -1; (i = sched_gang_next_tenant(gang, i)) >= 0;) {
        const struct sched_tenant *tenant = gang->members[i]->waiter.tenant;
        struct sched_amount sum = {0}, amount;

        for (unsigned k = (unsigned)i; k < gang->n; k++) {
            if (gang->members[k]->waiter.tenant != tenant)
                continue;
            amount = sched_decision_amount(&d[k]);
            sched_amount_add(&sum, &amount);
        }
        if (sched_tenant_check(tenant, &sum, NULL, 0) < 0 ||
            sched_tenant_kept_from(tenant, gang, &sum))
            return false;
    }
    return !sched_gang_is_full(gang, NULL, 0);
}

struct sched_amount
sched_gang_amount(const struct sched_gang *gang, const struct sched_tenant *tenant)
{
    struct sched_amount sum = {0};

    for (unsigned i = 0; i < gang->n; i++)
        if (gang->members[i]->waiter.tenant == tenant)
            sched_amount_add(&sum, &gang->members[i]->waiter.amount);
    return sum;
}

const struct sched_tenant *
sched_gang_kept_from(const struct sched_gang *gang)
{
    for (int i = -1; (i = sched_gang_next_tenant(gang, i)) >= 0;) {
        const struct sched_tenant *tenant = gang->members[i]->waiter.tenant;
        struct sched_amount sum = sched_gang_amount(gang, tenant);

        if (sched_tenant_kept_from(tenant, gang, &sum))
            return tenant;
    }
    return NULL;
}

int
sched_gang_check(const struct sched_gang *gang, char *words, size_t size)
{
    char quota[200] = "";
    int r = 0;

    for (int i = -1; r != -EFBIG && (i = sched_gang_next_tenant(gang, i)) >= 0;) {
        const struct sched_tenant *tenant = gang->members[i]->waiter.tenant;
        struct sched_amount sum = sched_gang_amount(gang, tenant);
        char text[sizeof(quota)] = "";
        int it = sched_tenant_check(tenant, &sum, text, sizeof(text));

        if (it == -EFBIG || (it < 0 && !r)) {
            r = it;
            memcpy(quota, text, sizeof(quota));
        }
    }
    if (!r && sched_gang_is_full(gang, quota, sizeof(quota)))
        r = (gang->of_owners ? 1 : gang->size) >
                    gang->members[0]->sched->config.owner_sessions
                ? -EFBIG
                : -EDQUOT;
    if (r < 0 && words)
        snprintf(words, size, "gang %s: %s", gang->name, quota);
    return r;
}

/* One after the other, each beside what those before it would have, then all of it is
 * given back: nobody sees it, because this is one turn of the event loop. */
static int
try_all(struct sched *sched, const struct sched_gang *gang, bool kept,
        struct sched_decision *ret)
{
    unsigned n = 0;
    bool good = true;

    if (gang->n < gang->size)
        return -ENOSPC;
    for (; good && n < gang->n; n++) {
        struct sched_wait *member = gang->members[n];
        struct sched_open open = member->open;

        open.beside = ret;
        open.n_beside = n;
        if (kept)
            good = !sched_wait_place_kept(member, &open, &ret[n]);
        else
            good = sched_open_place(sched, &open, member->waiter.tenant, &ret[n], NULL,
                                    0) == 0;
        if (!good || sched_decision_take(sched->pool, &ret[n]) < 0) {
            good = false;
            break;
        }
    }
    while (n)
        sched_decision_untake(sched->pool, &ret[--n]);
    return !good ? -ENOSPC : in_quota(gang, ret) ? 0 : -EDQUOT;
}

/* In another order, on other cards: takes long, so not at each occasion. */
static int
search_all(struct sched *sched, struct sched_gang *gang, struct sched_decision *ret)
{
    struct sched_waits *waits = sched->waits;
    uint64_t now = gp_now_ns();
    int r;

    if (gang->n < gang->size || sched_gang_check(gang, NULL, 0) < 0)
        return -ENOSPC;
    if (now < waits->gang_search_ns) {
        if (!gang->due_ns)
            gang->due_ns = now;
        return -ENOSPC;
    }
    gang->due_ns = 0;
    r = sched_gang_search(sched, gang, ret);
    waits->gang_search_ns = now + SCHED_SEARCH_PAUSE * (gp_now_ns() - now);
    if (r == -EAGAIN)
        gp_log_debug("queue", "gang %s: no way to place it was found in %d steps",
                     gang->name, SCHED_PACK_STEPS);
    return !r && in_quota(gang, ret) ? 0 : -ENOSPC;
}

int
sched_gang_place(struct sched *sched, struct sched_gang *gang,
                 struct sched_decision *ret)
{
    int r = try_all(sched, gang, false, ret);

    if (r == -ENOSPC)
        r = search_all(sched, gang, ret);
    return r < 0 ? -ENOSPC : 0;
}

int
sched_gang_place_kept(struct sched *sched, const struct sched_gang *gang,
                      struct sched_decision *ret)
{
    return gang->kept && !try_all(sched, gang, true, ret) ? 0 : -ENOSPC;
}

const struct sched_waiter *
sched_gang_first(const struct sched_gang *gang)
{
    const struct sched_waiter *first = &gang->members[0]->waiter;

    for (unsigned i = 1; i < gang->n; i++)
        if (sched_waiter_before(&gang->members[i]->waiter, first))
            first = &gang->members[i]->waiter;
    return first;
}

/* ------------------------------------------------------------------- words -- */

static bool
somebody_ends(const struct sched_gang *gang)
{
    for (unsigned i = 0; i < gang->n; i++)
        if (gang->members[i]->n_victims)
            return true;
    return false;
}

void
sched_gang_words(const struct sched_gang *gang, char *words, size_t size)
{
    const struct sched_tenant *tenant;

    if (gang->n < gang->size)
        snprintf(words, size, "gang %s: %u of its %u members have come", gang->name,
                 gang->n, gang->size);
    else if (gang->kept)
        snprintf(words, size,
                 "gang %s: cards are kept for all of its %u members, first on server "
                 "%s, and %s",
                 gang->name, gang->size,
                 gang->members[0]->target.cards[0]->server->name,
                 somebody_ends(gang) ? "sessions of a lower class are ending there"
                                     : "not all are free yet");
    else if (sched_gang_check(gang, words, size) < 0)
        return;
    else if ((tenant = sched_gang_kept_from(gang)))
        snprintf(words, size,
                 "gang %s: quota: what tenant %s has left is kept for an older request",
                 gang->name, tenant->name);
    else
        snprintf(words, size, "gang %s: no room for all of its %u members at once",
                 gang->name, gang->size);
}
