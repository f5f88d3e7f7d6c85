/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of the hot paths, without the C library between: no jump through a
 * table of another page, no errno, no point where a thread can be cancelled.
 *
 * The result is the kernel's: a value, or -errno.  Any thread.  Not for calls that the
 * C library knows more about than the kernel.
 */
#ifndef GP_SYSCALL_H
#define GP_SYSCALL_H

#include "gp_base.h"

#include <sys/syscall.h>

#if defined(__x86_64__)

static GP_INLINE long
gp_syscall4(long number, long a, long b, long c, long d)
{
    register long r10 __asm__("r10") = d;
    long r;

    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return r;
}

#elif defined(__aarch64__)

static GP_INLINE long
gp_syscall4(long number, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;

    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
                     : "memory", "cc");
    return x0;
}

#else

#include <errno.h>
#include <unistd.h>

static GP_INLINE long
gp_syscall4(long number, long a, long b, long c, long d)
{
    long r = syscall(number, a, b, c, d);

    return r < 0 ? -errno : r;
}

#endif

static GP_INLINE long
gp_syscall3(long number, long a, long b, long c)
{
    return gp_syscall4(number, a, b, c, 0);
}

#endif
