/* SPDX-License-Identifier: Apache-2.0 */
#include "ctrl_pool.h"

#include "ctl_call.h"
#include "ctl_limits.h"
#include "ctl_prove.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "tls_policy.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define CALL_NS (3 * GP_NS_PER_S)
#define CONNECT_NS (500 * GP_NS_PER_MS)
#define RETRY_NS (1 * GP_NS_PER_S)
/* A scheduler may name a leader that has just ceased to be one. */
#define HOPS_MAX 3
/* The scheduler answers a watch at the latest after this; a link on which nothing comes
 * for twice as long is dead. */
#define WATCH_MS 30000

static void on_timer(struct gp_loop_timer *timer);

static void
arm(struct ctrl_pool *pool, uint64_t after_ns)
{
    gp_loop_timer_set(pool->loop, &pool->timer, gp_now_ns() + after_ns, on_timer);
}

/* ---------------------------------------------------------------- requests -- */

/* Read for each connection: the file may have been renewed.  One that cannot be read is
 * as good as none, and the log says why the scheduler refuses what follows. */
static char *
token_of(struct ctrl_pool *pool)
{
    CLEANUP_FREE char *text = NULL;
    struct gp_err err = {0};
    uint32_t skipped;
    size_t len;
    int r = pool->token_file
                ? gp_file_read(pool->token_file, CTL_TOKEN_MAX, &text, &len, &err)
                : -ENOENT;

    if (r < 0 && pool->token_file && gp_log_limit_ok(&pool->token_log, &skipped))
        gp_log_warn("pool", "token file: %s (%u such lines left out)",
                    gp_err_msg(&err, r), skipped);
    if (r < 0)
        return strdup("");
    text[strcspn(text, "\r\n")] = '\0';
    return TAKE_PTR(text);
}

static void
hang_up(struct ctrl_pool *pool)
{
    ctl_link_close(&pool->link);
}

/* How long an answer is waited for. */
static uint64_t
patience_ns(const struct ctrl_pool *pool)
{
    return pool->patience_ms ? pool->patience_ms * GP_NS_PER_MS : (uint64_t)CALL_NS;
}

static int
send_request(struct ctrl_pool *pool, Gpupool__Ctl__CtlRequest *req,
             Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    req->id = ++pool->next_id;
    pool->requests++;
    return ctl_call(&pool->link, req, gp_now_ns() + patience_ns(pool), ret_reply, err);
}

/* By the environment's choice, as for the command line.  Where nobody answers, the
 * next of the schedulers is asked the next time. */
static int
link_up(struct ctrl_pool *pool, struct ctl_link *ret, struct gp_err *err)
{
    char address[CTL_ENDPOINT_MAX];
    struct ctl_pins pins;
    enum tls_policy policy;
    int r = tls_policy_parse(getenv(TLS_POLICY_ENV), TLS_POLICY_ENV, &policy, err);

    if (r == 0)
        r = ctl_link_pins(&pins, err);
    if (r < 0)
        return r;
    ctl_route_address(&pool->route, address);
    r = ctl_link_open(ret, address, policy == TLS_OFF ? NULL : tls_linked(), &pins,
                      gp_now_ns() + CONNECT_NS, true, err);
    if (r < 0)
        ctl_route_next(&pool->route);
    return r;
}

/* A connection that has just been made, on which the token is to be proven. */
struct fresh {
    struct ctrl_pool *pool;
    const struct ctl_link *link;
    uint64_t deadline_ns;
};

static int
send_proof(void *arg, Gpupool__Ctl__CtlRequest *req, Gpupool__Ctl__CtlReply **ret_reply,
           struct gp_err *err)
{
    const struct fresh *fresh = arg;

    req->id = ++fresh->pool->next_id;
    fresh->pool->requests++;
    return ctl_call(fresh->link, req, fresh->deadline_ns, ret_reply, err);
}

/* Prove the token over @link, which blocks, to the scheduler at @address.  -EACCES: it
 * refuses it. */
static int
prove(struct ctrl_pool *pool, const struct ctl_link *link, const char *address,
      uint64_t patience_ns, struct gp_err *err)
{
    struct fresh fresh = {pool, link, gp_now_ns() + patience_ns};
    CLEANUP_FREE char *token = token_of(pool);
    int r;

    if (!token)
        return -ENOMEM;
    r = ctl_prove(send_proof, &fresh,
                  pool->only_asks ? GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_CLIENT
                                  : GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_ADMIN,
                  token, address, ctl_link_key(link), err);
    explicit_bzero(token, strlen(token));
    return r == -EREMOTE ? -EACCES : r;
}

