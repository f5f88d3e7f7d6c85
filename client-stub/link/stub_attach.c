/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake; see stub_attach.h. */
#include "stub_attach.h"

#include "attach.pb-c.h"
#include "cuda_abi.h"
#include "gp_b64.h"
#include "gp_err.h"
#include "gp_hash.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_wire.h"
#include "gp_x25519.h"
#include "stub_answer.h"
#include "stub_rdma.h"
#include "stub_resume.h"
#include "stub_session.h"
#include "stub_stripes.h"
#include "wire_format.h"
#include "xport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ATTACH_REPLY_MAX (1024u * 1024u)
/* After this TCP must do, unless nothing but RDMA will. */
#define ATTACH_RDMA_NS (5 * GP_NS_PER_S)
/* After a handshake that broke off. */
#define ATTACH_AGAIN_NS (20 * (long)GP_NS_PER_MS)

/* ---- messages --------------------------------------------------------------- */

static int
attach_send_request(struct gp_wire *wire, int fd, const struct stub_server *server,
                    const struct stub_attach *at, const char *extra, uint64_t deadline,
                    struct gp_err *err)
{
    Gpupool__AttachRequest req = GPUPOOL__ATTACH_REQUEST__INIT;
    CLEANUP_FREE uint8_t *bytes = NULL;
    char host[256] = "";
    char *transports[] = {(char *)"tcp", (char *)(uintptr_t)extra, (char *)"bells"};
    size_t len;

    gethostname(host, sizeof(host) - 1);
    req.wire_major = WIRE_MAJOR;
    req.wire_minor = WIRE_MINOR;
    req.ticket = (char *)server->ticket;
    req.client_version = (char *)GPUPOOL_VERSION;
    req.pid = (uint32_t)getpid();
    req.hostname = host;
    req.program = program_invocation_short_name;
    req.cuda_version = CUDA_VERSION;
    req.links = at->links;
    req.link = at->link;
    req.device_base = at->device_base;
    req.payloads = at->payloads;
    req.bound = at->secret != NULL;
    req.resume_s = at->resume_s;
    req.resume_stripes = true;
    req.resume_rdma = true;
    req.control = true;
    req.rereads = true;
    req.transports = transports;
    req.n_transports = !extra ? 1 : strcmp(extra, "shm") == 0 ? 3 : 2;
    len = gpupool__attach_request__get_packed_size(&req);
    bytes = malloc(len);
    if (!bytes)
        return -ENOMEM;
    gpupool__attach_request__pack(&req, bytes);
    return gp_msg_send_over(wire, fd, bytes, len, deadline, err);
}

static int
attach_read_secret(const struct stub_attach *at, uint8_t ret[ATTACH_KEY_SIZE],
                   struct gp_err *err)
{
    CLEANUP_FREE uint8_t *bytes = NULL;
    size_t size = 0;

    if (!at->secret ||
        gp_b64_decode(at->secret, strlen(at->secret), &bytes, &size) < 0 ||
        size != ATTACH_KEY_SIZE)
        return gp_err_set(err, -EINVAL,
                          "the session's secret is not %d bytes of base64url",
                          ATTACH_KEY_SIZE);
    memcpy(ret, bytes, ATTACH_KEY_SIZE);
    explicit_bzero(bytes, size);
    return 0;
}

/* The server wants to see that the ticket was made for us. */
static int
attach_prove(struct gp_wire *wire, int fd, const char *ticket,
             const Gpupool__AttachReply *challenge, struct stub_attach *at,
             uint64_t deadline, struct gp_err *err)
{
    Gpupool__AttachProof msg = GPUPOOL__ATTACH_PROOF__INIT;
    uint8_t secret[ATTACH_KEY_SIZE], proof[ATTACH_PROOF_SIZE], bytes[64];
    struct attach_transcript t;
    int r = attach_read_secret(at, secret, err);

    if (r < 0)
        return r;
    if (challenge->proof_nonce.len != ATTACH_NONCE_SIZE ||
        challenge->proof_key.len != ATTACH_KEY_SIZE)
        return gp_err_set(err, -EPROTO, "the server's challenge is malformed");
    if (at->tls.on && memcmp(at->tls.server_key, challenge->proof_key.data,
                             sizeof(at->tls.server_key)) != 0)
        return gp_err_set(err, -EPROTO, "the server's key is not that of its TLS");
    memcpy(t.nonce, challenge->proof_nonce.data, sizeof(t.nonce));
    memcpy(t.server_key, challenge->proof_key.data, sizeof(t.server_key));
    gp_x25519_public(secret, t.client_key);
    r = attach_transcript_finish(&t, secret, t.server_key, ticket);
    explicit_bzero(secret, sizeof(secret));
    if (r < 0)
        return gp_err_set(err, -EPROTO, "the server's key is none");
    attach_proof_make(&t, proof);
    attach_key_make(&t, at->key);
    at->proven = true;
    explicit_bzero(&t, sizeof(t));
    msg.proof.data = proof;
    msg.proof.len = sizeof(proof);
    return gp_msg_send_over(wire, fd, bytes, gpupool__attach_proof__pack(&msg, bytes),
                            deadline, err);
}

