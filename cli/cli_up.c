/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool up, gpupool down: a pool on this machine, in the background. */
#include "cli.h"
#include "cli_context.h"
#include "cli_ctl.h"
#include "cli_daemon.h"
#include "cli_folder.h"
#include "cli_list.h"
#include "cli_options.h"
#include "cli_pool.h"
#include "ctl_limits.h"
#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_hash.h"
#include "gp_str.h"
#include "gp_time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>

/* Making the memory of several large software cards takes a while on a slow disk. */
#define START_NS (60 * GP_NS_PER_S)
#define END_NS (10 * GP_NS_PER_S)

struct up {
    uint32_t servers, cards;
    const char *rdma, *gpudirect, *pageable;
    const char *memory, *scaling, *driver, *listen, *placement, *heartbeat, *lease;
    char *folder; /* pool.d: everything of this pool */
    char *server_token, *client_token, *admin_token; /* files */
    int lock;
    struct cli_pool pool;
    int pidfds[CLI_POOL_PROCESSES_MAX];
    char *logs[CLI_POOL_PROCESSES_MAX];
};

/* ----------------------------------------------------------------- options -- */

static const char *const PLACEMENTS[] = {"binpack", "spread", "fgd", NULL};
static const char *const PAGEABLE[] = {"refuse", "allow", NULL};
static const char *const GPUDIRECT[] = {"auto", "dmabuf", "peermem", "off", NULL};

/* Checked here, because the daemon's own words would be in its log; passed as it is. */
static int
set_size(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    struct gp_option check = *option;
    uint64_t bytes;
    int r;

    check.offset = 0;
    r = gp_option_size(&bytes, &check, value, err);
    return r < 0 ? r : gp_option_text(target, option, value, err);
}

static int
set_number(void *target, const struct gp_option *option, const char *value,
           struct gp_err *err)
{
    struct gp_option check = *option;
    uint64_t number;
    int r;

    check.offset = 0;
    r = gp_option_u64(&number, &check, value, err);
    return r < 0 ? r : gp_option_text(target, option, value, err);
}

/* What follows the words are further fields of struct gp_option. */
#define UP(flag, field, text, setter, words_, ...)                                     \
    {                                                                                  \
        .name = flag, .value = text, .set = setter, .help = words_,                    \
        .offset = offsetof(struct up, field), __VA_ARGS__                              \
    }

static const struct gp_option UP_OPTIONS[] = {
    UP("servers", servers, "N", gp_option_u32, "so many servers (1)", .min = 1,
       .max = CLI_POOL_PROCESSES_MAX - 1),
    UP("cards", cards, "N", gp_option_u32, "software cards of each server (1)",
       .min = 1, .max = CTL_SERVER_CARDS_MAX),
    UP("memory", memory, "SIZE", set_size, "memory of each software card (4GiB)",
       .min = 1),
    UP("memory-scaling", scaling, "X[,X...]", gp_option_text,
       "part of each card's memory for sessions (1)"),
    UP("driver", driver, "NAME|PATH", gp_option_text,
       "softgpu, null, cuda, or the path of a libcuda.so.1 (cuda where there is an "
       "NVIDIA driver and no option asks for software cards, else softgpu)"),
    UP("listen", listen, "HOST", gp_option_text,
       "address of the servers (127.0.0.1): one that other machines reach, or that of "
       "an RDMA port"),
    UP("rdma", rdma, "auto|off|ADDRESS[,...]", gp_option_text,
       "RDMA ports that the servers offer: all (auto), none, or those with these "
       "addresses"),
    UP("pageable-access", pageable, "refuse|allow", gp_option_word,
       "cards whose kernels reach all memory of the workers (refuse)",
       .words = PAGEABLE),
    UP("gpudirect", gpudirect, "auto|dmabuf|peermem|off", gp_option_word,
       "how RDMA adapters reach the cards' memory (auto)", .words = GPUDIRECT),
    UP("placement", placement, "binpack|spread|fgd", gp_option_word,
       "where sessions go (binpack)", .words = PLACEMENTS),
    UP("heartbeat-ms", heartbeat, "N", set_number, "passed to the scheduler (2000)",
       .min = 10, .max = 60000),
    UP("lease-ms", lease, "N", set_number, "passed to the scheduler (30000)",
       .min = 1000, .max = 86400000),
};

