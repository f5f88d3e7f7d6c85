/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_worker.h"

#include "attach_proof.h"
#include "gp_audit.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_arbiter.h"
#include "srv_desk.h"
#include "srv_export.h"
#include "srv_inventory.h"
#include "srv_jail.h"
#include "srv_ledger.h"
#include "srv_request.h"
#include "srv_resume.h"
#include "srv_session.h"
#include "srv_spawn.h"
#include "wrk_request.h"
#include "wrk_segment.h"
#include "xport.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
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
    srv_resume_free(w);
    if (w->client.fd >= 0)
        close(w->client.fd);
    srv_desk_free(w->desk);
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
    if (!srv_resume_away(w, worker_left))
        worker_grace(w, "its client is gone");
}

/* "0,2": what the driver shall show, in the order of the slices.  A real driver
 * understands UUIDs, which no setting of our own can shift; softgpu takes
 * indexes among all of its cards. */
static void
visible_cards(const struct srv *srv, const struct srv_session *s, char *text,
              size_t size)
{
    const char *outer = getenv("SOFTGPU_VISIBLE");
    bool soft = strcmp(srv->conf.driver, "softgpu") == 0 ||
                strcmp(srv->conf.driver, "null") == 0 ||
                strstr(srv->conf.driver, "softgpu") != NULL;
    size_t at = 0;

    if (!outer)
        outer = getenv("CUDA_VISIBLE_DEVICES");
    for (uint32_t i = 0; i < s->claims.n_slices && at < size; i++) {
        const uint8_t *uuid = s->claims.slices[i].card_uuid;
        uint32_t index = srv_inventory_find(srv->inventory, uuid)->index;
        char name[TICKET_UUID_TEXT];
        const char *p = outer;

        ticket_uuid_format(uuid, name);
        if (soft) {
            /* Our own list is narrowed already: index counts within it. */
            for (uint32_t skip = index; p && skip; skip--)
                p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL;
            snprintf(name, sizeof(name), "%lu", p ? strtoul(p, NULL, 10) : index);
        }
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? "," : "", name);
    }
}

/* A software card's memory becomes a file when a program shares it. */
static uint64_t
file_bytes(const struct srv_worker *w)
{
    uint64_t bytes = w->srv->conf.worker_bytes;

    for (uint32_t i = 0;
         bytes && srv_jail_soft(w->srv->jail) && i < w->session->claims.n_slices; i++)
        bytes += w->session->claims.slices[i].memory;
    return bytes;
}

