/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_control.h"

#include "attach.pb-c.h"
#include "attach_proof.h"
#include "gp_copy.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_time.h"
#include "gp_wire.h"
#include "stub_answer.h"
#include "stub_call.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_secure.h"
#include "stub_session.h"
#include "stub_thread.h"
#include "stub_unsolicited.h"
#include "wire_api.h"
#include "xport.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GREETING_NS (5 * GP_NS_PER_S) /* for the worker to say that it has it */
#define FRAME_MAX 40960u              /* 32 KiB of a stage and what goes before them */
#define OPEN_NS (10 * GP_NS_PER_S)
/* How long to try for a connection.  The server may be replacing itself meanwhile, and
 * what cuts one connection may cut the next. */
#define GIVE_UP_NS (60 * GP_NS_PER_S)
/* How long to try before what the last one may have lost goes over the main one. */
#define SAY_NS (100 * GP_NS_PER_MS)
/* Functions that have returned and are not confirmed.  Those that the worker still
 * waits for are the last ones, one for each thread of its driver. */
#define DONES_MAX 256u
#define PAUSE_MIN_NS (5 * GP_NS_PER_MS)
#define PAUSE_MAX_NS GP_NS_PER_S

enum phase {
    CONTROL_UNWANTED,
    CONTROL_OPENING, /* a thread makes it */
    CONTROL_UP,
    CONTROL_NEVER, /* it cannot be had */
};

/* A function that has returned, which the worker has not confirmed. */
struct done {
    uint64_t ticket;
    uint32_t seq; /* of the frame that says so; 0: none yet */
};

struct control {
    struct stub_link *link;
    _Atomic uint32_t phase; /* futex word; written under both locks */
    uint32_t round;         /* of the next connection; the thread's */
    _Atomic int fd;         /* of the connection, while UP */

    struct gp_lock send;     /* of sending; taken first */
    struct xport_conn *conn; /* while UP; written under both locks */
    uint32_t number;         /* its own, from one on */
    uint32_t seq;            /* of the last frame over it */

    struct gp_lock lock; /* of what follows */
    struct done dones[DONES_MAX];
    uint32_t n;
    /* The reply that the thread of host functions waits for; one at a time. */
    uint32_t awaited;          /* 0: none */
    void *to;                  /* where its bytes go */
    uint32_t len;              /* how many these must be */
    int outcome;               /* 0: it was the right one; or as documented */
    _Atomic uint32_t answered; /* futex word: 1, it has come, or never will */
};

static struct control controls[STUB_LINKS_MAX];

static struct control *
control_of(const struct stub_link *link)
{
    return &controls[link->number];
}

/* ---- opening -------------------------------------------------------------------- */

static int
control_request(struct control *c, struct gp_wire *wire, int fd, uint64_t deadline,
                struct gp_err *err)
{
    const struct stub_link *link = c->link;
    Gpupool__AttachRequest req = GPUPOOL__ATTACH_REQUEST__INIT;
    uint8_t bytes[128], cookie[ATTACH_COOKIE_SIZE];

    attach_cookie_make(link->proven ? link->key : link->attach->resume_token.data,
                       ATTACH_COOKIE_CONTROL, c->round, cookie);
    req.wire_major = WIRE_MAJOR;
    req.wire_minor = WIRE_MINOR;
    req.control_cookie.data = cookie;
    req.control_cookie.len = sizeof(cookie);
    req.control_round = c->round;
    c->round++;
    return gp_msg_send_over(wire, fd, bytes, gpupool__attach_request__pack(&req, bytes),
                            deadline, err);
}

/* -EACCES: the server will never agree. */
static int
control_answer(struct gp_wire *wire, int fd, uint64_t deadline, struct gp_err *err)
{
    Gpupool__AttachReply *reply;
    int r = stub_answer_receive(wire, fd, STUB_ANSWER_MAX, deadline, &reply, err);

    if (r < 0)
        return r;
    if (reply->status != GPUPOOL__ATTACH_STATUS__ATTACH_OK)
        r = gp_err_set(err,
                       reply->status == GPUPOOL__ATTACH_STATUS__ATTACH_BAD_REQUEST
                           ? -EACCES
                           : -EAGAIN,
                       "refused: %s", reply->message);
    gpupool__attach_reply__free_unpacked(reply, NULL);
    return r;
}

