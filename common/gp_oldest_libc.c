/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps what is built here loadable on every GNU C library from 2.28 on.
 *
 * What is linked with OLDEST_LIBC_LINK (common/build.mk) has its uses of these
 * functions redirected by the linker (--wrap), those in static libraries of others
 * included, to the oldest version of the symbol, which new C libraries still have.  The
 * older ones keep many of them in libpthread and libdl, which is why these two are
 * needed.
 *
 * The client stub does the same with weak references (stub_glibc.c), because it may
 * need nothing besides libc.
 */
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#define OLDEST_DLINFO "GLIBC_2.3.3"
#define JUMP(to) "jmp " to "@PLT"
#define STAT_VERSION 1
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#define OLDEST_DLINFO OLDEST
#define JUMP(to) "b " to
#define STAT_VERSION 0
#endif

/* A jump, so that no prototype has to be repeated: the arguments stay where they are.
 */
#define REDIRECT_TO(name, version)                                                     \
    __asm__(".symver oldest_" #name "," #name "@" version "\n"                         \
            ".pushsection .text\n"                                                     \
            ".globl __wrap_" #name "\n"                                                \
            ".hidden __wrap_" #name "\n"                                               \
            ".type __wrap_" #name ", %function\n"                                      \
            "__wrap_" #name ": " JUMP("oldest_" #name) "\n"                            \
                                                       ".size __wrap_" #name           \
                                                       ", . - __wrap_" #name "\n"      \
                                                       ".popsection\n")

#define REDIRECT(name) REDIRECT_TO(name, OLDEST)

/* In libdl until 2.34. */
REDIRECT(dladdr);
REDIRECT(dlclose);
REDIRECT(dlerror);
REDIRECT_TO(dlinfo, OLDEST_DLINFO);
REDIRECT(dlopen);
REDIRECT(dlsym);
/* In libpthread until 2.34. */
REDIRECT(pthread_create);
REDIRECT(pthread_detach);
REDIRECT(pthread_getspecific);
REDIRECT(pthread_join);
REDIRECT(pthread_key_create);
REDIRECT(pthread_key_delete);
REDIRECT(pthread_once);
REDIRECT(pthread_rwlock_destroy);
REDIRECT(pthread_rwlock_init);
REDIRECT(pthread_rwlock_rdlock);
REDIRECT(pthread_rwlock_unlock);
REDIRECT(pthread_rwlock_wrlock);
REDIRECT(pthread_setspecific);
REDIRECT(pthread_sigmask);

extern int oldest_stat(int version, const char *path, struct stat *st);
extern int oldest_lstat(int version, const char *path, struct stat *st);
extern int oldest_fstat(int version, int fd, struct stat *st);
__asm__(".symver oldest_stat,__xstat@" OLDEST);
__asm__(".symver oldest_lstat,__lxstat@" OLDEST);
__asm__(".symver oldest_fstat,__fxstat@" OLDEST);

int __wrap_stat(const char *path, struct stat *st);
int __wrap_lstat(const char *path, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);
int __wrap_pidfd_open(pid_t pid, unsigned flags);
int __wrap_pidfd_send_signal(int pidfd, int signal, siginfo_t *info, unsigned flags);

/* Functions of their own since 2.33; before that headers made of them calls of these.
 */
int
__wrap_stat(const char *path, struct stat *st)
{
    return oldest_stat(STAT_VERSION, path, st);
}

int
__wrap_lstat(const char *path, struct stat *st)
{
    return oldest_lstat(STAT_VERSION, path, st);
}

int
__wrap_fstat(int fd, struct stat *st)
{
    return oldest_fstat(STAT_VERSION, fd, st);
}

/* System calls that the C library knows since 2.36. */
int
__wrap_pidfd_open(pid_t pid, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

int
__wrap_pidfd_send_signal(int pidfd, int signal, siginfo_t *info, unsigned flags)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, info, flags);
}
