/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words every file here uses: cleanup attributes, checked arithmetic, small macros.
 *
 * No state, any thread.  Not a place for anything that needs a .c file.
 */
#ifndef GP_BASE_H
#define GP_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* On the way of every call: such functions lie together.  After a switch between
 * processes each page and each cache line of code costs, more than its instructions. */
#define GP_HOT __attribute__((hot))
/* What every call reads or writes: in few cache lines and one page.  Not zeroed
 * storage, so what is large has no business here. */
#define GP_HOT_DATA __attribute__((section("gp_hot_data")))
/* Parts of such a function that have a name of their own. */
#define GP_INLINE inline __attribute__((always_inline))
/* What such a function calls when something is amiss. */
#define GP_COLD __attribute__((noinline, cold))
#define GP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define GP_EXPORT __attribute__((visibility("default")))
#define GP_ALIGN_UP(x, a) (((x) + ((a)-1)) & ~((__typeof__(x))(a)-1))

#define container_of(ptr, type, member)                                                \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* The operands' names are unique per use, so that the macros nest without shadowing. */
#define GP_JOIN_(a, b) a##b
#define GP_JOIN(a, b) GP_JOIN_(a, b)
#define GP_PICK_(x, op, y, vx, vy)                                                     \
    ({                                                                                 \
        __typeof__(x) vx = (x);                                                        \
        __typeof__(y) vy = (y);                                                        \
        vx op vy ? vx : vy;                                                            \
    })
#define gp_min(x, y)                                                                   \
    GP_PICK_(x, <, y, GP_JOIN(gp_x_, __COUNTER__), GP_JOIN(gp_y_, __COUNTER__))
#define gp_max(x, y)                                                                   \
    GP_PICK_(x, >, y, GP_JOIN(gp_x_, __COUNTER__), GP_JOIN(gp_y_, __COUNTER__))

/* *res = a op b; false, and *res unspecified, on overflow. */
#define gp_add_ok(a, b, res) (!__builtin_add_overflow((a), (b), (res)))
#define gp_mul_ok(a, b, res) (!__builtin_mul_overflow((a), (b), (res)))

/* Locals that clean themselves up when they leave scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

static inline void
gp_freep(void *p)
{
    free(*(void **)p);
}
#define CLEANUP_FREE CLEANUP(gp_freep)

static inline void
gp_closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
#define CLEANUP_FD CLEANUP(gp_closep)

/* DEFINE_CLEANUP(struct x, x_free) makes the function that CLEANUP(x_freep) names. */
#define DEFINE_CLEANUP(type, fn)                                                       \
    static inline void fn##p(type **p)                                                 \
    {                                                                                  \
        if (*p)                                                                        \
            fn(*p);                                                                    \
    }

/* Hand ownership on: yields the value and leaves NULL or -1 behind. */
#define TAKE_PTR(p)                                                                    \
    ({                                                                                 \
        __typeof__(p) gp_taken_ = (p);                                                 \
        (p) = NULL;                                                                    \
        gp_taken_;                                                                     \
    })
#define TAKE_FD(fd)                                                                    \
    ({                                                                                 \
        int gp_taken_ = (fd);                                                          \
        (fd) = -1;                                                                     \
        gp_taken_;                                                                     \
    })

/* In a loop that waits for another processor. */
static inline void
gp_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
