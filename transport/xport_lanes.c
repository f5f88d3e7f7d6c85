/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_lanes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

/* How much the link takes each way before they are compared, and how much is sent until
 * that is done again.  The kernel's queues take megabytes at once, which says nothing,
 * so a turn is longer by as much as they hold. */
#define TRIAL (4u << 20)
#define TRIAL_MOST (64u << 20)
#define TRIAL_RUN (1u << 20)
#define AGAIN (UINT64_C(256) << 20)

/* The lanes must be so much faster: one connection costs less. */
#define GAIN 1.1

bool
xport_lanes_lost(struct xport_lanes *lanes, bool *ret_again)
{
    bool lost = false;

    for (unsigned i = 0; i < lanes->n; i++) {
        bool again;

        lost = xport_liveness_lost(&lanes->live[i], lanes->fd[i], &again) || lost;
        if (ret_again)
            *ret_again = *ret_again || again;
    }
    return lost;
}

/* ---- moving -----------------------------------------------------------------------
 */

/* One lane's part of a run: positions count its own bytes. */
struct share {
    uint64_t pos, end;
};

/* How many of a run's first @at bytes lane @i of @n carries. */
static uint64_t
share_before(uint64_t at, unsigned i, unsigned n)
{
    uint64_t round = (uint64_t)n * XPORT_STRIPE;
    uint64_t rest = at % round, before = (uint64_t)i * XPORT_STRIPE;
    uint64_t part = rest > before ? gp_min(rest - before, (uint64_t)XPORT_STRIPE) : 0;

    return at / round * XPORT_STRIPE + part;
}

/* Where in the run byte @pos of lane @i's share lies. */
static uint64_t
share_place(uint64_t pos, unsigned i, unsigned n)
{
    return (pos / XPORT_STRIPE * n + i) * XPORT_STRIPE + pos % XPORT_STRIPE;
}

static ssize_t
lane_move(int fd, uint8_t *bytes, size_t len, bool out)
{
    ssize_t n = out ? send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL)
                    : recv(fd, bytes, len, MSG_DONTWAIT);

    if (n > 0)
        return n;
    if (n == 0)
        return -ECONNRESET;
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    return errno == EPIPE ? -ECONNRESET : -errno;
}

/* As much of one lane's share as goes now. */
static int
share_move(const struct xport_lanes *lanes, unsigned i, struct share *share,
           uint64_t at, uint8_t *buf, bool out)
{
    while (share->pos < share->end) {
        size_t len =
            gp_min(share->end - share->pos, XPORT_STRIPE - share->pos % XPORT_STRIPE);
        uint64_t place = share_place(share->pos, i, lanes->n) - at;
        ssize_t n = lane_move(lanes->fd[i], buf + place, len, out);

        if (n <= 0)
            return (int)n;
        share->pos += (uint64_t)n;
    }
    return 0;
}

/* Sleep until a lane that is not done goes on, or a lane's peer is found dead. */
static int
shares_wait(struct xport_lanes *lanes, const struct share *shares, bool out)
{
    struct pollfd fds[XPORT_LANES_MAX];
    int n;

    for (unsigned i = 0; i < lanes->n; i++)
        fds[i] =
            (struct pollfd){.fd = shares[i].pos < shares[i].end ? lanes->fd[i] : -1,
                            .events = out ? POLLOUT : POLLIN};
    n = poll(fds, lanes->n, XPORT_CHECK_S * 1000);
    if (n < 0 && errno != EINTR)
        return -errno;
    return n == 0 && xport_lanes_lost(lanes, NULL) ? -ETIMEDOUT : 0;
}

static int
move(struct xport_lanes *lanes, uint64_t at, uint8_t *buf, uint64_t len, bool out)
{
    struct share shares[XPORT_LANES_MAX];
    bool done = false;
    int r = 0;

    for (unsigned i = 0; i < lanes->n; i++)
        shares[i] = (struct share){share_before(at, i, lanes->n),
                                   share_before(at + len, i, lanes->n)};
    while (!done && r == 0) {
        done = true;
        for (unsigned i = 0; i < lanes->n && r == 0; i++) {
            r = share_move(lanes, i, &shares[i], at, buf, out);
            done = done && shares[i].pos == shares[i].end;
        }
        if (r == 0 && !done)
            r = shares_wait(lanes, shares, out);
    }
    return r;
}

int
xport_lanes_send(struct xport_lanes *lanes, const uint8_t *buf, uint64_t len)
{
    int r;

    xport_rate_begin(&lanes->rate, lanes->fd, lanes->n);
    r = move(lanes, 0, (uint8_t *)(uintptr_t)buf, len, true);
    xport_rate_end(&lanes->rate, lanes->fd, lanes->n, len);
    return r;
}

int
xport_lanes_recv(struct xport_lanes *lanes, uint64_t at, uint8_t *buf, uint64_t len)
{
    return move(lanes, at, buf, len, false);
}

/* ---- whether it pays ---------------------------------------------------------------
 */

/* Another @len bytes in this turn, if it has not shown enough; else the next begins. */
static bool
turn_goes_on(struct xport_lanes *lanes, const struct xport_rate *rate, uint32_t len)
{
    if (lanes->given == 0)
        lanes->taken = rate->taken;
    if (rate->taken - lanes->taken < TRIAL && lanes->given < TRIAL_MOST) {
        lanes->given += len;
        return true;
    }
    lanes->given = 0;
    return false;
}

bool
xport_lanes_pay(struct xport_lanes *lanes, const struct xport_rate *main, uint32_t *len)
{
    double one = xport_rate_cost(main), all = xport_rate_cost(&lanes->rate);

    if (!atomic_load_explicit(&lanes->send, memory_order_acquire))
        return false;
    if (lanes->until) {
        lanes->until -= gp_min(lanes->until, (uint64_t)*len);
        return lanes->use;
    }
    /* A trial: so many bytes over the lanes, then so many without, then the verdict. */
    *len = gp_min(*len, TRIAL_RUN);
    if (turn_goes_on(lanes, lanes->main ? main : &lanes->rate, *len))
        return !lanes->main;
    lanes->main = !lanes->main;
    if (lanes->main) {
        turn_goes_on(lanes, main, *len);
        return false;
    }
    lanes->until = AGAIN;
    lanes->use = all > 0 && one > GAIN * all;
    return lanes->use;
}

/* ---- life --------------------------------------------------------------------------
 */

struct xport_lanes *
xport_lanes_new(const int *fds, unsigned n)
{
    struct xport_lanes *lanes = calloc(1, sizeof(*lanes));

    if (!lanes)
        return NULL;
    lanes->n = n;
    for (unsigned i = 0; i < n; i++) {
        lanes->fd[i] = fds[i];
        fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) & ~O_NONBLOCK);
        xport_liveness_start(fds[i]);
    }
    return lanes;
}

void
xport_lanes_abort(struct xport_lanes *lanes)
{
    for (unsigned i = 0; i < lanes->n; i++)
        shutdown(lanes->fd[i], SHUT_RDWR);
}

void
xport_lanes_free(struct xport_lanes *lanes)
{
    if (!lanes)
        return;
    for (unsigned i = 0; i < lanes->n; i++)
        close(lanes->fd[i]);
    free(lanes);
}