/* The server has looked at the ticket, so it is there: it may start others before us.
 */
static void
attach_queue(struct stub_attach *at)
{
    const char *text = getenv("GPUPOOL_ATTACH_SECONDS");

    if (!text || !*text)
        at->deadline_ns = gp_max(at->deadline_ns,
                                 gp_now_ns() + STUB_ATTACH_QUEUE_SECONDS * GP_NS_PER_S);
}

/* Ask, prove what is to be proven, and get the answer. */
static int
attach_ask(struct gp_wire *wire, int fd, const struct stub_server *server,
           const char *extra, struct stub_attach *at, Gpupool__AttachReply **ret,
           struct gp_err *err)
{
    int r = attach_send_request(wire, fd, server, at, extra, at->deadline_ns, err);

    if (r >= 0)
        r = stub_answer_receive(wire, fd, ATTACH_REPLY_MAX, at->deadline_ns, ret, err);
    if (r < 0 || (*ret)->status != GPUPOOL__ATTACH_STATUS__ATTACH_PROVE)
        return r;
    r = attach_prove(wire, fd, server->ticket, *ret, at, at->deadline_ns, err);
    gpupool__attach_reply__free_unpacked(TAKE_PTR(*ret), NULL);
    attach_queue(at);
    return r < 0 ? r
                 : stub_answer_receive(wire, fd, ATTACH_REPLY_MAX, at->deadline_ns, ret,
                                       err);
}

static int
attach_check_reply(const Gpupool__AttachReply *reply, struct gp_err *err)
{
    for (size_t i = 0; i < reply->n_devices; i++)
        if (reply->devices[i]->uuid.len != 16)
            return gp_err_set(err, -EPROTO, "device %zu has no UUID", i);
    if (reply->n_devices == 0)
        return gp_err_set(err, -ENODEV, "the session has no device");
    return 0;
}

/* ---- addresses and transports ----------------------------------------------- */

enum attach_preference { PREFER_AUTO, PREFER_TCP, PREFER_SHM, PREFER_RDMA };

static int
attach_preference(enum attach_preference *ret, struct gp_err *err)
{
    const char *text = getenv("GPUPOOL_TRANSPORT");

    if (!text || !*text || strcmp(text, "auto") == 0)
        *ret = PREFER_AUTO;
    else if (strcmp(text, "tcp") == 0)
        *ret = PREFER_TCP;
    else if (strcmp(text, "shm") == 0)
        *ret = PREFER_SHM;
    else if (strcmp(text, "rdma") == 0)
        *ret = PREFER_RDMA;
    else
        return gp_err_set(err, -EINVAL, "GPUPOOL_TRANSPORT=%s: auto, tcp, shm or rdma",
                          text);
    return 0;
}

/* The socket of the handshake, and whether it is a local one. */
static int
attach_connect(const struct stub_server *server, enum attach_preference preference,
               uint64_t deadline, struct stub_attach *at, bool *ret_local, int *ret_fd,
               struct gp_err *err)
{
    struct gp_err why = {0};
    int r;

    *ret_local = false;
    if (preference == PREFER_SHM && !server->local)
        return gp_err_set(err, -ENOENT,
                          "GPUPOOL_TRANSPORT=shm, but the session names no "
                          "server on this host");
    if ((preference == PREFER_AUTO || preference == PREFER_SHM) && server->local) {
        r = gp_net_connect(server->local, STUB_SERVER_PORT, deadline, true, ret_fd,
                           &why);
        if (r >= 0) {
            at->address = server->local;
            *ret_local = true;
            return 0;
        }
        if (preference == PREFER_SHM)
            return gp_err_set(err, r, "%s", gp_err_msg(&why, r));
        gp_log_info("stub", "not local: %s", gp_err_msg(&why, r));
    }
    at->address = server->address;
    return gp_net_connect(server->address, STUB_SERVER_PORT, deadline, true, ret_fd,
                          err);
}