static int
control_connect(struct control *c, struct xport_conn **ret, struct gp_err *err)
{
    CLEANUP(gp_wire_freep) struct gp_wire *wire = NULL;
    CLEANUP(xport_freep) struct xport_conn *conn = NULL;
    uint64_t deadline = gp_now_ns() + OPEN_NS;
    CLEANUP_FD int fd = -1;
    int r =
        gp_net_connect(c->link->address, STUB_SERVER_PORT, deadline, true, &fd, err);

    if (r >= 0)
        r = stub_secure_connect(&c->link->tls, fd, deadline, &wire, err);
    if (r >= 0)
        r = control_request(c, wire, fd, deadline, err);
    if (r >= 0)
        r = control_answer(wire, fd, deadline, err);
    if (r >= 0)
        r = xport_tcp_new(fd, FRAME_MAX, &conn, err);
    if (r < 0)
        return r;
    TAKE_FD(fd);
    if (wire)
        r = xport_wire_start(conn, wire, err);
    if (r < 0)
        return r;
    wire = NULL;
    *ret = TAKE_PTR(conn);
    return 0;
}

/* Is there an attachment that it could belong to? */
static bool
control_useful(const struct control *c)
{
    uint32_t phase = atomic_load(&c->link->phase);

    return phase == STUB_READY || phase == STUB_LINKED;
}

/* Whether the worker has it: what is said before would wait for nobody. */
static int
control_greeted(struct xport_conn *conn, struct gp_err *err)
{
    const void *frame;
    uint32_t size;
    int r = xport_recv(conn, &frame, &size, gp_now_ns() + GREETING_NS);

    if (r == 0 && (size < sizeof(struct wire_rep) ||
                   ((const struct wire_rep *)frame)->call != WIRE_CALL_gp_ping))
        r = -EPROTO;
    return r < 0 ? gp_err_set(err, r, "the worker did not greet: %s", strerror(-r)) : 0;
}

/* ---- sending: under send ----------------------------------------------------------
 */

static void *
frame_begin(struct control *c, uint16_t call, uint16_t flags, uint32_t body_size)
{
    uint32_t size = (uint32_t)sizeof(struct wire_req) + body_size;
    struct wire_req *req = c->conn ? xport_reserve(c->conn, size) : NULL;

    if (!req)
        return NULL;
    *req =
        (struct wire_req){.size = size, .call = call, .flags = flags, .seq = ++c->seq};
    return req + 1;
}

static void
frame_commit(struct control *c, uint32_t body_size)
{
    xport_commit(c->conn, (uint32_t)sizeof(struct wire_req) + body_size);
}

/* The reader has to learn of an error, too. */
static bool
frames_flush(struct control *c)
{
    bool ok = c->conn && xport_flush(c->conn) >= 0;

    if (c->conn && !ok)
        xport_abort(c->conn);
    return ok;
}

/* Its number; 0: the connection has ended. */
static uint32_t
done_write(struct control *c, uint64_t ticket)
{
    struct wire_gp_host_done_req *req =
        frame_begin(c, WIRE_CALL_gp_host_done, WIRE_F_REPLY, sizeof(*req));

    if (!req)
        return 0;
    *req = (struct wire_gp_host_done_req){.ticket = ticket};
    frame_commit(c, sizeof(*req));
    return c->seq;
}

/* ---- phases ------------------------------------------------------------------------
 */

static void
phase_set(struct control *c, enum phase phase)
{
    atomic_store(&c->phase, phase);
    gp_futex_wake(&c->phase, INT32_MAX);
}

/* Nobody waits for a reply over this connection any more.  Under lock. */
static void
await_nothing(struct control *c)
{
    c->awaited = 0;
    atomic_store(&c->answered, 1);
    gp_futex_wake(&c->answered, INT32_MAX);
}

