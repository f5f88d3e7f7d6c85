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
    bool usable;    /* the connection is not RDMA for good */
    bool secure;    /* it is TLS */
    uint32_t link;  /* the number of the one that is in use */
    bool acks_seen; /* its connection for acknowledgements has come */
    uint64_t since; /* the client is away; 0: it is not */
    bool told;      /* and the log says so: most of them have just ended */
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
    w->kept->resume.secure = resume->secure;
    w->kept->resume.acks_seen = resume->acks_seen;
    w->kept->resume.link = resume->link;
    w->kept->resume.pid = resume->pid;
}

int
srv_resume_new(struct srv_worker *w, const uint8_t *key, bool final_rdma, bool secure,
               uint32_t seconds, int *ret_fd, struct gp_err *err)
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
                                  .usable = seconds && !final_rdma,
                                  .secure = secure,
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
                            .secure = kept->secure,
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

void
srv_resume_free(struct srv_worker *w)
{
    struct srv_resume *resume = w->resume;

    if (!resume)
        return;
    gp_loop_timer_del(&resume->timer);
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

    if (!resume->told)
        gp_log_info("server",
                    "%s: its client's link is gone; it may come back within %u s",
                    resume->worker->name, resume->seconds);
    resume->told = true;
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
    resume->told = false;
    gp_loop_timer_set(w->srv->loop, &resume->timer, resume->since + LOOK_NS / 10,
                      on_look);
    return true;
}

/* ---- back -------------------------------------------------------------------------
 */

/* In a time that does not tell where they differ. */
static bool
cookie_is(const struct srv_resume *resume, enum attach_cookie kind, uint32_t index,
          const uint8_t *shown)
{
    uint8_t cookie[ATTACH_COOKIE_SIZE];
    unsigned differ = 0;

    attach_cookie_make(resume->key, kind, index, cookie);
    for (unsigned i = 0; i < sizeof(cookie); i++)
        differ |= cookie[i] ^ shown[i];
    return differ == 0;
}

static bool
token_is(const struct srv_resume *resume, const Gpupool__AttachRequest *req)
{
    return cookie_is(resume,
                     req->resume_acks ? ATTACH_COOKIE_ACKS : ATTACH_COOKIE_RESUME,
                     req->resume_seq, req->resume_token.data);
}

/* Is it a link that was never there, or what the link in use lacks?  Nobody makes a
 * connection for acknowledgements of RDMA, so one that comes shows that it is TCP. */
static bool
number_is_good(const struct srv_resume *resume, const Gpupool__AttachRequest *req)
{
    if (req->resume_acks)
        return req->resume_seq == resume->link && !resume->acks_seen;
    return resume->usable && req->resume_seq > resume->link;
}

struct srv_worker *
srv_resume_find(const struct srv *srv, const struct Gpupool__AttachRequest *req,
                bool secure)
{
    struct srv_worker *w = srv->workers;

    if (req->resume_token.len != ATTACH_COOKIE_SIZE)
        return NULL;
    while (w && (!w->resume || !w->resume->seconds || !token_is(w->resume, req)))
        w = w->next;
    return w && !w->ending && w->resume->secure == secure &&
                   number_is_good(w->resume, req)
               ? w
               : NULL;
}

/* What is used up is kept first: a token is good once, whatever happens to us. */
static int
give_acks(struct srv_worker *w, int fd, const struct tls_keys *tls)
{
    struct srv_resume *resume = w->resume;
    struct wrk_request msg = {
        .kind = WRK_REQUEST_ACKS, .own = resume->link, .tls = *tls};

    resume->acks_seen = resume->usable = true;
    resume_keep(w);
    return wrk_request_send(resume->channel, &msg, fd, MSG_DONTWAIT);
}

static int
give_link(struct srv_worker *w, const struct Gpupool__AttachRequest *req, int fd,
          const struct tls_keys *tls)
{
    struct srv_resume *resume = w->resume;
    struct wrk_request msg = {.kind = WRK_REQUEST_LINK,
                              .own = req->resume_seq,
                              .bytes = req->resume_received,
                              .striped = req->resume_striped,
                              .striped_sent = req->resume_striped_sent,
                              .slice = req->resume_rdma,
                              .tls = *tls};

    if (req->resume_rdma)
        attach_cookie_make(resume->key, ATTACH_COOKIE_RDMA, req->resume_seq,
                           msg.secret);
    resume->link = req->resume_seq;
    resume->acks_seen = false;
    resume_keep(w);
    return wrk_request_send(resume->channel, &msg, fd, MSG_DONTWAIT);
}

int
srv_resume_give(struct srv_worker *w, const struct Gpupool__AttachRequest *req, int fd,
                const struct tls_keys *tls, void (*back)(struct srv_worker *w, int fd))
{
    struct srv_resume *resume = w->resume;
    CLEANUP_FD int own = -1;
    uint32_t skipped;
    int r;

    static_assert(sizeof(((struct wrk_request *)0)->secret) == ATTACH_COOKIE_SIZE,
                  "a cookie fits");
    if (req->resume_acks) /* one for each link */
        return give_acks(w, fd, tls);
    if (wrk_request_is_full(resume->channel))
        return -EAGAIN;
    own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    r = own < 0 ? -errno : give_link(w, req, fd, tls);
    if (r < 0)
        return r;
    resume->since = 0;
    gp_loop_timer_del(&resume->timer);
    if (gp_log_limit_ok(&w->link_log, &skipped))
        gp_log_info("server", "%s: its client is back (link %u)", w->name,
                    resume->link);
    back(w, TAKE_FD(own));
    return 0;
}

/* ---- control connections ----------------------------------------------------------
 */

int
srv_resume_control(struct srv *srv, const struct Gpupool__AttachRequest *req,
                   bool secure, struct srv_worker **ret)
{
    struct srv_worker *w = srv->workers;
    uint32_t round = req->control_round;

    if (req->control_cookie.len != ATTACH_COOKIE_SIZE || round == UINT32_MAX)
        return -EINVAL;
    while (w && (!w->resume || !cookie_is(w->resume, ATTACH_COOKIE_CONTROL, round,
                                          req->control_cookie.data)))
        w = w->next;
    if (!w || w->ending || w->resume->secure != secure ||
        round < w->kept->control_round)
        return -ENOENT;
    /* A worker reads it when it has a link to replace or a host function. */
    if (wrk_request_is_full(w->resume->channel))
        return -EAGAIN;
    w->kept->control_round = round + 1; /* first: a cookie is good once */
    *ret = w;
    return 0;
}

int
srv_resume_control_give(struct srv_worker *w, int fd, const struct tls_keys *tls)
{
    struct wrk_request msg = {.kind = WRK_REQUEST_CONTROL, .tls = *tls};

    return wrk_request_send(w->resume->channel, &msg, fd, MSG_DONTWAIT);
}