/* The connection for requests. */
static int
dial(struct ctrl_pool *pool, struct gp_err *err)
{
    unsigned n = ctl_addresses_count(pool->route.list);
    char address[CTL_ENDPOINT_MAX];
    int r = -ENOTCONN;

    for (unsigned i = 0; r < 0 && i <= n; i++) { /* a leader that is gone is one more */
        ctl_route_address(&pool->route, address);
        r = link_up(pool, &pool->link, err);
    }
    if (r < 0)
        return gp_err_wrap(err, r, "scheduler not reachable");
    r = prove(pool, &pool->link, address, patience_ns(pool), err);
    if (r < 0)
        hang_up(pool);
    else if (pool->connected && strcmp(pool->watched, address) != 0)
        arm(pool, 0); /* the watch comes along */
    return r;
}

static int
call_once(struct ctrl_pool *pool, Gpupool__Ctl__CtlRequest *req,
          Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    int r = pool->link.fd < 0 ? dial(pool, err) : 0;

    if (r < 0)
        return r;
    pool->sent = true;
    r = send_request(pool, req, ret_reply, err);
    if (r < 0 && r != -EREMOTE)
        hang_up(pool);
    return r;
}

/* A kept connection may have been closed while nothing was said. */
static int
call_kept(struct ctrl_pool *pool, Gpupool__Ctl__CtlRequest *req,
          Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    bool kept = pool->link.fd >= 0;
    int r = call_once(pool, req, ret_reply, err);

    if (r < 0 && r != -EREMOTE && r != -ETIMEDOUT && kept)
        r = call_once(pool, req, ret_reply, err);
    return r;
}

bool
ctrl_pool_follow(struct ctrl_pool *pool, const Gpupool__Ctl__CtlReply *reply)
{
    return reply && reply->error &&
           reply->error->code == GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER &&
           ctl_route_follow(&pool->route, reply->error->leader);
}

/* While none leads the request is refused, and its owner asks again later. */
static int
call(struct ctrl_pool *pool, Gpupool__Ctl__CtlRequest *req,
     Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    int r = call_kept(pool, req, ret_reply, err);

    for (int hops = 0; r == -EREMOTE && hops < HOPS_MAX; hops++) {
        bool another =
            (*ret_reply)->error->code == GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER;

        if (another)
            hang_up(pool);
        if (!another || !ctrl_pool_follow(pool, *ret_reply))
            break;
        ctl_reply_free(TAKE_PTR(*ret_reply));
        r = call_kept(pool, req, ret_reply, err);
    }
    return r;
}

static int
errno_of(const Gpupool__Ctl__CtlError *error)
{
    switch (error->code) {
    case GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT:
    case GPUPOOL__CTL__CTL_CODE__CTL_LIMIT:
        return -ENOSPC;
    case GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND:
        return -ENOENT;
    case GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST:
        return -EINVAL;
    case GPUPOOL__CTL__CTL_CODE__CTL_DENIED:
    case GPUPOOL__CTL__CTL_CODE__CTL_VERSION:
        return -EACCES;
    default:
        return -EAGAIN;
    }
}

static int
ask_pool(struct ctrl_pool *pool, Gpupool__Ctl__CtlRequest *req,
         Gpupool__Ctl__CtlReply__BodyCase want, Gpupool__Ctl__CtlReply **ret_reply,
         struct gp_err *err)
{
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    int r;

    pool->sent = false;
    r = call(pool, req, &reply, err);
    pool->sent &= r < 0 && r != -EREMOTE;
    if (r == -EREMOTE)
        return errno_of(reply->error);
    if (r < 0)
        return r == -ETIMEDOUT || r == -EACCES ? r : -EHOSTUNREACH;
    if (reply->body_case != want)
        return gp_err_set(err, -EPROTO, "the scheduler answered something else");
    *ret_reply = TAKE_PTR(reply);
    return 0;
}

/* ---------------------------------------------------------------- sessions -- */

void
ctrl_pool_uuid(char text[48], const ProtobufCBinaryData *uuid)
{
    char hex[40] = "";

    if (uuid->len == 16)
        gp_str_hex(hex, uuid->data, 16);
    snprintf(text, 48, "GPU-%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
             hex + 16, hex + 20);
}

