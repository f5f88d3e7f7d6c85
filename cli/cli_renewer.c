/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_renewer.h"

#include "cli_ctl.h"
#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define RETRY_MIN_NS (250 * GP_NS_PER_MS)
#define RETRY_MAX_NS (2 * GP_NS_PER_S)
/* Sessions that come this soon after each other are held by one request. */
#define GATHER_NS (10 * GP_NS_PER_MS)
/* From the renewal that takes a session back to the one behind it: within the
 * scheduler's grace time (six seconds). */
#define TAKE_BACK_NS (2 * GP_NS_PER_S)
/* Of a renewal: a place for each session, and what is around them. */
#define REQUEST_MAX (CTL_RENEW_MAX * 36 + 64)

static void on_timer(struct gp_loop_timer *timer);
static void plan(struct cli_renewer *h);

/* -------------------------------------------------------------- connection -- */

static void
arm(struct cli_renewer *h, uint64_t after_ns)
{
    gp_loop_timer_set(h->loop, &h->timer, gp_now_ns() + after_ns, on_timer);
}

/* Nothing is asked before that, whatever comes and goes meanwhile. */
static void
wait_before_asking(struct cli_renewer *h, uint64_t ns)
{
    h->not_before_ns = gp_now_ns() + ns;
    arm(h, ns);
}

/* Sessions belong to the connection over which they were renewed last, and end some
 * seconds after it broke, whenever they would be due: all of them are due now. */
static void
disconnect(struct cli_renewer *h)
{
    if (h->connected) {
        uint64_t now = gp_now_ns();

        gp_msg_conn_fini(&h->conn);
        for (struct cli_lease *lease = h->sessions; lease; lease = lease->next)
            lease->due_ns = now;
    }
    ctl_dial_cancel(&h->dial);
    h->connected = false;
    h->request = 0;
}

/* Come back soon, then less often. */
static void
retry(struct cli_renewer *h)
{
    uint64_t pause = RETRY_MIN_NS << gp_min(h->attempts++, 3u);

    disconnect(h);
    ctl_route_next(&h->route);
    if (h->on_trouble)
        h->on_trouble(h);
    wait_before_asking(h, ctl_dial_pause_ns(gp_min(pause, RETRY_MAX_NS)));
}

static void on_msg(struct gp_msg_conn *conn, const void *data, size_t len);

static void
on_close(struct gp_msg_conn *conn, int code)
{
    (void)code;
    retry(container_of(conn, struct cli_renewer, conn));
}

int
cli_renewer_use(struct cli_renewer *h, struct ctl_link *link)
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

static void
on_connected(struct ctl_dial *dial, int r, struct ctl_link *link,
             const struct gp_err *err)
{
    struct cli_renewer *h = container_of(dial, struct cli_renewer, dial);

    (void)err;
    if (!r)
        r = cli_renewer_use(h, link);
    if (r < 0)
        retry(h);
    else
        plan(h);
}

/* The scheduler's key is that of the first connection, or one that it named since. */
static int
connect_again(struct cli_renewer *h)
{
    const struct tls_api *tls = NULL;
    char address[CTL_ENDPOINT_MAX];
    int r = cli_ctl_tls(&tls, NULL);

    ctl_route_address(&h->route, address);
    return r < 0 ? r
                 : ctl_dial_start(&h->dial, h->loop, address, tls, &h->keys,
                                  ctl_dial_timeout_ns(h->attempts,
                                                      ctl_addresses_count(h->list) > 1),
                                  on_connected);
}

