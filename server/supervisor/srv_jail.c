/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_jail.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_size.h"
#include "gp_str.h"
#include "gp_time.h"
#include "srv_conf.h"
#include "srv_disposal.h"
#include "srv_keeper.h"
#include "srv_kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PREFIX "gpupool-soft-"
#define FOLDER_TRIES 100
/* More than a card's segment takes; pages that nobody touches cost nothing. */
#define SEGMENT_BYTES (1u << 20)

/* What outlives the supervisor; with the descriptors of the folder, of the cards, if
 * they are software, and of the control groups. */
struct jail_kept {
    struct srv_kept_head head;
    uint32_t soft;
    char folder[96];
    struct srv_cgroups_kept groups;
};
SRV_KEPT_SIZE(struct jail_kept, 1656);

struct srv_jail {
    const struct srv_conf *conf;
    struct srv_disposal *disposal; /* the server's */
    uid_t first;                   /* 0: no user ids */
    uint32_t n_uids;
    uint32_t next;  /* where to look first: an id rests as long as possible */
    uint8_t *taken; /* one byte per id */
    bool soft;
    int folder_fd; /* of the server, locked while it lives */
    char folder[96];
    int cards[SRV_SOFT_CARDS];
    struct srv_cgroups *groups; /* NULL: none */
};

/* ------------------------------------------------------------- user ids -- */

/* Whether [first, last] is mapped in this process's user namespace. */
static bool
mapped(const char *file, uint64_t first, uint64_t last)
{
    FILE *f = fopen(file, "re");
    unsigned long long inside, outside, n;
    bool found = false;

    while (f && !found && fscanf(f, "%llu %llu %llu", &inside, &outside, &n) == 3)
        found = first >= inside && last < inside + n;
    if (f)
        fclose(f);
    return found;
}

static bool
may_change_users(void)
{
    const uint32_t wanted = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL |
                            1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2] = {{0}, {0}};

    return syscall(SYS_capget, &head, have) == 0 &&
           (have[0].effective & wanted) == wanted;
}

static int
parse_range(const char *text, uint64_t *first, uint64_t *last, struct gp_err *err)
{
    char from[32];
    const char *dash = strchr(text, '-');

    snprintf(from, sizeof(from), "%.*s", dash ? (int)(dash - text) : 0, text);
    if (!dash || gp_str_u64(from, 1, INT32_MAX, first) < 0 ||
        gp_str_u64(dash + 1, *first, INT32_MAX, last) < 0 || *last - *first > 65536)
        return gp_err_set(err, -EINVAL,
                          "--worker-uids %s: auto, off, or FIRST-LAST of at most 65536 "
                          "numbers above 0",
                          text);
    return 0;
}

/* A worker with a sanitizer writes its report into a folder of the server's user, so
 * only who asks for user ids gets them. */
static bool
may_choose_uids(const struct srv_jail *jail)
{
#ifdef GP_SANITIZED
    return false;
#else
    return !jail->conf->worker_user[0];
#endif
}

static int
open_uids(struct srv_jail *jail, struct gp_err *err)
{
    const char *text = jail->conf->worker_uids;
    bool automatic = strcmp(text, "auto") == 0;
    uint64_t first = SRV_UIDS_FIRST, last = SRV_UIDS_LAST;
    int r = 0;

    if (strcmp(text, "off") == 0 || (automatic && !may_choose_uids(jail)))
        return 0;
    if (!automatic)
        r = parse_range(text, &first, &last, err);
    if (r < 0)
        return r;
    if (!may_change_users() || !mapped("/proc/self/uid_map", first, last) ||
        !mapped("/proc/self/gid_map", first, last)) {
        if (!automatic)
            return gp_err_set(err, -EPERM,
                              "--worker-uids %s: these user ids, and the capabilities "
                              "CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN and "
                              "CAP_DAC_OVERRIDE, are needed",
                              text);
        gp_log_warn("server",
                    "workers of all sessions run as user %u: a user id for "
                    "each session needs root",
                    (unsigned)geteuid());
        return 0;
    }
    jail->n_uids = (uint32_t)(last - first + 1);
    jail->taken = calloc(jail->n_uids, 1);
    if (!jail->taken)
        return gp_err_set(err, -ENOMEM, "no memory for user ids");
    jail->first = (uid_t)first;
    return 0;
}

