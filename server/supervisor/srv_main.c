/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-server: options, start, signals, stop.  See srv.h for what it is.
 *
 *     gpupool-server ---- one event loop: listens, checks tickets, reaps
 *       |-- gpupool-worker --probe     once, at the start: which cards are there
 *       |-- gpupool-worker s7.c1       one per client process; owns its socket
 *       `-- gpupool-worker s7.c2
 *
 * Workers are killed by the kernel when their parent dies, whatever kills it.  With
 * --state-dir that is not this process but its keeper (srv_keeper_main.h), which is the
 * same program under another name.
 */
#include "srv.h"

#include "gp_audit.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_metrics.h"
#include "gp_net.h"
#include "gp_notify.h"
#include "gp_private.h"
#include "gp_size.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_x25519.h"
#include "srv_adopt.h"
#include "srv_arbiter.h"
#include "srv_attach.h"
#include "srv_device_files.h"
#include "srv_disposal.h"
#include "srv_health.h"
#include "srv_images.h"
#include "srv_inventory.h"
#include "srv_jail.h"
#include "srv_keeper.h"
#include "srv_keeper_main.h"
#include "srv_metrics.h"
#include "srv_pin.h"
#include "srv_register.h"
#include "srv_reload.h"
#include "srv_session.h"
#include "srv_spawn.h"
#include "srv_state.h"
#include "srv_watch.h"
#include "srv_worker.h"
#include "ticket_keys.h"
#include "tls_handshake.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>

void
srv_changed(struct srv *srv)
{
    srv_register_changed(srv->reg);
}

static void
on_accept(struct gp_listener *listener, int fd)
{
    srv_attach_accept(container_of(listener, struct srv, listener), fd, false);
}

static void
on_accept_local(struct gp_listener *listener, int fd)
{
    srv_attach_accept(container_of(listener, struct srv, local_listener), fd, true);
}

static void
on_trouble(struct gp_listener *listener, int error)
{
    gp_listener_log_trouble(&container_of(listener, struct srv, listener)->accept_log,
                            "server", error);
}

static void
on_trouble_local(struct gp_listener *listener, int error)
{
    gp_listener_log_trouble(
        &container_of(listener, struct srv, local_listener)->accept_log, "server",
        error);
}

static void
stop_now(struct srv *srv)
{
    gp_loop_timer_del(&srv->stop_timer);
    gp_listener_fini(&srv->listener);
    gp_listener_fini(&srv->local_listener);
    srv_attach_free_all(srv);
    srv_register_leave(srv->reg);
    gp_log_info("server", "stopped");
    gp_loop_stop(srv->loop, 0);
}

static void
on_stop_deadline(struct gp_loop_timer *timer)
{
    stop_now(container_of(timer, struct srv, stop_timer));
}

/* The last worker of a stopping server is gone. */
static void
stop_when_empty(struct srv *srv)
{
    if (!srv->stopping || srv->n_workers > 0)
        return;
    if (srv->untold)
        gp_loop_timer_set(srv->loop, &srv->stop_timer,
                          gp_now_ns() + SRV_ASKED_MS * GP_NS_PER_MS, on_stop_deadline);
    else
        stop_now(srv);
}

static void
stop(struct srv *srv)
{
    if (srv->stopping)
        return;
    srv->stopping = true;
    gp_notify("STOPPING=1");
    gp_log_info("server", "stopping: %u %s to end", srv->n_workers,
                gp_plural(srv->n_workers, "worker", "workers"));
    srv_attach_free_all(srv);
    srv_worker_end_all(srv, "the server is stopping");
    gp_loop_timer_set(srv->loop, &srv->stop_timer,
                      gp_now_ns() + 2 * SRV_GRACE_MS * GP_NS_PER_MS, on_stop_deadline);
    stop_when_empty(srv);
}

/* ---- leaving ---- */

/* Connections that have not been answered are not cut: until they are, or for so long.
 */
#define LEAVE_MS 1000
#define LEAVE_LOOK_MS 5

static void
on_leave(struct gp_loop_timer *timer)
{
    struct srv *srv = container_of(timer, struct srv, stop_timer);
    uint64_t now = gp_now_ns();

    if (srv->n_pending && now < srv->leave_ns)
        gp_loop_timer_set(srv->loop, timer, now + LEAVE_LOOK_MS * GP_NS_PER_MS,
                          on_leave);
    else
        gp_loop_stop(srv->loop, 0);
}

/* The workers go on, and wait for another supervisor. */
static void
leave(struct srv *srv, bool again)
{
    if (srv->stopping || srv->leaving)
        return;
    if (!srv->keeper) {
        gp_log_warn("server",
                    "asked to leave its workers to a successor, but it has no "
                    "--state-dir, or --adopt-window is 0");
        return;
    }
    gp_log_info("server", "%s; %u %s on",
                again ? "starting anew" : "ending for a successor", srv->n_workers,
                gp_plural(srv->n_workers, "worker goes", "workers go"));
    /* A successor of the same process is ready when it says so. */
    gp_notify(again ? "RELOADING=1" : "STOPPING=1");
    srv->leaving = true;
    srv->again = again;
    srv->leave_ns = gp_now_ns() + LEAVE_MS * GP_NS_PER_MS;
    gp_listener_fini(&srv->listener);
    gp_listener_fini(&srv->local_listener);
    on_leave(&srv->stop_timer);
}

/* ---- signals ---- */

/* From the end of a dying process's connections to the end of itself. */
#define KEEPER_END_MS 200

/* A connection can end without its process, such as by a call that has failed: then
 * what it keeps is for a successor. */
static bool
keeper_lives(const struct srv *srv)
{
    CLEANUP_FD int fd = pidfd_open(srv_keeper_pid(srv->keeper), 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};

    return fd >= 0 && poll(&ended, 1, KEEPER_END_MS) == 0;
}

static void
on_ended(void *arg, uint64_t key, pid_t pid, int status)
{
    struct srv *srv = arg;

    (void)key;
    if (pid) {
        srv_worker_reaped(srv, pid, status);
        stop_when_empty(srv);
        return;
    }
    if (srv->stopping)
        return;
    srv->leaving = keeper_lives(srv);
    gp_log_error("server",
                 srv->leaving ? "the keeper has ended the connection: a successor will "
                                "find it and the workers"
                              : "the keeper has died, and its workers with it");
    gp_loop_stop(srv->loop, -EPIPE);
}

static void
reap(struct srv *srv)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (!srv_worker_reaped(srv, pid, status) &&
            !srv_health_reaped(srv->health, pid, status) &&
            !srv_watch_reaped(srv->watch, pid, status))
            srv_inventory_reaped(srv->inventory, pid, status);
    }
    stop_when_empty(srv);
}

static void
on_signal(struct gp_loop *loop, int signo, void *arg)
{
    (void)loop;
    if (signo == SIGCHLD)
        reap(arg);
    else if (signo == SIGHUP)
        srv_reload(arg);
    else if (signo == SIGUSR1 || signo == SIGUSR2)
        leave(arg, signo == SIGUSR1);
    else
        stop(arg);
}

/* Numbers of listening sockets at the keeper. */
enum door { DOOR_TCP, DOOR_LOCAL };

/* The address given to clients: the advertised one, with the real port. */
static int
make_endpoint(struct srv *srv, int fd, struct gp_err *err)
{
    const char *text = srv->conf.advertise[0] ? srv->conf.advertise : srv->conf.listen;
    struct gp_net_addr addr;
    unsigned port = gp_net_port(fd);
    int r = gp_net_parse(text, port, &addr, err);

    if (r < 0)
        return r;
    if (!srv->conf.advertise[0] || strcmp(addr.port, "0") == 0)
        snprintf(addr.port, sizeof(addr.port), "%u", port);
    snprintf(srv->endpoint, sizeof(srv->endpoint),
             strchr(addr.host, ':') ? "[%s]:%s" : "%s:%s", addr.host, addr.port);
    return 0;
}

static int
write_ready(const struct srv *srv, struct gp_err *err)
{
    CLEANUP_FREE char *line = gp_str_printf("%s\n", srv->endpoint);

    if (!srv->conf.ready_file[0])
        return 0;
    if (!line)
        return -ENOMEM;
    return gp_file_replace(srv->conf.ready_file, line, strlen(line), 0644, err);
}

/* A socket that listens already has connections in its queue that came meanwhile. */
static int
listen_at(struct srv *srv, enum door door, const char *address, int *ret_fd,
          struct gp_err *err)
{
    int fd = srv_adopt_listener(srv->adopt, srv->keeper, door, address);
    int r = 0;

    /* Its file may have gone with the folder. */
    if (fd >= 0 && door == DOOR_LOCAL && access(address + strlen("unix:"), F_OK) < 0) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        r = gp_net_listen(address, SRV_DEFAULT_PORT, SOMAXCONN, &fd, err);
    if (r < 0)
        return r;
    if (door == DOOR_LOCAL)
        gp_net_pass_fds(fd, false); /* that of an older supervisor takes them */
    srv_keeper_put(srv->keeper, SRV_KEEP_LISTENER, door, srv_adopt_address(address),
                   &fd, 1);
    *ret_fd = fd;
    return 0;
}

static int
open_local(struct srv *srv, struct gp_err *err)
{
    int fd;
    int r;

    if (!srv->conf.local[0])
        return 0;
    r = listen_at(srv, DOOR_LOCAL, srv->conf.local, &fd, err);
    if (r < 0)
        return r;
    r = gp_listener_init(&srv->local_listener, srv->loop, fd, on_accept_local,
                         on_trouble_local);
    if (r < 0)
        close(fd);
    srv->local_open = r == 0;
    return r;
}

static void
on_alarm(struct gp_loop_fd *src, uint32_t revents)
{
    uint64_t times;

    (void)revents;
    if (read(src->fd, &times, sizeof(times)) == (ssize_t)sizeof(times))
        srv_worker_overdue(container_of(src, struct srv, alarm));
}

static int
start_arbiter(struct srv *srv, struct gp_err *err)
{
    const struct srv_keep_fds *kept = srv_adopt_find(srv->adopt, SRV_KEEP_ARBITER);
    int r = srv_arbiter_adopt(srv_inventory_count(srv->inventory),
                              kept ? kept->fd[0] : -1, &srv->arbiter, err);
    int fd;

    if (r < 0)
        return r;
    fd = srv_arbiter_kept(srv->arbiter);
    srv_keeper_put(srv->keeper, SRV_KEEP_ARBITER, 0, 0, &fd, 1);
    r = gp_loop_fd_add(srv->loop, &srv->alarm, srv_arbiter_alarm(srv->arbiter), EPOLLIN,
                       on_alarm);
    return r < 0 ? gp_err_set(err, r, "alarm of the arbiter") : 0;
}

/* The cards are known: clients may come. */
static int
open_doors(struct srv *srv, struct gp_err *err)
{
    CLEANUP_FD int fd = -1;
    int r = listen_at(srv, DOOR_TCP, srv->conf.listen, &fd, err);

    if (r < 0)
        return r;
    r = make_endpoint(srv, fd, err);
    if (r < 0)
        return r;
    r = gp_listener_init(&srv->listener, srv->loop, fd, on_accept, on_trouble);
    if (r < 0)
        return r;
    fd = -1;
    r = open_local(srv, err);
    if (r < 0)
        return r;
    gp_log_info("server", "%s listens on %s, driver %s, %u %s", srv->conf.name,
                srv->endpoint, srv->conf.driver, srv_inventory_count(srv->inventory),
                gp_plural(srv_inventory_count(srv->inventory), "card", "cards"));
    r = start_arbiter(srv, err);
    if (r < 0)
        return r;
    srv_adopt_take(srv, srv->adopt);
    srv_adopt_free(TAKE_PTR(srv->adopt));
    srv->starting = false;
    r = srv_keeper_watch(srv->keeper, srv->loop, on_ended, srv, err);
    if (r == 0)
        r = srv_watch_start(srv, &srv->watch, err);
    if (r == 0)
        r = srv_metrics_start(srv, err);
    if (r == 0)
        r = srv_register_start(srv, &srv->reg, err);
    if (r == 0)
        r = write_ready(srv, err);
    if (r == 0)
        gp_notify("READY=1");
    return r;
}

static void
on_inventory(struct srv *srv, int result)
{
    struct gp_err err = {0};
    int r = result;

    if (r == 0 && !srv->stopping) {
        srv_inventory_keep(srv->inventory, srv->keeper);
        r = open_doors(srv, &err);
        if (r < 0)
            gp_log_error("server", "%s", gp_err_msg(&err, r));
    }
    if (r < 0)
        gp_loop_stop(srv->loop, r);
}

static int
start_images(struct srv *srv, struct gp_err *err)
{
    const char *text = srv->conf.image_cache;

    srv->image_bytes = SRV_IMAGES_BYTES;
    if (strcmp(text, "off") == 0)
        srv->image_bytes = 0;
    else if (*text && gp_size_parse(text, &srv->image_bytes) < 0)
        return gp_err_set(err, -EINVAL, "--image-cache %s: a size, or off", text);
    return srv_images_new(srv->image_bytes, &srv->images);
}

/* Three descriptors for each attachment, two for each session; the usual soft limit of
 * 1024 is there for programs that use select(). */
static void
raise_file_limit(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        gp_log_warn("server", "cannot raise the limit of open files: %s",
                    strerror(errno));
}

/* What clients' proofs and TLS are made for (attach_proof.h).  Kept, so that sessions
 * of before a restart still fit. */
static int
attach_secret(struct srv *srv, struct gp_err *err)
{
    CLEANUP_FREE char *path = gp_str_printf("%s/attach.key", srv->conf.state_dir);
    bool keep = srv->conf.state_dir[0];
    int r = 0;

    if (!path)
        return -ENOMEM;
    if (keep && access(path, F_OK) == 0) {
        CLEANUP_FREE char *text = NULL;
        size_t size;

        r = gp_file_read(path, ATTACH_KEY_SIZE, &text, &size, err);
        if (r == 0 && size != ATTACH_KEY_SIZE)
            r = gp_err_set(err, -EBADMSG, "%s is no key of %d bytes; remove it", path,
                           ATTACH_KEY_SIZE);
        if (r < 0)
            return r;
        memcpy(srv->secret, text, ATTACH_KEY_SIZE);
        explicit_bzero(text, size);
    } else if (gp_x25519_new(srv->secret) < 0) {
        return gp_err_set(err, -EIO, "no random bytes");
    } else if (keep) {
        r = gp_file_mkdirs(srv->conf.state_dir, 0700, err);
        if (r == 0)
            r = gp_file_replace(path, srv->secret, ATTACH_KEY_SIZE, 0600, err);
    }
    gp_x25519_public(srv->secret, srv->public);
    return r;
}

static int
start_tls(struct srv *srv, struct gp_err *err)
{
    int r = tls_policy_parse(srv->conf.tls, "--tls", &srv->tls_policy, err);

    if (r < 0 || srv->tls_policy == TLS_OFF)
        return r;
    return tls_context_psk(srv_attach_find_psk, srv, &srv->tls, err);
}

/* What a supervisor before this one left, if it can be taken over. */
static int
find_kept(struct srv *srv, struct gp_err *err)
{
    struct gp_err why = {0};
    const struct srv_keep_fds *state;
    int r;

    if (!srv->conf.state_dir[0] || !srv->conf.adopt_window_s)
        return 0;
    r = srv_keeper_find(&srv->conf, &srv->keeper, &why);
    if (r == 0 && srv->keeper)
        r = srv_adopt_load(srv, &srv->adopt, &why);
    if (r < 0 && r != -EPROTO)
        return gp_err_set(err, r, "%s", gp_err_msg(&why, r));
    state = srv_adopt_find(srv->adopt, SRV_KEEP_STATE);
    if (r == 0 && state)
        r = srv_state_adopt(&srv->conf, state->fd[0], &srv->state, &why);
    if (r < 0) {
        gp_log_warn("server", "%s: workers of before are ended", gp_err_msg(&why, r));
        srv_adopt_free(TAKE_PTR(srv->adopt));
        srv_keeper_end(srv->keeper, true);
        srv_keeper_free(TAKE_PTR(srv->keeper));
    }
    /* Whatever fails from here on, another one may try again. */
    srv->starting = srv->state != NULL;
    return 0;
}

/* After the control groups, in which the keeper has to be. */
static int
start_keeper(struct srv *srv, struct gp_err *err)
{
    int r = 0;

    if (!srv->keeper && srv->conf.state_dir[0] && srv->conf.adopt_window_s)
        r = srv_keeper_start(&srv->conf, &srv->keeper, err);
    if (r == 0 && !srv->state)
        r = srv_state_new(&srv->conf, srv->keeper, &srv->state, err);
    if (r < 0)
        return r;
    srv_images_use_keeper(srv->images, srv->keeper, &srv->state->next_key);
    srv_jail_keep(srv->jail, srv->keeper);
    return 0;
}

static int
find_cards(struct srv *srv, struct gp_err *err)
{
    const struct srv_keep_fds *kept = srv_adopt_find(srv->adopt, SRV_KEEP_PROBE);
    int r = srv_health_new(srv, &srv->health, err);

    if (r < 0)
        return r;
    if (!kept) {
        srv_device_files_make(srv->conf.driver);
        return srv_inventory_start(srv, on_inventory, &srv->inventory, err);
    }
    r = srv_inventory_adopt(srv, kept->fd[0], &srv->inventory, err);
    if (r == 0)
        r = open_doors(srv, err);
    return r;
}

#define LIMITS_NS GP_NS_PER_S

static void
on_limits(struct gp_loop_timer *timer)
{
    struct srv *srv = container_of(timer, struct srv, limits);

    srv_worker_end_overfull(srv);
    gp_loop_timer_set(srv->loop, timer, gp_now_ns() + LIMITS_NS, on_limits);
}

static void
on_alive(struct gp_loop_timer *timer)
{
    struct srv *srv = container_of(timer, struct srv, alive);
    uint64_t now = gp_now_ns();

    gp_notify_alive(now);
    gp_loop_timer_set(srv->loop, timer, now + gp_notify_period_ns(), on_alive);
}

static int
serve(struct srv *srv, struct gp_err *err)
{
    static const int signals[] = {SIGTERM, SIGINT,  SIGHUP, SIGCHLD,
                                  SIGUSR1, SIGUSR2, 0};
    int r = gp_loop_new(&srv->loop, err);

    if (r == 0)
        r = gp_loop_signals(srv->loop, signals, on_signal, srv, err);
    if (r == 0 && srv->conf.audit_log[0])
        r = gp_audit_open(srv->conf.audit_log, err);
    if (r == 0)
        r = srv_rates_init(&srv->rates, srv->conf.rate_connections,
                           srv->conf.rate_attaches, srv->conf.rate_refusals);
    if (r == 0)
        r = srv_spawn_open(&srv->conf, &srv->program, err);
    if (r == 0)
        r = attach_secret(srv, err);
    if (r == 0)
        r = start_tls(srv, err);
    if (r == 0)
        r = srv_pin_load(srv, err);
    if (r == 0)
        r = srv_closed_init(&srv->closed, srv->conf.state_dir, err);
    if (r == 0)
        r = start_images(srv, err);
    if (r == 0)
        r = find_kept(srv, err);
    if (r == 0)
        r = srv_disposal_new(&srv->disposal, err);
    if (r == 0) {
        srv_images_use_disposal(srv->images, srv->disposal);
        r = srv_jail_new(&srv->conf, srv->disposal,
                         srv_adopt_find(srv->adopt, SRV_KEEP_JAIL), &srv->jail, err);
    }
    if (r == 0)
        r = start_keeper(srv, err);
    if (r == 0)
        r = find_cards(srv, err);
    if (r < 0)
        return r;
    srv_session_start_expiry(srv);
    if (srv_jail_soft(srv->jail))
        on_limits(&srv->limits);
    if (gp_notify_period_ns())
        gp_loop_timer_set(srv->loop, &srv->alive, gp_now_ns(), on_alive);
    return gp_loop_run(srv->loop);
}

/* What this server leaves on the host besides processes. */
static void
remove_files(const struct srv *srv)
{
    if (srv->local_open)
        unlink(srv->conf.local + strlen("unix:"));
    if (srv->conf.ready_file[0])
        unlink(srv->conf.ready_file);
}

static void
end_workers(struct srv *srv)
{
    for (struct srv_worker *w = srv->workers; w; w = w->next)
        kill(w->pid, SIGKILL);
    srv_keeper_end(srv->keeper, true);
}

static void
srv_fini(struct srv *srv)
{
    srv->leaving |= srv->starting;
    gp_loop_timer_del(&srv->expiry);
    gp_loop_timer_del(&srv->alive);
    gp_loop_timer_del(&srv->limits);
    gp_metrics_stop(srv->metrics);
    srv_register_free(srv->reg);
    srv->reg = NULL;
    srv_attach_free_all(srv);
    if (!srv->leaving)
        end_workers(srv);
    gp_loop_fd_del(&srv->alarm);
    srv_arbiter_free(srv->arbiter); /* its thread uses what is freed now */
    srv_worker_free_all(srv);
    while (srv->sessions)
        srv_session_free(srv->sessions);
    srv_images_free(srv->images);
    srv_disposal_free(srv->disposal, !srv->leaving);
    srv_watch_free(srv->watch);
    srv_health_free(srv->health);
    srv_inventory_free(srv->inventory);
    if (srv->leaving)
        srv_jail_abandon(srv->jail, srv->again);
    else
        srv_jail_free(srv->jail);
    srv_rates_fini(&srv->rates);
    ticket_keys_free(srv->keys);
    srv_closed_fini(&srv->closed);
    tls_context_free(srv->tls);
    gp_listener_fini(&srv->listener);
    gp_listener_fini(&srv->local_listener);
    if (!srv->leaving)
        remove_files(srv);
    srv_adopt_free(srv->adopt);
    srv_state_free(srv->state);
    if (srv->program >= 0)
        close(srv->program);
    srv_keeper_free(srv->keeper); /* last: now another one may come */
    gp_loop_free(srv->loop);
}

/* The program as it is on disk now, in this process. */
static int
start_again(const char *program, char **argv)
{
    execv(program, argv);
    gp_log_error("server", "%s: %s", program, strerror(errno));
    return 1;
}

static void
say_why(const char *words, int error)
{
    bool files = error == -EMFILE && !strstr(words, "RLIMIT_NOFILE");

    gp_log_error("server", "%s%s", words,
                 files ? ": the limit of open files (RLIMIT_NOFILE, ulimit -n, "
                         "LimitNOFILE= of the unit) is too low"
                       : "");
}

int
main(int argc, char **argv)
{
    struct srv srv = {.program = -1,
                      .accept_log = {.burst = 5, .period_s = 60},
                      .crowd_log = {.burst = 5, .period_s = 60},
                      .refusal_log = {.burst = 100, .period_s = 10}};
    char program[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
    struct gp_err err = {0};
    int r;

    gp_private_begin(NULL);
    if (strcmp(argv[0], SRV_KEEPER_NAME) == 0)
        return srv_keeper_main();
    program[gp_max(len, (ssize_t)0)] = 0; /* before an upgrade puts another there */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error, not a death */
    srv.argc = argc;
    srv.argv = argv;
    r = srv_conf_parse(&srv.conf, argc, argv, &err);
    if (r > 0)
        return 0;
    if (r == 0)
        r = srv_conf_check_key(&srv.conf, &err);
    if (r < 0) {
        fprintf(stderr, "gpupool-server: %s\n", gp_err_msg(&err, r));
        return 2;
    }
    gp_log_init("server", GP_LOG_INFO);
    gp_log_warn_environment("server");
    raise_file_limit();
    r = serve(&srv, &err);
    if (r < 0 && err.code)
        say_why(gp_err_msg(&err, r), r);
    srv_fini(&srv);
    return srv.again ? start_again(program, argv) : r < 0 ? 1 : 0;
}
