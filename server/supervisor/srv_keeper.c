/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_keeper.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "gp_time.h"
#include "srv_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#define SOCKET_NAME "keeper.sock"
/* The keeper answers from memory; only a fork takes longer. */
#define ANSWER_S 5
/* For the lock of a keeper that is ending. */
#define LOCK_TRIES 500
#define LOCK_PAUSE_NS (10 * GP_NS_PER_MS)

struct srv_keeper {
    int sock;
    pid_t pid;
    struct gp_loop_fd exits; /* fd -1: not asked yet */
    srv_keeper_ended *ended;
    void *arg;
};

/* ---- reaching it ---- */

/* By the folder's descriptor, because a socket's path has at most 107 bytes. */
static struct sockaddr_un
address_of(int folder)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/" SOCKET_NAME,
             folder);
    return addr;
}

static int
open_folder(const struct srv_conf *conf, int *ret, struct gp_err *err)
{
    int r = gp_file_mkdirs(conf->state_dir, 0700, err);
    int fd = r < 0 ? -1 : open(conf->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (r < 0)
        return r;
    if (fd < 0)
        return gp_err_set(err, -errno, "%s: %s", conf->state_dir, strerror(errno));
    *ret = fd;
    return 0;
}

/* -ENOENT: nobody listens. */
static int
reach(int folder, int *ret_sock)
{
    struct timeval patience = {.tv_sec = ANSWER_S};
    struct sockaddr_un addr = address_of(folder);
    CLEANUP_FD int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct ucred who;
    socklen_t len = sizeof(who);

    if (sock < 0)
        return -errno;
    if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return errno == ECONNREFUSED ? -ENOENT : -errno;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ||
        (who.uid != geteuid() && who.uid != 0))
        return -EPERM;
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    *ret_sock = TAKE_FD(sock);
    return 0;
}

static int
call(struct srv_keeper *keeper, struct srv_keep_msg *msg,
     const struct srv_keep_fds *fds, struct srv_keep_fds *ret_fds)
{
    uint32_t order = msg->order;
    int r = srv_keep_send(keeper->sock, msg, fds);

    if (r == 0)
        r = srv_keep_recv(keeper->sock, msg, ret_fds, 0);
    if (r == 0 && msg->order != order) {
        srv_keep_fds_close(ret_fds);
        r = -EPROTO;
    }
    return r;
}

/* Whether the keeper is free. */
static int
come_in(struct srv_keeper *keeper, const struct srv_conf *conf, struct gp_err *err)
{
    struct srv_keep_fds none = {0};
    struct srv_keep_msg msg;
    int r = srv_keep_recv(keeper->sock, &msg, &none, 0);

    if (r < 0)
        return gp_err_set(err, r, "the keeper in %s does not answer: %s",
                          conf->state_dir, strerror(-r));
    srv_keep_fds_close(&none);
    if (msg.order == SRV_KEEP_BUSY)
        return gp_err_set(err, -EBUSY,
                          "another gpupool-server (process %u) uses the state "
                          "directory %s",
                          msg.number, conf->state_dir);
    return 0;
}

static int
greet(struct srv_keeper *keeper, const struct srv_conf *conf, struct gp_err *err)
{
    struct srv_keep_msg msg = {.order = SRV_KEEP_HELLO,
                               .sub = SRV_KEEP_VERSION,
                               .number = conf->adopt_window_s};
    struct srv_keep_fds fds = {0};
    int r = come_in(keeper, conf, err);

    if (r < 0)
        return r;
    r = call(keeper, &msg, NULL, &fds);
    if (r < 0)
        return gp_err_set(err, r, "the keeper in %s does not answer: %s",
                          conf->state_dir, strerror(-r));
    if (fds.n == 1)
        keeper->exits.fd = fds.fd[0];
    else
        srv_keep_fds_close(&fds);
    keeper->pid = (pid_t)msg.number;
    if (msg.sub == SRV_KEEP_VERSION && keeper->exits.fd >= 0)
        return 0;
    srv_keeper_end(keeper, true);
    return gp_err_set(err, -EPROTO,
                      "the keeper in %s is of another version: it and its workers "
                      "were ended",
                      conf->state_dir);
}