/* -1: go on; else the exit status. */
static int
up_parse(struct up *up, int argc, char **argv)
{
    const struct gp_option_set_of set = {UP_OPTIONS, ARRAY_SIZE(UP_OPTIONS), up};
    const struct gp_options options = {
        .program = "gpupool up",
        .about =
            "Start a scheduler and pool servers on this machine, in the background.",
        .after =
            "Then `gpupool run` needs no address.  `gpupool down` ends it.  Files and "
            "logs are in\n$GPUPOOL_RUN_DIR, else $XDG_RUNTIME_DIR/gpupool, else "
            "/tmp/gpupool-UID.\nEach server's log, which says why a session ended, is "
            "pool.d/NAME.log there; the\nscheduler's is pool.d/scheduler.log.\n",
        .sets = &set,
        .n_sets = 1,
    };
    int first;

    return cli_options(&options, argc, argv, &first);
}

/* ------------------------------------------------------------------- start -- */

/* Every pool starts with nothing: what an earlier one left behind is of no use. */
static int
clear_folder(const char *folder, struct gp_err *err)
{
    DIR *dir;
    struct dirent *entry;
    int r = gp_file_mkdirs(folder, 0700, err);

    if (r < 0)
        return r;
    dir = opendir(folder);
    if (!dir)
        return gp_err_set(err, -errno, "%s: %s", folder, strerror(errno));
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    return 0;
}

static int
make_token(const struct up *up, const char *name, char **ret_path, struct gp_err *err)
{
    uint8_t secret[24];
    CLEANUP_FREE char *text = NULL;
    int r;

    if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
        return gp_err_set(err, -EIO, "no random numbers");
    text = gp_b64_encode(secret, sizeof(secret));
    *ret_path = gp_str_printf("%s/%s", up->folder, name);
    explicit_bzero(secret, sizeof(secret));
    if (!text || !*ret_path)
        return -ENOMEM;
    r = gp_file_replace(*ret_path, text, strlen(text), 0600, err);
    explicit_bzero(text, strlen(text));
    return r;
}

/* One for each role; command lines name the files only. */
static int
make_tokens(struct up *up, struct gp_err *err)
{
    int r = make_token(up, CLI_TOKEN_SERVER, &up->server_token, err);

    if (!r)
        r = make_token(up, CLI_TOKEN_CLIENT, &up->client_token, err);
    if (!r)
        r = make_token(up, CLI_TOKEN_ADMIN, &up->admin_token, err);
    return r;
}

/* Start one daemon and note it, so that a failure later ends it too. */
static int
start(struct up *up, const char *name, const char *const *argv, const char *env,
      struct gp_err *err)
{
    unsigned i = up->pool.n;
    int r;

    up->logs[i] = gp_str_printf("%s/%s.log", up->folder, name);
    if (!up->logs[i])
        return -ENOMEM;
    r = cli_daemon_start(name, argv, env, up->logs[i], &up->pool.processes[i],
                         &up->pidfds[i], err);
    if (r < 0)
        return r;
    up->pool.n++;
    return cli_pool_write(&up->pool, err);
}

/* The packages of the client bring gpupool alone. */
static int
not_installed(const char *program, struct gp_err *err)
{
    return gp_err_set(
        err, -ENOENT,
        "%s is not beside gpupool: install %s for a pool on this machine, or "
        "use one that runs elsewhere (GPUPOOL_SCHEDULER=HOST:PORT)",
        program, program);
}

