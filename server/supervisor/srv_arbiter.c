/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_arbiter.h"

#include "gov_copy.h"
#include "gp_err.h"
#include "gp_time.h"
#include "srv_desk.h"
#include "srv_kept.h"
#include "srv_ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#define BATCH 64
/* More signals than this in this time exceed what any work needs; the descriptor is
 * then ignored for a while. */
#define RINGS_MAX 2000u
#define RINGS_NS 20000000
#define MUTE_NS 5000000
/* How often to look while a turn may be over, at least and at most. */
#define TICK_MIN_NS 200000
#define TICK_MAX_NS 1000000
/* The same while sessions copy beside each other. */
#define COPY_TICK_NS 1000000
/* Bytes that were copied before the arbiter looked count as this at most: a bucket that
 * is not yet full. */
#define COPY_UNSEEN (UINT64_C(256) << 10)
/* A worker ends itself when its work has run past the work limit; one that does not is
 * killed this much later. */
#define OVERDUE_NS UINT64_C(2000000000)
/* A busy card is one over this time at least. */
#define BUSY_NS UINT64_C(500000000)
/* Looks at a card until nothing changes any more; each gives a turn. */
#define ROUNDS_MAX 4

/* Names of what the event set can tell beside a desk's id. */
enum { ID_TIMER, ID_WAKE, ID_FIRST };

struct arb_card {
    struct gov_card *ledger; /* in the kept memory */
    struct srv_desk_slice *slices;
    uint64_t until_ns; /* look again then */
    bool copying;      /* sessions copy beside each other: they are watched */
    uint64_t copy_ns;  /* when one did, last */
    uint64_t busy_ns;  /* ever reported, of the whole card */
    uint64_t told_ns, told_busy_ns; /* at the last answer of srv_arbiter_busy() */
    uint32_t told;
};

/* What outlives the supervisor. */
struct arb_kept {
    struct srv_kept_head head;
    struct gov_card cards[];
};
SRV_KEPT_SIZE(struct arb_kept, 16);
SRV_KEPT_SIZE(struct gov_card, 32792);

struct srv_arbiter {
    pthread_mutex_t lock;
    pthread_t thread;
    bool started, stopping;
    int epoll_fd, timer_fd, wake_fd, alarm_fd;
    uint64_t next_id;
    struct srv_desk *desks;
    uint32_t n_cards;
    struct arb_card *cards;
    struct arb_kept *kept;
    int kept_fd;
};

static void
wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static struct gov_tenant *
tenant_of(struct arb_card *card, const struct srv_desk_slice *s)
{
    return &card->ledger->tenants[card->ledger->slots[s->kept->slot].tenant];
}

static bool
charged(const struct arb_card *card, const struct srv_desk_slice *s)
{
    return card->ledger->slots[s->kept->slot].running;
}

/* ---- what a worker reports ---- */

/* Whether the worker has work on the card, by its own account. */
static bool
says_running(const struct srv_desk_slice *s, uint32_t *ret_run)
{
    uint32_t done = atomic_load(&s->want->done);

    *ret_run = atomic_load(&s->want->run);
    return *ret_run != GOV_RUN_NOT || (done != s->kept->grant && !s->kept->void_grant);
}

static bool
says_wanting(const struct srv_desk_slice *s)
{
    return atomic_load(&s->want->ask) == s->kept->grant + 1;
}

static void
take_busy(struct arb_card *card, struct srv_desk_slice *s, uint64_t now)
{
    uint64_t busy = atomic_load_explicit(&s->want->busy_ns, memory_order_relaxed);
    uint64_t more = busy - s->kept->busy_ns;

    if (!more)
        return;
    s->kept->busy_ns = busy;
    gov_card_report(card->ledger, s->kept->slot, more, now);
    more = gp_min(more, now - s->kept->seen_ns); /* no card is busier */
    card->busy_ns += more * tenant_of(card, s)->part / 1000;
    s->kept->seen_ns = now;
}

