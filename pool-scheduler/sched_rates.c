/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_rates.h"

#include "ctl_peek.h"
#include "gp_hash.h"
#include "gp_time.h"
#include "gp_utf8.h"
#include "sched_auth.h"
#include "sched_conn.h"
#include "sched_peer.h"

#include <stdio.h>
#include <string.h>

int
sched_rates_init(struct sched_rates *rates, const struct sched_config *config)
{
    int r = gp_rate_init(&rates->requests, config->rate_requests);

    if (!r)
        r = gp_rate_init(&rates->opens, config->rate_opens);
    if (!r)
        r = gp_rate_init(&rates->owners, config->rate_opens * SCHED_RATE_OWNER_HOSTS);
    if (!r)
        r = gp_rate_init(&rates->denials, config->rate_denials);
    if (!r)
        r = gp_rate_init(&rates->reads, config->rate_reads * SCHED_READS_UNITS);
    if (!r)
        r = gp_rate_init(&rates->connections, config->rate_requests);
    if (!r)
        r = gp_rate_init(&rates->tickets, config->rate_requests);
    return r;
}

void
sched_rates_fini(struct sched_rates *rates)
{
    gp_rate_fini(&rates->requests);
    gp_rate_fini(&rates->opens);
    gp_rate_fini(&rates->owners);
    gp_rate_fini(&rates->denials);
    gp_rate_fini(&rates->reads);
    gp_rate_fini(&rates->connections);
    gp_rate_fini(&rates->tickets);
}

static bool
is_unlimited(const struct sched_conn *conn)
{
    return conn->server || conn->relays || sched_peer_is_admin(conn);
}

/* True: @wait is 0, go on. */
static bool
answer(struct sched_conn *conn, uint32_t id, uint64_t wait, const char *what)
{
    char words[160];

    if (!wait)
        return true;
    snprintf(words, sizeof(words), "too many %s; try again in %u ms", what,
             gp_rate_ms(wait));
    sched_conn_refuse_until(conn, id, gp_rate_ms(wait), words);
    return false;
}

bool
sched_rates_request(struct sched_conn *conn, const void *data, size_t len)
{
    struct sched_rates *rates = &conn->sched->rates;
    struct ctl_peek peek = {0};
    const char *what = "requests from this address";
    uint64_t now = gp_now_ns(), wait = 0;

    if (is_unlimited(conn) || sched_peer_forwards(conn))
        return true;
    if (!conn->known) {
        what = "refused requests from this address";
        wait = gp_rate_wait(&rates->denials, conn->from, now);
    }
    if (!wait) {
        what = "requests from this address";
        wait = gp_rate_take(&rates->requests, conn->from, now);
    }
    if (wait && !ctl_peek(data, len, &peek))
        peek.id = 0;
    return answer(conn, peek.id, wait, what);
}

bool
sched_rates_ticket(struct sched_conn *conn)
{
    return is_unlimited(conn) ||
           !gp_rate_take(&conn->sched->rates.tickets, conn->from, gp_now_ns());
}

bool
sched_rates_open(struct sched_conn *conn, uint32_t id, const Gpupool__Ctl__CtlOpen *msg)
{
    struct sched_rates *rates = &conn->sched->rates;
    uint64_t now = gp_now_ns(), who;
    const char *owner;
    char text[CTL_OWNER_MAX], name[CTL_OWNER_MAX];

    if (is_unlimited(conn))
        return true;
    /* The handler refuses it; whoever may not open sessions uses up no owner's. */
    if (msg && (msg->explain || !sched_auth_allowed(conn, SCHED_MAY_OPEN, msg->token)))
        return true;
    if (!sched_peer_forwards(conn) &&
        !answer(conn, id, gp_rate_take(&rates->opens, conn->from, now),
                "sessions asked for from this address"))
        return false;
    if (!msg)
        return true;
    owner = msg->n_via ? sched_peer_owner_of(conn, msg->owner, text, sizeof(text))
                       : sched_peer_owner(conn, msg->owner);
    if (!owner) /* refused by the handler */
        return true;
    gp_utf8_copy(name, sizeof(name), owner); /* the session's */
    owner = name;
    who = gp_hash_bytes(gp_hash_process_key(), owner, strlen(owner));
    return answer(conn, id, gp_rate_take(&rates->owners, who, now),
                  "sessions asked for by this owner");
}
