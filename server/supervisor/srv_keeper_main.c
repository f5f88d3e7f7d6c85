/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_keeper_main.h"

#include "gp_base.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_tree.h"
#include "srv_cgroup.h"
#include "srv_disposal.h"
#include "srv_keep_msg.h"
#include "srv_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* What a worker gets between SIGTERM and SIGKILL when the window is over. */
#define GRACE_NS (400 * GP_NS_PER_MS)
/* An end that could not be told is told again then. */
#define TELL_AGAIN_MS 10
/* A new supervisor that says nothing keeps no other out for longer. */
#define HELLO_MS 1000
/* Path, arguments and variables of a worker. */
#define START_TEXT_MAX (1u << 20)
#define START_WORDS_MAX 4096
/* Until the first supervisor has come. */
#define FIRST_WINDOW_S 10
/* Between attempts to accept a connection without a descriptor for it. */
#define ACCEPT_AGAIN_NS (250 * GP_NS_PER_MS)

struct item {
    struct item *next, *prev;
    struct gp_tree_node node; /* among those of its kind: key, sub */
    uint32_t kind;
    int fd[SRV_KEEP_ITEM_FDS];
    unsigned n;
    pid_t pid; /* of a worker; 0: none */
    bool ended, told;
    int status;
};

struct keeper {
    struct item *items, *last; /* oldest first */
    struct gp_tree kinds[SRV_KEEP_KINDS_MAX];
    struct srv_disposal *disposal; /* NULL: files are closed here */
    int signals;
    int conn, exits; /* of the supervisor; -1 */
    pid_t supervisor;
    int process; /* a pidfd of it, or of the one before; -1: it has ended, or is not
                  * known */
    bool greeted;
    bool to_tell; /* there may be ends that it has not been told of */
    uint32_t window_s;
    uint64_t deadline;     /* the window's end, or of the greeting; 0: none */
    uint64_t accept_again; /* connections wait until then; 0: none does */
    int spare;             /* a descriptor to give up for a successor's greeting; -1 */
    struct gp_log_limit lack_log;
    bool done;
};

/* ---- items ---- */

static struct item *
item_find(const struct keeper *k, uint32_t kind, uint64_t key, uint64_t sub)
{
    struct gp_tree_node *node =
        kind < SRV_KEEP_KINDS_MAX ? gp_tree_find(&k->kinds[kind], key, sub) : NULL;

    return node ? container_of(node, struct item, node) : NULL;
}

/* The last descriptor of a memory file frees its pages, for which the supervisor would
 * wait with its next order; others are sockets that a worker had. */
static void
close_kept(struct keeper *k, int fd)
{
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        srv_disposal_fd(k->disposal, fd);
    else if (fd >= 0)
        gp_net_close_now(fd);
}

static void
item_close(struct keeper *k, struct item *item)
{
    for (unsigned i = 0; i < item->n; i++)
        close_kept(k, item->fd[i]);
    item->n = 0;
}

/* A process that has not ended yet, because a driver does not let it go, is not waited
 * for. */
static void
item_remove(struct keeper *k, struct item *item)
{
    *(item->prev ? &item->prev->next : &k->items) = item->next;
    *(item->next ? &item->next->prev : &k->last) = item->prev;
    gp_tree_remove(&k->kinds[item->kind], &item->node);
    item_close(k, item);
    if (item->pid)
        waitpid(item->pid, NULL, item->ended ? 0 : WNOHANG);
    free(item);
}

static struct item *
item_new(struct keeper *k, const struct srv_keep_msg *msg)
{
    struct item *item =
        msg->kind < SRV_KEEP_KINDS_MAX ? calloc(1, sizeof(*item)) : NULL;

    if (!item)
        return NULL;
    item->kind = msg->kind;
    gp_tree_insert(&k->kinds[msg->kind], &item->node, msg->key, msg->sub);
    item->prev = k->last;
    *(k->last ? &k->last->next : &k->items) = item;
    k->last = item;
    return item;
}

