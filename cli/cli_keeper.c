/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_keeper.h"

#include "cli.h"
#include "cli_session.h"
#include "gp_err.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---------------------------------------------------------- the new process -- */

static void
on_run_ended(struct gp_loop_fd *src, uint32_t revents)
{
    (void)revents;
    _exit(src->fd < 0);
}

/* In the new process; the loop that it had as a copy is its parent's. */
static void
keep(struct cli_session *session, int fd)
{
    struct gp_loop_fd src = {.fd = -1};
    struct gp_loop *loop;

    setpgid(0, 0);            /* a stop of the terminal's job does not reach it */
    signal(SIGTTOU, SIG_IGN); /* nor do its warnings stop it */
    session->report_fd = fd;
    if (gp_loop_new(&loop, NULL) < 0 || cli_session_keep(session, loop, NULL) < 0 ||
        gp_loop_fd_add(loop, &src, fd, EPOLLIN, on_run_ended) < 0)
        _exit(CLI_FAILED);
    gp_loop_run(loop);
    _exit(CLI_FAILED);
}

/* ------------------------------------------------------------- gpupool run -- */

/* It says that the session is lost, or it has ended itself. */
static void
on_word(struct gp_loop_fd *src, uint32_t revents)
{
    struct cli_keeper *keeper = container_of(src, struct cli_keeper, src);
    struct cli_session *s = keeper->session;
    ssize_t n = recv(src->fd, s->lost_words, sizeof(s->lost_words) - 1, MSG_DONTWAIT);

    (void)revents;
    if (n < 0)
        return;
    s->lost_words[n] = 0;
    s->lost = n > 0;
    if (n == 0) {
        gp_loop_fd_del(src);
        cli_session_resume(s, keeper->loop);
    }
}

int
cli_keeper_start(struct cli_keeper *keeper, struct cli_session *session,
                 struct gp_loop *loop, struct gp_err *err)
{
    int ends[2], r;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return gp_err_set(err, -errno, "socketpair: %s", strerror(errno));
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        keep(session, ends[1]);
    }
    close(ends[1]);
    r = pid < 0 ? -errno : 0;
    *keeper = (struct cli_keeper){.session = session, .loop = loop, .pid = pid};
    if (!r)
        r = gp_loop_fd_add(loop, &keeper->src, ends[0], EPOLLIN, on_word);
    if (r < 0) {
        close(ends[0]);
        keeper->pid = 0;
        return gp_err_set(err, r, "fork: %s", strerror(-r));
    }
    cli_ctl_close(&session->ctl); /* the connection is the process's alone */
    return 0;
}

void
cli_keeper_stop(struct cli_keeper *keeper)
{
    int fd = keeper->src.fd;

    if (!keeper->pid)
        return;
    if (keeper->src.loop)
        on_word(&keeper->src, 0); /* what it said last */
    gp_loop_fd_del(&keeper->src);
    close(fd);
    while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    keeper->pid = 0;
}
