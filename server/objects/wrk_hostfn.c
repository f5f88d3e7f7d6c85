/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_hostfn.h"

#include "drv.h"
#include "gp_log.h"
#include "gp_time.h"
#include "wire_format.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_hooks.h"
#include "wrk_hostfn_own.h"
#include "wrk_sender.h"

#include <errno.h>
#include <pthread.h>

/* For the main connection, before a function is said to be due over the control
 * connection as well.  Whoever sends there may be in the middle of a payload, and may
 * wait for a driver that goes on when this function has returned. */
#define SEND_NS (5 * GP_NS_PER_MS)

/* A driver thread that waits for the client; lives on its stack. */
struct host_wait {
    struct host_wait *next;
    uint64_t ticket, token;
    struct wire_event_host_urgent event; /* what to say, if it is urgent */
    bool urgent;
    bool by_main, by_control; /* it was said so, over the connection in use */
    bool done;
};

int
wrk_hostfns_new(struct wrk *w, struct wrk_hostfns **ret)
{
    struct wrk_hostfns *hosts = calloc(1, sizeof(*hosts));

    (void)w;
    if (!hosts)
        return -ENOMEM;
    pthread_mutex_init(&hosts->lock, NULL);
    pthread_cond_init(&hosts->returned, NULL);
    hosts->refused_last = &hosts->refused;
    *ret = hosts;
    return 0;
}

void
wrk_hostfns_cancel(struct wrk_hostfns *hosts)
{
    pthread_mutex_lock(&hosts->lock);
    hosts->cancelled = true;
    pthread_cond_broadcast(&hosts->returned);
    pthread_mutex_unlock(&hosts->lock);
}

/* Under the lock; @by is 1 or -1. */
static void
host_count(struct wrk_hostfns *hosts, uint32_t kind, int by)
{
    bool once = kind == WRK_HOST_ONCE || kind == WRK_HOST_CALLBACK;

    hosts->count += (unsigned)by;
    hosts->once += once ? (unsigned)by : 0;
    hosts->graphs += kind == WRK_HOST_GRAPH ? (unsigned)by : 0;
}

struct wrk_hostfn *
wrk_hostfn_new(struct wrk *w, enum wrk_hostfn_kind kind, uint64_t token,
               uint64_t stream)
{
    struct wrk_hostfns *hosts = w->priv->hosts;
    struct wrk_hostfn *host = malloc(sizeof(*host));
    bool ok;

    if (!host)
        return NULL;
    *host = (struct wrk_hostfn){.w = w, .kind = kind, .token = token, .stream = stream};
    pthread_mutex_lock(&hosts->lock);
    ok = hosts->count < WIRE_HOST_FUNCS_MAX;
    if (ok) {
        host_count(hosts, kind, 1);
        hosts->callbacks += kind == WRK_HOST_CALLBACK;
    }
    pthread_mutex_unlock(&hosts->lock);
    if (!ok) {
        free(host);
        return NULL;
    }
    if (kind != WRK_HOST_NOTIFY)
        wrk_hooks_run(wrk_hooks.host_function, w);
    return host;
}

static void
host_uncount(const struct wrk_hostfn *host)
{
    struct wrk_hostfns *hosts = host->w->priv->hosts;

    pthread_mutex_lock(&hosts->lock);
    host_count(hosts, host->kind, -1);
    pthread_mutex_unlock(&hosts->lock);
}

bool
wrk_hostfns_none(struct wrk_hostfns *hosts)
{
    bool none;

    pthread_mutex_lock(&hosts->lock);
    none = hosts->count == 0 && !hosts->waiting; /* one that runs is not counted */
    pthread_mutex_unlock(&hosts->lock);
    return none;
}

bool
wrk_hostfns_of_streams(struct wrk_hostfns *hosts)
{
    bool some;

    pthread_mutex_lock(&hosts->lock);
    some = hosts->once != 0 || hosts->waiting;
    pthread_mutex_unlock(&hosts->lock);
    return some;
}

bool
wrk_hostfns_of_graphs(struct wrk_hostfns *hosts)
{
    bool some;

    pthread_mutex_lock(&hosts->lock);
    some = hosts->graphs != 0;
    pthread_mutex_unlock(&hosts->lock);
    return some;
}

/* ---- refused callbacks ---- */

/* As a callback that the driver calls, but that nobody waits for. */
static void
refusal_say(struct wrk_hostfn *host)
{
    struct wire_event_host_func event = {.token = host->token,
                                         .stream = host->stream,
                                         .status = (int32_t)host->refusal,
                                         .once = 1};

    host_uncount(host);
    if (atomic_load(&host->w->priv->before_reply))
        wrk_sender_event(host->w, &event, NULL);
    else
        wrk_unsolicited(host->w, WIRE_EVENT_HOST_FUNC, &event, sizeof(event), NULL, 0);
    free(host);
}

