/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_resume.h"

#include "attach.pb-c.h"
#include "attach_proof.h"
#include "gp_err.h"
#include "gp_lock.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_wire.h"
#include "stub_answer.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_rdma.h"
#include "stub_secure.h"
#include "stub_session.h"
#include "stub_thread.h"
#include "wire_format.h"
#include "xport.h"
#include "xport_resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Between two attempts: the first follows at once. */
#define PAUSE_MIN_NS (5 * GP_NS_PER_MS)
#define PAUSE_MAX_NS (500 * GP_NS_PER_MS)
/* One attempt: a path that is gone shows by silence. */
#define ATTEMPT_NS (5 * GP_NS_PER_S)
/* After an attempt at a connection for acknowledgements that failed. */
#define ACKS_AGAIN_NS (100 * GP_NS_PER_MS)
/* Nobody listens any more. */
#define REFUSED_NS (2 * GP_NS_PER_S)

/* What a connection needs to come back; never freed, like the links. */
struct resume {
    struct resume *next;
    struct xport_conn *conn;
    char *address;
    struct stub_secure tls;
    uint8_t key[ATTACH_KEY_SIZE];
    uint32_t seconds;
    struct stub_rdma rdma;         /* of one that began over it */
    struct gp_lock lock;           /* of what follows */
    uint32_t link;                 /* the number of the last one that was asked for */
    uint32_t up;                   /* of the last one that the server agreed to */
    bool acks_wanted;              /* a connection for them, for the link in use */
    bool opening;                  /* a thread makes it */
    struct xport_resume_link acks; /* it is here, and nobody has taken it yet */
    uint64_t took_ns;              /* of the last new link, from the break on */
    uint64_t replaced;             /* links, as the log says */
    bool ended;                    /* the program: the log says no more of them */
};

/* A connection on its way. */
struct resume_conn {
    int fd;
    struct gp_wire *wire;
};

static struct resume *_Atomic resumes;

uint32_t
stub_resume_seconds(void)
{
    const char *text = getenv("GPUPOOL_RESUME");
    uint64_t seconds = XPORT_RESUME_S; /* what it costs: docs/reliability.md */

    if (text && *text && gp_str_time(text, 1, 0, XPORT_RESUME_MAX_S, &seconds) < 0)
        gp_log_warn("stub", "GPUPOOL_RESUME=%s: a time like 30s or 10m, 0..%d seconds",
                    text, XPORT_RESUME_MAX_S);
    return (uint32_t)seconds;
}

/* ---- asking ------------------------------------------------------------------- */

static void
resume_conn_fini(struct resume_conn *c)
{
    gp_wire_free(TAKE_PTR(c->wire));
    if (c->fd >= 0)
        close(TAKE_FD(c->fd));
}

/* What a connection is for. */
struct purpose {
    uint32_t link;
    bool acks; /* acknowledgements of that link */
    bool rdma; /* the link, which may be RDMA */
};

static int
resume_request(const struct resume *re, const struct resume_conn *c,
               const struct purpose *what, const struct xport_resume_have *have,
               uint64_t deadline, struct gp_err *err)
{
    Gpupool__AttachRequest req = GPUPOOL__ATTACH_REQUEST__INIT;
    uint8_t bytes[160], cookie[ATTACH_COOKIE_SIZE];

    attach_cookie_make(re->key, what->acks ? ATTACH_COOKIE_ACKS : ATTACH_COOKIE_RESUME,
                       what->link, cookie);
    req.wire_major = WIRE_MAJOR;
    req.wire_minor = WIRE_MINOR;
    req.resume_token.data = cookie;
    req.resume_token.len = sizeof(cookie);
    req.resume_seq = what->link;
    req.resume_acks = what->acks;
    req.resume_rdma = what->rdma;
    req.resume_received = have->received;
    req.resume_striped = have->striped;
    req.resume_striped_sent = have->striped_sent;
    return gp_msg_send_over(c->wire, c->fd, bytes,
                            gpupool__attach_request__pack(&req, bytes), deadline, err);
}

/* -EACCES: the server will never agree.  *ret is the caller's. */
static int
resume_answer(const struct resume_conn *c, uint64_t deadline,
              Gpupool__AttachReply **ret, struct gp_err *err)
{
    Gpupool__AttachReply *reply;
    int r = stub_answer_receive(c->wire, c->fd, STUB_ANSWER_MAX, deadline, &reply, err);

    if (r < 0)
        return r == -EPROTO ? -EACCES : r;
    if (reply->status == GPUPOOL__ATTACH_STATUS__ATTACH_LIMIT)
        r = gp_err_set(err, -EAGAIN, "later: %s", reply->message);
    else if (reply->status != GPUPOOL__ATTACH_STATUS__ATTACH_OK)
        r = gp_err_set(err, -EACCES, "refused: %s", reply->message);
    *ret = reply;
    return r;
}

