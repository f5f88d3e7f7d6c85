/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_desk.h"

#include "gp_err.h"
#include "gp_time.h"
#include "wrk_conf.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The wake-up descriptor is written again after so long: the supervisor may be busy,
 * never deaf.
 */
#define ANSWER_NS 20000000
/* It has other workers to look at, but not for so long. */
#define JOIN_NS UINT64_C(10000000000)

static int
map_file(int fd, size_t size, int prot, void **ret, struct gp_err *err)
{
    void *map = mmap(NULL, size, prot, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED)
        return gp_err_set(err, -errno, "memory of the supervisor: %s", strerror(errno));
    close(fd);
    *ret = map;
    return 0;
}

int
wrk_desks_open(struct wrk_desks *d, uint32_t slot, struct gp_err *err)
{
    void *segment = NULL, *desk = NULL, *notice = NULL;
    int r = map_file(WRK_FD_SEGMENT, sizeof(*d->segment), PROT_READ, &segment, err);

    if (r == 0)
        r = map_file(WRK_FD_DESK, sizeof(*d->desk), PROT_READ | PROT_WRITE, &desk, err);
    if (r == 0)
        r = map_file(WRK_FD_NOTICE, sizeof(*d->notice), PROT_READ, &notice, err);
    if (r < 0)
        return r;
    d->segment = segment;
    d->desk = desk;
    d->notice = notice;
    d->slot = slot;
    d->wake_fd = WRK_FD_WAKE;
    pthread_mutex_init(&d->lock, NULL);
    if (d->segment->magic != WRK_SEGMENT_MAGIC ||
        d->segment->size != sizeof(*d->segment) || d->desk->magic != WRK_DESK_MAGIC ||
        d->desk->size != sizeof(*d->desk) || d->notice->magic != WRK_NOTICE_MAGIC ||
        d->notice->size != sizeof(*d->notice) || slot >= WRK_SLOTS_MAX)
        return gp_err_set(err, -EINVAL, "memory of the supervisor: another build's");
    atomic_store(&d->desk->knows_room, 1);
    return 0;
}

/* The content of the old file stays as it is, so that it does not matter which of the
 * two a thread still reads.  ThreadSanitizer takes mmap() for a write of all of it, so
 * the kernel is called without the function. */
static int
replace(const void *at, size_t size, int fd)
{
    long r = syscall(SYS_mmap, at, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);

    r = r < 0 ? -errno : 0;
    close(fd);
    return (int)r;
}

static void
wake_all(const _Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A thread that falls asleep on the old file meanwhile wakes up by its time limit. */
static void
wake_sleepers(const struct wrk_desks *d)
{
    wake_all(&d->notice->seq);
    wake_all(&d->notice->joined);
    for (uint32_t i = 0; i < TICKET_SLICES_MAX; i++)
        wake_all(&d->notice->turns[i].grant);
}

int
wrk_desks_new_segment(struct wrk_desks *d, int fd)
{
    return replace(d->segment, sizeof(*d->segment), fd);
}

int
wrk_desks_new_notice(struct wrk_desks *d, int fd)
{
    int r;

    wake_sleepers(d);
    r = replace(d->notice, sizeof(*d->notice), fd);
    wake_sleepers(d);
    atomic_fetch_add(&d->successors, 1);
    wrk_desks_ring(d); /* what was asked of the one before */
    return r;
}

void
wrk_desks_ring(struct wrk_desks *d)
{
    uint64_t one = 1;
    ssize_t n;

    do
        n = write(d->wake_fd, &one, sizeof(one));
    while (n < 0 && errno == EINTR);
}

void
wrk_desks_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / GP_NS_PER_S),
                          .tv_nsec = (long)(ns % GP_NS_PER_S)};

    syscall(SYS_futex, word, FUTEX_WAIT, value, &ts, NULL, 0);
}

int
wrk_desks_join(struct wrk_desks *d)
{
    uint64_t until = gp_now_ns() + JOIN_NS + d->window_s * GP_NS_PER_S;
    uint32_t joined;

    atomic_store(&d->desk->joined, 1);
    while (!(joined = atomic_load(&d->notice->joined))) {
        if (gp_now_ns() >= until)
            return -ETIMEDOUT;
        wrk_desks_ring(d);
        wrk_desks_wait(&d->notice->joined, 0, ANSWER_NS);
    }
    return joined == 1 ? 0 : -(int)joined;
}

uint32_t
wrk_desks_call(struct wrk_desks *d, enum wrk_call_kind kind, uint32_t slice,
               uint64_t bytes)
{
    struct wrk_call *call = &d->desk->call;
    uint32_t seq, seen, answer;

    pthread_mutex_lock(&d->lock);
    seq = atomic_load(&call->seq) + 1;
    atomic_store(&call->kind, kind);
    atomic_store(&call->slice, slice);
    atomic_store(&call->bytes, bytes);
    atomic_store(&call->seq, seq);
    while ((seen = atomic_load(&d->notice->seq)) != seq) {
        wrk_desks_ring(d);
        wrk_desks_wait(&d->notice->seq, seen, ANSWER_NS);
    }
    answer = atomic_load(&d->notice->answer);
    pthread_mutex_unlock(&d->lock);
    return answer;
}
