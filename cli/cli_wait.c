/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_wait.h"

#include "ctl_dial.h"
#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_msg.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_utf8.h"
#include "gp_wire.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>

/* The scheduler says something at least every half minute; silence of this length means
 * that its host is gone. */
#define SILENCE_NS (90 * GP_NS_PER_S)
#define PAUSE_MS 500
#define MOMENT_MS 100
#define MOMENT_DOUBLED_MAX 3u

void
cli_wait_init(struct cli_wait *wait, bool queue, uint32_t most_ms, int signals)
{
    memset(wait, 0, sizeof(*wait));
    wait->queue = queue;
    wait->most_ms = most_ms;
    wait->signals = signals;
    wait->since_ns = gp_now_ns();
    wait->terminal = isatty(STDERR_FILENO);
}

void
cli_wait_request(const struct cli_wait *wait, Gpupool__Ctl__CtlOpen *open)
{
    uint64_t waited = (gp_now_ns() - wait->since_ns) / GP_NS_PER_MS;

    open->wait = true;
    if (wait->most_ms)
        open->wait_ms = waited < wait->most_ms ? wait->most_ms - (uint32_t)waited : 1;
    open->place.data = (uint8_t *)wait->place;
    open->place.len = wait->place_len;
}

/* --------------------------------------------------------------------- show -- */

static unsigned
columns(void)
{
    struct winsize size;

    return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 20 ? size.ws_col
                                                                        : 80;
}

static void
show(struct cli_wait *wait, const char *line)
{
    if (!strcmp(line, wait->line))
        return;
    gp_str_copy(wait->line, sizeof(wait->line), line);
    if (wait->terminal)
        fprintf(stderr, "\r\033[K%.*s", (int)columns() - 1, line);
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
    wait->shown = true;
}

void
cli_wait_end(struct cli_wait *wait)
{
    if (wait->shown && wait->terminal)
        fputs("\r\033[K", stderr);
    wait->shown = false;
}

static void
time_words(uint64_t ms, char *words, size_t size)
{
    uint64_t s = (ms + 999) / 1000;

    if (s < 120)
        snprintf(words, size, "%" PRIu64 " s", s);
    else if (s < 7200)
        snprintf(words, size, "%" PRIu64 " min", s / 60);
    else
        snprintf(words, size, "%" PRIu64 " h", s / 3600);
}

static void
show_queued(struct cli_wait *wait, const Gpupool__Ctl__CtlQueued *queued)
{
    char estimate[32] = "unknown", line[512];

    if (queued->estimated)
        time_words(queued->estimate_ms, estimate, sizeof(estimate));
    snprintf(line, sizeof(line), "gpupool: waiting: position %u of %u, time %s: %s",
             queued->position, queued->waiting, estimate, queued->reason);
    gp_utf8_mask(line);
    show(wait, line);
    wait->position = queued->position;
    if (queued->place.len <= sizeof(wait->place)) {
        memcpy(wait->place, queued->place.data, queued->place.len);
        wait->place_len = queued->place.len;
    }
}

/* --------------------------------------------------------------------- wait -- */

/* Until @fd (-1: none) has something.  0, -EINTR or -ETIMEDOUT. */
static int
await(struct cli_wait *wait, int fd, uint64_t deadline)
{
    struct pollfd fds[] = {{wait->signals, POLLIN, 0}, {fd, POLLIN, 0}};
    struct signalfd_siginfo info;

    for (;;) {
        int n = poll(fds, fd < 0 ? 1 : 2, gp_poll_ms(deadline));

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            return -ETIMEDOUT;
        if (n > 0 && fds[0].revents &&
            read(wait->signals, &info, sizeof(info)) == sizeof(info) &&
            info.ssi_signo != SIGCHLD && info.ssi_signo != SIGUSR1 &&
            info.ssi_signo != SIGUSR2) {
            wait->signo = (int)info.ssi_signo;
            return -EINTR;
        }
        if (n > 0 && fd >= 0 && fds[1].revents)
            return 0;
    }
}

/* When the scheduler must have said something: soon after the end of the user's time,
 * too, which it watches over itself. */
static uint64_t
silence_end(const struct cli_wait *wait)
{
    uint64_t end = gp_now_ns() + SILENCE_NS;

    return wait->most_ms ? gp_min(end, wait->since_ns + wait->most_ms * GP_NS_PER_MS +
                                           CLI_DEADLINE_NS)
                         : end;
}

static int
next_reply(struct cli_wait *wait, struct cli_ctl *ctl, uint32_t id,
           Gpupool__Ctl__CtlReply **ret, struct gp_err *err)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP_FREE void *data = NULL;
    size_t len;
    int r = gp_wire_pending(ctl->link.wire)
                ? 0
                : await(wait, ctl->link.fd, silence_end(wait));

    if (r == -EINTR)
        return gp_err_set(err, r, "%s: the request was taken back",
                          strsignal(wait->signo));
    if (!r)
        r = gp_msg_recv_over(ctl->link.wire, ctl->link.fd, CTL_REPLY_MAX,
                             gp_now_ns() + CLI_DEADLINE_NS, &data, &len, err);
    if (r < 0)
        return gp_err_wrap(err, r, "scheduler %s", ctl->address);
    reply = cli_reply_unpack(data, len);
    if (!reply || (reply->id && reply->id != id))
        return gp_err_set(err, -EPROTO, "%s does not answer like a gpupool-scheduler",
                          ctl->address);
    *ret = TAKE_PTR(reply);
    return 0;
}

int
cli_wait_turn(struct cli_wait *wait, struct cli_ctl *ctl, uint32_t id,
              Gpupool__Ctl__CtlReply **reply, struct gp_err *err)
{
    while ((*reply)->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED ||
           !(*reply)->id) {
        Gpupool__Ctl__CtlReply *next = NULL;
        int r;

        if ((*reply)->id)
            show_queued(wait, (*reply)->queued);
        r = next_reply(wait, ctl, id, &next, err);
        if (r < 0)
            return r;
        cli_reply_free(*reply);
        *reply = next;
    }
    return (*reply)->error ? gp_err_set(err, -EREMOTE, "%s", (*reply)->error->words)
                           : 0;
}

int
cli_wait_moment(struct cli_wait *wait, struct gp_err *err)
{
    uint64_t ns = MOMENT_MS * GP_NS_PER_MS
                  << gp_min(wait->moments++, MOMENT_DOUBLED_MAX);
    int r = await(wait, -1, gp_now_ns() + ctl_dial_pause_ns(ns));

    return r == -ETIMEDOUT ? 0 : gp_err_set(err, r, "the request was taken back");
}

int
cli_wait_pause(struct cli_wait *wait, const char *why, struct gp_err *err)
{
    uint64_t waited = (gp_now_ns() - wait->since_ns) / GP_NS_PER_MS;
    char line[512];
    int r;

    if (wait->most_ms && waited >= wait->most_ms)
        return gp_err_set(err, -ETIMEDOUT, "timed out in the queue: %s", why);
    snprintf(line, sizeof(line),
             "gpupool: waiting: position %u; trying to reach the scheduler again: %s",
             wait->position, why);
    show(wait, line);
    r = await(wait, -1, gp_now_ns() + PAUSE_MS * GP_NS_PER_MS);
    return r == -ETIMEDOUT ? 0 : gp_err_set(err, r, "the request was taken back");
}
