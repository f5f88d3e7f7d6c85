/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_peer.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_time.h"
#include "gp_wire.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_conf.h"
#include "wrk_link.h"
#include "wrk_request.h"
#include "wrk_supervisor_channel.h"
#include "wrk_tls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#define NO_PEER                                                                        \
    {                                                                                  \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER,        \
        .fd = -1                                                                       \
    }

static struct wrk_peer out[WIRE_LINKS_MAX] = {[0 ... WIRE_LINKS_MAX - 1] = NO_PEER};
static struct wrk_peer in[WIRE_LINKS_MAX] = {[0 ... WIRE_LINKS_MAX - 1] = NO_PEER};

struct wrk_peer *
wrk_peer_out(uint32_t link)
{
    return link < WIRE_LINKS_MAX ? &out[link] : NULL;
}

struct wrk_peer *
wrk_peer_in(uint32_t link)
{
    return link < WIRE_LINKS_MAX ? &in[link] : NULL;
}

/* A fresh connection, unless there is one.  The supervisor accepts without blocking;
 * the threads that copy wait for what has not come yet. */
static void
peer_take(struct wrk_peer *peer, int fd, const struct tls_keys *tls)
{
    struct timeval silence = {.tv_sec = WRK_PEER_SILENCE_NS / GP_NS_PER_S};
    CLEANUP(gp_wire_freep) struct gp_wire *wire = NULL;
    struct gp_err err = {0};
    int r = wrk_tls_layer(tls, &wire, &err);

    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));
    pthread_mutex_lock(&peer->lock);
    if (r == 0 && peer->fd < 0) {
        peer->wire = TAKE_PTR(wire);
        peer->fd = fd;
    } else {
        close(fd);
    }
    pthread_mutex_unlock(&peer->lock);
    if (r < 0)
        gp_log_warn("worker", "no connection to another server: %s",
                    gp_err_msg(&err, r));
}

void
wrk_peer_arrived(uint32_t link, int fd, const struct tls_keys *tls)
{
    if (fd >= 0 && link < WIRE_LINKS_MAX)
        peer_take(&in[link], fd, tls);
    else if (fd >= 0)
        close(fd);
}

CUresult
h_gp_peer_open(struct wrk *w, const struct wire_args_gp_peer_open *a,
               struct wrk_reply *rep)
{
    const uint64_t cookie[2] = {a->cookie0, a->cookie1};
    struct wrk_request ask = {.kind = WRK_REQUEST_PEER, .own = a->link};
    int fd = -1;
    int r;

    (void)rep;
    if (a->link >= w->priv->conf.links || a->link == w->priv->conf.link)
        return CUDA_ERROR_INVALID_VALUE;
    static_assert(sizeof(cookie) == WIRE_PEER_COOKIE, "two halves");
    memcpy(ask.secret, cookie, sizeof(cookie));
    r = wrk_supervisor_ask(&ask, -1, &fd);
    if (r < 0 || ask.kind != WRK_REQUEST_PEER || fd < 0)
        return CUDA_ERROR_SYSTEM_NOT_READY;
    peer_take(&out[a->link], fd, &ask.tls);
    return CUDA_SUCCESS;
}

/* The socket's time limit has passed, and not only a signal come. */
static bool
silent(uint64_t since_ns)
{
    return gp_now_ns() - since_ns >= WRK_PEER_SILENCE_NS;
}

int
wrk_peer_write(struct wrk_peer *peer, const void *data, size_t len)
{
    struct iovec iov = {(void *)(uintptr_t)data, len};
    uint64_t since = gp_now_ns();

    while (iov.iov_len) {
        ssize_t n = gp_wire_send(peer->wire, peer->fd, &iov, 1, 0);

        if (n == -EAGAIN && !silent(since))
            continue;
        if (n <= 0)
            return n < 0 ? (int)n : -EPIPE;
        iov.iov_base = (uint8_t *)iov.iov_base + n;
        iov.iov_len -= (size_t)n;
        since = gp_now_ns();
    }
    return 0;
}

int
wrk_peer_read(struct wrk_peer *peer, void *data, size_t len)
{
    uint64_t since = gp_now_ns();
    uint8_t *at = data;

    while (len) {
        ssize_t n = gp_wire_recv(peer->wire, peer->fd, at, len, 0);

        if (n == -EAGAIN && !silent(since))
            continue;
        if (n <= 0)
            return n < 0 ? (int)n : -ECONNRESET;
        at += n;
        len -= (size_t)n;
        since = gp_now_ns();
    }
    return 0;
}

/* The descriptor stays: another thread may be about to use its number. */
void
wrk_peer_break(struct wrk_peer *peer)
{
    if (peer->fd >= 0)
        shutdown(peer->fd, SHUT_RDWR);
}
