/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_worker.h"

#include "attach_proof.h"
#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_arbiter.h"
#include "srv_desk.h"
#include "srv_export.h"
#include "srv_health.h"
#include "srv_inventory.h"
#include "srv_jail.h"
#include "srv_keeper.h"
#include "srv_kept.h"
#include "srv_ledger.h"
#include "srv_request.h"
#include "srv_resume.h"
#include "srv_session.h"
#include "srv_spawn.h"
#include "srv_state.h"
#include "srv_worker_conf.h"
#include "srv_worker_log.h"
#include "wrk_request.h"
#include "wrk_segment.h"
#include "xport.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void
worker_free(struct srv_worker *w)
{
    struct srv_worker **at = &w->srv->workers;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    w->srv->n_workers--;
    gp_loop_timer_del(&w->kill_timer);
    gp_loop_fd_del(&w->client);
    srv_request_finish(w);
    srv_worker_log_free(w);
    srv_resume_free(w);
    if (w->client.fd >= 0)
        gp_net_close_now(w->client.fd);
    if (w->adopt >= 0)
        close(w->adopt);
    srv_desk_free(w->desk);
    if (!w->srv->leaving)
        srv_keeper_drop(w->srv->keeper, SRV_KEEP_WORKER, w->key, 0);
    srv_kept_unmap(w->kept, sizeof(*w->kept));
    free(w);
}

static void
on_grace_over(struct gp_loop_timer *timer)
{
    struct srv_worker *w = container_of(timer, struct srv_worker, kill_timer);

    gp_log_warn("server", "%s: worker %d did not end within %d ms (%s); killed",
                w->name, (int)w->pid, SRV_GRACE_MS, w->why);
    kill(-w->pid, SIGKILL);
    kill(w->pid, SIGKILL);
}

static void
worker_grace(struct srv_worker *w, const char *why)
{
    if (w->ending)
        return;
    w->ending = true;
    w->why = why;
    atomic_store(&w->desk->leaving, true);
    gp_loop_timer_set(w->srv->loop, &w->kill_timer,
                      gp_now_ns() + SRV_GRACE_MS * GP_NS_PER_MS, on_grace_over);
}

/* A client that could have come back will not.  Its worker waits for it, so it is told.
 */
static void
worker_left(struct srv_worker *w, const char *why)
{
    if (!w->ending)
        kill(w->pid, SIGTERM);
    worker_grace(w, why);
}

/* The client is gone, perhaps for good.  The worker sees that as well, unless it is
 * stuck. */
static void
on_client(struct gp_loop_fd *src, uint32_t revents)
{
    struct srv_worker *w = container_of(src, struct srv_worker, client);

    (void)revents;
    gp_loop_fd_del(src);
    atomic_store(&w->desk->leaving, true);
    if (!srv_resume_away(w, worker_left))
        worker_grace(w, "its client is gone");
}

/* The first @size bytes of it. */
static void
cookie_make(const uint8_t key[ATTACH_KEY_SIZE], enum attach_cookie kind, uint32_t index,
            uint8_t *ret, size_t size)
{
    uint8_t cookie[ATTACH_COOKIE_SIZE];

    attach_cookie_make(key, kind, index, cookie);
    memcpy(ret, cookie, size);
}

/* What the keeper gets of it; all stays the worker's. */
static struct srv_keep_fds
kept_fds(const struct srv_worker *w, int client, int kept)
{
    struct srv_keep_fds fds = {.n = SRV_WORKER_FDS};

    fds.fd[SRV_WORKER_CLIENT] = client;
    fds.fd[SRV_WORKER_DESK] = w->desk->desk_fd;
    fds.fd[SRV_WORKER_NOTICE] = w->desk->notice_fd;
    fds.fd[SRV_WORKER_WAKE] = w->desk->wake_fd;
    fds.fd[SRV_WORKER_ASK] = w->ask.fd;
    fds.fd[SRV_WORKER_LINK] = srv_resume_channel(w);
    fds.fd[SRV_WORKER_ADOPT] = w->adopt;
    fds.fd[SRV_WORKER_DESK_KEPT] = w->desk->kept_fd;
    fds.fd[SRV_WORKER_KEPT] = kept;
    fds.fd[SRV_WORKER_LOG] = srv_worker_log_fd(w);
    return fds;
}

