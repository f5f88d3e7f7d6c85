/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_cgroup.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"
#define PREFIX "gpupool-"
#define TEXT_MAX 8192
/* Of a group's list. */
#define PROCESSES_MAX (1u << 20)
/* Groups whose last process has not quite gone when the session ends. */
#define GONE_MAX 256

struct srv_cgroups {
    int version;
    unsigned n_parts;
    int fd[SRV_CGROUP_PARTS]; /* the folders that sessions' groups are in */
    char path[SRV_CGROUP_PARTS][512];
    unsigned n_gone;
    char gone[GONE_MAX][32];
};

static const char *const parts_v1[SRV_CGROUP_PARTS] = {"memory", "pids", "cpu"};

static int
put(int folder, const char *file, const char *text)
{
    CLEANUP_FD int fd = openat(folder, file, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int
put_number(int folder, const char *file, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    return put(folder, file, text);
}

/* The number behind @key and a space, or in front if @key is ""; 0: there is none. */
static uint64_t
get_number(int folder, const char *file, const char *key)
{
    CLEANUP_FD int fd = openat(folder, file, O_RDONLY | O_CLOEXEC);
    size_t len = strlen(key);
    char text[1024] = "";

    if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
        return 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && (!len || line[len] == ' '))
            return strtoull(line + len, NULL, 10);
    }
    return 0;
}

static int
open_folder(int at, const char *path, int *ret)
{
    *ret = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret < 0 ? -errno : 0;
}

/* ---------------------------------------------------- the server's own group -- */

/* Its path in the hierarchy of @part of version 1, or of version 2 (""). */
static int
own_path(const char *part, char *path, size_t size)
{
    CLEANUP_FREE char *text = NULL;
    char *save = NULL;
    size_t len;
    int r = gp_file_read("/proc/self/cgroup", TEXT_MAX, &text, &len, NULL);

    if (r < 0)
        return r;
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *names = strchr(line, ':'), *at = names ? strchr(names + 1, ':') : NULL;

        if (!at)
            continue;
        *at++ = 0;
        names++;
        if (strcmp(names, part) == 0)
            return gp_str_copy(path, size, at) ? 0 : -ENAMETOOLONG;
    }
    return -ENOENT;
}

/* Folders that servers left behind which were killed. */
static void
tidy(int folder)
{
    CLEANUP_FD int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *e;

    if (d)
        copy = -1;
    while (d && (e = readdir(d))) {
        uint64_t pid;
        DIR *inner;
        int fd;

        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0 ||
            gp_str_u64(e->d_name + strlen(PREFIX), 1, INT32_MAX, &pid) < 0 ||
            kill((pid_t)pid, 0) == 0 || open_folder(folder, e->d_name, &fd) < 0)
            continue;
        inner = fdopendir(fd);
        for (struct dirent *s; inner && (s = readdir(inner));)
            if (s->d_name[0] == 's')
                unlinkat(dirfd(inner), s->d_name, AT_REMOVEDIR);
        if (inner)
            closedir(inner);
        else
            close(fd);
        unlinkat(folder, e->d_name, AT_REMOVEDIR);
    }
    if (d)
        closedir(d);
}

/* A folder of our own in our group of hierarchy @base. */
static int
make_part(struct srv_cgroups *groups, const char *base, const char *own)
{
    CLEANUP_FD int parent = -1;
    char *path = groups->path[groups->n_parts];
    size_t size = sizeof(groups->path[0]);
    int r;

    snprintf(path, size, "%s%s", base, strcmp(own, "/") == 0 ? "" : own);
    r = open_folder(AT_FDCWD, path, &parent);
    if (r < 0)
        return r;
    tidy(parent);
    snprintf(path + strlen(path), size - strlen(path), "/" PREFIX "%d", (int)getpid());
    if (mkdir(path, 0755) < 0)
        return -errno;
    r = open_folder(AT_FDCWD, path, &groups->fd[groups->n_parts]);
    groups->n_parts++;
    return r;
}