/* Over the main connection, where nobody confirms it: that one does not lose frames. */
static void
say_done(struct stub_link *link, uint64_t ticket)
{
    struct wire_gp_host_done_req *req;
    struct stub_call call;

    if (stub_call_begin_on(&call, link, WIRE_CALL_gp_host_done, sizeof(*req)) !=
        CUDA_SUCCESS)
        return;
    req = call.body;
    *req = (struct wire_gp_host_done_req){.ticket = ticket};
    stub_call_post_soon(&call);
}

/* All that are not confirmed. */
static void
dones_say(struct control *c)
{
    uint64_t tickets[DONES_MAX];
    uint32_t n;

    gp_lock_take(&c->lock);
    n = c->n;
    for (uint32_t i = 0; i < n; i++)
        tickets[i] = c->dones[i].ticket;
    gp_lock_release(&c->lock);
    for (uint32_t i = 0; i < n; i++)
        say_done(c->link, tickets[i]);
}

/* It has broken.  What is not confirmed is said again over the next one, and over the
 * main one only if that takes long: there a payload may be in the way that the worker
 * reads when it has heard this. */
static void
control_down(struct control *c)
{
    xport_abort(c->conn); /* whoever sends holds the lock */
    gp_lock_take(&c->send);
    gp_lock_take(&c->lock);
    xport_free(TAKE_PTR(c->conn));
    phase_set(c, CONTROL_OPENING);
    await_nothing(c);
    for (uint32_t i = 0; i < c->n; i++)
        c->dones[i].seq = 0;
    gp_lock_release(&c->lock);
    gp_lock_release(&c->send);
}

/* The functions that are not confirmed are few, so that their frames and replies have
 * room in the sockets although nobody reads the replies yet. */
static void
control_up(struct control *c, struct xport_conn *conn)
{
    gp_lock_take(&c->send);
    gp_lock_take(&c->lock);
    c->conn = conn;
    c->number = c->round; /* one more than was asked for: not 0 */
    c->seq = 0;
    for (uint32_t i = 0; i < c->n; i++)
        c->dones[i].seq = done_write(c, c->dones[i].ticket);
    atomic_store(&c->fd, conn->fd);
    phase_set(c, CONTROL_UP);
    gp_lock_release(&c->lock);
    frames_flush(c);
    gp_lock_release(&c->send);
}

static void
control_never(struct control *c)
{
    gp_lock_take(&c->send);
    gp_lock_take(&c->lock);
    phase_set(c, CONTROL_NEVER);
    c->n = 0; /* all was said over the main connection */
    gp_lock_release(&c->lock);
    gp_lock_release(&c->send);
}

/* ---- receiving: the thread ----------------------------------------------------------
 */

static void
done_confirmed(struct control *c, uint32_t seq)
{
    uint32_t i = 0;

    while (i < c->n && c->dones[i].seq != seq)
        i++;
    if (i == c->n)
        return;
    c->n--;
    memmove(&c->dones[i], &c->dones[i + 1], (c->n - i) * sizeof(c->dones[0]));
}

/* Its bytes, or none. */
static bool
reply_take(const struct control *c, const struct wire_rep *rep)
{
    struct wire_gp_stage_read_rep_view view;

    if (rep->flags & WIRE_F_ERROR)
        return false;
    if (!c->to)
        return true;
    if (rep->call != WIRE_CALL_gp_stage_read ||
        !wire_gp_stage_read_rep_open(&view, rep + 1, rep->size - sizeof(*rep),
                                     rep->flags) ||
        view.f->len != c->len)
        return false;
    gp_copy(c->to, view.data, c->len);
    return true;
}

/* No other message has to come this way. */
static bool
event_came(struct control *c, const struct wire_rep *event)
{
    const char *bad = "no message of this connection";

    if (event->call == WIRE_EVENT_HOST_URGENT)
        bad = stub_unsolicited_take(c->link, event);
    if (bad)
        gp_log_warn("stub", "control connection: %s; it ends", bad);
    return !bad;
}

