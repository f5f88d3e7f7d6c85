/* SPDX-License-Identifier: Apache-2.0 */
#include "store_writer.h"

#include "gp_err.h"
#include "gp_loop.h"
#include "store.h"
#include "store_batch.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct store_writer {
    struct store *store;
    void (*done)(void *arg, int r, size_t written, const struct gp_err *err);
    void *arg;
    struct gp_loop_fd event; /* becomes readable with each result */
    int event_fd;
    pthread_t thread;
    bool busy; /* event loop's: a batch was given and @done has not been called */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    const struct store_batch *batch; /* to be written */
    bool finished;                   /* result and err are there */
    bool stop;
    int result;
    size_t written;
    struct gp_err err;
};

int
store_write_batch(struct store *store, const struct store_batch *batch,
                  size_t *ret_written, struct gp_err *err)
{
    CLEANUP_FREE struct store_op *ops = NULL;
    int r = store_batch_ops(batch, &ops);

    *ret_written = 0;
    return r < 0 ? r : store->ops->write(store, ops, batch->n, ret_written, err);
}

static void *
writer_main(void *arg)
{
    struct store_writer *w = arg;
    uint64_t one = 1;

    pthread_setname_np(pthread_self(), "store-writer");
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        const struct store_batch *batch = w->batch;
        struct gp_err err = {0};
        size_t written;
        int r;

        if (!batch) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        r = store_write_batch(w->store, batch, &written, &err);
        pthread_mutex_lock(&w->lock);
        w->batch = NULL;
        w->result = r;
        w->written = written;
        w->err = err;
        w->finished = true;
        pthread_cond_broadcast(&w->changed);
        /* It only fails when the counter is full, and then the loop is woken anyway. */
        if (write(w->event_fd, &one, sizeof(one)) < 0)
            continue;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Give the result to the owner, if there is one. */
static void
take_result(struct store_writer *w)
{
    struct gp_err err;
    size_t written;
    bool finished;
    int r;

    pthread_mutex_lock(&w->lock);
    finished = w->finished;
    w->finished = false;
    r = w->result;
    written = w->written;
    err = w->err;
    pthread_mutex_unlock(&w->lock);
    if (!finished)
        return;
    w->busy = false;
    w->done(w->arg, r, written, &err);
}

static void
on_event(struct gp_loop_fd *src, uint32_t revents)
{
    struct store_writer *w = container_of(src, struct store_writer, event);
    uint64_t n;

    (void)revents;
    if (read(src->fd, &n, sizeof(n)) == sizeof(n))
        take_result(w);
}

int
store_writer_new(struct store *store, struct gp_loop *loop,
                 void (*done)(void *arg, int r, size_t written,
                              const struct gp_err *err),
                 void *arg, struct store_writer **ret_writer, struct gp_err *err)
{
    struct store_writer *w = calloc(1, sizeof(*w));
    int r;

    if (!w)
        return -ENOMEM;
    w->store = store;
    w->done = done;
    w->arg = arg;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = w->event_fd < 0
            ? -errno
            : gp_loop_fd_add(loop, &w->event, w->event_fd, EPOLLIN, on_event);
    if (!r)
        r = -pthread_create(&w->thread, NULL, writer_main, w);
    if (r < 0) {
        gp_loop_fd_del(&w->event);
        if (w->event_fd >= 0)
            close(w->event_fd);
        free(w);
        return gp_err_set(err, r, "the store's thread: %s", strerror(-r));
    }
    *ret_writer = w;
    return 0;
}

void
store_writer_free(struct store_writer *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    gp_loop_fd_del(&w->event);
    close(w->event_fd);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void
store_writer_start(struct store_writer *w, const struct store_batch *batch)
{
    pthread_mutex_lock(&w->lock);
    w->batch = batch;
    w->busy = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

bool
store_writer_busy(const struct store_writer *w)
{
    return w->busy;
}

void
store_writer_wait(struct store_writer *w)
{
    if (!w->busy)
        return;
    pthread_mutex_lock(&w->lock);
    while (!w->finished)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    take_result(w);
}
