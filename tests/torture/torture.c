/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LD_PRELOAD=libtorture.so TORTURE_PAGE=FILE: the Nth call of a kind fails in processes
 * of one name, or kills its process.
 *
 * The page (torture.h) is mapped before main(), so a jailed worker needs no file for
 * it. Allocation goes on to glibc's own functions, because dlsym() itself allocates.
 */
#include "torture.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static struct torture_page *page;

/* The name may change after fork() and exec(), so it is read by each process once, at
 * its start. */
static bool is_tortured;

__attribute__((constructor)) static void
begin(void)
{
    const char *path = getenv("TORTURE_PAGE");
    struct torture_page *found;
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (found == MAP_FAILED)
        return;
    page = found;
    is_tortured = strcmp(program_invocation_short_name, found->program) == 0;
}

/* Count a call of @kind; whether it is to fail, with @error in errno. */
static bool
fails(enum torture_kind kind, int error)
{
    uint64_t number;

    if (!is_tortured)
        return false;
    number = __atomic_add_fetch(&page->calls[kind], 1, __ATOMIC_RELAXED);
    if (page->kind != kind || page->at == 0 || number < page->at ||
        number - page->at >= page->count)
        return false;
    __atomic_add_fetch(&page->failed, 1, __ATOMIC_RELAXED);
    if (page->deadly)
        kill(getpid(), SIGKILL);
    errno = error;
    return true;
}

/* The error of a socket or a file that fails; 0: what @fd is does not, such as an
 * eventfd. */
static int
error_of(int fd)
{
    struct stat st;
    int saved = errno, error = 0;

    if (fstat(fd, &st) == 0)
        error = S_ISSOCK(st.st_mode) ? ECONNRESET : S_ISREG(st.st_mode) ? EIO : 0;
    errno = saved;
    return error;
}

static bool
io_fails(enum torture_kind kind, int fd)
{
    int error = is_tortured ? error_of(fd) : 0;

    return error && fails(kind, error);
}

/* The next definition of the function: glibc's. */
#define NEXT(name)                                                                     \
    ({                                                                                 \
        static __typeof__(&name) next_;                                                \
        if (!next_)                                                                    \
            next_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                        \
        next_;                                                                         \
    })

/* A function that fails as @kind with @error and the value @bad. */
#define TORTURED(result, name, params, args, kind, error, bad)                         \
    EXPORTED result name params;                                                       \
    EXPORTED result name params                                                        \
    {                                                                                  \
        if (fails(kind, error))                                                        \
            return bad;                                                                \
        return NEXT(name) args;                                                        \
    }

/* The same for a function that reads or writes @fd, which fails with -1. */
#define TORTURED_IO(name, params, args, kind)                                          \
    EXPORTED ssize_t name params;                                                      \
    EXPORTED ssize_t name params                                                       \
    {                                                                                  \
        if (io_fails(kind, fd))                                                        \
            return -1;                                                                 \
        return NEXT(name) args;                                                        \
    }

EXPORTED void *
malloc(size_t size)
{
    return fails(TORTURE_MEMORY, ENOMEM) ? NULL : __libc_malloc(size);
}

EXPORTED void *
calloc(size_t count, size_t size)
{
    return fails(TORTURE_MEMORY, ENOMEM) ? NULL : __libc_calloc(count, size);
}

EXPORTED void *
realloc(void *old, size_t size)
{
    return fails(TORTURE_MEMORY, ENOMEM) ? NULL : __libc_realloc(old, size);
}

EXPORTED void *
aligned_alloc(size_t alignment, size_t size)
{
    return fails(TORTURE_MEMORY, ENOMEM) ? NULL : __libc_memalign(alignment, size);
}

EXPORTED int
posix_memalign(void **ret, size_t alignment, size_t size)
{
    void *found =
        fails(TORTURE_MEMORY, ENOMEM) ? NULL : __libc_memalign(alignment, size);

    if (!found)
        return ENOMEM;
    *ret = found;
    return 0;
}

TORTURED(void *, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t from),
         (at, n, prot, flags, fd, from), TORTURE_MEMORY, ENOMEM, MAP_FAILED)
TORTURED(int, memfd_create, (const char *name, unsigned flags), (name, flags),
         TORTURE_MEMORY, ENOMEM, -1)
