/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_request.h"

#include "gp_err.h"
#include "gp_hash.h"
#include "gp_log.h"
#include "srv.h"
#include "srv_disposal.h"
#include "srv_export.h"
#include "srv_images.h"
#include "srv_peer.h"
#include "srv_types.h"
#include "wrk_request.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Of a worker that has ended: more than the kernel queues in a packet socket
 * (net.unix.max_dgram_qlen, 10 unless somebody has changed it, 512 under systemd). */
#define LAST_REQUESTS 1024

static int
answer_image(struct srv_worker *w, const struct wrk_request *ask)
{
    struct wrk_request reply = {.kind = WRK_REQUEST_IMAGE, .seq = ask->seq};
    bool own = false;
    int fd = srv_images_find(w->srv->images, ask->name, ask->secret, w->image_nonce,
                             w->session->claims.session_id, &own);

    reply.own = own;
    return wrk_request_send(w->ask.fd, &reply, fd, MSG_DONTWAIT);
}

/* What drivers export: a memory file of a software card, NVIDIA's device file.  A
 * socket or a pipe would let another worker of the session speak in this one's name. */
static bool
shareable(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 &&
           (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode));
}

/* @fd is ours; -1: there was none, or no room for it. */
static int
answer_share(struct srv_worker *w, const struct wrk_request *ask, int fd)
{
    struct wrk_request reply = *ask;
    struct gp_err err = {0};
    uint32_t skipped;
    int r = -EINVAL;

    if (shareable(fd))
        r = srv_export_new(w->session, w->slot, &reply, fd, &err);
    else
        srv_disposal_fd(w->srv->disposal, fd);
    if (r < 0) {
        if (gp_log_limit_ok(&w->refusal_log, &skipped))
            gp_log_warn("server", "%s: an object is not shared: %s", w->name,
                        gp_err_msg(&err, r));
        reply.own = 0;
    }
    return wrk_request_send(w->ask.fd, &reply, -1, MSG_DONTWAIT);
}

static int
answer_shared(struct srv_worker *w, const struct wrk_request *ask)
{
    struct wrk_request reply = *ask;
    int fd = srv_export_find(w->session, w->slot, &reply);

    return wrk_request_send(w->ask.fd, &reply, fd, MSG_DONTWAIT);
}

static uint64_t
owner_hash(const struct srv_session *s)
{
    static const struct gp_hash_key fixed = {{0, 0}};

    return gp_hash_bytes(&fixed, s->claims.owner, strlen(s->claims.owner));
}

/* @fd is ours; -1: there was none, or no room for it. */
static int
answer(struct srv_worker *w, const struct wrk_request *ask, int fd)
{
    struct wire_image_id id;

    if (ask->kind == WRK_REQUEST_KEEP && fd >= 0) {
        memcpy(id.name, ask->name, sizeof(id.name));
        memcpy(id.secret, ask->secret, sizeof(id.secret));
        srv_images_keep(w->srv->images, &id, fd, w->session->claims.session_id,
                        owner_hash(w->session));
        return 0;
    }
    if (ask->kind == WRK_REQUEST_SHARE)
        return answer_share(w, ask, fd);
    if (fd >= 0) {
        srv_disposal_fd(w->srv->disposal, fd); /* its memory may be freed with it */
        return -EPROTO;
    }
    switch (ask->kind) {
    case WRK_REQUEST_KEEP: /* without room here for its descriptor */
        return 0;
    case WRK_REQUEST_PEER:
        return srv_peer_dial(w, ask);
    case WRK_REQUEST_IMAGE:
        return answer_image(w, ask);
    case WRK_REQUEST_SHARED:
        return answer_shared(w, ask);
    case WRK_REQUEST_STARTED:
        w->starting_ns = 0;
        if (w->srv->on_started)
            w->srv->on_started(w->srv);
        return 0;
    case WRK_REQUEST_UNSHARE:
        srv_export_drop(w->session, w->slot, ask);
        return 0;
    default:
        return -EPROTO;
    }
}

static int
ask_next(struct srv_worker *w)
{
    struct wrk_request ask;
    int fd;
    int r = wrk_request_recv(w->ask.fd, &ask, &fd, MSG_DONTWAIT);

    return r < 0 ? r : answer(w, &ask, fd);
}

static void
ask_close(struct srv_worker *w)
{
    gp_loop_fd_del(&w->ask);
    close(w->ask.fd);
    w->ask.fd = -1;
}

/* Bounded, because somebody may still send: a worker that is not quite gone. */
void
srv_request_finish(struct srv_worker *w)
{
    if (w->ask.fd < 0)
        return;
    for (unsigned n = 0; n < LAST_REQUESTS && ask_next(w) == 0;)
        n++;
    ask_close(w);
}

static void
on_ask(struct gp_loop_fd *src, uint32_t revents)
{
    struct srv_worker *w = container_of(src, struct srv_worker, ask);
    int r = ask_next(w);

    (void)revents;
    if (r == 0 || r == -EAGAIN)
        return;
    if (r != -ECONNRESET)
        gp_log_warn("server", "%s: its worker asks what no worker asks (%s)", w->name,
                    strerror(-r));
    ask_close(w);
}

int
srv_request_adopt(struct srv_worker *w, int fd, struct gp_err *err)
{
    int r = gp_loop_fd_add(w->srv->loop, &w->ask, fd, EPOLLIN, on_ask);

    return r < 0 ? gp_err_set(err, r, "socket pair of a worker") : 0;
}

int
srv_request_open(struct srv_worker *w, int *ret_fd, struct gp_err *err)
{
    int pair[2];
    int r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return gp_err_set(err, -errno, "socket pair of a worker: %s", strerror(errno));
    r = gp_loop_fd_add(w->srv->loop, &w->ask, pair[0], EPOLLIN, on_ask);
    if (r < 0) {
        close(pair[0]);
        close(pair[1]);
        w->ask.fd = -1;
        return gp_err_set(err, r, "socket pair of a worker");
    }
    *ret_fd = pair[1];
    return 0;
}