/* Takes the first @n of @fds. */
static struct item *
item_put(struct keeper *k, const struct srv_keep_msg *msg, struct srv_keep_fds *fds,
         unsigned from)
{
    struct item *item = item_find(k, msg->kind, msg->key, msg->sub);

    if (fds->n < from || fds->n - from > SRV_KEEP_ITEM_FDS)
        return NULL;
    if (!item)
        item = item_new(k, msg);
    if (!item)
        return NULL;
    item_close(k, item);
    item->n = fds->n - from;
    for (unsigned i = 0; i < item->n; i++)
        item->fd[i] = TAKE_FD(fds->fd[from + i]);
    return item;
}

static void
item_set(struct keeper *k, const struct srv_keep_msg *msg, struct srv_keep_fds *fds)
{
    struct item *item = item_find(k, msg->kind, msg->key, msg->sub);

    if (!item || fds->n != 1 || msg->number >= item->n)
        return;
    close_kept(k, item->fd[msg->number]);
    item->fd[msg->number] = TAKE_FD(fds->fd[0]);
}

/* ---- workers ---- */

/* The words of the memory file: the path, the arguments, the variables. */
struct start {
    char *text;
    char **words;
    unsigned n;
};

static void
start_fini(struct start *s)
{
    free(s->text);
    free(s->words);
}

static int
start_read(int fd, struct start *s)
{
    struct stat st;
    size_t size;

    if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > START_TEXT_MAX)
        return -EPROTO;
    size = (size_t)st.st_size;
    s->text = malloc(size + 1);
    s->words = calloc(START_WORDS_MAX + 2, sizeof(*s->words));
    if (!s->text || !s->words)
        return -ENOMEM;
    if (pread(fd, s->text, size, 0) != (ssize_t)size)
        return -EPROTO;
    s->text[size] = 0;
    for (size_t at = 0; at < size; at += strlen(s->text + at) + 1) {
        if (s->n >= START_WORDS_MAX)
            return -E2BIG;
        s->words[s->n++] = s->text + at;
    }
    return 0;
}

/* The arguments are moved up by one, so that a NULL fits between them and the
 * variables. */
static void
start_split(struct start *s, unsigned n_args, char ***ret_argv, char ***ret_envp)
{
    memmove(s->words + n_args + 2, s->words + n_args + 1,
            (s->n - n_args - 1) * sizeof(*s->words));
    s->words[n_args + 1] = NULL;
    *ret_argv = s->words + 1;
    *ret_envp = s->words + n_args + 2;
}

static int
worker_start(struct keeper *k, const struct srv_keep_msg *msg, struct srv_keep_fds *fds)
{
    unsigned first = 1 + msg->n_groups, kept = first + msg->n_child;
    CLEANUP(start_fini) struct start s = {0};
    struct srv_spawn_child child = {.stdout_fd = -1, .parent = getpid()};
    int in[SRV_KEEP_FDS_MAX];
    struct item *item;
    pid_t pid;
    int r;

    if (msg->n_groups > SRV_CGROUP_PARTS || msg->n_child > SRV_KEEP_FDS_MAX ||
        kept > fds->n || msg->n_child > 64)
        return -EPROTO;
    r = start_read(fds->fd[0], &s);
    if (r < 0)
        return r;
    if (msg->n_args == 0 || msg->n_args + 1 > s.n)
        return -EPROTO;
    child.path = s.words[0];
    start_split(&s, msg->n_args, &child.argv, &child.envp);
    for (unsigned i = 0; i < msg->n_child; i++)
        in[i] = msg->closed >> i & 1 ? -1 : fds->fd[first + i];
    child.fds = in;
    child.n_fds = msg->n_child;
    pid = srv_cgroup_clone_at((int)msg->group_version, fds->fd + 1, msg->n_groups,
                              srv_spawn_child, &child);
    if (pid < 0)
        return (int)pid;
    item = item_put(k, msg, fds, kept);
    if (!item) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return -ENOMEM;
    }
    item->pid = pid;
    return (int)pid;
}

/* They stay zombies until the supervisor has dropped them: no other process gets their
 * number while somebody may still send them a signal.  Their clients must not wait for
 * a supervisor to hear of it. */