/* Connect, ask and be answered; nothing is owned after an error. */
static int
resume_connect(const struct resume *re, const struct purpose *what,
               const struct xport_resume_have *have, uint64_t deadline,
               struct resume_conn *ret, Gpupool__AttachReply **ret_reply,
               struct gp_err *err)
{
    struct resume_conn c = {.fd = -1};
    Gpupool__AttachReply *reply = NULL;
    int r = gp_net_connect(re->address, STUB_SERVER_PORT, deadline, true, &c.fd, err);

    if (r >= 0)
        r = stub_secure_connect(&re->tls, c.fd, deadline, &c.wire, err);
    if (r >= 0)
        r = resume_request(re, &c, what, have, deadline, err);
    if (r >= 0)
        r = resume_answer(&c, deadline, &reply, err);
    if (r < 0) {
        resume_conn_fini(&c);
        gpupool__attach_reply__free_unpacked(reply, NULL);
        return r;
    }
    *ret = c;
    *ret_reply = reply;
    return 0;
}

static struct resume *
resume_find(const struct xport_conn *conn)
{
    struct resume *re = atomic_load(&resumes);

    while (re->conn != conn)
        re = re->next;
    return re;
}

/* ---- acknowledgements ----------------------------------------------------------- */

/* What came of an attempt to open one for link number @link; under the lock.  An
 * attempt may end when its link has been replaced: what is wanted by then is another.
 */
static void
acks_arrived(struct resume *re, struct resume_conn *c, uint32_t link, int r)
{
    if (xport_error(re->conn) < 0)
        re->acks_wanted = false;
    if (link != re->link)
        return;
    if (r >= 0 && re->acks.ack_fd < 0) {
        re->acks.ack_fd = TAKE_FD(c->fd);
        re->acks.ack_wire = TAKE_PTR(c->wire);
    }
    if (r == -EACCES && link == re->up) /* it had one: another link has its own */
        shutdown(re->conn->fd, SHUT_RDWR);
    if (r >= 0 || (r == -EACCES && link == re->up))
        re->acks_wanted = false;
}

/* One attempt.  True: another one is due, at once or after a pause. */
static bool
acks_attempt(struct resume *re, uint64_t *ret_pause_ns)
{
    struct resume_conn c = {.fd = -1};
    struct gp_err err = {0};
    struct xport_resume_have none = {0};
    Gpupool__AttachReply *reply = NULL;
    uint32_t link;
    bool again;
    int r;

    gp_lock_take(&re->lock);
    link = re->link;
    gp_lock_release(&re->lock);
    r = resume_connect(re, &(struct purpose){.link = link, .acks = true}, &none,
                       gp_now_ns() + ATTEMPT_NS, &c, &reply, &err);
    gpupool__attach_reply__free_unpacked(reply, NULL);
    if (r < 0)
        gp_log_info("stub", "no connection for acknowledgements of link %u: %s", link,
                    gp_err_msg(&err, r));
    gp_lock_take(&re->lock);
    acks_arrived(re, &c, link, r);
    again = re->opening = re->acks_wanted;
    *ret_pause_ns = link == re->link ? ACKS_AGAIN_NS : 0;
    gp_lock_release(&re->lock);
    resume_conn_fini(&c);
    if (r >= 0)
        xport_resume_acks_here(re->conn);
    return again;
}

static void
acks_main(void *arg)
{
    uint64_t pause_ns;

    while (acks_attempt(arg, &pause_ns))
        nanosleep(&(struct timespec){.tv_nsec = (long)pause_ns}, NULL);
}

/* Under the lock.  Who waits for acknowledgements may ask only once: the request stays
 * until it is granted, or a new link makes it void. */
static void
acks_start(struct resume *re)
{
    re->acks_wanted = true;
    if (!re->opening)
        re->opening = stub_thread_start("gpupool-acks", acks_main, re) >= 0;
}

static int
resume_ack_link(struct xport_conn *conn, struct xport_resume_link *ret)
{
    struct resume *re = resume_find(conn);

    gp_lock_take(&re->lock);
    ret->ack_fd = TAKE_FD(re->acks.ack_fd);
    ret->ack_wire = TAKE_PTR(re->acks.ack_wire);
    if (ret->ack_fd < 0)
        acks_start(re);
    gp_lock_release(&re->lock);
    return ret->ack_fd < 0 ? -EAGAIN : 0;
}

