/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's attach port: bytes of unauthenticated clients, through the framing
 * (gp_msg.c) and the requests (srv_attach.c), with its rate limits.
 *
 * No session and no worker is behind it: whatever comes as far as that is a ticket that
 * nobody has signed.
 */
#include "attach.pb-c.h"
#include "gp_log.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_attach.h"
#include "srv_session.h"
#include "srv_worker.h"
#include "ticket_keys.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
srv_session_get(struct srv *srv, const struct ticket_claims *claims,
                struct srv_session **ret, struct gp_err *err)
{
    (void)srv, (void)claims, (void)ret, (void)err;
    __builtin_trap(); /* nobody can sign with a key made a moment ago */
}

int
srv_worker_start(struct srv *srv, struct srv_session *session,
                 const struct srv_worker_client *client, int fd, struct gp_err *err)
{
    (void)srv, (void)session, (void)client, (void)fd, (void)err;
    __builtin_trap();
}

int
srv_worker_stripe(struct srv *srv, const uint8_t cookie[WIRE_STRIPE_COOKIE],
                  uint32_t round, uint32_t index, int fd, const struct tls_keys *tls)
{
    (void)srv, (void)fd, (void)tls;
    return cookie[WIRE_STRIPE_COOKIE - 1] == index + round ? -EINVAL : -ENOENT;
}

int
srv_worker_peer(struct srv *srv, const uint8_t cookie[WIRE_PEER_COOKIE], uint32_t link,
                int fd, const struct tls_keys *tls)
{
    (void)srv, (void)fd, (void)tls;
    return cookie[WIRE_PEER_COOKIE - 1] == link ? -EINVAL : -ENOENT;
}

int
srv_resume_control(struct srv *srv, const struct Gpupool__AttachRequest *req,
                   bool secure, struct srv_worker **ret)
{
    (void)srv, (void)secure, (void)ret;
    return req->control_cookie.len == ATTACH_COOKIE_SIZE ? -ENOENT : -EINVAL;
}

int
srv_resume_control_give(struct srv_worker *w, int fd, const struct tls_keys *tls)
{
    (void)w, (void)fd, (void)tls;
    __builtin_trap();
}

struct srv_worker *
srv_worker_resumes(struct srv *srv, const struct Gpupool__AttachRequest *req,
                   bool secure)
{
    (void)srv, (void)req, (void)secure;
    return NULL;
}

int
srv_worker_relink(struct srv_worker *w, const struct Gpupool__AttachRequest *req,
                  int fd, const struct tls_keys *tls)
{
    (void)w, (void)req, (void)fd, (void)tls;
    return -ENOENT;
}

void
srv_changed(struct srv *srv)
{
    (void)srv;
}

static struct gp_loop *loop_of_turns;

static void
on_turn(struct gp_loop_timer *timer)
{
    (void)timer;
    gp_loop_stop(loop_of_turns, 0);
}

/* Whatever can be read now is. */
static void
turn(struct srv *srv)
{
    struct gp_loop_timer now = {0};

    loop_of_turns = srv->loop;
    gp_loop_timer_set(srv->loop, &now, gp_now_ns(), on_turn);
    gp_loop_run(srv->loop);
    gp_loop_timer_del(&now);
}

static void
start(struct srv *srv)
{
    struct ticket_key *key;

    gp_log_init("server", GP_LOG_NONE);
    signal(SIGPIPE, SIG_IGN); /* as the server does */
    if (gp_loop_new(&srv->loop, NULL) < 0 || ticket_key_generate(&key, NULL) < 0 ||
        ticket_keys_of_one(key, &srv->keys) < 0 ||
        srv_rates_init(&srv->rates, 1000000, 1000000, 1000000) < 0)
        __builtin_trap();
    memcpy(srv->conf.name, "node", sizeof("node"));
}

/* The first byte: how the bytes are cut in two on their way. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct srv srv;
    size_t cut = size ? data[0] * (size - 1) / 256 : 0;
    int fds[2];

    if (!srv.loop)
        start(&srv);
    if (!size ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
        return 0;
    srv_attach_accept(&srv, fds[0], data[0] & 1);
    if (write(fds[1], data + 1, cut) == (ssize_t)cut) {
        turn(&srv);
        if (write(fds[1], data + 1 + cut, size - 1 - cut) >= 0)
            turn(&srv);
    }
    close(fds[1]);
    turn(&srv);
    srv_attach_free_all(&srv);
    return 0;
}
