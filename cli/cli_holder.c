/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_holder.h"

#include "cli_ctl.h"
#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Connecting blocks the loop, so it must be short. */
#define CONNECT_NS (500 * GP_NS_PER_MS)
#define RETRY_MIN_NS (250 * GP_NS_PER_MS)
#define RETRY_MAX_NS (2 * GP_NS_PER_S)
/* Sessions that come this soon after each other are held by one request. */
#define GATHER_NS (10 * GP_NS_PER_MS)
/* Of a renewal: a place for each session, and what is around them. */
#define REQUEST_MAX (CTL_RENEW_MAX * 36 + 64)

static void on_timer(struct gp_loop_timer *timer);
static void plan(struct cli_holder *h);

/* -------------------------------------------------------------- connection -- */

static void
arm(struct cli_holder *h, uint64_t after_ns)
{
    gp_loop_timer_set(h->loop, &h->timer, gp_now_ns() + after_ns, on_timer);
}

static void
disconnect(struct cli_holder *h)
{
    if (h->connected)
        gp_msg_conn_fini(&h->conn);
    h->connected = false;
    h->request = 0;
}

/* Come back soon, then less often. */
static void
retry(struct cli_holder *h)
{
    uint64_t pause = RETRY_MIN_NS << gp_min(h->attempts++, 3u);

    disconnect(h);
    ctl_route_next(&h->route);
    if (h->on_trouble)
        h->on_trouble(h);
    arm(h, gp_min(pause, RETRY_MAX_NS));
}

static void on_msg(struct gp_msg_conn *conn, const void *data, size_t len);

static void
on_close(struct gp_msg_conn *conn, int code)
{
    (void)code;
    retry(container_of(conn, struct cli_holder, conn));
}

