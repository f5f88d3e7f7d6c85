/* SPDX-License-Identifier: Apache-2.0 */
/* Host functions, stream callbacks, destructors of user objects; see stub_hostfn.h. */
#include "stub_hostfn.h"

#include "gp_hash.h"
#include "gp_lock.h"
#include "gp_log.h"
#include "gp_table.h"
#include "stub_call.h"
#include "stub_control.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_thread.h"
#include "stub_tls.h"
#include "stub_wait.h"
#include "wire_api.h"

#include <string.h>
#include <time.h>

struct hostfn {
    uint64_t token;
    uint32_t link;
    CUhostFn fn;
    CUstreamCallback callback;
    CUstream stream;
    void *user;
    stub_notice_fn *notice; /* then @user is what it is called with */
    bool keep;
    bool of_program; /* counted in stub_hostfn_of_program */
    uint64_t node;   /* of a graph, with @gone */
    stub_hostfn_gone_fn *gone;
};

/* One that is due, waiting for the thread. */
struct due {
    struct due *next;
    struct hostfn what; /* a copy: forgetting it meanwhile does not matter */
    struct wire_event_host_func event;
    bool overtakes;                  /* it may have overtaken copies to the host... */
    uint32_t arrived;                /* ...of which so many come before it */
    struct wire_event_callback news; /* with what.notice */
    char words[];
};

/* Tickets kept of the last functions that were due by way of the control connection. */
#define URGENT_KEPT 64u

/* The functions of one link, whose frames say when they are due, have a thread.
 *
 * When nobody else reads the main connection that thread does, and may be in the middle
 * of a payload; or it cannot send over it, because another thread's payload waits for a
 * worker that waits for the next function.  So there is a second thread, which takes
 * from the same list when a function is due by way of the control connection, or while
 * the first one sends.  One of both runs functions at a time. */
struct hostfns {
    struct due *first, **last;
    bool started;
    _Atomic uint64_t running;     /* token of the notice that runs, or 0 */
    void *forgotten;              /* what it is called with, if it has dropped itself */
    _Atomic uint32_t due_count;   /* read without the lock */
    _Atomic uint32_t outstanding; /* functions registered */
    _Atomic uint32_t changes;     /* futex word: see hostfn_rest() */
    struct stub_call waiting_call; /* the thread's, for stub_wait_events() */

    struct gp_lock runs;             /* of the thread that runs functions */
    _Atomic uint32_t sending;        /* threads that may be held up by a report */
    bool second_started;             /* under the lock of all */
    _Atomic uint32_t second_changes; /* futex word: it has to look */
    uint64_t urgent[URGENT_KEPT];    /* tickets, under the lock of all */
    uint32_t n_urgent;               /* ever */
};

GP_TABLE_TYPE(hostfn_table, struct hostfn *);

static inline bool
hostfn_table_used(struct hostfn *const *e)
{
    return *e != NULL;
}

/* Tokens are numbered from one on.  Thousands that follow each other must not lie in
 * one run: each that goes would move all behind it. */
static inline uint32_t
hostfn_table_hash(uint64_t token)
{
    return (uint32_t)gp_hash_u64(token);
}

static inline uint32_t
hostfn_table_hash_of(struct hostfn *const *e)
{
    return hostfn_table_hash((*e)->token);
}

static inline bool
hostfn_table_is(struct hostfn *const *e, uint64_t token)
{
    return (*e)->token == token;
}

GP_TABLE(hostfn_table, struct hostfn *, uint64_t)

_Atomic uint32_t stub_hostfn_of_program;

static struct gp_lock lock; /* of all below */
static struct hostfn_table table;
static uint64_t next_token;
static struct hostfns of_link[STUB_LINKS_MAX];

/* ---- the table -------------------------------------------------------------- */

static struct hostfn *
hostfn_get(uint64_t token)
{
    struct hostfn **at = hostfn_table_find(&table, token);

    return at ? *at : NULL;
}

