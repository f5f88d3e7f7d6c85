/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_stripes.h"

#include "xport_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* How much the link takes each way before they are compared, and how much is sent until
 * that is done again.  The kernel's queues take megabytes at once, which says nothing,
 * so a turn is longer by as much as they hold. */
#define TRIAL (4u << 20)
#define TRIAL_MOST (64u << 20)
#define TRIAL_RUN (1u << 20)
#define AGAIN (UINT64_C(256) << 20)

/* The stripes must be faster by this factor: one connection costs less. */
#define GAIN 1.1

bool
xport_stripes_lost(struct xport_stripes *stripes, bool *ret_again)
{
    bool lost = false;

    for (unsigned i = 0; i < stripes->n; i++) {
        bool again;

        lost = xport_liveness_lost(&stripes->live[i], stripes->fd[i], &again) || lost;
        if (ret_again)
            *ret_again = *ret_again || again;
    }
    return lost;
}

/* ---- moving -----------------------------------------------------------------------
 */

/* One stripe's part of a run; positions count the bytes of the part. */
struct part {
    uint64_t pos, end;
};

/* How many of a run's first @at bytes stripe @i of @n carries. */
static uint64_t
part_before(uint64_t at, unsigned i, unsigned n)
{
    uint64_t round = (uint64_t)n * XPORT_STRIPE_UNIT;
    uint64_t rest = at % round, before = (uint64_t)i * XPORT_STRIPE_UNIT;
    uint64_t part =
        rest > before ? gp_min(rest - before, (uint64_t)XPORT_STRIPE_UNIT) : 0;

    return at / round * XPORT_STRIPE_UNIT + part;
}

/* The offset in the run of byte @pos of stripe @i's part. */
static uint64_t
part_place(uint64_t pos, unsigned i, unsigned n)
{
    return (pos / XPORT_STRIPE_UNIT * n + i) * XPORT_STRIPE_UNIT +
           pos % XPORT_STRIPE_UNIT;
}

static ssize_t
stripe_move(const struct xport_stripes *stripes, unsigned i, uint8_t *bytes, size_t len,
            bool out)
{
    struct gp_wire *wire = stripes->wire[i];
    int fd = stripes->fd[i];
    struct iovec iov = {bytes, len};
    ssize_t n = out ? gp_wire_send(wire, fd, &iov, 1, MSG_DONTWAIT)
                    : gp_wire_recv(wire, fd, bytes, len, MSG_DONTWAIT);

    if (n == 0)
        return -ECONNRESET;
    return n == -EAGAIN ? 0 : n;
}

/* Move as much of one stripe's part as goes now without waiting. */
static int
part_move(const struct xport_stripes *stripes, unsigned i, struct part *part,
          uint64_t at, uint8_t *buf, bool out)
{
    while (part->pos < part->end) {
        size_t len = gp_min(part->end - part->pos,
                            XPORT_STRIPE_UNIT - part->pos % XPORT_STRIPE_UNIT);
        uint64_t place = part_place(part->pos, i, stripes->n) - at;
        ssize_t n = stripe_move(stripes, i, buf + place, len, out);

        if (n <= 0)
            return (int)n;
        part->pos += (uint64_t)n;
    }
    return 0;
}

/* Sleep until a stripe that is not done goes on, or a stripe's peer is found dead. */
static int
parts_wait(struct xport_stripes *stripes, const struct part *parts, bool out)
{
    struct pollfd fds[XPORT_STRIPES_MAX];
    int n;

    for (unsigned i = 0; i < stripes->n; i++)
        fds[i] =
            (struct pollfd){.fd = parts[i].pos < parts[i].end ? stripes->fd[i] : -1,
                            .events = out ? POLLOUT : POLLIN};
    n = poll(fds, stripes->n, XPORT_CHECK_S * 1000);
    if (n < 0 && errno != EINTR)
        return -errno;
    return n == 0 && xport_stripes_lost(stripes, NULL) ? -ETIMEDOUT : 0;
}

static int
move(struct xport_stripes *stripes, uint64_t at, uint8_t *buf, uint64_t len, bool out)
{
    struct part parts[XPORT_STRIPES_MAX];
    bool done = false;
    int r = 0;

    for (unsigned i = 0; i < stripes->n; i++)
        parts[i] = (struct part){part_before(at, i, stripes->n),
                                 part_before(at + len, i, stripes->n)};
    while (!done && r == 0) {
        done = true;
        for (unsigned i = 0; i < stripes->n && r == 0; i++) {
            r = part_move(stripes, i, &parts[i], at, buf, out);
            done = done && parts[i].pos == parts[i].end;
        }
        if (r == 0 && !done)
            r = parts_wait(stripes, parts, out);
    }
    return r;
}

