/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_stripes.h"

#include "attach.pb-c.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_wire.h"
#include "stub_answer.h"
#include "stub_call.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_thread.h"
#include "wire_api.h"
#include "xport.h"
#include "xport_resume.h"

#include <errno.h>
#include <string.h>

/* Before this, a link has no need that pays for four handshakes. */
#define MOVED_MIN (UINT64_C(16) << 20)

/* On a shorter round trip the windows that kernels open by themselves suffice. */
#define ROUND_TRIP_MIN (2 * GP_NS_PER_MS)

#define AUTO_STRIPES 4u
/* Attempts for one link. */
#define ATTEMPTS 4u
#define OPEN_NS (10 * GP_NS_PER_S)

/* Connections in all, 0: auto. */
static _Atomic uint32_t requested;

int
stub_stripes_settings(void)
{
    const char *text = getenv("GPUPOOL_CONNECTIONS");
    uint64_t n = 0;

    if (text && *text && strcmp(text, "auto") != 0 &&
        gp_str_u64(text, 1, 1 + XPORT_STRIPES_MAX, &n) < 0)
        return -EINVAL;
    atomic_store(&requested, (uint32_t)n);
    return 0;
}

/* ---- opening ---------------------------------------------------------------- */

/* Further connections on their way. */
struct stripes_made {
    uint32_t n, round, link;
    int fd[XPORT_STRIPES_MAX]; /* -1: none */
    struct gp_wire *wire[XPORT_STRIPES_MAX];
};

/* The key that cookies are made of; NULL: the server has drawn one, good for round 0.
 */
static const uint8_t *
stripes_key(const struct stub_link *link, uint32_t round)
{
    if (link->proven)
        return link->key;
    return round ? link->attach->resume_token.data : NULL;
}

/* Can they be made more than once? */
static bool
stripes_again(const struct stub_link *link)
{
    return xport_resumes(link->conn) && stub_link_can(link, "stripes-again") &&
           (link->proven || link->attach->resume_token.len == ATTACH_KEY_SIZE);
}

static int
stripe_ask(const struct stub_link *link, const struct stripes_made *made, uint32_t i,
           uint64_t deadline, struct gp_err *err)
{
    Gpupool__AttachRequest req = GPUPOOL__ATTACH_REQUEST__INIT;
    const uint8_t *key = stripes_key(link, made->round);
    uint8_t bytes[256], cookie[ATTACH_COOKIE_SIZE];

    req.wire_major = WIRE_MAJOR;
    req.wire_minor = WIRE_MINOR;
    req.lane_cookie = link->attach->lane_cookie;
    req.lane_index = i;
    req.stripe_round = made->round;
    if (key) {
        attach_cookie_make(key, ATTACH_COOKIE_STRIPE,
                           made->round * XPORT_STRIPES_MAX + i, cookie);
        req.lane_cookie.data = cookie;
        req.lane_cookie.len = WIRE_STRIPE_COOKIE;
    }
    if (gpupool__attach_request__get_packed_size(&req) > sizeof(bytes))
        return gp_err_set(err, -EPROTO, "a cookie of %zu bytes", req.lane_cookie.len);
    return gp_msg_send_over(made->wire[i], made->fd[i], bytes,
                            gpupool__attach_request__pack(&req, bytes), deadline, err);
}

static int
stripe_answered(struct gp_wire *wire, int fd, uint64_t deadline, struct gp_err *err)
{
    Gpupool__AttachReply *reply;
    int r = stub_answer_receive(wire, fd, STUB_ANSWER_MAX, deadline, &reply, err);

    if (r < 0)
        return r;
    if (reply->status != GPUPOOL__ATTACH_STATUS__ATTACH_OK)
        r = gp_err_set(err, -EACCES, "refused: %s", reply->message);
    gpupool__attach_reply__free_unpacked(reply, NULL);
    return r;
}

/* All are asked for before the first reply is waited for. */
static int
stripes_connect(const struct stub_link *link, struct stripes_made *made,
                struct gp_err *err)
{
    uint64_t deadline = gp_now_ns() + OPEN_NS;
    char address[GP_NET_NAME_MAX];
    int r = 0;

    gp_net_peer_name(link->conn->fd, address, sizeof(address));
    for (uint32_t i = 0; i < made->n && r >= 0; i++) {
        r = gp_net_connect(address, 0, deadline, true, &made->fd[i], err);
        if (r >= 0)
            r = stub_secure_connect(&link->tls, made->fd[i], deadline, &made->wire[i],
                                    err);
        if (r >= 0)
            r = stripe_ask(link, made, i, deadline, err);
    }
    for (uint32_t i = 0; i < made->n && r >= 0; i++)
        r = stripe_answered(made->wire[i], made->fd[i], deadline, err);
    return r;
}

/* Announce them to the worker; true if it has accepted them. */
static bool
stripes_announce(struct stub_link *link, const struct stripes_made *made)
{
    struct wire_gp_stripes_rep_view rep = {0};
    struct wire_gp_stripes_req *req;
    struct stub_call c;
    CUresult r = stub_call_begin_on(&c, link, WIRE_CALL_gp_stripes, sizeof(*req));
    bool taken;

    if (r != CUDA_SUCCESS)
        return false;
    req = c.body;
    *req = (struct wire_gp_stripes_req){
        .n = made->n, .round = made->round, .link = made->link};
    r = stub_call_wait(&c);
    taken = r == CUDA_SUCCESS &&
            wire_gp_stripes_rep_open(&rep, c.reply, c.reply_size, 0) &&
            rep.f->taken == made->n;
    stub_call_end(&c);
    return taken;
}

