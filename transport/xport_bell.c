/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_bell.h"

#include "gp_base.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int
xport_bell_new(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* Not read(2) and write(2) of the C library, where threads can be cancelled. */
GP_HOT int
xport_bell_wait(int bell)
{
    uint64_t count;
    long r = syscall(SYS_read, bell, &count, sizeof(count));

    if (likely(r == sizeof(count)) || (r < 0 && (errno == EINTR || errno == EAGAIN)))
        return 0;
    return -EBADF;
}

GP_HOT void
xport_bell_ring(int bell)
{
    uint64_t one = 1;

    (void)!syscall(SYS_write, bell, &one, sizeof(one));
}

/* Old kernels and emulators have no read that does not wait of a descriptor that does.
 * The connection is at its end, so neither side minds that its waits become short. */
static void
empty_without_nowait(int bell)
{
    uint64_t count;
    int flags = fcntl(bell, F_GETFL);

    if (flags >= 0 && fcntl(bell, F_SETFL, flags | O_NONBLOCK) == 0)
        (void)!syscall(SYS_read, bell, &count, sizeof(count));
}

void
xport_bell_kick(int bell)
{
    uint64_t count;
    struct iovec iov = {&count, sizeof(count)};

    if (preadv2(bell, &iov, 1, -1, RWF_NOWAIT) < 0 && errno != EAGAIN)
        empty_without_nowait(bell);
    xport_bell_ring(bell);
}
