/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leader loop, and the hand-over of the lead.
 */
#include "stub_wait.h"

#include "attach.pb-c.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "stub_ending.h"
#include "stub_inflight.h"
#include "stub_link.h"
#include "stub_result.h"
#include "stub_unsolicited.h"
#include "wire_format.h"
#include "xport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t
wait_state(struct stub_call *c)
{
    return atomic_load_explicit(&c->state, memory_order_acquire);
}

static void
wait_set_state(struct stub_call *c, enum stub_call_state state)
{
    atomic_store_explicit(&c->state, state, memory_order_release);
}

/* ---- the lead --------------------------------------------------------------- */

/* Taking the lead is one instruction, with or without the lock.  A thread that gives
 * it up looks for waiters afterwards; a thread that waits enters the list first and
 * then tries to take it, under the lock: one of the two sees the other. */
static bool
lead_take(struct stub_link *link)
{
    bool led = false;

    return atomic_compare_exchange_strong(&link->leading, &led, true);
}

/* ---- the list of waiting calls, under link->wait ---------------------------- */

static void
wait_link(struct stub_call *c)
{
    c->prev = NULL;
    c->next = atomic_load_explicit(&c->link->waiting, memory_order_relaxed);
    if (c->next)
        c->next->prev = c;
    c->listed = true;
    atomic_store(&c->link->waiting, c);
}

static void
wait_unlink(struct stub_call *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        atomic_store_explicit(&c->link->waiting, c->next, memory_order_relaxed);
    if (c->next)
        c->next->prev = c->prev;
    c->listed = false;
}

static struct stub_call *
wait_find(const struct stub_link *link, uint32_t seq)
{
    struct stub_call *c = atomic_load_explicit(&link->waiting, memory_order_relaxed);

    while (c && (c->events || c->seq != seq))
        c = c->next;
    return c;
}

/* Done: the call's thread may return as soon as it sees the state, so @c must not be
 * touched after it, the futex wake apart (a spurious wake is harmless). */
static void
wait_finish(struct stub_call *c, CUresult result)
{
    c->result = result;
    wait_set_state(c, STUB_CALL_DONE);
    gp_futex_wake(&c->state, 1);
}

static GP_INLINE void
wait_clear(struct stub_call *c, bool events)
{
    c->events = events;
    c->leads = false;
    c->apart = false;
    c->listed = false;
    c->sleeps = false;
    c->heap = NULL;
    c->reply = NULL;
    c->reply_size = 0;
    c->bulk_len = 0;
    c->result = CUDA_SUCCESS;
    atomic_store_explicit(&c->state, STUB_CALL_PENDING, memory_order_relaxed);
}

static void
wait_enlist(struct stub_call *c)
{
    gp_lock_take(&c->link->wait);
    wait_link(c);
    gp_lock_release(&c->link->wait);
}

GP_HOT void
stub_wait_enter(struct stub_call *c, bool may_lead)
{
    wait_clear(c, false);
    if (may_lead && likely(lead_take(c->link)))
        c->leads = c->apart = true;
    else
        wait_enlist(c);
}

void
stub_wait_step_back(struct stub_call *c)
{
    c->apart = false;
    wait_enlist(c);
    stub_wait_leave(c);
}

void
stub_wait_cancel(struct stub_call *c)
{
    gp_lock_take(&c->link->wait);
    if (c->listed)
        wait_unlink(c);
    gp_lock_release(&c->link->wait);
    stub_wait_leave(c);
}

/* ---- reading ---------------------------------------------------------------- */

/* Bulk bytes go straight to where the caller wants them. */
static bool
wait_take_bulk(struct stub_call *c, const struct wire_rep *rep)
{
    const char *body = (const char *)(rep + 1);
    uint64_t len;

    if (c->dst_len == 0 || c->reply_size < sizeof(len) ||
        c->bulk_at > c->reply_size - sizeof(len))
        return false;
    memcpy(&len, body + c->bulk_at, sizeof(len));
    if (len > c->dst_len)
        return false;
    c->bulk_len = len;
    if (c->said)
        xport_heard(c->link->conn, c->said);
    if (!c->dst)
        c->dst = malloc(len ? len : 1);
    if (!c->dst || (len && xport_recv_bulk(c->link->conn, c->dst, len) < 0))
        return false;
    xport_acknowledge(c->link->conn);
    return true;
}

