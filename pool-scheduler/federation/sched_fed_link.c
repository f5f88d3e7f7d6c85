/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_fed_link.h"

#include "ctl_addresses.h"
#include "ctl_call.h"
#include "ctl_prove.h"
#include "gp_loop.h"
#include "gp_time.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* One address that does not answer leaves time for the next. */
#define CONNECT_NS (GP_NS_PER_S)
/* Between two questions while a pool has no leader. */
#define LEADER_NS (100 * GP_NS_PER_MS)

struct jobs {
    struct sched_fed_job *first, **end;
};

struct sched_fed_link {
    struct sched_fed_config config;
    struct sched_fed_stats stats;
    struct gp_loop_fd event; /* becomes readable when results are there */
    unsigned refs, n_out;    /* handed over, and not yet done */
    bool started;
    pthread_t thread;

    /* The thread's alone. */
    struct ctl_link link;
    struct ctl_route route;
    uint32_t next_id;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t work;
    struct jobs queued, finished;
    int busy_fd; /* that the thread reads or writes; -1: none */
    bool stop;
};

/* -------------------------------------------------------------------- lists -- */

static void
jobs_init(struct jobs *jobs)
{
    jobs->first = NULL;
    jobs->end = &jobs->first;
}

static void
jobs_add(struct jobs *jobs, struct sched_fed_job *job)
{
    job->next = NULL;
    *jobs->end = job;
    jobs->end = &job->next;
}

static struct sched_fed_job *
jobs_take(struct jobs *jobs)
{
    struct sched_fed_job *job = jobs->first;

    if (!job)
        return NULL;
    jobs->first = job->next;
    if (!jobs->first)
        jobs->end = &jobs->first;
    return job;
}

/* ------------------------------------------------------------------- asking -- */

/* False: the scheduler ends, and the descriptor must not be waited for. */
static bool
publish_fd(struct sched_fed_link *l, int fd)
{
    bool go;

    pthread_mutex_lock(&l->lock);
    l->busy_fd = fd;
    go = !l->stop;
    pthread_mutex_unlock(&l->lock);
    return go;
}

static void
disconnect(struct sched_fed_link *l)
{
    publish_fd(l, -1);
    ctl_link_close(&l->link);
    l->link.fd = -1;
}

struct call {
    struct sched_fed_link *l;
    uint64_t deadline_ns;
};

static int
call(void *arg, Gpupool__Ctl__CtlRequest *req, Gpupool__Ctl__CtlReply **ret,
     struct gp_err *err)
{
    struct call *c = arg;

    req->id = c->l->next_id++;
    return c->l->config.once ? ctl_call_once(&c->l->link, req, c->deadline_ns, ret, err)
                             : ctl_call(&c->l->link, req, c->deadline_ns, ret, err);
}

static int
connect_to(struct sched_fed_link *l, uint64_t deadline_ns, struct gp_err *err)
{
    struct call c = {l, deadline_ns};
    char address[CTL_ENDPOINT_MAX];
    int r;

    ctl_route_address(&l->route, address);
    l->next_id = 1;
    r = ctl_link_open(&l->link, address, l->config.clear ? NULL : tls_linked(),
                      &l->config.pins, gp_min(deadline_ns, gp_now_ns() + CONNECT_NS),
                      true, err);
    if (r < 0)
        return r;
    if (!publish_fd(l, l->link.fd))
        return gp_err_set(err, -ECANCELED, "this scheduler ends");
    r = ctl_prove(call, &c, GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_CLIENT, l->config.token,
                  address, ctl_link_key(&l->link), err);
    return r == -EREMOTE ? -EACCES : r; /* -EREMOTE is an answer to a job */
}

/* To the one that was asked last, or to the next that answers. */
static int
connect_any(struct sched_fed_link *l, uint64_t deadline_ns, struct gp_err *err)
{
    unsigned n = ctl_addresses_count(l->config.scheduler);
    int r = -ENOTCONN;

    for (unsigned i = 0; r < 0 && i <= n && gp_now_ns() < deadline_ns; i++) {
        memset(err, 0, sizeof(*err));
        if (!publish_fd(l, -1))
            return gp_err_set(err, -ECANCELED, "this scheduler ends");
        r = connect_to(l, deadline_ns, err);
        if (r < 0) {
            disconnect(l);
            ctl_route_next(&l->route);
        }
    }
    return r;
}

static bool
is_answer(int r)
{
    return r == 0 || r == -EREMOTE;
}

static bool
not_leader(int r, const Gpupool__Ctl__CtlReply *reply)
{
    return r == -EREMOTE &&
           reply->error->code == GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER;
}

/* An old connection may have ended since, which shows only when it is used; a session
 * that was granted over it without our knowing ends with its lease. */
static int
ask_once(struct sched_fed_link *l, struct sched_fed_job *job)
{
    struct call c = {l, job->deadline_ns};
    bool old = l->link.fd >= 0;
    int r = old ? 0 : connect_any(l, job->deadline_ns, &job->err);

    if (!r)
        r = call(&c, &job->req, &job->reply, &job->err);
    if (is_answer(r))
        return r;
    disconnect(l);
    if (!old || gp_now_ns() >= job->deadline_ns)
        return r;
    memset(&job->err, 0, sizeof(job->err));
    r = connect_any(l, job->deadline_ns, &job->err);
    if (!r)
        r = call(&c, &job->req, &job->reply, &job->err);
    if (!is_answer(r))
        disconnect(l);
    return r;
}

