/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_spawn.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_str.h"
#include "srv_conf.h"
#include "srv_jail.h"
#include "srv_keep_msg.h"
#include "srv_keeper.h"
#include "wrk_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FIRST_FD 3
/* The worker's own, then a memory file per software card, and the program. */
#define SPAWN_FDS_MAX 64
#define SPAWN_ENV_MAX 24

extern char **environ;

/* Of the dynamic linker, the log, the driver. */
#define FILES_TO_START 16

/* Descriptors of the child, 3, 4... */
struct spawn_fds {
    int fd[SPAWN_FDS_MAX];
    unsigned n;
};

/* The environment of a worker: ours, with what the driver must see on top. */
struct spawn_env {
    char *own[SPAWN_ENV_MAX]; /* to be freed */
    unsigned n_own;
    char **envp;
    bool failed;
};

static void
env_fini(struct spawn_env *env)
{
    for (unsigned i = 0; i < env->n_own; i++)
        free(env->own[i]);
    free(env->envp);
}

static void
env_set(struct spawn_env *env, const char *name, const char *value)
{
    size_t len = strlen(name);
    char *text = gp_str_printf("%s=%s", name, value);
    size_t i;

    if (!text || env->n_own >= SPAWN_ENV_MAX) {
        free(text);
        env->failed = true;
        return;
    }
    env->own[env->n_own++] = text;
    for (i = 0; env->envp[i]; i++) {
        if (strncmp(env->envp[i], name, len) == 0 && env->envp[i][len] == '=')
            break;
    }
    env->envp[i] = text; /* the array has SPAWN_ENV_MAX spare entries */
}

/* Card @index of a software driver, if the process may see it: its file goes along,
 * and "INDEX:DESCRIPTOR" into @text. */
static void
add_card(const struct srv_spawn *what, unsigned index, struct spawn_fds *fds,
         char *text, size_t size)
{
    int fd = srv_jail_card(what->jail, index);
    size_t at = strlen(text);

    if (fd < 0 || fds->n + 1 >= SPAWN_FDS_MAX)
        return;
    snprintf(text + at, size - at, "%s%u:%u", at ? "," : "", index, FIRST_FD + fds->n);
    fds->fd[fds->n++] = fd;
}

static void
add_cards(const struct srv_spawn *what, struct spawn_fds *fds, struct spawn_env *env)
{
    const char *visible = what->visible;
    char text[SRV_SOFT_CARDS * 8] = "";

    if (!srv_jail_soft(what->jail))
        return;
    for (unsigned i = 0; !visible && i < SRV_SOFT_CARDS; i++)
        add_card(what, i, fds, text, sizeof(text));
    while (visible && *visible) {
        add_card(what, (unsigned)strtoul(visible, NULL, 10), fds, text, sizeof(text));
        visible = strchr(visible, ',');
        visible += visible != NULL;
    }
    env_set(env, "SOFTGPU_CARD_FILES", text);
    env_set(env, "SOFTGPU_EXPORTS", what->exports ? what->exports : "");
}