static void
hostfn_forgotten(const struct hostfn *f)
{
    if (f->of_program)
        atomic_fetch_sub(&stub_hostfn_of_program, 1);
}

/* One that is still to run counts until it has (hostfns_run_one()). */
static void
hostfn_drop(struct hostfn *f)
{
    hostfn_forgotten(f);
    hostfn_table_remove(&table, hostfn_table_find(&table, f->token));
    atomic_fetch_sub(&of_link[f->link].outstanding, 1);
    free(f);
}

void
stub_hostfn_forget(uint64_t token)
{
    struct hostfn *f;

    gp_lock_take(&lock);
    f = hostfn_get(token);
    if (f)
        hostfn_drop(f);
    gp_lock_release(&lock);
}

void
stub_hostfn_tie(uint64_t token, uint64_t node, stub_hostfn_gone_fn *gone)
{
    struct hostfn *f;

    gp_lock_take(&lock);
    f = hostfn_get(token);
    if (f) {
        f->node = node;
        f->gone = gone;
    }
    gp_lock_release(&lock);
}

/* ---- the thread ------------------------------------------------------------- */

static bool
hostfn_ready(const struct stub_call *waiting)
{
    const struct hostfns *fns = container_of(waiting, struct hostfns, waiting_call);

    return atomic_load_explicit(&fns->due_count, memory_order_acquire) != 0;
}

static struct due *
hostfn_take(struct hostfns *fns)
{
    struct due *d;

    gp_lock_take(&lock);
    d = fns->first;
    if (d) {
        fns->first = d->next;
        if (!fns->first)
            fns->last = &fns->first;
        atomic_fetch_sub(&fns->due_count, 1);
    }
    gp_lock_release(&lock);
    return d;
}

static void second_thread(void *arg);

/* Let the second thread look for what is due. */
static void
second_wake(struct hostfns *fns)
{
    gp_lock_take(&lock);
    if (!fns->second_started)
        fns->second_started =
            stub_thread_start("gpupool-hostfn2", second_thread, fns) == 0;
    gp_lock_release(&lock);
    atomic_fetch_add(&fns->second_changes, 1);
    gp_futex_wake(&fns->second_changes, 1);
}

/* What is due by now, or will be, need not wait for this thread. */
static void
sending_begin(struct hostfns *fns)
{
    atomic_fetch_add(&fns->sending, 1);
    if (atomic_load(&fns->due_count))
        second_wake(fns);
}

/* The stream continues only when the worker is told that the function has returned.
 * The thread that receives the worker's next reply takes the lead after this one, so
 * that it sees what the function did.
 *
 * @in_order: this thread has sent frames over the main connection meanwhile, which the
 * worker has to execute before; so this has to be behind them. */
static void
hostfn_report_done(struct hostfns *fns, struct stub_link *link, uint64_t ticket,
                   bool in_order)
{
    struct wire_gp_host_done_req *req;
    struct stub_call c;

    gp_lock_take(&link->wait);
    gp_lock_release(&link->wait);
    if (!in_order && stub_control_done(link, ticket))
        return;
    sending_begin(fns);
    if (stub_call_begin_on(&c, link, WIRE_CALL_gp_host_done, sizeof(*req)) ==
        CUDA_SUCCESS) {
        req = c.body;
        *req = (struct wire_gp_host_done_req){.ticket = ticket};
        stub_call_post_soon(&c);
    }
    atomic_fetch_sub(&fns->sending, 1);
}

/* True on the threads that run them. */
static __thread bool is_runner;

