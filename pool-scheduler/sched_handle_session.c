/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to open a session. */
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_utf8.h"
#include "sched_auth.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_ending.h"
#include "sched_fed.h"
#include "sched_gang.h"
#include "sched_handle.h"
#include "sched_open.h"
#include "sched_peer.h"
#include "sched_rules.h"
#include "sched_status.h"
#include "sched_wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What fits nowhere while a server is expected back is asked again after so long, and
 * up to twice that; a server comes back within 100 ms to 2 s. */
#define RETRY_MS 300

/* -------------------------------------------------------------------- open -- */

static int
check_strings(const Gpupool__Ctl__CtlOpen *msg, struct gp_err *err)
{
    if (!*msg->owner || strlen(msg->owner) >= CTL_OWNER_MAX)
        return gp_err_set(err, -EINVAL, "an owner has 1 to %d characters",
                          CTL_OWNER_MAX - 1);
    if (strlen(msg->server) >= CTL_NAME_MAX)
        return gp_err_set(err, -EINVAL, "a server name has at most %d characters",
                          CTL_NAME_MAX - 1);
    if (msg->card_uuid.len && msg->card_uuid.len != TICKET_UUID_SIZE)
        return gp_err_set(err, -EINVAL, "a card's uuid has %d bytes", TICKET_UUID_SIZE);
    if (msg->client_key.len && msg->client_key.len != TICKET_CLIENT_KEY_SIZE)
        return gp_err_set(err, -EINVAL, "a client's key has %d bytes",
                          TICKET_CLIENT_KEY_SIZE);
    if ((unsigned)msg->policy > TICKET_BEST_EFFORT)
        return gp_err_set(err, -EINVAL, "unknown policy %u", (unsigned)msg->policy);
    if ((unsigned)msg->session_class > GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE)
        return gp_err_set(err, -EINVAL, "unknown class %u",
                          (unsigned)msg->session_class);
    if ((unsigned)msg->spatial > TICKET_SPATIAL_MPS)
        return gp_err_set(err, -EINVAL, "unknown spatial share %u",
                          (unsigned)msg->spatial);
    if ((unsigned)msg->over > SCHED_OVER_SHM)
        return gp_err_set(err, -EINVAL, "unknown value %u of over",
                          (unsigned)msg->over);
    if (msg->over == GPUPOOL__CTL__CTL_OVER__CTL_OVER_SHM &&
        msg->host_id.len != SCHED_HOST_SIZE)
        return gp_err_set(err, -EINVAL, "over shared memory, and no host's id");
    if (strlen(msg->node) >= CTL_NAME_MAX)
        return gp_err_set(err, -EINVAL, "a node's name has at most %d characters",
                          CTL_NAME_MAX - 1);
    if ((unsigned)msg->near > SCHED_NEAR_FABRIC)
        return gp_err_set(err, -EINVAL, "unknown value %u of near",
                          (unsigned)msg->near);
    if (msg->span && (msg->near == GPUPOOL__CTL__CTL_NEAR__CTL_NEAR_ISLAND ||
                      msg->near == GPUPOOL__CTL__CTL_NEAR__CTL_NEAR_SERVER))
        return gp_err_set(
            err, -EINVAL,
            "cards near each other, of one %s, and of several servers "
            "(--span): leave one of the two out",
            msg->near == GPUPOOL__CTL__CTL_NEAR__CTL_NEAR_ISLAND ? "island" : "server");
    if ((unsigned)msg->placement > SCHED_FGD)
        return gp_err_set(err, -EINVAL, "unknown placement %u",
                          (unsigned)msg->placement);
    return 0;
}

static int
read_where(const Gpupool__Ctl__CtlOpen *msg, struct sched_where *where,
           struct gp_err *err)
{
    int r = 0;