/* Keep a reply beyond the life of the transport's buffer. */
static void
wait_deposit(struct stub_call *c, const struct wire_rep *rep)
{
    uint32_t body = rep->size - (uint32_t)sizeof(*rep);
    void *room = c->stash;

    if (body > sizeof(c->stash))
        room = c->heap = malloc(body);
    if (!room) {
        c->result = CUDA_ERROR_OUT_OF_MEMORY;
        c->reply_size = 0;
        return;
    }
    memcpy(room, rep + 1, body);
    c->reply = room;
}

/* The reply of @c, which is no longer in the list: nobody else will finish it. */
static const char *
wait_take_reply(struct stub_call *c, const struct wire_rep *rep, bool mine)
{
    bool bulk = rep->flags & WIRE_F_BULK;

    c->result = rep->result;
    c->reply_size = rep->size - (uint32_t)sizeof(*rep);
    c->reply_flags = rep->flags;
    if (bulk || !mine)
        wait_deposit(c, rep); /* receiving bulk bytes invalidates the frame */
    else
        c->reply = rep + 1;
    if (bulk && !wait_take_bulk(c, rep)) {
        if (!mine)
            wait_finish(c, stub_result_lost());
        return "a bulk answer broke off or does not fit the call";
    }
    if (!mine)
        wait_finish(c, c->result);
    return NULL;
}

enum wait_what {
    WAIT_EVENT,
    WAIT_MINE,   /* the reader's own reply */
    WAIT_OTHERS, /* another call's, deposited */
};

/* Takes the call that the reply belongs to out of the list.  @mine, the reader's
 * own, may never have been in it. */
static struct stub_call *
wait_claim(struct stub_call *mine, uint32_t seq)
{
    struct stub_link *link = mine->link;
    struct stub_call *c;

    if (likely(mine->apart && mine->seq == seq))
        return mine;
    gp_lock_take(&link->wait);
    c = wait_find(link, seq);
    if (c)
        wait_unlink(c);
    gp_lock_release(&link->wait);
    return c;
}

/* Handles one frame, an unsolicited message or a reply.  Returns why the link must
 * end, NULL when all is well. */
static const char *
wait_take_frame(const struct wire_rep *rep, uint32_t size, struct stub_call *mine,
                enum wait_what *ret_what)
{
    struct stub_link *link = mine->link;
    struct stub_call *c;

    if (size < sizeof(*rep) || rep->size != size)
        return "bad frame from the server";
    if (rep->flags & WIRE_F_EVENT)
        return stub_unsolicited_take(link, rep);
    c = wait_claim(mine, rep->seq);
    if (!c)
        return "answer to a call that was not made";
    *ret_what = c == mine ? WAIT_MINE : WAIT_OTHERS;
    return wait_take_reply(c, rep, c == mine);
}

/* The usual case of wait_take_frame(): the reader's own reply, without a payload, to
 * a call that no other thread knows of. */
static GP_INLINE bool
wait_take_own(struct stub_call *c, const struct wire_rep *rep, uint32_t size)
{
    if (unlikely(size < sizeof(*rep) || rep->size != size || rep->seq != c->seq ||
                 !c->apart || (rep->flags & (WIRE_F_EVENT | WIRE_F_BULK))))
        return false;
    c->result = rep->result;
    c->reply = rep + 1;
    c->reply_size = size - (uint32_t)sizeof(*rep);
    c->reply_flags = rep->flags;
    return true;
}