TORTURED(int, ftruncate, (int fd, off_t size), (fd, size), TORTURE_MEMORY, ENOSPC, -1)

TORTURED_IO(send, (int fd, const void *data, size_t n, int flags), (fd, data, n, flags),
            TORTURE_SEND)
TORTURED_IO(sendmsg, (int fd, const struct msghdr *message, int flags),
            (fd, message, flags), TORTURE_SEND)
TORTURED_IO(write, (int fd, const void *data, size_t n), (fd, data, n), TORTURE_SEND)
TORTURED_IO(writev, (int fd, const struct iovec *parts, int n), (fd, parts, n),
            TORTURE_SEND)
TORTURED_IO(pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at),
            TORTURE_SEND)

TORTURED_IO(recv, (int fd, void *data, size_t n, int flags), (fd, data, n, flags),
            TORTURE_RECEIVE)
TORTURED_IO(recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags),
            TORTURE_RECEIVE)
TORTURED_IO(read, (int fd, void *data, size_t n), (fd, data, n), TORTURE_RECEIVE)
TORTURED_IO(readv, (int fd, const struct iovec *parts, int n), (fd, parts, n),
            TORTURE_RECEIVE)

TORTURED(int, socket, (int domain, int type, int protocol), (domain, type, protocol),
         TORTURE_SYSTEM, EMFILE, -1)
TORTURED(int, socketpair, (int domain, int type, int protocol, int ends[2]),
         (domain, type, protocol, ends), TORTURE_SYSTEM, EMFILE, -1)
TORTURED(int, accept4, (int fd, struct sockaddr *peer, socklen_t *size, int flags),
         (fd, peer, size, flags), TORTURE_SYSTEM, EMFILE, -1)
TORTURED(int, connect, (int fd, const struct sockaddr *peer, socklen_t size),
         (fd, peer, size), TORTURE_SYSTEM, ECONNREFUSED, -1)
TORTURED(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t n),
         (fd, level, name, value, n), TORTURE_SYSTEM, ENOMEM, -1)
TORTURED(int, pipe2, (int ends[2], int flags), (ends, flags), TORTURE_SYSTEM, EMFILE,
         -1)
TORTURED(int, eventfd, (unsigned value, int flags), (value, flags), TORTURE_SYSTEM,
         EMFILE, -1)
TORTURED(int, epoll_create1, (int flags), (flags), TORTURE_SYSTEM, EMFILE, -1)
TORTURED(int, timerfd_create, (int clock, int flags), (clock, flags), TORTURE_SYSTEM,
         EMFILE, -1)
TORTURED(int, dup, (int fd), (fd), TORTURE_SYSTEM, EMFILE, -1)
TORTURED(int, dup3, (int fd, int to, int flags), (fd, to, flags), TORTURE_SYSTEM,
         EMFILE, -1)
TORTURED(int, fsync, (int fd), (fd), TORTURE_SYSTEM, EIO, -1)
TORTURED(int, fdatasync, (int fd), (fd), TORTURE_SYSTEM, EIO, -1)
TORTURED(int, rename, (const char *from, const char *to), (from, to), TORTURE_SYSTEM,
         ENOSPC, -1)
TORTURED(pid_t, fork, (void), (), TORTURE_SYSTEM, EAGAIN, -1)

/* Removing a descriptor needs nothing that a kernel could lack.  A removal that failed
 * would leave events of an object that is gone. */
EXPORTED int
epoll_ctl(int fd, int op, int of, struct epoll_event *event)
{
    if (op != EPOLL_CTL_DEL && fails(TORTURE_SYSTEM, ENOMEM))
        return -1;
    return NEXT(epoll_ctl)(fd, op, of, event);
}

/* Its error is its result. */
EXPORTED int
pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*begin_at)(void *),
               void *arg)
{
    if (fails(TORTURE_SYSTEM, EAGAIN))
        return EAGAIN;
    return NEXT(pthread_create)(thread, attr, begin_at, arg);
}

/* The mode counts where a file may be made. */
EXPORTED int open(const char *path, int flags, ...);
EXPORTED int
open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list more;

    if (flags & (O_CREAT | __O_TMPFILE)) {
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    if (fails(TORTURE_SYSTEM, EMFILE))
        return -1;
    return NEXT(open)(path, flags, mode);
}