    if (!gp_str_copy(where->model, sizeof(where->model), msg->model))
        return gp_err_set(err, -EINVAL, "a model has at most %d characters",
                          SCHED_MODEL_MAX - 1);
    if (msg->cc_min >= 10000 || msg->tflops > 1000000)
        return gp_err_set(err, -EINVAL,
                          "compute capability %u.%u, %u TFLOPS: no card "
                          "will ever have that",
                          msg->cc_min / 100, msg->cc_min % 100, msg->tflops);
    where->over = (uint32_t)msg->over;
    if (where->over == SCHED_OVER_SHM)
        memcpy(where->host, msg->host_id.data, sizeof(where->host));
    where->cc_min = msg->cc_min;
    where->tflops = msg->tflops;
    for (size_t i = 0; !r && i < msg->n_labels; i++)
        r = sched_where_add_label(where, msg->labels[i], err);
    for (size_t i = 0; !r && i < msg->n_prefer; i++)
        r = sched_where_add_prefer(where, msg->prefer[i], err);
    return r;
}

/* A class by name; work that runs only while nobody else wants the card is batch work
 * where there is such a class. */
static const struct sched_class *
open_class(const struct sched *sched, const Gpupool__Ctl__CtlOpen *msg)
{
    bool offline = msg->session_class == GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE;
    const struct sched_class *batch = sched_rules_class(sched->rules, "batch");

    if (!*msg->priority && offline && batch)
        return batch;
    return sched_rules_class(sched->rules, msg->priority);
}

static int
read_gang(const Gpupool__Ctl__CtlOpen *msg, struct sched_open *open, struct gp_err *err)
{
    if (!*msg->gang)
        return 0;
    if (strlen(msg->gang) >= SCHED_GANG_NAME_MAX)
        return gp_err_set(err, -EINVAL, "a gang's name has at most %d characters",
                          SCHED_GANG_NAME_MAX - 1);
    if (msg->gang_size < 2 || msg->gang_size > SCHED_GANG_MAX)
        return gp_err_set(err, -EINVAL, "a gang has 2 to %d members, not %u",
                          SCHED_GANG_MAX, msg->gang_size);
    if (!msg->wait && !msg->explain)
        return gp_err_set(err, -EINVAL,
                          "a member of a gang waits for the others (--wait)");
    open->gang = msg->gang;
    open->gang_size = msg->gang_size;
    return 0;
}

static int
read_queueing(const struct sched *sched, const Gpupool__Ctl__CtlOpen *msg,
              struct sched_open *open, struct gp_err *err)
{
    char names[200];

    open->class = open_class(sched, msg);
    if (!open->class) {
        sched_rules_class_names(sched->rules, names, sizeof(names));
        return gp_err_set(err, -EINVAL, "no priority class %.40s; there are: %s",
                          msg->priority, names);
    }
    if ((unsigned)msg->apart > GPUPOOL__CTL__CTL_APART__CTL_APART_SERVER)
        return gp_err_set(err, -EINVAL, "unknown value %u of apart",
                          (unsigned)msg->apart);
    open->apart_card = msg->apart != GPUPOOL__CTL__CTL_APART__CTL_APART_NOT;
    open->apart_server = msg->apart == GPUPOOL__CTL__CTL_APART__CTL_APART_SERVER;
    open->hold = msg->hold;
    open->once = msg->once;
    open->run_ms = gp_min(msg->run_ms, UINT64_C(366) * 24 * 3600 * 1000);
    open->spec.class_name = open->class->name;
    if (read_gang(msg, open, err) < 0)
        return -EINVAL;
    gp_str_copy_printable(open->node, sizeof(open->node), msg->node);
    open->where.unreached = sched_rules_unreached(sched->rules, open->node);
    return read_where(msg, &open->where, err);
}

/* Core by speed: what the fastest card known would need, until a card is chosen. */
static uint32_t
core_for(const struct sched *sched, const Gpupool__Ctl__CtlOpen *msg)
{
    uint32_t most = sched->pool->most_tflops;

    if (!msg->tflops)
        return msg->core;
    return most ? gp_min((100 * msg->tflops + most - 1) / most, 100u) : 1;
}

