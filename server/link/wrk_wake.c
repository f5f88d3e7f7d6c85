/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_wake.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int wake_fd = -1;

int
wrk_wake_init(void)
{
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return wake_fd < 0 ? -errno : 0;
}

int
wrk_wake_fd(void)
{
    return wake_fd;
}

void
wrk_wake_clear(void)
{
    uint64_t count;

    if (read(wake_fd, &count, sizeof(count)) < 0)
        return; /* nobody had woken it */
}

void
wrk_wake_now(struct wrk *w)
{
    static const uint64_t one = 1;

    if (atomic_exchange(&w->priv->watch_asleep, false) &&
        write(wake_fd, &one, sizeof(one)) < 0)
        return; /* cannot be: it never fills */
}
