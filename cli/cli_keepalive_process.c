/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_keepalive_process.h"

#include "cli.h"
#include "cli_session.h"
#include "gp_err.h"
#include "gp_time.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What `gpupool run` says when it ends by itself; more than a hang-up. */
#define ENDS "e"
/* A process that ends this soon after its start, so often, is not started again. */
#define SOON_NS (10 * GP_NS_PER_S)
#define RESTARTS_MAX 3

/* ---------------------------------------------------------- the new process -- */

struct child {
    struct cli_keepalive keep;
    struct gp_loop_fd src;
};

static void
on_run_ended(struct gp_loop_fd *src, uint32_t revents)
{
    struct child *child = container_of(src, struct child, src);
    char said;

    (void)revents;
    cli_keepalive_stop(&child->keep, recv(src->fd, &said, 1, MSG_DONTWAIT) <= 0);
    _exit(CLI_OK);
}

/* In the new process; the loop that it had as a copy is its parent's. */
static void
keep(struct cli_session *session, int fd)
{
    struct child child = {.src.fd = -1};
    struct gp_loop *loop;

    setpgid(0, 0);            /* a stop of the terminal's job does not reach it */
    signal(SIGTTOU, SIG_IGN); /* nor do its warnings stop it */
    session->report_fd = fd;
    if (gp_loop_new(&loop, NULL) < 0 ||
        gp_loop_fd_add(loop, &child.src, fd, EPOLLIN, on_run_ended) < 0)
        _exit(CLI_FAILED);
    cli_keepalive_start(&child.keep, session, loop, true);
    gp_loop_run(loop);
    _exit(CLI_FAILED);
}

/* ------------------------------------------------------------- gpupool run -- */

static int start(struct cli_keepalive_process *process);

/* It has ended.  `gpupool run` keeps no sessions of others: it may be stopped. */
static void
again(struct cli_keepalive_process *process)
{
    if (gp_now_ns() - process->began_ns > SOON_NS)
        process->restarts = 0;
    if (process->restarts++ >= RESTARTS_MAX || start(process) < 0)
        cli_keepalive_start(&process->keep, process->session, process->loop, false);
}

static void
reap(struct cli_keepalive_process *process)
{
    gp_loop_fd_del(&process->src);
    close(process->src.fd);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    process->pid = 0;
}

/* What it says: that the session ends or is lost.  0: it has hung up. */
static ssize_t
listen_to(struct cli_keepalive_process *process)
{
    struct cli_session_news news;
    ssize_t n = recv(process->src.fd, &news, sizeof(news), MSG_DONTWAIT);

    if (n == sizeof(news)) {
        news.words[sizeof(news.words) - 1] = '\0';
        cli_session_news(process->session, &news);
    }
    return n;
}

static void
on_word(struct gp_loop_fd *src, uint32_t revents)
{
    struct cli_keepalive_process *process =
        container_of(src, struct cli_keepalive_process, src);

    (void)revents;
    if (listen_to(process) != 0)
        return;
    reap(process);
    if (!process->session->lost)
        again(process);
}

static int
start(struct cli_keepalive_process *process)
{
    int ends[2], r;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        keep(process->session, ends[1]);
    }
    close(ends[1]);
    r = pid < 0 ? -errno : 0;
    process->pid = gp_max(pid, 0);
    process->began_ns = gp_now_ns();
    if (!r)
        r = gp_loop_fd_add(process->loop, &process->src, ends[0], EPOLLIN, on_word);
    if (r < 0) { /* the process, if there is one, ends with the socket */
        close(ends[0]);
        process->pid = 0;
    }
    return r;
}

int
cli_keepalive_process_start(struct cli_keepalive_process *process,
                            struct cli_session *session, struct gp_loop *loop,
                            struct gp_err *err)
{
    int r;

    *process = (struct cli_keepalive_process){.session = session, .loop = loop};
    r = start(process);
    if (r < 0)
        return gp_err_set(err, r, "fork: %s", strerror(-r));
    cli_ctl_close(&session->ctl); /* the connection is the process's alone */
    return 0;
}

void
cli_keepalive_process_stop(struct cli_keepalive_process *process)
{
    cli_keepalive_stop(&process->keep, false);
    if (!process->pid)
        return;
    while (listen_to(process) > 0) /* what it said last */
        ;
    send(process->src.fd, ENDS, sizeof(ENDS) - 1, MSG_NOSIGNAL);
    reap(process);
}