int
ctrl_pool_grant(const Gpupool__Ctl__CtlGrant *grant, struct ctrl_grant *ret,
                struct gp_err *err)
{
    if (!grant->n_slices || !grant->n_tickets ||
        grant->lease_key.len != sizeof(ret->key))
        return gp_err_set(err, -EPROTO, "the scheduler's grant is incomplete");
    memset(ret, 0, sizeof(*ret));
    ret->id = grant->session_id;
    ret->lease_ms = grant->lease_ms;
    memcpy(ret->key, grant->lease_key.data, sizeof(ret->key));
    gp_str_copy(ret->session, sizeof(ret->session), grant->session);
    gp_str_copy(ret->server, sizeof(ret->server), grant->tickets[0]->server);
    gp_str_copy(ret->endpoint, sizeof(ret->endpoint), grant->tickets[0]->endpoint);
    gp_str_copy(ret->model, sizeof(ret->model), grant->slices[0]->card_name);
    ret->memory = grant->slices[0]->memory_bytes;
    ret->n_slices = (uint32_t)gp_min(grant->n_slices, ARRAY_SIZE(ret->uuids));
    for (uint32_t i = 0; i < ret->n_slices; i++)
        ctrl_pool_uuid(ret->uuids[i], &grant->slices[i]->card_uuid);
    return 0;
}

/* The 16 bytes of "GPU-..."; 0: it is none. */
static size_t
uuid_bytes(const char *text, uint8_t bytes[16])
{
    size_t n = 0;

    text += strncmp(text, "GPU-", 4) == 0 ? 4 : 0;
    for (; *text && n < 32; text++) {
        static const char DIGITS[] = "0123456789abcdef";
        const char *digit =
            *text == '-' ? NULL : strchr(DIGITS, tolower((unsigned char)*text));

        if (*text == '-')
            continue;
        if (!digit)
            return 0;
        bytes[n / 2] = (uint8_t)(bytes[n / 2] << 4 | (digit - DIGITS));
        n++;
    }
    return n == 32 && !*text ? 16 : 0;
}

static int
pin(Gpupool__Ctl__CtlOpen *open, const struct kube_ask *ask, uint8_t bytes[16],
    struct gp_err *err)
{
    if (!ask->card || !*ask->card)
        return 0;
    open->card_uuid.len = uuid_bytes(ask->card, bytes);
    open->card_uuid.data = bytes;
    return open->card_uuid.len
               ? 0
               : gp_err_set(err, -EINVAL, "\"%s\" is not the uuid of a card",
                            ask->card);
}

static void
open_message(Gpupool__Ctl__CtlOpen *open, const struct kube_ask *ask,
             const struct kube_class *class)
{
    gpupool__ctl__ctl_open__init(open);
    open->major = CTL_MAJOR;
    open->core = ask->core;
    open->memory_bytes = ask->memory;
    open->node = (char *)(ask->node ? ask->node : "");
    open->once = true; /* a controller that has restarted finds what it has opened */
    if (!class)
        return;
    open->policy = (Gpupool__Ctl__CtlPolicy) class->policy;
    open->placement = (Gpupool__Ctl__CtlPlacement) class->placement;
    open->session_class = (Gpupool__Ctl__CtlClass) class->offline;
    open->spatial = (Gpupool__Ctl__CtlSpatial) class->spatial;
}

/* The same with the pool's token, which is written to *@at, a field of @req. */
static int
ask_with_token(struct ctrl_pool *pool, Gpupool__Ctl__CtlRequest *req, char **at,
               Gpupool__Ctl__CtlReply__BodyCase want,
               Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    CLEANUP_FREE char *token = token_of(pool);
    int r;

    if (!token)
        return -ENOMEM;
    *at = ctl_token_shown(token);
    r = ask_pool(pool, req, want, ret_reply, err);
    explicit_bzero(token, strlen(token));
    return r;
}

static int
send_open(struct ctrl_pool *pool, Gpupool__Ctl__CtlOpen *open,
          Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    req.open = open;
    return ask_with_token(pool, &req, &open->token, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT,
                          ret_reply, err);
}

int
ctrl_pool_open(struct ctrl_pool *pool, const char *name, const char *program,
               const struct kube_ask *ask, const struct kube_class *class,
               struct ctrl_grant *ret, struct gp_err *err)
{
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP_FREE char *owner = gp_str_printf(CTL_OWNER_KUBE "%s", name);
    Gpupool__Ctl__CtlOpen open;
    uint8_t uuid[16] = {0};
    int r;