void
cli_renewer_init(struct cli_renewer *h, struct gp_loop *loop, const char *list,
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
cli_renewer_hang_up(struct cli_renewer *h)
{
    disconnect(h);
    plan(h);
}

void
cli_renewer_fini(struct cli_renewer *h)
{
    while (h->sessions)
        cli_renewer_remove(h->sessions);
    if (h->loop)
        gp_loop_timer_del(&h->timer);
    disconnect(h);
}

/* ---------------------------------------------------------------- sessions -- */

/* Until the next session is due. */
static void
plan(struct cli_renewer *h)
{
    uint64_t first = UINT64_MAX, now = gp_now_ns();

    if (h->request || h->dial.job) /* the answer comes first */
        return;
    for (const struct cli_lease *lease = h->sessions; lease; lease = lease->next)
        first = gp_min(first, lease->due_ns);
    first = gp_max(first, h->not_before_ns);
    if (h->sessions)
        arm(h, first > now ? first - now : 0);
    else
        gp_loop_timer_del(&h->timer);
}

void
cli_renewer_add(struct cli_renewer *h, struct cli_lease *lease, uint64_t after_ns)
{
    lease->renewer = h;
    lease->due_ns = gp_now_ns() + after_ns;
    lease->next = h->sessions;
    if (lease->next)
        lease->next->link = &lease->next;
    lease->link = &h->sessions;
    h->sessions = lease;
    plan(h);
}

void
cli_renewer_remove(struct cli_lease *lease)
{
    struct cli_renewer *h = lease->renewer;

    if (!h)
        return;
    for (size_t i = 0; i < h->n_asked; i++)
        if (h->asked[i] == lease)
            h->asked[i] = NULL;
    *lease->link = lease->next;
    if (lease->next)
        lease->next->link = lease->link;
    lease->renewer = NULL;
    plan(h);
}

void
cli_renewer_hurry(struct cli_lease *lease)
{
    lease->due_ns = gp_now_ns() + GATHER_NS;
    plan(lease->renewer);
}

void
cli_renewer_take_back(struct cli_lease *lease)
{
    lease->taken_back = true;
    lease->due_ns = gp_now_ns();
    plan(lease->renewer);
}

size_t
cli_close_message(const struct cli_lease *lease, uint32_t id, bool lost,
                  uint8_t bytes[CLI_CLOSE_MAX])
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose body = GPUPOOL__CTL__CTL_CLOSE__INIT;

    body.session_id = lease->id;
    body.lease_key.data = (uint8_t *)(uintptr_t)lease->lease_key;
    body.lease_key.len = sizeof(lease->lease_key);
    body.lost = lost;
    req.id = id;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &body;
    return gpupool__ctl__ctl_request__pack(&req, bytes);
}

/* Nobody waits for the answer.  Without a connection the lease ends it. */
void
cli_renewer_close(struct cli_lease *lease, bool lost)
{
    struct cli_renewer *h = lease->renewer;
    uint8_t bytes[CLI_CLOSE_MAX];

    if (!h)
        return;
    cli_renewer_remove(lease);
    if (h->connected)
        gp_msg_conn_send(&h->conn, bytes,
                         cli_close_message(lease, h->next_id++, lost, bytes));
}

/* ----------------------------------------------------------------- renewal -- */

/* What is due, and what is due soon: later it would be a request of its own. */
static void
gather(struct cli_renewer *h)
{
    uint64_t now = gp_now_ns();

    h->n_asked = 0;
    for (struct cli_lease *lease = h->sessions; lease; lease = lease->next) {
        uint64_t early = lease->lease_ms * GP_NS_PER_MS / 4;

        if (h->n_asked == (h->single ? 1 : CTL_RENEW_MAX))
            return;
        if (lease->due_ns <= now + (h->single ? 0 : early) &&
            !(lease->is_left && lease->is_left(lease)))
            h->asked[h->n_asked++] = lease;
    }
}

static size_t
pack_single(const struct cli_lease *lease, Gpupool__Ctl__CtlRequest *req,
            uint8_t *bytes)
{
    Gpupool__Ctl__CtlRenew renew = GPUPOOL__CTL__CTL_RENEW__INIT;

    renew.session_id = lease->id;
    renew.lease_key.data = (uint8_t *)(uintptr_t)lease->lease_key;
    renew.lease_key.len = sizeof(lease->lease_key);
    renew.hold = true;
    req->body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW;
    req->renew = &renew;
    return gpupool__ctl__ctl_request__pack(req, bytes);
}