static int
read_open(const struct sched *sched, const Gpupool__Ctl__CtlOpen *msg,
          struct sched_open *open, struct gp_err *err)
{
    const struct sched_config *config = &sched->config;
    int r = check_strings(msg, err);

    if (r < 0)
        return r;
    open->req.policy = (enum ticket_policy)msg->policy;
    open->req.in_space = msg->spatial != GPUPOOL__CTL__CTL_SPATIAL__CTL_SPATIAL_OFF;
    open->req.placement =
        msg->placement ? (enum sched_placement)msg->placement : config->placement;
    open->req.server = *msg->server ? msg->server : NULL;
    open->req.near = (enum sched_near)msg->near;
    open->req.span = msg->span || open->req.near == SCHED_NEAR_FABRIC;
    open->req.has_uuid = msg->card_uuid.len;
    if (open->req.has_uuid)
        memcpy(open->req.uuid, msg->card_uuid.data, TICKET_UUID_SIZE);
    r = read_queueing(sched, msg, open, err);
    if (r < 0)
        return r;
    open->req.where = sched_where_any(&open->where) ? NULL : &open->where;
    r = sched_request_shape(&open->req, core_for(sched, msg), msg->memory_bytes,
                            msg->cards, msg->core_limit, err);
    if (r < 0)
        return r;
    open->spec.program = msg->program;
    open->spec.policy = open->req.policy;
    open->spec.offline = msg->session_class == GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE;
    open->spec.spatial = (enum ticket_spatial)msg->spatial;
    open->spec.core_limit = open->req.core_limit;
    open->spec.max_attachments =
        gp_min(msg->max_attachments ? msg->max_attachments : config->max_attachments,
               config->attachments_limit);
    open->spec.lease_ms =
        gp_min(msg->lease_ms ? msg->lease_ms : config->lease_ms, config->lease_max_ms);
    open->spec.lease_ms = gp_max(open->spec.lease_ms, config->lease_min_ms);
    open->spec.bound = msg->client_key.len;
    if (open->spec.bound)
        memcpy(open->spec.client_key, msg->client_key.data, TICKET_CLIENT_KEY_SIZE);
    return 0;
}

/* Explain: another pool would give it.  @here: why this one does not; may be NULL. */
static void
reply_elsewhere(struct sched_conn *conn, uint32_t id, const char *here,
                const struct sched_said *said)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlGrant grant = GPUPOOL__CTL__CTL_GRANT__INIT;
    Gpupool__Ctl__CtlReason msgs[CTL_REASONS_MAX], *list[CTL_REASONS_MAX];
    char servers[CTL_REASONS_MAX][2 * CTL_NAME_MAX], words[1200];
    const Gpupool__Ctl__CtlGrant *answer = said->answer;

    for (; grant.n_reasons < gp_min(answer->n_reasons, ARRAY_SIZE(msgs));
         grant.n_reasons++) {
        const Gpupool__Ctl__CtlReason *from = answer->reasons[grant.n_reasons];

        msgs[grant.n_reasons] = *from;
        snprintf(servers[grant.n_reasons], sizeof(servers[0]), "%s/%.63s", said->fits,
                 from->server);
        msgs[grant.n_reasons].server = servers[grant.n_reasons];
        list[grant.n_reasons] = &msgs[grant.n_reasons];
    }
    snprintf(words, sizeof(words), "%s%sin pool %s: %.400s", here ? here : "",
             here ? "; " : "", said->fits, answer->session);
    grant.session = words;
    grant.pool = (char *)(uintptr_t)said->fits;
    grant.reasons = list;
    grant.reasons_left_off =
        answer->reasons_left_off + (uint32_t)(answer->n_reasons - grant.n_reasons);
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_GRANT;
    reply.grant = &grant;
    sched_conn_reply(conn, &reply);
}