    if (!owner)
        return -ENOMEM;
    open_message(&open, ask, class);
    r = pin(&open, ask, uuid, err);
    if (r < 0)
        return r;
    open.owner = owner;
    open.program = (char *)program;
    open.lease_ms = pool->lease_ms;
    r = send_open(pool, &open, &reply, err);
    return r < 0 ? r : ctrl_pool_grant(reply->grant, ret, err);
}

int
ctrl_pool_pack_wait(struct ctrl_pool *pool, const struct ctrl_wanted *wanted,
                    const struct ctrl_place_proof *place, uint8_t **ret_bytes,
                    size_t *ret_len, struct gp_err *err)
{
    CLEANUP_FREE char *owner = gp_str_printf(CTL_OWNER_KUBE "%s", wanted->name);
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlOpen open;
    uint8_t uuid[16] = {0};
    int r;

    if (!owner)
        return -ENOMEM;
    open_message(&open, wanted->ask, wanted->class);
    r = pin(&open, wanted->ask, uuid, err);
    if (r < 0)
        return r;
    open.owner = owner;
    open.program = (char *)(uintptr_t)wanted->program;
    open.lease_ms = pool->lease_ms;
    open.wait = true;
    open.gang = (char *)(uintptr_t)(wanted->gang ? wanted->gang : "");
    open.gang_size = wanted->gang_size;
    open.place.len = place->len;
    open.place.data = (uint8_t *)(uintptr_t)place->bytes;
    req.id = 1;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    req.open = &open;
    *ret_bytes = malloc(gpupool__ctl__ctl_request__get_packed_size(&req));
    if (!*ret_bytes)
        return -ENOMEM;
    *ret_len = gpupool__ctl__ctl_request__pack(&req, *ret_bytes);
    return 0;
}

static int
send_many(struct ctrl_pool *pool, Gpupool__Ctl__CtlOpenMany *many,
          Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN_MANY;
    req.open_many = many;
    return ask_with_token(pool, &req, &many->token,
                          GPUPOOL__CTL__CTL_REPLY__BODY_OPENED_MANY, ret_reply, err);
}

static int
many_result(const Gpupool__Ctl__CtlOpenedMany *opened, size_t n, size_t *ret_failed,
            struct gp_err *err)
{
    const Gpupool__Ctl__CtlError *error = opened->error;

    if (!error)
        return 0;
    if (opened->failed >= n)
        return gp_err_set(err, -EPROTO, "the scheduler's answer names none of them");
    *ret_failed = opened->failed;
    return gp_err_set(err, errno_of(error), "%s", error->words);
}

int
ctrl_pool_open_many(struct ctrl_pool *pool, const struct ctrl_wanted *list, size_t n,
                    size_t *ret_failed, struct gp_err *err)
{
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    Gpupool__Ctl__CtlOpenMany many = GPUPOOL__CTL__CTL_OPEN_MANY__INIT;
    Gpupool__Ctl__CtlOpen opens[CTL_OPEN_MANY_MAX], *msgs[CTL_OPEN_MANY_MAX];
    char owners[CTL_OPEN_MANY_MAX][CTL_OWNER_MAX];
    uint8_t uuids[CTL_OPEN_MANY_MAX][16];
    int r = 0;

    for (size_t i = 0; !r && i < n; i++) {
        int len =
            snprintf(owners[i], sizeof(owners[i]), CTL_OWNER_KUBE "%s", list[i].name);

        *ret_failed = i;
        open_message(&opens[i], list[i].ask, list[i].class);
        r = (size_t)len < sizeof(owners[i])
                ? pin(&opens[i], list[i].ask, uuids[i], err)
                : gp_err_set(err, -EINVAL, "the name %s is too long", list[i].name);
        opens[i].owner = owners[i];
        opens[i].program = (char *)list[i].program;
        opens[i].lease_ms = pool->lease_ms;
        msgs[i] = &opens[i];
    }
    many.opens = msgs;
    many.n_opens = n;
    if (r < 0)
        return r;
    r = send_many(pool, &many, &reply, err);
    if (r == -EINVAL) /* it took the request for none, and the connection is gone */
        return -ENOTSUP;
    return r < 0 ? r : many_result(reply->opened_many, n, ret_failed, err);
}

/* The chosen cards come first among the reasons. */
int
ctrl_pool_explain(struct ctrl_pool *pool, const struct kube_ask *ask,
                  const struct kube_class *class, char ret_server[64],
                  bool *ret_by_node, struct gp_err *err)
{
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    Gpupool__Ctl__CtlOpen open;
    int r;

    open_message(&open, ask, class);
    open.owner = (char *)"kube-extender";
    open.explain = true;
    open.once = false;
    r = send_open(pool, &open, &reply, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < reply->grant->n_reasons; i++)
        if (strncmp(reply->grant->reasons[i]->words, "chosen", 6) == 0)
            gp_str_copy(ret_server, 64, reply->grant->reasons[i]->server);
    *ret_by_node = reply->grant->by_node;
    return 0;
}