/* The folder of a supervisor that is gone instead. */
static int
adopt_part(struct srv_cgroups *groups, const struct srv_cgroups_kept *kept,
           const int *fds)
{
    unsigned i = groups->n_parts;

    if (i >= kept->n_parts || fds[i] < 0 ||
        !gp_str_copy(groups->path[i], sizeof(groups->path[0]), kept->path[i]))
        return -EPROTO;
    groups->fd[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
    groups->n_parts++;
    return groups->fd[i] < 0 ? -errno : 0;
}

static int
start_v1(struct srv_cgroups *groups, const struct srv_cgroups_kept *kept,
         const int *fds)
{
    int r = 0;

    groups->version = 1;
    for (unsigned i = 0; r == 0 && i < SRV_CGROUP_PARTS; i++) {
        char own[384], base[64];

        r = own_path(parts_v1[i], own, sizeof(own));
        snprintf(base, sizeof(base), ROOT "/%s", parts_v1[i]);
        if (r == 0)
            r = kept ? adopt_part(groups, kept, fds) : make_part(groups, base, own);
    }
    return r;
}

/* The server is in a group beside those of its sessions: one that systemd has put it
 * into (254, DelegateSubgroup= of the unit), or else one of its own. */
#define SYSTEMD_GROUP "/supervisor"
#define OWN_GROUP "/server"
#define CONTROLLERS_ON "+memory +pids +cpu"
#define CONTROLLERS_OFF "-memory -pids -cpu"

/* True: it was, and is cut off. */
static bool
cut_group(char *own, const char *name)
{
    size_t len = strlen(own), n = strlen(name);

    if (len < n || strcmp(own + len - n, name) != 0)
        return false;
    own[len - n] = 0;
    return true;
}

/* From the path of the group that the server is in to the one that it was given.  The
 * name of the group that it is in from now on, and in *ret_again whether it has made
 * that before it started anew. */
static const char *
leave_own_group(char *own, bool *ret_again)
{
    const char *group = cut_group(own, SYSTEMD_GROUP) ? SYSTEMD_GROUP : OWN_GROUP;

    *ret_again = cut_group(own, OWN_GROUP);
    if (!*own)
        memcpy(own, "/", 2);
    return group + 1;
}

/* How many other processes are in the group @own that we are in.  -EXDEV: ROOT shows
 * another tree there, as in a container with a namespace of its own and the host's
 * groups mounted. */
static int
count_others(const char *own)
{
    CLEANUP_FREE char *text = NULL;
    char path[512], *save = NULL;
    int n = 0, r;
    bool found = false;
    size_t len;

    snprintf(path, sizeof(path), ROOT "%s/cgroup.procs", own);
    r = gp_file_read(path, PROCESSES_MAX, &text, &len, NULL);
    if (r < 0)
        return r == -ENOENT ? -EXDEV : r;
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (strtol(line, NULL, 10) == getpid())
            found = true;
        else
            n++; /* 0: of another namespace */
    }
    return found ? n : -EXDEV;
}

/* The first process of a container, whose runtime has made a group for it. */
static bool
is_container(void)
{
    return getpid() == 1;
}

/* systemd marks what it leaves to a service, and to a container where it makes the
 * groups of those. */
static bool
is_marked(int folder)
{
    char value[8] = "";

    return (fgetxattr(folder, "trusted.delegate", value, sizeof(value) - 1) > 0 ||
            fgetxattr(folder, "user.delegate", value, sizeof(value) - 1) > 0) &&
           value[0] == '1';
}

/* A kubelet has the kernel end a container as a whole when it ends one process of it
 * for want of memory.  Here that is one worker, and others are those of other sessions.
 */
static void
end_alone(int folder)
{
    if (is_container())
        put(folder, "memory.oom.group", "0");
}

/* The group that was given to this server, whose path is left in @own, and in
 * *ret_group the name of the one below it where the server itself goes. */
static int
find_group(char *own, size_t size, const char **ret_group, int *ret_fd)
{
    char path[512];
    bool again;
    int others, r = own_path("", own, size);

    others = r < 0 ? r : count_others(own);
    if (others < 0)
        return others;
    *ret_group = leave_own_group(own, &again);
    snprintf(path, sizeof(path), ROOT "%s", own);
    r = open_folder(AT_FDCWD, path, ret_fd);
    /* A container has a tree of its own, or sees that of the host, as privileged ones
     * of Kubernetes do. */
    if (r < 0 || strcmp(own, "/") == 0 || (is_container() && (again || others == 0)) ||
        is_marked(*ret_fd))
        return r;
    return -EPERM;
}

