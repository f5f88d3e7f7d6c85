/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the library loadable on C libraries older than the one that it was built with.
 *
 * The linker redirects every use of these functions in the library to the wrappers here
 * (--wrap in build.mk), which call the oldest version of the symbol; new C libraries
 * still have it.  Old C libraries keep them in libraries of their own, so the
 * references are weak, and a function that is absent fails as if there were nothing to
 * load.
 */
#include "gp_lock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#endif

typedef void *thread_start(void *arg);

extern int oldest_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                                 thread_start *start, void *arg) __attribute__((weak));
extern void *oldest_dlopen(const char *file, int mode) __attribute__((weak));
extern void *oldest_dlsym(void *handle, const char *name) __attribute__((weak));
extern char *oldest_dlerror(void) __attribute__((weak));
extern int oldest_dladdr(const void *addr, void *info) __attribute__((weak));
__asm__(".symver oldest_pthread_create,pthread_create@" OLDEST);
__asm__(".symver oldest_dlopen,dlopen@" OLDEST);
__asm__(".symver oldest_dlsym,dlsym@" OLDEST);
__asm__(".symver oldest_dlerror,dlerror@" OLDEST);
__asm__(".symver oldest_dladdr,dladdr@" OLDEST);

void *__wrap_dlopen(const char *file, int mode);
void *__wrap_dlsym(void *handle, const char *name);
char *__wrap_dlerror(void);
int __wrap_dladdr(const void *addr, void *info);
int __wrap_pthread_once(pthread_once_t *once, void (*init)(void));
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          thread_start *start, void *arg);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_fstat(int fd, struct stat *st);

void *
__wrap_dlopen(const char *file, int mode)
{
    return oldest_dlopen ? oldest_dlopen(file, mode) : NULL;
}

void *
__wrap_dlsym(void *handle, const char *name)
{
    return oldest_dlsym ? oldest_dlsym(handle, name) : NULL;
}

char *
__wrap_dlerror(void)
{
    return oldest_dlerror ? oldest_dlerror() : NULL;
}

int
__wrap_dladdr(const void *addr, void *info)
{
    return oldest_dladdr ? oldest_dladdr(addr, info) : 0;
}

/* All of our one-time initialisers run under one lock; none uses another. */
int
__wrap_pthread_once(pthread_once_t *once, void (*init)(void))
{
    static struct gp_lock lock;

    gp_lock_take(&lock);
    if (*once == PTHREAD_ONCE_INIT)
        init();
    *once = PTHREAD_ONCE_INIT + 1;
    gp_lock_release(&lock);
    return 0;
}

/* ENOSYS: the program has not loaded the C library's threads. */
int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                      thread_start *start, void *arg)
{
    return oldest_pthread_create ? oldest_pthread_create(thread, attr, start, arg)
                                 : ENOSYS;
}

/* Per thread on Linux, and in every version of the C library. */
int
__wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return sigprocmask(how, set, old) == 0 ? 0 : errno;
}

/* An old C library has it under another name. */
int
__wrap_fstat(int fd, struct stat *st)
{
    return (int)syscall(SYS_fstat, fd, st);
}
