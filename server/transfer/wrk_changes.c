/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_changes.h"

#include "wrk_driver.h"

#include <pthread.h>
#include <stddef.h>

static int (*driver_forget)(uint64_t addr, uint64_t len);
static int (*driver_take)(uint64_t *addr, uint64_t end, struct wrk_change *changes,
                          int max);

static void
find_entries(void)
{
    void *forget = wrk_driver_symbol("sg_changes_forget");
    void *take = wrk_driver_symbol("sg_changes_take");

    if (!forget || !take)
        return;
    driver_forget = (__typeof__(driver_forget))(uintptr_t)forget;
    driver_take = (__typeof__(driver_take))(uintptr_t)take;
}

bool
wrk_changes_are_told(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_entries);
    return driver_take != NULL;
}

bool
wrk_changes_forget(uint64_t addr, uint64_t len)
{
    return wrk_changes_are_told() && driver_forget(addr, len) == 0;
}

int
wrk_changes_take(uint64_t *addr, uint64_t end, struct wrk_change *changes, int max)
{
    return wrk_changes_are_told() ? driver_take(addr, end, changes, max) : -1;
}
