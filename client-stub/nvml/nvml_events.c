/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event sets: what monitors wait on for errors of a card.
 *
 * A slice has no events: no kind of them is supported, and a wait ends with its
 * timeout, or early when the library is shut down.  A set belongs to its caller until
 * nvmlEventSetFree().  The live sets are in a list, so that a pointer is compared and
 * never read before it is known to be a set; any thread.
 */
#include "nvml_card.h"
#include "nvml_exports.h"

#include "gp_base.h"
#include "gp_lock.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define FOREVER_MS 0xffffffffu
/* A wait looks this often whether the library is still open. */
#define LOOK_MS 200u

struct nvml_event_set {
    struct nvml_event_set *next;
};

static struct gp_lock lock;
static struct nvml_event_set *live; /* under the lock */

/* The link that leads to @set, or the end of the list.  Under the lock. */
static struct nvml_event_set **
find_set(const struct nvml_event_set *set)
{
    struct nvml_event_set **link = &live;

    while (*link && *link != set)
        link = &(*link)->next;
    return link;
}

static int
check_set(const struct nvml_event_set *set)
{
    int r = nvml_card_ready();
    bool known;

    if (r != NVML_SUCCESS)
        return r;
    gp_lock_take(&lock);
    known = set && *find_set(set);
    gp_lock_release(&lock);
    return known ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_EXPORT
nvmlEventSetCreate(struct nvml_event_set **set)
{
    int r = nvml_card_ready();

    if (r != NVML_SUCCESS || !set)
        return r != NVML_SUCCESS ? r : NVML_ERROR_INVALID_ARGUMENT;
    *set = malloc(sizeof(**set));
    if (!*set)
        return NVML_ERROR_MEMORY;
    gp_lock_take(&lock);
    (*set)->next = live;
    live = *set;
    gp_lock_release(&lock);
    return NVML_SUCCESS;
}

NVML_EXPORT
nvmlEventSetFree(struct nvml_event_set *set)
{
    struct nvml_event_set **link, *found;
    int r = nvml_card_ready();

    if (r != NVML_SUCCESS || !set)
        return r != NVML_SUCCESS ? r : NVML_ERROR_INVALID_ARGUMENT;
    gp_lock_take(&lock);
    link = find_set(set);
    found = *link;
    if (found)
        *link = found->next;
    gp_lock_release(&lock);
    free(found);
    return found ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_EXPORT
nvmlDeviceGetSupportedEventTypes(struct nvml_device *device, unsigned long long *types)
{
    int r = nvml_card_query(device, types);

    if (r == NVML_SUCCESS)
        *types = 0;
    return r;
}

NVML_EXPORT
nvmlDeviceRegisterEvents(struct nvml_device *device, unsigned long long types,
                         struct nvml_event_set *set)
{
    int r = nvml_card_check(device);

    if (r == NVML_SUCCESS)
        r = check_set(set);
    return r == NVML_SUCCESS && types ? NVML_ERROR_NOT_SUPPORTED : r;
}

static int
wait_until(const struct nvml_event_set *set, unsigned int timeout_ms)
{
    int r = check_set(set);

    while (r == NVML_SUCCESS && timeout_ms) {
        unsigned int ms = gp_min(timeout_ms, LOOK_MS);
        struct timespec pause = {0, (long)ms * 1000000};

        while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
            ;
        timeout_ms -= timeout_ms == FOREVER_MS ? 0 : ms;
        r = nvml_card_ready();
    }
    return r == NVML_SUCCESS ? NVML_ERROR_TIMEOUT : r;
}

NVML_EXPORT
nvmlEventSetWait(struct nvml_event_set *set, void *data, unsigned int timeoutms)
{
    return data ? wait_until(set, timeoutms) : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_EXPORT
nvmlEventSetWait_v2(struct nvml_event_set *set, void *data, unsigned int timeoutms)
{
    return nvmlEventSetWait(set, data, timeoutms);
}
