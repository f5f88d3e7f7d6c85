/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_landlock.h"

#include "gp_base.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "wrk_driver.h"
#include "wrk_sandbox_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of linux/landlock.h; the header of the build machine may be older than the kernel
 * that we run on. */
#define SYS_LANDLOCK_CREATE 444
#define SYS_LANDLOCK_ADD 445
#define SYS_LANDLOCK_RESTRICT 446
#define CREATE_VERSION 1u
#define RULE_PATH_BENEATH 1

enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_REG = 1 << 8,
    FS_ABI1 = (1 << 13) - 1,
    FS_REFER = 1 << 13,     /* ABI 2 */
    FS_TRUNCATE = 1 << 14,  /* ABI 3 */
    FS_IOCTL_DEV = 1 << 15, /* ABI 5 */
    FS_OF_FILES =
        FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
    NET_TCP = 3, /* bind and connect, ABI 4 */
    SCOPES = 3,  /* abstract Unix sockets and signals, ABI 6 */

    LOOK = FS_READ_FILE | FS_READ_DIR,
    /* A library is read and mapped; executing it as a program is execve's, which
     * the filter denies. */
    LIBRARY = LOOK,
    DEVICE = LOOK | FS_WRITE_FILE | FS_IOCTL_DEV,
    OWN_FOLDER = LOOK | FS_WRITE_FILE | FS_MAKE_REG | FS_REMOVE_FILE | FS_TRUNCATE,
};

struct ruleset_attr {
    uint64_t fs;
    uint64_t net;
    uint64_t scoped;
};

struct path_attr {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

struct ruleset {
    int fd;
    uint64_t handled;
};

/* What a worker may open, as patterns of glob(3): those that do not exist here are
 * left out.  None of /etc but what the dynamic linker and libibverbs read, no home,
 * no /run, no /tmp, of /proc no process but our own. */
static const struct {
    const char *pattern;
    uint64_t access;
} known[] = {
    {"/usr/lib*", LIBRARY},
    {"/lib*", LIBRARY},
    {"/usr/local/lib*", LIBRARY},
    {"/usr/share/nvidia", LOOK},
    {"/etc/ld.so.cache", FS_READ_FILE},
    {"/etc/libibverbs.d", LOOK},
    {"/etc/rdma", LOOK},
    {"/dev/null", DEVICE},
    {"/dev/zero", DEVICE},
    {"/dev/urandom", FS_READ_FILE},
    {"/dev/nvidia*", DEVICE},
    {"/dev/infiniband", DEVICE},
    {"/dev/udmabuf", DEVICE},
    {"/proc/cpuinfo", FS_READ_FILE},
    {"/proc/meminfo", FS_READ_FILE},
    {"/proc/stat", FS_READ_FILE},
    {"/proc/devices", FS_READ_FILE},
    {"/proc/modules", FS_READ_FILE},
    {"/proc/filesystems", FS_READ_FILE},
    {"/proc/driver/nvidia*", LOOK},
    {"/proc/sys/vm", LOOK},
    {"/sys/bus/pci", LOOK},
    {"/sys/class/infiniband*", LOOK},
    {"/sys/class/misc", LOOK},
    {"/sys/class/net", LOOK},
    {"/sys/devices", LOOK},
    {"/sys/module/nvidia*", LOOK},
    {"/sys/kernel/mm", LOOK},
};

static int
allow_fd(const struct ruleset *rules, int fd, uint64_t access, const char *path,
         struct gp_err *err)
{
    struct path_attr rule = {.allowed = access & rules->handled, .parent_fd = fd};
    struct stat st;

    if (fstat(fd, &st) < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        rule.allowed &= FS_OF_FILES;
    if (syscall(SYS_LANDLOCK_ADD, rules->fd, RULE_PATH_BENEATH, &rule, 0) < 0)
        return gp_err_set(err, -errno, "Landlock: %s: %s", path, strerror(errno));
    return 0;
}

static int
allow(const struct ruleset *rules, const char *path, uint64_t access,
      struct gp_err *err)
{
    CLEANUP_FD int fd = open(path, O_PATH | O_CLOEXEC);