static void
ask(struct sched_fed_link *l, struct sched_fed_job *job)
{
    bool named = false;

    job->r = ask_once(l, job);
    while (!l->config.once && not_leader(job->r, job->reply) &&
           gp_now_ns() + LEADER_NS < job->deadline_ns) {
        disconnect(l);
        /* Two may name each other, or one that is gone. */
        if (!ctl_route_follow(&l->route, job->reply->error->leader) || named)
            gp_sleep_ns(LEADER_NS);
        named = true;
        ctl_reply_free(TAKE_PTR(job->reply));
        memset(&job->err, 0, sizeof(job->err));
        job->r = ask_once(l, job);
    }
}

static void *
thread_main(void *arg)
{
    struct sched_fed_link *l = arg;
    struct sched_fed_job *job;
    uint64_t one = 1;

    pthread_setname_np(pthread_self(), l->config.once ? "to-leader" : "other-pool");
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->stop && !l->queued.first)
            pthread_cond_wait(&l->work, &l->lock);
        job = l->stop ? NULL : jobs_take(&l->queued);
        if (!job)
            break;
        pthread_mutex_unlock(&l->lock);
        ask(l, job);
        pthread_mutex_lock(&l->lock);
        jobs_add(&l->finished, job);
        /* It only fails when the counter is full, and then the loop is woken anyway. */
        if (write(l->event.fd, &one, sizeof(one)) < 0)
            continue;
    }
    l->busy_fd = -1;
    pthread_mutex_unlock(&l->lock);
    ctl_link_close(&l->link);
    return NULL;
}

/* --------------------------------------------------------------- event loop -- */

/* The thread ends, whatever it is doing: a request that is out is cut off. */
static void
stop_thread(struct sched_fed_link *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    if (l->busy_fd >= 0)
        shutdown(l->busy_fd, SHUT_RDWR);
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    if (l->started)
        pthread_join(l->thread, NULL);
    l->started = false;
}

static void
link_free(struct sched_fed_link *l)
{
    int fd = l->event.fd;

    stop_thread(l);
    gp_loop_fd_del(&l->event);
    if (fd >= 0)
        close(fd);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
    explicit_bzero(&l->config, sizeof(l->config));
    free(l);
}

/* The thread has nothing to do when nothing is out, so that it is joined at once. */
static void
free_if_unused(struct sched_fed_link *l)
{
    if (!l->refs && !l->n_out)
        link_free(l);
}

static void
finish(struct sched_fed_link *l)
{
    struct sched_fed_job *job;

    for (;;) {
        pthread_mutex_lock(&l->lock);
        job = jobs_take(&l->finished);
        pthread_mutex_unlock(&l->lock);
        if (!job)
            return;
        l->n_out--;
        job->done(job);
    }
}

static void
on_event(struct gp_loop_fd *src, uint32_t revents)
{
    struct sched_fed_link *l = container_of(src, struct sched_fed_link, event);
    uint64_t n;

    (void)revents;
    if (read(src->fd, &n, sizeof(n)) < 0)
        return;
    l->refs++; /* done() may drop the last one */
    finish(l);
    sched_fed_link_unref(l);
}

int
sched_fed_link_add(struct sched_fed_link *l, struct sched_fed_job *job)
{
    if (l->n_out >= SCHED_FED_JOBS_MAX)
        return -EBUSY;
    job->r = -ECANCELED;
    job->reply = NULL;
    memset(&job->err, 0, sizeof(job->err));
    l->n_out++;
    pthread_mutex_lock(&l->lock);
    jobs_add(&l->queued, job);
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

/* ----------------------------------------------------------------- lifetime -- */

int
sched_fed_link_new(struct gp_loop *loop, const struct sched_fed_config *config,
                   struct sched_fed_link **ret, struct gp_err *err)
{
    struct sched_fed_link *l = calloc(1, sizeof(*l));
    int r, fd;

    if (!l)
        return -ENOMEM;
    l->config = *config;
    l->route.list = l->config.scheduler;
    l->link.fd = l->busy_fd = -1;
    jobs_init(&l->queued);
    jobs_init(&l->finished);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->event.fd = fd;
    r = fd < 0 ? -errno : gp_loop_fd_add(loop, &l->event, fd, EPOLLIN, on_event);
    if (!r)
        r = -pthread_create(&l->thread, NULL, thread_main, l);
    l->started = !r;
    if (r < 0) {
        link_free(l);
        return gp_err_set(err, r, "a thread for pool %s: %s", config->name,
                          strerror(-r));
    }
    l->refs = 1;
    *ret = l;
    return 0;
}

struct sched_fed_link *
sched_fed_link_ref(struct sched_fed_link *link)
{
    link->refs++;
    return link;
}

void
sched_fed_link_unref(struct sched_fed_link *link)
{
    if (!link)
        return;
    link->refs--;
    free_if_unused(link);
}

void
sched_fed_link_cancel(struct sched_fed_link *l)
{
    struct sched_fed_job *job;

    stop_thread(l);
    while ((job = jobs_take(&l->queued)))
        jobs_add(&l->finished, job);
    l->refs++;
    finish(l);
    sched_fed_link_unref(l);
}

const struct sched_fed_config *
sched_fed_link_config(const struct sched_fed_link *link)
{
    return &link->config;
}

struct sched_fed_stats *
sched_fed_link_stats(struct sched_fed_link *link)
{
    return &link->stats;
}