/* The link over RDMA may be replaced when both ends want that.  @rdma is gone after an
 * error, without its socket. */
static int
attach_resumable(const Gpupool__AttachReply *reply, const struct stub_attach *at,
                 struct xport_conn *rdma, struct xport_conn **ret, struct gp_err *err)
{
    int r = 0;

    *ret = rdma;
    if (reply->resume_rdma)
        r = stub_resume_open_rdma(at->address, &at->tls, at->proven ? at->key : NULL,
                                  reply, rdma, ret, err);
    if (r < 0) {
        rdma->fd = -1;
        xport_free(rdma);
    }
    return r;
}

/* Connect to one of the worker's RDMA ports; the words of @err say why not. */
static int
attach_rdma(const Gpupool__AttachTransport *offer, const struct stub_attach *at, int fd,
            uint64_t deadline, struct xport_conn **ret, struct gp_err *err)
{
    struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX];
    uint8_t sent[XPORT_RDMA_COOKIE], made[ATTACH_COOKIE_SIZE];
    size_t n = stub_rdma_ports(offer, ports, sent);

    if (!n)
        return gp_err_set(err, -EPROTO, "the server's RDMA offer is malformed");
    if (at->proven)
        attach_cookie_make(at->key, ATTACH_COOKIE_RDMA, 0, made);
    return xport_rdma_connect(fd, ports, n, at->proven ? made : sent, WIRE_FRAME_MAX,
                              deadline, ret, err);
}

/* The socket, which may be replaced when both ends want that.  Takes @fd and *@wire
 * over on success. */
static int
attach_tcp(const Gpupool__AttachReply *reply, const struct stub_attach *at, int fd,
           struct gp_wire **wire, struct xport_conn **ret, struct gp_err *err)
{
    int r;

    if (reply->resume_s > at->resume_s)
        return gp_err_set(err, -EPROTO, "the server would resume as nobody asked");
    r = reply->resume_s
            ? stub_resume_open(at->address, &at->tls, at->proven ? at->key : NULL,
                               reply, fd, ret, err)
            : xport_tcp_new(fd, WIRE_FRAME_MAX, ret, err);
    if (r == 0 && *wire)
        r = xport_wire_start(*ret, TAKE_PTR(*wire), err);
    return r;
}

/* RDMA was offered: take it, or say why not and stay on TCP. */
static int
attach_rdma_or_tcp(const Gpupool__AttachReply *reply,
                   const Gpupool__AttachTransport *offer, const struct stub_attach *at,
                   enum attach_preference preference, uint64_t deadline, int fd,
                   struct gp_wire **wire, struct xport_conn **ret, struct gp_err *err)
{
    uint64_t until = preference == PREFER_RDMA
                         ? deadline
                         : gp_min(deadline, gp_now_ns() + ATTACH_RDMA_NS);
    struct gp_err why = {0};
    int r = stub_rdma_choose(*wire, fd, "rdma", "", deadline, err);

    if (r < 0)
        return r;
    r = attach_rdma(offer, at, fd, until, ret, &why);
    if (r >= 0)
        return attach_resumable(reply, at, *ret, ret, err);
    if (preference == PREFER_RDMA)
        return gp_err_set(err, r, "%s", gp_err_msg(&why, r));
    gp_log_info("stub", "no RDMA: %s", gp_err_msg(&why, r));
    r = stub_rdma_choose(*wire, fd, "tcp", gp_err_msg(&why, r), deadline, err);
    if (r >= 0)
        r = attach_tcp(reply, at, fd, wire, ret, err);
    if (r >= 0 && reply->resume_s && !reply->resume_rdma)
        stub_resume_tell(*ret);
    return r;
}

/* The transport that the reply chooses.  Takes *fd over on success. */
static int
attach_transport(const Gpupool__AttachReply *reply, const struct stub_attach *at,
                 enum attach_preference preference, bool local, uint64_t deadline,
                 int *fd, struct gp_wire **wire, struct xport_conn **ret,
                 struct gp_err *err)
{
    const Gpupool__AttachTransport *shm = local ? stub_rdma_offer(reply, "shm") : NULL;
    const Gpupool__AttachTransport *rdma =
        local ? NULL : stub_rdma_offer(reply, "rdma");
    const char *refused = preference == PREFER_SHM && !shm     ? "shared memory"
                          : preference == PREFER_RDMA && !rdma ? "RDMA"
                                                               : NULL;
    int r;

