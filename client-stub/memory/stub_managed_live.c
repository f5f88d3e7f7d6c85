/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_managed_live.h"

#include "gp_base.h"
#include "gp_lock.h"
#include "gp_log.h"
#include "gp_time.h"
#include "stub_thread.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

static bool started;
static _Atomic uint32_t work; /* counts what has been given to cards; a futex */

static void
live_sleep(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / GP_NS_PER_S),
                         .tv_nsec = (long)(ns % GP_NS_PER_S)};

    nanosleep(&t, NULL);
}

static void
live_main(void *arg)
{
    uint64_t pause = MANAGED_LIVE_MIN_NS;

    (void)arg;
    for (;;) {
        uint32_t seen = atomic_load(&work);
        uint64_t begun = gp_now_ns();
        bool some = false, pending = managed_refresh(&some);

        if (!pending) {
            while (atomic_load(&work) == seen)
                gp_futex_wait(&work, seen, NULL);
            pause = MANAGED_LIVE_MIN_NS;
            continue;
        }
        pause = some ? MANAGED_LIVE_MIN_NS
                     : gp_min(pause + pause / 8, (uint64_t)MANAGED_LIVE_MAX_NS);
        live_sleep(gp_max(pause, 3 * (gp_now_ns() - begun)));
    }
}

void
managed_live_start(void)
{
    int r;

    if (started)
        return;
    r = stub_thread_start("gpupool-live", live_main, NULL);
    if (r < 0)
        gp_log_warn(
            "stub",
            "no thread to keep page-locked memory up to date (%s): it follows at "
            "waits only",
            strerror(-r));
    started = true;
}

void
managed_live_wake(void)
{
    atomic_fetch_add(&work, 1);
    gp_futex_wake(&work, 1);
}
