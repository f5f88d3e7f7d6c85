/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_written.h"

#include "gp_base.h"
#include "gp_log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of Linux 5.11, 6.4 and 6.7; older headers lack them. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define FEATURE_WP_ASYNC (UINT64_C(1) << 15)

/* PAGEMAP_SCAN, with the layout of <linux/fs.h>. */
struct scan_region {
    uint64_t start, end, categories;
};
struct scan_arg {
    uint64_t size, flags;
    uint64_t start, end;
    uint64_t walk_end;
    uint64_t vec, vec_len;
    uint64_t max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN _IOWR('f', 16, struct scan_arg)
#define SCAN_PROTECT_AGAIN (UINT64_C(1) << 0)
#define SCAN_ONLY_WATCHED (UINT64_C(1) << 1)
/* What pages are, for the masks of a scan. */
#define PAGE_WRITTEN (UINT64_C(1) << 1)
#define PAGE_PRESENT (UINT64_C(1) << 3)
#define PAGE_SWAPPED (UINT64_C(1) << 4)
#define PAGE_ZERO (UINT64_C(1) << 5) /* the kernel's page of zeros */

static struct {
    pthread_once_t once;
    int fault_fd; /* userfaultfd, or -1 */
    int scan_fd;  /* /proc/self/pagemap, or -1 */
} written = {.once = PTHREAD_ONCE_INIT, .fault_fd = -1, .scan_fd = -1};

static void
written_open(void)
{
    const char *allowed = getenv("GPUPOOL_MANAGED_WATCH");
    struct uffdio_api api = {.api = UFFD_API, .features = FEATURE_WP_ASYNC};
    CLEANUP_FD int fault_fd = -1;

    written.scan_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (allowed && strcmp(allowed, "0") == 0)
        return;
    if (written.scan_fd >= 0)
        fault_fd =
            (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fault_fd < 0 || ioctl(fault_fd, UFFDIO_API, &api) < 0) {
        gp_log_info("stub",
                    "this kernel does not say which pages a program writes to (%s): "
                    "managed memory is compared",
                    strerror(errno));
        return;
    }
    written.fault_fd = TAKE_FD(fault_fd);
}

/* The first run of pages that @arg asks for in [*@at, @end); as stub_written_take(). */
static uint64_t
scan_first(struct scan_arg arg, uint64_t *at, uint64_t end)
{
    struct scan_region region = {0};
    int n;

    arg.size = sizeof(arg);
    arg.start = *at;
    arg.end = end;
    arg.vec = (uintptr_t)&region;
    arg.vec_len = 1;
    do
        n = ioctl(written.scan_fd, SCAN, &arg);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return UINT64_MAX;
    if (n == 0)
        return 0;
    *at = region.start;
    return region.end - region.start;
}

uint64_t
stub_written_ever(uint64_t *at, uint64_t end)
{
    const struct scan_arg arg = {
        .category_inverted = PAGE_ZERO,
        .category_mask = PAGE_ZERO,
        .category_anyof_mask = PAGE_PRESENT | PAGE_SWAPPED,
        .return_mask = PAGE_ZERO,
    };

    pthread_once(&written.once, written_open);
    return written.scan_fd < 0 ? UINT64_MAX : scan_first(arg, at, end);
}

bool
stub_written_watch(void *start, uint64_t size)
{
    struct uffdio_register reg = {
        .range = {.start = (uintptr_t)start, .len = size},
        .mode = UFFDIO_REGISTER_MODE_WP,
    };

    pthread_once(&written.once, written_open);
    if (written.fault_fd < 0)
        return false;
    if (ioctl(written.fault_fd, UFFDIO_REGISTER, &reg) == 0)
        return true;
    gp_log_info("stub", "memory at %p cannot be watched for writes: %s", start,
                strerror(errno));
    return false;
}

uint64_t
stub_written_take(uint64_t *at, uint64_t end)
{
    const struct scan_arg arg = {
        .flags = SCAN_PROTECT_AGAIN | SCAN_ONLY_WATCHED,
        .category_mask = PAGE_WRITTEN,
        .return_mask = PAGE_WRITTEN,
    };
    uint64_t n = scan_first(arg, at, end);

    if (n == UINT64_MAX)
        gp_log_debug("stub", "memory is not watched for writes any more: %s",
                     strerror(errno));
    return n;
}
