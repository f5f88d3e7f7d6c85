/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flusher; see stub_flush.h.
 *
 * It needs no clock, only two numbers: if bytes are queued and the buffer was not
 * emptied since the last check, they have waited for at least one tick.
 */
#include "stub_flush.h"

#include "gp_base.h"
#include "gp_time.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_send_overflow.h"
#include "stub_thread.h"
#include "stub_wait.h"
#include "xport.h"
#include "xport_resume.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>

#define FLUSH_TICK_NS 50000
/* While the program's own waits empty the buffer, checks are only a cost. */
#define FLUSH_TICK_MAX_NS 400000
/* While a sender is blocked by a worker that reads nothing, the device has enough
 * work. */
#define FLUSH_HELD_MAX_NS (10 * (long)GP_NS_PER_MS)
#define FLUSH_IDLE_TICKS 25 /* checks that found nothing to do before it sleeps */
#define FLUSH_CHECK_MS 1000 /* between checks of unacknowledged bytes */
#define FLUSH_LOOK_NS (100 * GP_NS_PER_MS) /* how late a dead worker is noticed */

struct flush_state {
    uint32_t flushes;
    uint32_t queued;
    uint32_t d2h_in_flight;
    bool armed; /* something was queued, whatever became of it */
};

/* A frame that enters the buffer between the look at `flush_armed` and its reset is
 * not forgotten: flush_sleep() looks at `queued`. */
static bool
flush_was_armed(struct stub_link *link)
{
    if (!atomic_load_explicit(&link->flush_armed, memory_order_relaxed))
        return false;
    atomic_store_explicit(&link->flush_armed, 0, memory_order_relaxed);
    return true;
}

static struct flush_state
flush_read_state(struct stub_link *link)
{
    return (struct flush_state){
        .armed = flush_was_armed(link),
        .flushes = atomic_load_explicit(&link->flushes, memory_order_relaxed),
        .queued = atomic_load_explicit(&link->queued, memory_order_seq_cst),
        .d2h_in_flight =
            atomic_load_explicit(&link->d2h_in_flight, memory_order_relaxed),
    };
}

/* False: somebody else is sending. */
static bool
flush_send(struct stub_link *link)
{
    int r;

    /* The thread that holds the lock may be sending a payload that the worker reads
     * only after somebody here has read its replies: flush_step() must go on then. */
    if (!gp_lock_try(&link->send))
        return false;
    if (stub_send_overflow_busy(&link->overflow)) {
        gp_lock_release(&link->send);
        return false;
    }
    r = xport_flush(link->conn);
    if (r == 0) {
        uint32_t n = atomic_load_explicit(&link->flushes, memory_order_relaxed);

        atomic_store_explicit(&link->queued, 0, memory_order_relaxed);
        atomic_store_explicit(&link->flushes, n + 1, memory_order_relaxed);
    }
    gp_lock_release(&link->send);
    if (r < 0)
        stub_link_broken(link, r);
    return true;
}

/* Sleep until a frame enters the buffer, until the worker hangs up (reported once),
 * or for @ms.  False: only the time has passed. */
static bool
sleep_wait(struct stub_link *link, int ms)
{
    struct pollfd fds[] = {
        {.fd = link->wake_fd, .events = POLLIN},
        {.fd = link->hung_up ? -1 : link->conn->fd, .events = POLLRDHUP},
    };
    uint64_t count;

    if (poll(fds, ARRAY_SIZE(fds), ms) == 0)
        return false;
    if ((fds[0].revents & POLLIN) && read(link->wake_fd, &count, sizeof(count)) < 0)
        return true;
    link->hung_up = link->hung_up || fds[1].revents;
    return true;
}

/* How long to sleep now.  A call that is sent by the thread that waits for it does not
 * wake the flusher, so nobody would look after its link: before a sleep without a limit
 * the attention bit is set, by which such a call knows that it has to, and one more
 * look shows calls that had not seen the bit. */
static int
flush_patience(struct stub_link *link, uint32_t *seq, unsigned *quiet)
{
    uint32_t now = atomic_load_explicit(&link->seq, memory_order_relaxed);
    bool again = xport_look(link->conn);

    if (link->conn->ops->kind != XPORT_KIND_TCP)
        return again ? FLUSH_CHECK_MS : -1;
    if (again || now != *seq)
        *quiet = 0;
    *seq = now;
    if (*quiet == 1)
        stub_link_attend(link, STUB_ATTEND_WATCH, true);
    return (*quiet)++ < 2 ? FLUSH_CHECK_MS : -1;
}