static struct wrk_hostfn *
refusal_take(struct wrk_hostfns *hosts)
{
    struct wrk_hostfn *host = hosts->callbacks ? NULL : hosts->refused;

    if (!host)
        return NULL;
    hosts->refused = host->next;
    if (!hosts->refused)
        hosts->refused_last = &hosts->refused;
    return host;
}

/* The event of a callback has been sent, or there will be none.  One thread at a time
 * says the refused ones, so that they keep their order; it does so without the lock,
 * which others take while they send. */
static void
callback_said(struct wrk_hostfns *hosts)
{
    struct wrk_hostfn *host;

    pthread_mutex_lock(&hosts->lock);
    hosts->callbacks--;
    if (!hosts->saying_refused) {
        hosts->saying_refused = true;
        while ((host = refusal_take(hosts))) {
            pthread_mutex_unlock(&hosts->lock);
            refusal_say(host);
            pthread_mutex_lock(&hosts->lock);
        }
        hosts->saying_refused = false;
    }
    pthread_mutex_unlock(&hosts->lock);
}

void
wrk_hostfn_refuse_callback(struct wrk_hostfn *host, CUresult status)
{
    struct wrk_hostfns *hosts = host->w->priv->hosts;

    host->refusal = status;
    pthread_mutex_lock(&hosts->lock);
    *hosts->refused_last = host;
    hosts->refused_last = &host->next;
    pthread_mutex_unlock(&hosts->lock);
    callback_said(hosts);
}

void
wrk_hostfn_drop(struct wrk_hostfn *host)
{
    host_uncount(host);
    if (host->kind == WRK_HOST_CALLBACK)
        callback_said(host->w->priv->hosts);
    free(host);
}

void
wrk_hostfn_refuse(struct wrk_hostfn *host)
{
    struct wire_event_host_gone event = {.token = host->token};
    struct wrk *w = host->w;

    wrk_hostfn_drop(host);
    wrk_unsolicited(w, WIRE_EVENT_HOST_GONE, &event, sizeof(event), NULL, 0);
}

/* ---- those of graphs ---- */

CUgraph
wrk_hostfn_graph(struct wrk *w, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;

    if (wrk_capturing(w, stream) == CUDA_SUCCESS ||
        WRK_CALL(w, cuStreamGetCaptureInfo_v2, stream, &status, NULL, &graph, NULL,
                 NULL) != CUDA_SUCCESS)
        return NULL;
    return graph;
}

/* Called by the driver, in a callback that may not call the driver.  The launches of
 * the function are complete, so all its messages have been sent. */
static void
host_gone(void *host)
{
    wrk_hostfn_refuse(host);
}

void
wrk_hostfn_tie(struct wrk_hostfn *host, CUgraph graph)
{
    struct wrk *w = host->w;
    CUuserObject object = NULL;

    if (WRK_CALL(w, cuUserObjectCreate, &object, host, host_gone, 1,
                 CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) != CUDA_SUCCESS)
        return;
    host->object = object;
    if (WRK_CALL(w, cuGraphRetainUserObject, graph, object, 1,
                 CU_GRAPH_USER_OBJECT_MOVE) != CUDA_SUCCESS)
        gp_log_debug("host", "a graph takes no user object: a function stays");
}

void
wrk_hostfn_untie(struct wrk_hostfn *host, CUgraph graph)
{
    struct wrk *w = host->w;

    if (!host->object)
        wrk_hostfn_refuse(host);
    else
        WRK_CALL(w, cuGraphReleaseUserObject, graph, host->object, 1);
}

/* ---- being due ---- */

/* Enter the list before the event leaves: the answer may come at once. */
static bool
host_enter(struct wrk_hostfns *hosts, struct host_wait *wait)
{
    bool ok;

    pthread_mutex_lock(&hosts->lock);
    ok = !hosts->cancelled;
    if (ok) {
        wait->ticket = ++hosts->last_ticket;
        wait->next = hosts->waiting;
        hosts->waiting = wait;
    }
    pthread_mutex_unlock(&hosts->lock);
    return ok;
}

static void
host_await(struct wrk_hostfns *hosts, struct host_wait *wait)
{
    struct host_wait **at;

    pthread_mutex_lock(&hosts->lock);
    while (!wait->done && !hosts->cancelled)
        pthread_cond_wait(&hosts->returned, &hosts->lock);
    for (at = &hosts->waiting; *at != wait; at = &(*at)->next)
        ;
    *at = wait->next;
    pthread_mutex_unlock(&hosts->lock);
}

/* ---- being due while the main connection is taken ---- */

/* Under the lock. */
static struct host_wait *
host_find(const struct wrk_hostfns *hosts, uint64_t ticket)
{
    struct host_wait *wait = hosts->waiting;

    while (wait && wait->ticket != ticket)
        wait = wait->next;
    return wait;
}

