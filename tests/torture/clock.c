/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LD_PRELOAD=libclock.so CLOCK_PAGE=FILE: the wall clock of a process, as many seconds
 * ahead of the real one as the file says now; CLOCK_MONOTONIC is what it is.
 *
 * The file (tests/e2e/test_clock.py) holds two numbers: the first is the scheduler's,
 * the second everybody else's.  It is mapped before main(), so a jailed worker needs no
 * file for it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static const int64_t *ahead_s;

__attribute__((constructor)) static void
begin(void)
{
    const char *path = getenv("CLOCK_PAGE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const int64_t *page;

    if (fd < 0)
        return;
    page = mmap(NULL, 2 * sizeof(*page), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED)
        return;
    ahead_s = page + (strcmp(program_invocation_short_name, "gpupool-scheduler") != 0);
}

static time_t
ahead(void)
{
    return ahead_s ? (time_t)__atomic_load_n(ahead_s, __ATOMIC_RELAXED) : 0;
}

EXPORTED int
clock_gettime(clockid_t id, struct timespec *ret)
{
    static int (*next)(clockid_t, struct timespec *);
    int r;

    if (!next)
        next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    r = next(id, ret);
    if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        ret->tv_sec += ahead();
    return r;
}

EXPORTED time_t
time(time_t *ret)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}

EXPORTED int
gettimeofday(struct timeval *ret, void *zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *ret = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}