static void
refuse_no_fit(struct sched_conn *conn, uint32_t id, const struct sched_open *open,
              bool explain)
{
    struct sched_reasons reasons;
    bool again;
    size_t at;

    if (explain)
        sched_place_explain(conn->sched->pool, &open->req, NULL, &reasons);
    else
        sched_place_refusal(conn->sched->pool, &open->req, &reasons);
    again = !explain && !reasons.unknown &&
            sched_servers_expected(conn->sched, gp_now_ns());
    at = strlen(reasons.summary);
    if (explain)
        sched_wait_explain(conn->sched, open, reasons.summary + at,
                           sizeof(reasons.summary) - at);
    conn->sched->counters.refused += !again;
    gp_log_info("session", "%s: refused%s: %s", conn->peer,
                again ? ", to be asked again" : "", reasons.summary);
    if (open->said && open->said->answer)
        reply_elsewhere(conn, id, reasons.summary, open->said);
    else
        sched_conn_refuse_no_fit(conn, id, again ? RETRY_MS : 0, &reasons, open->said);
}

/* The request was for another pool only. */
static void
refuse_elsewhere(struct sched_conn *conn, uint32_t id, const struct sched_said *said)
{
    char words[400];

    if (said->answer) {
        reply_elsewhere(conn, id, NULL, said);
        return;
    }
    snprintf(words, sizeof(words), "pool %s: %s", said->list[0].pool,
             said->list[0].words);
    conn->sched->counters.refused++;
    gp_log_info("session", "%s: refused: %s", conn->peer, words);
    sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, words, NULL);
}

/* Explain: what would happen, and why; as a grant without a session. */
static void
reply_explain(struct sched_conn *conn, uint32_t id, const struct sched_request *req,
              const struct sched_decision *decision)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlGrant grant = GPUPOOL__CTL__CTL_GRANT__INIT;
    Gpupool__Ctl__CtlReason msgs[CTL_REASONS_MAX], *list[CTL_REASONS_MAX];
    char uuids[CTL_REASONS_MAX][TICKET_UUID_TEXT];
    struct sched_reasons reasons;

    sched_place_explain(conn->sched->pool, req, decision, &reasons);
    for (unsigned i = 0; i < reasons.n; i++) {
        gpupool__ctl__ctl_reason__init(&msgs[i]);
        ticket_uuid_format(reasons.list[i].card->facts.uuid, uuids[i]);
        msgs[i].server = (char *)reasons.list[i].server->name;
        msgs[i].card = uuids[i];
        msgs[i].words = reasons.list[i].words;
        list[i] = &msgs[i];
    }
    grant.session = reasons.summary;
    grant.by_node = sched_rules_by_node(conn->sched->rules);
    grant.reasons = list;
    grant.n_reasons = reasons.n;
    grant.reasons_left_off = reasons.left_off;
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_GRANT;
    reply.grant = &grant;
    sched_conn_reply(conn, &reply);
}

static bool
has_right(struct sched_conn *conn, enum sched_right right,
          const Gpupool__Ctl__CtlOpen *msg, struct gp_err *err)
{
    char words[256];

    if (sched_auth_allowed(conn, right, msg->token))
        return true;
    sched_auth_right_words(conn, right, words, sizeof(words));
    gp_err_set(err, -EACCES, "%s", words);
    return false;
}

/* What a session would get is said to whoever may read the status, which says more.
 * Who opens one once may be given one that another has opened, with its key. */
static bool
may_ask(struct sched_conn *conn, const Gpupool__Ctl__CtlOpen *msg, struct gp_err *err)
{
    if (!(msg->explain && sched_auth_allowed(conn, SCHED_MAY_READ, msg->token)) &&
        !has_right(conn, SCHED_MAY_OPEN, msg, err))
        return false;
    return !msg->once || has_right(conn, SCHED_MAY_END, msg, err);
}