/* Is it still to be said over the main connection?  Then it is, now. */
static bool
host_due(struct wrk *w, const struct wire_event_host_func *event)
{
    struct wrk_hostfns *hosts = w->priv->hosts;
    struct host_wait *wait;
    bool due;

    pthread_mutex_lock(&hosts->lock);
    wait = host_find(hosts, event->ticket);
    due = wait && !wait->done && !wait->by_control && !wait->by_main;
    if (due)
        wait->by_main = true;
    pthread_mutex_unlock(&hosts->lock);
    return due;
}

/* Both connections may say it now, and one will.  One that nobody waits for is not
 * urgent. */
static void
host_urgent(struct wrk *w, struct host_wait *wait,
            const struct wire_event_host_func *event)
{
    struct wrk_hostfns *hosts = w->priv->hosts;

    if (!event->ticket) {
        wrk_sender_event(w, event, NULL);
        return;
    }
    pthread_mutex_lock(&hosts->lock);
    /* A copy that was complete before the function was due has been sent: else there
     * would be payloads to send before the next reply. */
    wait->event.func = *event;
    wait->event.arrived = atomic_load(&w->priv->d2h_sent);
    wait->urgent = true;
    pthread_mutex_unlock(&hosts->lock);
    wrk_hooks_run(wrk_hooks.host_urgent, w);
    wrk_sender_event(w, event, host_due);
}

void
wrk_hostfns_say(struct wrk_hostfns *hosts,
                void (*say)(void *arg, const struct wire_event_host_urgent *event),
                void *arg)
{
    pthread_mutex_lock(&hosts->lock);
    for (struct host_wait *wait = hosts->waiting; wait; wait = wait->next) {
        if (!wait->urgent || wait->done || wait->by_main || wait->by_control)
            continue;
        wait->by_control = true;
        say(arg, &wait->event);
    }
    pthread_mutex_unlock(&hosts->lock);
}

void
wrk_hostfns_unsaid(struct wrk *w)
{
    struct wrk_hostfns *hosts = w->priv->hosts;

    pthread_mutex_lock(&hosts->lock);
    for (struct host_wait *wait = hosts->waiting; wait; wait = wait->next) {
        if (!wait->by_control || wait->done)
            continue;
        wait->by_control = false;
        wrk_sender_event(w, &wait->event.func, host_due);
    }
    pthread_mutex_unlock(&hosts->lock);
}

static void
host_call(struct wrk_hostfn *host, CUresult status)
{
    struct wrk_hostfns *hosts = host->w->priv->hosts;
    bool waits = host->kind != WRK_HOST_NOTIFY;
    struct host_wait wait = {.token = host->token};
    struct wire_event_host_func event = {.token = host->token,
                                         .stream = host->stream,
                                         .status = (int32_t)status,
                                         .once = host->kind != WRK_HOST_GRAPH};

    if (waits && !host_enter(hosts, &wait)) {
        if (event.once)
            wrk_hostfn_drop(host);
        return;
    }
    event.ticket = wait.ticket;
    if (event.once) /* before the client can count it as over */
        host_uncount(host);
    if (atomic_load(&host->w->priv->before_reply))
        wrk_sender_event(host->w, &event, NULL);
    else if (!wrk_unsolicited_within(host->w, SEND_NS, WIRE_EVENT_HOST_FUNC, &event,
                                     sizeof(event)))
        host_urgent(host->w, &wait, &event);
    if (host->kind == WRK_HOST_CALLBACK)
        callback_said(hosts);
    if (waits)
        host_await(hosts, &wait);
    if (host->returned)
        host->returned(host);
    if (event.once)
        free(host);
}

void
wrk_hostfn_run(void *host)
{
    host_call(host, CUDA_SUCCESS);
}

void
wrk_hostfn_stream_run(CUstream stream, CUresult status, void *host)
{
    (void)stream;
    host_call(host, status);
}

void
wrk_hostfn_done(struct wrk *w, uint64_t ticket)
{
    struct wrk_hostfns *hosts = w->priv->hosts;
    struct host_wait *wait;

    pthread_mutex_lock(&hosts->lock);
    wait = host_find(hosts, ticket);
    if (wait)
        wait->done = true;
    pthread_cond_broadcast(&hosts->returned);
    pthread_mutex_unlock(&hosts->lock);
}

bool
wrk_hostfn_while_running(struct wrk *w, uint64_t ticket, uint64_t token,
                         void (*fn)(void *arg), void *arg)
{
    struct wrk_hostfns *hosts = w->priv->hosts;
    const struct host_wait *wait;
    bool runs;

    pthread_mutex_lock(&hosts->lock);
    wait = host_find(hosts, ticket);
    runs = wait && wait->token == token && !wait->done;
    if (runs)
        fn(arg);
    pthread_mutex_unlock(&hosts->lock);
    return runs;
}

void
wrk_hostfns_see(struct wrk_hostfns *hosts)
{
    pthread_mutex_lock(&hosts->lock);
    pthread_mutex_unlock(&hosts->lock);
}
