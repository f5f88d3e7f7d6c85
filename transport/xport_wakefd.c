/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_wakefd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int
xport_wakefd_new(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* Old kernels and emulators have no read that does not wait of a descriptor that does.
 * The connection is at its end, so neither side minds that its waits become short. */
static void
empty_without_nowait(int wakefd)
{
    uint64_t count;
    int flags = fcntl(wakefd, F_GETFL);

    if (flags >= 0 && fcntl(wakefd, F_SETFL, flags | O_NONBLOCK) == 0)
        gp_syscall3(SYS_read, wakefd, (long)&count, sizeof(count));
}

void
xport_wakefd_kick(int wakefd)
{
    uint64_t count;
    struct iovec iov = {&count, sizeof(count)};

    if (preadv2(wakefd, &iov, 1, -1, RWF_NOWAIT) < 0 && errno != EAGAIN)
        empty_without_nowait(wakefd);
    xport_wakefd_wake(wakefd);
}