/* Update the accounting from what the worker reports as running. */
static void
take_running(struct arb_card *card, struct srv_desk_slice *s, uint64_t now)
{
    uint32_t run;
    bool says = says_running(s, &run);

    if (says && !charged(card, s)) {
        if (tenant_of(card, s)->holding && run != GOV_RUN_LATE)
            gov_card_adopt(card->ledger, s->kept->slot, now);
        else if (run == GOV_RUN_LATE)
            gov_card_overrun(card->ledger, s->kept->slot,
                             atomic_load(&s->want->late_ns), now);
    }
    take_busy(card, s, now);
    /* Who has the card to itself keeps the turn over a pause. */
    if (!says && charged(card, s) && !s->rests)
        gov_card_drained(card->ledger, s->kept->slot, now);
}

static void
grant(struct srv_desk_slice *s)
{
    s->kept->grant++;
    s->kept->void_grant = false;
    s->kept->stop_ns = 0;
    atomic_store(&s->turn->stop, 0);
    atomic_store(&s->turn->grant, s->kept->grant);
    wake(&s->turn->grant);
    /* The worker withdraws its request and then reads the grant; the arbiter does both
     * in the opposite order, so one of the two sees the other. */
    if (atomic_load(&s->want->ask) != s->kept->grant)
        s->kept->void_grant = true;
}

static void
take_wanting(struct arb_card *card, struct srv_desk_slice *s, uint64_t now)
{
    uint64_t until = UINT64_MAX;

    if (!says_wanting(s)) {
        gov_card_unask(card->ledger, s->kept->slot, now);
        return;
    }
    if (gov_card_ask(card->ledger, s->kept->slot, now, &until))
        grant(s);
    card->until_ns = gp_min(card->until_ns, until);
}

/* ---- turns ---- */

/* May the session come and go as it likes? */
static bool
may_rest(const struct gov_tenant *t)
{
    return t->holding && !t->contended && t->ceiling == 100;
}

/* Another tenant wants the GPU: the one that had it to itself has to request its turns
 * from now on.  True when a turn was evaluated again. */
static bool
recall(struct arb_card *card, uint64_t now)
{
    bool any = false;

    for (struct srv_desk_slice *s = card->slices; s; s = s->next) {
        if (!s->rests || may_rest(tenant_of(card, s)))
            continue;
        s->rests = false;
        atomic_store(&s->turn->rests, 0);
        any = true;
    }
    if (!any)
        return false;
    for (struct srv_desk_slice *s = card->slices; s; s = s->next)
        take_busy(card, s, now);
    for (struct srv_desk_slice *s = card->slices; s; s = s->next)
        if (!s->rests && charged(card, s) && tenant_of(card, s)->holding)
            gov_card_rested(card->ledger, s->kept->slot, now);
    return true;
}

/* When the turn of a tenant that runs may be over, by itself. */
static uint64_t
turn_end(const struct gov_tenant *t, uint64_t now)
{
    uint64_t until = now + TICK_MAX_NS;

    if (t->contended && t->turn_ns + GOV_WAKE_QUANTUM_NS > now)
        until = gp_min(until, t->turn_ns + GOV_WAKE_QUANTUM_NS);
    if (t->contended && t->turn_ns + GOV_QUANTUM_NS > now)
        until = gp_min(until, t->turn_ns + GOV_QUANTUM_NS);
    if (t->ceiling < 100 && t->tokens_ns > 0)
        until = gp_min(until, now + (uint64_t)t->tokens_ns / (100 - t->ceiling) * 100);
    return gp_max(until, now + TICK_MIN_NS);
}

static void
note_overdue(struct srv_arbiter *arb, struct srv_desk_slice *s,
             const struct gov_tenant *t, uint64_t now)
{
    uint64_t limit = s->desk->work_limit_s * GP_NS_PER_S;
    uint64_t one = 1;

    if (!t->contended || !limit || now - s->kept->stop_ns < limit + OVERDUE_NS ||
        atomic_exchange(&s->desk->overdue, true))
        return;
    if (write(arb->alarm_fd, &one, sizeof(one)) < 0)
        atomic_store(&s->desk->overdue, false); /* the next check sets it again */
}

