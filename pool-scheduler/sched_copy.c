/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_copy.h"

#include "ctl_call.h"
#include "ctl_limits.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_history.h"
#include "sched_relay.h"
#include "sched_types.h"

#include <string.h>

/* How late a follower shows each. */
#define LIVE_NS (GP_NS_PER_S)
#define POOLS_NS (5 * GP_NS_PER_S)
#define HOUR_NS (10 * GP_NS_PER_S) /* a sample of the hour */
#define WEEK_NS (60 * GP_NS_PER_S)

static void ask_next(struct sched *sched);

static bool
is_due(const struct sched_copy *copy, uint64_t at_ns, uint64_t every_ns)
{
    return !at_ns || copy->begun_ns - at_ns >= every_ns;
}

/* -------------------------------------------------------------------- takes -- */

/* The numbers; texts are this scheduler's own. */
static void
take_live(struct sched_copy *copy, const Gpupool__Ctl__CtlPoolStatus *pool)
{
    copy->live = *pool;
    copy->live.version = copy->live.leader = copy->live.scheduler_key_id = NULL;
    copy->live_ns = copy->begun_ns;
}

/* Another leader's events begin with those that it has copied itself. */
static void
take_events(struct sched *sched, const Gpupool__Ctl__CtlListReply *list)
{
    if (sched->copy.term != sched->replica.term)
        sched_events_fini(&sched->events);
    sched->copy.term = sched->replica.term;
    for (size_t i = 0; i < list->n_events; i++) {
        const Gpupool__Ctl__CtlEvent *e = list->events[i];
        struct sched_event event = {.serial = e->serial, .unix_ms = e->unix_ms};

        gp_str_copy(event.session, sizeof(event.session), e->session);
        gp_str_copy(event.server, sizeof(event.server), e->server);
        gp_str_copy(event.owner, sizeof(event.owner), e->owner);
        gp_str_copy(event.words, sizeof(event.words), e->words);
        sched_events_put(&sched->events, &event, e->kind);
    }
}

static void
take_samples(struct sched_history_span *span, const Gpupool__Ctl__CtlListReply *list)
{
    sched_history_clear(span);
    for (size_t i = 0; i < list->n_samples; i++) {
        const Gpupool__Ctl__CtlSample *s = list->samples[i];
        const struct sched_sample sample = {
            .unix_s = s->unix_s,
            .core = s->core,
            .core_given = s->core_given,
            .busy = s->busy,
            .memory = s->memory_bytes,
            .memory_given = s->memory_given,
            .memory_used = s->memory_used,
            .sessions = s->sessions,
            .waiting = s->waiting,
        };

        sched_history_put(span, &sample);
    }
}

/* ---------------------------------------------------------------- questions -- */

static void
ask(struct sched *sched, Gpupool__Ctl__CtlList *list, sched_relay_done *done)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    req.id = 1;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_LIST;
    req.list = list;
    sched->copy.out = sched_relay_ask_own(sched, &req, done, sched) == 0;
}

/* The list of an answer, while this scheduler follows; else the round is over. */
static const Gpupool__Ctl__CtlListReply *
answer(struct sched *sched, const Gpupool__Ctl__CtlReply *reply)
{
    sched->copy.out = false;
    return reply && !reply->error && !sched->replica.leads &&
                   sched->copy.asked == sched->replica.term &&
                   reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_LIST
               ? reply->list
               : NULL;
}

static void
on_pools(void *arg, Gpupool__Ctl__CtlReply *reply)
{
    struct sched *sched = arg;

    if (!answer(sched, reply))
        return;
    ctl_reply_free(sched->copy.pools);
    sched->copy.pools = ctl_message_copy(&reply->base);
    sched->copy.pools_ns = sched->copy.pools ? sched->copy.begun_ns : 0;
}

static void
on_samples(void *arg, Gpupool__Ctl__CtlReply *reply)
{
    struct sched *sched = arg;
    struct sched_copy *copy = &sched->copy;
    const Gpupool__Ctl__CtlListReply *list = answer(sched, reply);

    if (!list)
        return;
    take_samples(copy->wants_hour ? &sched->history->hour : &sched->history->week,
                 list);
    *(copy->wants_hour ? &copy->hour_ns : &copy->week_ns) = copy->begun_ns;
    ask_next(sched);
}

/* What is due less often than each second; one round may ask for several. */
static void
ask_next(struct sched *sched)
{
    struct sched_copy *copy = &sched->copy;
    Gpupool__Ctl__CtlList list = GPUPOOL__CTL__CTL_LIST__INIT;

    copy->wants_hour = is_due(copy, copy->hour_ns, HOUR_NS);
    if (copy->wants_hour || is_due(copy, copy->week_ns, WEEK_NS)) {
        list.kind = GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_HISTORY;
        list.week = !copy->wants_hour;
        ask(sched, &list, on_samples);
    } else if (is_due(copy, copy->pools_ns, POOLS_NS)) {
        list.kind = GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOLS;
        ask(sched, &list, on_pools);
    }
}

static void on_events(void *arg, Gpupool__Ctl__CtlReply *reply);

static void
ask_events(struct sched *sched)
{
    Gpupool__Ctl__CtlList list = GPUPOOL__CTL__CTL_LIST__INIT;

    list.kind = GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_EVENTS;
    list.most = CTL_LIST_MAX;
    list.oldest_first = true;
    list.after = sched->copy.term == sched->replica.term ? sched->events.n : 0;
    ask(sched, &list, on_events);
}

static void
on_events(void *arg, Gpupool__Ctl__CtlReply *reply)
{
    struct sched *sched = arg;
    const Gpupool__Ctl__CtlListReply *list = answer(sched, reply);

    if (!list)
        return;
    take_events(sched, list);
    if (list->n_events == CTL_LIST_MAX) {
        ask_events(sched);
        return;
    }
    sched->copy.events_ns = sched->copy.begun_ns;
    ask_next(sched);
}

static void
on_live(void *arg, Gpupool__Ctl__CtlReply *reply)
{
    struct sched *sched = arg;
    const Gpupool__Ctl__CtlListReply *list = answer(sched, reply);

    if (!list || !list->pool)
        return;
    take_live(&sched->copy, list->pool);
    ask_events(sched);
}

void
sched_copy_tick(struct sched *sched, uint64_t now)
{
    struct sched_copy *copy = &sched->copy;
    Gpupool__Ctl__CtlList list = GPUPOOL__CTL__CTL_LIST__INIT;

    if (copy->out || !*sched->replica.leader ||
        (copy->begun_ns && now - copy->begun_ns < LIVE_NS))
        return;
    copy->begun_ns = now;
    copy->asked = sched->replica.term;
    list.kind = GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOL;
    ask(sched, &list, on_live);
}

void
sched_copy_fini(struct sched_copy *copy)
{
    ctl_reply_free(TAKE_PTR(copy->pools));
}