/* It may have been forgotten since it was due. */
static void
notice_run(struct hostfns *fns, struct due *d)
{
    void *forgotten;
    bool known;

    gp_lock_take(&lock);
    known = hostfn_get(d->what.token) != NULL;
    if (known)
        atomic_store(&fns->running, d->what.token);
    gp_lock_release(&lock);
    if (!known)
        return;
    d->what.notice(d->what.token, d->what.user, &d->news, d->words);
    gp_lock_take(&lock);
    forgotten = fns->forgotten;
    fns->forgotten = NULL;
    atomic_store(&fns->running, 0);
    gp_lock_release(&lock);
    free(forgotten);
}

/* Of the function that this thread runs; 0: nobody waits for it. */
static __thread uint64_t running_ticket;

uint64_t
stub_hostfn_ticket(void)
{
    return running_ticket;
}

/* The program's functions may make no calls of CUDA, and get this error from those that
 * they make: the driver waits for the function, and a call could wait for the driver.
 * The library's own name the link that they use, which is not refused.
 */
static void
hostfn_call(const struct due *d)
{
    struct stub_link *link = &stub_links[d->what.link];
    bool shares = d->event.ticket && stub_link_attention(link) & STUB_ATTEND_CALL;

    if (shares)
        stub_hooks_hostfn_begin(link);
    stub_tls.refusal = CUDA_ERROR_NOT_PERMITTED;
    if (d->what.callback)
        d->what.callback(d->what.stream, (CUresult)d->event.status, d->what.user);
    else
        d->what.fn(d->what.user);
    stub_tls.refusal = CUDA_SUCCESS;
    if (shares)
        stub_hooks_hostfn_end(link);
}

/* True: it has to be reported; *ret_in_order as in hostfn_report_done().  Under runs.
 */
static bool
hostfn_run(struct hostfns *fns, struct due *d, bool *ret_in_order)
{
    struct stub_link *link = &stub_links[d->what.link];
    bool counts = d->event.ticket && stub_control_possible(link);
    uint32_t frames = stub_tls.frames;

    if (d->what.notice) {
        notice_run(fns, d);
        return false;
    }
    if (d->overtakes)
        stub_hooks_await_arrived(link, d->arrived);
    if (counts)
        stub_link_attend(link, STUB_ATTEND_COUNT, true);
    running_ticket = d->event.ticket;
    hostfn_call(d);
    running_ticket = 0;
    if (counts)
        stub_link_attend(link, STUB_ATTEND_COUNT, false);
    *ret_in_order = !counts || stub_tls.frames != frames;
    return d->event.ticket != 0;
}

/* Sleep until a function may be due.  False: the link is dead.
 *
 * With the last one that is due none is registered any more, and that may happen
 * between the thread's look, which found nothing due, and its sleep; so may all of a
 * function, from its registration on.  Therefore @seen is the number of changes before
 * that look: both a registration where there was none and a function that is due are
 * changes, and behind one the thread does not sleep. */
static bool
hostfn_rest(struct hostfns *fns, uint32_t seen)
{
    if (atomic_load(&fns->outstanding) != 0)
        return stub_wait_events(&fns->waiting_call, hostfn_ready, true);
    gp_futex_wait(&fns->changes, seen, NULL);
    return true;
}

/* Run the first one that is due.  False: none is. */
static bool
hostfns_run_one(struct hostfns *fns)
{
    bool ran, report = false, in_order = false;
    struct due *d;

    gp_lock_take(&fns->runs);
    d = hostfn_take(fns);
    ran = d != NULL;
    if (ran)
        report = hostfn_run(fns, d, &in_order);
    gp_lock_release(&fns->runs);
    if (ran)
        hostfn_forgotten(&d->what);
    if (report)
        hostfn_report_done(fns, &stub_links[d->what.link], d->event.ticket, in_order);
    free(d);
    return ran;
}

static void
hostfns_run(struct hostfns *fns)
{
    while (hostfns_run_one(fns))
        ;
}

static void
hostfn_thread(void *arg)
{
    struct hostfns *fns = arg;
    uint32_t seen;

    is_runner = true;
    do {
        seen = atomic_load(&fns->changes);
        hostfns_run(fns);
    } while (hostfn_rest(fns, seen));
}