/* Tell those who run whether they may go on. */
static void
end_turns(struct srv_arbiter *arb, struct arb_card *card, uint64_t now)
{
    for (struct srv_desk_slice *s = card->slices; s; s = s->next) {
        const struct gov_tenant *t = tenant_of(card, s);

        if (!charged(card, s) || (!t->contended && t->ceiling == 100)) {
            s->kept->stop_ns = 0;
        } else if (gov_card_keep(card->ledger, s->kept->slot, now)) {
            s->kept->stop_ns = 0;
            card->until_ns = gp_min(card->until_ns, turn_end(t, now));
        } else {
            s->kept->stop_ns = s->kept->stop_ns ? s->kept->stop_ns : now;
            card->until_ns = gp_min(card->until_ns, now + TICK_MAX_NS);
            note_overdue(arb, s, t, now);
        }
    }
}

/* ---- copies ---- */

static void
take_copies(struct arb_card *card, uint64_t now)
{
    for (struct srv_desk_slice *s = card->slices; s; s = s->next) {
        uint64_t copied = atomic_load_explicit(&s->want->copied, memory_order_relaxed);
        uint64_t more = copied - s->kept->copied;

        s->kept->copied = copied;
        if (!more || more > INT64_MAX)
            continue;
        card->copy_ns = now;
        gov_copy_take(card->ledger, s->kept->slot,
                      card->copying ? more : gp_min(more, COPY_UNSEEN), now);
    }
    card->copying = card->ledger->n_tenants > 1 && card->copy_ns &&
                    now - card->copy_ns < GOV_COPY_IDLE_NS;
    if (card->copying)
        card->until_ns = gp_min(card->until_ns, now + COPY_TICK_NS);
}

static uint64_t
pause_of(struct arb_card *card, const struct srv_desk_slice *s, uint64_t now)
{
    uint64_t until = tenant_of(card, s)->copy_until_ns;

    return until && !gov_copy_caught_up(card->ledger, s->kept->slot, now) ? until : 0;
}

/* ---- one pass over a card ---- */

/* A store costs the reader a miss, so only what changed is written.  The worker cannot
 * write there. */
static void
put(_Atomic uint32_t *word, uint32_t value)
{
    if (atomic_load_explicit(word, memory_order_relaxed) != value)
        atomic_store_explicit(word, value, memory_order_release);
}

static void
publish(struct arb_card *card, struct srv_desk_slice *s, uint64_t now)
{
    const struct gov_tenant *t = tenant_of(card, s);
    uint64_t pause = pause_of(card, s, now);

    put(&s->turn->contended, t->contended);
    put(&s->turn->rivals, t->rivals);
    put(&s->turn->ceiling, t->ceiling);
    put(&s->turn->part, t->part);
    put(&s->turn->others, card->ledger->holders > t->holding);
    put(&s->turn->stop, s->kept->stop_ns != 0);
    put(&s->turn->watched, card->copying);
    if (atomic_load_explicit(&s->turn->pause_ns, memory_order_relaxed) != pause)
        atomic_store_explicit(&s->turn->pause_ns, pause, memory_order_relaxed);
    s->rests = may_rest(t);
    if (atomic_load_explicit(&s->turn->rests, memory_order_relaxed) != s->rests)
        atomic_store(&s->turn->rests, s->rests);
}

static void
look(struct srv_arbiter *arb, struct arb_card *card, uint64_t now)
{
    bool again = true;

    card->until_ns = UINT64_MAX;
    for (unsigned round = 0; again && round < ROUNDS_MAX; round++) {
        uint32_t seq = card->ledger->seq;

        for (struct srv_desk_slice *s = card->slices; s; s = s->next)
            take_running(card, s, now);
        for (struct srv_desk_slice *s = card->slices; s; s = s->next)
            take_wanting(card, s, now);
        again = recall(card, now) || card->ledger->seq != seq;
    }
    if (again)
        card->until_ns = now; /* the rest in the next turn of the loop */
    end_turns(arb, card, now);
    take_copies(card, now);
    for (struct srv_desk_slice *s = card->slices; s; s = s->next)
        publish(card, s, now);
}

static void
look_at_desk(struct srv_arbiter *arb, const struct srv_desk *desk, uint64_t now)
{
    for (uint32_t i = 0; i < desk->n_slices; i++)
        look(arb, &arb->cards[desk->slices[i].card], now);
}

