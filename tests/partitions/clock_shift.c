/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a scheduler: its wall clock is off by as many seconds as the file that
 * CLOCK_SHIFT names says, from one moment to the next.  Clocks that only go forward are
 * left alone, as they are when an administrator sets the date.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift; /* in the file */

__attribute__((constructor)) static void
start(void)
{
    const char *path = getenv("CLOCK_SHIFT");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map =
        fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*shift), PROT_READ, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED)
        _exit(99);
    shift = map;
    close(fd);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
    long r = syscall(SYS_clock_gettime, clock, now);

    if (!r && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *shift;
    return (int)r;
}

time_t
time(time_t *ret)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}

int
gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    ret->tv_sec = now.tv_sec;
    ret->tv_usec = now.tv_nsec / 1000;
    return 0;
}
