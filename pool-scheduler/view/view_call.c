/* SPDX-License-Identifier: Apache-2.0 */
#include "view_call.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct view_call {
    void (*fn)(void *arg);
    void *arg;
    bool ended, ran;
    struct view_call *next;
};

static struct view_call *
take(struct view_calls *calls)
{
    struct view_call *call;

    pthread_mutex_lock(&calls->lock);
    call = calls->first;
    if (call) {
        calls->first = call->next;
        if (!calls->first)
            calls->end = &calls->first;
    }
    pthread_mutex_unlock(&calls->lock);
    return call;
}

/* @call is its caller's, and gone once it is told. */
static void
end(struct view_calls *calls, struct view_call *call, bool ran)
{
    pthread_mutex_lock(&calls->lock);
    call->ran = ran;
    call->ended = true;
    pthread_cond_broadcast(&calls->ended);
    pthread_mutex_unlock(&calls->lock);
}

/* The eventfd counts calls (EFD_SEMAPHORE): one is taken each time. */
static void
on_readable(struct gp_loop_fd *src, uint32_t revents)
{
    struct view_calls *calls = container_of(src, struct view_calls, src);
    struct view_call *call;
    uint64_t one;

    (void)revents;
    if (read(src->fd, &one, sizeof(one)) != sizeof(one))
        return;
    call = take(calls);
    if (!call)
        return;
    calls->running = call;
    call->fn(call->arg);
    if (calls->running)
        end(calls, TAKE_PTR(calls->running), true);
}

struct view_call *
view_calls_defer(struct view_calls *calls)
{
    return TAKE_PTR(calls->running);
}

void
view_calls_end(struct view_calls *calls, struct view_call *call)
{
    end(calls, call, true);
}

int
view_calls_init(struct view_calls *calls, struct gp_loop *loop)
{
    int r;

    *calls = (struct view_calls){.end = &calls->first};
    pthread_mutex_init(&calls->lock, NULL);
    pthread_cond_init(&calls->ended, NULL);
    calls->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    r = calls->event_fd < 0
            ? -errno
            : gp_loop_fd_add(loop, &calls->src, calls->event_fd, EPOLLIN, on_readable);
    if (r < 0)
        view_calls_fini(calls);
    return r;
}

void
view_calls_close(struct view_calls *calls)
{
    struct view_call *call;

    pthread_mutex_lock(&calls->lock);
    calls->closed = true;
    pthread_mutex_unlock(&calls->lock);
    while ((call = take(calls)))
        end(calls, call, false);
}

void
view_calls_fini(struct view_calls *calls)
{
    gp_loop_fd_del(&calls->src);
    if (calls->event_fd >= 0)
        close(calls->event_fd);
    pthread_cond_destroy(&calls->ended);
    pthread_mutex_destroy(&calls->lock);
}

bool
view_calls_do(struct view_calls *calls, void (*fn)(void *arg), void *arg)
{
    struct view_call call = {.fn = fn, .arg = arg};
    uint64_t one = 1;

    pthread_mutex_lock(&calls->lock);
    if (calls->closed) {
        pthread_mutex_unlock(&calls->lock);
        return false;
    }
    *calls->end = &call;
    calls->end = &call.next;
    /* It only fails when the counter is full, and then the loop is woken anyway. */
    if (write(calls->event_fd, &one, sizeof(one)) < 0)
        one = 0;
    while (!call.ended)
        pthread_cond_wait(&calls->ended, &calls->lock);
    pthread_mutex_unlock(&calls->lock);
    return call.ran;
}