int
xport_stripes_send(struct xport_stripes *stripes, const uint8_t *buf, uint64_t len)
{
    int r;

    xport_rate_begin(&stripes->rate, stripes->fd, stripes->n);
    r = move(stripes, 0, (uint8_t *)(uintptr_t)buf, len, true);
    xport_rate_end(&stripes->rate, stripes->fd, stripes->n, len);
    return r;
}

int
xport_stripes_recv(struct xport_stripes *stripes, uint64_t at, uint8_t *buf,
                   uint64_t len)
{
    return move(stripes, at, buf, len, false);
}

/* ---- whether it pays ---------------------------------------------------------------
 */

/* Another @len bytes in this turn, if it has not shown enough; else the next begins. */
static bool
turn_goes_on(struct xport_stripes *stripes, const struct xport_rate *rate, uint32_t len)
{
    if (stripes->given == 0)
        stripes->taken = rate->taken;
    if (rate->taken - stripes->taken < TRIAL && stripes->given < TRIAL_MOST) {
        stripes->given += len;
        return true;
    }
    stripes->given = 0;
    return false;
}

/* The next link may lead another way. */
static void
look_again(struct xport_stripes *stripes)
{
    stripes->seen = atomic_load(&stripes->times);
    stripes->use = stripes->main = false;
    stripes->until = stripes->given = 0;
}

bool
xport_stripes_pay(struct xport_stripes *stripes, const struct xport_rate *main,
                  uint32_t *len)
{
    double one = xport_rate_cost(main), all = xport_rate_cost(&stripes->rate);

    if (!xport_stripes_usable(stripes))
        return false;
    if (unlikely(stripes->seen != atomic_load(&stripes->times)))
        look_again(stripes);
    if (stripes->until) {
        stripes->until -= gp_min(stripes->until, (uint64_t)*len);
        return stripes->use;
    }
    /* A trial: so many bytes over the stripes, then so many without, then they are
     * compared. */
    *len = gp_min(*len, TRIAL_RUN);
    if (turn_goes_on(stripes, stripes->main ? main : &stripes->rate, *len))
        return !stripes->main;
    stripes->main = !stripes->main;
    if (stripes->main) {
        turn_goes_on(stripes, main, *len);
        return false;
    }
    stripes->until = AGAIN;
    stripes->use = all > 0 && one > GAIN * all;
    return stripes->use;
}

/* ---- life --------------------------------------------------------------------------
 */

static void
stripe_prepare(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    xport_liveness_start(fd);
    xport_tcp_unpace(fd);
}

struct xport_stripes *
xport_stripes_new(const int *fds, struct gp_wire *const *wires, unsigned n)
{
    struct xport_stripes *stripes = calloc(1, sizeof(*stripes));

    if (!stripes)
        return NULL;
    stripes->n = n;
    for (unsigned i = 0; i < n; i++) {
        stripes->fd[i] = fds[i];
        stripes->wire[i] = wires ? wires[i] : NULL;
        stripe_prepare(fds[i]);
    }
    return stripes;
}

int
xport_stripes_renew(struct xport_stripes *stripes, const int *fds,
                    struct gp_wire *const *wires)
{
    for (unsigned i = 0; i < stripes->n; i++) {
        if (dup3(fds[i], stripes->fd[i], O_CLOEXEC) < 0)
            return -errno;
        stripe_prepare(stripes->fd[i]);
        atomic_store(&stripes->live[i].silent_since, 0);
    }
    for (unsigned i = 0; i < stripes->n; i++) {
        close(fds[i]);
        gp_wire_free(stripes->wire[i]);
        stripes->wire[i] = wires ? wires[i] : NULL;
    }
    atomic_fetch_add(&stripes->times, 1);
    atomic_store_explicit(&stripes->ended, false, memory_order_release);
    return 0;
}

void
xport_stripes_end(struct xport_stripes *stripes)
{
    atomic_store(&stripes->send, false);
    atomic_store(&stripes->ended, true);
    xport_stripes_abort(stripes);
}

void
xport_stripes_abort(struct xport_stripes *stripes)
{
    for (unsigned i = 0; i < stripes->n; i++)
        shutdown(stripes->fd[i], SHUT_RDWR);
}

void
xport_stripes_free(struct xport_stripes *stripes)
{
    if (!stripes)
        return;
    for (unsigned i = 0; i < stripes->n; i++) {
        gp_wire_free(stripes->wire[i]);
        close(stripes->fd[i]);
    }
    free(stripes);
}