static void
look_for_ends(struct keeper *k)
{
    for (struct item *i = k->items; i; i = i->next) {
        siginfo_t info = {0};

        if (!i->pid || i->ended ||
            waitid(P_PID, (id_t)i->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
            !info.si_pid)
            continue;
        i->ended = k->to_tell = true;
        i->status = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8
                                               : info.si_status & 0x7f;
        if (k->conn < 0 && i->n && i->fd[0] >= 0)
            shutdown(i->fd[0], SHUT_RDWR);
    }
}

static void
kill_all(struct keeper *k, int sig)
{
    for (struct item *i = k->items; i; i = i->next) {
        if (!i->pid || i->ended)
            continue;
        if (sig == SIGKILL)
            kill(-i->pid, sig);
        kill(i->pid, sig);
    }
}

static void
drop_all(struct keeper *k)
{
    kill_all(k, SIGKILL);
    while (k->items)
        item_remove(k, k->items);
}

/* Nobody has come: the workers have a moment to tell their clients. */
static void
give_up(struct keeper *k, const char *why)
{
    unsigned n = 0;

    for (const struct item *i = k->items; i; i = i->next)
        n += i->pid && !i->ended;
    gp_log_warn("server", "%s: the keeper ends %u %s and itself", why, n,
                gp_plural(n, "worker", "workers"));
    kill_all(k, SIGTERM);
    if (n) {
        struct timespec grace = {.tv_nsec = GRACE_NS};

        nanosleep(&grace, NULL);
    }
    look_for_ends(k);
    drop_all(k);
    k->done = true;
}

/* ---- the supervisor ---- */

static void
supervisor_gone(struct keeper *k)
{
    if (k->conn < 0)
        return;
    close(k->conn);
    if (k->exits >= 0)
        close(k->exits);
    k->conn = k->exits = -1;
    k->greeted = false;
    k->accept_again = 0;
    k->deadline = gp_now_ns() + k->window_s * GP_NS_PER_S;
    gp_log_warn(
        "server",
        "the supervisor (process %d) is gone; the keeper waits %u s for another",
        (int)k->supervisor, k->window_s);
    if (k->process < 0)
        srv_cgroups_make_room();
    k->to_tell = true;
    for (struct item *i = k->items; i; i = i->next) {
        i->told = false;
        if (i->ended && i->n && i->fd[0] >= 0)
            shutdown(i->fd[0], SHUT_RDWR);
    }
}

static void
answer(struct keeper *k, const struct srv_keep_msg *msg, const struct srv_keep_fds *fds)
{
    if (srv_keep_send(k->conn, msg, fds) < 0)
        supervisor_gone(k);
}

/* A successor finds room also where everything else is used up: the descriptors of the
 * supervisor before it, and the spare one. */
static int
exits_pair(struct keeper *k, int pair[2])
{
    int type = SOCK_SEQPACKET | SOCK_CLOEXEC;

    if (socketpair(AF_UNIX, type, 0, pair) == 0)
        return 0;
    if (errno != EMFILE || k->spare < 0)
        return -errno;
    close(TAKE_FD(k->spare));
    return socketpair(AF_UNIX, type, 0, pair) < 0 ? -errno : 0;
}

static void
keep_spare(struct keeper *k)
{
    if (k->spare < 0)
        k->spare = fcntl(k->signals, F_DUPFD_CLOEXEC, 0);
}

static void
greet(struct keeper *k, const struct srv_keep_msg *msg)
{
    struct srv_keep_msg reply = {
        .order = SRV_KEEP_HELLO, .sub = SRV_KEEP_VERSION, .number = (uint32_t)getpid()};
    struct srv_keep_fds fds = {.n = 1};
    int pair[2];

    if (msg->sub != SRV_KEEP_VERSION) /* it ends what it cannot take over */
        gp_log_warn("server", "the supervisor is of another version than its keeper");
    if (exits_pair(k, pair) < 0) {
        supervisor_gone(k);
        return;
    }
    k->exits = pair[0];
    k->window_s = msg->number;
    k->greeted = true;
    k->deadline = 0;
    fds.fd[0] = pair[1];
    answer(k, &reply, &fds);
    close(pair[1]);
    keep_spare(k);
}

static void
tell_next(struct keeper *k, const struct srv_keep_msg *msg)
{
    struct item *item =
        msg->kind ? item_find(k, msg->kind, msg->key, msg->sub) : k->items;
    struct srv_keep_msg reply = {.order = SRV_KEEP_NEXT};
    struct srv_keep_fds fds = {0};

    if (msg->kind && item)
        item = item->next;
    if (item) {
        reply.kind = item->kind;
        reply.key = item->node.key[0];
        reply.sub = item->node.key[1];
        reply.ended = item->ended;
        reply.status = item->status;
        reply.number = (uint32_t)item->pid;
        fds.n = item->n;
        memcpy(fds.fd, item->fd, item->n * sizeof(int));
        item->told |= item->ended;
    }
    answer(k, &reply, &fds);
}

static void
start_and_tell(struct keeper *k, const struct srv_keep_msg *msg,
               struct srv_keep_fds *fds)
{
    struct srv_keep_msg reply = {.order = SRV_KEEP_START};

    reply.result = worker_start(k, msg, fds);
    answer(k, &reply, NULL);
}

static void
obey(struct keeper *k, const struct srv_keep_msg *msg, struct srv_keep_fds *fds)
{
    struct item *item;

    switch (msg->order) {
    case SRV_KEEP_NEXT:
        tell_next(k, msg);
        break;
    case SRV_KEEP_PUT:
        if (!item_put(k, msg, fds, 0))
            gp_log_error("server", "the keeper cannot keep an item of kind %u",
                         msg->kind);
        break;
    case SRV_KEEP_SET:
        item_set(k, msg, fds);
        break;
    case SRV_KEEP_DROP:
        item = item_find(k, msg->kind, msg->key, msg->sub);
        if (item && item->pid && !item->ended)
            kill(item->pid, SIGKILL);
        if (item)
            item_remove(k, item);
        break;
    case SRV_KEEP_START:
        start_and_tell(k, msg, fds);
        break;
    case SRV_KEEP_END:
        drop_all(k);
        k->done = msg->number == 1;
        break;
    default:
        gp_log_error("server", "an order that no supervisor gives: %u", msg->order);
        supervisor_gone(k);
    }
}

/* The supervisor, its workers and what is kept already go on. */
static void
lack_descriptors(struct keeper *k, const struct srv_keep_msg *msg)
{
    struct srv_keep_msg reply = {.order = SRV_KEEP_START, .result = -EMFILE};
    uint32_t skipped;

    if (gp_log_limit_ok(&k->lack_log, &skipped))
        gp_log_error("server",
                     "the keeper has no descriptor left for %s (kind %u); raise the "
                     "limit of open files (ulimit -n, LimitNOFILE= of the unit) (%u "
                     "such lines left out)",
                     msg->order == SRV_KEEP_START
                         ? "a new worker"
                         : "an item, which the next server will lack",
                     msg->kind, skipped);
    if (msg->order == SRV_KEEP_START)
        answer(k, &reply, NULL);
}

static void
on_supervisor(struct keeper *k)
{
    struct srv_keep_fds fds = {0};
    struct srv_keep_msg msg;
    int r = srv_keep_recv(k->conn, &msg, &fds, MSG_DONTWAIT);

    if (r == -EAGAIN)
        return;
    if (r == -EMFILE && k->greeted)
        lack_descriptors(k, &msg);
    else if (r < 0)
        supervisor_gone(k);
    else if (!k->greeted && msg.order == SRV_KEEP_HELLO)
        greet(k, &msg);
    else if (!k->greeted)
        supervisor_gone(k);
    else
        obey(k, &msg, &fds);
    srv_keep_fds_close(&fds);
}

/* Only our own user, and root, who could do all this anyway. */
static bool
may_come(int fd, pid_t *ret_pid)
{
    struct ucred who;
    socklen_t len = sizeof(who);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ||
        (who.uid != geteuid() && who.uid != 0)) {
        gp_log_warn("server", "refused at the keeper's socket: user %u",
                    (unsigned)who.uid);
        return false;
    }
    *ret_pid = who.pid;
    return true;
}