    if (refused)
        return gp_err_set(err, -EPROTO, "the server does not offer %s%s%s", refused,
                          reply->n_refusals ? ": " : "",
                          reply->n_refusals ? reply->refusals[0] : "");
    if (reply->n_refusals)
        gp_log_info("stub", "the server stays with %s: %s", local ? "unix" : "tcp",
                    reply->refusals[0]);
    if (rdma)
        r = attach_rdma_or_tcp(reply, rdma, at, preference, deadline, *fd, wire, ret,
                               err);
    else
        r = shm ? xport_shm_accept(*fd, shm->parameters.len != 0, WIRE_FRAME_MAX,
                                   deadline, ret, err)
                : attach_tcp(reply, at, *fd, wire, ret, err);
    if (r >= 0)
        *fd = -1;
    return r;
}

/* What to offer besides the socket: shared memory on this host, RDMA where a device is.
 */
static const char *
attach_extra(enum attach_preference preference, bool local)
{
    struct gp_err why = {0};

    if (local)
        return "shm";
    if (preference == PREFER_TCP)
        return NULL;
    if (xport_rdma_usable(&why) == 0)
        return "rdma";
    if (preference == PREFER_RDMA)
        gp_log_warn("stub", "%s", why.msg);
    else
        gp_log_info("stub", "%s", why.msg);
    return NULL;
}

/* GPUPOOL_COMPRESS, as the request wants it. */
static int
attach_payloads(uint32_t *ret, struct gp_err *err)
{
    const char *text = getenv("GPUPOOL_COMPRESS");
    uint32_t preference;

    if (stub_stripes_settings() < 0)
        return gp_err_set(err, -EINVAL, "GPUPOOL_CONNECTIONS=%s: auto, or 1 to %d",
                          getenv("GPUPOOL_CONNECTIONS"), 1 + XPORT_STRIPES_MAX);

    if (!text || !*text || strcmp(text, "auto") == 0)
        preference = 1 + XPORT_PACK_AUTO;
    else if (strcmp(text, "off") == 0)
        preference = 1 + XPORT_PACK_NEVER;
    else if (strcmp(text, "always") == 0)
        preference = 1 + XPORT_PACK_ALWAYS;
    else
        return gp_err_set(err, -EINVAL, "GPUPOOL_COMPRESS=%s: auto, off or always",
                          text);
    if (preference > 1 + XPORT_PACK_NEVER && !xport_pack_usable()) {
        gp_log_info("stub", "no compression: there is no libzstd.so.1");
        preference = 1 + XPORT_PACK_NEVER;
    }
    *ret = preference;
    return 0;
}

/* The form of payloads that the reply chooses. */
static int
attach_blocks(const Gpupool__AttachReply *reply, const struct stub_attach *at,
              struct gp_err *err)
{
    if (reply->payloads > at->payloads)
        return gp_err_set(err, -EPROTO, "the server wants payloads as nobody asked");
    if (reply->payloads == 0 || !xport_can(at->conn, XPORT_CAN_BLOCKS))
        return 0;
    return xport_blocks_start(at->conn, (enum xport_pack)(reply->payloads - 1), err);
}

static int
attach_talk(const struct stub_server *server, enum attach_preference preference,
            uint64_t deadline, struct stub_attach *at, Gpupool__AttachReply **ret,
            struct gp_err *err)
{
    CLEANUP(gp_wire_freep) struct gp_wire *wire = NULL;
    CLEANUP_FD int fd = -1;
    bool local;
    int r = attach_connect(server, preference, deadline, at, &local, &fd, err);

    at->deadline_ns = deadline;
    if (r >= 0 && !local)
        r = stub_secure_prepare(&at->tls, server, at->secret, err);
    if (r >= 0)
        r = stub_secure_connect(&at->tls, fd, deadline, &wire, err);
    at->resume_s = local ? 0 : stub_resume_seconds();
    if (r >= 0)
        r = attach_ask(wire, fd, server, attach_extra(preference, local), at, ret, err);
    if (r < 0)
        return r;
    if ((*ret)->status != GPUPOOL__ATTACH_STATUS__ATTACH_OK) {
        at->status = (int)(*ret)->status;
        return gp_err_set(err, -EACCES, "refused: %s",
                          *(*ret)->message ? (*ret)->message
                                           : "the server gave no reason");
    }
    r = attach_check_reply(*ret, err);
    if (r < 0)
        return r;
    r = attach_transport(*ret, at, preference, local, at->deadline_ns, &fd, &wire,
                         &at->conn, err);
    if (r >= 0)
        r = attach_blocks(*ret, at, err);
    if (r < 0)
        xport_free(TAKE_PTR(at->conn));
    return r;
}