static void
reply_came(struct control *c, const struct wire_rep *rep)
{
    gp_lock_take(&c->lock);
    if (rep->call == WIRE_CALL_gp_host_done) {
        done_confirmed(c, rep->seq);
    } else if (c->awaited && rep->seq == c->awaited) {
        c->outcome = reply_take(c, rep) ? 0 : -EBADMSG;
        await_nothing(c);
    }
    gp_lock_release(&c->lock);
}

/* Until it breaks. */
static void
control_read(struct control *c)
{
    const void *frame;
    uint32_t size;

    while (xport_recv(c->conn, &frame, &size, GP_FOREVER) == 0 &&
           size >= sizeof(struct wire_rep)) {
        const struct wire_rep *rep = frame;

        if (!(rep->flags & WIRE_F_EVENT))
            reply_came(c, rep);
        else if (!event_came(c, rep))
            break;
    }
}

/* -errno: it cannot be had. */
static int
control_open(struct control *c, struct xport_conn **ret)
{
    uint64_t pause_ns = PAUSE_MIN_NS, start = gp_now_ns();
    struct gp_err err = {0};
    bool said = false;
    int r = -ENOTCONN;

    while (control_useful(c) && gp_now_ns() - start < GIVE_UP_NS) {
        CLEANUP(xport_freep) struct xport_conn *conn = NULL;

        err = (struct gp_err){0};
        r = control_connect(c, &conn, &err);
        if (r >= 0)
            r = control_greeted(conn, &err);
        if (r >= 0) {
            *ret = TAKE_PTR(conn);
            return 0;
        }
        gp_log_debug("stub", "a control connection again: %s", gp_err_msg(&err, r));
        if (r == -EACCES)
            break;
        if (!said && gp_now_ns() - start >= SAY_NS) {
            dones_say(c);
            said = true;
        }
        nanosleep(&(struct timespec){.tv_sec = (time_t)(pause_ns / GP_NS_PER_S),
                                     .tv_nsec = (long)(pause_ns % GP_NS_PER_S)},
                  NULL);
        pause_ns = gp_min(4 * pause_ns, PAUSE_MAX_NS);
    }
    gp_log_info("stub", "no control connection: %s", gp_err_msg(&err, r));
    dones_say(c);
    return r;
}

static void
control_main(void *arg)
{
    struct control *c = arg;
    struct xport_conn *conn;

    while (control_open(c, &conn) == 0) {
        gp_log_debug("stub", "a control connection, number %u", c->round);
        control_up(c, conn);
        control_read(c);
        control_down(c);
    }
    control_never(c);
}

/* ---- users --------------------------------------------------------------------------
 */

void
stub_control_want(struct stub_link *link)
{
    struct control *c = control_of(link);
    uint32_t unwanted = CONTROL_UNWANTED;
    bool can;

    if (atomic_load(&c->phase) != CONTROL_UNWANTED)
        return;
    can = link->address && stub_link_can(link, "control-greeted") &&
          (link->proven || link->attach->resume_token.len == ATTACH_KEY_SIZE);
    if (!atomic_compare_exchange_strong(&c->phase, &unwanted,
                                        can ? CONTROL_OPENING : CONTROL_NEVER) ||
        !can)
        return;
    c->link = link;
    if (stub_thread_start("gpupool-control", control_main, c) < 0) {
        gp_log_info("stub", "no thread for a control connection");
        control_never(c);
    }
}

bool
stub_control_possible(struct stub_link *link)
{
    uint32_t phase = atomic_load(&control_of(link)->phase);

    return phase == CONTROL_OPENING || phase == CONTROL_UP;
}

/* Under lock.  While there is no connection all is said over the main one as well, so
 * the oldest may go. */
static bool
done_enter(struct control *c, uint64_t ticket, uint32_t seq)
{
    if (c->n == DONES_MAX && seq)
        return false;
    if (c->n == DONES_MAX)
        memmove(&c->dones[0], &c->dones[1], --c->n * sizeof(c->dones[0]));
    c->dones[c->n++] = (struct done){.ticket = ticket, .seq = seq};
    return true;
}

