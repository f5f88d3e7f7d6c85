/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_bell.h"

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

/* Old kernels and emulators have no read that does not wait of a descriptor that does.
 * The connection is at its end, so neither side minds that its waits become short. */
static void
empty_without_nowait(int bell)
{
    uint64_t count;
    int flags = fcntl(bell, F_GETFL);

    if (flags >= 0 && fcntl(bell, F_SETFL, flags | O_NONBLOCK) == 0)
        gp_syscall3(SYS_read, bell, (long)&count, sizeof(count));
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
