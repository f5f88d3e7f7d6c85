/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's system call filter: what is not listed here is denied.
 *
 * A denied call returns EPERM: a driver that tries one gets an error, not a kill.
 * Calls without a condition pass by the kernel's bitmap and cost nothing that can be
 * measured; conditions cost a few instructions of a small program each time, so none
 * of the calls of a launch, a copy or a wait has one.
 */
#include "gp_base.h"
#include "gp_err.h"
#include "gp_log.h"
#include "wrk_sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef GP_SANITIZED
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* glibc's pthread_create(): exactly this. */
#define THREAD_FLAGS                                                                   \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |                \
     CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

#ifndef TCP_RTO_MAX_MS /* Linux 6.15 */
#define TCP_RTO_MAX_MS 44
#endif

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

/* With any arguments: they touch this process's memory, threads, clock and the
 * descriptors that it already has. */
static const int allowed[] = {
    /* descriptors */
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(preadv),
    SCMP_SYS(pwritev),
    SCMP_SYS(preadv2),
    SCMP_SYS(pwritev2),
    SCMP_SYS(close),
    SCMP_SYS(close_range),
    SCMP_SYS(dup),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(lseek),
    SCMP_SYS(fstat),
    SCMP_SYS(fstatfs),
    SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate),
    SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),
    SCMP_SYS(getdents64),
    SCMP_SYS(pipe),
    SCMP_SYS(pipe2),
    SCMP_SYS(eventfd2),
    SCMP_SYS(memfd_create),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(select),
    SCMP_SYS(pselect6),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_pwait2),
    SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_settime),
    SCMP_SYS(timerfd_gettime),
    /* paths: Landlock says which; nothing here makes or changes a folder entry */
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(statfs),
    /* the sockets it has */
    SCMP_SYS(sendmsg),
    SCMP_SYS(recvmsg),
    SCMP_SYS(recvfrom),
    SCMP_SYS(sendmmsg),
    SCMP_SYS(recvmmsg),
    SCMP_SYS(shutdown),
    SCMP_SYS(getsockopt),
    SCMP_SYS(getsockname),
    SCMP_SYS(getpeername),
    /* memory; executable memory is below */
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(msync),
    SCMP_SYS(mincore),
    SCMP_SYS(mlock),
    SCMP_SYS(mlock2),
    SCMP_SYS(munlock),
    SCMP_SYS(mbind),
    SCMP_SYS(get_mempolicy),
    SCMP_SYS(set_mempolicy),
    SCMP_SYS(membarrier),
    /* threads, time */
    SCMP_SYS(futex),
    SCMP_SYS(futex_waitv),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(get_thread_area),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(rseq),
    SCMP_SYS(arch_prctl),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler),
    SCMP_SYS(sched_getattr),
    SCMP_SYS(sched_get_priority_max),
    SCMP_SYS(sched_get_priority_min),
    SCMP_SYS(getcpu),
    SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(times),
    SCMP_SYS(timer_create),
    SCMP_SYS(timer_settime),
    SCMP_SYS(timer_gettime),
    SCMP_SYS(timer_delete),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    /* its own signals */
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(rt_sigsuspend),
    SCMP_SYS(rt_sigpending),
    SCMP_SYS(sigaltstack),
    /* who and where we are */
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getppid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(getrandom),
    SCMP_SYS(getrusage),
    SCMP_SYS(getrlimit),
    SCMP_SYS(sysinfo),
    SCMP_SYS(uname),
    SCMP_SYS(capget),
};

/* F_SETOWN and F_SETSIG would send any signal to anybody of this user. */
static const unsigned fcntls[] = {
    F_DUPFD,      F_DUPFD_CLOEXEC, F_GETFD,     F_SETFD,     F_GETFL,
    F_GETLK,      F_SETLK,         F_SETLKW,    F_OFD_GETLK, F_OFD_SETLK,
    F_OFD_SETLKW, F_ADD_SEALS,     F_GET_SEALS,
};

/* Flags of an open file that F_SETFL may not set: signals, pipes of packets, files
 * without the page cache.  Of the others there is O_NONBLOCK, which whoever shares the
 * open file does not depend on: the supervisor says MSG_DONTWAIT at each call. */
#define FLAGS_DENIED (O_ASYNC | O_DIRECT | O_NOATIME)

/* What transports set (transport/, link/, wrk_peer.c).  SO_LINGER, say, would make the
 * supervisor wait that closes the socket last. */