static int
adopt_socket(int sock, const struct srv_conf *conf, struct srv_keeper **ret,
             struct gp_err *err)
{
    struct srv_keeper *keeper = calloc(1, sizeof(*keeper));
    int r;

    if (!keeper) {
        close(sock);
        return gp_err_set(err, -ENOMEM, "no memory for the keeper");
    }
    keeper->sock = sock;
    keeper->exits.fd = -1;
    r = greet(keeper, conf, err);
    if (r < 0) {
        srv_keeper_free(keeper);
        return r;
    }
    *ret = keeper;
    return 0;
}

int
srv_keeper_find(const struct srv_conf *conf, struct srv_keeper **ret,
                struct gp_err *err)
{
    CLEANUP_FD int folder = -1;
    int sock, r;

    *ret = NULL;
    r = open_folder(conf, &folder, err);
    if (r < 0)
        return r;
    r = reach(folder, &sock);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return gp_err_set(err, r, "%s/" SOCKET_NAME ": %s", conf->state_dir,
                          strerror(-r));
    return adopt_socket(sock, conf, ret, err);
}

/* ---- starting one ---- */

/* In the new process. */
static _Noreturn void
become_keeper(int listener, int lock)
{
    char *const argv[] = {(char *)(uintptr_t)SRV_KEEPER_NAME, NULL};
    int high_listener = fcntl(listener, F_DUPFD, SRV_KEEPER_FD_LOCK + 1);
    int high_lock = fcntl(lock, F_DUPFD, SRV_KEEPER_FD_LOCK + 1);

    if (high_listener < 0 || high_lock < 0 ||
        dup2(high_listener, SRV_KEEPER_FD_LISTEN) < 0 ||
        dup2(high_lock, SRV_KEEPER_FD_LOCK) < 0)
        _exit(127);
    close(high_listener);
    close(high_lock);
    execv("/proc/self/exe", argv);
    _exit(127);
}

