/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the C library at which a thread can be cancelled, for libraries that
 * other people's threads call.
 *
 * A driver's calls are no cancellation points.  A thread that pthread_cancel() ends
 * within one would leave the library's locks held, a frame half sent, and a call that
 * somebody answers on a stack that is gone; so these functions do not act on a
 * cancellation, which stays pending until the program's own next point.  The linker
 * puts them in front of the C library's (UNCANCELLED_LINK in common/build.mk).
 *
 * A thread with asynchronous cancellation may call nothing of the kind, says POSIX, and
 * is not helped here.
 */
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static inline int
cancel_hold(void)
{
    int state = PTHREAD_CANCEL_ENABLE;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

static inline void
cancel_restore(int state)
{
    pthread_setcancelstate(state, NULL);
}

#define UNCANCELLED(type, name, params, args)                                          \
    extern type __real_##name params;                                                  \
    extern type __wrap_##name params;                                                  \
    type __wrap_##name params                                                          \
    {                                                                                  \
        int state = cancel_hold();                                                     \
        type result = __real_##name args;                                              \
                                                                                       \
        cancel_restore(state);                                                         \
        return result;                                                                 \
    }

UNCANCELLED(int, accept, (int fd, struct sockaddr *addr, socklen_t *len),
            (fd, addr, len))
UNCANCELLED(int, accept4, (int fd, struct sockaddr *addr, socklen_t *len, int flags),
            (fd, addr, len, flags))
UNCANCELLED(int, close, (int fd), (fd))
UNCANCELLED(int, connect, (int fd, const struct sockaddr *addr, socklen_t len),
            (fd, addr, len))
UNCANCELLED(int, epoll_wait, (int fd, struct epoll_event *events, int max, int ms),
            (fd, events, max, ms))
UNCANCELLED(int, fclose, (FILE * f), (f))
UNCANCELLED(int, fflush, (FILE * f), (f))
UNCANCELLED(char *, fgets, (char *buf, int size, FILE *f), (buf, size, f))
UNCANCELLED(int, fputc, (int c, FILE *f), (c, f))
UNCANCELLED(int, fputs, (const char *text, FILE *f), (text, f))
UNCANCELLED(size_t, fread, (void *data, size_t size, size_t n, FILE *f),
            (data, size, n, f))
UNCANCELLED(int, fseek, (FILE * f, long at, int whence), (f, at, whence))
UNCANCELLED(int, fsync, (int fd), (fd))
UNCANCELLED(int, getaddrinfo,
            (const char *node, const char *service, const struct addrinfo *hints,
             struct addrinfo **ret),
            (node, service, hints, ret))
UNCANCELLED(int, getnameinfo,
            (const struct sockaddr *addr, socklen_t len, char *host, socklen_t host_len,
             char *service, socklen_t service_len, int flags),
            (addr, len, host, host_len, service, service_len, flags))
UNCANCELLED(ssize_t, getrandom, (void *buf, size_t len, unsigned flags),
            (buf, len, flags))
UNCANCELLED(size_t, fwrite, (const void *data, size_t size, size_t n, FILE *f),
            (data, size, n, f))
UNCANCELLED(FILE *, fopen, (const char *path, const char *mode), (path, mode))
UNCANCELLED(FILE *, fopen64, (const char *path, const char *mode), (path, mode))
UNCANCELLED(int, msync, (void *addr, size_t len, int flags), (addr, len, flags))
UNCANCELLED(int, nanosleep, (const struct timespec *time, struct timespec *left),
            (time, left))
UNCANCELLED(int, clock_nanosleep,
            (clockid_t clock, int flags, const struct timespec *time,
             struct timespec *left),
            (clock, flags, time, left))
UNCANCELLED(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
UNCANCELLED(int, posix_fallocate, (int fd, off_t at, off_t len), (fd, at, len))
UNCANCELLED(ssize_t, pread, (int fd, void *buf, size_t len, off_t at),
            (fd, buf, len, at))
UNCANCELLED(ssize_t, preadv2,
            (int fd, const struct iovec *iov, int n, off_t at, int flags),
            (fd, iov, n, at, flags))
UNCANCELLED(int, pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *lock),
            (cond, lock))
UNCANCELLED(int, pthread_cond_timedwait,
            (pthread_cond_t * cond, pthread_mutex_t *lock,
             const struct timespec *until),
            (cond, lock, until))
UNCANCELLED(ssize_t, read, (int fd, void *buf, size_t len), (fd, buf, len))
UNCANCELLED(ssize_t, recv, (int fd, void *buf, size_t len, int flags),
            (fd, buf, len, flags))
UNCANCELLED(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
UNCANCELLED(int, select,
            (int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *time),
            (n, in, out, except, time))
UNCANCELLED(ssize_t, sendfile, (int out, int in, off_t *at, size_t len),
            (out, in, at, len))
UNCANCELLED(ssize_t, send, (int fd, const void *buf, size_t len, int flags),
            (fd, buf, len, flags))
UNCANCELLED(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags),
            (fd, msg, flags))
UNCANCELLED(int, sigtimedwait,
            (const sigset_t *set, siginfo_t *info, const struct timespec *time),
            (set, info, time))
UNCANCELLED(unsigned, sleep, (unsigned s), (s))
UNCANCELLED(int, usleep, (useconds_t us), (us))
UNCANCELLED(ssize_t, write, (int fd, const void *buf, size_t len), (fd, buf, len))

/* With and without the C library's checks of formats (_FORTIFY_SOURCE). */
UNCANCELLED(int, vfprintf, (FILE * f, const char *fmt, va_list ap), (f, fmt, ap))
UNCANCELLED(int, __vfprintf_chk, (FILE * f, int flag, const char *fmt, va_list ap),
            (f, flag, fmt, ap))
UNCANCELLED(int, vdprintf, (int fd, const char *fmt, va_list ap), (fd, fmt, ap))

#define UNCANCELLED_PRINT(name, params, vprint)                                        \
    extern int __wrap_##name params;                                                   \
    int __wrap_##name params                                                           \
    {                                                                                  \
        va_list ap;                                                                    \
        int n;                                                                         \
                                                                                       \
        va_start(ap, fmt);                                                             \
        n = vprint;                                                                    \
        va_end(ap);                                                                    \
        return n;                                                                      \
    }

UNCANCELLED_PRINT(fprintf, (FILE * f, const char *fmt, ...),
                  __wrap_vfprintf(f, fmt, ap))
UNCANCELLED_PRINT(__fprintf_chk, (FILE * f, int flag, const char *fmt, ...),
                  __wrap___vfprintf_chk(f, flag, fmt, ap))
UNCANCELLED_PRINT(dprintf, (int fd, const char *fmt, ...), __wrap_vdprintf(fd, fmt, ap))
UNCANCELLED_PRINT(__dprintf_chk, (int fd, int flag, const char *fmt, ...),
                  ((void)flag, __wrap_vdprintf(fd, fmt, ap)))

/* F_SETLKW waits.  Whatever is passed is a word. */
extern int __real_fcntl(int fd, int cmd, ...);
extern int __wrap_fcntl(int fd, int cmd, ...);
int
__wrap_fcntl(int fd, int cmd, ...)
{
    int state = cancel_hold(), r;
    va_list ap;

    va_start(ap, cmd);
    r = __real_fcntl(fd, cmd, va_arg(ap, void *));
    va_end(ap);
    cancel_restore(state);
    return r;
}

/* The mode is read whether it was passed or not, as the C library's own does. */
extern int __real_open(const char *path, int flags, ...);
extern int __wrap_open(const char *path, int flags, ...);
int
__wrap_open(const char *path, int flags, ...)
{
    int state = cancel_hold(), fd;
    va_list ap;

    va_start(ap, flags);
    fd = __real_open(path, flags, va_arg(ap, mode_t));
    va_end(ap);
    cancel_restore(state);
    return fd;
}

extern int __real_openat(int dir, const char *path, int flags, ...);
extern int __wrap_openat(int dir, const char *path, int flags, ...);
int
__wrap_openat(int dir, const char *path, int flags, ...)
{
    int state = cancel_hold(), fd;
    va_list ap;

    va_start(ap, flags);
    fd = __real_openat(dir, path, flags, va_arg(ap, mode_t));
    va_end(ap);
    cancel_restore(state);
    return fd;
}
