/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WATCH_EVENTS                                                                   \
    (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | \
     UFFD_FEATURE_PAGEFAULT_FLAG_WP)

/* In /proc/self/pagemap. */
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_OF_FILE (UINT64_C(1) << 61)
#define PAGES_AT_ONCE 512

static struct {
    int fd; /* -1: not usable */
    uintptr_t page;
    pthread_mutex_t lock;  /* the list and its marks */
    pthread_mutex_t armed; /* what the kernel watches follows the list */
    struct xport_guard *first;
} watch = {
    .fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .armed = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

static void
mark(uintptr_t start, uintptr_t end)
{
    for (struct xport_guard *w = watch.first; w; w = w->next)
        if (w->start < end && start < w->end)
            w->stale = true;
}

static void
mark_event(const struct uffd_msg *msg)
{
    if (msg->event == UFFD_EVENT_REMAP)
        mark(msg->arg.remap.from, msg->arg.remap.from + msg->arg.remap.len);
    else if (msg->event == UFFD_EVENT_UNMAP || msg->event == UFFD_EVENT_REMOVE)
        mark(msg->arg.remove.start, msg->arg.remove.end);
}

/* Reading is what lets the application go on, so it is done under the lock. */
static void *
watch_main(void *arg)
{
    struct pollfd p = {.fd = watch.fd, .events = POLLIN};
    struct uffd_msg msg;

    (void)arg;
    for (;;) {
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            return NULL;
        pthread_mutex_lock(&watch.lock);
        while (read(watch.fd, &msg, sizeof(msg)) == (ssize_t)sizeof(msg))
            mark_event(&msg);
        pthread_mutex_unlock(&watch.lock);
    }
}

static int
watch_thread(void)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_t thread;
    int r;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    /* The application's signals are for the application's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&thread, &attr, watch_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return r;
}

static void
watch_start(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = WATCH_EVENTS};
    CLEANUP_FD int fd =
        (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

    watch.page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
        return;
    watch.fd = fd;
    if (watch_thread() == 0)
        TAKE_FD(fd);
    else
        watch.fd = -1;
}

bool
xport_guard_usable(void)
{
    pthread_once(&watch_once, watch_start);
    return watch.fd >= 0;
}

static void
list_remove(struct xport_guard *w, bool *ret_shared)
{
    struct xport_guard **at = &watch.first;

    pthread_mutex_lock(&watch.lock);
    while (*at && *at != w)
        at = &(*at)->next;
    if (*at)
        *at = w->next;
    *ret_shared = false;
    for (struct xport_guard *o = watch.first; o; o = o->next)
        *ret_shared |= o->start < w->end && w->start < o->end;
    pthread_mutex_unlock(&watch.lock);
}

int
xport_guard_add(struct xport_guard *w, const void *addr, size_t len)
{
    struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_WP};
    bool shared;
    int r = 0;

    if (!xport_guard_usable())
        return -EOPNOTSUPP;
    *w = (struct xport_guard){.start = (uintptr_t)addr & ~(watch.page - 1),
                              .end = ((uintptr_t)addr + len + watch.page - 1) &
                                     ~(watch.page - 1)};
    reg.range.start = w->start;
    reg.range.len = w->end - w->start;
    pthread_mutex_lock(&watch.armed);
    pthread_mutex_lock(&watch.lock);
    w->next = watch.first;
    watch.first = w;
    pthread_mutex_unlock(&watch.lock);
    if (ioctl(watch.fd, UFFDIO_REGISTER, &reg) < 0) {
        r = -errno;
        list_remove(w, &shared);
    }
    pthread_mutex_unlock(&watch.armed);
    return r;
}

void
xport_guard_remove(struct xport_guard *w)
{
    struct uffdio_range range = {w->start, w->end - w->start};
    bool shared;

    pthread_mutex_lock(&watch.armed);
    list_remove(w, &shared);
    /* Fails where the memory is gone: then nothing is watched either. */
    if (!shared)
        ioctl(watch.fd, UFFDIO_UNREGISTER, &range);
    pthread_mutex_unlock(&watch.armed);
}

bool
xport_guard_sound(const struct xport_guard *w)
{
    CLEANUP_FD int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t pages[PAGES_AT_ONCE];
    uint64_t at = w->start / watch.page, end = w->end / watch.page;

    if (fd < 0)
        return false;
    while (at < end) {
        uint64_t n = gp_min(end - at, (uint64_t)PAGES_AT_ONCE);

        if (pread(fd, pages, n * 8, (off_t)(at * 8)) != (ssize_t)(n * 8))
            return false;
        for (uint64_t i = 0; i < n; i++)
            if ((pages[i] & (PAGE_PRESENT | PAGE_OF_FILE)) != PAGE_PRESENT)
                return false;
        at += n;
    }
    return true;
}

bool
xport_guard_stale(const struct xport_guard *w)
{
    bool stale;

    pthread_mutex_lock(&watch.lock);
    stale = w->stale;
    pthread_mutex_unlock(&watch.lock);
    return stale;
}
