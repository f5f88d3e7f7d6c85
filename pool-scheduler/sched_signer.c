/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_signer.h"

#include "gp_err.h"
#include "gp_loop.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define THREADS_MAX 4
/* Jobs that one thread takes at once: more only delay the first of them. */
#define TAKE_MAX 16u

struct job_list {
    struct sched_signer_job *first, **end;
    unsigned n;
};

struct sched_signer {
    struct gp_loop *loop;
    struct gp_loop_timer turn_end;
    struct gp_loop_fd event; /* becomes readable when results are there */
    int event_fd;
    struct job_list added; /* in this turn of the loop */
    unsigned n_out;        /* handed over, and not yet done */
    pthread_t threads[THREADS_MAX];
    unsigned n_threads;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t work, result;
    struct job_list queued, finished;
    bool stop;
};

/* -------------------------------------------------------------------- lists -- */

static void
list_init(struct job_list *list)
{
    *list = (struct job_list){.end = &list->first};
}

static void
list_add(struct job_list *list, struct sched_signer_job *job)
{
    job->next = NULL;
    *list->end = job;
    list->end = &job->next;
    list->n++;
}

/* All of @from go behind those of @to. */
static void
list_move(struct job_list *to, struct job_list *from)
{
    if (!from->n)
        return;
    *to->end = from->first;
    to->end = from->end;
    to->n += from->n;
    list_init(from);
}

static struct sched_signer_job *
list_take(struct job_list *list)
{
    struct sched_signer_job *job = list->first;

    list->first = job->next;
    if (!list->first)
        list->end = &list->first;
    list->n--;
    return job;
}

/* ------------------------------------------------------------------ threads -- */

/* The thread's part of what is queued. */
static void
take_part(struct sched_signer *s, struct job_list *part)
{
    unsigned n = gp_min((s->queued.n + s->n_threads - 1) / s->n_threads, TAKE_MAX);

    list_init(part);
    while (n--)
        list_add(part, list_take(&s->queued));
}

static void
wake_loop(struct sched_signer *s)
{
    uint64_t one = 1;

    /* It only fails when the counter is full, and then the loop is woken anyway. */
    if (write(s->event_fd, &one, sizeof(one)) < 0)
        return;
}

static void *
thread_main(void *arg)
{
    struct sched_signer *s = arg;
    struct job_list part;

    pthread_setname_np(pthread_self(), "signer");
    pthread_mutex_lock(&s->lock);
    for (;;) {
        bool first;

        while (!s->queued.n && !s->stop)
            pthread_cond_wait(&s->work, &s->lock);
        if (!s->queued.n)
            break;
        take_part(s, &part);
        pthread_mutex_unlock(&s->lock);
        for (struct sched_signer_job *job = part.first; job; job = job->next)
            job->run(job);
        pthread_mutex_lock(&s->lock);
        first = !s->finished.n;
        list_move(&s->finished, &part);
        if (first) {
            pthread_cond_signal(&s->result);
            wake_loop(s);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --------------------------------------------------------------- event loop -- */

static void
finish(struct sched_signer *s, struct job_list *done)
{
    while (done->n) {
        struct sched_signer_job *job = list_take(done);

        s->n_out--;
        job->done(job);
    }
}

static void
on_event(struct gp_loop_fd *src, uint32_t revents)
{
    struct sched_signer *s = container_of(src, struct sched_signer, event);
    struct job_list done;
    uint64_t n;

    (void)revents;
    if (read(src->fd, &n, sizeof(n)) < 0)
        return;
    list_init(&done);
    pthread_mutex_lock(&s->lock);
    list_move(&done, &s->finished);
    pthread_mutex_unlock(&s->lock);
    finish(s, &done);
}

static void
hand_over(struct sched_signer *s)
{
    s->n_out += s->added.n;
    pthread_mutex_lock(&s->lock);
    list_move(&s->queued, &s->added);
    if (s->queued.n > 1)
        pthread_cond_broadcast(&s->work);
    else
        pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

static void
on_turn_end(struct gp_loop_timer *timer)
{
    hand_over(container_of(timer, struct sched_signer, turn_end));
}

void
sched_signer_add(struct sched_signer *s, struct sched_signer_job *job)
{
    list_add(&s->added, job);
    /* Timers run after the descriptors of a turn. */
    if (!s->turn_end.loop)
        gp_loop_timer_set(s->loop, &s->turn_end, 0, on_turn_end);
}

void
sched_signer_wait(struct sched_signer *s)
{
    struct job_list done;

    while (s->added.n || s->n_out) {
        hand_over(s);
        list_init(&done);
        pthread_mutex_lock(&s->lock);
        while (!s->finished.n)
            pthread_cond_wait(&s->result, &s->lock);
        list_move(&done, &s->finished);
        pthread_mutex_unlock(&s->lock);
        finish(s, &done);
    }
}

/* ----------------------------------------------------------------- lifetime -- */

static unsigned
threads_wanted(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN) - 2;

    return (unsigned)gp_max(gp_min(n, (long)THREADS_MAX), 1L);
}

int
sched_signer_new(struct gp_loop *loop, struct sched_signer **ret_signer,
                 struct gp_err *err)
{
    struct sched_signer *s = calloc(1, sizeof(*s));
    unsigned wanted = threads_wanted();
    int r;

    if (!s)
        return -ENOMEM;
    s->loop = loop;
    list_init(&s->added);
    list_init(&s->queued);
    list_init(&s->finished);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->result, NULL);
    s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = s->event_fd < 0
            ? -errno
            : gp_loop_fd_add(loop, &s->event, s->event_fd, EPOLLIN, on_event);
    while (!r && s->n_threads < wanted) {
        r = -pthread_create(&s->threads[s->n_threads], NULL, thread_main, s);
        s->n_threads += !r;
    }
    if (r < 0) {
        sched_signer_free(s);
        return gp_err_set(err, r, "the signing threads: %s", strerror(-r));
    }
    *ret_signer = s;
    return 0;
}

void
sched_signer_free(struct sched_signer *s)
{
    if (!s)
        return;
    sched_signer_wait(s);
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < s->n_threads; i++)
        pthread_join(s->threads[i], NULL);
    gp_loop_timer_del(&s->turn_end);
    gp_loop_fd_del(&s->event);
    if (s->event_fd >= 0)
        close(s->event_fd);
    pthread_cond_destroy(&s->result);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