static int
renew_one(struct ctrl_pool *pool, struct ctrl_renewal *one, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRenew renew = GPUPOOL__CTL__CTL_RENEW__INIT;
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;

    renew.session_id = one->id;
    renew.lease_key.data = (uint8_t *)(uintptr_t)one->key;
    renew.lease_key.len = CTL_LEASE_KEY_SIZE;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW;
    req.renew = &renew;
    one->r = ask_pool(pool, &req, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT, &reply, err);
    pool->single =
        one->r || !reply->grant->tickets_unix; /* it may be a newer one now */
    return one->r == -ENOENT ? 0 : one->r;
}

/* A session of that number with another key is another session. */
static int
renewal_result(const Gpupool__Ctl__CtlRenewedOne *one)
{
    Gpupool__Ctl__CtlCode code =
        one->error ? one->error->code : GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL;

    if (one->lease_ms)
        return 0;
    return code == GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND ||
                   code == GPUPOOL__CTL__CTL_CODE__CTL_DENIED
               ? -ENOENT
               : -EAGAIN;
}

/* Pods fetch their tickets themselves. */
static int
renew_many(struct ctrl_pool *pool, struct ctrl_renewal *list, size_t n,
           struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRenewMany many = GPUPOOL__CTL__CTL_RENEW_MANY__INIT;
    Gpupool__Ctl__CtlRenewOne ones[CTL_RENEW_MAX], *msgs[CTL_RENEW_MAX];
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    int r;

    for (size_t i = 0; i < n; i++) {
        gpupool__ctl__ctl_renew_one__init(&ones[i]);
        ones[i].session_id = list[i].id;
        ones[i].lease_key.data = (uint8_t *)(uintptr_t)list[i].key;
        ones[i].lease_key.len = CTL_LEASE_KEY_SIZE;
        msgs[i] = &ones[i];
    }
    many.sessions = msgs;
    many.n_sessions = n;
    many.no_tickets = true;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW_MANY;
    req.renew_many = &many;
    r = ask_pool(pool, &req, GPUPOOL__CTL__CTL_REPLY__BODY_RENEWED, &reply, err);
    if (r < 0)
        return r;
    if (reply->renewed->n_sessions != n)
        return gp_err_set(err, -EPROTO, "the scheduler's answer is incomplete");
    for (size_t i = 0; i < n; i++)
        list[i].r = renewal_result(reply->renewed->sessions[i]);
    return 0;
}

int
ctrl_pool_renew(struct ctrl_pool *pool, struct ctrl_renewal *list, size_t n,
                struct gp_err *err)
{
    int r = pool->single ? -EINVAL : renew_many(pool, list, n, err);

    if (r != -EINVAL)
        return r;
    pool->single = true; /* it took the request for none, and the connection is gone */
    r = 0;
    for (size_t i = 0; !r && i < n; i++)
        r = renew_one(pool, &list[i], err);
    return r;
}

static int
send_close(struct ctrl_pool *pool, uint64_t id, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose close_msg = GPUPOOL__CTL__CTL_CLOSE__INIT;
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    int r;

    close_msg.session_id = id;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &close_msg;
    r = ask_with_token(pool, &req, &close_msg.token,
                       GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED, &reply, err);
    return r == -ENOENT ? 0 : r;
}

int
ctrl_pool_close(struct ctrl_pool *pool, uint64_t id, uint32_t patience_ms,
                struct gp_err *err)
{
    int r;

    pool->patience_ms = patience_ms;
    r = send_close(pool, id, err);
    pool->patience_ms = 0;
    /* The answer comes when the servers have ended their parts, which a lost one never
     * does.  Or the request was not read: a second one tells, since a session that is
     * closing is not found any more. */
    return r == -ETIMEDOUT ? send_close(pool, id, err) : r;
}

int
ctrl_pool_find(struct ctrl_pool *pool, const char *name, uint64_t *ret_id,
               struct gp_err *err)
{
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP_FREE char *owner = gp_str_printf(CTL_OWNER_KUBE "%s", name);
    int r = owner ? ctrl_pool_status(pool, true, &reply, err) : -ENOMEM;

