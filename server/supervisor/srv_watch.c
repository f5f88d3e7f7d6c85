/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_watch.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "gp_str.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_health.h"
#include "srv_inventory.h"
#include "srv_jail.h"
#include "srv_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#define PAUSE_MS 10000
#define LINE_MAX_BYTES 256

struct srv_watch {
    struct srv *srv;
    pid_t pid; /* 0: it does not run */
    struct gp_loop_fd out;
    struct gp_loop_timer again;
    char line[LINE_MAX_BYTES];
    size_t len;
};

/* "xid GPU-... 79", "ecc GPU-..." */
static void
take_line(struct srv_watch *watch, const char *line)
{
    uint8_t uuid[TICKET_UUID_SIZE];
    char kind[8], text[64];
    uint64_t code = 0;

    if (sscanf(line, "%7s %63s %" SCNu64, kind, text, &code) < 2 ||
        ticket_uuid_parse(text, uuid) < 0)
        gp_log_warn("server", "the watch over the cards says `%s`", line);
    else if (!strcmp(kind, "xid"))
        srv_health_xid(watch->srv, uuid, code);
    else
        srv_health_ecc(watch->srv, uuid);
}

static void
on_output(struct gp_loop_fd *src, uint32_t revents)
{
    struct srv_watch *watch = container_of(src, struct srv_watch, out);
    ssize_t n =
        read(src->fd, watch->line + watch->len, sizeof(watch->line) - 1 - watch->len);
    char *end;

    (void)revents;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        gp_loop_fd_del(src);
        close(src->fd);
        src->fd = -1;
        return; /* its end is reaped */
    }
    watch->len += (size_t)n;
    watch->line[watch->len] = 0;
    while ((end = strchr(watch->line, '\n'))) {
        *end = 0;
        take_line(watch, watch->line);
        watch->len -= (size_t)(end + 1 - watch->line);
        memmove(watch->line, end + 1, watch->len + 1);
    }
    if (watch->len == sizeof(watch->line) - 1)
        watch->len = 0; /* no line is that long */
}

static int
start(struct srv_watch *watch, struct gp_err *err)
{
    struct srv *srv = watch->srv;
    char user[64] = "";
    const char *argv[] = {"gpupool-worker",
                          "--probe",
                          "--driver",
                          srv->conf.driver,
                          "--read",
                          srv->conf.worker_read,
                          "--user",
                          user,
                          "--events",
                          "yes",
                          NULL};
    struct srv_spawn spawn = {
        .conf = &srv->conf, .program = srv->program, .jail = srv->jail, .argv = argv};
    CLEANUP_FD int write_end = -1;
    int fds[2], r;

    srv_jail_user(srv->jail, NULL, user);
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return gp_err_set(err, -errno, "pipe: %s", strerror(errno));
    write_end = fds[1];
    fcntl(write_end, F_SETFL, 0);
    spawn.stdout_fd = write_end;
    r = srv_spawn(&spawn, &watch->pid, err);
    if (r == 0)
        r = gp_loop_fd_add(srv->loop, &watch->out, fds[0], EPOLLIN, on_output);
    if (r < 0)
        close(fds[0]);
    watch->len = 0;
    return r;
}

static void
on_again(struct gp_loop_timer *timer)
{
    struct srv_watch *watch = container_of(timer, struct srv_watch, again);
    struct gp_err err = {0};
    int r = start(watch, &err);

    if (r < 0)
        gp_log_warn("server", "errors of the cards are not watched: %s",
                    gp_err_msg(&err, r));
}

int
srv_watch_start(struct srv *srv, struct srv_watch **ret, struct gp_err *err)
{
    struct srv_watch *watch;
    int r;

    if (!srv_inventory_reports(srv->inventory))
        return 0;
    watch = calloc(1, sizeof(*watch));
    if (!watch)
        return gp_err_set(err, -ENOMEM, "out of memory");
    watch->srv = srv;
    watch->out.fd = -1;
    r = start(watch, err);
    if (r < 0) {
        srv_watch_free(watch);
        return r;
    }
    *ret = watch;
    return 0;
}

void
srv_watch_free(struct srv_watch *watch)
{
    if (!watch)
        return;
    gp_loop_timer_del(&watch->again);
    gp_loop_fd_del(&watch->out);
    if (watch->out.fd >= 0)
        close(watch->out.fd);
    if (watch->pid > 0)
        kill(watch->pid, SIGKILL);
    free(watch);
}

bool
srv_watch_reaped(struct srv_watch *watch, pid_t pid, int status)
{
    if (!watch || watch->pid != pid)
        return false;
    watch->pid = 0;
    if (watch->srv->stopping || watch->srv->leaving)
        return true;
    gp_log_warn("server",
                "the watch over the cards has ended (%s %d); the cards are checked",
                WIFEXITED(status) ? "exit status" : "signal",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    if (watch->out.fd >= 0)
        on_output(&watch->out, 0); /* what it said last */
    gp_loop_fd_del(&watch->out);
    if (watch->out.fd >= 0)
        close(watch->out.fd);
    watch->out.fd = -1;
    srv_health_check_all(watch->srv);
    gp_loop_timer_set(watch->srv->loop, &watch->again,
                      gp_now_ns() + PAUSE_MS * GP_NS_PER_MS, on_again);
    return true;
}