static int
start_scheduler(struct up *up, struct gp_err *err)
{
    CLEANUP_FREE char *bin = cli_path_bin("gpupool-scheduler");
    CLEANUP_FREE char *ready = gp_str_printf("%s/scheduler.ready", up->folder);
    CLEANUP_FREE char *local = gp_str_printf("%s/" SCHED_SOCKET_NAME, up->folder);
    CLEANUP_FREE char *text = NULL;
    const char *argv[] = {
        bin,
        "--listen",
        "127.0.0.1:0",
        "--state-dir",
        up->folder,
        "--server-token-file",
        up->server_token,
        "--client-token-file",
        up->client_token,
        "--admin-token-file",
        up->admin_token,
        "--ready-file",
        ready,
        "--placement",
        up->placement,
        "--heartbeat-ms",
        up->heartbeat,
        "--lease-ms",
        up->lease,
        NULL,
    };
    size_t len;
    int r;

    if (!bin)
        return not_installed("gpupool-scheduler", err);
    if (!ready || !local)
        return -ENOMEM;
    r = start(up, "scheduler", argv, NULL, err);
    if (!r)
        r = cli_daemon_await_file(up->folder, ready, up->pidfds[0],
                                  gp_now_ns() + START_NS, err);
    if (!r)
        r = gp_file_read(ready, GP_NET_NAME_MAX, &text, &len, err);
    if (r < 0)
        return gp_err_wrap(err, r, "scheduler");
    text[strcspn(text, "\n")] = 0;
    gp_str_copy(up->pool.scheduler, sizeof(up->pool.scheduler), text);
    if (!access(local, F_OK)) /* not there when the path is too long for one */
        snprintf(up->pool.local, sizeof(up->pool.local), "unix:%s", local);
    return cli_pool_write(&up->pool, err);
}

static bool
is_software(const char *driver)
{
    return !strcmp(driver, "softgpu") || !strcmp(driver, "null");
}

/* Software cards of one name are one set of cards, machine-wide. Pools in different
 * folders have different cards; a pool that comes back in the same one has the same. */
static void
software_cards_name(const struct up *up, unsigned index, char env[64])
{
    static const struct gp_hash_key fixed = {{0, 0}};

    snprintf(env, 64, "SOFTGPU_INSTANCE=%08x-%u",
             (unsigned)gp_hash_bytes(&fixed, up->folder, strlen(up->folder)), index);
}

static int
start_server(struct up *up, unsigned index, struct gp_err *err)
{
    CLEANUP_FREE char *bin = cli_path_bin("gpupool-server");
    CLEANUP_FREE char *local =
        gp_str_printf("unix:%s/local-%u.sock", up->folder, index);
    CLEANUP_FREE char *address =
        gp_str_printf(strchr(up->listen, ':') ? "[%s]:0" : "%s:0", up->listen);
    CLEANUP_FREE char *key = gp_str_printf("%s/ticket-key.pub", up->folder);
    char name[32], cards[16], env[64];
    const char *argv[32] = {
        bin,           "--listen",         address,        "--name",         name,
        "--scheduler", up->pool.scheduler, "--token-file", up->server_token, "--driver",
        up->driver,
    };
    unsigned n = 11;

    if (!bin)
        return not_installed("gpupool-server", err);
    if (!local || !address || !key)
        return -ENOMEM;
    argv[n++] = "--scheduler-key";
    argv[n++] = key;
    snprintf(name, sizeof(name), "local-%u", index);
    snprintf(cards, sizeof(cards), "%u", up->cards);
    software_cards_name(up, index, env);
    /* For clients on this host; a long GPUPOOL_RUN_DIR does not fit an address. */
    if (strlen(local) < sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        argv[n++] = "--local";
        argv[n++] = local;
    }
    if (is_software(up->driver)) {
        argv[n++] = "--cards";
        argv[n++] = cards;
        argv[n++] = "--memory";
        argv[n++] = up->memory;
    }
    if (up->rdma) {
        argv[n++] = "--rdma";
        argv[n++] = up->rdma;
    }
    if (up->gpudirect) {
        argv[n++] = "--gpudirect";
        argv[n++] = up->gpudirect;
    }
    if (up->pageable) {
        argv[n++] = "--pageable-access";
        argv[n++] = up->pageable;
    }
    if (up->scaling) {
        argv[n++] = "--memory-scaling";
        argv[n++] = up->scaling;
    }
    return start(up, name, argv, env, err);
}

