/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_resume.h"

#include "attach.pb-c.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "gp_net.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_types.h"
#include "wrk_request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* How often to see whether the process of a client that is away lives. */
#define LOOK_NS (100 * GP_NS_PER_MS)

struct srv_resume {
    uint8_t key[ATTACH_KEY_SIZE];
    uint32_t seconds;
    int channel;    /* our end of WRK_FD_LINK */
    bool usable;    /* the connection is TCP, not RDMA */
    bool acks_seen; /* the first connection for acknowledgements has come */
    uint32_t link;  /* the number of the one that is in use */
    uint32_t next;  /* of the one that half of has come; 0: none */
    int fd, ack_fd; /* of that one; -1 */
    uint64_t received;
    uint64_t since; /* the client is away; 0: it is not */
    uint32_t pid;   /* of the client, on this host; 0: not known */
    struct gp_loop_timer timer;
    void (*gone)(struct srv_worker *w, const char *why);
    struct srv_worker *worker;
};

/* ---- life ----------------------------------------------------------------------- */

/* The successor of this supervisor has to know which links were used. */
static void
resume_keep(const struct srv_worker *w)
{
    const struct srv_resume *resume = w->resume;

    if (!w->kept)
        return;
    memcpy(w->kept->resume.key, resume->key, sizeof(resume->key));
    w->kept->resume.seconds = resume->seconds;
    w->kept->resume.usable = resume->usable;
    w->kept->resume.acks_seen = resume->acks_seen;
    w->kept->resume.link = resume->link;
    w->kept->resume.pid = resume->pid;
}

int
srv_resume_new(struct srv_worker *w, const uint8_t *key, bool rdma, uint32_t seconds,
               int *ret_fd, struct gp_err *err)
{
    struct srv_resume *resume = calloc(1, sizeof(*resume));
    int pair[2];

    if (!resume)
        return gp_err_set(err, -ENOMEM, "no memory for a worker");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        free(resume);
        return gp_err_set(err, -errno, "socket pair of a worker: %s", strerror(errno));
    }
    *resume = (struct srv_resume){.seconds = seconds,
                                  .channel = pair[0],
                                  .usable = seconds && !rdma,
                                  .fd = -1,
                                  .ack_fd = -1,
                                  .worker = w};
    w->resume = resume;
    *ret_fd = pair[1];
    if (key)
        memcpy(resume->key, key, sizeof(resume->key));
    else if (getrandom(resume->key, sizeof(resume->key), 0) != sizeof(resume->key))
        return gp_err_set(err, -EIO, "no random bytes");
    resume_keep(w);
    return 0;
}

int
srv_resume_adopt(struct srv_worker *w, int channel)
{
    const struct srv_resume_kept *kept = &w->kept->resume;
    struct srv_resume *resume = calloc(1, sizeof(*resume));

    if (!resume)
        return -ENOMEM;
    *resume =
        (struct srv_resume){.seconds = gp_min(kept->seconds, w->srv->conf.resume_s),
                            .channel = channel,
                            .usable = kept->usable,
                            .acks_seen = kept->acks_seen,
                            .link = kept->link,
                            .pid = kept->pid,
                            .fd = -1,
                            .ack_fd = -1,
                            .worker = w};
    memcpy(resume->key, kept->key, sizeof(resume->key));
    w->resume = resume;
    return 0;
}

int
srv_resume_channel(const struct srv_worker *w)
{
    return w->resume->channel;
}

const uint8_t *
srv_resume_key(const struct srv_worker *w)
{
    return w->resume->key;
}

static void
half_drop(struct srv_resume *resume)
{
    if (resume->fd >= 0)
        close(resume->fd);
    if (resume->ack_fd >= 0)
        close(resume->ack_fd);
    resume->fd = resume->ack_fd = -1;
    resume->next = 0;
}

void
srv_resume_free(struct srv_worker *w)
{
    struct srv_resume *resume = w->resume;

    if (!resume)
        return;
    gp_loop_timer_del(&resume->timer);
    half_drop(resume);
    close(resume->channel);
    explicit_bzero(resume->key, sizeof(resume->key));
    free(resume);
    w->resume = NULL;
}

/* ---- away -------------------------------------------------------------------------
 */

/* Its sockets are closed before it is a zombie, and it is a zombie until its parent has
 * looked. */
static bool
process_lives(uint32_t pid)
{
    char path[64], text[512], *at;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[gp_max(n, (ssize_t)0)] = '\0';
    at = strrchr(text, ')');
    return at && at[1] && at[2] != 'Z' && at[2] != 'X';
}

void
srv_resume_watch(struct srv_worker *w, uint32_t pid, int fd)
{
    if (w->resume && gp_net_same_host(fd) && process_lives(pid))
        w->resume->pid = pid;
    if (w->resume)
        resume_keep(w);
}