bool
stub_control_done(struct stub_link *link, uint64_t ticket)
{
    struct control *c = control_of(link);
    uint32_t seq;
    bool said = false;

    if (!stub_control_possible(link))
        return false;
    gp_lock_take(&c->send);
    seq = done_write(c, ticket);
    gp_lock_take(&c->lock);
    if (stub_control_possible(link))
        said = done_enter(c, ticket, seq) && seq;
    gp_lock_release(&c->lock);
    frames_flush(c);
    gp_lock_release(&c->send);
    return said; /* if it was not sent, the reader says it again */
}

/* Of the connection in use, if there is one. */
static uint32_t
control_number(struct control *c)
{
    uint32_t number;

    gp_lock_take(&c->send);
    number = c->conn ? c->number : 0;
    gp_lock_release(&c->send);
    return number;
}

uint32_t
stub_control_number(struct stub_link *link)
{
    struct control *c = control_of(link);
    uint32_t number = 0;

    while (!number && stub_control_possible(link)) {
        while (atomic_load(&c->phase) == CONTROL_OPENING)
            gp_futex_wait(&c->phase, CONTROL_OPENING, NULL);
        number = control_number(c);
    }
    return number;
}

/* Under send: the reply to the last frame will be waited for. */
static void
await_begin(struct control *c, void *to, uint32_t len)
{
    gp_lock_take(&c->lock);
    c->awaited = c->seq;
    c->to = to;
    c->len = len;
    c->outcome = -ECONNRESET;
    atomic_store(&c->answered, 0);
    gp_lock_release(&c->lock);
}

static int
await_end(struct control *c)
{
    int r;

    while (!atomic_load(&c->answered))
        gp_futex_wait(&c->answered, 0, NULL);
    gp_lock_take(&c->lock);
    r = c->outcome;
    gp_lock_release(&c->lock);
    return r;
}

int
stub_control_fill(struct stub_link *link, uint32_t number, uint64_t ticket,
                  uint64_t token, uint64_t offset, const void *from, uint32_t n,
                  bool last)
{
    const struct wire_gp_stage_fill_req head = {
        .ticket = ticket, .token = token, .offset = offset, .n = n};
    uint32_t size = wire_gp_stage_fill_req_size(&head);
    struct control *c = control_of(link);
    struct wire_gp_stage_fill_req_room room;
    void *body = NULL;
    int r = -ECONNRESET;

    gp_lock_take(&c->send);
    if (c->number == number)
        body = frame_begin(c, WIRE_CALL_gp_stage_fill, last ? WIRE_F_REPLY : 0, size);
    if (body) {
        memcpy(body, &head, sizeof(head));
        wire_gp_stage_fill_req_place(&room, body);
        gp_copy(room.data, from, n);
        if (last)
            await_begin(c, NULL, 0);
        frame_commit(c, size);
        r = frames_flush(c) || last ? 0 : -ECONNRESET;
    }
    gp_lock_release(&c->send);
    return r == 0 && last ? await_end(c) : r;
}

int
stub_control_fetch(struct stub_link *link, uint32_t number, uint64_t token,
                   uint64_t offset, void *to, uint32_t n)
{
    struct wire_gp_stage_read_req *req = NULL;
    struct control *c = control_of(link);

    gp_lock_take(&c->send);
    if (c->number == number)
        req = frame_begin(c, WIRE_CALL_gp_stage_read, 0, sizeof(*req));
    if (req) {
        *req =
            (struct wire_gp_stage_read_req){.token = token, .offset = offset, .n = n};
        await_begin(c, to, n);
        frame_commit(c, sizeof(*req));
        frames_flush(c);
    }
    gp_lock_release(&c->send);
    return req ? await_end(c) : -ECONNRESET;
}

int
stub_control_fd(const struct stub_link *link)
{
    const struct control *c = &controls[link->number];

    return atomic_load(&c->phase) == CONTROL_UP ? atomic_load(&c->fd) : -1;
}

static void
control_replaced(struct stub_link *link)
{
    struct control *c = control_of(link);

    gp_lock_take(&c->lock);
    if (c->conn)
        xport_abort(c->conn);
    gp_lock_release(&c->lock);
}

const struct stub_feature stub_control_feature = {
    .name = "control connection",
    .replaced = control_replaced,
};