/* For a successor. */
static int
worker_keep(struct srv_worker *w, const struct srv_worker_client *client, int *ret_fd,
            struct gp_err *err)
{
    void *map = NULL;
    int r = srv_kept_new(SRV_KEPT_WORKER, sizeof(*w->kept), ret_fd, &map, err);

    if (r < 0)
        return r;
    w->kept = map;
    w->kept->form = WRK_SHARED_FORM;
    w->kept->slot = w->slot;
    w->kept->session_id = w->session->claims.session_id;
    gp_str_copy(w->kept->name, sizeof(w->kept->name), w->name);
    w->kept->client_pid = client->pid;
    w->kept->link = w->link;
    memcpy(w->kept->image_nonce, w->image_nonce, sizeof(w->image_nonce));
    memcpy(w->kept->lane_cookies, w->lane_cookies, sizeof(w->lane_cookies));
    memcpy(w->kept->ending_cookie, w->ending_cookie, sizeof(w->ending_cookie));
    memcpy(w->kept->peer_cookies, w->peer_cookies, sizeof(w->peer_cookies));
    return 0;
}

static int
adopt_pair(struct srv_worker *w, int *ret_fd, struct gp_err *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return gp_err_set(err, -errno, "socket pair of a worker: %s", strerror(errno));
    w->adopt = pair[0];
    *ret_fd = pair[1];
    return 0;
}

static int
worker_spawn(struct srv_worker *w, const struct srv_worker_client *client, int fd,
             struct gp_err *err)
{
    const char *argv[] = {"gpupool-worker", w->name, NULL};
    char visible[TICKET_SLICES_MAX * TICKET_UUID_TEXT];
    CLEANUP_FD int conf = -1;
    CLEANUP_FD int ask = -1;
    CLEANUP_FD int link = -1;
    CLEANUP_FD int adopt = -1;
    CLEANUP_FD int log = -1;
    CLEANUP_FD int kept_fd = -1;
    struct srv_keep_fds kept;
    int fds[WRK_FDS_END - 3];
    struct srv_spawn spawn = {.conf = &w->srv->conf,
                              .program = w->srv->program,
                              .jail = w->srv->jail,
                              .cell = &w->session->cell,
                              .exports = w->session->cell.exports,
                              .argv = argv,
                              .fds = fds,
                              .n_fds = WRK_FDS_END - 3,
                              .stdout_fd = -1,
                              .visible = visible,
                              .sm_percent =
                                  w->session->claims.spatial == TICKET_SPATIAL_MPS
                                      ? w->session->claims.slices[0].core
                                      : 0,
                              .keeper = w->srv->keeper,
                              .key = w->key,
                              .kept = &kept};
    int r = worker_keep(w, client, &kept_fd, err);

    if (r == 0)
        r = srv_resume_new(w, client->key, client->rdma && !client->resume_rdma,
                           client->tls->suite != TLS_SUITE_NONE,
                           srv_worker_resume_s(w, client), &link, err);
    if (r == 0)
        r = srv_worker_conf(w, client, &conf, err);
    if (r == 0)
        r = srv_request_open(w, &ask, err);
    if (r == 0)
        r = srv_worker_log_new(w, &log, err);
    if (r == 0 && w->srv->keeper)
        r = adopt_pair(w, &adopt, err);
    if (r < 0)
        return r;
    srv_worker_visible_cards(w->srv, w->session, visible, sizeof(visible));
    fds[WRK_FD_CONN - 3] = fd;
    fds[WRK_FD_CONF - 3] = conf;
    fds[WRK_FD_SEGMENT - 3] = srv_ledger_segment_fd(w->session->ledger);
    fds[WRK_FD_REQUEST - 3] = ask;
    fds[WRK_FD_DESK - 3] = w->desk->desk_fd;
    fds[WRK_FD_NOTICE - 3] = w->desk->notice_fd;
    fds[WRK_FD_WAKE - 3] = w->desk->wake_fd;
    fds[WRK_FD_LINK - 3] = link;
    fds[WRK_FD_ADOPT - 3] = adopt;
    fds[WRK_FD_LOG - 3] = log;
    kept = kept_fds(w, fd, kept_fd);
    r = srv_spawn(&spawn, &w->pid, err);
    srv_desk_sent(w->desk);
    return r;
}

