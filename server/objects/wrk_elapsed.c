/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_elapsed.h"

#include "drv.h"
#include "wrk.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wrk_elapsed *begun; /* under lock */

static CUevent
event_of(const struct wrk *w, uint64_t id)
{
    const struct wrk_handle_slot *slot =
        wrk_handles_find(&w->handles, WIRE_KIND_EVENT, id);

    return slot ? slot->obj : NULL;
}

void
wrk_elapsed_begin(struct wrk *w, const struct wrk_elapsed_ask *ask,
                  struct wrk_elapsed *elapsed)
{
    *elapsed = (struct wrk_elapsed){0};
    if (!ask)
        return;
    elapsed->start = event_of(w, ask->start);
    elapsed->end = event_of(w, ask->end);
    if (!elapsed->start || !elapsed->end) {
        elapsed->start = elapsed->end = NULL;
        return;
    }
    pthread_mutex_lock(&lock);
    elapsed->next = begun;
    begun = elapsed;
    pthread_mutex_unlock(&lock);
}

/* Under lock.  Has one that has begun @event?  Then it destroys it at its end. */
static bool
leave_to_another(CUevent event)
{
    struct wrk_elapsed *e = begun;

    while (e && e->start != event && e->end != event)
        e = e->next;
    if (!e)
        return false;
    if (e->start == event)
        e->start_gone = true;
    else
        e->end_gone = true;
    return true;
}

CUresult
wrk_elapsed_destroy(struct wrk *w, CUevent event)
{
    bool left;

    pthread_mutex_lock(&lock);
    left = begun && leave_to_another(event);
    pthread_mutex_unlock(&lock);
    return left ? CUDA_SUCCESS : WRK_CALL(w, cuEventDestroy_v2, event);
}

static void
unlink_begun(const struct wrk_elapsed *elapsed)
{
    struct wrk_elapsed **at = &begun;

    while (*at != elapsed)
        at = &(*at)->next;
    *at = elapsed->next;
}

CUresult
wrk_elapsed_end(struct wrk *w, struct wrk_elapsed *elapsed, CUresult waited,
                float *ret_ms)
{
    CUresult r = CUDA_ERROR_NOT_READY;
    bool start_gone, end_gone;

    if (!elapsed->start)
        return CUDA_ERROR_INVALID_HANDLE;
    if (waited == CUDA_SUCCESS)
        r = WRK_CALL(w, cuEventElapsedTime_v2, ret_ms, elapsed->start, elapsed->end);
    pthread_mutex_lock(&lock);
    unlink_begun(elapsed);
    start_gone = elapsed->start_gone && !leave_to_another(elapsed->start);
    end_gone = elapsed->end_gone && !leave_to_another(elapsed->end);
    pthread_mutex_unlock(&lock);
    if (start_gone)
        WRK_CALL(w, cuEventDestroy_v2, elapsed->start);
    if (end_gone)
        WRK_CALL(w, cuEventDestroy_v2, elapsed->end);
    return r;
}
