/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many sessions at once, or none of them.
 *
 * Two who each need several sessions and open one after the other can each hold what
 * the other waits for.  So who cannot begin before it has all asks for all by one
 * request: cards are looked for as for a gang, one session beside the other, and what
 * is found is taken by one transaction of the store.  Nothing waits in the queue, and
 * what is open already (the request has been made before, or for fewer) counts.
 */
#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_time.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_gang.h"
#include "sched_handle.h"
#include "sched_mix.h"
#include "sched_open.h"
#include "sched_pack.h"
#include "sched_rates.h"
#include "sched_store.h"
#include "sched_wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* One of them. */
struct one {
    unsigned number; /* in the request */
    Gpupool__Ctl__CtlOpen msg;
    struct sched_open open;
    struct sched_tenant *tenant;
    struct sched_session *session; /* open already, or by now */
    struct sched_decision decision;
    struct sched_amount amount; /* of it */
};

struct many {
    struct sched_conn *conn;
    unsigned n, n_placed;
    struct one *order[CTL_OPEN_MANY_MAX]; /* those to open, the largest first */
    struct one ones[CTL_OPEN_MANY_MAX];
    /* Why not, and which. */
    Gpupool__Ctl__CtlCode code;
    unsigned failed;
    char words[600];
};

static void
many_free(struct many *many)
{
    for (unsigned i = 0; many && i < CTL_OPEN_MANY_MAX; i++)
        sched_tenant_unref(&many->conn->sched->sessions.tenants, many->ones[i].tenant);
    free(many);
}
DEFINE_CLEANUP(struct many, many_free)

static int
fail(struct many *many, const struct one *one, Gpupool__Ctl__CtlCode code, int r,
     const char *words)
{
    many->failed = one->number;
    many->code = code;
    snprintf(many->words, sizeof(many->words), "%s", words);
    return r;
}

/* -------------------------------------------------------------------- read -- */

/* Of the same owner as one before it?  Each owner has one, by which it is found. */
static bool
is_twice(const struct many *many, const struct one *one)
{
    for (unsigned i = 0; i < one->number; i++)
        if (strcmp(many->ones[i].open.owner, one->open.owner) == 0)
            return true;
    return false;
}

static int
read_one(struct many *many, struct one *one)
{
    const Gpupool__Ctl__CtlOpen *msg = &one->msg;
    struct sched_sessions *set = &many->conn->sched->sessions;
    Gpupool__Ctl__CtlCode code;
    struct gp_err err = {0};
    int r = sched_handle_open_check(many->conn, msg, &one->open, &code, &err);

    if (r < 0)
        return fail(many, one, code, r, gp_err_msg(&err, r));
    if (!msg->once || msg->wait || msg->explain || msg->hold || *msg->gang ||
        *msg->pool || msg->elsewhere || msg->n_via)
        return fail(many, one, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, -EINVAL,
                    "of many sessions each is opened once, here and now");
    if (is_twice(many, one))
        return fail(many, one, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, -EINVAL,
                    "two sessions of one owner are opened at once");
    one->session = sched_sessions_find_owner(set, one->open.spec.owner);
    one->tenant = sched_tenant_ref(&set->tenants, one->open.spec.owner);
    return one->tenant ? 0
                       : fail(many, one, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, -ENOMEM,
                              "out of memory");
}

/* Behind those that need as much. */
static void
insert(struct many *many, struct one *one)
{
    unsigned at = many->n++;

    for (;
         at && sched_request_needs_more(&one->open.req, &many->order[at - 1]->open.req);
         at--)
        many->order[at] = many->order[at - 1];
    many->order[at] = one;
}

static int
read_all(struct many *many, const Gpupool__Ctl__CtlOpenMany *msg)
{
    int r = 0;

    for (unsigned i = 0; !r && i < msg->n_opens; i++) {
        struct one *one = &many->ones[i];

        one->number = i;
        one->msg = *msg->opens[i];
        one->msg.token = msg->token;
        r = read_one(many, one);
        if (!r && !one->session)
            insert(many, one);
    }
    return r;
}

/* ------------------------------------------------------------------- place -- */

