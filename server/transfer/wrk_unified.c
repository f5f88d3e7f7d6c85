/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_unified.h"

#include "gp_base.h"
#include "gp_err.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE UINT64_C(4096)

/* Mapped in the range; there are no more of them than pieces (WRK_PINNED_MAX). */
struct place {
    struct place *next;
    uint64_t addr, size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t window, window_size;
static struct place *places;

int
wrk_unified_reserve(uint64_t base, uint64_t size, struct gp_err *err)
{
    void *want = (void *)(uintptr_t)base, *at;
    uint64_t end;

    if (window)
        return gp_err_set(err, -EALREADY, "the client has a range of addresses");
    if (!base || base % PAGE || !size || size % PAGE || size > WRK_UNIFIED_SIZE_MAX ||
        !gp_add_ok(base, size, &end))
        return gp_err_set(err, -EINVAL, "not a range of addresses");
    at = mmap(want, size, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == MAP_FAILED)
        return gp_err_set(err, -errno, "%" PRIx64 ": %s", base, strerror(errno));
    if (at != want) { /* a kernel that takes the address for a hint */
        munmap(at, size);
        return gp_err_set(err, -EEXIST, "%" PRIx64 " is in use", base);
    }
    window = base;
    window_size = size;
    return 0;
}

int
wrk_unified_give_back(uint64_t base, struct gp_err *err)
{
    int r = 0;

    pthread_mutex_lock(&lock);
    if (!window || window != base)
        r = gp_err_set(err, -ENOENT, "%" PRIx64 " is not reserved", base);
    else if (places)
        r = gp_err_set(err, -EBUSY, "%" PRIx64 " has memory in it", base);
    else if (munmap((void *)(uintptr_t)window, window_size) < 0)
        r = gp_err_set(err, -errno, "%" PRIx64 ": %s", base, strerror(errno));
    else
        window = window_size = 0;
    pthread_mutex_unlock(&lock);
    return r;
}

static bool
is_free(uint64_t addr, uint64_t size)
{
    for (const struct place *p = places; p; p = p->next)
        if (addr - p->addr < p->size || p->addr - addr < size)
            return false;
    return true;
}

static int
place_take(uint64_t addr, uint64_t size, struct gp_err *err)
{
    struct place *p;

    if (!window || !size || addr % PAGE || size % PAGE || addr < window ||
        size > window_size || addr - window > window_size - size)
        return gp_err_set(err, -EPROTO, "not in the range of addresses agreed on");
    if (!is_free(addr, size))
        return gp_err_set(err, -EEXIST, "%" PRIx64 " is mapped", addr);
    p = malloc(sizeof(*p));
    if (!p)
        return gp_err_set(err, -ENOMEM, "out of memory");
    *p = (struct place){places, addr, size};
    places = p;
    return 0;
}

static void
place_give(uint64_t addr)
{
    for (struct place **at = &places, *p; (p = *at); at = &p->next)
        if (p->addr == addr) {
            *at = p->next;
            free(p);
            return;
        }
}

int
wrk_unified_map(uint64_t addr, uint64_t size, int fd, struct gp_err *err)
{
    int flags =
        MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE);
    int r;

    pthread_mutex_lock(&lock);
    r = place_take(addr, size, err);
    if (r >= 0 && mmap((void *)(uintptr_t)addr, size, PROT_READ | PROT_WRITE, flags, fd,
                       0) == MAP_FAILED) {
        r = gp_err_set(err, -errno, "mapping it: %s", strerror(errno));
        place_give(addr);
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* If the pages cannot be unmapped, their addresses stay reserved, so that no other
 * memory is mapped there. */
void
wrk_unified_unmap(uint64_t addr, uint64_t size)
{
    pthread_mutex_lock(&lock);
    if (mmap((void *)(uintptr_t)addr, size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) != MAP_FAILED)
        place_give(addr);
    pthread_mutex_unlock(&lock);
}