/* Groups with processes cannot have limited groups below them: the server moves to one
 * of its own first. */
static int
start_v2(struct srv_cgroups *groups, const struct srv_cgroups_kept *kept,
         const int *fds)
{
    CLEANUP_FD int own_fd = -1, self = -1;
    const char *group;
    char own[384];
    int r;

    groups->version = 2;
    r = find_group(own, sizeof(own), &group, &own_fd);
    if (r == 0 && mkdirat(own_fd, group, 0755) < 0 && errno != EEXIST)
        r = -errno;
    if (r == 0)
        r = open_folder(own_fd, group, &self);
    if (r == 0)
        r = put(self, "cgroup.procs", "0");
    if (r == 0)
        r = put(own_fd, "cgroup.subtree_control", CONTROLLERS_ON);
    if (r == 0)
        put(self, "cpu.weight", "1000"); /* it answers for all sessions */
    if (r == 0)
        r = kept ? adopt_part(groups, kept, fds) : make_part(groups, ROOT, own);
    if (r == 0)
        r = put(groups->fd[0], "cgroup.subtree_control", CONTROLLERS_ON);
    /* systemd has removed the one that was kept, because nobody was in it */
    if (r == -ENOENT && kept && groups->n_parts) {
        close(groups->fd[0]);
        groups->n_parts = 0;
        r = make_part(groups, ROOT, own);
        if (r == 0)
            r = put(groups->fd[0], "cgroup.subtree_control", CONTROLLERS_ON);
    }
    if (r == 0)
        end_alone(own_fd);
    return r;
}

void
srv_cgroups_make_room(void)
{
    CLEANUP_FD int parent = -1;
    char own[384], path[512];
    bool limited = false;
    struct dirent *e;
    DIR *d;

    if (own_path("", own, sizeof(own)) < 0 || !cut_group(own, OWN_GROUP) || !*own)
        return;
    snprintf(path, sizeof(path), ROOT "%s", own);
    if (open_folder(AT_FDCWD, path, &parent) < 0)
        return;
    d = opendir(path);
    while (d && (e = readdir(d))) {
        CLEANUP_FD int folder = -1;

        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            open_folder(parent, e->d_name, &folder) == 0)
            limited |= put(folder, "cgroup.subtree_control", CONTROLLERS_OFF) == 0;
    }
    if (d)
        closedir(d);
    put(parent, "cgroup.subtree_control", CONTROLLERS_OFF);
    if (limited)
        gp_log_info("server",
                    "%s: sessions are without the limits of control groups until the "
                    "next server sets them again",
                    path);
}

static const char *
reason(int r)
{
    if (r == -EROFS)
        return ROOT " is mounted read-only, as in containers that are not privileged";
    if (r == -EXDEV)
        return ROOT " shows other groups than those of this container";
    return strerror(-r);
}

/* What has to be done where the groups are there. */
static const char *
remedy(int r)
{
    return r == -EROFS || r == -EXDEV ? ""
                                      : " (systemd: Delegate=yes; a container: the "
                                        "server is its first process)";
}

int
srv_cgroups_new(const char *mode, const struct srv_cgroups_kept *kept, const int *fds,
                struct srv_cgroups **ret, struct gp_err *err)
{
    struct srv_cgroups *groups;
    struct statfs fs;
    bool v2;
    int r;