static void
take_back(struct many *many)
{
    struct sched *sched = many->conn->sched;

    while (many->n_placed) {
        struct one *one = many->order[--many->n_placed];

        sched_decision_untake(sched->pool, &one->decision);
        sched_tenant_uncharge(one->tenant, &one->amount);
    }
}

/* Beside those that are placed already.  Its quota, if its tenant is also theirs, is
 * what they leave. */
static int
place_next(struct many *many, char *words, size_t size)
{
    struct sched *sched = many->conn->sched;
    struct one *one = many->order[many->n_placed];
    int r =
        sched_open_place(sched, &one->open, one->tenant, &one->decision, words, size);

    if (!r && sched_wait_blocked(one->tenant, &one->decision)) {
        snprintf(words, size,
                 "quota: what tenant %.100s has left is kept for an older request",
                 one->tenant->name);
        r = -EDQUOT;
    }
    if (!r)
        r = sched_decision_take(sched->pool, &one->decision);
    if (r < 0)
        return r;
    one->amount = sched_decision_amount(&one->decision);
    sched_tenant_charge(one->tenant, &one->amount);
    many->n_placed++;
    return 0;
}

/* What is in the way of the one that found nothing, beside the others. */
static int
no_room(struct many *many, const char *words)
{
    struct sched *sched = many->conn->sched;
    const struct one *one = many->order[many->n_placed];
    struct sched_reasons reasons;
    char text[sizeof(many->words)];

    if (*words)
        return fail(many, one, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT, -EDQUOT, words);
    sched_place_refusal(sched->pool, &one->open.req, &reasons);
    if (many->n_placed)
        snprintf(text, sizeof(text), "no room for %u sessions at once: beside %u, %s",
                 many->n, many->n_placed, reasons.summary);
    return fail(many, one, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, -ENOSPC,
                many->n_placed ? text : reasons.summary);
}

/* In another order, on other cards. */
static int
search(struct many *many)
{
    struct sched_pack_request requests[CTL_OPEN_MANY_MAX];
    struct sched_decision decisions[CTL_OPEN_MANY_MAX];
    struct sched_pack pack = {.pool = many->conn->sched->pool,
                              .requests = requests,
                              .n = many->n,
                              .steps = SCHED_PACK_STEPS};
    int r;

    for (unsigned i = 0; i < many->n; i++)
        requests[i] = (struct sched_pack_request){.req = many->order[i]->open.req};
    r = sched_pack(&pack, decisions);
    for (unsigned i = 0; !r && i < many->n; i++) {
        struct one *one = many->order[i];

        one->decision = decisions[i];
        one->amount = sched_decision_amount(&one->decision);
        r = sched_tenant_check(one->tenant, &one->amount, NULL, 0);
        if (!r && sched_wait_blocked(one->tenant, &one->decision))
            r = -EDQUOT;
        if (!r)
            r = sched_decision_take(many->conn->sched->pool, &one->decision);
        if (!r) {
            sched_tenant_charge(one->tenant, &one->amount);
            many->n_placed++;
        }
    }
    take_back(many);
    return r;
}

/* As for gangs, not at each occasion: thousands of pods may ask at each change of the
 * pool, and others wait meanwhile.  Who is not looked at asks again. */
static int
search_if_due(struct many *many)
{
    struct sched_waits *waits = many->conn->sched->waits;
    uint64_t now = gp_now_ns();
    int r;

    if (now < waits->gang_search_ns)
        return -EAGAIN;
    r = search(many);
    waits->gang_search_ns = now + SCHED_SEARCH_PAUSE * (gp_now_ns() - now);
    return r;
}

/* A decision for each; takes nothing. */
static int
place_all(struct many *many)
{
    struct sched *sched = many->conn->sched;
    char words[256] = "";
    int r = 0;

    for (unsigned i = 0; i < many->n; i++)
        sched_mix_note(&sched->pool->mix, &many->order[i]->open.req);
    sched_wait_serve(sched); /* who waits comes first */
    while (!r && many->n_placed < many->n)
        r = place_next(many, words, sizeof(words));
    if (r < 0)
        r = no_room(many, words);
    take_back(many);
    if (r == -ENOSPC && many->n > 1 && search_if_due(many) == 0)
        r = 0;
    return r;
}