static void
second_thread(void *arg)
{
    struct hostfns *fns = arg;

    is_runner = true;
    for (;;) {
        uint32_t seen = atomic_load(&fns->second_changes);

        hostfns_run(fns);
        gp_futex_wait(&fns->second_changes, seen, NULL);
    }
}

/* Under the lock. */
static bool
hostfn_start(struct hostfns *fns, struct stub_link *link)
{
    if (!fns->started) {
        fns->last = &fns->first;
        /* The thread that finds a function due wakes it, perhaps before the thread has
         * run. */
        fns->waiting_call.link = link;
        fns->started = stub_thread_start("gpupool-hostfn", hostfn_thread, fns) == 0;
    }
    return fns->started;
}

static void
hostfn_registered(struct hostfns *fns)
{
    if (atomic_fetch_add(&fns->outstanding, 1) == 0) {
        atomic_fetch_add(&fns->changes, 1);
        gp_futex_wake(&fns->changes, 1);
    }
}

/* Enter a copy of @what, whose token and link are written; 0: no room. */
static uint64_t
hostfn_add(const struct hostfn *what)
{
    struct hostfn *f = malloc(sizeof(*f));
    struct stub_link *link = stub_link_here();
    struct hostfns *fns = &of_link[link->number];
    uint64_t token = 0;

    if (!f)
        return 0;
    gp_lock_take(&lock);
    if (table.count < STUB_HOSTFN_MAX && hostfn_table_room(&table) == 0 &&
        hostfn_start(fns, link)) {
        token = ++next_token;
        *f = *what;
        f->token = token;
        f->link = link->number;
        if (f->of_program)
            atomic_fetch_add(&stub_hostfn_of_program, 1);
        *hostfn_table_enter(&table, token) = f;
        hostfn_registered(fns);
    }
    gp_lock_release(&lock);
    if (!token)
        free(f);
    else if (!what->notice)
        stub_control_want(link);
    return token;
}

uint64_t
stub_hostfn_add(CUhostFn fn, CUstreamCallback callback, CUstream stream, void *user,
                bool keep)
{
    const struct hostfn what = {.fn = fn,
                                .callback = callback,
                                .stream = stream,
                                .user = user,
                                .keep = keep,
                                .of_program = true};

    return hostfn_add(&what);
}

uint64_t
stub_hostfn_add_own(CUhostFn fn, void *user, bool keep)
{
    const struct hostfn what = {.fn = fn, .user = user, .keep = keep};

    return hostfn_add(&what);
}

uint64_t
stub_hostfn_add_notice(stub_notice_fn *run, void *what)
{
    const struct hostfn f = {.notice = run, .user = what, .keep = true};

    return hostfn_add(&f);
}

void *
stub_hostfn_notice(uint64_t token, stub_notice_fn *run)
{
    const struct hostfn *f;
    void *what;

    gp_lock_take(&lock);
    f = hostfn_get(token);
    what = f && f->notice == run ? f->user : NULL;
    gp_lock_release(&lock);
    return what;
}

void
stub_hostfn_drop_notice(uint64_t token)
{
    static const struct timespec idle_sleep = {.tv_nsec = 50000};
    struct hostfn *f;
    struct hostfns *fns = NULL;
    void *what = NULL;

    gp_lock_take(&lock);
    f = hostfn_get(token);
    if (f) {
        fns = &of_link[f->link];
        what = f->user;
        hostfn_drop(f);
    }
    if (fns && is_runner && atomic_load(&fns->running) == token) {
        fns->forgotten = what; /* from inside: its frame needs it */
        what = NULL;
        fns = NULL;
    }
    gp_lock_release(&lock);
    while (fns && atomic_load(&fns->running) == token)
        nanosleep(&idle_sleep, NULL);
    free(what);
}