/* Its end may come later than that of its connection, or not at all where it starts its
 * program anew. */
static void
watch_process(struct keeper *k)
{
    if (k->process >= 0)
        close(k->process);
    k->process = pidfd_open(k->supervisor, 0);
}

/* Whoever starts the next one must be able to put it where this one was. */
static void
on_process_ended(struct keeper *k)
{
    close(k->process);
    k->process = -1;
    if (k->conn < 0)
        srv_cgroups_make_room();
}

static void
on_arrival(struct keeper *k)
{
    int fd = accept4(SRV_KEEPER_FD_LISTEN, NULL, NULL, SOCK_CLOEXEC);
    struct srv_keep_msg first = {.order =
                                     k->conn >= 0 ? SRV_KEEP_BUSY : SRV_KEEP_WELCOME,
                                 .number = (uint32_t)k->supervisor};
    pid_t pid = 0;

    if (fd < 0) {
        k->accept_again = gp_now_ns() + ACCEPT_AGAIN_NS;
        return;
    }
    if (!may_come(fd, &pid) || srv_keep_send(fd, &first, NULL) < 0 || k->conn >= 0) {
        close(fd);
        return;
    }
    k->conn = fd;
    k->supervisor = pid;
    watch_process(k);
    k->deadline = gp_max(k->deadline, gp_now_ns() + HELLO_MS * GP_NS_PER_MS);
}

