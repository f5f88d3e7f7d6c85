/* SPDX-License-Identifier: Apache-2.0 */
/* What runs in the child of a fork(): async-signal-safe calls only. */
#include "stub_fork.h"

#include "stub_link.h"
#include "xport.h"

#include <pthread.h>
#include <unistd.h>

static void
fork_in_child(void)
{
    uint32_t phase = atomic_load(&stub_link.phase);

    if (phase == STUB_COLD || phase == STUB_FAILED || phase == STUB_FORKED)
        return;
    atomic_store(&stub_link.phase, STUB_FORKED);
    close(stub_link.conn->fd);
}

int
stub_fork_watch(void)
{
    return pthread_atfork(NULL, NULL, fork_in_child) ? -1 : 0;
}