/* To the thread, behind what is due already, and before it is no longer registered.
 * The thread does not sleep on the changes while something is.  Under the lock. */
static void
due_add(struct hostfns *fns, struct due *d)
{
    *fns->last = d;
    fns->last = &d->next;
    atomic_fetch_add(&fns->due_count, 1);
    atomic_fetch_add(&fns->changes, 1);
}

/* The event has come; a token that is gone is no mistake. */
static const char *
notice_due(struct stub_link *link, const struct wire_event_callback *event,
           const char *words)
{
    struct hostfns *fns = &of_link[link->number];
    struct due *d = calloc(1, sizeof(*d) + event->len + 1);
    const struct hostfn *f;
    bool known;

    if (!d)
        return "out of memory for a callback that is due";
    d->news = *event;
    memcpy(d->words, words, event->len);
    gp_lock_take(&lock);
    f = hostfn_get(event->token);
    known = f && f->notice && f->link == link->number;
    if (known) {
        d->what = *f;
        due_add(fns, d);
    }
    gp_lock_release(&lock);
    if (known)
        stub_wait_wake(&fns->waiting_call);
    else
        free(d);
    return NULL;
}

/* Did it come over the control connection already?  No urgent one has the ticket 0, of
 * those that nobody waits for.  Under the lock. */
static bool
hostfn_was_urgent(const struct hostfns *fns, uint64_t ticket)
{
    uint32_t n = gp_min(fns->n_urgent, URGENT_KEPT);

    for (uint32_t i = 0; i < n; i++)
        if (fns->urgent[i] == ticket)
            return true;
    return false;
}

/* One is due; @urgent: by way of the control connection, else NULL.  NULL, or why the
 * connection must end. */
static const char *
hostfn_due(struct stub_link *link, const struct wire_event_host_func *event,
           const struct wire_event_host_urgent *urgent)
{
    struct hostfns *fns = &of_link[link->number];
    struct due *d = calloc(1, sizeof(*d));
    struct hostfn *f;
    bool again, known;

    if (!d)
        return "out of memory for a host function that is due";
    d->event = *event;
    d->overtakes = urgent != NULL;
    d->arrived = urgent ? urgent->arrived : 0;
    gp_lock_take(&lock);
    again = hostfn_was_urgent(fns, event->ticket);
    f = again ? NULL : hostfn_get(event->token);
    known = f && f->link == link->number && !f->notice;
    if (known) {
        d->what = *f;
        due_add(fns, d);
        if (event->once && !f->keep) {
            f->of_program = false;
            hostfn_drop(f);
        } else {
            d->what.of_program = false;
        }
        if (urgent)
            fns->urgent[fns->n_urgent++ % URGENT_KEPT] = event->ticket;
    }
    gp_lock_release(&lock);
    if (!known) {
        free(d);
        return again ? NULL : "a host function is due that was never given";
    }
    if (atomic_load(&fns->sending))
        second_wake(fns);
    stub_wait_wake(&fns->waiting_call);
    return NULL;
}

/* None of that token will come any more. */
static const char *
hostfn_gone(const struct stub_link *link, const struct wire_event_host_gone *event)
{
    struct hostfn *f;
    stub_hostfn_gone_fn *gone = NULL;
    uint64_t node = 0;

    gp_lock_take(&lock);
    f = hostfn_get(event->token);
    if (f && f->link == link->number && !f->notice) {
        gone = f->gone;
        node = f->node;
        hostfn_drop(f);
    }
    gp_lock_release(&lock);
    if (gone)
        gone(node, event->token);
    return NULL;
}

/* ---- messages of the worker ------------------------------------------------- */

static uint32_t
body_size(const struct wire_rep *message)
{
    return message->size - (uint32_t)sizeof(*message);
}

static const char *
hostfn_take_due(struct stub_link *link, const struct wire_rep *message)
{
    struct wire_event_host_func ev;

    if (body_size(message) < sizeof(ev))
        return "short host-function event";
    memcpy(&ev, message + 1, sizeof(ev));
    return hostfn_due(link, &ev, NULL);
}

