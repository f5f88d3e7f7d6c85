/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_peer.h"

#include "attach.pb-c.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_time.h"
#include "gp_wire.h"
#include "gp_x25519.h"
#include "srv.h"
#include "srv_types.h"
#include "tls_record.h"
#include "wire_format.h"
#include "wrk_request.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The worker waits, and gives up a little later. */
#define DIAL_NS (1500 * GP_NS_PER_MS)
#define PEER_PORT 7481 /* when the address names none */
#define REPLY_MAX 4096

/* What the thread needs: nothing of it is the event loop's. */
struct dial {
    int ask; /* our end of the worker's socket pair, a duplicate */
    uint32_t peer, own;
    uint32_t seq; /* of the worker's request */
    char address[TICKET_PEER_MAX];
    char name[WRK_ATTACHMENT_MAX];
    uint8_t cookie[WIRE_PEER_COOKIE];
    enum tls_policy policy;
    uint8_t key[ATTACH_KEY_SIZE]; /* the other server's; zeros: it speaks no TLS */
};

/* Introduce ourselves, and hear whether we are expected. */
static int
dial_introduce(const struct dial *d, struct gp_wire *wire, int fd, uint64_t deadline,
               struct gp_err *err)
{
    Gpupool__AttachRequest req = GPUPOOL__ATTACH_REQUEST__INIT;
    Gpupool__AttachReply *reply;
    CLEANUP_FREE void *bytes = NULL;
    uint8_t buf[256];
    size_t len;
    int r;

    req.wire_major = WIRE_MAJOR;
    req.wire_minor = WIRE_MINOR;
    req.link = d->own;
    req.peer_cookie.data = (uint8_t *)(uintptr_t)d->cookie;
    req.peer_cookie.len = sizeof(d->cookie);
    r = gp_msg_send_over(wire, fd, buf, gpupool__attach_request__pack(&req, buf),
                         deadline, err);
    if (r == 0)
        r = gp_msg_recv_over(wire, fd, REPLY_MAX, deadline, &bytes, &len, err);
    if (r < 0)
        return r;
    reply = gpupool__attach_reply__unpack(NULL, len, bytes);
    if (!reply || reply->status != GPUPOOL__ATTACH_STATUS__ATTACH_OK)
        r = gp_err_set(err, -EACCES, "refused: %s",
                       reply ? reply->message : "nonsense");
    if (reply)
        gpupool__attach_reply__free_unpacked(reply, NULL);
    return r;
}

/* A key of our own for this connection alone: the cookie proves that we are expected,
 * and the other server proves itself with its key, which the ticket names. */
static int
dial_secure(const struct dial *d, int fd, uint64_t deadline, struct gp_wire **ret,
            struct gp_err *err)
{
    static const uint8_t none[ATTACH_KEY_SIZE];
    uint8_t secret[ATTACH_KEY_SIZE], public[ATTACH_KEY_SIZE];
    uint8_t identity[ATTACH_IDENTITY_SIZE];
    struct tls_psk psk = {.identity = identity, .identity_size = sizeof(identity)};
    bool known = memcmp(d->key, none, sizeof(none)) != 0;
    int r;

    if (d->policy == TLS_OFF || (!known && d->policy == TLS_PREFER))
        return 0;
    if (!known)
        return gp_err_set(err, -EPROTONOSUPPORT, "it speaks no TLS (--tls require)");
    if (gp_x25519_new(secret) < 0)
        return gp_err_set(err, -EIO, "no random bytes");
    gp_x25519_public(secret, public);
    attach_identity_make(public, d->key, identity);
    r = attach_psk_make(secret, d->key, identity, psk.key);
    if (r < 0)
        gp_err_set(err, r, "its key is none");
    else
        r = tls_linked()->connect_psk(fd, &psk, deadline, ret, err);
    explicit_bzero(secret, sizeof(secret));
    explicit_bzero(&psk, sizeof(psk));
    return r;
}

static void *
dial_main(void *arg)
{
    CLEANUP_FREE struct dial *d = arg;
    struct wrk_request answer = {
        .kind = WRK_REQUEST_PEER, .own = d->peer, .seq = d->seq};
    uint64_t deadline = gp_now_ns() + DIAL_NS;
    struct gp_err err = {0};
    CLEANUP(gp_wire_freep) struct gp_wire *wire = NULL;
    CLEANUP_FD int fd = -1;
    int r = gp_net_connect(d->address, PEER_PORT, deadline, true, &fd, &err);

    if (r == 0)
        r = dial_secure(d, fd, deadline, &wire, &err);
    if (r == 0)
        r = dial_introduce(d, wire, fd, deadline, &err);
    if (r == 0 && wire)
        r = tls_record_keys(wire, &answer.tls);
    if (r < 0)
        gp_log_warn("server", "%s: no connection to server %s of its session: %s",
                    d->name, d->address, gp_err_msg(&err, r));
    wrk_request_send(d->ask, &answer, r < 0 ? -1 : fd, MSG_DONTWAIT);
    close(d->ask);
    return NULL;
}

static int
dial_start(struct dial *d)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_t thread;
    int r;

    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(&thread, &attr, dial_main, d);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return -r;
}

int
srv_peer_dial(struct srv_worker *w, const struct wrk_request *ask)
{
    const struct ticket_claims *claims = &w->session->claims;
    struct wrk_request no = {
        .kind = WRK_REQUEST_PEER, .own = ask->own, .seq = ask->seq};
    struct dial *d;

    if (ask->own >= claims->n_peers || (w->peers_dialled & 1u << ask->own))
        return -EPROTO;
    w->peers_dialled |= 1u << ask->own;
    d = calloc(1, sizeof(*d));
    if (d) {
        d->peer = ask->own;
        d->own = w->link;
        d->seq = ask->seq;
        memcpy(d->address, claims->peers[ask->own], sizeof(d->address));
        memcpy(d->name, w->name, sizeof(d->name));
        memcpy(d->key, claims->peer_keys[ask->own], sizeof(d->key));
        d->policy = w->srv->tls_policy;
        memcpy(d->cookie, ask->secret, sizeof(d->cookie));
        d->ask = d->address[0] ? fcntl(w->ask.fd, F_DUPFD_CLOEXEC, 0) : -1;
    }
    if (d && d->ask >= 0 && dial_start(d) == 0)
        return 0;
    if (d && d->ask >= 0)
        close(d->ask);
    free(d);
    return wrk_request_send(w->ask.fd, &no, -1, MSG_DONTWAIT);
}