static int
listen_in(int folder)
{
    struct sockaddr_un addr = address_of(folder);
    CLEANUP_FD int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (sock < 0)
        return -errno;
    unlinkat(folder, SOCKET_NAME, 0); /* of a keeper that was killed */
    if (bind(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        fchmodat(folder, SOCKET_NAME, 0600, 0) < 0 || listen(sock, 16) < 0)
        return -errno;
    return TAKE_FD(sock);
}

/* A keeper that we have ended hangs up a moment before its lock is gone: the kernel
 * closes what a process leaves in an order of its own. */
static int
lock_folder(int folder)
{
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        if (flock(folder, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            return -errno;
        gp_sleep_ns(LOCK_PAUSE_NS);
    }
    return -EBUSY;
}

int
srv_keeper_start(const struct srv_conf *conf, struct srv_keeper **ret,
                 struct gp_err *err)
{
    CLEANUP_FD int folder = -1;
    CLEANUP_FD int listener = -1;
    int sock, r = open_folder(conf, &folder, err);
    pid_t pid;

    if (r < 0)
        return r;
    if (lock_folder(folder) < 0)
        return gp_err_set(err, -EBUSY,
                          "another gpupool-server uses the state directory %s",
                          conf->state_dir);
    listener = listen_in(folder);
    if (listener < 0)
        return gp_err_set(err, listener, "%s/" SOCKET_NAME ": %s", conf->state_dir,
                          strerror(-listener));
    pid = fork();
    if (pid < 0)
        return gp_err_set(err, -errno, "fork: %s", strerror(errno));
    if (pid == 0)
        become_keeper(listener, folder);
    r = reach(folder, &sock);
    if (r < 0)
        return gp_err_set(err, r, "%s/" SOCKET_NAME ": %s", conf->state_dir,
                          strerror(-r));
    return adopt_socket(sock, conf, ret, err);
}

void
srv_keeper_free(struct srv_keeper *keeper)
{
    if (!keeper)
        return;
    gp_loop_fd_del(&keeper->exits);
    if (keeper->exits.fd >= 0)
        close(keeper->exits.fd);
    close(keeper->sock);
    free(keeper);
}

/* ---- orders ---- */

static void
tell(struct srv_keeper *keeper, const struct srv_keep_msg *msg, const int *fds,
     unsigned n)
{
    struct srv_keep_fds all = {.n = n};
    int r;

    if (n)
        memcpy(all.fd, fds, n * sizeof(int));
    r = srv_keep_send(keeper->sock, msg, &all);
    /* Its end is noticed where its news are read. */
    if (r < 0 && r != -EPIPE && r != -ECONNRESET)
        gp_log_error("server", "the keeper: %s", strerror(-r));
}

int
srv_keeper_next(struct srv_keeper *keeper, struct srv_keep_msg *msg,
                struct srv_keep_fds *ret_fds)
{
    *msg = (struct srv_keep_msg){
        .order = SRV_KEEP_NEXT, .kind = msg->kind, .key = msg->key, .sub = msg->sub};
    return call(keeper, msg, NULL, ret_fds);
}

void
srv_keeper_put(struct srv_keeper *keeper, enum srv_keep_kind kind, uint64_t key,
               uint64_t sub, const int *fds, unsigned n)
{
    struct srv_keep_msg msg = {
        .order = SRV_KEEP_PUT, .kind = kind, .key = key, .sub = sub};

    if (keeper)
        tell(keeper, &msg, fds, n);
}

void
srv_keeper_set(struct srv_keeper *keeper, enum srv_keep_kind kind, uint64_t key,
               uint64_t sub, unsigned at, int fd)
{
    struct srv_keep_msg msg = {
        .order = SRV_KEEP_SET, .kind = kind, .key = key, .sub = sub, .number = at};

    if (keeper)
        tell(keeper, &msg, &fd, 1);
}

void
srv_keeper_drop(struct srv_keeper *keeper, enum srv_keep_kind kind, uint64_t key,
                uint64_t sub)
{
    struct srv_keep_msg msg = {
        .order = SRV_KEEP_DROP, .kind = kind, .key = key, .sub = sub};

    if (keeper)
        tell(keeper, &msg, NULL, 0);
}

pid_t
srv_keeper_start_worker(struct srv_keeper *keeper, struct srv_keep_msg *msg,
                        const struct srv_keep_fds *fds)
{
    struct srv_keep_fds none = {0};
    int r;

    msg->order = SRV_KEEP_START;
    r = call(keeper, msg, fds, &none);
    if (r == 0)
        srv_keep_fds_close(&none);
    return r < 0 ? r : msg->result;
}

static void
on_exits(struct gp_loop_fd *src, uint32_t revents)
{
    struct srv_keeper *keeper = container_of(src, struct srv_keeper, exits);
    struct srv_keep_fds none = {0};
    struct srv_keep_msg msg;
    int r = srv_keep_recv(src->fd, &msg, &none, MSG_DONTWAIT);

    (void)revents;
    if (r == -EAGAIN)
        return;
    if (r == 0) {
        srv_keep_fds_close(&none);
        keeper->ended(keeper->arg, msg.key, (pid_t)msg.number, msg.status);
        return;
    }
    gp_loop_fd_del(src);
    keeper->ended(keeper->arg, 0, 0, 0);
}

int
srv_keeper_watch(struct srv_keeper *keeper, struct gp_loop *loop,
                 srv_keeper_ended *ended, void *arg, struct gp_err *err)
{
    int r;

    if (!keeper)
        return 0;
    keeper->ended = ended;
    keeper->arg = arg;
    r = gp_loop_fd_add(loop, &keeper->exits, keeper->exits.fd, EPOLLIN, on_exits);
    return r < 0 ? gp_err_set(err, r, "socket of the keeper") : 0;
}

pid_t
srv_keeper_pid(const struct srv_keeper *keeper)
{
    return keeper ? keeper->pid : getpid();
}

void
srv_keeper_end(struct srv_keeper *keeper, bool itself)
{
    struct srv_keep_msg msg = {.order = SRV_KEEP_END, .number = itself};
    char none;

    if (!keeper)
        return;
    tell(keeper, &msg, NULL, 0);
    /* Whoever starts a server after us does not meet it any more. */
    while (itself && recv(keeper->sock, &none, sizeof(none), 0) < 0 && errno == EINTR)
        ;
}
