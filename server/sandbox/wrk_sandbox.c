/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_sandbox.h"

#include "gp_base.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_str.h"
#include "wrk_landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The sanitizers' own runtime needs what is denied here: it forks a symbolizer, traces
 * to look for leaks, writes its reports to files and reserves terabytes of private
 * memory.  The user, the capabilities and the limits of files hold there too. */
#ifdef GP_SANITIZED
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define STATUS_MAX 8192

/* A software card that has reserved its addresses has more private memory than this. */
#define SOFT_ADDRESSES (UINT64_C(8) << 30)

static int
find_user(const char *user, uid_t *ret_uid, gid_t *ret_gid, struct gp_err *err)
{
    const struct passwd *pw;
    uint64_t number;

    if (gp_str_u64(user, 1, UINT32_MAX - 1, &number) == 0) {
        *ret_uid = (uid_t)number;
        *ret_gid = (gid_t)number;
        return 0;
    }
    pw = getpwnam(user);
    if (!pw)
        return gp_err_set(err, -ENOENT, "no user %s", user);
    *ret_uid = pw->pw_uid;
    *ret_gid = pw->pw_gid;
    return 0;
}

static int
become(const char *user, struct gp_err *err)
{
    uid_t uid = 0;
    gid_t gid = 0;
    int r = find_user(user, &uid, &gid, err);

    if (r < 0)
        return r;
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
        setresuid(uid, uid, uid) < 0)
        return gp_err_set(err, -errno, "cannot become user %s: %s", user,
                          strerror(errno));
    return 0;
}

/* Before the user changes, which takes away the right to do it. */
static void
empty_bounding_set(void)
{
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
        if (cap != CAP_SETPCAP)
            prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* fails unprivileged */
    prctl(PR_CAPBSET_DROP, CAP_SETPCAP, 0, 0, 0);
}

static int
drop_capabilities(struct gp_err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};

    if (syscall(SYS_capset, &head, none) < 0)
        return gp_err_set(err, -errno, "cannot drop capabilities: %s", strerror(errno));
    return 0;
}

static int
limit(int resource, rlim_t most, const char *what, struct gp_err *err)
{
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
        return gp_err_set(err, -errno, "limit of %s: %s", what, strerror(errno));
    now.rlim_max = gp_min(now.rlim_max, most);
    now.rlim_cur = gp_min(now.rlim_cur, now.rlim_max);
    if (setrlimit((__rlimit_resource_t)resource, &now) < 0)
        return gp_err_set(err, -errno, "limit of %s: %s", what, strerror(errno));
    return 0;
}

static int
limit_all(const struct wrk_sandbox *box, struct gp_err *err)
{
    int r = limit(RLIMIT_CORE, 0, "core files", err);

    if (r == 0)
        r = limit(RLIMIT_NOFILE, WRK_FILES_MAX, "descriptors", err);
    if (r == 0)
        r = limit(RLIMIT_MSGQUEUE, 0, "message queues", err);
    /* It counts every process of a user: useless for one that others have too. */
    if (r == 0 && box->own_user)
        r = limit(RLIMIT_NPROC, WRK_TASKS_MAX, "threads", err);
    if (r < 0 || !box->file_bytes || SANITIZED)
        return r;
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error, not a death */
    return limit(RLIMIT_FSIZE, box->file_bytes, "files", err);
}

/* Bytes of private writable memory, as RLIMIT_DATA counts them. */
static int
private_memory(uint64_t *ret)
{
    CLEANUP_FREE char *text = NULL;
    unsigned long long kib;
    const char *line;
    size_t len;
    int r = gp_file_read("/proc/self/status", STATUS_MAX, &text, &len, NULL);

    line = r < 0 ? NULL : strstr(text, "\nVmData:");
    if (!line || sscanf(line, "\nVmData: %llu", &kib) != 1)
        return r < 0 ? r : -EPROTO;
    *ret = (uint64_t)kib << 10;
    return 0;
}

int
wrk_sandbox_memory(const struct wrk_sandbox *box, struct gp_err *err)
{
    uint64_t now;
    int r;

    if (!box->memory || SANITIZED)
        return 0;
    r = private_memory(&now);
    if (r < 0)
        return gp_err_set(err, r, "/proc/self/status does not tell the memory used");
    /* Where the system lets it reserve none, its allocations will count.  A file may be
     * as large as all of its slices and @memory. */
    if (box->soft && now < SOFT_ADDRESSES)
        return limit(RLIMIT_DATA, now + box->file_bytes, "memory", err);
    return limit(RLIMIT_DATA, now + box->memory, "memory", err);
}

/* What protects the supervisor when the host is out of memory, as that of a pod that
 * its node cannot do without (-997), is not for what its clients make a worker
 * allocate. */
static void
end_first(void)
{
    CLEANUP_FD int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    char first = 0;

    if (fd >= 0 && read(fd, &first, 1) == 1 && first == '-' &&
        pwrite(fd, "0", 1, 0) < 0)
        gp_log_debug("sandbox", "oom_score_adj stays: %s", strerror(errno));
}

int
wrk_sandbox_enter(const struct wrk_sandbox *box, struct gp_err *err)
{
    int r;

    end_first();
    empty_bounding_set();
    r = box->user[0] ? become(box->user, err) : 0;
    if (r == 0)
        r = drop_capabilities(err);
    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return gp_err_set(err, -errno, "no_new_privs: %s", strerror(errno));
    r = limit_all(box, err);
    /* A change of user has cleared it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (r < 0 || SANITIZED)
        return r;
    /* Nobody of this user traces us or reads our memory. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return gp_err_set(err, -errno, "not dumpable: %s", strerror(errno));
    return wrk_landlock_enter(box, err);
}
