/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other pools answered to a request that did not fit here.
 *
 * A plain value of sched_fed.c's, which lends it to the handlers; event loop thread
 * only.
 */
#ifndef SCHED_SAID_H
#define SCHED_SAID_H

#include "control.pb-c.h"
#include "ctl_limits.h"

/* Each is asked in turn while the client waits, so there are few. */
#define SCHED_POOLS_MAX 16

struct sched_said {
    unsigned n;
    struct {
        char pool[CTL_NAME_MAX];
        char words[256]; /* why not, or why there was no answer */
    } list[SCHED_POOLS_MAX];
    const char *fits;                     /* an explain: the pool that has room */
    const Gpupool__Ctl__CtlGrant *answer; /* what it says; NULL: none has room */
};

#endif