static void
conf_jail(const struct srv_worker *w, struct wrk_conf *conf)
{
    const struct srv_cell *cell = &w->session->cell;

    srv_jail_user(w->srv->jail, cell, conf->user);
    gp_str_copy(conf->exports, sizeof(conf->exports), cell->exports);
    gp_str_copy(conf->readable, sizeof(conf->readable), w->srv->conf.worker_read);
    conf->own_user = cell->uid != 0;
    conf->soft = srv_jail_soft(w->srv->jail);
    conf->memory = w->srv->conf.worker_bytes;
    conf->file_bytes = file_bytes(w);
    conf->sandbox_log = strcmp(w->srv->conf.worker_sandbox, "log") == 0;
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

/* Both ends must want it. */
static uint32_t
resume_seconds(const struct srv_worker *w, const struct srv_worker_client *client)
{
    return gp_min(client->resume_s, w->srv->conf.resume_s);
}

static int
conf_file(const struct srv_worker *w, const struct srv_worker_client *client,
          int *ret_fd, struct gp_err *err)
{
    const struct srv_session *s = w->session;
    CLEANUP_FD int fd = memfd_create("gpupool-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct wrk_conf conf = {
        .magic = WRK_CONF_MAGIC,
        .size = sizeof(conf),
        .supervisor_pid = (uint32_t)getpid(),
        .slot = w->slot,
        .session_id = s->claims.session_id,
        .n_slices = s->claims.n_slices,
        .policy = s->claims.policy,
        .wire_minor = client->wire_minor,
        .cuda_version = client->cuda_version,
        .shm = client->shm,
        .wakefds = client->wakefds,
        .spatial = s->claims.spatial,
        .offline = s->claims.offline,
        .link_timeout_s = w->srv->conf.link_timeout_s,
        .work_limit_s = s->claims.offline ? w->srv->conf.work_limit_offline_s
                                          : w->srv->conf.work_limit_s,
        .rdma = client->rdma,
        .links = client->links,
        .link = client->link,
        .device_base = client->device_base,
        .payloads = client->payloads,
        .resume_s = resume_seconds(w, client),
        .images = w->srv->image_bytes != 0,
        .tls = *client->tls,
    };

    gp_str_copy(conf.driver, sizeof(conf.driver), w->srv->conf.driver);
    conf_jail(w, &conf);
    gp_str_copy(conf.session, sizeof(conf.session), s->claims.session);
    gp_str_copy(conf.attachment, sizeof(conf.attachment), w->name);
    gp_str_copy(conf.rdma_at, sizeof(conf.rdma_at), w->srv->conf.rdma);
    gp_str_copy(conf.gpudirect, sizeof(conf.gpudirect), w->srv->conf.gpudirect);
    conf.pageable = strcmp(w->srv->conf.pageable, "allow") == 0;
    gp_str_copy(conf.program, sizeof(conf.program), client->program);
    memcpy(conf.lane_cookie, w->lane_cookies[0], sizeof(conf.lane_cookie));
    memcpy(conf.peer_cookie, w->peer_cookies[0], sizeof(conf.peer_cookie));
    conf.proven = client->key != NULL;
    if (conf.proven)
        cookie_make(client->key, ATTACH_COOKIE_RDMA, 0, conf.rdma_cookie,
                    sizeof(conf.rdma_cookie));
    if (!conf.proven)
        memcpy(conf.resume_key, srv_resume_key(w), sizeof(conf.resume_key));
    memcpy(conf.image_nonce, w->image_nonce, sizeof(conf.image_nonce));
    memcpy(conf.slices, s->claims.slices, sizeof(conf.slices));
    for (uint32_t i = 0; i < conf.n_slices; i++) {
        const struct srv_card *card =
            srv_inventory_find(w->srv->inventory, conf.slices[i].card_uuid);

        conf.facts[i] = card->facts;
        conf.card_sms[i] = card->sms;
    }
    if (fd < 0 || gp_file_write_all(fd, &conf, sizeof(conf)) < 0)
        return gp_err_set(err, -ENOMEM, "configuration of the worker: %s",
                          strerror(errno));
    lseek(fd, 0, SEEK_SET);
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    *ret_fd = TAKE_FD(fd);
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
    int fds[WRK_FDS_END - 3];
    struct srv_spawn spawn = {.conf = &w->srv->conf,
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
                                      : 0};
    int r = srv_resume_new(w, client->key, client->rdma, resume_seconds(w, client),
                           &link, err);

    if (r == 0)
        r = conf_file(w, client, &conf, err);
    if (r == 0)
        r = srv_request_open(w, &ask, err);
    if (r < 0)
        return r;
    visible_cards(w->srv, w->session, visible, sizeof(visible));
    fds[WRK_FD_CONN - 3] = fd;
    fds[WRK_FD_CONF - 3] = conf;
    fds[WRK_FD_SEGMENT - 3] = srv_ledger_segment_fd(w->session->ledger);
    fds[WRK_FD_REQUEST - 3] = ask;
    fds[WRK_FD_DESK - 3] = w->desk->desk_fd;
    fds[WRK_FD_NOTICE - 3] = w->desk->notice_fd;
    fds[WRK_FD_WAKE - 3] = w->desk->wake_fd;
    fds[WRK_FD_LINK - 3] = link;
    r = srv_spawn(&spawn, &w->pid, err);
    srv_desk_sent(w->desk);
    return r;
}

/* Its place at the arbiter, which it takes when it has loaded its driver. */
static int
worker_desk(struct srv_worker *w, const struct srv_worker_client *client,
            struct gp_err *err)
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
    srv_ledger_desk(w->session->ledger, w->slot, d, client->pid);
    return srv_arbiter_add(w->srv->arbiter, d, err);
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
    /* The client knows this one only as the cookie of further connections. */
    static_assert(WIRE_ENDING_COOKIE == WIRE_STRIPE_COOKIE, "one stands for the other");
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
    w = calloc(1, sizeof(*w));
    if (!w)
        return gp_err_set(err, -ENOMEM, "no memory for a worker");
    w->srv = srv;
    w->session = session;
    w->client.fd = -1;
    w->ask.fd = -1;
    w->link = client->link;
    r = worker_secrets(w, client->key, err);
    if (r == 0)
        r = srv_desk_new(&w->desk, err);
    if (r == 0)
        r = srv_session_sit(session, &w->slot, err);
    if (r < 0) {
        srv_desk_free(w->desk);
        free(w);
        return r;
    }
    w->next = srv->workers;
    srv->workers = w;
    srv->n_workers++;
    snprintf(w->name, sizeof(w->name), "%s.c%u", session->claims.session,
             ++session->next_attachment);
    r = worker_desk(w, client, err);
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
        srv_session_leave(session, w->slot);
        worker_free(w);
        return r;
    }
    srv_resume_watch(w, client->pid, fd);
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