/* Set the timer to the next time at which a turn may have to change. */
static void
set_timer(struct srv_arbiter *arb, uint64_t now)
{
    uint64_t until = UINT64_MAX;
    struct itimerspec when = {0};

    for (uint32_t i = 0; i < arb->n_cards; i++)
        until = gp_min(until, arb->cards[i].until_ns);
    for (const struct srv_desk *d = arb->desks; d; d = d->next)
        until = d->muted_ns ? gp_min(until, d->muted_ns) : until;
    if (until != UINT64_MAX) {
        until = gp_max(until, now + 1000);
        when.it_value.tv_sec = (time_t)(until / GP_NS_PER_S);
        when.it_value.tv_nsec = (long)(until % GP_NS_PER_S);
    }
    timerfd_settime(arb->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* ---- joining and leaving ---- */

static void
leave(struct srv_arbiter *arb, struct srv_desk_slice *s, uint64_t now)
{
    struct arb_card *card = &arb->cards[s->card];
    struct srv_desk_slice **at = &card->slices;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    gov_card_leave(card->ledger, s->kept->slot, now);
}

static int
join(struct srv_arbiter *arb, struct srv_desk_slice *s, uint64_t now)
{
    struct arb_card *card = &arb->cards[s->card];
    uint32_t pieces = atomic_load(&s->want->pieces);

    s->share.units = gp_min(pieces, (uint32_t)GOV_UNITS_MAX);
    s->kept->slot = gov_card_join(card->ledger, s->desk->session, 1, &s->share, now);
    if (s->kept->slot < 0)
        return s->kept->slot;
    s->kept->seen_ns = now;
    s->next = card->slices;
    card->slices = s;
    atomic_store(&s->turn->units, tenant_of(card, s)->units);
    return 0;
}

/* The worker's first word: it has loaded its driver and can run. */
static void
join_all(struct srv_arbiter *arb, struct srv_desk *desk, uint64_t now)
{
    int r = 0;

    if (desk->kept->joined || !atomic_load(&desk->desk->joined))
        return;
    for (uint32_t i = 0; i < desk->n_slices; i++) {
        r = join(arb, &desk->slices[i], now);
        while (r < 0 && i > 0)
            leave(arb, &desk->slices[--i], now);
        if (r < 0)
            break;
    }
    desk->kept->joined = r == 0;
    if (r == 0)
        look_at_desk(arb, desk, now);
    atomic_store(&desk->notice->joined, r == 0 ? 1u : (uint32_t)-r);
    wake(&desk->notice->joined);
}

static uint32_t
serve(struct srv_desk *desk, uint32_t kind, uint32_t seq)
{
    uint32_t slice = atomic_load(&desk->desk->call.slice);
    uint64_t bytes = atomic_load(&desk->desk->call.bytes);
    struct srv_desk_kept *kept = desk->kept;

    if (kind == WRK_CALL_TAKE && slice < desk->n_slices) {
        srv_ledger_granted(desk->ledger, desk->slot, slice, &kept->granted,
                           &kept->granted_n);
        kept->slice = slice;
        kept->doing = seq;
        atomic_signal_fence(memory_order_seq_cst);
        kept->undo = 1;
        atomic_signal_fence(memory_order_seq_cst);
        if (srv_ledger_take(desk->ledger, desk->slot, slice, bytes))
            return WRK_TAKE_GRANTED;
        return atomic_load(&desk->desk->knows_room)
                   ? srv_ledger_room(desk->ledger, desk->slot, slice, bytes)
                   : WRK_TAKE_REFUSED;
    }
    if (kind == WRK_CALL_TAKE)
        return WRK_TAKE_REFUSED;
    if (kind == WRK_CALL_LOOK)
        srv_ledger_look(desk->ledger);
    else if (kind == WRK_CALL_NAME)
        srv_ledger_name(desk->ledger, bytes);
    return 1;
}

/* Answer the worker's call, if there is a new one. */
static void
answer(struct srv_desk *desk)
{
    uint32_t seq = atomic_load(&desk->desk->call.seq);

    if (seq == desk->kept->answered)
        return;
    atomic_store(&desk->notice->answer,
                 serve(desk, atomic_load(&desk->desk->call.kind), seq));
    atomic_store(&desk->notice->seq, seq);
    desk->kept->undo = 0;
    desk->kept->answered = seq;
    wake(&desk->notice->seq);
}

/* ---- wake-up descriptors ---- */

static void
listen_to(struct srv_arbiter *arb, struct srv_desk *desk, int op, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.u64 = desk->id};

    epoll_ctl(arb->epoll_fd, op, desk->wake_fd, &ev);
}

static void
count_ring(struct srv_arbiter *arb, struct srv_desk *desk, uint64_t now)
{
    if (now - desk->rings_ns > RINGS_NS) {
        desk->rings_ns = now;
        desk->rings = 0;
    }
    if (++desk->rings < RINGS_MAX)
        return;
    desk->muted_ns = now + MUTE_NS;
    listen_to(arb, desk, EPOLL_CTL_MOD, 0);
}

static void
rang(struct srv_arbiter *arb, struct srv_desk *desk, uint64_t now)
{
    count_ring(arb, desk, now);
    join_all(arb, desk, now);
    answer(desk);
    if (desk->kept->joined)
        look_at_desk(arb, desk, now);
}

static void
unmute(struct srv_arbiter *arb, uint64_t now)
{
    for (struct srv_desk *d = arb->desks; d; d = d->next) {
        if (!d->muted_ns || d->muted_ns > now)
            continue;
        d->muted_ns = 0;
        d->rings = 0;
        listen_to(arb, d, EPOLL_CTL_MOD, EPOLLIN | EPOLLET);
    }
}

static void
on_event(struct srv_arbiter *arb, uint64_t id, uint64_t now)
{
    struct srv_desk *d = arb->desks;

    while (d && d->id != id)
        d = d->next;
    if (d)
        rang(arb, d, now);
}

static void
look_at_due(struct srv_arbiter *arb, uint64_t now)
{
    for (uint32_t i = 0; i < arb->n_cards; i++)
        if (arb->cards[i].until_ns <= now)
            look(arb, &arb->cards[i], now);
    unmute(arb, now);
}

/* The end of a turn is what another worker waits for, so this thread runs as soon as it
 * is signalled.  Priorities that cannot be had are done without. */
static void
prefer_thread(void)
{
    prctl(PR_SET_NAME, "arbiter", 0, 0, 0);
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -10);
}