    for (size_t i = 0; !r && i < reply->status->n_sessions; i++)
        if (strcmp(reply->status->sessions[i]->owner, owner) == 0) {
            *ret_id = reply->status->sessions[i]->session_id;
            return 0;
        }
    return r ? r : -ENOENT;
}

int
ctrl_pool_status(struct ctrl_pool *pool, bool sessions,
                 Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlStatus status = GPUPOOL__CTL__CTL_STATUS__INIT;

    status.servers_only = !sessions;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS;
    req.status = &status;
    return ask_with_token(pool, &req, &status.token,
                          GPUPOOL__CTL__CTL_REPLY__BODY_STATUS, ret_reply, err);
}

/* ------------------------------------------------------------------- watch -- */

static void
disconnect(struct ctrl_pool *pool)
{
    if (pool->connected)
        gp_msg_conn_fini(&pool->conn);
    pool->connected = false;
}

static void
send_watch(struct ctrl_pool *pool)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlWatchPool watch = GPUPOOL__CTL__CTL_WATCH_POOL__INIT;
    uint8_t bytes[64];

    watch.seen = pool->seen;
    watch.timeout_ms = WATCH_MS;
    req.id = 1;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_WATCH_POOL;
    req.watch_pool = &watch;
    if (gp_msg_conn_send(&pool->conn, bytes,
                         gpupool__ctl__ctl_request__pack(&req, bytes)) < 0)
        disconnect(pool);
    arm(pool, pool->connected ? 2 * WATCH_MS * GP_NS_PER_MS : RETRY_NS);
}

static void
on_msg(struct gp_msg_conn *conn, const void *data, size_t len)
{
    struct ctrl_pool *pool = container_of(conn, struct ctrl_pool, conn);
    CLEANUP(ctl_reply_freep)
    Gpupool__Ctl__CtlReply *reply = gpupool__ctl__ctl_reply__unpack(NULL, len, data);

    if (!reply || reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_POOL_CHANGE) {
        disconnect(pool);
        arm(pool, ctrl_pool_follow(pool, reply) ? 0 : RETRY_NS);
        return;
    }
    if (pool->seen != reply->pool_change->now) {
        pool->seen = reply->pool_change->now;
        pool->on_change(pool);
    }
    send_watch(pool);
}

static void
on_close(struct gp_msg_conn *conn, int code)
{
    struct ctrl_pool *pool = container_of(conn, struct ctrl_pool, conn);

    disconnect(pool);
    arm(pool, RETRY_NS);
}

int
ctrl_pool_dial(struct ctrl_pool *pool, char address[CTL_ENDPOINT_MAX],
               struct gp_msg_conn *conn,
               void (*msg)(struct gp_msg_conn *, const void *, size_t),
               void (*closed)(struct gp_msg_conn *, int), struct gp_err *err)
{
    struct ctl_link link;
    int r;

    ctl_route_address(&pool->route, address);
    r = link_up(pool, &link, err);
    if (r < 0)
        return r;
    r = prove(pool, &link, address, CONNECT_NS, err);
    if (r == 0 && fcntl(link.fd, F_SETFL, O_NONBLOCK) < 0)
        r = -errno;
    if (r == 0)
        r = gp_msg_conn_init(conn, pool->loop, link.fd, CTL_REPLY_MAX, CTL_REQUEST_MAX,
                             msg, closed);
    if (r < 0)
        ctl_link_close(&link);
    else
        conn->wire = link.wire;
    return r;
}

/* Connect again, or the answer has not come. */
static void
on_timer(struct gp_loop_timer *timer)
{
    struct ctrl_pool *pool = container_of(timer, struct ctrl_pool, timer);
    struct gp_err err = {0};
    int r;

    disconnect(pool);
    r = ctrl_pool_dial(pool, pool->watched, &pool->conn, on_msg, on_close, &err);
    if (r < 0) {
        gp_log_debug("pool", "%s", gp_err_msg(&err, r));
        arm(pool, RETRY_NS);
        return;
    }
    pool->connected = true;
    pool->seen = 0; /* a scheduler that restarted counts anew */
    send_watch(pool);
}

void
ctrl_pool_watch(struct ctrl_pool *pool, struct gp_loop *loop,
                void (*on_change)(struct ctrl_pool *pool))
{
    pool->loop = loop;
    pool->on_change = on_change;
    arm(pool, 0);
}

void
ctrl_pool_fini(struct ctrl_pool *pool)
{
    gp_loop_timer_del(&pool->timer);
    disconnect(pool);
    ctl_link_close(&pool->link);
}