int
sched_handle_open_check(struct sched_conn *conn, const Gpupool__Ctl__CtlOpen *msg,
                        struct sched_open *open, Gpupool__Ctl__CtlCode *code,
                        struct gp_err *err)
{
    const struct sched *sched = conn->sched;
    char words[256], name[CTL_OWNER_MAX];
    const char *owner;

    memset(open, 0, sizeof(*open));
    *code = GPUPOOL__CTL__CTL_CODE__CTL_VERSION;
    if (msg->major != CTL_MAJOR)
        return gp_err_set(err, -EPROTO,
                          "the client speaks version %u of the control protocol, this "
                          "scheduler %u",
                          msg->major, CTL_MAJOR);
    *code = GPUPOOL__CTL__CTL_CODE__CTL_DENIED;
    if (!may_ask(conn, msg, err))
        return -EACCES;
    owner = msg->n_via ? sched_peer_owner_of(conn, msg->owner, open->owner,
                                             sizeof(open->owner))
                       : sched_peer_owner(conn, msg->owner);
    if (!owner && msg->n_via)
        return gp_err_set(err, -EACCES,
                          "a request that another pool hands on needs the token of a "
                          "user with the right to forward (--users-file), and an owner "
                          "that is not too long");
    if (!owner)
        return gp_err_set(err, -EACCES,
                          "%.100s is a user with a token of its own, which was not "
                          "shown (GPUPOOL_TOKEN_FILE, --token-file)",
                          msg->owner);
    if (!strncmp(owner, CTL_OWNER_KUBE, strlen(CTL_OWNER_KUBE)) &&
        !sched_peer_may(conn, SCHED_MAY_END))
        return gp_err_set(err, -EACCES,
                          "owners that begin with " CTL_OWNER_KUBE
                          " are those of Kubernetes' claims and pods: this needs the "
                          "right to end sessions");
    *code = GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST;
    if (read_open(sched, msg, open, err) < 0 || sched_fed_check(sched, msg, err) < 0)
        return -EINVAL;
    *code = GPUPOOL__CTL__CTL_CODE__CTL_LIMIT;
    /* As the session will have it: caps and quotas are looked up by this name. */
    gp_utf8_copy(name, sizeof(name), owner);
    gp_str_copy(open->owner, sizeof(open->owner), name);
    open->spec.owner = open->owner;
    if (!msg->explain &&
        sched_open_is_full(sched, open->owner, 1, words, sizeof(words)))
        return gp_err_set(err, -EDQUOT, "%s", words);
    return 0;
}

static void
refuse_open(struct sched_conn *conn, uint32_t id, Gpupool__Ctl__CtlCode code,
            const char *words)
{
    conn->sched->counters.refused++;
    gp_log_info("session", "%s: refused: %s", conn->peer, words);
    sched_conn_refuse(conn, id, code, words, NULL);
}

/* It does not fit, now (@r) or ever: wait if that is asked for, or refuse. */
static void
not_now(struct sched_conn *conn, uint32_t id, const Gpupool__Ctl__CtlOpen *msg,
        const struct sched_open *open, int r, const char *words)
{
    struct sched_open plain = *open;
    struct gp_err err = {0};

    /* A quota is about what this pool gives, and not got round by another's. */
    if (r == -ENOSPC && !open->said && sched_fed_wanted(conn->sched, msg) &&
        sched_fed_ask(conn, id, msg, open->spec.owner) == 0)
        return;
    if (msg->wait && !msg->explain && r != -EFBIG) {
        plain.said = NULL; /* it outlives what they said */
        r = sched_wait_add(conn, id, &plain, msg, &err);
        if (r < 0)
            refuse_open(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                        gp_err_msg(&err, r));
        return;
    }
    if (*words) {
        refuse_open(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT, words);
        return;
    }
    refuse_no_fit(conn, id, open, msg->explain);
}

