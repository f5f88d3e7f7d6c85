/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_clone.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of a start function, which makes system calls and calls nothing deep. */
#define STACK_SIZE (32u << 10)

/* A sanitizer's runtime follows fork(), but no process in memory of another. */
#ifdef GP_SANITIZED
#define SHARED_MEMORY 0
#else
#define SHARED_MEMORY (CLONE_VM | CLONE_VFORK)
#endif

/* The system call, and in the child, which has another stack and so cannot return from
 * a function, the call of @start.  -errno as the kernel says it. */
static long
clone_and_call(const struct clone_args *args, srv_clone_start *start, void *arg)
{
#if defined(__x86_64__)
    long r;

    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%ebp, %%ebp\n\t"
                     "movq %[arg], %%rdi\n\t"
                     "callq *%[start]\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(r)
                     : "0"((long)SYS_clone3), "D"(args),
                       "S"(sizeof(*args)), [start] "r"(start), [arg] "r"(arg)
                     : "rcx", "r11", "memory", "cc");
    return r;
#elif defined(__aarch64__)
    register long number __asm__("x8") = SYS_clone3;
    register long first __asm__("x0") = (long)(uintptr_t)args;
    register long second __asm__("x1") = (long)sizeof(*args);

    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, %[arg]\n\t"
                     "blr %[start]\n\t"
                     "brk #1\n"
                     "1:"
                     : "+r"(first)
                     : "r"(number), "r"(second), [start] "r"(start), [arg] "r"(arg)
                     : "memory", "cc");
    return first;
#else
    (void)args;
    (void)start;
    (void)arg;
    return -ENOSYS;
#endif
}

/* Where there is no clone3, and for a sanitizer's runtime. */
static long
fork_and_call(srv_clone_start *start, void *arg)
{
    pid_t pid = fork();

    if (pid == 0) {
        start(arg);
        _exit(127);
    }
    return pid < 0 ? -errno : pid;
}

pid_t
srv_clone(int cgroup, srv_clone_start *start, void *arg)
{
    _Alignas(16) char stack[STACK_SIZE];
    struct clone_args args = {.flags = SHARED_MEMORY, .exit_signal = SIGCHLD};
    sigset_t all, before;
    long pid;

    if (SHARED_MEMORY) {
        args.stack = (uint64_t)(uintptr_t)stack;
        args.stack_size = sizeof(stack);
    }
    if (cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = SHARED_MEMORY || cgroup >= 0 ? clone_and_call(&args, start, arg) : -ENOSYS;
    if (pid == -ENOSYS && cgroup < 0)
        pid = fork_and_call(start, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return (pid_t)pid;
}
