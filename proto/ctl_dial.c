/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_dial.h"

#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_hash.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ALONE_NS (5 * GP_NS_PER_S)
#define SEVERAL_NS (2 * GP_NS_PER_S)
#define DOUBLED_MAX 2u

/* What the thread and the loop share.  Freed by whoever is last: a thread that is stuck
 * in a resolver keeps nobody from ending. */
struct ctl_dial_job {
    atomic_int refs;
    char address[CTL_ENDPOINT_MAX];
    const struct tls_api *tls;
    struct ctl_pins pins;
    uint64_t timeout_ns;
    int event_fd; /* written when @result is there */
    int result;
    struct ctl_link link;
    struct gp_err err;
};

static void
job_unref(struct ctl_dial_job *job)
{
    if (atomic_fetch_sub(&job->refs, 1) != 1)
        return;
    ctl_link_close(&job->link);
    if (job->event_fd >= 0)
        close(job->event_fd);
    free(job);
}

static void *
job_main(void *arg)
{
    struct ctl_dial_job *job = arg;
    uint64_t one = 1;

    job->result = ctl_link_open(&job->link, job->address, job->tls, &job->pins,
                                gp_now_ns() + job->timeout_ns, false, &job->err);
    if (write(job->event_fd, &one, sizeof(one)) < 0)
        gp_log_error("dial", "eventfd: %s", strerror(errno));
    job_unref(job);
    return NULL;
}

static void
on_event(struct gp_loop_fd *src, uint32_t revents)
{
    struct ctl_dial *dial = container_of(src, struct ctl_dial, src);
    struct ctl_dial_job *job = TAKE_PTR(dial->job);
    uint64_t n;

    (void)revents;
    /* Orders what the thread wrote before it wrote here: readiness alone does not. */
    if (read(src->fd, &n, sizeof(n)) < 0)
        gp_log_debug("dial", "eventfd: %s", strerror(errno));
    gp_loop_fd_del(src);
    dial->on_done(dial, job->result, &job->link, &job->err);
    job_unref(job);
}

static int
start_thread(struct ctl_dial_job *job)
{
    pthread_t thread;
    int r = -pthread_create(&thread, NULL, job_main, job);

    if (!r)
        pthread_detach(thread);
    return r;
}

int
ctl_dial_start(struct ctl_dial *dial, struct gp_loop *loop, const char *address,
               const struct tls_api *tls, const struct ctl_pins *pins,
               uint64_t timeout_ns,
               void (*on_done)(struct ctl_dial *dial, int r, struct ctl_link *link,
                               const struct gp_err *err))
{
    struct ctl_dial_job *job = calloc(1, sizeof(*job));
    int r;

    if (!job)
        return -ENOMEM;
    atomic_init(&job->refs, 1);
    job->link.fd = -1;
    job->tls = tls;
    job->timeout_ns = timeout_ns;
    gp_str_copy(job->address, sizeof(job->address), address);
    if (pins)
        job->pins = *pins;
    job->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = job->event_fd < 0
            ? -errno
            : gp_loop_fd_add(loop, &dial->src, job->event_fd, EPOLLIN, on_event);
    if (!r) {
        atomic_store(&job->refs, 2);
        r = start_thread(job);
        if (r < 0) {
            gp_loop_fd_del(&dial->src);
            atomic_store(&job->refs, 1);
        }
    }
    if (r < 0) {
        job_unref(job);
        return r;
    }
    dial->on_done = on_done;
    dial->job = job;
    return 0;
}

void
ctl_dial_cancel(struct ctl_dial *dial)
{
    if (!dial->job)
        return;
    gp_loop_fd_del(&dial->src);
    job_unref(TAKE_PTR(dial->job));
}

uint64_t
ctl_dial_timeout_ns(unsigned attempts, bool several)
{
    return (several ? SEVERAL_NS : ALONE_NS) << gp_min(attempts, DOUBLED_MAX);
}

uint64_t
ctl_dial_pause_ns(uint64_t ns)
{
    return ns / 2 + gp_hash_u64(gp_now_ns()) % (ns + 1);
}