/* Read until the reply of @c is in.  The lead stays with @c. */
GP_HOT static CUresult
wait_reply(struct stub_call *c)
{
    enum wait_what what = WAIT_EVENT;
    const char *why = NULL;

    while (what != WAIT_MINE && !why) {
        const void *frame;
        uint32_t size;
        int r = xport_recv(c->link->conn, &frame, &size, GP_FOREVER);

        if (likely(r == 0) && likely(wait_take_own(c, frame, size)))
            return c->result;
        if (unlikely(r < 0))
            return c->result = stub_link_broken(c->link, r);
        why = wait_take_frame(frame, size, c, &what);
    }
    if (why)
        c->result = stub_link_lose(c->link, why);
    return c->result;
}

/* A call that waits for messages has no reply: it reads until @ready says so, or
 * until it has delivered a reply to another thread, which reads for itself from then
 * on. */
static void
wait_events(struct stub_call *c, bool (*ready)(const struct stub_call *c))
{
    const char *why = NULL;
    bool served = false;

    c->leads = true;
    while (!why && !(served || ready(c))) {
        enum wait_what what = WAIT_EVENT;
        const void *frame;
        uint32_t size;
        int r = xport_recv(c->link->conn, &frame, &size, GP_FOREVER);

        if (r < 0) {
            c->result = stub_link_broken(c->link, r);
            return;
        }
        why = wait_take_frame(frame, size, c, &what);
        served = what == WAIT_OTHERS;
    }
    if (why)
        c->result = stub_link_lose(c->link, why);
}

/* Sleep until the state changes, or for the time of an idle sleep, which is not
 * interrupted to take the lead.  Under wait, which is released.  The reply may
 * arrive meanwhile, because wait_finish() needs no lock: the state DONE must be
 * kept. */
static void
wait_sleep(struct stub_call *c, const struct timespec *idle_sleep)
{
    uint32_t called = STUB_CALL_CALLED;

    atomic_compare_exchange_strong(&c->state, &called, STUB_CALL_PENDING);
    c->sleeps = !idle_sleep;
    gp_lock_release(&c->link->wait);
    gp_futex_wait(&c->state, STUB_CALL_PENDING, idle_sleep);
}

/* First the lead, then the look at the state: who reads finishes a call without the
 * lock, before it gives up the lead.  The other way round the reply could come between
 * the two, and this thread would lead and wait for it for ever.  Who finds the lead and
 * the reply keeps both until the call ends. */
static CUresult
wait_unled(struct stub_call *c)
{
    for (;;) {
        bool done;

        gp_lock_take(&c->link->wait);
        c->leads = lead_take(c->link);
        done = wait_state(c) == STUB_CALL_DONE;
        if (!done && !c->leads) {
            wait_sleep(c, NULL);
            continue;
        }
        gp_lock_release(&c->link->wait);
        if (done)
            return c->result;
        return wait_reply(c);
    }
}

GP_HOT CUresult
stub_wait_for(struct stub_call *c)
{
    stub_tls.trips++;
    return likely(c->leads) ? wait_reply(c) : wait_unled(c);
}

/* The call whose thread reads next: one that sleeps, and rather one that waits for a
 * reply than the one that waits for messages.  A thread that is still sending may be
 * blocked until somebody reads; it looks for a leader itself when it has sent. */
static struct stub_call *
wait_next_leader(const struct stub_link *link)
{
    struct stub_call *events = NULL;
    struct stub_call *c = atomic_load_explicit(&link->waiting, memory_order_relaxed);

    for (; c; c = c->next) {
        if (c->sleeps && !c->events)
            return c;
        if (c->sleeps)
            events = c;
    }
    return events;
}

/* Nobody reads: have somebody.  Under wait. */
static void
wait_call_next(struct stub_link *link)
{
    struct stub_call *next = wait_next_leader(link);

    if (next) {
        next->sleeps = false;
        wait_set_state(next, STUB_CALL_CALLED);
        gp_futex_wake(&next->state, 1);
    }
}

