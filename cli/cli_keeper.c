/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_keeper.h"

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
/* A keeper that ends this soon after its start, so often, is not started again. */
#define SOON_NS (10 * GP_NS_PER_S)
#define RESTARTS_MAX 3

/* ---------------------------------------------------------- the new process -- */

struct child {
    struct cli_keep keep;
    struct gp_loop_fd src;
};

static void
on_run_ended(struct gp_loop_fd *src, uint32_t revents)
{
    struct child *child = container_of(src, struct child, src);
    char said;

    (void)revents;
    cli_keep_stop(&child->keep, recv(src->fd, &said, 1, MSG_DONTWAIT) <= 0);
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
    cli_keep_start(&child.keep, session, loop, true);
    gp_loop_run(loop);
    _exit(CLI_FAILED);
}

/* ------------------------------------------------------------- gpupool run -- */

static int start(struct cli_keeper *keeper);

/* It has ended.  `gpupool run` is no keeper for others: it may be stopped. */
static void
again(struct cli_keeper *keeper)
{
    if (gp_now_ns() - keeper->began_ns > SOON_NS)
        keeper->restarts = 0;
    if (keeper->restarts++ >= RESTARTS_MAX || start(keeper) < 0)
        cli_keep_start(&keeper->keep, keeper->session, keeper->loop, false);
}

static void
reap(struct cli_keeper *keeper)
{
    gp_loop_fd_del(&keeper->src);
    close(keeper->src.fd);
    while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    keeper->pid = 0;
}

/* What it says: that the session ends or is lost.  0: it has hung up. */
static ssize_t
listen_to(struct cli_keeper *keeper)
{
    struct cli_session_news news;
    ssize_t n = recv(keeper->src.fd, &news, sizeof(news), MSG_DONTWAIT);

    if (n == sizeof(news)) {
        news.words[sizeof(news.words) - 1] = '\0';
        cli_session_news(keeper->session, &news);
    }
    return n;
}

static void
on_word(struct gp_loop_fd *src, uint32_t revents)
{
    struct cli_keeper *keeper = container_of(src, struct cli_keeper, src);

    (void)revents;
    if (listen_to(keeper) != 0)
        return;
    reap(keeper);
    if (!keeper->session->lost)
        again(keeper);
}

static int
start(struct cli_keeper *keeper)
{
    int ends[2], r;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        keep(keeper->session, ends[1]);
    }
    close(ends[1]);
    r = pid < 0 ? -errno : 0;
    keeper->pid = gp_max(pid, 0);
    keeper->began_ns = gp_now_ns();
    if (!r)
        r = gp_loop_fd_add(keeper->loop, &keeper->src, ends[0], EPOLLIN, on_word);
    if (r < 0) { /* the process, if there is one, ends with the socket */
        close(ends[0]);
        keeper->pid = 0;
    }
    return r;
}

int
cli_keeper_start(struct cli_keeper *keeper, struct cli_session *session,
                 struct gp_loop *loop, struct gp_err *err)
{
    int r;

    *keeper = (struct cli_keeper){.session = session, .loop = loop};
    r = start(keeper);
    if (r < 0)
        return gp_err_set(err, r, "fork: %s", strerror(-r));
    cli_ctl_close(&session->ctl); /* the connection is the process's alone */
    return 0;
}

void
cli_keeper_stop(struct cli_keeper *keeper)
{
    cli_keep_stop(&keeper->keep, false);
    if (!keeper->pid)
        return;
    while (listen_to(keeper) > 0) /* what it said last */
        ;
    send(keeper->src.fd, ENDS, sizeof(ENDS) - 1, MSG_NOSIGNAL);
    reap(keeper);
}
