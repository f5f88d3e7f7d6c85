/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_notify.h"

#include "gp_str.h"
#include "gp_time.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

void
gp_notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP_FD int fd = -1;
    socklen_t size;

    if (!path || (*path != '/' && *path != '@') ||
        strlen(path) >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, strlen(path));
    size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (*path == '@') /* of the abstract name space */
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL,
                      (const struct sockaddr *)&address, size);
}

uint64_t
gp_notify_period_ns(void)
{
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t value;

    if (!us || gp_str_u64(us, 1, UINT64_MAX / GP_NS_PER_US, &value) < 0)
        return 0;
    if (pid) {
        uint64_t whose;

        if (gp_str_u64(pid, 1, INT32_MAX, &whose) < 0 || whose != (uint64_t)getpid())
            return 0;
    }
    return value * GP_NS_PER_US / 2;
}

void
gp_notify_alive(uint64_t now_ns)
{
    static uint64_t period = UINT64_MAX, next_ns;

    if (period == UINT64_MAX)
        period = gp_notify_period_ns();
    if (!period || now_ns < next_ns)
        return;
    next_ns = now_ns + period;
    gp_notify("WATCHDOG=1");
}