static int
take_uid(struct srv_jail *jail, uid_t *ret, struct gp_err *err)
{
    for (uint32_t i = 0; i < jail->n_uids; i++) {
        uint32_t at = (jail->next + i) % jail->n_uids;

        if (jail->taken[at])
            continue;
        jail->taken[at] = 1;
        jail->next = at + 1;
        *ret = jail->first + at;
        return 0;
    }
    return gp_err_set(err, -EUSERS, "all %u user ids for sessions are in use",
                      jail->n_uids);
}

/* -------------------------------------------------------- software cards -- */

/* What srv_jail_idle() and srv_jail_leave() rename a folder to that is removed. */
#define GONE "gone-"

/* Those whose name begins with @prefix; "": all. */
static void
remove_sessions(struct srv_disposal *disposal, int fd, const char *prefix)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    struct dirent *e;

    if (!d && copy >= 0)
        close(copy);
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && strncmp(e->d_name, prefix, strlen(prefix)) == 0)
            srv_disposal_folder(disposal, fd, e->d_name);
    if (d)
        closedir(d);
}

static const char *
shared_memory(void)
{
    const char *dir = getenv("SOFTGPU_DIR");

    return dir && *dir ? dir : "/dev/shm";
}

/* What killed servers of this user left: nobody holds its lock. */
static void
tidy(void)
{
    DIR *d = opendir(shared_memory());
    struct dirent *e;

    while (d && (e = readdir(d))) {
        CLEANUP_FD int fd = -1;
        struct stat st;

        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        fd = openat(dirfd(d), e->d_name,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
            flock(fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        remove_sessions(NULL, fd, "");
        unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
    }
    if (d)
        closedir(d);
}

/* Make a folder and lock it.  -EAGAIN: another server that tidies up removed it before
 * it had its lock. */
static int
make_locked(char *folder, int *ret_fd, struct gp_err *err)
{
    CLEANUP_FD int fd = -1;
    struct stat ours, named;

    if (!mkdtemp(folder))
        return gp_err_set(err, -errno, "%s: %s", shared_memory(), strerror(errno));
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -EAGAIN;
    if (flock(fd, LOCK_EX) < 0 || fchmod(fd, 0711) < 0 || fstat(fd, &ours) < 0)
        return gp_err_set(err, -errno, "%s: %s", folder, strerror(errno));
    if (stat(folder, &named) < 0 || ours.st_ino != named.st_ino)
        return -EAGAIN;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int
make_folder(struct srv_jail *jail, struct gp_err *err)
{
    int r = -EAGAIN;

    for (unsigned i = 0; r == -EAGAIN && i < FOLDER_TRIES; i++) {
        if ((size_t)snprintf(jail->folder, sizeof(jail->folder), "%s/" PREFIX "XXXXXX",
                             shared_memory()) >= sizeof(jail->folder))
            return gp_err_set(err, -ENAMETOOLONG, "SOFTGPU_DIR is too long");
        r = make_locked(jail->folder, &jail->folder_fd, err);
    }
    return r == -EAGAIN
               ? gp_err_set(err, r, "%s is removed again and again", jail->folder)
               : r;
}

/* A file without a name, of fixed size: a worker can use the card and neither
 * truncate its memory under others nor put something else in its place. */
static int
make_card(int *ret, struct gp_err *err)
{
    CLEANUP_FD int fd = memfd_create("softgpu-card", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, SEGMENT_BYTES) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return gp_err_set(err, -errno, "memory file of a software card: %s",
                          strerror(errno));
    *ret = TAKE_FD(fd);
    return 0;
}

static int
open_soft(struct srv_jail *jail, struct gp_err *err)
{
    int r;

    tidy();
    r = make_folder(jail, err);
    for (unsigned i = 0; r == 0 && i < SRV_SOFT_CARDS; i++)
        r = make_card(&jail->cards[i], err);
    return r;
}

/* -------------------------------------------------------------------- all -- */

/* As the supervisor of before had them: other workers use them. */
static int
adopt_soft(struct srv_jail *jail, const struct jail_kept *kept, const int *fds)
{
    if (!kept->soft || !gp_str_copy(jail->folder, sizeof(jail->folder), kept->folder))
        return -EPROTO;
    jail->folder_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
    for (unsigned i = 0; i < SRV_SOFT_CARDS; i++)
        jail->cards[i] = fcntl(fds[1 + i], F_DUPFD_CLOEXEC, 0);
    for (unsigned i = 0; i < SRV_SOFT_CARDS; i++)
        if (jail->cards[i] < 0 || jail->folder_fd < 0)
            return -EMFILE;
    remove_sessions(jail->disposal, jail->folder_fd, GONE);
    return 0;
}

/* Descriptors before those of the control groups. */
static unsigned
own_fds(bool soft)
{
    return 1 + (soft ? 1 + SRV_SOFT_CARDS : 0);
}

static int
jail_open(struct srv_jail *jail, const struct jail_kept *kept, const int *fds,
          struct gp_err *err)
{
    int r = open_uids(jail, err);

    if (r == 0)
        r = srv_cgroups_new(jail->conf->worker_cgroup, kept ? &kept->groups : NULL,
                            kept ? fds + own_fds(jail->soft) : NULL, &jail->groups,
                            err);
    if (r == 0 && jail->soft && !kept)
        r = open_soft(jail, err);
    else if (r == 0 && jail->soft)
        r = adopt_soft(jail, kept, fds + 1);
    return r;
}

static int
map_kept(const struct srv_jail *jail, const struct srv_keep_fds *fds, void **ret,
         struct gp_err *err)
{
    struct jail_kept *kept;
    int r =
        fds->n ? srv_kept_map(fds->fd[0], SRV_KEPT_JAIL, sizeof(*kept), ret) : -EPROTO;

    kept = *ret;
    if (r == 0 && (kept->groups.n_parts > SRV_CGROUP_PARTS ||
                   fds->n != own_fds(jail->soft) + kept->groups.n_parts))
        r = -EPROTO;
    if (r < 0)
        return gp_err_set(err, r, "what the keeper has of the workers' jail");
    kept->folder[sizeof(kept->folder) - 1] = 0;
    for (unsigned i = 0; i < SRV_CGROUP_PARTS; i++)
        kept->groups.path[i][sizeof(kept->groups.path[0]) - 1] = 0;
    return 0;
}

int
srv_jail_new(const struct srv_conf *conf, struct srv_disposal *disposal,
             const struct srv_keep_fds *kept, struct srv_jail **ret, struct gp_err *err)
{
    struct srv_jail *jail = calloc(1, sizeof(*jail));
    void *map = NULL;
    int r = 0;

    if (!jail)
        return gp_err_set(err, -ENOMEM, "no memory for the workers' jail");
    jail->conf = conf;
    jail->disposal = disposal;
    jail->folder_fd = -1;
    for (unsigned i = 0; i < SRV_SOFT_CARDS; i++)
        jail->cards[i] = -1;
    /* As srv_worker.c distinguishes them. */
    jail->soft = strcmp(conf->driver, "null") == 0 || strstr(conf->driver, "softgpu");
    if (kept)
        r = map_kept(jail, kept, &map, err);
    if (r == 0)
        r = jail_open(jail, map, kept ? kept->fd : NULL, err);
    srv_kept_unmap(map, sizeof(struct jail_kept));
    if (r < 0) {
        srv_jail_free(jail);
        return r;
    }
    if (jail->first)
        gp_log_info("server", "each session has a user id of its own, %u to %u",
                    (unsigned)jail->first, (unsigned)(jail->first + jail->n_uids - 1));
    *ret = jail;
    return 0;
}

void
srv_jail_keep(const struct srv_jail *jail, struct srv_keeper *keeper)
{
    int fds[1 + 1 + SRV_SOFT_CARDS + SRV_CGROUP_PARTS];
    unsigned n = own_fds(jail->soft);
    struct jail_kept *kept;
    CLEANUP_FD int fd = -1;
    void *map = NULL;

    if (!keeper || srv_kept_new(SRV_KEPT_JAIL, sizeof(*kept), &fd, &map, NULL) < 0)
        return;
    kept = map;
    kept->soft = jail->soft;
    gp_str_copy(kept->folder, sizeof(kept->folder), jail->folder);
    srv_cgroups_keep(jail->groups, &kept->groups, fds + n);
    fds[0] = fd;
    if (jail->soft) {
        fds[1] = jail->folder_fd;
        memcpy(fds + 2, jail->cards, sizeof(jail->cards));
    }
    srv_keeper_put(keeper, SRV_KEEP_JAIL, 0, 0, fds, n + kept->groups.n_parts);
    srv_kept_unmap(map, sizeof(*kept));
}

static void
jail_close(struct srv_jail *jail)
{
    for (unsigned i = 0; i < SRV_SOFT_CARDS; i++)
        if (jail->cards[i] >= 0)
            close(jail->cards[i]);
    if (jail->folder_fd >= 0)
        close(jail->folder_fd);
    free(jail->taken);
    free(jail);
}

void
srv_jail_free(struct srv_jail *jail)
{
    if (!jail)
        return;
    if (jail->folder_fd >= 0) {
        remove_sessions(NULL, jail->folder_fd, "");
        rmdir(jail->folder);
    }
    srv_cgroups_free(jail->groups);
    jail_close(jail);
}

void
srv_jail_abandon(struct srv_jail *jail, bool again)
{
    if (!jail)
        return;
    if (!again)
        srv_cgroups_make_room();
    srv_cgroups_leave(jail->groups);
    jail_close(jail);
}

static int
make_exports_at(const struct srv_jail *jail, const char *name,
                const struct srv_cell *cell)
{
    if (mkdirat(jail->folder_fd, name, 0700) < 0)
        return -errno;
    return cell->uid && fchownat(jail->folder_fd, name, cell->uid, (gid_t)cell->uid,
                                 AT_SYMLINK_NOFOLLOW) < 0
               ? -errno
               : 0;
}

static int
make_exports(struct srv_jail *jail, uint64_t id, struct srv_cell *cell,
             struct gp_err *err)
{
    char name[32];
    int r;

    snprintf(name, sizeof(name), "%" PRIu64, id);
    r = make_exports_at(jail, name, cell);
    if (r < 0)
        return gp_err_set(err, r, "%s/%s: %s", jail->folder, name, strerror(-r));
    snprintf(cell->exports, sizeof(cell->exports), "%s/%s", jail->folder, name);
    return 0;
}

static const char *
exports_name(const struct srv_cell *cell)
{
    return strrchr(cell->exports, '/') + 1;
}

static bool
exports_empty(const struct srv_jail *jail, const struct srv_cell *cell)
{
    int fd = openat(jail->folder_fd, exports_name(cell),
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *e;
    unsigned n = 0;

    if (!d && fd >= 0)
        close(fd);
    while (d && n < 3 && (e = readdir(d))) /* "." and ".." are two */
        n++;
    if (d)
        closedir(d);
    return n < 3;
}

/* A tmpfs counts so many bytes for each entry of a folder, "." and ".." included. */
#define TMPFS_ENTRY 20

bool
srv_jail_overfull(const struct srv_jail *jail, const struct srv_cell *cell)
{
    struct statfs fs;
    struct stat st;

    return cell->exports[0] && fstatfs(jail->folder_fd, &fs) == 0 &&
           fs.f_type == TMPFS_MAGIC &&
           fstatat(jail->folder_fd, exports_name(cell), &st, AT_SYMLINK_NOFOLLOW) ==
               0 &&
           st.st_size / TMPFS_ENTRY > SRV_JAIL_FILES;
}

static void
gone_name(char name[32])
{
    uint64_t number;

    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
        number = gp_now_ns();
    snprintf(name, 32, GONE "%016" PRIx64, number);
}

int
srv_jail_enter(struct srv_jail *jail, uint64_t id, struct srv_cell *cell,
               struct gp_err *err)
{
    int r = 0;

    *cell = (struct srv_cell){0};
    if (jail->first)
        r = take_uid(jail, &cell->uid, err);
    if (r == 0)
        r = srv_cgroup_enter(jail->groups, id, &cell->cgroup, err);
    if (r == 0 && jail->soft)
        r = make_exports(jail, id, cell, err);
    if (r < 0)
        srv_jail_leave(jail, cell);
    return r;
}

int
srv_jail_reenter(struct srv_jail *jail, uint64_t id, uid_t uid, const char *exports,
                 struct srv_cell *cell, struct gp_err *err)
{
    int r;

    *cell = (struct srv_cell){.uid = uid};
    if (uid >= jail->first && uid - jail->first < jail->n_uids)
        jail->taken[uid - jail->first] = 1;
    else if (uid)
        return gp_err_set(err, -EPROTO, "user id %u is not of --worker-uids",
                          (unsigned)uid);
    r = srv_cgroup_enter(jail->groups, id, &cell->cgroup, err);
    if (r == 0 && jail->soft &&
        (strncmp(exports, jail->folder, strlen(jail->folder)) != 0 ||
         !gp_str_copy(cell->exports, sizeof(cell->exports), exports)))
        r = gp_err_set(err, -EPROTO, "%s is not in %s", exports, jail->folder);
    return r;
}

/* The folder changes places with a fresh one; removing its files can take long. */
void
srv_jail_idle(struct srv_jail *jail, const struct srv_cell *cell)
{
    char gone[32];

    if (!cell->exports[0] || exports_empty(jail, cell))
        return;
    gone_name(gone);
    if (make_exports_at(jail, gone, cell) < 0 ||
        renameat2(jail->folder_fd, gone, jail->folder_fd, exports_name(cell),
                  RENAME_EXCHANGE) < 0)
        gp_log_warn("server", "%s: its files stay until the session ends: %s",
                    cell->exports, strerror(errno));
    srv_disposal_folder(jail->disposal, jail->folder_fd, gone);
}

void
srv_jail_leave(struct srv_jail *jail, struct srv_cell *cell)
{
    char gone[32];

    if (cell->exports[0]) {
        gone_name(gone);
        if (renameat(jail->folder_fd, exports_name(cell), jail->folder_fd, gone) == 0)
            srv_disposal_folder(jail->disposal, jail->folder_fd, gone);
    }
    srv_cgroup_leave(jail->groups, &cell->cgroup);
    if (cell->uid)
        jail->taken[cell->uid - jail->first] = 0;
    *cell = (struct srv_cell){0};
}

int
srv_jail_limit(const struct srv_jail *jail, const struct srv_cell *cell,
               uint32_t workers, uint64_t slices, struct gp_err *err)
{
    uint64_t each = jail->conf->worker_bytes + jail->conf->shared_bytes;

    if (!jail->groups || !jail->conf->worker_bytes)
        return 0;
    return srv_cgroup_limit(jail->groups, &cell->cgroup,
                            workers * each + (jail->soft ? slices : 0), err);
}

void
srv_jail_want(const struct srv_jail *jail, struct srv_cell *cell, char *words,
              size_t size)
{
    char text[GP_SIZE_TEXT];
    uint64_t limit;

    *words = 0;
    switch (srv_cgroup_want(jail->groups, &cell->cgroup, &limit)) {
    case SRV_CGROUP_WANT_NONE:
        break;
    case SRV_CGROUP_WANT_OWN:
        snprintf(
            words, size,
            "its session may have %s of the server's host memory (--worker-memory, "
            "--worker-shared)",
            gp_size_format(limit, text));
        break;
    case SRV_CGROUP_WANT_OTHER:
        snprintf(words, size, "the server's host, or its container, is out of memory");
        break;
    }
}

pid_t
srv_jail_clone(const struct srv_jail *jail, const struct srv_cell *cell,
               srv_clone_start *start, void *arg)
{
    return srv_cgroup_clone(jail->groups, cell ? &cell->cgroup : NULL, start, arg);
}

int
srv_jail_group(const struct srv_jail *jail, const struct srv_cell *cell, int *ret_fds,
               uint32_t *ret_n)
{
    int version = srv_cgroup_version(jail->groups, cell ? &cell->cgroup : NULL, ret_n);

    for (uint32_t i = 0; i < *ret_n; i++)
        ret_fds[i] = cell->cgroup.fd[i];
    return version;
}

void
srv_jail_user(const struct srv_jail *jail, const struct srv_cell *cell, char user[64])
{
    uid_t uid = cell ? cell->uid : jail->first;

    if (uid)
        snprintf(user, 64, "%u", (unsigned)uid);
    else
        gp_str_copy(user, 64, jail->conf->worker_user);
}

bool
srv_jail_soft(const struct srv_jail *jail)
{
    return jail->soft;
}

int
srv_jail_card(const struct srv_jail *jail, unsigned index)
{
    return index < SRV_SOFT_CARDS ? jail->cards[index] : -1;
}
