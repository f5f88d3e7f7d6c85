/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_time.h"

#include <errno.h>
#include <limits.h>
#include <time.h>

static uint64_t
clock_ns(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * GP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t
gp_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t
gp_wall_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

int
gp_poll_ms(uint64_t deadline_ns)
{
    uint64_t now, ms;

    if (deadline_ns == GP_FOREVER)
        return -1;
    now = gp_now_ns();
    if (deadline_ns <= now)
        return 0;
    ms = (deadline_ns - now + GP_NS_PER_MS - 1) / GP_NS_PER_MS;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

void
gp_sleep_ns(uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / GP_NS_PER_S),
                            .tv_nsec = (long)(ns % GP_NS_PER_S)};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}
