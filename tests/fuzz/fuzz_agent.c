/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of a host between its peers and a scheduler, both hostile.
 *
 * The input is a list of messages: a byte that says from whom (0, 1: a peer; 2: the
 * scheduler; 3: a peer goes; 4: the time comes to renew), a length byte, and that many
 * bytes.  Whatever comes, each session is held for the peer that named it, once.
 */
#include "cli_agent.h"
#include "cli_renewer.h"
#include "gp_time.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gp_loop *loop;

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return gp_loop_new(&loop, NULL);
}

/* The socket's other end, which nobody reads. */
static int
pair(int *ret)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
        __builtin_trap();
    *ret = fds[0];
    return fds[1];
}

/* As the listener does. */
static int
join(struct cli_agent *agent)
{
    int fd, end = pair(&fd);

    agent->listener.on_accept(&agent->listener, fd);
    return end;
}

/* As a peer does; one that was sent away is not heard. */
static void
say(int end, const uint8_t *data, size_t len)
{
    uint32_t size = (uint32_t)len;

    if (send(end, &size, sizeof(size), MSG_NOSIGNAL) > 0)
        send(end, data, len, MSG_NOSIGNAL);
}

static void
on_stop(struct gp_loop_timer *timer)
{
    (void)timer;
    gp_loop_stop(loop, 0);
}

/* What has come is handled. */
static void
turn(void)
{
    struct gp_loop_timer stop = {.cb = NULL};

    gp_loop_timer_set(loop, &stop, 0, on_stop);
    gp_loop_run(loop);
    gp_loop_timer_del(&stop);
}

static void
check(const struct cli_agent *agent)
{
    unsigned n = 0;

    for (const struct cli_lease *lease = agent->renewer->sessions; lease;
         lease = lease->next) {
        if (lease->renewer != agent->renewer || *lease->link != lease)
            __builtin_trap();
        n++;
    }
    if (n > agent->n_peers)
        __builtin_trap();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cli_agent agent;
    static struct cli_renewer renewer;
    struct ctl_link link = {.fd = -1};
    int ends[2], scheduler, listener;
    int other = pair(&listener);

    scheduler = pair(&link.fd);
    memset(&agent, 0, sizeof(agent));
    cli_renewer_init(&renewer, loop, "unix:/nonexistent", "unix:/nonexistent",
                     &(struct ctl_pins){.n = 0});
    if (cli_renewer_use(&renewer, &link) < 0 ||
        cli_agent_use(&agent, listener, &renewer, loop) < 0)
        __builtin_trap();
    for (int i = 0; i < 2; i++)
        ends[i] = join(&agent);
    while (size > 2) {
        size_t len = gp_min((size_t)data[1], size - 2);

        if (data[0] % 5 < 2)
            say(ends[data[0] % 5], data + 2, len);
        else if (data[0] % 5 == 2 && renewer.connected)
            renewer.conn.on_msg(&renewer.conn, data + 2, len);
        else if (data[0] % 5 == 3)
            shutdown(ends[data[0] % 2], SHUT_RDWR);
        for (struct cli_lease *lease = renewer.sessions; data[0] % 5 == 4 && lease;
             lease = lease->next)
            lease->due_ns = 0;
        if (data[0] % 5 == 4 && renewer.sessions && renewer.timer.cb)
            renewer.timer.cb(&renewer.timer);
        turn();
        check(&agent);
        data += 2 + len;
        size -= 2 + len;
    }
    cli_agent_stop(&agent);
    cli_renewer_fini(&renewer);
    close(ends[0]);
    close(ends[1]);
    close(scheduler);
    close(other);
    return 0;
}