/* -------------------------------------------------------------------- open -- */

static int
take_all(struct many *many)
{
    struct sched *sched = many->conn->sched;
    struct gp_err err = {0};
    unsigned taken = 0;
    int r = 0;

    sched_store_group_begin(sched->store);
    for (; !r && taken < many->n; taken += !r) {
        struct one *one = many->order[taken];

        r = sched_open_take(sched, &one->open, &one->decision, &one->session, &err);
    }
    sched_store_group_end(sched->store);
    if (!r)
        return 0;
    fail(many, many->order[taken], GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, r,
         gp_err_msg(&err, r));
    while (taken--) {
        struct sched_session *session = many->order[taken]->session;

        sched_store_undo_session(sched->store, session->id);
        sched_session_free(&sched->sessions, session);
    }
    return r;
}

/* Those that were open wait for their transactions as well, and last as if renewed. */
static void
await_all(struct many *many, unsigned n)
{
    struct sched *sched = many->conn->sched;

    for (unsigned i = 0; i < many->n; i++)
        sched_commit_open_many(many->conn, many->order[i]->session);
    if (many->n)
        sched_commit_soon(sched);
    for (unsigned i = 0; i < n; i++) {
        struct sched_session *session = many->ones[i].session;

        sched_commit_after(sched, session->open_serial);
        sched_session_lease(&sched->sessions, session,
                            gp_now_ns() + session->lease_ms * GP_NS_PER_MS);
    }
}

static void
answer(const struct many *many, uint32_t id, int r)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlOpenedMany opened = GPUPOOL__CTL__CTL_OPENED_MANY__INIT;
    Gpupool__Ctl__CtlError error = GPUPOOL__CTL__CTL_ERROR__INIT;

    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_OPENED_MANY;
    reply.opened_many = &opened;
    opened.opened = many->n;
    if (r < 0) {
        many->conn->sched->counters.refused++;
        gp_log_info("session", "%s: refused %u sessions: %s", many->conn->peer, many->n,
                    many->words);
        error.code = many->code;
        error.words = (char *)(uintptr_t)many->words;
        opened.opened = 0;
        opened.error = &error;
        opened.failed = many->failed;
    }
    sched_conn_reply(many->conn, &reply);
}

/* Who has no right to it learns nothing else. */
static bool
is_denied(const struct many *many)
{
    return many->code == GPUPOOL__CTL__CTL_CODE__CTL_DENIED ||
           many->code == GPUPOOL__CTL__CTL_CODE__CTL_VERSION;
}

/* Each is one more that was asked for.  False: it has been refused. */
static bool
within_rates(struct sched_conn *conn, uint32_t id, const Gpupool__Ctl__CtlOpenMany *msg)
{
    for (size_t i = 0; i < msg->n_opens; i++) {
        Gpupool__Ctl__CtlOpen one = *msg->opens[i];

        one.token = msg->token;
        if (!sched_rates_open(conn, id, &one))
            return false;
    }
    return true;
}

void
sched_handle_open_many(struct sched_conn *conn, uint32_t id,
                       const Gpupool__Ctl__CtlOpenMany *msg)
{
    CLEANUP(many_freep) struct many *many = NULL;
    char words[100];
    int r;

    if (!msg->n_opens || msg->n_opens > CTL_OPEN_MANY_MAX) {
        snprintf(words, sizeof(words), "%zu sessions to open; 1 to %d may be named",
                 msg->n_opens, CTL_OPEN_MANY_MAX);
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, words,
                          NULL);
        return;
    }
    if (!within_rates(conn, id, msg))
        return;
    many = calloc(1, sizeof(*many));
    if (!many) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL,
                          "out of memory", NULL);
        return;
    }
    many->conn = conn;
    r = read_all(many, msg);
    if (r < 0 && is_denied(many)) {
        conn->sched->counters.refused++;
        sched_conn_refuse(conn, id, many->code, many->words, NULL);
        return;
    }
    if (!r)
        r = place_all(many);
    if (!r)
        r = take_all(many);
    if (!r)
        await_all(many, (unsigned)msg->n_opens);
    answer(many, id, r);
}