    return fd < 0 ? 0 : allow_fd(rules, fd, access, path, err);
}

static int
allow_known(const struct ruleset *rules, struct gp_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(known); i++) {
        glob_t found = {0};

        if (glob(known[i].pattern, GLOB_NOSORT, NULL, &found) == 0)
            for (size_t j = 0; r == 0 && j < found.gl_pathc; j++)
                r = allow(rules, found.gl_pathv[j], known[i].access, err);
        globfree(&found);
    }
    return r;
}

/* A driver given by its path opens its helpers beside it. */
static int
allow_driver(const struct ruleset *rules, struct gp_err *err)
{
    char path[PATH_MAX];
    char *slash;

    if (!wrk_driver_file(path))
        return 0;
    slash = strrchr(path, '/');
    if (!slash || slash == path)
        return 0;
    *slash = 0;
    return allow(rules, path, LIBRARY, err);
}

/* "/opt/tables:/opt/more", of --worker-read. */
static int
allow_list(const struct ruleset *rules, const char *list, struct gp_err *err)
{
    CLEANUP_FREE char *copy = strdup(list);
    char *rest = copy, *path;
    int r = copy ? 0 : -ENOMEM;

    while (r == 0 && (path = strsep(&rest, ":")))
        if (*path)
            r = allow(rules, path, LOOK, err);
    return r;
}

/* Landlock knows files by inode, and procfs makes a new inode for a process's folder
 * once the old one has left the cache.  The descriptor, which stays open, keeps it. */
static int
allow_own_proc(const struct ruleset *rules, struct gp_err *err)
{
    int fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? 0 : allow_fd(rules, fd, LOOK, "/proc/self", err);
}

static int
allow_all(const struct ruleset *rules, const struct wrk_sandbox *box,
          struct gp_err *err)
{
    int r = allow_known(rules, err);

    if (r == 0)
        r = allow_driver(rules, err);
    if (r == 0)
        r = allow_list(rules, box->readable, err);
    if (r == 0 && box->exports[0])
        r = allow(rules, box->exports, OWN_FOLDER, err);
    return r < 0 ? r : allow_own_proc(rules, err);
}

static struct ruleset_attr
handled(long abi, size_t *ret_size)
{
    struct ruleset_attr attr = {.fs = FS_ABI1};

    *ret_size = sizeof(attr.fs);
    if (abi >= 2)
        attr.fs |= FS_REFER;
    if (abi >= 3)
        attr.fs |= FS_TRUNCATE;
    if (abi >= 5)
        attr.fs |= FS_IOCTL_DEV;
    if (abi >= 4) {
        attr.net = NET_TCP;
        *ret_size += sizeof(attr.net);
    }
    if (abi >= 6) {
        attr.scoped = SCOPES;
        *ret_size += sizeof(attr.scoped);
    }
    return attr;
}

int
wrk_landlock_enter(const struct wrk_sandbox *box, struct gp_err *err)
{
    long abi = syscall(SYS_LANDLOCK_CREATE, NULL, 0, CREATE_VERSION);
    CLEANUP_FD int fd = -1;
    struct ruleset_attr attr;
    struct ruleset rules;
    size_t size;
    int r;

    if (abi < 1) {
        gp_log_warn("sandbox",
                    "this kernel has no Landlock: the files of this user, and the "
                    "memory of its other processes, are not closed to the worker");
        return 0;
    }
    attr = handled(abi, &size);
    fd = (int)syscall(SYS_LANDLOCK_CREATE, &attr, size, 0);
    if (fd < 0)
        return gp_err_set(err, -errno, "Landlock: %s", strerror(errno));
    rules = (struct ruleset){.fd = fd, .handled = attr.fs};
    r = allow_all(&rules, box, err);
    if (r == 0 && syscall(SYS_LANDLOCK_RESTRICT, fd, 0) < 0)
        r = gp_err_set(err, -errno, "Landlock: %s", strerror(errno));
    if (r == 0)
        gp_log_debug("sandbox", "Landlock ABI %ld", abi);
    return r;
}