/* For the arbiter, at which it takes a place when it has loaded its driver. */
static void
worker_desk(struct srv_worker *w, uint32_t client_pid)
{
    const struct ticket_claims *claims = &w->session->claims;
    struct srv_desk *d = w->desk;

    d->session = claims->session_id;
    d->ledger = w->session->ledger;
    d->slot = w->slot;
    d->n_slices = claims->n_slices;
    d->work_limit_s =
        claims->offline ? w->srv->conf.work_limit_offline_s : w->srv->conf.work_limit_s;
    for (uint32_t i = 0; i < claims->n_slices; i++) {
        d->slices[i].card =
            srv_inventory_find(w->srv->inventory, claims->slices[i].card_uuid)->at;
        d->slices[i].share = srv_session_share(claims, i);
    }
    srv_ledger_desk(w->session->ledger, w->slot, d, client_pid);
}

/* Without a proof there is one of each kind, which the worker sends to the client. */
static int
cookies_draw(struct srv_worker *w)
{
    uint8_t drawn[WIRE_STRIPE_COOKIE + WIRE_PEER_COOKIE];

    if (getrandom(drawn, sizeof(drawn), 0) != sizeof(drawn))
        return -EIO;
    for (uint32_t i = 0; i < XPORT_STRIPES_MAX; i++)
        memcpy(w->lane_cookies[i], drawn, WIRE_STRIPE_COOKIE);
    for (uint32_t i = 0; i < WIRE_LINKS_MAX; i++)
        memcpy(w->peer_cookies[i], drawn + WIRE_STRIPE_COOKIE, WIRE_PEER_COOKIE);
    static_assert(WIRE_ENDING_COOKIE == WIRE_STRIPE_COOKIE, "a client has one of both");
    memcpy(w->ending_cookie, drawn, WIRE_ENDING_COOKIE);
    return 0;
}

static int
worker_secrets(struct srv_worker *w, const uint8_t *key, struct gp_err *err)
{
    int r =
        getrandom(w->image_nonce, sizeof(w->image_nonce), 0) == sizeof(w->image_nonce)
            ? 0
            : -EIO;

    for (uint32_t i = 0; key && i < XPORT_STRIPES_MAX; i++)
        cookie_make(key, ATTACH_COOKIE_STRIPE, i, w->lane_cookies[i],
                    WIRE_STRIPE_COOKIE);
    for (uint32_t i = 0; key && i < WIRE_LINKS_MAX; i++)
        cookie_make(key, ATTACH_COOKIE_PEER, i, w->peer_cookies[i], WIRE_PEER_COOKIE);
    if (key)
        cookie_make(key, ATTACH_COOKIE_ENDING, 0, w->ending_cookie, WIRE_ENDING_COOKIE);
    if (r == 0 && !key)
        r = cookies_draw(w);
    return r < 0 ? gp_err_set(err, r, "no random bytes") : 0;
}

static struct srv_worker *
worker_alloc(struct srv *srv, struct srv_session *session)
{
    struct srv_worker *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->srv = srv;
    w->session = session;
    w->client.fd = w->ask.fd = w->adopt = -1;
    return w;
}

static void
worker_enter(struct srv_worker *w)
{
    w->next = w->srv->workers;
    w->srv->workers = w;
    w->srv->n_workers++;
}