/* Name the daemon that has exited.  -ECHILD. */
static int
exited_early(const struct up *up, struct gp_err *err)
{
    for (unsigned i = 0; i < up->pool.n; i++) {
        struct pollfd fd = {up->pidfds[i], POLLIN, 0};

        if (poll(&fd, 1, 0) > 0)
            return gp_err_set(err, -ECHILD, "%s exited during start-up",
                              up->pool.processes[i].name);
    }
    return -ECHILD;
}

/* The scheduler answers when all are there; meanwhile none may die. */
static int
await_servers(struct up *up, Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlWaitServers wait = GPUPOOL__CTL__CTL_WAIT_SERVERS__INIT;
    CLEANUP(cli_ctl_close) struct cli_ctl ctl = {.link.fd = -1};
    CLEANUP_FREE char *token = NULL;
    int r = cli_ctl_open(&ctl, up->pool.scheduler, err);

    if (r < 0)
        return r;
    r = cli_token(up->client_token, NULL, CLI_TOKEN_CLIENT, &token, err);
    if (r < 0)
        return r;
    r = cli_ctl_prove(&ctl, GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_CLIENT, token, err);
    if (r < 0)
        return r;
    wait.token = cli_ctl_shown(token);
    wait.servers = up->servers;
    wait.numbers_only = true;
    wait.timeout_ms = (uint32_t)(START_NS / GP_NS_PER_MS);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_WAIT_SERVERS;
    req.wait_servers = &wait;
    r = cli_ctl_call_watching(&ctl, &req, START_NS + GP_NS_PER_S, up->pidfds,
                              up->pool.n, ret_reply, err);
    return r == -ECHILD ? exited_early(up, err) : r;
}

static void
print_pool(const struct up *up, const Gpupool__Ctl__CtlPoolStatus *pool)
{
    printf("pool up: scheduler %s, %u %s, %u %s, driver %s\n", up->pool.scheduler,
           up->servers, gp_plural(up->servers, "server", "servers"), pool->cards,
           gp_plural(pool->cards, "card", "cards"), up->driver);
}

/* Another context hides the pool that has just been started. */
static void
print_context(void)
{
    CLEANUP_FREE char *current = NULL;

    if (cli_context_current(&current, NULL) == 0 &&
        strcmp(current, CLI_CONTEXT_LOCAL) != 0)
        printf("the context %s is in use; for this pool: gpupool context use local\n",
               current);
}

static int
start_all(struct up *up, struct gp_err *err)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    int r = make_tokens(up, err);

    if (!r)
        r = start_scheduler(up, err);
    for (unsigned i = 1; !r && i <= up->servers; i++)
        r = start_server(up, i, err);
    if (!r)
        r = await_servers(up, &reply, err);
    if (!r &&
        (reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_LIST || !reply->list->pool))
        r = gp_err_set(err, -EPROTO, "the scheduler answered something else");
    if (!r) {
        print_pool(up, reply->list->pool);
        print_context();
    }
    return r;
}

static int
already_up(const struct cli_pool *pool, struct gp_err *err)
{
    const char *dead = cli_pool_dead(pool);

    if (dead)
        return gp_err_set(err, -EALREADY,
                          "a pool is up already (scheduler %s), but %s%s has died; "
                          "`gpupool down --force` ends it",
                          pool->scheduler,
                          strcmp(dead, "scheduler") ? "server " : "its ", dead);
    return gp_err_set(err, -EALREADY,
                      "a pool is up already (scheduler %s); `gpupool down` ends it",
                      pool->scheduler);
}