static const struct {
    unsigned level, option;
} sockopts[] = {
    {SOL_SOCKET, SO_KEEPALIVE},    {SOL_SOCKET, SO_RCVTIMEO},
    {SOL_SOCKET, SO_SNDTIMEO},     {SOL_SOCKET, SO_SNDBUF},
    {SOL_SOCKET, SO_RCVBUF},       {IPPROTO_TCP, TCP_KEEPIDLE},
    {IPPROTO_TCP, TCP_KEEPINTVL},  {IPPROTO_TCP, TCP_KEEPCNT},
    {IPPROTO_TCP, TCP_NODELAY},    {IPPROTO_TCP, TCP_CONGESTION},
    {IPPROTO_TCP, TCP_RTO_MAX_MS},
};

static const unsigned prctls[] = {PR_SET_NAME, PR_GET_NAME, PR_SET_TIMERSLACK,
                                  PR_SET_VMA};

/* The type byte of an ioctl: 0xff00.  A driver's own devices stay closed by Landlock
 * where they are not its own; here it is about what else descriptors can be told,
 * such as pushing input into a terminal (TIOCSTI) or naming who gets SIGIO. */
static const unsigned ioctl_types[] = {
    0x1b00,   /* RDMA verbs */
    'u' << 8, /* udmabuf */
    'b' << 8, /* dma-buf */
};

/* NVIDIA's: /dev/nvidia* and, plain numbers, /dev/nvidia-uvm. */
static const unsigned nvidia_types[] = {'F' << 8, 0};

/* TCGETS, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, and SIOCOUTQ, by which a dead peer is
 * found (xport_liveness.c). */
static const unsigned ioctl_exact[] = {0x5401, 0x541b, 0x5421, 0x5451, 0x5450, 0x5411};

#define LOW32 0xffffffffu

static int
rule(scmp_filter_ctx ctx, uint32_t action, int call, unsigned n,
     const struct scmp_arg_cmp *args)
{
    int r = seccomp_rule_add_array(ctx, action, call, n, args);

    return r == -EDOM || r == -EINVAL ? 0 : r; /* this machine has no such call */
}

static int
allow(scmp_filter_ctx ctx, int call)
{
    return rule(ctx, SCMP_ACT_ALLOW, call, 0, NULL);
}

/* When the low half of argument @arg has @value in the bits of @mask. */
static int
allow_if(scmp_filter_ctx ctx, int call, unsigned arg, unsigned mask, unsigned value)
{
    struct scmp_arg_cmp cmp = SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, mask, value);

    return rule(ctx, SCMP_ACT_ALLOW, call, 1, &cmp);
}

static int
allow_values(scmp_filter_ctx ctx, int call, unsigned arg, unsigned mask,
             const unsigned *values, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = allow_if(ctx, call, arg, mask, values[i]);
    return r;
}

/* New threads yes, new processes no; glibc falls back from clone3, whose arguments no
 * filter sees, to clone. */
static int
add_threads(scmp_filter_ctx ctx)
{
    unsigned self = (unsigned)getpid();
    int r = allow_if(ctx, SCMP_SYS(clone), 0, LOW32, THREAD_FLAGS);

    if (r == 0)
        r = rule(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0, NULL);
    if (r == 0)
        r = allow_if(ctx, SCMP_SYS(tgkill), 0, LOW32, self);
    if (r == 0)
        r = allow_if(ctx, SCMP_SYS(kill), 0, LOW32, self);
    /* 0 is the calling thread. */
    if (r == 0)
        r = allow_if(ctx, SCMP_SYS(sched_setaffinity), 0, LOW32, 0);
    if (r == 0)
        r = allow_if(ctx, SCMP_SYS(sched_setattr), 0, LOW32, 0);
    return r < 0 ? r
                 : allow_values(ctx, SCMP_SYS(prctl), 0, LOW32, prctls,
                                ARRAY_SIZE(prctls));
}

/* getrlimit() of glibc: of ourselves, and without a new value. */
static int
add_limits(scmp_filter_ctx ctx)
{
    struct scmp_arg_cmp cmp[] = {SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, 0),
                                 SCMP_A2(SCMP_CMP_EQ, 0)};

    return rule(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), ARRAY_SIZE(cmp), cmp);
}

/* Software drivers load no code once they run.  A real one may load a library late,
 * so there memory is only never writable and executable at once. */
