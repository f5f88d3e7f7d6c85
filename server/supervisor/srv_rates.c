/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_rates.h"

#include "gp_hash.h"
#include "gp_time.h"

#include <string.h>

int
srv_rates_init(struct srv_rates *rates, uint32_t connections, uint32_t attaches,
               uint32_t refusals)
{
    int r = gp_rate_init(&rates->connections, connections);

    if (r == 0)
        r = gp_rate_init(&rates->attaches, attaches);
    if (r == 0)
        r = gp_rate_init(&rates->owners, attaches * SRV_RATE_OWNER_HOSTS);
    if (r == 0)
        r = gp_rate_init(&rates->refusals, refusals);
    return r;
}

void
srv_rates_fini(struct srv_rates *rates)
{
    gp_rate_fini(&rates->connections);
    gp_rate_fini(&rates->attaches);
    gp_rate_fini(&rates->owners);
    gp_rate_fini(&rates->refusals);
}

static uint32_t
ms_of(uint64_t wait_ns)
{
    return wait_ns ? gp_rate_ms(wait_ns) : 0;
}

uint32_t
srv_rates_connection(struct srv_rates *rates, uint64_t from)
{
    return ms_of(gp_rate_take(&rates->connections, from, gp_now_ns()));
}

uint32_t
srv_rates_further(struct srv_rates *rates, uint64_t from)
{
    return ms_of(gp_rate_wait(&rates->refusals, from, gp_now_ns()));
}

uint32_t
srv_rates_attach(struct srv_rates *rates, uint64_t from)
{
    uint32_t ms = srv_rates_further(rates, from);

    return ms ? ms : ms_of(gp_rate_take(&rates->attaches, from, gp_now_ns()));
}

uint32_t
srv_rates_owner(struct srv_rates *rates, const char *owner)
{
    uint64_t who = gp_hash_bytes(gp_hash_process_key(), owner, strlen(owner));

    return ms_of(gp_rate_take(&rates->owners, who, gp_now_ns()));
}

void
srv_rates_refused(struct srv_rates *rates, uint64_t from)
{
    gp_rate_take(&rates->refusals, from, gp_now_ns());
}