/* Sleep until a frame enters the empty buffer.  While sent bytes are unacknowledged,
 * the peer's liveness is checked, for threads that wait for a reply.
 *
 * The store to `flush_asleep` and the load of `queued` behind it pair with the
 * poster's store to `queued` and its load of `flush_asleep`: one of the two threads
 * sees the other's store. */
static void
flush_sleep(struct stub_link *link)
{
    uint32_t seq = atomic_load_explicit(&link->seq, memory_order_relaxed);
    unsigned quiet = 0;

    atomic_store_explicit(&link->flush_asleep, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&link->queued, memory_order_seq_cst) == 0)
        while (!sleep_wait(link, flush_patience(link, &seq, &quiet)))
            ;
    stub_link_attend(link, STUB_ATTEND_WATCH, false);
    atomic_store_explicit(&link->flush_asleep, 0, memory_order_relaxed);
    xport_look(link->conn);
    if (xport_resumes(link->conn)) /* then this has made it whole, or will */
        link->hung_up = false;
}

/* Nothing there that a check is for: no frame was queued.  Calls and payloads that
 * their thread sends at once need none, unless a copy to the host is under way, whose
 * bytes somebody has to read. */
static bool
flush_is_idle(struct flush_state now, bool flushed)
{
    return now.queued == 0 && (!flushed || (!now.armed && !now.d2h_in_flight));
}

/* One check: frames that have waited are sent; an idle buffer lets the thread sleep;
 * a buffer that the program empties by itself makes checks rarer. */
static void
flush_step(struct stub_link *link, struct flush_state now, struct flush_state last,
           uint32_t *idle, long *tick_ns)
{
    bool flushed = now.flushes != last.flushes;
    bool stale = now.queued && !flushed && last.queued;

    /* Before a flush in any case: the worker may not read until somebody reads here. */
    if (now.d2h_in_flight && (last.d2h_in_flight || stale))
        stub_hooks_unread(link);
    *idle = flush_is_idle(now, flushed) ? *idle + 1 : 0;
    if (stale) {
        long held_max = now.d2h_in_flight ? (long)FLUSH_TICK_MAX_NS : FLUSH_HELD_MAX_NS;

        *tick_ns = flush_send(link) ? FLUSH_TICK_NS : gp_min(2 * *tick_ns, held_max);
    } else if (*idle > FLUSH_IDLE_TICKS) {
        flush_sleep(link);
        *tick_ns = FLUSH_TICK_NS;
    } else if (flushed) {
        *tick_ns = gp_min(2 * *tick_ns, (long)FLUSH_TICK_MAX_NS);
    }
}

static void
flush_run(void *arg)
{
    struct stub_link *link = arg;
    struct flush_state last = {0};
    long tick_ns = FLUSH_TICK_NS, since_check = 0;
    uint32_t idle = 0;

    prctl(PR_SET_TIMERSLACK, 5000UL, 0, 0, 0);
    xport_watch(link->conn);
    while (stub_link_ready(link) || atomic_load(&link->phase) == STUB_LINKED) {
        struct flush_state now = flush_read_state(link);

        flush_step(link, now, last, &idle, &tick_ns);
        last = now;
        since_check += tick_ns;
        if (since_check > (long)FLUSH_LOOK_NS) {
            xport_look(link->conn);
            since_check = 0;
        }
        nanosleep(&(struct timespec){.tv_nsec = tick_ns}, NULL);
    }
}

void
stub_flush_wake(struct stub_link *link)
{
    static const uint64_t one = 1;

    atomic_store(&link->flush_asleep, 0);
    if (write(link->wake_fd, &one, sizeof(one)) < 0)
        stub_link_attend(link, STUB_ATTEND_FLUSH, true); /* cannot be: it never fills */
}

int
stub_flush_start(struct stub_link *link)
{
    int r;

    link->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = link->wake_fd < 0 ? -errno
                          : stub_thread_start("gpupool-flush", flush_run, link);
    if (r < 0)
        stub_link_attend(link, STUB_ATTEND_FLUSH, true);
    return r;
}