/* False: it has been answered, or waits. */
static bool
place_open(struct sched_conn *conn, uint32_t id, const Gpupool__Ctl__CtlOpen *msg,
           const struct sched_open *open, struct sched_decision *ret)
{
    struct sched *sched = conn->sched;
    struct sched_tenant *tenant =
        sched_tenant_ref(&sched->sessions.tenants, open->spec.owner);
    char words[256] = "";
    int r = -ENOMEM;

    if (tenant) {
        if (!msg->explain)
            sched_mix_note(&sched->pool->mix, &open->req);
        sched_wait_serve(sched); /* who waits comes first */
        r = sched_open_place(sched, open, tenant, ret, words, sizeof(words));
        if (!r && sched_wait_blocked(tenant, ret)) {
            r = -EDQUOT;
            snprintf(words, sizeof(words),
                     "quota: what tenant %.100s has left is kept for an older request",
                     tenant->name);
        }
        if (!r && open->gang && !msg->explain)
            r = -ENOSPC; /* with the others only */
    }
    if (r < 0)
        not_now(conn, id, msg, open, r, words);
    sched_tenant_unref(&sched->sessions.tenants, tenant);
    return r == 0;
}

/* Only in another pool. */
static void
open_elsewhere(struct sched_conn *conn, uint32_t id, const Gpupool__Ctl__CtlOpen *msg,
               const struct sched_open *open)
{
    if (open->said)
        refuse_elsewhere(conn, id, open->said);
    else if (!sched_fed_wanted(conn->sched, msg))
        refuse_open(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                    "a request that another pool hands on goes no further");
    else if (sched_fed_ask(conn, id, msg, open->spec.owner) < 0)
        refuse_open(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, "out of memory");
}

void
sched_handle_open_found(struct sched_conn *conn, uint32_t id,
                        struct sched_session *session)
{
    struct sched *sched = conn->sched;

    sched_commit_after(sched, session->open_serial); /* it may be being opened */
    sched_session_lease(&sched->sessions, session,
                        gp_now_ns() + session->lease_ms * GP_NS_PER_MS);
    sched_reply_grant(conn, id, session);
}

void
sched_handle_open_again(struct sched_conn *conn, uint32_t id,
                        const Gpupool__Ctl__CtlOpen *msg, const struct sched_said *said)
{
    struct sched *sched = conn->sched;
    struct sched_open open;
    struct sched_decision decision;
    struct sched_session *session = NULL;
    struct gp_err err = {0};
    Gpupool__Ctl__CtlCode code;
    int r = sched_handle_open_check(conn, msg, &open, &code, &err);

    open.said = said;
    if (!conn->waiting && !sched_fed_asks(conn))
        sched_fed_end(conn); /* what waited before has been answered */
    if (!r && (conn->waiting || sched_fed_asks(conn))) {
        code = GPUPOOL__CTL__CTL_CODE__CTL_LIMIT;
        r = gp_err_set(&err, -EBUSY, "a request of this connection waits already");
    }
    if (!r && msg->once)
        session = sched_sessions_find_owner(&sched->sessions, open.spec.owner);
    if (session) {
        sched_handle_open_found(conn, id, session);
        return;
    }
    if (!r && *msg->pool) {
        open_elsewhere(conn, id, msg, &open);
        return;
    }
    if (!r && !place_open(conn, id, msg, &open, &decision))
        return;
    if (!r && msg->explain) {
        reply_explain(conn, id, &open.req, &decision);
        return;
    }
    if (!r) {
        code = GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL;
        r = sched_open_take(sched, &open, &decision, &session, &err);
    }
    if (r < 0) {
        refuse_open(conn, id, code, gp_err_msg(&err, r));
        return;
    }
    sched_commit_open(conn, id, session, msg->hold);
}

void
sched_handle_open(struct sched_conn *conn, uint32_t id,
                  const Gpupool__Ctl__CtlOpen *msg)
{
    sched_handle_open_again(conn, id, msg, NULL);
}

void
sched_handle_opened(struct sched_conn *conn, uint32_t id,
                    const struct sched_session *session)
{
    sched_reply_grant(conn, id, session);
}