/* True when some could not be told. */
static bool
tell_ends(struct keeper *k)
{
    bool left = false;

    if (!k->to_tell || k->exits < 0)
        return false;
    for (struct item *i = k->items; i; i = i->next) {
        struct srv_keep_msg msg = {.order = SRV_KEEP_ENDED,
                                   .kind = i->kind,
                                   .key = i->node.key[0],
                                   .sub = i->node.key[1],
                                   .status = i->status,
                                   .number = (uint32_t)i->pid};

        if (!i->ended || i->told)
            continue;
        i->told = send(k->exits, &msg, sizeof(msg), MSG_DONTWAIT | MSG_NOSIGNAL) ==
                  (ssize_t)sizeof(msg);
        left |= !i->told;
    }
    k->to_tell = left;
    return left;
}

/* ---- the loop ---- */

static void
on_signals(struct keeper *k)
{
    struct signalfd_siginfo info;

    while (read(k->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGTERM)
            give_up(k, "the keeper was told to end");
    }
    look_for_ends(k);
}

static int
timeout_ms(const struct keeper *k, bool untold)
{
    uint64_t until = k->deadline ? k->deadline : GP_FOREVER;

    if (untold)
        return TELL_AGAIN_MS;
    return gp_poll_ms(k->accept_again ? gp_min(until, k->accept_again) : until);
}

static void
turn(struct keeper *k)
{
    struct pollfd fds[] = {{.fd = k->signals, .events = POLLIN},
                           {.fd = k->conn, .events = POLLIN},
                           {.fd = SRV_KEEPER_FD_LISTEN, .events = POLLIN},
                           {.fd = k->process, .events = POLLIN}};

    if (k->accept_again && gp_now_ns() >= k->accept_again)
        k->accept_again = 0;
    if (k->accept_again)
        fds[2].fd = -1;
    poll(fds, 4, timeout_ms(k, tell_ends(k)));
    if (fds[0].revents)
        on_signals(k);
    /* A supervisor that is gone is noticed before the next one comes. */
    if (k->conn >= 0 && fds[1].revents)
        on_supervisor(k);
    else if (k->process >= 0 && fds[3].revents)
        on_process_ended(k);
    else if (fds[2].revents)
        on_arrival(k);
    if (!k->deadline || gp_now_ns() < k->deadline || k->done)
        return;
    if (k->conn >= 0)
        supervisor_gone(k); /* it has not said who it is */
    else
        give_up(k, "no supervisor has come");
}

int
srv_keeper_main(void)
{
    struct keeper k = {.conn = -1,
                       .exits = -1,
                       .process = -1,
                       .spare = -1,
                       .window_s = FIRST_WINDOW_S};
    struct gp_err err = {0};
    sigset_t set;

    gp_log_init("keeper", GP_LOG_INFO);
    prctl(PR_SET_NAME, SRV_KEEPER_NAME, 0, 0, 0);
    setsid();
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_SETMASK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error, not a death */
    signal(SIGINT, SIG_IGN);
    /* `systemctl kill` sends what is for the server to all of its unit. */
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    k.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (k.signals < 0) {
        gp_log_error("server", "signalfd: %s", strerror(errno));
        return 1;
    }
    keep_spare(&k);
    if (srv_disposal_new(&k.disposal, &err) < 0)
        gp_log_warn("server", "%s", err.msg);
    k.deadline = gp_now_ns() + k.window_s * GP_NS_PER_S;
    while (!k.done)
        turn(&k);
    srv_disposal_free(k.disposal, true);
    return 0;
}