static size_t
pack_many(const struct cli_renewer *h, Gpupool__Ctl__CtlRequest *req, uint8_t *bytes)
{
    Gpupool__Ctl__CtlRenewMany many = GPUPOOL__CTL__CTL_RENEW_MANY__INIT;
    Gpupool__Ctl__CtlRenewOne ones[CTL_RENEW_MAX], *list[CTL_RENEW_MAX];

    for (size_t i = 0; i < h->n_asked; i++) {
        struct cli_lease *lease = h->asked[i];

        gpupool__ctl__ctl_renew_one__init(&ones[i]);
        ones[i].session_id = lease->id;
        ones[i].lease_key.data = lease->lease_key;
        ones[i].lease_key.len = sizeof(lease->lease_key);
        ones[i].tickets_unix = lease->tickets_unix;
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
send_renewal(struct cli_renewer *h)
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
    struct cli_renewer *h = container_of(timer, struct cli_renewer, timer);

    if (!h->sessions || h->dial.job)
        return;
    if (h->request) {
        retry(h);
        return;
    }
    if (!h->connected) {
        if (connect_again(h) < 0)
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
renewed(struct cli_lease *lease, const Gpupool__Ctl__CtlRenewedOne *one)
{
    lease->lease_ms = one->lease_ms;
    lease->due_ns = gp_now_ns() + lease->lease_ms * GP_NS_PER_MS / 2;
    if (lease->taken_back)
        lease->due_ns = gp_min(lease->due_ns, gp_now_ns() + TAKE_BACK_NS);
    lease->taken_back = false;
    if (one->grant)
        lease->tickets_unix = one->grant->tickets_unix;
    lease->on_renewed(lease, one);
}

static void
lost(struct cli_lease *lease, const char *words)
{
    cli_renewer_remove(lease);
    lease->on_lost(lease, words);
}

static void
take_keys(struct cli_renewer *h, const ProtobufCBinaryData *list, size_t n)
{
    struct ctl_pins keys = cli_ctl_pins(list, n);

    if (keys.n && h->conn.wire)
        h->keys = keys;
}

/* The answer to h->request, of which one session is named in each place.  False: it is
 * not about what was asked. */
static bool
take_many(struct cli_renewer *h, const Gpupool__Ctl__CtlRenewed *answer)
{
    if (answer->n_sessions != h->n_asked)
        return false;
    take_keys(h, answer->scheduler_keys, answer->n_scheduler_keys);
    for (size_t i = 0; i < h->n_asked; i++) {
        const Gpupool__Ctl__CtlRenewedOne *one = answer->sessions[i];
        struct cli_lease *lease = h->asked[i];

        if (!lease)
            continue;
        if (one->session_id != lease->id)
            return false;
        if (one->lease_ms)
            renewed(lease, one);
        else
            lost(lease,
                 one->error ? one->error->words : "the scheduler names no cause");
    }
    return true;
}

static void
take_single(struct cli_renewer *h, Gpupool__Ctl__CtlGrant *grant)
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
refused(struct cli_renewer *h, const Gpupool__Ctl__CtlError *error)
{
    if (h->single && is_gone(error)) {
        if (h->asked[0])
            lost(h->asked[0], error->words);
        plan(h);
    } else if (error->code == GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER &&
               *error->leader) {
        bool named = h->route.leader[0]; /* two may name each other */

        disconnect(h);
        wait_before_asking(
            h, ctl_route_follow(&h->route, error->leader) && !named ? 0 : RETRY_MIN_NS);
    } else if (!h->single && error->code == GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST) {
        h->single = true;
        disconnect(h);
        arm(h, 0);
    } else if (error->retry_after_ms) {
        wait_before_asking(h, error->retry_after_ms * GP_NS_PER_MS);
    } else {
        retry(h);
    }
}

static void
on_notice(const struct cli_renewer *h, const Gpupool__Ctl__CtlSessionNotice *notice)
{
    for (struct cli_lease *lease = h->sessions; lease; lease = lease->next)
        if (lease->id == notice->session_id) {
            lease->on_notice(lease, notice);
            return;
        }
}

static void
answered(struct cli_renewer *h, const Gpupool__Ctl__CtlReply *reply)
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
    struct cli_renewer *h = container_of(conn, struct cli_renewer, conn);
    CLEANUP(cli_reply_freep)
    Gpupool__Ctl__CtlReply *reply = cli_reply_unpack(data, len);

    if (reply && reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE)
        on_notice(h, reply->session_notice);
    else if (reply && reply->id && reply->id == h->request)
        answered(h, reply);
}