/* The thread that runs host functions reads only when nobody else does. */
bool
stub_wait_events(struct stub_call *c, bool (*ready)(const struct stub_call *c),
                 bool rest)
{
    static const struct timespec idle_sleep = {.tv_nsec = 100000};
    bool rested = !rest;

    wait_clear(c, true);
    wait_enlist(c);
    for (;;) {
        gp_lock_take(&c->link->wait);
        if (wait_state(c) == STUB_CALL_DONE) {
            gp_lock_release(&c->link->wait);
            return false;
        }
        if (ready(c)) {
            wait_unlink(c);
            if (!atomic_load(&c->link->leading)) /* it may have been called to do so */
                wait_call_next(c->link);
            gp_lock_release(&c->link->wait);
            return true;
        }
        if (!rested || !lead_take(c->link)) {
            /* Another thread reads, or has just done so and will again: this thread
             * stays out of the way of a program that waits in a loop. */
            bool sleep = rested || atomic_load(&c->link->leading);

            rested = !sleep || !rest;
            wait_sleep(c, sleep ? NULL : &idle_sleep);
            continue;
        }
        gp_lock_release(&c->link->wait);
        wait_events(c, ready);
        stub_wait_leave(c);
        rested = !rest;
    }
}

void
stub_wait_wake(struct stub_call *c)
{
    gp_lock_take(&c->link->wait);
    if (wait_state(c) == STUB_CALL_PENDING) {
        wait_set_state(c, STUB_CALL_CALLED);
        gp_futex_wake(&c->state, 1);
    }
    gp_lock_release(&c->link->wait);
}

GP_HOT void
stub_wait_leave(struct stub_call *c)
{
    if (!c->leads)
        return;
    c->leads = false;
    atomic_store(&c->link->leading, false);
    if (likely(!atomic_load(&c->link->waiting)))
        return;
    gp_lock_take(&c->link->wait);
    if (!atomic_load(&c->link->leading))
        wait_call_next(c->link);
    gp_lock_release(&c->link->wait);
}

static void
wait_abort(struct stub_link *link, CUresult result)
{
    struct stub_call *c;

    gp_lock_take(&link->wait);
    while ((c = atomic_load_explicit(&link->waiting, memory_order_relaxed))) {
        wait_unlink(c);
        wait_finish(c, result);
    }
    gp_lock_release(&link->wait);
}

/* ---- the end of a link ------------------------------------------------------ */

static bool
link_alive(const struct stub_link *link)
{
    uint32_t phase = atomic_load(&link->phase);

    return phase == STUB_READY || phase == STUB_LINKED;
}

static void
link_report_lost(const struct stub_link *link, const char *why)
{
    char line[512];

    snprintf(line, sizeof(line), "session %s is lost%s%s: %s", link->attach->session,
             stub_links_n > 1 ? " as " : "",
             stub_links_n > 1 ? link->attach->attachment : "", why);
    gp_log_error("stub", "%s", line);
    stub_ending_leave(line);
}

/* Other threads wait meanwhile, so that when a call fails because the link is lost,
 * the line that gives the reason has been written.  @why NULL: find out the cause of
 * @r. */
static CUresult
link_lose(struct stub_link *link, const char *why, int r)
{
    CUresult result = stub_result_lost();
    char words[STUB_ENDING_MAX];

    if (!link_alive(link)) {
        wait_abort(link, result);
        return result;
    }
    gp_lock_take(&link->lose);
    if (link_alive(link)) {
        /* A payload that breaks off does so because of the link. */
        int error = xport_error(link->conn);

        if (!why || error == -ETIMEDOUT)
            stub_ending_of(link, error ? error : r, words);
        else
            gp_str_copy(words, sizeof(words), why);
        link_report_lost(link, words);
        atomic_store(&link->failure, (int32_t)result);
        if (!stub_link_move_phase(link, STUB_LINKED, STUB_LOST))
            stub_link_move_phase(link, STUB_READY, STUB_LOST);
        xport_abort(link->conn);
    }
    gp_lock_release(&link->lose);
    wait_abort(link, result);
    return result;
}

CUresult
stub_link_lose(struct stub_link *link, const char *why)
{
    return link_lose(link, why, 0);
}

CUresult
stub_link_broken(struct stub_link *link, int r)
{
    return link_lose(link, NULL, r);
}