    *ret = NULL;
    if (strcmp(mode, "off") == 0)
        return 0;
    if (strcmp(mode, "on") != 0 && strcmp(mode, "auto") != 0)
        return gp_err_set(err, -EINVAL, "--worker-cgroup %s: auto, on or off", mode);
    v2 = statfs(ROOT, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
    if (!v2 && strcmp(mode, "auto") == 0)
        return 0;
    groups = calloc(1, sizeof(*groups));
    if (!groups)
        return gp_err_set(err, -ENOMEM, "no memory for control groups");
    for (unsigned i = 0; i < SRV_CGROUP_PARTS; i++)
        groups->fd[i] = -1;
    if (kept && !kept->n_parts)
        kept = NULL; /* it had none: anew */
    r = v2 ? start_v2(groups, kept, fds) : start_v1(groups, kept, fds);
    if (r == 0) {
        gp_log_info("server", "each session has a control group in %s",
                    groups->path[0]);
        *ret = groups;
        return 0;
    }
    srv_cgroups_free(groups);
    if (strcmp(mode, "on") == 0)
        return gp_err_set(err, r,
                          "--worker-cgroup on: no control groups for sessions: %s%s",
                          reason(r), remedy(r));
    gp_log_info("server", "no control groups for sessions: %s%s", reason(r), remedy(r));
    return 0;
}

void
srv_cgroups_keep(const struct srv_cgroups *groups, struct srv_cgroups_kept *kept,
                 int *ret_fds)
{
    kept->n_parts = groups ? groups->n_parts : 0;
    for (unsigned i = 0; i < kept->n_parts; i++) {
        gp_str_copy(kept->path[i], sizeof(kept->path[0]), groups->path[i]);
        ret_fds[i] = groups->fd[i];
    }
}

void
srv_cgroups_leave(struct srv_cgroups *groups)
{
    for (unsigned i = 0; groups && i < groups->n_parts; i++)
        if (groups->fd[i] >= 0)
            close(groups->fd[i]);
    free(groups);
}

static void
remove_group(struct srv_cgroups *groups, const char *name)
{
    bool left = false;

    for (unsigned i = 0; i < groups->n_parts; i++)
        left |= unlinkat(groups->fd[i], name, AT_REMOVEDIR) < 0 && errno == EBUSY;
    if (left && groups->n_gone < GONE_MAX)
        gp_str_copy(groups->gone[groups->n_gone++], sizeof(groups->gone[0]), name);
}

static void
remove_gone(struct srv_cgroups *groups)
{
    unsigned n = groups->n_gone;
    char name[32];

    groups->n_gone = 0;
    for (unsigned i = 0; i < n; i++) {
        gp_str_copy(name, sizeof(name), groups->gone[i]);
        remove_group(groups, name);
    }
}

void
srv_cgroups_free(struct srv_cgroups *groups)
{
    if (!groups)
        return;
    remove_gone(groups);
    for (unsigned i = 0; i < groups->n_parts; i++) {
        if (groups->fd[i] >= 0)
            close(groups->fd[i]);
        rmdir(groups->path[i]);
    }
    free(groups);
}

/* ---------------------------------------------------------------- sessions -- */

static int
make_group(struct srv_cgroups *groups, unsigned part, struct srv_cgroup *group)
{
    /* It is there when its session is adopted. */
    int r = mkdirat(groups->fd[part], group->name, 0755) < 0 && errno != EEXIST ? -errno
                                                                                : 0;

    if (r == 0)
        r = open_folder(groups->fd[part], group->name, &group->fd[part]);
    if (r == 0 && (groups->version == 2 || part == 1))
        r = put_number(group->fd[part], "pids.max", SRV_CGROUP_TASKS);
    if (r == 0 && groups->version == 2)
        put(group->fd[part], "memory.swap.max", "0"); /* where there is swap */
    return r;
}

/* How many processes of the group the kernel ended for want of memory, and how often an
 * allocation failed at the group's own limit.  Version 1 counts those as well for which
 * there was room after all, so there the limit may be named where another one was met.
 */
static void
count_wants(const struct srv_cgroups *groups, const struct srv_cgroup *group,
            uint64_t *ret_killed, uint64_t *ret_reached)
{
    bool v2 = groups->version == 2;

    *ret_killed = get_number(group->fd[0], v2 ? "memory.events" : "memory.oom_control",
                             "oom_kill");
    *ret_reached = v2 ? get_number(group->fd[0], "memory.events", "oom")
                      : get_number(group->fd[0], "memory.failcnt", "");
}

enum srv_cgroup_want
srv_cgroup_want(const struct srv_cgroups *groups, struct srv_cgroup *group,
                uint64_t *ret_limit)
{
    uint64_t killed, reached;
    enum srv_cgroup_want want;

    *ret_limit = 0;
    if (!groups || !group->name[0])
        return SRV_CGROUP_WANT_NONE;
    count_wants(groups, group, &killed, &reached);
    want = killed == group->killed     ? SRV_CGROUP_WANT_NONE
           : reached != group->reached ? SRV_CGROUP_WANT_OWN
                                       : SRV_CGROUP_WANT_OTHER;
    group->killed = killed;
    group->reached = reached;
    if (want == SRV_CGROUP_WANT_OWN)
        *ret_limit = get_number(
            group->fd[0], groups->version == 2 ? "memory.max" : "memory.limit_in_bytes",
            "");
    return want;
}

int
srv_cgroup_enter(struct srv_cgroups *groups, uint64_t id, struct srv_cgroup *group,
                 struct gp_err *err)
{
    int r = 0;