static int
add_memory(scmp_filter_ctx ctx, bool soft)
{
    const int calls[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect)};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(calls); i++) {
        r = allow_if(ctx, calls[i], 2, PROT_EXEC, 0);
        if (r == 0 && !soft)
            r = allow_if(ctx, calls[i], 2, PROT_EXEC | PROT_WRITE, PROT_EXEC);
    }
    return r;
}

static int
add_ioctls(scmp_filter_ctx ctx, bool soft)
{
    int r = allow_values(ctx, SCMP_SYS(ioctl), 1, 0xff00, ioctl_types,
                         ARRAY_SIZE(ioctl_types));

    if (r == 0)
        r = allow_values(ctx, SCMP_SYS(ioctl), 1, LOW32, ioctl_exact,
                         ARRAY_SIZE(ioctl_exact));
    if (r == 0 && !soft)
        r = allow_values(ctx, SCMP_SYS(ioctl), 1, 0xff00, nvidia_types,
                         ARRAY_SIZE(nvidia_types));
    return r;
}

/* Opening: which paths is Landlock's.  Files are made, and removed, only in the
 * session's folder of a software card; without one no call may make any. */
static int
add_files(scmp_filter_ctx ctx, const struct wrk_sandbox *box)
{
    const unsigned make = O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);
    int r;

    if (box->exports[0]) {
        r = allow(ctx, SCMP_SYS(open));
        if (r == 0)
            r = allow(ctx, SCMP_SYS(openat));
        if (r == 0)
            r = allow(ctx, SCMP_SYS(unlink));
        return r < 0 ? r : allow(ctx, SCMP_SYS(unlinkat));
    }
    r = allow_if(ctx, SCMP_SYS(open), 1, make, 0);
    return r < 0 ? r : allow_if(ctx, SCMP_SYS(openat), 2, make, 0);
}

static int
add_descriptors(scmp_filter_ctx ctx)
{
    const struct scmp_arg_cmp flags[] = {SCMP_A1(SCMP_CMP_MASKED_EQ, LOW32, F_SETFL),
                                         SCMP_A2(SCMP_CMP_MASKED_EQ, FLAGS_DENIED, 0)};
    int r = allow_values(ctx, SCMP_SYS(fcntl), 1, LOW32, fcntls, ARRAY_SIZE(fcntls));

    if (r == 0)
        r = rule(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), ARRAY_SIZE(flags), flags);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(sockopts); i++) {
        const struct scmp_arg_cmp option[] = {
            SCMP_A1(SCMP_CMP_MASKED_EQ, LOW32, sockopts[i].level),
            SCMP_A2(SCMP_CMP_MASKED_EQ, LOW32, sockopts[i].option)};

        r = rule(ctx, SCMP_ACT_ALLOW, SCMP_SYS(setsockopt), ARRAY_SIZE(option), option);
    }
    return r;
}

static int
filter_build(scmp_filter_ctx ctx, const struct wrk_sandbox *box)
{
    const struct scmp_arg_cmp no_address = SCMP_A4(SCMP_CMP_EQ, 0);
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(allowed); i++)
        r = allow(ctx, allowed[i]);
    /* send(): to the peer that the socket has. */
    if (r == 0)
        r = rule(ctx, SCMP_ACT_ALLOW, SCMP_SYS(sendto), 1, &no_address);
    if (r == 0)
        r = add_descriptors(ctx);
    if (r == 0)
        r = add_threads(ctx);
    if (r == 0)
        r = add_limits(ctx);
    if (r == 0)
        r = add_memory(ctx, box->soft);
    if (r == 0)
        r = add_ioctls(ctx, box->soft);
    return r < 0 ? r : add_files(ctx, box);
}

int
wrk_sandbox_filter(const struct wrk_sandbox *box, struct gp_err *err)
{
    scmp_filter_ctx ctx;
    int r;

    if (SANITIZED) {
        gp_log_debug("sandbox", "built with a sanitizer: no system call filter");
        return 0;
    }
    if (box->log)
        gp_log_warn("sandbox", "system calls beyond the list are logged, not denied");
    ctx = seccomp_init(box->log ? SCMP_ACT_LOG : SCMP_ACT_ERRNO(EPERM));
    if (!ctx)
        return gp_err_set(err, -ENOMEM, "no memory for the system call filter");
    r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
    if (r == 0)
        r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (r == 0)
        r = filter_build(ctx, box);
    if (r == 0)
        r = seccomp_load(ctx);
    seccomp_release(ctx);
    if (r < 0)
        return gp_err_set(err, r, "system call filter: %s", strerror(-r));
    return 0;
}