/* Secrets of the supervisor are files, never variables; nothing to take away. */
static int
env_init(struct spawn_env *env, const struct srv_spawn *what)
{
    const struct srv_conf *conf = what->conf;
    char number[16];
    size_t n = 0;

    *env = (struct spawn_env){0};
    while (environ[n])
        n++;
    env->envp = calloc(n + SPAWN_ENV_MAX + 1, sizeof(*env->envp));
    if (!env->envp)
        return -ENOMEM;
    memcpy(env->envp, environ, n * sizeof(*environ));
    if (!getenv("SOFTGPU_INSTANCE"))
        env_set(env, "SOFTGPU_INSTANCE", conf->name);
    if (conf->cards) {
        snprintf(number, sizeof(number), "%u", conf->cards);
        env_set(env, "SOFTGPU_CARDS", number);
    }
    if (conf->memory[0])
        env_set(env, "SOFTGPU_MEMORY", conf->memory);
    if (what->visible) {
        env_set(env, "CUDA_VISIBLE_DEVICES", what->visible);
        env_set(env, "SOFTGPU_VISIBLE", what->visible);
    }
    if (what->sm_percent) {
        snprintf(number, sizeof(number), "%u", what->sm_percent);
        env_set(env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", number);
    }
    /* A worker cannot write files; and a cache of code that several sessions share
     * would let one prepare what the other runs. */
    env_set(env, "CUDA_CACHE_DISABLE", "1");
    env_set(env, "HOME", "/");
    /* The supervisor writes the log, also what comes from the worker. */
    if (what->cell)
        env_set(env, "GPUPOOL_LOG_FILE", "");
    return env->failed ? -ENOMEM : 0;
}

/* In the new process, in its parent's memory: only async-signal-safe calls from here to
 * exec. */
static void
child_fail(const char *words)
{
    ssize_t n = write(STDERR_FILENO, words, strlen(words));

    (void)n;
    _exit(127);
}

/* @fd where no target is. */
static int
child_move(int fd, unsigned n_targets)
{
    int high = fcntl(fd, F_DUPFD, FIRST_FD + (int)n_targets);

    if (high < 0)
        child_fail("gpupool-server: a worker cannot be started: the limit of open "
                   "files (RLIMIT_NOFILE, ulimit -n) is too low\n");
    return high;
}

static void
child_descriptors(const struct srv_spawn_child *child)
{
    int high[SPAWN_FDS_MAX];
    int out = child->stdout_fd;
    unsigned i;

    /* Out of the way first, so that no target overwrites a source. */
    for (i = 0; i < child->n_fds; i++)
        high[i] = child->fds[i] < 0 ? -1 : child_move(child->fds[i], child->n_fds);
    if (out >= 0)
        out = child_move(out, child->n_fds);
    else
        out = open("/dev/null", O_WRONLY);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0)
        child_fail("gpupool-server: a worker cannot be started: /dev/null\n");
    out = open("/dev/null", O_RDONLY);
    if (out < 0 || dup2(out, STDIN_FILENO) < 0)
        child_fail("gpupool-server: a worker cannot be started: /dev/null\n");
    for (i = 0; i < child->n_fds; i++) {
        if (high[i] < 0)
            close(FIRST_FD + (int)i);
        else if (dup2(high[i], FIRST_FD + (int)i) < 0)
            child_fail("gpupool-server: a worker cannot be started: dup2\n");
    }
    syscall(SYS_close_range, FIRST_FD + child->n_fds, ~0u, 0);
}

void
srv_spawn_child(void *arg)
{
    const struct srv_spawn_child *child = arg;
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != child->parent)
        _exit(127);
    child_descriptors(child);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    /* These are for the server; `systemctl kill` sends them to all of its unit. */
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(child->path, child->argv, child->envp);
    _exit(127);
}

/* The worker program: as configured, or beside our own binary. */
static int
worker_path(const struct srv_conf *conf, char *path, size_t size, struct gp_err *err)
{
    ssize_t n;
    char *slash;

    if (conf->worker[0]) {
        gp_str_copy(path, size, conf->worker);
    } else {
        n = readlink("/proc/self/exe", path, size - sizeof("/gpupool-worker"));
        if (n <= 0)
            return gp_err_set(err, -errno, "cannot find my own program file");
        path[n] = 0;
        slash = strrchr(path, '/');
        if (!slash)
            slash = path;
        gp_str_copy(slash, size - (size_t)(slash - path), "/gpupool-worker");
    }
    if (access(path, X_OK) < 0)
        return gp_err_set(err, -errno, "worker program %s: %s", path, strerror(errno));
    return 0;
}

int
srv_spawn_open(const struct srv_conf *conf, int *ret_fd, struct gp_err *err)
{
    char path[PATH_MAX];
    int r = worker_path(conf, path, sizeof(path), err);
    int fd = r < 0 ? -1 : open(path, O_PATH | O_CLOEXEC);

    if (r < 0)
        return r;
    if (fd < 0)
        return gp_err_set(err, -errno, "worker program %s: %s", path, strerror(errno));
    *ret_fd = fd;
    return 0;
}

/* Whoever waits for an upgrade to take effect may read here that it has not. */
static void
look_for_upgrade(const struct srv_spawn *what)
{
    static bool told;
    struct stat ours, now;
    char path[PATH_MAX];

    if (told || worker_path(what->conf, path, sizeof(path), NULL) < 0 ||
        fstat(what->program, &ours) < 0 || stat(path, &now) < 0)
        return;
    told = now.st_ino != ours.st_ino || now.st_dev != ours.st_dev;
    if (told)
        gp_log_warn("server",
                    "%s is not the program that it was when this server was started: "
                    "workers are still started from that one, until the server is "
                    "restarted (with --state-dir programs go on)",
                    path);
}

/* The child has each descriptor twice for a moment, beside three of its own and the
 * few that a start needs. */