int
srv_worker_start(struct srv *srv, struct srv_session *session,
                 const struct srv_worker_client *client, int fd, struct gp_err *err)
{
    struct srv_worker *w;
    int r;

    if (srv->n_workers >= srv->conf.max_attachments)
        return gp_err_set(err, -EDQUOT,
                          "this server already serves %u client processes, its limit",
                          srv->n_workers);
    w = worker_alloc(srv, session);
    if (!w)
        return gp_err_set(err, -ENOMEM, "no memory for a worker");
    w->link = client->link;
    w->key = srv->state->next_key++;
    r = worker_secrets(w, client->key, err);
    if (r == 0)
        r = srv_desk_new(&w->desk, err);
    if (r == 0)
        r = srv_session_take_slot(session, &w->slot, err);
    if (r < 0) {
        srv_desk_free(w->desk);
        free(w);
        return r;
    }
    worker_enter(w);
    session->kept->next_attachment = ++session->next_attachment;
    snprintf(w->name, sizeof(w->name), "%s.c%u", session->claims.session,
             session->next_attachment);
    worker_desk(w, client->pid);
    r = srv_arbiter_add(srv->arbiter, w->desk, err);
    if (r == 0)
        r = worker_spawn(w, client, fd, err);
    if (r == 0) {
        /* EPOLLIN stays out: the bytes are the worker's. */
        r = gp_loop_fd_add(srv->loop, &w->client, fd, EPOLLRDHUP, on_client);
        if (r < 0)
            kill(w->pid, SIGKILL);
    }
    if (r < 0) {
        w->client.fd = -1; /* still the caller's */
        srv_arbiter_remove(srv->arbiter, w->desk);
        srv_session_free_slot(session, w->slot);
        worker_free(w);
        return r;
    }
    w->from = gp_net_peer_hash(fd);
    srv_resume_watch(w, client->pid, fd);
    w->starting_ns = gp_now_ns();
    gp_log_info("server", "%s: attached, worker %d, program %s (pid %u on %s)", w->name,
                (int)w->pid, client->program, client->pid, client->hostname);
    return 0;
}

