/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_asker.h"

#include "gp_hash.h"
#include "gp_net.h"
#include "gp_rate.h"
#include "gp_time.h"
#include "sched_conn.h"
#include "sched_replica.h"
#include "sched_tokens.h"
#include "ticket_key.h"

#include <errno.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------- proof -- */

int
sched_asker_token(const struct ticket_key *key, char ret[SCHED_ASKER_TOKEN])
{
    static const char domain[] = "gpupool schedulers of a pool v1";
    uint8_t seed[32], mac[32];
    unsigned size = 0;
    int r = ticket_key_seed(key, seed);

    if (r < 0)
        return r;
    r = HMAC(EVP_sha256(), seed, sizeof(seed), (const uint8_t *)domain, sizeof(domain),
             mac, &size)
            ? 0
            : -EIO;
    for (size_t i = 0; !r && i < sizeof(mac); i++)
        snprintf(ret + 2 * i, 3, "%02x", mac[i]);
    explicit_bzero(seed, sizeof(seed));
    explicit_bzero(mac, sizeof(mac));
    return r;
}

bool
sched_asker_proves(struct sched_conn *conn, bool (*is_it)(const char *text, void *arg),
                   void *arg, char ret[SCHED_ASKER_TOKEN])
{
    const struct sched *sched = conn->sched;
    const struct ticket_key *const keys[] = {sched->key, sched->old_key};

    for (size_t i = 0; sched->replica.shared && i < ARRAY_SIZE(keys); i++)
        if (keys[i] && sched_asker_token(keys[i], ret) == 0 && is_it(ret, arg)) {
            conn->relays = conn->known = true;
            return true;
        }
    return false;
}

/* ---------------------------------------------------------------- requests -- */

bool
sched_asker_reads(const Gpupool__Ctl__CtlRequest *req)
{
    return req->body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE ||
           req->body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_LIST;
}

static bool
is_proof(const Gpupool__Ctl__CtlRequest *req)
{
    return req->body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_HELLO ||
           req->body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_PROVE;
}

static bool
refuse(struct sched_conn *conn, uint32_t id, const char *words)
{
    sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_DENIED, words, NULL);
    return false;
}

static bool
admits_asker(struct sched_conn *conn, uint32_t id, const Gpupool__Ctl__CtlAsker *asker)
{
    struct sched *sched = conn->sched;
    uint64_t who, wait;

    if (*asker->user &&
        !sched_tokens_user_may(sched->tokens, asker->user, SCHED_MAY_READ))
        return refuse(conn, id,
                      "the scheduler that leads knows no such user with the right to "
                      "read (--users-file)");
    if (!asker->address.len)
        return true;
    who = gp_hash_bytes(gp_hash_process_key(), asker->address.data, asker->address.len);
    wait = gp_rate_take(&sched->rates.requests, who, gp_now_ns());
    if (wait)
        sched_conn_refuse_until(conn, id, gp_rate_ms(wait),
                                "too many requests from this address");
    return !wait;
}

bool
sched_asker_admits(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    if (!conn->relays)
        return !req->asker ||
               refuse(conn, req->id,
                      "only a scheduler of this pool, which has proven its key, asks "
                      "for others");
    if (is_proof(req))
        return true;
    if (!sched_asker_reads(req))
        return refuse(conn, req->id, "a scheduler of the pool relays reads only");
    if (!sched_replica_leads(conn->sched)) {
        sched_conn_not_leader(conn, req->id, "this scheduler does not lead either", "");
        return false;
    }
    return !req->asker || admits_asker(conn, req->id, req->asker);
}
