/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a thread that the application does not notice. */
#include "stub_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* The oldest version of the symbol, so that the library loads on C libraries that keep
 * threads in a library of their own; weak, because a program may not have loaded that.
 */
#if !defined(GP_SANITIZED)
#if defined(__x86_64__)
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver pthread_create,pthread_create@GLIBC_2.17");
#endif
extern int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*start)(void *), void *arg) __attribute__((weak));
#endif

struct thread_start {
    const char *name;
    void (*fn)(void *arg);
    void *arg;
};

static void *
thread_main(void *arg)
{
    struct thread_start start = *(struct thread_start *)arg;

    free(arg);
    prctl(PR_SET_NAME, start.name, 0, 0, 0);
    start.fn(start.arg);
    return NULL;
}

int
stub_thread_start(const char *name, void (*fn)(void *arg), void *arg)
{
    struct thread_start *start = malloc(sizeof(*start));
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    if (!start)
        return -ENOMEM;
#if !defined(GP_SANITIZED)
    if (!pthread_create) {
        free(start);
        return -ENOSYS;
    }
#endif
    *start = (struct thread_start){name, fn, arg};
    sigfillset(&all);
    /* Per thread on Linux, and in every version of the C library. */
    sigprocmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    r = pthread_create(&thread, &attr, thread_main, start);
    pthread_attr_destroy(&attr);
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (r)
        free(start);
    return -r;
}
