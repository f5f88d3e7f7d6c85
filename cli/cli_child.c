/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_child.h"

#include "cli.h"
#include "gp_err.h"
#include "gp_private.h"
#include "gp_str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

static const int FORWARDED[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};

static void
reap(struct cli_child *child)
{
    int status;

    if (!child->pid || waitpid(child->pid, &status, WNOHANG) != child->pid)
        return;
    child->pid = 0;
    child->status = status;
    gp_loop_stop(child->loop, 0);
}

static void
on_signals(struct gp_loop_fd *src, uint32_t revents)
{
    struct cli_child *child = container_of(src, struct cli_child, signals);
    struct signalfd_siginfo info;

    while (read(src->fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            reap(child);
        else if (child->pid && info.ssi_code != SI_KERNEL)
            kill(child->pid, (int)info.ssi_signo);
    }
}

int
cli_child_init(struct cli_child *child, struct gp_loop *loop, struct gp_err *err)
{
    sigset_t mask;
    int fd, r;

    memset(child, 0, sizeof(*child));
    child->loop = loop;
    child->signals.fd = -1;
    getrlimit(RLIMIT_CORE, &child->core);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    for (size_t i = 0; i < ARRAY_SIZE(FORWARDED); i++)
        sigaddset(&mask, FORWARDED[i]);
    if (sigprocmask(SIG_BLOCK, &mask, &child->old_mask) < 0)
        return gp_err_set(err, -errno, "signals: %s", strerror(errno));
    fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return gp_err_set(err, -errno, "signals: %s", strerror(errno));
    r = gp_loop_fd_add(loop, &child->signals, fd, EPOLLIN, on_signals);
    if (r < 0) {
        close(fd);
        return gp_err_set(err, r, "signals: %s", strerror(-r));
    }
    return 0;
}

/* In the new process.  Tells the parent errno through @report when exec fails. */
static void
become(const struct cli_child *child, pid_t parent, char **argv, int report)
{
    int error;

    /* A program whose session is being taken away should not outlive us unseen. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(CLI_FAILED);
    sigprocmask(SIG_SETMASK, &child->old_mask, NULL);
    gp_private_restore(&child->core);
    execvp(argv[0], argv);
    error = errno;
    if (write(report, &error, sizeof(error)) < 0)
        _exit(CLI_FAILED);
    _exit(CLI_NOT_FOUND);
}

static bool
is_program(const char *folder, size_t len, const char *name)
{
    CLEANUP_FREE char *path =
        gp_str_printf("%.*s/%s", len ? (int)len : 1, len ? folder : ".", name);

    return path && !access(path, X_OK);
}

/* What is there and cannot be executed is left to execvp(), which knows why. */
int
cli_child_check(const char *command, const char *program)
{
    const char *path = getenv("PATH");

    if (strchr(program, '/'))
        return access(program, F_OK) == 0 ? CLI_OK
                                          : cli_fail(CLI_NOT_FOUND, "%s: %s: %s",
                                                     command, program, strerror(errno));
    for (path = path ? path : "/usr/bin:/bin"; path;) {
        size_t len = strcspn(path, ":");

        if (is_program(path, len, program))
            return CLI_OK;
        path = path[len] ? path + len + 1 : NULL;
    }
    return cli_fail(CLI_NOT_FOUND, "%s: %s: no such program in PATH", command, program);
}

int
cli_child_start(struct cli_child *child, char **argv, struct gp_err *err)
{
    int report[2], error = 0;
    pid_t pid, parent = getpid();

    if (pipe2(report, O_CLOEXEC) < 0)
        return gp_err_set(err, -errno, "pipe: %s", strerror(errno));
    pid = fork();
    if (pid == 0)
        become(child, parent, argv, report[1]);
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        return gp_err_set(err, -errno, "fork: %s", strerror(errno));
    }
    child->pid = pid;
    if (read(report[0], &error, sizeof(error)) != sizeof(error))
        error = 0; /* closed by a successful exec */
    close(report[0]);
    if (!error)
        return 0;
    waitpid(pid, NULL, 0);
    child->pid = 0;
    return gp_err_set(err, -error, "%s: %s", argv[0], strerror(error));
}

void
cli_child_fini(struct cli_child *child)
{
    int fd = child->signals.fd;

    if (fd < 0)
        return;
    gp_loop_fd_del(&child->signals);
    close(fd);
    child->signals.fd = -1;
}

int
cli_child_exit(const struct cli_child *child)
{
    return WIFSIGNALED(child->status) ? 128 + WTERMSIG(child->status)
                                      : WEXITSTATUS(child->status);
}