    *group = (struct srv_cgroup){.fd = {-1, -1, -1}};
    if (!groups)
        return 0;
    remove_gone(groups);
    snprintf(group->name, sizeof(group->name), "s%" PRIu64, id);
    for (unsigned i = 0; r == 0 && i < groups->n_parts; i++)
        r = make_group(groups, i, group);
    if (r < 0) {
        srv_cgroup_leave(groups, group);
        return gp_err_set(err, r, "control group of the session: %s", strerror(-r));
    }
    /* An adopted session's has counted before. */
    count_wants(groups, group, &group->killed, &group->reached);
    return 0;
}

void
srv_cgroup_leave(struct srv_cgroups *groups, struct srv_cgroup *group)
{
    if (!group->name[0])
        return;
    for (unsigned i = 0; i < SRV_CGROUP_PARTS; i++)
        if (group->fd[i] >= 0)
            close(group->fd[i]);
    remove_group(groups, group->name);
    group->name[0] = 0;
}

int
srv_cgroup_limit(const struct srv_cgroups *groups, const struct srv_cgroup *group,
                 uint64_t bytes, struct gp_err *err)
{
    int r;

    if (!group->name[0])
        return 0;
    r = put_number(group->fd[0],
                   groups->version == 2 ? "memory.max" : "memory.limit_in_bytes",
                   bytes);
    /* What is in use may be above a limit that shrinks: the next one holds. */
    return r < 0 && r != -EBUSY
               ? gp_err_set(err, r, "memory of the session's control group: %s",
                            strerror(-r))
               : 0;
}

/* A process of version 1 moves itself, before anything else, and so does one where
 * something between us and the kernel knows no clone3(2), such as a container's filter.
 */
struct mover {
    const int *fds;
    unsigned n;
    srv_clone_start *start;
    void *arg;
};

static void
move_and_start(void *arg)
{
    const struct mover *m = arg;

    for (unsigned i = 0; i < m->n; i++)
        if (put(m->fds[i], "cgroup.procs", "0") < 0)
            _exit(127);
    m->start(m->arg);
}

pid_t
srv_cgroup_clone_at(int version, const int *fds, unsigned n, srv_clone_start *start,
                    void *arg)
{
    struct mover m = {.fds = fds, .n = n, .start = start, .arg = arg};

    if (n && version == 2) {
        pid_t pid = srv_clone(fds[0], start, arg);

        if (pid != -ENOSYS)
            return pid;
    }
    return srv_clone(-1, move_and_start, &m);
}

int
srv_cgroup_version(const struct srv_cgroups *groups, const struct srv_cgroup *group,
                   unsigned *ret_n)
{
    *ret_n = group && group->name[0] ? groups->n_parts : 0;
    return *ret_n ? groups->version : 0;
}

pid_t
srv_cgroup_clone(const struct srv_cgroups *groups, const struct srv_cgroup *group,
                 srv_clone_start *start, void *arg)
{
    unsigned n;
    int version = srv_cgroup_version(groups, group, &n);

    return srv_cgroup_clone_at(version, group ? group->fd : NULL, n, start, arg);
}