/* In a time that does not tell where they differ. */
static bool
cookie_is(const uint8_t *a, const uint8_t *b, unsigned size)
{
    unsigned differ = 0;

    for (unsigned i = 0; i < size; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

/* Is it what connection @index of that @round has to show? */
static bool
stripe_cookie_is(const struct srv_worker *w, const uint8_t *cookie, uint32_t round,
                 uint32_t index)
{
    uint8_t own[WIRE_STRIPE_COOKIE];

    if (!round)
        return cookie_is(w->lane_cookies[index], cookie, WIRE_STRIPE_COOKIE);
    if (!w->resume)
        return false;
    cookie_make(srv_resume_key(w), ATTACH_COOKIE_STRIPE,
                round * XPORT_STRIPES_MAX + index, own, sizeof(own));
    return cookie_is(own, cookie, sizeof(own));
}

int
srv_worker_stripe(struct srv *srv, const uint8_t cookie[WIRE_STRIPE_COOKIE],
                  uint32_t round, uint32_t index, int fd, const struct tls_keys *tls)
{
    struct wrk_request ask = {
        .kind = WRK_REQUEST_STRIPE, .own = index, .bytes = round, .tls = *tls};
    struct srv_worker *w = srv->workers;
    uint32_t seen;
    int r;

    if (index >= XPORT_STRIPES_MAX || round > UINT32_MAX / XPORT_STRIPES_MAX - 1)
        return -ENOENT;
    while (w && !stripe_cookie_is(w, cookie, round, index))
        w = w->next;
    if (!w || w->ending || w->ask.fd < 0 || round < w->stripe_round)
        return -ENOENT;
    seen = round == w->stripe_round ? w->stripes_seen : 0;
    if (seen & 1u << index)
        return -ENOENT;
    if (wrk_request_is_full(w->ask.fd))
        return -EAGAIN;
    r = wrk_request_send(w->ask.fd, &ask, fd, MSG_DONTWAIT);
    if (r == 0) {
        w->stripe_round = w->kept->stripe_round = round;
        w->stripes_seen = w->kept->stripes_seen = seen | 1u << index;
    }
    return r;
}

int
srv_worker_peer(struct srv *srv, const uint8_t cookie[WIRE_PEER_COOKIE], uint32_t link,
                int fd, const struct tls_keys *tls)
{
    struct wrk_request ask = {.kind = WRK_REQUEST_PEER_IN, .own = link, .tls = *tls};
    struct srv_worker *w = srv->workers;
    int r;

    if (link >= WIRE_LINKS_MAX)
        return -ENOENT;
    while (w && !cookie_is(w->peer_cookies[link], cookie, WIRE_PEER_COOKIE))
        w = w->next;
    if (!w || w->ending || w->ask.fd < 0 || (w->peers_seen & 1u << link))
        return -ENOENT;
    r = wrk_request_send(w->ask.fd, &ask, fd, MSG_DONTWAIT);
    if (r == 0)
        w->peers_seen = w->kept->peers_seen |= 1u << link;
    return r;
}

/* The worker has the new link; we watch our own descriptor of it. */
static void
worker_back(struct srv_worker *w, int fd)
{
    gp_loop_fd_del(&w->client);
    atomic_store(&w->desk->leaving, w->ending);
    if (w->client.fd >= 0) {
        shutdown(w->client.fd, SHUT_RDWR); /* a worker that sleeps in it wakes up */
        gp_net_close_now(w->client.fd);
    }
    if (gp_loop_fd_add(w->srv->loop, &w->client, fd, EPOLLRDHUP, on_client) < 0) {
        w->client.fd = fd;
        worker_grace(w, "the server cannot watch its client");
    }
    srv_keeper_set(w->srv->keeper, SRV_KEEP_WORKER, w->key, 0, SRV_WORKER_CLIENT, fd);
}

struct srv_worker *
srv_worker_resumes(struct srv *srv, const struct Gpupool__AttachRequest *req,
                   bool secure)
{
    return srv_resume_find(srv, req, secure);
}

int
srv_worker_relink(struct srv_worker *w, const struct Gpupool__AttachRequest *req,
                  int fd, const struct tls_keys *tls)
{
    return srv_resume_give(w, req, fd, tls, worker_back);
}

/* Ask it to end; it is killed after SRV_GRACE_MS.  @why: static words. */
static void
worker_end(struct srv_worker *w, const char *why)
{
    if (!w->ending) {
        srv_ledger_ending(w->session->ledger, why, false);
        kill(w->pid, SIGTERM);
    }
    worker_grace(w, why);
}

/* @again: the scheduler has closed it before, and its first reason stays. */
static void
end_session(struct srv_session *session, const char *why, bool again)
{
    char words[WRK_ENDING_MAX];

    snprintf(words, sizeof(words), "its session was closed%s%s", *why ? ": " : "", why);
    srv_ledger_ending(session->ledger, words, !again);
    for (struct srv_worker *w = session->srv->workers; w; w = w->next)
        if (w->session == session)
            worker_end(w, "its session was closed");
}

void
srv_worker_close_session(struct srv *srv, uint64_t id, const char *why)
{
    const struct srv_session *before = srv_session_find(srv, id);
    bool again = before && before->closed;
    struct srv_session *session = srv_session_close(srv, id, why);

    if (!session)
        return;
    if (!again)
        gp_audit("order", "by", "scheduler", "order", "close", "session",
                 session->claims.session, "who", session->claims.owner, "words", why,
                 NULL);
    end_session(session, why, again);
    srv_session_commit(session);
}

void
srv_worker_end_all(struct srv *srv, const char *why)
{
    for (struct srv_worker *w = srv->workers; w; w = w->next)
        worker_end(w, why);
}

void
srv_worker_free_all(struct srv *srv)
{
    /* Sessions count what it has spent; a successor finds that in its slot. */
    for (struct srv_worker *w; (w = srv->workers); worker_free(w))
        if (!srv->leaving)
            srv_ledger_leave(w->session->ledger, w->slot);
}

void
srv_worker_overdue(struct srv *srv)
{
    for (struct srv_worker *w = srv->workers; w; w = w->next) {
        if (w->ending || !atomic_load(&w->desk->overdue))
            continue;
        gp_log_error("server",
                     "%s: worker %d kept its card while another session waited; killed",
                     w->name, (int)w->pid);
        worker_grace(w, "it kept its card");
        kill(-w->pid, SIGKILL);
        kill(w->pid, SIGKILL);
    }
}

void
srv_worker_end_overfull(struct srv *srv)
{
    char words[WRK_ENDING_MAX];

    snprintf(words, sizeof(words), "its session exported more than %d blocks of memory",
             SRV_JAIL_FILES);
    for (struct srv_worker *w = srv->workers; w; w = w->next) {
        if (w->ending || !srv_jail_overfull(srv->jail, &w->session->cell))
            continue;
        gp_log_error("server", "%s: %s; worker %d is ended", w->name, words,
                     (int)w->pid);
        srv_ledger_ending(w->session->ledger, words, false);
        kill(w->pid, SIGTERM);
        worker_grace(w, "its session has too many files");
    }
}

/* ---- after a supervisor that is gone ---- */

/* A worker that it had started, as far as kept memory says. */
static int
adopt_kept(struct srv *srv, const struct srv_keep_msg *item, int fd,
           struct srv_worker **ret, struct gp_err *err)
{
    struct srv_worker_kept *kept;
    struct srv_session *session;
    struct srv_worker *w;
    void *map = NULL;
    int r = srv_kept_map(fd, SRV_KEPT_WORKER, sizeof(*kept), &map);

    if (r < 0)
        return gp_err_set(err, r, "what the keeper has of worker %u", item->number);
    kept = map;
    kept->name[sizeof(kept->name) - 1] = 0;
    session = srv_session_find(srv, kept->session_id);
    if (kept->form != WRK_SHARED_FORM && kept->form != WRK_SHARED_FORM_BEFORE) {
        gp_log_warn(
            "server",
            "worker %u shares memory of form %u, and this server serves %u and %u",
            item->number, kept->form, WRK_SHARED_FORM, WRK_SHARED_FORM_BEFORE);
        r = -EPROTO;
    }
    r = r < 0 || kept->slot >= WRK_SLOTS_MAX || kept->link >= WIRE_LINKS_MAX || !session
            ? -EPROTO
            : 0;
    for (w = srv->workers; w && r == 0; w = w->next)
        r = w->session == session && w->slot == kept->slot ? -EPROTO : 0;
    w = r < 0 ? NULL : worker_alloc(srv, session);
    if (!w) {
        srv_kept_unmap(map, sizeof(*kept));
        return gp_err_set(err, r < 0 ? r : -ENOMEM,
                          "worker %u is of a server of another version", item->number);
    }
    w->kept = kept;
    w->key = item->key;
    w->pid = (pid_t)item->number;
    w->slot = kept->slot;
    w->link = kept->link;
    w->stripes_seen = kept->stripes_seen;
    w->stripe_round = kept->stripe_round;
    w->peers_seen = kept->peers_seen;
    memcpy(w->name, kept->name, sizeof(w->name));
    memcpy(w->image_nonce, kept->image_nonce, sizeof(w->image_nonce));
    memcpy(w->lane_cookies, kept->lane_cookies, sizeof(w->lane_cookies));
    memcpy(w->ending_cookie, kept->ending_cookie, sizeof(w->ending_cookie));
    memcpy(w->peer_cookies, kept->peer_cookies, sizeof(w->peer_cookies));
    *ret = w;
    return 0;
}

/* The worker maps the memory of this supervisor in place of the other's.  The keeper
 * has it first, so that a third supervisor knows what the worker may have. */
static int
hand_memory(struct srv_worker *w)
{
    struct wrk_request segment = {.kind = WRK_REQUEST_SEGMENT};
    struct wrk_request notice = {.kind = WRK_REQUEST_NOTICE};
    int r;

    srv_keeper_set(w->srv->keeper, SRV_KEEP_WORKER, w->key, 0, SRV_WORKER_NOTICE,
                   w->desk->notice_fd);
    r = wrk_request_send(w->adopt, &segment, srv_ledger_segment_fd(w->session->ledger),
                         MSG_DONTWAIT);
    if (r == 0)
        r = wrk_request_send(w->adopt, &notice, w->desk->notice_fd, MSG_DONTWAIT);
    /* A worker that does not read has been stopped, or is hostile: it does without. */
    if (r == -EAGAIN)
        gp_log_warn("server", "%s: does not take the memory of its new supervisor",
                    w->name);
    return r == -EAGAIN || r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

/* Takes descriptors out of @fds as it goes. */
static int
adopt_connect(struct srv_worker *w, struct srv_keep_fds *fds, struct gp_err *err)
{
    const struct srv_desk_files files = {.desk = fds->fd[SRV_WORKER_DESK],
                                         .notice = fds->fd[SRV_WORKER_NOTICE],
                                         .wake = fds->fd[SRV_WORKER_WAKE],
                                         .kept = fds->fd[SRV_WORKER_DESK_KEPT]};
    int r = srv_desk_adopt(&files, &w->desk, err);

    if (r < 0)
        return r;
    fds->fd[SRV_WORKER_DESK] = fds->fd[SRV_WORKER_NOTICE] = -1;
    fds->fd[SRV_WORKER_WAKE] = fds->fd[SRV_WORKER_DESK_KEPT] = -1;
    w->adopt = TAKE_FD(fds->fd[SRV_WORKER_ADOPT]);
    r = srv_resume_adopt(w, fds->fd[SRV_WORKER_LINK]);
    if (r < 0)
        return gp_err_set(err, r, "no memory for a worker");
    fds->fd[SRV_WORKER_LINK] = -1;
    r = srv_request_adopt(w, fds->fd[SRV_WORKER_ASK], err);
    if (r < 0)
        return r;
    fds->fd[SRV_WORKER_ASK] = -1;
    r = gp_loop_fd_add(w->srv->loop, &w->client, fds->fd[SRV_WORKER_CLIENT], EPOLLRDHUP,
                       on_client);
    if (r < 0)
        return gp_err_set(err, r, "socket of a client");
    fds->fd[SRV_WORKER_CLIENT] = -1;
    w->from = gp_net_peer_hash(w->client.fd);
    if (fds->n > SRV_WORKER_LOG &&
        srv_worker_log_adopt(w, fds->fd[SRV_WORKER_LOG]) == 0)
        fds->fd[SRV_WORKER_LOG] = -1;
    return 0;
}

int
srv_worker_adopt(struct srv *srv, const struct srv_keep_msg *item,
                 struct srv_keep_fds *fds, struct gp_err *err)
{
    struct srv_worker *w = NULL;
    int r = fds->n >= SRV_WORKER_LOG /* all but the latest */
                ? adopt_kept(srv, item, fds->fd[SRV_WORKER_KEPT], &w, err)
                : gp_err_set(err, -EPROTO, "what the keeper has of worker %u",
                             item->number);

    if (r < 0) {
        srv_keeper_drop(srv->keeper, SRV_KEEP_WORKER, item->key, 0);
        return r;
    }
    worker_enter(w);
    r = adopt_connect(w, fds, err);
    if (r == 0)
        r = hand_memory(w);
    if (r < 0) {
        worker_free(w); /* drops it, which kills it */
        return r;
    }
    w->session->n_workers++;
    worker_desk(w, w->kept->client_pid);
    srv_desk_sent(w->desk);
    r = srv_arbiter_readd(srv->arbiter, w->desk, err);
    if (r < 0) {
        srv_session_free_slot(w->session, w->slot);
        worker_free(w);
        return r;
    }
    if (item->ended)
        srv_worker_reaped(srv, w->pid, item->status);
    return 0;
}

void
srv_worker_adopted(struct srv *srv)
{
    for (struct srv_session *s = srv->sessions, *next; s; s = next) {
        bool here[WRK_SLOTS_MAX] = {false};

        next = s->next;
        for (const struct srv_worker *w = srv->workers; w; w = w->next)
            if (w->session == s)
                here[w->slot] = true;
        srv_export_mend(s, here);
        srv_session_mend(s);
        if (s->closed)
            end_session(s, "", true);
        srv_session_commit(s);
    }
}

#define WANT_MAX 128

/* Why the attachment ended, for a client that asks; the worker's own reason first.
 * @want: what it was killed for want of, or "". */
static void
note_ending(const struct srv_worker *w, int status, const char *want)
{
    char said[WRK_ENDING_MAX] = "", words[SRV_ENDING_MAX] = "";

    if (w->desk) /* the worker's to write: any bytes */
        memcpy(said, w->desk->desk->last_word, sizeof(said) - 1);
    if (!*said && w->ending)
        srv_ledger_ended(w->session->ledger, said);
    if (*said)
        snprintf(words, sizeof(words), "ended by the server: %s", said);
    else if (*want)
        snprintf(words, sizeof(words), "the worker was killed: %s", want);
    else if (WIFSIGNALED(status) && !w->ending)
        snprintf(words, sizeof(words),
                 "the worker was killed by signal %d (see the server's log)",
                 WTERMSIG(status));
    else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        snprintf(words, sizeof(words),
                 "the worker ended with status %d (see the server's log)",
                 WEXITSTATUS(status));
    if (!words[0])
        return;
    srv_ending_note(&w->srv->endings, w->ending_cookie, words);
    if (w->srv->stopping && !(w->desk && atomic_load(&w->desk->desk->last_told)))
        w->srv->untold = true;
}

bool
srv_worker_reaped(struct srv *srv, pid_t pid, int status)
{
    struct srv_worker *w = srv->workers;
    struct srv_session *session;
    char peer[GP_NET_NAME_MAX], want[WANT_MAX] = "";

    while (w && w->pid != pid)
        w = w->next;
    if (!w)
        return false;
    srv_worker_log_free(w); /* its last lines come before ours */
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !w->ending)
        srv_jail_want(srv->jail, &w->session->cell, want, sizeof(want));
    if (WIFSIGNALED(status) && !w->ending)
        gp_log_error("server", "%s: worker %d was killed by signal %d (%s)%s%s",
                     w->name, (int)pid, WTERMSIG(status), strsignal(WTERMSIG(status)),
                     *want ? ": " : "", want);
    else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        gp_log_warn("server", "%s: worker %d ended with status %d", w->name, (int)pid,
                    WEXITSTATUS(status));
    else
        gp_log_info("server", "%s: detached", w->name);
    gp_audit("detach", "from", gp_net_peer_name(w->client.fd, peer, sizeof(peer)),
             "who", w->session->claims.owner, "attachment", w->name, "words", w->why,
             NULL);
    /* Before the client can see that the connection ends. */
    note_ending(w, status, want);
    /* Our descriptor would keep the client's connection open. */
    shutdown(w->client.fd, SHUT_RDWR);
    session = w->session;
    srv_health_worker_ended(srv, session,
                            w->desk && atomic_load(&w->desk->desk->hardware_error),
                            !w->ending && (WIFSIGNALED(status) || WEXITSTATUS(status)));
    srv_request_finish(w); /* its last requests concern what it held */
    srv_arbiter_remove(srv->arbiter, w->desk);
    srv_session_free_slot(session, w->slot);
    srv_export_leave(session, w->slot);
    worker_free(w);
    srv_session_commit(session);
    srv_changed(srv);
    return true;
}