/* One pool per folder, also when two `gpupool up` run at once. */
static int
prepare(struct up *up, struct gp_err *err)
{
    CLEANUP_FREE char *lock = NULL;
    struct cli_pool old;
    int r = cli_folder_file("lock", &lock, err);

    if (!r)
        r = cli_folder_file("pool.d", &up->folder, err);
    if (r < 0)
        return r;
    up->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (up->lock < 0 || flock(up->lock, LOCK_EX) < 0)
        return gp_err_set(err, -errno, "%s: %s", lock, strerror(errno));
    r = cli_pool_read(&old, NULL);
    if (!r && cli_pool_alive(&old))
        return already_up(&old, err);
    return clear_folder(up->folder, err);
}

static void
up_fini(struct up *up)
{
    gp_closep(&up->lock);
    for (unsigned i = 0; i < CLI_POOL_PROCESSES_MAX; i++) {
        gp_closep(&up->pidfds[i]);
        free(up->logs[i]);
    }
    free(up->folder);
    free(up->server_token);
    free(up->client_token);
    free(up->admin_token);
}

/* After a failure: whose log tells why?  Show those of processes that ended, or all. */
static void
undo(struct up *up)
{
    bool any = false;

    for (unsigned i = 0; i < up->pool.n; i++) {
        uint64_t begun;

        if (cli_process_start(up->pool.processes[i].pid, &begun) < 0) {
            cli_daemon_show_log(up->logs[i]);
            any = true;
        }
    }
    for (unsigned i = 0; !any && i < up->pool.n; i++)
        cli_daemon_show_log(up->logs[i]);
    cli_pool_end(&up->pool, gp_now_ns() + END_NS);
    cli_pool_remove(NULL);
}

/* A driver's device file behind which there is a driver: an empty one of that name is
 * only what JAX looks for, and NVIDIA's library leaves one where it has found no
 * module.  Or a module whose files the server can have made (srv_device_files.h). */
static bool
has_driver(void)
{
    CLEANUP_FD int fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
    int why = errno;
    struct stat st;

    if (fd < 0 && why == ENOENT)
        return access("/proc/driver/nvidia/version", F_OK) == 0 &&
               access("/usr/bin/nvidia-modprobe", X_OK) == 0;
    if (stat("/dev/nvidiactl", &st) < 0 || !S_ISCHR(st.st_mode))
        return false;
    return fd >= 0 || (why != ENXIO && why != ENODEV);
}

/* Options that speak of software cards decide for them; hardware is as it is. */
static int
choose_driver(struct up *up, struct gp_err *err)
{
    bool software = up->servers > 1 || up->cards || up->memory;

    if (!up->driver)
        up->driver = !software && has_driver() ? "cuda" : "softgpu";
    if (software && !is_software(up->driver))
        return gp_err_set(
            err, -EINVAL,
            "--driver %s serves the cards that are there, with one server; "
            "--servers, --cards and --memory are for software cards",
            up->driver);
    up->cards = up->cards ? up->cards : 1;
    up->memory = up->memory ? up->memory : "4GiB";
    return 0;
}

int
cli_up(int argc, char **argv)
{
    CLEANUP(up_fini)
    struct up up = {.servers = 1,
                    .listen = "127.0.0.1",
                    .placement = "binpack",
                    .heartbeat = "2000",
                    .lease = "30000",
                    .lock = -1};
    struct gp_err err = {0};
    int r, status;

    for (unsigned i = 0; i < CLI_POOL_PROCESSES_MAX; i++)
        up.pidfds[i] = -1;
    status = up_parse(&up, argc, argv);
    if (status >= 0)
        return status;
    r = choose_driver(&up, &err);
    if (r < 0)
        return cli_fail(CLI_USAGE, "up: %s", err.msg);
    r = prepare(&up, &err);
    if (r < 0)
        return cli_fail(CLI_FAILED, "up: %s", gp_err_msg(&err, r));
    r = start_all(&up, &err);
    if (r < 0) {
        cli_fail(0, "up: %s", gp_err_msg(&err, r));
        undo(&up);
        return CLI_FAILED;
    }
    return CLI_OK;
}