static int
files_check(const struct spawn_fds *fds, struct gp_err *err)
{
    struct rlimit files;
    rlim_t needed = 2 * (rlim_t)fds->n + FIRST_FD + FILES_TO_START;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= needed)
        return 0;
    return gp_err_set(err, -EMFILE,
                      "the limit of open files (RLIMIT_NOFILE, ulimit -n) is %llu: a "
                      "worker needs %llu",
                      (unsigned long long)files.rlim_cur, (unsigned long long)needed);
}

/* Path, arguments and variables, each with its zero, for the keeper. */
static int
words_file(const char *path, const char *const *argv, char **envp, uint32_t *ret_n_args)
{
    CLEANUP_FD int fd = memfd_create("gpupool-start", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : gp_file_write_all(fd, path, strlen(path) + 1);

    for (*ret_n_args = 0; r == 0 && argv[*ret_n_args]; (*ret_n_args)++)
        r = gp_file_write_all(fd, argv[*ret_n_args], strlen(argv[*ret_n_args]) + 1);
    for (; r == 0 && *envp; envp++)
        r = gp_file_write_all(fd, *envp, strlen(*envp) + 1);
    return r < 0 ? r : TAKE_FD(fd);
}

static pid_t
spawn_kept(const struct srv_spawn *what, const struct spawn_fds *fds, const char *path,
           char **envp)
{
    struct srv_keep_msg msg = {
        .kind = SRV_KEEP_WORKER, .key = what->key, .n_child = fds->n};
    struct srv_keep_fds all = {0};
    CLEANUP_FD int words = words_file(path, what->argv, envp, &msg.n_args);

    if (words < 0)
        return words;
    all.fd[all.n++] = words;
    msg.group_version =
        (uint32_t)srv_jail_group(what->jail, what->cell, all.fd + all.n, &msg.n_groups);
    all.n += msg.n_groups;
    if (all.n + fds->n + what->kept->n > SRV_KEEP_FDS_MAX)
        return -E2BIG;
    for (unsigned i = 0; i < fds->n; i++) {
        msg.closed |= (uint64_t)(fds->fd[i] < 0) << i;
        all.fd[all.n++] = fds->fd[i] < 0 ? words : fds->fd[i];
    }
    memcpy(all.fd + all.n, what->kept->fd, what->kept->n * sizeof(int));
    all.n += what->kept->n;
    return srv_keeper_start_worker(what->keeper, &msg, &all);
}

static pid_t
spawn_own(const struct srv_spawn *what, const struct spawn_fds *fds, const char *path,
          char **envp)
{
    struct srv_spawn_child child = {.path = path,
                                    .argv = (char **)(uintptr_t)what->argv,
                                    .envp = envp,
                                    .fds = fds->fd,
                                    .n_fds = fds->n,
                                    .stdout_fd = what->stdout_fd,
                                    .parent = getpid()};

    return srv_jail_clone(what->jail, what->cell, srv_spawn_child, &child);
}

/* The last descriptor, and its path in the child, which closes it (wrk_main.c).  A
 * path, because a keeper of another version takes one. */
static void
add_program(const struct srv_spawn *what, struct spawn_fds *fds, char *path,
            size_t size)
{
    snprintf(path, size, WRK_PROGRAM_PATH "%u", FIRST_FD + fds->n);
    fds->fd[fds->n++] = what->program;
}

int
srv_spawn(const struct srv_spawn *what, pid_t *ret_pid, struct gp_err *err)
{
    CLEANUP(env_fini) struct spawn_env env = {0};
    struct spawn_fds fds = {.n = what->n_fds};
    char path[PATH_MAX];
    pid_t pid;
    int r;

    if (what->n_fds >= SPAWN_FDS_MAX)
        return gp_err_set(err, -EINVAL, "too many descriptors");
    look_for_upgrade(what);
    r = env_init(&env, what);
    if (r == 0) {
        if (fds.n)
            memcpy(fds.fd, what->fds, fds.n * sizeof(fds.fd[0]));
        add_cards(what, &fds, &env);
        add_program(what, &fds, path, sizeof(path));
        r = env.failed ? -ENOMEM : files_check(&fds, err);
    }
    if (r < 0)
        return gp_err_wrap(err, r, "starting a worker");
    pid = what->keeper ? spawn_kept(what, &fds, path, env.envp)
                       : spawn_own(what, &fds, path, env.envp);
    if (pid < 0)
        return gp_err_set(err, (int)pid, "no new process: %s", strerror(-(int)pid));
    *ret_pid = pid;
    return 0;
}