static const char *
hostfn_take_gone(struct stub_link *link, const struct wire_rep *message)
{
    struct wire_event_host_gone ev;

    if (body_size(message) < sizeof(ev))
        return "short event of a host function that is gone";
    memcpy(&ev, message + 1, sizeof(ev));
    return hostfn_gone(link, &ev);
}

static const char *
hostfn_take_notice(struct stub_link *link, const struct wire_rep *message)
{
    uint32_t size = body_size(message);
    struct wire_event_callback ev;

    if (size < sizeof(ev))
        return "short callback event";
    memcpy(&ev, message + 1, sizeof(ev));
    if (ev.len > size - sizeof(ev) || ev.len > WIRE_LOG_LINE_MAX)
        return "callback event longer than its frame";
    return notice_due(link, &ev, (const char *)(message + 1) + sizeof(ev));
}

/* Without a second thread it runs when the first one can.  A worker of an earlier
 * version does not say which copies come before it. */
static const char *
hostfn_take_urgent(struct stub_link *link, const struct wire_rep *message)
{
    struct wire_event_host_urgent ev = {0};
    const char *bad;

    if (body_size(message) < sizeof(ev.func))
        return "short event of an urgent host function";
    memcpy(&ev, message + 1, gp_min(body_size(message), (uint32_t)sizeof(ev)));
    if (!ev.func.ticket)
        return "an urgent host function that nobody waits for";
    bad = hostfn_due(link, &ev.func, &ev);
    second_wake(&of_link[link->number]);
    return bad;
}

static const struct stub_unsolicited hostfn_messages[] = {
    {WIRE_EVENT_HOST_FUNC, hostfn_take_due},
    {WIRE_EVENT_HOST_URGENT, hostfn_take_urgent},
    {WIRE_EVENT_HOST_GONE, hostfn_take_gone},
    {WIRE_EVENT_CALLBACK, hostfn_take_notice},
    {0},
};

const struct stub_feature stub_hostfn_feature = {
    .name = "host functions",
    .unsolicited = hostfn_messages,
};

/* ---- the calls -------------------------------------------------------------- */

static CUresult
hostfn_post(struct stub_call *c, uint64_t token)
{
    CUresult r = stub_call_post(c);

    if (r != CUDA_SUCCESS)
        stub_hostfn_forget(token);
    return r;
}

CUresult
stub_impl_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData,
                           bool per_thread)
{
    struct wire_cuLaunchHostFunc_req *req;
    uint64_t stream, token;
    struct stub_call c;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_stream_get(hStream, per_thread, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    token = stub_hostfn_add(fn, NULL, hStream, userData, false);
    if (!token)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = stub_call_begin(&c, WIRE_CALL_cuLaunchHostFunc, sizeof(*req));
    if (r != CUDA_SUCCESS) {
        stub_hostfn_forget(token);
        return r;
    }
    req = c.body;
    *req = (struct wire_cuLaunchHostFunc_req){.hStream = stream, .token = token};
    return hostfn_post(&c, token);
}

CUresult
stub_impl_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback,
                              void *userData, unsigned int flags, bool per_thread)
{
    struct wire_cuStreamAddCallback_req *req;
    uint64_t stream, token;
    struct stub_call c;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_stream_get(hStream, per_thread, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    token = stub_hostfn_add(NULL, callback, hStream, userData, false);
    if (!token)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = stub_call_begin(&c, WIRE_CALL_cuStreamAddCallback, sizeof(*req));
    if (r != CUDA_SUCCESS) {
        stub_hostfn_forget(token);
        return r;
    }
    req = c.body;
    *req = (struct wire_cuStreamAddCallback_req){.hStream = stream, .token = token};
    return hostfn_post(&c, token);
}
