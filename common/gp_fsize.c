/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_fsize.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

static sigset_t
only_fsize(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

void
gp_fsize_begin(struct gp_fsize *guard)
{
    const sigset_t set = only_fsize();
    sigset_t pending;

    guard->pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &set, &guard->mask);
}

/* The kernel sends it to the thread that has made the call, so it is taken here. */
void
gp_fsize_end(const struct gp_fsize *guard)
{
    static const struct timespec now;
    const sigset_t set = only_fsize();
    int e = errno;

    if (!guard->pending)
        while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &guard->mask, NULL);
    errno = e;
}

ssize_t
gp_fsize_write(int fd, const void *data, size_t len)
{
    struct gp_fsize guard;
    ssize_t n;

    gp_fsize_begin(&guard);
    n = write(fd, data, len);
    gp_fsize_end(&guard);
    return n;
}

int
gp_fsize_resize(int fd, uint64_t size)
{
    struct gp_fsize guard;
    int r;

    gp_fsize_begin(&guard);
    r = ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
    gp_fsize_end(&guard);
    return r;
}

int
gp_fsize_reserve(int fd, uint64_t size)
{
    struct gp_fsize guard;
    int r;

    gp_fsize_begin(&guard);
    r = -posix_fallocate(fd, 0, (off_t)size);
    gp_fsize_end(&guard);
    return r;
}