int
srv_worker_stripe(struct srv *srv, const uint8_t cookie[WIRE_STRIPE_COOKIE],
                  uint32_t index, int fd, const struct tls_keys *tls)
{
    struct wrk_request ask = {.kind = WRK_REQUEST_STRIPE, .own = index, .tls = *tls};
    struct srv_worker *w = srv->workers;
    int r;

    if (index >= XPORT_STRIPES_MAX)
        return -ENOENT;
    while (w && !cookie_is(w->lane_cookies[index], cookie, WIRE_STRIPE_COOKIE))
        w = w->next;
    if (!w || w->ending || w->ask.fd < 0 || (w->stripes_seen & 1u << index))
        return -ENOENT;
    r = wrk_request_send(w->ask.fd, &ask, fd, MSG_DONTWAIT);
    if (r == 0)
        w->stripes_seen |= 1u << index;
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
        w->peers_seen |= 1u << link;
    return r;
}

/* The worker has the new link; we watch our own descriptor of it. */
static void
worker_back(struct srv_worker *w, int fd)
{
    gp_loop_fd_del(&w->client);
    if (w->client.fd >= 0) {
        shutdown(w->client.fd, SHUT_RDWR); /* a worker that sleeps in it wakes up */
        close(w->client.fd);
    }
    if (gp_loop_fd_add(w->srv->loop, &w->client, fd, EPOLLRDHUP, on_client) < 0) {
        w->client.fd = fd;
        worker_grace(w, "the server cannot watch its client");
    }
}

int
srv_worker_resume(struct srv *srv, const struct Gpupool__AttachRequest *req, int fd)
{
    return srv_resume_arrive(srv, req, fd, worker_back);
}

void
srv_worker_end(struct srv_worker *w, const char *why)
{
    if (!w->ending) {
        srv_ledger_ending(w->session->ledger, why, false);
        kill(w->pid, SIGTERM);
    }
    worker_grace(w, why);
}

static void
end_session(struct srv_session *session, const char *why)
{
    char words[WRK_ENDING_MAX];

    snprintf(words, sizeof(words), "its session was closed%s%s", *why ? ": " : "", why);
    srv_ledger_ending(session->ledger, words, true);
    for (struct srv_worker *w = session->srv->workers; w; w = w->next) {
        if (w->session == session)
            srv_worker_end(w, "its session was closed");
    }
}

void
srv_worker_close_session(struct srv *srv, uint64_t id, const char *why)
{
    struct srv_session *session = srv_session_close(srv, id, why);

    if (!session)
        return;
    gp_audit("order", "by", "scheduler", "order", "close", "session",
             session->claims.session, "who", session->claims.owner, "words", why, NULL);
    end_session(session, why);
    srv_session_commit(session);
}

void
srv_worker_end_all(struct srv *srv, const char *why)
{
    for (struct srv_worker *w = srv->workers; w; w = w->next)
        srv_worker_end(w, why);
}

void
srv_worker_free_all(struct srv *srv)
{
    while (srv->workers)
        worker_free(srv->workers);
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

/* Why the attachment ended, for a client that asks; the worker's own reason first. */
static void
note_ending(const struct srv_worker *w, int status)
{
    char said[WRK_ENDING_MAX] = "", words[SRV_ENDING_MAX] = "";

    if (w->desk) /* the worker's to write: any bytes */
        memcpy(said, w->desk->desk->last_word, sizeof(said) - 1);
    if (!*said && w->ending)
        srv_ledger_ended(w->session->ledger, said);
    if (*said)
        snprintf(words, sizeof(words), "ended by the server: %s", said);
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
    char peer[GP_NET_NAME_MAX];

    while (w && w->pid != pid)
        w = w->next;
    if (!w)
        return false;
    if (WIFSIGNALED(status) && !w->ending)
        gp_log_error("server", "%s: worker %d was killed by signal %d (%s)", w->name,
                     (int)pid, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        gp_log_warn("server", "%s: worker %d ended with status %d", w->name, (int)pid,
                    WEXITSTATUS(status));
    else
        gp_log_info("server", "%s: detached", w->name);
    gp_audit("detach", "from", gp_net_peer_name(w->client.fd, peer, sizeof(peer)),
             "who", w->session->claims.owner, "attachment", w->name, "words", w->why,
             NULL);
    note_ending(w, status); /* before the client can see that the connection ends */
    /* Our descriptor would keep the client's connection open. */
    shutdown(w->client.fd, SHUT_RDWR);
    session = w->session;
    srv_request_finish(w); /* its last requests concern what it held */
    srv_arbiter_remove(srv->arbiter, w->desk);
    srv_session_leave(session, w->slot);
    srv_export_leave(session, w->slot);
    worker_free(w);
    srv_session_commit(session);
    srv_changed(srv);
    return true;
}