static void *
arbiter_main(void *arg)
{
    struct srv_arbiter *arb = arg;
    struct epoll_event events[BATCH];

    prefer_thread();
    for (;;) {
        int n = epoll_wait(arb->epoll_fd, events, BATCH, -1);
        uint64_t now;

        pthread_mutex_lock(&arb->lock);
        if (arb->stopping)
            break;
        now = gp_now_ns();
        for (int i = 0; i < n; i++)
            if (events[i].data.u64 >= ID_FIRST)
                on_event(arb, events[i].data.u64, now);
        look_at_due(arb, now);
        set_timer(arb, now);
        pthread_mutex_unlock(&arb->lock);
    }
    pthread_mutex_unlock(&arb->lock);
    return NULL;
}

/* ---- the event loop's side ---- */

static int
watch(struct srv_arbiter *arb, int fd, uint64_t id)
{
    /* Edges: no descriptor of ours or of a worker has to be read. */
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = id};

    return epoll_ctl(arb->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int
start_thread(struct srv_arbiter *arb)
{
    sigset_t all, old;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    r = -pthread_create(&arb->thread, NULL, arbiter_main, arb);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    arb->started = r == 0;
    return r;
}

static int
arbiter_start(struct srv_arbiter *arb)
{
    int r;

    arb->next_id = ID_FIRST;
    arb->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    arb->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    arb->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    arb->alarm_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (arb->epoll_fd < 0 || arb->timer_fd < 0 || arb->wake_fd < 0 || arb->alarm_fd < 0)
        return -errno;
    r = watch(arb, arb->timer_fd, ID_TIMER);
    if (r == 0)
        r = watch(arb, arb->wake_fd, ID_WAKE);
    return r < 0 ? r : start_thread(arb);
}

static size_t
kept_size(uint32_t cards)
{
    return sizeof(struct arb_kept) + cards * sizeof(struct gov_card);
}

int
srv_arbiter_adopt(uint32_t cards, int fd, struct srv_arbiter **ret, struct gp_err *err)
{
    CLEANUP(srv_arbiter_freep) struct srv_arbiter *arb = calloc(1, sizeof(*arb));
    void *map = NULL;
    int r = 0;

    if (!arb || !(arb->cards = calloc(cards, sizeof(*arb->cards)))) {
        free(arb);
        arb = NULL;
        return gp_err_set(err, -ENOMEM, "no memory for the arbiter");
    }
    arb->n_cards = cards;
    arb->epoll_fd = arb->timer_fd = arb->wake_fd = arb->alarm_fd = arb->kept_fd = -1;
    pthread_mutex_init(&arb->lock, NULL);
    if (fd >= 0 && srv_kept_map(fd, SRV_KEPT_ARBITER, kept_size(cards), &map) == 0)
        arb->kept_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    else
        r = srv_kept_new(SRV_KEPT_ARBITER, kept_size(cards), &arb->kept_fd, &map, err);
    if (r < 0)
        return r;
    arb->kept = map;
    for (uint32_t i = 0; i < cards; i++) {
        arb->cards[i].ledger = &arb->kept->cards[i];
        arb->cards[i].until_ns = UINT64_MAX;
    }
    r = arbiter_start(arb);
    if (r < 0)
        return gp_err_set(err, r, "the arbiter: %s", strerror(-r));
    *ret = TAKE_PTR(arb);
    return 0;
}

int
srv_arbiter_new(uint32_t cards, struct srv_arbiter **ret, struct gp_err *err)
{
    return srv_arbiter_adopt(cards, -1, ret, err);
}

void
srv_arbiter_free(struct srv_arbiter *arb)
{
    uint64_t one = 1;

    if (!arb)
        return;
    if (arb->started) {
        pthread_mutex_lock(&arb->lock);
        arb->stopping = true;
        pthread_mutex_unlock(&arb->lock);
        while (write(arb->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
            ;
        pthread_join(arb->thread, NULL);
    }
    close(arb->epoll_fd);
    close(arb->timer_fd);
    close(arb->wake_fd);
    close(arb->alarm_fd);
    close(arb->kept_fd);
    srv_kept_unmap(arb->kept, kept_size(arb->n_cards));
    pthread_mutex_destroy(&arb->lock);
    free(arb->cards);
    free(arb);
}

int
srv_arbiter_kept(const struct srv_arbiter *arb)
{
    return arb->kept_fd;
}

int
srv_arbiter_alarm(const struct srv_arbiter *arb)
{
    return arb->alarm_fd;
}

static int
add(struct srv_arbiter *arb, struct srv_desk *desk)
{
    int r;

    desk->id = arb->next_id++;
    for (uint32_t i = 0; i < desk->n_slices; i++) {
        desk->slices[i].desk = desk;
        desk->slices[i].want = &desk->desk->wants[i];
        desk->slices[i].turn = &desk->notice->turns[i];
        desk->slices[i].kept = &desk->kept->slices[i];
    }
    r = watch(arb, desk->wake_fd, desk->id);
    if (r == 0) {
        desk->next = arb->desks;
        arb->desks = desk;
    }
    return r;
}

int
srv_arbiter_add(struct srv_arbiter *arb, struct srv_desk *desk, struct gp_err *err)
{
    int r;

    pthread_mutex_lock(&arb->lock);
    r = add(arb, desk);
    pthread_mutex_unlock(&arb->lock);
    return r < 0 ? gp_err_set(err, r, "wakefd of a worker: %s", strerror(-r)) : 0;
}

/* ---- after a supervisor that is gone ---- */

/* A call that it had begun.  One that it had answered is done; else what it may have
 * counted is taken back, and the call is answered anew. */
static void
undo_call(struct srv_desk *desk)
{
    struct srv_desk_kept *kept = desk->kept;
    uint32_t told = atomic_load(&desk->notice->seq);

    if (kept->undo && kept->doing != told && kept->slice < desk->n_slices)
        srv_ledger_regrant(desk->ledger, desk->slot, kept->slice, kept->granted,
                           kept->granted_n);
    kept->undo = 0;
    kept->answered = told;
}

/* Its place at the card, if the card's accounting agrees. */
static bool
rejoin(struct srv_arbiter *arb, struct srv_desk_slice *s, uint64_t now)
{
    struct arb_card *card = &arb->cards[s->card];
    int slot = s->kept->slot;

    if (!gov_card_is_of(card->ledger, slot, s->desk->session))
        return false;
    for (const struct srv_desk_slice *other = card->slices; other; other = other->next)
        if (other->kept->slot == slot)
            return false;
    s->kept->seen_ns = gp_min(s->kept->seen_ns, now);
    s->kept->stop_ns = gp_min(s->kept->stop_ns, now);
    /* grant() was not over. */
    if (atomic_load(&s->want->ask) != s->kept->grant &&
        atomic_load(&s->want->done) != s->kept->grant)
        s->kept->void_grant = true;
    s->rests = atomic_load(&s->turn->rests);
    s->next = card->slices;
    card->slices = s;
    return true;
}

/* All of its places, or none: then it asks for them once more. */
static void
rejoin_all(struct srv_arbiter *arb, struct srv_desk *desk, uint64_t now)
{
    int r = 0;

    if (!desk->kept->joined)
        return;
    for (uint32_t i = 0; i < desk->n_slices; i++) {
        if (!rejoin(arb, &desk->slices[i], now))
            r = join(arb, &desk->slices[i], now);
        while (r < 0 && i > 0)
            leave(arb, &desk->slices[--i], now);
        if (r < 0)
            break;
    }
    desk->kept->joined = r == 0;
}

int
srv_arbiter_readd(struct srv_arbiter *arb, struct srv_desk *desk, struct gp_err *err)
{
    int r;

    pthread_mutex_lock(&arb->lock);
    undo_call(desk);
    r = add(arb, desk);
    if (r == 0)
        rejoin_all(arb, desk, gp_now_ns());
    pthread_mutex_unlock(&arb->lock);
    return r < 0 ? gp_err_set(err, r, "wakefd of a worker: %s", strerror(-r)) : 0;
}

void
srv_arbiter_mend(struct srv_arbiter *arb)
{
    bool here[GOV_SLOTS_MAX];
    uint64_t now;

    pthread_mutex_lock(&arb->lock);
    now = gp_now_ns();
    for (uint32_t i = 0; i < arb->n_cards; i++) {
        struct arb_card *card = &arb->cards[i];

        memset(here, 0, sizeof(here));
        for (const struct srv_desk_slice *s = card->slices; s; s = s->next)
            here[s->kept->slot] = true;
        gov_card_mend(card->ledger, here, now);
        look(arb, card, now);
    }
    set_timer(arb, now);
    pthread_mutex_unlock(&arb->lock);
}

void
srv_arbiter_remove(struct srv_arbiter *arb, struct srv_desk *desk)
{
    struct srv_desk **at = &arb->desks;
    uint64_t now;

    pthread_mutex_lock(&arb->lock);
    now = gp_now_ns();
    while (*at && *at != desk)
        at = &(*at)->next;
    if (*at) {
        *at = desk->next;
        listen_to(arb, desk, EPOLL_CTL_DEL, 0);
    }
    for (uint32_t i = 0; desk->kept->joined && i < desk->n_slices; i++) {
        struct srv_desk_slice *s = &desk->slices[i];

        take_busy(&arb->cards[s->card], s, now);
        leave(arb, s, now);
        look(arb, &arb->cards[s->card], now);
    }
    desk->kept->joined = false;
    set_timer(arb, now);
    pthread_mutex_unlock(&arb->lock);
}

void
srv_arbiter_reshare(struct srv_arbiter *arb, uint32_t card, uint64_t session,
                    const struct gov_share *share)
{
    uint64_t now;

    pthread_mutex_lock(&arb->lock);
    now = gp_now_ns();
    gov_card_reshare(arb->cards[card].ledger, session, share, now);
    look(arb, &arb->cards[card], now);
    set_timer(arb, now);
    pthread_mutex_unlock(&arb->lock);
}

uint32_t
srv_arbiter_busy(struct srv_arbiter *arb, uint32_t card)
{
    struct arb_card *c = &arb->cards[card];
    uint64_t now = gp_now_ns(), busy, passed = now - c->told_ns;

    if (passed < BUSY_NS)
        return c->told;
    pthread_mutex_lock(&arb->lock);
    for (struct srv_desk_slice *s = c->slices; s; s = s->next)
        take_busy(c, s, now);
    busy = c->busy_ns - c->told_busy_ns;
    pthread_mutex_unlock(&arb->lock);
    c->told_ns = now;
    c->told_busy_ns += busy;
    c->told = (uint32_t)gp_min(busy * 100 / passed, UINT64_C(100));
    return c->told;
}