void
stub_resume_tell(struct xport_conn *conn)
{
    struct resume *re = resume_find(conn);

    gp_lock_take(&re->lock);
    acks_start(re);
    gp_lock_release(&re->lock);
}

void
stub_resume_end(struct xport_conn *conn)
{
    struct resume *re;
    uint64_t replaced;

    if (!xport_resumes(conn))
        return;
    re = resume_find(conn);
    gp_lock_take(&re->lock);
    re->ended = true;
    replaced = re->replaced;
    gp_lock_release(&re->lock);
    if (replaced)
        gp_log_info("stub", "%llu links to %s were replaced, %llu bytes sent again",
                    (unsigned long long)replaced, re->address,
                    (unsigned long long)xport_resume_replayed(conn));
}

/* ---- a new link ---------------------------------------------------------------- */

/* The number of another link, to which no connection of those before belongs. */
static uint32_t
resume_next(struct resume *re)
{
    struct resume_conn old;
    uint32_t link;

    gp_lock_take(&re->lock);
    old = (struct resume_conn){TAKE_FD(re->acks.ack_fd), TAKE_PTR(re->acks.ack_wire)};
    re->acks_wanted = false; /* the ends tell each other what they have */
    link = ++re->link;
    gp_lock_release(&re->lock);
    resume_conn_fini(&old);
    return link;
}

static int
resume_attempt(struct resume *re, const struct xport_resume_have *have,
               uint64_t deadline, struct xport_resume_link *ret, struct gp_err *err)
{
    struct purpose what = {.link = resume_next(re),
                           .rdma = stub_rdma_is_wanted(&re->rdma)};
    Gpupool__AttachReply *reply = NULL;
    struct resume_conn c;
    int r = resume_connect(re, &what, have, deadline, &c, &reply, err);
    bool rdma = r >= 0 && what.rdma &&
                stub_rdma_take(&re->rdma, reply, re->key, what.link, c.fd, c.wire, &r);

    if (r < 0) {
        if (reply)
            resume_conn_fini(&c);
        gpupool__attach_reply__free_unpacked(reply, NULL);
        return r;
    }
    gp_lock_take(&re->lock);
    re->up = what.link;
    gp_lock_release(&re->lock);
    gp_net_reset_on_close(c.fd, true);
    if (rdma) /* nothing goes over the control connection any more */
        gp_wire_free(TAKE_PTR(c.wire));
    *ret = (struct xport_resume_link){
        .number = what.link,
        .rdma = rdma,
        .fd = c.fd,
        .ack_fd = -1,
        .wire = c.wire,
        .peer = {.received = reply->resume_received,
                 .striped = reply->resume_striped,
                 .striped_sent = reply->resume_striped_sent}};
    gpupool__attach_reply__free_unpacked(reply, NULL);
    return 0;
}

/* Somewhere between half of @ns and @ns: many clients lose one link together. */
static void
resume_pause(const struct resume *re, uint64_t ns)
{
    uint64_t part = (gp_now_ns() ^ (uintptr_t)re ^ (uint64_t)getpid() << 16) % 512;
    uint64_t sleep_ns = ns / 2 + ns / 2 * part / 512;

    nanosleep(&(struct timespec){.tv_nsec = (long)sleep_ns}, NULL);
}

static int
resume_loop(struct resume *re, const struct xport_resume_have *have,
            struct xport_resume_link *ret, struct gp_err *err)
{
    uint64_t end = gp_now_ns() + re->seconds * GP_NS_PER_S, pause = PAUSE_MIN_NS;
    uint64_t refused_since = 0;

    for (;;) {
        uint64_t now = gp_now_ns();
        int r;

        *err = (struct gp_err){0};
        r = resume_attempt(re, have, gp_min(end, now + ATTEMPT_NS), ret, err);
        if (r >= 0 || r == -EACCES)
            return r;
        if (xport_error(re->conn) < 0)
            return xport_error(re->conn);
        refused_since = r != -ECONNREFUSED ? 0 : refused_since ? refused_since : now;
        now = gp_now_ns();
        if (refused_since && now - refused_since >= REFUSED_NS)
            return r;
        if (now >= end)
            return -ETIME;
        resume_pause(re, pause);
        pause = gp_min(2 * pause, (uint64_t)PAUSE_MAX_NS);
    }
}

static int
resume_reconnect(struct xport_conn *conn, const struct xport_resume_have *have,
                 struct xport_resume_link *ret)
{
    struct resume *re = resume_find(conn);
    uint64_t start = gp_now_ns();
    struct gp_err err = {0};
    int r;