/* Where a broken link may be replaced, one that breaks during the handshake is as well:
 * by another handshake, because nobody has begun anything yet. */
static int
attach_persist(const struct stub_server *server, enum attach_preference preference,
               uint64_t deadline, struct stub_attach *at, Gpupool__AttachReply **ret,
               struct gp_err *err)
{
    char broke[sizeof(err->msg)] = "";

    for (;;) {
        int r = attach_talk(server, preference, deadline, at, ret, err);

        if (r < 0 && *broke)
            gp_err_wrap(err, r, "the handshake broke off (%.200s), and then", broke);
        if ((r != -ECONNRESET && r != -EPIPE) || !at->resume_s ||
            gp_now_ns() >= deadline)
            return r;
        if (!*broke)
            gp_str_copy(broke, sizeof(broke), gp_err_msg(err, r));
        gp_log_info("stub", "the handshake broke off, another one: %s",
                    gp_err_msg(err, r));
        gpupool__attach_reply__free_unpacked(TAKE_PTR(*ret), NULL);
        *err = (struct gp_err){0};
        at->proven = false;
        nanosleep(&(struct timespec){.tv_nsec = ATTACH_AGAIN_NS}, NULL);
    }
}

/* How long an unreachable server may keep the program waiting. */
static uint64_t
attach_patience(void)
{
    const char *text = getenv("GPUPOOL_ATTACH_SECONDS");
    uint64_t seconds = STUB_ATTACH_SECONDS;

    if (text && gp_str_time(text, 1, 1, 3600, &seconds) < 0)
        gp_log_warn(
            "stub",
            "GPUPOOL_ATTACH_SECONDS=%s: a time like 30s or 10m, 1..3600 seconds", text);
    return seconds * GP_NS_PER_S;
}

static void
attach_link_timeout(void)
{
    const char *text = getenv("GPUPOOL_LINK_TIMEOUT");
    uint64_t seconds;

    if (!text || !*text)
        return;
    if (gp_str_time(text, 1, XPORT_LINK_TIMEOUT_MIN_S, XPORT_LINK_TIMEOUT_MAX_S,
                    &seconds) < 0)
        gp_log_warn("stub",
                    "GPUPOOL_LINK_TIMEOUT=%s: a time like 30s or 10m, %d..%d seconds",
                    text, XPORT_LINK_TIMEOUT_MIN_S, XPORT_LINK_TIMEOUT_MAX_S);
    else
        xport_set_link_timeout((uint32_t)seconds);
}

/* The server says that this host came too often and when it may again: wait for that,
 * and up to as long again, so that the processes of a job do not all come at once. */
static bool
attach_again(struct stub_attach *at, Gpupool__AttachReply **reply, uint64_t deadline)
{
    uint64_t wait = *reply ? (*reply)->retry_after_ms * GP_NS_PER_MS : 0;

    if (!wait || at->status != GPUPOOL__ATTACH_STATUS__ATTACH_LIMIT)
        return false;
    wait += gp_hash_u64(gp_now_ns()) % wait;
    if (gp_now_ns() + wait >= deadline)
        return false;
    gp_sleep_ns(wait);
    gpupool__attach_reply__free_unpacked(TAKE_PTR(*reply), NULL);
    at->status = 0;
    return true;
}

int
stub_attach(const struct stub_server *server, struct stub_attach *ret,
            struct gp_err *err)
{
    uint64_t deadline = gp_now_ns() + attach_patience();
    Gpupool__AttachReply *reply = NULL;
    enum attach_preference preference = PREFER_AUTO;
    int r = attach_preference(&preference, err);

    attach_link_timeout();
    if (r >= 0)
        r = attach_payloads(&ret->payloads, err);
    if (r >= 0)
        do
            r = attach_persist(server, preference, deadline, ret, &reply, err);
        while (r < 0 && attach_again(ret, &reply, deadline));
    if (r < 0) {
        gpupool__attach_reply__free_unpacked(reply, NULL);
        return r;
    }
    ret->reply = reply;
    return 0;
}