int
cli_holder_use(struct cli_holder *h, struct ctl_link *link)
{
    int r;

    if (fcntl(link->fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    r = gp_msg_conn_init(&h->conn, h->loop, link->fd, CTL_REPLY_MAX, CTL_REQUEST_MAX,
                         on_msg, on_close);
    h->connected = !r;
    if (r == 0) { /* both are the connection's now */
        h->conn.wire = TAKE_PTR(link->wire);
        link->fd = -1;
    }
    return r;
}

/* The scheduler's key is that of the first connection, or one that it named since. */
static int
connect_again(struct cli_holder *h)
{
    CLEANUP(ctl_link_close) struct ctl_link link = {.fd = -1};
    const struct tls_api *tls = NULL;
    char address[CTL_ENDPOINT_MAX];
    int r = cli_ctl_tls(&tls, NULL);

    ctl_route_address(&h->route, address);
    if (r == 0)
        r = ctl_link_open(&link, address, tls, &h->keys, gp_now_ns() + CONNECT_NS,
                          false, NULL);
    return r < 0 ? r : cli_holder_use(h, &link);
}

void
cli_holder_init(struct cli_holder *h, struct gp_loop *loop, const char *list,
                const char *address, const struct ctl_pins *keys)
{
    memset(h, 0, sizeof(*h));
    h->loop = loop;
    gp_str_copy(h->list, sizeof(h->list), list);
    h->route.list = h->list;
    if (strcmp(list, address) != 0)
        gp_str_copy(h->route.leader, sizeof(h->route.leader), address);
    h->keys = *keys;
    h->next_id = 1;
}

void
cli_holder_hang_up(struct cli_holder *h)
{
    disconnect(h);
    plan(h);
}

void
cli_holder_fini(struct cli_holder *h)
{
    while (h->sessions)
        cli_holder_remove(h->sessions);
    if (h->loop)
        gp_loop_timer_del(&h->timer);
    disconnect(h);
}

/* ---------------------------------------------------------------- sessions -- */

/* Until the next session is due. */
static void
plan(struct cli_holder *h)
{
    uint64_t first = UINT64_MAX, now = gp_now_ns();

    if (h->request) /* the answer comes first */
        return;
    for (const struct cli_held *held = h->sessions; held; held = held->next)
        first = gp_min(first, held->due_ns);
    if (h->sessions)
        arm(h, first > now ? first - now : 0);
    else
        gp_loop_timer_del(&h->timer);
}

void
cli_holder_add(struct cli_holder *h, struct cli_held *held, uint64_t after_ns)
{
    held->holder = h;
    held->due_ns = gp_now_ns() + after_ns;
    held->next = h->sessions;
    if (held->next)
        held->next->link = &held->next;
    held->link = &h->sessions;
    h->sessions = held;
    plan(h);
}

void
cli_holder_remove(struct cli_held *held)
{
    struct cli_holder *h = held->holder;

    if (!h)
        return;
    for (size_t i = 0; i < h->n_asked; i++)
        if (h->asked[i] == held)
            h->asked[i] = NULL;
    *held->link = held->next;
    if (held->next)
        held->next->link = held->link;
    held->holder = NULL;
    plan(h);
}

void
cli_holder_hurry(struct cli_held *held)
{
    held->due_ns = gp_now_ns() + GATHER_NS;
    plan(held->holder);
}

size_t
cli_close_message(const struct cli_held *held, uint32_t id, bool lost,
                  uint8_t bytes[CLI_CLOSE_MAX])
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose body = GPUPOOL__CTL__CTL_CLOSE__INIT;

    body.session_id = held->id;
    body.lease_key.data = (uint8_t *)(uintptr_t)held->lease_key;
    body.lease_key.len = sizeof(held->lease_key);
    body.lost = lost;
    req.id = id;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &body;
    return gpupool__ctl__ctl_request__pack(&req, bytes);
}

/* Nobody waits for the answer.  Without a connection the lease ends it. */
void
cli_holder_close(struct cli_held *held, bool lost)
{
    struct cli_holder *h = held->holder;
    uint8_t bytes[CLI_CLOSE_MAX];

    if (!h)
        return;
    cli_holder_remove(held);
    if (h->connected)
        gp_msg_conn_send(&h->conn, bytes,
                         cli_close_message(held, h->next_id++, lost, bytes));
}

/* ----------------------------------------------------------------- renewal -- */

/* What is due, and what is due soon: later it would be a request of its own. */
static void
gather(struct cli_holder *h)
{
    uint64_t now = gp_now_ns();

    h->n_asked = 0;
    for (struct cli_held *held = h->sessions; held; held = held->next) {
        uint64_t early = held->lease_ms * GP_NS_PER_MS / 4;

        if (h->n_asked == (h->single ? 1 : CTL_RENEW_MAX))
            return;
        if (held->due_ns <= now + (h->single ? 0 : early))
            h->asked[h->n_asked++] = held;
    }
}

static size_t
pack_single(const struct cli_held *held, Gpupool__Ctl__CtlRequest *req, uint8_t *bytes)
{
    Gpupool__Ctl__CtlRenew renew = GPUPOOL__CTL__CTL_RENEW__INIT;

    renew.session_id = held->id;
    renew.lease_key.data = (uint8_t *)(uintptr_t)held->lease_key;
    renew.lease_key.len = sizeof(held->lease_key);
    renew.hold = true;
    req->body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW;
    req->renew = &renew;
    return gpupool__ctl__ctl_request__pack(req, bytes);
}

static size_t
pack_many(const struct cli_holder *h, Gpupool__Ctl__CtlRequest *req, uint8_t *bytes)
{
    Gpupool__Ctl__CtlRenewMany many = GPUPOOL__CTL__CTL_RENEW_MANY__INIT;
    Gpupool__Ctl__CtlRenewOne ones[CTL_RENEW_MAX], *list[CTL_RENEW_MAX];

    for (size_t i = 0; i < h->n_asked; i++) {
        struct cli_held *held = h->asked[i];

        gpupool__ctl__ctl_renew_one__init(&ones[i]);
        ones[i].session_id = held->id;
        ones[i].lease_key.data = held->lease_key;
        ones[i].lease_key.len = sizeof(held->lease_key);
        ones[i].tickets_unix = held->tickets_unix;
        list[i] = &ones[i];
    }
    many.sessions = list;
    many.n_sessions = h->n_asked;
    many.hold = true;
    req->body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW_MANY;
    req->renew_many = &many;
    return gpupool__ctl__ctl_request__pack(req, bytes);
}

static int
send_renewal(struct cli_holder *h)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    uint8_t bytes[REQUEST_MAX];
    size_t size;

    req.id = h->request = h->next_id++;
    size =
        h->single ? pack_single(h->asked[0], &req, bytes) : pack_many(h, &req, bytes);
    return gp_msg_conn_send(&h->conn, bytes, size);
}

/* Time to renew, or to connect again, or the answer has not come. */
static void
on_timer(struct gp_loop_timer *timer)
{
    struct cli_holder *h = container_of(timer, struct cli_holder, timer);

    if (!h->sessions)
        return;
    if (h->request || (!h->connected && connect_again(h) < 0)) {
        retry(h);
        return;
    }
    gather(h);
    if (!h->n_asked)
        plan(h);
    else if (send_renewal(h) < 0)
        retry(h);
    else
        arm(h, CLI_DEADLINE_NS); /* for the answer */
}

