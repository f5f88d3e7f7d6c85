/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_daemon.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#define LOG_LINES 8

static void
become(const char *const *argv, const char *env, int log_fd)
{
    sigset_t none;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    if (env)
        putenv((char *)env);
    execv(argv[0], (char *const *)argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

int
cli_daemon_start(const char *name, const char *const *argv, const char *env,
                 const char *log_path, struct cli_process *ret_process, int *ret_pidfd,
                 struct gp_err *err)
{
    CLEANUP_FD int log_fd =
        open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct cli_process process = {.pid = 0};
    CLEANUP_FD int pidfd = -1;
    int r;

    if (log_fd < 0)
        return gp_err_set(err, -errno, "%s: %s", log_path, strerror(errno));
    gp_str_copy(process.name, sizeof(process.name), name);
    process.pid = fork();
    if (process.pid == 0)
        become(argv, env, log_fd);
    if (process.pid < 0)
        return gp_err_set(err, -errno, "fork: %s", strerror(errno));
    /* Our own child that nobody has reaped: the number is certainly still its. */
    pidfd = pidfd_open(process.pid, 0);
    if (pidfd < 0)
        return gp_err_set(err, -errno, "%s: %s", name, strerror(errno));
    r = cli_process_start(process.pid, &process.start);
    if (r < 0 && access("/proc/self", F_OK) < 0) {
        /* It cannot be told from another of its number later. */
        kill(process.pid, SIGKILL);
        waitpid(process.pid, NULL, 0);
        return gp_err_set(err, -ENOENT, "%s: /proc is not mounted", name);
    }
    if (r < 0)
        return gp_err_set(err, -ECHILD, "%s ended at once", name);
    *ret_process = process;
    *ret_pidfd = TAKE_FD(pidfd);
    return 0;
}

int
cli_daemon_await_file(const char *folder, const char *path, int pidfd,
                      uint64_t deadline_ns, struct gp_err *err)
{
    CLEANUP_FD int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    struct pollfd fds[] = {{watch, POLLIN, 0}, {pidfd, POLLIN, 0}};
    char events[4096];

    if (watch < 0 || inotify_add_watch(watch, folder, IN_MOVED_TO | IN_CREATE) < 0)
        return gp_err_set(err, -errno, "%s: %s", folder, strerror(errno));
    while (access(path, R_OK) < 0) {
        int n = poll(fds, ARRAY_SIZE(fds), gp_poll_ms(deadline_ns));

        if (n < 0 && errno != EINTR)
            return gp_err_set(err, -errno, "poll: %s", strerror(errno));
        if (n == 0)
            return gp_err_set(err, -ETIMEDOUT, "it is not ready in time");
        if (fds[1].revents)
            return gp_err_set(err, -ECHILD, "it ended");
        while (read(watch, events, sizeof(events)) > 0)
            ; /* only the wake-up matters */
    }
    return 0;
}

void
cli_daemon_show_log(const char *log_path)
{
    CLEANUP_FREE char *text = NULL;
    size_t len, at;
    unsigned lines = 0;

    if (gp_file_read(log_path, 16 * 1024 * 1024, &text, &len, NULL) < 0 || !len)
        return;
    for (at = len - 1; at && lines < LOG_LINES; at--)
        lines += text[at - 1] == '\n';
    fprintf(stderr, "  the end of %s:\n", log_path);
    for (char *line = text + at + (at ? 1 : 0), *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        fprintf(stderr, "    %.*s\n", end ? (int)(end - line) : (int)strlen(line),
                line);
        if (!end)
            break;
    }
}