/* -------------------------------------------------------------------- down -- */

/* Sessions that the pool has now.  Negative: the scheduler does not say. */
static int
count_sessions(const struct cli_pool *pool, size_t *ret, struct gp_err *err)
{
    static const struct cli_filters all = {0};
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    const Gpupool__Ctl__CtlListReply *page = NULL;
    CLEANUP_FREE char *folder = NULL, *path = NULL, *token = NULL;
    int r = cli_folder_file("pool.d", &folder, err);

    if (r < 0)
        return r;
    path = gp_str_printf("%s/" CLI_TOKEN_CLIENT, folder);
    r = path ? cli_token(path, NULL, CLI_TOKEN_CLIENT, &token, err) : -ENOMEM;
    if (!r)
        r = cli_list_first(&list, pool->scheduler, token,
                           GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOL, &all, &page,
                           err);
    if (!r && !page->pool)
        r = -EPROTO;
    if (!r)
        *ret = page->pool->sessions;
    return r;
}

/* Whether the user, who is asked on a terminal, wants to end so many sessions. */
static bool
may_end(size_t sessions)
{
    char answer[16];

    if (!isatty(STDIN_FILENO)) {
        cli_fail(0, "down: %zu %s; `gpupool down --force` ends %s", sessions,
                 gp_plural(sessions, "session runs", "sessions run"),
                 gp_plural(sessions, "it", "them"));
        return false;
    }
    fprintf(stderr, "%zu %s GPU. End the pool? [y/N] ", sessions,
            gp_plural(sessions, "session runs and loses its",
                      "sessions run and lose their"));
    return fgets(answer, sizeof(answer), stdin) &&
           (answer[0] == 'y' || answer[0] == 'Y');
}

static int
end_pool(const struct cli_pool *pool, size_t sessions)
{
    struct gp_err err = {0};
    struct cli_pool_ended ended = cli_pool_end(pool, gp_now_ns() + END_NS);
    int r;

    if (ended.killed)
        cli_fail(0, "down: %u %s to be killed", ended.killed,
                 gp_plural(ended.killed, "process had", "processes had"));
    r = cli_pool_remove(&err);
    if (r < 0)
        return cli_fail(CLI_FAILED, "down: %s", gp_err_msg(&err, r));
    printf("pool down: %u %s ended", ended.ended,
           gp_plural(ended.ended, "process", "processes"));
    if (sessions)
        printf(", and %zu %s", sessions, gp_plural(sessions, "session", "sessions"));
    putchar('\n');
    return CLI_OK;
}

int
cli_down(int argc, char **argv)
{
    bool force = false;
    const struct gp_option own = {.name = "force",
                                  .letter = 'f',
                                  .help = "also when sessions run, and without asking",
                                  .set = gp_option_yes};
    const struct gp_option_set_of set = {&own, 1, &force};
    const struct gp_options options = {
        .program = "gpupool down",
        .about = "End the pool that `gpupool up` started.  When sessions run, it asks.",
        .sets = &set,
        .n_sets = 1,
    };
    struct cli_pool pool;
    struct gp_err err = {0};
    size_t sessions = 0;
    int first, r = cli_options(&options, argc, argv, &first);

    if (r >= 0)
        return r;
    r = cli_pool_read(&pool, &err);
    if (r == -ENOENT) {
        printf("no pool is up\n");
        return CLI_OK;
    }
    if (r < 0)
        return cli_fail(CLI_FAILED, "down: %s", gp_err_msg(&err, r));
    r = count_sessions(&pool, &sessions, NULL);
    if (r < 0 && !force && cli_pool_works(&pool))
        return cli_fail(CLI_FAILED,
                        "down: the scheduler does not answer, so sessions may be "
                        "running; `gpupool down --force` ends the pool");
    if (sessions && !force && !may_end(sessions))
        return CLI_FAILED;
    return end_pool(&pool, sessions);
}
