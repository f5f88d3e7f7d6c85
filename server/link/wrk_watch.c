/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_watch.h"

#include "wire_format.h"
#include "wrk_conf.h"
#include "wrk_priv.h"
#include "wrk_reply.h"
#include "wrk_resume.h"
#include "wrk_state.h"
#include "wrk_wake.h"
#include "xport.h"
#include "xport_resume.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>

/* How often to see whether the receive thread moves: while it has work, and else. */
#define WATCH_BUSY_MS 120
#define WATCH_IDLE_MS 300

struct watch {
    struct wrk *w;
    uint32_t seq, drained;
    bool announced; /* watch_asleep was set one check ago */
    bool hung_up;   /* a descriptor would wake us again at once */
    sigset_t waiting;
};

static volatile sig_atomic_t terminated;

static void
on_sigterm(int signo)
{
    (void)signo;
    terminated = 1;
}

int
wrk_watch_init(void)
{
    struct sigaction action = {.sa_handler = on_sigterm};

    if (sigaction(SIGTERM, &action, NULL) < 0)
        return -errno;
    return wrk_wake_init();
}

/* The receive thread has made no progress for a while: the driver's queue is full, all
 * staging buffers are in flight, or the governor holds launches back.  Unread data in
 * the socket can then hide the client's FIN.  A keep-alive message makes a dead peer's
 * kernel answer with RST, which the supervisor sees.
 *
 * True: the receive thread waits for a frame, and has since the last check. */
static bool
watch_reader(struct watch *watch)
{
    struct wrk *w = watch->w;
    uint32_t seq = atomic_load(&w->priv->seq);
    uint32_t drained = atomic_load(&w->priv->drained);
    struct wire_event_credit credit = {.done_seq = seq - 1};
    bool idle = seq == watch->seq && atomic_load(&w->priv->waiting);
    bool behind = drained == watch->drained && !idle;

    if (behind)
        wrk_unsolicited(w, WIRE_EVENT_CREDIT, &credit, sizeof(credit), NULL, 0);
    watch->seq = seq;
    watch->drained = drained;
    return idle;
}

/* Whether to sleep without a timer, when nothing has happened since the last check.
 *
 * watch_asleep is set one check before that.  Whoever did not see it set yet, and so
 * does not wake this thread, did what it did before that check: within WATCH_IDLE_MS
 * its stores have become visible, and the check finds them.  So receiving and sending
 * a frame needs no fence. */
static bool
watch_sleeps(struct watch *watch, bool nothing_to_do)
{
    struct wrk_priv *p = watch->w->priv;
    bool sleeps = nothing_to_do && watch->announced && atomic_load(&p->watch_asleep);

    watch->announced = nothing_to_do;
    atomic_store(&p->watch_asleep, nothing_to_do);
    return sleeps;
}

/* Sleep for @ms, or (-1) until there is a reason to check.  True: there was one. */
static bool
watch_wait(struct watch *watch, int ms)
{
    const struct xport_conn *conn = watch->w->priv->conn;
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    /* While it works, too: the client may wait for what it could acknowledge now. */
    bool listens = ms < 0 || !watch->hung_up;
    struct pollfd fds[] = {
        {.fd = wrk_wake_fd(), .events = POLLIN},
        {.fd = listens && conn->ops->kind == XPORT_KIND_SHM ? conn->fd : -1,
         .events = POLLRDHUP},
        {.fd = listens && xport_resumes(conn) ? WRK_FD_LINK : -1, .events = POLLIN},
    };

    if (ppoll(fds, ARRAY_SIZE(fds), ms < 0 ? NULL : &time, &watch->waiting) <= 0)
        return false;
    if (fds[2].revents & POLLIN)
        wrk_resume_collect();
    for (size_t i = 1; i < ARRAY_SIZE(fds); i++)
        watch->hung_up |= (fds[i].revents & ~POLLIN) != 0;
    wrk_wake_clear();
    return true;
}

void
wrk_watch_run(struct wrk *w)
{
    struct watch watch = {.w = w};
    int ms = WATCH_IDLE_MS;

    pthread_sigmask(SIG_BLOCK, NULL, &watch.waiting);
    sigdelset(&watch.waiting, SIGTERM);
    xport_watch(w->priv->conn);
    while (!terminated) {
        bool idle, again;

        if (watch_wait(&watch, ms)) {
            /* It has only just begun to work: no reason yet to think it is behind. */
            watch.seq = atomic_load(&w->priv->seq) - 1;
            watch.drained = atomic_load(&w->priv->drained) - 1;
        }
        if (terminated)
            break;
        idle = watch_reader(&watch);
        again = xport_look(w->priv->conn);
        if (watch_sleeps(&watch, idle && !again && !watch.hung_up))
            ms = -1;
        else
            ms = idle ? WATCH_IDLE_MS : WATCH_BUSY_MS;
    }
}
