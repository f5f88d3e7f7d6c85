/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_agent.h"

#include "cli_folder.h"
#include "gp_err.h"
#include "gp_hash.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "tls.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* A peer that says nothing is not kept. */
#define HELLO_NS (5 * GP_NS_PER_S)
/* What waits for a peer: some renewals with tickets.  One that does not read so many is
 * stopped, as its user's session then is. */
#define QUEUE_MAX ((size_t)64 * 1024)

struct cli_agent_peer {
    struct cli_agent *agent;
    struct gp_msg_conn msg;
    struct gp_loop_timer hello; /* until it has said what it wants */
    struct cli_lease lease;
    uint32_t request; /* its first; 0: it has said nothing yet */
    struct cli_agent_peer *next, **link;
};

/* -------------------------------------------------------------- who and where -- */

/* Two hashes make 128 bits; the text is the user's own, so nobody chooses it to
 * collide. */
int
cli_agent_address(const char *list, const uint8_t *key, char *ret, size_t size)
{
    static const struct gp_hash_key KEYS[2] = {{{1, 2}}, {{3, 4}}};
    char hex[2 * TLS_PUBLIC_SIZE + 1] = "";
    CLEANUP_FREE char *text = NULL, *path = NULL, *file = NULL;
    uint64_t hash[2];
    int r;

    if (key)
        gp_str_hex(hex, key, TLS_PUBLIC_SIZE);
    text = gp_str_printf("%s %s", list, hex);
    if (!text)
        return -ENOMEM;
    for (int i = 0; i < 2; i++)
        hash[i] = gp_hash_bytes(&KEYS[i], text, strlen(text));
    file = gp_str_printf("agent1-%016" PRIx64 "%016" PRIx64, hash[0], hash[1]);
    r = file ? cli_folder_file(file, &path, NULL) : -ENOMEM;
    if (r < 0)
        return r;
    if (strlen(path) >= sizeof(((struct cli_agent *)NULL)->path))
        return -ENAMETOOLONG;
    return snprintf(ret, size, "unix:%s", path) < (int)size ? 0 : -ENAMETOOLONG;
}

bool
cli_agent_is_own(int fd)
{
    struct ucred who;
    socklen_t len = sizeof(who);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
           who.uid == geteuid();
}

size_t
cli_agent_hello(const struct cli_lease *lease, uint8_t *bytes)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRenewMany many = GPUPOOL__CTL__CTL_RENEW_MANY__INIT;
    Gpupool__Ctl__CtlRenewOne one = GPUPOOL__CTL__CTL_RENEW_ONE__INIT, *list = &one;

    one.session_id = lease->id;
    one.lease_key.data = (uint8_t *)(uintptr_t)lease->lease_key;
    one.lease_key.len = sizeof(lease->lease_key);
    one.tickets_unix = lease->tickets_unix;
    many.sessions = &list;
    many.n_sessions = 1;
    many.hold = true;
    req.id = 1;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW_MANY;
    req.renew_many = &many;
    return gpupool__ctl__ctl_request__pack(&req, bytes);
}

/* ------------------------------------------------------------------- peers -- */

static void
peer_free(struct cli_agent_peer *peer)
{
    cli_renewer_remove(&peer->lease);
    gp_loop_timer_del(&peer->hello);
    gp_msg_conn_fini(&peer->msg);
    *peer->link = peer->next;
    if (peer->next)
        peer->next->link = peer->link;
    peer->agent->n_peers--;
    explicit_bzero(peer->lease.lease_key, sizeof(peer->lease.lease_key));
    free(peer);
}

/* It is gone, and its `gpupool run` perhaps as well. */
static void
peer_lost(struct cli_agent_peer *peer)
{
    cli_renewer_close(&peer->lease, true);
    peer_free(peer);
}

static void
on_close(struct gp_msg_conn *msg, int code)
{
    (void)code;
    peer_lost(container_of(msg, struct cli_agent_peer, msg));
}

static void
on_hello_late(struct gp_loop_timer *timer)
{
    peer_free(container_of(timer, struct cli_agent_peer, hello));
}