static void
on_look(struct gp_loop_timer *timer)
{
    struct srv_resume *resume = container_of(timer, struct srv_resume, timer);
    uint64_t now = gp_now_ns();
    uint64_t limit = (uint64_t)(resume->seconds + SRV_RESUME_SLACK_S) * GP_NS_PER_S;

    if (resume->pid && !process_lives(resume->pid))
        resume->gone(resume->worker, "its client is gone");
    else if (now - resume->since >= limit)
        resume->gone(resume->worker, "its client did not come back");
    else
        gp_loop_timer_set(resume->worker->srv->loop, timer, now + LOOK_NS, on_look);
}

bool
srv_resume_away(struct srv_worker *w,
                void (*gone)(struct srv_worker *w, const char *why))
{
    struct srv_resume *resume = w->resume;

    if (!resume || !resume->usable || w->ending)
        return false;
    resume->since = gp_now_ns();
    resume->gone = gone;
    gp_log_info("server", "%s: its client's link is gone; it may come back within %u s",
                w->name, resume->seconds);
    gp_loop_timer_set(w->srv->loop, &resume->timer, resume->since + LOOK_NS / 10,
                      on_look);
    return true;
}

uint64_t
srv_resume_since(const struct srv_worker *w)
{
    return w->resume ? w->resume->since : 0;
}

/* ---- back -------------------------------------------------------------------------
 */

/* In a time that does not tell where they differ. */
static bool
token_is(const struct srv_resume *resume, const Gpupool__AttachRequest *req)
{
    uint8_t cookie[ATTACH_COOKIE_SIZE];
    unsigned differ = 0;

    attach_cookie_make(resume->key,
                       req->resume_acks ? ATTACH_COOKIE_ACKS : ATTACH_COOKIE_RESUME,
                       req->resume_seq, cookie);
    for (unsigned i = 0; i < sizeof(cookie); i++)
        differ |= cookie[i] ^ req->resume_token.data[i];
    return differ == 0;
}

static struct srv_worker *
worker_of(const struct srv *srv, const Gpupool__AttachRequest *req)
{
    struct srv_worker *w = srv->workers;

    if (req->resume_token.len != ATTACH_COOKIE_SIZE)
        return NULL;
    while (w && (!w->resume || !w->resume->seconds || !token_is(w->resume, req)))
        w = w->next;
    return w && !w->ending ? w : NULL;
}

static int
first_acks(struct srv_worker *w, int fd)
{
    struct wrk_request msg = {.kind = WRK_REQUEST_ACKS};
    struct srv_resume *resume = w->resume;
    int r = resume->acks_seen
                ? -ENOENT
                : wrk_request_send(resume->channel, &msg, fd, MSG_DONTWAIT);

    if (r == 0) /* nobody makes one for RDMA */
        resume->acks_seen = resume->usable = true;
    resume_keep(w);
    return r;
}

/* Both connections are here. */
static int
link_complete(struct srv_worker *w, void (*back)(struct srv_worker *w, int fd))
{
    struct srv_resume *resume = w->resume;
    struct wrk_request acks = {.kind = WRK_REQUEST_ACKS, .own = resume->next};
    struct wrk_request link = {
        .kind = WRK_REQUEST_LINK, .own = resume->next, .bytes = resume->received};
    int r;

    if (w->kept) /* first: a token is good once, whatever happens to us */
        w->kept->resume.link = resume->next;
    r = wrk_request_send(resume->channel, &acks, resume->ack_fd, MSG_DONTWAIT);
    if (r == 0)
        r = wrk_request_send(resume->channel, &link, resume->fd, MSG_DONTWAIT);
    if (r == 0) {
        resume->link = resume->next;
        resume->since = 0;
        gp_loop_timer_del(&resume->timer);
        back(w, resume->fd);
        resume->fd = -1;
        gp_log_info("server", "%s: its client is back (link %u)", w->name,
                    resume->link);
    }
    half_drop(resume);
    return r;
}

int
srv_resume_arrive(struct srv *srv, const struct Gpupool__AttachRequest *req, int fd,
                  void (*back)(struct srv_worker *w, int fd))
{
    struct srv_worker *w = worker_of(srv, req);
    struct srv_resume *resume = w ? w->resume : NULL;
    int *half;

    if (!w)
        return -ENOENT;
    if (req->resume_seq == 0)
        return req->resume_acks ? first_acks(w, fd) : -ENOENT;
    if (!resume->usable || req->resume_seq <= resume->link ||
        req->resume_seq < resume->next)
        return -ENOENT;
    if (req->resume_seq != resume->next)
        half_drop(resume);
    half = req->resume_acks ? &resume->ack_fd : &resume->fd;
    if (*half >= 0)
        return -ENOENT;
    resume->next = req->resume_seq;
    if (!req->resume_acks)
        resume->received = req->resume_received;
    *half = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (*half < 0)
        return -errno;
    return resume->fd >= 0 && resume->ack_fd >= 0 ? link_complete(w, back) : 0;
}
