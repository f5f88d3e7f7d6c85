/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_sandbox.h"

#include "gp_base.h"
#include "gp_err.h"
#include "gp_log.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static int
become(const char *user, struct gp_err *err)
{
    const struct passwd *pw = getpwnam(user);

    if (!pw)
        return gp_err_set(err, -ENOENT, "no user %s", user);
    if (setgroups(0, NULL) < 0 || setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
        setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0)
        return gp_err_set(err, -errno, "cannot become user %s: %s", user,
                          strerror(errno));
    return 0;
}

static int
drop_capabilities(struct gp_err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};

    for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
        prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* fails unprivileged: nothing to drop */
    if (syscall(SYS_capset, &head, none) < 0)
        return gp_err_set(err, -errno, "cannot drop capabilities: %s", strerror(errno));
    return 0;
}

int
wrk_sandbox_user(const char *user, struct gp_err *err)
{
    const struct rlimit no_core = {0, 0};
    int r = user[0] ? become(user, err) : 0;

    if (r == 0)
        r = drop_capabilities(err);
    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return gp_err_set(err, -errno, "no_new_privs: %s", strerror(errno));
    setrlimit(RLIMIT_CORE, &no_core);
    /* A change of user has cleared it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return 0;
}

/* Refused with EPERM: a driver that tries one of them gets an error, not a kill. */
static const int denied[] = {
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(kcmp),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(connect),
    SCMP_SYS(bind),
    SCMP_SYS(listen),
    SCMP_SYS(accept),
    SCMP_SYS(accept4),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(move_mount),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsmount),
    SCMP_SYS(open_tree),
    SCMP_SYS(mount_setattr),
    SCMP_SYS(setns),
    SCMP_SYS(unshare),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(name_to_handle_at),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register),
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(setuid),
    SCMP_SYS(setgid),
    SCMP_SYS(setreuid),
    SCMP_SYS(setregid),
    SCMP_SYS(setresuid),
    SCMP_SYS(setresgid),
    SCMP_SYS(setgroups),
    SCMP_SYS(reboot),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname),
    SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),
    SCMP_SYS(adjtimex),
    SCMP_SYS(clock_adjtime),
    SCMP_SYS(acct),
    SCMP_SYS(quotactl),
    SCMP_SYS(syslog),
    SCMP_SYS(personality),
    SCMP_SYS(iopl),
    SCMP_SYS(ioperm),
};

/* New threads yes, new processes no; glibc falls back from clone3 to clone. */
static int
deny_processes(scmp_filter_ctx ctx)
{
    int r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));

    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return r;
}

static int
filter_build(scmp_filter_ctx ctx)
{
    int r = deny_processes(ctx);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(denied); i++) {
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), denied[i], 0);
        if (r == -EDOM || r == -EINVAL)
            r = 0; /* this machine has no such call */
    }
    /* It keeps the one connection it has; there is no second. */
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 0);
    /* Signals to nobody else; our own threads are reached with tgkill. */
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(kill), 1,
                             SCMP_A0(SCMP_CMP_NE, (scmp_datum_t)getpid()));
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(tkill), 0);
    /* Pushing input into a terminal that we share with the supervisor. */
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, 0x5412));
    return r;
}

/* The sanitizers' own runtime needs what the filter denies: it forks a symbolizer
 * and traces to look for leaks. */
#ifdef GP_SANITIZED
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

int
wrk_sandbox_filter(struct gp_err *err)
{
    scmp_filter_ctx ctx;
    int r;

    if (SANITIZED) {
        gp_log_debug("sandbox", "built with a sanitizer: no system call filter");
        return 0;
    }
    ctx = seccomp_init(SCMP_ACT_ALLOW);
    if (!ctx)
        return gp_err_set(err, -ENOMEM, "no memory for the system call filter");
    r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
    if (r == 0)
        r = filter_build(ctx);
    if (r == 0)
        r = seccomp_load(ctx);
    seccomp_release(ctx);
    if (r < 0)
        return gp_err_set(err, r, "system call filter: %s", strerror(-r));
    return 0;
}