/* Queue @reply for @peer.  -errno: it could not be queued. */
static int
tell(struct cli_agent_peer *peer, Gpupool__Ctl__CtlReply *reply)
{
    size_t size = gpupool__ctl__ctl_reply__get_packed_size(reply);
    CLEANUP_FREE uint8_t *bytes = malloc(size ? size : 1);

    if (!bytes)
        return -ENOMEM;
    return gp_msg_conn_send(&peer->msg, bytes,
                            gpupool__ctl__ctl_reply__pack(reply, bytes));
}

static void
on_renewed(struct cli_lease *lease, const Gpupool__Ctl__CtlRenewedOne *one)
{
    struct cli_agent_peer *peer = container_of(lease, struct cli_agent_peer, lease);
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlRenewed body = GPUPOOL__CTL__CTL_RENEWED__INIT;
    Gpupool__Ctl__CtlRenewedOne *list = (Gpupool__Ctl__CtlRenewedOne *)(uintptr_t)one;
    const struct ctl_pins *keys = &peer->agent->renewer->keys;
    ProtobufCBinaryData said[CTL_PINS_MAX];

    for (; body.n_scheduler_keys < keys->n; body.n_scheduler_keys++)
        said[body.n_scheduler_keys] = (ProtobufCBinaryData){
            TLS_PUBLIC_SIZE, (uint8_t *)(uintptr_t)keys->keys[body.n_scheduler_keys]};
    body.scheduler_keys = said;
    body.sessions = &list;
    body.n_sessions = 1;
    reply.id = peer->request;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_RENEWED;
    reply.renewed = &body;
    if (tell(peer, &reply) < 0)
        peer_lost(peer);
}

static void
on_lost(struct cli_lease *lease, const char *words)
{
    struct cli_agent_peer *peer = container_of(lease, struct cli_agent_peer, lease);
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlError error = GPUPOOL__CTL__CTL_ERROR__INIT;

    error.code = GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND;
    error.words = (char *)(uintptr_t)words;
    reply.id = peer->request;
    reply.error = &error;
    if (tell(peer, &reply) < 0) /* else it goes by itself when it has read that */
        peer_free(peer);
}

static void
on_notice(struct cli_lease *lease, const Gpupool__Ctl__CtlSessionNotice *notice)
{
    struct cli_agent_peer *peer = container_of(lease, struct cli_agent_peer, lease);
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;

    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE;
    reply.session_notice = (Gpupool__Ctl__CtlSessionNotice *)(uintptr_t)notice;
    tell(peer, &reply);
}

