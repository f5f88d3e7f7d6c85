/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_sender.h"

#include "drv.h"
#include "wire_format.h"
#include "wrk_priv.h"
#include "wrk_reply.h"
#include "wrk_state.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct note {
    struct note *next;
    struct wire_event_host_func event;
    wrk_sender_due *due;
};

struct wrk_sender {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct note *first, **last;
    bool started;
};

int
wrk_sender_new(struct wrk_sender **ret)
{
    struct wrk_sender *sender = calloc(1, sizeof(*sender));

    if (!sender)
        return -ENOMEM;
    sender->last = &sender->first;
    pthread_mutex_init(&sender->lock, NULL);
    pthread_cond_init(&sender->more, NULL);
    *ret = sender;
    return 0;
}

static struct note *
sender_take(struct wrk_sender *sender)
{
    struct note *note;

    pthread_mutex_lock(&sender->lock);
    while (!sender->first)
        pthread_cond_wait(&sender->more, &sender->lock);
    note = sender->first;
    sender->first = note->next;
    if (!sender->first)
        sender->last = &sender->first;
    pthread_mutex_unlock(&sender->lock);
    return note;
}

static void *
sender_main(void *arg)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct wrk *w = arg;

    /* What comes before a reply asks events: a capture of the client must not end by
     * it. */
    WRK_CALL(w, cuThreadExchangeStreamCaptureMode, &mode);
    for (;;) {
        struct note *note = sender_take(w->priv->sender);

        gp_lock_take(&w->priv->send_lock);
        wrk_before_reply_locked(w);
        if (!note->due || note->due(w, &note->event))
            wrk_unsolicited_locked(w, WIRE_EVENT_HOST_FUNC, &note->event,
                                   sizeof(note->event), NULL, 0);
        gp_lock_release(&w->priv->send_lock);
        free(note);
    }
    return NULL;
}

static bool
sender_start(struct wrk *w)
{
    struct wrk_sender *sender = w->priv->sender;
    pthread_t thread;

    if (!sender->started && pthread_create(&thread, NULL, sender_main, w) == 0) {
        pthread_detach(thread);
        sender->started = true;
    }
    return sender->started;
}

void
wrk_sender_event(struct wrk *w, const struct wire_event_host_func *event,
                 wrk_sender_due *due)
{
    struct wrk_sender *sender = w->priv->sender;
    struct note *note = malloc(sizeof(*note));
    bool started;

    pthread_mutex_lock(&sender->lock);
    started = note && sender_start(w);
    if (started) {
        *note = (struct note){.event = *event, .due = due};
        *sender->last = note;
        sender->last = &note->next;
        pthread_cond_signal(&sender->more);
    }
    pthread_mutex_unlock(&sender->lock);
    if (!started) {
        free(note);
        wrk_stop(w); /* out of order it must not go, and unsent it would hang */
    }
}