/* ----------------------------------------------------------------- answers -- */

static void
renewed(struct cli_held *held, const Gpupool__Ctl__CtlRenewedOne *one)
{
    held->lease_ms = one->lease_ms;
    held->due_ns = gp_now_ns() + held->lease_ms * GP_NS_PER_MS / 2;
    if (one->grant)
        held->tickets_unix = one->grant->tickets_unix;
    held->on_renewed(held, one);
}

static void
lost(struct cli_held *held, const char *words)
{
    cli_holder_remove(held);
    held->on_lost(held, words);
}

static void
take_keys(struct cli_holder *h, const ProtobufCBinaryData *list, size_t n)
{
    struct ctl_pins keys = cli_ctl_pins(list, n);

    if (keys.n && h->conn.wire)
        h->keys = keys;
}

/* The answer to h->request, of which one session is named in each place.  False: it is
 * not about what was asked. */
static bool
take_many(struct cli_holder *h, const Gpupool__Ctl__CtlRenewed *answer)
{
    if (answer->n_sessions != h->n_asked)
        return false;
    take_keys(h, answer->scheduler_keys, answer->n_scheduler_keys);
    for (size_t i = 0; i < h->n_asked; i++) {
        const Gpupool__Ctl__CtlRenewedOne *one = answer->sessions[i];
        struct cli_held *held = h->asked[i];

        if (!held)
            continue;
        if (one->session_id != held->id)
            return false;
        if (one->lease_ms)
            renewed(held, one);
        else
            lost(held, one->error ? one->error->words : "the scheduler names no cause");
    }
    return true;
}

static void
take_single(struct cli_holder *h, Gpupool__Ctl__CtlGrant *grant)
{
    Gpupool__Ctl__CtlRenewedOne one = GPUPOOL__CTL__CTL_RENEWED_ONE__INIT;

    one.session_id = grant->session_id;
    one.lease_ms = grant->lease_ms;
    one.grant = grant;
    take_keys(h, grant->scheduler_keys, grant->n_scheduler_keys);
    h->single = !grant->tickets_unix; /* it may have been upgraded */
    if (h->asked[0] && h->asked[0]->id == grant->session_id && grant->lease_ms)
        renewed(h->asked[0], &one);
}

static bool
is_gone(const Gpupool__Ctl__CtlError *error)
{
    return error->code == GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND ||
           error->code == GPUPOOL__CTL__CTL_CODE__CTL_DENIED;
}

/* The request as a whole was refused. */
static void
refused(struct cli_holder *h, const Gpupool__Ctl__CtlError *error)
{
    if (h->single && is_gone(error)) {
        if (h->asked[0])
            lost(h->asked[0], error->words);
        plan(h);
    } else if (error->code == GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER &&
               *error->leader) {
        bool named = h->route.leader[0]; /* two may name each other */

        disconnect(h);
        arm(h, ctl_route_follow(&h->route, error->leader) && !named ? 0 : RETRY_MIN_NS);
    } else if (!h->single && error->code == GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST) {
        h->single = true;
        disconnect(h);
        arm(h, 0);
    } else if (error->retry_after_ms) {
        arm(h, error->retry_after_ms * GP_NS_PER_MS);
    } else {
        retry(h);
    }
}

static void
on_notice(const struct cli_holder *h, const Gpupool__Ctl__CtlSessionNotice *notice)
{
    for (struct cli_held *held = h->sessions; held; held = held->next)
        if (held->id == notice->session_id) {
            held->on_notice(held, notice);
            return;
        }
}

static void
answered(struct cli_holder *h, const Gpupool__Ctl__CtlReply *reply)
{
    bool good = !reply->error;

    h->request = 0;
    if (reply->error)
        refused(h, reply->error);
    else if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_RENEWED && !h->single)
        good = take_many(h, reply->renewed);
    else if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_GRANT && h->single)
        take_single(h, reply->grant);
    else
        good = false;
    h->n_asked = 0;
    if (good) {
        h->attempts = 0;
        plan(h);
    } else if (!reply->error) {
        retry(h);
    }
}

static void
on_msg(struct gp_msg_conn *conn, const void *data, size_t len)
{
    struct cli_holder *h = container_of(conn, struct cli_holder, conn);
    CLEANUP(cli_reply_freep)
    Gpupool__Ctl__CtlReply *reply = cli_reply_unpack(data, len);

    if (reply && reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE)
        on_notice(h, reply->session_notice);
    else if (reply && reply->id && reply->id == h->request)
        answered(h, reply);
}