/* The same to one of a version that knows them once. */
static bool
stripes_announce_once(struct stub_link *link, uint32_t n)
{
    struct wire_gp_lanes_rep_view rep = {0};
    struct wire_gp_lanes_req *req;
    struct stub_call c;
    CUresult r = stub_call_begin_on(&c, link, WIRE_CALL_gp_lanes, sizeof(*req));
    bool taken;

    if (r != CUDA_SUCCESS)
        return false;
    req = c.body;
    *req = (struct wire_gp_lanes_req){.n = n};
    r = stub_call_wait(&c);
    taken = r == CUDA_SUCCESS &&
            wire_gp_lanes_rep_open(&rep, c.reply, c.reply_size, 0) && rep.f->taken == n;
    stub_call_end(&c);
    return taken;
}

/* -EALREADY: the link has them.  -EAGAIN: another link has come, or the worker has not
 * accepted them. */
static int
stripes_make(struct stub_link *link, uint32_t n, struct gp_err *err)
{
    struct stripes_made made = {.n = gp_min(n, link->attach->lanes_max),
                                .link = xport_stripes_link(link->conn)};
    bool again = stripes_again(link);
    int r;

    made.n = gp_min(made.n, (uint32_t)XPORT_STRIPES_MAX);
    if (xport_stripes_here(link->conn))
        return -EALREADY;
    if (!made.n || (link->stripe_round && !again))
        return gp_err_set(err, -ENOTSUP, "the server takes none");
    made.round = link->stripe_round++;
    for (uint32_t i = 0; i < made.n; i++)
        made.fd[i] = -1;
    r = stripes_connect(link, &made, err);
    if (r >= 0)
        r = xport_stripes_add(link->conn, made.fd, made.wire, made.n, made.link, err);
    if (r < 0) {
        for (uint32_t i = 0; i < made.n; i++) {
            gp_wire_free(made.wire[i]);
            if (made.fd[i] >= 0)
                close(made.fd[i]);
        }
        return r;
    }
    if (!(again ? stripes_announce(link, &made) : stripes_announce_once(link, made.n)))
        return gp_err_set(err, -EAGAIN, "the worker has not taken them");
    r = xport_stripes_use(link->conn, made.link);
    if (r == 0)
        gp_log_info("stub", "%u further connections for bulk data, link %u", made.n,
                    made.link);
    return r;
}

/* Under link->stripes. */
static void
stripes_open(struct stub_link *link, uint32_t n)
{
    struct gp_err err = {0};
    int r = stripes_make(link, n, &err);

    if (r == 0 || r == -EALREADY)
        return;
    gp_log_info("stub", "no further connections: %s", gp_err_msg(&err, r));
    if (!stripes_again(link) ||
        atomic_fetch_add(&link->stripe_failures, 1) + 1 >= ATTEMPTS)
        return;
    atomic_store(&link->moved, 0);
    atomic_store(&link->count_payloads, true);
}

/* ---- whether to ------------------------------------------------------------- */

/* The shortest of some round trips; UINT64_MAX: the link is gone. */
static uint64_t
round_trip(struct stub_link *link)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 3; i++) {
        struct stub_call c;
        uint64_t start;

        if (stub_call_begin_on(&c, link, WIRE_CALL_gp_ping,
                               sizeof(struct wire_gp_ping_req)) != CUDA_SUCCESS)
            return UINT64_MAX;
        *(struct wire_gp_ping_req *)c.body = (struct wire_gp_ping_req){.value = 1};
        start = gp_now_ns();
        if (stub_call_post_checked(&c) != CUDA_SUCCESS)
            return UINT64_MAX;
        best = gp_min(best, gp_now_ns() - start);
    }
    return best;
}

static void
stripes_main(void *arg)
{
    struct stub_link *link = arg;
    uint64_t trip = requested ? 0 : round_trip(link);

    if (!requested)
        gp_log_debug("stub", "a round trip takes %llu us",
                     (unsigned long long)trip / 1000);
    gp_lock_take(&link->stripes);
    if (requested)
        stripes_open(link, requested - 1);
    else if (trip >= ROUND_TRIP_MIN && trip != UINT64_MAX)
        stripes_open(link, AUTO_STRIPES);
    gp_lock_release(&link->stripes);
}

static void
stripes_moved(struct stub_link *link, uint64_t bytes)
{
    uint32_t n = atomic_load_explicit(&requested, memory_order_relaxed);

    if (n == 0 &&
        atomic_fetch_add_explicit(&link->moved, bytes, memory_order_relaxed) + bytes <
            MOVED_MIN)
        return;
    if (!atomic_exchange(&link->count_payloads, false) || n == 1)
        return;
    if (stub_thread_start("gpupool-stripes", stripes_main, link) < 0)
        gp_log_info("stub", "no thread for further connections");
}

/* They have ended with the link before, or were not worth while. */
static void
stripes_replaced(struct stub_link *link)
{
    if (!link->attach->lanes_max || !stripes_again(link))
        return;
    atomic_store(&link->stripe_failures, 0);
    atomic_store(&link->moved, 0);
    atomic_store(&link->count_payloads, true);
}

const struct stub_feature stub_stripes_feature = {
    .name = "several connections",
    .payload_moved = stripes_moved,
    .replaced = stripes_replaced,
};