/* An agent that was stopped for a while finds out late. */
static bool
is_left(const struct cli_lease *lease)
{
    const struct cli_agent_peer *peer = container_of(
        (struct cli_lease *)(uintptr_t)lease, struct cli_agent_peer, lease);
    char byte;

    return recv(peer->msg.src.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* False: it breaks the protocol. */
static bool
hold(struct cli_agent_peer *peer, uint32_t id, const Gpupool__Ctl__CtlRenewMany *msg)
{
    const Gpupool__Ctl__CtlRenewOne *one = msg->n_sessions ? msg->sessions[0] : NULL;

    if (peer->request || msg->n_sessions != 1 ||
        one->lease_key.len != sizeof(peer->lease.lease_key))
        return false;
    peer->request = id;
    peer->lease.id = one->session_id;
    peer->lease.tickets_unix = one->tickets_unix;
    memcpy(peer->lease.lease_key, one->lease_key.data, sizeof(peer->lease.lease_key));
    peer->lease.on_renewed = on_renewed;
    peer->lease.on_lost = on_lost;
    peer->lease.on_notice = on_notice;
    peer->lease.is_left = is_left;
    gp_loop_timer_del(&peer->hello);
    cli_renewer_add(peer->agent->renewer, &peer->lease, 0);
    cli_renewer_hurry(&peer->lease);
    return true;
}

/* It has held the session; what it names is compared all the same. */
static bool
end(struct cli_agent_peer *peer, const Gpupool__Ctl__CtlClose *msg)
{
    if (!peer->request || msg->session_id != peer->lease.id ||
        msg->lease_key.len != sizeof(peer->lease.lease_key) ||
        CRYPTO_memcmp(msg->lease_key.data, peer->lease.lease_key,
                      sizeof(peer->lease.lease_key)))
        return false;
    cli_renewer_close(&peer->lease, msg->lost);
    return true;
}

static void
on_msg(struct gp_msg_conn *msg, const void *data, size_t len)
{
    struct cli_agent_peer *peer = container_of(msg, struct cli_agent_peer, msg);
    Gpupool__Ctl__CtlRequest *req = gpupool__ctl__ctl_request__unpack(NULL, len, data);
    bool good = false;

    if (req && req->id && req->body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW_MANY)
        good = hold(peer, req->id, req->renew_many);
    else if (req && req->body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE)
        good = end(peer, req->close);
    if (req)
        gpupool__ctl__ctl_request__free_unpacked(req, NULL);
    if (!good)
        peer_lost(peer);
}

static void
on_accept(struct gp_listener *listener, int fd)
{
    struct cli_agent *agent = container_of(listener, struct cli_agent, listener);
    struct cli_agent_peer *peer = NULL;

    if (cli_agent_is_own(fd) && agent->n_peers < CLI_AGENT_PEERS_MAX)
        peer = calloc(1, sizeof(*peer));
    if (peer && gp_msg_conn_init(&peer->msg, agent->renewer->loop, fd,
                                 CLI_AGENT_MSG_MAX, QUEUE_MAX, on_msg, on_close) < 0) {
        free(peer);
        peer = NULL;
    }
    if (!peer) {
        close(fd); /* who is refused holds its session itself */
        return;
    }
    peer->agent = agent;
    peer->next = agent->peers;
    if (peer->next)
        peer->next->link = &peer->next;
    peer->link = &agent->peers;
    agent->peers = peer;
    agent->n_peers++;
    gp_loop_timer_set(agent->renewer->loop, &peer->hello, gp_now_ns() + HELLO_NS,
                      on_hello_late);
}

/* Peers wait in the kernel's queue, and then hold their sessions themselves. */
static void
on_trouble(struct gp_listener *listener, int error)
{
    (void)listener;
    (void)error;
}

/* ------------------------------------------------------------- start and end -- */

/* As many peers as may come; what is not allowed is done without. */
static void
raise_fd_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = gp_max(limit.rlim_cur,
                            gp_min(limit.rlim_max, (rlim_t)CLI_AGENT_PEERS_MAX + 64));
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Those that find no agent would all replace the socket of the last one; the folder's
 * lock lets one of them do it. */
static int
listen_alone(const char *address, int *ret_fd)
{
    CLEANUP_FREE char *folder = NULL;
    CLEANUP_FD int lock = -1;
    mode_t mask;
    int r = cli_folder(&folder, NULL);

    if (r < 0)
        return r;
    lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0)
        return -errno;
    if (flock(lock, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EBUSY : -errno;
    mask = umask(0177);
    r = gp_net_listen(address, 0, CLI_AGENT_PEERS_MAX, ret_fd, NULL);
    umask(mask);
    return r;
}

int
cli_agent_use(struct cli_agent *agent, int fd, struct cli_renewer *renewer,
              struct gp_loop *loop)
{
    memset(agent, 0, sizeof(*agent));
    agent->renewer = renewer;
    return gp_listener_init(&agent->listener, loop, fd, on_accept, on_trouble);
}

int
cli_agent_start(struct cli_agent *agent, const char *address,
                struct cli_renewer *renewer, struct gp_loop *loop)
{
    const char *path = address + strlen("unix:");
    int fd, r = listen_alone(address, &fd);

    if (r < 0)
        return r;
    r = cli_agent_use(agent, fd, renewer, loop);
    if (r < 0) {
        unlink(path);
        close(fd);
        return r;
    }
    gp_str_copy(agent->path, sizeof(agent->path), path);
    raise_fd_limit();
    return 0;
}

void
cli_agent_stop(struct cli_agent *agent)
{
    if (!agent->listener.src.loop)
        return;
    if (agent->path[0])
        unlink(agent->path); /* before it ends, so that it is our own */
    gp_listener_fini(&agent->listener);
    while (agent->peers)
        peer_free(agent->peers);
}