    gp_log_info("stub", "the link to %s broke; trying to replace it for up to %u s",
                re->address, re->seconds);
    r = resume_loop(re, have, ret, &err);
    gp_lock_take(&re->lock);
    re->took_ns = gp_now_ns() - start;
    gp_lock_release(&re->lock);
    if (r < 0)
        gp_log_info("stub", "no new link to %s: %s", re->address, gp_err_msg(&err, r));
    /* Why it ended is the server's to say, if it can be asked. */
    return r == -EACCES || r == -ECONNREFUSED ? -ECONNRESET : r;
}

/* Another thread may do it while the program ends. */
static void
resume_say(struct resume *re)
{
    gp_lock_take(&re->lock);
    if (!re->ended) {
        re->replaced++;
        gp_log_info("stub", "link %u to %s after %llu us", re->up, re->address,
                    (unsigned long long)re->took_ns / 1000);
    }
    gp_lock_release(&re->lock);
}

/* Whose it is; during the attach it is nobody's yet. */
static void
resume_replaced(struct xport_conn *conn)
{
    struct resume *re = resume_find(conn);

    resume_say(re);
    stub_rdma_replaced(&re->rdma, re->tls.on);
    for (uint32_t i = 0; i < stub_links_n; i++) {
        if (stub_links[i].conn == conn)
            stub_hooks_replaced(&stub_links[i]);
    }
}

/* ---- the first one ------------------------------------------------------------- */

static const struct xport_resume_owner owner = {
    .reconnect = resume_reconnect,
    .ack_link = resume_ack_link,
    .replaced = resume_replaced,
};

static int
resume_key(const uint8_t *key, const Gpupool__AttachReply *reply, struct resume *re,
           struct gp_err *err)
{
    if (key)
        memcpy(re->key, key, sizeof(re->key));
    else if (reply->resume_token.len == sizeof(re->key))
        memcpy(re->key, reply->resume_token.data, sizeof(re->key));
    else
        return gp_err_set(err, -EPROTO, "the server's key for resuming is none");
    return 0;
}

static void
resume_free(struct resume *re)
{
    if (!re)
        return;
    explicit_bzero(re->key, sizeof(re->key));
    free(re->address);
    free(re);
}
DEFINE_CLEANUP(struct resume, resume_free)

static int
resume_new(const char *address, const struct stub_secure *tls, const uint8_t *key,
           const Gpupool__AttachReply *reply, struct resume **ret, struct gp_err *err)
{
    CLEANUP(resume_freep) struct resume *re = calloc(1, sizeof(*re));
    int r;

    if (re)
        re->address = strdup(address);
    if (!re || !re->address)
        return gp_err_set(err, -ENOMEM, "out of memory");
    re->seconds = reply->resume_s;
    re->tls = *tls;
    re->acks.ack_fd = -1;
    r = resume_key(key, reply, re, err);
    if (r >= 0)
        *ret = TAKE_PTR(re);
    return r;
}

/* It has its connection. */
static struct xport_conn *
resume_publish(struct resume *re)
{
    re->next = atomic_load(&resumes);
    while (!atomic_compare_exchange_weak(&resumes, &re->next, re))
        ;
    return re->conn;
}

int
stub_resume_open(const char *address, const struct stub_secure *tls, const uint8_t *key,
                 const Gpupool__AttachReply *reply, int fd, struct xport_conn **ret,
                 struct gp_err *err)
{
    CLEANUP(resume_freep) struct resume *re = NULL;
    int r = resume_new(address, tls, key, reply, &re, err);

    if (r >= 0)
        r = xport_resume_new(fd, -1, WIRE_FRAME_MAX, &owner, &re->conn, err);
    if (r >= 0)
        *ret = resume_publish(TAKE_PTR(re));
    return r;
}

int
stub_resume_open_rdma(const char *address, const struct stub_secure *tls,
                      const uint8_t *key, const Gpupool__AttachReply *reply,
                      struct xport_conn *rdma, struct xport_conn **ret,
                      struct gp_err *err)
{
    CLEANUP(resume_freep) struct resume *re = NULL;
    int r = resume_new(address, tls, key, reply, &re, err);

    if (r >= 0)
        r = xport_resume_new_rdma(rdma, &owner, &re->conn, err);
    if (r < 0)
        return r;
    stub_rdma_began(&re->rdma, re->conn, re->address, reply);
    *ret = resume_publish(TAKE_PTR(re));
    return 0;
}
